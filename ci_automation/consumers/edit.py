"""The edit of one file: the bytes of the values that name the artifact, and not one byte more."""

from __future__ import annotations

import yaml
from msgspec import Struct

from ci_automation.artifact.yaml import Unreadable, events
from ci_automation.consumers.find import MARK, find_mentions, requested, setters
from ci_automation.consumers.model import Mention, MentionKind, Published
from ci_automation.consumers.tree import decoded, parse, span

MAX_BYTES = 1 << 20
_MAX_EVENTS = 200_000  # which are all kept


class Edited(Struct, frozen=True):
    """A file's bytes as they should be, and what was found in it."""

    data: bytes
    findings: tuple[Mention, ...] = ()


def edit(data: bytes, published: Published) -> Edited:
    """Return a file with the values that name the artifact set to what was published.

    A file that cannot be read or edited is returned as it is, with a finding that says why; one that has neither the
    artifact's address nor a setter comment is not even parsed. Edited twice is edited once.
    """
    if MARK not in data and published.address.lower().encode() not in data.lower():
        return Edited(data)
    if len(data) > MAX_BYTES:
        return _left(data, f"it is larger than {MAX_BYTES >> 20} MiB", 1)
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
    comments = setters(file, text)
    governed = frozenset(setter.value for setter in comments)
    by_comment = [requested(each, text, published) for each in comments if each.name == published.name]
    found = [*find_mentions(file, text, published, governed), *by_comment]
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
