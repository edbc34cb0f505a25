"""Output and exit codes of `check`, `plan`, `update` and `apply`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ci_automation.cli.follow_up import as_named, in_sentence, looking, name_adoption, print_proposals
from ci_automation.cli.output import (
    error_json,
    print_error,
    print_json,
    print_line,
    print_parts,
    print_table,
    print_text,
)
from ci_automation.cli.trust import name_key_here
from ci_automation.errors import Error, PolicyRefused
from ci_automation.policy.decision import Decision
from ci_automation.report.blocks import MarkedLine
from ci_automation.report.text import PUBLISHED_UNPROVEN, headline, plan_table

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from ci_automation.cli.arguments import Arguments
    from ci_automation.cli.promote import PromotionResult
    from ci_automation.cli.target import Target
    from ci_automation.flows.planning.plan import Outcome
    from ci_automation.flows.ports import Intent
    from ci_automation.policy.plan import PlannedStep

EVERY = frozenset(Decision)
APPROVAL_NEEDED = 3
_LEFT = {Decision.APPROVAL: APPROVAL_NEEDED, Decision.REFUSED: PolicyRefused.exit_code}


def code_of(found: Error | Decision | None, *, wanted: bool) -> int:
    """Return the code for one artifact: of its error, or of what is left to do, where `--exit-code` wants to know."""
    if isinstance(found, Error):
        return found.exit_code
    return _LEFT.get(found, 0) if wanted and found else 0


class Result(Struct, frozen=True):
    """Result of one artifact."""

    target: Target
    done: Outcome | Error

    def code(self, *, exit_code: bool) -> int:
        """Return the code for this artifact alone."""
        return code_of(self.done if isinstance(self.done, Error) else self.done.left, wanted=exit_code)

    def to_json(self, *, exit_code: bool) -> dict[str, Any]:
        """Return the result as the JSON output has it."""
        value: dict[str, Any] = {"name": self.target.name, "artifact": str(self.target.channel)}
        value["exitCode"] = self.code(exit_code=exit_code)
        if isinstance(self.done, Error):
            return {**value, "error": error_json(self.done)}
        from ci_automation.report.notes import notes_between

        run, plan = self.done, self.done.plan
        last = plan.steps[run.done - 1] if run.done else None
        newest = plan.steps[-1].new_version if plan.steps else plan.current_version
        said = notes_between(run.releases, plan.current_version, newest)
        return value | {
            "changed": run.done > run.start,
            "version": str(last.new_version if last else plan.current_version),
            "digest": str(last.target if last else plan.current),
            "signature": run.trust,
            "healed": run.healed,
            "movedBackChecked": run.placed and run.verified,
            "versionTagsAstray": list(run.astray),
            "published": [step.in_brief() for step in plan.steps[run.start : run.done]],
            "waiting": [step.in_brief() for step in run.waiting],
            "plan": plan.to_json(),
            "vulnerabilities": [each.to_json() for each in run.vulnerable],
            "releaseNotes": [each.to_json() for each in said],
        }


def for_each(targets: tuple[Target, ...], flow: Callable[[Target], Outcome]) -> list[Result]:
    """Run a flow on each artifact; a failure of one does not keep the others from being done."""
    results = []
    for target in targets:
        try:
            results.append(Result(target, flow(target)))
        except Error as error:
            results.append(Result(target, error))
    return results


def finish(
    results: list[Result],
    given: Arguments,
    *,
    exit_code: bool,
    details: Collection[Decision] = EVERY,
    plan_file: str | None = None,
    promotions: Sequence[PromotionResult] = (),
    says_next: bool = False,
) -> int:
    """Print the results, with all that is known of the steps decided as in `details`; return the highest code.

    With `says_next` each one has the command that publishes what needs no approval.

    Raises:
        Error: there is one result, and it is this error.
    """
    every: tuple[Result | PromotionResult, ...] = (*results, *promotions)
    several = len(every) > 1
    for it in results:
        if isinstance(it.done, Error):
            _name_remedies(it.target, it.done, given)
    for result in every:
        if isinstance(result.done, Error) and not several:
            raise result.done
    code = max(result.code(exit_code=exit_code) for result in every)
    if given.output == "json":
        values, ahead = ([it.to_json(exit_code=exit_code) for it in some] for some in (results, promotions))
        print_json({"exitCode": code, "artifacts": values, "promotions": ahead}, "results")
        return code
    for result in results:
        _print_result(result, given, details=details, several=several, plan_file=plan_file, says_next=says_next)
    for promotion in promotions:
        promotion.show(given, details=bool(details), several=several)
    return code


def _name_remedies(goal: Target, error: Error, given: Arguments) -> None:
    """Let the hint have what works here: the key that signed, or the whole command that adopts; and commands."""
    is_key_here = name_key_here(error)
    if given.output == "text" and not is_key_here and "--adopt`" in error.hint and "--to" not in error.hint:
        name_adoption(goal, error, given)
    if not isinstance(goal.prepared, Error):
        error.hint = as_named(goal, given, error.hint)


def _print_result(
    result: Result,
    given: Arguments,
    *,
    details: Collection[Decision],
    several: bool,
    plan_file: str | None,
    says_next: bool,
) -> None:
    name = result.target.name
    if several:
        print_text("")
    outcome = result.done
    if isinstance(outcome, Error):
        _print_failure(result.target, outcome)
        return
    if result.target.intent.adopt and outcome.trust == "verified" and not outcome.healed:
        print_text(f"{name}: {outcome.plan.current} is trusted already: there is nothing to adopt.")
    if result.target.source:
        _print_adopted(result, outcome, given)
        return
    plan = outcome.plan
    signed = ("adopted and signed" if outcome.trust == "adopted" else "signed again") if outcome.healed else ""
    trust = {"verified": outcome.verified, "unsigned": outcome.unsigned}
    print_parts((headline(plan, outcome.done, outcome.start, name, **trust, healed=signed),))
    if plan.steps or plan.passed_over or given.verbose:
        print_table(plan_table(plan, outcome.done, outcome.start, every=given.verbose, verified=outcome.verified))
    print_parts(map(MarkedLine, _remarks(result, outcome, given)))
    shown = [step for step in plan.steps if step.decision in details]
    for step in shown:
        _print_step(step, outcome, given)
    if plan.steps or plan.passed_over:
        print_proposals(result.target, outcome, given, shown, plan_file, says_next=says_next)


def _print_adopted(result: Result, outcome: Outcome, given: Arguments) -> None:
    """Print what became of a promoted channel: adoption alone is done here, and nothing is planned."""
    goal, plan = result.target, outcome.plan
    now = f"{plan.current_version} ({plan.current.short}) {'adopted and signed' if outcome.healed else 'now'}"
    print_parts((MarkedLine(f"{goal.name}: {now}; the next version comes from {goal.source}", "published"),))
    print_parts(map(MarkedLine, _remarks(result, outcome, given)))
    print_text(f"To see what comes next:\n{looking(goal, given)}")


def _print_failure(goal: Target, error: Error) -> None:
    """Print why nothing became of one of several artifacts: the first digest of one can be yet to come."""
    if error.code == "not-found" and str(error).startswith(f"{goal.channel} was"):
        words = f"nothing yet; `init {goal.name}` publishes its first artifact"
        print_parts((MarkedLine(f"{goal.name}: {words}", "waiting"),))
        print_line(f"  {error}\n  hint: {error.hint}   (exit {error.exit_code}, code {error.code})")
        return
    print_parts((MarkedLine(f"{goal.name}: failed", "refused"),))
    print_error(error)


def _print_step(step: PlannedStep, outcome: Outcome, given: Arguments) -> None:
    from ci_automation.report.changes import step_parts
    from ci_automation.report.notes import notes_between, notes_hint, notes_text
    from ci_automation.report.text import brief_reasons

    told = step_parts(step, every=given.verbose, told=brief_reasons(step.reasons, step.gates))
    print_parts((MarkedLine(""), *told))
    said = notes_between(outcome.releases, step.old_version, step.new_version)
    if shown := notes_text(said) if given.verbose else notes_hint(said):
        print_text(shown)


def _remarks(result: Result, outcome: Outcome, given: Arguments) -> Iterator[str]:
    """Yield what a person must not miss besides the steps."""
    intent = result.target.intent
    if outcome.plan.steps:
        yield from _of_steps(outcome, intent)
    yield from _of_trust(result, outcome, given)
    if not outcome.placed:
        verify = in_sentence(result.target, given, "verify")
        yield f"Not checked: whether the channel was moved back to an earlier digest. {verify} checks that."
    if outcome.unproven:
        yield PUBLISHED_UNPROVEN
    if outcome.astray:
        tags = ", ".join(outcome.astray)
        heal = in_sentence(result.target, given, "check", "--heal")
        yield f"Version tags that do not lead to this digest: {tags}. {heal} moves them."
    for it in outcome.vulnerable:
        fixed = f"{it.fixed_by} fixes it" if it.fixed_by else "no step of this plan fixes it"
        yield f"{outcome.plan.current_version} has a known vulnerability, {it.vulnerability}: {fixed}."
    if outcome.done > outcome.start and intent.unsafe_unsigned:
        yield "It was published unsigned: clusters that verify will refuse it."
    if given.accept_identity_change and outcome.done == outcome.start:
        yield "Nothing was published, so the change of the identity waits: go on signing as before until then."


def _of_trust(result: Result, outcome: Outcome, given: Arguments) -> Iterator[str]:
    """Yield whose signature was verified; the headline says of an unsigned digest that it is adopted first."""
    if not outcome.verified:
        unread = " So no signed hold was read: a release above may be one that was rolled back."
        yield f"Nothing was verified: {result.target.ports.why_nobody}.{unread if outcome.plan.steps else ''}"
        if not (outcome.unsigned or result.target.intent.unsafe_unsigned):
            adopting = in_sentence(result.target, given, "update", "--adopt")
            yield f"If no signer of yours signed it, begin with {adopting}, which shows every file first."


def _of_steps(outcome: Outcome, intent: Intent) -> Iterator[str]:
    from ci_automation.report.findings import idle_acknowledgements, unproven_upstream

    yield from unproven_upstream(outcome.plan.steps)
    yield from idle_acknowledgements(intent.policy.acknowledge, outcome.plan.steps, intent.now)
