"""A fleet repository on a double of GitHub, and clients with all kinds of tokens; waiting takes no time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from ci_automation.github.client import GitHub
from ci_automation.github.waiting import GitHubPatience
from ci_automation.net.waiting import Clock
from tests.fakes.forge import Forge

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.fakes.forge.repository import Repository

FLEET = "acme/fleet"
BRANCH = "flux-manifests/production"
LOCK = ".github/flux-manifests.lock.yaml"
ALL = {"contents": "write", "pull_requests": "write", "issues": "write", "actions": "write", "statuses": "read"}
APPROVE = b"""\
name: Approve
run-name: "Approve ${{ inputs.artifact }} (${{ inputs.key }})"
on:
  workflow_dispatch:
    inputs:
      artifact: {required: true}
      key: {default: ""}
jobs:
  approve:
    environment: flux-manifests
    runs-on: ubuntu-latest
    steps: [{run: "true"}]
"""
CHECK = b"""\
name: Check
run-name: "Check ${{ github.event.client_payload.key }}"
on:
  repository_dispatch: {types: [flux-manifests-update-requested]}
jobs:
  check:
    runs-on: ubuntu-latest
    steps: [{run: "true"}]
"""
Open = Callable[..., GitHub]


@pytest.fixture(params=["github.com", "ghes"])
def forge(request: pytest.FixtureRequest) -> Iterator[Forge]:
    """Yield GitHub, then an Enterprise Server."""
    with Forge("api.github.com" if request.param == "github.com" else "ghes") as running:
        yield running


@pytest.fixture
def fleet(forge: Forge) -> Repository:
    """Return a repository with a lock file, two workflows, and two people."""
    workflows = {".github/workflows/approve.yaml": APPROVE, ".github/workflows/check.yaml": CHECK}
    made = forge.repository(
        FLEET, {LOCK: b"entries: []\n", "apps/a.yaml": b"a: 1\n", "infra/b.yaml": b"b\n"} | workflows
    )
    for person, level in {"ada": "write", "grace": "admin", "rita": "read"}.items():
        forge.user(person)
        made.collaborators[person] = level
    return made


@pytest.fixture
def said() -> list[str]:
    """Return what was told of waiting."""
    return []


@pytest.fixture
def waited() -> list[float]:
    """Return how many seconds were waited, each time."""
    return []


@pytest.fixture
def connect(forge: Forge, fleet: Repository, said: list[str], waited: list[float]) -> Iterator[Open]:
    """Yield the function that opens a client: with the token of a job that may do all, or with less."""
    opened: list[GitHub] = []

    def to(permissions: Mapping[str, str] = ALL, token: str | None = None) -> GitHub:
        text = token or forge.token("actions", fleet.full_name, permissions)
        patience = GitHubPatience(clock=Clock(sleep=waited.append, now=lambda: forge.now().timestamp() + sum(waited)))
        opened.append(GitHub(text, forge.url, patience=patience, say=said.append))
        return opened[-1]

    yield to
    for client in opened:
        client.close()


@pytest.fixture
def client(connect: Open) -> GitHub:
    """Return a client that may do all that a job can be granted."""
    return connect()
