"""The commands that a person may run next, with the options of this one that they must repeat to do the same."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource
from msgspec.structs import replace

from ci_automation.cli.options import OF_COMMAND_LINE, Kind, Repeat
from ci_automation.cli.output import TO_READ, print_line, print_parts, print_text
from ci_automation.cli.parameters import INSTALL_FLAGS
from ci_automation.cli.trust import KEY_HERE, signing_mode
from ci_automation.config.model import VerifyConfig
from ci_automation.errors import Error, SigningError, UsageError
from ci_automation.impact.change import in_shell
from ci_automation.policy.decision import Decision, is_held
from ci_automation.report.text import approval_commands, what_comes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ci_automation.artifact.reference import Digest
    from ci_automation.cli.arguments import Arguments
    from ci_automation.cli.target import Target
    from ci_automation.config.sections import Artifact
    from ci_automation.flows.planning.plan import Outcome
    from ci_automation.policy.decision import Hold
    from ci_automation.policy.plan import PlannedStep

_ADOPTING = "To adopt it first (this shows every file of it, and asks):"
_OF_DIFF = ("config", "registry-config", "releases", "components-file", "cluster-snapshot", "objects", "kubernetes")


def _guessed(half: str) -> str:
    """Return the half of a key as `cosign generate-key-pair` calls it, if it is here, or else a placeholder."""
    return name if Path(name := f"cosign.{half}").exists() else f"YOUR.{half}"


def _guessed_key(target: Target) -> str:
    """Return the guessed key that signs; a placeholder if another key than the public half beside it is trusted."""
    half = Path(KEY_HERE)
    fits = not half.exists() or target.ports.trusted is None or _has_key(half, target)
    return _guessed("key") if fits else "YOUR.key"


def _is_guessed(target: Target, given: Arguments) -> bool:
    return signing_options(target, given)[:4] == ("--signing", "key", "--key", _guessed_key(target))


def _has_key(half: Path, target: Target) -> bool:
    """Return whether a file has the public key that is trusted here."""
    from ci_automation.signing.keys.public import load_public_key

    if not half.exists() or (trusted := target.ports.trusted) is None:
        return False
    try:
        return trusted.names(load_public_key(str(half), os.environ, Path()).fingerprint)
    except (SigningError, UsageError):
        return False


def repeated_options(given: Arguments, *, begun: bool = False) -> tuple[str, ...]:
    """Return the options that each command has to repeat; `begun` says that something was published in this run."""
    return _said(given, Repeat.EACH) + (() if begun else _said(given, Repeat.EACH_UNTIL_PUBLISHED))


def flags(given: Arguments) -> tuple[str, ...]:
    """Return the flags of `flux install` that the plan has to repeat."""
    named = {it.name for it in INSTALL_FLAGS}
    return tuple(
        f"--{'' if name in named else 'flag='}{name}={str(value).lower() if isinstance(value, bool) else value}"
        for name, value in given.flags.items()
    )


def planned(target: Target, given: Arguments) -> tuple[str, ...]:
    """Return whom the plan for an approval has to trust: who signs it, if no other signer is known."""
    told = _said(given, Repeat.TRUST)
    if given.key and not given.public_key and not given.issuer:
        if target.configured and target.configured.verify != VerifyConfig():
            return told
        half = Path(given.key).with_suffix(".pub")
        return ("--public-key", str(half), *told) if _has_key(half, target) else ("--key", given.key, *told)
    if told or target.ports.trusted is not None or not _is_guessed(target, given):
        return told
    return ("--public-key", _guessed("pub"))


def verifying_keys(configured: Artifact | None, given: Arguments) -> tuple[str, ...]:
    """Return where the keys are that count here, as the command `public-key` takes them; empty if no key is named."""
    named = given.public_key or (configured.verify.public_keys if configured else ())
    signing = given.key or (configured.signing.key if configured else None)
    return named or ((signing,) if signing else ())


def signing_options(target: Target, given: Arguments) -> tuple[str, ...]:
    """Return how the approved step will be signed: as now, or else as most do."""
    told = _said(given, Repeat.TRUST)
    if given.signing == "unsafe-unsigned":
        return ("--signing", "unsafe-unsigned", *told)
    configured = not given.key and (signing_mode(target.configured, given) is not None or bool(given.issuer))
    mode = given.signing if given.key and given.signing else "key"
    key: tuple[str, ...] = () if configured else ("--signing", mode, "--key", given.key or _guessed_key(target))
    if given.signing == "keyless":
        key = ("--signing", "keyless")
    return (*key, *_said(given, Repeat.SIGN), *told)


def lifting(target: Target, given: Arguments, *instead: str) -> tuple[str, ...]:
    """Return the command that lifts the hold of this rollback, or with what else it does: it signs as this one."""
    options = (*signing_options(target, given), *_written(given, ("config", "registry-config")))
    return ("flux-manifests", "rollback", target.name, *(instead or ("--lift",)), *options)


def in_sentence(target: Target, given: Arguments, command: str, *switches: str) -> str:
    """Return a command for a sentence, with the options that it needs to do what this one would."""
    options = (*planned(target, given), *_written(given, ("config", "registry-config")))
    if command not in {"verify", "history"}:
        options = (*signing_options(target, given), *flags(given), *repeated_options(given, begun=True))
    return in_shell(command, target.name, *switches, *options)


_OF_FLOWS = re.compile(r"`(?:update|check|history|rollback) [^\s`]+(?: --[a-z-]+)?(?: sha256:[0-9a-f]{64})?`")


def as_named(target: Target, given: Arguments, hint: str) -> str:
    """Return a hint whose commands have the channel's name, and the options that they need here."""

    def command(found: re.Match[str]) -> str:
        name, address, *switches = found[0].strip("`").split(" ")
        if address != shlex.quote(str(target.channel)):
            return found[0]
        if name == "rollback":
            return in_shell(*lifting(target, given, *switches)[1:])
        return in_sentence(target, given, name, *switches)

    return _OF_FLOWS.sub(command, hint)


def looking(target: Target, given: Arguments, *, plans: bool = False) -> str:
    """Return the command that says what comes next, or `plans` it, with the same trust as here."""
    options = (*planned(target, given), *repeated_options(given, begun=True))
    command = ("flux-manifests", "plan") if plans else ("flux-manifests", "check")
    return shlex.join((*command, target.name, *options))


def differing(target: Target, old: Digest, new: Digest, given: Arguments) -> str:
    """Return the command that shows every line of what changes in clusters between two digests of a channel."""
    sides = (str(target.channel.at_digest(it)) for it in (old, new))
    options = (*planned(target, given), *_written(given, _OF_DIFF))
    return shlex.join(("flux-manifests", "diff", "-v", *sides, *options))


def whole(*options: str) -> str:
    """Return the present command line with `options`, by default -v, and with what the environment said."""
    context = click.get_current_context()
    command, *rest = context.obj
    is_set = context.get_parameter_source("releases") is ParameterSource.ENVIRONMENT
    releases = ("--releases", context.params["releases"]) if is_set else ()
    return f"flux-manifests {shlex.join([command, *(options or ('-v',)), *releases, *rest])}"


def comparing(old: str, new: str, given: Arguments) -> str:
    """Return the command that compares two states with the same trust as here."""
    options = (*_said(given, Repeat.TRUST), *_written(given, ("config", "registry-config")))
    return shlex.join(("flux-manifests", "diff", old, new, *options))


def signs_elsewhere(target: Target, given: Arguments) -> bool:
    """Return whether clusters trust an identity, such as a workflow's, and nothing says how to sign as it from here."""
    from ci_automation.signing.trust import TrustedIdentities

    guessed = _is_guessed(target, given) and not given.key
    return guessed and isinstance(target.ports.trusted, TrustedIdentities)


def promoting(
    target: Target, given: Arguments, approved: Digest | None = None, named: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Return the command that promotes to a channel, or approves that, with the options that `promote` has.

    `named` are those that say from where, and after what time.
    """
    given = replace(given, adopt=False, yes=False, releases=None, overlay=None, pin_images=None)
    given = replace(given, accept_edits=False, unsafe_unproven_rendering=False)
    approval = ("--approve", str(approved)) if approved else ()
    command = ("flux-manifests", "promote", *named, "--to", target.name, *approval)
    return (*command, *signing_options(target, given), *repeated_options(given))


def name_adoption(goal: Target, error: Error, given: Arguments) -> None:
    """Put the whole command that adopts an unsigned digest below the error, and let the hint name it."""
    from ci_automation.flows.planning.base import is_edited_by_hand

    is_edited = not goal.is_promoted and is_edited_by_hand(goal.channel, goal.ports, goal.intent)
    adopting = _updating(goal, replace(given, adopt=True, accept_edits=given.accept_edits or is_edited), begun=False)
    edits = " (its components differ from what Flux renders: the next step drops that)" if is_edited else ""
    error.below = f"To adopt {goal.name}, if it is yours{edits}:\n{adopting}"
    error.hint = re.sub(r"`[^`]*update [^`]*--adopt`", "the command below", error.hint)


def print_proposals(
    goal: Target,
    run: Outcome,
    given: Arguments,
    shown: Sequence[PlannedStep],
    plan_file: str | None,
    *,
    says_next: bool,
) -> None:
    """Print how to read all of the steps that were `shown`, and how to do or to approve those that wait."""
    again = _again(given, run)
    repeated = repeated_options(again, begun=bool(run.done))
    planning = (*planned(goal, given), *flags(given), *repeated)
    applying = (*signing_options(goal, given), *repeated)
    reads = bool(shown) and not given.verbose
    commands = approval_commands(goal.name, run.waiting, (*(["-v"] if reads else []), *planning), applying, plan_file)
    makes_plan = bool(commands) and not (plan_file or run.unsigned)  # which shows all of what waits
    reading = _reading(goal, run, given, shown, writes=says_next, makes_plan=makes_plan) if reads else ()
    if reading:
        is_rest = says_next and makes_plan
        print_text("\n".join(("To read all that was published:" if is_rest else TO_READ, *reading)))
        if is_rest:
            print_text(f"To read all of {what_comes(run.waiting[0])}, run the first command that approves it.")
    if run.unsigned:
        print_text(f"{_ADOPTING}\n{_updating(goal, replace(given, adopt=True), begun=False)}")
        return
    if says_next and run.waiting and run.waiting[0].decision is Decision.AUTO:
        what = _ADOPTING if again.adopt else f"To publish {run.waiting[0].new_version}:"
        print_text(f"{what}\n{_updating(goal, again, begun=bool(run.done))}")
    is_held_back = any(it.held for it in run.plan.passed_over) or any(is_held(step.gates) for step in run.waiting)
    # An update runs each day, and the rollback told how.
    if is_held_back and (given.verbose or click.get_current_context().info_name != "update"):
        print_lifting(goal, run.holds, given)
    if commands:
        print_text(f"To approve:\n{commands}")


def print_lifting(goal: Target, on: Sequence[Hold], given: Arguments) -> None:
    """Print how to end the holds of a channel, one of which keeps a step or a promotion back."""
    if not signs_elsewhere(goal, given):
        from ci_automation.report.rollback import how_to_lift  # most checks find no hold

        print_parts(line for lines in how_to_lift(on, lifting(goal, given)) for line in lines)
        return
    for hold in on:
        one, to = (f"the hold on {hold.told}", f", {hold.digest}") if on[1:] else ("the hold", "")
        print_line(f"To lift {one}, start flux.yaml in GitHub Actions: lift-hold, {goal.name}{to}.")


def _reading(
    goal: Target, run: Outcome, given: Arguments, shown: Sequence[PlannedStep], *, writes: bool, makes_plan: bool
) -> Sequence[str]:
    """Return the commands that show every line of these steps; one that writes is not run again for that.

    The command that `makes_plan` for an approval shows every line of what waits, and is printed below.
    """
    if not writes:
        return () if makes_plan else (whole(),)
    published = [it for it in shown if it in run.plan.steps[: run.done]]
    found = [differing(goal, published[0].base, published[-1].target, given)] if published else []
    if len(published) < len(shown) and not makes_plan:
        repeated = repeated_options(_again(given, run), begun=bool(run.done))
        options = (*planned(goal, given), *flags(given), *repeated)
        found.append(shlex.join(("flux-manifests", "plan", "-v", goal.name, *options)))
    return found


def _again(given: Arguments, run: Outcome) -> Arguments:
    """Return the options of the next run: what is trusted is adopted no more."""
    return replace(given, adopt=given.adopt and not run.healed and run.trust != "verified")


def _updating(goal: Target, given: Arguments, *, begun: bool) -> str:
    options = (*signing_options(goal, given), *flags(given), *repeated_options(given, begun=begun))
    return shlex.join(("flux-manifests", "update", goal.name, *options))


def _said(given: Arguments, repeat: Repeat) -> tuple[str, ...]:
    """Return the options that were given and are repeated so, as they are written."""
    return tuple(_written(given, (it.name for it in OF_COMMAND_LINE.values() if it.repeat is repeat)))


def _written(given: Arguments, names: Iterable[str]) -> Iterator[str]:
    for option in map(OF_COMMAND_LINE.__getitem__, names):
        value = getattr(given, option.parameter)
        match option.kind:
            case Kind.SWITCH | Kind.EITHER:
                if value:
                    yield f"--{option.name}"
                elif option.kind is Kind.EITHER and value is not None:
                    yield f"--no-{option.name}"
            case _:
                for text in value if option.kind is Kind.LIST else filter(None, (value,)):
                    yield from (f"--{option.name}", text)
