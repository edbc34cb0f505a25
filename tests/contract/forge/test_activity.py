"""The log of a branch, merges of all kinds, changed bases, and what forks and further attempts may do."""

from __future__ import annotations

import shutil
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.forge.asking import BRANCH, EVERYTHING, FLEET, ask, query
from tests.contract.forge.test_git import exported, git
from tests.fakes.forge import ACTIONS, Forge, Repository

if TYPE_CHECKING:
    from pathlib import Path

QUEUE = "github-merge-queue[bot]"
TIMELINE = """query($number: Int!) { repository(owner: "acme", name: "fleet") { pullRequest(number: $number) {
  baseRefName autoMergeRequest { enabledAt }
  timelineItems(last: 9) { nodes { __typename
    ... on BaseRefChangedEvent { previousRefName currentRefName actor { login } }
    ... on AutomaticBaseChangeSucceededEvent { oldBase newBase }
  } }
} } }"""
MERGED_AS = """query($oid: GitObjectID!) { repository(owner: "acme", name: "fleet") { object(oid: $oid) {
  ... on Commit { associatedPullRequests(first: 9) { nodes { number mergedBy { login } mergeCommit { oid } } } }
} } }"""


def log(forge: Forge, token: str, query: str = "?ref=refs/heads/main") -> list[dict[str, Any]]:
    reply = ask(forge, token, "GET", f"{FLEET}/activity{query}")
    assert reply.status == 200
    found: list[dict[str, Any]] = reply.value
    return found


def kinds(forge: Forge, token: str, branch: str = "main") -> list[tuple[str, str]]:
    found = log(forge, token, f"?ref=refs/heads/{branch}")
    return [(each["activity_type"], each["actor"]["login"]) for each in found]


def requested(repo: Repository, branch: str, files: dict[str, bytes], by: str = "alice") -> int:
    repo.push(branch, {**files}, by, onto=repo.head)
    return repo.open_pull(branch, by).number


def test_each_update_has_its_type_its_actor_and_both_its_sides(forge: Forge, opened: Repository, token: str) -> None:
    first = opened.head
    opened.merge(1, "bob")
    opened.push("main", {"f": b"1"}, "alice")
    opened.move("main", first, "alice", force=True)
    opened.delete_branch(BRANCH, "bob")
    assert kinds(forge, token) == [
        ("force_push", "alice"), ("push", "alice"), ("pr_merge", "bob"), ("branch_creation", "acme"),
    ]  # fmt: skip
    assert kinds(forge, token, BRANCH) == [("branch_deletion", "bob"), ("branch_creation", "alice")]
    updates = log(forge, token)
    assert all(newer["before"] == older["after"] for newer, older in pairwise(updates))
    assert (updates[0]["after"], updates[-1]["before"]) == (first, "0" * 40)


def test_the_log_is_read_page_by_page_by_cursor(forge: Forge, repo: Repository, token: str) -> None:
    for number in range(4):
        repo.push("main", {"f": b"%d" % number}, "alice")
    seen, path = [], f"{FLEET}/activity?ref=refs/heads/main&per_page=2"
    while path:
        reply = ask(forge, token, "GET", path)
        seen += [each["after"] for each in reply.value]
        link = reply.headers.get("Link", "")
        path = link[1 : link.index(">")].removeprefix(forge.url) if 'rel="next"' in link else ""
    assert seen == [each["after"] for each in log(forge, token)]
    assert len(seen) == 5
    assert log(forge, token, "?ref=refs/heads/main&direction=asc")[0]["activity_type"] == "branch_creation"
    assert ask(forge, token, "GET", f"{FLEET}/activity?page=2").status == 422
    forge.violations.clear()


def test_the_log_may_lag_lose_updates_and_be_missing(forge: Forge, repo: Repository, token: str) -> None:
    for number in range(3):
        repo.push("main", {"f": b"%d" % number}, "alice")
    whole = log(forge, token)
    repo.lag = 2
    assert log(forge, token) == whole[2:]
    repo.lag = 0
    del repo.activity[-2]
    assert log(forge, token) == [whole[0], *whole[2:]]
    repo.has_activity = False
    assert ask(forge, token, "GET", f"{FLEET}/activity").status == 404


def test_a_push_that_has_the_commits_of_a_request_merges_it_and_is_a_push(
    forge: Forge, opened: Repository, token: str
) -> None:
    opened.move("main", opened.pull(1).head, "bob")
    assert (opened.pull(1).state, opened.pull(1).merged_by) == ("MERGED", "bob")
    assert kinds(forge, token)[0] == ("push", "bob")
    nodes = query(forge, token, MERGED_AS, oid=opened.head)["data"]["repository"]["object"]["associatedPullRequests"]
    assert nodes["nodes"] == [{"number": 1, "mergedBy": {"login": "bob"}, "mergeCommit": {"oid": opened.head}}]


def test_a_queue_merges_several_requests_as_one_update_each_with_its_commit(
    forge: Forge, repo: Repository, token: str
) -> None:
    before = repo.head
    numbers = [requested(repo, name, {name: b"1"}) for name in ("one", "two")]
    commits = repo.merge_queue(*numbers)
    assert kinds(forge, token)[0] == ("merge_queue_merge", QUEUE)
    (update, *_) = log(forge, token)
    assert (update["before"], update["after"]) == (before, commits[1])
    assert [(pull.state, pull.merged_by, pull.merge_commit) for pull in repo.pulls] == [
        ("MERGED", QUEUE, commit) for commit in commits
    ]
    assert repo.read("one") == repo.read("two") == b"1"


@pytest.mark.skipif(not shutil.which("git"), reason="git is not here")
@pytest.mark.parametrize("how", ["merge", "squash", "rebase"])
def test_every_way_to_merge_leaves_the_tree_that_git_makes(repo: Repository, tmp_path: Path, how: str) -> None:
    number = requested(repo, "one", {"a/b/c.txt": b"d\n"})
    repo.push("one", {"a/x": b"1"}, "alice")
    repo.push("main", {"m": b"1"}, "bob")
    base, head = repo.head, repo.pull(number).head
    merged = repo.merge(number, "bob", how)
    exported(repo, tmp_path)
    expected = git(tmp_path, "merge-tree", "--write-tree", base, head)
    assert git(tmp_path, "rev-parse", f"{merged}^{{tree}}") == repo.objects.commits[merged].tree == expected
    entry = repo.objects.entry(expected, "a")
    assert entry
    assert git(tmp_path, "rev-parse", f"{merged}:a") == entry.sha
    assert len(git(tmp_path, "rev-list", "--first-parent", f"{base}..{merged}").split()) == (
        2 if how == "rebase" else 1
    )


def test_another_base_is_an_event_whoever_changed_it(forge: Forge, repo: Repository, token: str) -> None:
    repo.push("feature", {"f": b"1"}, "alice")
    repo.push("more", {"g": b"1"}, "alice", onto=repo.branches["feature"])
    repo.open_pull("feature", "alice")
    for base in ("main", "feature"):
        repo.open_pull("more", "alice", base=base)
    repo.retarget(2, "feature", "bob")
    repo.merge(1, "bob")
    repo.delete_branch("feature", "bob")
    first, second = (
        query(forge, token, TIMELINE, number=number)["data"]["repository"]["pullRequest"] for number in (2, 3)
    )
    assert (first["baseRefName"], second["baseRefName"]) == ("main", "main")
    assert [node["__typename"] for node in first["timelineItems"]["nodes"]] == [
        "BaseRefChangedEvent", "AutomaticBaseChangeSucceededEvent",
    ]  # fmt: skip
    assert first["timelineItems"]["nodes"][0] == {
        "__typename": "BaseRefChangedEvent", "previousRefName": "main", "currentRefName": "feature",
        "actor": {"login": "bob"},
    }  # fmt: skip
    assert second["timelineItems"]["nodes"][0]["oldBase"] == "feature"


def test_auto_merge_on_off_and_on_again_is_in_the_timeline(forge: Forge, opened: Repository, token: str) -> None:
    opened.protect(reviews=1)
    opened.allow_auto_merge = True
    opened.enable_auto_merge(1, "alice")
    opened.disable_auto_merge(1, "bob")
    opened.enable_auto_merge(1, "alice", "squash")
    opened.review(1, "bob")
    found = query(forge, token, TIMELINE, number=1)["data"]["repository"]["pullRequest"]
    assert [node["__typename"] for node in found["timelineItems"]["nodes"]] == [
        "AutoMergeEnabledEvent", "AutoMergeDisabledEvent", "AutoSquashEnabledEvent",
    ]  # fmt: skip
    assert (opened.pull(1).merged_by, kinds(forge, token)[0]) == ("alice", ("pr_merge", "alice"))


@pytest.mark.parametrize("change", ["a push", "another base"])
def test_auto_merge_ends_with_a_change_by_a_person_who_may_not_write(
    forge: Forge, repo: Repository, change: str
) -> None:
    repo.push("feature", {"f": b"1"}, "alice")
    repo.protect(reviews=1)
    repo.allow_auto_merge = True
    fork = forge.fork("acme/fleet", "mallory")
    fork.push("change", {"f": b"1"}, "mallory")
    pull = repo.open_pull("mallory:change", "mallory")
    repo.enable_auto_merge(pull.number, "alice")
    if change == "a push":
        fork.push("change", {"f": b"2"}, "mallory")
    else:
        repo.retarget(pull.number, "feature", "mallory")
    assert pull.auto_merge is None
    assert (pull.timeline[-1].kind, pull.timeline[-1].by) == ("AutoMergeDisabledEvent", "mallory")


def test_the_job_of_a_request_from_a_fork_can_write_nothing(forge: Forge, repo: Repository) -> None:
    fork = forge.fork("acme/fleet", "mallory")
    fork.push("change", {"f": b"1"}, "mallory")
    ours = requested(repo, "ours", {"g": b"1"})
    theirs = repo.open_pull("mallory:change", "mallory").number
    comment = {"body": "hello"}
    for number, status in ((ours, 201), (theirs, 403)):
        job = forge.job_token(repo.pull(number), EVERYTHING)
        assert ask(forge, job, "GET", f"{FLEET}/issues/{number}/comments").status == 200
        assert ask(forge, job, "POST", f"{FLEET}/issues/{number}/comments", comment).status == status
        branch = {"ref": f"refs/heads/of-{number}", "sha": repo.head}
        assert ask(forge, job, "POST", f"{FLEET}/git/refs", branch).status == status


def test_a_further_attempt_keeps_its_commit_its_actor_and_earlier_answers(
    forge: Forge, repo: Repository, token: str
) -> None:
    repo.environment("flux-manifests", ["rita"])
    run = repo.dispatch("approve.yaml", "main", {"artifact": "a"}, "alice")
    old = repo.head
    forge.approve(run.id, "rita")
    repo.complete(run.id)
    repo.push("main", {"f": b"1"}, "alice")
    repo.rerun(run.id, "bob")
    found = ask(forge, token, "GET", f"{FLEET}/actions/runs/{run.id}").value
    assert (found["run_attempt"], found["status"], found["head_sha"]) == (2, "waiting", old)
    assert (found["actor"]["login"], found["triggering_actor"]["login"]) == ("alice", "bob")
    assert [each["state"] for each in ask(forge, token, "GET", f"{FLEET}/actions/runs/{run.id}/approvals").value] == [
        "approved"
    ]


def test_a_job_that_is_run_again_alone_waits_only_for_its_own_environment(repo: Repository) -> None:
    text = b"""on: {workflow_dispatch: {}}
jobs:
  gate: {environment: gate, runs-on: x, steps: []}
  do: {needs: [gate], environment: keys, runs-on: x, steps: []}
"""
    repo.push("main", {".github/workflows/flux.yaml": text}, "alice")
    repo.environment("gate", ["rita"])
    repo.environment("keys")
    run = repo.dispatch("flux.yaml", "main", {}, "alice")
    assert run.waits_for == ["gate"]
    repo.answer(run.id, "rita")
    repo.complete(run.id, "failure")
    repo.rerun(run.id, ACTIONS, "do")
    assert (run.status, run.attempt, run.waits_for) == ("queued", 2, [])
