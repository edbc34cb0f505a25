"""A search for approvals that asks GitHub only if the checked out lock file has one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.approval.lock import LOCK_FILE, Lock
from ci_automation.approval.port import RequestKind
from ci_automation.errors import Error

if TYPE_CHECKING:
    from pathlib import Path

    from ci_automation.approval.port import Approvals, Asked, GrantedApproval, NotCounted, Question
    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.reference import Reference


class CheckoutFirst(Struct, frozen=True):
    """Approvals that are looked for on GitHub only if the checked out lock file has one for the channel's digest.

    What is merged after the checkout is found by the next run, or by the one that the merge starts.
    """

    approvals: Approvals
    workspace: Path
    channel: Reference
    kind: RequestKind = RequestKind.VERSION

    def granted(self, base: Digest) -> GrantedApproval | NotCounted | None:
        """Return the approval of a step from `base`; the file alone proves nothing."""
        if (self.workspace / ".git/info/sparse-checkout").exists() or not (self.workspace / ".git").exists():
            return self.approvals.granted(base)
        try:
            lock = Lock.parse((self.workspace / LOCK_FILE).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, Error):
            return self.approvals.granted(base)  # which says what is wrong with it
        entry = lock.find(self.channel, self.kind)
        return self.approvals.granted(base) if entry and entry.request.base == base else None

    def ask(self, question: Question) -> Asked:
        """Ask."""
        return self.approvals.ask(question)

    def withdraw(self, reason: str) -> None:
        """Close open requests."""
        self.approvals.withdraw(reason)
