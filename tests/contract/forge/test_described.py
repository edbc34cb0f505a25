"""No exchange that GitHub does not describe: the double and the program are both held to it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from tests.contract.forge.asking import BRANCH, EVERYTHING, FLEET, ask, query
from tests.fakes.forge import ACTIONS, Forge, Repository, WrongExchange
from tests.fakes.forge.described import _translated, description
from tests.fakes.forge.routes import ROUTES, Answer


def test_the_double_has_what_is_described_and_nothing_else(forge: Forge) -> None:
    assert frozenset(ROUTES) == forge.exchanges.description.operations


@pytest.mark.parametrize(
    ("method", "path", "body", "why"),
    [
        ("POST", f"{FLEET}/pulls", {"head": "x"}, "'base' is a required property"),
        ("POST", f"{FLEET}/pulls", {"head": "x", "base": "main", "labels": []}, "$.labels is not described"),
        ("POST", f"{FLEET}/git/refs", {"ref": 1, "sha": "x"}, "1 is not of type 'string'"),
        ("POST", f"{FLEET}/git/trees", {"tree": [{"pfad": "x"}]}, "$.tree[0].pfad is not described"),
        ("POST", f"{FLEET}/dispatches", {"event_type": "x" * 101}, "is too long"),
        ("PATCH", f"{FLEET}/issues/1", {"state": "merged"}, "is not one of"),
        ("GET", f"{FLEET}/pulls?status=open", None, "'status' is not described"),
        ("GET", f"{FLEET}/issues?per_page=many", None, "is not of type 'integer'"),
        ("POST", f"{FLEET}/git/refs", None, "the body is missing"),
        ("POST", f"{FLEET}/actions/runs/1/rerun", None, "no such operation"),
    ],
)
def test_a_question_that_is_not_described_is_refused_and_remembered(
    forge: Forge, token: str, method: str, path: str, body: object, why: str
) -> None:
    assert ask(forge, token, method, path, body).status in {404, 422}
    assert why in forge.violations[0]
    forge.violations.clear()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Answer(200, {"ref": "refs/heads/main", "node_id": "x", "url": "nowhere", "object": {}}), "is not a 'uri'"),
        (Answer(200, {"ref": 7}), "7 is not of type 'string'"),
        (Answer(200, {"zweig": "main"}), "$.zweig is not described"),
        (Answer(200, {"object": {"farbe": 1}}), "$.object.farbe is not described"),
        (Answer(200, []), "is not of type 'object'"),
        (Answer(201, {}), "the status 201 is not described"),
    ],
    ids=["a format", "a type", "a member", "a member inside", "a list", "a status"],
)
def test_an_answer_that_is_not_described_is_an_error(monkeypatch: pytest.MonkeyPatch, answer: Answer, why: str) -> None:
    key = ("GET", "/repos/{owner}/{repo}/git/ref/{ref}")
    monkeypatch.setitem(ROUTES, key, replace(ROUTES[key], handler=lambda _call: answer))
    forge = Forge()
    forge.repository("acme/fleet")
    with pytest.raises(WrongExchange, match=re.escape(why)), forge:
        ask(forge, forge.token("actions", "acme/fleet", EVERYTHING), "GET", f"{FLEET}/git/ref/heads/main")


def test_a_field_that_the_schema_lacks_is_refused(forge: Forge, token: str) -> None:
    for document in ("query {viewer {logon}}", "query {", "query($x: Int!) {viewer {login}}"):
        found = query(forge, token, document)
        assert (list(found), bool(found["errors"])) == (["errors"], True)
    unpaged = 'query {repository(owner: "acme", name: "fleet") {pullRequests {totalCount}}}'
    assert query(forge, token, unpaged)["errors"][0]["type"] == "MISSING_PAGINATION_BOUNDARIES"


@pytest.mark.parametrize(
    ("described", "translated"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "enum": ["a"], "nullable": True}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"nullable": True, "allOf": [{"$ref": "#/x"}]}, {"anyOf": [{"type": "null"}, {"allOf": [{"$ref": "#/x"}]}]}),
        ({"nullable": True, "oneOf": [{}]}, {"anyOf": [{"type": "null"}, {"oneOf": [{}]}]}),
        ({"nullable": False, "type": "string"}, {"type": "string"}),
        ({"$ref": "#/x", "nullable": True}, {"$ref": "#/x"}),
        ({"properties": {"nullable": {"type": "string"}}}, {"properties": {"nullable": {"type": "string"}}}),
    ],
)
def test_the_dialect_of_openapi_is_translated(described: Any, translated: Any) -> None:
    assert _translated(described) == translated


def test_both_flavours_are_in_the_extract() -> None:
    public, server = description("api.github.com"), description("ghes")
    assert (public.name, server.name.startswith("ghes-3.")) == ("api.github.com", True)
    assert public.operations == server.operations


def test_everything_that_can_be_read_is_as_described(forge: Forge, opened: Repository, token: str) -> None:
    repo = opened
    repo.environment("flux-manifests", ["alice"], branches="protected")
    run = repo.dispatch("approve.yaml", "main", {"artifact": "a"}, "alice")
    repo.review(1, "bob", body="fine")
    repo.comment(1, "bob", "hm")
    repo.issue(1).labels, repo.issue(1).assignees = ["flux"], ["bob"]
    repo.request_reviews(1, ["rita"], [])
    repo.open_issue("t", "alice", labels=["x y"])
    repo.protect(reviews=2)
    repo.allow_auto_merge = True
    repo.enable_auto_merge(1, "alice")
    tree = repo.objects.commits[repo.head].tree
    (blob,) = (leaf.sha for path, leaf in repo.objects.files(tree).items() if path == "README.md")
    for path in (
        "", f"/activity?ref=refs/heads/{BRANCH}",
        "/branches/main", f"/git/ref/heads/{BRANCH}", f"/git/blobs/{blob}", f"/git/trees/{tree}",
        f"/git/commits/{repo.head}", f"/compare/main...{BRANCH}", "/pulls?state=all",
        "/issues?state=all&per_page=1", "/issues/1/comments", "/actions/runs", f"/actions/runs/{run.id}",
        f"/actions/runs/{run.id}/approvals", "/actions/workflows/approve.yaml",
        "/actions/workflows/approve.yaml/runs", "/environments/flux-manifests",
    ):  # fmt: skip
        assert ask(forge, token, "GET", FLEET + path).status == 200, path
    forge.approve(run.id, "alice")
    assert ask(forge, token, "GET", f"{FLEET}/actions/runs/{run.id}/approvals").value[0]["state"] == "approved"


def test_everything_that_can_be_written_is_as_described(forge: Forge, opened: Repository, token: str) -> None:
    comment = opened.comment(1, ACTIONS, "x").id
    for method, path, body, status in (
        ("POST", "/git/blobs", {"content": "eA==", "encoding": "base64"}, 201),
        ("POST", "/git/refs", {"ref": "refs/heads/new", "sha": opened.head}, 201),
        ("PATCH", "/pulls/1", {"title": "t2", "state": "closed"}, 200),
        ("PATCH", "/pulls/1", {"state": "open"}, 200),
        ("POST", "/issues/1/comments", {"body": "b"}, 201),
        ("PATCH", f"/issues/comments/{comment}", {"body": "y"}, 200),
        ("PUT", "/actions/workflows/approve.yaml/enable", None, 204),
    ):  # fmt: skip
        assert ask(forge, token, method, FLEET + path, body).status == status, path


GRAPH = """query($id: ID!) {
  rateLimit {remaining} node(id: $id) {id ... on PullRequest {reviewDecision mergeStateStatus}}
  repository(owner: "acme", name: "fleet") {
    id isPrivate owner {login} autoMergeAllowed viewerPermission
    refs(refPrefix: "refs/heads/", first: 5) {nodes {name branchProtectionRule {requiredApprovingReviewCount}}}
    object(expression: "HEAD:a") {... on Tree {entries {name type object {... on Tree {oid}}}}}
    environment(name: "flux-manifests") {name}
    issues(first: 5, states: [OPEN]) {nodes {title labels(first: 1) {nodes {name}}}}
    pullRequest(number: 1) {
      baseRef {name} headRef {name} mergeable headRepository {nameWithOwner} reviewDecision
      commits(last: 1) {nodes {commit {oid signature {isValid} author {user {login}} parents(first: 1) {totalCount}}}}
      reviews(first: 5) {nodes {author {login __typename} authorCanPushToRepository commit {oid}}}
      reviewRequests(first: 5) {nodes {requestedReviewer {... on User {login} ... on Team {slug}}}}
      comments(first: 5) {nodes {body author {login}}}
      assignees(first: 5) {nodes {login}}
    }
  }
}"""


def test_graphql_shows_the_same_state(forge: Forge, opened: Repository, token: str) -> None:
    opened.environment("flux-manifests", ["alice"])
    opened.protect(reviews=1)
    opened.review(1, "rita")
    opened.comment(1, ACTIONS, "hm")
    opened.request_reviews(1, ["bob"], [])
    found = query(forge, token, GRAPH, id=f"PR_{opened.pull(1).id}")
    assert "errors" not in found
    assert found["data"]["node"]["mergeStateStatus"] == "BLOCKED"
    pull = found["data"]["repository"]["pullRequest"]
    assert pull["reviewDecision"] == "REVIEW_REQUIRED"
    assert pull["reviews"]["nodes"][0]["author"] == {"login": "rita", "__typename": "User"}
    assert pull["comments"]["nodes"] == [{"body": "hm", "author": {"login": "github-actions"}}]
    assert pull["commits"]["nodes"][0]["commit"]["author"] == {"user": {"login": "alice"}}
    assert found["data"]["repository"]["object"]["entries"][0]["name"] == "b"


def test_a_saved_state_comes_back_again_and_again_and_what_was_wrong_stays(forge: Forge, opened: Repository) -> None:
    again, host = forge.saved(), forge.host
    for number in range(2):
        fleet = forge.repositories[opened.full_name]
        assert (forge.host, fleet.pull(1).state, len(fleet.pulls), len(forge.violations)) == (host, "OPEN", 1, number)
        fleet.merge(1, "bob")
        fleet.push("other", {"a": b""}, "alice")
        fleet.open_pull("other", ACTIONS)
        forge.violations.append("the double is wrong")
        again()
    assert "other" not in forge.repositories[opened.full_name].branches
    forge.violations.clear()
