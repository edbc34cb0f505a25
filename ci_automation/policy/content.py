"""The gates on content: the changes of an artifact's files, and the hazards for clusters."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.flux.proof import Proof
from ci_automation.impact.change import Certainty, Change, ChangeClass, Hazard
from ci_automation.policy.decision import ACKNOWLEDGED, Decision, Verdict
from ci_automation.policy.model import NOT_CHECKED, Acknowledgement, Allowance

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ci_automation.impact.assess import Cleared
    from ci_automation.policy.gates import Situation

# Every release changes these; the report says so if a step changes nothing else.
_IN_WORDS = {ChangeClass.IMAGE: "images", ChangeClass.CRD_TEXT: "CRD texts", ChangeClass.METADATA: "metadata"}
_LOOKED_AT = {"options": "the install options", "files": "the overlay"}
_LISTED = 10
UPSTREAM = "upstream"  # the gate that is there only for an unsigned release
_UNSIGNED = "upstream not proven: no signature shows that Flux published this release"
_SIGNATURE = "the signature of the release's checksums"
_BY_ITSELF = {
    Certainty.ADVICE: Decision.AUTO,
    Certainty.UNCHECKED: Decision.APPROVAL,
    Certainty.POSSIBLE: Decision.APPROVAL,
    Certainty.CERTAIN: Decision.REFUSED,
}


class Content(Struct, frozen=True):
    """The changes of a step besides the version, and what the user allowed.

    `proof_detail` says how the rendering was proven, or why it was not.
    """

    removed: tuple[str, ...] = ()
    removal_allowed: bool = False
    options_changed: tuple[str, ...] = ()
    overlay_changed: tuple[str, ...] = ()
    merged: bool = False  # merges on the default branch approved the options and the files
    edits_dropped: bool = False
    edits_allowance: Allowance | None = None  # of the configuration; None: --accept-edits
    proof: Proof = Proof.KNOWN
    proof_detail: str = ""
    unproven_allowed: bool = False
    unsigned: bool = False  # nothing proves that Flux published the release, which a folder or the configuration allows
    changes: tuple[Change, ...] = ()
    hazards: tuple[Hazard, ...] = ()
    cleared: tuple[Cleared, ...] = ()  # what each check says if it found no hazards


def content_verdicts(content: Content, situation: Situation, *, rendered: bool = True) -> tuple[Verdict, ...]:
    """Return the verdict of every gate on content; those on proof and hand edits speak only of what was `rendered`."""
    gates = (_proof, _options, _files, _edits) if rendered else (_options, _files)
    return (
        _removal(content, situation),
        *(gate(content) for gate in gates),
        *((Verdict(UPSTREAM, Decision.AUTO, _UNSIGNED, _SIGNATURE, allowed=True),) if content.unsigned else ()),
        *_changes(content.changes, situation),
        *hazard_verdicts(content, situation),
    )


def hazard_verdicts(content: Content, situation: Situation) -> tuple[Verdict, ...]:
    """Return the verdicts on what can break: all of them, if no earlier content is there or known to compare with."""
    found = {hazard.gate for hazard in content.hazards}
    cleared = (it for it in content.cleared if it.gate not in found)
    return (
        *_hazards(content.hazards, situation),
        *(Verdict(it.gate, Decision.AUTO, it.reason, it.looked_at) for it in cleared),
    )


def _removal(content: Content, situation: Situation) -> Verdict:
    """Refuse to lose a controller or a CRD: pruning a CRD deletes every object of its kind."""
    if not content.removed:
        return Verdict("removal", Decision.AUTO, "no controller and no CRD is removed", "controllers and CRDs")
    names, looked_at = ", ".join(content.removed), f"{len(content.removed)} controllers and CRDs"
    if content.removal_allowed:
        reason = f"{names} would be removed, which --allow-removal allows"
        return Verdict("removal", Decision.AUTO, reason, looked_at, allowed=True)
    given = [it for it in situation.policy.allow_removal if it.of in content.removed]
    allowed = {it.of: it for it in given if it.is_on(situation.now)}
    if left := [name for name in content.removed if name not in allowed]:
        ended = [it.until for it in given if it.of in left]
        note = f" (the permission in the configuration ended on {max(ended):%Y-%m-%d})" if ended else ""
        number = f"{len(left)} object{'s' if len(left) > 1 else ''}"
        reason = f"{number} would be removed; --allow-removal allows that: {', '.join(left)}{note}"
        return Verdict("removal", Decision.REFUSED, reason, looked_at)
    why = ", ".join(dict.fromkeys(it.told for it in allowed.values()))
    return Verdict("removal", Decision.AUTO, f"{names} would be removed, which {why}", looked_at, allowed=True)


def _proof(content: Content) -> Verdict:
    """Refuse an unproven rendering: the templates live in Flux's CLI, and changed even in a patch."""
    detail = f" ({content.proof_detail})" if content.proof_detail else ""
    if content.proof is not Proof.NONE:
        reason = f"its rendering is proven: {content.proof}{detail}"
        return Verdict("proof", Decision.AUTO, reason, "the release and the options")
    if content.unproven_allowed:
        reason = f"the rendering is not proven{detail}, which --unsafe-unproven-rendering allows"
        return Verdict("unproven", Decision.AUTO, reason, "the release and the options", allowed=True)
    reason = f"the rendering of this release is not proven{detail}; --unsafe-unproven-rendering publishes it anyway"
    return Verdict("proof", Decision.REFUSED, reason, "the release and the options")


def _options(content: Content) -> Verdict:
    if not content.options_changed:
        return Verdict("options", Decision.AUTO, "the options do not change", _LOOKED_AT["options"])
    return _approvable(content, "options", f"the options change: {', '.join(content.options_changed)}")


def _files(content: Content) -> Verdict:
    if not content.overlay_changed:
        return Verdict("files", Decision.AUTO, "the overlay's files do not change", _LOOKED_AT["files"])
    return _approvable(content, "files", f"the overlay changes: {', '.join(content.overlay_changed)}")


def _approvable(content: Content, gate: str, reason: str) -> Verdict:
    """Ask a person, unless a merge approved this content."""
    looked_at = _LOOKED_AT[gate]
    if content.merged:
        return Verdict(gate, Decision.AUTO, f"{reason}, which a merge approved", looked_at, allowed=True)
    return Verdict(gate, Decision.APPROVAL, reason, looked_at)


def _edits(content: Content) -> Verdict:
    if not content.edits_dropped:
        return Verdict("edits", Decision.AUTO, "the components file has no hand edits", "the present components file")
    who = content.edits_allowance.told if content.edits_allowance else "--accept-edits allows"
    reason = f"hand edits of the components file are dropped, which {who}"
    return Verdict("edits", Decision.AUTO, reason, "the present components file", allowed=True)


def _changes(changes: Sequence[Change], situation: Situation) -> Iterator[Verdict]:
    """Yield one verdict for each class of change; acknowledged changes stop nothing."""
    if not changes:
        return
    classes = Counter(change.belongs_to for change in changes)
    what = f"changes by class: {', '.join(f'{number} {name}' for name, number in classes.items())}"
    if classes.keys() <= {*_IN_WORDS, ChangeClass.VERSION}:
        *others, last = [word for it, word in _IN_WORDS.items() if it in classes] or ["labels with the version"]
        what = f"only {' and '.join(filter(None, (', '.join(others), last)))} change"
    yield Verdict("changes", Decision.AUTO, what, _number(changes))
    for name in classes:
        yield from _class(name, [change for change in changes if change.belongs_to is name], situation)


def _class(name: ChangeClass, changes: Sequence[Change], situation: Situation) -> Iterator[Verdict]:
    policy = situation.policy
    decision, word = Decision.AUTO, "allows"
    if name in policy.refuse:
        decision, word = Decision.REFUSED, "refuses"
    elif name in policy.escalate:
        decision, word = Decision.APPROVAL, "escalates"
    known = {change.fingerprint: found for change in changes if (found := _acknowledged(change, situation))}
    for change in changes:
        if decision is not Decision.AUTO and (found := known.get(change.fingerprint)):
            yield _known(change.sentence, found)
    rest = [change for change in changes if change.fingerprint not in known]
    if rest:
        more = f", and {len(rest) - 1} more of {name}" if len(rest) > 1 else ""
        listed = [change.fingerprint for change in rest[:_LISTED]] if decision is not Decision.AUTO else []
        looked_at = ", ".join((f"the policy {word} {name}", _number(rest), *listed))
        yield Verdict(name, decision, f"{rest[0].sentence}{more}{_ended(rest, situation)}", looked_at)


def _hazards(hazards: Sequence[Hazard], situation: Situation) -> Iterator[Verdict]:
    """Yield one verdict for each gate and certainty of hazards."""
    kinds: dict[tuple[str, Certainty], list[Hazard]] = {}
    for hazard in hazards:
        if found := _acknowledged(hazard, situation):
            yield _known(hazard.sentence, found)
        else:
            kinds.setdefault((hazard.gate, hazard.certainty), []).append(hazard)
    for (gate, certainty), found_here in kinds.items():
        decision = _BY_ITSELF[certainty]
        if certainty is Certainty.UNCHECKED and NOT_CHECKED in situation.policy.refuse:
            decision = Decision.REFUSED
        listed = [hazard.fingerprint for hazard in found_here[:_LISTED]]
        more = f", and {len(found_here) - 1} more of {gate}" if len(found_here) > 1 else ""
        reason = f"{found_here[0].sentence}{more}{_ended(found_here, situation)}"
        yield Verdict(gate, decision, reason, ", ".join((certainty, *listed)))


def _acknowledged(it: Change | Hazard, situation: Situation) -> Acknowledgement | None:
    """Return the acknowledgement of a change or a hazard, if one counts for it."""
    is_final = isinstance(it, Hazard) and it.final
    return None if is_final else situation.policy.acknowledged(it.fingerprint, situation.now)


def _ended(items: Sequence[Change | Hazard], situation: Situation) -> str:
    """Return a note on acknowledgements of these that have ended."""
    fingerprints = {it.fingerprint for it in items}
    ended = [given.until for given in situation.policy.acknowledge if given.fingerprint in fingerprints]
    return f" (the acknowledgement ended on {max(ended):%Y-%m-%d})" if ended else ""


def _known(sentence: str, given: Acknowledgement) -> Verdict:
    reason = f"{sentence}; acknowledged until {given.until:%Y-%m-%d}: {given.reason}"
    return Verdict(ACKNOWLEDGED, Decision.AUTO, reason, given.fingerprint, allowed=True)


def _number(changes: Sequence[Change]) -> str:
    return f"{len(changes)} change{'' if len(changes) == 1 else 's'}"
