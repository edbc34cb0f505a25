"""The command `doctor`."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import to_builtins
from msgspec.structs import replace

from ci_automation.cli.arguments import Arguments, configuration
from ci_automation.cli.clone import place_of_clone, top_of
from ci_automation.cli.config import checked_workflows
from ci_automation.cli.output import print_aside, print_json, print_text, width
from ci_automation.cli.parameters import COMMON, SIGNING, HeadedCommand, artifact_argument, takes
from ci_automation.cli.places import github, kustomize
from ci_automation.cli.wiring import NothingNamed, targets
from ci_automation.config.model import ApprovalVia, Config
from ci_automation.errors import Error
from ci_automation.flows.doctor import (
    Diagnosis,
    Health,
    SettingsNeeded,
    diagnosed,
    examine_github,
    examine_kustomize,
    examine_registry,
    examine_signer,
    told_once,
)
from ci_automation.report.blocks import plain_text, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ci_automation.cli.target import Target
    from ci_automation.config.workflows import GitHubPlace
    from ci_automation.github.client import GitHub

_GITHUB = "https://github.com"
_WORKFLOWS = ".github/workflows"
_MARKS = {Health.GOOD: "good   ", Health.WRONG: "wrong  ", Health.UNSEEN: "unseen "}


@click.command("doctor", cls=HeadedCommand)
@artifact_argument("artifact", required=False)
@click.option(
    "--workflow", metavar="FILE", default="flux.yaml", show_default=True, help="the workflow that runs on schedule"
)
@takes(*SIGNING, "registry-config", *COMMON)
def doctor_command(artifact: str | None, *, workflow: str, given: Arguments) -> int:
    """Look for what keeps runs from their work: programs, credentials, trust, GitHub's settings, clocks.

    Each finding is good, wrong, or cannot be seen from here, with one thing to do. Nothing is changed: to see whether
    it may write, it begins an upload to the registry and gives it up. The exit code is 0 if nothing is wrong and each
    registry could be reached, and else the highest of what a run would exit with.

    \b
    flux-manifests doctor oci://ghcr.io/acme/flux-manifests:production \\
      --key cosign.key
    """
    from ci_automation.github.waiting import Spent

    top, config = top_of(Path.cwd()), configuration(given)
    place = place_of_clone(top, os.environ.get("GITHUB_REPOSITORY"))
    goals = _goals(artifact, given)
    findings = examined(goals, config, place, top, given.config)
    if place:
        spent = Spent()
        client = github(_api_of(place), given, spent)
        findings += examined_repository(client, place, config, workflow, lambda: spent.ahead)
    if given.output == "json":
        print_json({"healthy": not code_of_wrong(findings), "findings": to_builtins(findings)}, "doctor")
    else:
        columns = width()
        print_text("\n".join(it for line in lines_of(_by_name(findings, goals)) for it in _folded(line, columns)))
    return code_of_wrong(findings)


_MARKED = 8  # characters before what was looked at


def _goals(artifact: str | None, given: Arguments) -> tuple[Target, ...]:
    """Return the artifacts to look at; without any, the rest is looked at all the same."""
    try:
        return targets(artifact, given)
    except NothingNamed as error:
        print_aside(f"{error}: name one, or let `setup` write a configuration")
        return ()


def _by_name(findings: Sequence[Diagnosis], goals: Iterable[Target]) -> list[Diagnosis]:
    """Return the findings for people: with the names of the artifacts instead of their addresses."""
    names = {f"{it.channel}:": f"{it.name}:" for it in goals}

    def named(what: str) -> str:
        return next((name + what.removeprefix(it) for it, name in names.items() if what.startswith(f"{it} ")), what)

    return [replace(it, what=named(it.what), also=tuple(map(named, it.also))) for it in findings]


def _folded(line: str, columns: int | None) -> list[str]:
    """Return a line as those that fit a terminal, all but the first beside the mark."""
    if columns is None or len(line) <= columns:
        return [line]
    first, *rest = wrapped(line[_MARKED:], columns - _MARKED)
    return [line[:_MARKED] + first, *(" " * _MARKED + it for it in rest)]


def lines_of(findings: Sequence[Diagnosis]) -> Iterator[str]:
    """Yield what a person reads, what is wrong first."""
    for it in sorted(findings, key=lambda it: list(Health).index(it.health)):
        yield plain_text(f"{_MARKS[it.health]} {it.what}: {it.found}")
        yield from (plain_text(f"        the same: {each}") for each in it.also)
        if it.advice:
            yield plain_text(f"        {it.advice}")
    wrong = sum(it.health is Health.WRONG for it in findings)
    some = f"{len(findings)} finding{'' if len(findings) == 1 else 's'} {'is' if wrong == 1 else 'are'}"
    away = ", but a registry could not be reached" if code_of_wrong(findings) else ""
    yield f"{wrong} of {some} wrong." if wrong else f"Nothing that was seen is wrong{away}."


def code_of_wrong(findings: Sequence[Diagnosis]) -> int:
    """Return the exit code: 0 if nothing is wrong and no registry is away, else the highest that a run would have."""
    return max((it.exit_code for it in findings), default=0)


def examined(
    goals: Sequence[Target], config: Config | None, place: GitHubPlace | None, top: Path, file: str | None
) -> list[Diagnosis]:
    """Return what is found on this machine, in the checkout at `top`, and in the registries."""
    of_artifacts = told_once(it for goal in goals for it in _of_artifact(goal))
    builds = any(it.configured and (it.configured.overlay or it.configured.sync) for it in goals)
    of_machine = examine_kustomize(kustomize(), needed=builds)
    return [of_machine, *of_artifacts, _of_workflows(config, place, top / _WORKFLOWS, file)]


def _of_artifact(goal: Target) -> Iterator[Diagnosis]:
    try:
        ports, intent = goal.ports, goal.intent
    except Error as error:
        yield diagnosed(f"{goal.channel}: credentials and keys", error)
        return
    first = f"`promote`, once {goal.source} has one" if goal.source else "`init`"
    yield from examine_registry(goal.channel, ports, time.monotonic, first=first)
    yield from examine_signer(goal.channel, ports, intent, in_workflow=bool(os.environ.get("GITHUB_ACTIONS")))


def _of_workflows(config: Config | None, place: GitHubPlace | None, folder: Path, file: str | None) -> Diagnosis:
    what = "configuration and workflows fit together"
    if not folder.is_dir():
        advice = "Run it in a clone of the fleet repository."
        return Diagnosis(what, Health.UNSEEN, f"there is no {_WORKFLOWS} here", advice)
    try:
        used, _ = checked_workflows(folder, config, place, file)
    except Error as error:
        return diagnosed(what, error)
    return Diagnosis(what, Health.GOOD, ", ".join(used) or "no workflow uses the action")


def examined_repository(
    client: GitHub, place: GitHubPlace, config: Config | None, workflow: str, ahead: Callable[[], timedelta]
) -> Iterator[Diagnosis]:
    """Yield what GitHub shows of a fleet repository whose `workflow` runs on schedule."""
    from ci_automation.github.runs import Runs

    artifacts = config.artifacts if config else ()
    ghcr = [it.channel.repository for it in artifacts if str(it.channel.repository).startswith("oci://ghcr.io/")]
    asks = {it.approval.via for it in artifacts if it.approval.via}
    by_run = ApprovalVia.WORKFLOW_DISPATCH
    settings = [it.approval for it in artifacts if it.approval.via is by_run or not it.approval.operations_by_code]
    needed = SettingsNeeded(
        pull_requests=not asks or ApprovalVia.PULL_REQUEST in asks,
        environment=settings[0].environment if settings else "" if artifacts else "flux-manifests",
        workflow=workflow,
        package=str(ghcr[0]).removeprefix("oci://") if ghcr else "",
        now=datetime.now(UTC),
        max_age=timedelta(days=1),
    )
    yield from examine_github(client, Runs(client, place.repository), place, needed, ahead)


def _api_of(place: GitHubPlace) -> str:
    public = "https://api.github.com" if place.server == _GITHUB else f"{place.server}/api/v3"
    return os.environ.get("GITHUB_API_URL") or public
