# ruff: noqa: E501 - the tables have a row a line
"""The gates on an artifact's content, and how verdicts come to one decision."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from ci_automation.flux.proof import Proof
from ci_automation.flux.version import Version
from ci_automation.policy.content import Content, content_verdicts
from ci_automation.policy.decision import Decision, Verdict, decide, reasons
from ci_automation.policy.gates import Situation
from ci_automation.policy.model import Allowance, Policy
from ci_automation.report.findings import Findings
from ci_automation.report.text import because

NOW = datetime(2026, 7, 1, tzinfo=UTC)
SITUATION = Situation(Version.parse("v2.8.8"), Policy(), NOW)
CRD = "CustomResourceDefinition/imagepolicies.image.toolkit.fluxcd.io"


@pytest.mark.parametrize(
    ("change", "decision", "said"),
    [
        pytest.param({}, "auto", "its rendering is proven: known", id="nothing but the version"),
        pytest.param(
            {"removed": (CRD,)},
            "refused",
            f"1 object would be removed; --allow-removal allows that: {CRD}",
            id="a CRD would be removed",
        ),
        pytest.param(
            {"removed": (CRD,), "removal_allowed": True},
            "auto",
            f"{CRD} would be removed, which --allow-removal allows",
            id="a CRD may vanish",
        ),
        pytest.param(
            {
                "edits_dropped": True,
                "edits_allowance": Allowance("sha256:0", NOW + timedelta(days=1), "they are patches"),
            },
            "auto",
            "hand edits of the components file are dropped, which the configuration allows until 2026-07-02: they are patches",
            id="edits that the configuration drops",
        ),
        pytest.param(
            {"options_changed": ("registry",)}, "approval", "the options change: registry", id="changed options"
        ),
        pytest.param(
            {"overlay_changed": ("kustomization.yaml",)},
            "approval",
            "the overlay changes: kustomization.yaml",
            id="a changed overlay",
        ),
        pytest.param(
            {"edits_dropped": True},
            "auto",
            "hand edits of the components file are dropped, which --accept-edits allows",
            id="edits that the user lets go",
        ),
        pytest.param(
            {"proof": Proof.CALIBRATED, "proof_detail": "upstream's own has the same bytes"},
            "auto",
            "its rendering is proven: calibrated (upstream's own has the same bytes)",
            id="calibrated",
        ),
        pytest.param(
            {"proof": Proof.DELEGATED, "proof_detail": "its own flux CLI made it"},
            "auto",
            "its rendering is proven: delegated (its own flux CLI made it)",
            id="delegated",
        ),
        pytest.param(
            {"proof": Proof.NONE},
            "refused",
            "the rendering of this release is not proven; --unsafe-unproven-rendering publishes it anyway",
            id="unproven",
        ),
        pytest.param(
            {"proof": Proof.NONE, "proof_detail": "in Deployment/x, one line differs"},
            "refused",
            "the rendering of this release is not proven (in Deployment/x, one line differs); "
            "--unsafe-unproven-rendering publishes it anyway",
            id="unproven, and why",
        ),
        pytest.param(
            {"proof": Proof.NONE, "proof_detail": "a line differs", "unproven_allowed": True},
            "auto",
            "the rendering is not proven (a line differs), which --unsafe-unproven-rendering allows",
            id="unproven, and taken anyway",
        ),
        pytest.param(
            {"unsigned": True},
            "auto",
            "upstream not proven: no signature shows that Flux published this release",
            id="a release that nobody signed",
        ),
    ],
)
def test_gates_on_content(change: dict[str, object], decision: str, said: str) -> None:
    verdicts = content_verdicts(replace(Content(), **change), SITUATION)  # type: ignore[arg-type]
    assert decide(verdicts) == Decision(decision)
    assert said in [verdict.reason for verdict in verdicts]


@pytest.mark.parametrize(
    ("days", "names", "said"),
    [
        pytest.param((1,), (CRD,), f"{CRD} would be removed, which the configuration allows until 2026-07-02: unused", id="on"),
        pytest.param((0,), (CRD,), f"1 object would be removed; --allow-removal allows that: {CRD} (the permission in the configuration ended on 2026-07-01)", id="over"),
        pytest.param((0, 1), (CRD,), f"{CRD} would be removed, which the configuration allows until 2026-07-02: unused", id="renewed"),
        pytest.param((1,), (CRD, "Deployment/x"), "1 object would be removed; --allow-removal allows that: Deployment/x", id="something else too"),
        pytest.param((), (CRD, "Deployment/x"), f"2 objects would be removed; --allow-removal allows that: {CRD}, Deployment/x", id="two"),
        pytest.param((), (CRD,), f"1 object would be removed; --allow-removal allows that: {CRD}", id="none"),
    ],
)  # fmt: skip
def test_the_configuration_allows_one_removal_until_a_date(
    days: tuple[int, ...], names: tuple[str, ...], said: str
) -> None:
    allowed = tuple(Allowance(CRD, NOW + timedelta(days=number), "unused") for number in days)
    situation = replace(SITUATION, policy=Policy(allow_removal=allowed))
    [removal] = [it for it in content_verdicts(Content(removed=names), situation) if it.gate == "removal"]
    assert (removal.reason, removal.allowed) == (said, "which" in said)


def test_a_headline_says_that_objects_would_be_removed_and_what_allows_it() -> None:
    removed = (CRD, *(f"Deployment/{number}" for number in range(10)))
    told = because(Findings(gates=content_verdicts(Content(proof=Proof.KNOWN, removed=removed), SITUATION)))
    assert told == ": 11 objects would be removed; --allow-removal allows that"


def verdict(decision: Decision) -> Verdict:
    return Verdict("gate", decision, f"because {decision}")


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([Decision.AUTO, Decision.APPROVAL], Decision.APPROVAL),
        ([Decision.WAIT, Decision.APPROVAL, Decision.AUTO], Decision.WAIT),
        ([Decision.REFUSED, Decision.WAIT], Decision.REFUSED),
        ([Decision.AUTO], Decision.AUTO),
    ],
)
def test_the_gravest_verdict_decides(verdicts: list[Decision], expected: Decision) -> None:
    assert decide(map(verdict, verdicts)) is expected


def test_no_gate_at_all_lets_nothing_through() -> None:
    with pytest.raises(ValueError, match="empty"):
        decide([])


def test_reasons_are_those_that_stop() -> None:
    assert reasons(map(verdict, [Decision.AUTO, Decision.WAIT])) == ("because wait",)


def test_the_gravest_reason_comes_first() -> None:
    said = reasons(map(verdict, [Decision.APPROVAL, Decision.WAIT, Decision.REFUSED]))
    assert said == ("because refused", "because wait", "because approval")


def test_where_nothing_stops_the_telling_passes_are_the_reasons() -> None:
    passes = [
        Verdict("age", Decision.AUTO, "it is 184 days old"),
        Verdict("freeze", Decision.AUTO, "no freeze is active"),
    ]
    assert reasons(passes) == ("it is 184 days old",)


def test_of_content_that_nobody_rendered_no_gate_speaks_on_proof_or_edits() -> None:
    gates = {it.gate for it in content_verdicts(Content(), SITUATION)}
    assert gates - {it.gate for it in content_verdicts(Content(), SITUATION, rendered=False)} == {"proof", "edits"}
