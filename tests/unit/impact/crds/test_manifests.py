"""Which manifests break, how sure that is, and what their owners are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci_automation.impact.change import Certainty, Hazard, Place
from ci_automation.impact.crds import manifests
from ci_automation.impact.crds.manifests import Manifests
from ci_automation.impact.crds.remedies import FOLLOWED
from ci_automation.impact.crds.versions import crds
from tests.unit.impact.crds.definitions import components

if TYPE_CHECKING:
    from ci_automation.impact.crds.manifests import Use

HELM, ALERTS = "helmreleases.helm.toolkit.fluxcd.io", "alerts.notification.toolkit.fluxcd.io"
OLD = components(alerts="v1beta3* v1beta2", receivers="v1* v1beta2", helmreleases="v2* v2beta2")
NEW = components(alerts="v1beta3*", receivers="v1*", helmreleases="v2*")
RELEASE = b"apiVersion: helm.toolkit.fluxcd.io/v2beta2\nkind: HelmRelease\nmetadata: {name: podinfo}\n"
REFERENCE = b"spec:\n  checks:\n  - apiVersion: helm.toolkit.fluxcd.io/v2beta2\n    kind: HelmRelease\n    name: web\n"
STALE = RELEASE.replace(b"v2beta2", b"v2beta1")


def hazards(files: dict[str, bytes], old: str = OLD, new: str = NEW, *, own: bool = True) -> list[Hazard]:
    return list(Manifests(crds(old), crds(new)).hazards(list(files.items()), own=own))


def said(found: list[Hazard]) -> list[tuple[Certainty, str, list[str]]]:
    return [(it.certainty, it.subject, [str(place) for place in it.places]) for it in found]


def test_an_object_of_a_version_that_is_not_served_any_more_is_a_certain_break() -> None:
    (hazard,) = hazards({"apps/a.yaml": b"---\n" + RELEASE})
    assert hazard.gate == "crds"
    assert said([hazard]) == [(Certainty.CERTAIN, f"{HELM} v2beta2 in apps/a.yaml", ["apps/a.yaml:2"])]
    assert hazard.sentence == (
        "apps/a.yaml has HelmRelease v2beta2 (podinfo), which clusters refuse: the new components serve v2"
    )
    assert hazard.remedies == (
        "Write `apiVersion: helm.toolkit.fluxcd.io/v2` instead, before this step: it is served now too.",
        "`flux migrate -f apps/a.yaml --version=2.6` does that in YAML where `kind` is the line after `apiVersion`.",
        FOLLOWED,
    )


@pytest.mark.parametrize(
    ("files", "said"),
    [
        pytest.param(
            ["layout:fleet:v1/a.yaml"],
            "layout:fleet:v1/a.yaml is in an artifact: change it where that is made, and publish it again.",
            id="one",
        ),
        pytest.param(
            ["a.yaml", "layout:fleet:v1/a.yaml", "oci://r.example/fleet:v1/b.yaml"],
            "layout:fleet:v1/a.yaml and oci://r.example/fleet:v1/b.yaml are in artifacts: change them where those are "
            "made, and publish them again.",
            id="two besides a file",
        ),
    ],
)
def test_what_is_in_an_artifact_is_to_be_changed_where_that_is_made(files: list[str], said: str) -> None:
    (hazard,) = hazards(dict.fromkeys(files, RELEASE), own=False)
    assert said in hazard.remedies
    assert not any("-f layout:" in remedy or "-f oci:" in remedy for remedy in hazard.remedies)
    gone = hazards(dict.fromkeys(files, RELEASE), new=components(alerts="v1beta3*"), own=False)
    assert [said in it.remedies for it in gone] == [True]


def test_what_only_refers_to_such_a_version_may_break() -> None:
    (hazard,) = hazards({"a.yaml": REFERENCE})
    assert said([hazard]) == [(Certainty.POSSIBLE, f"{HELM} v2beta2 referred to in a.yaml", ["a.yaml:3"])]
    assert hazard.sentence == "a.yaml refers to HelmRelease v2beta2 (web): the new components serve v2"
    assert FOLLOWED not in hazard.remedies


def test_uses_of_one_version_are_one_hazard_with_all_their_places() -> None:
    (hazard,) = hazards({"b.yaml": RELEASE, "a.yaml": RELEASE + b"---\n" + RELEASE})
    assert hazard.subject == f"{HELM} v2beta2 in a.yaml, b.yaml"
    assert set(hazard.places) == {Place("b.yaml", 1), Place("a.yaml", 1), Place("a.yaml", 5)}
    assert hazard.sentence.startswith("a.yaml and b.yaml have HelmRelease v2beta2 (podinfo), which clusters refuse")


@pytest.mark.parametrize(("own", "certainty"), [(True, Certainty.CERTAIN), (False, Certainty.ADVICE)])
def test_elsewhere_only_what_worked_before_can_break(own: bool, certainty: Certainty) -> None:
    (hazard,) = hazards({"a.yaml": STALE}, own=own)
    assert said([hazard]) == [(certainty, f"{HELM} v2beta1 in a.yaml", ["a.yaml:1"])]
    assert ("not served now either" in hazard.sentence) is not own


@pytest.mark.parametrize("own", [True, False])
def test_elsewhere_what_worked_before_breaks_as_surely(own: bool) -> None:
    assert [hazard.certainty for hazard in hazards({"a.yaml": RELEASE}, own=own)] == [Certainty.CERTAIN]


def test_a_kind_that_comes_with_the_step_is_no_break_elsewhere_but_one_in_the_overlay() -> None:
    old = components(alerts="v1beta3*")
    assert [it.certainty for it in hazards({"a.yaml": RELEASE}, old, own=False)] == [Certainty.ADVICE]
    (hazard,) = hazards({"a.yaml": RELEASE}, old)
    assert hazard.certainty is Certainty.CERTAIN
    assert hazard.remedies[0].startswith("Stop over at the last Flux 2.7")


def test_objects_of_a_definition_that_goes_away_are_refused() -> None:
    (hazard,) = hazards({"a.yaml": RELEASE.replace(b"v2beta2", b"v2")}, new=components(alerts="v1beta3*"))
    assert said([hazard]) == [(Certainty.CERTAIN, f"{HELM} v2 in a.yaml", ["a.yaml:1"])]
    assert hazard.sentence.endswith("the new components do not serve this kind")
    assert hazard.remedies == ("Remove them, or keep the component that they belong to.",)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"{{ if }}\napiVersion: notification.toolkit.fluxcd.io/v1beta2\nkind: Alert\n", [f"{ALERTS} v1beta2"]),
        (b"{{ if }}\napiVersion: notification.toolkit.fluxcd.io/v1beta2\n", [f"{ALERTS} v1beta2"]),
        (b"{{ if }}\napiVersion: notification.toolkit.fluxcd.io/v1beta3\n", []),
        (b"{{ if }}\napiVersion: notification.toolkit.fluxcd.io/v1\nkind: Receiver\n", []),
        (
            b"target: {group: notification.toolkit.fluxcd.io, version: v1beta2}\n",
            [f"{ALERTS} v1beta2", "receivers.notification.toolkit.fluxcd.io v1beta2"],
        ),
        (b"target: {group: notification.toolkit.fluxcd.io, version: v1beta2, kind: Alert}\n", [f"{ALERTS} v1beta2"]),
        (b"target: {version: v2beta2, kind: HelmRelease}\n", [f"{HELM} v2beta2"]),
        (b"target: {version: v2beta9, kind: HelmRelease}\nof: v2beta2\n", []),
        (b"target: {version: v1beta2, kind: Deployment}\n", []),
        (b"target: {version: v2beta2}\n", []),
    ],
)
def test_what_does_not_say_all_is_a_use_of_what_it_can_mean(text: bytes, found: list[str]) -> None:
    uses = hazards({"a.yaml": text})
    assert [it.subject for it in uses] == [f"{subject} referred to in a.yaml" for subject in found]


@pytest.mark.parametrize(
    "content",
    [
        RELEASE.replace(b"v2beta2", b"v2"),
        RELEASE.replace(b"helm.toolkit.fluxcd.io", b"helm.example.com"),
        b"apiVersion: image.toolkit.fluxcd.io/v1beta1\nkind: ImagePolicy\n",
        b"kind: ConfigMap\napiVersion: v1\ndata:\n  a: |\n    " + RELEASE.replace(b"\n", b"\n    "),
        b"",
        b"\xff\xfev2beta2",
    ],
    ids=["served", "another group", "a kind that neither has", "a text in a ConfigMap", "empty", "no text"],
)
def test_other_manifests_are_no_hazard(content: bytes) -> None:
    assert hazards({"a.yaml": content}) == []


@pytest.mark.parametrize("name", ["README.md", "docs/a.TXT"])
def test_prose_is_not_looked_at(name: str) -> None:
    assert hazards({name: RELEASE}) == []


def test_files_without_a_version_that_goes_away_are_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(data: bytes, name: str) -> tuple[Use, ...]:
        pytest.fail(f"{name} was parsed: {data!r}")

    monkeypatch.setattr(manifests, "uses", refuse)
    fine = b"apiVersion: notification.toolkit.fluxcd.io/v1beta3\n" + RELEASE.replace(b"v2beta2", b"v2")
    assert hazards({"a.yaml": b"apiVersion: helm.toolkit.fluxcd.io/v2\n", "b.yaml": b"text"}) == []
    with pytest.raises(pytest.fail.Exception):
        hazards({"a.yaml": fine})


def test_versions_that_are_not_served_any_more_are_told_where_nobody_looked() -> None:
    (hazard,) = Manifests(crds(OLD), crds(NEW)).elsewhere()
    assert hazard.certainty is Certainty.ADVICE
    assert hazard.subject == "manifests elsewhere: Alert v1beta2, HelmRelease v2beta2, Receiver v1beta2"
    assert list(Manifests(crds(OLD), crds(OLD)).elsewhere()) == []
    gone = Manifests(crds(OLD), crds(components(alerts="v1beta3*", receivers="v1*"))).elsewhere()
    assert [it.subject.rpartition(": ")[2] for it in gone] == [
        "Alert v1beta2, HelmRelease v2, HelmRelease v2beta2, Receiver v1beta2"
    ]
