"""Published security advisories about Flux, as GitHub's list of reviewed advisories has them.

No signature proves an advisory. It may say that a release fixes something, and shorten a wait; it opens no gate.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from ci_automation.flux.options import COMPONENTS
from ci_automation.flux.version import InvalidVersion, Version

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FLUX = "flux2"
_PACKAGE = re.compile(r"(?:github\.com/fluxcd/)([a-z0-9-]+)(?:/v\d{1,3})?")
_ID = re.compile(r"(?:CVE-\d{4}-\d{4,10}|GHSA(?:-[0-9a-z]{4}){3})")
_PART = re.compile(r"(<=|>=|<|>|=) ?([0-9A-Za-z.+-]{1,60})")
_TAG = re.compile(r":(v[0-9][0-9A-Za-z.+-]{0,60})(?:@|\Z)")
_SEVERITIES = frozenset({"low", "medium", "high", "critical"})
_MOST = 200  # Flux has fifteen


class Affected(NamedTuple):
    """Versions of a component that an advisory is about: each condition holds for them."""

    component: str
    conditions: tuple[tuple[str, Version], ...]

    def has(self, version: Version) -> bool:
        """Return whether a version of the component is affected."""
        return all(_holds(version, sign, bound) for sign, bound in self.conditions)


class Advisory(Struct, frozen=True):
    """An advisory: its CVE, or its number at GitHub, its severity, and the affected versions of components."""

    id: str
    severity: str
    affected: tuple[Affected, ...]


class Vulnerability(Struct, frozen=True):
    """A known vulnerability of one component."""

    id: str
    severity: str
    component: str

    def __str__(self) -> str:
        return f"{self.id} ({self.severity}) in {self.component}"


def advisories_in(value: object) -> tuple[Advisory, ...]:
    """Return the advisories of an answer of `GET /advisories`; what is withdrawn or not understood is left out."""
    return tuple(_advisories(value if isinstance(value, list) else []))


def written_advisories(advisories: tuple[Advisory, ...]) -> bytes:
    """Return a file that `advisories_in` reads as these advisories, with nothing else in it."""
    listed = [
        {
            "cve_id" if it.id.startswith("CVE-") else "ghsa_id": it.id,
            "severity": it.severity,
            "vulnerabilities": [
                {
                    "package": {"name": f"github.com/fluxcd/{component}"},
                    "vulnerable_version_range": ", ".join(f"{sign} {bound.semver}" for sign, bound in conditions),
                }
                for component, conditions in it.affected
            ],
        }
        for it in advisories
    ]
    return f"{json.dumps(listed, indent=1)}\n".encode()


def _advisories(items: list[Any]) -> Iterator[Advisory]:
    for item in items[:_MOST]:
        if isinstance(item, dict) and item.get("withdrawn_at") is None:
            known = next((it for key in ("cve_id", "ghsa_id") if _ID.fullmatch(it := str(item.get(key)))), "")
            listed = item.get("vulnerabilities")
            affected = tuple(filter(None, map(_affected, listed[:_MOST] if isinstance(listed, list) else ())))
            if known and affected and item.get("severity") in _SEVERITIES:
                yield Advisory(known, item["severity"], affected)


def _affected(value: object) -> Affected | None:
    """Return the affected versions, or None where they are not understood."""
    try:
        package, written = value["package"], value["vulnerable_version_range"]  # type: ignore[index]  # checked
        named = _PACKAGE.fullmatch(package["name"])
        parts = [_PART.fullmatch(part.strip()) for part in written.split(",")]
        conditions = tuple((part[1], Version.parse(part[2])) for part in parts if part)
    except (AttributeError, InvalidVersion, KeyError, TypeError):
        return None
    if named is None or named[1] not in {FLUX, *COMPONENTS} or len(conditions) < len(parts):
        return None
    return Affected(named[1], conditions)


def _holds(version: Version, sign: str, bound: Version) -> bool:
    return {
        "<": version < bound,
        "<=": version <= bound,
        ">": version > bound,
        ">=": version >= bound,
        "=": version == bound,
    }[sign]


def component_versions(flux: Version, images: Mapping[str, str]) -> dict[str, Version]:
    """Return the versions of Flux and of its controllers, by the images of the controllers."""
    found = {FLUX: flux}
    for name, image in images.items():
        if tag := _TAG.search(image):
            try:
                found[name] = Version.parse(tag[1])
            except InvalidVersion:
                continue
    return found


def vulnerabilities(advisories: tuple[Advisory, ...], versions: Mapping[str, Version]) -> tuple[Vulnerability, ...]:
    """Return the known vulnerabilities of these versions, those of the controllers before those of Flux as a whole."""
    found: dict[str, Vulnerability] = {}
    for advisory in advisories:
        ranked = sorted(advisory.affected, key=lambda it: it.component == FLUX)
        for it in ranked:
            if it.component in versions and it.has(versions[it.component]):
                found.setdefault(advisory.id, Vulnerability(advisory.id, advisory.severity, it.component))
    return tuple(found.values())


def fixed_by(
    advisories: tuple[Advisory, ...], before: Mapping[str, Version], after: Mapping[str, Version]
) -> tuple[Vulnerability, ...]:
    """Return the vulnerabilities of `before` that `after` does not have, in any component."""
    left = {it.id for it in vulnerabilities(advisories, after)}
    return tuple(it for it in vulnerabilities(advisories, before) if it.id not in left)
