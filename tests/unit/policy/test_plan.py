"""The plan's document: read back as it was written, and refused in any other shape."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from ci_automation.artifact.reference import Digest, Reference
from ci_automation.flux.options import Options
from ci_automation.flux.proof import Proof
from ci_automation.flux.version import Version
from ci_automation.impact.change import Certainty, Hazard, Severity, hazard_names
from ci_automation.impact.rights import FolderRights, Right
from ci_automation.policy.decision import Decision, Verdict
from ci_automation.policy.plan import ImageChange, InvalidPlan, PassedOver, Plan, PlannedStep

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST, SECOND, THIRD, FOURTH = (Digest.of(text) for text in (b"first", b"second", b"third", b"fourth"))

PATCH = PlannedStep(
    old_version=Version.parse("2.8.5"),
    new_version=Version.parse("2.8.8"),
    base=FIRST,
    target=SECOND,
    decision=Decision.AUTO,
    reasons=("a patch release is published without approval",),
    options=Options(namespace="fleet", watch_all_namespaces=False, toleration_keys=("a", "b/c")),
    overlay=Digest.of(b"overlay"),
    release=Digest.of(b"release"),
    proof=Proof.KNOWN,
    images=(
        ImageChange(
            "source-controller", "ghcr.io/fluxcd/source-controller:v1.8.2", "ghcr.io/fluxcd/source-controller:v1.8.5"
        ),
    ),
    rights=(
        FolderRights(
            ".", (Right("", ("Group a",), "Role b", "RoleBinding c", "get secrets", Severity.DANGER),), "why", 1
        ),
    ),
)
MINOR = replace(
    PATCH,
    old_version=Version.parse("2.8.8"),
    new_version=Version.parse("2.9.4"),
    base=SECOND,
    target=THIRD,
    decision=Decision.APPROVAL,
    proof=Proof.NONE,
    added=("Deployment/source-watcher",),
    removed=("CustomResourceDefinition/x.y",),
    gates=(Verdict("edits", Decision.AUTO, "edits are dropped", "a file", allowed=True),),
)
PLAN = Plan(
    Reference.parse("oci://ghcr.io/acme/flux-manifests:production"),
    Version.parse("2.8.5"),
    FIRST,
    (PATCH, MINOR),
    (PassedOver(Version.parse("3.0.0"), Decision.REFUSED, ("a major release is never published under this policy",)),),
)


BESIDE = replace(PATCH, old_version=MINOR.old_version, new_version=MINOR.old_version, base=SECOND, target=FOURTH)
FORKED = replace(PLAN, steps=(PATCH, BESIDE, MINOR))


@pytest.mark.parametrize(
    ("gates", "changes"),
    [
        ((), False),
        ((Verdict("files", Decision.AUTO, ""), Verdict("options", Decision.AUTO, "")), False),
        ((Verdict("files", Decision.APPROVAL, ""),), True),
        ((Verdict("files", Decision.AUTO, "", allowed=True),), True),
        ((Verdict("options", Decision.APPROVAL, ""),), True),
        ((Verdict("rbac", Decision.APPROVAL, ""),), False),
    ],
)
def test_a_step_changes_content_by_its_gates(gates: tuple[Verdict, ...], *, changes: bool) -> None:
    assert replace(MINOR, gates=gates).changes_content is changes


def test_two_steps_can_start_from_the_same_digest() -> None:
    assert Plan.parse(FORKED.to_text().encode()) == FORKED


@pytest.mark.parametrize(
    ("digest", "path"),
    [(FIRST, ()), (SECOND, (PATCH,)), (THIRD, (PATCH, MINOR)), (FOURTH, (PATCH, BESIDE)), (Digest.of(b"other"), None)],
)
def test_the_steps_to_a_digest(digest: Digest, path: tuple[PlannedStep, ...] | None) -> None:
    assert FORKED.path_to(digest) == path


def test_a_circle_of_steps_leads_nowhere() -> None:
    circle = replace(MINOR, base=THIRD)
    assert replace(PLAN, steps=(circle,)).path_to(THIRD) is None


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ((), (PATCH, BESIDE, MINOR)),
        ((PATCH,), (PATCH, BESIDE, MINOR)),
        ((PATCH, MINOR), (PATCH, MINOR)),
        ((PATCH, BESIDE), (PATCH, BESIDE)),
    ],
)
def test_what_starts_from_a_digest_that_was_left_is_left_out(
    path: tuple[PlannedStep, ...], steps: tuple[PlannedStep, ...]
) -> None:
    assert FORKED.going(path).steps == steps


def test_a_plan_reads_back_as_it_was_written() -> None:
    assert Plan.parse(PLAN.to_text().encode()) == PLAN


def test_the_document_has_the_parts_that_others_rely_on() -> None:
    value = json.loads(PLAN.to_text())
    assert value["schema"] == "flux-manifests.plan/v1"
    assert value["artifact"] == "oci://ghcr.io/acme/flux-manifests:production"
    assert value["digest"] == str(PLAN.digest)
    step = value["steps"][0]
    assert (step["from"], step["to"], step["base"], step["target"]) == ("v2.8.5", "v2.8.8", str(FIRST), str(SECOND))
    assert step["decision"] == "auto"
    assert value["steps"][1]["base"] == step["target"]
    assert value["steps"][1]["gates"] == [
        {"gate": "edits", "verdict": "auto", "reason": "edits are dropped", "input": "a file", "allowed": True}
    ]


@pytest.mark.parametrize("proof", Proof)
def test_each_proof_has_its_word_in_the_document(proof: Proof) -> None:
    step = replace(PATCH, proof=proof)
    assert step.to_json()["proof"] == proof.value
    assert PlannedStep.from_json(step.to_json()) == step


def test_kinds_of_steps() -> None:
    assert PATCH.kind == "patch"
    assert MINOR.kind == "minor"
    assert replace(PATCH, new_version=PATCH.old_version).kind == "content"


def test_any_other_content_has_another_digest() -> None:
    assert replace(PLAN, steps=(PATCH,)).digest != PLAN.digest


def with_digest(value: dict[str, Any]) -> dict[str, Any]:
    """Give an edited document the digest that fits it, as an attacker would."""
    from ci_automation.policy.plan import _canonical

    body = {key: item for key, item in value.items() if key != "digest"}
    return {**body, "digest": str(Digest.of(_canonical(body)))}


def edit(change: Callable[[dict[str, Any]], object]) -> bytes:
    value = PLAN.to_json()
    change(value)
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(b"not json", "not JSON", id="not JSON"),
        pytest.param(b"[" * 100_000, "not JSON", id="nested without end"),
        pytest.param(b"[]", "its schema is None", id="a list"),
        pytest.param(b'{"schema": 1, "schema": 2}', "it has the key .schema. twice", id="a key twice"),
        pytest.param(edit(lambda v: v["steps"][0].update(reasons=["\ud800"])), "malformed", id="half a surrogate"),
        pytest.param(
            b'{"schema": "flux-manifests.plan/v2"}', "its schema is 'flux-manifests.plan/v2'", id="another schema"
        ),
        pytest.param(b'{"schema": "flux-manifests.plan/v1"}', "missing or malformed", id="nothing in it"),
        pytest.param(
            edit(lambda v: v.update(artifact="oci://evil.example/x:y")), "edited", id="another artifact written in"
        ),
        pytest.param(edit(lambda v: v["steps"][1].update(decision="auto")), "edited", id="a decision made milder"),
        pytest.param(edit(lambda v: v["steps"][0].update(target="sha256:zz")), "malformed", id="a digest that is none"),
        pytest.param(edit(lambda v: v["steps"][0].update(decision="yes")), "malformed", id="a decision that is none"),
        pytest.param(edit(lambda v: v["steps"][0].update(proof="sure")), "malformed", id="a proof that is none"),
        pytest.param(edit(lambda v: v["steps"][1].update(proof="known")), "edited", id="a proof made better"),
        pytest.param(edit(lambda v: v["steps"].append(7)), "malformed", id="a step that is none"),
        pytest.param(edit(lambda v: v.update(comment="hello")), "edited", id="something added"),
        pytest.param(
            edit(lambda v: v["steps"][0]["options"].update(colour="red")), "edited", id="an option of nobody's"
        ),
        pytest.param(edit(lambda v: v.update(artifact="oci://ghcr.io/acme/x")), "malformed", id="no channel"),
        pytest.param(
            edit(lambda v: v["current"].update(since="0001-01-01T00:00:00+23:59")), "malformed", id="before all time"
        ),
    ],
)
def test_what_is_not_a_plan_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(InvalidPlan, match=reason):
        Plan.parse(data)


@pytest.mark.parametrize("value", [[1], [None], [["a"]], "text", 1, None], ids=str)
@pytest.mark.parametrize("place", ["reasons", "added", "removed", "pruned", "passedOver", "pinned"])
def test_what_is_not_a_text_where_texts_belong_is_refused_even_with_a_fitting_digest(place: str, value: object) -> None:
    value_of = PLAN.to_json()
    passed = {"version": "v3.0.0", "decision": "refused", "reasons": value}
    first = value_of["steps"][0]
    edited = {"passedOver": passed} | dict.fromkeys(("added", "removed"), first["changes"])
    edited.get(place, first).update({} if place == "passedOver" else {place: value})
    value_of["passedOver"] = [passed] if place == "passedOver" else []
    with pytest.raises(InvalidPlan, match="malformed"):
        Plan.parse(json.dumps(with_digest(value_of)).encode())


def test_steps_that_do_not_follow_one_another_are_refused_even_with_a_fitting_digest() -> None:
    broken = replace(PLAN, steps=(PATCH, replace(MINOR, base=THIRD)))
    with pytest.raises(InvalidPlan, match=r"the step to v2\.9\.4 does not start at the target of a step before"):
        Plan.parse(json.dumps(with_digest(broken.to_json())).encode())


KNOWN = Hazard("crds", Certainty.POSSIBLE, "a.example v1", "objects may use it")
OTHER = replace(KNOWN, subject="b.example v1")
CERTAIN = replace(KNOWN, certainty=Certainty.CERTAIN)
ADVICE = replace(OTHER, certainty=Certainty.ADVICE)
UNSEEN = Hazard("images", Certainty.UNCHECKED, "a, b", "the registry timed out")
MANY = tuple(replace(KNOWN, subject=f"{number}") for number in range(31))


@pytest.mark.parametrize(
    ("shown", "now", "unseen"),
    [
        pytest.param((), (), (), id="nothing"),
        pytest.param((), (KNOWN,), (KNOWN,), id="one more than none"),
        pytest.param((KNOWN,), (KNOWN, OTHER), (OTHER,), id="one more"),
        pytest.param((KNOWN, OTHER), (OTHER, KNOWN), (), id="another order"),
        pytest.param((KNOWN, OTHER), (OTHER,), (), id="one fewer"),
        pytest.param((KNOWN,), (replace(KNOWN, sentence="in other words", remedies=("x",)),), (), id="other words"),
        pytest.param((KNOWN,), (CERTAIN,), (CERTAIN,), id="a possible one is certain"),
        pytest.param((), (ADVICE,), (), id="advice"),
        pytest.param((ADVICE,), (OTHER,), (OTHER,), id="advice becomes a hazard"),
        pytest.param(
            (UNSEEN,), (replace(UNSEEN, subject="b, c", sentence="it refused"),), (), id="still nobody can look"
        ),
        pytest.param((UNSEEN,), (replace(UNSEEN, gate="overlay"),), (replace(UNSEEN, gate="overlay"),), id="or there"),
        pytest.param(MANY, MANY[::-1], (), id="very many"),
        pytest.param(MANY[1:], MANY, MANY[:1], id="one that makes them very many"),
        pytest.param(MANY, (*MANY, OTHER), (*MANY, OTHER), id="one more than very many"),
        pytest.param(None, (KNOWN,), (), id="nobody knows what was shown"),
    ],
)
def test_hazards_that_an_approver_was_not_shown(
    shown: tuple[Hazard, ...] | None, now: tuple[Hazard, ...], unseen: tuple[Hazard, ...]
) -> None:
    names = None if shown is None else hazard_names(shown)
    assert replace(MINOR, hazards=now).unseen(names) == unseen
    known = tuple(Verdict("acknowledged", Decision.AUTO, "known", it.fingerprint, allowed=True) for it in now)
    assert replace(MINOR, hazards=now, gates=known).unseen(names) == ()


@pytest.mark.parametrize("steps", [(replace(PATCH, target=PATCH.base),), (PATCH, replace(MINOR, target=PATCH.base))])
def test_steps_in_a_circle_are_refused_even_with_a_fitting_digest(steps: tuple[PlannedStep, ...]) -> None:
    with pytest.raises(InvalidPlan, match="leads back to a digest from which the plan goes on"):
        Plan.parse(json.dumps(with_digest(replace(PLAN, steps=steps).to_json())).encode())
