"""Promotions that wait are asked for by pull request, and a merge counts for exactly that promotion."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from ci_automation.artifact.reference import LayoutDirectory, Reference
from ci_automation.cli import run
from ci_automation.impact.change import Certainty, Hazard
from ci_automation.records.ledger import Ledger
from ci_automation.registry.layout import LayoutRegistry
from ci_automation.signing.trust import TrustedKeys
from tests.contract.operating import configure, dispatch
from tests.contract.scene import FIRST, LOCK, MINOR, PATCH
from tests.contract.test_action_overlay import checkout, patch
from tests.fakes.world import signing_key

if TYPE_CHECKING:
    from tests.contract.scene import Scene
    from tests.fakes.forge import Pull
    from tests.fakes.runner import Ran

RULES = "verify: {publicKey: cosign.pub}, signing: {mode: key, key: cosign.key}"
EAGER = ", policy: {minor: auto, escalate: []}"


def channel_of(name: str, more: str = "") -> str:
    """Return the configuration of a channel that is promoted from `production`."""
    promote = more if "promote:" in more else f", promote: {{from: production}}{more}"
    return f"- {{name: {name}, url: 'layout:{name}:{name}', {RULES}, policy: {{escalate: []}}{promote}}}\n"


LIVE = channel_of("live")
HAZARD = Hazard("crds", Certainty.POSSIBLE, "a.example v1", "objects may use v1 of A")


def at(scene: Scene, name: str = "live") -> str:
    """Return the digest that a promoted channel has."""
    index = json.loads((scene.runner.workspace / name / "index.json").read_bytes())
    key = "org.opencontainers.image.ref.name"
    (digest,) = (it["digest"] for it in index["manifests"] if it.get("annotations", {}).get(key) == name)
    return str(digest)


def hour(scene: Scene, **inputs: str) -> Ran:
    """Run the scheduled job on all artifacts."""
    scene.runner.variables["GITHUB_EVENT_NAME"] = "schedule"
    ran = scene.run(**inputs)
    assert ran.code == 0, ran
    return ran


def told(ran: Ran, name: str = "live") -> dict[str, str]:
    """Return the outputs about one artifact."""
    return next(each for each in json.loads(ran.outputs["artifacts"]) if each["name"] == name)


def request_of(scene: Scene, name: str = "live") -> Pull:
    """Return the open pull request that asks for a promotion."""
    (pull,) = (it for it in scene.fleet.pulls if it.state == "OPEN" and it.branch == f"flux-manifests/{name}")
    return pull


def approved(scene: Scene, name: str = "live") -> None:
    """Merge that pull request as a person who may."""
    scene.fleet.merge(request_of(scene, name).number, "ada")


@pytest.fixture
def waves(scene: Scene) -> Scene:
    """Return a fleet whose second channel has the first release, and whose first one has a minor."""
    configure(scene, others=LIVE)
    scene.offer(FIRST)
    assert dispatch(scene, "promote", artifact="live").through().code == 0
    scene.offer(FIRST, MINOR)
    configure(scene, more=EAGER, others=LIVE)
    return scene


def test_a_minor_is_asked_for_and_its_merge_promotes_exactly_that(waves: Scene) -> None:
    base = at(waves)
    listed = waves.folder / "releases/releases.json"
    listed.write_text(json.dumps([{**it, "body": "Migrate all Alerts."} for it in json.loads(listed.read_bytes())]))
    asked = hour(waves)
    target = waves.channel
    assert told(asked, "production")["target-version"] == MINOR
    assert told(asked)["pending-version"] == MINOR
    assert (told(asked)["pending-base-digest"], told(asked)["pending-digest"]) == (base, target)
    pull = request_of(waves)
    assert pull.title == f"Flux {MINOR} for live (promotion, minor, from {FIRST})"
    notes = f"Upstream's release notes of {MINOR}"
    for part in (base, target, "a minor release needs approval", "layout:registry:production", notes, "Migrate all"):
        assert part in pull.body
    assert "nothing is rendered" in pull.body
    before = len(waves.forge.requests)
    assert told(hour(waves))["approval-url"] == told(asked)["approval-url"]
    assert len(waves.forge.requests) - before <= 2  # of the releases none, which are in a folder here
    assert at(waves) == base
    approved(waves)
    ran = hour(waves)
    assert (told(ran)["target-version"], at(waves)) == (MINOR, target)
    assert told(ran)["changed"]
    assert "Approved by ada" in ran.summary
    assert f"**live** is at Flux {MINOR}: {MINOR} was promoted\n" in ran.summary
    waves.runner.capture.readouterr()
    assert run(["history", "layout:live:live", "--public-key", "cosign.pub", "--output", "json"]) == 0
    assert f"pull request {waves.forge.host}/acme/fleet/pull/{pull.number}" in waves.runner.capture.readouterr().out
    assert not told(hour(waves))["changed"]


def test_each_promotion_is_told_once_and_offered_to_those_who_pin_it(waves: Scene) -> None:
    more = ", announce: [acme/apps], consumers: [{repository: acme/apps}]"
    configure(waves, more=EAGER, others=channel_of("live", more))
    waves.apps.push("main", {"live.yaml": b'digest: sha256:0000 # {"$flux-manifests": "live:digest"}\n'}, "keeper")
    moves = []
    for offered, waits in ((PATCH, False), (MINOR, True)):
        waves.offer(FIRST, PATCH, offered)
        base, ran = at(waves), hour(waves)
        if waits:
            assert not told(ran)["changed"]
            approved(waves)
            ran = hour(waves)
        moves.append((offered, base, at(waves)))
        assert "acme/apps was told." in ran.summary
        hour(waves)
        assert [tuple(it[name] for name in ("version", "base", "target")) for _, it in waves.apps.dispatched] == moves
        assert waves.run("consumers").code == 0
        (pull,) = waves.apps.pulls
        assert (pull.title, pull.state) == (f"live: Flux {offered} ({at(waves)[7:19]})", "OPEN")
        assert at(waves).encode() in (waves.apps.read("live.yaml", pull.branch) or b"")


def not_counted(ran: Ran) -> str:
    """Return why an approval of `live` does not count, as the run tells it."""
    (found,) = (it for it in ran.said("notice") if it.startswith("live: the approval of "))
    return found


def test_a_source_that_moved_on_supersedes_the_request_and_voids_its_merge(waves: Scene) -> None:
    careful = channel_of("live").replace("escalate: []", "patch: approval, escalate: []")
    configure(waves, more=EAGER, others=careful)
    waves.offer(FIRST, PATCH)
    hour(waves)
    base, pull = at(waves), request_of(waves)
    assert PATCH in pull.title
    waves.offer(FIRST, PATCH, MINOR)
    assert told(hour(waves), "production")["target-version"] == MINOR
    assert (request_of(waves), pull.title) == (pull, f"Flux {MINOR} for live (promotion, minor, from {FIRST})")
    assert any("Superseded" in it.body and MINOR in it.body for it in pull.comments)
    waves.fleet.merge(pull.number, "ada")
    waves.fleet.push(
        "main",
        {LOCK: (waves.fleet.read(LOCK) or b"").replace(waves.channel.encode(), base[:-4].encode() + b"0000")},
        "ada",
    )
    ran = hour(waves)
    assert "the file was edited" in not_counted(ran)
    assert at(waves) == base


def test_a_merge_of_what_the_source_has_left_promotes_nothing(waves: Scene) -> None:
    careful = channel_of("live").replace("escalate: []", "patch: approval, escalate: []")
    configure(waves, more=EAGER, others=careful)
    waves.offer(FIRST, PATCH)
    hour(waves)
    base, old = at(waves), waves.channel
    approved(waves)
    waves.offer(FIRST, PATCH, MINOR)
    ran = hour(waves)
    assert f"{old} was approved, and production has {waves.channel}" in not_counted(ran)
    assert at(waves) == base
    approved(waves)
    hour(waves)
    assert at(waves) == waves.channel


def test_a_source_that_was_rolled_back_needs_a_new_yes_once_it_has_the_digest_again(waves: Scene) -> None:
    began = waves.forge.now().replace(microsecond=0)  # all of it happens within one second of GitHub's clock
    waves.forge.now = lambda: began
    hour(waves)
    base, target = at(waves), waves.channel
    approved(waves)
    assert dispatch(waves, "rollback", artifact="production", to=FIRST).through().code == 0
    hour(waves)
    assert at(waves) == base
    assert dispatch(waves, "lift-hold", artifact="production").through().code == 0
    ran = hour(waves)
    assert waves.channel == target
    assert f"has left {target} since ada approved it" in not_counted(ran)
    assert at(waves) == base
    waves.forge.now = lambda: began + timedelta(hours=1)
    approved(waves)
    hour(waves)
    assert at(waves) == target


FROZEN = ", freeze: [{cron: '0 0 1 1 *', for: 9000h, reason: audit}]"


@pytest.mark.parametrize(
    ("now", "said"),
    [
        pytest.param(channel_of("live", ", paused: true"), "paused", id="paused"),
        pytest.param(LIVE.replace("escalate: []", f"escalate: []{FROZEN}"), "audit", id="frozen"),
    ],
)
def test_a_channel_that_waits_keeps_the_yes(waves: Scene, now: str, said: str) -> None:
    hour(waves)
    base, target = at(waves), waves.channel
    approved(waves)
    configure(waves, more=EAGER, others=now)
    ran = hour(waves)
    assert (at(waves), told(ran)["pending-decision"]) == (base, "wait")
    assert said in told(ran)["pending-reasons"]
    configure(waves, more=EAGER, others=LIVE)
    hour(waves)
    assert at(waves) == target


def test_a_yes_that_led_to_a_promotion_does_not_count_after_a_rollback(waves: Scene) -> None:
    base = at(waves)
    hour(waves)
    approved(waves)
    hour(waves)
    target = at(waves)
    assert dispatch(waves, "rollback", artifact="live", to=FIRST, reason="webhooks").through().code == 0
    ran = hour(waves)
    assert (at(waves), told(ran)["pending-decision"]) == (base, "wait")
    assert "stays on hold" in told(ran)["pending-reasons"]
    lifting = dispatch(waves, "lift-hold", artifact="live")
    waves.offer(FIRST, PATCH)  # no release that Flux has now goes to a promoted channel
    said = lifting.show().summary
    assert f"The next scheduled run leaves waiting (approval) {MINOR}: {target}" in said
    assert "a minor release needs approval" in said
    waves.offer(FIRST, MINOR)
    assert lifting.through().code == 0
    ran = hour(waves)
    assert "was used before" in not_counted(ran)
    assert at(waves) == base
    later = waves.forge.now() + timedelta(minutes=1)  # GitHub tells whole seconds, and the hold ended in this one
    waves.forge.now = lambda: later
    approved(waves)
    hour(waves)
    assert at(waves) == target


def test_d1_a_yes_for_one_channel_is_none_for_another(waves: Scene) -> None:
    peer = channel_of("peer")
    configure(waves, others=LIVE + peer)
    waves.offer(FIRST)
    assert dispatch(waves, "rollback", artifact="production", to=FIRST).show().code == 0
    assert dispatch(waves, "promote", artifact="peer").through().code == 0
    waves.offer(FIRST, MINOR)
    configure(waves, more=EAGER, others=LIVE + peer)
    hour(waves)
    base, target = at(waves), waves.channel
    approved(waves, "peer")
    hour(waves)
    assert (at(waves, "peer"), at(waves)) == (target, base)
    own = (waves.fleet.read(LOCK) or b"").replace(b"layout:peer:peer", b"layout:live:live")
    waves.fleet.push("main", {LOCK: own}, "ada")
    ran = hour(waves)
    assert "the last merged pull request did not ask for exactly these digests" in not_counted(ran)
    assert at(waves) == base


def test_d2_no_first_digest_is_asked_for_and_no_yes_survives_a_deleted_channel(waves: Scene) -> None:
    hour(waves)
    approved(waves)
    index = waves.runner.workspace / "live/index.json"
    listed = json.loads(index.read_text())
    key = "org.opencontainers.image.ref.name"
    listed["manifests"] = [it for it in listed["manifests"] if it.get("annotations", {}).get(key) != "live"]
    index.write_text(json.dumps(listed))
    before = index.read_text()
    ran = hour(waves)
    assert any("start flux.yaml: promote, live" in it for it in ran.said("notice"))
    assert index.read_text() == before
    assert not [it for it in waves.fleet.pulls if it.state == "OPEN"]


def test_a_request_is_closed_while_a_newer_digest_soaks(waves: Scene) -> None:
    hour(waves)
    pull = request_of(waves)
    configure(waves, more=EAGER, others=channel_of("live", ", promote: {from: production, after: 72h}"))
    ran = hour(waves)
    assert (pull.state, told(ran)["pending-decision"]) == ("CLOSED", "wait")
    configure(waves, more=EAGER, others=LIVE)
    hour(waves)
    assert request_of(waves) is not pull


def test_a_merge_starts_a_run_that_applies_it_and_nothing_else(waves: Scene) -> None:
    hour(waves)
    approved(waves)
    waves.pushed()
    ran = waves.run("apply")
    assert (ran.code, at(waves)) == (0, waves.channel), ran
    waves.pushed()
    ran = waves.run("apply")
    assert (ran.code, ran.outputs["changed"]) == (0, "false"), ran


def test_an_approved_run_promotes_exactly_what_it_asked_for(waves: Scene) -> None:
    asks = channel_of("live", ", promote: {from: production}, approval: {via: workflow-dispatch}")
    configure(waves, more=EAGER, others=asks)
    hour(waves)
    run_that_asks, base, target = waves.fleet.runs[-1], at(waves), waves.channel
    waves.runner.event("schedule", {})
    early = waves.run("approve", **waves.approving())
    assert (early.code, at(waves)) == (11, base), early
    waves.forge.approve(run_that_asks.id, "ada")
    other = waves.run("approve", **{**waves.approving(), "target": base})
    assert (other.code, at(waves)) != (0, target), other
    ran = waves.run("approve", **waves.approving())
    assert (ran.code, at(waves)) == (0, target), ran
    again = waves.run("approve", **waves.approving())
    assert (again.code, again.outputs["changed"]) == (0, "false"), again


@pytest.mark.parametrize("later", [(), (HAZARD,)], ids=["", "though a hazard is known since"])
def test_a_promotion_that_was_cut_off_before_its_record_is_recorded_with_its_yes(
    waves: Scene, monkeypatch: pytest.MonkeyPatch, known: list[Hazard], later: tuple[Hazard, ...]
) -> None:
    hour(waves)
    pull, target = request_of(waves), waves.channel
    approved(waves)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("ci_automation.records.writer.RecordWriter.attach", killed)
        waves.runner.variables["GITHUB_EVENT_NAME"] = "schedule"
        assert waves.run().code != 0
    assert at(waves) == target
    known[:] = later
    hour(waves)
    waves.runner.capture.readouterr()
    assert run(["history", "layout:live:live", "--public-key", "cosign.pub", "--output", "json"]) == 0
    assert f"pull request {waves.forge.host}/acme/fleet/pull/{pull.number}" in waves.runner.capture.readouterr().out


def test_an_operation_whose_base_is_rolled_back_in_its_last_seconds_promotes_nothing(
    waves: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = at(waves)
    waves.offer(FIRST, PATCH)
    hour(waves)
    had = at(waves)
    waves.offer(FIRST, PATCH, MINOR)
    hour(waves)
    started = dispatch(waves, "promote", artifact="live")
    shown = started.show()
    started.approve()

    def rolled_back(*_: object) -> None:
        monkeypatch.undo()
        signing = ("--signing", "key", "--key", "cosign.key")
        assert run(["rollback", "layout:live:live", "--to", first, "--yes", *signing]) == 0

    monkeypatch.setattr("ci_automation.action.dispatched._require_unused", rolled_back)
    ran = started.do(shown.outputs["shown"])
    assert (first != had, ran.code, at(waves)) == (True, 12, first)


@pytest.mark.parametrize("hours", [1, -1], ids=["ahead", "behind"])
def test_merges_count_by_githubs_clock_once_a_promoted_channel_has_its_content_from_git(
    waves: Scene, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    def merged(memory: str) -> None:
        start = waves.forge.now() + timedelta(minutes=1)
        waves.forge.now = lambda: start
        waves.fleet.push(memory, {"clusters/live/more.yaml": patch(memory)}, "ada", onto=waves.fleet.head)
        waves.fleet.merge(waves.fleet.open_pull(memory, "ada").number, "ben")

    def wrong(_zone: object) -> datetime:
        return datetime.now(UTC) + timedelta(hours=hours)

    waves.offer(FIRST, PATCH)
    with monkeypatch.context() as patched:
        patched.setattr("ci_automation.flows.ports.datetime", SimpleNamespace(now=wrong))
        assert told(hour(waves))["changed"]
    registry, trusted = LayoutRegistry(LayoutDirectory(Path("live"))), TrustedKeys((signing_key().public,))
    record = Ledger(registry, Reference.parse("layout:live:live"), trusted).newest()
    assert record
    assert (record.at - waves.forge.now() > timedelta(minutes=30)) == (hours > 0)
    merged("1Gi")
    own = LIVE.replace("promote: {from: production}", "overlay: clusters/live")
    configure(waves, more=EAGER, others=own)
    checkout(waves)
    promoted = at(waves)
    asked = hour(waves)
    assert at(waves) == promoted
    assert "no record says which content of Git the channel has" in told(asked)["pending-reasons"]
    waves.fleet.merge(waves.fleet.pulls[-1].number, "ben")
    assert told(hour(waves))["changed"]
    merged("2Gi")
    checkout(waves)
    published = told(hour(waves))
    assert published["changed"]
    assert published["decision"] == "auto"
    assert not told(hour(waves))["changed"]


def test_a_hazard_that_the_page_did_not_show_is_asked_anew(waves: Scene, known: list[Hazard]) -> None:
    base = at(waves)
    hour(waves)
    approved(waves)
    known[:] = [HAZARD]
    ran = hour(waves)
    assert at(waves) == base, ran
    assert not told(ran)["changed"]
    assert "was merged for these digests before it was known that objects may use v1 of A" in request_of(waves).body
    hour(waves)
    approved(waves)
    assert told(hour(waves))["changed"]
    assert len(waves.fleet.pulls) == 2


def test_a_hazard_that_was_not_shown_voids_an_operation(waves: Scene, known: list[Hazard]) -> None:
    hour(waves)
    base, asked = at(waves), dispatch(waves, "promote", artifact="live")
    shown = asked.show()
    assert shown.code == 0, shown
    asked.approve()
    known[:] = [HAZARD]
    done = asked.do(shown.outputs["shown"])
    assert (done.code, at(waves)) == (12, base), done
    known.clear()
    assert asked.do(shown.outputs["shown"]).code == 0
