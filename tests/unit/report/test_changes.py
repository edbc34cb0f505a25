"""Changes, hazards and gates as people see them: the same in each form, the gravest first, harmless, and short."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from msgspec.structs import replace

from ci_automation.artifact.reference import Digest
from ci_automation.flux.options import Options
from ci_automation.flux.proof import Proof
from ci_automation.flux.version import Version
from ci_automation.impact.change import (
    Certainty,
    Change,
    ChangeClass,
    ChangeKind,
    FileDiff,
    Hazard,
    ObjectId,
    Place,
    Severity,
    fingerprint,
)
from ci_automation.impact.rights import FolderRights, Right
from ci_automation.policy.content import UPSTREAM, Content, content_verdicts
from ci_automation.policy.decision import Decision, Verdict
from ci_automation.policy.gates import Situation
from ci_automation.policy.model import Acknowledgement, Policy
from ci_automation.policy.plan import PlannedStep
from ci_automation.report.blocks import HINT, ROW, Detail, MarkedLine, Part, Table, on_terminal
from ci_automation.report.changes import sections, step_parts, text_parts
from ci_automation.report.details import acknowledgements, obstacles, rights_blocks, verdicts
from ci_automation.report.findings import Findings, idle_acknowledgements, meaning, told_together, unproven_upstream
from ci_automation.report.markdown import to_markdown
from ci_automation.report.text import step_title

DANGER = Severity.DANGER
SOURCE = ObjectId("apps", "Deployment", "flux-system", "source-controller")
ROLE = ObjectId("rbac.authorization.k8s.io", "ClusterRole", "", "crd-controller")
POLICIES = ObjectId("apiextensions.k8s.io", "CustomResourceDefinition", "", "imagepolicies.image.toolkit.fluxcd.io")


def change(kind: ChangeKind, severity: Severity, sentence: str, where: ObjectId = SOURCE) -> Change:
    return Change(kind, where, severity, sentence, "spec", "a", "b", fingerprint(kind, str(where), sentence))


IMAGE = change(ChangeKind.IMAGE, Severity.INFO, "source-controller goes from v1.8.0 to v1.9.4")
WIDER = change(ChangeKind.RULE_WIDENED, Severity.DANGER, "it may do anything to secrets", ROLE)
KNOWN = change(ChangeKind.RULE_ADDED, Severity.WARNING, "it may list namespaces", ROLE)
TIGHTER = change(ChangeKind.VALIDATION_TIGHTENED, Severity.WARNING, "spec.filter is required", POLICIES)
TEXTS = tuple(change(ChangeKind.TEXT, Severity.INFO, f"a description is other ({n})", POLICIES) for n in range(3))
LABEL = change(ChangeKind.VERSION_LABEL, Severity.INFO, "its label says v2.9.4")
NOTE = change(ChangeKind.METADATA, Severity.INFO, "it changes annotation")
CHANGES = (IMAGE, *TEXTS, KNOWN, LABEL, TIGHTER, NOTE, WIDER)

STORED = Hazard(
    "crds",
    Certainty.CERTAIN,
    "imagepolicies v1beta2",
    "objects are stored as v1beta2, which v2.9.4 does not have",
    (Place("apps/policy.yaml", 12), Place("overlay/all.yaml")),
    ("flux migrate -f apps/policy.yaml", "kubectl get crd imagepolicies.image.toolkit.fluxcd.io\nkubectl get ns"),
)
LATE = Hazard("compatibility", Certainty.ADVICE, "support", "v2.8 is supported until v2.11")
UNSEEN = Hazard("overlay", Certainty.UNCHECKED, "kustomize", "there is no kustomize")
HAZARDS = (LATE, UNSEEN, STORED)
PRUNED = ("Deployment flux-system/old", f"CustomResourceDefinition {POLICIES.name}", "Service flux-system/old")
GATES = (
    Verdict("kind", Decision.APPROVAL, "a minor release needs approval", "policy.minor: approval"),
    Verdict("changes", Decision.AUTO, "it changes much", "8 changes"),
    Verdict("acknowledged", Decision.AUTO, "it may list namespaces; acknowledged", KNOWN.fingerprint),
    Verdict("rbac", Decision.APPROVAL, WIDER.sentence, f"the policy escalates rbac, 1 change, {WIDER.fingerprint}"),
    Verdict("crdTightened", Decision.REFUSED, TIGHTER.sentence, "the policy refuses crdTightened, 1 change"),
    Verdict("image", Decision.AUTO, IMAGE.sentence, "the policy allows image, 1 change"),
    Verdict("crds", Decision.REFUSED, STORED.sentence, f"certain, {STORED.fingerprint}"),
    Verdict("overlay", Decision.APPROVAL, UNSEEN.sentence, f"unchecked, {UNSEEN.fingerprint}"),
    Verdict("compatibility", Decision.AUTO, LATE.sentence, f"advice, {LATE.fingerprint}"),
)
FOUND = Findings(CHANGES, HAZARDS, PRUNED, GATES)
STEP = PlannedStep(
    Version.parse("v2.8.8"), Version.parse("v2.9.4"), Digest.of(b"a"), Digest.of(b"b"), Decision.REFUSED, ("why",),
    Options(), Digest.of(b"o"), Digest.of(b"r"), Proof.KNOWN,
    changes=CHANGES, hazards=HAZARDS, pruned=PRUNED, gates=GATES,
)  # fmt: skip


def short(found: Findings) -> list[Part]:
    """Return the findings with all that a terminal has room for without -v."""
    detail = Detail(rows=60, below=60, changes=6, lines=20, hint=HINT)
    return [*on_terminal((*sections(found, detail), *acknowledgements(found, detail), *obstacles(found)))]


def text(found: Findings, *, every: bool = False) -> str:
    parts = text_parts(found, every=True) if every else short(found)
    return "\n".join(part.to_text() for part in parts)


def markdown(found: Findings, rows: int = 100) -> str:
    detail = Detail.page(rows)
    told = to_markdown(sections(found, detail), "### {}")
    return "\n\n".join([told, to_markdown(verdicts(found, detail)), acknowledgement_markdown(found, rows)])


def acknowledgement_markdown(found: Findings, rows: int) -> str:
    """Return the block to copy, without what it is folded behind."""
    shown = to_markdown(acknowledgements(found, Detail.page(rows)))
    return shown.partition("</summary>\n\n")[2].removesuffix("\n\n</details>")


def section(found: Findings, title: str, rows: int = 9) -> str:
    return next(
        to_markdown(it.blocks) for it in sections(found, Detail.page(rows)) if it.title.partition(" (")[0] == title
    )


def plain(page: str) -> str:
    """Return what a reader sees of Markdown, on one line."""
    tokens = MarkdownIt("commonmark").enable("table").parse(page)
    return " ".join(
        "".join(child.content for child in token.children) if token.children else token.content for token in tokens
    )


def in_order(page: str, *words: str) -> bool:
    places = [page.find(word) for word in words]
    return -1 not in places and places == sorted(places)


def test_every_detail_of_a_plan_is_told_once() -> None:
    long = replace(WIDER, old="", new='{"rules": [… ', fingerprint="f" * 16)
    gone = replace(long, old=long.new, new="", fingerprint="e" * 16)
    gates = (*GATES, Verdict("rbac", Decision.APPROVAL, WIDER.sentence))
    every = text(Findings((WIDER, long, gone), gates=gates), every=True)
    assert re.findall(r"^ +spec: (.*)", every, re.MULTILINE) == ["a -> b", "added", "removed"]
    rows = re.findall(r"^approval +rbac .*", every, re.MULTILINE)
    assert all(row.endswith("  as listed above") for row in rows)
    assert max(map(len, every.partition("Verdict of each gate:\n")[2].splitlines())) <= 100


def test_text_markdown_and_json_show_the_same() -> None:
    told = FOUND.to_json()
    assert json.loads(json.dumps(told)) == told
    step = STEP.to_json()
    for key, of_step in (("changes", step["changes"]["all"]), ("hazards", step["hazards"]), ("gates", step["gates"])):
        assert sorted(map(str, told[key])) == sorted(map(str, of_step))
    assert sorted(told["pruned"]) == sorted(step["pruned"])
    short, every, page = (" ".join(it.split()) for it in (text(FOUND), text(FOUND, every=True), plain(markdown(FOUND))))
    for each in told["changes"]:
        row = (each["severity"], each["class"], str(ObjectId(**each["object"])), each["sentence"])
        counted = each["class"] in {"crdText", "version", "metadata"}
        detail = (each["path"], each["from"], each["to"], each["fingerprint"]) if each["severity"] != "info" else ()
        assert all(word in every for word in (*(row if detail else row[:2]), *detail))
        assert [each["sentence"] in form for form in (short, page)] == [not counted] * 2
        if not counted:
            assert all(word in form for form in (short, page) for word in row)
    for each in told["hazards"]:
        lines = [line for remedy in each["remedies"] for line in remedy.split("\n")]
        places = [str(Place(**place)) for place in each["places"]]
        words = (each["gate"], each["certainty"], each["sentence"], each["fingerprint"], *places, *lines)
        assert all(word in form for form in (short, page) for word in words)
    for each in told["gates"]:
        assert all(each[key] in page for key in ("gate", "verdict", "reason", "input"))
        assert all(each[key] in every for key in ("gate", "verdict"))
        assert each["verdict"] == "auto" or all(each[key] in short for key in ("gate", "verdict", "reason"))
    assert all(name in form for form in (short, page) for name in told["pruned"])
    for form in (short, page):
        assert "3 CRD texts, 1 version label, 1 metadata change" in form


def test_what_is_grave_comes_first() -> None:
    for form in (text(FOUND), markdown(FOUND)):
        assert in_order(
            form, STORED.sentence, UNSEEN.sentence, LATE.sentence, "every object of its kind", WIDER.sentence
        )
        changes = form[form.index("What changes") :]
        assert in_order(changes, WIDER.sentence, KNOWN.sentence, TIGHTER.sentence, IMAGE.sentence)
    for form in (text(FOUND, every=True), markdown(FOUND)):
        gates = form[form.index("input") :]
        assert in_order(gates, TIGHTER.belongs_to, "a minor release needs approval", "it changes much")


@pytest.mark.parametrize(
    ("it", "takes"),
    [(WIDER, "approval"), (KNOWN, "acknowledged"), (TIGHTER, "refused"), (IMAGE, "auto"), (LABEL, "")],
    ids=lambda it: str(getattr(it, "kind", it)),
)
def test_each_change_says_what_it_takes(it: Change, takes: str) -> None:
    assert FOUND.taken().change(it) == takes
    assert replace(FOUND, gates=()).taken().change(it) == ""


def test_each_hazard_says_what_it_takes() -> None:
    assert [FOUND.taken().hazard(it) for it in (STORED, UNSEEN, LATE)] == ["refused", "approval", "auto"]
    known = (Verdict("acknowledged", Decision.AUTO, "fine", STORED.fingerprint),)
    assert Findings(hazards=HAZARDS, gates=known).taken().hazard(STORED) == "acknowledged"


def test_what_it_takes_is_what_the_gates_of_the_policy_say() -> None:
    until = datetime(2030, 1, 1, tzinfo=UTC)
    known = tuple(Acknowledgement(it.fingerprint, until, "fine") for it in (KNOWN, STORED))
    policy = Policy(refuse=frozenset({ChangeClass.CRD_TIGHTENED}), acknowledge=known)
    situation = Situation(STEP.old_version, policy, datetime(2026, 11, 21, tzinfo=UTC))
    possible = replace(STORED, certainty=Certainty.POSSIBLE, subject="y")
    certain = replace(STORED, subject="z")
    content = Content(changes=CHANGES, hazards=(*HAZARDS, possible, certain), overlay_changed=("a.yaml (new)",))
    found = Findings(content.changes, content.hazards, gates=content_verdicts(content, situation))
    changes = (KNOWN, WIDER, TIGHTER, IMAGE, TEXTS[0])
    hazards = (STORED, certain, possible, UNSEEN, LATE)
    assert [found.taken().change(it) for it in changes] == ["acknowledged", "approval", "refused", "auto", "auto"]
    assert [found.taken().hazard(it) for it in hazards] == ["acknowledged", "refused", "approval", "approval", "auto"]


def test_a_hazard_of_the_overlay_says_nothing_of_files_that_change() -> None:
    file = change(ChangeKind.OVERLAY_FILE, Severity.INFO, "a.yaml is new")
    assert Findings((file,), HAZARDS, gates=GATES).taken().change(file) == ""


def test_rights_of_flux_are_listed_by_namespace_on_request() -> None:
    accounts = ("ServiceAccount a/x", "ServiceAccount a/y", "Group z")
    almighty = Right(
        "", accounts, "ClusterRole cluster-admin", "ClusterRoleBinding b", "do everything", DANGER, True, ("e",)
    )
    own = Right(
        "apps", (), "Role r", "RoleBinding b", "get secrets", DANGER, False, ("bind roles", "e"), ("get", "list")
    )
    built, alone = FolderRights(".", (own, almighty), more=3), FolderRights("b", (), "there is no kustomize")
    found = Findings(CHANGES, rights=(built, alone))
    assert "What Flux may do" not in text(found)
    listed = text(found, every=True)
    assert listed[listed.index("What Flux") :] == (
        "What Flux may do in clusters that apply ./:\n"
        "  in the whole cluster:\n"
        "    danger: ServiceAccounts a/x and a/y and Group z may do everything "
        "(ClusterRole cluster-admin, by ClusterRoleBinding b)\n"
        "  in the namespace apps:\n"
        "    danger: no subject may get secrets [escalation: bind roles; e] [secrets: get, list] "
        "(Role r, by RoleBinding b)\n"
        "  and 3 more bindings\n"
        "What Flux may do in clusters by the components alone; ./b was not built: there is no kustomize"
    )


def test_only_the_rights_that_flux_alone_does_not_give_are_listed_unless_all_are_asked_for() -> None:
    own = Right("", ("ServiceAccount a/x",), "ClusterRole r", "ClusterRoleBinding b", "do everything", DANGER, True)
    more = replace(own, severity=Severity.NOTICE, everything=False, may="get pods", namespace="apps", added=True)
    shown = on_terminal(rights_blocks((FolderRights(".", (own, more), more=1),), every=False))
    lines = [line.text for line in shown if isinstance(line, MarkedLine)]
    assert lines == [
        "What Flux may do in clusters that apply ./:",
        "  in the namespace apps:",
        "    notice, not by Flux alone: ServiceAccount a/x may get pods (ClusterRole r, by ClusterRoleBinding b)",
        "  and 2 more bindings (-v lists them)",
    ]


@pytest.mark.parametrize("width", [80, 100, 160])
def test_what_many_accounts_may_do_is_told_whole_on_a_terminal(width: int) -> None:
    accounts = tuple(f"ServiceAccount flux-system/controller-{number}" for number in range(9))
    right = Right(
        "", accounts, "ClusterRole r", "ClusterRoleBinding b", "create tokens", DANGER, False, ("it escalates",)
    )
    lines = [
        line
        for part in on_terminal(rights_blocks((FolderRights(".", (right,)),), every=True))
        if isinstance(part, MarkedLine)
        for line in part.lines(width)
    ]
    assert "may create tokens [escalation: it escalates] (ClusterRole r, by ClusterRoleBinding b)" in " ".join(
        " ".join(lines).split()
    )


def test_a_right_that_flux_alone_does_not_give_is_marked() -> None:
    right = Right(
        "", ("ServiceAccount a/b",), "ClusterRole r", "ClusterRoleBinding b", "do everything", DANGER, added=True
    )
    (told,) = rights_blocks((FolderRights(".", (right,)),), every=False)
    lines = [part.to_text() for part in on_terminal((told,))]
    assert any(
        line.strip().startswith("danger, not by Flux alone: ServiceAccount a/b may do everything") for line in lines
    )


def test_rights_that_are_all_of_flux_are_counted_on_one_line() -> None:
    grave = Right("", ("ServiceAccount a/x",), "ClusterRole r", "ClusterRoleBinding b", "do everything", DANGER, True)
    lesser = replace(grave, severity=Severity.NOTICE, everything=False, may="get pods")
    folders = (FolderRights(".", (grave, lesser), more=1), FolderRights("b", (lesser,)), FolderRights("c", ()))
    shown = [part.to_text() for part in on_terminal(rights_blocks(folders, every=False))]
    assert shown == [
        "Rights in clusters that apply ./, as in plain Flux: 3 bindings, cluster-admin among them (-v lists them)",
        "Rights in clusters that apply ./b, as in plain Flux: 1 binding (-v lists them)",
        "Rights in clusters that apply ./c, as in plain Flux",
    ]
    (alone,) = on_terminal(rights_blocks(folders[:1], every=False))
    assert alone.to_text() == "Rights as in plain Flux: 3 bindings, cluster-admin among them (-v lists them)"


def test_of_a_folder_that_was_not_built_it_says_so_and_counts_the_rights() -> None:
    grave = Right("", ("ServiceAccount a/x",), "ClusterRole r", "ClusterRoleBinding b", "do everything", DANGER, True)
    folder = FolderRights(".", (grave, grave), "there is no kustomize")
    shown = [part.to_text() for part in on_terminal(rights_blocks((folder,), every=False))]
    assert shown == [
        "What Flux may do in clusters by the components alone; ./ was not built: there is no kustomize:",
        "  and 2 more bindings (-v lists them)",
    ]


def test_a_file_is_named_once_in_a_row() -> None:
    named = ObjectId("", "File", "", "a.yaml")
    file = change(ChangeKind.OVERLAY_FILE, Severity.NOTICE, "a.yaml is new", named)
    assert "  notice, overlay: a.yaml is new" in text(Findings((file,))).splitlines()


def test_what_stops_it_can_be_acknowledged_with_what_is_printed() -> None:
    refused = {
        STORED.fingerprint: f"crds: {STORED.sentence}",
        TIGHTER.fingerprint: f"crdTightened: {TIGHTER.sentence}",
    }
    asked = {
        STORED.fingerprint: f"crds: {STORED.sentence}",
        UNSEEN.fingerprint: f"overlay: {UNSEEN.sentence}",
        WIDER.fingerprint: f"rbac: {WIDER.sentence}",
        TIGHTER.fingerprint: f"crdTightened: {TIGHTER.sentence}",
    }
    block, every = (
        re.split(r"\n(?:Verdict of|approval, kind)", text(FOUND, every=every).partition("configuration:\n")[2])[0]
        for every in (False, True)
    )
    page = acknowledgement_markdown(FOUND, 9).removeprefix("```yaml\n").removesuffix("\n```")
    for form, stops in ((block, refused), (page, refused), (every, asked)):
        entries = yaml.safe_load(form)["acknowledge"]
        assert [entry["fingerprint"] for entry in entries] == list(stops)
        assert all(entry.keys() == {"fingerprint", "until", "reason"} for entry in entries)
        assert [line.partition("  # ")[2] for line in form.splitlines()[1:]] == list(stops.values())
    assert acknowledgement_markdown(FOUND, 1).endswith("# and 1 more\n```")
    assert acknowledgement_markdown(Findings(CHANGES, (LATE,)), 9) == ""


ASKS = replace(FOUND, gates=tuple(gate for gate in GATES if gate.decision is not Decision.REFUSED))


def test_where_an_approval_is_needed_in_any_case_acknowledgements_are_printed_on_request() -> None:
    assert "To acknowledge instead" not in text(ASKS)
    answer = "An approval of the step answers all of this. Acknowledging alone does not, because a minor release needs"
    assert f"\n{answer} approval.\nVerdict of each gate" in text(ASKS, every=True)
    assert acknowledgement_markdown(ASKS, 9) == ""


@pytest.mark.parametrize(
    ("gates", "said"),
    [
        (GATES, "Once these are acknowledged, the step still needs an approval: a minor release needs approval."),
        (
            (*GATES, Verdict("proof", Decision.REFUSED, "it is not\nproven")),
            "Acknowledging these alone does not let the step through: it is not proven.",
        ),
    ],
    ids=["an approval", "a refusal"],
)
def test_what_else_a_step_needs_is_told_before_what_to_acknowledge(gates: tuple[Verdict, ...], said: str) -> None:
    assert f"\n{said}\nTo acknowledge instead, add" in text(replace(FOUND, gates=gates), every=True)


def test_acknowledgements_without_effect_on_a_plan_are_told() -> None:
    now = datetime(2026, 11, 21, tzinfo=UTC)
    until = datetime(2027, 1, 31, tzinfo=UTC)
    given = (
        Acknowledgement(WIDER.fingerprint, until, "known"),
        Acknowledgement(STORED.fingerprint, until, "known"),
        Acknowledgement(TIGHTER.fingerprint, now, "was known"),
        Acknowledgement("0123456789abcdef", until, "of old"),
    )
    assert list(idle_acknowledgements(given, (STEP,), now)) == [
        f"the acknowledgement {TIGHTER.fingerprint} (was known) ended on 2026-11-21",
        "the acknowledgement 0123456789abcdef (of old) matches nothing in the steps of this plan",
    ]
    assert list(idle_acknowledgements(given, (), now)) == []
    final = replace(STEP, hazards=(replace(STORED, final=True),))
    assert f"the acknowledgement {STORED.fingerprint} (known) has no effect: no cluster can build what it is about" in (
        idle_acknowledgements(given, (final,), now)
    )


def test_nothing_is_offered_for_what_cannot_be_acknowledged() -> None:
    found = replace(FOUND, hazards=tuple(replace(it, final=True) for it in FOUND.hazards))
    for every in (False, True):
        assert "acknowledge" not in text(found, every=every).replace("acknowledged", "")
        assert STORED.fingerprint not in text(found, every=every).partition("Verdict")[0]


def test_releases_that_nobody_signed_are_named_once_and_not_told_again_below() -> None:
    verdict = Verdict(UPSTREAM, Decision.AUTO, "upstream not proven: no signature", allowed=True)
    step = replace(STEP, gates=(*STEP.gates, verdict))
    newer = replace(step, new_version=Version.parse("v2.9.9"))
    (told,) = unproven_upstream((step, STEP, newer, newer))
    assert told == f"Not checked: Flux's signature on {STEP.new_version} and v2.9.9; `mirror` downloads it."
    assert f"Flux's signature on {STEP.new_version};" in next(unproven_upstream((step,)))
    assert list(unproven_upstream((STEP, replace(step, decision=Decision.WAIT)))) == []
    assert not [it for it in step_parts(step) if isinstance(it, MarkedLine) and "upstream" in it.text]


def test_a_step_on_hold_is_not_helped_by_acknowledgements() -> None:
    held = replace(ASKS, gates=(*ASKS.gates, Verdict("age", Decision.WAIT, "it is too young")))
    assert "acknowledge" not in text(held).replace("acknowledged", "")


def test_a_step_that_asks_for_nothing_else_can_be_acknowledged() -> None:
    found = replace(ASKS, gates=tuple(gate for gate in ASKS.gates if gate.gate != "kind"))
    page = acknowledgement_markdown(found, 9)
    for form in (text(found, every=True), page):
        entries = yaml.safe_load(form[form.index("acknowledge:") :].partition("\nVerdict of")[0].partition("\n```")[0])
        assert [it["fingerprint"] for it in entries["acknowledge"]] == [UNSEEN.fingerprint, WIDER.fingerprint]


def test_an_acknowledgement_says_of_what_it_is_in_a_line_of_bounded_length() -> None:
    long = replace(TIGHTER, sentence=f"CustomResourceDefinition {POLICIES.name} takes less: @you\n{'a rule ' * 99}")
    page = acknowledgement_markdown(Findings((long,), gates=GATES), 9)
    (line,) = (line for line in page.splitlines() if "fingerprint" in line)
    comment = line.partition("  # ")[2]
    assert comment.startswith(f"crdTightened: {POLICIES.name} takes less: @ you a rule")
    assert len(comment) == 100


def test_what_lets_it_through_is_counted_unless_a_person_allowed_it() -> None:
    allowed = Verdict("edits", Decision.AUTO, f"edits are dropped, {'as allowed ' * 20}", "a file", allowed=True)
    found = replace(FOUND, gates=(*GATES, allowed))
    *_, kind, edits = text(found).splitlines()
    assert kind == "approval, kind: a minor release needs approval"
    assert edits == f"auto, edits: {allowed.reason}"
    (passed,) = [it.to_text() for it in text_parts(found, every=False) if "passed" in it.to_text()]
    assert passed.endswith(", 4 checks passed (-v lists them)")


def test_a_gate_on_what_is_told_above_is_told_there_and_every_other_one_in_full() -> None:
    long = "".join(f"{number:<8}" for number in range(40)).rstrip()
    gates = (Verdict("rbac", Decision.APPROVAL, long), Verdict("proof", Decision.REFUSED, long))
    shown = text(Findings((WIDER,), gates=gates))
    assert f"danger, rbac, approval: {ROLE} {WIDER.sentence}" in shown
    assert f"\nrefused, proof: {long}" in shown
    assert shown.count(long) == 1


def test_of_gates_that_all_let_it_through_the_number_is_told() -> None:
    for number, told in ((2, "2 checks"), (1, "1 check")):
        *_, last = text_parts(Findings(gates=GATES[1 : 1 + number]), every=False)
        assert last.to_text() == f"{told} passed (-v lists them)"
    assert "-v lists them" not in text(Findings(gates=GATES), every=True)


@pytest.mark.parametrize("like_a_number", ["1234567890123456", "0000000000000017", "12345678901234e5"])
def test_a_fingerprint_that_looks_like_a_number_is_a_text_where_it_is_pasted(like_a_number: str) -> None:
    found = Findings((replace(TIGHTER, fingerprint=like_a_number),), gates=GATES)
    page = acknowledgement_markdown(found, 9)
    assert f'fingerprint: "{like_a_number}",' in page
    (entry,) = yaml.safe_load(page.removeprefix("```yaml\n").removesuffix("\n```"))["acknowledge"]
    assert entry["fingerprint"] == like_a_number


def test_what_is_to_be_acknowledged_is_all_of_it_only_where_that_is_enough() -> None:
    refused = {STORED.fingerprint, TIGHTER.fingerprint}
    asking = {WIDER.fingerprint, UNSEEN.fingerprint}
    assert {each for each, _ in FOUND.to_acknowledge()} == refused
    assert {each for each, _ in FOUND.to_acknowledge(every=True)} == refused | asking
    assert {each for each, _ in replace(FOUND, gates=GATES[1:]).to_acknowledge()} == refused | asking


@pytest.mark.parametrize(
    ("gates", "causes"),
    [
        (GATES, ("objects are stored as v1beta2, which v2.9.4 does not have", "CRDs take less")),
        (ASKS.gates, ("there is no kustomize", "RBAC widens")),
        (GATES[:1], ("a minor release",)),
        ((Verdict("files", Decision.APPROVAL, "the overlay changes: a.yaml"),), ("the overlay changes",)),
        ((Verdict("image", Decision.REFUSED, "a"),), ("image changes",)),
        (
            (
                Verdict(
                    "files", Decision.APPROVAL, "the patch of Deployment source-controler is new and matches nothing"
                ),
            ),
            ("the patch of Deployment source-controler is new and matches…",),
        ),
        ((Verdict("proof", Decision.REFUSED, "not proven (layout:a:v1 was not found: b); --c"),), ("not proven",)),
    ],
)
def test_the_causes_of_a_decision_are_told_in_few_words(gates: tuple[Verdict, ...], causes: tuple[str, ...]) -> None:
    assert replace(FOUND, gates=gates).causes() == causes


def test_crds_that_lose_versions_are_told_once() -> None:
    gates = (
        Verdict("crds", Decision.APPROVAL, "gone", "possible"),
        Verdict("crdRemoval", Decision.APPROVAL, "gone"),
    )
    assert Findings(REMOVED, LOST, gates=gates).causes() == ("3 CRDs lose v1beta2 and v2beta2",)


def test_a_fingerprint_that_is_none_is_not_to_be_pasted() -> None:
    odd = replace(TIGHTER, fingerprint="x}\nacknowledge: []")
    assert Findings((odd,), gates=GATES).to_acknowledge() == ()


class TestText:
    def test_a_step_is_told_with_its_versions_and_its_proof(self) -> None:
        first, *rest = step_parts(STEP)
        assert first == MarkedLine("v2.8.8 -> v2.9.4 (minor; rendering tested with this release)")
        assert rest == list(text_parts(FOUND, every=False))
        assert list(step_parts(STEP, every=True))[1:] == list(text_parts(FOUND, every=True))

    @pytest.mark.parametrize("proof", Proof)
    def test_a_step_to_the_same_version_says_what_it_changes(self, proof: Proof) -> None:
        title = step_title(replace(STEP, new_version=STEP.old_version, proof=proof), "to")
        assert title.startswith("v2.8.8, same version (options, files or images change; render")

    def test_a_promotion_says_where_its_bytes_come_from(self) -> None:
        title = step_title(replace(STEP, promoted_from="layout:staging:stable"), "to")
        assert title.endswith("; promoted from layout:staging:stable)")

    def test_flags_that_only_flux_knows_are_named_unless_nothing_was_rendered(self) -> None:
        step = replace(STEP, proof=Proof.DELEGATED, options=Options(others=(("zone", "a"),)))
        told = "rendering made by the release's own flux CLI with flags that this program does not know: --zone)"
        assert step_title(step, "to").endswith(told)
        assert "--zone" not in step_title(replace(step, promoted_from="layout:staging:stable"), "to")

    def test_marks_are_what_has_a_colour(self) -> None:
        lines = [part for part in short(FOUND) if isinstance(part, MarkedLine)]
        marked = {line.text.strip(): line.mark for line in lines if line.mark not in {"", ROW}}
        assert marked == {
            f"certain, crds, refused: {STORED.sentence} ({STORED.fingerprint})": "certain",
            f"unchecked, overlay, approval: {UNSEEN.sentence} ({UNSEEN.fingerprint})": "approval",
            f"advice, compatibility, auto: {LATE.sentence} ({LATE.fingerprint})": "advice",
            f"danger, rbac, approval: {ROLE} {WIDER.sentence}": "danger",
            f"warning, rbac, acknowledged: {ROLE} {KNOWN.sentence}": "warning",
            f"warning, crdTightened, refused: {POLICIES} {TIGHTER.sentence}": "refused",
            "approval, kind: a minor release needs approval": "approval",
            f"CustomResourceDefinition {POLICIES.name}, with every object of its kind": "deletes",
            "Deployment flux-system/old": "warning",
            "Service flux-system/old": "warning",
        }

    def test_without_gates_nothing_is_said_of_what_it_takes(self) -> None:
        every = text(Findings(CHANGES), every=True)
        assert f"\n  danger, rbac: {ROLE} {WIDER.sentence} ({WIDER.fingerprint})\n      spec: a -> b\n" in every
        assert every.count("spec: a -> b") == sum(it.severity is not Severity.INFO for it in CHANGES)
        assert f"\n  danger, rbac: {ROLE} {WIDER.sentence}\n" in text(Findings(CHANGES))

    def test_commands_keep_their_backticks(self) -> None:
        told = replace(STORED, remedies=("Run `flux migrate -f x`.", "Or `a`\nb"))
        said = text(Findings(hazards=(told,)))
        assert said.partition("What to do:\n")[2].startswith("        Run `flux migrate -f x`.\n        Or `a` b\n")

    def test_advice_for_several_comes_after_them(self) -> None:
        both = (replace(STORED, remedies=("migrate", "or this")), replace(STORED, subject="y", remedies=("migrate",)))
        said = text(Findings(hazards=both))
        assert in_order(said, STORED.sentence, "or this", "What to do about several of these:\n    migrate")
        assert said.count("migrate") == 1

    def test_nothing_is_said_of_what_is_not_there(self) -> None:
        assert text(Findings()) == "No object and no file changes."

    def test_what_is_only_counted_makes_no_table(self) -> None:
        assert text(Findings(TEXTS)) == "+ 3 CRD texts (-v lists them)"

    def test_the_few_images_of_a_patch_are_named_where_nothing_needs_a_look(self) -> None:
        runs = [
            replace(IMAGE, old=f"ghcr.io/fluxcd/{it}:v1.2.3@sha256:1a", new=f"ghcr.io/fluxcd/{it}:v1.2.4")
            for it in "abcdefg"
        ]
        four = ", ".join(f"{name}:v1.2.3 -> v1.2.4" for name in "abcd")
        assert text(Findings((*runs[:4], *TEXTS))) == f"+ {four}, 3 CRD texts (-v lists them)"
        assert "+ 7 image changes (-v lists them)" in text(Findings(tuple(runs)))
        assert "+ 4 image changes (-v lists them)" in text(Findings((*runs[:4], KNOWN)))

    def test_what_deserves_a_look_is_listed_whatever_it_is_called(self) -> None:
        found = Findings((replace(NOTE, severity=Severity.NOTICE), NOTE))
        assert NOTE.sentence in text(found)
        assert "+ 1 metadata change (-v lists them)" in text(found)

    def test_the_object_is_not_said_twice(self) -> None:
        said = Findings((replace(IMAGE, sentence=f"{SOURCE} runs another image"),))
        for form in (text(said), markdown(said)):
            assert form.count(str(SOURCE)) == 1
            assert "runs another image" in form

    def test_much_is_cut_unless_all_is_asked_for(self) -> None:
        many = tuple(replace(IMAGE, sentence=f"image {number}") for number in range(75))
        places = tuple(Place("a.yaml", number) for number in range(1, 71))
        found = Findings((*many, WIDER, *TEXTS), (replace(STORED, places=places),))
        short = text(found)
        assert "+ 75 image changes, 3 CRD texts (-v lists them)" in short
        assert WIDER.sentence in short
        assert "image 0" not in short
        assert "a.yaml:60" in short
        assert "a.yaml:61" not in short
        assert "and 10 more places (-v lists them)" in short
        assert "image 74" in text(found, every=True)
        assert "-v lists" not in text(found, every=True)


class TestBrief:
    """A step on a screen: all that asks, and on ten lines something of each section; the rest is counted."""

    @staticmethod
    def lines(found: Findings, width: int | None = None, told: tuple[str, ...] = ()) -> list[str]:
        parts = [part for part in text_parts(found, told, every=False) if isinstance(part, MarkedLine)]
        return [line for part in parts for line in part.lines(width)]

    def test_what_deletes_and_what_warns_is_told_and_the_rest_is_counted(self) -> None:
        lines = self.lines(FOUND)
        block = lines.index("To acknowledge instead, add to the artifact's configuration:")
        assert lines[:block] == [
            "What can break:",
            f"  certain, crds, refused: {STORED.sentence} ({STORED.fingerprint})",
            "      at apps/policy.yaml:12",
            "      what to do: flux migrate -f apps/policy.yaml (-v has more)",
            f"  unchecked, overlay, approval: {UNSEEN.sentence} ({UNSEEN.fingerprint})",
            "What clusters delete (prune):",
            f"  CustomResourceDefinition {POLICIES.name}, with every object of its kind",
            *(f"  {name}" for name in (PRUNED[0], PRUNED[2])),
            "What changes:",
            f"  danger, rbac, approval: {ROLE} {WIDER.sentence}",
            f"  warning, rbac, acknowledged: {ROLE} {KNOWN.sentence}",
            f"  warning, crdTightened, refused: {POLICIES} {TIGHTER.sentence}",
            "+ 3 more lines, 4 checks passed (-v lists them)",
        ]
        assert len(lines[block:]) == 4

    @pytest.mark.parametrize("width", [None, 80, 100, 160])
    def test_ten_lines_are_ten_on_every_terminal_where_nothing_asks(self, width: int | None) -> None:
        harmless = tuple(gate for gate in GATES if gate.decision is Decision.AUTO)
        advice = tuple(replace(LATE, subject=f"s{number}", sentence="word " * 30) for number in range(5))
        found = Findings((IMAGE, *TEXTS, KNOWN, TIGHTER), (*advice, UNSEEN), PRUNED[:1], harmless)
        lines = self.lines(found, width)
        assert len(lines) <= 11
        assert f"({UNSEEN.fingerprint})" in " ".join(lines)
        assert "more lines" in lines[-1]

    def test_rules_that_differ_at_their_end_are_told_apart(self) -> None:
        rules = [f"spec: new rule {'has(self.field) || ' * 9}{name}" for name in ("one", "other")]
        lines = self.lines(Findings(tuple(replace(TIGHTER, sentence=rule, path=rule[-5:]) for rule in rules)), 80)
        assert [line.split()[-1] for line in lines if line.split()[-1].startswith("o")] == ["one", "other"]

    def test_the_numbers_are_told_where_they_alone_would_be_left_out(self) -> None:
        warnings = tuple(
            replace(TIGHTER, sentence=f"spec.{name} is required", path=f"spec.{name}") for name in "abcdefghijkl"
        )
        *told, last = self.lines(Findings((IMAGE, *TEXTS, *warnings)), 80)
        assert len(told) > 10
        assert last == "+ 1 image change, 3 CRD texts (-v lists them)"

    def test_the_first_recipe_is_told_and_that_a_minor_needs_approval_is_not(self) -> None:
        kind = Verdict("kind", Decision.APPROVAL, "a minor release needs approval")
        other = Verdict("soak", Decision.WAIT, "it soaks")
        found = Findings(hazards=(replace(STORED, remedies=("first `a b`", "second")),), gates=(kind, other))
        assert self.lines(found, told=("it soaks",))[2:] == [
            "      at apps/policy.yaml:12",
            "      and 1 more place (-v lists them)",
            "      what to do: first `a b` (-v has more)",
            "No object and no file changes.",
        ]

    def test_much_to_acknowledge_is_no_block(self) -> None:
        many = tuple(replace(TIGHTER, fingerprint=f"{number:016x}") for number in range(6))
        lines = self.lines(Findings(many, gates=GATES[4:5]))
        assert lines[-1] == "-v prints how to acknowledge these 6 findings instead."

    def test_of_nothing_nothing_is_counted(self) -> None:
        assert self.lines(Findings()) == ["No object and no file changes."]
        long = replace(LATE, sentence="word " * 200)
        assert len(self.lines(Findings(hazards=(long,)), 10)) > 0


LOST = tuple(
    Hazard("crds", Certainty.POSSIBLE, f"{kind} {version}", f"{version} of {kind} is removed: clusters refuse it", (),
           (f"only {kind}", "migrate", "or else"), "CRDs lose {}: clusters refuse them", f"{version} of {kind}")
    for kind, version in (("Alert", "v1beta2"), ("Bucket", "v1beta2"), ("HelmRelease", "v2beta2"))
)  # fmt: skip
REMOVED = tuple(
    change(ChangeKind.VERSION_REMOVED, Severity.DANGER, f"{each} removes v1beta2", each)
    for each in (replace(POLICIES, name=f"{name}.toolkit.fluxcd.io") for name in ("alerts", "buckets", "receivers"))
)


KINDS = tuple((each.kind, each.severity) for each in (IMAGE, KNOWN, WIDER, TIGHTER, NOTE, REMOVED[0]))
LENGTHS = st.integers(1, 40)
STEPS_CHANGES = st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from([SOURCE, ROLE, POLICIES]), LENGTHS))
STEPS_HAZARDS = st.lists(st.tuples(st.sampled_from(Certainty), LENGTHS, st.booleans()), max_size=9)


@given(STEPS_CHANGES, STEPS_HAZARDS, st.lists(st.sampled_from(Decision), min_size=20, max_size=20))
def test_what_is_dangerous_or_warns_or_asks_is_on_every_terminal(
    made: list[tuple[tuple[ChangeKind, Severity], ObjectId, int]],
    broken: list[tuple[Certainty, int, bool]],
    decisions: list[Decision],
) -> None:
    changes = tuple(
        change(*kind, f"{where} {'may do much ' * words}{at}", where) for at, (kind, where, words) in enumerate(made)
    )
    hazards = tuple(
        Hazard("crds", sure, f"s{at}", f"clusters {'refuse it ' * words}{at}", (), ("do this",),
               "of {} go" if shared else "", f"v1 of K{at}")
        for at, (sure, words, shared) in enumerate(broken)
    )  # fmt: skip
    ways = iter(decisions)
    gates = tuple(Verdict(name, next(ways), "said", "") for name in dict.fromkeys(it.belongs_to for it in changes))
    gates += tuple(Verdict("crds", next(ways), "said", f"{sure}, x") for sure in dict.fromkeys(it[0] for it in broken))
    gates += (Verdict("soak", next(ways), f"it {'waits long ' * 30}"),)
    found = Findings(changes, hazards, gates=gates)
    stops = {"approval", "refused"}
    wanted = [meaning(it) for it in changes if it.severity is DANGER or found.taken().change(it) == "refused"]
    wanted += [
        it.belongs_to for it in changes if found.taken().change(it) == "approval" or it.severity is Severity.WARNING
    ]  # one of each, or their number
    sure = {"certain", "possible"}
    kinds = [it for it in found.hazards_by_kind() if found.taken().hazard(it[0]) in stops or it[0].certainty in sure]
    wanted += [told_together(kind) for kind in kinds]
    wanted += [gates[-1].reason.strip() for _ in gates if gates[-1].decision in stops]
    shown = " ".join(
        " ".join(line.text for line in text_parts(found, every=False) if isinstance(line, MarkedLine)).split()
    )
    assert [words for words in wanted if words not in shown] == []


def test_a_warning_is_not_folded_where_dangers_fill_the_lines() -> None:
    dangers = tuple(replace(WIDER, sentence=f"{ROLE} may do {n}", object=replace(ROLE, name=str(n))) for n in range(12))
    narrower = change(ChangeKind.NETWORK_NARROWED, Severity.WARNING, "allows ingress on TCP 9292 only")
    found = Findings((*dangers, narrower), (replace(STORED, certainty=Certainty.POSSIBLE),), PRUNED)
    lines = TestBrief.lines(found)
    assert f"  warning, networkPolicyNarrowed: {SOURCE} {narrower.sentence}" in lines
    assert all(any(name in line for line in lines) for name in (*PRUNED, STORED.sentence))
    assert lines[-1] == "+ 1 more line (-v lists them)"  # the second place of the hazard


class TestOfOneKind:
    def test_hazards_share_a_row_and_a_recipe_on_a_terminal_and_each_is_told_on_request(self) -> None:
        shown = text(Findings(hazards=(*LOST, LATE)))
        assert (
            "  possible, crds: 3 CRDs lose v1beta2 (Alert, Bucket) and v2beta2 (HelmRelease): clusters refuse" in shown
        )
        assert shown.count("migrate") == 1
        assert "only Alert" not in shown
        every = text(Findings(hazards=LOST), every=True)
        for it in LOST:
            assert f"{it.sentence} ({it.fingerprint})" in every
            assert it.remedies[0] in every

    def test_hazards_share_a_row_in_markdown_and_each_is_folded_behind_it(self) -> None:
        page = section(Findings(hazards=(*LOST, STORED)), "What can break")
        seen, _, folded = page.partition(
            "them\n  <details>\n  <summary>Each of these, and what to do about it</summary>\n"
        )
        assert seen.endswith("3 CRDs lose v1beta2 (Alert, Bucket) and v2beta2 (HelmRelease): clusters refuse ")
        assert [page.count(words) for words in ("- migrate", "only Alert", LOST[0].fingerprint)] == [1, 1, 1]
        assert "\n\n  </details>\n\nWhat to do about several of these:\n\n- migrate\n- or else" in folded
        assert all(it.fingerprint in folded and f"only {it.name.split()[-1]}" in folded for it in LOST)

    def test_those_with_another_verdict_stand_for_themselves(self) -> None:
        known = (Verdict("acknowledged", Decision.AUTO, "fine", LOST[0].fingerprint),)
        shown = text(Findings(hazards=LOST, gates=known))
        assert f"possible, crds, acknowledged: {LOST[0].sentence} ({LOST[0].fingerprint})" in shown
        assert "2 CRDs lose v1beta2 (Bucket) and v2beta2 (HelmRelease)" in shown

    def test_changes_share_a_row_and_each_is_folded_behind_it(self) -> None:
        found = Findings((*REMOVED, WIDER))
        row = "3 CustomResourceDefinitions (alerts, buckets and receivers)"
        assert f"  danger, crdRemoval: {row}: each removes v1beta2" in text(found)
        seen, _, folded = section(found, "What changes").partition("<summary>Each of these<")
        assert (seen.count(row), seen.count("removes v1beta2"), folded.count("removes v1beta2")) == (1, 1, 3)
        several = (*REMOVED, replace(REMOVED[0], object=SOURCE, sentence=f"{SOURCE} removes v1beta2"))
        assert "4 objects (alerts, buckets, receivers and source-controller)" in text(Findings(several))
        assert "4 objects (alerts, buckets, receivers and 1 more)" in section(Findings(several), "What changes")

    def test_of_many_rows_each_class_has_one_and_the_others_are_counted(self) -> None:
        many = tuple(replace(TIGHTER, sentence=f"rule {number}") for number in range(9))
        found = Findings((*many, WIDER, replace(NOTE, severity=Severity.NOTICE)))
        for form in (text(found), section(found, "What changes", 6)):
            assert in_order(form, WIDER.sentence, "rule 0", "rule 3", NOTE.sentence, "and 5 more crdTightened")
            assert "rule 4" not in form
        assert "and 5 more crdTightened (-v lists them)" in text(found)
        assert "and 1 more rbac, 1 more crdTightened" in section(FOUND, "What changes", 1)

    def test_advice_is_cut_to_two_lines_and_told_in_full_on_request(self) -> None:
        long = replace(LATE, sentence="x" * 300, remedies=("read",))
        parts = [it for it in short(Findings(hazards=(long,))) if isinstance(it, MarkedLine)]
        assert [sum("…" in line for part in parts for line in part.lines(wide)) for wide in (100, None)] == [1, 0]
        assert all(words in text(Findings(hazards=(long,)), every=True) for words in (long.sentence, "read"))


class TestFiles:
    LONG = FileDiff("a/b.yaml", "\n".join(["@@ -1,30 +1,30 @@", *(f"+line {number}" for number in range(30))]))
    RENDERED = FileDiff("./", "-x: 1\n+x: 2 @you `\x1b[2J", rendered=True)
    FOUND = Findings(diffs=(LONG, RENDERED))

    def test_diffs_are_told_on_a_terminal_cut_unless_all_is_asked_for(self) -> None:
        shown, every = text(self.FOUND), text(self.FOUND, every=True)
        assert "What changes in your files:\n  a/b.yaml:\n    @@ -1,30 +1,30 @@\n    +line 0\n" in shown
        rest = "    and 11 more lines (-v lists them)\n  What changes in the rendering of ./:\n    -x: 1\n"
        assert f"    +line 18\n{rest}" in shown
        assert "+line 29" in every
        assert "\x1b" not in shown + every

    def test_files_are_shown_in_markdown_and_the_rendering_is_folded(self) -> None:
        page = section(self.FOUND, "What changes in your files")
        seen, _, folded = page.partition("<details>")
        assert seen.startswith("`a/b.yaml`:\n\n```text\n@@ -1,30 +1,30 @@\n+line 0\n")
        assert "What changes in the rendering of ./</summary>" in folded
        assert "+x: 2 @ you `" in folded
        assert "\x1b" not in folded
        assert "- and 2 more files" in section(Findings(diffs=(self.LONG,) * 3), "What changes in your files", 1)

    def test_before_an_approval_diffs_are_whole_up_to_forty_lines(self) -> None:
        asks = Verdict("files", Decision.APPROVAL, "the overlay changes")
        brief = replace(Findings(gates=(asks,)), diffs=(self.LONG, self.RENDERED, self.LONG, self.LONG))
        lines = TestBrief.lines(brief)
        start = lines.index("What changes in your files:")
        whole = [f"    {line}" for line in self.LONG.text.splitlines()]
        assert lines[start + 1 :] == [
            *("  a/b.yaml:", *whole),
            *("  a/b.yaml:", *whole[:9], "    and 22 more lines (-v lists them)"),
            *("  and 1 more file (-v lists them)", "  and 1 more rendering (-v lists them)"),
        ]
        alone = replace(brief, diffs=(self.RENDERED,))
        assert "  What changes in the rendering of ./:" in TestBrief.lines(alone)
        assert len(TestBrief.lines(replace(brief, gates=()))) < len(lines)

    def test_a_folders_name_over_a_folded_diff_is_no_html(self) -> None:
        found = Findings(diffs=(FileDiff("<img src=x>", "+x", rendered=True),))
        page = section(found, "What changes in your files")
        assert "rendering of &lt;img src=x&gt;</summary>" in page

    def test_a_rendering_that_changes_alone_is_told_as_well(self) -> None:
        page = section(Findings(diffs=(self.RENDERED,)), "What changes in your files")
        assert "+x: 2" in page


class TestMarkdown:
    def test_titles_come_in_the_order_of_danger(self) -> None:
        titles = [it.title.partition(" (")[0] for it in sections(FOUND, Detail.page(9))]
        assert titles == ["What can break", "What clusters delete", "What changes"]

    def test_each_list_is_cut_and_says_so(self) -> None:
        page = markdown(FOUND, 1)
        for words in (
            "- and 2 more hazards", "  - and 1 more place\n", "- and 2 more objects",
            "- and 1 more rbac, 1 more crdTightened", "<summary>6 changes that need no review</summary>",
            "- 3 CRD texts", "- and 8 more gates", "# and 1 more",
        ):  # fmt: skip
            assert words in page

    def test_commands_can_be_copied_and_nothing_else_is_code(self) -> None:
        remedies = ("Run `a | b` and `c -d`, @you.", "`e`", "f <g>")
        page = markdown(Findings(hazards=(replace(STORED, remedies=remedies),)))
        assert "  - Run `a | b` and `c -d`, @ you.\n  - `e`\n  - f \\<g\\>\n" in page

    def test_what_helps_against_several_is_said_once(self) -> None:
        hazards = tuple(replace(STORED, subject=f"{n}", remedies=(f"own {n}", "all", "all")) for n in range(3))
        for form in (text(Findings(hazards=hazards)), markdown(Findings(hazards=hazards))):
            assert [form.count(words) for words in ("own 1", " all", "several of these")] == [1, 1, 1]
        many = replace(STORED, remedies=tuple(f"remedy {n}" for n in range(12)))
        page = markdown(Findings(hazards=(many, LATE)), 10)
        assert "  - remedy 9\n  - and 2 more" in page

    def test_each_hazard_is_one_bullet_with_its_places_under_it(self) -> None:
        page = section(FOUND, "What can break")
        assert page.startswith(
            f"- **certain, crds, refused**: {STORED.sentence} (`{STORED.fingerprint}`)\n"
            "  - at `apps/policy.yaml:12`\n"
            "  - at `overlay/all.yaml`\n"
            "  <details>\n  <summary>What to do</summary>\n\n  - flux migrate -f apps/policy.yaml\n"
        )
        assert page.endswith(
            "\n\n  </details>\n"
            f"- unchecked, overlay, approval: {UNSEEN.sentence} (`{UNSEEN.fingerprint}`)\n"
            f"- advice, compatibility, auto: {LATE.sentence} (`{LATE.fingerprint}`)"
        )

    def test_what_helps_against_one_is_folded_below_it_and_what_helps_against_more_is_not(self) -> None:
        hazards = tuple(
            replace(STORED, subject=f"{n}", remedies=(f"own `{n} | x`", "all"), places=()) for n in range(2)
        )
        page = section(Findings(hazards=(*hazards, LATE)), "What can break")
        assert page == "\n".join(
            (
                *(
                    f"- **certain, crds**: {it.sentence} (`{it.fingerprint}`)\n  <details>\n"
                    f"  <summary>What to do</summary>\n\n  - own `{n} | x`\n\n  </details>"
                    for n, it in enumerate(hazards)
                ),
                f"- advice, compatibility: {LATE.sentence} (`{LATE.fingerprint}`)\n",
                "What to do about several of these:\n\n- all",
            )
        )

    def test_what_needs_no_look_is_folded(self) -> None:
        seen, _, folded = section(FOUND, "What changes").partition("\n\n<details>\n")
        assert [it.sentence in seen for it in (WIDER, KNOWN, TIGHTER, IMAGE)] == [True, True, True, False]
        assert folded == (
            "<summary>6 changes that need no review</summary>\n\n"
            f"- info, image, auto: `{SOURCE}` {IMAGE.sentence}\n"
            "- 3 CRD texts, 1 version label, 1 metadata change\n\n</details>"
        )
        alone = section(Findings((IMAGE,)), "What changes")
        assert alone.startswith(
            "1 image.\n\n<details>\n<summary>1 change that needs no review</summary>\n\n- info, image:"
        )
        assert "details" not in section(Findings((WIDER,)), "What changes")

    @pytest.mark.parametrize("it", [IMAGE, LABEL], ids=lambda it: str(it.kind))
    def test_what_a_gate_stops_is_listed_and_seen_however_harmless_it_is(self, it: Change) -> None:
        gates = (Verdict(str(it.belongs_to), Decision.APPROVAL, "x", "the policy escalates it"),)
        found = Findings((it,), gates=gates)
        page = section(found, "What changes")
        assert it.sentence in page
        assert "details" not in page
        assert it.sentence in text(found)
        assert list(found.counted()) == []

    def test_what_needs_a_look_stands_out(self) -> None:
        page = markdown(FOUND)
        for strong in (
            "**certain, crds, refused**",
            f"- **danger, rbac, approval**: `{ROLE}`",
            "| **refused** | crds |",
        ):
            assert strong in page
        assert f"- **CustomResourceDefinition {POLICIES.name}, with every object of its kind**" in page
        assert "\n- unchecked, overlay, approval: " in page

    def test_nothing_is_said_of_what_is_not_there(self) -> None:
        assert markdown(Findings()).strip() == "### What changes\n\nNo object and no file changes."
        assert section(Findings(TEXTS), "What changes") == (
            "3 crdText.\n\n<details>\n<summary>3 changes that need no review</summary>\n\n- 3 CRD texts\n\n</details>"
        )


HOSTILE = st.text(max_size=30) | st.sampled_from(
    [
        "|x|", "a\n| b |", "`|`", "@octocat", "Fixes #1", "</details>", "<!-- x -->", "```\n", "# heading", "- a\n- b",
        "![x](https://evil.example/x.png)", "\x1b[2J\x1b[31m", "\u202egnp.exe", "::error::owned", "\r\nsafe",
    ]
)  # fmt: skip


def kinds(page: str) -> list[str]:
    return [token.type for token in MarkdownIt("commonmark").enable("table").parse(page)]


def findings(words: list[str]) -> Findings:
    """Return findings that have these words in every place that has words."""
    a, b, c, d, e = words
    where = ObjectId(a, b, c, d)
    changes = tuple(Change(kind, where, Severity.INFO, a, b, c, d, e) for kind in (ChangeKind.IMAGE, ChangeKind.TEXT))
    hazard = Hazard(a, Certainty.CERTAIN, b, c, (Place(d, 3), Place(e)), ("x" + a, b))
    return Findings(changes, (hazard,), (a, f"CustomResourceDefinition {b}"), (Verdict(a, Decision.AUTO, b, c),))


@given(st.lists(HOSTILE, min_size=5, max_size=5))
def test_no_words_break_out_or_act(words: list[str]) -> None:
    found, tame = findings(words), findings(["a"] * 5)
    assert [it for it in kinds(markdown(found)) if it not in {"paragraph_open", "inline", "paragraph_close"}] == [
        it for it in kinds(markdown(tame)) if it not in {"paragraph_open", "inline", "paragraph_close"}
    ]
    assert "@octocat" not in markdown(found)
    for parts, others in ((text_parts(found, every=True), text_parts(tame, every=True)), (short(found), short(tame))):
        for part, _ in zip(parts, others, strict=True):
            assert part.to_text().count("\n") == (len(part.rows) if isinstance(part, Table) else 0)
            assert not {"\x1b", "\r"} & set(part.to_text())


def test_the_longest_is_bounded_by_the_rows() -> None:
    found = findings(["|" * 5000] * 5)
    many = Findings(found.changes * 200, found.hazards * 200, found.pruned * 200, found.gates * 200)
    assert len(markdown(many, 3)) < 35_000


def test_every_class_can_be_counted() -> None:
    every = tuple(change(kind, Severity.INFO, "x") for kind in ChangeKind)
    assert {word.split()[1] for word in Findings(every).count().split(", ")} == set(ChangeClass)
