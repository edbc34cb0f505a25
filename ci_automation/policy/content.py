"""The gates on content: what a step does to the files of an artifact, and to the clusters that take it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_automation.flux.changes.model import ChangeClass
from ci_automation.flux.hazard import Certainty
from ci_automation.flux.proof import Proof
from ci_automation.policy.decision import Decision, Verdict
from ci_automation.policy.model import NOT_CHECKED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ci_automation.flux.changes.model import Change
    from ci_automation.flux.hazard import Hazard
    from ci_automation.policy.gates import Situation
    from ci_automation.policy.model import Acknowledgement

# What every release brings; a step with nothing else is told to be that.
_ONLY_IMAGES = frozenset({ChangeClass.IMAGE, ChangeClass.VERSION})
_LISTED = 10
_BY_ITSELF = {
    Certainty.ADVICE: Decision.AUTO,
    Certainty.UNCHECKED: Decision.APPROVAL,
    Certainty.POSSIBLE: Decision.APPROVAL,
    Certainty.CERTAIN: Decision.REFUSED,
}


@dataclass(frozen=True, slots=True)
class Content:
    """What a step does to the artifact's content besides the version, and what the user has said to it.

    `proof_detail` says how the rendering was proven, or why it was not.
    """

    removed: tuple[str, ...] = ()
    removal_allowed: bool = False
    options_changed: tuple[str, ...] = ()
    overlay_changed: tuple[str, ...] = ()
    edits_dropped: bool = False
    proof: Proof = Proof.KNOWN
    proof_detail: str = ""
    unproven_allowed: bool = False
    changes: tuple[Change, ...] = ()
    hazards: tuple[Hazard, ...] = ()


def content_verdicts(content: Content, situation: Situation) -> tuple[Verdict, ...]:
    """Return what every gate on the content says."""
    gates = (_removal, _proof, _options, _overlay, _edits)
    said = (verdict for gate in gates if (verdict := gate(content)))
    return (*said, *_changes(content.changes, situation), *(_hazard(it, situation) for it in content.hazards))


def _removal(content: Content) -> Verdict | None:
    """Refuse to lose a controller or a CRD: pruning a CRD deletes every object of its kind."""
    if not content.removed:
        return None
    names = ", ".join(content.removed)
    if content.removal_allowed:
        return Verdict("removal", Decision.AUTO, f"{names} would vanish, which --allow-removal allows")
    return Verdict("removal", Decision.REFUSED, f"{names} would vanish; --allow-removal allows it")


def _proof(content: Content) -> Verdict | None:
    """Refuse what nobody has proven: the templates live in Flux's CLI, and changed even in a patch."""
    detail = f" ({content.proof_detail})" if content.proof_detail else ""
    if content.proof is not Proof.NONE:
        return Verdict("proof", Decision.AUTO, f"the rendering of this release is proven: {content.proof}{detail}")
    if content.unproven_allowed:
        reason = f"the rendering is not proven{detail}, which --unsafe-unproven-rendering allows"
        return Verdict("unproven", Decision.AUTO, reason)
    reason = f"rendering was never proven on this release{detail}; --unsafe-unproven-rendering takes it anyway"
    return Verdict("proof", Decision.REFUSED, reason)


def _options(content: Content) -> Verdict | None:
    if not content.options_changed:
        return None
    return Verdict("options", Decision.APPROVAL, f"the options change: {', '.join(content.options_changed)}")


def _overlay(content: Content) -> Verdict | None:
    if not content.overlay_changed:
        return None
    return Verdict("overlay", Decision.APPROVAL, f"the overlay changes: {', '.join(content.overlay_changed)}")


def _edits(content: Content) -> Verdict | None:
    if not content.edits_dropped:
        return None
    return Verdict("edits", Decision.AUTO, "edits of the components file are dropped, which --accept-edits allows")


def _changes(changes: Sequence[Change], situation: Situation) -> Iterator[Verdict]:
    """Yield one verdict for each class of change that is there; what was acknowledged stops nothing."""
    if not changes:
        return
    classes = dict.fromkeys(change.belongs_to for change in changes)
    if classes.keys() <= _ONLY_IMAGES:
        yield Verdict("changes", Decision.AUTO, "only images change", _number(changes))
    else:
        yield Verdict("changes", Decision.AUTO, f"it changes {', '.join(classes)}", _number(changes))
    for name in classes:
        yield from _class(name, [change for change in changes if change.belongs_to is name], situation)


def _class(name: ChangeClass, changes: Sequence[Change], situation: Situation) -> Iterator[Verdict]:
    policy = situation.policy
    decision, word = Decision.AUTO, "lets through"
    if name in policy.refuse:
        decision, word = Decision.REFUSED, "refuses"
    elif name in policy.escalate:
        decision, word = Decision.APPROVAL, "asks for"
    known = {change.fingerprint: found for change in changes if (found := _acknowledged(change, situation))}
    for change in changes:
        if decision is not Decision.AUTO and (found := known.get(change.fingerprint)):
            yield _known(change.sentence, found)
    rest = [change for change in changes if change.fingerprint not in known]
    if rest:
        more = f", and {len(rest) - 1} more of {name}" if len(rest) > 1 else ""
        listed = [change.fingerprint for change in rest[:_LISTED]] if decision is not Decision.AUTO else []
        looked_at = ", ".join((f"the policy {word} {name}", _number(rest), *listed))
        yield Verdict(name, decision, f"{rest[0].sentence}{more}", looked_at)


def _hazard(hazard: Hazard, situation: Situation) -> Verdict:
    if found := _acknowledged(hazard, situation):
        return _known(hazard.sentence, found)
    decision = _BY_ITSELF[hazard.certainty]
    if hazard.certainty is Certainty.UNCHECKED and NOT_CHECKED in situation.policy.refuse:
        decision = Decision.REFUSED
    return Verdict(hazard.gate, decision, hazard.sentence, f"{hazard.certainty}; {hazard.fingerprint}")


def _acknowledged(it: Change | Hazard, situation: Situation) -> Acknowledgement | None:
    return next(
        (
            given
            for given in situation.policy.acknowledge
            if given.fingerprint == it.fingerprint and situation.now < given.until
        ),
        None,
    )


def _known(sentence: str, given: Acknowledgement) -> Verdict:
    reason = f"{sentence}; acknowledged until {given.until:%Y-%m-%d}: {given.reason}"
    return Verdict("acknowledged", Decision.AUTO, reason, given.fingerprint)


def _number(changes: Sequence[Change]) -> str:
    return f"{len(changes)} change{'' if len(changes) == 1 else 's'}"
