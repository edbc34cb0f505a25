"""What a yes in a run is worth, and what it is a yes to, judged on values."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from ci_automation.approval.approved_run import RunFacts, judge_run, judge_starter
from ci_automation.approval.counting import People
from ci_automation.approval.handover import MAX_AGE, NOTHING, Handover, HandoverVoid, InvalidHandover
from ci_automation.approval.port import ApprovalRequest, GrantedApproval, NotCounted
from ci_automation.artifact.reference import Digest, Reference
from ci_automation.config.model import ApprovalConfig
from ci_automation.flux.version import Version
from ci_automation.github.model import Actor, Environment, RunApproval, WorkflowRun
from ci_automation.records.notes import Approval

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
CHANNEL = Reference.parse("oci://ghcr.io/acme/flux-manifests:production")
REQUEST = ApprovalRequest(CHANNEL, Version.parse("v2.9.4"), Digest.of(b"base"), Digest.of(b"target"))
ALICE, BOB, BOT = Actor("alice"), Actor("bob"), Actor("acme-flux[bot]", is_bot=True)
RUN = WorkflowRun(
    7,
    "https://github.com/acme/fleet/actions/runs/7",
    "in_progress",
    None,
    "workflow_dispatch",
    "main",
    "",
    NOW,
    NOW,
    BOT,
)
PROTECTED = Environment("flux-manifests", 2)
SHOWN = Handover(
    command="rollback",
    name="production",
    artifact="oci://ghcr.io/acme/flux-manifests:production",
    base=str(Digest.of(b"base")),
    target=str(Digest.of(b"target")),
    content=str(Digest.of(b"options")),
    rules=str(Digest.of(b"rules")),
    head="a" * 40,
    plan=str(Digest.of(b"plan")),
    attempt=1,
    at=NOW,
)
OTHER = str(Digest.of(b"other"))


def said(actor: Actor = ALICE, state: str = "approved", *environments: str) -> RunApproval:
    """Return what somebody said to the environment, or to others."""
    return RunApproval(actor, state, environments or ("flux-manifests",))


def facts(**changes: Any) -> RunFacts:
    """Return a run that alice approved as it should be, with `changes`."""
    values: dict[str, Any] = {
        "event": "workflow_dispatch",
        "ref": "refs/heads/main",
        "branch": "main",
        "run": RUN,
        "environment": PROTECTED,
        "said": (said(),),
        "people": People({"alice": "write"}),
    }
    return RunFacts(**{**values, **changes})


def judged(
    found: RunFacts, key: str = REQUEST.key, settings: ApprovalConfig | None = None
) -> GrantedApproval | NotCounted:
    """Return the judgement."""
    return judge_run(REQUEST, key, found, settings or ApprovalConfig(), NOW)


@pytest.mark.parametrize(
    ("found", "key", "by"),
    [
        pytest.param(facts(), REQUEST.key, "alice", id="by somebody who may write"),
        pytest.param(facts(people=People({"alice": "admin"})), REQUEST.key, "alice", id="by an administrator"),
        pytest.param(facts(), "", "alice", id="of a run that was started by hand"),
        pytest.param(
            facts(run=replace(RUN, actor=ALICE)), "", "alice", id="of whoever started it, if GitHub allows that"
        ),
        pytest.param(facts(said=(said(ALICE, "approved", "eu", "Flux-Manifests"),)), "", "alice", id="in any case"),
        pytest.param(facts(said=(said(), said())), "", "alice", id="in two attempts"),
        pytest.param(facts(run=replace(RUN, actor=None)), REQUEST.key, "alice", id="though who asked is gone"),
        pytest.param(
            facts(said=(said(BOT), said(BOB), said())), "", "alice", id="besides others whose word does not count"
        ),
        pytest.param(
            facts(said=(said(), said(BOB, "rejected", "eu"))), "", "alice", id="though another environment's was no"
        ),
    ],
)
def test_a_yes_counts(found: RunFacts, key: str, by: str) -> None:
    how = "run https://github.com/acme/fleet/actions/runs/7"
    granted = judged(found, key)
    assert granted == GrantedApproval(REQUEST, Approval(by, how, NOW), found.run.created_at)
    assert isinstance(granted, GrantedApproval)
    assert granted.since == found.run.created_at


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        pytest.param(facts(event="push"), "started by push", id="another event"),
        pytest.param(facts(event="repository_dispatch"), "started by repository_dispatch", id="a dispatch of others"),
        pytest.param(facts(run=replace(RUN, event="push")), "workflow_dispatch", id="another event, says GitHub"),
        pytest.param(facts(ref="refs/heads/feature"), "not on the default branch main", id="another branch"),
        pytest.param(facts(ref="refs/tags/main"), "not on the default branch main", id="a tag with the branch's name"),
        pytest.param(facts(ref="main"), "not on the default branch main", id="a ref without its kind"),
        pytest.param(facts(ref=""), "not on the default branch main", id="outside of a run"),
        pytest.param(facts(run=replace(RUN, branch="feature")), "default branch", id="another branch, says GitHub"),
        pytest.param(facts(environment=None), "flux-manifests does not exist", id="no environment"),
        pytest.param(
            facts(environment=replace(PROTECTED, required_reviewers=0)),
            "tick 'Required reviewers'",
            id="an open environment",
        ),
        pytest.param(
            facts(said=()), "no reviewer approved", id="let through by an administrator, or not in the environment"
        ),
        pytest.param(
            facts(said=(said(ALICE, "approved", "eu"),)), "no reviewer approved", id="a yes to another environment"
        ),
        pytest.param(facts(said=(said(ALICE, "pending"),)), "no reviewer approved", id="no word yet"),
        pytest.param(facts(said=(said(ALICE, "rejected"),)), "a reviewer rejected", id="a no"),
        pytest.param(facts(said=(said(), said(BOB, "rejected"))), "a reviewer rejected", id="a yes and a no"),
        pytest.param(facts(said=(said(BOB, "rejected"), said())), "a reviewer rejected", id="a no and a yes"),
        pytest.param(facts(run=replace(RUN, actor=ALICE)), "alice approved it and also started it", id="who asked"),
        pytest.param(
            facts(said=(said(BOT),)), r"acme-flux\[bot\] approved it, and is not a person", id="the bot itself"
        ),
        pytest.param(
            facts(people=People({"alice": "read"})),
            "alice approved it, but may not write",
            id="a permission that is gone",
        ),
        pytest.param(facts(people=People({})), "may not write", id="somebody of whom nothing is known"),
    ],
)
def test_a_yes_does_not_count(found: RunFacts, reason: str) -> None:
    verdict = judged(found)
    assert isinstance(verdict, NotCounted)
    assert verdict.request == REQUEST
    assert re.search(reason, verdict.reason)


STARTED = facts(run=replace(RUN, actor=ALICE), environment=None, said=())


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        pytest.param(replace(STARTED, event="repository_dispatch"), "by repository_dispatch", id="another event"),
        pytest.param(replace(STARTED, event="push"), "started by push", id="a push"),
        pytest.param(
            replace(STARTED, run=replace(STARTED.run, event="push")), "workflow_dispatch", id="another, says GitHub"
        ),
        pytest.param(replace(STARTED, ref="refs/tags/main"), "not on the default branch main", id="a tag"),
        pytest.param(replace(STARTED, ref="refs/heads/feature"), "not on the default branch main", id="a branch"),
        pytest.param(
            replace(STARTED, run=replace(STARTED.run, branch="feature")), "default branch", id="a branch, says GitHub"
        ),
        pytest.param(replace(STARTED, run=replace(RUN, actor=None)), "no person started it", id="nobody"),
        pytest.param(replace(STARTED, run=replace(RUN, actor=BOT)), "no person started it", id="an App"),
        pytest.param(
            replace(STARTED, run=replace(RUN, actor=BOT, triggering_actor=ALICE)),
            "no person started it",
            id="an App, and a person runs it again",
        ),
        pytest.param(replace(STARTED, people=People({"alice": "read"})), "alice .* may not write", id="a reader"),
        pytest.param(replace(STARTED, people=People({"bob": "write"})), "alice .* may not write", id="a stranger"),
        pytest.param(replace(STARTED, said=(said(BOB, "rejected"),)), "a reviewer rejected", id="a no before"),
    ],
)
def test_who_starts_a_run_with_its_code_does_not_approve_it(found: RunFacts, reason: str) -> None:
    judgement = judge_starter(found, ApprovalConfig(operations_by_code=True), NOW)
    assert isinstance(judgement, str)
    assert re.search(reason, judgement)


def test_who_starts_a_run_with_its_code_approves_it_in_the_team_alone() -> None:
    settings = ApprovalConfig(operations_by_code=True, team="acme/platform")
    how = "run https://github.com/acme/fleet/actions/runs/7"
    assert judge_starter(STARTED, replace(settings, team=None), NOW) == Approval("alice", how, NOW)
    assert judge_starter(STARTED, settings, NOW) == (
        "alice started it with the code, but is not in the team acme/platform now"
    )
    member = replace(STARTED, people=People({"alice": "write"}, frozenset({"alice"})))
    assert judge_starter(member, settings, NOW) == Approval("alice", how, NOW)


def test_the_key_of_another_request_is_refused() -> None:
    assert judged(facts(), "0" * 16) == NotCounted(REQUEST, "the key belongs to another request")


def test_where_a_team_is_named_only_its_members_count() -> None:
    settings = ApprovalConfig(team="acme/platform")
    outside = facts(people=People({"alice": "admin"}))
    assert judged(outside, settings=settings) == NotCounted(
        REQUEST, "alice approved it, but is not in the team acme/platform now"
    )
    assert isinstance(judged(outside), GrantedApproval)
    inside = facts(people=People({"alice": "write"}, frozenset({"alice"})))
    assert isinstance(judged(inside, settings=settings), GrantedApproval)


def test_every_word_that_does_not_count_is_explained() -> None:
    verdict = judged(facts(said=(said(BOT), said(BOB)), people=People({"bob": "read"})))
    assert isinstance(verdict, NotCounted)
    assert "acme-flux[bot] approved it" in verdict.reason
    assert "bob approved it" in verdict.reason


def test_another_environment_is_asked_for_by_its_name() -> None:
    settings = ApprovalConfig(environment="release")
    assert judged(facts(), settings=settings) == NotCounted(
        REQUEST, "no reviewer approved this run in the environment release; it may have passed without a review"
    )


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(replace(RUN, actor=ALICE), id="who started it"),
        pytest.param(replace(RUN, actor=BOB, triggering_actor=ALICE), id="who ran it again"),
    ],
)
def test_where_approvals_are_wanted_a_starter_is_no_approver(run: WorkflowRun) -> None:
    settings = ApprovalConfig(approvals=1)
    verdict = judged(facts(run=run), "", settings)
    assert isinstance(verdict, NotCounted)
    assert "alice approved it and also started it" in verdict.reason
    both = facts(run=run, said=(said(), said(BOB)), people=People({"alice": "write", "bob": "write"}))
    second = judged(both, "", settings)
    assert isinstance(second, GrantedApproval) is (run.actor != BOB)


@pytest.mark.parametrize("shown", [SHOWN, replace(SHOWN, base=NOTHING)])
def test_what_was_written_is_read(shown: Handover) -> None:
    assert Handover.parse(shown.to_text()) == shown


@pytest.mark.parametrize("name", Handover.__struct_fields__)
def test_a_part_that_is_missing_is_refused(name: str) -> None:
    value = json.loads(SHOWN.to_text())
    del value[name]
    with pytest.raises(InvalidHandover, match=name):
        Handover.parse(json.dumps(value))


@pytest.mark.parametrize(
    "changes",
    [
        *({name: text} for name in ("command", "artifact", "content", "target", "plan") for text in ("", " ", "a\nb")),
        *({name: "none"} for name in ("target", "rules", "plan")),
        {"base": "latest"},
        {"head": "main"},
        {"head": "A" * 40},
        {"attempt": "1"},
        {"attempt": None},
        {"at": "yesterday"},
        {"at": "2026-11-22T03:00:00"},
        {"more": "x"},
    ],
)
def test_what_is_malformed_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidHandover):
        Handover.parse(json.dumps({**json.loads(SHOWN.to_text()), **changes}))


@pytest.mark.parametrize("text", ["", "***", "{}", "[]", "null", "{", "x" * 8193])
def test_what_is_lost_is_refused(text: str) -> None:
    with pytest.raises(InvalidHandover):
        Handover.parse(text)


@pytest.mark.parametrize("later", [timedelta(), timedelta(hours=1), MAX_AGE])
def test_a_later_attempt_of_the_last_job_and_a_newer_head_are_the_same(later: timedelta) -> None:
    SHOWN.require_same(replace(SHOWN, attempt=3, at=NOW + later, head="b" * 40))


@pytest.mark.parametrize("name", ["command", "name", "artifact", "base", "target", "content", "rules", "plan"])
def test_each_change_since_voids_it(name: str) -> None:
    changes: dict[str, Any] = {name: OTHER}
    with pytest.raises(HandoverVoid, match=f"{name} was .*, and is {OTHER}"):
        SHOWN.require_same(replace(SHOWN, **changes))


@pytest.mark.parametrize("later", [MAX_AGE + timedelta(seconds=1), -timedelta(seconds=1)])
def test_what_is_too_old_or_of_the_future_is_void(later: timedelta) -> None:
    with pytest.raises(HandoverVoid, match="counts for 7 days"):
        SHOWN.require_same(replace(SHOWN, at=NOW + later))


def test_a_code_has_all_digits_of_a_digest_so_that_nobody_makes_two_operations_with_the_same() -> None:
    assert re.fullmatch(r"[0-9a-f]{64}", SHOWN.code)
    names = ("command", "name", "artifact", "base", "target", "content", "rules", "plan")
    others = [Handover.parse(json.dumps({**json.loads(SHOWN.to_text()), name: OTHER})) for name in names]
    assert len({SHOWN.code, *(it.code for it in others)}) == 9
    assert replace(SHOWN, attempt=2, head="b" * 40, at=NOW + MAX_AGE).code == SHOWN.code


def test_what_another_attempt_showed_is_void() -> None:
    with pytest.raises(HandoverVoid, match="attempt 2 of the run showed it"):
        replace(SHOWN, attempt=2).require_same(SHOWN)
