"""The edit of one file: the bytes of the values that name the artifact, and not one byte more.

An `OCIRepository` is looked for wherever it stands, in a list or among the resources of a ResourceSet too. Of what
its `spec.ref` has, the digest outweighs the range, and the range the tag (source-controller, `OCIRepositoryRef`). The
inputs of a ResourceSet have no schema, so they count only where one mapping has both the address and the pin.

A setter comment stands beside any value of any file: `digest: sha256:... # {"$flux-manifests": "production:digest"}`.
It looks like those of Flux's image automation (`# {"$imagepolicy": ...}`): the value before it, on the same line,
becomes the artifact's `digest`, `tag` (the immutable one) or `version`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING

import yaml
from msgspec import Struct, field

from ci_automation.artifact.yaml import Unreadable, events
from ci_automation.consumers.model import Mention, MentionKind, Published, is_digest
from ci_automation.consumers.tree import (
    Alias,
    Mapping,
    Node,
    Scalar,
    YamlFile,
    decoded,
    mappings,
    parse,
    resolved,
    span,
)
from ci_automation.flux.artifact import immutable_version

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

_MAX_BYTES = 1 << 20
_MAX_EVENTS = 200_000  # which are all kept
_SOURCES = "source.toolkit.fluxcd.io/"
_OPERATOR = "fluxcd.controlplane.io/"
_PINS = ("digest", "semver", "tag")
_ADDRESSES = ("url", "repository")
_MERGE = "<<"
_MARK = b"$flux-manifests"
_SETTER = re.compile(
    r'#[ \t]*\{[ \t]*"\$flux-manifests"[ \t]*:[ \t]*"(?P<name>[^":\r\n]*):(?P<field>[^"\r\n]*)"[ \t]*\}'
)
_LINE_BREAK = re.compile(r"\r\n|[\n\r\x85\u2028\u2029]")  # as YAML 1.1 has them


class Edited(Struct, frozen=True):
    """A file's bytes as they should be, and what was found in it."""

    data: bytes
    findings: tuple[Mention, ...] = ()


def edit(data: bytes | None, published: Published) -> Edited:
    """Return a file with the values that name the artifact set to what was published; None is too large to be read.

    A file that cannot be read or edited is returned as it is, with a finding that says why; one that has neither the
    artifact's address nor a setter comment is not even parsed. Edited twice is edited once.
    """
    if data is not None and _MARK not in data and published.address.lower().encode() not in data.lower():
        return Edited(data)
    if data is None or len(data) > _MAX_BYTES:
        return _left(data or b"", f"it is larger than {_MAX_BYTES >> 20} MiB", 1)
    try:
        text, mark = decoded(data)
        before = list(events(text, _MAX_EVENTS))
        findings = _findings(text, before, published)
        edits = sorted({(*each.span, each.new) for each in findings if each.kind is MentionKind.EDITED})
        changed = _changed(text, edits)
        _prove(before, changed, edits)
    except Unreadable as error:
        return _left(data, error.reason, max(error.line, 1))
    return Edited((mark + changed).encode(), findings)


def _left(data: bytes, reason: str, line: int) -> Edited:
    return Edited(data, (Mention(line, "file", MentionKind.LEFT, reason=reason),))


def _findings(text: str, before: list[yaml.Event], published: Published) -> tuple[Mention, ...]:
    file = parse(before)
    comments = _setters(file, text)
    governed = frozenset(setter.value for setter in comments)
    finder = _Finder(text, published, governed)
    found = [finding for root in file.roots for each in mappings(root) for finding in finder.of(each)]
    found += [_requested(each, text, published) for each in comments if each.name == published.name]
    return tuple(sorted(found, key=lambda finding: (finding.line, finding.span)))


def _changed(text: str, edits: list[tuple[int, int, str]]) -> str:
    pieces = []
    done = 0
    for start, end, new in edits:
        pieces += [text[done:start], new]
        done = end
    return "".join([*pieces, text[done:]])


def _prove(before: list[yaml.Event], changed: str, edits: list[tuple[int, int, str]]) -> None:
    """Let no edit pass after which the file is other YAML than it was, the edited values aside."""
    new = {start: text for start, _, text in edits}
    wanted = [_meaning(event, new) for event in before]
    try:
        proven = [_meaning(event, {}) for event in events(changed, _MAX_EVENTS)] == wanted
    except Unreadable:
        proven = False
    if not proven:
        raise Unreadable("the new values would change more of the YAML file than these values")


def _meaning(event: yaml.Event, new: dict[int, str]) -> tuple[object, ...]:
    """Return all that an event says but for where it is, with the new value where the file gets one."""
    parts = dict(vars(event))
    del parts["start_mark"], parts["end_mark"]
    if isinstance(event, yaml.ScalarEvent):
        parts["value"] = new.get(span(event)[0] + (event.style in ("'", '"')), event.value)
    return type(event), parts


def _unfit(scalar: Scalar, text: str) -> str:
    """Return why the bytes of a scalar are not replaced, or nothing where they can be."""
    written = text[scalar.start : scalar.end]
    if scalar.marked:
        return "it has an anchor or a tag"
    if scalar.shared:
        return "an alias stands for it too"
    if scalar.style in ("|", ">"):
        return "it is a block of text"
    if "\n" in written or "\r" in written:
        return "it goes over several lines"
    return "" if written else "it has no value that could be replaced"


class _Finder(Struct, frozen=True):
    """Finds what objects say of the artifact, but for the `governed` scalars: their setter comments decide."""

    text: str
    published: Published
    governed: Container[Node | None]
    passed: set[Node] = field(default_factory=set)  # in inputs: what is in one ResourceSet in another is found once

    def of(self, mapping: Mapping) -> Iterator[Mention]:
        """Return what one mapping says of the artifact, if it is an object that does."""
        version, kind, spec = mapping.text("apiVersion"), mapping.text("kind"), mapping.get("spec")
        if not isinstance(spec, Mapping):
            return
        what = f"{kind} {_name(mapping)}".strip()
        if kind == "OCIRepository" and version.startswith(_SOURCES) and self.published.is_at(spec.text("url")):
            yield from self._source(spec, what)
        if kind == "ResourceSet" and version.startswith(_OPERATOR) and (inputs := spec.get("inputs")):
            for each in mappings(inputs, self.passed):
                if any(self.published.is_at(each.text(key), scheme=False) for key in _ADDRESSES):
                    yield from self._input(each, what)

    def _source(self, spec: Mapping, what: str) -> Iterator[Mention]:
        ref = spec.get("ref")
        if isinstance(ref, Mapping):
            yield from self._pin(ref, f"{what} spec.ref")
        elif not ref and spec.all(_MERGE):
            yield self._left(spec, what, "what it refers to is merged into it by <<")
        else:
            yield self._tagged("", spec.line, f"{what} spec")

    def _input(self, entry: Mapping, what: str) -> Iterator[Mention]:
        if isinstance(ref := entry.get("ref"), Mapping):
            yield from self._pin(ref, f"{what} spec.inputs ref")
        if any(entry.all(key) for key in _PINS):
            yield from self._pin(entry, f"{what} spec.inputs")

    def _pin(self, ref: Mapping, what: str) -> Iterator[Mention]:
        """Return what is to be done about one set of digest, range and tag: all of it, or nothing."""
        if any(len(ref.all(key)) > 1 for key in _PINS):
            yield self._left(ref, what, "a key is there twice")
            return
        if any(node in self.governed for key in _PINS for node in ref.all(key)):
            return
        if not all(isinstance(resolved(node), Scalar) for key in _PINS for node in ref.all(key)):
            yield self._left(ref, what, "one of digest, semver and tag is not a text")
            return
        if ref.all(_MERGE):
            yield self._left(ref, what, "a part of it is merged into it by <<")
            return
        digest, semver, tag = (ref.text(key) for key in _PINS)
        ours = immutable_version(tag) is not None
        if digest and tag and not ours and tag != self.published.channel.tag:
            yield self._tagged(tag, ref.line, what)
        elif digest and not is_digest(digest):
            yield self._left(ref, f"{what}.digest", "it is not a digest")
        elif digest:
            yield from self._together(ref, what, ("digest", "tag") if ours else ("digest",))
        elif semver:
            yield Mention(ref.line, f"{what}.semver", MentionKind.SEMVER, semver)
        elif ours:
            yield from self._together(ref, what, ("tag",))
        else:
            yield self._tagged(tag, ref.line, what)

    def _together(self, ref: Mapping, what: str, keys: tuple[str, ...]) -> Iterator[Mention]:
        wanted = {"digest": str(self.published.digest), "tag": self.published.tag}
        findings = [self._one(ref.all(key)[0], f"{what}.{key}", wanted[key]) for key in keys]
        if left := [finding for finding in findings if finding.kind is MentionKind.LEFT]:
            yield left[0]
        else:
            yield from findings

    def _one(self, node: Node, what: str, wanted: str) -> Mention:
        value = resolved(node)
        if isinstance(value, Scalar) and (value is node or value.text == wanted):
            return _replacement(value, self.text, what, wanted)
        return Mention(node.line, what, MentionKind.LEFT, new=wanted, reason="it is an alias")

    def _tagged(self, tag: str, line: int, what: str) -> Mention:
        tag = tag or "latest"  # what source-controller takes where nothing is said
        kind = MentionKind.FOLLOWS if tag == self.published.channel.tag else MentionKind.OTHER
        return Mention(line, f"{what}.tag", kind, tag)

    def _left(self, mapping: Mapping, what: str, reason: str) -> Mention:
        return Mention(mapping.line, what, MentionKind.LEFT, new=str(self.published.digest), reason=reason)


def _replacement(scalar: Scalar, text: str, what: str, wanted: str) -> Mention:
    """Return what is to be done so that a scalar says what is wanted, in the quotes that it has."""
    if scalar.text == wanted:
        return Mention(scalar.line, what, MentionKind.CURRENT, wanted, wanted)
    if reason := _unfit(scalar, text):
        return Mention(scalar.line, what, MentionKind.LEFT, scalar.text, wanted, reason)
    quoted = len(scalar.style) if scalar.style in ("'", '"') else 0
    span = scalar.start + quoted, scalar.end - quoted
    return Mention(scalar.line, what, MentionKind.EDITED, scalar.text, wanted, span=span)


def _name(mapping: Mapping) -> str:
    metadata = mapping.get("metadata")
    if not isinstance(metadata, Mapping):
        return ""
    namespace, name = metadata.text("namespace"), metadata.text("name")
    return f"{namespace}/{name}" if namespace else name


class _Setter(Struct, frozen=True):
    """One setter comment: whose `field` it asks for, and the value that it stands beside, or why there is none."""

    line: int
    name: str
    field: str
    value: Scalar | None
    reason: str = ""


def _setters(file: YamlFile, text: str) -> tuple[_Setter, ...]:
    """Return the setter comments in `text`, which `file` was read from; one that is commented out is none."""
    starts = [0, *(match.end() for match in _LINE_BREAK.finditer(text))]
    ends = [leaf.end for leaf in file.leaves]
    found = []
    for match in _SETTER.finditer(text):
        at, line = match.start(), bisect_right(starts, match.start())
        begin, ended = starts[line - 1], bisect_right(ends, at)
        value: Scalar | None = None
        reason = ""
        if ended < len(ends) and file.leaves[ended].start < at:
            reason = "it is inside a text"
        elif ended and (leaf := file.leaves[ended - 1]).end > begin:
            between = text[leaf.end : at]
            if "#" in between:
                continue
            if isinstance(leaf, Alias):
                reason = "it stands beside an alias"
            elif leaf.is_key or between.strip(" \t") not in ("", ","):
                reason = "it does not follow a value directly"
            else:
                value = leaf
        elif "#" in text[begin:at]:
            continue
        else:
            reason = "its line has no value before it"
        found.append(_Setter(line, match["name"], match["field"], value, reason))
    return tuple(found)


def _requested(setter: _Setter, text: str, published: Published) -> Mention:
    """Return what is to be done about a setter comment that names the artifact."""
    what = f"setter comment {setter.name}:{setter.field}"
    if setter.value is None:
        return Mention(setter.line, what, MentionKind.LEFT, reason=setter.reason)
    old = setter.value.text
    wanted = {
        "digest": str(published.digest),
        "tag": published.tag,
        "version": str(published.version).removeprefix("v" if old[:1].isdecimal() else ""),
    }.get(setter.field)
    if wanted is None:
        return Mention(setter.line, what, MentionKind.LEFT, old, reason="it names no digest, tag or version")
    return _replacement(setter.value, text, what, wanted)
