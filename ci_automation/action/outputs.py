"""The action's outputs, and the files by which a run hands them over to later steps, and a summary to people."""

from __future__ import annotations

import os
import re
import secrets
from typing import TYPE_CHECKING, NamedTuple

from ci_automation.errors import Error, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

MAX_SUMMARY_BYTES = 1 << 20  # the runner drops a summary that is longer, with an error (`FileCommandManager.cs`)
_NAME = re.compile(r"[a-z][a-z0-9-]*")


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
    Output("shown", "For show: what do has to be given, on one line; empty if nothing would change"),
    Output("matrix", "For matrix: the configured artifacts as a JSON list of {name, artifact}, the address"),
    Output("preview", "For preview: the page as Markdown, of at most 60,000 characters"),
)


class DelimiterInValue(Error):
    """The value of an output holds the random line that was to end it."""

    hint = "Nobody can know that line beforehand. Run it again, and report it as a bug if it happens twice."

    def __init__(self, name: str) -> None:
        super().__init__(f"the output {name} holds its own delimiter; no output was written")


class CommandFileUnwritable(UsageError):
    """A file that the runner named cannot be written."""

    hint = "The runner makes these files. Check the space that is left, and what the job does to its environment."

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(f"{path} cannot be written: {error.strerror or error}")


def random_delimiter() -> str:
    """Return a line that nobody can guess."""
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
    """Add `text` to a file of the runner's with one write; without a file there is nobody to tell.

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
