"""What a person is asked for, and what one yes counts for: one artifact, one base digest, one target digest."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Self

from msgspec import Struct

if TYPE_CHECKING:
    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.reference import Reference
    from ci_automation.flux.version import Version
    from ci_automation.policy.plan import Plan, PlannedStep

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
