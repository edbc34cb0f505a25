"""Which objects of the overlay were in a version that a step loses, and are not in it any more after the step."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.impact.crds.manifests import PROSE
from ci_automation.impact.crds.scan import How, Use, uses

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ci_automation.artifact.tree import Tree
    from ci_automation.impact.crds.versions import Crd

_FLUX = b".fluxcd.io"


class GivenUp(Struct, frozen=True):
    """One of them: how the overlay of before had it, and where the new one has it, which is nowhere if it left it out.

    `crd` is its definition of before. Its namespace is not known: kustomize may set it.
    """

    crd: Crd
    was: Use
    now: tuple[Use, ...]

    @property
    def identity(self) -> tuple[str, str, str]:
        """Return group, kind and name."""
        return _identity(self.was)


def given_up(before: Mapping[str, Crd], after: Mapping[str, Crd], former: Tree, overlay: Tree) -> tuple[GivenUp, ...]:
    """Return what `former` had in a version that the definition loses, and `overlay` has in others, or not at all."""
    lost = {
        (crd.group, crd.kind, version): crd
        for name, crd in before.items()
        if name in after
        for version in crd.names - after[name].names
    }
    had = [use for use in _objects(former, {version for _, _, version in lost}) if _version(use) in lost]
    has: dict[tuple[str, str, str], list[Use]] = {}
    for use in _objects(overlay, {""}) if had else ():
        has.setdefault(_identity(use), []).append(use)
    found = [GivenUp(lost[_version(use)], use, tuple(has.get(_identity(use), ()))) for use in had]
    return tuple(it for it in found if it.was.version not in {use.version for use in it.now})


def _objects(tree: Tree, words: set[str]) -> Iterator[Use]:
    """Yield Flux's objects in the files that have one of the words."""
    for file in tree.files:
        if PurePosixPath(file.path).suffix.lower() in PROSE or _FLUX not in file.content:
            continue
        if any(word.encode() in file.content for word in words):
            yield from (use for use in uses(file.content, file.path) if use.how is How.OBJECT)


def _identity(use: Use) -> tuple[str, str, str]:
    return use.group, use.kind, use.name


def _version(use: Use) -> tuple[str, str, str]:
    return use.group, use.kind, use.version
