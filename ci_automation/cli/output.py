"""Printing: tables and colours on a terminal, plain text elsewhere, JSON for programs."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from ci_automation.report.text import MarkedLine, plain_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ci_automation.cli.arguments import Arguments
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


def progress(*, verbose: bool, text: bool) -> Callable[[str], None]:
    """Return an ear for progress: one line that overwrites itself on a terminal, lines with -v, nothing elsewhere."""
    if verbose:
        return lambda line: click.echo(click.style(plain_text(line), dim=True), err=True)
    if text and sys.stderr.isatty():
        return lambda line: click.echo(f"\r\x1b[K{click.style(plain_text(line)[:100], dim=True)}\r", nl=False, err=True)
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
    """Print a table: drawn on a terminal, aligned plain text elsewhere."""
    done_with_progress()
    if not sys.stdout.isatty():
        click.echo(table.to_text())
        return
    from rich.console import Console
    from rich.table import Table as Drawn
    from rich.text import Text

    drawn = Drawn(box=None, pad_edge=False, header_style="bold")
    for head in table.head:
        drawn.add_column(head, overflow="fold")
    for row in table.rows:
        drawn.add_row(*(Text(cell, style=_COLOURS.get(cell, "")) for cell in row))
    Console().print(drawn)


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
