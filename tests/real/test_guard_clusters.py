"""A real API server takes what the guard calls safe, refuses what it calls certain to break, and takes it afterwards.

Each case is a cluster: a new one, or one whose team has made objects under an older release and lived on with them.
"""

from __future__ import annotations

import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ci_automation.artifact.tree import Tree
from ci_automation.impact.change import Certainty, Place
from ci_automation.impact.check import Clusters
from ci_automation.impact.checks.crds import guard
from ci_automation.impact.crds.versions import Snapshot
from tests.real.processes import ProgramFailed
from tests.real.upgrade import Upgrades, components

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ci_automation.impact.change import Hazard
    from tests.real.cluster import Cluster
    from tests.real.upgrade import Refused

STEPS = ("v2.2.3", "v2.5.1", "v2.6.4", "v2.7.5", "v2.8.8", "v2.9.4")
SNAPSHOT, OBJECTS = "production.json", "objects.json"
NONE = Tree(())
PAGE = Path(__file__).parents[2] / "docs/guides/crd-versions.md"
# How far a new cluster gets, by the release that it began with; of the last one, how far back.
FARTHEST = dict(zip(STEPS, ("v2.6.4", "v2.7.5", "v2.8.8", "v2.9.4", "v2.9.4", "v2.7.5"), strict=True))
# What a team began with and went to, and where it had to stop over. Its objects are of the first release.
LIVES = (
    ("v2.2.3 v2.7.5 v2.9.4", "v2.6.4"),
    ("v2.2.3 v2.8.8", "v2.6.4"),
    ("v2.2.3 v2.9.4", "v2.6.4 v2.8.8"),
    ("v2.2.3 v2.5.1 v2.7.5 v2.8.8 v2.9.4", ""),
    ("v2.2.3 v2.5.1 v2.8.8", "v2.7.5"),
    ("v2.2.3 v2.5.1 v2.9.4", "v2.7.5"),
    ("v2.2.3 v2.5.1 v2.6.4 v2.7.5 v2.9.4", ""),
    ("v2.2.3 v2.6.4 v2.8.8 v2.9.4", ""),
    ("v2.2.3 v2.5.1 v2.6.4 v2.9.4", "v2.8.8"),
    ("v2.5.1 v2.6.4 v2.7.5 v2.8.8", ""),
)
IMAGE_VERSIONS = ("v1beta1", "v1beta2")
PARALLEL = 3
_MINOR = re.compile(r"\b2\.\d+\b")
_COMMAND = re.compile(r"`([^`]+)`")
_STALE = re.compile(r"request to convert CR to an invalid group/version: (\S+)")


@pytest.fixture(scope="module")
def upgrades(cluster: Cluster, flux_releases: Path) -> Upgrades:
    """Return the cluster on which releases come and go, each with all of its components."""
    return Upgrades(cluster, {tag: components(flux_releases, tag) for tag in STEPS})


def asked(upgrades: Upgrades, old: str, *others: str) -> list[tuple[Hazard, ...]]:
    """Return what the guard says of steps of this cluster to other releases, given its snapshot."""
    clusters = Clusters(snapshots=(Snapshot.parse(upgrades.snapshot(), SNAPSHOT),))
    return [guard(upgrades.texts[old], upgrades.texts[new], clusters, NONE, NONE) for new in others]


def certain(hazards: tuple[Hazard, ...]) -> tuple[Hazard, ...]:
    """Return those that break for sure."""
    return tuple(hazard for hazard in hazards if hazard.certainty is Certainty.CERTAIN)


def named(hazards: tuple[Hazard, ...]) -> Refused:
    """Return the stored versions that the guard says an API server will miss, by definition."""
    found: dict[str, frozenset[str]] = {}
    for hazard in certain(hazards):
        assert hazard.places == (Place(SNAPSHOT),)
        name, version, *_ = hazard.subject.split()
        found[name] = found.get(name, frozenset()) | {version}
    return found


def judged(upgrades: Upgrades, old: str, *others: str) -> dict[str, Refused]:
    """Return what the API server refuses of other releases, after asserting that the guard names exactly that."""
    said = dict(zip(others, asked(upgrades, old, *others), strict=True))
    with ThreadPoolExecutor(PARALLEL) as pool:
        refused = dict(zip(others, pool.map(upgrades.refused, others), strict=True))
    assert {new: named(hazards) for new, hazards in said.items()} == refused
    for new, hazards in said.items():
        assert new < old or Certainty.POSSIBLE not in {hazard.certainty for hazard in hazards}
    return refused


def take(upgrades: Upgrades, old: str, new: str) -> list[str]:
    """Take a step, doing what is printed where it breaks for sure; return the releases where it stopped over."""
    (hazards,) = asked(upgrades, old, new)
    printed = [remedy for hazard in certain(hazards) for remedy in hazard.remedies]
    if not printed:
        upgrades.apply(new)
        return []
    assert upgrades.refused(new) == named(hazards)
    assert "flux migrate" in commands(printed)
    minors = {minor for remedy in printed if remedy.startswith("Stop over") for minor in _MINOR.findall(remedy)}
    way = [next(tag for tag in STEPS if tag.startswith(f"v{minor}.")) for minor in sorted(minors)]
    for before, after in pairwise((old, *way, new)):
        upgrades.cluster.flux("migrate")
        (left,) = asked(upgrades, before, after)
        assert not certain(left)
        upgrades.apply(after)
    return way


def commands(remedies: Iterable[str]) -> list[str]:
    """Return the commands that remedies have people run, each once, in their order."""
    return list(dict.fromkeys(command for remedy in remedies for command in _COMMAND.findall(remedy)))


def all_there(upgrades: Upgrades) -> bool:
    """Tell whether each object that the team made can be read in the version that is stored now."""
    return sorted(upgrades.read_back()) == sorted(str(made) for made in upgrades.made)


@pytest.mark.parametrize("old", STEPS)
def test_a_new_cluster_refuses_the_versions_that_are_named_and_takes_what_is_safe(upgrades: Upgrades, old: str) -> None:
    upgrades.begin(old, objects=False)
    refused = judged(upgrades, old, *(tag for tag in STEPS if tag != old))
    safe = [new for new in refused if not refused[new]]
    assert FARTHEST[old] == (max(safe) if max(safe) > old else min(safe))
    upgrades.apply(FARTHEST[old])


@pytest.mark.parametrize(("life", "over"), LIVES, ids=[life for life, _ in LIVES])
def test_a_cluster_with_a_past_takes_each_step_after_what_is_printed(upgrades: Upgrades, life: str, over: str) -> None:
    began, *later = life.split()
    upgrades.begin(began)
    stops = [stop for old, new in pairwise((began, *later)) for stop in take(upgrades, old, new)]
    assert stops == over.split()
    assert all_there(upgrades)
    judged(upgrades, later[-1], began)


@pytest.mark.parametrize(
    ("history", "new"),
    [
        pytest.param(("v2.2.3", "v2.5.1", "v2.6.4"), "v2.7.5", id="forward"),
        pytest.param(("v2.6.4",), "v2.5.1", id="back from 2.6"),
        pytest.param(("v2.6.4", "v2.7.5"), "v2.6.4", id="back from 2.7"),
    ],
)
def test_the_printed_commands_of_kubectl_alone_make_way(upgrades: Upgrades, history: tuple[str, ...], new: str) -> None:
    upgrades.begin(*history)
    refused = judged(upgrades, history[-1], new)
    (hazards,) = asked(upgrades, history[-1], new)
    printed = commands(remedy for hazard in certain(hazards) for remedy in hazard.remedies)
    ours = [command for command in printed if command.startswith("kubectl")]
    assert {name for name in refused[new] for command in ours if name in command} == refused[new].keys() != set()
    for command in ours:
        upgrades.cluster.shell(command)
    assert judged(upgrades, history[-1], new) == {new: {}}
    upgrades.apply(new)
    assert all_there(upgrades)


def test_a_definition_that_comes_again_is_refused_where_it_is_left_with_what_it_stored_once(
    upgrades: Upgrades, flux_releases: Path
) -> None:
    upgrades.begin("v2.6.4")
    bare = components(flux_releases, "v2.6.4", extras=False)
    snapshots = [
        Snapshot.parse(data, name) for data, name in ((upgrades.snapshot(), SNAPSHOT), (upgrades.objects(), OBJECTS))
    ]
    new = upgrades.texts["v2.9.4"]
    hazards = guard(bare, new, Clusters(snapshots=tuple(snapshots[:1])), NONE, NONE)
    refused = upgrades.refused("v2.9.4")
    assert {name.partition(".")[2] for name in refused} == {"image.toolkit.fluxcd.io"}
    assert named(hazards) == refused
    assert all("comes with this step" in hazard.sentence for hazard in certain(hazards))
    both = guard(bare, new, Clusters(snapshots=tuple(snapshots)), NONE, NONE)
    stale = {hazard.subject for hazard in certain(both) if "image" in hazard.subject and "managed" in hazard.subject}
    assert stale == {f"{name} {version} managedFields in {OBJECTS}" for name in refused for version in IMAGE_VERSIONS}
    assert not certain(guard(bare, new, Clusters(), NONE, NONE))

    drop = next(command for command in commands(hazards[0].remedies) if command.startswith("kubectl delete"))
    upgrades.cluster.shell(drop)
    (gone,) = refused.keys() - upgrades.refused("v2.9.4").keys()
    assert drop == f"kubectl delete crd {gone}"

    assert "Stop over at the last Flux 2.8: " in hazards[1].remedies[0]
    upgrades.apply("v2.8.8")
    assert "flux migrate" in commands(hazards[1].remedies)
    upgrades.cluster.flux("migrate")
    after = Clusters(snapshots=(Snapshot.parse(upgrades.snapshot(), SNAPSHOT),))
    assert not certain(guard(bare, new, after, NONE, NONE))
    upgrades.apply("v2.9.4")


def test_what_is_written_anew_in_a_newer_version_by_hand_can_need_a_migration(upgrades: Upgrades) -> None:
    upgrades.begin("v2.6.4")
    with pytest.raises(ProgramFailed, match="field not declared in schema"):
        upgrades.write_again()
    upgrades.cluster.flux("migrate")
    upgrades.write_again()


def test_the_commands_of_the_documentation_make_snapshots(upgrades: Upgrades, tmp_path: Path) -> None:
    upgrades.begin("v2.6.4")
    printed = [line.strip() for line in PAGE.read_text().splitlines() if line.startswith("    kubectl get ")]
    (tmp_path / "clusters").mkdir()
    for command in printed:
        upgrades.cluster.shell(f"cd {tmp_path}; export KUBECACHEDIR=$PWD/kubectl; {command}")
    definitions, objects = (
        Snapshot.parse(path.read_bytes(), path.name) for path in sorted((tmp_path / "clusters").iterdir())
    )
    assert definitions.stored.keys() == upgrades.stored().keys()
    assert {(it.kind, it.name) for it in objects.managed} == {(made.kind, made.name) for made in upgrades.made}


def test_what_is_still_managed_in_a_version_that_went_away_cannot_be_applied_until_it_is_migrated(
    upgrades: Upgrades,
) -> None:
    upgrades.begin("v2.6.4")
    upgrades.create("Alert", "v1beta1")
    found = [
        Snapshot.parse(data, name) for data, name in ((upgrades.snapshot(), SNAPSHOT), (upgrades.objects(), OBJECTS))
    ]
    hazards = guard(upgrades.texts["v2.6.4"], upgrades.texts["v2.7.5"], Clusters(snapshots=tuple(found)), NONE, NONE)
    gone = [made for made in upgrades.made if made.version in {"v1beta1", "v2beta1"}]
    subjects = {f"{made.resource}.{made.group} {made.version} managedFields in {OBJECTS}" for made in gone}
    assert {hazard.subject for hazard in certain(hazards)} == subjects
    assert all(hazard.places == (Place(OBJECTS),) for hazard in certain(hazards))
    (possible,) = (hazard for hazard in hazards if hazard.certainty is Certainty.POSSIBLE)
    assert "created-as-v1beta1" in possible.sentence

    upgrades.apply("v2.7.5")
    with pytest.raises(ProgramFailed) as failed:
        upgrades.write_again()
    assert Counter(_STALE.findall(str(failed.value))) == Counter(f"{made.group}/{made.version}" for made in gone)

    printed = commands(remedy for hazard in certain(hazards) for remedy in hazard.remedies)
    (alert,) = (command for command in printed if "patch alerts." in command)
    for made in (made for made in gone if made.kind == "Alert"):
        upgrades.cluster.shell(alert.replace("NAMESPACE", "default").replace("NAME", made.name))
    with pytest.raises(ProgramFailed) as failed:
        upgrades.write_again()
    rest = Counter(f"{made.group}/{made.version}" for made in gone if made.kind != "Alert")
    assert Counter(_STALE.findall(str(failed.value))) == rest

    assert "flux migrate" in printed
    upgrades.cluster.flux("migrate")
    upgrades.write_again()
