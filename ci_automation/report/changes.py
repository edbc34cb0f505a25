"""What changes, what can break, what clusters delete, and why that is decided so: for terminals, and as Markdown.

Both show the values of `Findings`, as its JSON has them; what is long is cut, and says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_automation.flux.changes.model import Severity
from ci_automation.flux.hazard import Certainty
from ci_automation.policy.decision import Decision
from ci_automation.report.findings import CRD, Findings
from ci_automation.report.markdown import code, command, folded, table
from ci_automation.report.quote import inline, one_line
from ci_automation.report.text import Table, plain_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ci_automation.flux.changes.model import Change
    from ci_automation.flux.hazard import Hazard
    from ci_automation.policy.plan import PlannedStep

DELETES = "deletes"  # a word that has a colour of its own on a terminal
_ROWS = 60  # on a terminal; of a hazard's places, too
_MAX_CELL, _MAX_SENTENCE, _MAX_REMEDY = 120, 300, 600
_WITH_ALL = "with every object of its kind"
_GRAVE = {Severity.DANGER, Severity.WARNING, Certainty.CERTAIN, Certainty.POSSIBLE, Decision.REFUSED, Decision.APPROVAL}
_DIGITS = frozenset("0123456789e")
_NOTHING = "No object and no file changes."
_ALL_NEW = "Nothing was there before: all of it is new."


@dataclass(frozen=True, slots=True)
class Line:
    """A line for a terminal; `mark` is a word that has a colour there, which the whole line gets."""

    text: str
    mark: str = ""


Part = Line | Table


def step_parts(step: PlannedStep, *, every: bool = False) -> Iterator[Part]:
    """Yield what a step changes, what it can break, and what each gate says of it; `every` change on request."""
    yield Line(f"{step.old_version} -> {step.new_version} ({step.kind}; its rendering is proven: {step.proof})")
    yield from text_parts(Findings.of(step), every=every)


def text_parts(found: Findings, *, every: bool = False) -> Iterator[Part]:
    """Yield the findings for a terminal, the gravest first; of many changes the first ones, or `every` one."""
    yield from _hazard_lines(found)
    yield from _pruned_lines(found)
    yield from _change_parts(found, every=every)
    if known := found.to_acknowledge(every=every):
        yield Line("To accept what stops it, instead, in the artifact's configuration:")
        yield from (Line(f"  {line}") for line in _acknowledgements(known, _ROWS).splitlines())
    if found.gates:
        yield Line("Why it is decided so, gate by gate:")
        rows = ((str(it.decision), it.gate, it.looked_at, it.reason) for it in found.ranked_gates())
        yield _table(("verdict", "gate", "input", "reason"), rows)


def _hazard_lines(found: Findings) -> Iterator[Line]:
    taken, shared = found.taken(), found.shared_remedies()
    if found.hazards:
        yield Line("What can break:")
    for hazard in found.ranked_hazards():
        yield Line(_line(f"  {_words(hazard, taken.hazard(hazard))}: {hazard.sentence}"), hazard.certainty)
        yield from (Line(_line(f"      at {place}")) for place in hazard.places[:_ROWS])
        if len(hazard.places) > _ROWS:
            yield Line(f"      and at {len(hazard.places) - _ROWS} places more")
        yield from _remedy_lines("      what to do:", [text for text in hazard.remedies if text not in shared])
        yield Line(f"      fingerprint {hazard.fingerprint}")
    yield from _remedy_lines("  What to do about more than one of these:", shared)


def _remedy_lines(head: str, remedies: Sequence[str]) -> Iterator[Line]:
    if remedies:
        yield Line(head)
    yield from (Line(f"        {line}") for text in remedies for line in plain_text(text).split("\n"))


def _pruned_lines(found: Findings) -> Iterator[Line]:
    if found.pruned:
        yield Line("What clusters delete when they apply it (prune):")
    for name in found.ranked_pruned():
        is_crd = name.startswith(CRD)
        yield Line(_line(f"  {name}{f', {_WITH_ALL}' if is_crd else ''}"), DELETES if is_crd else Severity.WARNING)


def _change_parts(found: Findings, *, every: bool) -> Iterator[Part]:
    if not found.changes:
        yield Line(_ALL_NEW if found.nothing_before else _NOTHING)
        return
    yield Line(f"What changes: {found.count()}")
    listed, taken = found.ranked() if every else (*found.to_look_at(), *found.harmless()), found.taken()
    shown = listed if every else listed[:_ROWS]
    head = ("severity", "takes", "class", "object", "what it means", "where", "from", "to", "fingerprint")
    columns = [column for column in range(len(head)) if (every or column < _BRIEF) and (found.gates or column != 1)]
    rows = (_change_row(change, taken.change(change)) for change in shown)
    if shown:
        yield _table([head[column] for column in columns], ([row[column] for column in columns] for row in rows))
    rest = [f"{len(listed) - len(shown)} less grave ones"] if len(listed) > len(shown) else []
    rest += [] if every else found.counted()
    if rest:
        yield Line(f"And {', '.join(rest)}; -v lists them.")


_BRIEF = 5  # columns of a row that are shown without -v


def _change_row(change: Change, takes: str) -> tuple[str, ...]:
    what = (str(change.severity), takes, str(change.belongs_to), str(change.object), _meaning(change))
    return (*what, change.path, change.old, change.new, change.fingerprint)


def _meaning(change: Change) -> str:
    """Return the sentence without the object that it begins with, which stands beside it."""
    return change.sentence.removeprefix(f"{change.object} ")


def _words(hazard: Hazard, takes: str) -> str:
    return ", ".join(word for word in (str(hazard.certainty), hazard.gate, takes) if word)


def _table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> Table:
    return Table(tuple(head), tuple(tuple(_line(cell) for cell in row) for row in rows))


def _line(text: str) -> str:
    return plain_text(text).replace("\n", " ")


def _acknowledgements(known: Sequence[tuple[str, str]], rows: int) -> str:
    """Return what is to be put into the configuration; the date and the reason are a person's to say."""
    lines = [
        f"  - {{fingerprint: {_scalar(each)}, until: DATE, reason: WHY}}{f'  # {what}' if what.isalpha() else ''}"
        for each, what in known[:rows]
    ]
    return "\n".join(["acknowledge:", *lines, *_more(known, rows, "  # and {} more")])


def _scalar(each: str) -> str:
    """Return a fingerprint as YAML that reads as a text; of digits alone, or with an exponent, it would be a number."""
    return f'"{each}"' if set(each) <= _DIGITS else each


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
    return f"```yaml\n{_acknowledgements(known, rows)}\n```" if known else ""


def gates_markdown(found: Findings, rows: int) -> str:
    """Return the table of all gates, or nothing where there are none."""
    gates = found.ranked_gates()
    lines = [
        (
            _strong(it.decision),
            inline(it.gate, _MAX_CELL),
            inline(it.looked_at, _MAX_SENTENCE),
            inline(it.reason, _MAX_SENTENCE),
        )
        for it in gates[:rows]
    ]
    parts = [table(("verdict", "gate", "input", "reason"), lines), *_more(gates, rows, "And {} gates more.")]
    return "\n\n".join(parts) if gates else ""


def _hazards(found: Findings, rows: int) -> Iterator[str]:
    hazards, taken, shared = found.ranked_hazards(), found.taken(), found.shared_remedies()
    shown = hazards[:rows]
    lines = [line for hazard in shown for line in _hazard(hazard, taken.hazard(hazard), rows)]
    yield "\n".join([*lines, *_more(hazards, rows, "- and {} more that can break")])
    if shared:
        yield "What to do about more than one of these:"
        yield "\n".join(_remedies(shared, rows))
    own = [(hazard, remedies) for hazard in shown if (remedies := [it for it in hazard.remedies if it not in shared])]
    if own and len(hazards) == 1:
        yield "What to do:"
        yield "\n".join(_remedies(own[0][1], rows))
    elif own:
        lines = [line for hazard, remedies in own for line in (_named(hazard), *_remedies(remedies, rows, "  "))]
        yield folded("What to do about each", "\n".join(lines))


def _hazard(hazard: Hazard, takes: str, rows: int) -> Iterator[str]:
    words = inline(_words(hazard, takes), _MAX_CELL)
    words = f"**{words}**" if hazard.certainty in _GRAVE else words
    yield f"- {words}: {inline(hazard.sentence, _MAX_SENTENCE)} (`{hazard.fingerprint}`)"
    yield from (f"  - {command(one_line(str(place), _MAX_CELL))}" for place in hazard.places[:rows])
    yield from _more(hazard.places, rows, "  - and {} places more")


def _named(hazard: Hazard) -> str:
    return f"- {inline(hazard.sentence, _MAX_CELL)} (`{hazard.fingerprint}`)"


def _remedies(remedies: Sequence[str], rows: int, indent: str = "") -> Iterator[str]:
    yield from (f"{indent}- {_remedy(text)}" for text in remedies[:rows])
    yield from _more(remedies, rows, indent + "- and {} more")


def _remedy(text: str) -> str:
    """Return advice whose commands are in backticks, as its author put them."""
    parts = text[:_MAX_REMEDY].split("`")
    shown = (
        command(one_line(part, _MAX_REMEDY)) if number % 2 else _between(part) for number, part in enumerate(parts)
    )
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
    yield from _change_table(found, grave[:rows])
    yield from _more(grave, rows, "And {} less grave ones.")
    parts = [*_change_table(found, harmless[:rows])]
    if rest := ", ".join([*_more(harmless, rows, "{} more"), *counted]):
        parts.append(f"And {rest}." if parts else f"{rest}.")
    number = len(found.changes) - len(grave)
    need = "change that needs" if number == 1 else "changes that need"
    yield from [folded(f"{number} {need} no look", "\n\n".join(parts))] if parts else []


def _change_table(found: Findings, changes: Sequence[Change]) -> Iterator[str]:
    taken, gated = found.taken(), bool(found.gates)
    rows = [
        (
            _strong(change.severity),
            *([inline(taken.change(change))] if gated else []),
            inline(change.belongs_to),
            code(one_line(str(change.object), _MAX_CELL)),
            inline(_meaning(change), _MAX_SENTENCE),
        )
        for change in changes
    ]
    if rows:
        yield table(("severity", *(["takes"] if gated else []), "class", "object", "what it means"), rows)


def _strong(word: Severity | Decision) -> str:
    return f"**{word}**" if word in _GRAVE else str(word)


def _more(items: Sequence[object], rows: int, words: str) -> list[str]:
    return [words.format(len(items) - rows)] if len(items) > rows else []
