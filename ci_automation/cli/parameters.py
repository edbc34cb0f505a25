"""The options of the table as click has them: a command says which it takes, and gets them as one value."""

from __future__ import annotations

import functools
import inspect
import re
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ci_automation.cli.options import OF_COMMAND_LINE, Heading, Kind, Option
from ci_automation.errors import Error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from click.shell_completion import CompletionItem

F = TypeVar("F", bound="Callable[..., Any]")

# Those that several commands take together.
IDENTITIES = ("identity", "identity-regexp", "issuer", "trust-config")
TRUST = ("public-key", "key", *IDENTITIES)
SIGNING = ("signing", "key", "signature-format", "attestations", "accept-identity-change", "public-key", *IDENTITIES)
ALLOWANCES = ("overlay", "adopt", "yes", "accept-edits", "allow-removal", "unsafe-unproven-rendering")
CLUSTERS = ("kubernetes", "cluster-snapshot", "objects")
COMMON = ("config", "output", "verbose")
# Of the commands that plan or carry out steps.
STEPS = (*ALLOWANCES, *CLUSTERS, "pin-images", "components-file", "releases", "registry-config", *COMMON)

INSTALL_FLAGS = (
    Option("namespace", "the namespace that Flux runs in", "NAME"),
    Option("components", "controllers, comma-separated", "LIST", Kind.LIST),
    Option("components-extra", "controllers besides those, comma-separated", "LIST", Kind.LIST),
    Option("registry", "where the controllers' images are", "HOST/PATH"),
    Option("image-pull-secret", "the Secret to pull the images with", "NAME"),
    Option("log-level", "debug, info or error", "LEVEL"),
    Option("cluster-domain", "the cluster's internal domain", "DOMAIN"),
    Option("toleration-keys", "taints that the controllers tolerate, comma-separated", "LIST", Kind.LIST),
    Option("registry-creds", "refused: it would end in a file that every cluster reads", "USER:PASSWORD"),
    Option("manifests", "refused: --releases has folders of releases", "DIR"),
    Option("watch-all-namespaces", "watch all namespaces, not only Flux's own", kind=Kind.EITHER),
    Option("network-policy", "deny ingress from other namespaces", kind=Kind.EITHER),
    Option("flag", "a flag that only that release's own CLI knows", "NAME=VALUE", Kind.LIST),
)
FLAGS_AS_IN = {Heading.FLUX_INSTALL: "render"}
# Of a command that writes nothing, but may be given what the command that it prints needs.
WRITING_AS_IN = {
    **dict.fromkeys((Heading.SIGNING, Heading.CONTENT, Heading.ALLOWANCES, Heading.CLUSTERS), "update"),
    **FLAGS_AS_IN,
}
_EXAMPLE = 78  # characters of a line in an example, which is indented by two
_WITHOUT_EFFECT = ("export", "force")  # they say what `flux install` does with its output, which is not ours to do


class HeadedOption(click.Option):
    """An option of the table, which knows its part of the help."""

    def __init__(self, *names: Any, heading: Heading, **settings: Any) -> None:  # click's own
        super().__init__(*names, **settings)
        self.heading = heading


_option = functools.partial(click.option, cls=HeadedOption)


def artifact_names(ctx: click.Context, _: click.Parameter | None, incomplete: str) -> list[str]:
    """Return the names of artifacts in the configuration that begin so, for a shell; no registry is asked."""
    from ci_automation.cli.arguments import Arguments, configuration

    try:
        config = configuration(Arguments(config=ctx.params.get("config")))
    except (Error, OSError):
        return []
    return [it.name for it in config.artifacts if it.name.startswith(incomplete)] if config else []


def known_versions(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Return the proven releases of Flux that begin so, for a shell; no source of releases is asked."""
    from click.shell_completion import CompletionItem

    from ci_automation.flux.proof import known_releases

    found = [CompletionItem(str(it)) for it in known_releases() if str(it).startswith(incomplete)]
    return found or [CompletionItem(incomplete, type="none")]  # a shell would offer files


# Of a command that has nothing more to tell; `run` looks for it in the line that was typed.
details_option = click.option(
    "--verbose", "-v", is_flag=True, expose_value=False, help="show the details of an internal error"
)
artifact_argument = functools.partial(click.argument, shell_complete=artifact_names)


def _only_one(ctx: click.Context, param: click.Parameter, value: str | None) -> str:
    """Return the artifact that is named, or the only one of the configuration."""
    from ci_automation.cli.arguments import Arguments, configuration

    if value is not None or ctx.resilient_parsing:
        return value or ""
    config = configuration(Arguments(config=ctx.params.get("config")))
    if config is None or len(config.artifacts) != 1:
        raise click.MissingParameter(ctx=ctx, param=param)
    return config.artifacts[0].name


# Of a command that looks at one artifact, or moves it back.
one_artifact_argument = functools.partial(artifact_argument, "artifact", required=False, callback=_only_one)


class HeadedCommand(click.Command):
    """A command whose help begins with an example, and has its options in parts.

    Of the parts that another command explains, `as_in`, it has the names alone.
    """

    def __init__(self, *names: Any, as_in: Mapping[Heading, str] = FLAGS_AS_IN, **settings: Any) -> None:  # click's own
        super().__init__(*names, **settings)
        self.as_in = as_in

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse a line; what is wrong with it is this command's, which click does not always say."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """Run; a configured channel that is not there is told with the command that makes it."""
        try:
            return super().invoke(ctx)
        except Error as error:
            if error.code == "not-found":
                from ci_automation.cli.target import name_its_maker

                name_its_maker(error, ctx.params.get("config"))
            raise

    def format_help_text(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what the command does, in one sentence, then the example, and then the rest."""
        first, *rest = inspect.cleandoc(self.help or "").split("\n\n")
        rest.sort(key=lambda paragraph: not paragraph.startswith("\b"))
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text("\n\n".join((first, *map(_example, rest))))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, part by part."""
        names: dict[str, list[str]] = {}
        for heading, options in options_by_heading(self, ctx):
            if other := self.as_in.get(heading):
                names.setdefault(other, []).extend(it.opts[0] for it in options if not _is_refused(it))
                continue
            with formatter.section(heading.value):
                formatter.write_dl([row for it in options if (row := it.get_help_record(ctx))])
        for other, opts in names.items():
            with formatter.section(f"More options, which `{ctx.find_root().info_name} {other} --help` explains"):
                formatter.write_text(", ".join(opts))


def first_example(command: click.Command) -> str:
    """Return the first example in a command's help, in one line; empty if there is none."""
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    examples = next((it for it in paragraphs if it.startswith("\b")), "").removeprefix("\b\n")
    return examples.replace(" \\\n  ", " ").partition("\n")[0]


def _example(paragraph: str) -> str:
    """Return a paragraph; one of commands has those that are wider than a narrow terminal on several lines."""
    if not paragraph.startswith("\b"):
        return paragraph
    lines: list[str] = []
    for line in paragraph.splitlines():
        first, *rest = re.split(r"(?<=\S) (?=--|>)", line) if len(line) > _EXAMPLE else [line]
        lines.append(first)
        for part in rest:
            if len(lines[-1]) + 1 + len(part) <= _EXAMPLE - 2:
                lines[-1] += f" {part}"
            else:
                lines[-1] += " \\"
                lines.append(f"  {part}")
    return "\n".join(lines)


def _is_refused(option: click.Option) -> bool:
    """Return whether the option is there only to say why there is none."""
    return (option.help or "").startswith("refused")


def options_by_heading(command: click.Command, ctx: click.Context) -> Iterator[tuple[Heading, list[click.Option]]]:
    """Yield the options that a command shows, part by part; --help is beside --output, if that is there."""
    shown = [it for it in command.get_params(ctx) if isinstance(it, click.Option) and not it.hidden]
    headings = {it: it.heading if isinstance(it, HeadedOption) else Heading.OWN for it in shown}
    if Heading.OUTPUT in headings.values():
        headings |= {it: Heading.OUTPUT for it in shown if "--help" in it.opts}
    for heading in Heading:
        if options := [it for it in shown if headings[it] is heading]:
            yield heading, options


def takes(*names: str, install_flags: bool = False, markdown: bool = False) -> Callable[[F], F]:
    """Let a command take these options, and the flags of `flux install`; it gets them all as `given`.

    Options that the function names itself, as `exit_code`, it gets by that name.
    """

    def decorate(function: F) -> F:
        code = function.__code__
        own = frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])

        @functools.wraps(function)
        def run(**values: Any) -> Any:  # whatever the command takes and returns
            from ci_automation.cli.arguments import Arguments

            mine = {name: values.pop(name) for name in own & values.keys()}
            flags = {it.name: values.pop(it.parameter) for it in INSTALL_FLAGS} if install_flags else {}
            others = dict(map(_named, flags.pop("flag", ())))
            flags = {name: _joined(value) for name, value in flags.items() if value not in (None, ())}
            values["flags"] = others | flags
            return function(given=Arguments.of(values), **mine)

        options = [_click_option(OF_COMMAND_LINE[name], signs="signing" in names, markdown=markdown) for name in names]
        options += map(_install_flag, INSTALL_FLAGS if install_flags else ())
        options += [
            click.option(f"--{name}", is_flag=True, hidden=True, expose_value=False)
            for name in (_WITHOUT_EFFECT if install_flags else ())
        ]
        return _decorated(run, options)  # type: ignore[return-value]  # wraps keeps the signature

    return decorate


def _decorated(function: F, options: Iterable[Callable[[F], F]]) -> F:
    return functools.reduce(lambda decorated, option: option(decorated), reversed([*options]), function)


def _click_option(option: Option, *, signs: bool, markdown: bool) -> Callable[[F], F]:
    """Return the option as click has it."""
    text, heading = option.help, option.heading
    if option.of_readers and not signs:
        text, heading = option.of_readers, Heading.TRUST
    name = f"--{option.name}"
    if option.name == "output":
        choices = (*option.choices, "markdown") if markdown else option.choices
        return _option(
            name, "-o", type=click.Choice(choices), default="text", show_default=True, help=text, heading=heading
        )
    if option.name == "verbose":
        return _option(name, "-v", is_flag=True, help=text, heading=heading)
    match option.kind:
        case Kind.SWITCH:
            names = (name, "-y") if option.name == "yes" else (name,)
            return _option(*names, is_flag=True, help=text, heading=heading)
        case Kind.EITHER:
            return _option(f"{name}/--no-{option.name}", default=None, help=text, heading=heading)
        case _:
            several, variable = option.kind is Kind.LIST, option.variable
            kind = click.Choice(option.choices) if option.choices else None
            return _option(
                name, metavar=option.metavar, type=kind, multiple=several, envvar=variable, help=text, heading=heading
            )


def _install_flag(flag: Option) -> Callable[[F], F]:
    """Return a flag of `flux install`: a switch may have a value, as it may for Flux."""
    name, text, heading = f"--{flag.name}", flag.help, Heading.FLUX_INSTALL
    if flag.kind is Kind.EITHER:
        return _option(name, type=bool, is_flag=False, flag_value="true", metavar="[BOOL]", help=text, heading=heading)
    return _option(name, metavar=flag.metavar, multiple=flag.kind is Kind.LIST, help=text, heading=heading)


def _named(flag: str) -> tuple[str, str]:
    """Return name and value of a flag that has no option of its own; without a value it is a switch."""
    name, _, value = flag.removeprefix("--").partition("=")
    if any(it.name == name for it in INSTALL_FLAGS):
        raise click.BadParameter(f"--{name} is an option of its own", param_hint="--flag")
    return name, value if "=" in flag else "true"


def _joined(value: object) -> object:
    """Return a list that was given in pieces as one, as Flux takes it."""
    return ",".join(value) if isinstance(value, tuple) else value
