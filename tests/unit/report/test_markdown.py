"""Pieces of Markdown hold together, whatever is put into them."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ci_automation.report.markdown import cell, code, folded, inline, link, markdown_table, typed

HOSTILE = st.text(alphabet=st.sampled_from(list("ab `|\\\n\r\t<>[]()!@#*_~:/.&;")), max_size=30)


def cells_of(row: str) -> list[str]:
    """Return the cells as GitHub's parser splits a row: at each bar that no backslash escapes, in code as well."""
    assert "\n" not in row
    pieces = re.findall(r"(?:\\[!-/:-@\[-`{-~]|[^|])*", row.strip().removeprefix("|").removesuffix("|"))
    return [piece.strip() for piece in pieces if piece]


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        pytest.param("sha256:0123", "`sha256:0123`", id="simple"),
        pytest.param("a@b #1 https://e.example", "`a@b #1 https://e.example`", id="GitHub looks for nothing in code"),
        pytest.param(" a ", "`a`", id="blanks around it"),
        pytest.param("", "", id="nothing"),
        pytest.param("a`b", "<code>a&#96;b</code>", id="a backtick"),
        pytest.param("a|b", "<code>a&#124;b</code>", id="a bar"),
        pytest.param("a\nb", "`a b`", id="two lines"),
        pytest.param("a\x1b[2Jb", "`a\N{REPLACEMENT CHARACTER}[2Jb`", id="what controls a terminal"),
    ],
)
def test_code_is_code(text: str, markdown: str) -> None:
    assert code(text) == markdown


@given(HOSTILE)
def test_nothing_ends_the_code_that_it_is_in(text: str) -> None:
    made = code(text)
    if made.startswith("<code>"):
        inner = made.removeprefix("<code>").removesuffix("</code>")
        assert re.fullmatch(r"(?:[A-Za-z0-9 ]|&#[0-9]+;)*", inner)
        assert html.unescape(inner).split() == text.replace("\r", "\ufffd").replace("\t", "\ufffd").split()
    else:
        assert made == "" or re.fullmatch(r"`[^`|\n]+`", made)


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        pytest.param("kubectl get x -o json | kubectl replace -f -", None, id="a bar"),
        pytest.param("a 'b' \\c <d> &amp; *e*", None, id="signs"),
        pytest.param("a`b|c", "<code>a&#96;b&#124;c</code>", id="a backtick"),
        pytest.param(" a\nb ", "`a b`", id="two lines"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_a_command_is_in_the_page_as_it_is_typed(text: str, markdown: str | None) -> None:
    assert typed(text) == (f"`{text}`" if markdown is None else markdown)


@given(HOSTILE)
def test_nothing_ends_a_command_and_all_of_it_is_seen(text: str) -> None:
    (paragraph,) = [it for it in MarkdownIt("commonmark").parse(f"x {typed(text)} y") if it.type == "inline"]
    kinds = [child.type for child in paragraph.children or ()]
    if "`" in text:
        assert kinds == ["text", "html_inline", "text", "html_inline", "text"]
    elif text.strip():
        (seen,) = [child.content for child in paragraph.children or () if child.type == "code_inline"]
        assert seen == text.replace("\r", "\ufffd").replace("\t", "\ufffd").replace("\n", " ").strip()
        assert kinds == ["text", "code_inline", "text"]


def test_what_is_folded_opens_with_a_click_and_nothing_is_not_folded() -> None:
    assert folded("More", "- a") == "<details>\n<summary>More</summary>\n\n- a\n\n</details>"
    assert folded("More", "") == ""


@given(st.lists(st.tuples(HOSTILE, HOSTILE, HOSTILE), max_size=4))
def test_no_cell_ends_its_cell_or_its_row(rows: list[tuple[str, str, str]]) -> None:
    made = markdown_table(("", "a", "b"), [(code(one), inline(two), two + three) for one, two, three in rows])
    lines = made.split("\n")
    assert len(lines) == 2 + len(rows)
    for line in lines:
        assert line.startswith("| ")
        assert line.endswith(" |")
        assert line.count("|") == 4


@given(HOSTILE)
def test_a_row_has_the_cells_that_it_was_given(text: str) -> None:
    row = markdown_table(("a", "b"), [(f"x{inline(text)}x", "y")]).split("\n")[2]
    assert len(cells_of(row)) == 2


def test_a_row_of_another_length_is_no_row() -> None:
    with pytest.raises(ValueError, match="as many cells"):
        markdown_table(("a", "b"), [("a",)])


def test_a_cell_has_several_lines_as_html() -> None:
    assert cell(" a \n b | c \\| d ") == "a<br>b &#124; c &#124; d"


@pytest.mark.parametrize(
    ("url", "markdown"),
    [
        ("https://github.com/acme/fleet/pull/7", "[yes](<https://github.com/acme/fleet/pull/7>)"),
        ("http://ghes.example:8080/a?b=c#d", "[yes](<http://ghes.example:8080/a?b=c#d>)"),
        ("javascript:alert(1)", "yes: `javascript:alert(1)`"),
        ("https://e.example/>)[x](https://f.example", "yes: `https://e.example/>)[x](https://f.example`"),
        ("https://e.example/a b", "yes: `https://e.example/a b`"),
        ("", "yes: "),
    ],
)
def test_a_link_goes_to_a_page_of_the_web(url: str, markdown: str) -> None:
    assert link("yes", url) == markdown
