"""The command `completion`, and the answers to the script that it prints."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ShellComplete, ZshComplete

from ci_automation.cli import COMMANDS, COMPLETE, Commands, cli
from ci_automation.cli.parameters import TRUST, HeadedCommand, details_option, first_example
from ci_automation.cli.target import artifacts_there

if TYPE_CHECKING:
    from collections.abc import Iterable

_NAME = "flux-manifests"
_LIKE = 0.55  # how much of a name is the same: --singing and --signing have 0.57
_MUCH_ALIKE = 0.8  # of a name that another command has: --limit and --lift have 0.67

# Words that people try first, by the command that does it.
MEANT = {
    word: name
    for name, words in {
        "demo": "try example",
        "setup": "configure start",
        "init": "create new",
        "check": "status outdated info",
        "plan": "preview dry-run",
        "update": "publish upgrade bump run sync",
        "update --adopt": "adopt",
        "rollback --lift": "lift-hold lift unhold",
        "cosign generate-key-pair": "keygen generate-key-pair",
        "docker login": "login",
        "apply": "approve confirm",
        "push": "upload",
        "pull": "unpack download get",
        "render": "export",
        "rollback": "revert undo downgrade",
        "history": "list ls log logs versions tags",
        "prune": "clean cleanup delete rm",
        "discover": "inspect",
        "sync-manifests": "manifests",
        "bootstrap": "install",
    }.items()
    for word in words.split()
}

# Options that other tools have, by the one that does it.
_MEANT_OPTIONS = {"--json": "--output json", "--limit": "--since"}

# The option for what people give as a second argument.
_MEANT_ARGUMENTS = {"rollback": "--to", "init": "--flux-version"}

# Why a command lacks an option, and what does it.
_WITHOUT = {
    **dict.fromkeys(
        ((name, "--dry-run") for name in ("update", "apply", "promote")),
        "`check` and `plan` show what it would do, and write nothing.",
    ),
    ("rollback", "--dry-run"): "Without --yes it shows what it would do, and asks.",
    **dict.fromkeys(
        (("discover", f"--{name}") for name in TRUST),
        "`discover` verifies nothing, so it takes no key. `verify`, `history`, `provenance` and `sbom` do.",
    ),
}


def usage_message(error: click.ClickException) -> tuple[str, str]:
    """Return what is told about a wrong line, with what was probably meant, and which artifacts there are."""
    there = ""
    if isinstance(error, click.MissingParameter) and error.param and error.param.name == "artifact":
        there = artifacts_there()
    if isinstance(error, (click.MissingParameter, click.BadOptionUsage)) and not there and error.ctx:
        there = f"For example: `{example}`. " if (example := first_example(error.ctx.command)) else ""
    if error.message.startswith("Got unexpected extra argument") and isinstance(error, click.UsageError) and error.ctx:
        there = f"Write `{' '.join((error.ctx.command_path, *error.ctx.command.collect_usage_pieces(error.ctx)))}`. "
    if isinstance(error, click.NoSuchOption):
        error = _with_option(error)
    elif isinstance(error, click.UsageError):
        error = _with_option_of_extra(error)
    if isinstance(error, click.BadParameter) and isinstance(error.param, click.Argument):
        error.param_hint = f"'{error.param.human_readable_name}'"  # which lists no choices: the message does
    return error.format_message().replace("\n\t", " "), there  # between the choices of an argument


def _with_option(error: click.NoSuchOption) -> click.NoSuchOption:
    """Return the error with the nearest options that the help shows, or else with the commands that have one."""
    mine = _by_option((error.ctx.command,) if error.ctx else ())
    message = f"No such option {error.option_name!r}."
    if why := _WITHOUT.get((error.ctx.command.name or "", error.option_name)) if error.ctx else None:
        return click.NoSuchOption(error.option_name, f"{message} {why}", ctx=error.ctx)
    context = click.Context(cli)
    every = [it for name in COMMANDS if (it := cli.get_command(context, name))]
    if error.ctx and not error.ctx.parent and any(error.option_name in it.opts for each in every for it in each.params):
        told = f"{message} Options come after the command: `flux-manifests COMMAND {error.option_name}`."
        return click.NoSuchOption(error.option_name, told, ctx=error.ctx)
    meant = _MEANT_OPTIONS.get(error.option_name, "")
    if meant.partition(" ")[0].removeprefix("--") in mine:
        return click.NoSuchOption(error.option_name, f"{message} Did you mean {meant!r}?", ctx=error.ctx)
    if not error.option_name.startswith("--"):  # one letter is like nothing
        return click.NoSuchOption(error.option_name, message, ctx=error.ctx)
    # The dashes, which all names have, make none of them similar.
    if near := difflib.get_close_matches(error.option_name.strip("-"), mine, cutoff=_LIKE):
        return click.NoSuchOption(error.option_name, possibilities=[f"--{name}" for name in near], ctx=error.ctx)
    others = _by_option(every)
    for name in difflib.get_close_matches(error.option_name.strip("-"), others, n=1, cutoff=_MUCH_ALIKE):
        known, commands = f"--{name}" == error.option_name, ", ".join(others[name])
        message += f" Commands that have it: {commands}." if known else f" Did you mean '--{name}' of {commands}?"
    return click.NoSuchOption(error.option_name, message, ctx=error.ctx)


def _with_option_of_extra(error: click.UsageError) -> click.UsageError:
    """Return the error about an argument too many with the option that takes it, if there is one."""
    extra = re.fullmatch(r"Got unexpected extra argument \((\S+)\)", error.message)
    option = _MEANT_ARGUMENTS.get(error.ctx.command.name or "") if error.ctx else None
    if not (extra and option):
        return error
    return click.UsageError(f"{error.message}. Did you mean '{option} {extra[1]}'?", error.ctx)


def _by_option(commands: Iterable[click.Command]) -> dict[str, list[str]]:
    """Return the names of the commands that have each long option that their help shows."""
    found: dict[str, list[str]] = {}
    for command in commands:
        for it in command.params:
            for option in () if getattr(it, "hidden", False) else it.opts:
                if option.startswith("--"):
                    found.setdefault(option.removeprefix("--"), []).append(command.name or "")
    return found


class _OrFiles(ShellComplete):
    """Completion with the names of files where we know of nothing else: most values are files, folders or artifacts."""

    def source(self) -> str:
        """Return the script; click would first run bash to learn its version."""
        return ShellComplete.source(self)

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        """Return what can be at this place of the line."""
        found = super().get_completions(args, incomplete)
        return found or ([] if incomplete.startswith("-") else [CompletionItem(incomplete, type="file")])


class _Bash(_OrFiles, BashComplete):
    pass


class _Zsh(_OrFiles, ZshComplete):
    pass


class _Fish(_OrFiles, FishComplete):
    pass


_SHELLS: dict[str, type[ShellComplete]] = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}


def complete(cli: Commands, asked: str) -> int:
    """Print what a shell asks for: SHELL_complete for the line in its variables, SHELL_source for the script."""
    shell, _, what = asked.partition("_")
    if shell not in _SHELLS:
        return 1
    asking = _SHELLS[shell](cli, {}, _NAME, COMPLETE)
    click.echo(asking.source() if what == "source" else asking.complete())
    return 0


@click.command("completion", cls=HeadedCommand)
@click.argument("shell", type=click.Choice(list(_SHELLS)))
@details_option
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> int:
    """Print the script by which a shell completes commands and options.

    The example is for bash, from the next terminal on. For zsh put the line `source <(flux-manifests completion zsh)`
    into ~/.zshrc; fish reads ~/.config/fish/completions/flux-manifests.fish. It also completes the names of
    artifacts in the configuration, and asks no registry.

    \b
    flux-manifests completion bash >> ~/.bashrc
    """
    root: Commands = ctx.find_root().command  # type: ignore[assignment]  # the one that is run
    return complete(root, f"{shell}_source")
