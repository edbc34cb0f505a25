"""Under whose name a job signs, and when that name is not its own."""

from __future__ import annotations

import pytest

from ci_automation.action.job import Job
from ci_automation.action.subject import SharedSubject, require_own_subject

CALLER = "acme/fleet/.github/workflows/flux.yaml@refs/heads/main"
CALLED = "https://github.com/acme/ci-automation/.github/workflows/update.yaml@refs/tags/v1"
GHES = "https://github.example"


@pytest.mark.parametrize(
    ("subject", "job"),
    [
        pytest.param(f"https://github.com/{CALLER}", Job(workflow_ref=CALLER), id="its own workflow"),
        pytest.param(f"{GHES}/{CALLER}", Job(server=GHES, workflow_ref=CALLER), id="on an Enterprise Server"),
        pytest.param("ada@acme.example", Job(workflow_ref=CALLER), id="a person, whose token was handed over"),
        pytest.param("https://gitlab.com/acme/fleet//.gitlab-ci.yml@refs/heads/main", Job(), id="somewhere else"),
    ],
)
def test_a_name_of_ones_own_is_signed_with(subject: str, job: Job) -> None:
    require_own_subject(subject, job)


@pytest.mark.parametrize(
    ("subject", "job"),
    [
        pytest.param(CALLED, Job(workflow_ref=CALLER), id="a called workflow of another repository"),
        pytest.param(
            "https://github.com/acme/fleet/.github/workflows/sub.yaml@refs/heads/main",
            Job(workflow_ref=CALLER),
            id="a called one of the same repository, which others may call as well",
        ),
        pytest.param(
            "https://github.com/acme/fleet/.github/workflows/flux.yaml@refs/heads/other",
            Job(workflow_ref=CALLER),
            id="the same file of another branch",
        ),
        pytest.param(CALLED, Job(), id="nobody says what was started"),
    ],
)
def test_a_name_that_others_sign_with_is_refused(subject: str, job: Job) -> None:
    with pytest.raises(SharedSubject, match="every caller of that workflow signs with the same name"):
        require_own_subject(subject, job)
