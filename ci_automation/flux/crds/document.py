"""Manifests of any origin as YAML, within limits: the events of libyaml, and plain values with no alias unfolded."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import yaml

_MAX_DEPTH = 100  # libyaml takes time that grows with the square of it
_MAX_EVENTS = 500_000


class Unreadable(Exception):
    """A text is not YAML, or more than anybody writes; `line` is where, 0 where that is not known."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason + (f" (line {line})" if line else ""))
        self.line = line


def events(text: str) -> Iterator[yaml.Event]:
    """Yield the events of a text of one or more documents.

    Raises:
        Unreadable: it is not YAML, or longer or deeper than anybody writes by hand.
    """
    import yaml

    depth = 0
    try:
        for number, event in enumerate(yaml.parse(text, Loader=yaml.CSafeLoader)):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _MAX_DEPTH or number > _MAX_EVENTS:
                raise Unreadable(f"it has more than {_MAX_EVENTS} values, or more than {_MAX_DEPTH} levels")
            yield event
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise Unreadable(f"it is not YAML: {error.problem or error.context}", line) from None
    except yaml.YAMLError:  # of the reader, which has no mark
        raise Unreadable("it is not YAML: it has a control character") from None


def values(text: str) -> Iterator[object]:
    """Yield the documents of a text as plain values; an alias is the very object that its anchor is.

    Raises:
        Unreadable: it is not YAML, or longer or deeper than anybody writes by hand.
    """
    import yaml

    for _ in events(text):
        pass
    try:
        yield from yaml.load_all(text, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        raise Unreadable("it has values that are not plain", mark.line + 1 if mark else 0) from None
