"""Which releases an artifact goes to: tables of what is there, what is available, and what follows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from ci_automation.flux.advisories import Vulnerability
from ci_automation.flux.release import Release
from ci_automation.flux.version import Bump, Version
from ci_automation.policy.decision import Decision, decide
from ci_automation.policy.gates import Selection, Situation, release_verdicts, select, version_verdicts
from ci_automation.policy.model import Action, MinorStep, Period, Policy
from ci_automation.policy.ranges import Range

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
OLD = NOW - timedelta(days=90)


def release(text: str, *, age: timedelta = timedelta(days=90), problem: str | None = None) -> Release:
    version = Version.parse(text)
    return Release(version, NOW - age, prerelease=version.is_prerelease, problem=problem)


def selection(
    current: str, releases: list[Release], policy: Policy | None = None, *, paused: bool = False
) -> Selection:
    return select(Situation(Version.parse(current), policy or Policy(), NOW, paused=paused), releases)


def steps(chosen: Selection) -> list[tuple[str, str]]:
    return [(str(candidate.release.version), str(candidate.decision)) for candidate in chosen.steps]


def passed_over(chosen: Selection) -> dict[str, str]:
    return {str(candidate.release.version): str(candidate.decision) for candidate in chosen.passed_over}


@pytest.mark.parametrize(
    ("current", "available", "expected"),
    [
        pytest.param("2.8.5", ["2.8.5"], [], id="newest already"),
        pytest.param("2.8.5", ["2.8.5", "2.8.6", "2.8.8"], [("v2.8.8", "auto")], id="the newest patch, by itself"),
        pytest.param(
            "2.8.5",
            ["2.8.8", "2.9.0", "2.9.4"],
            [("v2.8.8", "auto"), ("v2.9.4", "approval")],
            id="the patch now, the newest minor asked for on top of it",
        ),
        pytest.param("2.8.8", ["2.9.4"], [("v2.9.4", "approval")], id="a minor alone is asked for"),
        pytest.param("2.9.4", ["2.9.3", "2.8.9"], [], id="a backport published later is no update"),
        pytest.param("2.9.4", ["2.10.0-rc.1"], [], id="release candidates are not taken"),
        pytest.param("2.9.4", ["3.0.0"], [], id="majors are never taken"),
        pytest.param("2.9.4", ["2.10.0"], [("v2.10.0", "approval")], id="versions are numbers, not texts"),
    ],
)
def test_the_default_policy_takes_patches_and_asks_for_minors(
    current: str, available: list[str], expected: list[tuple[str, str]]
) -> None:
    assert steps(selection(current, [release(text) for text in available])) == expected


@pytest.mark.parametrize(
    ("policy", "available", "expected"),
    [
        pytest.param(
            {"actions": {Bump.PATCH: Action.AUTO, Bump.MINOR: Action.AUTO, Bump.MAJOR: Action.NEVER}},
            ["2.8.8", "2.9.4"],
            [("v2.8.8", "auto"), ("v2.9.4", "auto")],
            id="of several that happen by themselves the content decides how far",
        ),
        pytest.param(
            {"actions": {Bump.PATCH: Action.APPROVAL, Bump.MINOR: Action.APPROVAL, Bump.MAJOR: Action.NEVER}},
            ["2.8.8", "2.9.4"],
            [("v2.8.8", "approval")],
            id="one thing is asked for at a time",
        ),
        pytest.param(
            {"actions": {Bump.PATCH: Action.NEVER, Bump.MINOR: Action.APPROVAL, Bump.MAJOR: Action.APPROVAL}},
            ["2.8.8", "2.9.4", "3.0.0"],
            [("v2.9.4", "approval")],
            id="a major waits for the minor",
        ),
        pytest.param(
            {"actions": {Bump.PATCH: Action.AUTO, Bump.MINOR: Action.APPROVAL, Bump.MAJOR: Action.APPROVAL}},
            ["3.0.0", "3.1.0"],
            [("v3.1.0", "approval")],
            id="a major where the policy escalates it",
        ),
        pytest.param(
            {"minor_step": MinorStep.NEXT},
            ["2.9.0", "2.9.4", "2.10.1"],
            [("v2.9.4", "approval")],
            id="one minor at a time, its newest patch",
        ),
        pytest.param(
            {"range": Range.parse("2.8.x")}, ["2.8.8", "2.9.4"], [("v2.8.8", "auto")], id="inside of the range"
        ),
        pytest.param(
            {"prereleases": True},
            ["2.9.0-rc.2"],
            [("v2.9.0-rc.2", "approval")],
            id="pre-releases where they are allowed",
        ),
        pytest.param(
            {"prereleases": True, "range": Range.parse("<2.9.0")},
            ["2.9.0-rc.2"],
            [],
            id="a pre-release of a release outside of the range",
        ),
    ],
)
def test_the_policy_decides(policy: dict[str, object], available: list[str], expected: list[tuple[str, str]]) -> None:
    chosen = selection("2.8.5", [release(text) for text in available], replace(Policy(), **policy))  # type: ignore[arg-type]
    assert steps(chosen) == expected


@pytest.mark.parametrize(
    ("policy", "available", "expected"),
    [
        pytest.param(
            {"actions": {Bump.PATCH: Action.AUTO, Bump.MINOR: Action.AUTO, Bump.MAJOR: Action.NEVER}},
            ["2.8.6", "2.8.8", "2.9.0", "2.9.4"],
            {},
            id="not what a step of its kind brings",
        ),
        pytest.param(
            {"actions": {Bump.PATCH: Action.APPROVAL, Bump.MINOR: Action.AUTO, Bump.MAJOR: Action.NEVER}},
            ["2.8.6", "2.8.8", "2.9.4"],
            {},
            id="not the patches that a minor brings",
        ),
        pytest.param(
            {"minor_step": MinorStep.NEXT},
            ["2.8.8", "2.9.4", "2.10.0", "2.10.1"],
            {"v2.10.1": "approval"},
            id="the newest that comes later",
        ),
        pytest.param(
            {"actions": {Bump.PATCH: Action.APPROVAL, Bump.MINOR: Action.APPROVAL, Bump.MAJOR: Action.NEVER}},
            ["2.8.8", "2.9.3", "2.9.4", "3.0.0"],
            {"v2.9.4": "approval", "v3.0.0": "refused"},
            id="what could be asked for next, and what cannot",
        ),
    ],
)
def test_of_what_could_be_done_as_well_no_more_is_listed_than_what_comes_next(
    policy: dict[str, object], available: list[str], expected: dict[str, str]
) -> None:
    chosen = selection("2.8.5", [release(text) for text in available], replace(Policy(), **policy))  # type: ignore[arg-type]
    assert passed_over(chosen) == expected


HOUR = timedelta(hours=1)
HOLES = tuple(Vulnerability(f"CVE-2026-000{number}", "high", "source-controller") for number in range(7))


@pytest.mark.parametrize(
    ("security", "fixes", "needed"),
    [
        pytest.param(6 * HOUR, 1, "security: 6 hours", id="it may wait less"),
        pytest.param(None, 1, "patch: 1 day", id="the policy does not say so"),
        pytest.param(6 * HOUR, 0, "patch: 1 day", id="it fixes nothing"),
        pytest.param(48 * HOUR, 1, "patch: 1 day", id="never longer than the others"),
    ],
)
def test_a_release_that_fixes_a_vulnerability_may_wait_less(
    security: timedelta | None, fixes: int, needed: str
) -> None:
    policy, young = replace(Policy(), security_age=security), release("2.8.8", age=5 * HOUR)
    situation = Situation(Version.parse("2.8.5"), policy, NOW, fixes={young.version: HOLES[:fixes]})
    verdicts = {verdict.gate: verdict for verdict in release_verdicts(young, situation)}
    assert verdicts["age"].looked_at == f"policy.minReleaseAge.{needed}"
    assert verdicts["age"].decision is Decision.WAIT
    assert ("security" in verdicts) == bool(fixes)


def test_of_many_fixes_the_first_are_named() -> None:
    fixing = release("2.8.8")
    situation = Situation(Version.parse("2.8.5"), Policy(), NOW, fixes={fixing.version: HOLES})
    said = release_verdicts(fixing, situation)[-1]
    assert said.reason.startswith("fixes CVE-2026-0000 (high) in source-controller, CVE-2026-0001 (high)")
    assert (said.reason.endswith("and 2 more"), said.decision, said.allowed) == (True, Decision.AUTO, True)


def test_a_young_patch_waits_and_an_older_one_is_taken_in_its_place() -> None:
    chosen = selection("2.8.5", [release("2.8.6"), release("2.8.8", age=timedelta(hours=5))])
    assert steps(chosen) == [("v2.8.6", "auto")]
    assert passed_over(chosen) == {"v2.8.8": "wait"}


def test_a_young_patch_does_not_stand_in_the_way_of_an_old_minor() -> None:
    chosen = selection("2.8.5", [release("2.8.8", age=timedelta(hours=5)), release("2.9.4")])
    assert steps(chosen) == [("v2.9.4", "approval")]
    assert passed_over(chosen) == {"v2.8.8": "wait"}


def test_what_only_waits_ends_the_plan() -> None:
    chosen = selection("2.8.5", [release("2.8.8"), release("2.9.0", age=timedelta(days=3))])
    assert steps(chosen) == [("v2.8.8", "auto"), ("v2.9.0", "wait")]
    assert (
        next(v.reason for v in chosen.steps[1].verdicts if v.gate == "age")
        == "v2.9.0 is 3 days old; minor releases wait until 2026-11-25 12:00 UTC"
    )


def test_of_two_that_wait_the_nearer_one_is_planned() -> None:
    young = timedelta(hours=5)
    chosen = selection("2.8.5", [release("2.8.8", age=young), release("2.9.0", age=young)])
    assert steps(chosen) == [("v2.8.8", "wait")]
    assert passed_over(chosen) == {"v2.9.0": "wait"}


def test_the_age_counts_to_the_minute() -> None:
    exactly = selection("2.8.5", [release("2.8.8", age=timedelta(hours=24))])
    just_before = selection("2.8.5", [release("2.8.8", age=timedelta(hours=24) - timedelta(seconds=1))])
    assert steps(exactly) == [("v2.8.8", "auto")]
    assert steps(just_before) == [("v2.8.8", "wait")]


def test_an_incomplete_release_is_passed_over_with_its_reason() -> None:
    chosen = selection("2.8.5", [release("2.8.6"), release("2.8.8", problem="it has no manifests.tar.gz")])
    assert steps(chosen) == [("v2.8.6", "auto")]
    [skipped] = chosen.passed_over
    assert skipped.decision is Decision.REFUSED
    assert skipped.verdicts[0].reason == "v2.8.8 cannot be used: it has no manifests.tar.gz"


def test_a_next_minor_without_a_usable_release_is_stepped_over() -> None:
    releases = [release("2.9.0", problem="withdrawn"), release("2.10.0")]
    chosen = selection("2.8.5", releases, replace(Policy(), minor_step=MinorStep.NEXT))
    assert steps(chosen) == [("v2.10.0", "approval")]


def test_a_paused_artifact_takes_nothing() -> None:
    chosen = selection("2.8.5", [release("2.8.8"), release("2.9.4")], paused=True)
    assert steps(chosen) == [("v2.8.8", "wait")]


def test_a_freeze_holds_everything_and_says_why() -> None:
    freeze = Period("0 0 20 11 *", timedelta(days=7), ZoneInfo("UTC"), "year end")
    chosen = selection("2.8.5", [release("2.8.8")], replace(Policy(), freeze=(freeze,)))
    assert steps(chosen) == [("v2.8.8", "wait")]
    reasons = [verdict.reason for verdict in chosen.steps[0].verdicts]
    assert "changes are frozen until 2026-11-27 00:00 UTC: year end" in reasons
    unexplained = replace(Policy(), freeze=(replace(freeze, reason=""),))
    verdicts = selection("2.8.5", [release("2.8.8")], unexplained).steps[0].verdicts
    assert "changes are frozen until 2026-11-27 00:00 UTC" in [verdict.reason for verdict in verdicts]


NIGHTS = Period("0 1 * * *", timedelta(hours=4), ZoneInfo("Europe/Berlin"))
SUNDAYS = Period("0 0 * * SUN", timedelta(days=1), ZoneInfo("UTC"))
ADVENT = Period("0 0 20 11 *", timedelta(days=7), ZoneInfo("UTC"), "year end")


@pytest.mark.parametrize(
    ("now", "windows", "freeze", "decision", "reason"),
    [
        pytest.param("2026-11-19T12:00", (), (), "auto", None, id="no windows: any time"),
        pytest.param("2026-11-19T02:00", (NIGHTS,), (), "auto", "open until 2026-11-19 04:00 UTC", id="in the window"),
        pytest.param("2026-11-19T03:59", (NIGHTS,), (), "auto", "open until 2026-11-19 04:00 UTC", id="last minute"),
        pytest.param("2026-11-19T04:00", (NIGHTS,), (), "wait", "opens at 2026-11-20 00:00 UTC", id="over"),
        pytest.param(
            "2026-11-21T12:00", (NIGHTS, SUNDAYS), (), "wait", "at 2026-11-22 00:00 UTC", id="the next of two"
        ),
        pytest.param(
            "2026-11-22T12:00", (NIGHTS, SUNDAYS), (), "auto", "until 2026-11-23 00:00 UTC", id="one is enough"
        ),
        pytest.param("2026-11-22T12:00", (SUNDAYS,), (ADVENT,), "wait", "open until", id="frozen in the window"),
        pytest.param("2026-11-21T12:00", (SUNDAYS,), (ADVENT,), "wait", "opens at", id="frozen, and no window"),
    ],
)
def test_it_is_published_in_a_window_if_no_freeze_is_on(
    now: str, windows: tuple[Period, ...], freeze: tuple[Period, ...], decision: str, reason: str | None
) -> None:
    policy = replace(Policy(), window=windows, freeze=freeze)
    situation = Situation(Version.parse("2.8.5"), policy, datetime.fromisoformat(now).replace(tzinfo=UTC))
    for verdicts in (
        release_verdicts(release("2.8.8"), situation),
        release_verdicts(release("2.8.5"), situation),  # another content of the same version
        version_verdicts(Version.parse("2.8.8"), situation),
    ):
        assert decide(verdicts) == decision
        assert [reason in it.reason for it in verdicts if reason and it.gate == "window"] == [True] * bool(reason)


def test_a_freeze_that_is_over_holds_nothing() -> None:
    freeze = Period("0 0 1 11 *", timedelta(days=7), ZoneInfo("UTC"), "all saints")
    assert steps(selection("2.8.5", [release("2.8.8")], replace(Policy(), freeze=(freeze,)))) == [("v2.8.8", "auto")]


def test_going_down_is_refused_whoever_asks() -> None:
    verdicts = release_verdicts(release("2.8.8"), Situation(Version.parse("2.9.4"), Policy(), NOW))
    assert [verdict.gate for verdict in verdicts if verdict.decision is Decision.REFUSED] == ["direction"]


def test_where_the_version_stays_only_pauses_and_freezes_count() -> None:
    policy = replace(Policy(), range=Range.parse(">=2.10.0"))
    for paused, expected in ((False, Decision.AUTO), (True, Decision.WAIT)):
        situation = Situation(Version.parse("2.9.4"), policy, NOW, paused=paused)
        assert decide(release_verdicts(release("2.9.4", problem="withdrawn"), situation)) is expected
