"""The operations that a person starts by dispatch: what each would do now, for the page, and the way to do it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.cli.promote import as_shown
from ci_automation.cli.target import PromotedNotRendered, Target
from ci_automation.errors import PolicyRefused, UsageError
from ci_automation.flows.carry_out import carry_out
from ci_automation.flows.init import propose_init, publish_first
from ci_automation.flows.lift import ended_hold, hold_to_lift, lift
from ci_automation.flows.migration import require_encrypted, require_encrypted_build
from ci_automation.flows.observe import Placed, Trust, observe, observe_or_adopt
from ci_automation.flows.planning.base import present_version, read_contents
from ci_automation.flows.planning.plan import plan_on
from ci_automation.flows.planning.promotion import Considered, consider
from ci_automation.flows.promote import Promoted, PromotionRefused, promote_considered
from ci_automation.flows.publication.placement import in_place, place, require_still_there
from ci_automation.flows.rollback import Wish, propose_rollback, roll_back
from ci_automation.flux.artifact import immutable_tag
from ci_automation.flux.version import Version
from ci_automation.policy.decision import Decision
from ci_automation.report.account import Standing
from ci_automation.report.adoption import Adoption, adoption_text
from ci_automation.report.blocks import MarkedLine, Part
from ci_automation.report.changes import step_parts, text_parts
from ci_automation.report.findings import Findings, unsigned_upstream
from ci_automation.report.promotion import files_table, promotion_parts
from ci_automation.report.rollback import Rollback, hold_json, rollback_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ci_automation.artifact.reference import Digest, Reference
    from ci_automation.cli.promotions import PlannedPromotion
    from ci_automation.flows.ports import Intent
    from ci_automation.flows.workspace import OverlayFolder
    from ci_automation.records.content import RecordedContent
    from ci_automation.records.notes import Record


class OperationRefused(PolicyRefused):
    """An operation that a gate refuses, so that no reviewer is asked."""

    def __init__(self, what: str, reasons: tuple[str, ...], fingerprints: tuple[str, ...] = ()) -> None:
        super().__init__(f"{what} is refused: {'; '.join(reasons)}")
        known = f"To accept that, put {', '.join(fingerprints)} into `acknowledge` of the artifact's configuration"
        self.hint = (
            f"Nothing was changed. {known if fingerprints else 'Change what the message names'}, and start again."
        )


class Operation(Struct, frozen=True):
    """What an operation would do now: from `before` to `after`, and `facts`, everything that reviewers agree to.

    `target` is what the approval is for, and `content` names overlay and options. `act` does it; it does nothing where
    the channel is there already, except for finishing what an interrupted run began.
    """

    before: Standing | None
    after: Standing
    target: Digest
    content: str
    facts: Mapping[str, Any]
    page: tuple[Part, ...]
    done: str
    act: Callable[[Intent], object]
    idle: bool = False  # nothing would change
    last: Standing | None = None  # what a deleted channel had last, by its records


class OperationInputs(Struct, frozen=True):
    """The inputs of a dispatch besides the artifact, and the promotion to it, if it has one."""

    find_promotion: Callable[[], PlannedPromotion]
    elsewhere: Callable[[Rollback], Iterator[str]] = lambda _: iter(())  # what is said of other channels
    overlay: OverlayFolder | None = None  # of the configuration, as the default branch has it
    content: RecordedContent | None = None  # the same, for the record of a first artifact
    to: str = ""
    reason: str = ""
    left: Digest | None = None  # what the channel had when the operation was shown, if it moves the channel
    look_again: Callable[[], None] = lambda: None  # checks that the default branch still has the overlay


class NotTheTarget(UsageError):
    """`to` names something else than what the operation would take."""

    def __init__(self, to: str, channel: Reference, found: Standing) -> None:
        super().__init__(f"to is {to}, and {channel} has {found.version}, {found.digest}")
        self.hint = "Leave `to` empty, or give the version, the immutable tag or the digest that the channel has now."


def _require_named(to: str, channel: Reference, found: Standing) -> None:
    """Raise `NotTheTarget` unless `to` is empty or names what a channel has."""
    version = str(found.version)
    known = {"", version, version.removeprefix("v"), str(found.digest), immutable_tag(found.version, found.digest)}
    if to not in known:
        raise NotTheTarget(to, channel, found)


def _last(record: Record | None) -> Standing | None:
    return Standing(record.version, record.digest) if record else None


def _agreed(found: Findings) -> dict[str, Any]:
    """Return the findings that an approval covers, without words that change from hour to hour."""
    return {
        "hazards": sorted(f"{it.fingerprint} {it.certainty}" for it in found.hazards),
        "changes": sorted(it.fingerprint for it in found.changes),
        "pruned": sorted(found.pruned),
        "gates": sorted(f"{it.gate} {it.decision}" for it in found.gates),
    }


def _rollback(goal: Target, wanted: OperationInputs) -> Operation:
    """Return what moving the channel back would do."""
    ports = goal.ports
    proposal = propose_rollback(
        goal.channel, Wish(wanted.to, reason=wanted.reason, left=wanted.left), ports, goal.intent
    )
    shown = proposal.shown
    if shown.decision is Decision.REFUSED:
        raise OperationRefused(f"the rollback to {shown.target_version}", shown.obstacles, shown.breaks)
    hold = shown.hold and {**hold_json(shown.hold), "at": None}  # which is the moment of the run
    moves = replace(ports.ledger(goal.channel), lenient=True).records(shown.base) if shown.is_there else ()
    back = next((str(it.previous) for it in moves[-1:] if it.put_back), None)
    facts = {"hold": hold, "problem": shown.problem, "signs": shown.signs, **_agreed(shown.findings), "put back": back}
    return Operation(
        before=Standing(shown.stated or shown.base_version, shown.base),
        after=Standing(shown.target_version, shown.target),
        target=shown.target,
        content=str(proposal.options),
        facts=facts,
        page=(*rollback_parts(shown, None, every=True), *map(MarkedLine, wanted.elsewhere(shown))),
        done=f"{'put back at' if shown.puts_back else 'rolled back to'} {shown.target_version}",
        act=lambda intent: roll_back(proposal, ports, intent),
        idle=shown.is_there and not proposal.holds,
    )


def _lift_hold(goal: Target, wanted: OperationInputs) -> Operation:
    """Return what lifting one hold would do, and what the schedule would take next."""
    ports, intent = goal.ports, goal.intent
    ports.require_trusted()
    placed = place(observe(goal.channel, ports), ports)
    name, hold = hold_to_lift(placed, wanted.to, ports, intent)
    ended = ended_hold(hold, wanted.reason, intent.now, intent.now)
    holds = tuple(ended if it.digest == hold.digest else it for it in placed.holds)
    taken, shown = _taken_next(goal, replace(placed, holds=holds), wanted)
    at = Standing(present_version(placed, ports, intent), placed.digest)
    what = hold.told
    lines = [f"The hold {name} on {what} ends now. It kept {hold.digest} back {hold.end}."]
    lines += [f"Its reason was: {hold.reason}"] if hold.reason else []
    lines += [] if taken else ["The next scheduled run finds nothing to take."]
    does = "promotes" if goal.is_promoted else "publishes"
    for version, digest, decision in taken:
        verb = does if decision is Decision.AUTO else f"leaves waiting ({decision})"
        lines.append(f"The next scheduled run {verb} {version}: {digest}")
    return Operation(
        before=at,
        after=at,
        target=name,
        content="none",
        facts={"lifted": hold_json(hold), "next": [[str(digest), str(decision)] for _, digest, decision in taken]},
        page=(*map(MarkedLine, lines), *shown),
        done=f"lifted the hold on {what}",
        act=lambda granted: lift(goal.channel, wanted.reason, ports, granted, only=name),
    )


def _taken_next(
    goal: Target, placed: Placed, wanted: OperationInputs
) -> tuple[list[tuple[Version, Digest, Decision]], tuple[Part, ...]]:
    """Return what the schedule would take with these holds: from the source of the channel, or else from Flux."""
    if goal.is_promoted:
        planned = wanted.find_promotion()
        found = consider(planned.promotion, placed.holds)
        return [(found.version, found.digest, found.decision)] if found.gates else [], _promotion_page(planned, found)

    steps = plan_on(placed, goal.ports, goal.intent).plan.steps
    taken = [(step.new_version, step.target, step.decision) for step in steps]
    return taken, tuple(it for step in steps for it in step_parts(step))


def _init(goal: Target, wanted: OperationInputs) -> Operation:
    """Return what publishing the first artifact of the channel would do."""
    if goal.is_promoted:
        raise PromotedNotRendered((goal,))
    ports, folder = goal.ports, wanted.overlay
    intent = replace(goal.intent, overlay=folder.tree if folder else None, overlay_folder=folder.path if folder else "")
    version = Version.parse(wanted.to)
    first = propose_init(goal.channel, version, ports, intent)
    if not first.is_there:  # else an earlier run published it, and this one only writes its record
        if folder:
            require_encrypted(folder.tree, intent)
        require_encrypted_build(first.hazards)
        publication = replace(first.publication, content=wanted.content, look_again=wanted.look_again)
        first = replace(first, publication=publication)
    digest, recipe = first.digest, first.publication.composed.recipe
    after = Standing(version, digest)
    flags = " ".join(recipe.options.to_arguments()) or "Flux's default options"
    lines = [f"The first artifact of {goal.channel} is Flux {version} with {flags}.", f"Its digest is {digest}."]
    lines.append(f"The components are in {recipe.path}; their rendering is proven: {first.publication.proof}.")
    lines += [unsigned_upstream(wanted.to)] if first.unsigned else []
    lines.append(f"The overlay is {folder.path} at {folder.tree_id}:" if folder else "There is no overlay.")
    lines += [it.goes_on_as for it in first.publication.holds]
    listed = (files_table(folder.tree),) if folder else ()
    return Operation(
        before=after if first.is_there else None,
        after=after,
        target=digest,
        content=f"{folder.tree_id if folder else 'none'}+{recipe.options.digest}",
        facts={"proof": str(first.publication.proof), "unsigned": first.unsigned, **_agreed(first.findings)},
        page=(*map(MarkedLine, lines), *listed, *text_parts(first.findings, every=True)),
        done=f"published {version}, the first artifact",
        act=lambda granted: publish_first(first, ports, granted),
        idle=first.is_there,
        last=_last(first.last),
    )


def _adopt(goal: Target, wanted: OperationInputs) -> Operation:
    """Return what adopting what the channel has would do: it is signed, tagged and recorded, and nothing else."""
    shown: list[Adoption] = []

    def confirm(adoption: Adoption) -> bool:
        shown.append(adoption)
        return True

    ports, intent = replace(goal.ports, confirm=confirm), replace(goal.intent, adopt=True)
    observed = observe_or_adopt(goal.channel, ports, intent)
    contents = read_contents(observed, ports, intent)
    placed = in_place(observed, contents.version, ports, intent)
    at = Standing(contents.version, placed.digest)
    _require_named(wanted.to, goal.channel, at)

    def act(granted: Intent) -> None:
        carry_out(placed, (), ports, replace(granted, adopt=True))
        require_still_there(placed, ports)

    nothing = f"{goal.channel} is signed and where it belongs: there is nothing to adopt."
    text = "\n".join(adoption_text(it, shown=None, every=True) for it in shown) or nothing
    return Operation(
        before=at,
        after=at,
        target=placed.digest,
        content=str(contents.options.digest),
        facts={"adopted": text},
        page=tuple(map(MarkedLine, text.split("\n"))),
        done=f"adopted {placed.digest}",
        act=act,
        idle=placed.trust is not Trust.ADOPTED,
    )


def _promotion_page(planned: PlannedPromotion, found: Considered) -> tuple[Part, ...]:
    return tuple(promotion_parts(as_shown(planned, Promoted(found, done=False)), every=True))


def _promote(_: Target, wanted: OperationInputs) -> Operation:
    """Return what the promotion to the channel would do."""
    planned = wanted.find_promotion()
    promotion = planned.promotion
    found = consider(promotion)
    after = Standing(found.version, found.digest)
    _require_named(wanted.to, promotion.source, after)
    if found.gates and found.decision not in {Decision.AUTO, Decision.APPROVAL}:
        raise PromotionRefused(found)
    moves = list(map(str, found.came))  # a source that left the digest, and came back to it, needs a new yes
    return Operation(
        before=Standing(found.old_version, found.before.digest) if found.before and found.old_version else None,
        after=after,
        target=found.digest,
        content=str(found.moves[-1].options) if found.moves else "none",
        facts={"source": [str(promotion.source), *moves], "decision": str(found.decision), **_agreed(found.findings)},
        page=(MarkedLine(f"{found.sentence}:"), *_promotion_page(planned, found)),
        done=f"promoted {found.version} from {promotion.source}",
        act=lambda by: promote_considered(replace(found, promotion=replace(promotion, intent=by)), by.approval),
        idle=not found.gates,
        last=_last(found.gone),
    )


OPERATIONS: dict[str, Callable[[Target, OperationInputs], Operation]] = {
    "init": _init,
    "adopt": _adopt,
    "rollback": _rollback,
    "lift-hold": _lift_hold,
    "promote": _promote,
}
