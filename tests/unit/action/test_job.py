"""What the runner says about the job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci_automation.action.job import Job, UnreadableEvent

if TYPE_CHECKING:
    from pathlib import Path


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
