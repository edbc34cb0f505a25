"""What a retention keeps: whatever is needed, whatever is not ours, and the window."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ci_automation.artifact.reference import Digest
from ci_automation.flux.version import Version
from ci_automation.policy.retention import NothingKept, Stored, Window, named_by_others, retain

if TYPE_CHECKING:
    from collections.abc import Sequence

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def stored(
    version: str, *, ours: bool = True, others: tuple[str, ...] = (), days: int | None = 100, here: bool = True
) -> Stored:
    at = None if days is None else NOW - timedelta(days=days)
    digest = Digest.of(f"{version}{ours}{others}{days}{here}".encode())
    return Stored(digest, f"{version}-{digest.short}", Version.parse(version), ours, others, at, here)


def goes(artifacts: Sequence[Stored], window: Window) -> list[str]:
    return [str(artifact.version) for artifact in retain(artifacts, window, NOW).goes]


MANY = [stored(f"v2.{minor}.0") for minor in range(5)]


@pytest.mark.parametrize(
    ("artifacts", "window", "gone"),
    [
        pytest.param(MANY, Window(2), ["v2.2.0", "v2.1.0", "v2.0.0"], id="the last two stay"),
        pytest.param(MANY, Window(10), [], id="fewer than the window"),
        pytest.param(
            [*MANY[1:], stored("v2.0.0", others=("production",))], Window(2), ["v2.2.0", "v2.1.0"], id="channel"
        ),
        pytest.param([*MANY[1:], stored("v2.0.0", ours=False)], Window(2), ["v2.2.0", "v2.1.0"], id="not ours"),
        pytest.param(
            [*MANY[:4], stored("v2.9.0", ours=False)], Window(2), ["v2.1.0", "v2.0.0"], id="theirs do not count"
        ),
        pytest.param(
            [*MANY[1:], stored("v2.0.0", days=9)],
            Window(1, timedelta(days=10)),
            ["v2.3.0", "v2.2.0", "v2.1.0"],
            id="young",
        ),
        pytest.param([MANY[4], stored("v2.0.0", days=None)], Window(1), [], id="nothing tells that it was published"),
        pytest.param([*MANY[3:], stored("v2.9.0", days=None)], Window(1), ["v2.3.0"], id="what was not does not count"),
        pytest.param(
            [*MANY[3:], *(stored(f"v2.{minor}.0", here=False) for minor in (8, 9))],
            Window(1),
            ["v2.8.0", "v2.3.0"],
            id="another repository's count by themselves",
        ),
        pytest.param(
            [stored("v2.0.0", days=9), stored("v2.0.0", days=3)], Window(1), ["v2.0.0"], id="two of a version"
        ),
        pytest.param([MANY[4], *MANY[3:]], Window(2), [], id="one digest with two tags counts once"),
        pytest.param([], Window(1), [], id="nothing there"),
    ],
)
def test_what_goes(artifacts: list[Stored], window: Window, gone: list[str]) -> None:
    assert goes(artifacts, window) == gone


def test_of_two_with_a_version_the_one_that_a_channel_had_later_stays() -> None:
    early, late = stored("v2.0.0", days=9), stored("v2.0.0", days=3)
    assert retain([late, early], Window(1), NOW).goes == (early,)


@pytest.mark.parametrize(
    ("artifact", "reason"),
    [
        (stored("v2.0.0", ours=False), "no trusted signer signed it"),
        (stored("v2.0.0", others=("production", "staging")), "production and staging lead to it"),
        (replace(stored("v2.0.0"), last_of=("production",)), "production had it last, by its records"),
        (stored("v2.0.0", days=None), "no signed record names it: a run may be about to publish it"),
        (stored("v2.0.0", days=1), "it is younger than 7 days"),
        (stored("v2.0.0"), "it is among the last 1"),
    ],
)
def test_why_something_stays(artifact: Stored, reason: str) -> None:
    (kept,) = retain([artifact], Window(1, timedelta(days=7)), NOW).kept
    assert kept.reason == reason


@pytest.mark.parametrize("number", [0, -1])
def test_a_window_of_nothing_is_refused(number: int) -> None:
    with pytest.raises(NothingKept):
        Window(number)


_ARTIFACTS = st.lists(
    st.builds(
        stored,
        st.sampled_from([f"v2.{minor}.{patch}" for minor in range(4) for patch in range(3)]),
        ours=st.booleans(),
        others=st.sampled_from([(), ("production",), ("theirs", "staging")]),
        days=st.none() | st.integers(0, 200),
        here=st.booleans(),
    ),
    unique_by=lambda artifact: artifact.digest,
    max_size=12,
)
_AGES = st.none() | st.builds(timedelta, days=st.integers(0, 200))
_WINDOWS = st.tuples(st.integers(1, 5), _AGES).map(lambda given: Window(*given))


@given(_ARTIFACTS, _WINDOWS)
def test_nothing_that_is_protected_ever_goes(artifacts: list[Stored], window: Window) -> None:
    retention = retain(artifacts, window, NOW)
    ours = sorted((it for it in artifacts if it.ours), key=lambda it: it.version, reverse=True)
    for artifact in retention.goes:
        assert artifact.ours
        assert not artifact.others
        assert artifact.at is not None
        assert sum(it.version >= artifact.version for it in ours if it.here is artifact.here) > window.keep_last
        if window.keep_for is not None:
            assert NOW - artifact.at >= window.keep_for
    everything = [*retention.goes, *(kept.artifact for kept in retention.kept)]
    assert sorted(it.digest for it in everything) == sorted(it.digest for it in artifacts)


@given(_ARTIFACTS, _WINDOWS, st.randoms())
def test_it_does_not_depend_on_the_order(artifacts: list[Stored], window: Window, random: object) -> None:
    shuffled = list(artifacts)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert retain(shuffled, window, NOW) == retain(artifacts, window, NOW)


def test_who_else_names_a_digest() -> None:
    one, two = Digest.of(b"1"), Digest.of(b"2")
    tags = {"v2.9.4-x": one, "production": one, "staging": two}
    assert named_by_others(one, {"v2.9.4-x"}, tags) == ("production",)
    assert named_by_others(two, {"staging"}, tags) == ()
