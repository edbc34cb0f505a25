"""What the runner reads as a command, and what it never does."""

from __future__ import annotations

import io
import re
import sys
from typing import TYPE_CHECKING

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_automation.action.workflow_commands import (
    MAX_SUMMARY_BYTES,
    CommandFileUnwritable,
    DelimiterInValue,
    Log,
    annotation,
    append,
    escape_data,
    escape_property,
    group,
    harmless,
    hide,
    logging_to,
    masks,
    output_text,
    random_delimiter,
    room_for_summary,
    workflow_command,
)
from tests.fakes.runner import lines_of, looks_like_command, outputs

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = [
    "::set-output name=changed::true",
    "  \t::error::x",
    "\u00a0\u2003::error::x",
    "\ufeff::error::x",
    "\u200b::add-mask::e",
    "\x00\x1b::stop-commands::x",
    "\x85::error::x",
    "##[error]x",
    "text ##[add-mask]e",
    "##[##[set-env name=PATH]/tmp",
    "::::error::x",
    ":: ::error::",
]
TEXTS = st.text(alphabet=st.sampled_from(list(":#[]\r\n \t\u00a0\u2028\ufeff\u200b\x1b=,%ab")), max_size=40)
VALUES = st.dictionaries(st.from_regex(r"[a-z][a-z-]{0,6}", fullmatch=True), st.text(max_size=60), max_size=4)


def commands_in(text: str) -> list[str]:
    return [line for line in lines_of(text) if looks_like_command(line)]


def unescaped(text: str) -> str:
    """Return what the runner makes of data (`ActionCommand.cs`, UnescapeData)."""
    return text.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")


def test_the_oracle_sees_what_is_hostile() -> None:
    assert [line for line in HOSTILE if not commands_in(line)] == []


@pytest.mark.parametrize("line", HOSTILE)
def test_no_text_is_read_as_a_command(line: str) -> None:
    assert commands_in(harmless(line)) == []


@given(TEXTS)
def test_no_text_at_all_is_read_as_a_command(text: str) -> None:
    out = io.StringIO()
    log = Log(out, runner=True)
    for piece in re.findall(r".{1,3}", text, re.DOTALL):  # however it arrives
        log.write(piece)
    log.finish()
    assert commands_in(out.getvalue()) == []


@pytest.mark.parametrize("line", ["", "rendering v2.9.4", "sha256:00", "a::b", "# [x]", "  indented", "Ünïcode"])
def test_ordinary_lines_stay_as_they_are(line: str) -> None:
    assert harmless(line) == line


@given(TEXTS)
def test_data_is_one_line_and_comes_back(text: str) -> None:
    assert len(lines_of(escape_data(text))) == 1
    assert unescaped(escape_data(text)) == text


@given(TEXTS)
def test_a_property_can_neither_end_itself_nor_begin_another(text: str) -> None:
    escaped = escape_property(text)
    assert not set(escaped) & set("\r\n:,")
    assert unescaped(escaped.replace("%3A", ":").replace("%2C", ",")) == text


@given(TEXTS, TEXTS, TEXTS)
def test_a_command_has_the_properties_and_data_that_it_was_given(message: str, title: str, file: str) -> None:
    line = annotation("error", message, title=title, file=file, line=3, col=7)
    match = re.fullmatch(r"::error ([^:]*)::(.*)", line, re.DOTALL)
    assert match
    properties = dict(part.split("=", 1) for part in match[1].split(","))
    assert properties.keys() == {"line", "col"} | ({"title"} if title else set()) | ({"file"} if file else set())
    assert unescaped(match[2]) == message


def test_a_command_without_properties_is_short() -> None:
    assert workflow_command("endgroup") == "::endgroup::"
    assert annotation("notice", "done") == "::notice::done"


@pytest.mark.parametrize(
    ("secret", "hidden"),
    [
        pytest.param("canary-a", ["canary-a"], id="one line"),
        pytest.param(" canary-a\n", ["canary-a"], id="blanks around it"),
        pytest.param("canary-a\ncanary-b\r\n", ["canary-a", "canary-b"], id="each line"),
        pytest.param("canary-100%0A", ["canary-100%0A"], id="what looks escaped"),
        pytest.param(" \n ", [], id="nothing"),
        pytest.param("", [], id="empty"),
    ],
)
def test_a_secret_is_hidden_by_the_line(secret: str, hidden: list[str]) -> None:
    assert [unescaped(line.removeprefix("::add-mask::")) for line in masks(secret)] == hidden


def test_both_streams_go_to_one_log_and_hold_no_command() -> None:
    out = io.StringIO()
    with logging_to(out, runner=True) as log:
        click.echo("::error::on standard output")
        click.echo("::error::on standard error", err=True)
        print("half ", end="")
        print("##[error]a line", file=sys.stderr)
        sys.stderr.write("a\r::warning::b\r\n::notice::c")
        log.command(workflow_command("error", "ours"))
        click.secho("coloured", fg="red")
    assert out.getvalue().splitlines() == [
        "| ::error::on standard output",
        "| ::error::on standard error",
        "half # #[error]a line",
        "a",
        "| ::warning::b",
        "| ::notice::c",
        "::error::ours",
        "coloured",
    ]


def test_what_has_no_end_is_ended_with_the_log() -> None:
    out = io.StringIO()
    with logging_to(out, runner=True):
        print("::error::", end="")
    assert out.getvalue() == "| ::error::\n"


def test_the_streams_are_there_again_after_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(LookupError), logging_to(sys.stdout, runner=True):
        raise LookupError
    click.echo("::here::")
    assert capsys.readouterr().out == "::here::\n"


def test_a_secret_is_hidden_from_inside_of_the_log() -> None:
    out = io.StringIO()
    with logging_to(out, runner=True):
        print("before")
        hide("canary-a%", runner=True)
        print("after")
    assert out.getvalue() == "before\n::add-mask::canary-a%25\nafter\n"


def test_a_secret_is_hidden_without_a_log_too(capsys: pytest.CaptureFixture[str]) -> None:
    hide("canary-a", runner=True)
    assert capsys.readouterr().err == "::add-mask::canary-a\n"


def test_without_a_runner_no_command_is_given_and_no_text_is_changed(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to(sys.stdout, runner=False) as log, group(log, "title"):
        hide("canary-a", runner=False)
        print("::x::")
        log.command(workflow_command("error", "x"))
    assert capsys.readouterr().out == "::x::\n"


def test_a_group_ends_after_an_error() -> None:
    out = io.StringIO()
    log = Log(out, runner=True)
    with pytest.raises(LookupError), group(log, "a: b\n"):
        raise LookupError
    assert out.getvalue() == "::group::a: b%0A\n::endgroup::\n"


def test_what_cannot_be_written_is_replaced() -> None:
    out = io.StringIO()
    log = Log(out, runner=True)
    print("a\udc80b", file=log)
    assert out.getvalue() == "a?b\n"
    assert (log.writable(), log.encoding) == (True, "utf-8")


@given(VALUES)
def test_the_runner_reads_what_was_written(values: dict[str, str]) -> None:
    assert outputs(output_text(values)) == values


def test_a_value_that_imitates_the_syntax_is_just_a_value() -> None:
    hostile = "EOF\nchanged<<EOF\ntrue\nEOF\nend_\nchanged=true"
    assert outputs(output_text({"reasons": hostile, "changed": "false"})) == {"reasons": hostile, "changed": "false"}


@pytest.mark.parametrize(
    "value", ["end_x", "a\nend_x\nchanged<<E", "an end_x inside"], ids=["alone", "a line", "a part"]
)
def test_a_value_that_holds_the_delimiter_is_refused(value: str) -> None:
    with pytest.raises(DelimiterInValue, match="the output reasons"):
        output_text({"changed": "true", "reasons": value}, lambda: "end_x")


@pytest.mark.parametrize("name", ["a\nb", "a<<b", "a=b", ""])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(DelimiterInValue):
        output_text({name: "x"})


def test_delimiters_are_never_the_same() -> None:
    assert len({random_delimiter() for _ in range(1000)}) == 1000


def test_what_others_wrote_stays(tmp_path: Path) -> None:
    file = tmp_path / "output"
    file.write_text("a=b\n")
    append(file, "c=ü\udc80\n")
    assert file.read_bytes() == "a=b\nc=ü?\n".encode()


def test_without_a_file_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    append(None, "x")
    assert list(tmp_path.iterdir()) == []
    assert room_for_summary(None) == MAX_SUMMARY_BYTES - 1


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandFileUnwritable, match="output cannot be written: No such file"):
        append(tmp_path / "missing" / "output", "x")


def test_the_room_for_a_summary_is_what_is_left(tmp_path: Path) -> None:
    assert room_for_summary(tmp_path / "not there yet") == MAX_SUMMARY_BYTES - 1
    (tmp_path / "some").write_bytes(b"x" * 1000)
    assert room_for_summary(tmp_path / "some") == MAX_SUMMARY_BYTES - 1001
    (tmp_path / "full").write_bytes(b"x" * MAX_SUMMARY_BYTES)
    assert room_for_summary(tmp_path / "full") == 0
