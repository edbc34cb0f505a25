"""Pull requests and issues by GitHub's rules: who opens, reviews, merges, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.contract.forge.asking import BRANCH, FLEET, ask, query
from tests.fakes.forge import ACTIONS, Forge, Refused, Repository

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_pull_request_is_opened_once(forge: Forge, repo: Repository, token: str) -> None:
    repo.push(BRANCH, {"x": b"1"}, "alice")
    repo.branches["empty"] = repo.head
    body = {"title": "t", "head": BRANCH, "base": "main", "body": "b", "draft": True}
    first, second = (ask(forge, token, "POST", f"{FLEET}/pulls", body) for _ in range(2))
    assert (first.status, first.value["number"], first.value["draft"]) == (201, 1, True)
    assert (second.status, second.value["errors"][0]["message"]) == (
        422,
        f"A pull request already exists for acme:{BRANCH}.",
    )
    nothing = ask(forge, token, "POST", f"{FLEET}/pulls", body | {"head": "empty"})
    assert nothing.value["errors"][0]["message"] == "No commits between main and empty"
    found = ask(forge, token, "GET", f"{FLEET}/pulls?state=open&head=acme:{BRANCH}&base=main&per_page=1")
    assert [pull["number"] for pull in found.value] == [1]


def test_actions_may_be_kept_from_opening_and_approving(forge: Forge, opened: Repository, token: str) -> None:
    opened.can_create_pulls = False
    opened.push("other", {"y": b"1"}, "alice")
    refused = ask(forge, token, "POST", f"{FLEET}/pulls", {"title": "t", "head": "other", "base": "main"})
    assert (refused.status, refused.value["message"]) == (
        403,
        "GitHub Actions is not permitted to create or approve pull requests.",
    )
    opened.open_pull("other", "alice")
    with pytest.raises(Refused) as unapproved:
        opened.review(2, ACTIONS)
    assert unapproved.value.status == 422
    assert opened.pull(2).reviews == []


def test_nobody_approves_their_own_pull_request(opened: Repository) -> None:
    opened.push("mine", {"y": b"1"}, "alice")
    opened.open_pull("mine", "alice")
    with pytest.raises(Refused, match="your own"):
        opened.review(2, "alice")


@pytest.mark.parametrize(("how", "parents"), [("merge", 2), ("squash", 1), ("rebase", 1)])
def test_a_merge_brings_both_sides(opened: Repository, how: str, parents: int) -> None:
    base = opened.push("main", {"other": b"o"}, "bob")
    sha = opened.merge(1, "alice", how)
    commit = opened.objects.commits[sha]
    assert (opened.head, len(commit.parents), commit.parents[0]) == (sha, parents, base)
    assert (opened.read("other"), opened.read("lock.yaml")) == (b"o", b"a: 1\n")
    pull = opened.pull(1)
    assert (pull.state, pull.merged_by, pull.merge_commit) == ("MERGED", "alice", sha)


def conflict(repo: Repository) -> None:
    repo.push("main", {"lock.yaml": b"a: 3\n"}, "bob")


def draft(repo: Repository) -> None:
    repo.ready(1, draft=True)


def protected(repo: Repository) -> None:
    repo.protect(reviews=1)
    repo.review(1, "rita")  # who may only read


def contested(repo: Repository) -> None:
    repo.protect(reviews=1)
    repo.review(1, "bob")
    repo.review(1, "acme", "CHANGES_REQUESTED")


def closed(repo: Repository) -> None:
    repo.close(1, "bob")


@pytest.mark.parametrize("why", [conflict, draft, protected, contested, closed], ids=lambda why: why.__name__)
def test_what_may_not_be_merged_is_not(opened: Repository, why: Callable[[Repository], None]) -> None:
    why(opened)
    head = opened.head
    with pytest.raises(Refused) as unmerged:
        opened.merge(1, "alice")
    assert unmerged.value.status == 405
    assert opened.head == head


def test_only_who_may_write_pushes_and_merges(opened: Repository) -> None:
    for login in ("rita", "mallory"):
        with pytest.raises(Refused, match="push access"):
            opened.merge(1, login)
        with pytest.raises(Refused, match="push access"):
            opened.push("main", {"x": b""}, login)


def test_a_protected_branch_takes_no_pushes(forge: Forge, opened: Repository, token: str) -> None:
    opened.protect(reviews=0)
    with pytest.raises(Refused, match="pull request"):
        opened.push("main", {"x": b""}, "alice")
    body = {"sha": opened.branches[BRANCH], "force": False}
    assert ask(forge, token, "PATCH", f"{FLEET}/git/refs/heads/main", body).status == 422
    opened.merge(1, "alice")


AUTO = """mutation($input: EnablePullRequestAutoMergeInput!) {
  enablePullRequestAutoMerge(input: $input) {pullRequest {number autoMergeRequest {enabledAt}}}
}"""


def test_auto_merge_waits_for_the_reviews(forge: Forge, opened: Repository, token: str) -> None:
    given = {"pullRequestId": f"PR_{opened.pull(1).id}", "mergeMethod": "SQUASH"}
    assert "not allowed" in query(forge, token, AUTO, input=given)["errors"][0]["message"]
    opened.allow_auto_merge = True
    assert "clean status" in query(forge, token, AUTO, input=given)["errors"][0]["message"]
    opened.protect(reviews=2)
    assert query(forge, token, AUTO, input=given)["data"]["enablePullRequestAutoMerge"]["pullRequest"]["number"] == 1
    opened.review(1, "alice")
    assert opened.pull(1).state == "OPEN"
    opened.review(1, "bob")
    assert (opened.pull(1).state, opened.pull(1).merged_by) == ("MERGED", ACTIONS)


def test_a_push_makes_old_approvals_stale_where_the_branch_says_so(opened: Repository) -> None:
    opened.protect(reviews=1, dismiss_stale=True)
    opened.review(1, "bob")
    opened.push(BRANCH, {"lock.yaml": b"a: 9\n"}, "alice")
    assert [review.state for review in opened.pull(1).reviews] == ["DISMISSED"]
    with pytest.raises(Refused, match="approving review"):
        opened.merge(1, "alice")


def test_a_branch_that_is_pushed_to_the_base_counts_as_merged_by_who_pushed(opened: Repository) -> None:
    opened.move("main", opened.branches[BRANCH], "bob")
    assert (opened.pull(1).state, opened.pull(1).merged_by) == ("MERGED", "bob")


def test_a_fork_asks_from_outside(forge: Forge, repo: Repository, token: str) -> None:
    fork = forge.fork("acme/fleet", "mallory")
    fork.push(BRANCH, {"evil": b""}, "mallory")
    assert repo.open_pull(f"mallory:{BRANCH}", "mallory").source == "mallory/fleet"
    document = """query {repository(owner: "acme", name: "fleet") {
      ref(qualifiedName: "refs/heads/flux-manifests/production") {name}
      pullRequests(first: 5, headRefName: "flux-manifests/production") {nodes {isCrossRepository author {login}}}}}"""
    found = query(forge, token, document)["data"]["repository"]
    assert (found["ref"], found["pullRequests"]["nodes"]) == (
        None,
        [{"isCrossRepository": True, "author": {"login": "mallory"}}],
    )


def test_reviews_are_asked_of_those_who_may_see_the_repository(forge: Forge, opened: Repository, token: str) -> None:
    forge.team("acme/platform", ["bob"])
    opened.team_permissions["acme/platform"] = "write"
    place = f"{FLEET}/pulls/1/requested_reviewers"
    assert ask(forge, token, "POST", place, {"reviewers": ["bob"], "team_reviewers": ["platform"]}).status == 201
    assert (opened.pull(1).asked, opened.pull(1).asked_teams) == (["bob"], ["platform"])
    for body in ({"reviewers": ["mallory"]}, {"reviewers": [], "team_reviewers": ["other"]}):
        assert ask(forge, token, "POST", place, body).status == 422


def test_labels_and_assignees_are_set_in_one_request(forge: Forge, opened: Repository, token: str) -> None:
    body = {"labels": ["flux", "flux"], "assignees": ["bob", "mallory"]}
    assert ask(forge, token, "PATCH", f"{FLEET}/issues/1", body).status == 200
    assert (opened.pull(1).labels, opened.pull(1).assignees) == (["flux"], ["bob"])
    made = ask(forge, token, "POST", f"{FLEET}/issues", {"title": "t", "body": "b", "labels": ["dead-man"]})
    found = ask(forge, token, "GET", f"{FLEET}/issues?labels=dead-man&state=open").value
    assert [issue["number"] for issue in found] == [made.value["number"]]
    ask(forge, token, "PATCH", f"{FLEET}/issues/2", {"state": "closed", "state_reason": "completed"})
    assert ask(forge, token, "GET", f"{FLEET}/issues?labels=dead-man").value == []


def test_a_list_is_followed_page_by_page(forge: Forge, repo: Repository, token: str) -> None:
    for number in range(3):
        repo.open_issue(f"issue {number}", "alice")
    first = ask(forge, token, "GET", f"{FLEET}/issues?state=all&per_page=2")
    address = first.headers["Link"].partition(">")[0].removeprefix("<")
    assert 'rel="next"' in first.headers["Link"]
    second = ask(forge, token, "GET", address.removeprefix(forge.url))
    assert [issue["number"] for reply in (first, second) for issue in reply.value] == [3, 2, 1]
    assert "Link" not in second.headers
