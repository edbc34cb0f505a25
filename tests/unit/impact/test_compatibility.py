"""What a version of Flux fits: the clusters' Kubernetes, upstream's support, the version that was there before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ci_automation.flux.listing import Listing, releases
from ci_automation.flux.release import Release
from ci_automation.flux.version import Version
from ci_automation.impact.change import Certainty, Hazard
from ci_automation.impact.check import Applied, Clusters, Known, KubernetesRange
from ci_automation.impact.checks.compatibility import CHECK, fit, support

NOW = datetime(2026, 8, 20, 12, tzinfo=UTC)
DATES = {
    "v2.5.0": "2025-02-20",
    "v2.6.0": "2025-05-29",
    "v2.6.4": "2025-07-04",
    "v2.7.0": "2025-09-30",
    "v2.7.5": "2025-12-01",
    "v2.8.0": "2026-02-24",
    "v2.9.0-rc.1": "2026-05-01",
    "v2.9.0": "2026-06-23",
    "v2.9.4": "2026-08-13",
}


def released(**more: str) -> tuple[Release, ...]:
    """Return upstream's releases, with more of them, as a source lists them."""
    dates = DATES | {f"v{name[1:].replace('_', '.')}": date for name, date in more.items()}
    assets = frozenset(
        name for tag in dates for name in ("manifests.tar.gz", f"flux_{tag.removeprefix('v')}_checksums.txt")
    )
    return releases((Listing(tag, f"{date}T00:00:00Z", False, "-" in tag, assets) for tag, date in dates.items()), "it")


RELEASES = released()


def told(
    old: str, new: str, kubernetes: str | None = None, listed: tuple[Release, ...] = RELEASES, now: datetime = NOW
) -> tuple[Hazard, ...]:
    stated = KubernetesRange.parse(kubernetes) if kubernetes else None
    before, after = Applied("", Version.parse(old)), Applied("", Version.parse(new))
    found = CHECK.look(before, after, Known(Clusters(stated), listed, now)).hazards
    assert all(hazard.gate == "compatibility" for hazard in found)
    return found


class TestKubernetes:
    @pytest.mark.parametrize(
        ("minor", "floor"),
        [
            *(("2.1", 25), ("2.2", 26), ("2.3", 28), ("2.4", 28), ("2.5", 30), ("2.6", 31), ("2.7", 32)),
            *(("2.8", 33), ("2.9", 33)),
        ],
    )
    def test_below_the_floor_a_step_is_a_certain_break_and_at_the_floor_it_is_none(
        self, minor: str, floor: int
    ) -> None:
        before = f"v2.{int(minor[2:]) - 1}.0"
        (hazard,) = told(before, f"v{minor}.1", f"1.{floor - 1}", ())
        assert hazard.certainty is Certainty.CERTAIN
        assert hazard.subject == f"Flux {minor} on Kubernetes 1.{floor - 1}"
        assert f"needs Kubernetes 1.{floor} or later" in hazard.sentence
        assert all(it.certainty is not Certainty.CERTAIN for it in told(before, f"v{minor}.1", f"1.{floor}", ()))

    def test_a_change_into_the_first_minor_is_judged_too(self) -> None:
        assert [it.certainty for it in told("2.1.0", "2.0.0", "1.23", ())] == [Certainty.CERTAIN]
        assert told("2.1.0", "2.0.0", "1.24", ()) == ()

    @pytest.mark.parametrize(("new", "kubernetes"), [("2.9.0", "1.33"), ("2.4.0", "1.28")])
    def test_what_the_check_takes_and_the_documents_do_not_is_a_possible_break(self, new: str, kubernetes: str) -> None:
        before = f"2.{int(new[2]) - 1}.0"
        (hazard,) = told(before, new, kubernetes, ())
        assert (hazard.certainty, hazard.remedies) == (Certainty.POSSIBLE, ())
        assert f"is documented for Kubernetes 1.{int(kubernetes[2:]) + 1} or later" in hazard.sentence

    def test_the_lowest_of_a_range_counts(self) -> None:
        (hazard,) = told("2.8.8", "2.9.4", "1.32-1.36")
        assert hazard.certainty is Certainty.CERTAIN
        assert hazard.sentence == (
            "Flux 2.9 needs Kubernetes 1.33 or later by its own check, and 1.34 by its documents; "
            "the clusters have Kubernetes 1.32-1.36"
        )
        assert hazard.remedies == ("update the clusters to Kubernetes 1.34 or later first",)

    def test_a_cluster_that_is_newer_than_the_documents_is_told_of(self) -> None:
        (hazard,) = told("2.8.8", "2.9.4", "1.34-1.37")
        assert (hazard.certainty, hazard.subject) == (Certainty.ADVICE, "Flux 2.9 on Kubernetes 1.37")
        assert "up to 1.36" in hazard.sentence
        assert told("2.8.8", "2.9.4", "1.34-1.36") == ()

    def test_where_the_newest_documented_one_is_not_known_nothing_is_said(self) -> None:
        assert told("2.7.5", "2.8.0", "1.33-1.99") == ()

    def test_both_ends_of_a_range_can_be_out(self) -> None:
        assert [it.certainty for it in told("2.8.8", "2.9.4", "1.33-1.37")] == [Certainty.POSSIBLE, Certainty.ADVICE]

    @pytest.mark.parametrize("kubernetes", ["1.32", "1.33"])
    def test_a_patch_does_not_bring_about_what_is_so_already(self, kubernetes: str) -> None:
        (hazard,) = told("2.9.0", "2.9.4", kubernetes)
        assert hazard.certainty is Certainty.ADVICE

    def test_a_minor_that_is_not_known_is_unchecked_where_the_clusters_are_stated(self) -> None:
        (hazard,) = told("2.9.4", "2.10.0", "1.35")
        assert hazard.certainty is Certainty.UNCHECKED
        assert "this version of the program does not know which Kubernetes Flux 2.10 needs" in hazard.sentence
        assert told("2.9.4", "2.10.0") == ()

    def test_where_nothing_was_before_only_the_clusters_are_judged(self) -> None:
        (hazard,) = fit(None, Version.parse("2.9.4"), KubernetesRange.parse("1.32"))
        assert (hazard.certainty, hazard.subject) == (Certainty.CERTAIN, "Flux 2.9 on Kubernetes 1.32")
        assert fit(None, Version.parse("2.9.4"), None) == ()

    def test_nothing_is_said_of_clusters_that_nobody_stated(self) -> None:
        assert told("2.8.8", "2.9.4") == ()


class TestSupport:
    def test_a_minor_is_supported_until_the_third_after_it(self) -> None:
        assert told("2.7.5", "2.7.5") == ()
        (hazard,) = told("2.6.4", "2.6.4")
        assert (hazard.certainty, hazard.subject) == (Certainty.ADVICE, "Flux 2.6 out of support")
        assert hazard.sentence == (
            "Flux 2.6 gets no patches: upstream keeps three minors, and v2.9.0 came out on 2026-06-23, 58 days ago"
        )

    def test_the_days_count_from_the_release_that_pushed_it_out(self) -> None:
        (hazard,) = support(Version.parse("2.5.0"), RELEASES, NOW)
        assert "v2.8.0 came out on 2026-02-24, 177 days ago" in hazard.sentence

    def test_one_day_is_one_day(self) -> None:
        (hazard,) = support(Version.parse("2.6.4"), RELEASES, datetime(2026, 6, 24, 1, tzinfo=UTC))
        assert hazard.sentence.endswith(", 1 day ago")

    def test_it_stays_the_same_hazard_from_day_to_day(self) -> None:
        one, two = (support(Version.parse("2.6.4"), RELEASES, NOW + timedelta(days=days))[0] for days in (0, 1))
        assert one.fingerprint == two.fingerprint
        assert one.sentence != two.sentence

    @pytest.mark.parametrize("day", [datetime(2026, 6, 22, tzinfo=UTC), datetime(2026, 5, 2, tzinfo=UTC)])
    def test_neither_a_candidate_nor_what_is_yet_to_come_pushes_anything_out(self, day: datetime) -> None:
        assert support(Version.parse("2.6.4"), RELEASES, day) == ()

    def test_a_release_that_upstream_marks_as_a_candidate_is_one(self) -> None:
        marked = tuple(
            Release(it.version, it.published_at, prerelease=it.prerelease or it.version.minor == (2, 9))
            for it in RELEASES
        )
        assert support(Version.parse("2.6.4"), marked, NOW) == ()

    def test_a_draft_pushes_nothing_out(self) -> None:
        drafts = releases((Listing("v2.9.0", "2026-06-23T00:00:00Z", True, False, frozenset()),), "it")
        earlier = tuple(release for release in RELEASES if release.version.minor < (2, 9))
        assert support(Version.parse("2.6.4"), (*drafts, *earlier), NOW) == ()

    def test_a_release_that_cannot_be_taken_pushes_out_all_the_same(self) -> None:
        broken = releases((Listing("v2.9.0", "2026-06-23T00:00:00Z", False, False, frozenset()),), "it")
        earlier = tuple(release for release in RELEASES if release.version.minor < (2, 9))
        assert len(support(Version.parse("2.6.4"), (*broken, *earlier), NOW)) == 1

    def test_the_order_of_the_list_does_not_matter(self) -> None:
        version = Version.parse("2.5.0")
        assert support(version, RELEASES, NOW) == support(version, tuple(reversed(RELEASES)), NOW)

    def test_minors_of_the_next_major_count(self) -> None:
        assert "v3.0.0" in support(Version.parse("2.7.5"), released(v3_0_0="2026-08-18"), NOW)[0].sentence


class TestSkipped:
    @pytest.mark.parametrize(
        ("old", "new", "words"),
        [
            pytest.param("2.6.4", "2.9.4", "2.6 -> 2.9 skips 2.7 and 2.8; ", id="two"),
            pytest.param("2.5.1", "2.9.4", "2.5 -> 2.9 skips 2.6, 2.7 and 2.8; ", id="three"),
            pytest.param("2.7.5", "2.9.4", "2.7 -> 2.9 skips 2.8; ", id="one"),
            pytest.param("2.9.4", "2.6.4", "2.9 -> 2.6 skips 2.8 and 2.7; ", id="down"),
        ],
    )
    def test_each_is_named_with_what_upstream_guarantees(self, old: str, new: str, words: str) -> None:
        (hazard,) = told(old, new, listed=())
        assert hazard.certainty is Certainty.ADVICE
        assert hazard.sentence.startswith(words)
        assert "one minor of skew between controllers" in hazard.sentence

    @pytest.mark.parametrize(("old", "new"), [("2.8.8", "2.9.4"), ("2.9.0", "2.9.4"), ("2.9.4", "2.8.8")])
    def test_the_next_minor_skips_nothing(self, old: str, new: str) -> None:
        assert told(old, new, listed=()) == ()

    def test_between_majors_those_that_were_released_are_named(self) -> None:
        listed = released(v2_10_0="2026-08-18", v3_0_0="2026-08-19")
        (hazard,) = told("2.9.4", "3.0.0", listed=listed)
        assert hazard.sentence.startswith("2.9 -> 3.0 skips 2.10; ")
        assert told("2.10.0", "3.0.0", listed=listed) == ()


def test_the_gravest_and_the_rest_come_together() -> None:
    found = told("2.6.4", "2.9.4", "1.31-1.33")
    assert [it.certainty for it in found] == [Certainty.CERTAIN, Certainty.ADVICE, Certainty.ADVICE]
