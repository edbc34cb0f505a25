"""Operations by dispatch: what is shown is done once it is approved, exactly that or nothing."""

from __future__ import annotations

import json
import re
import shutil
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from ci_automation.artifact.index import Index
from ci_automation.artifact.manifest import OCI_MANIFEST, Manifest
from ci_automation.artifact.reference import Digest, Reference
from ci_automation.cli import run
from ci_automation.errors import RegistryError
from ci_automation.flows.init import publish_first
from ci_automation.records.writer import RecordWriter
from ci_automation.registry import open_registry
from ci_automation.signing.signer import KeySigner
from ci_automation.signing.trust import Identity
from tests.contract.hostile_registry import HostileRegistry, Reply, challenge
from tests.contract.operating import CONFIG, configure, dispatch, ledger, patched, push, records
from tests.contract.planting import attach_junk_in
from tests.contract.scene import CHANNEL, FIRST, MINOR, PATCH
from tests.fakes.sigstore.tokens import encode, github_claims
from tests.fakes.world import key_pem, signing_key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ci_automation.flows.init import FirstArtifact
    from ci_automation.impact.overlay.builder import Build
    from tests.conftest import Once
    from tests.contract.hostile_registry import Seen
    from tests.contract.operating import Dispatched
    from tests.contract.scene import Scene
    from tests.fakes.sigstore import LocalSigstore


@pytest.fixture
def scene(scene: Scene, once: Once) -> Scene:
    return patched(scene, once)


def ahead(scene: Scene, hours: int) -> Callable[[], datetime]:
    """Set GitHub's clock before this machine's, or behind it, and return it."""
    now = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=hours)
    scene.forge.now = lambda: now
    return scene.forge.now


def point_to_the_first(scene: Scene) -> str:
    """Let somebody move the tag to the digest that the channel had first, and return that."""
    channel = Reference.parse(CHANNEL)
    first = scene.tags[next(tag for tag in scene.tags if tag.startswith(f"{FIRST}-"))]
    registry = open_registry(channel)
    registry.put_manifest(channel, registry.manifest(channel.at_digest(Digest.parse(first))))
    assert scene.channel == first
    return first


def put_back_without_a_record(scene: Scene, to: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Dispatched, str]:
    """Put a channel back by a job that ends right before its record; return the run, and what was shown."""
    asked = dispatch(scene, "rollback", to=to)
    shown = asked.show().outputs["shown"]
    asked.approve()
    with monkeypatch.context() as patch:
        patch.setattr(RecordWriter, "attach", _die)
        assert asked.do(shown).code == 20
    return asked, shown


def _die(*_: object) -> None:
    raise RegistryError("the registry is gone")


class TestRollback:
    @pytest.mark.parametrize("what", ["a manifest that cannot be read", "records of it", "records of a release"])
    def test_leads_away_from_where_an_attacker_hides_something(self, scene: Scene, what: str) -> None:
        channel = Reference.parse(CHANNEL)
        registry, first = open_registry(channel), next(tag for tag in scene.tags if tag.startswith(f"{FIRST}-"))
        wanted = scene.tags[first]
        if what == "records of it":
            former = registry.manifest(channel)
            registry.put_manifest(channel, Manifest.build(former.config, former.layers, {"pushed": "again"}))
        if what == "a manifest that cannot be read":
            registry.put_manifest(channel, Index.build())
        else:
            attach_junk_in(registry, channel, registry.manifest(channel).digest)
        before = scene.channel
        ran = dispatch(scene, "rollback", to=FIRST, reason="an attack").through()
        assert (ran.code, scene.channel) == (0, wanted), ran
        assert scene.channel != before
        assert records()[-1].rolled_back

    def test_is_shown_then_approved_then_done(self, scene: Scene) -> None:
        had = scene.channel
        asked = dispatch(scene, "rollback", to=FIRST, reason="webhooks time out")
        shown = asked.show()
        assert (shown.code, shown.outputs["changed"]) == (0, "false"), shown
        assert f"is at Flux {PATCH}: rollback needs approval of this run" in shown.summary
        assert f"goes back from {PATCH} to {FIRST}" in shown.summary
        assert had in shown.summary
        assert "webhooks time out" in shown.summary
        assert json.loads(shown.outputs["shown"])["base"] == had == scene.channel
        asked.approve()
        done = asked.do(shown.outputs["shown"])
        assert (done.code, done.outputs["changed"]) == (0, "true"), done
        assert done.outputs["digest"] == scene.channel != had
        assert done.outputs["immutable-tag"] in scene.tags
        assert f"rolled back to {FIRST}" in done.summary
        assert "Approved by ada" in done.summary

    def test_puts_a_channel_back_whose_tag_was_moved(self, scene: Scene) -> None:
        last, first = scene.channel, point_to_the_first(scene)
        asked = dispatch(scene, "rollback", to=last)
        shown = asked.show()
        assert shown.code == 0, shown
        assert f"The tag was moved back from {PATCH} to {FIRST} without a record." in shown.summary
        asked.approve()
        done = asked.do(shown.outputs["shown"])
        assert (done.code, done.outputs["digest"]) == (0, last), done
        assert f"put back at {PATCH}" in done.summary
        again = asked.do(shown.outputs["shown"])
        assert (again.code, again.outputs["changed"]) == (0, "false"), again
        record = records()[-1]
        assert (scene.channel, record.put_back, str(record.previous)) == (last, True, first)
        assert record.approval is not None
        assert record.approval.by == "ada"

    def test_that_put_a_channel_back_and_ended_before_its_record_writes_it_when_it_runs_again(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        last, first = scene.channel, point_to_the_first(scene)
        asked, killed = put_back_without_a_record(scene, last, monkeypatch)
        assert (scene.channel, len(records())) == (last, 1)
        again = asked.do(killed)
        assert again.code == 0, again
        *_, record = records()
        assert (record.put_back, str(record.previous), record.approval and record.approval.by) == (True, first, "ada")
        assert len(records()) == 2
        once_more = asked.do(killed)
        assert (once_more.code, once_more.outputs["changed"], len(records())) == (0, "false", 2), once_more

    def test_that_put_a_channel_back_and_ended_before_its_record_does_it_again_where_the_tag_was_moved_again(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        last, first = scene.channel, point_to_the_first(scene)
        asked, killed = put_back_without_a_record(scene, last, monkeypatch)
        point_to_the_first(scene)
        assert (asked.do(killed).code, scene.channel) == (0, last)
        assert (records()[-1].put_back, str(records()[-1].previous)) == (True, first)

    def test_that_put_a_channel_back_writes_no_record_where_another_is_about_what_came_since(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        last, _ = scene.channel, point_to_the_first(scene)
        asked, killed = put_back_without_a_record(scene, last, monkeypatch)
        channel = Reference.parse(CHANNEL)
        registry = open_registry(channel)
        came = replace(records()[-1], at=datetime.now(UTC) + timedelta(minutes=1))
        RecordWriter(registry, channel, KeySigner(signing_key())).write(registry.manifest(channel), came)
        again = asked.do(killed)
        assert (again.code, len(records())) == (12, 2), again
        assert "the approval does not count any more: plan was" in again.summary

    def test_its_page_names_the_other_channels_that_have_the_release(self, scene: Scene) -> None:
        shutil.copytree(scene.runner.workspace / "registry", scene.runner.workspace / "edge")
        said = f"edge has {PATCH} too: roll back each channel by itself."
        assert said not in dispatch(scene, "rollback", to=FIRST).show().summary
        configure(scene, others="- {name: edge, url: 'layout:edge:production'}\n")
        assert said in dispatch(scene, "rollback", artifact="production", to=FIRST).show().summary

    def test_its_page_reads_the_other_channels_with_the_logins_of_the_job(self, scene: Scene) -> None:
        channel = Reference.parse(CHANNEL)
        found = open_registry(channel).manifest(channel).raw

        def private(seen: Seen) -> Reply:
            is_known = seen.authorization == f"Basic {b64encode(b'robot:word').decode()}"
            return Reply(200, found, {"Content-Type": OCI_MANIFEST}) if is_known else challenge('Basic realm="r"')

        with HostileRegistry(private) as registry:
            configure(scene, others=f"- {{name: edge, url: 'oci://{registry.host}/acme/flux:edge'}}\n")
            logins = json.dumps({"auths": {registry.host: {"username": "robot", "password": "word"}}})
            shown = dispatch(scene, "rollback", artifact="production", to=FIRST).show(docker_config=logins)
        assert f"edge has {PATCH} too: roll back each channel by itself." in shown.summary, shown

    def test_what_is_done_takes_one_request_more_than_an_approval(self, scene: Scene) -> None:
        asked = dispatch(scene, "rollback", to=FIRST)
        shown = asked.show().outputs["shown"]
        asked.approve()
        before = len(scene.forge.requests)
        assert asked.do(shown).code == 0
        done = len(scene.forge.requests) - before
        later = scene.forge.now() + timedelta(minutes=1)  # an approval within the second of a rollback does not count
        scene.forge.now = lambda: later
        configure(scene, approval="{via: workflow-dispatch}")
        scene.offer(FIRST, PATCH, MINOR)
        scene.run()
        scene.fleet.answer(scene.fleet.runs[-1].id, "ada")
        before = len(scene.forge.requests)
        assert scene.run("approve", **scene.approving()).outputs["target-version"] == MINOR
        assert done <= len(scene.forge.requests) - before + 1

    def test_holds_the_release_against_the_schedule(self, scene: Scene) -> None:
        assert dispatch(scene, "rollback", to=FIRST).through().code == 0
        scene.runner.variables["GITHUB_EVENT_NAME"] = "schedule"
        at = scene.channel
        ran = scene.run(approval="none")
        assert (ran.code, scene.channel) == (0, at), ran

    def test_can_be_run_again_after_it_was_done(self, scene: Scene) -> None:
        asked = dispatch(scene, "rollback", to=FIRST)
        shown = asked.show()
        asked.approve()
        assert asked.do(shown.outputs["shown"]).code == 0
        again = asked.do(shown.outputs["shown"])
        assert (again.code, again.outputs["changed"]) == (0, "false"), again

    def test_is_dated_by_githubs_clock_as_merges_are(self, scene: Scene) -> None:
        now = ahead(scene, 1)
        assert dispatch(scene, "rollback", to=FIRST).through().code == 0
        assert all(now() <= it.at for it in (records()[-1], ledger().holds(Digest.parse(scene.channel))[-1]))
        scene.runner.capture.readouterr()
        assert run(["history", CHANNEL, "--public-key", "cosign.pub"]) == 0
        assert f"{now():%Y-%m-%d %H:%M}" in scene.runner.capture.readouterr().out.splitlines()[1]
        now = ahead(scene, 2)
        assert dispatch(scene, "lift-hold").through().code == 0
        assert now() <= ledger().holds(Digest.parse(scene.channel))[-1].at

    def test_to_where_the_channel_is_asks_nobody(self, scene: Scene) -> None:
        shown = dispatch(scene, "rollback", to=PATCH).show()
        assert (shown.code, shown.outputs["shown"]) == (0, ""), shown
        assert "no approval is needed" in shown.summary

    def test_to_where_the_channel_is_after_the_hold_was_lifted_makes_none(self, scene: Scene) -> None:
        assert dispatch(scene, "rollback", to=FIRST).through().code == 0
        assert dispatch(scene, "lift-hold").through().code == 0
        shown = dispatch(scene, "rollback", to=FIRST).show()
        assert (shown.code, shown.outputs["shown"]) == (0, ""), shown
        assert "no approval is needed" in shown.summary
        assert f"The hold on {PATCH} ended on " in shown.summary

    def test_to_nothing_lists_the_tags_and_asks_nobody(self, scene: Scene) -> None:
        shown = dispatch(scene, "rollback").show()
        assert (shown.code, shown.outputs.get("shown", "")) == (2, "")
        told = {tag: tag in shown.said("error")[0] for tag in scene.tags if tag.startswith("v")}
        assert told == {tag: scene.tags[tag] != scene.channel for tag in told}  # not what it has now

    def test_is_told_to_those_who_hear_of_publications_and_offered_to_those_who_pin_it(self, scene: Scene) -> None:
        had = scene.channel
        configure(scene, more=", announce: [acme/apps], consumers: [{repository: acme/apps}]")
        asked = dispatch(scene, "rollback", to=FIRST)
        assert asked.through().code == 0
        ((kind, payload),) = scene.apps.dispatched
        moved = (payload["version"], payload["base"], payload["target"])
        assert (kind, *moved) == ("flux-manifests-published", FIRST, had, scene.channel)
        assert dispatch(scene, "lift-hold").through().code == 0
        assert len(scene.apps.dispatched) == 1
        assert scene.run("consumers").code == 0
        (pull,) = scene.apps.pulls
        assert scene.channel.encode() in (scene.apps.read("flux/source.yaml", pull.branch) or b"")

    @pytest.mark.parametrize("wrong", ["missing", "without reviewers"])
    def test_an_environment_that_lets_all_pass_is_told_before_anybody_waits(self, scene: Scene, wrong: str) -> None:
        if wrong == "missing":
            scene.fleet.environments.clear()
        else:
            scene.fleet.environment("flux-manifests", [])
        shown = dispatch(scene, "rollback", to=FIRST).show()
        assert shown.code == 0, shown
        (warning,) = (it for it in shown.said("warning") if "environment" in it)
        assert "under Environments, choose flux-manifests and tick 'Required reviewers'" in warning
        assert "so every run would pass without approval" in shown.summary
        assert not [it for it in dispatch(scene, "rollback", to=PATCH).show().said("warning") if "environment" in it]

    def test_a_job_that_may_not_see_the_environment_says_nothing_of_it(self, scene: Scene) -> None:
        scene.fleet.private = True
        rights = {"contents": "read"}
        scene.runner.variables["INPUT_GITHUB-TOKEN"] = scene.forge.token("actions", scene.fleet.full_name, rights)
        shown = dispatch(scene, "rollback", to=FIRST).show()
        assert (shown.code, [it for it in shown.said("warning") if "environment" in it]) == (0, []), shown


class TestLiftHold:
    def test_names_the_hold_and_what_comes_next(self, scene: Scene) -> None:
        had = scene.channel
        assert dispatch(scene, "rollback", to=FIRST, reason="webhooks time out").through().code == 0
        asked = dispatch(scene, "lift-hold", reason="mended")
        shown = asked.show()
        assert shown.code == 0, shown
        assert "webhooks time out" in shown.summary
        short = had.removeprefix("sha256:")[:12]
        assert (
            f"on {PATCH} ({short}) ends now. It kept {had} back until the channel takes a newer release."
            in shown.summary
        )
        assert f"The next scheduled run publishes {PATCH}: {had}" in shown.summary
        asked.approve()
        done = asked.do(shown.outputs["shown"])
        assert (done.code, done.outputs["changed"]) == (0, "false"), done
        scene.runner.variables["GITHUB_EVENT_NAME"] = "schedule"
        assert scene.run(approval="none").outputs["digest"] == had

    def test_without_a_hold_says_so(self, scene: Scene) -> None:
        ran = dispatch(scene, "lift-hold").show()
        assert ran.code == 2
        assert "has no hold now" in ran.said("error")[0]
        assert "There is nothing to lift." in ran.said("error")[0]


LIVE = (
    "- {name: live, url: 'layout:live:live', verify: {publicKey: cosign.pub}, signing: {mode: key, key: cosign.key}, "
    "promote: {from: production}}\n"
)


def tag_of(scene: Scene, layout: str, tag: str) -> str | None:
    """Return the digest that a tag of another layout has."""
    path = scene.runner.workspace / layout / "index.json"
    if not path.exists():
        return None
    name = "org.opencontainers.image.ref.name"
    named = {it.get("annotations", {}).get(name): it["digest"] for it in json.loads(path.read_bytes())["manifests"]}
    return named.get(tag)


class TestPromote:
    @pytest.fixture
    def scene(self, scene: Scene) -> Scene:
        """Return a fleet with a second channel, which gets its digests from the first."""
        configure(scene, others=LIVE)
        return scene

    def test_the_first_digest_of_a_channel(self, scene: Scene) -> None:
        asked = dispatch(scene, "promote", artifact="live")
        shown = asked.show()
        assert (shown.code, json.loads(shown.outputs["shown"])["base"]) == (0, "none"), shown
        assert f"the promotion of {PATCH}" in shown.summary
        assert f"It is Flux {PATCH} with Flux's default options." in shown.summary
        assert "It is signed by the key sha256:" in shown.summary
        assert re.search(r"\bproduction has had it since 20\d\d-\d\d-\d\d \d\d:\d\d UTC\.", shown.summary)
        assert "may do everything" in shown.summary
        assert tag_of(scene, "live", "live") is None
        asked.approve()
        done = asked.do(shown.outputs["shown"])
        assert (done.code, done.outputs["changed"]) == (0, "true"), done
        assert tag_of(scene, "live", "live") == scene.channel
        again = asked.do(shown.outputs["shown"])
        assert (again.code, again.outputs["changed"]) == (0, "false"), again

    def test_the_record_names_the_reviewer_and_the_run(self, scene: Scene) -> None:
        configure(scene, others=LIVE.replace("live,", "live, announce: [acme/apps],", 1))
        asked = dispatch(scene, "promote", artifact="live")
        scene.runner.variables["GITHUB_SHA"] = scene.fleet.head
        assert asked.through().code == 0
        scene.runner.capture.readouterr()
        assert run(["history", "layout:live:live", "--public-key", "cosign.pub", "--output", "json"]) == 0
        told = scene.runner.capture.readouterr().out
        assert f'"repository": "{scene.forge.host}/acme/fleet",\n' in told
        assert f'"commit": "{scene.fleet.head}"' in told
        assert f"actions/runs/{asked.run.id}" in told
        assert '"by": "ada"' in told
        ((_, payload),) = scene.apps.dispatched
        assert payload["base"] == payload["target"] == tag_of(scene, "live", "live")  # nothing was there before

    def test_a_minor_after_a_patch(self, scene: Scene) -> None:
        assert dispatch(scene, "promote", artifact="live").through().code == 0
        scene.offer(FIRST, PATCH, MINOR)
        configure(scene, more=", policy: {minor: auto, escalate: []}", pushes=False)
        scene.runner.variables["GITHUB_EVENT_NAME"] = "schedule"
        scene.runner.variables["GITHUB_SHA"] = scene.fleet.head
        assert scene.run(artifact="production", approval="none").outputs["target-version"] == MINOR
        configure(scene, others=LIVE)
        asked = dispatch(scene, "promote", artifact="live", to=MINOR)
        shown = asked.show()
        assert shown.code == 0, shown
        assert "a minor release needs approval" in shown.summary
        asked.approve()
        ran = asked.do(shown.outputs["shown"])
        assert (ran.code, ran.outputs["target-version"]) == (0, MINOR), ran

    def test_a_channel_that_is_not_promoted_says_what_to_write_into_the_configuration(self, scene: Scene) -> None:
        (error,) = dispatch(scene, "promote", artifact="production").show().said("error")
        assert "production of the configuration is not promoted from another" in error
        assert "Add `promote: {from: NAME, after: 72h}` to the artifact in the configuration." in error
        assert "--from" not in error

    @pytest.mark.parametrize("to", [FIRST, "sha256:" + "a" * 64, "latest"])
    def test_what_the_source_has_left_is_not_promoted(self, scene: Scene, to: str) -> None:
        ran = dispatch(scene, "promote", artifact="live", to=to).show()
        assert ran.code == 2
        assert f"has {PATCH}" in ran.said("error")[0]


class TestAdopt:
    @pytest.fixture
    def foreign(self, scene: Scene) -> Scene:
        """Return a fleet whose channel another key has signed."""
        (scene.runner.workspace / "other.key").write_bytes(key_pem("others"))
        own = ["--flux-version", FIRST, "--releases", "../releases", "--signing", "key", "--key", "other.key"]
        assert run(["init", "layout:foreign:production", *own, "--public-key", self.public(scene)]) == 0
        configure(scene, more=", announce: [acme/apps], versionTags: true", pushes=False)
        text = (scene.runner.workspace / CONFIG).read_text().replace("layout:registry:", "layout:foreign:")
        (scene.runner.workspace / CONFIG).write_text(text)
        push(scene, text)
        return scene

    def public(self, scene: Scene) -> str:
        """Return the file with the public half of the other key."""
        path = scene.runner.workspace / "other.pub"
        path.write_text(signing_key("others").public.to_pem())
        return path.name

    def test_takes_one_run_and_nothing_to_edit(self, foreign: Scene) -> None:
        had, now = tag_of(foreign, "foreign", "production"), ahead(foreign, 1)
        asked = dispatch(foreign, "adopt")
        shown = asked.show()
        assert shown.code == 0, shown
        assert "byte for byte" in shown.summary
        assert str(had) in shown.summary
        assert f"These version tags lead to it then, for clusters with ref.semver: {FIRST}." in shown.summary
        assert tag_of(foreign, "foreign", FIRST) is None
        asked.approve()
        done = asked.do(shown.outputs["shown"])
        assert (done.code, tag_of(foreign, "foreign", "production")) == (0, had), done
        assert tag_of(foreign, "foreign", FIRST) == had
        (record,) = records("layout:foreign:production")
        assert now() <= record.at
        assert record.content is None  # so that content is asked for by digest, whatever was merged when
        assert not foreign.apps.dispatched  # clusters have it already
        assert dispatch(foreign, "adopt").show().outputs["shown"] == ""
        foreign.runner.variables["GITHUB_EVENT_NAME"] = "schedule"
        ran = foreign.run(approval="none")
        assert (ran.code, ran.outputs["target-version"]) == (0, PATCH), ran

    def test_its_page_is_in_the_summary_however_wide_the_letters_of_its_files_are(self, foreign: Scene) -> None:
        folder = foreign.runner.workspace / "overlay"
        folder.mkdir()
        for name in "abcdefghijkl":
            (folder / f"{name}.yaml").write_text(f"# {'漢' * 600}\n" * 90)
        own = ["--flux-version", FIRST, "--releases", "../releases", "--signing", "key", "--key", "other.key"]
        given = ["--public-key", self.public(foreign), "--overlay", "overlay"]
        assert run(["init", "layout:wide:production", *own, *given]) == 0
        text = (foreign.runner.workspace / CONFIG).read_text().replace("layout:foreign:", "layout:wide:")
        (foreign.runner.workspace / CONFIG).write_text(text)
        push(foreign, text)
        shown = dispatch(foreign, "adopt").show()
        assert shown.outputs["shown"], shown
        assert str(tag_of(foreign, "wide", "production")) in shown.summary
        assert "… (cut here)" in shown.summary
        assert "An approval of this run in the environment counts for exactly this" in shown.summary

    def test_in_a_pause_it_adopts_and_runs_publish_nothing_until_the_pause_ends(self, foreign: Scene) -> None:
        had, text = tag_of(foreign, "foreign", "production"), (foreign.runner.workspace / CONFIG).read_text()
        paused = text.replace("versionTags: true", "versionTags: true, paused: true")
        for config, version in ((paused, FIRST), (text, PATCH)):
            (foreign.runner.workspace / CONFIG).write_text(config)
            push(foreign, config)
            if version == FIRST:
                assert dispatch(foreign, "adopt").through().code == 0
                foreign.runner.variables["GITHUB_EVENT_NAME"] = "schedule"
            ran = foreign.run(approval="none")
            assert (ran.code, ran.outputs["target-version"]) == (0, version), ran
            assert (tag_of(foreign, "foreign", "production") == had) == (version == FIRST)

    def test_a_rollback_takes_the_channel_back_to_it_from_a_later_unsigned_push(self, foreign: Scene) -> None:
        had = tag_of(foreign, "foreign", "production")
        assert dispatch(foreign, "adopt").through().code == 0
        channel = Reference.parse("layout:foreign:production")
        registry = open_registry(channel)
        former = registry.manifest(channel)
        pushed = registry.put_manifest(channel, Manifest.build(former.config, former.layers, {"pushed": "again"}))
        assert tag_of(foreign, "foreign", "production") == str(pushed)
        foreign.runner.variables["GITHUB_EVENT_NAME"] = "schedule"
        assert foreign.run(approval="none").code == 10
        ran = dispatch(foreign, "rollback", to=FIRST, reason="the script pushed again").through()
        assert (ran.code, tag_of(foreign, "foreign", "production")) == (0, had), ran

    def test_an_adopted_digest_that_lost_its_signature_later_is_not_adopted_by_the_same_run(
        self, foreign: Scene
    ) -> None:
        folder = foreign.runner.workspace / "foreign"
        had = str(tag_of(foreign, "foreign", "production"))
        name = "org.opencontainers.image.ref.name"
        signed = {f"sha256-{had.removeprefix('sha256:')}.sig", "production"}
        before = {it["annotations"][name]: it for it in self.listed(folder) if it["annotations"].get(name) in signed}
        asked = dispatch(foreign, "adopt")
        shown = asked.show().outputs["shown"]
        asked.approve()
        assert asked.do(shown).code == 0
        foreign.runner.variables["GITHUB_EVENT_NAME"] = "schedule"
        assert foreign.run(approval="none").outputs["target-version"] == PATCH
        back = [before.get(it["annotations"].get(name), it) for it in self.listed(folder)]
        (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": back}))
        assert "was used before" in asked.do(shown).said("error")[0]

    def listed(self, folder: Path) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = json.loads((folder / "index.json").read_text())["manifests"]
        return [{"annotations": {}, **it} for it in listed]

    def test_without_it_nothing_is_signed(self, foreign: Scene) -> None:
        foreign.runner.variables["GITHUB_EVENT_NAME"] = "schedule"
        assert foreign.run(approval="none").code == 10

    def test_what_is_signed_and_in_its_place_needs_none(self, scene: Scene) -> None:
        shown = dispatch(scene, "adopt").show()
        assert (shown.code, shown.outputs["shown"]) == (0, ""), shown
        assert "nothing to adopt" in shown.summary


FRESH = "clusters/fresh/flux-system"
KUSTOMIZATION = b"resources: [flux-system/gotk-components.yaml]\n"


class Making:
    """A kustomize that makes a Secret of what is in no Secret."""

    def builds(self, wanted: Sequence[Build]) -> tuple[str, ...]:
        """Return the components, and that Secret."""
        secret = "apiVersion: v1\ndata:\n  key: aHVudGVyMg==\nkind: Secret\nmetadata:\n  name: made\n  namespace: a\n"
        return tuple(f"{tree['flux-system/gotk-components.yaml'].decode()}---\n{secret}" for tree, _ in wanted)


class TestInit:
    @pytest.fixture
    def fresh(self, scene: Scene) -> Scene:
        """Return a fleet with a channel that has nothing, and its overlay in Git and in the checkout."""
        fresh = (
            f"- {{name: fresh, url: 'layout:fresh:production', verify: {{publicKey: cosign.pub}}, overlay: {FRESH}, "
            "announce: [acme/apps], signing: {mode: key, key: cosign.key}, flags: {watch-all-namespaces: false}}\n"
        )
        configure(scene, others=fresh)
        self.commit(scene, {"kustomization.yaml": KUSTOMIZATION})
        return scene

    def commit(self, scene: Scene, files: dict[str, bytes], *, checkout: bool = True, folder: str = FRESH) -> None:
        """Let Git have these files of the overlay, and the checkout too."""
        scene.fleet.push("main", {f"{folder}/{name}": data for name, data in files.items()}, "keeper")
        for name, data in files.items() if checkout else ():
            path = scene.runner.workspace / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def test_the_first_artifact_from_an_overlay_in_git_and_a_version(self, fresh: Scene) -> None:
        asked = dispatch(fresh, "init", artifact="fresh", to=FIRST)
        shown = asked.show()
        assert (shown.code, json.loads(shown.outputs["shown"])["base"]) == (0, "none"), shown
        assert "**fresh**: init needs approval of this run" in shown.summary
        assert "--watch-all-namespaces=false" in shown.summary
        assert "kustomization.yaml" in shown.summary
        assert tag_of(fresh, "fresh", "production") is None
        asked.approve()
        done = asked.do(shown.outputs["shown"])
        assert (done.code, done.outputs["changed"], done.outputs["target-version"]) == (0, "true", FIRST), done
        digest = tag_of(fresh, "fresh", "production")
        assert digest == done.outputs["digest"] == json.loads(shown.outputs["shown"])["target"]
        assert [payload["target"] for _, payload in fresh.apps.dispatched] == [digest]
        again = asked.do(shown.outputs["shown"])
        assert (again.code, again.outputs["changed"]) == (0, "false"), again
        assert dispatch(fresh, "init", artifact="fresh", to=FIRST).show().outputs["shown"] == ""
        fresh.runner.capture.readouterr()
        assert run(["history", "layout:fresh:production", "--public-key", "cosign.pub", "--output", "json"]) == 0
        told = fresh.runner.capture.readouterr().out
        assert '"by": "ada"' in told
        assert f'"commit": "{fresh.fleet.head}"' in told  # of the content, from which merges are judged

    def test_a_reviewer_sees_what_clusters_get_in_place_of_flux_alone(self, fresh: Scene) -> None:
        own = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: own, namespace: flux-system}\n"
        self.commit(fresh, {"kustomization.yaml": KUSTOMIZATION.replace(b"]", b", own.yaml]"), "own.yaml": own})
        asked = dispatch(fresh, "init", artifact="fresh", to=FIRST)
        shown = asked.show()
        told = shown.summary[shown.summary.index("Beside plain Flux, clusters get:") :]
        assert "ConfigMap flux-system/own is new" in told[: told.index("may do everything")]
        asked.approve()
        assert asked.do(shown.outputs["shown"]).outputs["changed"] == "true"
        assert asked.do(shown.outputs["shown"]).outputs["changed"] == "false"

    @pytest.mark.parametrize("hours", [-1, 1])
    def test_its_content_is_dated_by_githubs_clock_as_merges_are(self, fresh: Scene, hours: int) -> None:
        now = ahead(fresh, hours)
        assert dispatch(fresh, "init", artifact="fresh", to=FIRST).through().code == 0
        (record,) = records("layout:fresh:production")
        assert record.content
        assert all(timedelta() <= it - now() < timedelta(minutes=5) for it in (record.content.at, record.at))

    def test_a_folder_of_flux_bootstrap_is_taken_as_the_hints_say(self, fresh: Scene) -> None:
        bootstrapped = {"kustomization.yaml": b"resources: [gotk-components.yaml]\n", "gotk-components.yaml": b"{}\n"}
        self.commit(fresh, bootstrapped)
        (error,) = dispatch(fresh, "init", artifact="fresh", to=FIRST).show().said("error")
        assert "run `setup`: it copies the other files to a folder that no Kustomization of Flux applies" in error
        text = (fresh.runner.workspace / CONFIG).read_text().replace(FRESH, "flux/fresh")
        bootstrapped.pop("gotk-components.yaml")
        self.commit(fresh, bootstrapped, folder="flux/fresh")
        (fresh.runner.workspace / CONFIG).write_text(text)
        push(fresh, text)
        (error,) = dispatch(fresh, "init", artifact="fresh", to=FIRST).show().said("error")
        assert "set `componentsFile` to the path that it lists" in error
        text = text.replace("overlay: flux/fresh", "overlay: flux/fresh, componentsFile: gotk-components.yaml")
        (fresh.runner.workspace / CONFIG).write_text(text)
        push(fresh, text)
        done = dispatch(fresh, "init", artifact="fresh", to=FIRST).through()
        assert (done.code, done.outputs["changed"]) == (0, "true"), done

    def test_the_scheduled_run_goes_on_from_there(self, fresh: Scene) -> None:
        assert dispatch(fresh, "init", artifact="fresh", to=FIRST).through().code == 0
        fresh.runner.variables["GITHUB_EVENT_NAME"] = "schedule"
        ran = fresh.run(artifact="fresh", approval="none")
        assert (ran.code, ran.outputs["target-version"]) == (0, PATCH), ran

    def test_bytes_that_git_does_not_have_are_not_published(self, fresh: Scene) -> None:
        (fresh.runner.workspace / FRESH / "kustomization.yaml").write_bytes(KUSTOMIZATION + b"# not committed\n")
        ran = dispatch(fresh, "init", artifact="fresh", to=FIRST).show()
        assert ran.code == 12
        assert f"{FRESH} in this checkout is not what the default branch has now" in ran.said("error")[0]

    def test_a_secret_in_plain_text_is_refused_before_anybody_is_asked_unless_it_is_acknowledged(
        self, fresh: Scene
    ) -> None:
        self.commit(fresh, {"s.yaml": b"kind: Secret\nstringData: {password: hunter2}\n"})
        asked = dispatch(fresh, "init", artifact="fresh", to=FIRST)
        ran = asked.show()
        assert (ran.code, ran.outputs["shown"]) == (11, ""), ran
        (told,) = re.findall(
            r"these files hold Secrets in plain text: s\.yaml \(([0-9a-f]{16})\)", ran.said("error")[0]
        )
        assert "hunter2" not in ran.log + ran.summary
        text = (fresh.runner.workspace / CONFIG).read_text()
        known = f"acknowledge: [{{fingerprint: '{told}', until: 2999-01-01, reason: a test}}], overlay: {FRESH}"
        (fresh.runner.workspace / CONFIG).write_text(text.replace(f"overlay: {FRESH}", known))
        push(fresh, (fresh.runner.workspace / CONFIG).read_text())
        assert dispatch(fresh, "init", artifact="fresh", to=FIRST).through().code == 0

    def test_a_secret_in_plain_text_that_kustomize_makes_is_refused_too(
        self, fresh: Scene, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr("ci_automation.flows.programs.kustomize.find_kustomize", lambda _: Making())
        self.commit(fresh, {"kustomization.yaml": KUSTOMIZATION + b"commonLabels: {a: b}\n"})
        ran = dispatch(fresh, "init", artifact="fresh", to=FIRST).show()
        assert (ran.code, ran.outputs["shown"]) == (11, ""), ran
        sentence = "the overlay at ./ renders Secret a/made in plain text, which everyone who can pull"
        assert sentence in ran.said("error")[0]
        by_hand = ["init", "layout:own:own", "--flux-version", FIRST, "--overlay", FRESH, "--releases", "../releases"]
        signed = ["--signing", "key", "--key", "cosign.key"]
        capsys.readouterr()
        assert run([*by_hand, *signed]) == 11
        assert sentence in capsys.readouterr().err
        assert not (fresh.runner.workspace / "own").exists()
        assert run([*by_hand, *signed, "--allow-secrets"]) == 0

    def test_an_overlay_that_changed_meanwhile_voids_it(self, fresh: Scene) -> None:
        asked = dispatch(fresh, "init", artifact="fresh", to=FIRST)
        shown = asked.show()
        asked.approve()
        self.commit(fresh, {"kustomization.yaml": KUSTOMIZATION + b"# more\n"}, checkout=False)
        stale = asked.do(shown.outputs["shown"])
        assert stale.code == 12
        assert "is not what the default branch has now" in stale.said("error")[0]
        self.commit(fresh, {"kustomization.yaml": KUSTOMIZATION + b"# more\n"})
        void = asked.do(shown.outputs["shown"])
        assert void.code == 12
        assert "content was" in void.said("error")[0]
        assert tag_of(fresh, "fresh", "production") is None

    def test_an_overlay_that_changes_while_the_run_signs_publishes_nothing(
        self, fresh: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = dispatch(fresh, "init", artifact="fresh", to=FIRST)
        shown = asked.show()
        asked.approve()

        def meanwhile(*given: Any) -> FirstArtifact:
            self.commit(fresh, {"kustomization.yaml": KUSTOMIZATION + b"# reverted\n"}, checkout=False)
            return publish_first(*given)

        monkeypatch.setattr("ci_automation.action.operations.publish_first", meanwhile)
        late = asked.do(shown.outputs["shown"])
        assert late.code == 12, late
        assert "is not what the default branch has now" in late.said("error")[0]
        assert tag_of(fresh, "fresh", "production") is None

    def test_the_key_may_be_an_input_of_the_last_job_alone(self, fresh: Scene) -> None:
        text = (fresh.runner.workspace / CONFIG).read_text().replace("signing: {mode: key, key: cosign.key}, ", "")
        (fresh.runner.workspace / CONFIG).write_text(text)
        push(fresh, text)
        assert "signing" not in text
        for operation, artifact in (("init", "fresh"), ("rollback", "production"), ("lift-hold", "production")):
            to = "" if operation == "lift-hold" else FIRST
            done = dispatch(fresh, operation, artifact=artifact, to=to).through()
            assert done.code == 0, done

    @pytest.mark.parametrize("to", ["", "latest", "v2", "sha256:" + "a" * 64])
    def test_without_a_version_nothing_is_asked(self, fresh: Scene, to: str) -> None:
        assert dispatch(fresh, "init", artifact="fresh", to=to).show().code == 2


class TestKeyless:
    SUBJECT = "https://github.com/acme/fleet/.github/workflows/flux.yaml@refs/heads/main"

    @pytest.fixture
    def keyless(self, scene: Scene, local: LocalSigstore) -> Scene:
        """Return a fleet whose workflow signs as itself, and whose configuration names nobody."""
        (scene.runner.workspace / "sigstore.json").write_bytes(local.trust_config())
        scene.runner.variables["GITHUB_SERVER_URL"] = "https://github.com"
        text = (scene.runner.workspace / CONFIG).read_text()
        text = text[: text.index("artifacts:")] + (
            "artifacts:\n- {name: production, url: 'layout:keyless:production', trustConfig: sigstore.json}\n"
        )
        (scene.runner.workspace / CONFIG).write_text(text)
        push(scene, text)
        with scene.runner.patch.context() as patch:
            for name, value in (scene.runner.environment() | self.token(local)).items():
                patch.setenv(name, value)
            own = ["--flux-version", FIRST, "--releases", "../releases"]
            assert run(["init", "production", *own]) == 0
        scene.runner.variables.update(self.token(local))
        ran = scene.runner.run(releases="../releases", approval="none")
        assert (ran.code, ran.outputs["target-version"]) == (0, PATCH), ran
        return scene

    def token(self, local: LocalSigstore) -> dict[str, str]:
        """Return the variables by which a job gets its identity token."""
        return local.environment(Identity("https://token.actions.githubusercontent.com", self.SUBJECT))

    def test_what_would_happen_is_shown_without_a_token(self, keyless: Scene, local: LocalSigstore) -> None:
        asked = dispatch(keyless, "rollback", to=FIRST)
        for name in self.token(local):
            keyless.runner.variables.pop(name)
        shown = asked.show()
        assert shown.code == 0, shown
        asked.approve()
        lacking = asked.do(shown.outputs["shown"], key="")
        assert (lacking.code, lacking.outputs["changed"]) == (22, "false"), lacking
        keyless.runner.variables.update(self.token(local))
        ran = asked.do(shown.outputs["shown"], key="")
        assert (ran.code, ran.outputs["target-version"]) == (0, FIRST), ran

    def test_a_code_approves_what_is_shown_without_a_token(self, keyless: Scene, local: LocalSigstore) -> None:
        text = (keyless.runner.workspace / CONFIG).read_text()
        text = text.replace("{name: production,", "{name: production, approval: {operationsByCode: true},")
        (keyless.runner.workspace / CONFIG).write_text(text)
        push(keyless, text)
        keyless.fleet.environments.clear()
        for name in self.token(local):
            keyless.runner.variables.pop(name)
        asked = dispatch(keyless, "rollback", to=FIRST).with_code()
        shown = asked.show().outputs["shown"]
        keyless.runner.variables.update(self.token(local))
        ran = asked.do(shown, key="")
        assert (ran.code, ran.outputs["target-version"]) == (0, FIRST), ran
        assert "Approved by ada" in ran.summary

    @pytest.mark.parametrize(("accepted", "code"), [("true", 0), ("false", 10)])
    def test_a_called_workflow_shows_what_it_signs_as_itself_only_where_that_is_accepted(
        self, keyless: Scene, local: LocalSigstore, accepted: str, code: int
    ) -> None:
        called = "https://github.com/acme/ci/.github/workflows/operate.yaml@refs/heads/main"
        issuer = "https://token.actions.githubusercontent.com"
        text = (keyless.runner.workspace / CONFIG).read_text().replace("layout:keyless:", "layout:called:")
        text = text.removesuffix("}\n") + f", verify: {{identity: '{called}', issuer: '{issuer}'}}}}\n"
        (keyless.runner.workspace / CONFIG).write_text(text)
        push(keyless, text)
        for name in self.token(local):
            keyless.runner.variables.pop(name)
        asked = dispatch(keyless, "init", to=FIRST)
        shown = asked.show(accept_shared_subject=accepted)
        assert shown.code == code, shown
        if accepted == "true":
            asked.approve()
            keyless.runner.variables.update(local.environment(Identity(issuer, called)))
            done = asked.do(shown.outputs["shown"], key="", accept_shared_subject=accepted)
            assert (done.code, done.outputs["changed"]) == (0, "true"), done

    @pytest.mark.parametrize(
        ("claims", "said"),
        [
            ({"workflow_ref": "acme/evil/.github/workflows/caller.yaml@refs/heads/main"}, "called by acme/evil"),
            ({"ref": "refs/heads/feature"}, "it runs on refs/heads/feature"),
            ({"ref": "refs/tags/main"}, "it runs on refs/tags/main"),
            ({"event_name": "pull_request_target"}, "it was started by pull_request_target"),
            ({"repository_id": "75"}, "its token is for the repository"),
        ],
    )
    def test_c10_a_token_of_another_workflow_branch_or_event_is_not_used(
        self, keyless: Scene, local: LocalSigstore, claims: dict[str, str], said: str
    ) -> None:
        asked = dispatch(keyless, "rollback", to=FIRST)
        shown = asked.show()
        asked.approve()
        own = github_claims(self.SUBJECT.removeprefix("https://github.com/"))
        keyless.runner.variables["SIGSTORE_ID_TOKEN"] = encode({**own, **claims})
        before, logged = tag_of(keyless, "keyless", "production"), len(local.requests)
        for ran in (asked.do(shown.outputs["shown"], key=""), keyless.runner.run(releases="../releases")):
            assert (ran.code, ran.outputs["changed"]) in {(2, "false"), (2, "")}, ran
            assert said in ran.said("error")[0]
        assert tag_of(keyless, "keyless", "production") == before
        assert len(local.requests) == logged
