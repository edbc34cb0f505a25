"""Issues: opened, found by their label, closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci_automation.github.errors import PermissionMissing
from ci_automation.github.runs import Issues
from tests.contract.github.conftest import ALL, BRANCH, FLEET

if TYPE_CHECKING:
    from ci_automation.github.client import GitHub
    from tests.contract.github.conftest import Open
    from tests.fakes.forge.repository import Repository


@pytest.fixture
def issues(client: GitHub) -> Issues:
    return Issues(client, FLEET)


def test_what_is_opened_is_found_until_it_is_closed(fleet: Repository, issues: Issues) -> None:
    opened = issues.open_issue("No check since Monday", "Look.", ["flux-manifests watch"])
    assert (opened.title, opened.body) == (
        "No check since Monday",
        "Look.",
    )
    assert opened.url.endswith(f"/{FLEET}/issues/{opened.number}")
    assert issues.issues("flux-manifests watch") == (opened,)
    issues.close_issue(opened.number)
    assert issues.issues("flux-manifests watch") == ()
    assert fleet.issue(opened.number).state_reason == "completed"


def test_other_labels_and_pull_requests_are_not_found(fleet: Repository, issues: Issues) -> None:
    fleet.open_issue("Another", "ada", labels=["bug"])
    fleet.push(BRANCH, {"apps/a.yaml": b""}, "ada")
    fleet.open_pull(BRANCH, "ada").labels.append("watch")
    assert issues.issues("watch") == ()


def test_without_the_permission_its_line_is_named(connect: Open) -> None:
    with pytest.raises(PermissionMissing) as caught:
        Issues(connect(ALL | {"issues": "read"}), FLEET).open_issue("t", "b")
    assert "Add to the job `permissions: {issues: write}`, beside" in caught.value.hint
