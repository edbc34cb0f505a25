"""Patterns of identities: which of them match whole texts alone, and how the others are written so."""

from __future__ import annotations

from itertools import islice, product

import pytest
import re2
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ci_automation.policy.patterns import (
    InvalidPattern,
    UnanchoredPattern,
    anchored_form,
    is_anchored,
    is_found,
    require_anchored,
    require_re2,
)

PIECES = st.sampled_from(
    ("^", "$", "|", "(", ")", "?", "*", "+", "a", "b", ".", "\n", "-", "[", "]")
) | st.sampled_from(
    (
        "(?:",
        "(?i)",
        "(?m)",
        "(?m:",
        "(?P<n>",
        "{0}",
        "{0,1}",
        "[^",
        "[]",
        "[|",
        "[[:alpha:]]",
        "[$]",
        r"\A",
        r"\z",
        r"\$",
        r"\^",
        r"\\",
        r"\Q",
        r"\E",
        r"\b",
    )
)
LETTERS = "ab\n$^|[]\\-"
# Every text of at most two letters, and one in 1,999 of those of five.
SHORT = [text for length in range(3) for text in product(LETTERS, repeat=length)]
TEXTS = ["a\nb", *map("".join, [*SHORT, *islice(product(LETTERS, repeat=5), 0, None, 1_999)])]


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param("^a$", id="both ends"),
        pytest.param(r"\Aa\z", id="both ends of the text"),
        pytest.param("^a$|^b$", id="each alternative"),
        pytest.param("^(a|b)$", id="alternatives inside"),
        pytest.param("(^a$|^b$)", id="each alternative of a group"),
        pytest.param("(?:^a$)|(?:^b$)", id="groups as alternatives"),
        pytest.param("(?P<one>^a)b$", id="an anchor in a group"),
        pytest.param("(?i)^a$", id="in any case"),
        pytest.param("(?i:^a$)", id="a group in any case"),
        pytest.param("^[|]$", id="a bar in a class"),
        pytest.param("^[]|]$", id="a bar behind a bracket in a class"),
        pytest.param("^[^]|]$", id="a bar behind a bracket that is left out"),
        pytest.param("^[[:alpha:]|]$", id="a bar behind a class in a class"),
        pytest.param(r"^[\]|]$", id="a bar behind an escaped bracket"),
        pytest.param(r"^a\|b$", id="a bar that is only a bar"),
        pytest.param(r"^a\\$", id="a backslash before the end"),
        pytest.param(r"^\Qa|b\E$", id="quoted"),
        pytest.param("^a$$", id="twice"),
        pytest.param("^$", id="nothing"),
        pytest.param("^ab?$", id="something that may be missing"),
        pytest.param("^\n$", id="a line feed"),
        pytest.param("^{a}$", id="a brace that counts nothing"),
    ],
)
def test_anchored_is_what_matches_only_whole_texts(pattern: str) -> None:
    assert require_anchored(pattern) == pattern


@pytest.mark.parametrize(
    ("pattern", "form"),
    [
        pytest.param("a", "^a$", id="nothing of it"),
        pytest.param("a$", "^a$", id="no beginning"),
        pytest.param("^a", "^a$", id="no end"),
        pytest.param(r"^a\$", r"^a\$$", id="a dollar that is only a dollar"),
        pytest.param(r"^a[$]", "^a[$]$", id="a dollar in a class"),
        pytest.param("^a|b$", "^(?:^a|b$)$", id="half of each alternative"),
        pytest.param("^a$|b", "^(?:^a$|b)$", id="one alternative"),
        pytest.param("^a$|", "^(?:^a$|)$", id="an empty alternative"),
        pytest.param("(^a|b)$", "^(^a|b)$", id="one alternative of a group"),
        pytest.param("(^a$)?", "^(^a$)?$", id="a group that may be missing"),
        pytest.param("(^a$)?b", "^(^a$)?b$", id="a group that may be missing before something"),
        pytest.param("^*a$", "^^*a$", id="a beginning that may be missing"),
        pytest.param("^?a$", "^^?a$", id="the same, asked"),
        pytest.param("^{0}a$", "^^{0}a$", id="the same, counted"),
        pytest.param("^a$?", "^a$?$", id="an end that may be missing"),
        pytest.param("(?m)^a$", None, id="at each line"),
        pytest.param("(?im:^a$)", None, id="at each line of a group"),
        pytest.param("^(?m)a$", None, id="at each line from here"),
        pytest.param(r"^a\Q$", None, id="a quoted dollar"),
        pytest.param("(a", None, id="broken"),
        pytest.param("^a$)", None, id="broken too"),
    ],
)
def test_what_also_matches_a_part_is_refused_and_the_whole_form_told(pattern: str, form: str | None) -> None:
    with pytest.raises(UnanchoredPattern, match="so it also matches longer identities") as error:
        require_anchored(pattern)
    assert anchored_form(pattern) == form
    assert error.value.exit_code == 2
    assert (f"Write {form} if" if form else "Write it without (?m)") in error.value.hint


@settings(max_examples=3000)
@given(st.lists(PIECES, max_size=8).map("".join))
@example("^?a$")
def test_no_pattern_passes_that_matches_a_part(pattern: str) -> None:
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error:
        return
    for candidate in filter(None, (pattern if is_anchored(pattern) else None, anchored_form(pattern))):
        compiled = re2.compile(candidate, options)
        assert all(compiled.fullmatch(text) for text in TEXTS if compiled.search(text)), candidate


@pytest.mark.parametrize("pattern", ["(?=a)", r"(a)\1", "(", ""], ids=["look-ahead", "reference", "broken", "empty"])
def test_what_re2_does_not_take_is_told(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        require_re2(pattern)


def test_a_pattern_is_found_anywhere() -> None:
    assert is_found(require_re2("b+"), "abbc")
    assert not is_found("^b", "abbc")
