"""Printing: tables and colours on a terminal, plain text elsewhere, JSON for programs."""

from __future__ import annotations

import json
import shutil
import sys
from typing import TYPE_CHECKING, Any

import click

from ci_automation.report.text import MarkedLine, plain_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ci_automation.cli.arguments import Arguments
    from ci_automation.errors import Error
    from ci_automation.report.adoption import Adoption
    from ci_automation.report.text import Part, Table

_COLOURS = {
    "published": "green",
    "can be published": "green",
    "waits for approval": "yellow",
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
_SENTENCE = 30  # a cell with more characters, and with blanks, may be folded to this width


def progress(*, verbose: bool, text: bool) -> Callable[[str], None]:
    """Return an ear for progress: one line that overwrites itself on a terminal, lines with -v, nothing elsewhere."""
    if verbose:
        return lambda line: click.echo(click.style(plain_text(line), dim=True), err=True)
    if text and sys.stderr.isatty():
        width = shutil.get_terminal_size().columns - 1  # a folded line cannot be overwritten
        return lambda it: click.echo(f"\r\x1b[K{click.style(plain_text(it)[:width], dim=True)}\r", nl=False, err=True)
    return lambda _: None


def confirmation(given: Arguments) -> Callable[[Adoption], bool]:
    """Return who is asked whether to adopt: the person at the terminal; --yes has answered, and nobody else can."""

    def ask(adoption: Adoption) -> bool:
        from ci_automation.report.adoption import adoption_text

        done_with_progress()
        click.echo(adoption_text(adoption), err=True)
        if given.yes:
            return True
        return confirmed("Trust it, and sign it?")

    return ask


def confirmed(question: str) -> bool:
    """Return what the person at the terminal answers; where there is none, nobody has said yes."""
    done_with_progress()
    return sys.stdin.isatty() and click.confirm(question, err=True)


def done_with_progress() -> None:
    """Clear the line of progress on a terminal."""
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", nl=False, err=True)


def print_table(table: Table) -> None:
    """Print a table: drawn on a terminal, aligned plain text elsewhere.

    A terminal folds only the sentences, between words: a person can copy each digest in one piece. Where that leaves no
    room for the sentences, each row is a paragraph.
    """
    done_with_progress()
    if not sys.stdout.isatty():
        click.echo(table.to_text())
        return
    from rich.console import Console
    from rich.table import Table as Drawn
    from rich.text import Text

    console = Console()
    columns = list(zip(table.head, *table.rows, strict=True))
    folded = [any(len(cell) > _SENTENCE and " " in cell for cell in column) for column in columns]
    needed = (_SENTENCE if folds else max(map(len, column)) for column, folds in zip(columns, folded, strict=True))
    if sum(needed) + 2 * (len(columns) - 1) > console.width:
        click.echo("\n".join(_paragraph(table.head, row) for row in table.rows))
        return
    drawn = Drawn(box=None, pad_edge=False, header_style="bold")
    for head, folds in zip(table.head, folded, strict=True):
        drawn.add_column(head, no_wrap=not folds, overflow="fold")
    for row in table.rows:
        drawn.add_row(*(Text(cell, style=_COLOURS.get(cell, "")) for cell in row))
    console.print(drawn)


def _paragraph(head: tuple[str, ...], row: tuple[str, ...]) -> str:
    """Return a row as lines: its first cell, and below it each other cell that says something, with its head."""
    width = max(map(len, head))
    title = click.style(f"{head[0]} {row[0]}".strip(), fg=_COLOURS.get(row[0]), bold=True)
    told = [f"  {name.ljust(width)}  {cell}" for name, cell in zip(head[1:], row[1:], strict=True) if cell]
    return "\n".join((title, *told))


def print_json(value: dict[str, Any] | list[Any]) -> None:
    """Print a value for programs."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_parts(parts: Iterable[Part]) -> None:
    """Print lines and tables in their order; on a terminal a line has the colour of its mark."""
    done_with_progress()
    for part in parts:
        if isinstance(part, MarkedLine):
            colour = _COLOURS.get(part.mark)
            click.echo(click.style(part.text, fg=colour, bold=True) if colour and sys.stdout.isatty() else part.text)
        else:
            print_table(part)


def print_aside(text: str) -> None:
    """Print a line for people, on standard error: the output may be for programs."""
    done_with_progress()
    click.echo(plain_text(text), err=True)


def print_text(text: str) -> None:
    """Print lines for people."""
    done_with_progress()
    click.echo(text)


def print_error(error: Error, name: str = "") -> None:
    """Print the error of one of several artifacts beside the results of the others."""
    print_text(f"{click.style('error:', fg='red')} {f'{name}: ' if name else ''}{plain_text(str(error))}")
    print_text(f"  hint: {plain_text(error.hint)}   (exit {error.exit_code}, code {error.code})")


def error_json(error: Error) -> dict[str, str]:
    """Return an error as the JSON output has it beside the results of others."""
    return {"code": error.code, "message": str(error), "hint": error.hint}
