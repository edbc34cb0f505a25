"""What a person is shown before a channel goes back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ci_automation.artifact.reference import Digest, Reference
from ci_automation.flux.version import Version
from ci_automation.impact.change import Certainty, Change, ChangeKind, Hazard, ObjectId, Severity
from ci_automation.policy.content import Content, content_verdicts
from ci_automation.policy.decision import Decision, Hold, decide
from ci_automation.policy.gates import Situation
from ci_automation.policy.model import Policy
from ci_automation.report.blocks import MarkedLine
from ci_automation.report.findings import Findings
from ci_automation.report.rollback import Rollback, rollback_parts

if TYPE_CHECKING:
    from ci_automation.report.blocks import Part

AT = datetime(2026, 11, 21, tzinfo=UTC)
NEW, OLD = Version.parse("v2.9.4"), Version.parse("v2.8.8")
BASE, TARGET = Digest.of(b"base"), Digest.of(b"target")
CERTAIN = Hazard("crds", Certainty.CERTAIN, "buckets v1", "the storage version of buckets would go backwards")
RULE = Change(
    ChangeKind.RULE_WIDENED, ObjectId("rbac.authorization.k8s.io", "ClusterRole", "", "x"), Severity.DANGER, "reads all"
)
VERDICTS = content_verdicts(
    Content(changes=(RULE,), hazards=(CERTAIN,)), Situation(OLD, Policy(refuse=frozenset({"rbac"})), AT)
)
LIFT = ("flux-manifests", "rollback", "oci://ghcr.io/acme/flux-manifests:production", "--lift", "--key", "our own.key")
SHOWN = Rollback(
    channel=Reference.parse("oci://ghcr.io/acme/flux-manifests:production"),
    base=BASE,
    base_version=NEW,
    target=TARGET,
    target_version=OLD,
    hold=Hold(NEW, BASE, AT, None, "webhooks\x1b time out"),
    findings=Findings(changes=(RULE,), hazards=(CERTAIN,), gates=VERDICTS),
)


ALSO = (
    "The hold also keeps back each release between v2.8.8 and v2.9.4 that is out by now; "
    "runs may publish one that comes out later."
)
ENDS = [
    ALSO,
    "To lift the hold:",
    "flux-manifests rollback oci://ghcr.io/acme/flux-manifests:production --lift --key 'our own.key'",
]


def text(shown: Rollback, *, every: bool = False) -> str:
    def line(part: Part) -> str:
        return part.to_text()

    return "\n".join(line(part) for part in rollback_parts(shown, LIFT, every=every))


def test_it_says_from_where_to_where_what_breaks_and_what_waits() -> None:
    said = text(SHOWN)
    assert said.startswith(f"{SHOWN.channel} goes back from v2.9.4 to v2.8.8:\n  from {BASE}\n  to   {TARGET}\n")
    assert CERTAIN.sentence in said
    waits = "v2.9.4 will be on hold until the channel takes a newer release (webhooks\ufffd time out)"
    assert said.splitlines()[-4:] == [f"{waits}: no scheduled run and no old approval publishes it.", *ENDS]


def test_what_a_yes_answers_asks_for_no_approval() -> None:
    asks = content_verdicts(Content(changes=(RULE,)), Situation(OLD, Policy(), AT))
    assert decide(asks) is Decision.APPROVAL
    shown = replace(SHOWN, findings=Findings(changes=(RULE,), gates=asks))
    for every in (False, True):
        said = text(shown, every=every)
        assert "reads all" in said
        assert not [
            word
            for word in ("approval:", "approval ", "gate", "verdict", "takes")
            if word in said[: said.index("will be on hold")]
        ]
    known = replace(asks[0], gate="acknowledged", reason="it is known", allowed=True)
    assert "it is known" in text(replace(shown, findings=Findings(changes=(RULE,), gates=(*asks, known))))
    assert f"  certain, crds, refused: {CERTAIN.sentence} ({CERTAIN.fingerprint})" in text(SHOWN)


@pytest.mark.parametrize(("now", "away"), [(OLD, f"to {OLD}"), (NEW, "to other content of it")])
def test_a_channel_whose_tag_was_moved_is_put_back_and_nothing_is_held(now: Version, away: str) -> None:
    moved = replace(SHOWN, base_version=now, target_version=NEW, hold=None, puts_back=True)
    first, second, *_, last = text(moved).splitlines()
    assert first == f"The tag was moved back from {NEW} {away} without a record. This puts it back at {NEW}."
    assert second == f"{moved.channel} goes back to {NEW}, which it had last:"
    assert last.startswith("No hold is written: ")


MORE = Hold(Version.parse("v2.9.2"), Digest.of(b"more"), AT, AT + timedelta(days=1), "leaks memory")
GOES_ON = f"The hold on v2.9.2 ({MORE.digest.short}) goes on until 2026-11-22 00:00 UTC (leaks memory)."


def test_it_names_each_hold_that_is_on_afterwards_and_lifts_the_new_one() -> None:
    *_, other, heading, command = text(replace(SHOWN, also=(MORE,))).splitlines()
    assert (other, heading) == (GOES_ON, f"To lift the hold on v2.9.4 ({BASE.short}):")
    assert command == ENDS[-1].replace("--lift", f"--lift --to {BASE}")
    *_, last = rollback_parts(replace(SHOWN, also=(MORE,)), None)
    named = f"with the command lift-hold and {BASE} as `to`."
    assert last.to_text() == f"To lift the hold on v2.9.4 ({BASE.short}), start this workflow {named}"
    assert replace(SHOWN, also=(MORE,)).to_json()["otherHolds"][0]["refused"]["version"] == "v2.9.2"


def test_it_names_the_holds_on_what_is_put_back_though_it_makes_none() -> None:
    moved = replace(SHOWN, base_version=OLD, target_version=NEW, hold=None, puts_back=True, also=(MORE,))
    *_, other, heading, command, last = text(moved).splitlines()
    assert (other, heading, command) == (GOES_ON, "To lift the hold:", ENDS[-1])
    assert last.startswith("No hold is written: ")


def test_where_the_channel_is_already_it_names_the_hold_that_was_not_lifted() -> None:
    said = text(replace(THERE, also=(MORE,), ended=Hold(NEW, BASE, AT, AT)))
    assert GOES_ON in said
    assert "No hold is on" not in said


def test_it_says_what_is_wrong_with_either_end() -> None:
    said = text(replace(SHOWN, problem="it is not signed", signs=True, hold=None))
    assert "Its present digest is not trusted: it is not signed" in said
    assert "The target has lost its signature; the rollback signs it again first." in said
    assert "on hold" not in said


@pytest.mark.parametrize(
    ("moves", "sentence"),
    [
        (True, "These version tags lead to it too: v2.9.3, v2.9.4."),
        (False, "These tags stay at v2.9.4, and clusters with ref.semver keep it: v2.9.3, v2.9.4."),
    ],
)
def test_it_names_the_version_tags_that_move_or_stay(*, moves: bool, sentence: str) -> None:
    shown = replace(SHOWN, version_tags=("v2.9.3", "v2.9.4"), moves_tags=moves)
    assert sentence in text(shown)
    assert shown.to_json()["versionTags"] == (["v2.9.3", "v2.9.4"] if moves else [])
    assert "version tags" not in text(SHOWN)


def test_where_the_channel_is_already_only_the_hold_is_told() -> None:
    there = replace(
        SHOWN,
        base=TARGET,
        base_version=OLD,
        findings=Findings(),
        hold=Hold(NEW, BASE, AT, AT + timedelta(days=1)),
        holds=False,
    )
    assert text(there).splitlines() == [
        f"{SHOWN.channel} is already at v2.8.8, {TARGET}.",
        "v2.9.4 is on hold until 2026-11-22 00:00 UTC: no scheduled run and no old approval publishes it.",
        *ENDS,
    ]
    assert "v2.9.4 will be on hold until" in text(replace(there, holds=True))
    assert (there.is_there, there.decision, there.breaks) == (True, Decision.AUTO, ())


def test_where_somebody_else_moved_the_channel_there_it_says_how_to_go_on() -> None:
    shown = text(replace(SHOWN, base=TARGET, base_version=OLD, problem="it came back from v2.9.4"))
    assert (
        "Updates stop at it: it came back from v2.9.4\n"
        f"To go on from there, adopt it with `update {SHOWN.channel} --adopt`." in shown
    )
    known = text(replace(SHOWN, base=TARGET, base_version=OLD, problem="it was moved back", last=(NEW, BASE)))
    assert f"\nTo put it back at {NEW}: `rollback {SHOWN.channel} --to {BASE}`.\nTo go on from there, adopt" in known


THERE = replace(SHOWN, base=TARGET, base_version=OLD, findings=Findings(), hold=None, holds=False)
FREE = (
    "No hold is on: runs may publish newer releases, as the policy says. To keep them away, write `paused: true` or a "
    "`freeze` for the channel into the configuration"
)


def test_where_the_channel_is_already_without_a_hold_it_says_that_nothing_is_to_do() -> None:
    assert text(THERE).splitlines() == [f"{SHOWN.channel} is already at v2.8.8, {TARGET}: nothing to do.", f"{FREE}."]
    signs = text(replace(THERE, signs=True))
    assert signs.startswith(f"{SHOWN.channel} is already at v2.8.8, {TARGET}.\nThe target has lost its signature")


def test_where_updates_stop_it_does_not_say_that_runs_may_publish() -> None:
    stops = text(replace(THERE, problem="it was moved back"))
    assert stops.endswith("\nNo hold is on.")
    assert "runs may publish" not in stops


@pytest.mark.parametrize(("reason", "why"), [("", ""), ("time out", " (time out)")])
@pytest.mark.parametrize("alone", [False, True])
def test_of_a_target_that_a_rollback_refused_it_says_so(reason: str, why: str, alone: bool) -> None:
    refused = replace(SHOWN, ended=Hold(OLD, TARGET, AT, None, reason, alone=alone))
    what = f"digest {TARGET.short}" if alone else f"v2.8.8 ({TARGET.short})"
    line = f"A rollback refused {what} at 2026-11-21 00:00 UTC{why}. Going back to it ends that hold."
    assert line in text(refused).splitlines()
    assert "A rollback refused" not in text(SHOWN)


def test_of_a_hold_that_is_over_it_says_when_it_ended_and_how_it_is_made_anew() -> None:
    over = replace(THERE, ended=Hold(NEW, BASE, AT, AT))
    assert text(over).splitlines()[1:] == [
        "The hold on v2.9.4 ended on 2026-11-21 00:00 UTC.",
        f"{FREE}, or add `--until DATE` to hold v2.9.4 again.",
    ]
    *_, last = rollback_parts(over, None)
    assert last.to_text() == f"{FREE}."


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("v2.9.3", ()),  # the next patch: nothing is between
        ("v2.9.2", (ALSO.replace("v2.8.8", "v2.9.2"),)),
        ("v2.8.8", (ALSO,)),
        ("v2.9.5", ()),
        ("v2.10.0", ()),
    ],
)
def test_what_else_is_held_is_what_the_rollback_passes_over(target: str, said: tuple[str, ...]) -> None:
    lines = text(replace(SHOWN, target_version=Version.parse(target))).splitlines()
    assert tuple(line for line in lines if line.startswith("The hold also keeps back")) == said


SAME = replace(SHOWN, base_version=OLD, hold=Hold(OLD, BASE, AT, None, "too little memory", alone=True))


def test_going_back_to_other_content_of_the_version_holds_that_content_alone() -> None:
    said = text(SAME)
    assert said.startswith(f"{SHOWN.channel} goes back to other content of v2.8.8:\n  from {BASE}\n")
    assert (
        f"Digest {BASE.short} will be on hold until the channel takes a newer release (too little memory): no "
        "scheduled run and no old approval publishes it. v2.8.8 with other options or files is not on hold.\n"
    ) in said
    assert "also keeps back" not in said
    again = text(replace(SAME, base=TARGET, holds=False, findings=Findings()))
    assert f"\nDigest {BASE.short} is on hold until the channel takes a newer release" in again


@pytest.mark.parametrize(
    ("stated", "what"),
    [
        (Version.parse("v2.9.3"), "an untrusted digest, which says it is v2.9.3"),
        (None, "an untrusted digest that no run can read"),
    ],
)
def test_what_an_untrusted_digest_says_of_its_version_is_told_as_that(stated: Version | None, what: str) -> None:
    shown = replace(SAME, problem="it is not signed", stated=stated, version_tags=("v2.9.3",))
    said = text(shown)
    assert said.startswith(f"{SHOWN.channel} goes back to v2.8.8 from {what}:\n  from {BASE}\n")
    assert f"Digest {BASE.short} will be on hold until the channel takes a newer release" in said
    assert "publishes it. This hold keeps back no release of Flux.\n" in said
    assert "These tags stay at it, and clusters" in said
    assert "other options" not in said
    assert shown.to_json()["from"]["version"] == str(stated or "")


def test_what_refuses_it_can_be_accepted_by_its_fingerprint() -> None:
    assert SHOWN.decision is Decision.REFUSED
    assert set(SHOWN.breaks) == {CERTAIN.fingerprint, RULE.fingerprint}
    assert CERTAIN.sentence in SHOWN.obstacles


def test_programs_read_the_same() -> None:
    value = SHOWN.to_json()
    assert value["from"] == {"version": "v2.9.4", "digest": str(BASE)}
    assert value["to"] == {"version": "v2.8.8", "digest": str(TARGET)}
    assert value["hold"]["refused"] == {"version": "v2.9.4", "digest": str(BASE)}
    assert (value["hold"]["until"], value["decision"]) == (None, "refused")
    assert [hazard["fingerprint"] for hazard in value["hazards"]] == [CERTAIN.fingerprint]
    assert replace(SHOWN, hold=None).to_json()["hold"] is None
    assert replace(SHOWN, hold=Hold(NEW, BASE, AT, AT)).to_json()["hold"]["until"] == "2026-11-21T00:00:00+00:00"


def test_where_people_use_the_workflow_it_names_that() -> None:
    *_, last = rollback_parts(SHOWN, None)
    assert isinstance(last, MarkedLine)
    assert last.text == "To lift the hold, start this workflow with the command lift-hold."


def test_what_cannot_be_acknowledged_leaves_nothing_to_acknowledge() -> None:
    assert SHOWN.breaks == (CERTAIN.fingerprint, RULE.fingerprint)
    for_good = replace(SHOWN.findings, hazards=(replace(CERTAIN, final=True),))
    assert replace(SHOWN, findings=for_good).breaks == ()


@pytest.mark.parametrize(
    ("others", "said"),
    [
        (("v2.8.8-0123456789ab",), "another digest here; --to takes: v2.8.8-0123456789ab"),
        (("v2.8.8-0", "v2.8.8-1"), "other digests here; --to takes: v2.8.8-0, v2.8.8-1"),
    ],
)
def test_a_version_that_is_there_names_its_other_digests(others: tuple[str, ...], said: str) -> None:
    assert text(replace(THERE, others=others)).splitlines()[1] == f"v2.8.8 has {said}"
