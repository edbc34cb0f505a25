"""Changes, hazards and pruned objects of a step as blocks, for a terminal and for Markdown.

The values are those of `Findings`, as its JSON has them; what is long is cut, and says so.
"""

from __future__ import annotations

from collections import Counter
from itertools import accumulate, groupby, zip_longest
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ci_automation.impact.change import Certainty, Change, ChangeClass, FileDiff, Hazard, Severity
from ci_automation.policy.content import UPSTREAM
from ci_automation.policy.decision import Decision
from ci_automation.report.blocks import (
    HINT,
    KEPT,
    ROW,
    WARNING,
    Block,
    Bullet,
    Code,
    Command,
    Detail,
    MarkedLine,
    Part,
    Strong,
    Titled,
    cut,
    on_terminal,
    shortened,
)
from ci_automation.report.details import (
    IN_FILES,
    acknowledgements,
    diffs_to_approve,
    file_blocks,
    obstacles,
    passed,
    rights_blocks,
    strong_if_grave,
    verdicts,
)
from ci_automation.report.findings import CRD, GRAVE, Findings, Taken, meaning, named_together, told_together
from ci_automation.report.text import ranked, step_title

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from ci_automation.policy.plan import PlannedStep

DELETES = "deletes"  # a word that has a colour of its own on a terminal
_COUNTED = "counted"  # marks the line with the numbers of what is not listed
NOTHING = "No object and no file changes."
ALL_NEW = "There was nothing before: everything is new."
BREAKS = "What can break"
BESIDE = "Beside plain Flux, clusters get"
_FEW = 3  # harmless changes that a terminal tells one by one
_IMAGES = 6  # as many controllers as Flux has
_BRIEF = 10  # lines of a step
_COLUMNS = 80  # they are counted on: what a person sees does not depend on the window
_TO_COPY = 5  # entries of a block
_MAX_REMEDY = 600
_ALL = 1 << 30
_SHORT = Detail(rows=60, below=60, changes=6, lines=20, hint=HINT)
_SHORTEST = Detail(rows=60, below=1, changes=6, lines=20, hint=HINT)
_EVERY = Detail(rows=_ALL, below=_ALL, changes=_ALL, every=True)


def step_parts(step: PlannedStep, *, every: bool = False, told: Collection[str] = ()) -> Iterator[Part]:
    """Yield what a step changes, can break and waits for, on few lines without what is `told`, or `every` detail."""
    found = Findings.of(step)
    yield MarkedLine(step_title(step, "->"))
    yield from text_parts(found, told, every=every)


def text_parts(found: Findings, told: Collection[str] = (), *, every: bool) -> Iterator[Part]:
    """Return `every` finding for a terminal, the gravest first, or what fits on few lines and is not `told`."""
    if not every:
        return _brief(found, told)
    rights = rights_blocks(found.rights, every=True)
    return on_terminal((*sections(found, _EVERY), *rights, *acknowledgements(found, _EVERY), *verdicts(found, _EVERY)))


def _brief(found: Findings, told: Collection[str]) -> Iterator[Part]:
    """Yield all that is dangerous, warns or asks and not `told`, what else fits on ten lines, and how much -v lists.

    Sections get lines in turn, advice at last. Not counted are a block to copy, which is whole, and the diffs of files
    that a person approves.
    """
    told = (*told, *(it.reason for it in found.gates if it.gate in {"kind", "first", UPSTREAM}))
    own = diffs_to_approve(found, _SHORTEST)
    rest = replace(found, diffs=()) if own else found
    parts = (on_terminal(obstacles(found, told)), *(on_terminal((it,)) for it in sections(rest, _SHORTEST)))
    turns = [(at, *it) for turn in zip_longest(*map(ranked, parts)) for at, it in enumerate(turn) if it]
    turns.sort(key=itemgetter(1))
    taken = accumulate(len(line.lines(_COLUMNS)) for *_, line in turns)
    kept = [turn for turn, lines in zip(turns, taken, strict=True) if lines <= _BRIEF or not turn[1]] or turns[:1]
    if all(turn[-1].mark == _COUNTED for turn in turns if turn not in kept):  # its numbers say more than "1 more line"
        kept = turns
    lines = [line for *_, line in sorted(kept, key=itemgetter(0, 2))]
    counted = [lines.pop().text.strip(" +").removesuffix(HINT)] if lines and lines[-1].mark == _COUNTED else []
    counted += [f"{left} more line{'s' if left > 1 else ''}"] if (left := len(turns) - len(kept)) else []
    told = ", ".join(filter(None, (f"+ {', '.join(counted)}" if counted else "", passed(found))))
    yield from (*lines, *((MarkedLine(f"{told}{HINT}"),) if told else ()), *on_terminal(own))
    many = len(found.to_acknowledge())
    instead = MarkedLine(f"-v prints how to acknowledge these {many} findings instead.")
    yield from on_terminal((instead,) if many > _TO_COPY else acknowledgements(found, _SHORTEST))


def beside_flux(found: Findings, *, every: bool) -> Iterator[Part]:
    """Yield what can break, and what is different from Flux alone."""
    detail = _EVERY if every else _SHORT
    if found.hazards:
        yield from on_terminal((Titled(BREAKS, tuple(hazard_blocks(found, detail))),))
    if found.changes:
        yield from on_terminal((Titled(BESIDE, tuple(change_blocks(found, detail))),))


def in_files(diffs: tuple[FileDiff, ...], *, every: bool) -> Iterator[Part]:
    """Yield what is in files, for a terminal."""
    blocks = file_blocks(Findings(diffs=diffs), _EVERY if every else _SHORT)
    yield from on_terminal((Titled("In these files", blocks),)) if diffs else ()


def sections(found: Findings, detail: Detail) -> Iterator[Titled]:
    """Yield what can break, what clusters delete, and what changes, the gravest first."""
    if found.hazards:
        yield Titled(BREAKS, tuple(hazard_blocks(found, detail)))
    yield from pruned_blocks(found, detail)
    title = BESIDE if found.changes and found.nothing_before else "What changes"
    yield Titled(title, tuple(change_blocks(found, detail)))
    if found.diffs:
        yield Titled(IN_FILES, file_blocks(found, detail))


def hazard_blocks(found: Findings, detail: Detail) -> Iterator[Block]:
    """Yield what can break, and what to do about it."""
    kinds = found.hazards_by_kind()
    shared = found.shared_remedies([kind[0] for kind in kinds] if detail.hint else None)
    yield from cut([_hazard(found, kind, shared, detail) for kind in kinds], detail.rows, "hazard", detail.hint)
    if shared:
        yield Titled("What to do about several of these", _remedies(shared, detail))


def pruned_blocks(found: Findings, detail: Detail) -> Iterator[Titled]:
    """Yield what clusters delete, under its title."""
    if names := cut([_pruned(name) for name in found.ranked_pruned()], detail.rows, "object", detail.hint):
        yield Titled("What clusters delete (prune)", names)


def _hazard(found: Findings, kind: Sequence[Hazard], shared: Collection[str], detail: Detail) -> Bullet:
    """Return what hazards of one kind break, where, and what to do about each."""
    hazard, is_advice = kind[0], kind[0].certainty is Certainty.ADVICE
    places = dict.fromkeys(place for each in kind for place in each.places)
    where = [Bullet(("at ", Code(str(place))), "" if at else ROW) for at, place in enumerate(places)]
    below = cut(where, detail.below, "place", detail.hint)
    own = [[text for text in each.remedies if text not in shared] for each in kind]
    several = len(kind) > 1
    if detail.hint and (several or (detail.below == 1 and not is_advice)):
        recipes = [text for text in own[0] if all(text in texts for texts in own)]
        rest = " (-v has more, and the fingerprints)" if several else " (-v has more)" if len(recipes) > 1 else ""
        below += tuple(Bullet(("what to do: ", *_words(text), rest), ROW) for text in recipes[:1])
    elif several:
        each = [Bullet(_named(it, it.sentence), "", _remedies(of, detail)) for it, of in zip(kind, own, strict=True)]
        below += (Titled("Each of these, and what to do about it", cut(each, detail.rows), folded=True),)
    elif own[0] and not (detail.hint and is_advice):
        below += (Titled("What to do", _remedies(own[0], detail), folded=len(found.hazards) > 1),)
    said = told_together(kind)
    words = (_head(found, hazard), ": ", *((said,) if several else _named(hazard, said)))
    mark = _mark(hazard.certainty, found.taken().hazard(hazard))
    return Bullet(words, mark, below, may_be_cut=bool(detail.hint) and mark == Certainty.ADVICE)


def _mark(grade: str, verdict: str) -> str:
    """Return the word that marks a row: how grave it is, or else that it stops the step."""
    return verdict if verdict in KEPT and grade not in KEPT else grade


def _head(found: Findings, hazard: Hazard) -> str:
    """Return how sure a hazard is, which gate tells it, and what that gate says."""
    return strong_if_grave(
        ", ".join(filter(None, (hazard.certainty, hazard.gate, found.taken().hazard(hazard)))), hazard.certainty
    )


def hazards_in_brief(found: Findings, rows: int, limit: int) -> tuple[Block, ...]:
    """Return what can break, in one entry for each kind of hazard."""
    kinds = found.hazards_by_kind()
    entries = [Bullet((_head(found, kind[0]), ": ", shortened(told_together(kind), limit))) for kind in kinds]
    return cut(entries, rows, "hazard")


def _named(hazard: Hazard, said: str) -> tuple[str, ...]:
    return (said,) if hazard.final else (said, " (", Code(hazard.fingerprint), ")")


def _remedies(remedies: Sequence[str], detail: Detail) -> tuple[Block, ...]:
    return cut([Bullet(_words(text)) for text in remedies], detail.below, "", detail.hint)


def _words(remedy: str) -> tuple[str, ...]:
    """Return advice whose commands are in backticks, as its author put them."""
    parts = remedy[:_MAX_REMEDY].split("`")
    return tuple(Command(part) if number % 2 else part for number, part in enumerate(parts) if part)


def _pruned(name: str) -> Bullet:
    whole = f"{name}, with every object of its kind"
    return Bullet(Strong(whole), DELETES) if name.startswith(CRD) else Bullet(name, Severity.WARNING)


def change_blocks(found: Findings, detail: Detail) -> Iterator[Block]:
    """Yield the changes that need a look, those of several objects together, and the others after a click."""
    if not found.changes:
        yield MarkedLine(ALL_NEW if found.nothing_before else NOTHING)
        return
    if not detail.hint:
        yield MarkedLine(f"{found.count()}.")
    taken, grave = found.taken(), found.to_look_at()
    alike = [(it,) for it in grave] if detail.every else found.alike(grave)
    yield from _cut_changes([_change(row, taken, detail) for row in alike], alike, detail)
    counted = [] if detail.every else list(found.counted())
    harmless = found.harmless(every=detail.every)
    if detail.hint and not 0 < len(harmless) <= (0 if detail.below == 1 else _FEW):
        classes = groupby(harmless, key=attrgetter("belongs_to"))
        told = [_in_short(tuple(of), alone=not grave) for _, of in classes]
        yield from [MarkedLine(f"+ {', '.join([*told, *counted])}{detail.hint}", _COUNTED)] if told or counted else ()
    elif number := len(found.changes) - len(grave):
        if detail.every:
            entries = [Bullet(_words_of(row, taken, whole=True)) for row in found.alike(harmless)]
        else:
            entries = [_change((it,), taken, detail) for it in harmless]
        listed = cut(entries, detail.rows)
        rest = (Bullet(f"{', '.join(counted)}{detail.hint}"),) if counted else ()
        need = "change that needs" if number == 1 else "changes that need"
        yield Titled(f"{number} {need} no review", (*listed, *rest), folded=True)


def _in_short(alike: Sequence[Change], *, alone: bool) -> str:
    """Return how many changes of one class there are, or a few images by their names where no change needs a look."""
    if alone and len(alike) <= _IMAGES and alike[0].belongs_to is ChangeClass.IMAGE:
        named = [[text.partition("@")[0].rpartition("/")[2] for text in (it.old, it.new)] for it in alike]
        return ", ".join(f"{old} -> {new.rpartition(':')[2]}" for old, new in named)
    return f"{len(alike)} {alike[0].belongs_to} change{'s' if len(alike) > 1 else ''}"


def _cut_changes(entries: Sequence[Bullet], of: Sequence[Sequence[Change]], detail: Detail) -> Iterator[Bullet]:
    """Yield as many changes as there is room for, of each class one before the others.

    A terminal always shows what is dangerous or refused; of what only asks or warns one of each class, and counts the
    others.
    """
    first = {row[0].belongs_to: number for number, row in reversed([*enumerate(of)])}.values()
    marked = {at: it.mark for at, it in enumerate(entries) if detail.hint and it.mark in KEPT | WARNING}
    asking = {at for at, mark in marked.items() if mark == Decision.APPROVAL and at not in first}
    must = {at for at, mark in marked.items() if at in first or mark in KEPT} - asking
    order = sorted({*range(len(of))} - asking, key=lambda at: (at not in must, at not in first))
    shown = sorted(order[: max(detail.changes, len(must))])
    yield from (entries[at] for at in shown)
    if left := Counter(it.belongs_to for at, row in enumerate(of) if at not in shown for it in row):
        told = f"and {', '.join(f'{number} more {name}' for name, number in left.items())}{detail.hint}"
        yield Bullet(told, str(Decision.APPROVAL) if marked.keys() - shown else "")


def _change(row: Sequence[Change], taken: Taken, detail: Detail) -> Bullet:
    """Return a change, or what says the same of several objects."""
    first = row[0]
    mark = _mark(first.severity if first.severity in GRAVE else "", taken.change(first))
    is_kept = bool(detail.hint) and mark in KEPT
    words = _words_of(row, taken, whole=is_kept)
    if detail.every:
        return Bullet((*words, f" ({first.fingerprint})"), mark, (Bullet(f"{first.path}: {_moved(first)}"),))
    if len(row) == 1 or detail.hint:
        return Bullet(words, mark, may_be_cut=not is_kept and mark not in WARNING)
    each = cut([_change((it,), taken, detail) for it in row], detail.below)
    return Bullet(words, mark, (Titled("Each of these", each, folded=True),))


def _words_of(row: Sequence[Change], taken: Taken, *, whole: bool) -> tuple[str, ...]:
    first, named = row[0], Code(named_together(row, whole=whole))
    head = ", ".join(filter(None, (first.severity, first.belongs_to, taken.change(first))))
    return strong_if_grave(head, first.severity), ": ", named, ": each " if len(row) > 1 else " ", meaning(first)


def _moved(change: Change) -> str:
    """Return the values of a change; of a long one that comes or goes as a whole, of which a part is known, no part."""
    if "…" in f"{change.old}{change.new}" and not (change.old and change.new):
        return "added" if change.new else "removed"
    return f"{change.old} -> {change.new}"
