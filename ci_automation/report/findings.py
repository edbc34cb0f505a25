"""Changes, hazards, pruned objects and verdicts of a step, the gravest first, and how a person acknowledges them."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct, to_builtins

from ci_automation.impact.change import Certainty, Change, ChangeClass, FileDiff, Hazard, Severity, all_of, some_of
from ci_automation.policy.content import UPSTREAM
from ci_automation.policy.decision import ACKNOWLEDGED, Decision, Verdict, decide
from ci_automation.report.blocks import shortened
from ci_automation.report.markdown import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from ci_automation.impact.rights import FolderRights
    from ci_automation.policy.model import Acknowledgement
    from ci_automation.policy.plan import PlannedStep

CRD = "CustomResourceDefinition "
GRAVE = {Severity.DANGER, Severity.WARNING, Certainty.CERTAIN, Certainty.POSSIBLE, Decision.REFUSED, Decision.APPROVAL}
# Hundreds in a minor release, and nothing that a cluster does differently: what is no more than told is counted.
COUNTED = {
    ChangeClass.CRD_TEXT: "CRD text",
    ChangeClass.VERSION: "version label",
    ChangeClass.METADATA: "metadata change",
}
_STOPS = {str(decision) for decision in Decision if decision is not Decision.AUTO}
_SEVERITIES = tuple(Severity)
_CERTAINTIES = tuple(Certainty)
_CLASSES = tuple(ChangeClass)
# What a class of changes means in a headline; the others are named as policies name them.
_IN_SHORT = {
    ChangeClass.RBAC: "RBAC widens",
    ChangeClass.NETWORK_POLICY: "network policies open",
    ChangeClass.SECURITY_CONTEXT: "security contexts change",
    ChangeClass.NEW_WORKLOAD: "controllers are new",
    ChangeClass.REMOVED_WORKLOAD: "controllers are removed",
    ChangeClass.SERVICE_ACCOUNT: "service accounts change",
    ChangeClass.CRD_REMOVAL: "CRDs or their versions go",
    ChangeClass.CRD_TIGHTENED: "CRDs take less",
    ChangeClass.CRD_DEFAULT: "CRD defaults change",
}
_NAMES = re.compile(r" \([^()]*\)")  # of what is told together
_DETAIL = re.compile(r" \(|: ")  # an address in it has colons, too
_MAX_CAUSE = 60
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")
_MAX_COMMENT = 100
_DIGITS = frozenset("0123456789e")


class Taken(Struct, frozen=True):
    """Decisions of the gates on changes and hazards, or their acknowledgement; empty if no gate looked."""

    known: frozenset[str]  # the fingerprints that were acknowledged
    said: Mapping[tuple[str, str], str]  # by class of change; of hazards by who found them, and how sure they are

    def change(self, it: Change) -> str:
        """Return what they made of a change."""
        return ACKNOWLEDGED if it.fingerprint in self.known else self.said.get((it.belongs_to, ""), "")

    def hazard(self, it: Hazard) -> str:
        """Return what they made of a hazard."""
        return ACKNOWLEDGED if it.fingerprint in self.known else self.said.get((it.gate, it.certainty), "")


class Findings(Struct, frozen=True):
    """The changes, what can break, what clusters delete, and what every gate said; a comparison has no gates.

    With `nothing_before` there was nothing to compare with, and the changes are those of Flux alone.
    """

    changes: tuple[Change, ...] = ()
    hazards: tuple[Hazard, ...] = ()
    pruned: tuple[str, ...] = ()
    gates: tuple[Verdict, ...] = ()
    nothing_before: bool = False
    diffs: tuple[FileDiff, ...] = ()
    rights: tuple[FolderRights, ...] = ()

    @classmethod
    def of(cls, step: PlannedStep) -> Self:
        """Return what is known of a planned step."""
        return cls(step.changes, step.hazards, step.pruned, step.gates, diffs=step.diffs, rights=step.rights)

    def ranked(self) -> tuple[Change, ...]:
        """Return the changes, the gravest first, and those of one class together."""
        return tuple(
            sorted(self.changes, key=lambda it: (-_SEVERITIES.index(it.severity), _CLASSES.index(it.belongs_to)))
        )

    def ranked_hazards(self) -> tuple[Hazard, ...]:
        """Return the hazards, the surest first."""
        return tuple(sorted(self.hazards, key=lambda it: -_CERTAINTIES.index(it.certainty)))

    def hazards_by_kind(self) -> tuple[tuple[Hazard, ...], ...]:
        """Return the hazards, the surest first, those of one kind with one verdict together."""
        taken = self.taken()
        kinds: dict[tuple[str, ...], list[Hazard]] = {}
        for number, each in enumerate(self.ranked_hazards()):
            own = (each.gate, each.certainty, taken.hazard(each), each.together)
            kinds.setdefault(own if each.together else (str(number),), []).append(each)
        return tuple(map(tuple, kinds.values()))

    def shared_remedies(self, hazards: Iterable[Hazard] | None = None) -> tuple[str, ...]:
        """Return what helps against more than one of the hazards, or of these, and needs to be said just once."""
        told = self.ranked_hazards() if hazards is None else hazards
        numbers = Counter(text for hazard in told for text in dict.fromkeys(hazard.remedies))
        return tuple(text for text, number in numbers.items() if number > 1)

    def ranked_pruned(self) -> tuple[str, ...]:
        """Return what clusters delete, CRDs first: every object of their kind goes with them."""
        return tuple(sorted(self.pruned, key=lambda name: not name.startswith(CRD)))

    def ranked_gates(self) -> tuple[Verdict, ...]:
        """Return the verdicts, those that stop the step first."""
        return tuple(sorted(self.gates, key=lambda it: -[*Decision].index(it.decision)))

    def causes(self) -> tuple[str, ...]:
        """Return what decides the step, in a few words each: what can break, then other gates, then changes.

        That a minor needs approval is told only if nothing else is: everyone knows it.
        """
        if not self.gates:
            return ()
        decision, taken = decide(self.gates), self.taken()
        hazards = [kind for kind in self.hazards_by_kind() if taken.hazard(kind[0]) == decision]
        breaks = [_NAMES.sub("", told_together(kind)).partition(":")[0] for kind in hazards]
        asking = [it for it in self.ranked_gates() if it.decision is decision]
        others = [_DETAIL.split(it.reason, 1)[0] for it in asking if it.gate != "kind" and not self.lists(it)]
        classes = dict.fromkeys(it.belongs_to for it in self.ranked() if taken.change(it) == decision)
        told = {ChangeClass.CRD_REMOVAL} if any(kind[0].gate == "crds" for kind in hazards) else set()
        changes = [_IN_SHORT.get(it, f"{it} changes") for it in classes if it not in told]
        found = [*breaks, *others, *changes] or [it.reason.removesuffix(" needs approval") for it in asking]
        return tuple(dict.fromkeys(shortened(one_line(it), _MAX_CAUSE) for it in found))

    def count(self) -> str:
        """Return how many changes there are of each class, in words."""
        numbers = Counter(change.belongs_to for change in self.ranked())
        return ", ".join(f"{number} {name}" for name, number in numbers.items())

    def taken(self) -> Taken:
        """Return what the gates make of each change and hazard."""
        said: dict[tuple[str, str], list[Verdict]] = {}
        for gate in self.gates:
            sure = gate.looked_at.partition(",")[0]  # a gate that judges hazards says first how sure they are
            said.setdefault((gate.gate, sure if sure in _CERTAINTIES else ""), []).append(gate)
        known = {gate.looked_at for gate in self.gates if gate.gate == ACKNOWLEDGED}
        return Taken(frozenset(known), {key: str(decide(verdicts)) for key, verdicts in said.items()})

    def to_acknowledge(self, *, every: bool = False) -> tuple[tuple[str, str], ...]:
        """Return the fingerprints of what stops the step, each once, and what it is: hazards, then changes.

        What only asks for an approval is in it where nothing else stops the step, and on request. There is nothing
        where a hazard stops it that cannot be acknowledged.
        """
        if any(it.final for it in self.hazards):
            return ()
        taken = self.taken()
        stops = _STOPS if every or self.acknowledging_suffices() else {str(Decision.REFUSED)}
        hazards = [it for it in self.ranked_hazards() if taken.hazard(it) in stops]
        changes = [it for it in self.ranked() if taken.change(it) in stops]
        found = [(it.fingerprint, f"{it.gate}: {it.sentence}") for it in hazards]
        found += [(it.fingerprint, f"{it.belongs_to}: {it.sentence.removeprefix(CRD)}") for it in changes]
        return tuple({each: what for each, what in reversed(found) if _FINGERPRINT.fullmatch(each)}.items())[::-1]

    def acknowledging_suffices(self) -> bool:
        """Return whether the step would happen by itself, were each single change and hazard in it acknowledged."""
        return all(self.lists(gate) for gate in self.gates if gate.decision is not Decision.AUTO)

    def lists(self, gate: Verdict) -> bool:
        """Return whether a gate is about the single changes or hazards, which are told for themselves."""
        return gate.gate in {change.belongs_to for change in self.changes} | {hazard.gate for hazard in self.hazards}

    def to_look_at(self) -> tuple[Change, ...]:
        """Return the changes that a person should look at: the graver ones, and whatever a gate stops."""
        taken = self.taken()
        return tuple(change for change in self.ranked() if _needs_look(change, taken))

    def alike(self, changes: Iterable[Change]) -> tuple[tuple[Change, ...], ...]:
        """Return changes in their order, those of several objects that say the same together."""
        taken = self.taken()
        kinds: dict[tuple[str, ...], list[Change]] = {}
        for each in changes:
            kinds.setdefault((each.severity, taken.change(each), each.belongs_to, meaning(each)), []).append(each)
        return tuple(map(tuple, kinds.values()))

    def harmless(self, *, every: bool = False) -> tuple[Change, ...]:
        """Return the changes that need no look, and are worth a line each, or `every` one of them."""
        taken = self.taken()
        found = (change for change in self.ranked() if not _needs_look(change, taken))
        return tuple(change for change in found if every or change.belongs_to not in COUNTED)

    def counted(self) -> Iterator[str]:
        """Yield how many there are of each kind that is only counted."""
        numbers = Counter(change.belongs_to for change in self.harmless(every=True))
        for name, words in COUNTED.items():
            if number := numbers[name]:
                yield f"{number} {words}{'s' if number > 1 else ''}"

    def to_json(self) -> dict[str, Any]:
        """Return all of it as documents have it, in the same order."""
        return {
            "changes": [change.to_json() for change in self.ranked()],
            "hazards": [hazard.to_json() for hazard in self.ranked_hazards()],
            "pruned": list(self.ranked_pruned()),
            "gates": [to_builtins(gate) for gate in self.gates],
        }


def meaning(change: Change) -> str:
    """Return what a change means, without its object."""
    return change.sentence.removeprefix(f"{change.object.told} ")


def told_together(hazards: Sequence[Hazard]) -> str:
    """Return what hazards of one kind have in common, with their number and names; of one its own sentence."""
    first = hazards[0]
    if len(hazards) == 1:
        return first.sentence
    named: dict[str, list[str]] = {}
    for what, _, whose in (each.name.partition(" of ") for each in hazards):
        named.setdefault(what, []).append(whose)
    names = [f"{what} ({', '.join(whose)})" for what, whose in named.items()]
    return f"{len(hazards)} {first.together.replace('{}', all_of(names), 1)}"


def named_together(changes: Sequence[Change], *, whole: bool = False) -> str:
    """Return the object of a change, or how many objects of which kind say the same, with the first names or all."""
    first = changes[0].object
    if len(changes) == 1:
        return first.told
    kinds = {each.object.kind for each in changes}
    names = [each.object.name.partition(".")[0] for each in changes]
    plural = f"{first.kind[:-1]}ies" if first.kind.endswith("y") else f"{first.kind}s"
    what = plural if len(kinds) == 1 else "objects"
    return f"{len(changes)} {what} ({all_of(names) if whole else some_of(names)})"


def _needs_look(change: Change, taken: Taken) -> bool:
    return change.severity is not Severity.INFO or taken.change(change) in _STOPS


def acknowledging(known: Sequence[tuple[str, str]], rows: int) -> str:
    """Return what is to be put into the configuration; the date and the reason are a person's to say."""
    lines = [
        f"  - {{fingerprint: {_scalar(each)}, until: DATE, reason: WHY}}  # {one_line(what, _MAX_COMMENT)}"
        for each, what in known[:rows]
    ]
    more = [f"  # and {len(known) - rows} more"] if len(known) > rows else []
    return "\n".join(["acknowledge:", *lines, *more])


def _scalar(each: str) -> str:
    """Return a fingerprint as YAML that reads as a text; of digits alone, or with an exponent, it would be a number."""
    return f'"{each}"' if set(each) <= _DIGITS else each


def idle_acknowledgements(
    given: Iterable[Acknowledgement], steps: Sequence[PlannedStep], now: datetime
) -> Iterator[str]:
    """Yield a sentence on each acknowledgement without effect on the steps of a plan; nothing where it has none."""
    found = {change.fingerprint for step in steps for change in step.changes}
    hazards = {hazard.fingerprint: hazard for step in steps for hazard in step.hazards}
    for each in given if steps else ():
        if not each.is_on(now):
            yield ended(each)
        elif each.fingerprint in hazards and hazards[each.fingerprint].final:
            yield f"{_named(each)} has no effect: no cluster can build what it is about"
        elif each.fingerprint not in {*found, *hazards}:
            yield f"{_named(each)} matches nothing in the steps of this plan"


def unproven_upstream(steps: Iterable[PlannedStep]) -> Iterator[str]:
    """Yield a sentence on the releases of a plan that no signature proves to be Flux's; nothing if there are none.

    It is told of a step that waits once that can be published.
    """
    possible = (step for step in steps if step.decision is not Decision.WAIT)
    if found := [str(step.new_version) for step in possible if any(gate.gate == UPSTREAM for gate in step.gates)]:
        yield unsigned_upstream(*dict.fromkeys(found))


def unsigned_upstream(*versions: str) -> str:
    """Return the sentence on releases that no signature proves to be Flux's."""
    return f"Not checked: Flux's signature on {all_of(versions)}; `mirror` downloads it."


def ended(given: Acknowledgement) -> str:
    """Return that the date of an acknowledgement has passed."""
    return f"{_named(given)} ended on {given.until:%Y-%m-%d}"


def _named(given: Acknowledgement) -> str:
    return f"the acknowledgement {given.fingerprint} ({given.reason})"
