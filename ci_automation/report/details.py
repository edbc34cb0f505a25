"""Details of a step as blocks: diffs of own files, rights of Flux, verdicts of gates, and YAML that acknowledges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ci_automation.impact.change import FileDiff, all_of
from ci_automation.policy.decision import Decision, decide
from ci_automation.report.blocks import (
    HINT,
    Block,
    Bullet,
    Code,
    Detail,
    MarkedLine,
    Quoted,
    Strong,
    Table,
    Titled,
    cut,
    more,
)
from ci_automation.report.findings import GRAVE, Findings, acknowledging

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from ci_automation.impact.rights import FolderRights, Right

IN_FILES = "What changes in your files"
_TO_APPROVE = 40  # lines of all diffs, before a person approves them
_WIDE = 100  # columns of a table with sentences in a pipe or a log
_ROOM = 100  # characters of a diff in Markdown for each entry of a list


def file_blocks(found: Findings, detail: Detail) -> tuple[Block, ...]:
    """Return the diffs of files of the overlay."""
    return cut([_diff(it, detail) for it in found.diffs], detail.rows, "file")


def diffs_to_approve(found: Findings, detail: Detail) -> tuple[Titled, ...]:
    """Return the diffs of files that a person approves, whole unless they are long; what they render to is counted.

    There is nothing where no gate asks for approval.
    """
    files = [it for it in found.diffs if not it.rendered]
    if not files or all(it.decision is not Decision.APPROVAL for it in found.gates):
        return ()
    shown: list[Block] = []
    left = _TO_APPROVE
    for diff in files:
        if left > 0:
            shown.append(_diff(diff, replace(detail, lines=left)))
            left -= len(diff.text.splitlines())
    rest = more(len(files) - len(shown), "file", detail.hint)
    return (Titled(IN_FILES, (*shown, *rest, *more(len(found.diffs) - len(files), "rendering", detail.hint))),)


def _diff(diff: FileDiff, detail: Detail) -> Titled:
    """Return the diff of a file of the overlay, or of what it renders to; of a long one the first lines."""
    lines = diff.text.splitlines()
    shown = Quoted("\n".join(lines[: detail.lines]), detail.rows * _ROOM)
    title = f"What changes in the rendering of {diff.path}" if diff.rendered else Code(diff.path)
    return Titled(title, (shown, *more(len(lines) - detail.lines, "line", detail.hint)), folded=diff.rendered)


def rights_blocks(folders: Sequence[FolderRights], *, every: bool) -> Iterator[Block]:
    """Yield what Flux may do, by folder and namespace: the rights that Flux alone does not give, or all."""
    for each in folders:
        folder = f"./{each.folder.removeprefix('.')}"
        if not every and not each.unbuilt and not any(it.added for it in each.rights):
            where = f" in clusters that apply {folder}, as" if folders[1:] or folder != "./" else " as"
            yield MarkedLine(f"Rights{where} in plain Flux{_counted(each)}")
            continue
        what = f"by the components alone; {folder} was not built: {each.unbuilt}" if each.unbuilt else ""
        left = each.more
        blocks: list[Block] = []
        for namespace, rights in each.by_namespace.items():
            shown = [it for it in rights if every or it.added]
            left += len(rights) - len(shown)
            where = f"in the namespace {namespace}" if namespace else "in the whole cluster"
            blocks += [Titled(where, tuple(map(_right, shown)))] if shown else ()
        blocks += [Bullet(f"and {left} more bindings{'' if every else HINT}")] if left else ()
        title = f"What Flux may do in clusters {what or f'that apply {folder}'}"
        yield Titled(title, tuple(blocks)) if blocks else MarkedLine(title)


def _counted(folder: FolderRights) -> str:
    number = len(folder.rights) + folder.more
    almighty = ", cluster-admin among them" if any(it.everything for it in folder.rights) else ""
    return f": {number} binding{'' if number == 1 else 's'}{almighty}{HINT}" if number else ""


def _right(right: Right) -> Bullet:
    sorts = {"escalation": "; ".join(right.escalation), "secrets": ", ".join(right.secrets)}
    grave = "" if right.everything else "".join(f" [{name}: {said}]" for name, said in sorts.items() if said)
    by_kind: dict[str, list[str]] = {}
    for kind, _, name in (each.partition(" ") for each in right.subjects or ("no subject",)):
        by_kind.setdefault(kind, []).append(name)
    who = all_of([f"{kind}{'s' if len(names) > 1 else ''} {all_of(names)}" for kind, names in by_kind.items()])
    severity = f"{right.severity}, not by Flux alone" if right.added else right.severity
    text = f"{severity}: {who} may {right.may}{grave} ({right.role}, by {right.binding})"
    return Bullet(text, right.severity if right.severity in GRAVE else "")


def acknowledgements(found: Findings, detail: Detail) -> tuple[Block, ...]:
    """Return the YAML that accepts what stops a step; on a terminal only where that lets the step through."""
    known = found.to_acknowledge(every=detail.every)
    if not known or (detail.hint and decide(found.gates) is Decision.APPROVAL):
        return ()
    if detail.every and decide(found.gates) is Decision.APPROVAL and not found.acknowledging_suffices():
        return tuple(map(MarkedLine, _not_enough(found)))
    title = "To acknowledge instead, add to the artifact's configuration"
    needs = map(MarkedLine, _not_enough(found) if detail.every else ())
    return (*needs, Titled(title, (Quoted(acknowledging(known, detail.rows), yaml=True),), folded=True))


def _not_enough(found: Findings) -> Iterator[str]:
    """Yield what else the step needs if acknowledging alone does not let it through."""
    others = [it for it in found.ranked_gates() if it.decision is not Decision.AUTO and not found.lists(it)]
    for gate in others[:1]:
        if gate.decision is not Decision.APPROVAL:
            yield f"Acknowledging these alone does not let the step through: {gate.reason}."
        elif decide(found.gates) is Decision.APPROVAL:
            yield f"An approval of the step answers all of this. Acknowledging alone does not, because {gate.reason}."
        else:
            yield f"Once these are acknowledged, the step still needs an approval: {gate.reason}."


def verdicts(found: Findings, detail: Detail) -> tuple[Titled, ...]:
    """Return the table of all gates, with what each looked at; nothing where there are none."""
    gates = found.ranked_gates()
    told = ("as listed above" if detail.every and found.lists(it) and not it.allowed else it.reason for it in gates)
    shown = zip(gates[: detail.rows], told, strict=False)
    rows = ((strong_if_grave(str(it.decision), it.decision), it.gate, it.looked_at, reason) for it, reason in shown)
    head = ("verdict", "gate", "input", "reason")
    left = more(len(gates) - detail.rows, "gate")
    return (Titled("Verdict of each gate", (Table(head, tuple(rows), _WIDE), *left), folded=True),) if gates else ()


def obstacles(found: Findings, told: Collection[str] = ()) -> Iterator[MarkedLine]:
    """Yield the gates that a person allowed, and those that ask for something that is not told elsewhere."""
    for gate in found.ranked_gates():
        is_told = gate.reason in told or (found.lists(gate) and not gate.allowed)
        if (gate.allowed or gate.decision is not Decision.AUTO) and not is_told:
            text = f"{gate.decision}, {gate.gate}: {gate.reason}"
            yield MarkedLine(text, gate.decision if gate.decision in GRAVE else "")


def passed(found: Findings) -> str:
    """Return how many gates let the step through."""
    number = sum(it.decision is Decision.AUTO and not it.allowed for it in found.gates)
    return f"{number} check{'' if number == 1 else 's'} passed" if number else ""


def strong_if_grave(text: str, mark: str) -> str:
    """Return a text that stands out where its mark is grave."""
    return Strong(text) if mark in GRAVE else text
