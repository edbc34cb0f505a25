"""Workflow commands: the lines by which a step speaks to the runner, and a log in which no other line is one.

The runner reads commands from standard output and standard error alike (actions/runner, `ActionCommand.cs`): `::name::`
at the start of a line, blanks before it aside, and the older `##[name]` anywhere in one.
"""

from __future__ import annotations

import io
import os
import re
import secrets
import sys
import unicodedata
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from threading import Lock
from typing import TYPE_CHECKING, Literal, NamedTuple, TextIO

from ci_automation.errors import Error, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

Level = Literal["error", "warning", "notice"]

_LINE_ENDS = re.compile(r"\r\n|\r|\n")  # as the runner's reader has them
_NO_INK = "CZ"  # categories of characters that a reader may trim: controls, formats, separators
MAX_SUMMARY_BYTES = 1 << 20  # the runner drops a summary that is longer, with an error (`FileCommandManager.cs`)
_NAME = re.compile(r"[a-z][a-z0-9-]*")


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

    Outside of GitHub Actions it gives no commands.
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
    """Let the runner of GitHub Actions hide a secret from now on; it reads such lines, and never shows them."""
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


class Output(NamedTuple):
    """One output."""

    name: str
    description: str


OUTPUTS = (
    Output("changed", "true if the channel moved in this run; with several artifacts, if any did"),
    Output(
        "decision",
        "The decision on the last published step: auto or approval. If nothing was published: refused if policy "
        "refuses every possible step, otherwise empty",
    ),
    Output("reasons", "The reasons of that decision, one per line"),
    Output("current-version", "The channel's version of Flux before this run"),
    Output("target-version", "The channel's version of Flux after this run"),
    Output("base-digest", "The channel's digest before this run"),
    Output("digest", "The channel's digest after this run"),
    Output("digest-url", "That digest with its repository, as cosign and docker expect it"),
    Output("immutable-tag", "The tag that never moves from that digest; empty if nothing was published"),
    Output("signed", "true if this run verified a signature of that digest"),
    Output("healed", "true if this run restored a lost signature"),
    Output("approval-url", "The page where a person can approve the waiting step"),
    Output("pending-version", "The version that needs approval, waits for a date, or is refused"),
    Output("pending-base-digest", "The base digest of the waiting step"),
    Output("pending-digest", "The target digest of the waiting step: an approval counts for this digest"),
    Output("pending-decision", "approval, wait or refused; empty if no step waits"),
    Output("pending-reasons", "The reasons why it waits, one per line"),
    Output("plan", "The complete plan as JSON"),
    Output("plan-file", "The path of the plan's file in the workspace, for later steps"),
    Output("artifacts", "All these outputs for each artifact, as a JSON list, with its name, address and error"),
    Output("shown", "For show and review: what do or approve has to be given, on one line; empty for nothing"),
    Output("matrix", "For matrix: the configured artifacts as a JSON list of {name, artifact}, the address"),
    Output("preview", "For preview: the page as Markdown, of at most 60,000 characters"),
)


class DelimiterInValue(Error):
    """An output's value holds the random line that was to end it."""

    hint = "That line is random. Run it again, and report it as a bug if it happens twice."

    def __init__(self, name: str) -> None:
        super().__init__(f"the output {name} holds its own delimiter; no output was written")


class CommandFileUnwritable(UsageError):
    """A file that the runner named cannot be written."""

    hint = "The runner makes these files. Check the space that is left, and what the job does to its environment."

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(f"{path} cannot be written: {error.strerror or error}")


def random_delimiter() -> str:
    """Return a line that cannot be guessed."""
    return f"end_{secrets.token_hex(16)}"


def output_text(values: Mapping[str, str], delimiter: Callable[[], str] = random_delimiter) -> str:
    """Return the outputs as the runner reads them: a value ends at the first line that is its delimiter.

    With a delimiter that can be guessed, a value that others write could set any other output.

    Raises:
        DelimiterInValue: a value holds its delimiter.
    """
    parts = []
    for name, value in values.items():
        end = delimiter()
        if not _NAME.fullmatch(name) or end in value or end in name:
            raise DelimiterInValue(name)
        parts.append(f"{name}<<{end}\n{value}\n{end}\n")
    return "".join(parts)


def append(path: Path | None, text: str) -> None:
    """Add `text` to a file of the runner's with one write; without a file it does nothing.

    Raises:
        CommandFileUnwritable: the file cannot be written.
    """
    if path is None:
        return
    data = text.encode(errors="replace")
    try:
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            while data:
                data = data[os.write(file, data) :]  # all at once, unless the system takes less
        finally:
            os.close(file)
    except OSError as error:
        raise CommandFileUnwritable(path, error) from None


def room_for_summary(path: Path | None) -> int:
    """Return how many bytes a summary may have beside what the step has written already."""
    try:
        written = path.stat().st_size if path else 0
    except OSError:
        written = 0
    return max(0, MAX_SUMMARY_BYTES - 1 - written)
