"""Changes, hazards, pruned objects and verdicts of a step as lines and tables for a terminal, and as Markdown.

The values are those of `Findings`, as its JSON has them; what is long is cut, and says so.
"""

from __future__ import annotations

from collections import Counter
from html import escape
from typing import TYPE_CHECKING

from ci_automation.flux.proof import Proof
from ci_automation.impact.change import Severity
from ci_automation.impact.hazard import Certainty
from ci_automation.policy.decision import Decision, decide
from ci_automation.report.findings import CRD, Findings, acknowledging, meaning, named_together, told_together
from ci_automation.report.markdown import code, folded, inline, markdown_table, one_line, quote, typed
from ci_automation.report.text import MarkedLine, Part, Table, plain_text, shortened

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ci_automation.impact.change import Change
    from ci_automation.impact.hazard import Hazard
    from ci_automation.policy.decision import Verdict
    from ci_automation.policy.plan import PlannedStep

DELETES = "deletes"  # a word that has a colour of its own on a terminal
_FEW = 3  # harmless changes that are told one by one
_MANY, _OF_A_CLASS = 6, 1  # rows of changes on a terminal, and of each class where there are more
_ROWS = 60  # on a terminal; of a hazard's places, too
_MAX_CELL, _MAX_SENTENCE, _MAX_REMEDY = 120, 300, 600  # in Markdown
_DIFF_ROWS, _ROOM = 20, 100  # lines of a diff on a terminal; characters of one in Markdown for each row of a table
_RENDERED = "What changes in the rendering of "
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
    yield from _hazard_lines(found, every=every)
    yield from _pruned_lines(found)
    yield from _change_table_of_all(found) if every else _change_lines(found)
    yield from _diff_lines(found, every=every)
    yield from _acknowledge_lines(found, every=every)
    yield from _gate_parts(found, every=every)


def _hazard_lines(found: Findings, *, every: bool) -> Iterator[MarkedLine]:
    kinds = [(it,) for it in found.ranked_hazards()] if every else found.hazards_by_kind()
    taken, shared = found.taken(), found.shared_remedies([kind[0] for kind in kinds])
    if found.hazards:
        yield MarkedLine("What can break:")
    yield from _remedy_lines("  What to do about several of these:", shared)
    for kind in kinds:
        hazard, several = kind[0], len(kind) > 1
        head = _words(hazard, taken.hazard(hazard)) + ("" if several else f" ({hazard.fingerprint})")
        is_cut = not every and hazard.certainty is Certainty.ADVICE
        text = _line(f"  {head}: {told_together(kind)}")
        yield MarkedLine(shortened(text) if is_cut else text, hazard.certainty)
        places = tuple(dict.fromkeys(place for each in kind for place in each.places))
        yield from (MarkedLine(_line(f"      at {place}")) for place in places[:_ROWS])
        if len(places) > _ROWS:
            yield MarkedLine(f"      and at {len(places) - _ROWS} more places")
        if several:
            recipe = [text for text in hazard.remedies if all(text in each.remedies for each in kind)][:1]
            yield MarkedLine(_line(f"      what to do: {' '.join(recipe)} (-v has more, and the fingerprints)"))
        elif not is_cut:
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


def _change_lines(found: Findings) -> Iterator[MarkedLine]:
    """Yield the changes that need a look, a line each, those of several objects together; the others are counted."""
    if not found.changes:
        yield MarkedLine(_ALL_NEW if found.nothing_before else _NOTHING)
        return
    yield MarkedLine("What changes:")
    harmless = found.harmless()
    rows = found.alike((*found.to_look_at(), *(harmless if len(harmless) <= _FEW else ())))
    seen: Counter[str] = Counter()
    left: Counter[str] = Counter() if len(harmless) <= _FEW else Counter(it.belongs_to for it in harmless)
    for row in rows:
        seen[row[0].belongs_to] += 1
        if len(rows) > _MANY and seen[row[0].belongs_to] > _OF_A_CLASS:
            left[f"more {row[0].belongs_to}"] += len(row)
        else:
            yield _change_line(found, row)
    if rest := [*(f"{number} {name}" for name, number in left.items()), *found.counted()]:
        yield MarkedLine(f"+ {', '.join(rest)} (-v lists them)")


def _change_line(found: Findings, row: Sequence[Change]) -> MarkedLine:
    first, verdict = row[0], found.taken().change(row[0])
    head = ", ".join(word for word in (str(first.severity), str(first.belongs_to), verdict) if word)
    between = ":" if len(row) > 1 else ""
    mark = first.severity if first.severity in _GRAVE else ""
    return MarkedLine(shortened(_line(f"  {head}: {named_together(row)}{between} {meaning(first)}")), mark)


def _change_table_of_all(found: Findings) -> Iterator[Part]:
    if not found.changes:
        yield from _change_lines(found)
        return
    yield MarkedLine(f"What changes: {found.count()}")
    yield _change_table(found, [(it,) for it in found.ranked()], every=True).mapped(lambda _, cell: _line(cell))


def _diff_lines(found: Findings, *, every: bool) -> Iterator[MarkedLine]:
    """Yield the diffs of overlay files, and of what they render to; of long ones the first lines."""
    for each in found.diffs:
        lines = each.text.splitlines()
        shown = lines if every else lines[:_DIFF_ROWS]
        yield MarkedLine(_line(f"{_RENDERED if each.rendered else ''}{each.path}:"))
        yield from (MarkedLine(_line(f"  {line}")) for line in shown)
        if len(lines) > len(shown):
            yield MarkedLine(f"  and {len(lines) - len(shown)} more lines (-v lists them)")


def _acknowledge_lines(found: Findings, *, every: bool) -> Iterator[MarkedLine]:
    known = found.to_acknowledge(every=every)
    if known and (every or decide(found.gates) is not Decision.APPROVAL):
        yield MarkedLine(_TO_ACCEPT)
        yield from (MarkedLine(f"  {line}") for line in acknowledging(known, _ROWS).splitlines())


def _gate_parts(found: Findings, *, every: bool) -> Iterator[Part]:
    """Yield every gate on request; else those that ask for something that is not told above, and how many passed."""
    gates = found.ranked_gates()
    if every and gates:
        yield MarkedLine(_WHY)
        yield _gate_table(gates).mapped(lambda _, cell: _line(cell))
        return
    for gate in gates:
        if gate.allowed or (gate.decision is not Decision.AUTO and not found.lists(gate)):
            mark = gate.decision if gate.decision in _GRAVE else ""
            yield MarkedLine(_line(f"{gate.decision}, {gate.gate}: {gate.reason}"), mark)
    passed = sum(it.decision is Decision.AUTO and not it.allowed for it in gates)
    words = f"{passed} check{'' if passed == 1 else 's'} passed (-v lists them)"
    asks = bool(gates) and decide(gates) is Decision.APPROVAL
    if asks and found.to_acknowledge():
        yield MarkedLine(f"To acknowledge these, see -v. {words}")
    elif asks and found.to_acknowledge(every=True):
        yield MarkedLine(f"Acknowledging these is not enough. {words}")
    elif passed:
        yield MarkedLine(words)


def _change_table(found: Findings, rows: Sequence[Sequence[Change]], *, every: bool = False) -> Table:
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


def _gate_table(gates: Sequence[Verdict]) -> Table:
    head = ("verdict", "gate", "input", "reason")
    return Table(head, tuple((str(it.decision), it.gate, it.looked_at, it.reason) for it in gates))


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
    files = [f"{code(one_line(it.path))}\n\n{quote(it.text, rows * _ROOM)}" for it in found.diffs if not it.rendered]
    if found.diffs:
        built = [it for it in found.diffs if it.rendered]
        # The words to click on are in HTML, where backticks keep nothing apart.
        titles = [escape(one_line(f"{_RENDERED}{it.path}")) for it in built[:rows]]
        files += [folded(title, quote(it.text, rows * _ROOM)) for title, it in zip(titles, built, strict=False)]
        yield "What changes in your files", "\n\n".join([*files[:rows], *_more(files, rows, "And {} more files.")])


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
    parts = [_table(_gate_table(gates[:rows])), *_more(gates, rows, "And {} more gates.")]
    return "\n\n".join(parts) if gates else ""


def _hazards(found: Findings, rows: int) -> Iterator[str]:
    kinds, taken, shared = found.hazards_by_kind(), found.taken(), found.shared_remedies()
    shown = kinds[:rows]
    lines = [line for kind in shown for line in _hazard(kind, taken.hazard(kind[0]), rows)]
    yield "\n".join([*lines, *_more(kinds, rows, "- and {} more that can break")])
    if shared:
        yield "What to do about several of these:"
        yield "\n".join(_remedies(shared, rows))
    told = [it for kind in shown for it in (kind[:rows] if len(kind) > 1 else ())]
    single = [kind[0] for kind in shown if len(kind) == 1]
    own = [(it, [text for text in it.remedies if text not in shared]) for it in (*told, *single)]
    own = [(it, remedies) for it, remedies in own if remedies or it in told]
    if own and len(found.hazards) == 1:
        yield "What to do:"
        yield "\n".join(_remedies(own[0][1], rows))
    elif own:
        lines = [line for hazard, remedies in own for line in (_named(hazard), *_remedies(remedies, rows, "  "))]
        yield folded("Each of these, and what to do about it" if told else "What to do about each", "\n".join(lines))


def _hazard(kind: Sequence[Hazard], verdict: str, rows: int) -> Iterator[str]:
    hazard, places = kind[0], tuple(dict.fromkeys(place for each in kind for place in each.places))
    head = inline(_words(hazard, verdict), _MAX_CELL)
    head = f"**{head}**" if hazard.certainty in _GRAVE else head
    print_of_one = f" (`{hazard.fingerprint}`)" if len(kind) == 1 else ""
    yield f"- {head}: {inline(told_together(kind), _MAX_SENTENCE)}{print_of_one}"
    yield from (f"  - {typed(one_line(str(place), _MAX_CELL))}" for place in places[:rows])
    yield from _more(places, rows, "  - and {} more places")


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
    alike = found.alike(grave)
    yield from [_table(_change_table(found, alike[:rows]))] if grave else []
    if left := sum(map(len, alike[rows:])):
        yield f"And {left} less grave changes."
    if len(alike) < len(grave):
        each = [_table(_change_table(found, [(it,) for it in grave[:rows]])), *_more(grave, rows, "And {} more.")]
        yield folded(f"Each of these {len(grave)} changes", "\n\n".join(each))
    parts = [_table(_change_table(found, [(it,) for it in harmless[:rows]]))] if harmless else []
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
