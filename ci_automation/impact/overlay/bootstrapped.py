"""A folder that `flux bootstrap` made, as an overlay: its sync objects, what it refers to, and Secrets in it."""

from __future__ import annotations

import posixpath
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ci_automation.artifact.yaml import Unreadable, nodes, plain, text
from ci_automation.errors import UsageError
from ci_automation.impact.change import Place
from ci_automation.impact.overlay.kustomization import (
    NAMES,
    Kustomization,
    Named,
    joined,
    kustomization_file,
    listed_at,
    read_kustomization,
    text_of,
)
from ci_automation.impact.values import mapping

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ci_automation.artifact.tree import Tree, TreeFile

COMPONENTS, SYNC = "gotk-components.yaml", "gotk-sync.yaml"
_LISTED = re.compile(r"""^[ ]*-[ ]+["']?(?:\./)?gotk-sync\.yaml["']?[ ]*(?:#.*)?\n?""", re.MULTILINE)
_OF_GIT = "kustomize.toolkit.fluxcd.io/"
ENCRYPTED = "ENC[AES256_GCM"
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_SYNC_KINDS = frozenset({"GitRepository", "Kustomization"})
_DATA = ("/data", "/stringData")
_GENERATORS, _PATCHES = ("configMapGenerator", "secretGenerator"), ("patches", "patchesJson6902")
_PATCHING, _MERGING = ("PatchTransformer", "PatchJson6902Transformer"), "PatchStrategicMergeTransformer"


class UnfitBootstrap(UsageError):
    """A folder cannot be taken over as `flux bootstrap` left it."""

    hint = "In the action's repository, docs/guides/migration.md says what a folder must be."


class AppliedPath(Struct, frozen=True):
    """A Kustomization of gotk-sync.yaml: the path of the repository that it applies, its source, and if it prunes."""

    name: str
    namespace: str
    path: str
    source: str
    prune: bool

    @property
    def names(self) -> tuple[str, str, str]:
        """Return by which names the commands for it call it and its source."""
        return self.namespace, self.name, self.source

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name} (path ./{self.path}, prune: {str(self.prune).lower()})"


def without_sync(tree: Tree) -> Tree:
    """Return the files without gotk-sync.yaml, and without the line of the kustomization that lists it.

    Raises:
        UnfitBootstrap: the kustomization lists it in another way.
    """
    if SYNC not in tree.by_path:
        return tree
    rest = tree.without(SYNC)
    if (path := kustomization_file(rest, ".")) is None:
        return rest
    written = _LISTED.sub("", _text(path, rest[path]))
    listed = _kustomization(path, written.encode())
    if listed and any(joined(".", each.path) == SYNC for each in listed.resources):
        raise UnfitBootstrap(f"{path} lists {SYNC} in a way that this program does not edit; remove it, or --keep-sync")
    return rest.replaced(path, written.encode())


def covering(tree: Tree, folder: str | None) -> tuple[AppliedPath, ...]:
    """Return the Kustomizations of gotk-sync.yaml that apply a folder of the repository; None: it is not known which.

    Raises:
        UnfitBootstrap: the file is no YAML.
    """
    found = []
    for value in documents_in(SYNC, tree[SYNC]) if SYNC in tree.by_path else ():
        spec = mapping(value.get("spec"))
        if not text(value.get("apiVersion")).startswith(_OF_GIT) or value.get("kind") != "Kustomization":
            continue
        source = mapping(spec.get("sourceRef"))
        if source.get("kind") == "OCIRepository":
            continue
        path = posixpath.normpath(f"/{text(spec.get('path'))}").lstrip("/")
        if folder is None or _is_below(folder, path) or _is_below(path, folder):
            named = mapping(value.get("metadata"))
            name, namespace = text(named.get("name")), text(named.get("namespace"))
            prunes = spec.get("prune") is not False
            found.append(AppliedPath(name, namespace, path, text(source.get("name")), prunes))
    return tuple(found)


def patches_of_sync(tree: Tree) -> tuple[str, ...]:
    """Return the places of patches of objects such as gotk-sync.yaml has: where it is left out, they match nothing.

    Raises:
        UnfitBootstrap: the kustomization, or a patch, cannot be read.
    """
    found = _kustomization(path, tree[path]) if (path := kustomization_file(tree, ".")) else None
    listed = [
        (key, number, entry)
        for key in (*_PATCHES, "patchesStrategicMerge")
        for number, entry in enumerate(listed_at(found.value, key) if found else [])
    ]
    return tuple(
        str(found.place(key, number))
        for key, number, entry in listed
        if found and not _SYNC_KINDS.isdisjoint(_patched_kinds(entry, tree))
    )


def _patched_kinds(entry: object, tree: Tree) -> Iterator[str]:
    """Yield the kinds that an entry of a kustomization's patches names: of its target, or in the patch itself."""
    fields = mapping(entry)
    yield text(mapping(fields.get("target")).get("kind"))
    path = joined(".", text(fields.get("path") or entry))
    written = tree[path] if path in tree.by_path else text(fields.get("patch", entry)).encode()
    yield from (text(it.get("kind")) for it in _listable("", written))


def outside(tree: Tree) -> tuple[str, ...]:
    """Return what the kustomizations refer to outside of the folder, each with its place.

    Raises:
        UnfitBootstrap: a kustomization cannot be read.
    """
    found = []
    for file in tree.files:
        folder, _, name = file.path.rpartition("/")
        if name in NAMES and (it := _kustomization(file.path, file.content)):
            named = [(each.path, each.place) for each in (*it.resources, *it.components, *it.files, *it.patch_files)]
            named += [(path, Place(file.path)) for path, _ in _generated(it)]
            for path, place in named:
                target = joined(folder or ".", path)
                if Named(path, place).is_remote or path.startswith("/") or target.split("/")[0] == "..":
                    found.append(f"{path} ({place})")
    return tuple(found)


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
    it = _kustomization(file.path, file.content) if name in NAMES else None
    documents = [*(_inline(it) if it else _listable(file.path, file.content))]
    merging = (text(each.get("patches")) for each in documents if each.get("kind") == _MERGING)
    documents += [each for written in merging for each in _listable("", written.encode())]
    if any(map(_is_plain, documents)):
        yield file.path
    made = [*(_generated(it) if it else ()), *(pair for each in documents for pair in _of_plugin(each))]
    for path in (path for path, is_secret in made if is_secret):
        target = joined(folder or ".", path) if path else file.path
        if not path or ENCRYPTED.encode() not in tree.by_path.get(target, file).content:
            yield target
    patches = [mapping(each) for key in _PATCHES for each in listed_at(it.value, key)] if it else []
    for entry in (*patches, *(each for each in documents if each.get("kind") in _PATCHING)):
        if (selected := _selects_secrets(mapping(entry.get("target")), tree)) is not False:
            path, patch = text(entry.get("path")), text(entry.get("patch") or entry.get("jsonOp")).encode()
            target = joined(folder or ".", path) if path else file.path
            written = patch or (tree[target] if target in tree.by_path else b"")
            if any(_patches_plainly(value, certain=bool(selected)) for value in _values(target, written)):
                yield target


def _listable(path: str, data: bytes) -> list[Mapping[str, Any]]:
    """Return the documents of a file; kustomize takes resources from files of any name, if they are YAML."""
    if path.endswith((".yaml", ".yml", ".json")):
        return documents_in(path, data)
    try:
        return documents_in(path, data)
    except UnfitBootstrap:
        return []


def _inline(it: Kustomization) -> Iterator[Mapping[str, Any]]:
    """Yield the documents of patches and plugins that are written into a kustomization."""
    keys = ("patches", "patchesStrategicMerge", "generators", "transformers")
    for each in (each for key in keys for each in listed_at(it.value, key)):
        yield from _listable("", text(mapping(each).get("patch", each)).encode())


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
    return any("value" in it and not text(it["value"]).startswith(ENCRYPTED) for it in operations)


def _is_plain(value: Mapping[str, Any]) -> bool:
    items, holds = value.get("items"), _has_plain_data if value.get("kind") == "SecretList" else _is_plain
    if isinstance(items, list) and any(isinstance(it, dict) and holds(it) for it in items):
        return True
    return value.get("kind") == "Secret" and _has_plain_data(value)


def held_by_secret(value: Mapping[str, Any]) -> list[str]:
    """Return the data of a Secret, itself and in the copy that `kubectl apply` keeps."""
    copy = mapping(mapping(value.get("metadata")).get("annotations")).get(_APPLIED)
    held = [*mapping(value.get("data")).values(), *mapping(value.get("stringData")).values(), copy]
    return [text(each) for each in held if each is not None]


def _has_plain_data(value: Mapping[str, Any]) -> bool:
    return any(not each.startswith(ENCRYPTED) for each in held_by_secret(value))


def _generated(it: Kustomization) -> Iterator[tuple[str, bool]]:
    """Yield each file that a generator reads, an empty path for literals, and whether it makes Secrets."""
    for key in _GENERATORS:
        for entry in map(mapping, listed_at(it.value, key)):
            yield from ((path, key == _GENERATORS[1]) for path in _sources(entry))


def _of_plugin(value: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yield the same of the configuration of kustomize's own plugin that generates Secrets."""
    if value.get("kind") == "SecretGenerator":
        yield from ((path, True) for path in _sources(value))


def _sources(entry: Mapping[str, Any]) -> Iterator[str]:
    paths = [*listed_at(entry, "envs"), *listed_at(entry, "files"), entry.get("env")]
    yield from (text(path).rpartition("=")[2] for path in paths if path)
    if entry.get("literals"):
        yield ""


def _kustomization(path: str, data: bytes) -> Kustomization | None:
    try:
        return read_kustomization(text_of(data), path, path.rpartition("/")[0] or ".")
    except Unreadable as error:
        raise UnfitBootstrap(f"{path}:{error.line or 1}: {error.reason}") from None


def documents_in(path: str, data: bytes) -> list[Mapping[str, Any]]:
    """Return the mappings among the documents of a file.

    Raises:
        UnfitBootstrap: it is no YAML.
    """
    return [value for value in _values(path, data) if isinstance(value, dict)]


@lru_cache(maxsize=64)  # both sides of a step mostly have the same files
def _values(path: str, data: bytes) -> tuple[Any, ...]:
    try:
        return (*map(plain, nodes(_text(path, data))),)
    except Unreadable as error:
        raise UnfitBootstrap(f"{path}:{error.line or 1}: {error.reason}") from None


def _text(path: str, data: bytes) -> str:
    try:
        return text_of(data)
    except Unreadable as error:
        raise UnfitBootstrap(f"{path}: {error.reason}") from None


def _is_below(path: str, folder: str) -> bool:
    return folder in {"", "."} or path == folder or path.startswith(f"{folder}/")
