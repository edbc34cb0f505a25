"""`doctor` tells what is wrong from what is good and from what it cannot see."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ci_automation.cli import run
from ci_automation.cli.doctor import code_of_wrong, lines_of
from ci_automation.config.workflows import GitHubPlace
from ci_automation.flows.doctor import (
    Diagnosis,
    Health,
    SettingsNeeded,
    examine_clock,
    examine_github,
    examine_kustomize,
    examine_registry,
    examine_signer,
    told_once,
)
from ci_automation.flows.init import init
from ci_automation.github.client import GitHub
from ci_automation.github.runs import Runs
from ci_automation.github.waiting import GitHubPatience
from ci_automation.impact.overlay.builder import KustomizeUnusable
from ci_automation.net.waiting import Clock
from ci_automation.registry.port import Unreachable
from ci_automation.signing.sigstore.root import TrustRoot
from ci_automation.signing.trust import Identity, IdentityMatch, TrustedIdentities
from tests.contract.operating import configure
from tests.fakes.forge import Forge
from tests.fakes.world import CHANNEL, OLD, OVERLAY, World, intent, signing_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.contract.scene import Scene
    from tests.fakes.forge.repository import Repository
    from tests.fakes.registry import Asked

WORKFLOW = b"name: Flux\non: {schedule: [{cron: '17 * * * *'}]}\njobs: {a: {runs-on: u, steps: [{run: 'true'}]}}\n"
RIGHTS = {"contents": "read", "actions": "read", "administration": "read", "metadata": "read"}
PLACE = GitHubPlace("acme/fleet")
WANTED = SettingsNeeded(
    pull_requests=True,
    environment="flux-manifests",
    workflow="flux.yaml",
    package="ghcr.io/acme/flux-manifests",
    now=datetime.now(UTC),
    max_age=timedelta(days=1),
)


def health(found: Sequence[Diagnosis]) -> list[Health]:
    return [it.health for it in found]


@pytest.fixture
def forge() -> Iterator[Forge]:
    with Forge("api.github.com") as running:
        yield running


@pytest.fixture
def fleet(forge: Forge) -> Repository:
    """Return a repository as `setup` asks for it."""
    made = forge.repository("acme/fleet", {".github/workflows/flux.yaml": WORKFLOW})
    forge.user("ada")
    made.collaborators["ada"] = "write"
    made.environment("flux-manifests", ["ada"])
    made.protect("main", 1)
    made.complete(made.start("flux.yaml", "schedule", "ada").id)
    return made


def of_github(forge: Forge, rights: dict[str, str]) -> list[Diagnosis]:
    client = GitHub(forge.token("actions", "acme/fleet", rights), forge.url)
    return list(examine_github(client, Runs(client, "acme/fleet"), PLACE, WANTED, timedelta))


@pytest.mark.usefixtures("fleet")
def test_a_repository_that_is_set_up_is_good_but_for_what_github_does_not_tell(forge: Forge) -> None:
    found = of_github(forge, RIGHTS)
    assert health(found) == [*[Health.GOOD] * 5, Health.UNSEEN], found
    assert "no API" in found[-1].found


def test_each_setting_that_is_missing_is_wrong_with_one_thing_to_do(forge: Forge, fleet: Repository) -> None:
    fleet.can_create_pulls = False
    fleet.environments.clear()
    fleet.protections.clear()
    fleet.runs.clear()
    found = of_github(forge, RIGHTS)
    assert health(found)[:4] == [Health.WRONG] * 4
    assert all(it.advice and it.exit_code == 21 for it in found[:4])
    fleet.environment("flux-manifests", [])
    assert "it has none" in of_github(forge, RIGHTS)[1].found


@pytest.mark.usefixtures("fleet")
def test_what_the_token_may_not_see_is_neither_good_nor_wrong(forge: Forge) -> None:
    found = of_github(forge, {"contents": "read"})
    assert set(health(found)[:2]) == {Health.UNSEEN}
    assert not any(it.exit_code for it in found)


def test_without_github_nothing_of_it_is_seen_and_no_clock_is_good() -> None:
    waited: list[float] = []
    patience = GitHubPatience(clock=Clock(sleep=waited.append, now=lambda: sum(waited)))
    client = GitHub("ghs_x", "http://127.0.0.1:9", patience=patience)
    (found,) = examine_github(client, Runs(client, "acme/fleet"), PLACE, WANTED, timedelta)
    assert (found.health, found.exit_code) == (Health.UNSEEN, 0)


@pytest.mark.parametrize(
    ("seconds", "state"), [(5, Health.GOOD), (-59, Health.GOOD), (61, Health.WRONG), (-300, Health.WRONG)]
)
def test_a_clock_is_wrong_from_a_minute_on(seconds: int, state: Health) -> None:
    assert examine_clock(timedelta(seconds=seconds)).health is state


class Kustomize:
    """Builds what it is told to."""

    def __init__(self, result: str | KustomizeUnusable) -> None:
        self.result = result

    def builds(self, wanted: Sequence[object]) -> tuple[str | KustomizeUnusable, ...]:
        return (self.result,) * len(wanted)


def test_kustomize_is_good_if_it_builds() -> None:
    assert examine_kustomize(Kustomize("kind: ConfigMap\n")).health is Health.GOOD
    assert examine_kustomize(None).health is Health.WRONG
    unneeded = examine_kustomize(None, needed=False)
    assert (unneeded.health, unneeded.exit_code) == (Health.UNSEEN, 0)
    unusable = examine_kustomize(Kustomize(KustomizeUnusable("kustomize could not be started")))
    assert (unusable.health, unusable.found) == (Health.WRONG, "kustomize could not be started")


def test_a_channel_is_read_written_to_and_verified() -> None:
    world = World()
    ports = world.ports()
    found = [*examine_registry(CHANNEL, ports, lambda: 0.0), *examine_signer(CHANNEL, ports, intent())]
    assert health(found) == [Health.WRONG, Health.GOOD, Health.GOOD, Health.UNSEEN]  # there is none yet
    init(CHANNEL, OLD, ports, intent(overlay=OVERLAY))
    found = [*examine_registry(CHANNEL, ports, lambda: 0.0), *examine_signer(CHANNEL, ports, intent())]
    assert health(found) == [Health.GOOD] * 4
    assert str(world.channel_digest()) in found[0].found
    foreign = [*examine_signer(CHANNEL, world.ports("theirs", "ours"), intent())]
    assert health(foreign) == [Health.WRONG, Health.GOOD]
    workflow = IdentityMatch.exact(Identity("https://issuer.example", PLACE.subject("flux.yaml")))
    keyless = replace(ports, signer=None, trusted=TrustedIdentities((workflow,), TrustRoot("a file", b"")))
    for in_workflow, signs in ((False, Health.UNSEEN), (True, Health.WRONG)):
        assert next(examine_signer(CHANNEL, keyless, intent(), in_workflow=in_workflow)).health is signs
    times = iter((0.0, 3.0))
    assert next(iter(examine_registry(CHANNEL, ports, lambda: next(times)))).health is Health.WRONG


@pytest.mark.parametrize(("where", "health_of_key"), [("", "cannot be seen from here"), ("true", "wrong")])
def test_a_key_that_only_runs_have_is_no_fault_of_a_clone(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    where: str,
    health_of_key: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COSIGN_KEY", raising=False)
    monkeypatch.setenv("GITHUB_ACTIONS", where)
    (tmp_path / "cosign.pub").write_text(signing_key().public.to_pem())
    (tmp_path / "fleet.yaml").write_text(
        "version: 1\ndefaults: {verify: {publicKey: cosign.pub}, signing: {mode: key, key: 'env://COSIGN_KEY'}}\n"
        "artifacts: [{name: staging, url: 'layout:registry:staging'}]\n"
    )
    run(["doctor", "--config", "fleet.yaml", "--output", "json"])
    found = json.loads(capsys.readouterr().out)["findings"]
    (key,) = (it for it in found if it["what"].endswith("who signs"))
    assert key["health"] == health_of_key


def test_each_channel_is_told_what_makes_its_first_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cosign.pub").write_text(signing_key().public.to_pem())
    (tmp_path / "fleet.yaml").write_text(
        "version: 1\ndefaults: {verify: {publicKey: cosign.pub}}\nartifacts:\n"
        "  - {name: staging, url: 'layout:registry:staging'}\n"
        "  - {name: production, url: 'layout:registry:production', promote: {from: staging}}\n"
    )
    run(["doctor", "--config", "fleet.yaml", "--output", "json"])
    found = json.loads(capsys.readouterr().out)["findings"]
    advice = [it["advice"].partition(". Or ")[0] for it in found if it["found"] == "there is no such channel"]
    made = "Make its first digest: "
    assert advice == [f"{made}`init`", f"{made}`promote`, once staging has one"]


def test_a_registry_that_is_away_is_unseen_and_told_once() -> None:
    def away(_: Asked) -> None:
        raise Unreachable("registry.example", "timed out")

    world = World()
    world.registry.before = away
    ports = world.ports()
    channels = (CHANNEL, CHANNEL.at_tag("staging"))
    looks = (
        it for at in channels for it in (*examine_registry(at, ports, float), *examine_signer(at, ports, intent()))
    )
    told, *others = told_once(looks)
    assert (told.what, *told.also) == tuple(f"{at}: read, what clusters verify" for at in channels)
    assert list(lines_of([told, *others]))[:3] == [
        f"unseen  {CHANNEL}: read, what clusters verify: {told.found}",
        f"        the same: {CHANNEL.at_tag('staging')}: read, what clusters verify",
        f"        {told.advice}",
    ]
    assert list(lines_of([told, *others]))[-1] == "Nothing that was seen is wrong, but a registry could not be reached."
    assert (told.health, code_of_wrong([told, *others])) == (Health.UNSEEN, 20)
    assert health(others) == [Health.GOOD] * 2


@pytest.mark.parametrize(
    ("found", "last"),
    [
        ((Health.GOOD,), "Nothing that was seen is wrong."),
        ((Health.WRONG,), "1 of 1 finding is wrong."),
        ((Health.WRONG, Health.GOOD), "1 of 2 findings is wrong."),
        ((Health.WRONG, Health.UNSEEN, Health.WRONG), "2 of 3 findings are wrong."),
    ],
)
def test_the_last_line_counts_findings(found: tuple[Health, ...], last: str) -> None:
    """One finding can be about several channels."""
    assert [*lines_of([Diagnosis("a", each, "b", also=("c", "d")) for each in found])][-1] == last


def test_the_action_looks_too_and_is_red_if_something_is_wrong(scene: Scene) -> None:
    scene.fleet.environments.clear()
    ran = scene.run("doctor", artifact="layout:registry:production", workflow="check.yaml")
    assert "good    layout:registry:production: what clusters verify" in ran.log
    assert "wrong   environment flux-manifests has reviewers" in ran.log
    assert (ran.code, "there is no such environment" in ran.summary) == (21, True)


def test_no_reviewers_are_missing_where_a_code_takes_their_place(scene: Scene) -> None:
    scene.fleet.environments.clear()
    configure(scene, approval="{operationsByCode: true}")
    ran = scene.run("doctor", artifact="production", workflow="check.yaml", key="cosign.key")
    assert "main is protected" in ran.log
    assert "has reviewers" not in ran.log
    configure(scene, approval="{operationsByCode: true, via: workflow-dispatch}")  # a run that waits takes no code
    ran = scene.run("doctor", artifact="production", workflow="check.yaml", key="cosign.key")
    assert "wrong   environment flux-manifests has reviewers" in ran.log
