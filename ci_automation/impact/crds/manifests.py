"""Manifests that use a version of Flux's custom resources that the new release no longer serves."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.impact.crds.remedies import FOLLOWED, at_the_source, migrate_files, rewrite
from ci_automation.impact.crds.scan import How, Use, uses
from ci_automation.impact.crds.versions import newest_first
from ci_automation.impact.hazard import Certainty, Hazard, Place, all_of, some_of, within

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ci_automation.impact.crds.versions import Crd

GATE = "crds"
PROSE = frozenset({".adoc", ".markdown", ".md", ".rst", ".txt"})
_API_VERSION = re.compile(rb"(?<![a-z.])([a-z.]{1,253}\.fluxcd\.io)/(v[0-9][a-z0-9]{0,61})")


class Manifests(Struct, frozen=True, dict=True):
    """The definitions of before and of after a step, for looking through files with them."""

    before: Mapping[str, Crd]
    after: Mapping[str, Crd]

    def hazards(self, files: Iterable[tuple[str, bytes]], *, own: bool) -> Iterator[Hazard]:
        """Yield what uses in `files` break, one for each definition and version; `own` ones come with the step.

        What is used elsewhere and was not served before is broken already: that is told, and stops nothing.
        """
        found: dict[tuple[Certainty, str, str], list[Use]] = {}
        for name, data in files:
            if PurePosixPath(name).suffix.lower() in PROSE or not self._may_use(data):
                continue
            for use in uses(data, name):
                for crd in self._lost(use):
                    certainty = self._certainty(crd, use, own=own)
                    found.setdefault((certainty, crd.name, use.version), []).append(use)
        for (certainty, name, version), used in sorted(found.items()):
            yield self._hazard(certainty, self._known[name], version, used)

    def elsewhere(self) -> Iterator[Hazard]:
        """Yield a word on manifests that nobody looked at, if there are versions that they may not use any more."""
        lost = [
            f"{crd.kind} {version}"
            for name, crd in sorted(self.before.items())
            for version in crd.served
            if version not in self._served(name)
        ]
        if lost:
            yield Hazard(
                GATE,
                Certainty.ADVICE,
                f"manifests elsewhere: {', '.join(lost)}",
                f"manifests outside this artifact were not checked; clusters refuse those that use {all_of(lost)}",
                (),
                ("Name their places in `clusters.objects`, or run `flux migrate -f . --dry-run` where they are.",),
            )

    @cached_property
    def _known(self) -> Mapping[str, Crd]:
        return {**self.after, **self.before}

    @cached_property
    def _fine(self) -> frozenset[tuple[bytes, bytes]]:
        """Return group and version of what every kind of the group is served in, and of groups that are not Flux's."""
        groups: dict[str, list[set[str]]] = {}
        for name, crd in self._known.items():
            groups.setdefault(crd.group, []).append(set(self._served(name)))
        return frozenset(
            (group.encode(), version.encode())
            for group, kinds in groups.items()
            for version in set.intersection(*kinds)
        )

    @cached_property
    def _gone(self) -> tuple[bytes, ...]:
        names = {version for name, crd in self._known.items() for version in crd.names - set(self._served(name))}
        return tuple(sorted(version.encode() for version in names))

    def _may_use(self, data: bytes) -> bool:
        """Tell quickly whether a file is worth parsing."""
        if any(version in data for version in self._gone):
            return True
        return not self._fine.issuperset(_API_VERSION.findall(data))

    def _served(self, name: str) -> tuple[str, ...]:
        return self.after[name].served if name in self.after else ()

    def _lost(self, use: Use) -> Iterator[Crd]:
        """Yield the definitions that a use is of, if they do not serve its version any more.

        Where the kind is not known, the version must have gone from every kind of its group.
        """
        kinds = [
            crd
            for crd in self._known.values()
            if use.group in (crd.group, "") and (use.kind in (crd.kind, "")) and (use.group or use.kind)
        ]
        if not use.group or use.how is How.SELECTOR:
            kinds = [crd for crd in kinds if use.version in crd.names]
        lost = [crd for crd in kinds if use.version not in self._served(crd.name)]
        if use.kind or len(lost) == len(kinds):
            yield from lost if use.kind or use.how is How.SELECTOR else lost[:1]

    def _certainty(self, crd: Crd, use: Use, *, own: bool) -> Certainty:
        if not own and (crd.name not in self.before or use.version not in self.before[crd.name].served):
            return Certainty.ADVICE
        return Certainty.CERTAIN if use.how is How.OBJECT else Certainty.POSSIBLE

    def _hazard(self, certainty: Certainty, crd: Crd, version: str, used: list[Use]) -> Hazard:
        files = sorted({use.file for use in used})
        names = list(dict.fromkeys(use.name for use in used if use.name))
        what = f"{crd.kind} {version}" + (f" ({some_of(names)})" if names else "")
        served = self._served(crd.name)
        now = f"the new components {f'serve {all_of(served)}' if served else 'do not serve this kind'}"
        who, one = some_of(files), len(files) == 1
        words = {
            Certainty.CERTAIN: f"{who} {'has' if one else 'have'} {what}, which clusters refuse: {now}",
            Certainty.POSSIBLE: f"{who} {'refers' if one else 'refer'} to {what}: {now}",
            Certainty.ADVICE: f"{who} {'uses' if one else 'use'} {what}, which is not served now either: {now}",
        }
        refers = " referred to" if certainty is Certainty.POSSIBLE else ""
        places = tuple(Place(use.file, use.line) for use in used)
        subject = f"{crd.name} {version}{refers}{within(files)}"
        followed = (FOLLOWED,) if served and certainty is Certainty.CERTAIN else ()
        return Hazard(
            GATE, certainty, subject, words[certainty], places, self._remedies(crd, version, files) + followed
        )

    def _remedies(self, crd: Crd, version: str, files: list[str]) -> tuple[str, ...]:
        served = self._served(crd.name)
        if not served:
            return ("Remove them, or keep the component that they belong to.", *at_the_source(files))
        now = set(self.before[crd.name].served) if crd.name in self.before else set()
        common = newest_first(now.intersection(served))
        return (
            *rewrite(crd, version, common, self.after[crd.name]),
            *migrate_files(self.before, self.after, files),
            *at_the_source(files),
        )
