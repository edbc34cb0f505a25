"""The double in both flavours, with one repository and some people."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.contract.forge.asking import BRANCH, EVERYTHING, FILES
from tests.fakes.forge import ACTIONS, Forge, Repository

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(params=["api.github.com", "ghes"])
def forge(request: pytest.FixtureRequest) -> Iterator[Forge]:
    with Forge(request.param) as made:
        yield made


@pytest.fixture
def repo(forge: Forge) -> Repository:
    made = forge.repository("acme/fleet", FILES)
    made.collaborators |= {"alice": "write", "bob": "write", "rita": "read"}
    for login in ("alice", "bob", "rita", "mallory"):
        forge.user(login)
    return made


@pytest.fixture
def token(forge: Forge, repo: Repository) -> str:
    return forge.token("actions", repo.full_name, EVERYTHING)


@pytest.fixture
def opened(repo: Repository) -> Repository:
    repo.push(BRANCH, {"lock.yaml": b"a: 1\n"}, "alice")
    repo.open_pull(BRANCH, ACTIONS)
    return repo
