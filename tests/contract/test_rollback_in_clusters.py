"""Going back to what the patches do not fit that clusters have beside the artifact: told, and done once accepted."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ci_automation.artifact.index import Index
from ci_automation.artifact.manifest import OCI_MANIFEST, Descriptor
from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.cli import run
from ci_automation.flows.rollback import RollbackRefused, Wish, propose_rollback, roll_back
from ci_automation.impact.assess import Impact
from ci_automation.impact.overlay.builder import BuildFailed
from ci_automation.policy.model import Policy
from ci_automation.records.ledger import Ledger
from ci_automation.report.rollback import rollback_parts
from tests.contract.operating import configure, dispatch, patched
from tests.contract.planting import at
from tests.contract.rolled_back import OURS, grown, with_overlay
from tests.contract.scene import FIRST
from tests.fakes.world import CHANNEL, MINOR, NOW, OLD, PATCH, intent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ci_automation.flux.version import Version
    from ci_automation.impact.overlay.builder import Build
    from tests.conftest import Once
    from tests.contract.scene import Scene
    from tests.fakes.world import World

PATCHES = {"patches": [{"patch": "{apiVersion: apps/v1, kind: Deployment, metadata: {name: renamed}}"}]}
TOLD = "no cluster can build the artifact with the patches and images of `sync.kustomization`: no such object"


class Renamed:
    """A kustomize that cannot build a patch of clusters with the components of one release."""

    def __init__(self, lacks: Version | str) -> None:
        self.lacks = f"# Flux Version: {lacks}\n".encode()

    def builds(self, wanted: Sequence[Build]) -> tuple[str | BuildFailed, ...]:
        """Return the builds."""
        paths = [(tree, next(it for it in tree.by_path if it.endswith("gotk-components.yaml"))) for tree, _ in wanted]
        return tuple(
            BuildFailed("no such object")
            if self.lacks in tree[path] and any(b"name: renamed" in it.content for it in tree.files)
            else tree[path].decode()
            for tree, path in paths
        )


@pytest.fixture
def world() -> World:
    """Return a channel that has the newest release, after its patch; what its steps break is of no matter here."""
    with unjudged():
        return grown()


@contextmanager
def unjudged() -> Iterator[None]:
    """Let steps break nothing."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("findings", "step"):
            patch.setattr(f"ci_automation.flows.planning.{module}.impact_of", lambda *_: Impact())
        yield


def point(world: World, version: Version) -> None:
    """Move the channel to what it had before, without a record."""
    tag = next(it for it in world.registry.tags(CHANNEL) if it.startswith(f"{version}-"))
    world.registry.put_manifest(CHANNEL, world.registry.manifest(CHANNEL.at_tag(tag)))


@pytest.mark.parametrize(("moved", "to"), [(None, PATCH), (OLD, MINOR)], ids=["back", "put back"])
def test_it_is_refused_until_acknowledged_and_done_then(world: World, moved: Version | None, to: Version) -> None:
    last = at(world)
    if moved:
        point(world, moved)
    ports = replace(world.ports(), find_kustomize=lambda: Renamed(to))
    own = intent(kustomization=PATCHES)
    refused = propose_rollback(CHANNEL, Wish(str(to)), ports, own)
    assert any(TOLD in str(it) for it in rollback_parts(refused.shown, None))
    before = at(world)
    with pytest.raises(RollbackRefused) as caught:
        roll_back(refused, ports, own)
    assert TOLD in str(caught.value)
    (accepted,) = refused.shown.breaks
    assert f"--acknowledge {accepted}" in caught.value.hint
    assert at(world) == before
    own = replace(own, policy=own.policy.acknowledging((accepted,), own.now))
    proposal = propose_rollback(CHANNEL, Wish(str(to)), ports, own)
    roll_back(proposal, ports, own)
    record = Ledger(world.registry, CHANNEL, OURS).records(at(world))[-1]
    assert (record.version, record.put_back, record.rolled_back) == (to, bool(moved), not moved)
    assert (at(world) == last) == bool(moved)


def test_it_is_refused_too_where_nobody_can_read_what_the_channel_has(world: World) -> None:
    world.registry.put_manifest(CHANNEL, Index.build((Descriptor(OCI_MANIFEST, at(world), 2),)))
    ports = replace(world.ports(), find_kustomize=lambda: Renamed(PATCH))
    own = intent(kustomization=PATCHES)
    refused = propose_rollback(CHANNEL, Wish(str(PATCH)), ports, own)
    with pytest.raises(RollbackRefused, match="no such object"):
        roll_back(refused, ports, own)
    own = replace(own, policy=own.policy.acknowledging(refused.shown.breaks, own.now))
    proposal = propose_rollback(CHANNEL, Wish(str(PATCH)), ports, own)
    roll_back(proposal, ports, own)
    assert Ledger(world.registry, CHANNEL, OURS).records(at(world))[-1].version == PATCH


def test_an_overlay_that_was_never_built_is_accepted_where_nobody_can_read_what_the_channel_has() -> None:
    broken = Tree((TreeFile("kustomization.yaml", b"resources: [flux-system/gotk-components.yaml, gone.yaml]\n"),))
    with unjudged():
        world = grown()
        target = with_overlay(world, broken)
        with_overlay(world)
    world.registry.put_manifest(CHANNEL, Index.build((Descriptor(OCI_MANIFEST, at(world), 2),)))
    refused = propose_rollback(CHANNEL, Wish(str(target)), world.ports(), intent())
    with pytest.raises(RollbackRefused, match=r"gone\.yaml"):
        roll_back(refused, world.ports(), intent())
    # What clusters have may be as broken.
    own = intent(policy=Policy().acknowledging(refused.shown.breaks, NOW))
    roll_back(propose_rollback(CHANNEL, Wish(str(target)), world.ports(), own), world.ports(), own)
    assert at(world) == target


def test_what_was_broken_before_too_is_advice(world: World) -> None:
    ports, own = world.ports(), intent(kustomization=PATCHES)
    ports = replace(ports, find_kustomize=lambda: Renamed(""))
    assert propose_rollback(CHANNEL, Wish(str(PATCH)), ports, own).shown.breaks == ()


@pytest.fixture
def scene(scene: Scene, once: Once, monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr("ci_automation.flows.programs.kustomize.find_kustomize", lambda _: Renamed(FIRST))
    return patched(scene, once)


def test_a_person_at_a_terminal_and_one_who_dispatches_it_accept_it_by_its_fingerprint(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    def write(known: str) -> None:
        configure(scene, more=f", sync: {{kustomization: {json.dumps(PATCHES)}}}{known}")

    write("")
    ran, before = dispatch(scene, "rollback", to=FIRST).show(), scene.channel
    assert (ran.code, ran.outputs["shown"]) == (11, ""), ran
    assert TOLD in ran.said("error")[0]
    (accepted,) = re.findall(r"put ([0-9a-f]{16}) into `acknowledge`", ran.log)
    capsys.readouterr()
    assert run(["rollback", "production", "--to", FIRST, "--yes"]) == 11
    printed = capsys.readouterr()
    assert TOLD in " ".join(printed.out.split())
    assert f"--acknowledge {accepted}" in printed.err
    assert scene.channel == before
    write(f", acknowledge: [{{fingerprint: '{accepted}', until: 2999-01-01, reason: a test}}]")
    assert dispatch(scene, "rollback", to=FIRST).through().code == 0
    assert scene.channel != before
