"""Statuses of commits: the latest under a context, of the head of the default branch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci_automation.github import repository
from ci_automation.github.errors import NotOnGitHub
from tests.contract.github.conftest import FLEET

if TYPE_CHECKING:
    from ci_automation.github.client import GitHub
    from tests.fakes.forge.repository import Repository


@pytest.fixture
def seen(client: GitHub) -> repository.Repository:
    return repository.Repository(client, FLEET)


@pytest.mark.parametrize("state", ["success", "failure", "error", "pending"])
def test_the_state_is_as_it_was_said(fleet: Repository, seen: repository.Repository, state: str) -> None:
    fleet.statuses[fleet.head] = {"other": "success", "e2e/staging": state}
    found = seen.head_status("e2e/staging")
    assert found is not None
    assert (found.context, found.state, found.commit) == ("e2e/staging", state, fleet.head)


def test_a_context_that_nobody_wrote_is_none(fleet: Repository, seen: repository.Repository) -> None:
    assert seen.head_status("e2e") is None
    fleet.statuses[fleet.head] = {"e2e/staging": "success"}
    assert seen.head_status("e2e") is None


def test_what_is_said_of_an_older_commit_does_not_count(fleet: Repository, seen: repository.Repository) -> None:
    fleet.statuses[fleet.head] = {"e2e": "success"}
    fleet.push("main", {"README.md": b"new"}, "ada")
    assert seen.head_status("e2e") is None


def test_one_of_hundreds_is_found(fleet: Repository, seen: repository.Repository) -> None:
    fleet.statuses[fleet.head] = {f"job {number}": "success" for number in range(150)} | {"e2e": "success"}
    assert seen.head_status("e2e") is not None


def test_a_repository_that_cannot_be_seen_is_told(client: GitHub) -> None:
    with pytest.raises(NotOnGitHub):
        repository.Repository(client, "acme/nowhere").head_status("e2e")
