from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_automation.flux.version import Bump
from ci_automation.policy.model import Action, IncompletePolicy, InvalidDuration, MinorStep, Policy, duration


def test_without_a_word_patches_go_out_and_minors_are_asked_for() -> None:
    policy = Policy()
    assert policy.actions == {Bump.PATCH: Action.AUTO, Bump.MINOR: Action.APPROVAL, Bump.MAJOR: Action.NEVER}
    assert str(policy.range) == ">=2.0.0"
    assert not policy.prereleases
    day = timedelta(days=1)
    assert policy.min_release_age == {Bump.PATCH: day, Bump.MINOR: 7 * day, Bump.MAJOR: 7 * day}
    assert policy.minor_step is MinorStep.LATEST
    assert policy.freeze == ()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(lambda: Policy(actions={}), "no action for patch releases", id="no actions"),
        pytest.param(
            lambda: Policy(actions={Bump.PATCH: Action.AUTO, Bump.MINOR: Action.AUTO}),
            "no action for major releases",
            id="no action for majors",
        ),
        pytest.param(lambda: Policy(min_release_age={}), "no minimum age for patch releases", id="no ages"),
    ],
)
def test_a_policy_that_leaves_something_open_is_refused(make: type[Policy], message: str) -> None:
    with pytest.raises(IncompletePolicy, match=message):
        make()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        pytest.param("0", 0, id="none"),
        pytest.param("0s", 0, id="none, with its unit"),
        pytest.param("30m", 1_800, id="minutes"),
        pytest.param("336h", 1_209_600, id="hours"),
        pytest.param("7d", 604_800, id="days, which Go has not"),
        pytest.param("1h30m", 5_400, id="two parts"),
        pytest.param("30m1h", 5_400, id="in any order, as in Go"),
        pytest.param("1.5h", 5_400, id="a fraction"),
        pytest.param("0.1s", 0.1, id="of a second"),
        pytest.param("3660d", 316_224_000, id="the longest"),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("24", id="no unit"),
        pytest.param("h", id="no number"),
        pytest.param("-24h", id="negative"),
        pytest.param("24 h", id="a space"),
        pytest.param("24H", id="upper case"),
        pytest.param("2w", id="a unit that it has not"),
        pytest.param("24h\n", id="a line's end"),
        pytest.param("٢h", id="a digit of another script"),
        pytest.param(".5h", id="no digit before the point"),
        pytest.param("3660d1s", id="longer than ten years"),
        pytest.param("9" * 10 + "s", id="a number too long"),
        pytest.param("1s" * 33, id="too many parts"),
    ],
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(InvalidDuration, match="is not a duration") as caught:
        duration(text)
    assert caught.value.exit_code == 2


@given(st.integers(0, 3000), st.integers(0, 99), st.integers(0, 99), st.integers(0, 99_999))
def test_every_part_counts(days: int, hours: int, minutes: int, seconds: int) -> None:
    spelled = f"{days}d{hours}h{minutes}m{seconds}s"
    assert duration(spelled) == timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


@given(st.text(alphabet="0159.dhms -", max_size=12))
def test_any_text_is_a_duration_or_refused(text: str) -> None:
    with suppress(InvalidDuration):
        assert duration(text) >= timedelta(0)
