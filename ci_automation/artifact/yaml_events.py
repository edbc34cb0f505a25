"""YAML of any origin as the events of libyaml (YAML 1.1, as Kubernetes reads it), within limits."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import yaml

MAX_DEPTH = 100  # libyaml takes time that grows with the square of it
_MAX_EVENTS = 500_000


class Unreadable(Exception):  # not an error of the run: whoever reads makes of it what it means there
    """A text is not YAML, or not the part of it that is looked into; `line` is where, 0 where that is not known."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


def events(text: str, most: int = _MAX_EVENTS) -> Iterator[yaml.Event]:
    """Yield the events of a text of any number of documents, `most` at the most; they take no memory together.

    Raises:
        Unreadable: it is not YAML, or longer or deeper than anybody writes.
    """
    import yaml

    depth = 0
    with yaml_alone(text):
        for number, event in enumerate(yaml.parse(text, Loader=yaml.CSafeLoader)):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH or number > most:
                line = event.start_mark.line + 1 if event.start_mark else 0
                raise Unreadable(f"it has more than {most} values, or is nested deeper than {MAX_DEPTH} levels", line)
            yield event


@contextmanager
def yaml_alone(text: str) -> Iterator[None]:
    """Let what is done with a text raise `Unreadable` where the text is not YAML."""
    import yaml

    try:
        yield
    except yaml.MarkedYAMLError as error:
        last = text.count("\n") + (not text.endswith("\n"))  # libyaml counts one more where the text is not ended
        line = min(error.problem_mark.line + 1, last) if error.problem_mark else 0
        raise Unreadable(f"it is not YAML: {error.problem or error.context}", line) from None
    except (yaml.YAMLError, UnicodeError):  # of the reader, which has no mark
        raise Unreadable("it is not YAML: it has a control character") from None
