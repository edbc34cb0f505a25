"""The code that a run ends with for one artifact; of several, the highest counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.errors import PolicyRefused
from ci_automation.policy.decision import Decision

if TYPE_CHECKING:
    from ci_automation.errors import Error

APPROVAL_NEEDED = 3
_LEFT = {Decision.APPROVAL: APPROVAL_NEEDED, Decision.REFUSED: PolicyRefused.exit_code}


def code_of(error: Error | None, left: Decision | None, *, wanted: bool) -> int:
    """Return the code for one artifact: of its error, or of what is left to do, where `--exit-code` wants to know."""
    if error is not None:
        return error.exit_code
    return _LEFT.get(left, 0) if wanted and left else 0
