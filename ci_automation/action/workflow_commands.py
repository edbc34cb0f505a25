"""Workflow commands: the lines by which a step speaks to the runner, and a log in which no other line is one.

The runner reads commands from standard output and standard error alike (actions/runner, `ActionCommand.cs`): `::name::`
at the start of a line, blanks before it aside, and the older `##[name]` anywhere in one.
"""

from __future__ import annotations

import io
import re
import sys
import unicodedata
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from threading import Lock
from typing import TYPE_CHECKING, Literal, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator

Level = Literal["error", "warning", "notice"]

_LINE_ENDS = re.compile(r"\r\n|\r|\n")  # as the runner's reader has them
_NO_INK = "CZ"  # categories of characters that a reader may trim: controls, formats, separators


def escape_data(text: str) -> str:
    """Return `text` as the data of a command: one line, which the runner turns back (toolkit, `command.ts`)."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escape_property(text: str) -> str:
    """Return `text` as a property of a command."""
    return escape_data(text).replace(":", "%3A").replace(",", "%2C")


def workflow_command(name: str, data: str = "", **properties: str | int | None) -> str:
    """Return the line that gives the runner a command; properties without a value are left out."""
    given = ",".join(f"{key}={escape_property(str(value))}" for key, value in properties.items() if value is not None)
    return f"::{name}{' ' if given else ''}{given}::{escape_data(data)}"


def masks(secret: str) -> tuple[str, ...]:
    """Return the commands that make the runner hide a secret: each line by itself, for the log has lines."""
    lines = dict.fromkeys(line.strip() for line in _LINE_ENDS.split(secret))
    return tuple(workflow_command("add-mask", line) for line in lines if line)


def harmless(line: str) -> str:
    """Return one line of text as the runner will read no command in it; nearly all lines stay as they are."""
    line = line.replace("##[", "# #[")
    start = next((at for at, sign in enumerate(line) if unicodedata.category(sign)[0] not in _NO_INK), len(line))
    return f"| {line}" if line.startswith("::", start) else line


class Log(io.TextIOBase):
    """The log of a step: what is written to it is text, whole lines of it, and commands are given by `command` alone.

    Outside of GitHub Actions nobody reads commands, and none are given.
    """

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, out: TextIO, *, runner: bool) -> None:
        self._out, self._runner = out, runner
        self._begun = ""
        self._lock = Lock()

    def writable(self) -> bool:
        """Return that it can be written to."""
        return True

    def write(self, text: str) -> int:
        """Print the lines of `text`; the last one, where it is not ended, waits for its end."""
        with self._lock:
            *lines, self._begun = _LINE_ENDS.split(self._begun + text)
            for line in lines:
                self._print(harmless(line) if self._runner else line)
        return len(text)

    def finish(self) -> None:
        """End the last line."""
        if self._begun:
            self.write("\n")

    def command(self, line: str) -> None:
        """Give the runner a command that `workflow_command` made, right away."""
        self.finish()
        if self._runner:
            with self._lock:
                self._print(line)

    def _print(self, line: str) -> None:
        self._out.write(line.encode(self.encoding, self.errors).decode() + "\n")
        self._out.flush()


@contextmanager
def logging_to(out: TextIO, *, runner: bool) -> Iterator[Log]:
    """Let everything that this process prints, as output or as an error, go to one log, in the order that it happens.

    The runner reads the two streams in two threads: on one of them a mask cannot come after what it hides.
    """
    log = Log(out, runner=runner)
    with redirect_stdout(log), redirect_stderr(log):
        try:
            yield log
        finally:
            log.finish()


def hide(secret: str, *, runner: bool) -> None:
    """Let the runner of GitHub Actions hide a secret from now on; it reads such lines, and shows them to nobody."""
    for line in masks(secret) if runner else ():
        if isinstance(sys.stdout, Log):
            sys.stdout.command(line)
        else:
            print(line, file=sys.stderr, flush=True)  # noqa: T201  # the runner reads both streams


@contextmanager
def group(log: Log, title: str) -> Iterator[None]:
    """Fold the lines that are printed meanwhile under a title."""
    log.command(workflow_command("group", title))
    try:
        yield
    finally:
        log.command(workflow_command("endgroup"))


def annotation(
    level: Level, message: str, *, title: str = "", file: str = "", line: int | None = None, col: int | None = None
) -> str:
    """Return the command that shows a message on the page of the run, and beside the line that it is about."""
    return workflow_command(level, message, file=file or None, line=line, col=col, title=title or None)
