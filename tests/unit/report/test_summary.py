"""What a manager reads of a run, and what programs are told of it."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from ci_automation.artifact.reference import Digest
from ci_automation.flux.options import Options
from ci_automation.flux.proof import Proof
from ci_automation.flux.version import Version
from ci_automation.impact.change import Certainty, Change, ChangeKind, Hazard, ObjectId, Severity
from ci_automation.policy.decision import Decision, Verdict
from ci_automation.policy.plan import PassedOver, Plan, PlannedStep
from ci_automation.report.account import Account, Standing, Trouble, outputs, summary, verdict
from tests.fakes.world import CHANNEL

BASE, PATCHED, NEW = (Digest.of(text.encode()) for text in ("base", "patched", "new"))
OLD, PATCH, MINOR = (Version.parse(text) for text in ("v2.8.7", "v2.8.8", "v2.9.4"))
URL = "https://github.com/acme/fleet/pull/7"
LIMIT = 1 << 20


def step(old: Version, new: Version, decision: Decision, *reasons: str, images: int = 1) -> PlannedStep:
    base, target = (BASE, PATCHED) if old == OLD else (PATCHED, NEW)
    changes = tuple(
        Change(
            ChangeKind.IMAGE, ObjectId("apps", "Deployment", "flux-system", f"c-{number}"), Severity.INFO, "v1 -> v2"
        )
        for number in range(images)
    )
    overlay = Digest.of(b"")
    return PlannedStep(
        old, new, base, target, decision, reasons, Options(), overlay, overlay, Proof.KNOWN, changes=changes
    )


AUTO = step(OLD, PATCH, Decision.AUTO, "a patch release is published without approval")
ASKED = replace(
    step(PATCH, MINOR, Decision.APPROVAL, "a minor release needs approval"),
    hazards=(Hazard("crds", Certainty.POSSIBLE, "x", "objects may be stored in it"),),
    pruned=("Deployment flux-system/x",),
    gates=(Verdict("kind", Decision.APPROVAL, "a minor release needs approval", "policy.minor: approval"),),
)
HELD = step(PATCH, MINOR, Decision.WAIT, "too young")
PLAN = Plan(CHANNEL, OLD, BASE, (AUTO, ASKED), (PassedOver(MINOR, Decision.REFUSED, ("no majors",)),))
NOTHING = Account("production", CHANNEL, Standing(OLD, BASE), signed=True, plan=Plan(CHANNEL, OLD, BASE, ()))
BOTH = replace(NOTHING, published=(AUTO,), waiting=(ASKED,), plan=PLAN, approval_urls={ASKED.target: URL})
TROUBLE = Trouble("it moved from `a` to |b|", "channel-moved", "Run @octocat again.", 12)


def test_each_step_that_is_asked_for_says_where() -> None:
    content = replace(ASKED, new_version=PATCH, target=Digest.of(b"content"))
    held = replace(HELD, target=Digest.of(b"held"))
    account = replace(
        BOTH, waiting=(content, ASKED, held), approval_urls={content.target: f"{URL}1", ASKED.target: URL}
    )
    assert list(account.notices) == [
        f"changed content of v2.8.8 needs approval at {URL}1",
        f"v2.9.4 needs approval at {URL}",
    ]


@pytest.mark.parametrize(
    ("account", "line"),
    [
        pytest.param(NOTHING, "**production** is at Flux v2.8.7: nothing to do", id="nothing"),
        pytest.param(
            BOTH,
            f"**production** is at Flux v2.8.8: published v2.8.8; v2.9.4 [needs approval](<{URL}>)",
            id="published, and asked",
        ),
        pytest.param(
            replace(BOTH, published=(replace(AUTO, old_version=PATCH),), waiting=(replace(ASKED, old_version=MINOR),)),
            "**production** is at Flux v2.8.8: published changed content of v2.8.8; "
            f"changed content of v2.9.4 [needs approval](<{URL}>)",
            id="content",
        ),
        pytest.param(
            replace(BOTH, approval_urls={}),
            "**production** is at Flux v2.8.8: published v2.8.8; v2.9.4 needs approval",
            id="nowhere to ask",
        ),
        pytest.param(
            replace(NOTHING, waiting=(HELD,)), "**production** is at Flux v2.8.7: v2.9.4 is waiting", id="waiting"
        ),
        pytest.param(
            replace(NOTHING, waiting=(replace(HELD, decision=Decision.AUTO),)),
            "**production** is at Flux v2.8.7: v2.9.4 is not done yet",
            id="cut off",
        ),
        pytest.param(
            replace(NOTHING, healed=True),
            "**production** is at Flux v2.8.7: signed the present digest again",
            id="healed",
        ),
        pytest.param(
            Account("production", CHANNEL, trouble=TROUBLE),
            r"**production** failed: it moved from \`a\` to \|b\|",
            id="failed",
        ),
        pytest.param(
            replace(BOTH, trouble=TROUBLE),
            r"**production** failed after it had published v2.8.8: it moved from \`a\` to \|b\|",
            id="failed half way",
        ),
        pytest.param(Account("production", CHANNEL), "**production**: nothing to do", id="not looked at"),
        pytest.param(
            Account("production", CHANNEL, done="init needs approval of this run"),
            "**production**: init needs approval of this run",
            id="nothing there yet",
        ),
        pytest.param(
            replace(NOTHING, name=str(CHANNEL)), f"**`{CHANNEL}`** is at Flux v2.8.7: nothing to do", id="nameless"
        ),
    ],
)
def test_the_verdict_is_one_line(account: Account, line: str) -> None:
    assert verdict(account) == line


def test_each_of_several_steps_that_wait_has_its_way_to_a_yes() -> None:
    last = replace(ASKED, base=ASKED.target, target=Digest.of(b"last"))
    both = replace(BOTH, waiting=(ASKED, last), approval_urls={})
    told = summary((both,), None, LIMIT)
    assert f"with `--approve {ASKED.target}`" in told
    assert f"with `--approve {ASKED.target} --approve {last.target}`." in told
    beside = replace(last, base=ASKED.base)
    told = summary((replace(both, waiting=(ASKED, beside)),), None, LIMIT)
    assert (
        f"with `--approve {last.target}`.\n\nThe approval counts only for `{last.target}` on top of `{PATCHED}`."
        in told
    )
    asked = summary((replace(both, approval_urls={ASKED.target: URL}),), None, LIMIT)
    assert "To approve Flux v2.9.4, wait: the run asks once v2.9.4 is published." in asked
    own = summary((replace(both, approval_urls={ASKED.target: URL, last.target: f"{URL}1"}),), None, LIMIT)
    assert [own.count(f"open [this page](<{url}>)") for url in (URL, f"{URL}1")] == [1, 1]


def test_the_summary_says_what_was_done_what_waits_and_how_to_approve_it() -> None:
    text = summary([BOTH], None, LIMIT)
    assert text.startswith("## Flux\n\n- **production** is at Flux v2.8.8: ")
    for part in (
        f"| before | v2.8.7 | `{BASE}` |  |",
        f"| published | v2.8.8 | `{PATCHED}` | a patch release is published without approval |",
        f"| **needs approval** | v2.9.4 | `{NEW}` | a minor release needs approval |",
        "| refused | v2.9.4 |  | no majors |",
        f"To approve Flux v2.9.4, open [this page](<{URL}>).",
        f"The approval counts only for `{NEW}` on top of `{PATCHED}`.",
        "**v2.8.7 to v2.8.8 (patch; rendering tested with this release)**",
        "- info, image: `Deployment flux-system/c-0` v1 -\\> v2\n",
        "What can break:\n\n- **possible, crds**: objects may be stored in it (`",
        "<details>\n<summary>1 change that needs no review</summary>\n\n- info",
        "What clusters delete (prune):\n\n- Deployment flux-system/x\n",
        "| **approval** | kind | policy.minor: approval | a minor release needs approval |\n\n</details>",
    ):
        assert part in text


def test_after_a_promotion_or_an_operation_the_summary_has_both_ends() -> None:
    assert NOTHING.before
    for moved, words in ((Standing(MINOR, PATCHED), ["before", "now"]), (NOTHING.before, ["now"])):
        text = summary([replace(NOTHING, promoted=moved)], None, LIMIT)
        rows = [line.split(" | ")[0].removeprefix("| ") for line in text.splitlines() if "sha256:" in line]
        assert rows == words
        assert f"| now | {moved.version} | `{moved.digest}` |" in text


def test_without_a_place_to_ask_it_names_the_command() -> None:
    said = summary([replace(BOTH, approval_urls={})], None, LIMIT)
    assert f"give the plan of this run to `apply` with `--approve {NEW}`." in said


def test_what_is_waiting_for_a_date_is_not_asked_for() -> None:
    later = replace(HELD, decision=Decision.APPROVAL)
    text = summary([replace(NOTHING, waiting=(HELD,))], None, LIMIT)
    assert "| waiting | v2.9.4 |" in text
    assert "To approve" not in text
    assert "| needs approval | v2.9.4 |" in summary([replace(NOTHING, waiting=(ASKED, later))], None, LIMIT)


REFUSED = replace(HELD, decision=Decision.REFUSED, reasons=("it breaks", "it is not signed"))
NO_WAY = replace(NOTHING, waiting=(REFUSED,), left=Decision.REFUSED)


def test_where_everything_is_refused_the_first_line_says_so() -> None:
    assert summary([NO_WAY, NOTHING], None, LIMIT).startswith("## Flux: refused for production\n")
    assert summary([NO_WAY] * 4, None, LIMIT).startswith("## Flux: refused for 4 artifacts\n")
    done = replace(NO_WAY, published=(AUTO,))
    assert summary([done], None, LIMIT).startswith("## Flux\n")
    told = NO_WAY.outputs()
    assert (told["decision"], told["reasons"]) == ("refused", "it breaks\nit is not signed")
    assert done.outputs()["decision"] == "auto"


def test_what_cannot_be_made_is_told_though_it_is_no_step() -> None:
    passed = (
        PassedOver(MINOR, Decision.REFUSED, ("its archive is damaged",)),
        PassedOver(MINOR, Decision.WAIT, ("x",)),
    )
    account = replace(NOTHING, left=Decision.REFUSED, plan=Plan(CHANNEL, OLD, BASE, (), passed))
    assert verdict(account) == "**production** is at Flux v2.8.7: policy refuses everything newer"
    assert account.outputs()["reasons"] == "its archive is damaged"
    assert replace(account, plan=None).outputs()["reasons"] == ""


def test_what_is_refused_comes_with_what_accepts_it() -> None:
    hazard = replace(ASKED.hazards[0], certainty=Certainty.CERTAIN)
    gates = (Verdict("crds", Decision.REFUSED, hazard.sentence, f"certain, {hazard.fingerprint}"),)
    refused = replace(ASKED, decision=Decision.REFUSED, hazards=(hazard,), gates=gates)
    text = summary([replace(NOTHING, waiting=(refused,))], None, LIMIT)
    assert (
        "<summary>To acknowledge instead, add to the artifact's configuration</summary>\n\n```yaml\n"
        f"acknowledge:\n  - {{fingerprint: {hazard.fingerprint}, until: DATE, reason: WHY}}  "
        f"# crds: {hazard.sentence}\n```" in text
    )
    assert "To accept what stops it" not in summary([BOTH], None, LIMIT)


def test_a_long_reason_is_cut_in_the_table_for_the_gates_have_all_of_it() -> None:
    long = " ".join(f"word-{number}" for number in range(30))
    gates = (Verdict("rbac", Decision.APPROVAL, long, "x"),)
    text = summary([replace(NOTHING, waiting=(replace(ASKED, reasons=(long,), gates=gates),))], None, LIMIT)
    table, _, rest = text.partition("To approve")
    words = long.split()
    assert "…" in table
    assert words[-1] not in table
    assert " ".join(words) in rest


def test_who_approved_is_named() -> None:
    two = (("octocat", f"pull request {URL}"), ("ada, ben", f"pull request merged by its author {URL}"))
    account = replace(NOTHING, published=(ASKED,), approved=two)
    text = summary([account], None, LIMIT)
    assert f"Approved by octocat: [pull request](<{URL}>)." in text
    assert f"Approved by ada, ben: [pull request merged by its author](<{URL}>)." in text
    assert next(iter(account.notices)) == f"approved by octocat: pull request {URL}"
    assert "| published, approved | v2.9.4 |" in text
    text = summary([replace(account, approved=(("octocat", "somehow"),))], None, LIMIT)
    assert "Approved by octocat: there: `somehow`." in text


def test_what_went_wrong_is_told_with_what_to_do() -> None:
    text = summary([Account("a", CHANNEL, trouble=TROUBLE)], replace(TROUBLE, hint=""), LIMIT)
    assert text.count("**Failed** (`channel-moved`): it moved from") == 2
    assert text.count("What to do: Run @ octocat again") == 1


def test_remarks_and_sections_of_others_come_last() -> None:
    text = summary([replace(NOTHING, remarks=("see\nhere",))], None, LIMIT, ["### More\n"])
    assert text.endswith("- see here\n\n### More\n\n")


def test_a_step_that_changes_no_object_says_so_and_one_that_changes_many_is_cut() -> None:
    assert "No object and no file changes." in summary(
        [replace(NOTHING, published=(step(OLD, PATCH, Decision.AUTO, images=0),))], None, LIMIT
    )
    many = summary([replace(NOTHING, published=(step(OLD, PATCH, Decision.AUTO, images=75),))], None, LIMIT)
    assert many.count("- info, image: ") == 60
    assert "- and 15 more\n" in many


@pytest.mark.often
@pytest.mark.parametrize("limit", [0, 50, 120, 400, 3000, 20_000])
def test_a_long_summary_is_cut_between_its_parts(limit: int) -> None:
    accounts = [replace(BOTH, name=f"artifact-{number}") for number in range(20)]
    text = summary(accounts, None, limit)
    assert len(text.encode()) <= limit
    whole = summary(accounts, None, LIMIT)
    kept, _, note = text.partition("\n_A summary")
    assert whole.startswith(kept)
    assert not text or "is missing here" in note
    assert not kept or kept.endswith("\n")


def test_a_summary_that_just_fits_is_whole() -> None:
    whole = summary([BOTH], None, LIMIT)
    assert summary([BOTH], None, len(whole.encode())) == whole
    assert "is missing here" in summary([BOTH], None, len(whole.encode()) - 1)


def test_the_outputs_are_texts() -> None:
    told = outputs((BOTH,), {"production": "plans/production.json"}, limit=LIMIT)
    assert {name: told[name] for name in ("changed", "decision", "signed", "healed", "plan-file")} == {
        "changed": "true",
        "decision": "auto",
        "signed": "true",
        "healed": "false",
        "plan-file": "plans/production.json",
    }
    assert told["digest-url"] == f"registry.example/acme/flux-manifests@{PATCHED}"
    assert told["immutable-tag"] == f"v2.8.8-{PATCHED.hex[:12]}"
    assert json.loads(told["plan"]) == PLAN.to_json()
    assert json.loads(told["artifacts"]) == [BOTH.to_json("plans/production.json")]


def test_an_operation_that_moved_the_channel_names_the_immutable_tag() -> None:
    told = outputs((replace(NOTHING, promoted=Standing(MINOR, PATCHED)),), {}, limit=LIMIT)
    assert told["immutable-tag"] == f"v2.9.4-{PATCHED.hex[:12]}"
    assert outputs((NOTHING,), {}, limit=LIMIT)["immutable-tag"] == ""


def test_what_is_not_known_is_empty() -> None:
    failed = Account("production", CHANNEL, trouble=TROUBLE)
    told = outputs((failed,), {}, limit=LIMIT)
    assert {name for name, value in told.items() if value} == {"changed", "healed", "artifacts"}
    assert json.loads(told["artifacts"])[0]["error"]["code"] == "channel-moved"
    assert outputs((), {}, limit=LIMIT) == {"changed": "false", "plan": "", "artifacts": "[]"}


def test_after_a_promotion_the_channel_has_what_was_promoted() -> None:
    promoted = Standing(MINOR, NEW)
    assert replace(BOTH, promoted=promoted).after == promoted


def test_of_several_artifacts_only_what_is_of_all_is_told() -> None:
    told = outputs((NOTHING, replace(BOTH, name="edge")), {}, limit=LIMIT)
    assert {name for name, value in told.items() if value} == {"changed", "artifacts"}
    assert told["changed"] == "true"
    assert [it["changed"] for it in json.loads(told["artifacts"])] == [False, True]


def test_what_is_too_long_for_an_output_is_left_out() -> None:
    whole = outputs((BOTH,), {}, limit=LIMIT)
    short = outputs((BOTH,), {}, limit=len(whole["plan"]) - 1)
    assert short["plan"] == ""
    assert json.loads(short["artifacts"])[0]["plan"] is None
    assert outputs((BOTH,), {}, limit=10)["artifacts"] == ""


def test_reasons_are_one_line_each() -> None:
    account = replace(NOTHING, waiting=(replace(ASKED, reasons=("a\nb", "c\x1b")),))
    assert account.outputs()["pending-reasons"] == "a b\nc\N{REPLACEMENT CHARACTER}"


def test_what_is_asked_goes_before_what_is_held() -> None:
    assert replace(NOTHING, waiting=(HELD, ASKED)).pending is ASKED
    assert replace(NOTHING, waiting=(HELD,)).pending is HELD
    assert NOTHING.pending is None


def test_an_operation_is_told_in_its_words() -> None:
    assert "rolled back to v2.8.7" in verdict(replace(BOTH, done="rolled back to v2.8.7"))
    assert r"from layout:\<img src" in verdict(replace(BOTH, done="promoted v2.8.7 from layout:<img src=x>:live"))
