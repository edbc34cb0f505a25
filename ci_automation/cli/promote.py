"""The command `promote`."""

from __future__ import annotations

import shlex
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from ci_automation.artifact.digest import Digest
from ci_automation.cli.arguments import Arguments, ContradictingOptions
from ci_automation.cli.follow_up import approving_promotion
from ci_automation.cli.output import error_json, print_error, print_json, print_parts, print_text, width
from ci_automation.cli.parameters import CLUSTERS, COMMON, SIGNING, HeadedCommand, takes
from ci_automation.cli.promotions import PlannedPromotion, all_waves, promotion_between
from ci_automation.cli.results import code_of
from ci_automation.errors import Error
from ci_automation.flows.planning.promotion import SourceEmpty
from ci_automation.flows.promote import promote
from ci_automation.policy.decision import Decision, Verdict
from ci_automation.policy.model import duration
from ci_automation.report.findings import Findings
from ci_automation.report.promotion import PromotionShown, promotion_headline, promotion_parts, promotions_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_automation.cli.target import Target
    from ci_automation.flows.promote import Promoted


@click.command("promote", cls=HeadedCommand)
@click.option("--from", "source", metavar="CHANNEL", help="where the digest is taken from: an address, or a name")
@click.option("--to", metavar="CHANNEL", help="where it goes; without --from and --to: all that the configuration says")
@click.option("--after", metavar="TIME", help="how long it must have been at the source, such as 72h")
@click.option(
    "--approve", multiple=True, metavar="DIGEST", help="approve the promotion of exactly this digest, with --to"
)
@takes("allow-removal", "exit-code", *SIGNING, *CLUSTERS, "components-file", "registry-config", *COMMON)
def command(
    source: str | None,
    to: str | None,
    after: str | None,
    *,
    approve: tuple[str, ...],
    exit_code: bool,
    given: Arguments,
) -> int:
    """Move a channel to the digest that another one has, as it is.

    The digest is copied with its signatures, attestations and records, from registry to registry if need be; nothing
    is rendered, and no artifact signed. It must have been at the source for some time, by the signed record of that,
    and what the configuration names as evidence must speak for it; then the policy of the target decides. Without
    --from and --to all promotions of the configuration are done that happen by themselves, wave by wave.

    \b
    flux-manifests promote --from staging --to production --after 72h
    """
    approved = frozenset(Digest.parse(text) for text in approve)
    if to is not None:
        return _one(promotion_between(source, to, duration(after) if after else timedelta(), given), approved, given)
    if source or after or approved:
        raise ContradictingOptions("--from, --after and --approve are about one channel, which --to has to name")
    return _waves(given, exit_code=exit_code)


def _one(planned: PlannedPromotion, approved: frozenset[Digest], given: Arguments) -> int:
    """Promote to one channel, which somebody asked for: what keeps it from being done is an error."""
    done = promote(planned.promotion, approved)
    shown = as_shown(planned.name, done)
    if given.output == "text":
        print_parts((promotion_headline(shown, alone=True), promotions_table((shown,), every=given.verbose)))
        print_parts(promotion_parts(shown, every=given.verbose, width=width(), alone=True))
    done.require_done()
    if given.output == "json":
        print_json({"exitCode": 0, "promotions": [{**shown.to_json(), "exitCode": 0}]}, "promotions")
    return 0


def _waves(given: Arguments, *, exit_code: bool) -> int:
    """Promote all that happens by itself; one that fails keeps none of the others from being done."""
    values: list[dict[str, Any]] = []
    shown: list[PromotionShown] = []
    failed: list[tuple[PlannedPromotion, Error]] = []
    goals: dict[str, Target] = {}
    codes = [0]
    for planned, done in each_wave(all_waves(given)):
        goals[planned.name] = planned.goal
        if isinstance(done, Error):
            codes.append(code_of(done, wanted=exit_code))
            failed.append((planned, done))
            values.append({"name": planned.name, "artifact": str(planned.target), "error": error_json(done)})
        else:
            codes.append(code_of(None if done.done else done.decision, wanted=exit_code))
            shown.append(done)
            values.append(done.to_json())
        values[-1]["exitCode"] = codes[-1]
    code = max(codes)
    if given.output == "json":
        print_json({"exitCode": code, "promotions": values}, "promotions")
        return code
    if shown:
        print_parts((*map(promotion_headline, shown), promotions_table(shown, every=given.verbose)))
    for each in shown:
        print_parts(promotion_parts(each, every=given.verbose, width=width()))
        if each.digest and each.decision is Decision.APPROVAL and not each.done:
            print_text(f"To approve:\n  {shlex.join(approving_promotion(goals[each.name], each.digest, given))}")
    for planned, error in failed:
        print_error(error, planned.name)
    return code


def each_wave(
    waves: tuple[tuple[PlannedPromotion, ...], ...],
) -> Iterator[tuple[PlannedPromotion, PromotionShown | Error]]:
    """Promote wave by wave what happens by itself, and yield what became of each."""
    for wave in waves:
        for planned in wave:
            try:
                yield planned, as_shown(planned.name, promote(planned.promotion))
            except SourceEmpty as error:
                yield planned, nothing_yet(planned) if planned.source_name else error
            except Error as error:
                yield planned, error


def nothing_yet(planned: PlannedPromotion) -> PromotionShown:
    """Return what is told of a promotion whose source is another channel of the configuration, and has nothing yet."""
    reason = f"{planned.source_name} has nothing yet"
    gate = Verdict("source", Decision.WAIT, reason, str(planned.source))
    return PromotionShown(
        name=planned.name,
        source=planned.source,
        target=planned.target,
        version=None,
        digest=None,
        old_version=None,
        before=None,
        decision=gate.decision,
        reasons=(reason,),
        findings=Findings(gates=(gate,)),
        done=False,
    )


def as_shown(name: str, done: Promoted) -> PromotionShown:
    """Return what is told of a promotion."""
    found = done.considered
    return PromotionShown(
        name=name,
        source=found.promotion.source,
        target=found.promotion.target,
        version=found.version,
        digest=found.digest,
        old_version=found.old_version,
        before=found.before.digest if found.before else None,
        decision=found.decision,
        reasons=found.reasons,
        findings=found.findings,
        done=done.done,
        notes=found.notes,
    )
