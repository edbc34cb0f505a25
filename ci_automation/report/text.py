"""Sentences and tables on plans, and what became of them."""

from __future__ import annotations

import shlex
from itertools import groupby
from typing import TYPE_CHECKING

from ci_automation.flux.proof import Proof
from ci_automation.policy.decision import Decision, Verdict
from ci_automation.report.blocks import KEPT, WARNING, Code, MarkedLine, Part, Reasons, Table, shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ci_automation.artifact.reference import Digest
    from ci_automation.flux.version import Version
    from ci_automation.policy.plan import Plan, PlannedStep
    from ci_automation.report.findings import Findings

PUBLISHED_UNPROVEN = "Rendering not proven: this digest was published with --unsafe-unproven-rendering."
_FEW = 2
WORDS = {
    Decision.AUTO: "can be published",
    Decision.APPROVAL: "needs approval",
    Decision.WAIT: "waiting",
    Decision.REFUSED: "refused",
}
HEADLINES = {
    **WORDS,
    Decision.WAIT: "is waiting",
    Decision.REFUSED: "is refused",
}
_PASSED = {"age", "proof"}  # gates whose pass people need not read
_CAUSES = 3  # in a headline
_LEFT = {**WORDS, Decision.AUTO: "not taken", Decision.APPROVAL: "not taken"}
_PROOFS = {
    Proof.KNOWN: "tested with this release",
    Proof.CALIBRATED: "equal to Flux's own, byte for byte",
    Proof.DELEGATED: "made by the release's own flux CLI",
    Proof.NONE: "not proven",
}


def headline(
    plan: Plan,
    done: int,
    start: int = 0,
    name: str = "",
    *,
    verified: bool = True,
    unsigned: bool = False,
    healed: str = "",
) -> MarkedLine:
    """Return what became of a channel in one sentence: published, or what the other versions need, and why.

    Unless the channel was `verified`, holds and records were not read. An `unsigned` one is adopted before anything.
    `healed` says how its digest was signed before the steps.
    """
    channel = name or str(plan.artifact)
    if unsigned:
        then = ", ".join(what_comes(step) for step in plan.steps if step.decision.is_actionable)
        others = [step for step in plan.steps if not step.decision.is_actionable]
        first = f"{plan.current_version} is not signed: adopt it first{f', then {then}' if then else ''}"
        said = (first, *(f"{what_comes(step)} {HEADLINES[step.decision]}{_because(step)}" for step in others))
        return MarkedLine(f"{channel}: {'; '.join(said)}", WORDS[Decision.APPROVAL])
    known = HEADLINES if verified else {**HEADLINES, Decision.AUTO: "is possible (nothing was verified)"}
    told = [(known[step.decision], step) for step in plan.steps]
    told = [
        ("published" if at >= start else "was published before", it[1]) if at < done else it
        for at, it in enumerate(told)
    ]
    words = [f"{what_comes(step)} {word}{_because(step) if at >= done else ''}" for at, (word, step) in enumerate(told)]
    passed = ((it, _LEFT[decision]) for decision, it, _ in passed_over_rows(plan))
    words += [f"{it} {'are' if ' to ' in it else 'is'} {word}" for it, word in passed]
    if not plan.steps:
        words.insert(0, f"nothing to do at {plan.current_version}" if words else f"{plan.current_version} is current")
    if healed:
        words.insert(0, f"{plan.current_version} ({plan.current.short}) {healed}")
    grave = [step.decision for step in plan.steps[done:]]
    gravest = max(grave, key=tuple(Decision).index, default=None)
    mark = _word(gravest, verified=verified) if gravest else "published"
    return MarkedLine(f"{channel}: {'; '.join(words)}", mark)


def _because(step: PlannedStep) -> str:
    """Return what a person has to know first of a step that is not simply published; empty if nothing."""
    if step.decision not in {Decision.APPROVAL, Decision.REFUSED}:
        return ""
    from ci_automation.report.findings import Findings  # not for a check that finds nothing to do

    return because(Findings.of(step))


def because(found: Findings) -> str:
    """Return the causes of a decision as the end of a headline; empty if nothing is known of them."""
    causes = found.causes()
    more = [f"{len(causes) - _CAUSES} more"] if len(causes) > _CAUSES else []
    return f": {', '.join((*causes[:_CAUSES], *more))}" if causes else ""


def what_comes(step: PlannedStep) -> str:
    """Return what a step brings to the channel, in a few words."""
    return f"changed content of {step.new_version}" if step.kind == "content" else str(step.new_version)


def _word(decision: Decision, *, verified: bool) -> str:
    return "possible" if decision is Decision.AUTO and not verified else WORDS[decision]


def step_title(step: PlannedStep, to: str) -> str:
    """Return from which version to which a step goes, what kind of step it is, and where its bytes come from."""
    proof = f"promoted from {step.promoted_from}" if step.promoted_from else f"rendering {rendering_proof(step)}"
    if step.old_version == step.new_version:
        return f"{step.new_version}, same version (options, files or images change; {proof})"
    return f"{step.old_version} {to} {step.new_version} ({step.kind}; {proof})"


def rendering_proof(step: PlannedStep) -> str:
    """Return what proves that Flux would render it so, and which flags only the release's own flux CLI knows."""
    names = step.options.unknown_flags
    return _PROOFS[step.proof] + (f" with flags that this program does not know: {names}" if names else "")


def plan_table(plan: Plan, done: int, start: int = 0, *, every: bool = True, verified: bool = True) -> Table:
    """Return where the channel is, what was published (the steps from `start` to `done`), what is left, and why.

    Without `every`, digests are as short as people read them, and reasons are the brief ones. `verified` is as in
    `headline`.
    """
    rows = []
    for number, step in enumerate(plan.steps):
        word = _word(step.decision, verified=verified)
        if number < done:
            word = "published" if number >= start else "already published"
        approved = ("approved",) if number < done and step.decision is Decision.APPROVAL else ()
        cause = _because(step) if number >= done else ""
        why = step.reasons if every else brief_cell(step.reasons, step.gates, cause)
        rows.append((word, step, Reasons((*approved, *why))))
    places = [("before" if done else "now", plan.current_version, plan.current)]
    return steps_table(places, rows, plan, every=every)


def steps_table(
    places: Iterable[tuple[str, Version, Digest]],
    steps: Iterable[tuple[str, PlannedStep, str]],
    plan: Plan | None,
    *,
    every: bool,
) -> Table:
    """Return where a channel was and is, its steps, each with a word and why, and what the plan passed over."""

    def digest(whole: Digest) -> str:
        return Code(str(whole) if every else whole.short)

    rows = [(word, str(version), digest(at), "") for word, version, at in places]
    rows += [(word, str(step.new_version), digest(step.target), why) for word, step, why in steps]
    passed = passed_over_rows(plan) if plan else ()
    for decision, versions, reasons in passed:
        is_whole = every or decision is Decision.WAIT
        rows.append((_LEFT[decision], versions, "", Reasons(reasons if is_whole else _in_short(reasons))))
    return digests_table(rows)


def digests_table(rows: Sequence[tuple[str, str, str, str]]) -> Table:
    """Return the table of versions and digests, with a column of reasons if there are any."""
    wide = 4 if any(row[-1] for row in rows) else 3
    return Table(("", "version", "digest", "why")[:wide], tuple(row[:wide] for row in rows))


def brief_reasons(reasons: Sequence[str], gates: Sequence[Verdict]) -> tuple[str, ...]:
    """Return the reasons that neither the headline nor a report of the step tells: what lets it through, or delays it.

    What a person allowed and what the step waits for is whole, because nothing else says it.
    """
    from ci_automation.policy.content import UPSTREAM  # not for a check that finds nothing to do

    stops = {it.reason for it in gates if it.decision in {Decision.APPROVAL, Decision.REFUSED}}
    passed = {it.reason for it in gates if it.decision is Decision.AUTO and not it.allowed and it.gate in _PASSED}
    of_all = {it.reason for it in gates if it.gate == UPSTREAM}  # a line below the table tells it of all steps
    return tuple(it for it in reasons if it not in stops | passed | of_all)


def brief_cell(reasons: Sequence[str], gates: Sequence[Verdict], cause: str = "") -> tuple[str, ...]:
    """Return the brief reasons for a table, after what `because` says of a step that asks or is refused.

    Of a step that waits they say what comes after that.
    """
    told = (*filter(None, (cause.removeprefix(": "),)), *brief_reasons(reasons, gates))
    if {Decision.WAIT, Decision.APPROVAL} <= {it.decision for it in gates}:
        return (*told[:-1], "; ".join((*told[-1:], "then needs approval")))
    return told


def passed_over_rows(plan: Plan) -> Iterator[tuple[Decision, str, tuple[str, ...]]]:
    """Yield what the plan passed over, with its versions: those for the same reasons, one after the other, are one."""
    for (decision, reasons), group in groupby(plan.passed_over, key=lambda it: (it.decision, it.reasons)):
        versions = [str(it.version) for it in group]
        some = versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]} ({len(versions)})"
        yield decision, some, reasons


def main_reasons(step: PlannedStep) -> tuple[str, ...]:
    """Return why a step is decided so, short enough for a table; of many obstacles the gravest, and how many there are.

    What lets a step through is told whole: nothing else says what a person has allowed.
    """
    allowed = {gate.reason for gate in step.gates if gate.allowed}
    told = tuple(it if it in allowed else shortened(it) for it in step.reasons)
    is_short = step.decision is Decision.AUTO or len(told) <= _FEW
    return told if is_short else _in_short((_gravest(step), *told[1:]))


def _in_short(reasons: tuple[str, ...]) -> tuple[str, ...]:
    """Return few reasons, or the first of many, and how many more there are."""
    return reasons if len(reasons) <= _FEW else (shortened(reasons[0]), f"and {len(reasons) - 1} more reasons")


def _gravest(step: PlannedStep) -> str:
    """Return what can break, before what the policy says."""
    from ci_automation.report.findings import Findings  # not for a check that finds nothing to do

    return next(iter(Findings.of(step).causes()), step.reasons[0])


def approval_commands(
    artifact: str,
    waiting: Iterable[PlannedStep],
    planning: Sequence[str],
    applying: Sequence[str],
    plan_file: str | None = None,
) -> str:
    """Return the commands that approve the waiting steps, or nothing where none waits.

    A step above another one adds its digest to the command of that.

    `artifact` is a name or an address. `planning` and `applying` are the options to repeat; a shell takes the lines as
    they are. With a `plan_file` the plan is made already.
    """
    make = ("flux-manifests", "plan", artifact, "--out", "plan.json", *planning)
    lines: list[str] = [] if plan_file else [shlex.join(make)]
    last: tuple[Digest, ...] = ()
    for step, digests in approvals(waiting):
        if last and last[-1] in digests:
            lines.append(f"To approve {step.new_version} too, add to that: --approve {step.target}")
        else:
            if last:
                instead = "instead of that (the next run asks for the other one again):"
                lines.append(f"Or approve {step.new_version} {instead}")
            approved = (part for digest in digests for part in ("--approve", str(digest)))
            lines.append(shlex.join(("flux-manifests", "apply", plan_file or "plan.json", *approved, *applying)))
        last = digests
    return "\n".join(lines) if last else ""


def approvals(waiting: Iterable[PlannedStep]) -> Iterator[tuple[PlannedStep, tuple[Digest, ...]]]:
    """Yield each step that needs approval, with the digests to approve for it: those below it, and its own.

    Steps that start from the same digest do not go together.
    """
    leading: dict[Digest, tuple[Digest, ...]] = {}
    for step in waiting:
        own = (step.target,) if step.decision is Decision.APPROVAL else ()
        leading[step.target] = leading.get(step.base, ()) + own
        if own:
            yield step, leading[step.target]


def ranked(parts: Iterable[Part]) -> Iterator[tuple[int, int, MarkedLine]]:
    """Yield how soon each line is folded away (0: never), its place, and it; a title stays as long as a row of it."""
    lines = [part for part in parts if isinstance(part, MarkedLine)]
    ranks: list[int] = []
    row = 0
    for line in lines:
        own = 0 if line.mark in KEPT | WARNING else 2 if line.mark == "advice" else 1
        row = row if line.text.startswith("    ") else own
        ranks.append(max(own, row))
    yield from zip((min(ranks), *ranks[1:]), range(len(ranks)), lines, strict=True) if ranks else ()
