"""Foreign text on GitHub's pages: it can be read, and it does nothing."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ci_automation.report.markdown import inline, one_line, quote

if TYPE_CHECKING:
    from collections.abc import Iterable

    from markdown_it.token import Token

MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
# What GitHub acts on, in a page or in the message of a commit.
ACTS = re.compile(
    r"(?:^|[^A-Za-z0-9])@[a-z0-9]|\w@[\w-]+\.\w|#[0-9]|(?:^|[^a-z0-9])gh-[0-9]|(?:https?|ftp)://|(?:^|[^a-z0-9])www\."
    r"|\[(?:skip ci|ci skip|no ci|skip actions|actions skip)\]|(?m:^/[a-z])",
    re.IGNORECASE,
)
PIECES = st.sampled_from(
    [
        *"@#1a/h.-+*_`|<>![]()&\\:${}\n\t\u202e\u200b\x00\ufe0f\u3164\u0301\u00e9\uff20",
        *("gh-", "GH-", "42", "octocat", "acme/", "http://", "https://", "HTTPS://", "www.", "://", "//", "```", "~~~"),
        *("closes ", "fixes ", "<!--", "-->", "</details>", "<img ", "javascript:", "&#64;", "skip ci", "\n\n", "\r\n"),
        *("\x1b[2J", "sha256:", ":shipit:"),
    ]
)
HOSTILE = st.one_of(st.text(), st.lists(PIECES, max_size=30).map("".join), st.lists(PIECES, max_size=30).map(" ".join))


def flat(tokens: Iterable[Token]) -> list[Token]:
    return [each for token in tokens for each in (token, *flat(token.children or ()))]


def kinds(markdown: str) -> list[str]:
    return [token.type for token in flat(MARKDOWN.parse(markdown))]


def shown(markdown: str) -> str:
    """Return what a page shows of the text in `markdown`."""
    tokens = flat(MARKDOWN.parse(markdown))
    return "".join(token.content for token in tokens if token.type in {"text", "text_special", "code_inline", "fence"})


def unseen(text: str) -> list[str]:
    return [
        character
        for character in text
        if character != "\n"
        and (unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"} or character == "\u3164")
    ]


class TestQuote:
    @pytest.mark.parametrize(
        ("text", "read"),
        [
            pytest.param("Thanks to @octocat!", "Thanks to @ octocat!", id="a person"),
            pytest.param("cc @acme/platform", "cc @ acme/platform", id="a team"),
            pytest.param("mail a@example.com", "mail a@ example.com", id="mail"),
            pytest.param("ghcr.io/acme/x@sha256:ab", "ghcr.io/acme/x@sha256:ab", id="an image stays"),
            pytest.param("see @sha256:ab", "see @ sha256:ab", id="somebody of that name"),
            pytest.param("Fixes #123", "Fixes # 123", id="an issue"),
            pytest.param("closes GH-7 and gh-8", "closes GH -7 and gh -8", id="an issue in the old way"),
            pytest.param("a high-10 ranking", "a high-10 ranking", id="no issue"),
            pytest.param("fixes acme/fleet#1", "fixes acme/fleet# 1", id="an issue elsewhere"),
            pytest.param(
                "Resolves https://github.com/a/b/issues/1", "Resolves github.com/a/b/issues/1", id="an issue's address"
            ),
            pytest.param("hhttp://ttp://x", " x", id="an address in another"),
            pytest.param("at www.example.com", "at www .example.com", id="an address without its beginning"),
            pytest.param("[skip ci] [Skip Actions]", "[ skip ci] [ Skip Actions]", id="words that hold runs back"),
            pytest.param("/close", " /close", id="a command of a bot"),
            pytest.param("![x](https://evil.example/p.png)", "![x](evil.example/p.png)", id="an image to load"),
            pytest.param("a\r\nb\tc", "a\nb   c", id="ends of lines and tabs"),
            pytest.param("a\x1b[31m\u202eb", "a\ufffd[31m\ufffdb", id="what controls a terminal"),
            pytest.param("e" + "\u0301" * 50, "e\u0301\u0301", id="a pile of marks"),
            pytest.param("\u3164x\u00a0y", " x y", id="blanks that are none"),
            pytest.param("\n\n a \n\n", " a", id="blank lines around"),
        ],
    )
    def test_what_would_act_is_taken_apart(self, text: str, read: str) -> None:
        assert quote(text, 1000) == f"```text\n{read}\n```"

    @pytest.mark.parametrize("text", ["", " \n\t\r\n "])
    def test_no_text_is_no_block(self, text: str) -> None:
        assert quote(text, 1000) == ""

    def test_a_limit_without_room_is_no_block(self) -> None:
        assert quote("notes", 20) == ""

    def test_the_fence_is_longer_than_any_in_the_text(self) -> None:
        assert quote("```\n# x\n````", 1000) == "`````text\n```\n# x\n````\n`````"
        assert quote("`" * 5000, 10_000) == f"{'`' * 9}text\n{'`' * 8}\n{'`' * 9}"

    @pytest.mark.parametrize("text", ["x" * 1000, "x" * 101, f"x{' ' * 200}", "``` " * 40])
    def test_a_long_text_is_cut_and_says_so(self, text: str) -> None:
        block = quote(text, 100)
        assert len(block) <= 100
        assert "\n… (cut here)\n" in block

    def test_what_fits_is_whole(self) -> None:
        assert quote("x" * 20, len("```text\n\n```") + 20) == f"```text\n{'x' * 20}\n```"

    @given(HOSTILE, st.integers(min_value=0, max_value=300))
    def test_nothing_acts_whatever_the_text_is(self, text: str, limit: int) -> None:
        block = quote(text, limit)
        assert len(block) <= limit
        assert not ACTS.search(block)
        assert not unseen(block)

    @given(HOSTILE)
    def test_nothing_leaves_the_block(self, text: str) -> None:
        block = quote(text, 1000)
        page = f"<details>\n<summary>Notes</summary>\n\n{block}\n\n</details>\n\nafter *it*\n"
        expected = ["html_block", *(["fence"] if block else []), "html_block"]
        assert kinds(page)[: len(expected)] == expected
        assert kinds(page)[len(expected)] == "paragraph_open"
        assert "em_open" in kinds(page)


class TestInline:
    @pytest.mark.parametrize(
        ("text", "written"),
        [
            pytest.param("a minor release needs approval", "a minor release needs approval", id="a sentence"),
            pytest.param("a|b", r"a\|b", id="the end of a cell"),
            pytest.param("a\nb\r\n\nc", "a b c", id="the end of a line"),
            pytest.param("<b>`x`*y*_z_", r"\<b\>\`x\`\*y\*\_z\_", id="markup"),
            pytest.param("[x](https://evil.example)", r"\[x\](evil.example)", id="a link"),
            pytest.param("- x", r"\- x", id="a list"),
            pytest.param("12. x", r"12\. x", id="a numbered list"),
            pytest.param("v2.9.4 is 1.5 old", "v2.9.4 is 1.5 old", id="a version"),
            pytest.param("# x", r"\# x", id="a heading"),
            pytest.param("see #12 by @octocat", r"see \# 12 by @ octocat", id="an issue and a person"),
            pytest.param("&#64;octocat", r"\&\# 64;octocat", id="a person in disguise"),
            pytest.param(":shipit:", ": shipit:", id="an image"),
            pytest.param("x" * 300, "x" * 199 + "…", id="endless"),
        ],
    )
    def test_it_is_one_line_without_markup(self, text: str, written: str) -> None:
        assert inline(text) == written

    @given(HOSTILE)
    def test_it_is_text_and_nothing_else_in_any_place(self, text: str) -> None:
        part = inline(text)
        plain = {"inline", "text", "text_special"}
        paragraph = {"paragraph_open", "paragraph_close"}
        assert set(kinds(part)) <= plain | paragraph
        assert set(kinds(f"- {part}")) <= plain | paragraph | {
            "bullet_list_open", "bullet_list_close", "list_item_open", "list_item_close",
        }  # fmt: skip
        table = kinds(f"| a | b |\n| --- | --- |\n| x{part} | end |\n")
        assert table.count("td_open") == 2
        assert {kind for kind in table if not kind.startswith(("t", "inline"))} == set()

    @given(HOSTILE)
    def test_nothing_acts_in_what_a_page_shows(self, text: str) -> None:
        assert not ACTS.search(inline(text))
        assert not ACTS.search(shown(inline(text)))
        assert not unseen(inline(text))
        assert "\n" not in inline(text)


@given(HOSTILE, st.integers(min_value=1, max_value=100))
def test_a_line_for_a_title_is_short_and_does_nothing(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line) <= limit
    assert not ACTS.search(line)
    assert line == line.strip()
