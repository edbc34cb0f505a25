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

from msgspec import Struct

from ci_automation.artifact.yaml import Unreadable, child, is_a, line_of, nodes
from ci_automation.impact.change import Certainty, Hazard, Place, all_of, some_of, within
from ci_automation.impact.crds.remedies import FOLLOWED, at_the_source, migrate_files, rewrite
from ci_automation.impact.crds.versions import Crd, newest_first

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import yaml

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
        found = [use for node in nodes(text) for use in _of_node(node, file, set())]
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


def _of_node(node: yaml.Node, file: str, seen: set[int], under: str = "", depth: int = 0) -> Iterator[Use]:
    """Yield the uses in a node below the key `under`; those in an object come before the object's own."""
    if is_a(node, "scalar"):
        if "\n" in node.value and under in _INLINE:
            yield from _lines(node.value, file, line_of(node) + (getattr(node, "style", "") in ("|", ">")))
    elif id(node) not in seen:  # aliases stand for nodes that are somewhere else
        seen.add(id(node))
        if is_a(node, "sequence"):
            for item in node.value:
                yield from _of_node(item, file, seen, under, depth + 1)
        else:
            for key, value in node.value:
                yield from _of_node(value, file, seen, key.value if is_a(key, "scalar") else "", depth + 1)
            yield from _of_mapping(node, file, is_top=not depth or (depth == _LIST_DEPTH and under == "items"))


def _of_mapping(node: yaml.Node, file: str, *, is_top: bool) -> Iterator[Use]:
    known = {key.value: (line_of(key), value) for key, value in node.value if is_a(key, "scalar")}
    texts = {key: value.value for key, (_, value) in known.items() if is_a(value, "scalar")}
    api, kind, name = (texts.get(key, "") for key in ("apiVersion", "kind", "name"))
    group, slash, version = api.rpartition("/")
    if slash and kind and group.endswith(_FLUX):
        named = child(known["metadata"][1], "name") if "metadata" in known else None
        own = named[1].value if named and is_a(named[1], "scalar") else ""
        how = How.OBJECT if is_top else How.REFERENCE
        yield Use(file, known["apiVersion"][0], group, version, kind, own if is_top else own or name, how)
    elif texts.get("version") and (texts.get("group", "").endswith(_FLUX) or (kind and not texts.get("group"))):
        line, group = known["version"][0], texts.get("group", "")
        yield Use(file, line, group, texts["version"], kind, name, How.SELECTOR)


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
        """Yield a word on manifests outside the artifact, if there are versions that they may not use any more."""
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
