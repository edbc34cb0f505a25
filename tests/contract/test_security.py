"""Releases that fix a published vulnerability: they may wait less, and say what they fix; nothing else is lifted."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from ci_automation.artifact.reference import Reference
from ci_automation.errors import ReleaseSourceError
from ci_automation.flows.init import init
from ci_automation.flows.planning.plan import make_plan
from ci_automation.flows.update import update
from ci_automation.flux.advisories import advisories_in, written_advisories
from ci_automation.flux.bundle import ComponentMissing
from ci_automation.policy.decision import Decision
from ci_automation.policy.model import Action, Policy
from ci_automation.registry.releases import RegistryReleases, put_advisories
from tests.fakes.releases import advisory
from tests.fakes.world import CHANNEL, MINOR, OLD, World, intent, made_once, sample

if TYPE_CHECKING:
    from ci_automation.flows.planning.plan import Planned
    from ci_automation.flux.advisories import Advisory
    from ci_automation.flux.release import FetchedRelease
    from ci_automation.flux.version import Version

YOUNG = datetime.fromisoformat(sample("v2.98.8").published_at) + timedelta(hours=2)
HOUR = timedelta(hours=1)
SECURITY = Policy(security_age=HOUR)
FIXED, OPEN = advisory(1, {"source-controller": "< 1.98.6"}), advisory(2, {"helm-controller": "< 9.0.0"}, "low")
FIXES = "fixes CVE-2026-0001 (high) in source-controller"


@made_once
def before() -> World:
    world = World()
    init(CHANNEL, OLD, world.ports(), intent())
    return world


@pytest.fixture
def world() -> World:
    """Return a channel with v2.98.5, on the day that v2.98.8 came, which fixes a vulnerability."""
    found = before()
    found.releases.known = advisories_in([FIXED, OPEN])
    return found


def planned(world: World, **wish: Any) -> Planned:
    return make_plan(CHANNEL, world.ports(), intent(**{"now": YOUNG, "policy": SECURITY, **wish}))


def test_a_release_that_fixes_a_vulnerability_waits_less_and_says_what_it_fixes(world: World) -> None:
    outcome = update(CHANNEL, world.ports(), intent(now=YOUNG, policy=SECURITY))
    assert (outcome.done, str(outcome.plan.steps[0].new_version)) == (1, "v2.98.8")
    step = outcome.plan.steps[0]
    assert FIXES in step.reasons
    (age,) = (gate for gate in step.gates if gate.gate == "age")
    assert age.looked_at == "policy.minReleaseAge.security: 1 hour"


def test_a_site_that_reads_a_mirror_in_a_registry_is_told_the_same(world: World) -> None:
    place = Reference.parse("oci://edge.test/flux/releases")
    put_advisories(world.registry, place, written_advisories(world.releases.known))
    world.releases.known = RegistryReleases(world.registry, place).advisories()
    step, *_ = update(CHANNEL, world.ports(), intent(now=YOUNG, policy=SECURITY)).plan.steps
    assert FIXES in step.reasons


def test_the_vulnerabilities_of_the_present_version_are_told_with_the_step_that_fixes_them(world: World) -> None:
    found = [it.to_json() for it in planned(world).vulnerable]
    assert [(it["id"], it["component"], it["fixedBy"]) for it in found] == [
        ("CVE-2026-0001", "source-controller", "v2.98.8"),
        ("CVE-2026-0002", "helm-controller", None),
    ]


@pytest.mark.parametrize(
    "wish",
    [
        pytest.param({"policy": Policy()}, id="no such entry"),
        pytest.param({"policy": replace(SECURITY, security_age=3 * HOUR)}, id="younger than the entry says"),
        pytest.param({"paused": True}, id="paused"),
    ],
)
def test_it_waits_all_the_same(world: World, wish: dict[str, Any]) -> None:
    assert [step.decision for step in planned(world, **wish).plan.steps] == [Decision.WAIT]


def test_no_other_gate_is_lifted(world: World) -> None:
    asks = replace(SECURITY, actions={**SECURITY.actions, **dict.fromkeys(SECURITY.actions, Action.APPROVAL)})
    assert planned(world, policy=asks).plan.steps[0].decision is Decision.APPROVAL
    never = replace(SECURITY, actions=dict.fromkeys(SECURITY.actions, Action.NEVER))
    assert planned(world, policy=never).plan.steps == ()


def test_a_release_that_fixes_nothing_of_what_is_there_waits(world: World) -> None:
    world.releases.known = advisories_in([OPEN, advisory(3, {"flux2": "< 2.98.0"})])
    assert [step.decision for step in planned(world).plan.steps] == [Decision.WAIT]


def test_advisories_that_cannot_be_read_stop_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> tuple[Advisory, ...]:
        raise ReleaseSourceError("GitHub does not answer")

    monkeypatch.setattr(type(world.releases), "advisories", fail)
    said: list[str] = []
    ports = replace(world.ports(), say=said.append)
    found = make_plan(CHANNEL, ports, intent(now=YOUNG, policy=SECURITY))
    assert [step.decision for step in found.plan.steps] == [Decision.WAIT]
    assert "security advisories were not read: GitHub does not answer" in said


def test_a_release_that_cannot_be_read_fixes_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    fetch = type(world.releases).fetch

    def broken(self: Any, version: Version) -> FetchedRelease:
        if str(version) != "v2.98.5":
            raise ComponentMissing("source-controller", ())
        return fetch(self, version)

    monkeypatch.setattr(type(world.releases), "fetch", broken)
    assert planned(world).plan.steps == ()


def test_where_nothing_is_newer_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    init(CHANNEL, MINOR, world.ports(), intent())
    monkeypatch.setattr(type(world.releases), "advisories", None)
    assert planned(world).vulnerable == ()
