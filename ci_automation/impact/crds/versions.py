"""Versions of the custom resources in a components file, as they are read to compare it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct, ValidationError, convert

from ci_automation.artifact.yaml import Unreadable, nodes, plain
from ci_automation.errors import UsageError
from ci_automation.impact.objects import parts_of
from ci_automation.impact.parts import Text
from ci_automation.impact.reading import UnreadableObjects
from ci_automation.impact.values import at, mapping

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ci_automation.impact.parts import Part

_CRD = "CustomResourceDefinition"
# The names of definitions get into commands to run.
_Name = Annotated[str, Meta(pattern=r"\A[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?\Z")]
_VersionName = Annotated[str, Meta(pattern=r"\A[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?\Z")]
_Kind = Annotated[str, Meta(pattern=r"\A[A-Za-z][A-Za-z0-9]{0,62}\Z")]
_PRIORITY = re.compile(r"v([0-9]{1,9})(?:(alpha|beta)([0-9]{1,9}))?")
_MATURITY = {None: 2, "beta": 1, "alpha": 0}


class UnreadableCrds(UsageError):
    """The custom resource definitions of a components file cannot be read."""

    hint = "It must be as `flux install --export` prints it."

    def __init__(self, reason: str) -> None:
        super().__init__(f"the versions of the components file's custom resources cannot be read: {reason}")


class CrdVersion(Struct, frozen=True):
    """One version of a custom resource: whether clients can use it, and whether objects are stored in it."""

    name: _VersionName
    served: bool
    storage: bool


class Crd(Struct, frozen=True):
    """A custom resource definition: its name (`plural.group`), and its versions in the order of the file."""

    name: _Name
    group: _Name
    kind: _Kind
    versions: tuple[CrdVersion, ...]

    @property
    def names(self) -> frozenset[str]:
        """Return the names of all versions, also of those that are not served."""
        return frozenset(version.name for version in self.versions)

    @property
    def served(self) -> tuple[str, ...]:
        """Return the names of the versions that clients can use, newest first."""
        return newest_first(version.name for version in self.versions if version.served)

    @property
    def storage(self) -> str:
        """Return the version that objects are stored in."""
        return next(version.name for version in self.versions if version.storage)


def newest_first(names: Iterable[str]) -> tuple[str, ...]:
    """Return names of versions in Kubernetes' order of them: stable ones first, then beta, then alpha."""
    return tuple(sorted(names, key=_rank, reverse=True))


def crds(text: str) -> Mapping[str, Crd]:
    """Return the custom resource definitions of a components file by their names.

    Raises:
        UnreadableCrds: it is not YAML, or has a definition that no cluster would take.
    """
    found: dict[str, Crd] = {}
    for part in Text.of(text).parts:
        for value in map(mapping, _values(part)):
            metadata, spec = mapping(value.get("metadata")), value.get("spec")
            if value.get("kind") == _CRD:
                crd = _crd(metadata.get("name"), spec)
                if crd.name in found:
                    raise UnreadableCrds(f"{crd.name} is there twice")
                found[crd.name] = crd
    return found


def _values(part: Part) -> Iterator[Any]:
    """Yield the values of a part, those in lists too, a definition perhaps without its schemas."""
    if part.definition:
        yield part.definition.rest.value
        return
    try:
        found = [document.value for document in part.documents()]
    except UnreadableObjects:  # such as text with anchors
        try:
            found = [plain(node) for node in nodes(part.text)]
        except Unreadable as error:
            raise UnreadableCrds(f"{error.reason} (line {error.line})" if error.line else error.reason) from None
    for value in found:
        yield from parts_of(value)


def _rank(name: str) -> tuple[int, int, int, str]:
    match = _PRIORITY.fullmatch(name)
    return (_MATURITY[match[2]], int(match[1]), int(match[3] or 0), "") if match else (-1, 0, 0, name)


def _crd(name: object, spec: object) -> Crd:
    """Return the definition that values stand for, each of them checked."""
    try:
        crd = convert({**mapping(spec), "name": name, "kind": at(at(spec, "names"), "kind")}, Crd)
    except ValidationError as error:
        where = str(error).rpartition(" - at ")[2]
        raise UnreadableCrds(
            f"the definition {str(name)[:80]!r} is not complete, or has no proper names: {where}"
        ) from None
    if len(crd.names) != len(crd.versions) or sum(version.storage for version in crd.versions) != 1:
        raise UnreadableCrds(f"{crd.name} has a version twice, or not exactly one that objects are stored in")
    return crd
