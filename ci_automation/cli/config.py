"""The commands `config validate` and `config schema`."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ci_automation.cli.arguments import Arguments, configuration, configuration_path, configuration_root
from ci_automation.cli.clone import place_of_clone, top_of
from ci_automation.cli.options import INPUTS
from ci_automation.cli.output import print_aside, print_json, print_text
from ci_automation.cli.parameters import COMMON, HeadedCommand, details_option, takes
from ci_automation.config import DEFAULT_PATH
from ci_automation.config.document import MAX_BYTES, InvalidConfig, Problem, read_document
from ci_automation.config.load import load_config
from ci_automation.config.schema import config_schema
from ci_automation.config.workflows import GitHubPlace
from ci_automation.errors import UsageError
from ci_automation.flows.files import read_file, read_overlay
from ci_automation.flux.options import Options, nearest_flag
from ci_automation.report.findings import ended

if TYPE_CHECKING:
    from ci_automation.config.model import Config

_SERVER = "https://github.com"


@click.group("config")
def config_command() -> None:
    """Check the configuration file, or print its JSON schema.

    \b
    flux-manifests config validate
    """


@config_command.command(
    "validate",
    cls=HeadedCommand,
    short_help="Check the configuration file, the overlays, and on request the workflows.",
)
@click.option("--workflows", metavar="DIR", help="check the workflows of this folder too, such as .github/workflows")
@click.option(
    "--repository",
    metavar="OWNER/NAME",
    envvar="GITHUB_REPOSITORY",
    help="the repository of the workflows; default: that of the remote `origin`",
)
@click.option("--branch", metavar="NAME", help="its default branch; default: as the remote `origin` has it, or main")
@takes(*COMMON)
def validate(workflows: str | None, repository: str | None, branch: str | None, *, given: Arguments) -> None:
    """Check the configuration file, and that overlays and public keys exist; each error has its file, line and path.

    With --workflows it also checks that the workflows that use the action fit together, and fit the configuration:
    inputs, schedules, concurrency groups, identities, triggers, permissions, environments, pins and overlay folders.

    \b
    flux-manifests config validate --workflows .github/workflows
    """
    path = configuration_path(given)
    config = configuration(given) if workflows else load_config(path, configuration_root(given))
    shown: dict[str, Any] = {"valid": True}
    texts = []
    if config:
        root = configuration_root(given)
        _require_files(path, root, overlays=not given.config or (root / ".git").exists())
        names = [artifact.name for artifact in config.artifacts]
        shown |= {"file": str(path), "artifacts": names}
        texts.append(
            f"{path} is valid; {'its artifact is' if len(names) == 1 else 'its artifacts are'} {', '.join(names)}."
        )
    if workflows:
        place = _place(Path(workflows), repository, branch)
        checked, advice = checked_workflows(Path(workflows), config, place, given.config)
        shown |= {"workflows": checked, "advice": advice}
        at = f" in {place.repository} on {place.branch}" if place else ""
        texts.append(f"The workflows that use the action fit together{at}: {', '.join(checked) or 'none uses it'}.")
    if given.output == "json":
        print_json(shown, "config")
    else:
        print_text("\n".join(texts))
    for line in shown.get("advice", ()):
        print_aside(line)
    if config:
        _warn(config)
        _look_into_overlays(config, configuration_root(given))


def _require_files(path: Path, root: Path, *, overlays: bool) -> None:
    """Raise `InvalidConfig` if a public key is no file that exists, or one of the `overlays` is no folder."""
    document = read_document(path.read_bytes(), str(path))
    problems = []
    for where in document.values:
        text = reduce(lambda value, key: value[key], where, document.value)  # type: ignore[index]
        if not isinstance(text, str) or "://" in text:
            continue
        there = root / text
        if overlays and where[-1:] == ("overlay",) and (there.is_symlink() or not there.is_dir()):
            said = "is not a folder" if there.exists() else "does not exist"
            what = f"{text} {said}: make the folder, or correct the path, which begins in {root.absolute()}"
            problems.append(document.problem(where, what))
        if "publicKey" in where[-2:] and not there.is_file():
            said = "is not a file" if there.exists() else "does not exist"
            what = f"{text} {said}: `public-key` prints it, or correct the path"
            problems.append(document.problem(where, what))
    if problems:
        raise InvalidConfig(problems)


def _place(folder: Path, repository: str | None, branch: str | None) -> GitHubPlace | None:
    """Return the repository of workflows: as named, else as the clone that they are in has it."""
    if repository:
        return GitHubPlace(repository, branch or "main", os.environ.get("GITHUB_SERVER_URL") or _SERVER)
    return place_of_clone(top_of(folder.absolute()), branch=branch)


def checked_workflows(
    folder: Path, config: Config | None, place: GitHubPlace | None, file: str | None
) -> tuple[list[str], list[str]]:
    """Return the names of the workflow files that use the action, and what is worth a look in them.

    Raises:
        UnfitWorkflows: something in them does not fit together.
        InvalidConfig: a file, or the folder, cannot be read.
    """
    from ci_automation.config.workflow_events import event_advice
    from ci_automation.config.workflow_rules import UnfitWorkflows, uses_of_action, workflow_problems

    texts = {}
    try:
        for path in sorted(folder.iterdir()):
            if path.suffix in {".yaml", ".yml"}:
                content = read_file(path, MAX_BYTES, partial(_unreadable, path))
                texts[str(path)] = content.decode(errors="replace")
    except OSError as error:
        raise _unreadable(folder, f"it cannot be read: {error.strerror or error}") from None
    if problems := workflow_problems(texts, config, place, {it.name: it.choices for it in INPUTS}):
        raise UnfitWorkflows(list(problems))
    if place is None:
        print_aside("Identities were not checked; name the repository: --repository OWNER/NAME")
    uses = uses_of_action(texts)
    advice = event_advice(uses, config, place, Path(file or DEFAULT_PATH).as_posix())
    return list(dict.fromkeys(use.workflow.name for use in uses)), [str(each) for each in advice]


def _unreadable(path: Path, what: str) -> InvalidConfig:
    found = InvalidConfig([Problem(str(path), None, None, (), what)])
    found.hint = "Name the folder of the workflows: --workflows .github/workflows."
    return found


def _warn(config: Config) -> None:
    """Print what is valid and worth a look."""
    for one, other in config.sharing_folders():
        print_aside(f"{one.name} ({one.overlay}) and {other.name} ({other.overlay}) share overlay files")
    now = datetime.now(UTC)
    for artifact in config.artifacts:
        for flag, _ in Options().with_flags(artifact.flags).others:
            print_aside(
                f"{artifact.name}: this program does not know the flag --{flag}. A release whose own flux CLI lists it "
                f"is rendered by that CLI; with any other one the run stops. {nearest_flag(flag)}"
            )
        for told in artifact.policy.range.late_starts():
            print_aside(f"{artifact.name}: range: {told}")
        for each in artifact.policy.acknowledge:
            if not each.is_on(now):
                print_aside(f"{artifact.name}: {ended(each)}")


def _look_into_overlays(config: Config, root: Path) -> None:
    """Name the overlays from which clusters would get no Flux, as they leave out the components file that is named."""
    from ci_automation.impact.overlay.folders import applied_folders
    from ci_automation.impact.overlay.kustomization import Effort, TooMuch

    for it in config.artifacts:
        path = it.components_file
        if not path or not it.overlay:
            continue
        with suppress(UsageError, TooMuch):  # a run says what is wrong with the folder
            if not applied_folders(read_overlay(root / it.overlay).replaced(path, b""), path, Effort()):
                print_aside(
                    f"{it.name}: {it.overlay} lists {path} nowhere, which is the componentsFile: clusters would get no "
                    "Flux. List that path in its kustomization.yaml, or correct componentsFile"
                )


@config_command.command("schema", cls=HeadedCommand)
@details_option
def schema() -> None:
    """Print the JSON schema of the configuration file, for editors.

    \b
    flux-manifests config schema > flux-manifests.schema.json
    """
    print_json(config_schema())
