"""GitHub's REST answers are read strictly: what is not of their form is an error that says where."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ci_automation.flux.listing import Listing, creation, listings, load, tag_commit
from ci_automation.flux.release import InvalidReleaseList, UnknownCommit
from ci_automation.flux.version import Version

V = Version.parse("v2.9.4")
SHA = "a" * 40
RELEASE: dict[str, Any] = {
    "tag_name": "v2.9.4",
    "published_at": "2026-08-07T14:22:55Z",
    "draft": False,
    "prerelease": True,
    "assets": [{"name": "manifests.tar.gz", "id": 1}],
    "what": "GitHub may add",
}


def test_a_list_is_read() -> None:
    (listing,) = listings([RELEASE], "here")
    assert listing == Listing("v2.9.4", RELEASE["published_at"], False, True, frozenset({"manifests.tar.gz"}))


def test_a_draft_may_lack_its_date() -> None:
    (listing,) = listings([{**RELEASE, "published_at": None}], "here")
    assert listing.published_at is None


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(None, id="null"),
        pytest.param({"message": "Not Found"}, id="an error of GitHub"),
        pytest.param("v2.9.4", id="text"),
        pytest.param([None], id="null in it"),
        pytest.param(["v2.9.4"], id="text in it"),
        pytest.param([{**RELEASE, "tag_name": 294}], id="tag is a number"),
        pytest.param([{**RELEASE, "tag_name": None}], id="tag is null"),
        pytest.param([{**RELEASE, "draft": "false"}], id="draft is text"),
        pytest.param([{**RELEASE, "draft": 0}], id="draft is a number"),
        pytest.param([{**RELEASE, "prerelease": None}], id="prerelease is null"),
        pytest.param([{**RELEASE, "published_at": 1786112575}], id="date is a number"),
        pytest.param([{**RELEASE, "published_at": False}], id="date is false"),
        pytest.param([{**RELEASE, "assets": None}], id="assets are null"),
        pytest.param([{**RELEASE, "assets": {"name": "x"}}], id="assets are an object"),
        pytest.param([{**RELEASE, "assets": ["manifests.tar.gz"]}], id="assets are texts"),
        pytest.param([{**RELEASE, "assets": [{"name": ["x"]}]}], id="an asset's name is a list"),
    ],
)
def test_a_list_of_another_form_is_refused(value: object) -> None:
    with pytest.raises(InvalidReleaseList, match="here"):
        listings(value, "here")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"<html></html>", id="HTML"),
        pytest.param(b"\xff\xfe\x00", id="not text"),
        pytest.param(b"[" * 200_000, id="nested without end"),
        pytest.param(b"9" * 10_000, id="a number of 10 000 digits"),
        pytest.param(b'[{"tag_name": ', id="cut off"),
    ],
)
def test_what_is_not_json_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidReleaseList, match="not JSON"):
        load(data, "here")


def test_json_is_loaded() -> None:
    assert load(json.dumps([RELEASE]).encode(), "here") == [RELEASE]


def test_the_commit_of_a_tag_is_found() -> None:
    assert (
        tag_commit(
            [{"name": "v2.9.3", "commit": {"sha": "b" * 40}}, {"name": "v2.9.4", "commit": {"sha": SHA}}], V, "here"
        )
        == SHA
    )


@pytest.mark.parametrize("count", [0, 2])
def test_a_tag_that_is_not_there_once_has_no_commit(count: int) -> None:
    with pytest.raises(UnknownCommit, match=f"{count} times"):
        tag_commit([{"name": "v2.9.4", "commit": {"sha": SHA}}] * count, V, "here")


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({}, id="an object"),
        pytest.param([{"name": "v2.9.4"}], id="no commit"),
        pytest.param([{"name": "v2.9.4", "commit": SHA}], id="commit is text"),
        pytest.param([{"name": "v2.9.4", "commit": {"sha": 1}}], id="its name is a number"),
        pytest.param([{"commit": {"sha": SHA}}], id="no name"),
    ],
)
def test_tags_of_another_form_are_refused(value: object) -> None:
    with pytest.raises(InvalidReleaseList, match="here"):
        tag_commit(value, V, "here")


@pytest.mark.parametrize(
    ("value", "created"),
    [
        pytest.param({"created_at": "2026-08-07T14:22:55Z"}, "2026-08-07T14:22:55Z", id="as GitHub writes it"),
        pytest.param({"created_at": "2026-08-07T16:22:55+02:00"}, None, id="does not sort"),
        pytest.param({"created_at": 1}, None, id="number"),
        pytest.param({}, None, id="missing"),
        pytest.param("text", None, id="no object"),
    ],
)
def test_a_date_of_creation_sorts_or_is_unknown(value: object, created: str | None) -> None:
    assert creation(value) == created
