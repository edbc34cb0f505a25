"""What a hold keeps back, until when, and what it lets through."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ci_automation.artifact.reference import Digest
from ci_automation.flux.release import Release
from ci_automation.flux.version import Version
from ci_automation.policy.decision import Decision, Hold, Offered, hold_verdict, is_held, still_on
from ci_automation.policy.gates import Situation, release_verdicts, select
from ci_automation.policy.model import BUMPS, Action, Policy

AT = datetime(2026, 11, 21, tzinfo=UTC)
NOW, DAY = AT + timedelta(days=3), timedelta(days=1)
REFUSED = Digest.of(b"refused")
HOLD = Hold(Version.parse("v2.9.4"), REFUSED, AT)


def offered(version: str, since: datetime | None = AT - DAY, digest: Digest | None = None) -> Offered:
    return Offered(Version.parse(version), since, digest)


@pytest.mark.parametrize(
    ("what", "waits"),
    [
        pytest.param(offered("v2.9.4"), True, id="the refused version"),
        pytest.param(offered("v2.9.4", NOW), True, id="the refused version, whatever its date"),
        pytest.param(offered("v2.9.3"), True, id="one between, that was there"),
        pytest.param(offered("v2.8.8"), True, id="one of the old minor, that was there"),
        pytest.param(offered("v2.8.9", AT + DAY), False, id="one of the old minor, that came since"),
        pytest.param(offered("v2.8.9", None), True, id="one between, and nobody knows since when"),
        pytest.param(offered("v2.9.5"), False, id="a newer one"),
        pytest.param(offered("v3.0.0", AT + DAY), False, id="a new major"),
        pytest.param(Offered(digest=REFUSED), True, id="the refused digest, at a version that stays"),
        pytest.param(Offered(digest=Digest.of(b"other")), False, id="another digest, at a version that stays"),
        pytest.param(offered("v2.9.5", digest=REFUSED), True, id="the refused digest, whatever its version"),
    ],
)
def test_what_waits(what: Offered, *, waits: bool) -> None:
    assert HOLD.keeps_back(what, NOW) is waits
    assert hold_verdict((HOLD,), what, NOW).decision is (Decision.WAIT if waits else Decision.AUTO)


@pytest.mark.parametrize(("days", "waits"), [(1, True), (0, False), (-1, False)])
def test_a_date_ends_it(*, days: int, waits: bool) -> None:
    hold = replace(HOLD, until=NOW + days * DAY)
    assert hold.is_on(NOW) is waits
    assert hold.keeps_back(offered("v2.9.4"), NOW) is waits
    assert still_on((hold,), Version.parse("v2.8.8"), NOW) == ((hold,) if waits else ())


@pytest.mark.parametrize(("until", "ended"), [(None, False), (AT, True), (AT + DAY, False)])
def test_one_that_ends_with_its_own_moment_is_over(until: datetime | None, *, ended: bool) -> None:
    assert replace(HOLD, at=AT, until=until, moved=AT - timedelta(days=1)).has_ended is ended
    assert replace(HOLD, at=AT, until=until).has_ended is False  # by a clock that was behind that of a record


@pytest.mark.parametrize(("version", "goes_on"), [("v2.8.8", True), ("v2.9.4", True), ("v2.9.5", False)])
def test_it_goes_along_until_something_newer_is_there(version: str, *, goes_on: bool) -> None:
    assert still_on((HOLD,), Version.parse(version), NOW) == ((HOLD,) if goes_on else ())


ALONE = replace(HOLD, alone=True)


@pytest.mark.parametrize("version", ["v2.9.4", "v2.8.8"])
def test_on_a_digest_alone_it_refuses_no_release_and_goes_on_as_long(version: str) -> None:
    assert not ALONE.keeps_back(offered(version), NOW)
    assert ALONE.keeps_back(offered(version, digest=REFUSED), NOW)
    assert still_on((ALONE,), Version.parse(version), NOW) == (ALONE,)
    assert still_on((ALONE,), Version.parse("v2.9.5"), NOW) == ()


@pytest.mark.parametrize(
    ("hold", "said"),
    [
        (HOLD, "v2.9.4 was rolled back on 2026-11-21, and stays on hold until the channel takes a newer release"),
        (
            replace(HOLD, until=NOW + DAY, reason="webhooks time out"),
            "v2.9.4 was rolled back on 2026-11-21, and stays on hold until 2026-11-25 00:00 UTC: webhooks time out",
        ),
    ],
)
def test_it_says_what_waits_and_why(hold: Hold, said: str) -> None:
    verdict = hold_verdict((hold,), offered("v2.9.4"), NOW)
    assert (verdict.gate, verdict.reason) == ("hold", said)
    assert str(REFUSED) in verdict.looked_at
    assert hold.goes_on_as == f"The hold on v2.9.4 ({REFUSED}) goes on {hold.end}."


@pytest.mark.parametrize(("since", "there"), [(AT - DAY, "there already when"), (None, "not known to be new since")])
def test_of_an_older_release_it_says_that_this_one_was_not_rolled_back(since: datetime | None, there: str) -> None:
    assert hold_verdict((HOLD,), offered("v2.8.8", since), NOW).reason == (
        f"it is older than the rolled-back v2.9.4, and was {there} that was rolled back on 2026-11-21; it stays on "
        "hold until the channel takes a newer release"
    )
    assert hold_verdict((HOLD,), offered("v2.9.5", digest=REFUSED), NOW).reason.startswith("v2.9.4 was rolled back on")


def test_of_content_it_says_which_digest_waits() -> None:
    said = hold_verdict((HOLD,), Offered(digest=REFUSED), NOW).reason
    assert said.startswith(f"digest {REFUSED.short} was rolled back on 2026-11-21, and stays on hold until")


def test_it_says_too_that_nothing_waits() -> None:
    assert hold_verdict((), offered("v2.9.4"), NOW).looked_at == "0 holds on the present digest"
    assert hold_verdict((HOLD,), offered("v2.9.5"), NOW).looked_at == "1 hold on the present digest"


def test_of_several_holds_one_is_enough() -> None:
    older = replace(HOLD, version=Version.parse("v2.9.0"), digest=Digest.of(b"older"))
    assert hold_verdict((older, HOLD), offered("v2.9.4"), NOW).decision is Decision.WAIT


def situation(*holds: Hold) -> Situation:
    policy = Policy(actions=dict.fromkeys(BUMPS, Action.AUTO), min_release_age=dict.fromkeys(BUMPS, timedelta()))
    return Situation(Version.parse("v2.8.8"), policy, NOW, holds=holds)


def releases(*versions: str) -> tuple[Release, ...]:
    return tuple(Release(Version.parse(version), AT - DAY) for version in versions)


def test_the_gate_is_asked_of_every_step() -> None:
    (release,) = releases("v2.9.4")
    verdict = next(it for it in release_verdicts(release, situation(HOLD)) if it.gate == "hold")
    assert verdict.decision is Decision.WAIT


def test_nothing_between_takes_the_place_of_what_was_refused() -> None:
    selection = select(situation(HOLD), releases("v2.9.0", "v2.9.3", "v2.9.4"))
    assert [(str(it.release.version), it.decision) for it in selection.steps] == [("v2.9.4", Decision.WAIT)]


def test_something_newer_is_taken_past_it() -> None:
    selection = select(situation(HOLD), releases("v2.9.3", "v2.9.4", "v2.9.5"))
    assert [(str(it.release.version), it.decision) for it in selection.steps] == [("v2.9.5", Decision.AUTO)]


_VERSIONS = st.builds(lambda minor, patch: Version.parse(f"v2.{minor}.{patch}"), st.integers(0, 9), st.integers(0, 9))
_TIMES = st.integers(-900, 900).map(lambda days: AT + days * DAY)


@given(_VERSIONS, _TIMES, _TIMES)
def test_without_a_date_the_refused_version_never_comes_back_and_a_newer_one_is_never_kept_back(
    version: Version, since: datetime, now: datetime
) -> None:
    assert HOLD.keeps_back(Offered(HOLD.version, since), now)
    if version > HOLD.version:
        assert not HOLD.keeps_back(Offered(version, since), now)


def test_of_several_about_one_digest_that_of_the_later_rollback_is_the_last() -> None:
    lifted = replace(HOLD, at=AT + 9 * DAY, until=AT, moved=AT)
    again = replace(HOLD, at=AT + DAY)
    assert sorted((again, lifted, HOLD), key=lambda hold: hold.order) == [HOLD, lifted, again]


def test_a_step_is_held_where_a_hold_makes_it_wait_and_not_where_something_else_does() -> None:
    waits, passes = (hold_verdict((HOLD,), offered(version), NOW) for version in ("v2.9.4", "v2.9.5"))
    soaks = replace(waits, gate="soak")
    assert [is_held((soaks, it)) for it in (waits, passes)] == [True, False]


def test_a_hold_on_a_digest_alone_is_called_by_the_digest() -> None:
    assert HOLD.told == f"v2.9.4 ({REFUSED.short})"
    assert ALONE.told == f"digest {REFUSED.short}"
    assert ALONE.goes_on_as == f"The hold on digest {REFUSED} goes on {ALONE.end}."
    reason = hold_verdict((ALONE,), offered("v2.9.4", digest=REFUSED), NOW).reason
    assert reason.startswith(f"digest {REFUSED.short} was rolled back on 2026-11-21, and stays on hold until")


@pytest.mark.parametrize(
    ("other", "does"),
    [
        pytest.param({}, True, id="itself"),
        pytest.param({"at": AT - DAY}, True, id="an earlier one"),
        pytest.param({"at": AT + DAY}, False, id="a later one"),
        pytest.param({"digest": Digest.of(b"other")}, False, id="one on another digest"),
        pytest.param({"until": AT + 5 * DAY}, True, id="one that ends as early"),
        pytest.param({"until": AT + 4 * DAY}, True, id="one that ends earlier"),
        pytest.param({"until": AT + 6 * DAY}, False, id="one that ends later"),
        pytest.param({"until": None}, False, id="one without a date"),
        pytest.param({"alone": True}, True, id="one on the digest alone"),
    ],
)
def test_what_another_hold_adds_nothing_to(other: dict[str, object], *, does: bool) -> None:
    hold = replace(HOLD, until=AT + 5 * DAY)
    assert hold.outlasts(replace(hold, **other)) is does  # type: ignore[arg-type]
    assert not replace(HOLD, alone=True).outlasts(HOLD)
    assert HOLD.outlasts(hold)


def test_the_hold_on_exactly_this_release_is_the_reason() -> None:
    older = replace(HOLD, version=Version.parse("v2.8.8"), digest=Digest.of(b"older"), reason="leaks memory")
    newer = replace(HOLD, reason="webhooks")
    for holds in ((newer, older), (older, newer)):
        said = hold_verdict(holds, offered("v2.8.8"), NOW).reason
        assert said.startswith("v2.8.8 was rolled back on 2026-11-21, and stays on hold")
        assert said.endswith(": leaks memory")
        assert hold_verdict(holds, offered("v2.9.3"), NOW).reason.endswith(": webhooks")
        assert "v2.8.8 was rolled back" in hold_verdict(holds, offered("v2.8.8", NOW, older.digest), NOW).reason
