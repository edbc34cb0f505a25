"""Operations where GitHub has no required reviewers: a first run shows a code, and a second one with it does that."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from ci_automation.artifact.reference import Reference
from ci_automation.cli import run
from ci_automation.errors import RegistryError
from ci_automation.flows.init import propose_init
from ci_automation.records.writer import RecordWriter
from ci_automation.registry import open_registry
from tests.contract.operating import CONFIG, code_of, configure, dispatch, patched, records
from tests.contract.scene import CHANNEL, FIRST, PATCH
from tests.fakes.world import key_pem, signing_key

if TYPE_CHECKING:
    from ci_automation.flows.init import FirstArtifact
    from tests.conftest import Once
    from tests.contract.operating import Dispatched
    from tests.contract.scene import Scene

BY_CODE = "{operationsByCode: true}"


@pytest.fixture
def scene(scene: Scene, once: Once) -> Scene:
    patched(scene, once)
    scene.fleet.environments.clear()
    configure(scene, approval=BY_CODE)
    return scene


def back(scene: Scene, by: str = "ada", to: str = FIRST, **inputs: str) -> Dispatched:
    return dispatch(scene, "rollback", to=to, reason="webhooks", by=by, **inputs)


def second(scene: Scene, by: str = "ada") -> tuple[Dispatched, str]:
    """Show a rollback, and start it again with the code; return that run, and what it handed over."""
    again = back(scene).with_code(by)
    shown = again.show()
    assert shown.code == 0, shown
    assert "rollback is approved by its code" in shown.summary
    return again, shown.outputs["shown"]


class TestTwoRuns:
    def test_do_what_the_first_showed(self, scene: Scene) -> None:
        had = scene.channel
        again, shown = second(scene)
        assert scene.channel == had
        done = again.do(shown)
        assert (done.code, done.outputs["digest"]) == (0, scene.channel), done
        assert scene.channel != had
        assert "Approved by ada" in done.summary
        approval = records()[-1].approval
        assert approval
        assert (approval.by, approval.how.rpartition("/")[2]) == ("ada", str(again.run.id))

    def test_need_no_environment_and_take_one_without_reviewers(self, scene: Scene) -> None:
        scene.fleet.environment("flux-manifests", [])
        again, shown = second(scene)
        assert again.do(shown).code == 0

    def test_count_once(self, scene: Scene) -> None:
        again, shown = second(scene)
        assert again.do(shown).code == 0
        assert again.do(shown).outputs["changed"] == "false"
        forward = dispatch(scene, "lift-hold")
        code = code_of(forward.show())
        lifts = dispatch(scene, "lift-hold", code=code)
        assert lifts.do(lifts.show().outputs["shown"]).code == 0
        assert scene.run(approval="none").outputs["target-version"] == PATCH
        assert again.do(shown).code != 0
        old = back(scene, code=json.loads(shown)["plan"][7:]).show()
        assert (old.code, "the given code is not that of what would happen now" in old.summary) == (12, True), old


OTHERS = """\
- {name: fresh, url: 'layout:fresh:production', verify: {publicKey: cosign.pub}, signing: {mode: key, key: cosign.key}}
- {name: twin, url: 'layout:twin:production', verify: {publicKey: cosign.pub}, signing: {mode: key, key: cosign.key}}
- {name: foreign, url: 'layout:foreign:production', verify: {publicKey: cosign.pub},
   signing: {mode: key, key: cosign.key}}
- {name: live, url: 'layout:live:production', verify: {publicKey: cosign.pub}, signing: {mode: key, key: cosign.key},
   promote: {from: production}}
defaults: {approval: {operationsByCode: true}}
"""


class TestEachCommand:
    @pytest.fixture
    def scene(self, scene: Scene) -> Scene:
        """Return a fleet with a channel for each command: one without a digest, two of which another key signed one."""
        (scene.runner.workspace / "other.key").write_bytes(key_pem("others"))
        own = ["--flux-version", FIRST, "--releases", "../releases", "--signing", "key", "--key", "other.key"]
        (scene.runner.workspace / "other.pub").write_text(signing_key("others").public.to_pem())
        assert run(["init", "layout:foreign:production", *own, "--public-key", "other.pub"]) == 0
        configure(scene, others=OTHERS)
        return scene

    @pytest.mark.parametrize(
        ("operation", "artifact", "to"),
        [("init", "fresh", FIRST), ("adopt", "foreign", ""), ("promote", "live", "")],
    )
    def test_is_done_once_by_the_person_who_started_it_with_its_code(
        self, scene: Scene, operation: str, artifact: str, to: str
    ) -> None:
        channel = f"layout:{artifact}:production"
        asked = dispatch(scene, operation, artifact=artifact, to=to, reason="a start")
        if operation != "adopt":
            assert not (scene.runner.workspace / artifact).exists()
        again = asked.with_code("ben")
        shown = again.show().outputs["shown"]
        assert (asked.do(shown).code, asked.do(shown, code=again.inputs["code"] + "0").code) == (11, 11)
        done = again.do(shown)
        assert done.code == 0, done
        (record,) = records(channel)
        assert record.approval
        assert (record.approval.by, record.approval.how.rpartition("/")[2]) == ("ben", str(again.run.id))
        assert again.do(shown).outputs["changed"] == "false"
        assert len(records(channel)) == 1
        third = dispatch(scene, **again.inputs).show()
        assert (third.code, third.outputs["shown"], "no approval is needed" in third.summary) == (0, "", True), third

    def test_a_text_of_an_artifact_that_names_a_code_is_quoted_between_the_two_places_of_the_right_one(
        self, scene: Scene
    ) -> None:
        (scene.runner.workspace / "overlay").mkdir()
        forged = f"start the workflow again with the same fields, and with this in the field code: `{'0' * 64}`"
        (scene.runner.workspace / "overlay/a.yaml").write_text(f"# ```\n\n{forged}\n")
        own = ["--flux-version", FIRST, "--releases", "../releases", "--signing", "key", "--key", "other.key"]
        assert run(["init", "layout:forged:production", *own, "--public-key", "other.pub", "--overlay", "overlay"]) == 0
        configure(scene, others=OTHERS.replace("layout:foreign:", "layout:forged:"))
        shown = dispatch(scene, "adopt", artifact="foreign").show()
        first, fence, rest = shown.summary.partition("````text\n")
        quoted, end, last = rest.partition("\n````\n")
        assert fence
        assert end
        assert forged in quoted
        assert code_of(shown) in first
        assert code_of(shown) in last
        assert "0" * 64 not in first + last

    def test_of_one_channel_has_another_code_than_of_the_other(self, scene: Scene) -> None:
        code = code_of(dispatch(scene, "init", artifact="fresh", to=FIRST).show())
        twin = dispatch(scene, "init", artifact="twin", to=FIRST, code=code).show()
        assert (twin.code, twin.outputs["shown"]) == (12, ""), twin

    def test_of_a_release_that_upstream_signed_has_another_code_than_without(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def signed(*given: Any) -> FirstArtifact:
            return replace(propose_init(*given), unsigned=False)

        asked = dispatch(scene, "init", artifact="fresh", to=FIRST)
        with monkeypatch.context() as patch:
            patch.setattr("ci_automation.action.operations.propose_init", signed)
            again = asked.with_code()
        assert "Not checked: Flux's signature" in asked.show().summary
        assert again.show().code == 12

    def test_of_another_source_has_another_code(self, scene: Scene) -> None:
        again = dispatch(scene, "promote", artifact="live").with_code()
        shown = again.show().outputs["shown"]
        back = dispatch(scene, "rollback", artifact="production", to=FIRST).with_code()
        assert back.do(back.show().outputs["shown"]).code == 0
        assert (again.show().code, again.do(shown).code) == (12, 12)
        assert not (scene.runner.workspace / "live").exists()


class TestAKilledJob:
    @pytest.mark.parametrize("by", ["ada", "ben"])
    def test_writes_its_record_when_anybody_runs_it_again_and_never_after_the_way_forward(
        self, scene: Scene, by: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        again, shown = second(scene)
        with monkeypatch.context() as patch:
            patch.setattr(RecordWriter, "attach", _die)
            assert again.do(shown).code == 20
        assert not records()[-1].rolled_back
        scene.fleet.complete(again.run.id, "failure")
        scene.fleet.rerun(again.run.id, by)
        assert again.show().code == 2
        assert again.do(shown).code == 0
        assert (records()[-1].rolled_back, records()[-1].recovered) == (True, True)
        lifts = dispatch(scene, "lift-hold").with_code()
        assert lifts.do(lifts.show().outputs["shown"]).code == 0
        assert scene.run(approval="none").outputs["target-version"] == PATCH
        assert again.do(shown).code == 12
        assert dispatch(scene, **again.inputs).show().code == 12

    def test_that_put_a_moved_channel_back_does_it_again(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        last, channel = scene.channel, Reference.parse(CHANNEL)
        registry = open_registry(channel)
        first = next(tag for tag in scene.tags if tag.startswith(f"{FIRST}-"))
        registry.put_manifest(channel, registry.manifest(channel.at_tag(first)))
        assert scene.channel != last
        again = back(scene, to=last).with_code()
        shown = again.show().outputs["shown"]
        with monkeypatch.context() as patch:
            patch.setattr(RecordWriter, "attach", _die)
            assert again.do(shown).code == 20
        assert (again.do(shown).code, scene.channel, records()[-1].put_back) == (0, last, True)


def _die(*_: object) -> None:
    raise RegistryError("the registry is gone")


class TestTheCode:
    @pytest.mark.parametrize("code", ["000000000000", "x", "sha256:" + 64 * "0"])
    def test_of_something_else_stops_and_its_page_shows_what_would_happen(self, scene: Scene, code: str) -> None:
        wrong = back(scene, code=code).show()
        assert (wrong.code, wrong.outputs["shown"]) == (12, ""), wrong
        assert f"goes back from {PATCH} to {FIRST}" in wrong.summary
        right = wrong.summary.rpartition("field code: `")[2].partition("`")[0]
        assert right not in wrong.log  # who takes it has seen the page
        assert "The code that was given is not of this" in wrong.summary
        approved = back(scene, code=f"  {right} ").show()
        assert (approved.said("warning"), bool(approved.outputs["shown"])) == ([], True), approved

    @pytest.mark.parametrize("inputs", [{"reason": "another"}, {"to": f"v{FIRST}"}, {"operation": "promote"}])
    def test_is_of_the_very_fields(self, scene: Scene, inputs: dict[str, str]) -> None:
        code = code_of(back(scene).show())
        shown = back(scene, code=code).show(**inputs)
        assert shown.code in {2, 12, 20}, shown
        assert not shown.outputs["shown"]

    def test_can_be_given_by_a_colleague_who_has_the_page_alone(self, scene: Scene) -> None:
        page = back(scene, to=FIRST.removeprefix("v")).show()
        rows = dict(re.findall(r"^\| (.+?) \| (.+?) \|$", page.summary, re.MULTILINE))
        named = {name: rows[name].strip("`") for name in ("command", "field to", "reason")}
        operation, to, reason = named.values()
        again = dispatch(scene, operation, to=to, reason=reason, by="ben", code=code_of(page))
        assert again.do(again.show().outputs["shown"]).code == 0

    def test_changes_with_the_channel(self, scene: Scene) -> None:
        before = code_of(back(scene).show())
        again, shown = second(scene)
        assert again.do(shown).code == 0
        channel = Reference.parse(CHANNEL)
        registry = open_registry(channel)
        tag = next(tag for tag in scene.tags if tag.startswith(f"{PATCH}-"))
        registry.put_manifest(channel, registry.manifest(channel.at_tag(tag)))
        assert back(scene, code=before).show().code != 0

    def test_is_no_word_for_a_job_that_was_started_without_it(self, scene: Scene) -> None:
        had = scene.channel
        _, shown = second(scene)
        without = back(scene)
        done = without.do(shown)
        assert (done.code, scene.channel) == (11, had), done
        assert "it was not started with the code of what it does" in done.summary
        assert "in the environment" not in done.summary


class TestWhoseWordCounts:
    def test_not_that_of_a_machine(self, scene: Scene) -> None:
        had = scene.channel
        again, shown = second(scene, by="github-actions[bot]")
        done = again.do(shown)
        assert (done.code, scene.channel) == (11, had), done
        assert "no person started it with the code" in done.summary

    def test_not_of_a_person_who_may_not_write_any_more(self, scene: Scene) -> None:
        again, shown = second(scene, by="ben")
        scene.fleet.collaborators["ben"] = "read"
        done = again.do(shown)
        assert done.code == 11, done
        assert "ben started it with the code, but may not write to the repository now" in done.summary

    def test_of_the_one_who_started_it_and_not_of_the_one_who_runs_a_job_again(self, scene: Scene) -> None:
        again, shown = second(scene, by="github-actions[bot]")
        scene.fleet.rerun(again.run.id, "ada")
        assert again.do(shown).code == 11

    def test_counts_for_the_last_job_that_another_runs_again_though_the_run_was_cancelled(self, scene: Scene) -> None:
        again, shown = second(scene)
        scene.fleet.cancel(again.run.id)
        scene.fleet.rerun(again.run.id, "ben")
        assert again.do(shown).code == 0
        approval = records()[-1].approval
        assert approval
        assert approval.by == "ada"


class TestWhereItDoesNotCount:
    def test_reviewers_of_the_environment_have_the_word(self, scene: Scene) -> None:
        scene.fleet.environment("flux-manifests", ["ada"])
        asked = back(scene, code="000000000000")
        shown = asked.show()
        assert "rollback needs approval of this run" in shown.summary
        assert asked.do(shown.outputs["shown"]).code == 11
        asked.approve()
        assert asked.do(shown.outputs["shown"]).code == 0

    def test_reviewers_that_came_meanwhile_have_it(self, scene: Scene) -> None:
        again, shown = second(scene)
        scene.fleet.environment("flux-manifests", ["ada"])
        assert again.do(shown).code == 11

    def test_the_no_of_a_reviewer_outlives_the_reviewers(self, scene: Scene) -> None:
        code = code_of(back(scene).show())
        scene.fleet.environment("flux-manifests", ["ben"])
        asked = back(scene, code=code)
        shown = asked.show()
        scene.fleet.answer(asked.run.id, "ben", approved=False)
        scene.fleet.environment("flux-manifests", [])
        done = asked.do(shown.outputs["shown"])
        assert (done.code, "a reviewer rejected this run" in done.summary) == (11, True), done
        again = back(scene, code=code)
        assert again.do(again.show().outputs["shown"]).code == 0

    def test_without_the_configuration_no_one_has(self, scene: Scene) -> None:
        again, shown = second(scene)
        configure(scene)
        asked = back(scene, code=again.inputs["code"])
        page = asked.show()
        assert "set approval.operationsByCode to true in the configuration" in page.summary
        assert asked.do(page.outputs["shown"]).code == 11
        assert again.do(shown).code in {11, 12}

    def test_the_default_branch_says_so_and_not_the_commit_of_a_run(self, scene: Scene) -> None:
        had, path = scene.channel, scene.runner.workspace / CONFIG
        again, shown = second(scene)
        old = path.read_bytes()
        configure(scene)
        path.write_bytes(old)
        for ran in (again.show(), again.do(shown)):
            assert (ran.code, scene.channel) == (12, had), ran
            assert "is not what the default branch has now" in ran.said("error")[0]

    def test_a_job_that_cannot_see_who_started_it_does_nothing(self, scene: Scene) -> None:
        had, (again, shown) = scene.channel, second(scene)
        scene.fleet.private = True
        rights = {"contents": "read"}
        scene.runner.variables["INPUT_GITHUB-TOKEN"] = scene.forge.token("actions", scene.fleet.full_name, rights)
        ran = again.do(shown)
        assert (ran.code, scene.channel) == (21, had), ran

    def test_for_who_is_not_in_the_team(self, scene: Scene) -> None:
        configure(scene, approval="{operationsByCode: true, team: acme/few}")
        scene.forge.team("acme/few", ["ben"])
        for by, code in (("ada", 11), ("ben", 0)):
            again = back(scene).with_code(by)
            assert again.do(again.show().outputs["shown"]).code == code

    def test_where_the_configuration_asks_for_others(self, scene: Scene) -> None:
        configure(scene, approval="{operationsByCode: true, approvals: 1}")
        shown = back(scene).show()
        assert (shown.code, "operationsByCode lets one person approve" in shown.summary) == (2, True), shown

    def test_a_job_that_may_not_see_the_environment_says_so_and_shows_no_code(self, scene: Scene) -> None:
        scene.fleet.private = True
        token = scene.forge.token("actions", scene.fleet.full_name, {"contents": "read"})
        scene.runner.variables["INPUT_GITHUB-TOKEN"] = token
        shown = back(scene).show()
        assert (shown.code, shown.outputs["shown"]) == (21, ""), shown
        assert "Add to the job `permissions: {actions: read}`" in shown.said("error")[0]
