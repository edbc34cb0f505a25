"""What people are told to run: commands that fit the definitions at hand, and the releases to stop over at."""

from __future__ import annotations

import pytest

from ci_automation.impact.change import all_of, some_of, within
from ci_automation.impact.crds.remedies import (
    MIGRATE,
    MINORS,
    Served,
    migrate_files,
    out_of,
    rewrite,
    served,
    stopovers,
)
from ci_automation.impact.crds.versions import Crd, crds
from tests.unit.impact.crds.definitions import components

BUCKETS, HELM = "buckets.source.toolkit.fluxcd.io", "helmreleases.helm.toolkit.fluxcd.io"
PATCH = "kubectl patch crd buckets.source.toolkit.fluxcd.io"
REWRITE = "`kubectl get buckets.source.toolkit.fluxcd.io -A -o json | kubectl replace -f -`"


def buckets(versions: str) -> Crd:
    return crds(components(buckets=versions))[BUCKETS]


def test_while_the_stored_version_stays_migrating_now_is_enough() -> None:
    forget = f"""`{PATCH} --subresource=status --type=merge -p '{{"status": {{"storedVersions": ["v1"]}}}}'`"""
    assert out_of(buckets("v1* v1beta1"), buckets("v1*"), ()) == (
        f"{MIGRATE} before this step.",
        f"With kubectl alone: {REWRITE}, if there are objects, then {forget}.",
        "Going one minor at a time first does not help: run `flux migrate` now.",
    )


def test_where_the_stored_version_goes_away_a_release_that_has_both_comes_between() -> None:
    why = "between two of these releases every version that is stored is still there"
    assert out_of(buckets("v1beta2*"), buckets("v1*"), (6, 8)) == (
        f"Stop over at the last Flux 2.6 and the last Flux 2.8: {why}.",
        f"{MIGRATE} before each of the steps.",
    )


def test_where_no_release_has_both_it_is_done_by_hand_with_the_places_of_the_definition() -> None:
    nowhere, by_hand = out_of(buckets("v1beta1 v1* v1beta2"), buckets("v1beta2*"), None)
    assert nowhere == "Going one minor at a time does not help: no release of Flux leads there."
    swap = (
        f"""`{PATCH} --type=json -p '[{{"op": "replace", "path": "/spec/versions/1/storage", "value": false}}, """
        """{"op": "replace", "path": "/spec/versions/2/storage", "value": true}]'`"""
    )
    assert swap in by_hand
    assert REWRITE in by_hand
    assert '"storedVersions": ["v1beta2"]' in by_hand


def test_where_the_two_have_nothing_in_common_nothing_can_be_done() -> None:
    assert len(out_of(buckets("v1*"), buckets("v1beta2*"), None)) == 1


@pytest.mark.parametrize(
    ("old", "new", "way"),
    [
        ({"buckets": "v1* v1beta2"}, {"buckets": "v1*"}, ()),
        ({"buckets": "v1beta2*"}, {"buckets": "v1*"}, (7,)),
        ({"helmreleases": "v2beta1 v2beta2*"}, {"helmreleases": "v2*"}, (7,)),
        ({"imagepolicies": "v1beta1*"}, {"imagepolicies": "v1*"}, (6, 8)),
        ({"buckets": "v1beta2*", "imagepolicies": "v1beta1*"}, {"buckets": "v1*", "imagepolicies": "v1*"}, (6, 8)),
        ({"buckets": "v1beta2*", "imagepolicies": "v1beta2*"}, {"buckets": "v1*", "imagepolicies": "v1*"}, (7,)),
        ({"buckets": "v1*"}, {"buckets": "v1beta2*"}, None),
        ({"buckets": "v1alpha1*"}, {"buckets": "v1*"}, None),
        ({"buckets": "v1beta2*"}, {"helmreleases": "v2*"}, ()),
        ({"others": "v1beta1*"}, {"others": "v1*"}, None),
    ],
)
def test_the_fewest_releases_that_lead_there_are_named(
    old: dict[str, str], new: dict[str, str], way: tuple[int, ...] | None
) -> None:
    assert stopovers(crds(components(**old)), crds(components(**new))) == way


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("v1* v1beta2", "v1*", "Write `apiVersion: source.toolkit.fluxcd.io/v1` instead, before this step"),
        ("v1 v1beta3* v1beta2", "v1 v1beta3*", "Write `apiVersion: source.toolkit.fluxcd.io/v1beta3` instead, before"),
        ("v1beta3* v1beta2", "v1* v1beta3", "Write `apiVersion: source.toolkit.fluxcd.io/v1beta3` instead, before"),
        ("v1beta2*", "v1*", "Stop over at the last Flux 2.7, which serves both, and write `apiVersion: source.toolkit"),
        ("v1beta2*", "v9*", "Write `apiVersion: source.toolkit.fluxcd.io/v9` instead, together with this step"),
        ("v1beta2*", "v9 v10*-", "Write `apiVersion: source.toolkit.fluxcd.io/v9` instead, together with this step"),
    ],
)
def test_what_to_write_instead_is_served_before_the_step_if_there_is_such_a_version(
    old: str, new: str, said: str
) -> None:
    before, after = buckets(old), buckets(new)
    common = [version for version in before.served if version in after.served]
    (remedy,) = rewrite(before, "v1beta2", common, after)
    assert remedy.startswith(said)


@pytest.mark.parametrize(
    ("old", "new", "files", "said"),
    [
        (
            {"buckets": "v1* v1beta2"},
            {"buckets": "v1*"},
            ["a b.yaml"],
            "`flux migrate -f 'a b.yaml' --version=2.6` does",
        ),
        (
            {"imagepolicies": "v1beta2* v1beta1"},
            {"imagepolicies": "v1* v1beta2"},
            ["a.yaml", "b.yml", "c.json"],
            "`flux migrate -f a.yaml --version=2.6` and `flux migrate -f b.yml --version=2.6` do that",
        ),
        (
            {"imagepolicies": "v1* v1beta2"},
            {"imagepolicies": "v1*"},
            [f"{name}.yaml" for name in "abcd"],
            "`flux migrate -f FOLDER --version=2.7` does",
        ),
        (
            {"buckets": "v1* v1beta2"},
            {"buckets": "v1*"},
            ["layout:fleet:v1/a.yaml"],
            "`flux migrate -f FOLDER --version=2.6` does",
        ),
        (
            {"buckets": "v1* v1beta2"},
            {"buckets": "v1*"},
            ["a.yaml", "layout:fleet:v1/a.yaml", "oci://r.example/fleet:v1/b.yaml"],
            "`flux migrate -f a.yaml --version=2.6` and `flux migrate -f FOLDER --version=2.6` do that",
        ),
        ({"buckets": "v1* v1beta2"}, {"buckets": "v1*"}, ["a.json"], None),
        ({"buckets": "v1beta2*"}, {"buckets": "v1*"}, ["a.yaml"], None),
    ],
)
def test_flux_migrate_is_named_where_what_it_writes_is_served_before_and_after(
    old: dict[str, str], new: dict[str, str], files: list[str], said: str | None
) -> None:
    remedies = migrate_files(crds(components(**old)), crds(components(**new)), files)
    assert len(remedies) == bool(said)
    assert all(remedy.startswith(str(said)) for remedy in remedies)


def test_the_table_knows_each_minor_and_nothing_beyond() -> None:
    assert served(HELM, 2) == Served(frozenset({"v2beta1", "v2beta2"}), "v2beta2")
    assert served(HELM, 6) == served(HELM, 3) == Served(frozenset({"v2", "v2beta1", "v2beta2"}), "v2")
    assert served(HELM, MINORS[-1]) == Served(frozenset({"v2"}), "v2")
    assert served(HELM, MINORS[-1] + 1) is served(HELM, 1) is None
    assert served("externalartifacts.source.toolkit.fluxcd.io", 6) is None
    assert served("certificates.cert-manager.io", 7) is None


def test_lists_are_as_sentences_have_them() -> None:
    assert [all_of(list("abc")[:count]) for count in (1, 2, 3)] == ["a", "a and b", "a, b and c"]
    assert (some_of(list("abc")), some_of(list("abcde"))) == ("a, b and c", "a, b, c and 2 more")
    assert (within([]), within(["a"]), within(["a", "b"])) == ("", " in a", " in a, b")
