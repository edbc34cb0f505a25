"""What a refusal means, and the line that puts it right."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_automation.github.errors import (
    GitHubDenied,
    GitHubRefused,
    NotOnGitHub,
    PermissionMissing,
    PullRequestsForbidden,
    RateLimited,
    RepositoryArchived,
    RepositoryRenamed,
    UnexpectedGitHubAnswer,
)
from ci_automation.github.refusals import Asker, graphql_data
from ci_automation.github.waiting import GitHubPatience, Waiting
from ci_automation.net.values import Answer
from ci_automation.net.waiting import Clock

if TYPE_CHECKING:
    from ci_automation.errors import Error

TOKEN = "ghs_canary-refused"
ASKER = Asker(TOKEN, "GITHUB_TOKEN")
WAITING = Waiting(GitHubPatience(clock=Clock(now=lambda: 0.0)), "api.github.com", "Wait.", lambda _: None)
PULLS = "POST api.github.com/repos/acme/fleet/pulls"


def reply(status: int, message: str = "", needs: str = "", **more: object) -> Answer:
    """Return a refusal of GitHub's."""
    headers = {"x-accepted-github-permissions": needs} if needs else {}
    return Answer(status, headers, json.dumps({"message": message, **more}).encode())


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        pytest.param(reply(301), RepositoryRenamed, id="301"),
        pytest.param(reply(307), RepositoryRenamed, id="307"),
        pytest.param(reply(308), RepositoryRenamed, id="308"),
        pytest.param(reply(401), GitHubDenied, id="401"),
        pytest.param(reply(403), PermissionMissing, id="403"),
        pytest.param(
            reply(403, "GitHub Actions is not permitted to create or approve pull requests."),
            PullRequestsForbidden,
            id="workflows open no pull requests",
        ),
        pytest.param(reply(403, "Repository was archived so is read-only."), RepositoryArchived, id="archived"),
        pytest.param(reply(404), NotOnGitHub, id="404"),
        pytest.param(reply(409), GitHubRefused, id="409"),
        pytest.param(reply(410), GitHubRefused, id="410"),
        pytest.param(reply(422), GitHubRefused, id="422"),
        pytest.param(reply(418), UnexpectedGitHubAnswer, id="418"),
        pytest.param(reply(200), UnexpectedGitHubAnswer, id="200, where something else is done"),
    ],
)
def test_each_answer_has_its_error(answer: Answer, kind: type[Error]) -> None:
    error = ASKER.refused(answer, PULLS)
    assert type(error) is kind
    assert PULLS in str(error)
    assert error.hint


@pytest.mark.parametrize(
    ("what", "needs", "line"),
    [
        pytest.param(PULLS, "pull_requests=write", "`permissions: {pull-requests: write}`", id="as GitHub says"),
        pytest.param(
            PULLS,
            "contents=write,pull_requests=write",
            "`permissions: {contents: write, pull-requests: write}`",
            id="two together",
        ),
        pytest.param(
            "PATCH x/repos/a/b/issues/7",
            "issues=write; pull_requests=write",
            "`permissions: {issues: write}` or `permissions: {pull-requests: write}`",
            id="two that each do",
        ),
        pytest.param(
            PULLS, "administration=write; contents=write", "`permissions: {contents: write}`", id="what a job can have"
        ),
        pytest.param(PULLS, "nonsense", "`permissions: {pull-requests: write}`", id="what is no permission"),
        pytest.param(PULLS, "", "`permissions: {pull-requests: write}`", id="pull requests"),
        pytest.param("POST x/repos/a/b/git/refs", "", "`permissions: {contents: write}`", id="branches"),
        pytest.param("POST x/repos/a/b/dispatches", "", "`permissions: {contents: write}`", id="events"),
        pytest.param(
            "POST x/repos/a/b/actions/workflows/w/dispatches", "", "`permissions: {actions: write}`", id="workflows"
        ),
        pytest.param("POST x/repos/a/b/issues", "", "`permissions: {issues: write}`", id="issues"),
        pytest.param("createCommitOnBranch on x", "", "`permissions: {contents: write}`", id="a commit"),
        pytest.param(
            "enablePullRequestAutoMerge on x",
            "",
            "`permissions: {contents: write, pull-requests: write}`",
            id="auto-merge",
        ),
    ],
)
@pytest.mark.parametrize("status", [403, 404])
def test_a_missing_permission_is_named_with_the_line_to_add(what: str, needs: str, line: str, status: int) -> None:
    assert f"Add to the job {line}, beside" in ASKER.refused(reply(status, "No.", needs), what).hint


@pytest.mark.parametrize(
    ("what", "needs", "rights"),
    [
        pytest.param("PUT x/orgs/acme/teams/t", "", "members: read", id="members"),
        pytest.param(PULLS, "administration=write", "administration: write", id="administration"),
    ],
)
def test_what_no_job_can_have_needs_an_app(what: str, needs: str, rights: str) -> None:
    hint = ASKER.refused(reply(403, "No.", needs), what).hint
    assert hint == f"No workflow can grant its GITHUB_TOKEN {rights}: use the token of a GitHub App that has it."


@pytest.mark.parametrize(
    ("what", "line"),
    [
        pytest.param("GET x/repos/a/b/actions/runs", "`permissions: {actions: read}`", id="runs"),
        pytest.param("GET x/repos/a/b/environments/e", "`permissions: {actions: read}`", id="environments"),
        pytest.param("GET x/repos/a/b/git/trees/e", "`permissions: {contents: read}`", id="files"),
    ],
)
def test_a_read_needs_less(what: str, line: str) -> None:
    assert line in ASKER.denied(reply(403), what, "No.").hint


def test_without_a_token_one_is_asked_for() -> None:
    assert "FLEET_TOKEN" in Asker(None, "FLEET_TOKEN").denied(reply(403), "GET x", "No.").hint


@given(st.sampled_from([301, 401, 403, 404, 422, 499]), st.text(max_size=40), st.text(max_size=40))
def test_no_error_shows_the_token_or_breaks_a_line(status: int, before: str, needs: str) -> None:
    error = ASKER.refused(ASKER.unheard(reply(status, f"{before}{TOKEN}\x1b[31m\n", needs)), PULLS)
    assert TOKEN not in f"{error}{error.hint}{error!r}{ASKER!r}"
    assert f"{error}{error.hint}".isprintable()


def test_github_s_details_are_told() -> None:
    errors = [
        {"resource": "PullRequest", "field": "base", "code": "invalid"},
        {"resource": "PullRequest", "code": "custom", "message": "No commits between main and x"},
        "a plain one",
        None,
        {},
    ]
    error = ASKER.refused(reply(422, "Validation Failed", errors=errors), PULLS)
    assert str(error).endswith("refused: Validation Failed; base invalid; No commits between main and x; a plain one")


class TestGraphQL:
    def answer(self, *errors: object, data: object = None) -> Answer:
        return Answer(200, {}, json.dumps({"data": data, "errors": list(errors)}).encode())

    @pytest.mark.parametrize(
        ("kind", "error"),
        [
            pytest.param("NOT_FOUND", NotOnGitHub, id="not there"),
            pytest.param("FORBIDDEN", PermissionMissing, id="not allowed"),
            pytest.param("STALE_DATA", GitHubRefused, id="moved"),
            pytest.param("UNPROCESSABLE", GitHubRefused, id="not possible"),
            pytest.param(None, GitHubRefused, id="without a word"),
            pytest.param("RATE_LIMITED", RateLimited, id="too many"),
        ],
    )
    def test_a_mutation_with_an_error_was_not_done(self, kind: str | None, error: type[Error]) -> None:
        said = self.answer({"type": kind, "message": "No."}, data={"createCommitOnBranch": None})
        with pytest.raises(error):
            graphql_data(said, "createCommitOnBranch on x", ASKER, WAITING, changes=True)

    def test_what_a_query_does_not_find_is_none(self) -> None:
        said = self.answer({"type": "NOT_FOUND", "message": "No."}, data={"repository": None})
        assert graphql_data(said, "a query", ASKER, WAITING, changes=False) == {"repository": None}

    @pytest.mark.parametrize("changes", [False, True])
    @pytest.mark.parametrize("body", [b"[]", b"{}", b'{"data": null}', b'{"data": [], "errors": null}', b"<html>"])
    def test_an_answer_without_data_is_none(self, changes: bool, body: bytes) -> None:
        with pytest.raises(UnexpectedGitHubAnswer):
            graphql_data(Answer(200, {}, body), "a query", ASKER, WAITING, changes=changes)

    @pytest.mark.parametrize("changes", [False, True])
    def test_errors_that_are_no_list_are_errors_too(self, changes: bool) -> None:
        body = json.dumps({"data": {}, "errors": "no"}).encode()
        with pytest.raises((UnexpectedGitHubAnswer, GitHubRefused)):
            graphql_data(Answer(200, {}, body), "a query", ASKER, WAITING, changes=changes)
