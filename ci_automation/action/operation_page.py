"""The page of an operation by dispatch: what would happen, with every digest, and how a person agrees to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.report.markdown import code, inline, markdown_table, quote

if TYPE_CHECKING:
    from ci_automation.action.inputs import Inputs
    from ci_automation.action.operations import Operation
    from ci_automation.approval.handover import Handover
    from ci_automation.cli.target import Target

_MAX_PAGE = 600 << 10  # bytes of a page in the summary, which GitHub limits to 1 MiB


class Consent(Struct, frozen=True):
    """How a person agrees to an operation: by starting it again with its `code`, or without one as a reviewer.

    `given` is the code that the run was started with, where that counts; an `idle` operation needs nothing.
    """

    code: str = ""
    given: str = ""
    idle: bool = False

    @property
    def is_void(self) -> bool:
        """Return whether the given code is another."""
        return self.given not in {"", self.code}

    @property
    def goes_on(self) -> bool:
        """Return whether the next job, which waits for reviewers or has the code, has anything to do."""
        return not self.idle and self.given == self.code

    @property
    def needed(self) -> str:
        """Return what is needed, for a headline."""
        if self.idle:
            return ""
        if not self.code:
            return "needs approval of this run"
        return "is approved by its code" if self.goes_on else f"needs approval: start it again with code {self.code}"

    @property
    def told(self) -> str:
        """Return the last sentence of the page."""
        if self.idle:
            return "Nothing would change, so no approval is needed."
        if not self.code:
            return "An approval of this run in the environment counts for exactly this, and for seven days."
        if self.goes_on:
            return "The code approves exactly this."
        void = "The code that was given is not of this: a field differs, or something changed since it was shown. "
        return (void if self.is_void else "") + (
            "To approve exactly this, start the workflow again with the same fields, and with this in the field "
            f"code: {code(self.code)}"
        )


def operation_page(goal: Target, operation: Operation, handover: Handover, inputs: Inputs, consent: Consent) -> str:
    """Return what people see on the page of the run."""
    rows = [("command", code(inputs.operation)), ("artifact", f"{inline(goal.name)} {code(str(goal.channel))}")]
    rows += [("field to", code(inputs.to))] if inputs.to else []
    for word, at in (("from", operation.before), ("to", operation.after)):
        rows.append((word, f"{at.version} {code(str(at.digest))}" if at else "nothing"))
    if gone := operation.last:
        rows.append(("before its deletion", f"{gone.version} {code(str(gone.digest))}"))
    if handover.target != str(operation.after.digest):
        rows.append(("about", code(handover.target)))
    facts = {"default branch": handover.head, "configuration": handover.rules, "plan": handover.plan}
    rows += [("reason", inline(inputs.reason)), *((what, code(fact)) for what, fact in facts.items())]
    text = "\n".join(part.to_text() for part in operation.page)
    first = text.encode(errors="replace")[:_MAX_PAGE].decode(errors="ignore")
    room = _MAX_PAGE - (len(first.encode()) - len(first))  # in characters
    return "\n\n".join((markdown_table(("", ""), rows), quote(text, room), consent.told)) + "\n"
