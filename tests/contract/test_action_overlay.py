"""The action on an artifact whose overlay is in Git, against the double of GitHub."""

from __future__ import annotations

import dataclasses
import json
import shutil
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ci_automation.approval.lock import Lock, LockEntry
from ci_automation.approval.port import RequestKind
from ci_automation.artifact.reference import Digest, LayoutDirectory, Reference
from ci_automation.cli import run
from ci_automation.flux.version import Version
from ci_automation.impact.change import Certainty, Hazard
from ci_automation.records.ledger import Ledger
from ci_automation.records.writer import RecordWriter
from ci_automation.registry.layout import LayoutRegistry
from ci_automation.registry.port import ReferrerLost
from ci_automation.signing.trust import TrustedKeys
from tests.contract.operating import PAYLOAD, dispatch, push
from tests.contract.scene import BRANCH, CHANNEL, FIRST, LOCK, MINOR, PATCH, Scene, staged
from tests.fakes.world import signing_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ci_automation.records.notes import Record
    from tests.fakes.forge.state import Pull, Run

    States = dict[str, Callable[[], None]]  # by name, what brings back a state of a scene

FOLDER = "clusters/production"
CONFIG = ".github/flux-manifests.yaml"
CONTENT_BRANCH = "flux-manifests/content-production"
BRANCHES = {BRANCH: RequestKind.VERSION, CONTENT_BRANCH: RequestKind.CONTENT}


def patch(memory: str) -> bytes:
    return (
        f"- op: replace\n  path: /spec/template/spec/containers/0/resources/limits/memory\n  value: {memory}\n".encode()
    )


@pytest.fixture(scope="module")
def begun(stage: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Scene, States]]:
    """Yield a repository whose artifact has an empty overlay, and whose folder holds one file more.

    Beside it is what brings back states of it, by their names.
    """
    with (
        pytest.MonkeyPatch.context() as patched,
        staged(stage, tmp_path_factory.mktemp("begun") / "scene", patched) as made,
    ):
        made.fleet.protections.clear()
        made.offer(FIRST)
        configure(made)
        made.fleet.push("main", {f"{FOLDER}/more.yaml": patch("1Gi")}, "ada")
        yield made, {"begun": made.saved()}


@pytest.fixture
def scene(begun: tuple[Scene, States], capsys: pytest.CaptureFixture[str]) -> Scene:
    """Return that repository as it began."""
    made, states = begun
    states["begun"]()
    return dataclasses.replace(made, runner=dataclasses.replace(made.runner, capture=capsys))


@pytest.fixture
def before(begun: tuple[Scene, States], scene: Scene) -> str:
    """Let the channel have the first content, and return its digest."""
    _, states = begun
    if "published" in states:
        states["published"]()
    else:
        first_content(scene)
        states["published"] = scene.saved()
    return scene.channel


def later(scene: Scene, minutes: int = 1) -> None:
    """Let GitHub's clock go on."""
    now = scene.forge.now() + timedelta(minutes=minutes)
    scene.forge.now = lambda: now


def configure(scene: Scene, approval: str = "{via: pull-request}", more: str = "") -> None:
    """Let the default branch have this configuration."""
    scene.configure(approval=approval, more=f", overlay: {FOLDER}{more}")
    scene.fleet.push("main", {CONFIG: (scene.runner.workspace / CONFIG).read_bytes()}, "ada")


def checkout(scene: Scene) -> None:
    """Let the workspace have the folder and the configuration of the default branch."""
    shutil.rmtree(scene.runner.workspace / "clusters", ignore_errors=True)
    for path in scene.fleet.objects.files_at(scene.fleet.head):
        if path.startswith("clusters/") or path == CONFIG:
            place = scene.runner.workspace / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(scene.fleet.read(path) or b"")


def merge(scene: Scene, number: int) -> None:
    """Let one person review a request and another one merge it."""
    later(scene)
    scene.fleet.review(number, "ben")
    scene.fleet.merge(number, "ada")


def entry_of(scene: Scene, branch: str, kind: RequestKind) -> LockEntry:
    lock = Lock.parse((scene.fleet.read(LOCK, branch) or b"").decode())
    (entry,) = (entry for entry in lock.entries if entry.request.kind is kind)
    return entry


def first_content(scene: Scene) -> str:
    """Publish the first content by its digest, and return what the channel has then."""
    checkout(scene)
    scene.run()
    merge(scene, scene.fleet.pulls[-1].number)
    assert scene.run().outputs["changed"] == "true"
    return scene.channel


def check_out_merged(scene: Scene, number: int, by: str) -> None:
    """Merge a request, and let the workspace have what it brought."""
    scene.fleet.merge(number, by)
    checkout(scene)


def by_request(scene: Scene, text: bytes, name: str = "more.yaml", by: str = "ada") -> int:
    """Open a request that changes a file of the folder."""
    later(scene)
    branch = f"change-{len(scene.fleet.pulls)}"
    scene.fleet.push(branch, {f"{FOLDER}/{name}": text}, by, onto=scene.fleet.head)
    return scene.fleet.open_pull(branch, by).number


def test_the_first_content_is_asked_for_and_its_merge_publishes_it_once(scene: Scene) -> None:
    before = scene.channel
    checkout(scene)
    ran = scene.run()
    assert (ran.code, scene.channel) == (0, before)
    (pull,) = scene.fleet.pulls
    assert (pull.branch, pull.title) == (CONTENT_BRANCH, "Flux v2.98.5 for production (changed content)")
    assert "no record says which content of Git the channel has" in pull.body
    assert "more.yaml (new)" in pull.body
    assert scene.run().outputs["approval-url"].endswith(f"/pull/{pull.number}")
    merge(scene, pull.number)
    ran = scene.run()
    assert (ran.outputs["changed"], ran.outputs["target-version"]) == ("true", FIRST)
    after = scene.channel
    assert after != before
    asked = len(scene.forge.requests)
    assert scene.run().outputs["changed"] == "false"
    assert (len(scene.forge.requests), scene.channel) == (asked, after)


@pytest.mark.parametrize("proven", [False, True], ids=["asked by digest", "approved by its own merge"])
def test_a_hazard_of_content_that_no_page_showed_is_asked_for(
    scene: Scene, known: list[Hazard], *, proven: bool
) -> None:
    if proven:
        first_content(scene)
        merge(scene, by_request(scene, patch("2Gi")))
    checkout(scene)
    if not proven:
        scene.run()
        merge(scene, scene.fleet.pulls[-1].number)
    before = scene.channel
    known[:] = [Hazard("crds", Certainty.POSSIBLE, "a.example v1", "objects may use v1 of A")]
    for _ in range(2):
        ran = scene.run()
        assert (ran.code, scene.channel) == (0, before), ran
    (pull,) = (it for it in scene.fleet.pulls if it.state == "OPEN")
    assert (pull.branch, "objects may use v1 of A" in pull.body) == (CONTENT_BRANCH, True)
    assert ("before it was known that objects may use v1 of A" in pull.body) is not proven
    merge(scene, pull.number)
    assert scene.run().outputs["changed"] == "true"


def test_a_no_to_the_digest_is_not_overruled_by_the_merge_before(
    scene: Scene, before: str, known: list[Hazard]
) -> None:
    check_out_merged(scene, by_request(scene, patch("2Gi")), "ben")
    known[:] = [Hazard("crds", Certainty.POSSIBLE, "a.example v1", "objects may use v1 of A")]
    scene.run()
    asked = scene.fleet.pulls[-1]
    scene.fleet.close(asked.number, "ben")
    known.clear()
    for state in ("was closed", "was closed", "is open", "is open"):
        if state == "is open" and asked.state == "CLOSED":
            scene.fleet.reopen(asked.number, "ada")
        ran = scene.run()
        assert (ran.outputs["changed"], scene.channel) == ("false", before), ran
        said = f"the merges came before pull request {asked.number} asked again, and that one {state}"
        assert said in ran.outputs["pending-reasons"]
    scene.fleet.close(asked.number, "ada")
    scene.fleet.push("main", {f"{FOLDER}/more.yaml": patch("1Gi")}, "ada")
    scene.fleet.merge(by_request(scene, patch("2Gi")), "ben")  # after the no
    checkout(scene)
    assert scene.run().outputs["changed"] == "true"


def test_a_request_for_changes_is_not_overruled_by_a_merge(
    scene: Scene, before: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.forge.user("carl")
    monkeypatch.setitem(scene.fleet.collaborators, "carl", "write")
    number = by_request(scene, patch("2Gi"))
    said = scene.fleet.review(number, "carl", "CHANGES_REQUESTED")
    check_out_merged(scene, number, "ben")
    ran = scene.run()
    assert (ran.outputs["pending-decision"], scene.channel) == ("approval", before), ran
    assert f"merged pull request {number}, though carl requested changes" in ran.outputs["pending-reasons"]
    asked = scene.fleet.pulls[-1].number
    later(scene)
    again = scene.fleet.review(asked, "carl", "CHANGES_REQUESTED")
    merge(scene, asked)
    ran = scene.run()
    assert (ran.outputs["changed"], scene.channel) == ("false", before), ran
    assert f"pull request {asked} was merged by ada though carl requested changes" in ran.said("warning")[0]
    assert scene.fleet.pulls[-1].state == "OPEN"
    scene.fleet.close(scene.fleet.pulls[-1].number, "ada")
    scene.fleet.dismiss(number, said.id)
    scene.fleet.dismiss(asked, again.id)
    assert scene.run().outputs["changed"] == "false"  # the request that asked again was closed


@pytest.mark.parametrize(
    "no", ["a closed request", "one that was opened again", "a rejected run", "a rejected run behind many"]
)
def test_a_no_after_a_merge_is_not_overruled_by_it_though_the_question_came_before(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, no: str
) -> None:
    """The same content was pushed, asked for and taken back before somebody merged it."""
    by_run = no.startswith("a rejected run")
    if by_run:
        first_content_by_run(scene)
    else:
        first_content(scene)
    before = scene.channel
    scene.fleet.push("main", {f"{FOLDER}/more.yaml": patch("2Gi")}, "ada")
    checkout(scene)
    scene.run()
    asked = (scene.fleet.runs if by_run else scene.fleet.pulls)[-1]
    scene.fleet.push("main", {f"{FOLDER}/more.yaml": patch("1Gi")}, "ada")
    if no == "a rejected run behind many":
        monkeypatch.setattr("ci_automation.approval.workflow_run.MOST_RUNS", 20)
        behind_a_full_list(scene, scene.fleet.runs[-1])
    scene.fleet.merge(by_request(scene, patch("2Gi")), "ben")
    later(scene)
    if by_run:
        scene.forge.reject(asked.id, "ada")
    else:
        scene.fleet.close(asked.number, "ada")
        if no == "one that was opened again":
            scene.fleet.reopen(asked.number, "ben")
    checkout(scene)
    ran = scene.run()
    assert (ran.outputs["changed"], scene.channel) == ("false", before), ran
    assert "the merges came before" in ran.outputs["pending-reasons"]


@pytest.mark.parametrize("via", ["pull-request", "workflow-dispatch"])
def test_a_no_to_content_is_not_undone_by_a_patch_in_between(scene: Scene, known: list[Hazard], via: str) -> None:
    """It gives the same content other digests."""
    configure(scene, f"{{via: {via}}}")
    checkout(scene)
    scene.run()
    by_run = via == "workflow-dispatch"
    if by_run:
        scene.fleet.answer(scene.fleet.runs[-1].id, "ada")
        assert scene.run("approve", **scene.approving()).code == 0
        scene.runner.event("schedule", {})
    else:
        first_content(scene)
    content = newest(scene).content
    check_out_merged(scene, by_request(scene, patch("2Gi")), "ben")
    known[:] = [Hazard("crds", Certainty.POSSIBLE, "a.example v1", "objects may use v1 of A")]
    scene.run()
    if by_run:
        scene.forge.reject(scene.fleet.runs[-1].id, "ada")
    else:
        scene.fleet.close(scene.fleet.pulls[-1].number, "ada")
    known.clear()
    scene.offer(FIRST, PATCH)
    assert scene.run().outputs["target-version"] == PATCH
    for _ in range(2):
        assert "the merges came before" in scene.run().outputs["pending-reasons"]
        assert (newest(scene).content, str(newest(scene).version)) == (content, PATCH)
    (asked,) = scene.fleet.runs[-1:] if by_run else scene.fleet.pulls[-1:]
    if by_run:
        scene.fleet.answer(asked.id, "ada")
        ran = scene.run("approve", **scene.approving())
    else:
        merge(scene, asked.number)
        ran = scene.run()
    assert ran.outputs["changed"] == "true", ran
    assert newest(scene).content != content


def merged_with_a_hazard(scene: Scene, known: list[Hazard]) -> None:
    """Let a merge bring content that a run asks about anew, as something may break."""
    scene.fleet.merge(by_request(scene, patch("2Gi")), "ben")
    known[:] = [Hazard("crds", Certainty.POSSIBLE, "a.example v1", "objects may use v1 of A")]
    checkout(scene)
    scene.run()


def before_another_merge(scene: Scene, known: list[Hazard]) -> None:
    """Say no, and let a request follow whose page shows another file alone."""
    merged_with_a_hazard(scene, known)
    scene.fleet.close(scene.fleet.pulls[-1].number, "ada")
    scene.fleet.merge(by_request(scene, patch("3Gi"), "other.yaml"), "ben")


def after_another_merge(scene: Scene, known: list[Hazard]) -> None:
    """Say no to the sum of two merges, on the page that asked about the first of them."""
    merged_with_a_hazard(scene, known)
    asked = scene.fleet.pulls[-1]
    check_out_merged(scene, by_request(scene, patch("3Gi")), "ben")
    scene.run()
    assert "3Gi" in asked.body
    scene.fleet.close(asked.number, "ada")


def closed_before(scene: Scene) -> Pull:
    """Return a request that was closed before the merge that comes next."""
    pushed(scene)
    checkout(scene)
    scene.run()
    asked = scene.fleet.pulls[-1]
    scene.fleet.close(asked.number, "ada")
    scene.fleet.push("main", {f"{FOLDER}/more.yaml": patch("1Gi")}, "ada")
    return asked


def opened_again(scene: Scene, known: list[Hazard], asked: Pull) -> None:
    """Merge other content, open a request again that asked before, and let a run ask about a hazard."""
    scene.fleet.merge(by_request(scene, patch("3Gi")), "ben")
    scene.fleet.reopen(asked.number, "ben")
    known[:] = [Hazard("crds", Certainty.POSSIBLE, "a.example v1", "objects may use v1 of A")]
    later(scene)
    checkout(scene)
    scene.run()


def in_an_older_request(scene: Scene, known: list[Hazard]) -> None:
    """Say no on the page of a request that was closed before the merge, and opened again after it."""
    asked = closed_before(scene)
    opened_again(scene, known, asked)
    assert "3Gi" in asked.body
    scene.fleet.close(asked.number, "ada")


def behind_many_requests(scene: Scene, known: list[Hazard]) -> None:
    """Say no to what a run asks after others closed many requests of theirs, and opened one of its own again."""
    asked = closed_before(scene)
    scene.forge.fork("acme/fleet", "mallory").push(CONTENT_BRANCH, {"evil": b""}, "mallory")
    for branch in (*[CONTENT_BRANCH] * 11, f"mallory:{CONTENT_BRANCH}"):
        scene.fleet.close(scene.fleet.open_pull(branch, "mallory" if ":" in branch else "ben").number, "ben")
    opened_again(scene, known, asked)
    assert asked.state == "CLOSED"
    assert "a run asks only in the newest pull request from this branch" in asked.comments[-1].body
    scene.fleet.close(scene.fleet.pulls[-1].number, "ada")


def on_a_page_of_the_past(scene: Scene, known: list[Hazard]) -> None:
    """Say no on a page that the account of the runs writes anew afterwards, as another workflow of it could."""
    merged_with_a_hazard(scene, known)
    asked = scene.fleet.pulls[-1]
    scene.fleet.close(asked.number, "ada")
    scene.fleet.edit(asked.number, asked.author, body="nothing")


@pytest.mark.parametrize(
    "say_no",
    [before_another_merge, after_another_merge, in_an_older_request, behind_many_requests, on_a_page_of_the_past],
)
def test_no_merge_beside_it_undoes_a_no_to_content(
    scene: Scene, before: str, known: list[Hazard], say_no: Callable[[Scene, list[Hazard]], None]
) -> None:
    say_no(scene, known)
    known.clear()
    later(scene)
    checkout(scene)
    for _ in range(2):
        ran = scene.run()
        assert (ran.outputs["pending-decision"], scene.channel) == ("approval", before), ran
        assert "the merges came before pull request" in ran.outputs["pending-reasons"]
    scene.fleet.delete_branch(CONTENT_BRANCH, "ada")  # which lets it be asked for again
    scene.run()
    merge(scene, scene.fleet.pulls[-1].number)
    assert scene.run().outputs["changed"] == "true"


def test_a_no_to_content_outlives_the_name_of_the_artifact(scene: Scene, before: str, known: list[Hazard]) -> None:
    merged_with_a_hazard(scene, known)
    scene.fleet.close(scene.fleet.pulls[-1].number, "ada")
    known.clear()
    named = (scene.fleet.read(CONFIG) or b"").replace(b"name: production", b"name: main")
    scene.fleet.push("main", {CONFIG: named}, "ada")
    checkout(scene)
    for _ in range(2):
        ran = scene.run()
        assert (ran.outputs["pending-decision"], scene.channel) == ("approval", before), ran
        assert "overlay, name, url, verify, signing or from changed since" in ran.outputs["pending-reasons"]
    merge(scene, scene.fleet.pulls[-1].number)
    assert scene.run().outputs["changed"] == "true"


@pytest.mark.usefixtures("before")
def test_a_no_to_content_is_not_undone_by_a_run_that_withdraws_its_page(scene: Scene, known: list[Hazard]) -> None:
    """A job of the commit before the merge finds that nothing waits, and a patch gives the content another digest."""
    content, commit = newest(scene).content, scene.fleet.head
    merged_with_a_hazard(scene, known)
    asked = scene.fleet.pulls[-1]
    scene.fleet.close(asked.number, "ada")
    scene.fleet.reopen(asked.number, "ben")
    known.clear()
    scene.runner.variables.update({"GITHUB_SHA": commit, "GITHUB_RUN_ATTEMPT": "2"})
    (scene.runner.workspace / FOLDER / "more.yaml").write_bytes(patch("1Gi"))
    scene.run()
    assert (asked.state, "flux-manifests withdrawn" in asked.body) == ("CLOSED", True)
    scene.runner.variables.update({"GITHUB_SHA": scene.fleet.head, "GITHUB_RUN_ATTEMPT": "1"})
    checkout(scene)
    scene.offer(FIRST, PATCH)
    for _ in range(2):
        assert "the merges came before" in scene.run().outputs["pending-reasons"]
        assert (newest(scene).content, str(newest(scene).version)) == (content, PATCH)


def test_a_no_to_content_is_not_undone_by_a_merge_of_its_page_that_does_not_count(
    scene: Scene, known: list[Hazard]
) -> None:
    """Whoever may write can open a request again, and merge it; but not everybody may approve."""
    configure(scene, "{via: pull-request, team: acme/platform}")
    before = first_content(scene)
    scene.fleet.merge(by_request(scene, patch("2Gi"), by="ben"), "ada")
    known[:] = [Hazard("crds", Certainty.POSSIBLE, "a.example v1", "objects may use v1 of A")]
    checkout(scene)
    scene.run()
    asked = scene.fleet.pulls[-1]
    scene.fleet.close(asked.number, "ada")
    scene.fleet.reopen(asked.number, "ben")
    later(scene)
    scene.fleet.merge(asked.number, "ben")
    known.clear()
    ran = scene.run()
    assert (ran.outputs["pending-decision"], scene.channel) == ("approval", before), ran
    assert f"the merges came before pull request {asked.number} asked again" in ran.outputs["pending-reasons"]
    merge(scene, scene.fleet.pulls[-1].number)
    assert scene.run().outputs["changed"] == "true"


def behind_other_runs(scene: Scene, asked: Run) -> None:
    """Start more runs for the same content than a run reads."""
    for _ in range(6):
        scene.fleet.cancel(scene.fleet.dispatch("approve.yaml", "main", asked.inputs, "ben").id)


def behind_a_full_list(scene: Scene, asked: Run) -> None:
    """Start as many runs for something else as GitHub lists."""
    for _ in range(20):
        inputs = {**asked.inputs, "artifact": CHANNEL.replace("production", "staging")}
        scene.fleet.cancel(scene.fleet.dispatch("approve.yaml", "main", inputs, "ben").id)


def started_again(scene: Scene, asked: Run) -> None:
    """Let the rejected run wait again."""
    scene.fleet.rerun(asked.id, "ben")


def before_a_yes(scene: Scene, asked: Run) -> None:
    """Let a reviewer who may not write approve a run for what the channel had before."""
    again = scene.fleet.dispatch("approve.yaml", "main", {**asked.inputs, "target": asked.inputs["base"]}, "ben")
    scene.fleet.answer(again.id, "rita")
    scene.fleet.complete(again.id, "failure")


def before_a_merge(scene: Scene, asked: Run) -> None:
    """Merge a request whose page shows another file alone."""
    del asked
    check_out_merged(scene, by_request(scene, patch("3Gi"), "other.yaml"), "ben")


SINCE_A_NO: dict[str, tuple[Callable[[Scene, Run], None] | None, str]] = {
    "nothing": (None, "a reviewer rejected the run http"),
    "many runs": (behind_other_runs, "7 runs asked for content, more"),
    "a full list of runs": (behind_a_full_list, "20 runs began, more"),
    "it runs again": (started_again, "a reviewer rejected the run http"),
    "a yes to another digest": (before_a_yes, "a reviewer rejected the run http"),
    "another merge": (before_a_merge, "a reviewer rejected the run http"),
}


def first_content_by_run(scene: Scene) -> None:
    """Publish the overlay for the first time, after a run that ada approved."""
    configure(scene, "{via: workflow-dispatch}")
    checkout(scene)
    scene.run()
    scene.fleet.answer(scene.fleet.runs[-1].id, "ada")
    assert scene.run("approve", **scene.approving()).code == 0
    scene.runner.event("schedule", {})


def asked_by_a_run(scene: Scene, known: list[Hazard]) -> Run:
    """Return the run that asks for content of a merge, as something may break."""
    first_content_by_run(scene)
    merged_with_a_hazard(scene, known)
    return scene.fleet.runs[-1]


@pytest.mark.parametrize("since", SINCE_A_NO)
def test_a_rejection_of_the_digest_is_not_overruled_by_the_merge_before(
    scene: Scene, known: list[Hazard], monkeypatch: pytest.MonkeyPatch, since: str
) -> None:
    asked, (then, said) = asked_by_a_run(scene, known), SINCE_A_NO[since]
    before = scene.channel
    scene.forge.reject(asked.id, "ada")
    known.clear()
    monkeypatch.setattr("ci_automation.approval.workflow_run.MOST_RUNS", 20)
    if then:
        then(scene, asked)
    ran = scene.run()
    assert (ran.outputs["changed"], scene.channel) == ("false", before), ran
    assert f"the merges came before {said}" in ran.outputs["pending-reasons"]
    for name in ("more.yaml", "other.yaml"):
        scene.fleet.push("main", {f"{FOLDER}/{name}": patch("1Gi") if name == "more.yaml" else None}, "ada")
    later(scene)
    scene.fleet.merge(by_request(scene, patch("2Gi")), "ben")  # after the no
    checkout(scene)
    hides = since == "a full list of runs"  # behind which a run may have begun before, and ended after the merge
    assert scene.run().outputs["changed"] == ("false" if hides else "true")


def test_a_rejection_of_a_run_that_a_person_started_is_not_overruled_by_the_merge_before(
    scene: Scene, known: list[Hazard]
) -> None:
    asked = asked_by_a_run(scene, known)
    before = scene.channel
    scene.fleet.cancel(asked.id)
    by_hand = {**asked.inputs, "artifact": "production", "key": ""}
    scene.forge.reject(scene.fleet.dispatch("approve.yaml", "main", by_hand, "ben").id, "ada")
    known.clear()
    ran = scene.run()
    assert (ran.outputs["changed"], scene.channel) == ("false", before), ran
    assert "the merges came before a reviewer rejected the run" in ran.outputs["pending-reasons"]


def test_content_and_minor_wait_at_once_and_either_voids_the_other(scene: Scene) -> None:
    scene.offer(FIRST, "v2.99.4")
    checkout(scene)
    ran = scene.run()
    minor, content = scene.fleet.pulls
    assert [minor.branch, content.branch] == [BRANCH, CONTENT_BRANCH]
    assert len(ran.said("notice")) == 2
    bases = {entry_of(scene, branch, kind).request.base for branch, kind in BRANCHES.items()}
    assert {str(base) for base in bases} == {scene.channel}
    merge(scene, content.number)
    scene.run()
    now = entry_of(scene, BRANCH, RequestKind.VERSION).request
    assert (now.artifact, str(now.base), str(now.version)) == (Reference.parse(CHANNEL), scene.channel, "v2.99.4")
    assert len(scene.fleet.pulls) == 2


def test_a_minor_whose_approval_does_not_count_keeps_no_content_from_being_applied(scene: Scene) -> None:
    before = scene.channel
    scene.offer(FIRST, MINOR)
    checkout(scene)
    scene.run()
    minor, content = scene.fleet.pulls
    scene.fleet.push("main", {LOCK: scene.fleet.read(LOCK, minor.branch)}, "ada", "Yes")
    assert scene.run("apply").code == 11
    later(scene)
    scene.fleet.close(content.number, "ada")
    scene.fleet.delete_branch(CONTENT_BRANCH, "ada")
    scene.run()
    merge(scene, scene.fleet.pulls[-1].number)
    ran = scene.run("apply")
    assert (ran.code, ran.outputs["target-version"], scene.channel != before) == (0, FIRST, True), ran
    assert f"the approval of {MINOR} does not count" in ran.said("warning")[0]


def test_a_merge_by_another_person_publishes_the_content_by_itself(scene: Scene, before: str) -> None:
    number = by_request(scene, patch("2Gi"))
    scene.fleet.review(number, "rita", "CHANGES_REQUESTED")  # who may only read
    check_out_merged(scene, number, "ben")
    asked = len(scene.forge.requests)
    ran = scene.run()
    assert (ran.code, ran.outputs["changed"], ran.outputs["decision"]) == (0, "true", "auto")
    assert scene.channel != before
    requests = [f"{request.method} {request.path}" for request in scene.forge.requests[asked:]]
    assert len(requests) == 7, requests
    assert scene.run().outputs["changed"] == "false"


def test_a_push_that_merges_content_publishes_it_and_the_schedule_finds_nothing_to_do(
    scene: Scene, before: str
) -> None:
    """The shipped workflows, with a key or without one, run `update` for both events."""
    check_out_merged(scene, by_request(scene, patch("2Gi")), "ben")
    scene.pushed()
    ran = scene.run()
    assert (ran.code, ran.outputs["changed"], ran.outputs["target-version"]) == (0, "true", FIRST)
    tags, requests = scene.tags, len(scene.fleet.pulls)
    assert scene.channel != before
    for event in ("schedule", "push"):
        scene.runner.event(event, PAYLOAD)
        assert scene.run().outputs["changed"] == "false"
    assert (scene.tags, len(scene.fleet.pulls)) == (tags, requests)


def test_an_own_merge_asks_with_the_reason_above_the_changes(scene: Scene, before: str) -> None:
    check_out_merged(scene, by_request(scene, patch("2Gi")), "ada")
    scene.run()
    assert scene.channel == before
    body = scene.fleet.pulls[-1].body
    assert "with 0 of 1 people who count" in body
    assert body.index("a merge by ada at") < body.index("more.yaml (changed)")
    asked = len(scene.forge.requests)
    assert scene.run().outputs["pending-decision"] == "approval"
    requests = [f"{request.method} {request.path}" for request in scene.forge.requests[asked:]]
    assert len(requests) == 3, requests  # the default branch with the request, its log, states and requests


def newest(scene: Scene) -> Record:
    """Return the record of what the channel has."""
    registry, trusted = LayoutRegistry(LayoutDirectory(Path("registry"))), TrustedKeys((signing_key().public,))
    return Ledger(registry, Reference.parse(CHANNEL), trusted).records(Digest.parse(scene.channel))[-1]


@pytest.mark.usefixtures("before")
def test_the_record_names_the_content_its_rules_and_everyone_who_counted(scene: Scene) -> None:
    first = newest(scene).content
    assert first is not None
    assert (first.commit, first.rules.approvals, first.at) == (scene.fleet.head, 0, scene.forge.now())
    urls = []
    for text, merger in (("2Gi", "ben"), ("3Gi", "ada")):
        number = by_request(scene, patch(text))
        scene.fleet.review(number, "ben")
        scene.fleet.merge(number, merger)
        urls.append(f"{scene.forge.host}/acme/fleet/pull/{number}")
    checkout(scene)
    ran = scene.run()
    assert ran.outputs["changed"] == "true"
    assert ran.said("notice") == [f"production: approved by ben: pull request {url}" for url in urls]
    assert [ran.summary.count(f"Approved by ben: [pull request](<{url}>).") for url in urls] == [1, 1]
    Path("cosign.pub").write_text(signing_key().public.to_pem())
    assert run(["history", CHANNEL, "-v", "--public-key", "cosign.pub"]) == 0
    told = scene.runner.capture.readouterr().out
    assert all(f"ben (pull request {url})" in told for url in urls)
    assert f"published to production, with the content of {scene.fleet.head[:12]}" in told
    record = newest(scene)
    assert record.approval is not None
    assert [(it.url, [person.login for person in it.people]) for it in record.approval.requests] == [
        (urls[0], ["ben"]),
        (urls[1], ["ben"]),
    ]
    assert record.content is not None
    assert (record.content.commit, record.content.overlay) == (scene.fleet.head, tree_id(scene))
    assert record.content.rules == first.rules
    scene.offer(FIRST, "v2.98.8")
    assert scene.run().outputs["target-version"] == "v2.98.8"
    assert newest(scene).content == record.content


def test_content_of_one_version_is_told_and_offered_by_its_digest(scene: Scene) -> None:
    configure(scene, more=", announce: [acme/apps], consumers: [{repository: acme/apps}]")
    digests = [scene.channel, first_content(scene)]
    check_out_merged(scene, by_request(scene, patch("2Gi")), "ben")
    assert scene.run().outputs["changed"] == "true"
    digests.append(scene.channel)
    scene.runner.variables["GITHUB_RUN_ATTEMPT"] = "2"
    assert scene.run().outputs["changed"] == "false"
    told = [tuple(payload[name] for name in ("version", "base", "target")) for _, payload in scene.apps.dispatched]
    assert told == [(FIRST, *digests[:2]), (FIRST, *digests[1:])]
    assert len({payload["key"] for _, payload in scene.apps.dispatched}) == 2


def test_consumers_of_one_version_get_each_content(scene: Scene) -> None:
    configure(scene, more=", consumers: [{repository: acme/apps}]")
    pins = (
        b'spec:\n  digest: sha256:0000 # {"$flux-manifests": "production:digest"}\n'
        b'  tag: v1 # {"$flux-manifests": "production:tag"}\n'
    )
    scene.apps.push("main", {"flux/source.yaml": pins}, "keeper")
    for text in ("", "2Gi"):
        if text:
            check_out_merged(scene, by_request(scene, patch(text)), "ben")
            assert scene.run().outputs["changed"] == "true"
        else:
            first_content(scene)
        assert scene.run("consumers").code == 0
        short = Digest.parse(scene.channel).short
        (pull,) = scene.apps.pulls
        assert pull.title == f"production: Flux {FIRST} ({short})"
        offered = scene.apps.read("flux/source.yaml", pull.branch)
        assert offered is not None
        assert f"digest: {scene.channel} #" in offered.decode()
        assert f"tag: {FIRST}-{short} #" in offered.decode()


@pytest.mark.usefixtures("before")
def test_the_dead_mans_switch_takes_content_that_waits_for_a_healthy_check(scene: Scene) -> None:
    pushed(scene)
    checkout(scene)
    for event in ("schedule", "push"):
        assert scene.run().outputs["pending-decision"] == "approval"
        run_of = scene.fleet.start("flux.yaml", event, "github-actions[bot]")
        scene.fleet.complete(run_of.id)
        assert scene.run("watch", workflow="flux.yaml").code == 0


def tree_id(scene: Scene) -> str:
    tree = scene.fleet.objects.commits[scene.fleet.head].tree
    entry = scene.fleet.objects.entry(tree, FOLDER)
    assert entry is not None
    return entry.sha


def pushed(scene: Scene) -> None:
    later(scene)
    scene.fleet.push("main", {f"{FOLDER}/more.yaml": patch("9Gi")}, "ada")


def indirect(scene: Scene) -> None:
    number = by_request(scene, patch("9Gi"))
    scene.fleet.move("main", scene.fleet.branches[scene.fleet.pull(number).branch], "ada")


def risky(scene: Scene) -> None:
    number = by_request(scene, b"kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n", "map.yaml")
    scene.fleet.merge(number, "ben")


def looser(scene: Scene) -> None:
    """Let one request change the rules and the content, and another person merge it."""
    later(scene)
    scene.configure(approval="{via: pull-request, labels: [flux]}", more=f", overlay: {FOLDER}")
    text = (scene.runner.workspace / CONFIG).read_bytes()
    files = {CONFIG: text, f"{FOLDER}/more.yaml": patch("9Gi")}
    scene.fleet.push("looser", files, "ada", onto=scene.fleet.head)
    scene.fleet.merge(scene.fleet.open_pull("looser", "ada").number, "ben")


def pushed_back(scene: Scene) -> None:
    """Merge content, revert it, and push it again."""
    scene.fleet.merge(by_request(scene, patch("9Gi")), "ben")
    for text in ("1Gi", "9Gi"):
        later(scene)
        scene.fleet.push("main", {f"{FOLDER}/more.yaml": patch(text)}, "ada")


def forced_back(scene: Scene) -> None:
    """Merge content, and force the branch to the commit before, and to the merge again."""
    before = scene.fleet.head
    merged = scene.fleet.merge(by_request(scene, patch("9Gi")), "ben")
    for commit in (before, merged):
        later(scene)
        scene.fleet.move("main", commit, "ada", force=True)


def evil_merge(scene: Scene) -> None:
    """Push a merge commit of a request that has bytes of neither side."""
    objects, by = scene.fleet.objects, scene.fleet.signature("ada")
    head = scene.fleet.pull(by_request(scene, patch("2Gi"))).head
    tree = objects.changed(objects.commits[head].tree, {f"{FOLDER}/more.yaml": patch("9Gi")})
    scene.fleet.move("main", objects.commit(tree, [scene.fleet.head, head], by, by, "Merge"), "ada")


def sum_of_two(scene: Scene) -> None:
    """Merge two requests, neither of which shows both changes."""
    first = by_request(scene, patch("2Gi"))
    second = by_request(scene, patch("9Gi"), "other.yaml")
    for number in (first, second):
        later(scene)
        scene.fleet.merge(number, "ben")


def of_another_folder(scene: Scene) -> None:
    """Let one line of the configuration name a folder that somebody pushed."""
    other = "clusters/other"
    scene.fleet.push("main", {f"{other}/more.yaml": patch("9Gi")}, "ada")
    scene.configure(approval="{via: pull-request}", more=f", overlay: {other}")
    by_requests(scene, {CONFIG: (scene.runner.workspace / CONFIG).read_bytes()})


def of_a_fork(scene: Scene) -> None:
    fork = scene.forge.fork("acme/fleet", "mallory")
    fork.push("change", {f"{FOLDER}/more.yaml": patch("9Gi")}, "mallory")
    later(scene)
    scene.fleet.merge(scene.fleet.open_pull("mallory:change", "mallory").number, "ben")


def retargeted(scene: Scene) -> None:
    """Let a review see another base than that which the author merges into."""
    number = by_request(scene, patch("9Gi"))
    scene.fleet.push("feature", {"f": b"1"}, "ada", onto=scene.fleet.head)
    scene.fleet.retarget(number, "feature", "ada")
    scene.fleet.review(number, "ben")
    later(scene)
    scene.fleet.retarget(number, "main", "ada")
    scene.fleet.merge(number, "ada")


def by_auto_merge(scene: Scene) -> None:
    """Let one person switch auto-merge on, and another one push and approve what is merged then."""
    number = by_request(scene, patch("2Gi"), by="ben")
    scene.fleet.collaborators[scene.forge.user("cyn").login] = "write"
    scene.fleet.protect()
    scene.fleet.allow_auto_merge = True
    scene.fleet.enable_auto_merge(number, "ada")
    scene.fleet.push(scene.fleet.pull(number).branch, {f"{FOLDER}/more.yaml": patch("9Gi")}, "ada", by="cyn")
    scene.fleet.review(number, "cyn")
    scene.fleet.protections.clear()


def by_queue(scene: Scene) -> None:
    number = by_request(scene, patch("9Gi"))
    scene.fleet.push("other", {"f": b"1"}, "ada", onto=scene.fleet.head)
    scene.fleet.merge_queue(scene.fleet.open_pull("other", "ada").number, number)


def by_bot(scene: Scene) -> None:
    scene.fleet.merge(by_request(scene, patch("9Gi")), "github-actions[bot]")


def by_pusher(scene: Scene) -> None:
    number = by_request(scene, patch("2Gi"))
    scene.fleet.push(scene.fleet.pull(number).branch, {f"{FOLDER}/more.yaml": patch("9Gi")}, "ada", by="ben")
    scene.fleet.merge(number, "ben")


def in_another(scene: Scene) -> None:
    """Merge a request that has the commits of another one."""
    head = scene.fleet.pull(by_request(scene, patch("9Gi"))).head
    scene.fleet.push("more", {"f": b"1"}, "ada", onto=head)
    scene.fleet.merge(scene.fleet.open_pull("more", "ada").number, "ben")


def by_nobody_now(scene: Scene) -> None:
    scene.fleet.collaborators[scene.forge.user("cyn").login] = "write"
    scene.fleet.merge(by_request(scene, patch("9Gi")), "cyn")
    scene.fleet.collaborators["cyn"] = "read"


def without_a_log(scene: Scene) -> None:
    scene.fleet.merge(by_request(scene, patch("9Gi")), "ben")
    scene.fleet.has_activity = False


def with_a_gap(scene: Scene) -> None:
    pushed(scene)
    scene.fleet.merge(by_request(scene, patch("8Gi")), "ben")
    (gap,) = [each for each in scene.fleet.activity if each.branch == "main"][-2:-1]
    scene.fleet.activity.remove(gap)


def concealed(scene: Scene) -> None:
    """Hide files from the request's page while it is reviewed."""
    scene.fleet.push("main", {".gitattributes": b"* -diff\n"}, "ada")
    scene.fleet.merge(by_request(scene, patch("9Gi")), "ben")
    scene.fleet.push("main", {".gitattributes": None}, "ada")


def by_requests(scene: Scene, *changes: dict[str, bytes | None]) -> None:
    """Let one person propose each change, and another one merge it."""
    for number, files in enumerate(changes):
        later(scene)
        branch = f"step-{number}"
        scene.fleet.push(branch, dict(files), "ada", onto=scene.fleet.head)
        scene.fleet.merge(scene.fleet.open_pull(branch, "ada").number, "ben")


def concealed_from_inside(scene: Scene) -> None:
    """Hide a file by attributes in the folder itself, which the next request takes out."""
    inside = f"{FOLDER}/.gitattributes"
    by_requests(scene, {inside: b"* -diff\n", f"{FOLDER}/more.yaml": patch("9Gi")}, {inside: None})


def concealed_and_renamed(scene: Scene) -> None:
    """Hide a file by its name, and rename it in the next request, whose page shows no more than the names."""
    first, then = f"{FOLDER}/other.yaml", f"{FOLDER}/another.yaml"
    scene.fleet.push("main", {".gitattributes": b"other.yaml -diff\n"}, "ada")
    by_requests(scene, {first: patch("9Gi")})
    scene.fleet.push("main", {".gitattributes": None}, "ada")
    by_requests(scene, {first: None, then: patch("9Gi")})


def from_elsewhere(*more: bytes) -> Callable[[Scene], None]:
    """Return how a file that nobody looked at comes into the folder: its page shows no lines but those that change."""

    def change(scene: Scene) -> None:
        scene.fleet.push("main", {"examples/a.yaml": patch("9Gi")}, "ada")
        by_requests(scene, {"examples/a.yaml": None, f"{FOLDER}/a.yaml": b"".join((patch("9Gi"), *more))})

    return change


def binary(scene: Scene) -> None:
    """Merge a file in UTF-16, which clusters read, and of which Git shows no lines."""
    by_requests(scene, {f"{FOLDER}/more.yaml": patch("9Gi").decode().encode("utf-16")})


def once_binary(scene: Scene) -> None:
    """Merge a file that is binary for Git, and a request that makes a text of it: neither page shows a line."""
    text, path = patch("9Gi"), f"{FOLDER}/more.yaml"
    by_requests(scene, {path: text + b"# \0\n"}, {path: text})


def of_a_file(text: bytes, name: str = "more.yaml") -> Callable[[Scene], None]:
    """Return how another person merges a file whose lines a page does not show as YAML reads them."""

    def change(scene: Scene) -> None:
        by_requests(scene, {f"{FOLDER}/{name}": text})

    return change


def by_a_workflow(scene: Scene) -> None:
    """Let one person have a workflow of her branch write and open a request, and merge it herself."""
    later(scene)
    bot = "github-actions[bot]"
    scene.fleet.push("made", {f"{FOLDER}/more.yaml": patch("9Gi")}, bot, onto=scene.fleet.head)
    scene.fleet.merge(scene.fleet.open_pull("made", bot).number, "ada")


def where_runs_ask(scene: Scene) -> None:
    """Change content on a branch whose requests say that they approve digests alone."""
    later(scene)
    scene.fleet.push(BRANCH, {f"{FOLDER}/more.yaml": patch("9Gi")}, "ada", onto=scene.fleet.head)
    scene.fleet.merge(scene.fleet.open_pull(BRANCH, "ada").number, "ben")


def in_a_crowd(scene: Scene) -> None:
    """Merge a request with more files than its page shows."""
    by_requests(scene, {f"{FOLDER}/more.yaml": patch("9Gi"), **{f"a/{number}": b"" for number in range(300)}})


def of_options(name: str, attributes: bytes) -> Callable[[Scene], None]:
    """Return how another person merges options that the page of the request does not show."""

    def change(scene: Scene) -> None:
        scene.configure(approval="{via: pull-request}", more=f", overlay: {FOLDER}, flags: {{log-level: debug}}")
        text = (scene.runner.workspace / CONFIG).read_bytes()
        by_requests(scene, {CONFIG: text, name: attributes})

    return change


NOT_PROVEN = {
    "a push": (pushed, "a push by ada at"),
    "an indirect merge": (indirect, "a push by ada at"),
    "an evil merge": (evil_merge, "a push by ada at"),
    "a revert that is pushed back": (pushed_back, "a push by ada at"),
    "a merge that is forced back": (forced_back, "a push by ada at"),
    "what two requests sum to": (sum_of_two, "whose page compared with older content"),
    "a request of a fork": (of_a_fork, "which comes from a fork"),
    "a request with the commits of another": (in_another, "is the merge commit of 2 pull requests"),
    "a review of another base": (retargeted, "ben approved it before its base changed"),
    "auto-merge": (by_auto_merge, "auto-merge was on, so no person pressed merge"),
    "a merge queue": (by_queue, "a merge queue merged it"),
    "a bot's merge": (by_bot, "with 0 of 1 people who count"),
    "the merge of who pushed": (by_pusher, "ben is its author or pushed to it"),
    "the merge of who may not write now": (by_nobody_now, "cyn may not write to the repository now"),
    "no log": (without_a_log, "GitHub shows no log of the default branch"),
    "a gap in the log": (with_a_gap, "has a gap before"),
    "files that the page did not show": (concealed, "did not show all changes"),
    "files that attributes in the folder hid": (concealed_from_inside, "did not show all changes"),
    "a hidden file that got another name": (concealed_and_renamed, "did not show all changes"),
    "a file that came from elsewhere": (from_elsewhere(), "did not show all changes"),
    "a changed file that came from elsewhere": (from_elsewhere(b"# more"), "did not show all changes"),
    "a file that is binary for Git": (binary, "did not show all changes"),
    "a file that was binary for Git": (once_binary, "did not show all changes"),
    "a comment that ends for YAML alone": (of_a_file("# a\u2028- op: add\n".encode()), "did not show all changes"),
    "a folder that pages fold": (of_a_file(patch("9Gi"), "node_modules/a.yaml"), "did not show all changes"),
    "a workflow's request that one person merges": (by_a_workflow, "with 1 of 2 people who count"),
    "a branch on which runs ask": (where_runs_ask, "whose page asks for digests alone"),
    "a file among more than a page shows": (in_a_crowd, "did not show all changes"),
    "options that attributes hid": (of_options(".gitattributes", b"/.github/* -diff"), "did not show all changes"),
    "options that attributes beside them hid": (
        of_options(".github/.gitattributes", b"* linguist-generated"),
        "did not show all changes",
    ),
    "changed rules": (looser, "the rules of approvals, escalate, refuse"),
    "a line that names another folder": (
        of_another_folder,
        "overlay, name, url, verify, signing or from changed since",
    ),
    "a class that the policy escalates": (risky, "ConfigMap a is new"),
}


MORE = {  # requests of a run beside the 3 of content that waits (ADR 17)
    "auto-merge": 2,
    "the merge of who pushed": 2,
    "the merge of who may not write now": 3,
    "files that attributes in the folder hid": 1,
    "a hidden file that got another name": 1,
    "a file that came from elsewhere": 1,
    "a changed file that came from elsewhere": 1,
    "a file that was binary for Git": 2,
}


@pytest.mark.parametrize("what", NOT_PROVEN)
def test_what_no_merge_proves_is_asked_by_digest(scene: Scene, before: str, what: str) -> None:
    change, reason = NOT_PROVEN[what]
    change(scene)
    checkout(scene)
    ran = scene.run()
    assert (ran.code, scene.channel, ran.outputs["pending-decision"]) == (0, before, "approval")
    assert reason in ran.outputs["pending-reasons"]
    pull = scene.fleet.pulls[-1]
    assert (pull.branch, pull.state) == (CONTENT_BRANCH, "OPEN")
    asked = len(scene.forge.requests)
    assert scene.run().outputs["pending-reasons"] == ran.outputs["pending-reasons"]
    requests = [f"{request.method} {request.path}" for request in scene.forge.requests[asked:]]
    assert len(requests) <= 3 + MORE.get(what, 0), requests
    merge(scene, pull.number)
    assert scene.run().outputs["changed"] == "true"


@pytest.mark.parametrize("name", ["production", "consumer-a", "content-a"])
def test_content_does_not_ride_on_a_request_for_a_digest(scene: Scene, name: str) -> None:
    """The request of a run says that it approves only the digests on its page."""
    named = (scene.fleet.read(CONFIG) or b"").replace(b"name: production", f"name: {name}".encode())
    scene.fleet.push("main", {CONFIG: named}, "ada")
    first_content(scene)
    scene.offer(FIRST, MINOR)
    scene.run()
    pull = scene.fleet.pulls[-1]
    scene.fleet.push(pull.branch, {f"{FOLDER}/more.yaml": patch("9Gi")}, "ben")
    scene.run()
    assert "this pull request approves only the digests above" in pull.body
    later(scene)
    check_out_merged(scene, pull.number, "ada")
    ran = scene.run()
    assert (ran.outputs["target-version"], ran.outputs["pending-decision"]) == (MINOR, "approval"), ran
    assert f"merged pull request {pull.number}, whose page asks for digests alone" in ran.outputs["pending-reasons"]
    assert "9Gi" in scene.fleet.pulls[-1].body


def test_a_run_asks_for_35_things_at_most(scene: Scene) -> None:
    configure(scene, "{via: pull-request, team: acme/keepers}")
    people = [scene.forge.user(f"p{number}").login for number in range(10)]
    scene.fleet.collaborators |= dict.fromkeys([*people, "ben"], "write")
    scene.forge.team("acme/keepers", [*people, "ben", "ada"])
    before = first_content(scene)
    for number in range(5):
        pull = by_request(scene, patch(f"{number + 2}Gi"))
        scene.fleet.review(pull, people[2 * number])
        check_out_merged(scene, pull, people[2 * number + 1])
    asked = len(scene.forge.requests)
    assert scene.run().outputs["changed"] == "true"
    assert scene.channel != before
    requests = [f"{request.method} {request.path}" for request in scene.forge.requests[asked:]]
    assert len(requests) == 35, requests
    approval = newest(scene).approval
    assert approval
    assert {it.login for request in approval.requests for it in request.people} == set(people)
    for _ in range(6):
        check_out_merged(scene, by_request(scene, patch(f"{len(scene.fleet.pulls)}Mi")), "ben")
    scene.run()
    asked = len(scene.forge.requests)
    ran = scene.run()
    assert "6 merges changed the content, and a run judges at most 5" in ran.outputs["pending-reasons"]
    assert len(scene.forge.requests) <= asked + 4


def tags_of(scene: Scene) -> dict[str, str]:
    """Return the tags of the repository but for those of signatures."""
    return {tag: digest for tag, digest in scene.tags.items() if not tag.startswith("sha256-")}


def test_the_default_branch_is_looked_at_once_more_before_anything_is_tagged(scene: Scene, before: str) -> None:
    check_out_merged(scene, by_request(scene, patch("2Gi")), "ben")
    tags, looks = tags_of(scene), list[str]()

    def revert(_verb: str, path: str, body: object) -> None:
        if path == "/graphql" and "defaultBranchRef { name target" in str(body):
            looks.append(path)
            if len(looks) == 2:
                scene.fleet.push("main", {f"{FOLDER}/more.yaml": patch("1Gi")}, "ada")

    scene.forge.faults.append(revert)
    ran = scene.run()
    assert (ran.code, len(looks), scene.channel) == (12, 2, before)
    assert tags_of(scene) == tags
    assert "changed on the default branch after it was judged" in ran.log


def test_an_approval_by_digest_outlives_a_run_that_the_default_branch_left_behind(scene: Scene) -> None:
    """That run asks for nothing anew, which would void what the next one can take up."""
    checkout(scene)
    scene.run()
    merge(scene, scene.fleet.pulls[-1].number)
    before, had, looks = scene.channel, scene.fleet.read(CONFIG) or b"", list[str]()

    def pause(_verb: str, path: str, body: object) -> None:
        if path == "/graphql" and "defaultBranchRef { name target" in str(body):
            looks.append(path)
            if len(looks) == 2:
                paused = had.replace(b", overlay:", b", paused: true, overlay:")
                scene.fleet.push("main", {CONFIG: paused}, "ada")

    scene.forge.faults.append(pause)
    ran = scene.run()
    assert (ran.code, scene.channel, [it.state for it in scene.fleet.pulls]) == (12, before, ["MERGED"]), ran
    scene.fleet.push("main", {CONFIG: had}, "ada")
    assert scene.run().outputs["changed"] == "true"


def test_a_checkout_that_is_not_what_github_has_stops_the_run(scene: Scene, before: str) -> None:
    asked = len(scene.fleet.pulls)
    (scene.runner.workspace / FOLDER / "more.yaml").write_bytes(patch("9Gi"))
    ran = scene.run()
    assert (ran.code, scene.channel, len(scene.fleet.pulls)) == (2, before, asked)
    assert f"{FOLDER}/more.yaml in the checkout is not what the default branch has" in ran.log
    checkout(scene)
    (scene.runner.workspace / FOLDER / "more.yaml").chmod(0o755)
    assert f"the folder {FOLDER}, by modes or links, in the checkout is not what" in scene.run().log


def test_attributes_of_the_default_branch_that_conceal_files_stop_the_run(scene: Scene, before: str) -> None:
    scene.fleet.merge(by_request(scene, patch("2Gi")), "ben")
    scene.fleet.push("main", {".gitattributes": b"*.yaml linguist-generated\n"}, "ada")
    checkout(scene)
    ran = scene.run()
    assert (ran.code, scene.channel) == (2, before)
    assert f".gitattributes gives '{FOLDER}/more.yaml' the attribute linguist-generated" in ran.log


def test_a_run_of_an_older_commit_leaves_the_content_to_the_next(scene: Scene, before: str) -> None:
    check_out_merged(scene, by_request(scene, patch("2Gi")), "ben")
    scene.runner.variables["GITHUB_SHA"] = scene.fleet.head
    scene.fleet.merge(by_request(scene, patch("3Gi")), "ben")
    ran = scene.run()
    assert (ran.code, scene.channel, ran.outputs["pending-decision"]) == (0, before, "wait")
    assert "the default branch moved on to" in ran.outputs["pending-reasons"]
    checkout(scene)
    assert scene.run().outputs["changed"] == "true"


def test_a_log_that_lags_is_waited_for(scene: Scene, before: str) -> None:
    check_out_merged(scene, by_request(scene, patch("2Gi")), "ben")
    scene.fleet.lag = 1
    ran = scene.run()
    assert (ran.outputs["pending-decision"], scene.channel) == ("wait", before)
    scene.fleet.lag = 0
    assert scene.run().outputs["changed"] == "true"


def test_content_that_was_rolled_back_stays_so(scene: Scene, before: str) -> None:
    check_out_merged(scene, by_request(scene, patch("2Gi")), "ben")
    assert scene.run().outputs["changed"] == "true"
    signing = ("--signing", "key", "--key", "cosign.key")
    assert run(["rollback", CHANNEL, "--to", before, "--yes", *signing]) == 0
    assert (scene.run().outputs["pending-decision"], scene.channel) == ("wait", before)
    assert run(["rollback", CHANNEL, "--lift", "--yes", *signing]) == 0
    for _ in range(2):
        ran = scene.run()
        assert (ran.outputs["pending-decision"], scene.channel) == ("approval", before)
        assert "is not later than the content of the channel" in ran.outputs["pending-reasons"]
        later(scene, 60)


def test_an_own_merge_counts_where_the_configuration_says_so(scene: Scene) -> None:
    configure(scene, "{via: pull-request, ownMerge: true}")
    before = first_content(scene)
    check_out_merged(scene, by_request(scene, patch("2Gi")), "ada")
    assert scene.run().outputs["changed"] == "true"
    assert scene.channel != before


def test_looser_rules_do_not_judge_their_own_request(scene: Scene) -> None:
    configure(scene, "{via: pull-request, approvals: 1}")
    before = first_content(scene)
    configure(scene)
    pushed(scene)
    checkout(scene)
    ran = scene.run()
    assert "approvals (1 -> 0)" in ran.outputs["pending-reasons"].splitlines()[0]
    pull = scene.fleet.pulls[-1]
    assert "after 1 approving review" in pull.body
    later(scene)
    scene.fleet.merge(pull.number, "ada")
    ran = scene.run()
    assert scene.channel == before
    assert "with 0 of 1 approving reviews" in ran.summary


def test_rules_that_are_loosened_once_a_page_is_merged_are_not_approved_by_it(scene: Scene) -> None:
    """The page does not show them, and the record of what it approves names the rules by which merges count then."""
    configure(scene, "{via: pull-request, approvals: 1}")
    before = first_content(scene)
    pushed(scene)
    checkout(scene)
    assert scene.run().outputs["pending-decision"] == "approval"
    merge(scene, scene.fleet.pulls[-1].number)
    later(scene)
    configure(scene)
    ran = scene.run()
    assert scene.channel == before, ran
    assert "approvals (1 -> 0)" in ran.outputs["pending-reasons"]
    later(scene)
    merge(scene, scene.fleet.pulls[-1].number)
    assert scene.run().outputs["changed"] == "true"


def unwritten(*_: object) -> None:
    raise ReferrerLost(Reference.parse(CHANNEL), Digest.of(b""), 1)


@pytest.mark.parametrize("interrupted", [False, True], ids=["", "a rollback that wrote no record"])
def test_a_rollback_to_older_rules_loosens_none(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, *, interrupted: bool
) -> None:
    before, first = first_content(scene), scene.fleet.read(f"{FOLDER}/more.yaml") or b""
    configure(scene, "{via: pull-request, approvals: 1}")
    check_out_merged(scene, by_request(scene, patch("2Gi")), "ada")
    assert scene.run().outputs["pending-decision"] == "approval"
    merge(scene, scene.fleet.pulls[-1].number)
    assert scene.run().outputs["changed"] == "true"
    later(scene, 60)
    scene.fleet.push("main", {f"{FOLDER}/more.yaml": first}, "ada")
    checkout(scene)
    signing = ("--signing", "key", "--key", "cosign.key")
    with monkeypatch.context() as patched:
        if interrupted:
            patched.setattr(RecordWriter, "attach", unwritten)
        assert run(["rollback", CHANNEL, "--to", before, "--yes", *signing]) == (12 if interrupted else 0)
    assert (scene.run().outputs["changed"], scene.channel) == ("false", before)
    assert run(["rollback", CHANNEL, "--lift", "--yes", *signing]) == 0
    configure(scene)
    later(scene, 60)
    check_out_merged(scene, by_request(scene, patch("3Gi")), "ben")
    for _ in range(2):  # neither that merge alone counts, nor that of the request that asks by digest
        assert (scene.run().outputs["pending-decision"], scene.channel) == ("approval", before)
        later(scene)
        pull = scene.fleet.pulls[-1]
        if pull.branch == CONTENT_BRANCH and not pull.merged_at:
            scene.fleet.merge(pull.number, "ben")
    assert "with 0 of 1 approving reviews" in scene.run().summary


def test_a_rollback_from_which_the_last_rules_are_hidden_names_no_content(scene: Scene, before: str) -> None:
    configure(scene, "{via: pull-request, approvals: 1}")
    check_out_merged(scene, by_request(scene, patch("2Gi")), "ada")
    assert scene.run().outputs["pending-decision"] == "approval"
    merge(scene, scene.fleet.pulls[-1].number)
    assert scene.run().outputs["changed"] == "true"
    forget(scene)
    registry = LayoutRegistry(LayoutDirectory(Path("registry")))
    at = Reference.parse(CHANNEL)
    registry.put_manifest(at.at_tag("v9.9.9-000000000000"), registry.manifest(at))
    assert run(["rollback", CHANNEL, "--to", before, "--yes", "--signing", "key", "--key", "cosign.key"]) == 0
    assert (newest(scene).rolled_back, newest(scene).content) == (True, None)


def test_each_artifact_judges_a_shared_folder_by_its_own_rules(scene: Scene) -> None:
    staging = CHANNEL.replace("production", "staging")
    signing = ("--releases", "../releases", "--signing", "key", "--key", "cosign.key")
    assert run(["init", staging, "--flux-version", FIRST, *signing]) == 0
    head = f"version: 1\napiUrl: {scene.forge.url}\nupstream: {{verify: if-available}}\n"
    defaults = f"overlay: {FOLDER}, approval: {{via: pull-request, approvals:"
    artifacts = (
        f"- {{name: {name}, url: '{channel}', {defaults} {number}}}}}\n"
        for name, channel, number in (("staging", staging, 0), ("production", CHANNEL, 2))
    )
    text = "".join((head, "artifacts:\n", *artifacts))
    scene.fleet.collaborators[scene.forge.user("cleo").login] = "write"
    scene.fleet.push("main", {CONFIG: text.encode()}, "ada")
    checkout(scene)
    scene.run()
    for pull in list(scene.fleet.pulls):
        later(scene)
        for reviewer in ("ben", "cleo"):
            scene.fleet.review(pull.number, reviewer)
        scene.fleet.merge(pull.number, "ada")
        scene.run()
    before = dict(scene.tags)
    check_out_merged(scene, by_request(scene, patch("2Gi")), "ben")
    ran = scene.run()
    assert scene.tags["staging"] != before["staging"]
    assert scene.tags["production"] == before["production"]
    assert "with 0 of 2 approving reviews" in ran.summary


def test_content_waits_while_the_artifact_is_paused(scene: Scene, before: str) -> None:
    configure(scene, more=", paused: true")
    check_out_merged(scene, by_request(scene, patch("2Gi")), "ben")
    asked = len(scene.forge.requests)
    assert (scene.run().outputs["pending-decision"], scene.channel) == ("wait", before)
    assert len(scene.forge.requests) <= asked + 3
    configure(scene)
    checkout(scene)
    assert scene.run().outputs["changed"] == "true"


BY_SCHEDULE = {"a request of 301 files": 301, "a message that skips runs": 0, "a merge by a job's token": 0}


@pytest.mark.parametrize("how", BY_SCHEDULE)
def test_a_merge_that_starts_no_run_is_taken_up_by_the_next_scheduled_one(scene: Scene, before: str, how: str) -> None:
    shipped = (Path(__file__).parents[2] / "workflows/flux.yaml").read_bytes()
    paths = shipped.replace(b"lock.yaml, ", b"lock.yaml, clusters/production/**, ")
    scene.fleet.push("main", {".github/workflows/flux.yaml": paths}, "ada")
    number = by_request(scene, patch("2Gi"))
    scene.fleet.merge(number, "ben")
    assert scene.fleet.runs[-1].event == "push"  # this one starts a run
    runs = len(scene.fleet.runs)
    number = by_request(scene, patch("3Gi"))
    pull = scene.fleet.pull(number)
    if many := BY_SCHEDULE[how]:
        scene.fleet.push(pull.branch, {f"apps/{each}.yaml": b"a" for each in range(many)}, "ada")
    if "skips" in how:
        pull.title = "Raise the limit [skip ci]"
    scene.fleet.review(number, "ben")
    scene.fleet.merge(number, "github-actions[bot]" if "token" in how else "ben")
    assert len(scene.fleet.runs) == runs
    checkout(scene)
    ran = scene.run()
    # A page does not show 301 files, so that a person is asked.
    wanted = ("false", "", "approval") if many else ("true", "auto", "")
    assert tuple(ran.outputs[each] for each in ("changed", "decision", "pending-decision")) == wanted
    assert (scene.channel == before) is bool(many)


@pytest.mark.usefixtures("before")
def test_the_record_of_another_repository_proves_nothing(scene: Scene) -> None:
    scene.runner.variables["GITHUB_REPOSITORY_ID"] = "5"
    check_out_merged(scene, by_request(scene, patch("2Gi")), "ben")
    assert "the channel has content of another repository" in scene.run().outputs["pending-reasons"]


def test_a_run_in_an_environment_approves_content_beside_a_minor(scene: Scene) -> None:
    configure(scene, "{via: workflow-dispatch}")
    scene.offer(FIRST, "v2.99.4")
    checkout(scene)
    scene.run()
    minor, content = scene.fleet.runs
    assert str(content.inputs["key"]).startswith("content-")
    assert (minor.inputs["version"], content.inputs["version"]) == ("v2.99.4", FIRST)
    scene.run()
    assert [each.status for each in scene.fleet.runs] == ["waiting", "waiting"]
    scene.fleet.answer(content.id, "ada")
    ran = scene.run("approve", **scene.approving())
    assert (ran.code, ran.outputs["target-version"]) == (0, FIRST)
    found = newest(scene).content
    assert found is not None
    assert found.commit == scene.fleet.head


def asked_in_an_environment(scene: Scene, before: str, after: str, more: str = "") -> None:
    """Publish the first content under one rule, and let a run wait for more content under another one."""
    configure(scene, f"{{via: workflow-dispatch, {before}}}", more)
    checkout(scene)
    scene.run()
    scene.fleet.answer(scene.fleet.runs[-1].id, "ada")
    assert scene.run("approve", **scene.approving()).code == 0
    configure(scene, f"{{via: workflow-dispatch, {after}}}", more)
    pushed(scene)
    checkout(scene)
    scene.runner.event("schedule", {})
    assert scene.run().outputs["pending-decision"] == "approval"


def test_the_page_of_a_run_that_waits_says_how_the_rules_changed(scene: Scene) -> None:
    """Its approval lets the record name the new ones."""
    (scene.runner.workspace / "cosign.pub").write_text(signing_key().public.to_pem())
    asked_in_an_environment(scene, "approvals: 1", "approvals: 0", ", verify: {publicKey: cosign.pub}")
    ran = scene.run("review", **scene.approving())
    assert ran.code == 0, ran
    assert "the rules changed since the content of the channel was approved: approvals (1 -\\> 0)" in ran.summary


def test_the_stricter_rules_judge_options_too_once_the_folder_is_taken_out(scene: Scene) -> None:
    configure(scene, "{via: pull-request, approvals: 1}")
    before = first_content(scene)
    scene.configure(approval="{via: pull-request}", more=", flags: {log-level: debug}")
    scene.fleet.push("main", {CONFIG: (scene.runner.workspace / CONFIG).read_bytes()}, "ada")
    assert scene.run().outputs["pending-decision"] == "approval"
    later(scene)
    scene.fleet.merge(scene.fleet.pulls[-1].number, "ada")
    ran = scene.run()
    assert scene.channel == before
    assert "with 0 of 1 approving reviews" in ran.summary


def test_a_run_started_by_hand_is_judged_by_the_stricter_rules_too(scene: Scene) -> None:
    asked_in_an_environment(scene, "approvals: 1", "approvals: 0")
    before, given = scene.channel, {**scene.fleet.runs[-1].inputs, "key": ""}
    scene.fleet.answer(scene.fleet.dispatch("approve.yaml", "main", given, "ada").id, "ada")
    ran = scene.run("approve", **scene.approving())
    assert (ran.code, scene.channel) == (11, before)
    assert "ada approved it and also started it" in ran.log


@pytest.mark.parametrize(("by", "code"), [("ada", 0), ("ben", 11)])
def test_the_team_that_the_content_was_approved_under_counts_in_an_environment(
    scene: Scene, by: str, code: int
) -> None:
    scene.fleet.environment("flux-manifests", ["ada", "ben"])
    scene.forge.team("acme/old", ["ada"])
    scene.forge.team("acme/new", ["ben"])
    asked_in_an_environment(scene, "team: acme/old", "team: acme/new")
    scene.fleet.answer(scene.fleet.runs[-1].id, by)
    assert scene.run("approve", **scene.approving()).code == code


def promoted_from_staging(scene: Scene, version: str) -> None:
    """Let the channel follow another one, under looser rules, in place of the folder."""
    scene.offer(FIRST, version)
    staging = CHANNEL.replace("production", "staging")
    signing = ("--signing", "key", "--key", "cosign.key")
    if version == MINOR:
        assert run(["init", staging, "--flux-version", version, "--releases", "../releases", *signing]) == 0
    else:
        assert run(["promote", "--from", CHANNEL, "--to", staging, "--approve", scene.channel, *signing[2:]]) == 0
        assert run(["update", staging, "--releases", "../releases", *signing]) == 0
    (scene.runner.workspace / "cosign.pub").write_text(signing_key().public.to_pem())
    more = (
        f", signing: {{mode: key, key: cosign.key}}, promote: {{from: '{staging}'}}, verify: {{publicKey: cosign.pub}}"
    )
    scene.configure(approval="{via: pull-request}", policy="{escalate: []}", more=more)
    text = (scene.runner.workspace / CONFIG).read_text()
    push(scene, text)


def test_the_stricter_rules_judge_a_promotion_too_that_replaces_the_folder(scene: Scene) -> None:
    configure(scene, "{via: pull-request, approvals: 1}")
    before = first_content(scene)
    promoted_from_staging(scene, MINOR)
    ran = scene.run()
    changed = "the rules changed since the content of the channel was approved: approvals (1 -> 0)"
    assert ran.outputs["pending-decision"] == "approval"
    assert changed in ran.outputs["pending-reasons"]
    assert changed in scene.fleet.pulls[-1].body.replace("\\", "").replace("&gt;", ">")
    shown = dispatch(scene, "promote", artifact="production").show()
    assert changed in shown.summary, shown.summary
    later(scene)
    scene.fleet.merge(scene.fleet.pulls[-1].number, "ada")
    ran = scene.run()
    assert scene.channel == before
    assert "with 0 of 1 approving reviews" in ran.summary
    started = dispatch(scene, "promote", artifact="production")
    ran = started.through()
    assert (ran.code, scene.channel) == (11, before)
    assert "ada approved it and also started it" in ran.log


def ruled(scene: Scene, approval: str) -> None:
    """Let the default branch have these rules, and who signs."""
    with_key = "verify: {publicKey: cosign.pub}, signing: {mode: key, key: cosign.key}"
    scene.configure(approval=approval, more=f", overlay: {FOLDER}, {with_key}")
    (scene.runner.workspace / "cosign.pub").write_text(signing_key().public.to_pem())
    push(scene, (scene.runner.workspace / CONFIG).read_text())


def test_the_stricter_rules_judge_a_promotion_after_an_adoption_too(scene: Scene) -> None:
    """The record of an adoption names no content."""
    configure(scene, "{via: pull-request, approvals: 1}")
    before = first_content(scene)
    forget_signature(scene)
    ruled(scene, "{via: pull-request, approvals: 1}")
    assert dispatch(scene, "adopt", artifact="production", by="ben").through().code == 0
    assert newest(scene).adopted
    scene.runner.event("schedule", {})
    promoted_from_staging(scene, MINOR)
    assert scene.run().outputs["pending-decision"] == "approval"
    later(scene)
    pull = scene.fleet.pulls[-1]
    scene.fleet.merge(pull.number, "ada")
    ran = scene.run()
    assert scene.channel == before
    assert "with 0 of 1 approving reviews" in ran.summary


@pytest.mark.parametrize("how", ["", "after one under the old rules", "of a channel that was deleted"])
def test_the_stricter_rules_judge_an_adoption_too(scene: Scene, how: str) -> None:
    """An adoption brings other content, and so does a first artifact after somebody deleted the channel."""
    configure(scene, "{via: pull-request, approvals: 1}")
    first_content(scene)
    forget_signature(scene)
    if how.startswith("after"):  # one whose record names no content
        ruled(scene, "{via: pull-request, approvals: 1}")
        assert dispatch(scene, "adopt", artifact="production", by="ben").through().code == 0
        forget_signature(scene)
    ruled(scene, "{via: pull-request}")
    operation: dict[str, str] = {"operation": "adopt"}
    if how.endswith("deleted"):
        drop_tag(scene, "production")
        operation = {"operation": "init", "to": FIRST}
    before = dict(scene.tags)
    ran = dispatch(scene, **operation, artifact="production").through()
    assert (ran.code, scene.tags) == (11, before)
    assert "ada approved it and also started it" in ran.log


@pytest.mark.parametrize("rules", ["{via: pull-request, approvals: 1}", "{via: pull-request}"])
def test_no_code_counts_for_an_adoption_where_content_was_approved_under_other_rules(scene: Scene, rules: str) -> None:
    configure(scene, rules)
    first_content(scene)
    forget_signature(scene)
    ruled(scene, "{via: pull-request, operationsByCode: true}")
    scene.fleet.environments.clear()
    before = dict(scene.tags)
    asked = dispatch(scene, "adopt", artifact="production")
    shown = asked.show()
    (warning,) = shown.said("warning")
    assert "No code counts either: the rules of approvals changed since the content of the channel was app" in warning
    assert "operationsByCode" not in shown.summary
    assert "field code" not in shown.summary
    assert (asked.do(shown.outputs["shown"]).code, scene.tags) == (11, before)


def test_a_promotion_that_keeps_the_content_keeps_the_rules_of_its_approval(scene: Scene) -> None:
    configure(scene, "{via: pull-request, approvals: 1}")
    first_content(scene)
    had = newest(scene).content
    promoted_from_staging(scene, PATCH)
    assert scene.run().outputs["changed"] == "true"
    assert scene.channel == scene.tags["staging"]
    assert newest(scene).content == had is not None


def forget_signature(scene: Scene) -> None:
    """Let the channel's `.sig` vanish."""
    drop_tag(scene, scene.channel.replace(":", "-") + ".sig")


def drop_tag(scene: Scene, name: str) -> None:
    """Let a tag vanish."""
    index = scene.runner.workspace / "registry/index.json"
    found = json.loads(index.read_bytes())
    found["manifests"] = [
        it for it in found["manifests"] if it.get("annotations", {}).get("org.opencontainers.image.ref.name") != name
    ]
    index.write_text(json.dumps(found))


def forget(scene: Scene) -> None:
    """Let what hangs on the digest of the channel vanish, as a writer of the registry could."""
    registry = LayoutRegistry(LayoutDirectory(Path("registry")))
    gone = {str(it.digest) for it in registry.referrers(Reference.parse(CHANNEL), Digest.parse(scene.channel))}
    index = Path("registry/index.json")
    found = json.loads(index.read_bytes())
    found["manifests"] = [it for it in found["manifests"] if it["digest"] not in gone]
    index.write_text(json.dumps(found))


@pytest.mark.parametrize("then", ["deleted", "written again", "deleted, and the folder is taken out"])
def test_without_a_record_the_rules_of_the_last_content_count(scene: Scene, then: str) -> None:
    configure(scene, "{via: pull-request, approvals: 1}")
    before = first_content(scene)
    scene.offer(FIRST, PATCH)
    assert scene.run().outputs["target-version"] == PATCH
    forget(scene)
    if then == "written again":
        scene.run()
        assert (newest(scene).recovered, newest(scene).content is None) == (True, False)
    configure(scene)
    pushed(scene)
    if then.endswith("taken out"):
        scene.configure(approval="{via: pull-request}", more=", flags: {log-level: debug}")
        scene.fleet.push("main", {CONFIG: (scene.runner.workspace / CONFIG).read_bytes()}, "ada")
    checkout(scene)
    asked = scene.run()
    assert then.endswith("taken out") or "approvals (1 -> 0)" in asked.outputs["pending-reasons"].splitlines()[0]
    later(scene)
    scene.fleet.merge(scene.fleet.pulls[-1].number, "ada")
    if then != "written again":
        forget(scene)
    ran = scene.run()
    assert "with 0 of 1 approving reviews" in ran.summary
    assert before != scene.channel


def test_no_version_brings_other_options_once_the_folder_is_taken_out(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(scene, "{via: pull-request, approvals: 1}")
    before = first_content(scene)
    scene.offer(FIRST, MINOR)
    scene.configure(approval="{via: pull-request}", more=", flags: {log-level: debug}")
    scene.fleet.push("main", {CONFIG: (scene.runner.workspace / CONFIG).read_bytes()}, "ada")
    targets, alone = {}, ""
    for how in ("apart", "together"):
        scene.runner.capture.readouterr()
        assert run(["plan", "production", "--output", "json", "--releases", "../releases", "--key", "cosign.key"]) == 0
        content, minor = json.loads(scene.runner.capture.readouterr().out)["artifacts"][0]["plan"]["steps"]
        targets[how], alone = minor["target"], content["target"]
        assert (minor["base"] == before) is (how == "apart")
        monkeypatch.setattr("ci_automation.flows.planning.steps.apart", lambda _, intent: intent)
    monkeypatch.undo()
    scene.run()
    entry = entry_of(scene, BRANCH, RequestKind.VERSION)
    assert str(entry.request.target) == alone
    both = replace(entry.request, version=Version.parse(MINOR), target=Digest.parse(targets["together"]))
    lock = Lock.parse((scene.fleet.read(LOCK, BRANCH) or b"").decode()).with_entry(replace(entry, request=both))
    scene.fleet.push(BRANCH, {LOCK: lock.text.encode()}, "ben")
    pull = scene.fleet.pulls[-1]
    scene.fleet.edit(
        pull.number, pull.author, body=pull.body.replace(alone, targets["together"])
    )  # as the run's account
    later(scene)
    scene.fleet.merge(pull.number, "ada")
    ran = scene.run()
    assert scene.channel == before
    assert f"{both.target} was approved for {MINOR}, which renders as {targets['apart']} now" in ran.summary
