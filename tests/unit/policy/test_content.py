"""The gates on what changes and what can break: by class, by certainty, and what was acknowledged."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert
from msgspec.structs import replace

from ci_automation.flux.version import Version
from ci_automation.impact.assess import Cleared
from ci_automation.impact.change import (
    Certainty,
    Change,
    ChangeClass,
    ChangeKind,
    Hazard,
    ObjectId,
    Place,
    Severity,
    fingerprint,
)
from ci_automation.policy.content import Content, content_verdicts
from ci_automation.policy.decision import Decision, Verdict, decide, reasons
from ci_automation.policy.gates import Situation
from ci_automation.policy.model import ESCALATE, NOT_CHECKED, Acknowledgement, InvalidFingerprint, Policy

if TYPE_CHECKING:
    from collections.abc import Iterable

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
ROLE = ObjectId("rbac.authorization.k8s.io", "ClusterRole", "", "flux-edit-flux-system")
DEPLOYMENT = ObjectId("apps", "Deployment", "flux-system", "source-controller")


def change(kind: ChangeKind, sentence: str = "something is other", of: ObjectId = DEPLOYMENT) -> Change:
    return Change(kind, of, Severity.INFO, sentence, fingerprint=fingerprint(kind, sentence))


def hazard(certainty: Certainty, subject: str = "helmreleases v2beta1") -> Hazard:
    return Hazard("crds", certainty, subject, f"{subject} is gone", (Place("a.yaml", 3),), ("flux migrate",))


IMAGE = change(ChangeKind.IMAGE, "source-controller goes from v1.9.3 to v1.9.4")
LABEL = change(ChangeKind.VERSION_LABEL)
RULE = change(ChangeKind.RULE_ADDED, "ClusterRole flux-edit may now create artifactgenerators", ROLE)
BREAK = hazard(Certainty.CERTAIN)


@pytest.mark.parametrize("merged", [False, True])
def test_a_merge_answers_the_options_and_the_files_and_nothing_else(*, merged: bool) -> None:
    content = Content(options_changed=("log-level",), overlay_changed=("a.yaml (new)",), changes=(RULE,), merged=merged)
    found = {it.gate: it for it in content_verdicts(content, situation())}
    wanted = (Decision.AUTO, True) if merged else (Decision.APPROVAL, False)
    assert [(found[gate].decision, found[gate].allowed) for gate in ("options", "files")] == [wanted, wanted]
    assert found["files"].reason.endswith(", which a merge approved") is merged
    assert found["rbac"].decision is Decision.APPROVAL


def situation(**policy: object) -> Situation:
    return Situation(Version.parse("v2.9.3"), replace(Policy(), **policy), NOW)  # type: ignore[arg-type]


def verdicts(changes: Iterable[Change] = (), hazards: Iterable[Hazard] = (), **policy: object) -> tuple[Verdict, ...]:
    return content_verdicts(Content(changes=tuple(changes), hazards=tuple(hazards)), situation(**policy))


def known(what: Change | Hazard, until: datetime = NOW + timedelta(days=1)) -> tuple[Acknowledgement, ...]:
    return (Acknowledgement(what.fingerprint, until, "nobody uses it"),)


class TestChanges:
    def test_images_alone_are_said_to_be_that_and_stop_nothing(self) -> None:
        found = verdicts([IMAGE, LABEL])
        assert decide(found) is Decision.AUTO
        assert "only images change" in reasons(found)

    @pytest.mark.parametrize(
        ("kinds", "said"),
        [
            ([ChangeKind.VERSION_LABEL], "only labels with the version change"),
            ([ChangeKind.TEXT], "only CRD texts change"),
            ([ChangeKind.TEXT, ChangeKind.IMAGE, ChangeKind.VERSION_LABEL], "only images and CRD texts change"),
            ([ChangeKind.IMAGE, ChangeKind.TEXT, ChangeKind.METADATA], "only images, CRD texts and metadata change"),
        ],
    )
    def test_what_clusters_do_not_behave_differently_by_is_told_in_words(
        self, kinds: list[ChangeKind], said: str
    ) -> None:
        assert said in reasons(verdicts([change(kind) for kind in kinds]))

    def test_what_has_no_class_is_never_images_only_and_asks(self) -> None:
        found = verdicts([IMAGE, change(ChangeKind.OTHER)])
        assert decide(found) is Decision.APPROVAL
        assert not any("only images" in verdict.reason for verdict in found)

    @pytest.mark.parametrize("kind", sorted(ChangeKind))
    def test_exactly_the_escalated_classes_ask(self, kind: ChangeKind) -> None:
        asks = decide(verdicts([change(kind)])) is Decision.APPROVAL
        assert asks == (kind.belongs_to in ESCALATE)

    @pytest.mark.parametrize(
        ("kinds", "decision"),
        [
            pytest.param([ChangeKind.ROLE_REMOVED], Decision.AUTO, id="a role is gone"),
            pytest.param([ChangeKind.RULE_REMOVED], Decision.AUTO, id="a rule is gone"),
            pytest.param([ChangeKind.RULE_NARROWED], Decision.AUTO, id="a rule permits less"),
            pytest.param([ChangeKind.BINDING_REMOVED], Decision.AUTO, id="a binding is gone"),
            pytest.param([ChangeKind.SUBJECT_REMOVED], Decision.AUTO, id="a subject is gone"),
            pytest.param([ChangeKind.NETWORK_NARROWED], Decision.AUTO, id="a policy allows less"),
            pytest.param([ChangeKind.RULE_WIDENED], Decision.APPROVAL, id="a rule permits more"),
            pytest.param([ChangeKind.ROLE_REFERENCE], Decision.APPROVAL, id="a binding gives another role"),
            pytest.param([ChangeKind.NETWORK_OPENED], Decision.APPROVAL, id="a policy allows more"),
            pytest.param([ChangeKind.NETWORK_POLICY_ADDED], Decision.APPROVAL, id="a new policy, which adds to others"),
            pytest.param([ChangeKind.NETWORK_POLICY_REMOVED], Decision.APPROVAL, id="a policy is gone"),
            pytest.param(
                [ChangeKind.RULE_REMOVED, ChangeKind.RULE_ADDED], Decision.APPROVAL, id="one rule for another"
            ),
        ],
    )
    def test_a_patch_that_only_narrows_stays_automatic(self, kinds: list[ChangeKind], decision: Decision) -> None:
        assert decide(verdicts(map(change, kinds))) is decision

    @pytest.mark.parametrize("kind", sorted(ChangeKind))
    def test_any_class_can_be_let_through_asked_for_or_refused(self, kind: ChangeKind) -> None:
        name = kind.belongs_to
        assert decide(verdicts([change(kind)], escalate=frozenset())) is Decision.AUTO
        assert decide(verdicts([change(kind)], escalate=frozenset({name}))) is Decision.APPROVAL
        assert decide(verdicts([change(kind)], refuse=frozenset({str(name)}))) is Decision.REFUSED

    def test_each_class_has_one_verdict_with_what_it_looked_at(self) -> None:
        found = {verdict.gate: verdict for verdict in verdicts([RULE, replace(RULE, fingerprint="0" * 16), IMAGE])}
        assert found["rbac"].reason == f"{RULE.sentence}, and 1 more of rbac"
        assert found["rbac"].looked_at == f"the policy escalates rbac, 2 changes, {RULE.fingerprint}, {'0' * 16}"
        assert found["image"].looked_at == "the policy allows image, 1 change"
        assert found["changes"].reason == "changes by class: 2 rbac, 1 image"

    def test_no_change_has_no_verdict_and_every_other_gate_its_own(self) -> None:
        found = verdicts()
        assert {verdict.gate for verdict in found} == {"removal", "proof", "options", "files", "edits"}
        assert all(verdict.looked_at and verdict.decision is Decision.AUTO for verdict in found)


class TestHazards:
    @pytest.mark.parametrize(
        ("certainty", "decision"),
        [
            (Certainty.ADVICE, Decision.AUTO),
            (Certainty.UNCHECKED, Decision.APPROVAL),
            (Certainty.POSSIBLE, Decision.APPROVAL),
            (Certainty.CERTAIN, Decision.REFUSED),
        ],
    )
    def test_what_is_sure_is_refused_and_what_may_be_asks(self, certainty: Certainty, decision: Decision) -> None:
        assert decide(verdicts(hazards=[hazard(certainty)])) is decision

    def test_what_was_not_checked_is_refused_where_the_policy_says_so(self) -> None:
        policy = frozenset({NOT_CHECKED})
        assert decide(verdicts(hazards=[hazard(Certainty.UNCHECKED)], refuse=policy)) is Decision.REFUSED
        assert decide(verdicts(hazards=[hazard(Certainty.POSSIBLE)], refuse=policy)) is Decision.APPROVAL

    def test_who_looked_and_found_nothing_says_so_and_where_something_is_found_that_is_said_instead(self) -> None:
        cleared = (Cleared("crds", "fine", "2 snapshots"), Cleared("images", "fine", "x"))
        found = content_verdicts(Content(hazards=(BREAK,), cleared=cleared), situation())
        assert [verdict.gate for verdict in found if verdict.gate in {"crds", "images"}] == ["crds", "images"]
        assert [verdict.reason for verdict in found if verdict.gate == "crds"] == [BREAK.sentence]


class TestAcknowledged:
    @pytest.mark.parametrize("what", [RULE, BREAK], ids=["a change", "a hazard"])
    def test_it_stops_nothing_and_is_told_with_its_reason(self, what: Change | Hazard) -> None:
        changes, hazards = ([what], []) if isinstance(what, Change) else ([], [what])
        found = verdicts(changes, hazards, acknowledge=known(what))
        assert decide(found) is Decision.AUTO
        assert f"{what.sentence}; acknowledged until 2026-07-02: nobody uses it" in reasons(found)

    @pytest.mark.parametrize("what", [RULE, BREAK], ids=["a change", "a hazard"])
    def test_it_ends_with_its_date_and_that_is_told(self, what: Change | Hazard) -> None:
        changes, hazards = ([what], []) if isinstance(what, Change) else ([], [what])
        found = verdicts(changes, hazards, acknowledge=known(what, NOW))
        assert decide(found) is not Decision.AUTO
        assert f"{what.sentence} (the acknowledgement ended on 2026-07-01)" in reasons(found)

    def test_of_many_some_are_told_and_the_rest_is_counted(self) -> None:
        many = [hazard(Certainty.CERTAIN, f"kind {number}") for number in range(5)]
        found = verdicts(hazards=many, acknowledge=tuple(known(each)[0] for each in many))
        assert reasons(found)[-1] == "3 more that a person has allowed"

    def test_another_change_of_the_same_class_still_asks(self) -> None:
        other = change(ChangeKind.RULE_ADDED, "ClusterRole flux-edit may now read secrets", ROLE)
        found = verdicts([RULE, other], acknowledge=known(RULE))
        assert decide(found) is Decision.APPROVAL
        assert [verdict.reason for verdict in found if verdict.gate == "rbac"] == [other.sentence]

    def test_that_it_may_break_does_not_cover_that_it_does(self) -> None:
        possible = hazard(Certainty.POSSIBLE)
        assert decide(verdicts(hazards=[BREAK], acknowledge=known(possible))) is Decision.REFUSED

    def test_it_does_not_count_for_what_no_cluster_can_build(self) -> None:
        final = replace(BREAK, final=True)
        found = verdicts(hazards=[final], acknowledge=known(final))
        assert decide(found) is Decision.REFUSED
        assert not any(it.gate == "acknowledged" for it in found)

    def test_what_is_let_through_anyway_is_not_told_as_acknowledged(self) -> None:
        assert not any(it.gate == "acknowledged" for it in verdicts([IMAGE], acknowledge=known(IMAGE)))

    @pytest.mark.parametrize("text", ["", "0123456789abcde", "0123456789ABCDEF", "0123456789abcdef0"])
    def test_what_is_no_fingerprint_is_told(self, text: str) -> None:
        with pytest.raises(InvalidFingerprint, match="is not a fingerprint"):
            Acknowledgement(text, NOW, "x")


@given(st.lists(st.text(), max_size=4), st.lists(st.text(), max_size=4))
def test_fingerprints_of_other_parts_differ(some: list[str], others: list[str]) -> None:
    assert (fingerprint(*some) == fingerprint(*others)) == (some == others)


def test_every_kind_belongs_to_one_class_and_every_class_has_a_kind() -> None:
    assert {kind.belongs_to for kind in ChangeKind} == set(ChangeClass)


@pytest.mark.parametrize("what", [RULE, BREAK])
def test_documents_bring_back_what_was_written(what: Change | Hazard) -> None:
    assert convert(what.to_json(), type(what)) == what


@pytest.mark.parametrize(
    ("what", "text"),
    [
        (ROLE, "ClusterRole flux-edit-flux-system"),
        (DEPLOYMENT, "Deployment flux-system/source-controller"),
        (Place("a.yaml", 3), "a.yaml:3"),
        (Place("a.yaml"), "a.yaml"),
    ],
    ids=str,
)
def test_what_people_read(what: ObjectId | Place, text: str) -> None:
    assert str(what) == text
