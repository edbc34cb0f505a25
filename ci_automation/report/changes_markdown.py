"""What changes, what can break, what clusters delete, and why that is decided so: as Markdown.

The values are those of `Findings`, as its JSON has them; what is long is cut, and says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.impact.change import Severity
from ci_automation.impact.hazard import Certainty
from ci_automation.policy.decision import Decision
from ci_automation.report.changes import ALL_NEW, NOTHING, WITH_ALL, meaning, words
from ci_automation.report.findings import CRD, Findings, acknowledging
from ci_automation.report.markdown import code, command, folded, inline, one_line, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ci_automation.impact.change import Change
    from ci_automation.impact.hazard import Hazard

_MAX_CELL, _MAX_SENTENCE, _MAX_REMEDY = 120, 300, 600
_GRAVE = {Severity.DANGER, Severity.WARNING, Certainty.CERTAIN, Certainty.POSSIBLE, Decision.REFUSED, Decision.APPROVAL}


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


def _hazard(hazard: Hazard, verdict: str, rows: int) -> Iterator[str]:
    head = inline(words(hazard, verdict), _MAX_CELL)
    head = f"**{head}**" if hazard.certainty in _GRAVE else head
    yield f"- {head}: {inline(hazard.sentence, _MAX_SENTENCE)} (`{hazard.fingerprint}`)"
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
    return f"**{inline(name, _MAX_CELL)}, {WITH_ALL}**" if name.startswith(CRD) else inline(name, _MAX_CELL)


def _changes(found: Findings, rows: int) -> Iterator[str]:
    if not found.changes:
        yield ALL_NEW if found.nothing_before else NOTHING
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
            inline(meaning(change), _MAX_SENTENCE),
        )
        for change in changes
    ]
    if rows:
        yield table(("severity", *(["verdict"] if gated else []), "class", "object", "what it means"), rows)


def _strong(word: Severity | Decision) -> str:
    return f"**{word}**" if word in _GRAVE else str(word)


def _more(items: Sequence[object], rows: int, text: str) -> list[str]:
    return [text.format(len(items) - rows)] if len(items) > rows else []
