"""What holds for every write: once or repeatable, never redirected, never without a token, paced, within its budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci_automation.github.client import GitHub
from ci_automation.github.commits import Commits
from ci_automation.github.errors import (
    AnswerLost,
    GitHubDenied,
    GitHubUnreachable,
    NotOnGitHub,
    RateLimited,
    RepositoryArchived,
    RepositoryRenamed,
    UnexpectedGitHubAnswer,
)
from ci_automation.github.pulls import Pulls
from ci_automation.github.runs import Issues, Runs
from tests.contract.github.conftest import BRANCH, FLEET
from tests.fakes.forge.faults import LOST, RESET, Fault, times

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.contract.github.conftest import Open
    from tests.fakes.forge import Forge
    from tests.fakes.forge.repository import Repository

POSTS: dict[str, Callable[[GitHub, str, str], object]] = {
    "create_branch": lambda client, name, head: Commits(client, name).create_branch(BRANCH, head),
    "commit": lambda client, name, head: Commits(client, name).commit("main", head, "m", {"x": b""}),
    "rebase_commit": lambda client, name, head: Commits(client, name).rebase_commit(BRANCH, head, head, "m", {}),
    "open_pull": lambda client, name, _: Pulls(client, name).open_pull(BRANCH, "main", "t", "b"),
    "comment": lambda client, name, _: Pulls(client, name).comment(1, "b"),
    "request_review": lambda client, name, _: Pulls(client, name).request_review(1, ["ada"]),
    "dispatch_workflow": lambda client, name, _: Runs(client, name).dispatch_workflow("approve.yaml", "main", {}),
    "dispatch_event": lambda client, name, _: Runs(client, name).dispatch_event("x", {}),
    "cancel": lambda client, name, _: Runs(client, name).cancel(1),
    "open_issue": lambda client, name, _: Issues(client, name).open_issue("t", "b"),
}
REPEATED: dict[str, Callable[[GitHub, str, str], object]] = {
    "delete_branch": lambda client, name, _: Commits(client, name).delete_branch(BRANCH),
    "edit_pull": lambda client, name, _: Pulls(client, name).edit_pull(1, title="t"),
    "dress": lambda client, name, _: Pulls(client, name).dress(1, ["x"]),
    "enable_workflow": lambda client, name, _: Runs(client, name).enable_workflow("approve.yaml"),
    "close_issue": lambda client, name, _: Issues(client, name).close_issue(1),
}
WRITES = POSTS | REPEATED


def written(forge: Forge) -> list[str]:
    return [request.path for request in forge.requests if request.method != "GET"]


@pytest.mark.parametrize("act", POSTS.values(), ids=POSTS)
@pytest.mark.parametrize(
    "fault",
    [LOST, RESET, Fault(500), Fault(502, b"<html>"), Fault(503, {}, {"Retry-After": "1"}), Fault(504)],
    ids=["lost", "reset", "500", "502", "503", "504"],
)
def test_a_post_is_sent_once(
    forge: Forge, fleet: Repository, client: GitHub, act: Callable[[GitHub, str, str], object], fault: Fault
) -> None:
    forge.faults.append(times(99, fault, "POST"))
    with pytest.raises(AnswerLost) as caught:
        act(client, FLEET, fleet.head)
    assert len(written(forge)) == 1
    assert isinstance(caught.value, GitHubUnreachable)


@pytest.mark.parametrize("act", REPEATED.values(), ids=REPEATED)
@pytest.mark.parametrize("fault", [RESET, Fault(502, b"<html>")], ids=["reset", "502"])
def test_what_can_be_repeated_is(
    forge: Forge, fleet: Repository, client: GitHub, act: Callable[[GitHub, str, str], object], fault: Fault
) -> None:
    fleet.push(BRANCH, {"x": b""}, "ada")
    fleet.open_pull(BRANCH, "ada")
    forge.faults.append(times(3, fault))
    act(client, FLEET, fleet.head)
    assert len(written(forge)) == 4


@pytest.mark.parametrize("act", REPEATED.values(), ids=REPEATED)
def test_it_is_not_repeated_for_ever(
    forge: Forge, fleet: Repository, client: GitHub, act: Callable[[GitHub, str, str], object]
) -> None:
    forge.faults.append(times(99, RESET))
    with pytest.raises(GitHubUnreachable):
        act(client, FLEET, fleet.head)
    assert len(written(forge)) == 4


@pytest.mark.parametrize("act", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_an_error_that_says_why(
    forge: Forge, fleet: Repository, client: GitHub, act: Callable[[GitHub, str, str], object], status: int
) -> None:
    fault = Fault(status, {"message": "Moved Permanently"}, {"Location": f"{forge.url}/repositories/1/x"})
    forge.faults += [times(99, fault, method) for method in ("POST", "PATCH", "PUT", "DELETE")]
    with pytest.raises(RepositoryRenamed, match="may have a new name"):
        act(client, FLEET, fleet.head)
    assert len(written(forge)) == 1


def test_a_repository_that_was_renamed_is_not_written_to(forge: Forge, fleet: Repository, client: GitHub) -> None:
    forge.repositories["acme/cars"] = forge.repositories.pop(FLEET)
    forge.renamed[FLEET] = "acme/cars"
    with pytest.raises(RepositoryRenamed):
        Runs(client, FLEET).dispatch_event("x", {})
    assert fleet.dispatched == []


@pytest.mark.parametrize("act", WRITES.values(), ids=WRITES)
def test_what_cannot_be_seen_is_an_error(
    forge: Forge, fleet: Repository, client: GitHub, act: Callable[[GitHub, str, str], object]
) -> None:
    forge.repository("acme/secret")
    with pytest.raises(NotOnGitHub) as caught:
        act(client, "acme/secret", fleet.head)
    assert caught.value.exit_code == 21


@pytest.mark.parametrize("act", WRITES.values(), ids=WRITES)
def test_nobody_writes_without_a_token(
    forge: Forge, fleet: Repository, act: Callable[[GitHub, str, str], object]
) -> None:
    fleet.private = False
    client = GitHub(None, forge.url)
    with pytest.raises(GitHubDenied) as caught:
        act(client, FLEET, fleet.head)
    client.close()
    assert "GITHUB_TOKEN" in caught.value.hint
    assert written(forge) == []


@pytest.mark.parametrize("act", WRITES.values(), ids=WRITES)
def test_a_token_that_is_no_more_is_named_and_not_shown(
    forge: Forge, fleet: Repository, connect: Open, act: Callable[[GitHub, str, str], object]
) -> None:
    token = "ghs_canary-expired"
    with pytest.raises(GitHubDenied, match="GITHUB_TOKEN: Bad credentials") as caught:
        act(connect(token=token), FLEET, fleet.head)
    assert token not in f"{caught.value}{caught.value.hint}"
    assert len(forge.requests) == 1


def test_an_archived_repository_is_told_of(fleet: Repository, client: GitHub) -> None:
    fleet.push(BRANCH, {"x": b""}, "ada")
    fleet.archived = True
    with pytest.raises(RepositoryArchived):
        Commits(client, FLEET).delete_branch(BRANCH)


def test_an_answer_that_is_no_json_is_an_error(forge: Forge, client: GitHub) -> None:
    forge.faults.append(times(1, Fault(201, b"<html>")))
    with pytest.raises(UnexpectedGitHubAnswer):
        Issues(client, FLEET).open_issue("t", "b")


class TestLimits:
    def test_a_secondary_one_is_waited_for_and_told(
        self, forge: Forge, client: GitHub, said: list[str], waited: list[float], fleet: Repository
    ) -> None:
        fault = Fault(403, {"message": "You have exceeded a secondary rate limit."}, {"Retry-After": "7"})
        forge.faults.append(times(1, fault, "POST"))
        Issues(client, FLEET).open_issue("t", "b")
        assert waited == [7]
        assert said == [f"{client.host} takes no more requests at the moment; asking again in 7 s"]
        assert len(fleet.issues) == 1

    def test_one_that_lasts_is_an_error_at_once(
        self, forge: Forge, fleet: Repository, client: GitHub, waited: list[float]
    ) -> None:
        forge.limits.creations_a_minute = 2
        issues = Issues(client, FLEET)
        issues.open_issue("t", "b")
        issues.open_issue("t", "b")
        with pytest.raises(RateLimited):
            issues.open_issue("t", "b")
        assert waited == []
        assert len(fleet.issues) == 2

    @pytest.mark.parametrize("mutation", [False, True], ids=["REST", "GraphQL"])
    def test_the_hourly_one_says_when_it_is_over(
        self, forge: Forge, fleet: Repository, client: GitHub, *, mutation: bool
    ) -> None:
        forge.limits.hourly = 0
        act = POSTS["commit" if mutation else "open_issue"]
        with pytest.raises(RateLimited) as caught:
            act(client, FLEET, fleet.head)
        assert (caught.value.reset - forge.now()).total_seconds() == pytest.approx(3600, abs=5)

    def test_many_writes_are_paced(self, forge: Forge, fleet: Repository, client: GitHub, waited: list[float]) -> None:
        now = forge.now()
        forge.now = lambda: now  # however long a request takes on a busy machine
        for _ in range(12):
            Issues(client, FLEET).open_issue("t", "b")
        assert len(fleet.issues) == 12
        assert waited == [1, 1]
