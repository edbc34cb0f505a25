"""What does not go together in the promotions of a configuration file."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ci_automation.artifact.reference import InvalidReference, Reference

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ci_automation.config import rules
    from ci_automation.config import schema as sections
    from ci_automation.config.document import Path

# What says how an artifact is rendered, which one that is promoted never is.
_OF_RENDERING = {"flags": "flags", "pin_images": "pinImages"}


def unfit_promotions(artifacts: Sequence[sections.Artifact]) -> Iterator[tuple[Path, str]]:
    """Yield what is wrong with the promotions of the artifacts, with the place below `artifacts`."""
    named = {artifact.name: artifact.url for artifact in artifacts}
    sources: dict[Reference, Reference] = {}
    for index, artifact in enumerate(artifacts):
        if artifact.promote is None:
            continue
        here: Path = (index, "promote")
        for name, key in _OF_RENDERING.items():
            if getattr(artifact, name):
                yield (index, key), "says how an artifact is rendered, and one with promote never is"
        if (source := _channel(artifact.promote.source, named)) is None:
            known = ", ".join(named)
            yield (*here, "from"), f"is neither the name of an artifact ({known}) nor the address of a channel"
        else:
            sources[artifact.url] = source
            if _returns(artifact.url, sources):
                yield (*here, "from"), "leads back to this artifact: none of them would ever be rendered"
        for number, evidence in enumerate(artifact.promote.evidence or ()):
            yield from (((*here, "evidence", number), what) for what in _unfit_evidence(evidence))


def _channel(text: str, named: Mapping[str, Reference]) -> Reference | None:
    if text in named:
        return named[text]
    with suppress(InvalidReference):
        return Reference.parse_channel(text)
    return None


def _returns(start: Reference, sources: Mapping[Reference, Reference]) -> bool:
    """Return whether the sources, followed from one to the next, lead back to where they start."""
    at, seen = sources.get(start), set[Reference]()
    while at is not None and at not in seen:
        if at == start:
            return True
        seen.add(at)
        at = sources.get(at)
    return False


def _unfit_evidence(entry: rules.EvidenceEntry) -> Iterator[str]:
    if sum(each is not None for each in (entry.url, entry.status, entry.report)) != 1:
        yield "takes one of url, status and report"
    if len({each is None for each in (entry.url, entry.field, entry.equals)}) > 1:
        yield "url, field and equals go together"
    if (entry.status is None) is not (entry.repository is None):
        yield "status and repository go together"
