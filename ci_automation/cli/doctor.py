"""The command `doctor`."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import to_builtins

from ci_automation.cli.arguments import configuration
from ci_automation.cli.clone import place_of_clone, top_of
from ci_automation.cli.config import checked_workflows
from ci_automation.cli.output import print_json, print_text
from ci_automation.cli.parameters import COMMON, SIGNING, takes
from ci_automation.cli.places import github, kustomize
from ci_automation.cli.wiring import targets
from ci_automation.config.model import ApprovalVia
from ci_automation.errors import Error
from ci_automation.flows.doctor import (
    Diagnosis,
    Health,
    SettingsNeeded,
    diagnosed,
    examine_clock,
    examine_github,
    examine_kustomize,
    examine_registry,
    examine_signer,
)
from ci_automation.report.text import plain_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_automation.cli.arguments import Arguments
    from ci_automation.cli.target import Target
    from ci_automation.config.model import Config
    from ci_automation.config.workflows import GitHubPlace

_GITHUB = "https://github.com"
_WORKFLOWS = ".github/workflows"
_MARKS = {Health.GOOD: "good   ", Health.WRONG: "wrong  ", Health.UNSEEN: "unseen "}


@click.command("doctor")
@click.argument("artifact", required=False)
@click.option("--workflow", default="flux.yaml", show_default=True, help="the workflow that runs on schedule")
@takes(*SIGNING, "registry-config", *COMMON)
def command(artifact: str | None, *, workflow: str, given: Arguments) -> int:
    """Look for what keeps runs from their work: programs, credentials, trust, GitHub's settings, clocks.

    Each finding is good, wrong, or cannot be seen from here, with one thing to do. Nothing is changed: to see whether
    it may write, it begins an upload to the registry and gives it up. The exit code is 0 if nothing is wrong, and else
    the highest of what a run would exit with.

    \b
    flux-manifests doctor oci://ghcr.io/acme/flux-manifests:production --key cosign.key
    """
    findings = [examine_kustomize(kustomize())]
    for each in targets(artifact, given):
        findings += _of_artifact(each)
    config = configuration(given)
    place = place_of_clone(top_of(Path.cwd()), os.environ.get("GITHUB_REPOSITORY"))
    findings += _of_workflows(config, place, given)
    if place:
        findings += _of_github(place, config, workflow, given)
    wrong = [it for it in findings if it.health is Health.WRONG]
    if given.output == "json":
        print_json({"healthy": not wrong, "findings": to_builtins(findings)})
    else:
        for it in sorted(findings, key=lambda it: list(Health).index(it.health)):
            print_text(plain_text(f"{_MARKS[it.health]} {it.what}: {it.found}"))
            if it.advice:
                print_text(plain_text(f"        {it.advice}"))
        print_text(f"{len(wrong)} of {len(findings)} are wrong." if wrong else "Nothing that was seen is wrong.")
    return max((it.exit_code for it in wrong), default=0)


def _of_artifact(goal: Target) -> Iterator[Diagnosis]:
    try:
        ports, intent = goal.ports, goal.intent
    except Error as error:
        yield diagnosed(f"{goal.channel}: credentials and keys", error)
        return
    yield from examine_registry(goal.channel, ports, time.monotonic)
    yield from examine_signer(goal.channel, ports, intent)


def _of_workflows(config: Config | None, place: GitHubPlace | None, given: Arguments) -> Iterator[Diagnosis]:
    folder = top_of(Path.cwd()) / _WORKFLOWS
    what = "configuration and workflows fit together"
    if not folder.is_dir():
        advice = "Run it in a clone of the fleet repository."
        yield Diagnosis(what, Health.UNSEEN, f"there is no {_WORKFLOWS} here", advice)
        return
    try:
        used, _ = checked_workflows(
            folder, config, place.repository if place else None, place.branch if place else "main", given.config
        )
    except Error as error:
        yield diagnosed(what, error)
        return
    yield Diagnosis(what, Health.GOOD, ", ".join(used) or "no workflow uses the action")


def _of_github(place: GitHubPlace, config: Config | None, workflow: str, given: Arguments) -> Iterator[Diagnosis]:
    from ci_automation.github.runs import Runs
    from ci_automation.github.waiting import Spent

    api = os.environ.get("GITHUB_API_URL") or (
        "https://api.github.com" if place.server == _GITHUB else f"{place.server}/api/v3"
    )
    spent = Spent()
    client = github(api, given, spent)
    artifacts = config.artifacts if config else ()
    ghcr = [it.channel.repository for it in artifacts if str(it.channel.repository).startswith("oci://ghcr.io/")]
    asks = {it.approval.via for it in artifacts if it.approval.via}
    wanted = SettingsNeeded(
        pull_requests=not asks or ApprovalVia.PULL_REQUEST in asks,
        environment=next((it.approval.environment for it in artifacts), "flux-manifests"),
        workflow=workflow,
        package=str(ghcr[0]).removeprefix("oci://") if ghcr else "",
        now=datetime.now(UTC),
        max_age=timedelta(days=1),
    )
    yield from examine_github(client, Runs(client, place.repository), place, wanted)
    yield examine_clock(spent.ahead)
