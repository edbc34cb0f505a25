"""Colours are for terminals alone, and say what is dangerous."""

from __future__ import annotations

import io
import json
import sys

import click
import pytest

from ci_automation.artifact.reference import Digest, InvalidReference
from ci_automation.cli import coloured, run
from ci_automation.cli.output import confirmed, print_error, print_json, print_parts, print_table, print_text
from ci_automation.cli.verify import derivation_lines
from ci_automation.flows.verify import Derivation
from ci_automation.report.blocks import MarkedLine, Table

PARTS = (
    MarkedLine("CustomResourceDefinition x", "deletes"),
    MarkedLine("an advice", "advice"),
    MarkedLine("plain"),
    Table(("severity", "what"), (("danger", "one"), ("info", "two"))),
)
RED, END = "\x1b[31m", "\x1b[0m"


def test_elsewhere_it_is_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    print_parts(PARTS)
    assert capsys.readouterr().out == (
        "CustomResourceDefinition x\nan advice\nplain\nseverity  what\ndanger    one\ninfo      two\n"
    )


def test_on_a_terminal_danger_is_red(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_parts(PARTS)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(RED)
    assert "CustomResourceDefinition x" in lines[0]
    assert lines[1:3] == ["an advice", "plain"]
    assert RED in next(line for line in lines if "danger" in line)
    assert "\x1b" not in next(line for line in lines if "info" in line)


def test_on_a_narrow_terminal_each_digest_is_in_one_piece(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    digest, why = f"sha256:{'0a' * 32}", "a minor release needs approval; and 3 more reasons"
    table = Table(("", "digest", "why"), (("now", digest, ""), ("needs approval", digest, why)))

    def printed(columns: int) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(columns))
        print_table(table)
        return [line.rstrip() for line in click.unstyle(capsys.readouterr().out).splitlines()]

    now = ["now", f"  digest  {digest}"]
    assert printed(100) == [*now, "needs approval", f"  digest  {digest}", f"  why     {why}"]
    assert max(map(len, printed(80))) <= 80
    drawn = printed(130)
    assert len(drawn) == 4
    assert drawn[1].endswith(digest)
    assert f"needs approval  {digest}  a minor" in drawn[2]
    assert all(len(line) <= 130 for line in drawn)


def test_what_an_artifact_was_made_again_from_has_a_line_each(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    digest = Digest.of(b"x")
    steps = (
        ("release", f"v2.9.4, its manifests {digest}, commit {'0a' * 20}"),
        ("result", f"rebuilding it gives {digest}"),
    )
    derived = Derivation(steps, digest, digest)
    print_parts(derivation_lines(derived, whole=False))
    release, more, result = capsys.readouterr().out.splitlines()[1:]
    assert f"{release} {more.strip()}" == f"  release: v2.9.4, its manifests sha256:{digest.short}, commit {'0a' * 20}"
    assert result == f"  result: rebuilding it gives sha256:{digest.short}"
    assert MarkedLine(f"  result: rebuilding it gives {digest}") in derivation_lines(derived, whole=True)


def test_on_a_terminal_an_error_is_folded_between_words_and_elsewhere_it_is_not(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {}
    for columns in (None, 60):
        monkeypatch.setattr(sys.stderr, "isatty", lambda columns=columns: columns is not None)
        monkeypatch.setenv("COLUMNS", str(columns or 60))
        assert run(["diff", "nothing", "v2.9.4"]) == 2
        told[columns] = click.unstyle(capsys.readouterr().err).replace("\r", "").splitlines()
    assert [line.split()[0] for line in told[None]] == ["error:", "hint:"]
    assert max(map(len, told[60])) <= 60 < max(map(len, told[None]))
    assert " ".join(" ".join(told[60]).split()) == " ".join(" ".join(told[None]).split())


@pytest.mark.parametrize(
    ("environment", "terminal", "has_colours"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": ""}, False, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
    ],
)
def test_colours_can_be_switched_on_and_off(
    environment: dict[str, str],
    terminal: bool,
    has_colours: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: terminal)
    assert run(["check", "layout:nowhere:production"]) == 20
    assert ("\x1b[31m" in capsys.readouterr().err) == has_colours
    with click.Context(click.Command("x"), color=coloured(environment)):
        print_parts(PARTS)
    assert (RED in capsys.readouterr().out) == has_colours


HOSTILE = "a\x1b[2K\rb\x9b31m\u202ec\x7f\u2028d\U000e0041"


@pytest.mark.parametrize(
    ("typed", "answer", "again"),
    [("y\n", True, 0), ("Yes\n", True, 0), ("no\n", False, 0), ("\n", False, 0), ("ja\n sure \n y \n", True, 2)],
)
def test_a_question_is_asked_again_until_the_answer_is_one(
    typed: str, again: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, answer: bool
) -> None:
    keyboard = io.StringIO(typed)
    monkeypatch.setattr(keyboard, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", keyboard)
    assert confirmed("Go back?") is answer
    told = capsys.readouterr().err
    assert told.count("Go back? [y/N]: ") == again + 1
    assert told.count("error: answer y or n, or press Enter for n\n") == again
    assert "Error" not in told


def test_no_text_controls_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_text(f"one\n{HOSTILE}")
    print_parts((MarkedLine(HOSTILE), Table(("a", "b"), ((HOSTILE, "b"),))))
    told = capsys.readouterr().out
    assert told.startswith("one\na")
    assert all(sign.isprintable() for sign in told.replace("\n", ""))


def test_no_json_controls_a_terminal_and_it_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    value = {HOSTILE: [HOSTILE, "grün 🚀"]}
    print_json(value)
    told = capsys.readouterr().out
    assert json.loads(told) == value
    assert "grün 🚀" in told
    assert all(sign.isprintable() for sign in told.replace("\n", ""))


def test_an_error_beside_other_results_is_folded_as_one_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert run(["check", "https://ghcr.io/acme/flux-manifests:production"]) == 2
    alone = click.unstyle(capsys.readouterr().err).replace("\r", "").splitlines()
    print_error(InvalidReference("https://ghcr.io/acme/flux-manifests:production", "x" * 60), "production")
    beside = click.unstyle(capsys.readouterr().out).splitlines()
    for lines in (alone, beside):
        assert max(map(len, lines)) <= 80
        assert lines[0].startswith("error: ")
        assert lines[-1].endswith("invalid-reference)")
    assert beside[0].startswith("error: production: ")
