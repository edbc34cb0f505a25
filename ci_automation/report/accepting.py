"""The YAML by which a person acknowledges what stops a step, and what the step needs besides, as blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.policy.decision import Decision, decide
from ci_automation.report.blocks import Block, Detail, MarkedLine, Quoted, Titled
from ci_automation.report.findings import Findings, acknowledging

if TYPE_CHECKING:
    from collections.abc import Iterator


def acknowledgements(found: Findings, detail: Detail) -> tuple[Block, ...]:
    """Return the YAML that accepts what stops a step; on a terminal only where that lets the step through."""
    known = found.to_acknowledge(every=detail.every)
    if not known or (detail.hint and decide(found.gates) is Decision.APPROVAL):
        return ()
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
