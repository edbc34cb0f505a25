"""Printing: tables and colours on a terminal, plain text elsewhere, JSON for programs."""

from __future__ import annotations

import json
import re
import shutil
import sys
from typing import TYPE_CHECKING, Any

import click

from ci_automation.cli import Failure, failure_of
from ci_automation.report.blocks import HINT, MarkedLine, Part, Table, plain_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ci_automation.cli.arguments import Arguments
    from ci_automation.errors import Error
    from ci_automation.report.adoption import Adoption

TO_READ = "To read all of it:"
_SIGN = re.compile(r"[^\n -~]")
_COLOURS = {
    "published": "green",
    "can be published": "green",
    "needs approval": "yellow",
    "waiting": "yellow",
    "approval": "yellow",
    "wait": "yellow",
    "possible": "yellow",
    "unchecked": "yellow",
    "warning": "yellow",
    "refused": "red",
    "certain": "red",
    "danger": "red",
    "deletes": "red",
}
_ANSWERS = {"y": True, "yes": True, "n": False, "no": False, "": False}


def progress(*, verbose: bool, text: bool) -> Callable[[str], None]:
    """Return an ear for progress: one line that overwrites itself on a terminal, lines with -v, nothing elsewhere."""
    if verbose:
        return lambda line: click.echo(click.style(plain_text(line), dim=True), err=True)
    if text and sys.stderr.isatty():
        width = shutil.get_terminal_size().columns - 1  # a folded line cannot be overwritten
        return lambda it: click.echo(f"\r\x1b[K{click.style(plain_text(it)[:width], dim=True)}\r", nl=False, err=True)
    return lambda _: None


def confirmation(given: Arguments) -> Callable[[Adoption], bool]:
    """Return who is asked whether to adopt: the person at the terminal; --yes has answered, and no other source can."""

    def ask(adoption: Adoption) -> bool:
        from ci_automation.cli.follow_up import whole
        from ci_automation.flows.publication.adoption import NotAdopted
        from ci_automation.report.adoption import ALONE, adoption_parts

        print_parts((*adoption_parts(adoption, every=given.verbose), MarkedLine(ALONE)), err=True)
        if not given.yes and not given.verbose:
            print_aside(f"To read all of it, answer no first:\n{whole()}")
        if not given.yes and not (answer := confirmed("Trust it, and sign it?")):
            raise NotAdopted(adoption.channel, said_no=answer is False)
        return True

    return ask


def confirmed(question: str) -> bool | None:
    """Return what the person at the terminal answers; None without a terminal, where no person can."""
    done_with_progress()
    while sys.stdin.isatty():
        answer = str(click.prompt(f"{question} [y/N]", "", show_default=False, err=True)).strip().lower()
        if answer in _ANSWERS:
            return _ANSWERS[answer]
        click.echo("error: answer y or n, or press Enter for n", err=True)
    return None


def done_with_progress() -> None:
    """Clear the line of progress on a terminal."""
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", nl=False, err=True)


def width(*, err: bool = False) -> int | None:
    """Return how wide the terminal is; None if the output, or `err`, goes elsewhere, where no line is folded."""
    return shutil.get_terminal_size().columns if (sys.stderr if err else sys.stdout).isatty() else None


def print_table(table: Table, *, err: bool = False) -> None:
    """Print a table, on a terminal within its width: sentences are folded between words, and no digest is broken."""
    done_with_progress()
    columns = width(err=err)
    shown = table.to_text(columns, lambda cell, it: click.style(it, fg=_COLOURS[cell]) if cell in _COLOURS else it)
    click.echo(shown, err=err)


def print_json(value: Mapping[str, Any], form: str = "") -> None:
    """Print a value for programs; one of our own forms says which it is, and in which version."""
    schema = {"schema": f"flux-manifests.{form}/v1"} if form else {}
    click.echo(_SIGN.sub(_escaped, json.dumps({**schema, **value}, indent=2, ensure_ascii=False)))


def _escaped(sign: re.Match[str]) -> str:
    """Return a character of JSON, which a terminal may read too: what is not printed has its number."""
    if sign[0].isprintable():
        return sign[0]
    return json.dumps(sign[0])[1:-1] if sign[0] > "\x7f" else "\\u007f"


def print_parts(parts: Iterable[Part], *, err: bool = False) -> None:
    """Print lines and tables in their order; a line has the colour of its mark, and is folded on a terminal."""
    done_with_progress()
    for part in parts:
        if isinstance(part, MarkedLine):
            colour = _COLOURS.get(part.mark)
            for line in part.lines(width(err=err)):
                click.echo(click.style(line, fg=colour, bold=True) if colour else line, err=err)
        else:
            print_table(part, err=err)


def print_reading(parts: Iterable[Part], *commands: str) -> None:
    """Print the commands that show what these parts leave out, if they do."""
    if any(isinstance(part, MarkedLine) and HINT in part.text for part in parts):
        print_text("\n".join((TO_READ, *commands)))


def print_aside(text: str) -> None:
    """Print a line for people, on standard error: the output may be for programs."""
    done_with_progress()
    click.echo(plain_text(text), err=True)


def print_line(text: str) -> None:
    """Print lines for people, folded on a terminal."""
    print_parts(map(MarkedLine, text.split("\n")))


def print_text(text: str) -> None:
    """Print lines that people may copy, without what could control a terminal."""
    done_with_progress()
    click.echo(plain_text(text))


def error_text(failure: Failure, columns: int | None) -> str:
    """Return an error for people, folded to `columns`."""
    told = (
        f"error: {plain_text(failure.message)}",
        f"  hint: {plain_text(failure.hint)}   (exit {failure.exit_code}, code {failure.code})",
    )
    # A message with a difference has lines to copy.
    parts = [MarkedLine(line, to_copy="\n" in it) for it in told for line in it.split("\n")]
    parts += [MarkedLine(line, to_copy=True) for line in plain_text(failure.below).splitlines()]
    text = "\n".join(line for part in parts for line in part.lines(columns))
    return click.style("error:", fg="red", bold=True) + text.removeprefix("error:")


def print_error(error: Error, name: str = "") -> None:
    """Print the error of one of several artifacts beside the results of the others."""
    failure = failure_of(error, verbose=False)
    done_with_progress()
    click.echo(error_text(failure._replace(message=f"{name}: {error}") if name else failure, width()))


def error_json(error: Error) -> dict[str, str]:
    """Return an error as the JSON output has it beside the results of others."""
    return {"code": error.code, "message": str(error), "hint": error.hint}
