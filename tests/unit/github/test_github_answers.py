"""Reading answers: what GitHub documents is read, and nothing else is taken for it."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_automation.github.answers import Fields, require_name, segment
from ci_automation.github.errors import InvalidRepositoryName, UnexpectedGitHubAnswer
from ci_automation.github.model import Actor

if TYPE_CHECKING:
    from collections.abc import Callable

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | st.just("x"), inner, max_size=3),
)
READERS: tuple[Callable[[Fields], object], ...] = (
    lambda fields: fields.text("x"),
    lambda fields: fields.number("x"),
    lambda fields: fields.flag("x"),
    lambda fields: fields.oid("x"),
    lambda fields: fields.time("x"),
    lambda fields: fields.maybe_text("x"),
    lambda fields: fields.fields("x"),
    lambda fields: fields.maybe("x"),
    lambda fields: fields.each("x"),
    lambda fields: fields.nodes("x"),
    lambda fields: fields.actor("x"),
)


@given(value=json_values, reader=st.sampled_from(READERS))
def test_any_json_is_read_or_refused(value: object, reader: Callable[[Fields], object]) -> None:
    with suppress(UnexpectedGitHubAnswer):  # and nothing else
        reader(Fields(value, "an answer"))


@pytest.mark.parametrize(
    ("reader", "value"),
    [
        pytest.param("text", None, id="nothing for a text"),
        pytest.param("text", 1, id="a number for a text"),
        pytest.param("number", True, id="true for a number"),
        pytest.param("number", "1", id="a text for a number"),
        pytest.param("flag", 1, id="a number for true"),
        pytest.param("flag", None, id="nothing for a flag"),
        pytest.param("oid", "A" * 40, id="an upper-case SHA"),
        pytest.param("oid", "a" * 39, id="a short SHA"),
        pytest.param("time", "2026-01-02T03:04:05", id="a time of no zone"),
        pytest.param("time", "yesterday", id="a time in words"),
        pytest.param("fields", [], id="a list for an object"),
        pytest.param("each", {}, id="an object for a list"),
        pytest.param("each", [1], id="a list of numbers"),
        pytest.param("actor", {"type": "User"}, id="an account without a login"),
    ],
)
def test_what_is_not_what_it_must_be_is_refused(reader: str, value: object) -> None:
    with pytest.raises(UnexpectedGitHubAnswer):
        getattr(Fields({"x": value}, "an answer"), reader)("x")


def test_a_time_is_of_utc() -> None:
    assert Fields({"x": "2026-01-02T03:04:05Z"}, "").time("x") == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_lists_of_graphql_may_have_nothing_at_a_place() -> None:
    assert [node.number("n") for node in Fields({"x": {"nodes": [{"n": 1}, None]}}, "").nodes("x")] == [1]


@pytest.mark.parametrize(
    ("account", "actor"),
    [
        pytest.param(None, None, id="gone"),
        pytest.param({"login": "ada", "type": "User"}, Actor("ada"), id="a person, REST"),
        pytest.param({"login": "ada", "__typename": "User"}, Actor("ada"), id="a person, GraphQL"),
        pytest.param({"login": "ada"}, Actor("ada"), id="a person, of whom no more is said"),
        pytest.param({"login": "x[bot]", "type": "Bot"}, Actor("x[bot]", is_bot=True), id="an App, REST"),
        pytest.param({"login": "x", "__typename": "Bot"}, Actor("x[bot]", is_bot=True), id="an App, GraphQL"),
        pytest.param({"login": "x[bot]"}, Actor("x[bot]", is_bot=True), id="an App that asks who it is"),
        pytest.param({"login": "x[bot]", "__typename": "User"}, Actor("x[bot]", is_bot=True), id="an App as an author"),
        pytest.param({"login": "acme", "type": "Organization"}, Actor("acme"), id="an organisation"),
    ],
)
def test_an_app_has_one_name_however_it_is_written(account: Any, actor: Actor | None) -> None:
    assert Fields({"x": account}, "").actor("x") == actor


@pytest.mark.parametrize("name", ["acme/fleet", "a/b", "acme-1/.github", "acme/a.b_c-d", "acme/..."])
def test_names_of_repositories_are_taken(name: str) -> None:
    assert require_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["", "acme", "acme/", "/fleet", "acme/fleet/x", "acme/..", "acme/.", "acme/a b", "../acme", "acme/fleet\n", "ä/b",
     "acme/x?y", "acme/x#y", "acme/x%2f"],
)  # fmt: skip
def test_what_could_be_another_path_is_no_name(name: str) -> None:
    with pytest.raises(InvalidRepositoryName):
        require_name(name)


@given(st.text())
def test_a_segment_stays_one(text: str) -> None:
    assert not set(segment(text)) & set("/?#&=\r\n ")
