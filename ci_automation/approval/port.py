"""The port by which flows ask for approvals and find them: all that they know of pull requests, runs and dispatches."""

from __future__ import annotations

import enum
import hashlib
from typing import TYPE_CHECKING, Protocol, Self

from msgspec import Struct

if TYPE_CHECKING:
    from datetime import datetime

    from ci_automation.artifact.reference import Digest, Reference
    from ci_automation.flux.version import Version
    from ci_automation.policy.plan import Plan, PlannedStep
    from ci_automation.records.notes import Approval
    from ci_automation.report.notes import ReleaseNotes

KEY_DIGITS = 16


class RequestKind(enum.StrEnum):
    """Kind of a request: one of each can wait at once, if the overlay of an artifact is in Git."""

    VERSION = "version"  # and any step of an artifact whose overlay is not in Git
    CONTENT = "content"

    @classmethod
    def of_key(cls, key: str) -> Self:
        """Return the kind of the request that has a key."""
        return cls.CONTENT if key.startswith(f"{cls.CONTENT}-") else cls.VERSION


class ApprovalRequest(Struct, frozen=True):
    """Request for a person's approval of one step of one artifact."""

    artifact: Reference
    version: Version
    base: Digest
    target: Digest
    kind: RequestKind = RequestKind.VERSION

    @classmethod
    def of(cls, plan: Plan, step: PlannedStep, kind: RequestKind = RequestKind.VERSION) -> Self:
        """Return the request for a step of a plan."""
        return cls(plan.artifact, step.new_version, step.base, step.target, kind)

    @property
    def key(self) -> str:
        """Return the unique key of this request, short enough for the title of a run."""
        text = f"{self.artifact}\n{self.version}\n{self.base}\n{self.target}\n"
        digits = hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]
        return f"{self.kind}-{digits}" if self.kind is RequestKind.CONTENT else digits

    @property
    def texts(self) -> dict[str, str]:
        """Return it as the inputs of approve.yaml and the payload of an event have it."""
        return {
            "artifact": str(self.artifact),
            "version": str(self.version),
            "base": str(self.base),
            "target": str(self.target),
            "key": self.key,
        }


class AskedState(enum.StrEnum):
    """Result of a request."""

    OPENED = "opened"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    LATER = "later"  # with the other artifacts of its group, at the end of the run
    KEPT = "kept"  # people changed what was asked, and that is not overwritten


class Question(Struct, frozen=True):
    """A step that needs approval, with everything that the approver should see."""

    plan: Plan
    step: PlannedStep
    notes: tuple[ReleaseNotes, ...] = ()  # what upstream says about the releases on the way


class Asked(Struct, frozen=True):
    """Where a person can answer, and what this run did about it; `remark` is for the log."""

    url: str
    state: AskedState
    remark: str = ""


class GrantedApproval(Struct, frozen=True):
    """An approval that counts; `asked` is when it was asked for, where GitHub does not say when it was given.

    `shown` are the names of the hazards that the approver was shown; None if that is unknown.
    """

    request: ApprovalRequest
    approval: Approval
    asked: datetime | None = None
    shown: frozenset[str] | None = None

    @property
    def since(self) -> datetime:
        """Return the earliest time at which it can have been given."""
        return self.asked or self.approval.at


class NotCounted(Struct, frozen=True):
    """Apparent approval of a step from the present base, with the reason why it does not count."""

    request: ApprovalRequest
    reason: str


class Approvals(Protocol):
    """A way to ask people about one kind of step of one artifact.

    Every method may raise a `ReleaseSourceError` of GitHub's.
    """

    def granted(self, base: Digest) -> GrantedApproval | NotCounted | None:
        """Return the approval of a step from `base`, judged now, or None."""

    def ask(self, question: Question) -> Asked:
        """Ask, or find that it was asked already; what was asked before of this artifact is superseded."""

    def withdraw(self, reason: str) -> None:
        """Close all open requests of this kind for this artifact and say why."""
