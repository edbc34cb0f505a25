"""The command `promote`."""

from __future__ import annotations

import shlex
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct
from msgspec.structs import replace

from ci_automation.cli.arguments import Arguments, ContradictingOptions, approved_digests
from ci_automation.cli.follow_up import differing, name_adoption, print_lifting, promoting, signs_elsewhere, whole
from ci_automation.cli.output import (
    error_json,
    print_error,
    print_json,
    print_line,
    print_parts,
    print_reading,
    print_text,
)
from ci_automation.cli.parameters import CLUSTERS, COMMON, SIGNING, HeadedCommand, artifact_names, takes
from ci_automation.cli.promotions import PlannedPromotion, all_waves, promotion_between, waves_to
from ci_automation.cli.results import code_of
from ci_automation.errors import Error
from ci_automation.flows.planning.promotion import Promotion, SourceEmpty, adoption_of, consider, present
from ci_automation.flows.promote import Promoted, promote
from ci_automation.policy.decision import Decision, Verdict, is_held
from ci_automation.policy.model import duration
from ci_automation.report.blocks import MarkedLine
from ci_automation.report.findings import Findings
from ci_automation.report.promotion import PromotionShown, promotion_headline, promotion_parts
from ci_automation.signing.trust import NobodyTrusted
from ci_automation.signing.verify import Unsigned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ci_automation.artifact.reference import Digest
    from ci_automation.cli.target import Target


@click.command("promote", cls=HeadedCommand)
@click.option(
    "--from",
    "source",
    metavar="CHANNEL",
    shell_complete=artifact_names,
    help="where the digest is taken from: an address, or a name",
)
@click.option(
    "--to",
    metavar="CHANNEL",
    shell_complete=artifact_names,
    help="where it goes; without --from and --to: all that the configuration says",
)
@click.option("--after", metavar="TIME", help="how long it must have been at the source, such as 72h")
@click.option(
    "--approve", multiple=True, metavar="DIGEST", help="approve the promotion of exactly this digest, with --to"
)
@takes("allow-removal", "exit-code", *SIGNING, *CLUSTERS, "components-file", "registry-config", *COMMON)
def promote_command(
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
    flux-manifests plan production   # shows it, and writes nothing
    """
    if to is not None:
        planned = promotion_between(source, to, duration(after) if after else timedelta(), given)
        promotion = planned.promotion
        approved = approved_digests(approve, lambda: (promotion.origin.registry.resolve(promotion.source),))
        return _one(planned, approved, given, ("--after", after) if after else ())
    if source or after or approve:
        raise ContradictingOptions(
            "--from, --after and --approve are about one channel, which --to has to name", "Add --to with that channel."
        )
    return _waves(given, exit_code=exit_code)


def _one(planned: PlannedPromotion, approved: frozenset[Digest], given: Arguments, after: tuple[str, ...]) -> int:
    """Promote to the one channel that was named: what keeps it from being done is an error."""
    try:
        done = promote(planned.promotion, approved)
    except Unsigned as error:
        if given.output == "text" and adoption_of(planned.target) in error.hint:
            name_adoption(planned.goal, error, given)
        raise
    shown = as_shown(planned, done)
    if given.output == "text":
        print_parts((promotion_headline(shown, fails=done.waits),))
        parts = (*promotion_parts(shown, every=given.verbose, fails=done.waits),)
        print_parts(parts)
        print_reading(parts, *_reading(planned.goal, shown, given))
        PromotionResult(planned, shown).print_next(shown, given, after)
    done.require_done(told=given.output == "text")
    if given.output == "json":
        print_json({"exitCode": 0, "promotions": [{**shown.to_json(), "exitCode": 0}]}, "promotions")
    return 0


def _reading(goal: Target, shown: PromotionShown, given: Arguments) -> tuple[str, ...]:
    """Return the command that shows every line of a promotion; one that was done is not run again for that."""
    if not shown.done:
        return (whole(),)
    return (differing(goal, shown.before, shown.digest, given),) if shown.before and shown.digest else ()


def _waves(given: Arguments, *, exit_code: bool) -> int:
    """Promote all that happens by itself; one that fails keeps none of the others from being done."""
    results = [*each_wave(all_waves(given), promote)]
    code = max(result.code(exit_code=exit_code) for result in results)
    if given.output == "json":
        print_json({"exitCode": code, "promotions": [it.to_json(exit_code=exit_code) for it in results]}, "promotions")
        return code
    shown = [(it, it.done) for it in results if isinstance(it.done, PromotionShown)]
    print_parts(promotion_headline(done) for _, done in shown)
    for result, done in shown:
        if parts := tuple(promotion_parts(done, every=given.verbose)):
            named = (MarkedLine(""), MarkedLine(f"{done.name}: {done.word}", done.word)) if shown[1:] else ()
            print_parts((*named, *parts))
            print_reading(parts, *_reading(result.planned.goal, done, given))
        result.print_next(done, given)
    for result in results:
        if isinstance(result.done, Error):
            print_error(result.done, result.planned.name)
    return code


class PromotionResult(Struct, frozen=True):
    """Result of one promotion, or of a look at it."""

    planned: PlannedPromotion
    done: PromotionShown | Error

    def code(self, *, exit_code: bool) -> int:
        """Return the code for this channel alone."""
        found = self.done if isinstance(self.done, Error) else None if self.done.done else self.done.decision
        return code_of(found, wanted=exit_code)

    def to_json(self, *, exit_code: bool) -> dict[str, Any]:
        """Return the result as the JSON output has it."""
        code = {"exitCode": self.code(exit_code=exit_code)}
        if not isinstance(self.done, Error):
            return {**self.done.to_json(), **code}
        planned = self.planned
        return {"name": planned.name, "artifact": str(planned.target), "error": error_json(self.done), **code}

    def show(self, given: Arguments, *, details: bool, several: bool) -> None:
        """Print what a promotion would do, for people; with `details` what it would change."""
        if several:
            print_text("")
        done = self.done
        if isinstance(done, Error):
            print_parts((MarkedLine(f"{self.planned.name}: failed", "refused"),))
            print_error(done)
            return
        print_parts((promotion_headline(done),))
        parts = (*promotion_parts(done, every=given.verbose, details=details),)
        print_parts(parts)
        print_reading(parts, whole())
        self.print_next(done, given)

    def print_next(self, done: PromotionShown, given: Arguments, after: tuple[str, ...] = ()) -> None:
        """Print the command that approves a promotion, at once or `after` a time, or does one that was only shown."""
        goal, waits = self.planned.goal, done.decision is Decision.WAIT
        asks = not done.done and any(it.decision is Decision.APPROVAL for it in done.findings.gates)
        if is_held(done.findings.gates):
            print_lifting(goal, done.holds, given)
        elif asks and waits and done.ahead:
            print_line(f"After that, a person has to approve it: then `check {self.planned.name}` says how.")
        if not (done.is_open or (asks and done.decision is Decision.APPROVAL)):
            return
        what = "approve" if asks else f"promote {done.version}"
        named = (*self.planned.asked, *after)
        if signs_elsewhere(goal, given):
            print_line(f"To {what}, start flux.yaml in GitHub Actions: promote, {goal.name}.")
        else:
            print_text(f"To {what}:\n{shlex.join(promoting(goal, given, done.digest if asks else None, named))}")


def each_wave(
    waves: tuple[tuple[PlannedPromotion, ...], ...], flow: Callable[[Promotion], Promoted]
) -> Iterator[PromotionResult]:
    """Do wave by wave what happens by itself, and yield what became of each."""
    for wave in waves:
        for planned in wave:
            try:
                yield PromotionResult(planned, as_shown(planned, flow(planned.promotion)))
            except SourceEmpty as error:
                yield PromotionResult(planned, nothing_yet(planned) if planned.source_name else error)
            except Error as error:
                yield PromotionResult(planned, error)


def looks_ahead(goals: Iterable[Target], given: Arguments, *, needs_trust: bool) -> list[PromotionResult]:
    """Return what `promote` would do with the promoted channels among these, wave by wave; write nothing.

    Unless it `needs_trust`, a channel is shown whose digest cannot be verified.
    """
    looks = each_wave(waves_to(goals, given), lambda it: Promoted(consider(it), done=False))
    return [_with_present(look, needs_trust=needs_trust) for look in looks]


def _with_present(look: PromotionResult, *, needs_trust: bool) -> PromotionResult:
    """Return the look at a promotion, with what the target has now where the promotion could not be considered."""
    shown = look.done
    if isinstance(shown, NobodyTrusted) and not needs_trust:
        shown = _without(look.planned, Verdict("trust", Decision.WAIT, str(shown), "the trusted signers"))
    if isinstance(shown, Error):
        return look
    if shown.digest is None:
        try:
            version, digest = present(look.planned.promotion)
        except Error as error:
            return replace(look, done=error)
        shown = replace(shown, old_version=version, before=digest)
    return replace(look, done=replace(shown, ahead=True))


def nothing_yet(planned: PlannedPromotion) -> PromotionShown:
    """Return what is told of a promotion whose source is another channel of the configuration, and has nothing yet."""
    reason = f"{planned.source_name} has nothing yet"
    return _without(planned, Verdict("source", Decision.WAIT, reason, str(planned.source)))


def _without(planned: PlannedPromotion, gate: Verdict) -> PromotionShown:
    """Return what is told of a promotion that was not considered, and of the reason."""
    return PromotionShown(
        name=planned.name,
        source=planned.source,
        target=planned.target,
        version=None,
        digest=None,
        old_version=None,
        before=None,
        decision=gate.decision,
        reasons=(gate.reason,),
        findings=Findings(gates=(gate,)),
        done=False,
    )


def as_shown(planned: PlannedPromotion, done: Promoted) -> PromotionShown:
    """Return what is told of a promotion."""
    found = done.considered
    return PromotionShown(
        name=planned.name,
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
        first=found.first,
        source_name=planned.source_name,
        holds=tuple(it for it in found.holds if it.is_on(found.promotion.intent.now)),
    )
