"""A run that waited in its concurrency group before its first attempt: what the default branch says by now counts."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.contract.operating import CONFIG, configure, dispatch, patched, push
from tests.contract.scene import FIRST, LOCK, MINOR, PATCH
from tests.contract.test_evidence import report
from tests.fakes.forge import Fault

if TYPE_CHECKING:
    from tests.conftest import Once
    from tests.contract.scene import Scene
    from tests.fakes.runner import Ran

EAGER = ", policy: {minor: auto, escalate: []}"
LIVE = (
    "- {name: live, url: 'layout:live:live', verify: {publicKey: cosign.pub}, signing: {mode: key, key: cosign.key}, "
    "approval: {via: none}, promote: {from: production}, policy: {minor: auto, escalate: []}}\n"
)
GITHUB, VOID = 21, 12


@pytest.fixture
def scene(scene: Scene, once: Once) -> Scene:
    """Return a scene where a minor waits for the next run, which publishes it by itself."""
    patched(scene, once)
    scene.offer(FIRST, PATCH, MINOR)
    waits(scene, EAGER)
    return scene


def waits(scene: Scene, more: str, others: str = "") -> None:
    """Let a schedule have started a run at the head of the default branch, which waits in its group."""
    configure(scene, approval="{via: none}", more=more, others=others)
    scene.runner.event("schedule", {})
    scene.runner.variables["GITHUB_SHA"] = scene.fleet.head


def changed(scene: Scene, more: str, others: str = "") -> None:
    """Change the configuration of the default branch, and not that of the checkout."""
    had = (scene.runner.workspace / CONFIG).read_bytes()
    configure(scene, approval="{via: none}", more=more, others=others)
    (scene.runner.workspace / CONFIG).write_bytes(had)


def looks(scene: Scene, before: int) -> int:
    """Return how often a run asked the repository that it is in."""
    return sum(
        request.path == "/graphql" and "defaultBranchRef" in str(request.body)
        for request in scene.forge.requests[before:]
    )


def stopped(ran: Ran, scene: Scene, before: dict[str, str]) -> None:
    """Check that a run signed and moved nothing, and says why."""
    assert (ran.code, scene.tags) == (VOID, before), ran  # those of signatures are among them
    (said,) = ran.said("error")
    assert f"{CONFIG} in this checkout is not what the default branch has now" in said
    assert "The next run goes by what the default branch has" in said


@pytest.mark.parametrize(
    "more",
    [
        f"{EAGER}, paused: true",
        ", policy: {minor: approval}",
        ", policy: {minor: auto, range: '<2.99'}",
        ", policy: {minor: auto, escalate: [], freeze: [{cron: '* * * * *', for: 1h, timeZone: UTC, reason: fair}]}",
    ],
    ids=["paused", "approval", "range", "frozen"],
)
def test_what_the_default_branch_forbids_meanwhile_is_not_published(scene: Scene, more: str) -> None:
    before = scene.tags
    changed(scene, more)
    stopped(scene.run(), scene, before)
    scene.runner.variables["GITHUB_SHA"] = scene.fleet.head
    (scene.runner.workspace / CONFIG).write_bytes(scene.fleet.read(CONFIG) or b"")
    assert (scene.run().code, scene.channel) == (0, before["production"])


def test_a_configuration_that_was_deleted_meanwhile_publishes_nothing(scene: Scene) -> None:
    before = scene.tags
    scene.fleet.push("main", {CONFIG: None}, "keeper")
    stopped(scene.run(), scene, before)


def test_a_configuration_that_is_too_large_to_be_shown_is_compared_too(scene: Scene) -> None:
    """GitHub cuts texts of more than 512 kB."""
    large = "# a note\n" * 64_000
    waits(scene, EAGER, large)
    before = scene.tags
    changed(scene, f"{EAGER}, paused: true", large)
    stopped(scene.run(), scene, before)
    scene.fleet.push("main", {CONFIG: (scene.runner.workspace / CONFIG).read_bytes()}, "ada")
    assert scene.run().outputs["target-version"] == MINOR


@pytest.mark.parametrize("command", ["update", "promote"])
def test_a_promotion_that_was_paused_meanwhile_moves_nothing(scene: Scene, command: str) -> None:
    waits(scene, EAGER, LIVE)
    assert dispatch(scene, "promote", artifact="live").through().code == 0
    live, before = scene.runner.workspace / "live/index.json", len(scene.forge.requests)
    had = live.read_text()
    scene.fleet.push("main", {"apps/a.yaml": b"a"}, "ada")
    waits(scene, EAGER, LIVE)
    assert scene.run("update", artifact="production").outputs["target-version"] == MINOR
    assert looks(scene, before) > 0
    changed(scene, EAGER, LIVE.replace("promote:", "paused: true, promote:"))
    ran = scene.run(command)
    assert (ran.code, tagged(live.read_text())) == (VOID, tagged(had)), ran
    waits(scene, EAGER, LIVE)
    before = len(scene.forge.requests)
    assert scene.run(command).code == 0
    assert tagged(live.read_text()) != tagged(had)
    assert looks(scene, before) == 1


@pytest.mark.parametrize("attempt", ["1", "2"])
def test_a_file_that_the_configuration_names_is_that_of_the_default_branch(scene: Scene, attempt: str) -> None:
    """A run has the files of its commit: what spoke for a promotion then may not speak for it now."""
    live = LIVE.replace("promote: {from: production}", "promote: {from: production, evidence: [{report: a/live.json}]}")

    def reports(value: object) -> None:
        text = json.dumps(value).encode()
        (scene.runner.workspace / "a").mkdir(exist_ok=True)
        (scene.runner.workspace / "a/live.json").write_bytes(text)
        scene.fleet.push("main", {"a/live.json": text}, "ada")
        waits(scene, EAGER, live)

    reports(report(PATCH))
    assert dispatch(scene, "promote", artifact="live").through().code == 0
    reports(report(MINOR))
    assert scene.run("update", artifact="production").outputs["target-version"] == MINOR
    index = scene.runner.workspace / "live/index.json"
    had = index.read_text()
    scene.runner.variables["GITHUB_RUN_ATTEMPT"] = attempt
    scene.fleet.push("main", {"a/live.json": json.dumps(report(MINOR, ready=False)).encode()}, "ada")
    ran = scene.run("promote")
    assert (ran.code, tagged(index.read_text())) == (VOID, tagged(had)), ran
    assert "a/live.json in this checkout is not what the default branch has now" in ran.said("error")[0]
    reports(report(MINOR))
    assert scene.run("promote").code == 0
    assert tagged(index.read_text()) != tagged(had)


@pytest.mark.parametrize("attempt", ["1", "2"])
def test_a_named_file_that_changed_while_a_run_waited_for_people_voids_only_a_later_attempt(
    scene: Scene, attempt: str
) -> None:
    """People approved a digest; an attempt that begins again is of an old commit by choice."""
    configure(scene, approval="{via: workflow-dispatch}")
    scene.run()
    scene.fleet.answer(scene.fleet.runs[-1].id, "ada")
    given = scene.approving()
    scene.runner.variables["GITHUB_SHA"] = scene.fleet.head
    scene.runner.variables["GITHUB_RUN_ATTEMPT"] = attempt
    scene.fleet.push("main", {"cosign.pub": b"another"}, "ada")
    before = scene.tags
    ran = scene.run("approve", **given)
    if attempt == "1":
        assert ran.outputs["target-version"] == MINOR, ran
    else:
        assert (ran.code, scene.tags) == (VOID, before), ran
        assert "cosign.pub in this checkout is not what the default branch has now" in ran.said("error")[0]


def test_an_operation_that_begins_again_goes_by_no_old_file(scene: Scene) -> None:
    waits(scene, EAGER, LIVE)
    started = dispatch(scene, "promote", artifact="live")
    shown = started.show()
    assert shown.code == 0, shown
    started.approve()
    scene.runner.variables["GITHUB_SHA"] = scene.fleet.head
    scene.fleet.push("main", {"cosign.pub": b"another"}, "ada")
    scene.fleet.complete(started.run.id, "failure")
    scene.fleet.rerun(started.run.id, "ben")
    ran = started.do(shown.outputs["shown"])
    assert (ran.code, (scene.runner.workspace / "live/index.json").exists()) == (VOID, False), ran
    assert "cosign.pub in this checkout is not what the default branch has now" in ran.said("error")[0]


@pytest.mark.parametrize("path", ["keys/a.pub", "./keys//a.pub", "keys/../keys/a.pub"])
def test_a_file_that_an_input_names_is_that_of_the_default_branch_too(scene: Scene, path: str) -> None:
    (scene.runner.workspace / "keys").mkdir()
    key = (scene.runner.workspace / "cosign.pub").read_bytes()
    (scene.runner.workspace / "keys/a.pub").write_bytes(key)
    scene.fleet.push("main", {"keys/a.pub": key}, "ada")
    scene.runner.variables["GITHUB_SHA"] = scene.fleet.head
    scene.fleet.push("main", {"keys/a.pub": b"another"}, "ada")
    before = scene.tags
    ran = scene.run(public_key=path)
    assert (ran.code, scene.tags) == (VOID, before), ran
    assert "keys/a.pub in this checkout is not what the default branch has now" in ran.said("error")[0]
    scene.runner.variables["GITHUB_SHA"] = scene.fleet.head
    assert scene.run(public_key=path).outputs["target-version"] == MINOR


@pytest.mark.parametrize("link", [CONFIG, "cosign.pub", "keys"])
def test_no_change_hides_behind_a_link(scene: Scene, link: str) -> None:
    """Git has the path to which a link leads, and that stays the same."""
    workspace = scene.runner.workspace
    if link == "keys":
        (workspace / "real").mkdir()
        (workspace / "real/a.pub").write_bytes((workspace / "cosign.pub").read_bytes())
        (workspace / link).symlink_to("real")
        waits(scene, f"{EAGER}, trustConfig: keys/a.pub")
    else:
        (workspace / "real").write_bytes((workspace / link).read_bytes())
        (workspace / link).unlink()
        (workspace / link).symlink_to(workspace / "real")
    scene.fleet.push("main", {link: b"the path to which it leads"}, "ada")
    scene.runner.variables["GITHUB_SHA"] = scene.fleet.head
    scene.fleet.push("main", {"real": b"another"}, "ada")
    before = scene.tags
    ran = scene.run()
    assert (ran.code, scene.tags) == (VOID, before), ran
    assert "is a symbolic link or behind one" in ran.said("error")[0]


@pytest.fixture
def below(scene: Scene) -> Scene:
    """Return a scene whose checkout is in the folder `fleet` of the workspace, by `path:`."""
    workspace = scene.runner.workspace
    shutil.rmtree(workspace / ".git")
    (workspace / "fleet/.git").mkdir(parents=True)
    (workspace / ".github").rename(workspace / "fleet/.github")
    (workspace / "cosign.pub").rename(workspace / "fleet/cosign.pub")
    key = (workspace / "fleet/cosign.pub").read_bytes()
    text = (scene.fleet.read(CONFIG) or b"").replace(b"publicKey: cosign.pub", b"publicKey: fleet/cosign.pub")
    (workspace / "fleet" / CONFIG).write_bytes(text)
    scene.fleet.push("main", {CONFIG: text, "cosign.pub": key}, "ada")
    scene.runner.variables["GITHUB_SHA"] = scene.fleet.head
    return scene


@pytest.mark.parametrize("attempt", ["1", "2"])
@pytest.mark.parametrize("file", [CONFIG, "cosign.pub"])
def test_a_checkout_in_a_folder_of_the_workspace_is_compared_too(below: Scene, file: str, attempt: str) -> None:
    below.runner.variables["GITHUB_RUN_ATTEMPT"] = attempt
    more = (below.fleet.read(file) or b"").replace(b"minor: auto", b"minor: never") + b"\n"
    below.fleet.push("main", {file: more}, "keeper")
    before = below.tags
    ran = below.run(config=f"fleet/{CONFIG}")
    assert (ran.code, below.tags) == (VOID, before), ran
    assert f"fleet/{file} in this checkout is not what the default branch has now" in ran.said("error")[0]
    below.runner.variables["GITHUB_SHA"] = below.fleet.head
    (below.runner.workspace / "fleet" / file).write_bytes(more)
    assert below.run(config=f"fleet/{CONFIG}").code == 0


def test_a_configuration_in_a_folder_of_the_workspace_may_be_the_one_of_an_operation(below: Scene) -> None:
    given = {"config": f"fleet/{CONFIG}"}
    asked = dispatch(below, "rollback", to=FIRST)
    shown = asked.show(**given)
    assert shown.code == 0, shown
    asked.approve()
    assert asked.do(shown.outputs["shown"], **given).outputs["changed"] == "true"


def tagged(index: str) -> dict[str, str]:
    """Return the digests of the tags of an image layout."""
    name = "org.opencontainers.image.ref.name"
    found = {it.get("annotations", {}).get(name, ""): it["digest"] for it in json.loads(index)["manifests"]}
    return {tag: digest for tag, digest in found.items() if tag and not tag.startswith("sha256-")}


def test_a_lost_signature_is_not_made_anew_where_the_rules_changed_meanwhile(scene: Scene) -> None:
    scene.offer(FIRST, PATCH)
    index = scene.runner.workspace / "registry/index.json"
    found = json.loads(index.read_text())
    name = "org.opencontainers.image.ref.name"
    lost = f"{scene.channel.replace(':', '-')}.sig"
    found["manifests"] = [it for it in found["manifests"] if it.get("annotations", {}).get(name) != lost]
    index.write_text(json.dumps(found))
    changed(scene, f"{EAGER}, paused: true")
    before = scene.tags
    assert (scene.run().code, scene.tags) == (VOID, before)
    waits(scene, EAGER)
    assert (scene.run().code, lost in scene.tags) == (0, True)


def test_an_approval_that_was_withdrawn_while_the_run_waited_does_not_count(scene: Scene) -> None:
    configure(scene, approval="{via: pull-request}")
    scene.run()
    scene.fleet.merge(1, "ada")
    scene.runner.variables["GITHUB_SHA"] = scene.fleet.head
    scene.pushed()
    scene.checkout()
    before = scene.channel
    scene.fleet.push("main", {LOCK: None}, "ada")
    ran = scene.runner.run(command="update", **scene.own)  # with the lock file of its commit
    assert (ran.outputs["changed"], scene.channel) == ("false", before), ran
    scene.fleet.push("main", {LOCK: (scene.runner.workspace / LOCK).read_bytes()}, "ben")
    ran = scene.runner.run(command="update", **scene.own)
    assert (ran.outputs["changed"], scene.channel) == ("false", before), ran


@pytest.mark.parametrize("by", ["a commit of another run", "a step of the job"])
def test_what_changes_no_rule_keeps_no_run_from_its_work(scene: Scene, by: str) -> None:
    if by == "a step of the job":
        file = scene.runner.workspace / CONFIG
        file.write_bytes(file.read_bytes() + b"# filled in\n")
    scene.fleet.push("main", {"apps/a.yaml": b"a", LOCK: b"version: 1\nentries: []\n"}, "ada")
    before = len(scene.forge.requests)
    assert scene.run().outputs["target-version"] == MINOR
    assert looks(scene, before) == 1


def test_the_default_branch_is_asked_once_before_the_first_signature_and_not_without_one(scene: Scene) -> None:
    before = len(scene.forge.requests)
    assert scene.run().outputs["target-version"] == MINOR
    assert looks(scene, before) == 1
    before = len(scene.forge.requests)
    assert scene.run().outputs["changed"] == "false"
    assert looks(scene, before) == 0


def test_a_change_is_seen_right_before_the_first_signature(scene: Scene) -> None:
    had, before = (scene.runner.workspace / CONFIG).read_text(), scene.tags

    def pause(_verb: str, path: str, body: object) -> None:
        if path == "/graphql" and "defaultBranchRef" in str(body):
            push(scene, had.replace("minor: auto", "minor: never"))

    scene.forge.faults.append(pause)
    stopped(scene.run(), scene, before)


def test_where_github_does_not_answer_nothing_is_signed(scene: Scene) -> None:
    before = scene.tags

    def down(_verb: str, path: str, body: object) -> Fault | None:
        return Fault(400, {"message": "no"}) if path == "/graphql" and "defaultBranchRef" in str(body) else None

    scene.forge.faults.append(down)
    assert (scene.run().code, scene.tags) == (GITHUB, before)


def test_a_run_whose_rules_are_outdated_asks_for_no_second_approval(scene: Scene) -> None:
    configure(scene, approval="{via: pull-request}")
    scene.run()
    scene.fleet.merge(1, "ada")
    scene.pushed()
    scene.runner.variables["GITHUB_SHA"] = scene.fleet.head
    before = scene.tags
    had = (scene.runner.workspace / CONFIG).read_bytes()
    push(scene, had.decode() + "# a note\n")
    stopped(scene.run(), scene, before)
    assert [pull.state for pull in scene.fleet.pulls] == ["MERGED"]
    scene.runner.variables["GITHUB_SHA"] = scene.fleet.head
    (scene.runner.workspace / CONFIG).write_bytes(scene.fleet.read(CONFIG) or b"")
    assert scene.run().outputs["target-version"] == MINOR


def test_a_run_whose_options_are_outdated_asks_for_nothing_either(scene: Scene) -> None:
    configure(scene, approval="{via: pull-request}")
    old, commit = (scene.runner.workspace / CONFIG).read_bytes(), scene.fleet.head
    configure(scene, approval="{via: pull-request}", more=", flags: {log-level: debug}")
    scene.run()
    scene.fleet.merge(1, "ada")
    before, had = scene.tags, (scene.runner.workspace / CONFIG).read_bytes()
    scene.runner.variables["GITHUB_SHA"] = commit
    (scene.runner.workspace / CONFIG).write_bytes(old)
    stopped(scene.run(), scene, before)
    assert [pull.state for pull in scene.fleet.pulls] == ["MERGED"]
    scene.runner.variables["GITHUB_SHA"] = scene.fleet.head
    (scene.runner.workspace / CONFIG).write_bytes(had)
    assert scene.run().outputs["changed"] == "true"
