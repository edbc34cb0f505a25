"""Changes, hazards, pruned objects and verdicts of a step as lines and tables for a terminal.

The values are those of `Findings`, as its JSON has them; what is long is cut, and says so.
"""

from __future__ import annotations

from collections import Counter
from itertools import accumulate, zip_longest
from operator import itemgetter
from typing import TYPE_CHECKING

from ci_automation.flux.proof import Proof
from ci_automation.impact.change import Severity
from ci_automation.impact.hazard import Certainty, all_of
from ci_automation.policy.content import UPSTREAM
from ci_automation.policy.decision import Decision, decide
from ci_automation.report.findings import CRD, Findings, acknowledging, meaning, named_together, told_together
from ci_automation.report.text import MarkedLine, Part, Table, plain_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from ci_automation.impact.change import Change
    from ci_automation.impact.hazard import Hazard
    from ci_automation.impact.rights import FolderRights, Right
    from ci_automation.policy.decision import Verdict
    from ci_automation.policy.plan import PlannedStep

DELETES = "deletes"  # a word that has a colour of its own on a terminal
_FEW = 3  # harmless changes that are told one by one
_MANY, _OF_A_CLASS = 6, 1  # rows of changes on a terminal, and of each class where there are more
_ROWS = 60  # on a terminal; of a hazard's places, too
_BRIEF = 10  # lines of a step
_TO_COPY = 5  # entries of a block
_DIFF_ROWS = 20  # lines of a diff on a terminal
RENDERED = "What changes in the rendering of "
GRAVE = {Severity.DANGER, Severity.WARNING, Certainty.CERTAIN, Certainty.POSSIBLE, Decision.REFUSED, Decision.APPROVAL}
WITH_ALL = "with every object of its kind"
NOTHING = "No object and no file changes."
ALL_NEW = "There was nothing before: everything is new."
_TO_ACCEPT = "To acknowledge instead, add to the artifact's configuration:"
_WHY = "Verdict of each gate:"
_PROOFS = {
    Proof.KNOWN: "rendering tested with this release",
    Proof.CALIBRATED: "rendering equal to Flux's own",
    Proof.DELEGATED: "rendered by the release's own flux",
    Proof.NONE: "rendering not proven",
}


def step_parts(step: PlannedStep, *, every: bool = False, width: int | None = None) -> Iterator[Part]:
    """Yield what a step changes and can break, and what each gate says, on few lines; `every` detail on request."""
    yield MarkedLine(step_title(step, "->"))
    yield from text_parts(Findings.of(step), every=True) if every else brief_parts(Findings.of(step), width)


def brief_parts(found: Findings, width: int | None = None, told: Collection[str] = ()) -> Iterator[Part]:
    """Yield the findings on at most ten lines of a terminal of this width, and how much more -v lists.

    What is `told` elsewhere is not repeated. Sections get lines in turn; a block to copy is not counted, and whole.
    """
    told = (*told, *(it.reason for it in found.gates if it.gate in {"kind", UPSTREAM}))
    sections = (
        _obstacle_lines(found, told),
        _hazard_lines(found, every=False, brief=True),
        _pruned_lines(found),
        _change_lines(found, few=0),
        _diff_lines(found, every=False),
    )
    turns = [(number, line) for turn in zip_longest(*sections) for number, line in enumerate(turn) if line]
    taken = accumulate(len(line.lines(width)) for _, line in turns)
    shown = [turn for turn, lines in zip(turns, taken, strict=True) if lines <= _BRIEF] or turns[:1]
    yield from (line for _, line in sorted(shown, key=itemgetter(0)))
    more = len(turns) - len(shown)
    counts = (f"+ {more} more line{'s' if more > 1 else ''}" if more else "", _passed(found) if found.gates else "")
    if any(counts):
        yield MarkedLine(f"{', '.join(filter(None, counts))} (-v lists them)")
    if len(found.to_acknowledge()) > _TO_COPY:
        yield MarkedLine(f"-v prints how to acknowledge these {len(found.to_acknowledge())} findings instead.")
    else:
        yield from _acknowledge_lines(found, every=False)


def step_title(step: PlannedStep, to: str) -> str:
    """Return from which version to which a step goes, what kind of step it is, and where its bytes come from."""
    proof = f"promoted from {step.promoted_from}" if step.promoted_from else _PROOFS[step.proof] + unknown_flags(step)
    if step.old_version == step.new_version:
        return f"{step.new_version}, same version (options, files or images change; {proof})"
    return f"{step.old_version} {to} {step.new_version} ({step.kind}; {proof})"


def unknown_flags(step: PlannedStep) -> str:
    """Return which flags only the release's own flux CLI knows; empty if there are none."""
    names = step.options.unknown_flags
    return f" with flags that this program does not know: {names}" if names and not step.promoted_from else ""


def text_parts(found: Findings, *, every: bool = False) -> Iterator[Part]:
    """Yield the findings for a terminal, the gravest first; of many changes the first ones, or `every` one."""
    yield from _hazard_lines(found, every=every)
    yield from _pruned_lines(found)
    yield from _change_table_of_all(found) if every else _change_lines(found)
    yield from _diff_lines(found, every=every)
    yield from rights_lines(found.rights, every=True) if every else ()
    yield from _acknowledge_lines(found, every=every)
    yield from _gate_parts(found, every=every)


def _hazard_lines(found: Findings, *, every: bool, brief: bool = False) -> Iterator[MarkedLine]:
    """Yield what can break, where, and what to do; if `brief`, the first recipe alone."""
    kinds = [(it,) for it in found.ranked_hazards()] if every else found.hazards_by_kind()
    taken, shared = found.taken(), found.shared_remedies([kind[0] for kind in kinds])
    if found.hazards:
        yield MarkedLine(f"What can break (certainty, gate{_verdict_too(found)}):")
    yield from _remedy_lines("  What to do about several of these:", shared[: 1 if brief else None])
    for kind in kinds:
        hazard, several = kind[0], len(kind) > 1
        head = hazard_words(hazard, taken.hazard(hazard)) + ("" if several else f" ({hazard.fingerprint})")
        is_cut = not every and hazard.certainty is Certainty.ADVICE
        yield MarkedLine(_line(f"  {head}: {told_together(kind)}"), hazard.certainty, may_be_cut=is_cut)
        places = tuple(dict.fromkeys(place for each in kind for place in each.places))
        rows = 1 if brief else _ROWS
        yield from (MarkedLine(_line(f"      at {place}")) for place in places[:rows])
        if len(places) > rows:
            yield MarkedLine(f"      and at {len(places) - rows} more place{'s' if len(places) - rows > 1 else ''}")
        if several or (brief and not is_cut):
            own = [text for text in hazard.remedies if text not in shared or several]
            recipe = [text for text in own if all(text in each.remedies for each in kind)][:1]
            more = "-v has more, and the fingerprints" if several else "-v has more"
            yield from (MarkedLine(_line(f"      what to do: {text} ({more})")) for text in recipe)
        elif not is_cut:
            yield from _remedy_lines("      what to do:", [text for text in hazard.remedies if text not in shared])


def _remedy_lines(head: str, remedies: Sequence[str]) -> Iterator[MarkedLine]:
    if remedies:
        yield MarkedLine(head)
    yield from (
        MarkedLine(f"        {line}", to_copy="`" not in line)
        for text in remedies
        for line in plain_text(text).split("\n")
    )


def _pruned_lines(found: Findings) -> Iterator[MarkedLine]:
    if found.pruned:
        yield MarkedLine("What clusters delete when they apply it (prune):")
    for name in found.ranked_pruned():
        is_crd = name.startswith(CRD)
        yield MarkedLine(_line(f"  {name}{f', {WITH_ALL}' if is_crd else ''}"), DELETES if is_crd else Severity.WARNING)


def _change_lines(found: Findings, few: int = _FEW) -> Iterator[MarkedLine]:
    """Yield the changes that need a look, a line each, those of several objects together; others are told if `few`."""
    if not found.changes:
        yield MarkedLine(ALL_NEW if found.nothing_before else NOTHING)
        return
    harmless = found.harmless()
    rows = found.alike((*found.to_look_at(), *(harmless if len(harmless) <= few else ())))
    yield from (MarkedLine(f"What changes (severity, class{_verdict_too(found)}):"),) if rows or few else ()
    seen: Counter[str] = Counter()
    left: Counter[str] = Counter() if len(harmless) <= few else Counter(it.belongs_to for it in harmless)
    for row in rows:
        seen[row[0].belongs_to] += 1
        if len(rows) > _MANY and seen[row[0].belongs_to] > _OF_A_CLASS:
            left[f"more {row[0].belongs_to}"] += len(row)
        else:
            yield _change_line(found, row)
    if rest := [*(f"{number} {name}" for name, number in left.items()), *found.counted()]:
        yield MarkedLine(f"+ {', '.join(rest)} (-v lists them)")


def _verdict_too(found: Findings) -> str:
    """Return how the head of a list goes on whose lines say what the gates make of each."""
    return ", verdict" if found.gates else ""


def _change_line(found: Findings, row: Sequence[Change]) -> MarkedLine:
    first, verdict = row[0], found.taken().change(row[0])
    head = ", ".join(word for word in (str(first.severity), str(first.belongs_to), verdict) if word)
    between = ":" if len(row) > 1 else ""
    mark = first.severity if first.severity in GRAVE else ""
    return MarkedLine(_line(f"  {head}: {named_together(row)}{between} {meaning(first)}"), mark, may_be_cut=True)


def _change_table_of_all(found: Findings) -> Iterator[Part]:
    if not found.changes:
        yield from _change_lines(found)
        return
    yield MarkedLine(f"What changes: {found.count()}")
    yield change_table(found, [(it,) for it in found.ranked()], every=True).mapped(lambda _, cell: _line(cell))


def _diff_lines(found: Findings, *, every: bool) -> Iterator[MarkedLine]:
    """Yield the diffs of overlay files, and of what they render to; of long ones the first lines."""
    for each in found.diffs:
        lines = each.text.splitlines()
        shown = lines if every else lines[:_DIFF_ROWS]
        yield MarkedLine(_line(f"{RENDERED if each.rendered else ''}{each.path}:"))
        yield from (MarkedLine(_line(f"  {line}"), to_copy=True) for line in shown)
        if len(lines) > len(shown):
            yield MarkedLine(f"  and {len(lines) - len(shown)} more lines (-v lists them)")


def rights_lines(folders: Sequence[FolderRights], *, every: bool) -> Iterator[MarkedLine]:
    """Yield what Flux may do, by folder and namespace: the gravest rights, or all."""
    for each in folders:
        folder = f"./{each.folder.removeprefix('.')}"
        what = f"by the components alone; {folder} was not built: {each.unbuilt}" if each.unbuilt else ""
        yield MarkedLine(_line(f"What Flux may do in clusters {what or f'that apply {folder}'}"))
        more = each.more
        for namespace, rights in each.by_namespace.items():
            shown = [it for it in rights if every or it.severity is Severity.DANGER]
            more += len(rights) - len(shown)
            if shown:
                where = f"in the namespace {namespace}" if namespace else "in the whole cluster"
                yield MarkedLine(_line(f"  {where}:"))
            yield from (_right_line(it, every=every) for it in shown)
        if more:
            yield MarkedLine(f"  and {more} less grave bindings{'' if every else ' (-v lists them)'}")


def _right_line(right: Right, *, every: bool) -> MarkedLine:
    sorts = {"escalation": "; ".join(right.escalation), "secrets": ", ".join(right.secrets)}
    grave = "" if right.everything else "".join(f" [{name}: {said}]" for name, said in sorts.items() if said)
    by_kind: dict[str, list[str]] = {}
    for kind, _, name in (each.partition(" ") for each in right.subjects or ("no subject",)):
        by_kind.setdefault(kind, []).append(name)
    who = all_of([f"{kind}{'s' if len(names) > 1 else ''} {all_of(names)}" for kind, names in by_kind.items()])
    text = _line(f"    {right.severity}: {who} may {right.may}{grave} ({right.role}, by {right.binding})")
    return MarkedLine(text, right.severity if right.severity in GRAVE else "", may_be_cut=not every)


def _acknowledge_lines(found: Findings, *, every: bool) -> Iterator[MarkedLine]:
    known = found.to_acknowledge(every=every)
    if known and (every or decide(found.gates) is not Decision.APPROVAL):
        yield from map(MarkedLine, _not_enough(found) if every else ())
        yield MarkedLine(_TO_ACCEPT)
        yield from (MarkedLine(f"  {line}", to_copy=True) for line in acknowledging(known, _ROWS).splitlines())


def _not_enough(found: Findings) -> Iterator[str]:
    """Yield what else the step needs if acknowledging alone does not let it through."""
    others = [it for it in found.ranked_gates() if it.decision is not Decision.AUTO and not found.lists(it)]
    for gate in others[:1]:
        reason = _line(gate.reason)
        if gate.decision is not Decision.APPROVAL:
            yield f"Acknowledging these alone does not let the step through: {reason}."
        elif decide(found.gates) is Decision.APPROVAL:
            yield f"An approval of the step answers all of this. Acknowledging alone does not, because {reason}."
        else:
            yield f"Once these are acknowledged, the step still needs an approval: {reason}."


def _gate_parts(found: Findings, *, every: bool) -> Iterator[Part]:
    """Yield every gate on request; else those that ask for something that is not told above, and how many passed."""
    gates = found.ranked_gates()
    if every and gates:
        yield MarkedLine(_WHY)
        yield gate_table(gates).mapped(lambda _, cell: _line(cell))
        return
    yield from _obstacle_lines(found)
    asks = bool(gates) and decide(gates) is Decision.APPROVAL
    more = "To acknowledge these, see -v. " if asks and found.to_acknowledge(every=True) else ""
    if more or not _passed(found).startswith("0 "):
        yield MarkedLine(f"{more}{_passed(found)} (-v lists them)")


def _obstacle_lines(found: Findings, told: Collection[str] = ()) -> Iterator[MarkedLine]:
    """Yield the gates that a person allowed, and those that ask for something that is not told elsewhere."""
    for gate in found.ranked_gates():
        is_told = gate.reason in told or (found.lists(gate) and not gate.allowed)
        if (gate.allowed or gate.decision is not Decision.AUTO) and not is_told:
            mark = gate.decision if gate.decision in GRAVE else ""
            yield MarkedLine(_line(f"{gate.decision}, {gate.gate}: {gate.reason}"), mark)


def _passed(found: Findings) -> str:
    passed = sum(it.decision is Decision.AUTO and not it.allowed for it in found.gates)
    return f"{passed} check{'' if passed == 1 else 's'} passed"


def change_table(found: Findings, rows: Sequence[Sequence[Change]], *, every: bool = False) -> Table:
    """Return a row for each change, or for what says the same of several objects; `every` column on request."""
    taken = found.taken()
    cells = [
        {
            "severity": str(each.severity),
            **({"verdict": taken.change(each)} if found.gates else {}),
            "class": str(each.belongs_to),
            **({"fingerprint": each.fingerprint} if every else {}),
            "object": named_together(row),
            "what it means": meaning(each),
            **({"where": each.path, "from": each.old, "to": each.new} if every else {}),
        }
        for row in rows
        for each in row[:1]
    ]
    return Table(tuple(cells[0]), tuple(tuple(row.values()) for row in cells))


def gate_table(gates: Sequence[Verdict]) -> Table:
    """Return a row for each gate, with what it looked at."""
    head = ("verdict", "gate", "input", "reason")
    return Table(head, tuple((str(it.decision), it.gate, it.looked_at, it.reason) for it in gates))


def hazard_words(hazard: Hazard, verdict: str) -> str:
    """Return how sure a hazard is, which gate tells it, and what that gate says."""
    return ", ".join(word for word in (str(hazard.certainty), hazard.gate, verdict) if word)


def _line(text: str) -> str:
    return plain_text(text).replace("\n", " ")
