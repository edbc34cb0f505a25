"""The command line: parse, call a flow, print. No decisions.

`import click` is all that `--help` costs: a command's module is imported when the command runs, or shows its own help.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import itertools
import json
import os
import sys
import traceback
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ci_automation import __version__
from ci_automation.errors import INTERRUPTED, Error, is_interruption

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from click.shell_completion import CompletionItem

UNREAD = 141  # what shells report for one whose reader is gone, as with `| head`

# The commands by what they are for; a test compares the sentences with the commands' own.
_PARTS = {
    "To begin": {
        "demo": "Show the whole job on an embedded registry, with sample releases.",
        "setup": "Write what a fleet repository needs: workflows, configuration, and the objects for clusters.",
        "doctor": "Look for what keeps runs from their work: programs, credentials, trust, GitHub's settings, clocks.",
        "init": "Publish the first artifact of a channel; `update --adopt` takes over one that is there.",
    },
    "To keep a channel current": {
        "check": "Say whether a channel is current, and what could be done.",
        "plan": "Make the plan for a channel; write nothing to the registry.",
        "update": "Publish what the policy allows, and say what needs approval.",
        "apply": "Do exactly what a plan says.",
        "promote": "Move a channel to the digest that another one has, as it is.",
        "rollback": "Move a channel back to what it had before, and hold what it leaves.",
        "push": "Publish a team's own manifests, signed, as the next artifact of a channel.",
    },
    "To see what there is": {
        "verify": "Say whether a trusted signer signed an artifact, and which clusters accept it.",
        "history": "List what was published, when, signed and approved by whom, and where the channels stand.",
        "diff": "Say what changes between two artifacts, folders, files or releases, and what that can break.",
        "pull": "Unpack an artifact into a folder.",
        "discover": "List what is attached to an artifact: bundles, records, SBOMs, and files and notes of any user.",
        "provenance": "Print how an artifact was made, as its trusted signer stated it (SLSA v1).",
        "sbom": "Print the list of an artifact's controllers (SBOM), as its trusted signer stated it.",
    },
    "For clusters": {
        "sync-manifests": "Print the objects by which a cluster follows and verifies a channel.",
        "bootstrap-manifests": "Write what the first installation of Flux applies to a cluster, and print the order.",
        "bootstrap": "Install Flux on a cluster from a channel, which the cluster follows from then on.",
        "public-key": "Print the public half of a signing key, or the Secret that clusters verify with.",
    },
    "More": {
        "render": "Print what `flux install --export` of a release prints.",
        "mirror": "Fill a directory with verified releases, for sites without GitHub, or copy the controllers' images.",
        "attach": "Attach files and notes of your own to an artifact, such as a README, a team or a link.",
        "prune": "List which old artifacts of a repository nothing needs, and delete them on request.",
        "config": "Check the configuration file, or print its JSON schema.",
        "schema": "Print the JSON schema of an output, by the name that it has in `schema`.",
        "completion": "Print the script by which a shell completes commands and options.",
        "action": "Do the work of the GitHub Action, whose inputs are the options.",
    },
}
COMMANDS = {name: sentence for part in _PARTS.values() for name, sentence in part.items()}

# The modules of commands that are not in one of their own name.
_MODULES = {
    **dict.fromkeys(("check", "plan", "update", "apply"), "cli.steps"),
    **dict.fromkeys(("attach", "discover", "provenance", "sbom"), "cli.attachments"),
    **dict.fromkeys(("sync-manifests", "bootstrap-manifests"), "cli.bootstrap"),
    "push": "cli.init",
    "pull": "cli.verify",
    "action": "action.main",
}
COMPLETE = "_FLUX_MANIFESTS_COMPLETE"  # the variable in which that script says what a shell asks for


class HelpFormatter(click.HelpFormatter):
    """Help whose lines are never broken at a hyphen, so that names of options and files stay whole."""

    def write_text(self, text: str) -> None:
        """Write a text in lines."""
        super().write_text(text.replace("-", _UNBROKEN))

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """Write how the command is called."""
        super().write_usage(prog, args.replace("-", _UNBROKEN), prefix)

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write a list of options or commands."""
        rows = [(first.replace("-", _UNBROKEN), second.replace("-", _UNBROKEN)) for first, second in rows]
        super().write_dl(rows, col_max, col_spacing)

    def getvalue(self) -> str:
        """Return all that was written."""
        return super().getvalue().replace(_UNBROKEN, "-")


_UNBROKEN = "\N{NON-BREAKING HYPHEN}"
click.Context.formatter_class = HelpFormatter


class Commands(click.Group):
    """A group whose commands are imported when they are needed; `obj` of the context is the line that was typed."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Return the context of a line."""
        return super().make_context(info_name, args, parent, **{"obj": tuple(args), **extra})

    def list_commands(self, _: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(COMMANDS)

    def get_command(self, _: click.Context, name: str) -> click.Command | None:
        """Return one command; a broken import is not hidden as an unknown command."""
        if name not in COMMANDS:
            return None
        own = name.replace("-", "_")
        module = importlib.import_module(f"ci_automation.{_MODULES.get(name, f'cli.{own}')}")
        return getattr(module, f"{own}_command")  # type: ignore[no-any-return]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is called; an unknown one names the nearest."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            import difflib

            from ci_automation.cli.completion import MEANT
            from ci_automation.cli.parameters import artifact_names

            is_artifact = args[0].startswith(("oci://", "layout:")) or args[0] in artifact_names(ctx, None, args[0])
            meant = MEANT.get(args[0]) or next(iter(difflib.get_close_matches(args[0], COMMANDS, n=1)), "")
            near = f"check {args[0]}" if is_artifact else meant
            ctx.fail(f"No such command {args[0]!r}." + (f" Did you mean {near!r}?" if near else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        for name, part in _PARTS.items():
            with formatter.section(name):
                formatter.write_dl(list(part.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands and options that begin like this, without importing the commands."""
        from click.shell_completion import CompletionItem

        commands = [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with `flux-manifests demo`; each command has its own --help.",
)
@click.version_option(__version__, "-V", "--version", message="%(version)s")
def cli() -> None:
    """Keep Flux itself current on clusters that read it from a signed OCI artifact.

    \b
    ARTIFACT is a channel, oci://HOST/REPOSITORY:TAG, or layout:DIRECTORY:TAG for
    an image layout directory, or the name of an artifact in
    .github/flux-manifests.yaml. Where that file has only one, [ARTIFACT] can be
    left out.
    """


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code; whatever a user can cause is one message, never a traceback."""
    try:
        if asked := os.environ.get(COMPLETE):
            from ci_automation.cli.completion import complete

            return complete(cli, asked)
        code = cli.main(
            args=_as_option(arguments), prog_name="flux-manifests", standalone_mode=False, color=coloured(os.environ)
        )
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except SystemExit:  # click's own way to end, where the reader is gone
        return UNREAD
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  # the last line of defence
        if getattr(error, "code", "") == "foreign-signature":
            from ci_automation.cli.trust import name_key_here

            name_key_here(error)
        failure = failure_of(error, verbose="-v" in arguments or "--verbose" in arguments)
        _report(failure, as_json=_wants_json(arguments))
        return failure.exit_code
    return code if isinstance(code, int) else 0


def coloured(environment: Mapping[str, str]) -> bool | None:
    """Return whether the output has colours, wherever it goes; None if a terminal has them and nothing else."""
    if environment.get("NO_COLOR"):
        return False
    return True if environment.get("FORCE_COLOR") else None


_MAX_PATH = 200  # characters of one that is told


class Failure(NamedTuple):  # no Struct: --help does not load msgspec
    """An error as the program reports it; `below` is what people may copy."""

    code: str
    message: str
    hint: str
    exit_code: int
    below: str = ""


def failure_of(error: BaseException, *, verbose: bool) -> Failure:
    """Return what is told about an error, whatever it is; the notes of an interruption say what it left."""
    left = " ".join(note for it in (error, error.__cause__) for note in getattr(it, "__notes__", ()))
    if isinstance(error, click.Abort):  # click makes one of Ctrl-C, of Ctrl-D at a question, and of the end of any file
        error = error.__cause__ or KeyboardInterrupt()
    if is_interruption(error) and not isinstance(error, Error):
        error = KeyboardInterrupt()
    match error:
        case Error():
            return Failure(error.code, str(error), error.hint, error.exit_code, error.below)
        case click.ClickException():
            command = context.command_path if (context := getattr(error, "ctx", None)) else "flux-manifests"
            from ci_automation.cli.completion import usage_message

            message, there = usage_message(error)
            return Failure("usage", message, f"{there}See `{command} --help`.", 2)
        case KeyboardInterrupt():
            left = left or "A channel that it moves is as it was, or at a signed artifact."
            return Failure("interrupted", "interrupted", f"{left} Run it again.", INTERRUPTED)
        # What is written to files has errors of its own.
        case OSError(errno=errno.ENOSPC | errno.EFBIG | errno.EDQUOT | errno.EIO):
            hint = "Check where standard output goes, and the space that is left."
            return Failure("output-unwritable", f"the output cannot be written: {error.strerror}", hint, 2)
        case OSError(errno=errno.EACCES | errno.EPERM | errno.ENAMETOOLONG, filename=str(path)):
            hint = "Check the path, and the rights to its folders."
            return Failure("path-unusable", f"{path[:_MAX_PATH]} cannot be used: {error.strerror}", hint, 2)
        case _:
            bug = "This is a bug of flux-manifests. Run it again with -v for the details, and report it."
            hint = "".join(traceback.format_exception(error)) if verbose else bug
            return Failure("internal", f"{type(error).__name__}: {error}", hint, 1)


def _report(failure: Failure, *, as_json: bool) -> None:
    """Print one failure: for people on standard error, and for programs as JSON on standard output."""
    import shutil

    from ci_automation.cli.output import error_text  # only for errors
    from ci_automation.report.blocks import plain_text

    try:
        if as_json:
            told = {"message": plain_text(failure.message), "hint": plain_text(failure.hint)}
            value = {"code": failure.code, **told, "exitCode": failure.exit_code}
            click.echo(json.dumps({"schema": "flux-manifests.error/v1", "error": value}, ensure_ascii=False))
        sys.stdout.flush()
    except OSError:  # Python tries once more at exit, and would complain
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    columns = shutil.get_terminal_size().columns if sys.stderr.isatty() else None
    clear = "\r\x1b[K" if columns else ""  # of a line of progress
    click.echo(clear + error_text(failure, columns), err=True, color=coloured(os.environ))


def _wants_json(arguments: Sequence[str]) -> bool:
    return not {"--output=json", "-ojson"}.isdisjoint(arguments) or any(
        first in {"--output", "-o"} and second == "json" for first, second in itertools.pairwise(arguments)
    )


def _as_option(arguments: Sequence[str]) -> list[str]:
    """Return a line with the option for `help` and `version`, which are commands of other tools."""
    match [*arguments]:
        case ["help", *rest]:
            return [*rest, "--help"]
        case ["version"]:
            return ["--version"]
    return [*arguments]


__all__ = [
    "arguments",
    "doctor",
    "follow_up",
    "history",
    "options",
    "output",
    "parameters",
    "places",
    "promote",
    "promotions",
    "results",
    "rollback",
    "schema",
    "target",
    "wiring",
]
