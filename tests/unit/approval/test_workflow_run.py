"""Which run asks for what: titles, and what the runs of a repository are to one request."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ci_automation.approval.port import ApprovalRequest, RequestKind
from ci_automation.approval.workflow_run import AskingRuns, asking_runs
from ci_automation.artifact.reference import Digest, Reference
from ci_automation.flux.options import Options
from ci_automation.flux.proof import Proof
from ci_automation.flux.version import Version
from ci_automation.github.model import Actor, WorkflowRun
from ci_automation.policy.decision import Decision
from ci_automation.policy.plan import Plan, PlannedStep

CHANNEL = Reference.parse("oci://ghcr.io/acme/flux-manifests:production")
REQUEST = ApprovalRequest(CHANNEL, Version.parse("v2.9.4"), Digest.of(b"base"), Digest.of(b"target"))
OLDER = replace(REQUEST, version=Version.parse("v2.9.3"), target=Digest.of(b"older"))
OTHER = replace(REQUEST, artifact=CHANNEL.at_tag("production-eu"))
FROM = Version.parse("v2.8.8")
BOT = Actor("github-actions[bot]", is_bot=True)


def test_a_request_is_for_one_step_of_a_plan() -> None:
    older = step(OLDER.version, OLDER.base, OLDER.target)
    plan = Plan(CHANNEL, FROM, OLDER.base, (older, step(REQUEST.version, OLDER.target, REQUEST.target)))
    assert ApprovalRequest.of(plan, plan.steps[0]) == OLDER
    assert ApprovalRequest.of(plan, plan.steps[1]) == replace(REQUEST, base=OLDER.target)


def step(new: Version, base: Digest, target: Digest) -> PlannedStep:
    empty = Digest.of(b"")
    return PlannedStep(FROM, new, base, target, Decision.APPROVAL, (), Options(), empty, empty, Proof.KNOWN)


def title(request: ApprovalRequest) -> str:
    """Return the title of the run that asks for `request`, as the `run-name` of approve.yaml makes it."""
    return f"Approve {request.artifact} {request.version} ({request.key})"


def run(number: int = 1, request: ApprovalRequest = REQUEST, **changes: Any) -> WorkflowRun:
    """Return a run that waits for somebody's yes to `request`, with `changes`."""
    values: dict[str, Any] = {
        "id": number,
        "url": f"https://github.com/acme/fleet/actions/runs/{number}",
        "status": "waiting",
        "conclusion": None,
        "event": "workflow_dispatch",
        "branch": "main",
        "title": title(request),
        "created_at": datetime(2026, 11, 21, 12, tzinfo=UTC),
        "updated_at": datetime(2026, 11, 21, 12, tzinfo=UTC),
        "actor": BOT,
    }
    return WorkflowRun(**{**values, **changes})


def test_the_inputs_are_the_request_itself() -> None:
    given_inputs = REQUEST.texts
    assert given_inputs == {
        "artifact": str(CHANNEL),
        "version": "v2.9.4",
        "base": str(REQUEST.base),
        "target": str(REQUEST.target),
        "key": REQUEST.key,
    }


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        pytest.param([], AskingRuns(), id="nothing was asked"),
        pytest.param([run()], AskingRuns(run()), id="it waits"),
        pytest.param([run(status="queued")], AskingRuns(run(status="queued")), id="it was just started"),
        pytest.param([run(2, OLDER)], AskingRuns(None, (run(2, OLDER),)), id="something older waits"),
        pytest.param([run(), run(2, OLDER)], AskingRuns(run(), (run(2, OLDER),)), id="both wait"),
        pytest.param(
            [run(2, OLDER, status="in_progress")], AskingRuns(), id="an older one that is being published is let be"
        ),
        pytest.param([run(2, OLDER, status="queued")], AskingRuns(), id="an older one that may have its yes is let be"),
        pytest.param([run(2, OLDER, status="completed", conclusion="failure")], AskingRuns(), id="an older one ended"),
        pytest.param([run(1), run(2)], AskingRuns(run(1), (run(2),)), id="asked twice: the first stays"),
        pytest.param(
            [run(1), run(2, status="in_progress")],
            AskingRuns(run(2, status="in_progress"), (run(1),)),
            id="asked twice: the one that goes on stays",
        ),
        pytest.param(
            [run(1, status="in_progress"), run(2, status="queued")],
            AskingRuns(run(1, status="in_progress")),
            id="asked twice, both go on: neither is cancelled",
        ),
        pytest.param(
            [run(1, status="completed", conclusion="failure"), run(2, status="completed", conclusion="cancelled")],
            AskingRuns(
                None,
                (),
                (run(2, status="completed", conclusion="cancelled"), run(1, status="completed", conclusion="failure")),
            ),
            id="it ended twice, the newest first",
        ),
        pytest.param([run(1, OTHER)], AskingRuns(), id="another channel whose name begins like ours"),
        pytest.param([run(event="push")], AskingRuns(), id="another event"),
        pytest.param([run(branch="feature")], AskingRuns(), id="another branch, whose workflow can make any title"),
        pytest.param([run(branch=None)], AskingRuns(), id="no branch"),
    ],
)
def test_what_runs_are_to_a_request(runs: list[WorkflowRun], expected: AskingRuns) -> None:
    assert asking_runs(runs, CHANNEL, "main", REQUEST.key) == expected
    assert asking_runs(reversed(runs), CHANNEL, "main", REQUEST.key) == expected


def test_a_run_of_one_kind_is_none_of_the_other() -> None:
    content = replace(REQUEST, kind=RequestKind.CONTENT)
    runs = [run(1), run(2, content)]
    assert content.key == f"content-{REQUEST.key}"
    assert asking_runs(runs, CHANNEL, "main", REQUEST.key) == AskingRuns(run(1))
    assert asking_runs(runs, CHANNEL, "main", content.key, RequestKind.CONTENT) == AskingRuns(run(2, content))
    assert asking_runs(runs, CHANNEL, "main", None, RequestKind.CONTENT) == AskingRuns(None, (run(2, content),))


def test_to_withdraw_is_to_want_none_of_them() -> None:
    runs = [run(1), run(2, OLDER), run(3, OTHER), run(4, status="in_progress"), run(5, status="completed")]
    assert asking_runs(runs, CHANNEL, "main", None) == AskingRuns(None, (run(2, OLDER), run(1)))


KEY = REQUEST.key


@pytest.mark.parametrize(
    "title",
    [
        pytest.param("", id="nothing"),
        pytest.param(f"({KEY})", id="the key alone"),
        pytest.param(f" v2.9.4 ({KEY})", id="no address"),
        pytest.param(f"Approve {CHANNEL} v2.9.4 ()", id="by hand, without a key"),
        pytest.param(f"Approve {CHANNEL} v2.9.4 ({KEY}) ", id="something behind it"),
        pytest.param(f" Approve {CHANNEL} v2.9.4 ({KEY})", id="something before it"),
        pytest.param(f"Approve {CHANNEL} v2.9.4 ({KEY})\n", id="a line break"),
        pytest.param(f"Approve {CHANNEL} v2.9.4 ({KEY.upper()}x)", id="no key"),
        pytest.param(f"Approve {CHANNEL} v2.9.4 and more ({KEY})", id="words in between"),
        pytest.param(f"Approve {CHANNEL}-eu v2.9.4 ({KEY})", id="another channel"),
        pytest.param(f"Approve oci://evil.example/{CHANNEL} v2.9.4 ({KEY})", id="our address in another"),
        pytest.param(
            f"Approve {OTHER.artifact} v2.9.4 ({KEY}) Approve {CHANNEL} v2.9.4 ({KEY})", id="ours behind another"
        ),
        pytest.param(f"Approve {CHANNEL} v2.9.4 ({KEY}) v2.9.4 (0123456789abcdef)", id="ours before another"),
        pytest.param(f"Approve {CHANNEL} v{'9' * 65} ({KEY})", id="an endless version"),
    ],
)
def test_no_other_title_asks_for_ours(title: str) -> None:
    assert asking_runs([run(title=title)], CHANNEL, "main", KEY) == AskingRuns()
    assert asking_runs([run(title=title)], CHANNEL, "main", None) == AskingRuns()


@pytest.mark.parametrize("path", ["with blank", "a (0123456789abcdef)", "$(x)`y`", "ü/[a].*", "a v2.9.4"])
def test_an_address_with_odd_characters_is_found_again_and_is_no_pattern(path: str) -> None:
    odd = replace(REQUEST, artifact=Reference.parse(f"layout:{path}:production"))
    plain = replace(REQUEST, artifact=Reference.parse("layout:a:production"))
    assert asking_runs([run(1, odd), run(2, plain)], odd.artifact, "main", odd.key) == AskingRuns(run(1, odd))
    assert asking_runs([run(1, odd), run(2, plain)], plain.artifact, "main", plain.key) == AskingRuns(run(2, plain))


@given(st.text(max_size=60), st.text(max_size=20))
def test_text_around_a_title_never_asks_for_ours(before: str, behind: str) -> None:
    titles = [f"{before}{title(REQUEST)}{behind}"] if before or behind else []
    assert asking_runs([run(title=title) for title in titles], CHANNEL, "main", KEY) == AskingRuns()
