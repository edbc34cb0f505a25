"""The commands that look at the next steps of channels, or do them: `check`, `plan`, `update` and `apply`."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from ci_automation.cli.arguments import Arguments, ContradictingOptions, SeveralToAdopt, approved_digests
from ci_automation.cli.follow_up import whole
from ci_automation.cli.output import print_aside, print_text
from ci_automation.cli.parameters import (
    SIGNING,
    STEPS,
    TRUST,
    WRITING_AS_IN,
    HeadedCommand,
    artifact_argument,
    one_artifact_argument,
    takes,
)
from ci_automation.cli.results import EVERY, Result, finish, for_each
from ci_automation.cli.target import Target, rendered
from ci_automation.cli.wiring import plan_target, target, targets
from ci_automation.errors import Error, ReleaseSourceError
from ci_automation.flows.observe import Placed, Trust, observe
from ci_automation.flows.planning.plan import Outcome, Planned, make_plan
from ci_automation.flux.proof import Proof
from ci_automation.policy.decision import Decision

if TYPE_CHECKING:
    from ci_automation.cli.promote import PromotionResult


@click.command("check", cls=HeadedCommand, as_in=WRITING_AS_IN)
@artifact_argument("artifact", required=False)
@click.option("--heal", is_flag=True, help="sign again a channel that lost its signature and is provably yours")
@takes("exit-code", *SIGNING, *STEPS, install_flags=True)
def check_command(artifact: str | None, *, heal: bool, exit_code: bool, given: Arguments) -> int:
    """Say whether a channel is current, and what could be done.

    Without ARTIFACT, all artifacts of the configuration are checked. Nothing is written, but with --heal. Where
    nothing is newer, the check costs two small reads from the registry and one from the source of releases, and does
    not look whether the channel was moved back; `verify` does. With versionTags it reads the list of tags too.
    Of a channel that the configuration promotes, it says what `promote` would do.

    \b
    flux-manifests check oci://ghcr.io/acme/flux-manifests:production --public-key cosign.pub
    """
    goals = targets(artifact, given, signs=heal)
    promotions = [] if heal else _promotions(goals, given, needs_trust=False)
    goals = tuple(goal for goal in goals if not goal.is_promoted) if promotions else rendered(goals, print_aside)
    results = for_each(goals, partial(_look, heal=heal))
    return finish(results, given, exit_code=exit_code, details=(), promotions=promotions, says_next=True)


def _promotions(goals: tuple[Target, ...], given: Arguments, *, needs_trust: bool) -> list[PromotionResult]:
    """Return what `promote` would do with those that are promoted."""
    if not any(goal.is_promoted for goal in goals):
        return []
    from ci_automation.cli.promote import looks_ahead

    return looks_ahead(goals, given, needs_trust=needs_trust)


def _look(goal: Target, *, heal: bool) -> Outcome:
    """Return what could be done with an artifact, after healing it if that is wanted."""
    if heal:
        from ci_automation.flows.update import heal as healed

        return healed(goal.channel, goal.ports, goal.intent)
    try:
        planned = make_plan(goal.channel, goal.ports, goal.intent)
    except ReleaseSourceError:
        _tell_present(goal)
        raise
    trusted = planned.observed.trust
    placed = isinstance(planned.observed, Placed) or trusted is not Trust.VERIFIED
    astray: tuple[str, ...] = ()
    if goal.intent.version_tags:
        from ci_automation.flows.publication.tags import VersionTags

        tags = VersionTags(goal.channel, planned.plan.current_version, goal.ports)
        astray = tuple(str(tag.tag) for tag in tags.astray(planned.plan.current))
    return replace(_outcome(planned, goal), placed=placed, astray=astray)


def _tell_present(goal: Target) -> None:
    """Print what is known of a channel without the releases: the registry still answers."""
    from ci_automation.flows.planning.base import present_version

    with suppress(Error):
        observed = observe(goal.channel, goal.ports)
        version = present_version(observed, goal.ports, goal.intent)
        signed = "signed by a trusted signer" if observed.trust is Trust.VERIFIED else "not verified"
        print_aside(f"{goal.name}: {version} ({observed.digest.short}), {signed}. What is newer is not known:")


@click.command("plan", cls=HeadedCommand)
@one_artifact_argument()
@click.option("--out", metavar="FILE", help="write the plan to this file, for `apply`")
@takes("exit-code", *TRUST, *STEPS, install_flags=True)
def plan_command(artifact: str, out: str | None, *, exit_code: bool, given: Arguments) -> int:
    """Make the plan for a channel; write nothing to the registry.

    The plan has every step with the digest that it starts from and the one that it leads to, what changes, and
    whether it happens by itself, needs approval, waits, or is refused. The same inputs give the same plan.
    Of a channel that the configuration promotes, it shows exactly what `promote` would do.

    \b
    flux-manifests plan oci://ghcr.io/acme/flux-manifests:production --public-key cosign.pub --out plan.json
    flux-manifests plan production --cluster-snapshot production-crds.json --objects apps
    """
    goal = target(artifact, given, signs=False)
    if goal.is_promoted:
        _require_nothing_rendered(goal, given, out)
    if promotions := _promotions((goal,), given, needs_trust=True):
        return finish([], given, exit_code=exit_code, promotions=promotions)
    try:
        planned = make_plan(goal.channel, goal.ports, goal.intent)
    except Error as error:
        error.hint += " `init --dry-run` shows what it would publish." if "`init` or " in error.hint else ""
        return finish([Result(goal, error)], given, exit_code=exit_code)
    if out is not None:
        from ci_automation.flows.files import write_file

        write_file(Path(out), planned.plan.to_text().encode())
    outcome = replace(_outcome(planned, goal), releases=planned.releases)
    code = finish([Result(goal, outcome)], given, exit_code=exit_code, plan_file=out)
    if out is not None and given.output == "text":
        print_text(f"The plan is in {out}.")
    return code


def _require_nothing_rendered(goal: Target, given: Arguments, out: str | None) -> None:
    """Raise `ContradictingOptions` if the options ask of a promoted channel what only a rendered one can have."""
    if out is not None:
        what, hint = "--out writes a plan for `apply`", "Leave out --out: `promote` plans for itself."
    elif given.overlay or given.flags or given.pin_images is not None:
        what = "--overlay, --pin-images and flags of `flux install` change what is rendered"
        hint = "Give them for the channel that it is promoted from."
    else:
        return
    raise ContradictingOptions(
        f"{what}, and {goal.name} is promoted: `promote` alone moves it, and renders nothing", hint
    )


@click.command("update", cls=HeadedCommand)
@artifact_argument("artifact", required=False)
@takes("exit-code", *SIGNING, *STEPS, install_flags=True)
def update_command(artifact: str | None, *, exit_code: bool, given: Arguments) -> int:
    """Publish what the policy allows, and say what needs approval.

    Without ARTIFACT, all artifacts of the configuration are updated. By default patches are published by themselves,
    minors need approval, majors are not taken. What is published is signed, and verified, before the channel
    moves. With --adopt it signs and records the digest that a person adopts, and publishes nothing; the next run does.

    \b
    flux-manifests update oci://ghcr.io/acme/flux-manifests:production --signing key --key cosign.key
    """
    goals = targets(artifact, given)
    if given.yes and len(goals) > 1:
        raise SeveralToAdopt(len(goals))
    if not (artifact and given.adopt):
        goals = rendered(goals, print_aside)
    results = for_each(goals, _update_or_adopt)
    details = () if given.adopt else EVERY - {Decision.WAIT}  # `plan` has the rest
    return finish(results, given, exit_code=exit_code, details=details, says_next=True)


def _update_or_adopt(goal: Target) -> Outcome:
    from ci_automation.flows.update import adopt, heal, update

    flow = adopt if goal.is_promoted else heal if goal.intent.adopt else update
    return flow(goal.channel, goal.ports, goal.intent)


@click.command("apply", cls=HeadedCommand)
@click.argument("plan_file", metavar="PLAN")
@click.option("--approve", multiple=True, metavar="DIGEST", help="approve the step that leads to exactly this digest")
@takes("exit-code", *SIGNING, *STEPS)
def apply_command(plan_file: str, approve: tuple[str, ...], *, exit_code: bool, given: Arguments) -> int:
    """Do exactly what a plan says.

    It begins at the first step whose base the channel has now, renders again, and refuses where base or target are
    not the plan's. A step that needs approval is done only with --approve and its target.

    \b
    flux-manifests apply plan.json --approve sha256:... --signing key --key cosign.key
    """
    from ci_automation.flows.apply import NotApproved, apply
    from ci_automation.flows.files import read_plan_file

    plan = read_plan_file(Path(plan_file))
    approved = approved_digests(approve, lambda: (step.target for step in plan.steps))
    (goal,) = rendered((plan_target(plan, given),), print_aside)
    try:
        outcome: Outcome | Error = apply(plan, approved, goal.ports, goal.intent)
    except Error as error:
        if isinstance(error, NotApproved):
            error.hint = f"If you read the plan and approve it: `{whole('--approve', str(error.target))}`"
        outcome = error
    return finish([Result(goal, outcome)], given, exit_code=exit_code, details=())


def _outcome(planned: Planned, goal: Target) -> Outcome:
    """Return a plan as the result of a run that did nothing of it."""
    trust = planned.observed.trust
    unsigned = bool(trust is Trust.UNCHECKED and planned.plan.steps and not goal.intent.unsafe_unsigned)
    if unsigned:  # perhaps: an unverified signature is there or not
        from ci_automation.signing.verify import gather

        found = gather(goal.ports.registry, goal.channel, planned.plan.current)
        unsigned = not (found.signatures or found.bundles)
    done = Outcome(planned.plan, 0, str(trust), unmade=planned.unmade, vulnerable=planned.vulnerable, unsigned=unsigned)
    record = planned.observed.record if isinstance(planned.observed, Placed) else None
    return replace(done, unproven=bool(record and record.proof is Proof.NONE), holds=planned.holds(0, goal.intent.now))
