"""Whether a number means the same item of a list as before."""

from __future__ import annotations

from typing import Any

import pytest

from ci_automation.impact.change import ObjectId
from ci_automation.impact.overlay import targets as module
from ci_automation.impact.overlay.kustomization import Effort
from ci_automation.impact.overlay.outcome import Touch
from ci_automation.impact.overlay.targets import Shift, in_one_line, shift

OWN = ObjectId("", "Own", "", "own")
TOKENS = {"resources": ["tokens"], "verbs": ["create"]}
LEASES = {"resources": ["leases"], "verbs": ["get"]}
OTHER = {"resources": ["other"], "verbs": ["get"]}


def moved(old: list[Any], new: list[Any], index: int) -> Shift | None:
    """Return what became of a number."""
    before, after = (Touch(OWN, "replace", f"/list/{index}", index, tuple(items)) for items in (old, new))
    return shift(before, after, Effort())


@pytest.mark.parametrize(
    ("old", "new", "index"),
    [
        pytest.param(["--a=1", "--b=2"], ["--a=1", "--b=3"], 1, id="another value of the same flag"),
        pytest.param(["--a", "--b"], ["--a", "--b", "--c"], 1, id="more behind it"),
        pytest.param([{"name": "x", "image": 1}], [{"name": "x", "image": 2}], 0, id="the same name"),
        pytest.param([{"mountPath": "/x"}], [{"mountPath": "/x", "name": "n"}], 0, id="the same other key"),
        pytest.param([TOKENS, LEASES], [TOKENS, LEASES], 1, id="the same content"),
        pytest.param([TOKENS, LEASES], [TOKENS, LEASES | {"verbs": ["get", "list"]}], 1, id="the same one, edited"),
        pytest.param([TOKENS, LEASES, OTHER], [TOKENS, {"a": 1}, OTHER], 1, id="between the same others"),
    ],
)
def test_it_does(old: list[Any], new: list[Any], index: int) -> None:
    assert moved(old, new, index) is None


@pytest.mark.parametrize(
    ("old", "new", "index", "means", "now_at", "is_sure"),
    [
        pytest.param(["--a", "--b"], ["--x", "--a", "--b"], 1, "--a", 2, True, id="one more before it"),
        pytest.param(["--a", "--b"], ["--a", "--c"], 1, "--c", None, True, id="another flag at its place"),
        pytest.param(["plain", "b"], ["plain", "c"], 1, "c", None, True, id="another text"),
        pytest.param([{"name": "x"}], [{"name": "y"}], 0, '{"name": "y"}', None, True, id="another name"),
        pytest.param([LEASES, TOKENS], [LEASES, OTHER, TOKENS], 1, "other", 2, True, id="another rule before it"),
        pytest.param([LEASES, TOKENS], [LEASES, OTHER, TOKENS | {"x": 1}], 1, "other", None, False, id="edited too"),
        pytest.param([LEASES, TOKENS, OTHER], [LEASES, OTHER, LEASES], 1, "other", None, False, id="or gone"),
    ],
)
def test_it_does_not(old: list[Any], new: list[Any], index: int, means: str, now_at: int | None, is_sure: bool) -> None:
    found = moved(old, new, index)
    assert found is not None
    assert means in found.means
    assert found.meant == in_one_line(old[index])
    assert (found.now_at, found.is_sure) == (now_at, is_sure)


def test_lists_without_end_are_not_looked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_ITEMS", 1)
    found = moved([TOKENS, LEASES], [TOKENS, OTHER], 1)
    assert found is not None
    assert not found.is_sure


def test_what_is_shown_is_one_short_line() -> None:
    assert in_one_line("a\n\x1b[31m") == "a??[31m"
    assert in_one_line({"b": 1, "a": [2]}) == '{"a": [2], "b": 1}'
    assert in_one_line("x" * 99) == "x" * 77 + "..."


def test_of_long_items_that_are_like_each_other_what_differs_is_shown() -> None:
    like = {"additionalPrinterColumns": ["x" * 100], "schema": {"y": "z" * 100}}
    found = moved([like | {"name": "v1beta2"}], [like | {"name": "v1beta3", "served": True}], 0)
    assert found is not None
    assert (found.meant, found.means) == ('{"name": "v1beta2"}', '{"name": "v1beta3", "served": true}')
