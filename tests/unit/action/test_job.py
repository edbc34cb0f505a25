"""What the runner says about the job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ci_automation.action.job import (
    EVENTS,
    Job,
    NotTheDefaultBranch,
    SharedSubject,
    UnreadableEvent,
    require_own_claims,
    require_own_event,
)

if TYPE_CHECKING:
    from pathlib import Path

OWN = "acme/fleet/.github/workflows/flux.yaml@refs/heads/main"
CALLED = "acme/ci-automation/.github/workflows/update.yaml@refs/tags/v1"
JOB = Job(runner=True, repository="acme/fleet", repository_id="74", workflow_ref=OWN)
CLAIMS: dict[str, Any] = {
    "event_name": "schedule",
    "ref": "refs/heads/main",
    "repository": "acme/fleet",
    "repository_id": "74",
    "job_workflow_ref": OWN,
    "workflow_ref": OWN,
}


def test_outside_of_github_actions_there_is_nothing() -> None:
    job = Job.of({})
    assert job == Job()
    assert (job.url, dict(job.payload())) == ("", {})


def test_a_job_is_what_the_variables_say() -> None:
    job = Job.of(
        {
            "GITHUB_ACTIONS": "true",
            "GITHUB_SERVER_URL": "https://github.example/",
            "GITHUB_API_URL": "https://github.example/api/v3/",
            "GITHUB_REPOSITORY": "acme/fleet",
            "GITHUB_RUN_ID": "7",
            "GITHUB_OUTPUT": "/github/file_commands/out",
            "GITHUB_STEP_SUMMARY": "",
        }
    )
    assert job.runner
    assert (job.server, job.api) == ("https://github.example", "https://github.example/api/v3")
    assert job.url == "https://github.example/acme/fleet/actions/runs/7"
    assert str(job.output) == "/github/file_commands/out"
    assert job.summary is None


def test_the_event_is_read_as_it_came(tmp_path: Path) -> None:
    path = tmp_path / "event.json"
    path.write_text('{"client_payload": {"artifact": "x"}}')
    assert Job(event_path=path).payload() == {"client_payload": {"artifact": "x"}}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param(None, "No such file", id="not there"),
        pytest.param("{", "not JSON", id="not JSON"),
        pytest.param("[" * 100_000, "not JSON", id="too deep"),
        pytest.param("[]", "not a JSON object", id="no object"),
    ],
)
def test_an_event_that_cannot_be_read_is_an_error(tmp_path: Path, content: str | None, reason: str) -> None:
    path = tmp_path / "event.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UnreadableEvent, match=reason):
        Job(event_path=path).payload()


@pytest.mark.parametrize("event", EVENTS)
def test_an_event_of_the_default_branch_may_sign(event: str) -> None:
    require_own_event(event, "refs/heads/main", "main")
    require_own_claims({**CLAIMS, "event_name": event}, JOB, "main")


@pytest.mark.parametrize(
    "event",
    ["", "pull_request", "pull_request_target", "workflow_run", "issue_comment", "workflow_call", "release", "Push"],
)
def test_another_event_signs_nothing(event: str) -> None:
    with pytest.raises(NotTheDefaultBranch, match=f"it was started by {event or 'no event'}"):
        require_own_event(event, "refs/heads/main", "main")
    with pytest.raises(NotTheDefaultBranch):
        require_own_claims({**CLAIMS, "event_name": event}, JOB, "main")


@pytest.mark.parametrize(
    "ref", ["", "main", "refs/heads/feature", "refs/tags/main", "refs/pull/7/merge", "refs/heads/"]
)
def test_another_branch_or_a_tag_signs_nothing(ref: str) -> None:
    with pytest.raises(NotTheDefaultBranch, match="and the default branch is main"):
        require_own_event("push", ref, "main")
    with pytest.raises(NotTheDefaultBranch):
        require_own_claims({**CLAIMS, "ref": ref}, JOB, "main")


@pytest.mark.parametrize("claims", [{"sub": "ada@acme.example"}, {"email": "ada@acme.example"}])
def test_an_identity_of_another_kind_is_somebodys_own(claims: dict[str, Any]) -> None:
    require_own_claims(claims, JOB, "main")


@pytest.mark.parametrize(
    ("claims", "job"),
    [
        pytest.param({"job_workflow_ref": CALLED}, JOB, id="a called workflow of another repository"),
        pytest.param(
            {"job_workflow_ref": OWN.replace("flux", "sub")},
            JOB,
            id="a called one of the same repository, which others may call as well",
        ),
        pytest.param(
            {"workflow_ref": "acme/evil/.github/workflows/x.yaml@refs/heads/main"}, JOB, id="called by others"
        ),
        pytest.param(dict.fromkeys(("workflow_ref", "job_workflow_ref"), CALLED), JOB, id="a job of another run"),
        pytest.param(
            dict.fromkeys(("workflow_ref", "job_workflow_ref"), OWN.replace("main", "other")),
            JOB,
            id="the same file of another branch",
        ),
        pytest.param({"workflow_ref": None}, JOB, id="nobody says what was started"),
        pytest.param({}, Job(runner=True), id="nor the runner"),
    ],
)
def test_a_name_that_others_sign_with_is_refused(claims: dict[str, Any], job: Job) -> None:
    with pytest.raises(SharedSubject, match="every caller of that workflow signs with the same name"):
        require_own_claims({**CLAIMS, **claims}, job, "main")


@pytest.mark.parametrize("claims", [{"repository_id": "75"}, {"repository_id": None}, {"repository": "evil/fleet"}])
def test_a_token_of_another_repository_is_refused(claims: dict[str, Any]) -> None:
    with pytest.raises(NotTheDefaultBranch, match="its token is for the repository"):
        require_own_claims({**CLAIMS, **claims}, JOB, "main")
