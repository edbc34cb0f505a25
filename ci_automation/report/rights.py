"""Blocks of a report that list the rights which a folder gives to Flux in clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.impact.change import Severity, all_of
from ci_automation.report.blocks import HINT, Block, Bullet, MarkedLine, Titled
from ci_automation.report.findings import GRAVE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ci_automation.impact.rights import FolderRights, Right


def rights_blocks(folders: Sequence[FolderRights], *, every: bool, beside_flux: bool = False) -> Iterator[Block]:
    """Yield what Flux may do, by folder and namespace: the gravest rights, or all.

    `beside_flux` says that each right that is not `added` is in Flux's own rendering: where there is no other, a line
    that counts them is enough.
    """
    for each in folders:
        folder = f"./{each.folder.removeprefix('.')}"
        if beside_flux and not every and not each.unbuilt and not any(it.added for it in each.rights):
            yield MarkedLine(f"Flux gets only its own rights in clusters that apply {folder}{_counted(each)}")
            continue
        what = f"by the components alone; {folder} was not built: {each.unbuilt}" if each.unbuilt else ""
        left = each.more
        blocks: list[Block] = []
        for namespace, rights in each.by_namespace.items():
            shown = [it for it in rights if every or it.severity is Severity.DANGER]
            left += len(rights) - len(shown)
            where = f"in the namespace {namespace}" if namespace else "in the whole cluster"
            blocks += [Titled(where, tuple(map(_right, shown)))] if shown else ()
        blocks += [Bullet(f"and {left} less grave bindings{'' if every else HINT}")] if left else ()
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
