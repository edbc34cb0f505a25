"""The port by which flows ask for approvals and find them: all that they know of pull requests, runs and dispatches."""

from __future__ import annotations

import enum
import hashlib
from typing import TYPE_CHECKING, Protocol, Self

from msgspec import Struct

if TYPE_CHECKING:
    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.reference import Reference
    from ci_automation.flux.version import Version
    from ci_automation.policy.plan import Plan, PlannedStep
    from ci_automation.records.notes import Approval
    from ci_automation.report.notes import ReleaseNotes

_KEY_DIGITS = 16


class ApprovalRequest(Struct, frozen=True):
    """One step of one artifact, for which a person's yes is wanted."""

    artifact: Reference
    version: Version
    base: Digest
    target: Digest

    @classmethod
    def of(cls, plan: Plan, step: PlannedStep) -> Self:
        """Return the request for a step of a plan."""
        return cls(plan.artifact, step.new_version, step.base, step.target)

    @property
    def key(self) -> str:
        """Return what names this request and no other, short enough for the title of a run."""
        text = f"{self.artifact}\n{self.base}\n{self.target}\n"
        return hashlib.sha256(text.encode()).hexdigest()[:_KEY_DIGITS]


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


class GrantedApproval(Struct, frozen=True):
    """A yes that counts."""

    request: ApprovalRequest
    approval: Approval


class NotCounted(Struct, frozen=True):
    """Something that looks like a yes to the step from the present base, and why it is none."""

    request: ApprovalRequest
    reason: str


class Approvals(Protocol):
    """A way to ask people about one artifact. Every method may raise a `ReleaseSourceError` of GitHub's."""

    def granted(self, base: Digest) -> GrantedApproval | NotCounted | None:
        """Return the yes that somebody gave to a step from `base`, judged now, or None where nobody did."""
        ...

    def ask(self, question: Question) -> Asked:
        """Ask, or find that it was asked already; what was asked before of this artifact is superseded."""
        ...

    def withdraw(self, reason: str) -> None:
        """Close whatever is still asked about this artifact, saying why; nothing there is nothing to do."""
        ...
