"""Changes, hazards, pruned objects and verdicts of a step as lines and tables for a terminal, and as Markdown.

The values are those of `Findings`, as its JSON has them; what is long is cut, and says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.flux.proof import Proof
from ci_automation.impact.change import Severity
from ci_automation.impact.hazard import Certainty
from ci_automation.policy.decision import Decision, decide
from ci_automation.report.findings import CRD, Findings, acknowledging
from ci_automation.report.markdown import code, folded, inline, markdown_table, one_line, typed
from ci_automation.report.text import MarkedLine, Part, Table, plain_text, shortened

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ci_automation.impact.change import Change
    from ci_automation.impact.hazard import Hazard
    from ci_automation.policy.decision import Verdict
    from ci_automation.policy.plan import PlannedStep

DELETES = "deletes"  # a word that has a colour of its own on a terminal
_ROWS = 60  # on a terminal; of a hazard's places, too
_MAX_CELL, _MAX_SENTENCE, _MAX_REMEDY = 120, 300, 600  # in Markdown
_GRAVE = {Severity.DANGER, Severity.WARNING, Certainty.CERTAIN, Certainty.POSSIBLE, Decision.REFUSED, Decision.APPROVAL}
_WITH_ALL = "with every object of its kind"
_NOTHING = "No object and no file changes."
_ALL_NEW = "There was nothing before: everything is new."
_TO_ACCEPT = "To acknowledge instead, add to the artifact's configuration:"
_WHY = "Verdict of each gate:"
_PROOFS = {
    Proof.KNOWN: "rendering tested with this release",
    Proof.CALIBRATED: "rendering equal to Flux's own",
    Proof.DELEGATED: "rendered by the release's own flux",
    Proof.NONE: "rendering not proven",
}


def step_parts(step: PlannedStep, *, every: bool = False) -> Iterator[Part]:
    """Yield what a step changes, what it can break, and what each gate says of it; `every` change on request."""
    yield MarkedLine(step_title(step, "->"))
    yield from text_parts(Findings.of(step), every=every)


def step_title(step: PlannedStep, to: str) -> str:
    """Return from which version to which a step goes, what kind of step that is, and how its rendering is proven."""
    proof = _PROOFS[step.proof]
    if step.old_version == step.new_version:
        return f"{step.new_version}, same version (options, files or images change; {proof})"
    return f"{step.old_version} {to} {step.new_version} ({step.kind}; {proof})"


def text_parts(found: Findings, *, every: bool = False) -> Iterator[Part]:
    """Yield the findings for a terminal, the gravest first; of many changes the first ones, or `every` one."""
    yield from _hazard_lines(found)
    yield from _pruned_lines(found)
    yield from _change_parts(found, every=every)
    yield from _acknowledge_lines(found, every=every)
    yield from _gate_parts(found, every=every)


def _hazard_lines(found: Findings) -> Iterator[MarkedLine]:
    taken, shared = found.taken(), found.shared_remedies()
    if found.hazards:
        yield MarkedLine("What can break:")
    yield from _remedy_lines("  What to do about several of these:", shared)
    for hazard in found.ranked_hazards():
        head = f"{_words(hazard, taken.hazard(hazard))} ({hazard.fingerprint})"
        yield MarkedLine(_line(f"  {head}: {hazard.sentence}"), hazard.certainty)
        yield from (MarkedLine(_line(f"      at {place}")) for place in hazard.places[:_ROWS])
        if len(hazard.places) > _ROWS:
            yield MarkedLine(f"      and at {len(hazard.places) - _ROWS} more places")
        yield from _remedy_lines("      what to do:", [text for text in hazard.remedies if text not in shared])


def _remedy_lines(head: str, remedies: Sequence[str]) -> Iterator[MarkedLine]:
    if remedies:
        yield MarkedLine(head)
    yield from (MarkedLine(f"        {line}") for text in remedies for line in plain_text(text).split("\n"))


def _pruned_lines(found: Findings) -> Iterator[MarkedLine]:
    if found.pruned:
        yield MarkedLine("What clusters delete when they apply it (prune):")
    for name in found.ranked_pruned():
        is_crd = name.startswith(CRD)
        yield MarkedLine(
            _line(f"  {name}{f', {_WITH_ALL}' if is_crd else ''}"), DELETES if is_crd else Severity.WARNING
        )


def _change_parts(found: Findings, *, every: bool) -> Iterator[Part]:
    if not found.changes:
        yield MarkedLine(_ALL_NEW if found.nothing_before else _NOTHING)
        return
    yield MarkedLine(f"What changes: {found.count()}")
    listed = found.ranked() if every else (*found.to_look_at(), *found.harmless())
    shown = listed if every else listed[:_ROWS]
    if shown:
        yield _change_table(found, shown, every=every).mapped(lambda _, cell: _line(cell))
    rest = [f"{len(listed) - len(shown)} less grave changes"] if len(listed) > len(shown) else []
    rest += [] if every else found.counted()
    if rest:
        yield MarkedLine(f"+ {', '.join(rest)} (-v lists them)")


def _acknowledge_lines(found: Findings, *, every: bool) -> Iterator[MarkedLine]:
    if known := found.to_acknowledge(every=every):
        yield MarkedLine(_TO_ACCEPT)
        yield from (MarkedLine(f"  {line}") for line in acknowledging(known, _ROWS).splitlines())
    elif found.to_acknowledge(every=True) and decide(found.gates) is Decision.APPROVAL:
        yield MarkedLine(
            "Acknowledging these alone will not let it through: other gates ask too (-v prints the lines)."
        )


def _gate_parts(found: Findings, *, every: bool) -> Iterator[Part]:
    gates = found.ranked_gates()
    shown = [it for it in gates if every or it.allowed or it.decision is not Decision.AUTO]
    if shown:
        yield MarkedLine(_WHY)
        yield _gate_table(found, shown, every=every).mapped(lambda _, cell: _line(cell))
    if rest := len(gates) - len(shown):
        yield MarkedLine(f"{rest} {'more ' if shown else ''}check{'s' if rest > 1 else ''} passed (-v lists them)")


def _change_table(found: Findings, changes: Sequence[Change], *, every: bool = False) -> Table:
    """Return a row for each change, with `every` column or with those that tell most."""
    taken = found.taken()
    rows = [
        {
            "severity": str(each.severity),
            **({"verdict": taken.change(each)} if found.gates else {}),
            "class": str(each.belongs_to),
            **({"fingerprint": each.fingerprint} if every else {}),
            "object": str(each.object),
            "what it means": each.sentence.removeprefix(f"{each.object} "),
            **({"where": each.path, "from": each.old, "to": each.new} if every else {}),
        }
        for each in changes
    ]
    return Table(tuple(rows[0]), tuple(tuple(row.values()) for row in rows))


def _gate_table(found: Findings, gates: Sequence[Verdict], *, every: bool) -> Table:
    """Return a row for each gate, with `every` column, or with short reasons where the lists above tell the rest."""
    if every:
        head = ("verdict", "gate", "input", "reason")
        return Table(head, tuple((str(it.decision), it.gate, it.looked_at, it.reason) for it in gates))
    brief = ((it, shortened(it.reason) if found.lists(it) else it.reason) for it in gates)
    return Table(("verdict", "gate", "reason"), tuple((str(it.decision), it.gate, reason) for it, reason in brief))


def _words(hazard: Hazard, verdict: str) -> str:
    """Return how sure a hazard is, which gate tells it, and what that gate says."""
    return ", ".join(word for word in (str(hazard.certainty), hazard.gate, verdict) if word)


def _line(text: str) -> str:
    return plain_text(text).replace("\n", " ")


def markdown_sections(found: Findings, rows: int) -> Iterator[tuple[str, str]]:
    """Yield a title and the Markdown under it, the gravest first; of each list at most `rows` are shown."""
    if found.hazards:
        yield "What can break", "\n\n".join(_hazards(found, rows))
    if found.pruned:
        names = found.ranked_pruned()
        lines = [f"- {_pruned(name)}" for name in names[:rows]] + _more(names, rows, "- and {} more")
        yield "What clusters delete", "\n".join(lines)
    yield "What changes", "\n\n".join(_changes(found, rows))


def difference_markdown(old: str, new: str, remarks: Sequence[str], found: Findings, rows: int) -> str:
    """Return the findings of a comparison as a page; at most `rows` of each list are shown."""
    parts = [f"## {code(one_line(old))} to {code(one_line(new))}"]
    parts += ["\n".join(f"- {inline(remark, _MAX_SENTENCE)}" for remark in remarks)] if remarks else []
    parts += [part for title, text in markdown_sections(found, rows) for part in (f"### {title}", text)]
    return "\n\n".join(parts)


def acknowledgement_markdown(found: Findings, rows: int) -> str:
    """Return the YAML that accepts what stops a step, or nothing where nothing does."""
    known = found.to_acknowledge()
    return f"```yaml\n{acknowledging(known, rows)}\n```" if known else ""


def gates_markdown(found: Findings, rows: int) -> str:
    """Return the table of all gates, or nothing where there are none."""
    gates = found.ranked_gates()
    parts = [_table(_gate_table(found, gates[:rows], every=True)), *_more(gates, rows, "And {} more gates.")]
    return "\n\n".join(parts) if gates else ""


def _hazards(found: Findings, rows: int) -> Iterator[str]:
    hazards, taken, shared = found.ranked_hazards(), found.taken(), found.shared_remedies()
    shown = hazards[:rows]
    lines = [line for hazard in shown for line in _hazard(hazard, taken.hazard(hazard), rows)]
    yield "\n".join([*lines, *_more(hazards, rows, "- and {} more that can break")])
    if shared:
        yield "What to do about several of these:"
        yield "\n".join(_remedies(shared, rows))
    own = [(hazard, remedies) for hazard in shown if (remedies := [it for it in hazard.remedies if it not in shared])]
    if own and len(hazards) == 1:
        yield "What to do:"
        yield "\n".join(_remedies(own[0][1], rows))
    elif own:
        lines = [line for hazard, remedies in own for line in (_named(hazard), *_remedies(remedies, rows, "  "))]
        yield folded("What to do about each", "\n".join(lines))


def _hazard(hazard: Hazard, verdict: str, rows: int) -> Iterator[str]:
    head = inline(_words(hazard, verdict), _MAX_CELL)
    head = f"**{head}**" if hazard.certainty in _GRAVE else head
    yield f"- {head}: {inline(hazard.sentence, _MAX_SENTENCE)} (`{hazard.fingerprint}`)"
    yield from (f"  - {typed(one_line(str(place), _MAX_CELL))}" for place in hazard.places[:rows])
    yield from _more(hazard.places, rows, "  - and {} more places")


def _named(hazard: Hazard) -> str:
    return f"- {inline(hazard.sentence, _MAX_CELL)} (`{hazard.fingerprint}`)"


def _remedies(remedies: Sequence[str], rows: int, indent: str = "") -> Iterator[str]:
    yield from (f"{indent}- {_remedy(text)}" for text in remedies[:rows])
    yield from _more(remedies, rows, indent + "- and {} more")


def _remedy(text: str) -> str:
    """Return advice whose commands are in backticks, as its author put them."""
    parts = text[:_MAX_REMEDY].split("`")
    shown = (typed(one_line(part, _MAX_REMEDY)) if number % 2 else _between(part) for number, part in enumerate(parts))
    return "".join(shown)


def _between(text: str) -> str:
    """Return words beside a command, with the blanks that keep them apart from it."""
    before, after = (" " if blank else "" for blank in (text[:1].isspace(), text[-1:].isspace()))
    return f"{before}{inline(text, _MAX_REMEDY)}{after}"


def _pruned(name: str) -> str:
    return f"**{inline(name, _MAX_CELL)}, {_WITH_ALL}**" if name.startswith(CRD) else inline(name, _MAX_CELL)


def _changes(found: Findings, rows: int) -> Iterator[str]:
    if not found.changes:
        yield _ALL_NEW if found.nothing_before else _NOTHING
        return
    yield f"{found.count()}."
    grave, harmless, counted = found.to_look_at(), found.harmless(), list(found.counted())
    yield from [_table(_change_table(found, grave[:rows]))] if grave else []
    yield from _more(grave, rows, "And {} less grave changes.")
    parts = [_table(_change_table(found, harmless[:rows]))] if harmless else []
    if rest := ", ".join([*_more(harmless, rows, "{} more"), *counted]):
        parts.append(f"And {rest}." if parts else f"{rest}.")
    number = len(found.changes) - len(grave)
    need = "change that needs" if number == 1 else "changes that need"
    yield from [folded(f"{number} {need} no review", "\n\n".join(parts))] if parts else []


def _table(rows: Table) -> str:
    """Return a table as Markdown: what needs a look is strong, and objects are code."""

    def cell(head: str, text: str) -> str:
        if text in _GRAVE and head == rows.head[0]:
            return f"**{text}**"
        return code(one_line(text, _MAX_CELL)) if head == "object" else inline(text, _MAX_SENTENCE)

    return markdown_table(rows.head, rows.mapped(cell).rows)


def _more(items: Sequence[object], rows: int, text: str) -> list[str]:
    return [text.format(len(items) - rows)] if len(items) > rows else []
