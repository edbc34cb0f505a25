"""A folder that `flux bootstrap` made, as an overlay: its sync objects, what it refers to, and edits by hand in it."""

from __future__ import annotations

import json
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

    from ci_automation.artifact.tree import Tree

COMPONENTS, SYNC = "gotk-components.yaml", "gotk-sync.yaml"
_LISTED = re.compile(r"""^[ ]*-[ ]+["']?(?:\./)?gotk-sync\.yaml["']?[ ]*(?:#.*)?\n?""", re.MULTILINE)
_IN_ONE_LINE = re.compile(r"^(resources:[ ]*\[)([^]\[{}#]*)(?=\])", re.MULTILINE)
_OF_GIT = "kustomize.toolkit.fluxcd.io/"
_SYNC_KINDS = frozenset({"GitRepository", "Kustomization"})
_GENERATORS, PATCHES = ("configMapGenerator", "secretGenerator"), ("patches", "patchesJson6902")


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
    """Return the files without gotk-sync.yaml, and without its entry in the kustomization.

    Raises:
        UnfitBootstrap: the kustomization lists it in another way.
    """
    if SYNC not in tree.by_path:
        return tree
    rest = tree.without(SYNC)
    if (path := kustomization_file(rest, ".")) is None:
        return rest
    written = _IN_ONE_LINE.sub(_others, _LISTED.sub("", _text(path, rest[path])))
    listed = kustomization_in(path, written.encode())
    if any(joined(".", each.path) == SYNC for each in listed.resources):
        raise UnfitBootstrap(
            f"{path} lists {SYNC} in a way that this program does not edit: write it on a line of its own, `- {SYNC}`"
        )
    return rest.replaced(path, written.encode())


def _others(listed: re.Match[str]) -> str:
    """Return the beginning of a list in one line without gotk-sync.yaml."""
    kept = (it for it in listed[2].split(",") if it.strip().strip("\"'").removeprefix("./") != SYNC)
    return listed[1] + ",".join(kept)


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
    found = kustomization_in(path, tree[path]) if (path := kustomization_file(tree, ".")) else None
    listed = [
        (key, number, entry)
        for key in (*PATCHES, "patchesStrategicMerge")
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
    yield from (text(it.get("kind")) for it in listable("", written))


def outside(tree: Tree) -> tuple[str, ...]:
    """Return what the kustomizations refer to outside of the folder, each with its place.

    Raises:
        UnfitBootstrap: a kustomization cannot be read.
    """
    found = []
    for file in tree.files:
        folder, _, name = file.path.rpartition("/")
        if name in NAMES:
            it = kustomization_in(file.path, file.content)
            named = [(each.path, each.place) for each in (*it.resources, *it.components, *it.files, *it.patch_files)]
            named += [(path, Place(file.path)) for path, _ in generated(it)]
            for path, place in named:
                target = joined(folder or ".", path)
                if Named(path, place).is_remote or path.startswith("/") or target.split("/")[0] == "..":
                    found.append(f"{path} ({place})")
    return tuple(found)


def listable(path: str, data: bytes) -> list[Mapping[str, Any]]:
    """Return the documents of a file; kustomize takes resources from files of any name, if they are YAML."""
    if path.endswith((".yaml", ".yml", ".json")):
        return documents_in(path, data)
    try:
        return documents_in(path, data)
    except UnfitBootstrap:
        return []


def generated(it: Kustomization) -> Iterator[tuple[str, bool]]:
    """Yield each file that a generator reads, an empty path for literals, and whether it makes Secrets."""
    for key in _GENERATORS:
        for entry in map(mapping, listed_at(it.value, key)):
            yield from ((path, key == _GENERATORS[1]) for path in generator_files(entry))


def generator_files(entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield the files that the entry of a generator reads, an empty path for literals."""
    paths = [*listed_at(entry, "envs"), *listed_at(entry, "files"), entry.get("env")]
    yield from (text(path).rpartition("=")[2] for path in paths if path)
    if entry.get("literals"):
        yield ""


def kustomization_in(path: str, data: bytes) -> Kustomization:
    """Return the kustomization that a file is; raise `UnfitBootstrap` if it is none."""
    try:
        return read_kustomization(text_of(data), path, path.rpartition("/")[0] or ".")
    except Unreadable as error:
        raise UnfitBootstrap(f"{path}:{error.line or 1}: {error.reason}") from None


def documents_in(path: str, data: bytes) -> list[Mapping[str, Any]]:
    """Return the mappings among the documents of a file; see `values_in`."""
    return [value for value in values_in(path, data) if isinstance(value, dict)]


@lru_cache(maxsize=64)  # both sides of a step mostly have the same files
def values_in(path: str, data: bytes) -> tuple[Any, ...]:
    """Return the documents of a file; raise `UnfitBootstrap` if it is no YAML."""
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


def edits_as_patches(expected: str, edited: str) -> str:
    """Return a kustomization's `patches` that make `edited` of `expected`, and what patches cannot do as comments.

    Raises:
        UnfitBootstrap: one of them is not YAML.
    """
    before, after = ({_key(it): it for it in documents_in(COMPONENTS, each.encode())} for each in (expected, edited))
    lines = ["patches:"]
    for key in before:
        if key in after and (operations := list(_operations(before[key], after[key], ""))):
            lines += _patch(key, operations)
    for key in (key for key in before if key not in after):
        kind, name, namespace = key
        where = f", namespace: {json.dumps(namespace)}" if namespace else ""
        lines += [f"- target: {{kind: {json.dumps(kind)}, name: {json.dumps(name)}{where}}}", "  patch: |"]
        version = json.dumps(text(before[key].get("apiVersion")))
        metadata = f"{{name: {json.dumps(name)}{where}}}"
        lines += [f"    {{$patch: delete, apiVersion: {version}, kind: {json.dumps(kind)}, metadata: {metadata}}}"]
    more = [
        f"# put {json.dumps(f'{kind} {name}')[1:-1]} into a file of its own, and list it"
        for kind, name, _ in after.keys() - before.keys()
    ]
    return "\n".join([*(lines if len(lines) > 1 else []), *sorted(more)])


def _key(value: Mapping[str, Any]) -> tuple[str, str, str]:
    metadata = mapping(value.get("metadata"))
    return text(value.get("kind")), text(metadata.get("name")), text(metadata.get("namespace"))


def _patch(key: tuple[str, str, str], operations: list[dict[str, Any]]) -> list[str]:
    kind, name, namespace = map(json.dumps, key)
    where = f", namespace: {namespace}" if key[2] else ""
    target = f"- target: {{kind: {kind}, name: {name}{where}}}"
    return [target, "  patch: |", *(f"    - {json.dumps(operation)}" for operation in operations)]


def _operations(old: object, new: object, path: str) -> Iterator[dict[str, Any]]:
    """Yield the operations of a JSON patch that make `new` of `old`."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            here = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
            if key not in new:
                yield {"op": "remove", "path": here}
            elif key not in old:
                yield {"op": "add", "path": here, "value": new[key]}
            else:
                yield from _operations(old[key], new[key], here)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _operations(before, after, f"{path}/{number}")
    elif isinstance(old, list) and isinstance(new, list) and new[: len(old)] == old:
        yield from ({"op": "add", "path": f"{path}/-", "value": each} for each in new[len(old) :])
    elif old != new:
        yield {"op": "replace", "path": path, "value": new}
