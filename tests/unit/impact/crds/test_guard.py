"""What another release's CRDs break: told as sure as it is known, with what to do about it."""

from __future__ import annotations

import pytest

from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.impact.change import Certainty, Hazard, Place
from ci_automation.impact.check import Clusters, GivenFile
from ci_automation.impact.checks.crds import guard
from ci_automation.impact.crds.remedies import FOLLOWED, MIGRATE
from ci_automation.impact.crds.versions import Managed, Snapshot, UnreadableCrds, crds
from tests.unit.impact.crds.definitions import components

HELM, BUCKETS = "helmreleases.helm.toolkit.fluxcd.io", "buckets.source.toolkit.fluxcd.io"
EMPTY = Tree(())
NOTHING = GivenFile("nothing.yaml", b"")
OLD, NEW = components(helmreleases="v2* v2beta2 v2beta1"), components(helmreleases="v2* v2beta2")


def snapshot(
    name: str, *stored: str, defined: str = "", crd: str = HELM, managed: tuple[Managed, ...] = ()
) -> Snapshot:
    versions = {crd: crds(components(**{crd.partition(".")[0]: defined}))[crd].versions} if defined else {}
    return Snapshot(name, {crd: stored} if stored else {}, managed, versions)


def judged(old: str, new: str, *snapshots: Snapshot) -> list[Hazard]:
    """Return the hazards of stored versions, with files given so that no word on others is said."""
    return list(guard(old, new, Clusters(snapshots=snapshots, files=(NOTHING,)), EMPTY, EMPTY))


def subjects(hazards: list[Hazard]) -> list[tuple[Certainty, str]]:
    return [(hazard.certainty, hazard.subject) for hazard in hazards]


def test_the_same_versions_break_nothing() -> None:
    assert guard(OLD, OLD, Clusters(), EMPTY, EMPTY) == ()


def test_a_new_version_breaks_nothing() -> None:
    assert guard(NEW, OLD, Clusters(), EMPTY, EMPTY) == ()


def test_the_loss_of_the_stored_version_is_a_certain_break() -> None:
    (hazard,) = judged(components(buckets="v1beta2*"), components(buckets="v1*"))
    assert (hazard.gate, hazard.certainty, hazard.subject) == ("crds", Certainty.CERTAIN, f"{BUCKETS} v1beta2")
    assert hazard.sentence == (
        "v1beta2 of Bucket is removed, but is among the stored versions (status.storedVersions), for it is what "
        "objects are stored in now: the API server refuses the new definition, which has v1"
    )
    assert hazard.places == ()


def test_the_loss_of_another_version_is_a_possible_break() -> None:
    (hazard,) = judged(OLD, NEW)
    assert (hazard.certainty, hazard.subject) == (Certainty.POSSIBLE, f"{HELM} v2beta1")
    assert "status.storedVersions" in hazard.sentence
    assert any("kubectl get crd -o json" in remedy for remedy in hazard.remedies)


def test_a_version_that_is_there_but_not_served_can_still_be_stored() -> None:
    assert judged(OLD, components(helmreleases="v2* v2beta2 v2beta1-")) == []


def test_each_version_is_a_hazard_of_its_own_and_the_surest_is_first() -> None:
    old = components(buckets="v1* v1beta1", helmreleases="v2beta2* v2beta1")
    assert subjects(judged(old, components(buckets="v1*", helmreleases="v2*"))) == [
        (Certainty.CERTAIN, f"{HELM} v2beta2"),
        (Certainty.POSSIBLE, f"{BUCKETS} v1beta1"),
        (Certainty.POSSIBLE, f"{HELM} v2beta1"),
    ]


def test_a_snapshot_that_stores_the_version_makes_it_certain_and_is_named() -> None:
    (hazard,) = judged(OLD, NEW, snapshot("a.json", "v2beta1", "v2"), snapshot("b.json", "v2"))
    assert (hazard.certainty, hazard.subject) == (Certainty.CERTAIN, f"{HELM} v2beta1 in a.json")
    assert hazard.places == (Place("a.json"),)
    assert "(status.storedVersions) of the cluster in a.json:" in hazard.sentence


def test_snapshots_without_the_version_make_it_safe() -> None:
    assert judged(OLD, NEW, snapshot("a.json", "v2"), snapshot("b.json", "v2beta2", "v2")) == []


def test_a_snapshot_knows_only_the_definitions_that_it_has() -> None:
    assert subjects(judged(OLD, NEW, snapshot("a.json", "v1", crd=BUCKETS))) == [
        (Certainty.POSSIBLE, f"{HELM} v2beta1")
    ]


def test_another_cluster_is_another_hazard_to_acknowledge() -> None:
    one = judged(OLD, NEW, snapshot("a.json", "v2beta1"))
    both = judged(OLD, NEW, snapshot("a.json", "v2beta1"), snapshot("b.json", "v2beta1"))
    many = judged(OLD, NEW, *(snapshot(f"{number}.json", "v2beta1") for number in range(5)))
    others = judged(OLD, NEW, *(snapshot(f"{number}.json", "v2beta1") for number in range(1, 6)))
    assert len({hazard.fingerprint for (hazard,) in (one, both, many, others)}) == 4
    assert many[0].subject.startswith(f"{HELM} v2beta1 in 5 files (")
    assert "0.json, 1.json, 2.json and 2 more" in many[0].sentence


def test_a_cluster_that_is_behind_stores_in_between_what_the_present_set_stores() -> None:
    old, new = components(helmreleases="v2beta2* v2beta1"), components(helmreleases="v2*")
    behind = snapshot("a.json", "v2beta1", defined="v2beta1*")
    assert subjects(judged(old, new, behind)) == [
        (Certainty.CERTAIN, f"{HELM} v2beta2 in a.json"),
        (Certainty.CERTAIN, f"{HELM} v2beta1 in a.json"),
    ]


def test_a_cluster_that_was_put_right_by_hand_is_safe() -> None:
    old, new = components(helmreleases="v2* v2beta2"), components(helmreleases="v2beta2* v2beta1")
    assert subjects(judged(old, new)) == [(Certainty.CERTAIN, f"{HELM} v2")]
    assert judged(old, new, snapshot("a.json", "v2beta2", defined="v2* v2beta2")) == []


def test_storage_that_goes_backwards_loses_what_the_older_version_cannot_say() -> None:
    (hazard,) = judged(components(helmreleases="v2* v2beta2"), components(helmreleases="v2 v2beta2*"))
    assert (hazard.certainty, hazard.subject) == (Certainty.POSSIBLE, f"{HELM} v2 to v2beta2")
    assert "older than v2" in hazard.sentence


def test_storage_that_goes_forward_is_no_hazard() -> None:
    assert judged(components(helmreleases="v2 v2beta2*"), components(helmreleases="v2* v2beta2")) == []


def managed(version: str, name: str = "podinfo", *, applied: bool = True) -> Managed:
    return Managed("helm.toolkit.fluxcd.io", "HelmRelease", "apps", name, version, applied)


def test_managed_fields_in_a_version_that_goes_away_break_the_next_apply() -> None:
    known = snapshot("a.json", "v2", managed=(managed("v2beta1"), managed("v2"), managed("v2beta1", "web")))
    (hazard,) = judged(OLD, NEW, known)
    assert (hazard.certainty, hazard.subject) == (Certainty.CERTAIN, f"{HELM} v2beta1 managedFields in a.json")
    assert "HelmRelease apps/podinfo and apps/web (a.json): its next server-side apply is refused" in hazard.sentence
    assert "invalid group/version: helm.toolkit.fluxcd.io/v2beta1" in hazard.sentence
    assert hazard.remedies[0].startswith("Run `flux migrate`")


def test_managed_fields_of_what_nobody_applies_only_may_break() -> None:
    known = snapshot("a.json", "v2", managed=(managed("v2beta1", applied=False), managed("v2beta1", "web")))
    assert subjects(judged(OLD, NEW, known)) == [
        (Certainty.CERTAIN, f"{HELM} v2beta1 managedFields in a.json"),
        (Certainty.POSSIBLE, f"{HELM} v2beta1 managedFields in a.json"),
    ]


def test_on_a_way_back_no_migration_helps_the_managed_fields() -> None:
    old, new = components(helmreleases="v2*"), components(helmreleases="v2beta2*")
    found = judged(old, new, snapshot("a.json", "v2", managed=(managed("v2"),)))
    (hazard,) = (hazard for hazard in found if "managedFields" in hazard.subject)
    assert [remedy.partition(":")[0] for remedy in hazard.remedies] == ["For each object, with kubectl alone"]


def test_a_definition_that_goes_away_takes_its_objects_with_it() -> None:
    (hazard,) = judged(components(buckets="v1*", helmreleases="v2*"), components(helmreleases="v2*"))
    assert (hazard.certainty, hazard.subject) == (Certainty.POSSIBLE, BUCKETS)
    assert "deletes every Bucket with it" in hazard.sentence
    assert any("prune=disabled" in remedy for remedy in hazard.remedies)


class TestADefinitionThatComesWithTheStep:
    """The old components lack it. A cluster can have it from before, with whatever it stored then."""

    OLD, NEW = components(buckets="v1*"), components(buckets="v1*", helmreleases="v2* v2beta2")

    def test_is_no_hazard_where_nothing_is_known_of_clusters(self) -> None:
        assert judged(self.OLD, self.NEW) == []

    def test_is_no_hazard_where_clusters_do_not_have_it_or_store_what_it_has(self) -> None:
        without = snapshot("a.json", "v1", crd=BUCKETS, defined="v1*")
        fine = snapshot("b.json", "v2beta2", "v2", defined="v2* v2beta2 v2beta1")
        assert judged(self.OLD, self.NEW, without, fine) == []

    def test_is_refused_by_a_cluster_that_has_it_with_a_stored_version_that_it_lacks(self) -> None:
        left = snapshot("a.json", "v2beta1", "v2beta2", defined="v2beta2* v2beta1")
        (hazard,) = judged(self.OLD, self.NEW, snapshot("b.json", "v2", defined="v2*"), left)
        assert (hazard.certainty, hazard.subject) == (Certainty.CERTAIN, f"{HELM} v2beta1 in a.json")
        assert hazard.places == (Place("a.json"),)
        assert hazard.sentence == (
            "the definition of HelmRelease comes with this step, but the cluster in a.json has it from before, with "
            "v2beta1 among its stored versions (status.storedVersions): the API server refuses the new definition, "
            "which has v2 and v2beta2"
        )
        assert hazard.remedies[0] == f"{MIGRATE} before this step."
        assert f"`kubectl delete crd {HELM}`" in hazard.remedies[-1]

    def test_each_version_names_the_clusters_that_have_it_and_each_way_out_of_them(self) -> None:
        new = components(buckets="v1*", helmreleases="v2*")
        behind = snapshot("a.json", "v2beta2", defined="v2beta2* v2beta1")
        other = snapshot("b.json", "v2beta2", "v2", defined="v2* v2beta2")
        oldest = snapshot("c.json", "v2beta1", defined="v2beta1*")
        found = judged(self.OLD, new, behind, other, oldest)
        assert subjects(found) == [
            (Certainty.CERTAIN, f"{HELM} v2beta2 in a.json, b.json"),
            (Certainty.CERTAIN, f"{HELM} v2beta1 in c.json"),
        ]
        assert found[0].remedies[0].startswith("Stop over at the last Flux 2.7")
        assert f"{MIGRATE} before this step." in found[0].remedies

    def test_is_no_way_for_objects_that_are_managed_in_a_version_that_it_lacks(self) -> None:
        (hazard,) = judged(self.OLD, self.NEW, snapshot("a.json", managed=(managed("v2beta1"),)))
        assert (hazard.certainty, hazard.subject) == (Certainty.CERTAIN, f"{HELM} v2beta1 managedFields in a.json")
        assert hazard.remedies[0] == f"{MIGRATE} before this step."


class TestAnObjectOfTheFormerOverlay:
    """kustomize-controller applied it in a version that goes away, which stays in its managedFields."""

    @staticmethod
    def release(version: str, name: str = "podinfo") -> bytes:
        return (
            f"---\napiVersion: helm.toolkit.fluxcd.io/{version}\nkind: HelmRelease\nmetadata: {{name: {name}}}\n"
        ).encode()

    @staticmethod
    def step(former: bytes, overlay: bytes, *snapshots: Snapshot, old: str = OLD, new: str = NEW) -> list[Hazard]:
        trees = [Tree((TreeFile("apps/web.yaml", text),)) for text in (overlay, former)]
        known = snapshots or (snapshot("a.json", "v2"),)
        return list(guard(old, new, Clusters(snapshots=known, files=(NOTHING,)), *trees))

    def test_may_be_refused_in_the_version_that_it_has_now(self) -> None:
        (hazard,) = self.step(self.release("v2beta1"), b"# new\n" + self.release("v2"))
        assert (hazard.gate, hazard.certainty) == ("crds", Certainty.POSSIBLE)
        assert hazard.subject == f"{HELM} v2beta1 formerly in apps/web.yaml"
        assert hazard.places == (Place("apps/web.yaml", 3),)
        assert hazard.sentence == (
            "the overlay had HelmRelease v2beta1 (podinfo) in apps/web.yaml, and has it in another version now: in "
            "clusters v2beta1 is still in its managedFields, and the API server refuses this step as soon as that "
            "version is gone (request to convert CR to an invalid group/version: helm.toolkit.fluxcd.io/v2beta1)"
        )
        edit, *after = hazard.remedies[:3]
        assert edit == (
            "Publish the edit of the overlay first, without the release, in a version that is served now and then "
            "(v2 and v2beta2)."
        )
        assert after == [FOLLOWED, "Then take the release."]

    def test_is_one_hazard_with_the_others_of_its_version(self) -> None:
        old, new = components(helmreleases="v2* v2beta2 v2beta1"), components(helmreleases="v2*")
        former = self.release("v2beta1") + self.release("v2beta1", "web") + self.release("v2beta2", "db")
        overlay = self.release("v2") + self.release("v2", "web") + self.release("v2", "db")
        assert subjects(self.step(former, overlay, old=old, new=new)) == [
            (Certainty.POSSIBLE, f"{HELM} v2beta1 formerly in apps/web.yaml"),
            (Certainty.POSSIBLE, f"{HELM} v2beta2 formerly in apps/web.yaml"),
        ]

    def test_that_is_still_in_that_version_is_refused_for_that_alone(self) -> None:
        both = self.release("v2beta1")
        assert subjects(self.step(both, both)) == [(Certainty.CERTAIN, f"{HELM} v2beta1 in apps/web.yaml")]

    def test_is_another_than_one_of_another_name(self) -> None:
        found = self.step(self.release("v2beta1"), self.release("v2beta1", "web"))
        assert subjects(found) == [
            (Certainty.CERTAIN, f"{HELM} v2beta1 in apps/web.yaml"),
            (Certainty.POSSIBLE, f"{HELM} v2beta1 left out in apps/web.yaml"),
        ]

    @pytest.mark.parametrize("version", ["v2beta1", "v2", None])
    def test_that_is_left_out_may_stay_in_clusters_whoever_manages_it(self, version: str | None) -> None:
        known = snapshot("a.json", "v2", managed=(managed(version, applied=False),) if version else ())
        found = self.step(self.release("v2beta1"), b"", known)
        hazard = found[-1]
        assert (hazard.certainty, hazard.subject) == (
            Certainty.POSSIBLE,
            f"{HELM} v2beta1 left out in apps/web.yaml",
        )
        assert hazard.sentence == (
            "the overlay had HelmRelease v2beta1 (podinfo) in apps/web.yaml, and leaves it out now: "
            "kustomize-controller looks for it in v2beta1 to prune it, takes it for deleted where that version is "
            "gone, and leaves it in the cluster"
        )
        assert hazard.places == ()
        assert hazard.remedies[-1] == "Then take the release."
        assert subjects(found[:-1]) == (
            [(Certainty.POSSIBLE, f"{HELM} v2beta1 managedFields in a.json")] if version == "v2beta1" else []
        )

    @pytest.mark.parametrize(
        "former",
        [
            pytest.param(b"version: v2beta1\n", id="no object"),
            pytest.param(b"spec:\n  of:\n" + release("v2beta1")[4:].replace(b"\n", b"\n    "), id="text"),
            pytest.param(release("v2beta2"), id="a version that stays"),
            pytest.param(release("v1alpha1"), id="a version that was gone before"),
            pytest.param(release("v2beta1").replace(b"HelmRelease", b"HelmOther"), id="another kind"),
            pytest.param(
                b"checks: [{kind: HelmRelease, apiVersion: helm.toolkit.fluxcd.io/v2beta1}]\n", id="reference"
            ),
        ],
    )
    def test_is_all_that_counts(self, former: bytes) -> None:
        assert self.step(former, self.release("v2")) == []

    def test_in_prose_is_none(self) -> None:
        trees = (EMPTY, Tree((TreeFile("README.md", self.release("v2beta1")),)))
        clusters = Clusters(snapshots=(snapshot("a.json", "v2"),), files=(NOTHING,))
        assert guard(OLD, NEW, clusters, *trees) == ()

    def test_of_a_definition_that_goes_away_or_comes_is_none(self) -> None:
        both = components(buckets="v1*", helmreleases="v2* v2beta1")
        gone = self.step(self.release("v2beta1"), b"", old=both, new=components(buckets="v1*"))
        assert subjects(gone) == [(Certainty.POSSIBLE, HELM)]
        come = components(buckets="v1*", helmreleases="v2*")
        assert self.step(self.release("v2beta1"), b"", old=components(buckets="v1*"), new=come) == []

    @pytest.mark.parametrize("applied", [True, False])
    def test_is_refused_for_sure_where_a_snapshot_has_the_version_in_its_managed_fields(self, applied: bool) -> None:
        known = snapshot("a.json", "v2", managed=(managed("v2beta1", applied=applied),))
        (hazard,) = self.step(self.release("v2beta1"), self.release("v2"), known)
        assert (hazard.certainty, hazard.subject) == (Certainty.CERTAIN, f"{HELM} v2beta1 managedFields in a.json")
        assert hazard.remedies[0].startswith("Publish the edit of the overlay first")
        assert FOLLOWED in hazard.remedies

    def test_is_safe_where_a_snapshot_has_it_migrated(self) -> None:
        known = snapshot("a.json", "v2", managed=(managed("v2"),))
        assert self.step(self.release("v2beta1"), self.release("v2"), known) == []

    def test_that_no_snapshot_has_may_be_refused(self) -> None:
        known = snapshot("a.json", "v2", managed=(managed("v2beta1", "web"),))
        found = self.step(self.release("v2beta1"), self.release("v2"), known)
        assert subjects(found) == [
            (Certainty.CERTAIN, f"{HELM} v2beta1 managedFields in a.json"),
            (Certainty.POSSIBLE, f"{HELM} v2beta1 formerly in apps/web.yaml"),
        ]
        assert found[0].remedies[0] == f"{MIGRATE} before this step."

    def test_on_a_way_back_is_not_helped_by_a_migration(self) -> None:
        old, new = components(helmreleases="v2* v2beta2"), components(helmreleases="v2beta2*")
        known = snapshot("a.json", "v2beta2", defined="v2 v2beta2*")
        found = self.step(self.release("v2"), self.release("v2beta2"), known, old=old, new=new)
        (hazard,) = (hazard for hazard in found if "formerly" in hazard.subject)
        assert [remedy.partition(":")[0] for remedy in hazard.remedies] == ["For each object, with kubectl alone"]


def test_without_files_it_says_that_nobody_looked_at_manifests_elsewhere() -> None:
    hazards = guard(OLD, NEW, Clusters(snapshots=(snapshot("a.json", "v2"),)), EMPTY, EMPTY)
    assert subjects(list(hazards)) == [(Certainty.ADVICE, "manifests elsewhere: HelmRelease v2beta1")]
    assert guard(OLD, OLD, Clusters(), EMPTY, EMPTY) == ()


def test_manifests_of_the_overlay_and_given_ones_are_looked_at() -> None:
    text = b"apiVersion: helm.toolkit.fluxcd.io/v2beta1\nkind: HelmRelease\nmetadata:\n  name: podinfo\n"
    clusters = Clusters(snapshots=(snapshot("a.json", "v2"),), files=(GivenFile("fleet/b.yaml", text),))
    hazards = guard(OLD, NEW, clusters, Tree((TreeFile("a.yaml", text),)), EMPTY)
    assert {(hazard.certainty, hazard.subject, hazard.places) for hazard in hazards} == {
        (Certainty.CERTAIN, f"{HELM} v2beta1 in a.yaml", (Place("a.yaml", 1),)),
        (Certainty.CERTAIN, f"{HELM} v2beta1 in fleet/b.yaml", (Place("fleet/b.yaml", 1),)),
    }


@pytest.mark.parametrize(("old", "new"), [("a: [", OLD), (OLD, "a: [")])
def test_a_file_that_is_not_yaml_is_an_error(old: str, new: str) -> None:
    with pytest.raises(UnreadableCrds):
        guard(f"kind:  List\n{old}", f"kind:  List\n{new}", Clusters(), EMPTY, EMPTY)
