"""Scheduled run for one artifact: apply what was approved, publish, and ask for approval of the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.approval.port import GrantedApproval, NotCounted, Question
from ci_automation.errors import Conflict, Error, PolicyRefused
from ci_automation.flows.approved import apply_granted
from ci_automation.flows.update import update
from ci_automation.policy.decision import Decision
from ci_automation.report.notes import notes_between

if TYPE_CHECKING:
    from ci_automation.approval.port import Approvals, Asked
    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.planning.plan import Outcome
    from ci_automation.flows.ports import Intent, Ports


class ApprovalNotCounted(PolicyRefused):
    """Something that looks like an approval and is none."""

    hint = "Nothing was published. Have an allowed approver approve it again; the next run asks."

    def __init__(self, found: NotCounted) -> None:
        request = found.request
        super().__init__(f"the approval of {request.version} for {request.artifact} does not count: {found.reason}")


class Progress(Struct, frozen=True):
    """Result for one artifact: what was approved, what was published, and what was asked for."""

    outcome: Outcome | None = None
    granted: GrantedApproval | None = None
    applied: Outcome | None = None
    refused: NotCounted | None = None
    asked: Asked | None = None
    failed: Error | None = None  # what kept the rest from being done

    @property
    def changed(self) -> bool:
        """Return whether the channel moved in this run."""
        return any(did is not None and did.done > did.start for did in (self.applied, self.outcome))


def update_and_ask(
    channel: Reference, ports: Ports, intent: Intent, approvals: Approvals | None, *, thorough: bool = False
) -> Progress:
    """Bring `channel` as far as policy and approvals allow, and ask for the next step that waits for a person.

    An approval that does not count, or not any more, keeps nothing from being done: it is told in `refused`. What goes
    wrong after something is known, or was done, is in `failed`. Where nothing waits, what was asked before is withdrawn
    if something was published, or if the run is `thorough`.
    """
    progress = _apply_what_counts(channel, ports, intent, approvals) if approvals is not None else Progress()
    try:
        progress = replace(progress, outcome=update(channel, ports, intent))
        return _asked(channel, ports, progress, approvals, thorough=thorough) if approvals is not None else progress
    except Error as error:
        if progress == Progress():
            raise
        return replace(progress, failed=error)


def _asked(channel: Reference, ports: Ports, progress: Progress, approvals: Approvals, *, thorough: bool) -> Progress:
    """Ask for the next step that waits, or take back what was asked."""
    outcome = progress.outcome
    assert outcome is not None  # noqa: S101  # for the type checker: it was just done
    waiting = next((step for step in outcome.waiting if step.decision is Decision.APPROVAL), None)
    if waiting is not None:
        ports.say(f"asking for approval of {waiting.new_version}")
        said = notes_between(outcome.releases, waiting.old_version, waiting.new_version)
        return replace(progress, asked=approvals.ask(Question(outcome.plan, waiting, said)))
    if progress.changed or thorough:
        approvals.withdraw(f"{channel} is at {outcome.digest} now, and no step needs approval")
    return progress


def apply_approved(channel: Reference, ports: Ports, intent: Intent, approvals: Approvals) -> Progress:
    """Publish what was approved, if anything was, and nothing else.

    Raises:
        ApprovalNotCounted: what was found is no approval.
        PolicyRefused, Conflict: see `apply_granted`.
    """
    match _granted(channel, ports, approvals):
        case NotCounted() as found:
            raise ApprovalNotCounted(found)
        case GrantedApproval() as granted:
            return Progress(granted=granted, applied=apply_granted(granted, ports, intent))
        case _:
            return Progress()


def _apply_what_counts(channel: Reference, ports: Ports, intent: Intent, approvals: Approvals) -> Progress:
    """Publish what was approved; what does not count, or cannot be done any more, is a value here."""
    match _granted(channel, ports, approvals):
        case NotCounted() as found:
            return Progress(refused=found)
        case GrantedApproval() as granted:
            try:
                return Progress(granted=granted, applied=apply_granted(granted, ports, intent))
            except (PolicyRefused, Conflict) as error:
                return Progress(refused=NotCounted(granted.request, str(error)))
        case _:
            return Progress()


def _granted(channel: Reference, ports: Ports, approvals: Approvals) -> GrantedApproval | NotCounted | None:
    ports.say("looking for an approval")
    base = ports.registry.resolve(channel)
    return None if base is None else approvals.granted(base)
