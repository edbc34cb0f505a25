"""Secrets in plain text: in the files of an overlay, in what its kustomizations make or patch, and in their builds."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any

from ci_automation.artifact.yaml import text
from ci_automation.impact.change import Certainty, Hazard, ObjectId, printable_hazard
from ci_automation.impact.objects import read_objects
from ci_automation.impact.overlay.bootstrapped import (
    PATCHES,
    UnfitBootstrap,
    generated,
    generator_files,
    kustomization_in,
    listable,
    values_in,
)
from ci_automation.impact.overlay.kustomization import NAMES, Kustomization, joined, listed_at
from ci_automation.impact.overlay.targets import GATE
from ci_automation.impact.values import mapping

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ci_automation.artifact.tree import Tree, TreeFile
    from ci_automation.impact.overlay.outcome import FolderOutcome

PLAIN = "plain Secret"  # how the subjects of such hazards begin
_ENCRYPTED = "ENC[AES256_GCM"
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_DATA = ("/data", "/stringData")
_PATCHING, _MERGING = ("PatchTransformer", "PatchJson6902Transformer"), "PatchStrategicMergeTransformer"
_SECRET = re.compile(r"^kind: Secret$", re.MULTILINE)  # as kustomize prints it
_DOCUMENT = re.compile(r"^---\n", re.MULTILINE)


def plain_secrets(tree: Tree, *, lenient: bool = False) -> tuple[str, ...]:
    """Return the files that hold a Secret that is not encrypted, or from which kustomize makes one.

    With `lenient`, a file that cannot be read counts if it has the word `Secret`.

    Raises:
        UnfitBootstrap: a file cannot be read, unless `lenient`.
    """
    found: set[str] = set()
    for file in tree.files:
        try:
            found.update(_plain_by(file, tree))  # what it yields before an error counts
        except UnfitBootstrap:
            if not lenient:
                raise
            found |= {file.path} if b"Secret" in file.content.replace(b"\0", b"") else set()  # or UTF-16
    return tuple(sorted(found))


def _plain_by(file: TreeFile, tree: Tree) -> Iterator[str]:
    """Yield the paths of plain Secrets that a file holds, or makes of other files."""
    folder, _, name = file.path.rpartition("/")
    it = kustomization_in(file.path, file.content) if name in NAMES else None
    documents = [*(_inline(it) if it else listable(file.path, file.content))]
    merging = (text(each.get("patches")) for each in documents if each.get("kind") == _MERGING)
    documents += [each for written in merging for each in listable("", written.encode())]
    if any(map(_is_plain, documents)):
        yield file.path
    made = [*(generated(it) if it else ()), *(pair for each in documents for pair in _of_plugin(each))]
    for path in (path for path, is_secret in made if is_secret):
        target = joined(folder or ".", path) if path else file.path
        if not path or _ENCRYPTED.encode() not in tree.by_path.get(target, file).content:
            yield target
    patches = [mapping(each) for key in PATCHES for each in listed_at(it.value, key)] if it else []
    for entry in (*patches, *(each for each in documents if each.get("kind") in _PATCHING)):
        if (selected := _selects_secrets(mapping(entry.get("target")), tree)) is not False:
            path, patch = text(entry.get("path")), text(entry.get("patch") or entry.get("jsonOp")).encode()
            target = joined(folder or ".", path) if path else file.path
            written = patch or (tree[target] if target in tree.by_path else b"")
            if any(_patches_plainly(value, certain=bool(selected)) for value in values_in(target, written)):
                yield target


def _inline(it: Kustomization) -> Iterator[Mapping[str, Any]]:
    """Yield the documents of patches and plugins that are written into a kustomization."""
    keys = ("patches", "patchesStrategicMerge", "generators", "transformers")
    for each in (each for key in keys for each in listed_at(it.value, key)):
        yield from listable("", text(mapping(each).get("patch", each)).encode())


def _selects_secrets(target: Mapping[str, Any], tree: Tree) -> bool | None:
    """Return whether the target of a patch is a Secret, None if it may be: its kind is a pattern, or none for all."""
    kind = text(target.get("kind"))
    if "Secret" in kind or not target or kind.isalnum():
        return "Secret" in kind
    return None if any(b"secret" in file.content.replace(b"\0", b"").lower() for file in tree.files) else False


def _patches_plainly(value: object, *, certain: bool) -> bool:
    """Return whether a patch of a Secret, by operations or by merging, has data that is not encrypted."""
    if not isinstance(value, list):
        patch = mapping(value)
        return (certain or patch.get("kind") == "Secret" or "stringData" in patch) and _has_plain_data(patch)
    operations = [it for it in map(mapping, value) if text(it.get("path")).startswith(_DATA)]
    return any("value" in it and not text(it["value"]).startswith(_ENCRYPTED) for it in operations)


def _is_plain(value: Mapping[str, Any]) -> bool:
    items, holds = value.get("items"), _has_plain_data if value.get("kind") == "SecretList" else _is_plain
    if isinstance(items, list) and any(isinstance(it, dict) and holds(it) for it in items):
        return True
    return value.get("kind") == "Secret" and _has_plain_data(value)


def _held(value: Mapping[str, Any]) -> list[str]:
    """Return the data of a Secret, itself and in the copy that `kubectl apply` keeps."""
    copy = mapping(mapping(value.get("metadata")).get("annotations")).get(_APPLIED)
    held = [*mapping(value.get("data")).values(), *mapping(value.get("stringData")).values(), copy]
    return [text(each) for each in held if each is not None]


def _has_plain_data(value: Mapping[str, Any]) -> bool:
    return any(not each.startswith(_ENCRYPTED) for each in _held(value))


def _of_plugin(value: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yield what `generated` does, of the configuration of kustomize's own plugin that generates Secrets."""
    if value.get("kind") == "SecretGenerator":
        yield from ((path, True) for path in generator_files(value))


def secret_hazards(before: Tree, after: Tree) -> tuple[Hazard, ...]:
    """Return a hazard for each file with a Secret in plain text that is new or changed."""
    if before == after:
        return ()
    old = {path: before.by_path.get(path) for path in plain_secrets(before, lenient=True)}
    found = (
        path for path in plain_secrets(after, lenient=True) if path not in old or old[path] != after.by_path.get(path)
    )
    return tuple(map(plain_secret, found))


def plain_secret(path: str) -> Hazard:
    """Return the hazard of a file with a Secret in plain text."""
    sentence = f"{path} holds a Secret in plain text, which everyone who can pull the artifact can read"
    remedies = ("encrypt it with SOPS", "move it out of the overlay")
    return printable_hazard(Hazard(GATE, Certainty.POSSIBLE, f"{PLAIN} in {path}", sentence, (), remedies))


def built_secrets(folder: str, before: FolderOutcome | None, after: FolderOutcome, files: Tree) -> Iterator[Hazard]:
    """Yield a hazard for each Secret in plain text that a build has anew, and that no file of `files` shows by itself.

    What only lists files is not built, and has no others.
    """
    had = set(_plain(before.text or "")) if before else set()
    found = [it for it in dict.fromkeys(_plain(after.text or "")) if it not in had]
    if not found:
        return
    told = b"\n".join(_squeezed(files[path]) for path in plain_secrets(files, lenient=True) if path in files.by_path)
    for name in dict.fromkeys(name for name, value in found if not told or not _is_in(value, told)):
        sentence = (
            f"the overlay at {folder} renders {name} in plain text, which everyone who can pull the artifact can read"
        )
        remedies = ("encrypt what its data is made of with SOPS", "move it out of the overlay")
        yield Hazard(GATE, Certainty.POSSIBLE, f"{PLAIN} {name} built in {folder}", sentence, (), remedies)


def _plain(built: str) -> Iterator[tuple[ObjectId, str]]:
    """Yield the values of Secrets that are not encrypted, each with the Secret that has it."""
    for document in _DOCUMENT.split(built):
        for found in read_objects(document) if _SECRET.search(document) else ():
            for value in _held(found.value):
                if _ENCRYPTED not in value and _ENCRYPTED.encode() not in _decoded(value):
                    yield found.id, value


def _is_in(value: str, told: bytes) -> bool:
    return any(_squeezed(form) in told for form in (value.encode(), _decoded(value)))


def _decoded(value: str) -> bytes:
    """Return what the data of a Secret stands for; a text that is no base64 stands for itself."""
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        return value.encode()


def _squeezed(data: bytes) -> bytes:
    """Return bytes without spaces and line breaks, which a text has otherwise in a build."""
    return b"".join(data.split())
