"""The values that patches of single clusters have where the patches of others have another value.

Such a patch, applied after that of the others, sets the same fields again. That holds for each value alike, so a build
with one of them tells of all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ci_automation.artifact.yaml import text
from ci_automation.flows.setting_up.configuration import inline_patch, kustomization_fields
from ci_automation.impact.overlay.bootstrapped import UnfitBootstrap, documents_in, patches_of_sync, values_in
from ci_automation.impact.overlay.kustomization import in_words, listed_at
from ci_automation.impact.values import mapping

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from ci_automation.artifact.tree import Tree

_OF_OBJECT = {"/apiVersion", "/kind", "/metadata/name", "/metadata/namespace"}  # which say what a patch is for


class OwnValues(Struct, frozen=True):
    """The places of values in objects, and the patches that set them."""

    places: tuple[str, ...]
    patches: tuple[Mapping[str, Any], ...]

    def is_like(self, other: OwnValues) -> bool:
        """Return whether others have other values at one of these places."""
        return self.patches != other.patches and not {*self.places}.isdisjoint(other.places)


def own_values(own: Tree, others: Tree) -> OwnValues | None:
    """Return the values that files set otherwise than others do, by the same patches; None if more differs."""
    try:
        (path, ours), (other_path, theirs) = kustomization_fields(own), kustomization_fields(others)
        entries = [[mapping(it) for it in listed_at(fields, "patches")] for fields in (ours, theirs)]
        apart = {path, other_path, *(text(it.get("path")) for each in entries for it in each)}
        rest = [{it for it in tree.files if it.path not in apart} for tree in (own, others)]
        alike = len(entries[0]) == len(entries[1]) and {**ours, "patches": 0} == {**theirs, "patches": 0}
        if patches_of_sync(own) or not alike or rest[0] != rest[1]:
            return None
        pairs = [(inline_patch(it, own), inline_patch(other, others)) for it, other in zip(*entries, strict=True)]
        changed = [(it, other) for it, other in pairs if it != other]
        places = [place for it, other in changed for place in _places(it, other)]
    except UnfitBootstrap:
        return None
    if not places or None in places:
        return None
    return OwnValues(tuple(dict.fromkeys(filter(None, places))), tuple(it for it, _ in changed))


def _places(own: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str | None]:
    """Yield the places that two patches set to different values; None says that they differ in more."""
    target, texts = own.get("target"), [text(it.get("patch")) for it in (own, other)]
    ours, theirs = (values_in("", it.encode()) for it in texts)
    if target != other.get("target") or not all(texts) or len(ours) != len(theirs):
        yield None
    for it, that in zip(ours, theirs, strict=False):
        of_it = target or {**mapping(mapping(it).get("metadata")), "kind": mapping(it).get("kind")}
        is_json = isinstance(it, list) and isinstance(that, list) and len(it) == len(that)
        found = _operations(it, that) if is_json else _fields(it, that, "")
        yield from (place and f"`{place}` of {in_words(of_it)}" for place in found)


def _operations(ours: Sequence[Any], theirs: Sequence[Any]) -> Iterator[str | None]:
    for it, other in zip(map(mapping, ours), map(mapping, theirs), strict=True):
        if it != other:
            path, last = text(it.get("path")), text(it.get("path")).rpartition("/")[2]
            is_set = it.get("op") == "replace" or (it.get("op") == "add" and last != "-" and not last.isdecimal())
            is_value = "value" in other and {**other, "value": it.get("value")} == it
            yield path if is_set and is_value else None


def _fields(ours: object, theirs: object, at: str) -> Iterator[str | None]:
    """Yield the fields with other texts or numbers; those of lists can say which item is meant."""
    if ours == theirs:
        return
    if isinstance(ours, dict) and isinstance(theirs, dict) and ours.keys() == theirs.keys():
        for key in ours:
            yield from _fields(ours[key], theirs[key], f"{at}/{key.replace('~', '~0').replace('/', '~1')}")
        return
    is_text = isinstance(ours, str | int | float) and isinstance(theirs, str | int | float)
    yield at if is_text and at not in _OF_OBJECT and "/$" not in at else None


def settled_patches(folder: Path) -> dict[str, Sequence[Mapping[str, Any]]]:
    """Return by the names of clusters the patches that their own objects have, and those of the channel lack.

    Raises:
        UnfitBootstrap: they are no YAML.
    """
    usual = _patches_in(folder / "sync.yaml")
    own = {it.parent.relative_to(folder).as_posix(): _patches_in(it) for it in sorted(folder.glob("*/**/sync.yaml"))}
    return {name: [it for it in patches if it not in usual] for name, patches in own.items()}


def _patches_in(path: Path) -> list[Any]:
    """Return the patches of the Kustomization by which clusters follow a channel."""
    values = documents_in(str(path), path.read_bytes() if path.is_file() else b"")
    found = (listed_at(mapping(it.get("spec")), "patches") for it in values if it.get("kind") == "Kustomization")
    return next(found, [])
