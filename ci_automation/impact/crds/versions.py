"""Versions of the custom resources in a components file, read from the few lines that state them.

What kustomize wrote is read by those lines alone, in a tenth of the time. Anything else is parsed.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.artifact.yaml import Unreadable, events
from ci_automation.errors import UsageError
from ci_automation.flux.text import SEPARATOR

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_CRD = "CustomResourceDefinition"
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")
_VERSION = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")
_KIND = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}")
_KIND_LINE = re.compile(r"([A-Za-z]{1,63})(?:\n|$)")
_KIND_HEAD = "\nkind: "
_OTHER_FORM = ("\r", "\x85", "\u2028", "\u2029", "\n...", "\n%")  # other ends of lines (YAML 1.1) and of documents
_METADATA = re.compile(r"^metadata:\n((?: {2}.*\n)+)", re.MULTILINE)
_METADATA_NAME = re.compile(r"^ {2}name: (\S+)$", re.MULTILINE)
_SPEC = re.compile(
    r"^spec:\n  group: (?P<group>\S+)\n  names:\n(?P<names>(?: {4}.*\n)+)  scope: (?:Namespaced|Cluster)\n"
    r"  versions:\n(?=  - )",
    re.MULTILINE,
)
_NAMES_KIND = re.compile(r"^ {4}kind: (\S+)$", re.MULTILINE)
_OUTER_LINE = re.compile(r"^ {0,4}(?! ).*$", re.MULTILINE)
_VERSION_ENTRY = re.compile(r"  (- |  )([A-Za-z]{1,63}):(?: (.+))?")
_PARTS = frozenset({"additionalPrinterColumns", "deprecationWarning", "schema", "selectableFields", "subresources"})
_SAID = frozenset({"name", "served", "storage", "deprecated"})
_TRUTH = {"true": True, "false": False}
_PRIORITY = re.compile(r"v([0-9]{1,9})(?:(alpha|beta)([0-9]{1,9}))?")
_MATURITY = {None: 2, "beta": 1, "alpha": 0}


class UnreadableCrds(UsageError):
    """The custom resource definitions of a components file cannot be read."""

    hint = "It must be as `flux install --export` prints it."

    def __init__(self, reason: str) -> None:
        super().__init__(f"the versions of the components file's custom resources cannot be read: {reason}")


class CrdVersion(Struct, frozen=True):
    """One version of a custom resource: whether clients can use it, and whether objects are stored in it."""

    name: str
    served: bool
    storage: bool
    deprecated: bool = False


class Crd(Struct, frozen=True):
    """A custom resource definition: its name (`plural.group`), and its versions in the order of the file."""

    name: str
    group: str
    kind: str
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


@lru_cache(maxsize=2)  # the second step of a plan begins with what the first one leads to
def crds(text: str) -> Mapping[str, Crd]:
    """Return the custom resource definitions of a components file by their names.

    Raises:
        UnreadableCrds: it is not YAML, or has a definition that no cluster would take.
    """
    found: dict[str, Crd] = {}
    text = f"\n{text}"
    other = text.count("\n---") != text.count(SEPARATOR) or any(form in text for form in _OTHER_FORM)
    for part in [text] if other else text.split(SEPARATOR):
        for crd in _read(part):
            if crd.name in found:
                raise UnreadableCrds(f"{crd.name} is there twice")
            found[crd.name] = crd
    return found


def _rank(name: str) -> tuple[int, int, int, str]:
    match = _PRIORITY.fullmatch(name)
    return (_MATURITY[match[2]], int(match[1]), int(match[3] or 0), "") if match else (-1, 0, 0, name)


def _read(part: str) -> Iterable[Crd]:
    part = f"\n{part}"
    at = part.find(_KIND_HEAD)
    kind = _KIND_LINE.match(part, at + len(_KIND_HEAD)) if part.count(_KIND_HEAD) == 1 else None
    if not part.strip() or (kind and kind[1] != _CRD and not kind[1].endswith("List")):
        return ()
    if kind and kind[1] == _CRD and (crd := _scan(part)) is not None:
        return (crd,)
    return _parse(part)


def _scan(part: str) -> Crd | None:
    """Return the definition of a document that has kustomize's own form, None where it has another."""
    metadata, spec = _METADATA.search(part), _SPEC.search(part)
    names = _METADATA_NAME.findall(metadata[1]) if metadata else []
    kinds = _NAMES_KIND.findall(spec["names"]) if spec else []
    if not spec or [len(names), len(kinds), part.count("\nmetadata:"), part.count("\nspec:")] != [1, 1, 1, 1]:
        return None
    entries: list[dict[str, str]] = []
    for line in _OUTER_LINE.findall(part, spec.end()):
        if line.startswith("    - ") or not line:
            continue  # of a list in a version, or an empty line in a text
        match = _VERSION_ENTRY.fullmatch(line)
        if not match or match[2] not in _PARTS | _SAID:
            return None
        if match[1] == "- ":
            entries.append({})
        if match[2] in entries[-1]:
            return None
        entries[-1][match[2]] = match[3]
    try:
        versions = [{key: _plain(key, entry[key]) for key in _SAID & entry.keys()} for entry in entries]
        return _crd(names[0], {"group": spec["group"], "names": {"kind": kinds[0]}, "versions": versions})
    except (KeyError, UnreadableCrds):
        return None


def _plain(key: str, value: str) -> object:
    return value if key == "name" else _TRUTH[value]


def _parse(part: str) -> Iterable[Crd]:
    """Return the definitions of a text that has any form, also those in lists."""
    for root in _values(part):
        items = root.get("items") if isinstance(root, dict) and str(root.get("kind")).endswith("List") else None
        for item in items if isinstance(items, list) else [root]:
            if isinstance(item, dict) and item.get("kind") == _CRD:
                metadata = item.get("metadata")
                yield _crd(metadata.get("name") if isinstance(metadata, dict) else None, item.get("spec"))


def _values(text: str) -> list[object]:
    """Return the documents of a text as plain values; an alias is the very object that its anchor is."""
    import yaml

    try:
        for _ in events(text):
            pass
        return list(yaml.load_all(text, Loader=yaml.CSafeLoader))
    except Unreadable as error:
        raise UnreadableCrds(f"{error.reason} (line {error.line})" if error.line else error.reason) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        at = f" (line {mark.line + 1})" if mark else ""
        raise UnreadableCrds(f"it has values that are not plain{at}") from None


def _crd(name: object, spec: object) -> Crd:
    """Return the definition that values stand for, each of them checked, since they get into commands to run."""
    try:
        group, kind, listed = spec["group"], spec["names"]["kind"], spec["versions"]  # type: ignore[index]  # checked
        versions = tuple(
            CrdVersion(
                _text(_VERSION, it["name"]), _truth(it["served"]), _truth(it["storage"]), it.get("deprecated") is True
            )
            for it in listed
        )
        crd = Crd(_text(_NAME, name), _text(_NAME, group), _text(_KIND, kind), versions)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise UnreadableCrds(f"the definition {str(name)[:80]!r} is not complete, or has no proper names") from None
    if len(crd.names) != len(versions) or sum(version.storage for version in versions) != 1:
        raise UnreadableCrds(f"{crd.name} has a version twice, or not exactly one that objects are stored in")
    return crd


def _text(pattern: re.Pattern[str], value: object) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ValueError(value)
    return value


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(value)  # noqa: TRY004 - what is wrong is the file, not the call
    return value
