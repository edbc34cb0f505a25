"""Asking the double as a program would, with nothing but the standard library."""

from __future__ import annotations

import json
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError

if TYPE_CHECKING:
    from tests.fakes.forge import Forge, Repository

FLEET = "/repos/acme/fleet"
BRANCH = "flux-manifests/production"
EVERYTHING = dict.fromkeys(("contents", "pull_requests", "issues", "actions", "deployments", "members"), "write")
APPROVE = b"""\
name: Approve
run-name: "Approve ${{ inputs.artifact }} ${{ inputs.version }} (${{ inputs.key }})"
on:
  workflow_dispatch:
    inputs:
      artifact: {required: true, type: string}
      version: {type: string, default: v1.0.0}
      key: {type: string}
jobs:
  approve: {environment: flux-manifests, runs-on: ubuntu-latest, steps: [{run: "true"}]}
"""
RECEIVE = b"""\
name: Receive
run-name: "Update (${{ github.event.client_payload.key }})"
on: {repository_dispatch: {types: [flux-manifests-update-requested]}}
jobs: {receive: {runs-on: ubuntu-latest, steps: [{run: "true"}]}}
"""
FILES = {".github/workflows/approve.yaml": APPROVE, ".github/workflows/receive.yaml": RECEIVE, "a/b/c.txt": b"c\n"}


@dataclass(frozen=True)
class Reply:
    status: int
    value: Any
    headers: dict[str, str]


def ask(forge: Forge, token: str, method: str, path: str, body: object = None) -> Reply:
    url = forge.graphql_url if path == "/graphql" else forge.url + path
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310  # loopback
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310  # loopback
            raw, status, found = answer.read(), answer.status, dict(answer.headers)
    except HTTPError as error:
        with error:
            raw, status, found = error.read(), error.code, dict(error.headers)
    return Reply(status, json.loads(raw) if raw else None, found)


def query(forge: Forge, token: str, document: str, **variables: object) -> Any:
    reply = ask(forge, token, "POST", "/graphql", {"query": document, "variables": variables})
    assert reply.status == 200, reply
    return reply.value


def ask_raw(forge: Forge, token: str, path: str) -> tuple[int, bytes, str | None]:
    request = urllib.request.Request(forge.url + path, headers={"Authorization": f"token {token}"})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310  # loopback
            return answer.status, answer.read(), answer.headers["Retry-After"]
    except HTTPError as error:
        with error:
            return error.code, error.read(), error.headers["Retry-After"]


COMMIT = "mutation($input: CreateCommitOnBranchInput!) {createCommitOnBranch(input: $input) {commit {oid}}}"


def commit_input(repo: Repository, head: str, **changes: object) -> dict[str, object]:
    branch = {"repositoryNameWithOwner": repo.full_name, "branchName": BRANCH}
    return {
        "branch": branch,
        "expectedHeadOid": head,
        "message": {"headline": "h", "body": "b"},
        "fileChanges": changes,
    }
