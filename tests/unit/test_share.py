"""Which of many like cases the real tier takes."""

from __future__ import annotations

import pytest

from tests.real import share as module
from tests.real.proxy import Request
from tests.real.share import dealt, kills, kind_of, share


@pytest.fixture(autouse=True)
def every(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVERY", 4)


def test_every_nth_is_taken_and_the_first_and_the_last() -> None:
    assert share(range(11)) == [0, 4, 8, 10]


def test_of_each_kind_one_is_taken() -> None:
    assert share(["a", "b", "a", "c", "a", "a"], kind=str) == ["a", "b", "c", "a", "a"]


@pytest.mark.parametrize(("number", "taken"), [(0, []), (1, [0]), (2, [0, 1])])
def test_of_few_all_are_taken(number: int, taken: list[int]) -> None:
    assert share(range(number)) == taken


def test_all_are_taken_where_one_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVERY", 1)
    assert share(range(11)) == dealt(range(11), 1, 2) == list(range(11))
    assert "all" in module.told()


def test_what_was_left_out_is_told() -> None:
    assert "one in 4" in module.told()
    assert "EVERY=1" in module.told()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/v2/a/b/manifests/production", "/v2/NAME/manifests/production"),
        ("/v2/a/b/manifests/v2.9.4-1a2b3c4d5e6f", "/v2/NAME/manifests/VERSION"),
        (f"/v2/a/b/manifests/sha256:{'0' * 64}", "/v2/NAME/manifests/DIGEST"),
        (f"/v2/a/b/manifests/sha256-{'0' * 64}.sig", "/v2/NAME/manifests/DIGEST.sig"),
        (f"/v2/a/b/blobs/sha256:{'0' * 64}", "/v2/NAME/blobs/DIGEST"),
        (f"/v2/a/b/referrers/sha256:{'0' * 64}?n=1", "/v2/NAME/referrers/DIGEST"),
        ("/v2/a/b/blobs/uploads/?mount=x", "/v2/NAME/blobs/uploads/"),
        ("/v2/a/b/blobs/uploads/1-2-3?_state=x", "/v2/NAME/blobs/uploads/ONE"),
    ],
)
def test_requests_for_other_names_are_of_one_kind(path: str, kind: str) -> None:
    assert kind_of(Request("GET", path, 200)) == ("GET", kind)


def test_a_run_is_killed_at_writes_or_at_all_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = [Request(method, "/v2/a/b/manifests/x", 201) for method in ("GET", "PUT", "HEAD", "PUT", "POST")]
    assert kills(requests) == [2, 5]
    assert [kills(requests, moment, 2) for moment in range(2)] == [[2], [5]]
    assert kills(requests[:1]) == []
    monkeypatch.setattr(module, "EVERY", 1)
    assert kills(requests) == [1, 2, 3, 4, 5]
