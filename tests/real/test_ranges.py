"""Our ranges answer as Flux's own library does: on generated pairs, sound and odd and broken ones."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

from ci_automation.flux.version import Version
from ci_automation.policy.ranges import InvalidRange, Range
from tests.real.processes import run
from tests.unit.policy.ranges import CASES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

SEED = 20261121
PAIRS = 12_000
OPERATORS = ("", "", "=", "!=", ">", "<", ">=", "=>", "<=", "=<", "~", "~>", "^")
ODD_OPERATORS = ("==", "<>", "> =", "~=", "!", "^^", "=!", "><", "~ >", "|")
NUMBERS = ("0", "0", "1", "1", "2", "2", "3", "9", "10", "11")
ODD_NUMBERS = ("x", "X", "*", "01", "00", "xx", "1|2", "x|", "|", str(2**64 - 1), str(2**64), "a", "-1", "٣", "")
PRERELEASES = ("rc.1", "rc.2", "rc.10", "alpha", "0", "1", "10", "rc", "rc.1.1", "x", "-", "a-b", str(2**64))
ODD_PRERELEASES = ("01", "rc.01", "rc..1", "", "rc_1", "é", "00a", "a" * 250, "a.", "+")
BUILDS = ("", "", "", "+build.1", "+001", "+", "+a+b")
SEPARATORS = (" ", ",", ", ", " , ", "  ", "\t", "\n")
ODD_SEPARATORS = ("", ",,", "&&", ";", "\v", "\x85", "\u00a0", "|", " and ")
SPACES = ("", "", "", " ", "  ", "\t")


class Grammar:
    """Ranges and versions by chance, the same for the same seed; every so often a part is odd."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - no secret hangs on it
        self.oddness = 0.0

    def one(self, usual: tuple[str, ...], odd: tuple[str, ...] = ()) -> str:
        return self.chance.choice(odd if odd and self.chance.random() < self.oddness else usual)

    def version(self) -> str:
        numbers = ".".join(self.chance.choice(NUMBERS) for _ in range(3))
        if self.chance.random() < 0.35:
            numbers += f"-{self.chance.choice(PRERELEASES)}"
        return numbers + ("+build.7" if self.chance.random() < 0.1 else "")

    def bound(self) -> str:
        parts = [self.one(NUMBERS, ODD_NUMBERS) for _ in range(self.chance.choice((1, 2, 3, 3, 3)))]
        if self.oddness and self.chance.random() < 0.02:
            parts.append("4")
        if self.chance.random() < 0.2:
            parts[self.chance.randrange(len(parts))] = self.chance.choice("xX*")
        text = self.one(("", "", "v"), ("V", "vv", "=")) + ".".join(parts)
        if self.chance.random() < 0.25:
            text += f"-{self.one(PRERELEASES, ODD_PRERELEASES)}"
        return text + self.one(("",), BUILDS)

    def constraint(self) -> str:
        if self.chance.random() < 0.12:
            dash = self.one((" - ", "  -  "), ("-", " -", "- ", " \u2013 ", " - - "))
            return f"{self.bound()}{dash}{self.bound()}"
        return self.one(OPERATORS, ODD_OPERATORS) + self.chance.choice(SPACES) + self.bound()

    def range(self) -> str:
        self.oddness = self.chance.choice((0.0, 0.0, 0.05, 0.3))
        groups = []
        for _ in range(self.chance.choice((1, 1, 1, 2, 2, 3))):
            text = self.constraint()
            for _ in range(self.chance.choice((0, 0, 1, 1, 2))):
                text += self.one(SEPARATORS, ODD_SEPARATORS) + self.constraint()
            groups.append(f"{self.chance.choice(SPACES)}{text}{self.chance.choice(SPACES)}")
        return self.one(("||",), ("||", " | ", "|||", "||||", "|| ||")).join(groups)


EDGES = (
    "",
    " ",
    "||",
    "1 ||",
    "*",
    "x",
    "1||2 - 3",
    "1 - 2 - 3",
    "1 - 2 1 - 2",
    " 1 - 2 ||  1 - 2",
    "1-2",
    "~0.0.0",
    "~*",
    "^*",
    "<=*",
    ">*",
    "!=*",
    "x.1|2.junk",
    "x.1|2",
    "2.x.9|9-rc.1",
    "=>2",
    "2.9.4.1",
    "||".join(["1"] * 32),
    "||".join(["1"] * 33),
    "1" * 64,
    " " * 511 + "1",
    " " * 512 + "1",
    "1.0.0-" + "a" * 250,
    "1.0.0-" + "a" * 251,
    "1.0.x-" + "a" * 250,
    "1.0.x-" + "a" * 251,
    "x-" + "a" * 250,
    "1.0.0+" + "a" * 250,
    "1.0.0+" + "a" * 251,
    "1.x+" + "a" * 400,
    "v1-" + "a" * 250,
    "1-" + "a" * 250,
)


def pairs() -> list[tuple[str, str]]:
    grammar = Grammar(SEED)
    chosen = [(span, version) for span, *versions in CASES for version in " ".join(versions).split()]
    chosen += [(edge, grammar.version()) for edge in EDGES for _ in range(5)]
    while len(chosen) < PAIRS:
        span = grammar.range()
        chosen += [(span, grammar.version()) for _ in range(3)]
    return chosen


def ours(span: str, version: str) -> tuple[bool, bool]:
    try:
        return True, Range.parse(span).allows(Version.parse(version))
    except InvalidRange:
        return False, False


def test_masterminds_agrees(peer: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    asked = pairs()
    questions = "\n".join(json.dumps({"range": span, "version": version}) for span, version in asked)
    answers = [json.loads(line) for line in run([peer("masterminds")], questions).splitlines()]
    theirs = [(answer["valid"], answer["match"]) for answer in answers]
    differing = [
        f"{span!r} with {version}: Masterminds {their}, ours {our}"
        for (span, version), their in zip(asked, theirs, strict=True)
        if (our := ours(span, version)) != their
    ]
    assert not differing, f"{len(differing)} of {len(asked)} differ\n" + "\n".join(differing[:20])
    valid, matching = sum(valid for valid, _ in theirs), sum(match for _, match in theirs)
    assert min(len(asked) - valid, valid - matching, matching) > len(asked) // 10, "the pairs are too much alike"
    with capsys.disabled():
        print(
            f"\nranges: {len(asked)} pairs, {valid} with a valid range, {matching} matching; "
            f"all as Masterminds/semver answers"
        )
