"""Scheduled run for one artifact: apply what was approved, publish, and ask for approval of the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.approval.port import GrantedApproval, NotCounted, Question, RequestKind
from ci_automation.errors import Conflict, Error, PolicyRefused
from ci_automation.flows.approved import apply_granted
from ci_automation.flows.update import update
from ci_automation.policy.decision import Decision
from ci_automation.report.notes import notes_between

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_automation.approval.port import Approvals, Asked
    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.planning.plan import Outcome
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.policy.plan import PlannedStep

    Desks = Mapping[RequestKind, Approvals]  # none for content where it is no step of its own


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
    refused: tuple[NotCounted, ...] = ()
    asked: Mapping[Digest, Asked] = {}  # by the target of the step
    failed: Error | None = None  # what kept the rest from being done

    @property
    def changed(self) -> bool:
        """Return whether the channel moved in this run."""
        return any(did is not None and did.done > did.start for did in (self.applied, self.outcome))


def update_and_ask(
    channel: Reference, ports: Ports, intent: Intent, desks: Desks, *, thorough: bool = False
) -> Progress:
    """Bring `channel` as far as policy and approvals allow, and ask for the next step of each kind that waits.

    An approval that does not count, or not any more, keeps nothing from being done: it is told in `refused`. What goes
    wrong after something is known, or was done, is in `failed`. Where nothing waits, what was asked before is withdrawn
    if something was published, or if the run is `thorough`.
    """
    progress = _apply_what_counts(channel, ports, intent, desks)
    try:
        outcome = update(channel, ports, intent)
        progress = replace(progress, outcome=outcome)
        for kind in desks:
            if asked := _asked(kind, outcome, ports, desks, thorough=thorough or progress.changed):
                progress = replace(progress, asked={**progress.asked, **asked})
    except Error as error:
        if progress == Progress():
            raise
        progress = replace(progress, failed=error)
    return progress


def _asked(
    kind: RequestKind, outcome: Outcome, ports: Ports, desks: Desks, *, thorough: bool
) -> Mapping[Digest, Asked]:
    """Ask for the next step of one kind that waits, or take back what was asked; return where a person can answer."""
    steps = [step for step in outcome.waiting if _kind(step, desks) is kind]
    if waiting := next((step for step in steps if step.decision is Decision.APPROVAL), None):
        ports.say(f"asking for approval of {waiting.new_version}")
        said = notes_between(outcome.releases, waiting.old_version, waiting.new_version)
        return {waiting.target: desks[kind].ask(Question(outcome.plan, waiting, said))}
    if thorough and not (steps and kind is RequestKind.CONTENT):  # content that has to wait now is asked for later
        desks[kind].withdraw(f"{outcome.plan.artifact} is at {outcome.digest} now, and no step needs approval")
    return {}


def _kind(step: PlannedStep, desks: Desks) -> RequestKind:
    is_apart = step.kind == "content" and RequestKind.CONTENT in desks
    return RequestKind.CONTENT if is_apart else RequestKind.VERSION


def apply_approved(channel: Reference, ports: Ports, intent: Intent, desks: Desks) -> Progress:
    """Publish what was approved, if anything was, and nothing else.

    Raises:
        ApprovalNotCounted: what was found is no approval.
        PolicyRefused, Conflict: see `apply_granted`.
    """
    for approvals in desks.values():
        match _granted(channel, ports, approvals):
            case NotCounted() as found:
                raise ApprovalNotCounted(found)
            case GrantedApproval() as granted:
                return Progress(granted=granted, applied=apply_granted(granted, ports, intent))
    return Progress()


def _apply_what_counts(channel: Reference, ports: Ports, intent: Intent, desks: Desks) -> Progress:
    """Publish what was approved; what does not count, or cannot be done any more, is a value here."""
    refused: tuple[NotCounted, ...] = ()
    for approvals in desks.values():
        match _granted(channel, ports, approvals):
            case NotCounted() as found:
                refused = (*refused, found)
            case GrantedApproval() as granted:
                try:
                    applied = apply_granted(granted, ports, intent)
                except (PolicyRefused, Conflict) as error:
                    refused = (*refused, NotCounted(granted.request, str(error)))
                else:
                    return Progress(granted=granted, applied=applied, refused=refused)
    return Progress(refused=refused)


def _granted(channel: Reference, ports: Ports, approvals: Approvals) -> GrantedApproval | NotCounted | None:
    ports.say("looking for an approval")
    base = ports.registry.resolve(channel)
    return None if base is None else approvals.granted(base)
