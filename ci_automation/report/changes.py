"""What changes, what can break, what clusters delete, and why that is decided so: for terminals.

The values are those of `Findings`, as its JSON has them; what is long is cut, and says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.flux.proof import Proof
from ci_automation.impact.change import Severity
from ci_automation.policy.decision import Decision, decide
from ci_automation.report.findings import CRD, Findings, acknowledging
from ci_automation.report.text import Table, plain_text, shortened

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ci_automation.impact.change import Change
    from ci_automation.impact.hazard import Hazard
    from ci_automation.policy.plan import PlannedStep

DELETES = "deletes"  # a word that has a colour of its own on a terminal
_ROWS = 60  # on a terminal; of a hazard's places, too
WITH_ALL = "with every object of its kind"
NOTHING = "No object and no file changes."
ALL_NEW = "Nothing was there before: all of it is new."
_TO_ACCEPT = "To accept what stops it, instead, in the artifact's configuration:"
_WHY = "Why it is decided so, gate by gate:"
_PROOFS = {
    Proof.KNOWN: "rendering tested on this very release",
    Proof.CALIBRATED: "rendering equal to what Flux published",
    Proof.DELEGATED: "rendered by the release's own flux",
    Proof.NONE: "rendering not proven",
}


class Line(Struct, frozen=True):
    """A line for a terminal; `mark` is a word that has a colour there, which the whole line gets."""

    text: str
    mark: str = ""


Part = Line | Table


def step_parts(step: PlannedStep, *, every: bool = False) -> Iterator[Part]:
    """Yield what a step changes, what it can break, and what each gate says of it; `every` change on request."""
    yield Line(step_title(step, "->"))
    yield from text_parts(Findings.of(step), every=every)


def step_title(step: PlannedStep, to: str) -> str:
    """Return from which version to which a step goes, what kind of step that is, and how its rendering is proven."""
    proof = _PROOFS[step.proof]
    if step.old_version == step.new_version:
        return f"{step.new_version} stays (options, files or images change; {proof})"
    return f"{step.old_version} {to} {step.new_version} ({step.kind}; {proof})"


def text_parts(found: Findings, *, every: bool = False) -> Iterator[Part]:
    """Yield the findings for a terminal, the gravest first; of many changes the first ones, or `every` one."""
    yield from _hazard_lines(found)
    yield from _pruned_lines(found)
    yield from _change_parts(found, every=every)
    yield from _acknowledge_lines(found, every=every)
    yield from _gate_parts(found, every=every)


def _hazard_lines(found: Findings) -> Iterator[Line]:
    taken, shared = found.taken(), found.shared_remedies()
    if found.hazards:
        yield Line("What can break:")
    yield from _remedy_lines("  What to do about more than one of these:", shared)
    for hazard in found.ranked_hazards():
        head = f"{words(hazard, taken.hazard(hazard))} ({hazard.fingerprint})"
        yield Line(_line(f"  {head}: {hazard.sentence}"), hazard.certainty)
        yield from (Line(_line(f"      at {place}")) for place in hazard.places[:_ROWS])
        if len(hazard.places) > _ROWS:
            yield Line(f"      and at {len(hazard.places) - _ROWS} places more")
        yield from _remedy_lines("      what to do:", [text for text in hazard.remedies if text not in shared])


def _remedy_lines(head: str, remedies: Sequence[str]) -> Iterator[Line]:
    if remedies:
        yield Line(head)
    yield from (Line(f"        {line}") for text in remedies for line in plain_text(text).split("\n"))


def _pruned_lines(found: Findings) -> Iterator[Line]:
    if found.pruned:
        yield Line("What clusters delete when they apply it (prune):")
    for name in found.ranked_pruned():
        is_crd = name.startswith(CRD)
        yield Line(_line(f"  {name}{f', {WITH_ALL}' if is_crd else ''}"), DELETES if is_crd else Severity.WARNING)


def _change_parts(found: Findings, *, every: bool) -> Iterator[Part]:
    if not found.changes:
        yield Line(ALL_NEW if found.nothing_before else NOTHING)
        return
    yield Line(f"What changes: {found.count()}")
    listed, taken = found.ranked() if every else (*found.to_look_at(), *found.harmless()), found.taken()
    shown = listed if every else listed[:_ROWS]
    rows = [_change_row(change, taken.change(change)) for change in shown]
    left_out = frozenset(() if every else _WITH_ALL_OF_IT) | frozenset(() if found.gates else ("verdict",))
    head = [name for name in rows[0] if name not in left_out] if rows else []
    if rows:
        yield _table(head, ([row[name] for name in head] for row in rows))
    rest = [f"{len(listed) - len(shown)} less grave ones"] if len(listed) > len(shown) else []
    rest += [] if every else found.counted()
    if rest:
        yield Line(f"And {', '.join(rest)}; -v lists them.")


_WITH_ALL_OF_IT = ("fingerprint", "where", "from", "to")  # columns that -v shows


def _change_row(change: Change, verdict: str) -> dict[str, str]:
    return {
        "severity": str(change.severity),
        "verdict": verdict,
        "class": str(change.belongs_to),
        "fingerprint": change.fingerprint,
        "object": str(change.object),
        "what it means": meaning(change),
        "where": change.path,
        "from": change.old,
        "to": change.new,
    }


def meaning(change: Change) -> str:
    """Return the sentence without the object that it begins with, which stands beside it."""
    return change.sentence.removeprefix(f"{change.object} ")


def _acknowledge_lines(found: Findings, *, every: bool) -> Iterator[Line]:
    if known := found.to_acknowledge(every=every):
        yield Line(_TO_ACCEPT)
        yield from (Line(f"  {line}") for line in acknowledging(known, _ROWS).splitlines())
    elif found.to_acknowledge(every=True) and decide(found.gates) is Decision.APPROVAL:
        yield Line("To acknowledge all of it is not enough, for other gates ask too; -v prints the lines.")


def _gate_parts(found: Findings, *, every: bool) -> Iterator[Part]:
    gates = found.ranked_gates()
    shown = [it for it in gates if every or it.allowed or it.decision is not Decision.AUTO]
    if every and gates:
        yield Line(_WHY)
        rows = ((str(it.decision), it.gate, it.looked_at, it.reason) for it in gates)
        yield _table(("verdict", "gate", "input", "reason"), rows)
    elif shown:
        yield Line(_WHY)
        brief = ((it, shortened(it.reason) if found.lists(it) else it.reason) for it in shown)
        yield _table(("verdict", "gate", "reason"), ((str(it.decision), it.gate, reason) for it, reason in brief))
    if rest := len(gates) - len(shown):
        yield Line(f"{rest} {'more ' if shown else ''}gate{'s say' if rest > 1 else ' says'} auto; -v lists them.")


def words(hazard: Hazard, verdict: str) -> str:
    """Return how sure a hazard is, which gate tells it, and what that gate says."""
    return ", ".join(word for word in (str(hazard.certainty), hazard.gate, verdict) if word)


def _table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> Table:
    return Table(tuple(head), tuple(tuple(_line(cell) for cell in row) for row in rows))


def _line(text: str) -> str:
    return plain_text(text).replace("\n", " ")
