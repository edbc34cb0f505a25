"""The port by which flows ask for approvals and find them: all that they know of pull requests, runs and dispatches."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from ci_automation.approval.request import ApprovalRequest
    from ci_automation.artifact.digest import Digest
    from ci_automation.policy.plan import Plan, PlannedStep
    from ci_automation.records.notes import Approval
    from ci_automation.report.notes import ReleaseNotes


class AskedState(enum.StrEnum):
    """What became of asking."""

    OPENED = "opened"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    KEPT = "kept"  # people changed what was asked, and that is not overwritten


class Question(Struct, frozen=True):
    """A step that waits for a person, with all that the person should see."""

    plan: Plan
    step: PlannedStep
    notes: tuple[ReleaseNotes, ...] = ()  # what upstream says about the releases on the way


class Asked(Struct, frozen=True):
    """Where a person can answer, and what was done about it in this run; `remark` is for who reads the log."""

    url: str
    state: AskedState
    remark: str = ""


class Granted(Struct, frozen=True):
    """A yes that counts."""

    request: ApprovalRequest
    approval: Approval


class NotCounted(Struct, frozen=True):
    """Something that looks like a yes to the step from the present base, and why it is none."""

    request: ApprovalRequest
    reason: str


class Approvals(Protocol):
    """A way to ask people about one artifact. Every method may raise a `ReleaseSourceError` of GitHub's."""

    def granted(self, base: Digest) -> Granted | NotCounted | None:
        """Return the yes that somebody gave to a step from `base`, judged now, or None where nobody did."""
        ...

    def ask(self, question: Question) -> Asked:
        """Ask, or find that it was asked already; what was asked before of this artifact is superseded."""
        ...

    def withdraw(self, reason: str) -> None:
        """Close whatever is still asked about this artifact, saying why; nothing there is nothing to do."""
        ...
