"""No value of an output sets another one, and nothing is written where nobody reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_automation.action.outputs import (
    MAX_SUMMARY_BYTES,
    CommandFileUnwritable,
    DelimiterInValue,
    append,
    output_text,
    random_delimiter,
    room_for_summary,
)
from tests.fakes.runner import outputs

if TYPE_CHECKING:
    from pathlib import Path

VALUES = st.dictionaries(st.from_regex(r"[a-z][a-z-]{0,6}", fullmatch=True), st.text(max_size=60), max_size=4)


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
