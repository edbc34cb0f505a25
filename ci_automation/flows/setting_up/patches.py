"""Patches that the folder of one cluster has beside the files of others, as a Kustomization of Flux can have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ci_automation.artifact.yaml import text
from ci_automation.impact.overlay.bootstrapped import UnfitBootstrap, kustomization_in, patches_of_sync
from ci_automation.impact.overlay.kustomization import kustomization_file, listed_at, text_of
from ci_automation.impact.values import mapping

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ci_automation.artifact.tree import Tree

_TARGET = {"group", "version", "kind", "namespace", "name", "labelSelector", "annotationSelector"}  # as Flux has it


def added_patches(own: Tree, others: Tree) -> tuple[Mapping[str, Any], ...]:
    """Return the patches that files have after those of the others, if nothing else differs.

    Flux applies the patches of a Kustomization after those of the files, and takes only a text and a target.
    """
    try:
        (path, ours), (other_path, theirs), of_sync = _fields(own), _fields(others), patches_of_sync(own)
    except UnfitBootstrap:
        return ()
    before, after = listed_at(theirs, "patches"), listed_at(ours, "patches")
    added = [mapping(it) for it in after[len(before) :]]
    files = {text(it.get("path")) for it in added} - others.by_path.keys()
    alike = (
        after[: len(before)] == before
        and {**ours, "patches": before} == {**theirs, "patches": before}
        and {it for it in own.files if it.path not in {path, *files}} == {*others.without(other_path).files}
    )
    patches = tuple(_inline(it, own) for it in added)
    return patches if alike and not of_sync and all(patches) else ()


def settings_with(
    kustomization: Mapping[str, Any], patches: Sequence[Mapping[str, Any]]
) -> dict[str, Mapping[str, Any]]:
    """Return `sync` of a channel with the settings that it has, and these patches after its own."""
    return {"kustomization": {**kustomization, "patches": [*listed_at(kustomization, "patches"), *patches]}}


def _fields(tree: Tree) -> tuple[str, Mapping[str, Any]]:
    """Return the path of the kustomization and its fields; nothing if there is none."""
    path = kustomization_file(tree, ".")
    return (path, kustomization_in(path, tree[path]).value) if path else ("", {})


def _inline(entry: Mapping[str, Any], tree: Tree) -> Mapping[str, Any]:
    """Return an entry of `patches` with the text of its file; nothing if Flux would not take it."""
    path, target = text(entry.get("path")), mapping(entry.get("target"))
    patch = text_of(tree[path]) if path in tree.by_path else text(entry.get("patch"))
    if not patch or not entry.keys() <= {"patch", "path", "target"} or not target.keys() <= _TARGET:
        return {}
    return {"patch": patch, **({"target": target} if target else {})}
