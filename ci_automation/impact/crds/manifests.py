"""Versions of Flux's custom resources that manifests use, and hazards of those that the new release no longer serves.

The scan sees objects, references and selectors in the text of a file. It does not see a manifest that is a text in a
ConfigMap, or that a template makes.
"""

from __future__ import annotations

import enum
import re
from functools import cached_property, lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from msgspec import Struct, field

from ci_automation.artifact.yaml import Unreadable, events
from ci_automation.impact.crds.remedies import FOLLOWED, at_the_source, migrate_files, rewrite
from ci_automation.impact.crds.versions import newest_first
from ci_automation.impact.hazard import Certainty, Hazard, Place, all_of, some_of, within

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import yaml

    from ci_automation.impact.crds.versions import Crd

GATE = "crds"
PROSE = frozenset({".adoc", ".markdown", ".md", ".rst", ".txt"})
_API_VERSION = re.compile(rb"(?<![a-z.])([a-z.]{1,253}\.fluxcd\.io)/(v[0-9][a-z0-9]{0,61})")
_FLUX = ".fluxcd.io"
_LINE = re.compile(
    r"""^[ \t]*(?:- )?["']?apiVersion["']?[ \t]*:[ \t]*["']?([a-z0-9.-]{1,253}\.fluxcd\.io/v[a-z0-9]{1,62})\b"""
)
_KIND_LINE = re.compile(r"""^[ \t]*(?:- )?["']?kind["']?[ \t]*:[ \t]*["']?([A-Za-z0-9]{1,63})\b""")
_LIST_DEPTH = 2  # a List, its items
_INLINE = frozenset({"patch", "patchesStrategicMerge"})  # of kustomize: texts that are manifests themselves


class How(enum.StrEnum):
    """In which way a file uses a version."""

    OBJECT = "object"  # it is an object of that version
    REFERENCE = "reference"  # it names one, or has one inside of another object
    SELECTOR = "selector"  # it picks objects of that version, to change them
    TEXT = "text"  # a line of a file, or of a patch in it, that is no YAML to us


class Use(Struct, frozen=True):
    """One use; `kind` is empty where only the line was read, `group` where a selector does not say it."""

    file: str
    line: int
    group: str
    version: str
    kind: str
    name: str
    how: How


@lru_cache(maxsize=64)  # a step keeps most files
def uses(data: bytes, file: str) -> tuple[Use, ...]:
    """Return what a file uses of Flux's custom resources, in the order of its lines; nothing of what is no text.

    What YAML does not read, such as the template of a chart, is read line by line for `apiVersion` and `kind`.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return ()
    try:
        found = list(_Walk(file).of(events(text)))
    except Unreadable:
        found = list(_lines(text, file, 1))
    return tuple(sorted(found, key=lambda use: use.line))


def _lines(text: str, file: str, first: int) -> Iterator[Use]:
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if match := _LINE.match(line):
            around = (*lines[number + 1 : number + 2], *lines[max(number - 1, 0) : number])
            kind = next((found[1] for near in around if (found := _KIND_LINE.match(near))), "")
            group, _, version = match[1].rpartition("/")
            yield Use(file, first + number, group, version, kind, "", How.TEXT)


class _Frame(Struct):
    """An open mapping or sequence; `under` is the key that it stands under, in a sequence that of the sequence."""

    is_mapping: bool
    under: str
    key: str | None = None
    name: str = ""
    texts: dict[str, tuple[str, int]] = field(default_factory=dict)

    def text(self, key: str) -> str:
        return self.texts.get(key, ("", 0))[0]


class _Walk:
    """Goes through the events of a file once, and keeps no more than what is open."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._open: list[_Frame] = []
        self._anchors: dict[str, str] = {}

    def of(self, found: Iterator[yaml.Event]) -> Iterator[Use]:
        """Yield the uses; those in an object come before the object's own."""
        import yaml

        for event in found:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors = {}
            elif isinstance(event, yaml.CollectionStartEvent):
                under = self._key()
                self._open.append(_Frame(isinstance(event, yaml.MappingStartEvent), under))
            elif isinstance(event, yaml.CollectionEndEvent):
                frame = self._open.pop()
                yield from self._closed(frame)
                self._take(None, 0)
            elif isinstance(event, yaml.AliasEvent):
                self._take(self._anchors.get(event.anchor or "", ""), _line(event))
            elif isinstance(event, yaml.ScalarEvent):
                if event.anchor:
                    self._anchors[event.anchor] = event.value
                if "\n" in event.value and self._key() in _INLINE:
                    yield from _lines(event.value, self._file, _line(event) + (event.style in ("|", ">")))
                self._take(event.value, _line(event))

    def _key(self) -> str:
        """Return the key that the next node stands under."""
        if not self._open:
            return ""
        top = self._open[-1]
        return (top.key or "") if top.is_mapping else top.under

    def _take(self, value: str | None, line: int) -> None:
        """Note a node, None for one that is no scalar, as a key or under its key."""
        if not self._open or not self._open[-1].is_mapping:
            return
        top = self._open[-1]
        if top.key is None:
            top.key = value or ""
        else:
            if value is not None:
                top.texts[top.key] = (value, line)
            top.key = None

    def _closed(self, frame: _Frame) -> Iterator[Use]:
        if not frame.is_mapping:
            return
        if frame.under == "metadata" and self._open:
            self._open[-1].name = frame.text("name")
        group, slash, version = frame.text("apiVersion").rpartition("/")
        kind = frame.text("kind")
        if slash and kind and group.endswith(_FLUX):
            top = not self._open or (len(self._open) == _LIST_DEPTH and frame.under == "items")
            how, name = (How.OBJECT, frame.name) if top else (How.REFERENCE, frame.name or frame.text("name"))
            yield Use(self._file, frame.texts["apiVersion"][1], group, version, kind, name, how)
        elif frame.text("version") and (frame.text("group").endswith(_FLUX) or (kind and not frame.text("group"))):
            found, line = frame.texts["version"]
            yield Use(self._file, line, frame.text("group"), found, kind, frame.text("name"), How.SELECTOR)


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0


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
