"""Changes, hazards, pruned objects and verdicts of a step as Markdown.

The values are those of `Findings`, as its JSON has them; what is long is cut, and says so.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from ci_automation.report.changes import (
    ALL_NEW,
    GRAVE,
    NOTHING,
    RENDERED,
    WITH_ALL,
    change_table,
    gate_table,
    hazard_words,
)
from ci_automation.report.findings import CRD, Findings, acknowledging, told_together
from ci_automation.report.markdown import code, folded, inline, markdown_table, one_line, quote, typed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ci_automation.impact.hazard import Hazard
    from ci_automation.report.text import Table

_MAX_CELL, _MAX_SENTENCE, _MAX_REMEDY = 120, 300, 600
_ROOM = 100  # characters of a diff for each row of a table


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
        titles = [escape(one_line(f"{RENDERED}{it.path}")) for it in built[:rows]]
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
    parts = [_table(gate_table(gates[:rows])), *_more(gates, rows, "And {} more gates.")]
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


def hazards_in_brief(found: Findings, rows: int, limit: int) -> str:
    """Return what can break, on one line for each kind of hazard, or nothing where nothing can."""
    kinds, taken = found.hazards_by_kind(), found.taken()
    lines = [_head(kind, taken.hazard(kind[0]), limit) for kind in kinds[:rows]]
    return "\n".join([*lines, *_more(kinds, rows, "- and {} more that can break")])


def _head(kind: Sequence[Hazard], verdict: str, limit: int) -> str:
    head = inline(hazard_words(kind[0], verdict), _MAX_CELL)
    head = f"**{head}**" if kind[0].certainty in GRAVE else head
    return f"- {head}: {inline(told_together(kind), limit)}"


def _hazard(kind: Sequence[Hazard], verdict: str, rows: int) -> Iterator[str]:
    hazard, places = kind[0], tuple(dict.fromkeys(place for each in kind for place in each.places))
    print_of_one = f" (`{hazard.fingerprint}`)" if len(kind) == 1 else ""
    yield f"{_head(kind, verdict, _MAX_SENTENCE)}{print_of_one}"
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
    return f"**{inline(name, _MAX_CELL)}, {WITH_ALL}**" if name.startswith(CRD) else inline(name, _MAX_CELL)


def _changes(found: Findings, rows: int) -> Iterator[str]:
    if not found.changes:
        yield ALL_NEW if found.nothing_before else NOTHING
        return
    yield f"{found.count()}."
    grave, harmless, counted = found.to_look_at(), found.harmless(), list(found.counted())
    alike = found.alike(grave)
    yield from [_table(change_table(found, alike[:rows]))] if grave else []
    if left := sum(map(len, alike[rows:])):
        yield f"And {left} less grave changes."
    if len(alike) < len(grave):
        each = [_table(change_table(found, [(it,) for it in grave[:rows]])), *_more(grave, rows, "And {} more.")]
        yield folded(f"Each of these {len(grave)} changes", "\n\n".join(each))
    parts = [_table(change_table(found, [(it,) for it in harmless[:rows]]))] if harmless else []
    if rest := ", ".join([*_more(harmless, rows, "{} more"), *counted]):
        parts.append(f"And {rest}." if parts else f"{rest}.")
    number = len(found.changes) - len(grave)
    need = "change that needs" if number == 1 else "changes that need"
    yield from [folded(f"{number} {need} no review", "\n\n".join(parts))] if parts else []


def _table(rows: Table) -> str:
    """Return a table as Markdown: what needs a look is strong, and objects are code."""

    def cell(head: str, text: str) -> str:
        if text in GRAVE and head == rows.head[0]:
            return f"**{text}**"
        return code(one_line(text, _MAX_CELL)) if head == "object" else inline(text, _MAX_SENTENCE)

    return markdown_table(rows.head, rows.mapped(cell).rows)


def _more(items: Sequence[object], rows: int, text: str) -> list[str]:
    return [text.format(len(items) - rows)] if len(items) > rows else []
