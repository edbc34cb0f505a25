"""What every bad input must come to: one message for people, the same for programs, its exit code, nothing written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.desk import Desk

Arguments = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Bad:
    """One bad input: what must be told, and how it is brought about; `prepare` may put other arguments."""

    name: str
    exit_code: int
    code: str
    message: str
    prepare: Callable[[Desk], Arguments] = lambda _: ()


def told(desk: Desk, arguments: Arguments, bad: Bad) -> None:
    """Assert what is told to people and to programs, and that the working folder stays as it is."""
    before = desk.state()

    ran = desk.run(*arguments)
    assert (ran.code, ran.out) == (bad.exit_code, ""), ran
    assert ran.err.count("error: ") == 1, ran.err
    assert bad.message in ran.err
    hint = next(line for line in ran.err.splitlines() if line.startswith("  hint: "))  # a command may be below
    assert re.fullmatch(r"  hint: \S.*   \(exit \d+, code [a-z-]+\)", hint), ran.err
    assert hint.endswith(f"(exit {bad.exit_code}, code {bad.code})"), ran.err
    assert "Traceback" not in ran.err
    assert "\x1b" not in ran.err
    assert "p4ssw0rd" not in ran.err

    ran = desk.run(*arguments, "--output", "json")
    assert ran.code == bad.exit_code
    assert set(ran.error) == {"code", "message", "hint", "exitCode"}
    assert (ran.error["code"], ran.error["exitCode"]) == (bad.code, bad.exit_code)
    assert bad.message in ran.error["message"]

    assert desk.state() == before
