"""What a token may do, what it is told where it may not, and what it does not see."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import jwt
import pytest

from tests.contract.forge.asking import BRANCH, COMMIT, EVERYTHING, FLEET, ask, commit_input, query

if TYPE_CHECKING:
    from tests.fakes.forge import Forge, Repository


@pytest.mark.parametrize(
    ("method", "path", "body", "accepted"),
    [
        ("GET", f"{FLEET}/git/trees/main", None, "contents=read"),
        ("POST", f"{FLEET}/git/refs", {"ref": "refs/heads/x", "sha": "0" * 40}, "contents=write"),
        ("POST", f"{FLEET}/pulls", {"title": "t", "head": "x", "base": "main"}, "pull_requests=write"),
        ("POST", f"{FLEET}/issues", {"title": "t"}, "issues=write"),
        ("POST", f"{FLEET}/issues/1/comments", {"body": "b"}, "issues=write; pull_requests=write"),
        ("GET", f"{FLEET}/actions/runs", None, "actions=read"),
        ("POST", f"{FLEET}/actions/workflows/approve.yaml/dispatches", {"ref": "main"}, "actions=write"),
        ("GET", f"{FLEET}/environments/x", None, "actions=read"),
        ("POST", f"{FLEET}/dispatches", {"event_type": "x"}, "contents=write"),
    ],
)
def test_a_missing_permission_is_refused_and_named(
    forge: Forge, opened: Repository, method: str, path: str, body: object, accepted: str
) -> None:
    bare = forge.token("actions", opened.full_name, {})
    reply = ask(forge, bare, method, path, body)
    assert (reply.status, reply.value["message"]) == (403, "Resource not accessible by integration")
    assert reply.headers["X-Accepted-GitHub-Permissions"] == accepted


def test_graphql_too_refuses_a_missing_permission(forge: Forge, opened: Repository) -> None:
    reader = forge.token("actions", opened.full_name, {"contents": "read"})
    denied = query(forge, reader, COMMIT, input=commit_input(opened, opened.branches[BRANCH]))
    assert (denied["data"], denied["errors"][0]["type"]) == ({"createCommitOnBranch": None}, "FORBIDDEN")
    asked = 'query {repository(owner: "acme", name: "fleet") {pullRequests(first: 1) {totalCount}}}'
    assert query(forge, reader, asked)["errors"][0]["type"] == "FORBIDDEN"


@pytest.mark.usefixtures("repo")
def test_what_a_token_cannot_see_is_not_there(forge: Forge) -> None:
    forge.repository("acme/other")
    elsewhere = forge.token("actions", "acme/other", EVERYTHING)
    stranger = forge.token("pat", permissions=EVERYTHING, login="mallory")
    for one in (elsewhere, stranger):
        assert ask(forge, one, "GET", FLEET).status == 404
    asked = 'query {repository(owner: "acme", name: "fleet") {name}}'
    found = query(forge, elsewhere, asked)
    assert (found["data"], found["errors"][0]["type"]) == ({"repository": None}, "NOT_FOUND")
    assert ask(forge, "ghs_canary-unknown", "GET", FLEET).status == 401


def test_a_person_can_do_no_more_than_the_person_may(forge: Forge, repo: Repository) -> None:
    rita = forge.token("pat", permissions=EVERYTHING, login="rita")
    assert ask(forge, rita, "GET", f"{FLEET}/git/trees/main").status == 200
    assert ask(forge, rita, "POST", f"{FLEET}/git/refs", {"ref": "refs/heads/x", "sha": repo.head}).status == 403


def test_permissions_and_teams_are_told(forge: Forge, repo: Repository, token: str) -> None:
    repo.collaborators["mara"] = "maintain"
    forge.user("mara")
    forge.team("acme/platform", ["alice"]).invited.add("bob")
    for login, wanted in (
        ("alice", "write"),
        ("mara", "write"),
        ("rita", "read"),
        ("mallory", "none"),
        ("acme", "admin"),
    ):
        assert ask(forge, token, "GET", f"{FLEET}/collaborators/{login}/permission").value["permission"] == wanted
    assert ask(forge, token, "GET", f"{FLEET}/collaborators/github-actions[bot]/permission").status == 404
    place = "/orgs/acme/teams/platform"
    states = [ask(forge, token, "GET", f"{place}/memberships/{login}") for login in ("alice", "bob", "rita")]
    assert [(reply.status, reply.value.get("state")) for reply in states] == [
        (200, "active"),
        (200, "pending"),
        (404, None),
    ]
    blind = forge.token("actions", repo.full_name, {})
    assert [ask(forge, one, "GET", place).status for one in (token, blind)] == [200, 404]


def test_an_app_gets_a_token_for_what_it_was_given(forge: Forge, repo: Repository) -> None:
    forge.repository("acme/other")
    app = forge.app("updates")
    installation = forge.install(app, [repo.full_name], {"contents": "write", "pull-requests": "write"})
    now = int(time.time())
    signed = jwt.encode({"iss": app.client_id, "iat": now - 60, "exp": now + 540}, app.key, "RS256")
    assert ask(forge, signed, "GET", f"{FLEET}/installation").value["id"] == installation.id
    assert ask(forge, signed, "GET", "/repos/acme/other/installation").status == 404
    place = f"/app/installations/{installation.id}/access_tokens"
    made = ask(forge, signed, "POST", place, {"repositories": ["fleet"], "permissions": {"contents": "read"}})
    assert (made.status, made.value["permissions"]) == (201, {"contents": "read"})
    narrowed = made.value["token"]
    assert "canary-" in narrowed
    assert ask(forge, narrowed, "GET", f"{FLEET}/git/trees/main").status == 200
    assert ask(forge, narrowed, "POST", f"{FLEET}/git/refs", {"ref": "refs/heads/x", "sha": repo.head}).status == 403
    for body in ({"repositories": ["other"]}, {"permissions": {"actions": "write"}}):
        assert ask(forge, signed, "POST", place, body).status == 422
    other = forge.app("other")
    late = {"iss": str(app.id), "iat": now - 1000, "exp": now - 400}
    for claims, key in ((late, app.key), ({"iss": str(app.id), "iat": now, "exp": now + 60}, other.key)):
        assert ask(forge, jwt.encode(claims, key, "RS256"), "GET", f"{FLEET}/installation").status == 401
