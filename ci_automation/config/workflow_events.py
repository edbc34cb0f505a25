"""The events that start workflows: those that are not safe, those that never come, and those that are missing."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from ci_automation.artifact.yaml import text
from ci_automation.config import DEFAULT_PATH
from ci_automation.config.model import ApprovalVia, Config
from ci_automation.config.source import GitHubSourceConfig
from ci_automation.config.workflow_rights import asks_via, lacking, missing_login
from ci_automation.config.workflows import PREVIEWING, SIGNING, ActionUse, CheckedWorkflow, GitHubPlace, named_artifacts
from ci_automation.policy.model import InvalidPeriod, Period
from ci_automation.policy.patterns import is_found

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ci_automation.config.document import Problem

_SAFE_EVENTS = ("schedule", "workflow_dispatch", "push", "repository_dispatch")
_ASKED_WITH = ("artifact", "version", "base", "target", "key")  # the inputs of a run that waits for approval
_SENT = "repository_dispatch"
PUBLISHED, REQUESTED = "flux-manifests-published", "flux-manifests-update-requested"  # the types that the action sends
NO_ARTIFACT = "none"  # the first that *Run workflow* offers: no linter takes an empty option
LOCK_FILE = ".github/flux-manifests.lock.yaml"
_TO_ANNOUNCE = {"contents": "write", "actions": "read"}
_LOOKING = frozenset({"update", "fleet"})  # they compare the content in Git
_WILDCARD = re.compile(r"(\*\*/|\*\*|\*)")
_MEANS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}


def wrong_events(use: ActionUse, place: GitHubPlace | None) -> Iterator[Problem]:
    """Yield the events that must not start a job, and those that never will."""
    events, branch = use.workflow.triggers, place.branch if place else "main"
    if use.command in PREVIEWING:
        yield from _wrong_preview(use)
    yield from _unsent_events(use)
    if use.command not in SIGNING:
        return
    for event in events:
        if event == "workflow_call":
            what = "every workflow that may call this file signs as it. Remove workflow_call, or sign with a key"
            yield use.workflow.problem(what, "on", event)
        elif event not in _SAFE_EVENTS:
            what = f"starts the job {use.job}, which signs, on {event}. Keep to {', '.join(_SAFE_EVENTS)}"
            yield use.workflow.problem(what, "on", event)
    if "push" in events and _listed(events["push"], "branches") != [branch]:
        what = f"starts the job {use.job}, which signs, on other branches or tags. Write push: {{branches: [{branch}]}}"
        yield use.workflow.problem(what, "on", "push")
    if use.command == "approve":
        asked = events.get("workflow_dispatch")
        inputs = asked.get("inputs") if isinstance(asked, dict) else None
        missing = [name for name in _ASKED_WITH if not isinstance(inputs, dict) or name not in inputs]
        if missing:
            what = f"needs on.workflow_dispatch with the inputs {', '.join(missing)}: the check starts it with them"
            yield use.workflow.problem(what, "on", "workflow_dispatch")


def wrong_schedule(workflow: CheckedWorkflow) -> Iterator[Problem]:
    """Yield the times of a schedule that GitHub cannot read, or that never come."""
    times = workflow.triggers.get("schedule")
    for number, each in enumerate(times if isinstance(times, list) else ()):
        if not isinstance(each, dict) or "cron" not in each:
            yield workflow.problem("is no time of a schedule. Write - cron: 17 * * * *", "on", "schedule", number)
            continue
        try:
            Period(text(each["cron"]), timedelta(hours=1), ZoneInfo("UTC"))
        except InvalidPeriod as error:
            yield workflow.problem(f"{error}. {error.hint}", "on", "schedule", number, "cron")


def _wrong_preview(use: ActionUse) -> Iterator[Problem]:
    """Yield what would let a pull request run with rights, or with a token that may write beside its own files."""
    for event in use.workflow.triggers.keys() - {"pull_request"}:
        what = f"runs {use.command} on {event}, with the rights of the default branch. Keep to pull_request"
        yield use.workflow.problem(what, "on", event)
    given, path = use.setting("permissions")
    writes = [name for name, level in given.items() if level == "write"] if isinstance(given, dict) else []
    if use.command == "preview" and writes:
        what = f"reads files of a pull request, and may write {', '.join(writes)}. Give it contents: read alone"
        yield use.workflow.problem(what, *path)
    others = [used for used, at in use.workflow.used() if at[1] == use.job and "checkout@" in used]
    if use.command == "comment" and others:
        yield use.problem("may write, and checks out files of a pull request. Remove the checkout", "steps")


def _listed(value: object, key: str) -> list[str]:
    found = value.get(key) if isinstance(value, dict) else None
    return [text(each) for each in (found if isinstance(found, list) else [found])]


def _unsent_events(use: ActionUse) -> Iterator[Problem]:
    """Yield types of events that a workflow waits for, and that the action does not send it."""
    types = _types(use.workflow)
    for name in types:
        if name.startswith("flux-manifests-") and name not in {PUBLISHED, REQUESTED}:
            what = f"waits for {name}, which nothing sends. The action sends {PUBLISHED} and {REQUESTED}"
            yield use.workflow.problem(what, "on", _SENT, "types")
    if use.command == "consumers" and types and PUBLISHED not in types:
        what = f"starts the job {use.job} on {', '.join(types)}, and publications send {PUBLISHED}. Add it to types"
        yield use.workflow.problem(what, "on", _SENT, "types")


def _types(workflow: CheckedWorkflow) -> list[str]:
    """Return the types of sent events that start a workflow, as far as it names them."""
    return [each for each in _listed(workflow.triggers.get(_SENT), "types") if each]


def event_advice(
    uses: Sequence[ActionUse], config: Config | None, place: GitHubPlace | None, file: str = DEFAULT_PATH.as_posix()
) -> tuple[Problem, ...]:
    """Return what is worth a look in the events of workflows: without it a run starts late, or never.

    `file` is the path of the configuration in the repository.
    """
    config = config or Config(GitHubSourceConfig(), named_artifacts(uses))
    found = [*_left_out(uses, config), *_late(uses, config, file, place.branch if place else "main")]
    workflows = {id(use.workflow): use.workflow for use in uses}.values()
    found += [problem for it in workflows for problem in _offered(it, config)]
    hearing = [it for it in workflows if {PUBLISHED, REQUESTED}.intersection(_types(it))]
    for workflow in hearing:
        if "client_payload.key" not in text(workflow.value.get("run-name")):
            what = "does not show the key of an event, so its sender sends it again and again. Write run-name: "
            found.append(workflow.problem(f"{what}'Flux ${{{{ github.event.client_payload.key }}}}'", "on", _SENT))
    found += [problem for use in uses for problem in (*_untold(use, config), *missing_login(use, config))]
    told = {name.lower() for it in config.artifacts for name in it.announce}
    heard = any(PUBLISHED in _types(it) for it in hearing)
    if uses and place and place.repository.lower() in told and not heard:
        what = f"is announced to {place.repository}, where no workflow that uses the action starts on {PUBLISHED}. "
        found.append(uses[0].workflow.problem(f"what it publishes {what}Copy consumers.yaml, or leave announce out"))
    return tuple(found)


def _left_out(uses: Sequence[ActionUse], config: Config) -> Iterator[Problem]:
    """Yield the job that names its artifact, if the configuration has artifacts that no job works on."""
    working = [use for use in uses if use.command in _LOOKING | {"promote"}]
    done = {artifact.name for use in working for artifact in use.artifacts(config)}
    missing = [it.name for it in config.artifacts if it.name not in done]
    if fixed := [use for use in working if use.is_fixed and missing]:
        what = f"no job updates or promotes {', '.join(missing)}. Leave artifact out here to work on all, or add a job"
        yield fixed[0].workflow.problem(what, *fixed[0].path, "with", "artifact")


def _offered(workflow: CheckedWorkflow, config: Config) -> Iterator[Problem]:
    """Yield the list of artifacts that *Run workflow* offers, if it is not that of the configuration."""
    asked = workflow.triggers.get("workflow_dispatch")
    inputs = asked.get("inputs") if isinstance(asked, dict) else None
    artifact = inputs.get("artifact") if isinstance(inputs, dict) else None
    offered = [name for name in _listed(artifact, "options") if name not in {"", NO_ARTIFACT}]
    names = [it.name for it in config.artifacts]
    if offered and set(offered) != set(names):
        what = f"offers the artifacts {', '.join(offered)}, and the configuration has {', '.join(names)}. "
        yield workflow.problem(
            f"{what}Run `setup` again, or correct the options", "on", "workflow_dispatch", "inputs", "artifact"
        )


def _untold(use: ActionUse, config: Config) -> Iterator[Problem]:
    """Yield the job that announces what it publishes as a token that may not, so that its runs end with a warning."""
    own = use.called or use.inputs.get("app-id") or use.inputs.get("github-token") or use.command not in SIGNING
    if not own and any(it.announce for it in use.artifacts(config)) and (lacks := lacking(use, _TO_ANNOUNCE)):
        what = f"the job {use.job} lacks {', '.join(lacks)} to announce what it publishes. Add it to its permissions"
        yield use.workflow.problem(what, *use.setting("permissions")[1])


def _late(uses: Sequence[ActionUse], config: Config, file: str, branch: str) -> Iterator[Problem]:
    """Yield the pushes that start no run, so that a merge waits for the schedule."""
    wanted: dict[str, ActionUse] = {}
    pushed = [use for use in uses if _runs_on_push(use)]
    for use in (each for each in uses if each.command in _LOOKING):
        for artifact in use.artifacts(config):
            paths = [LOCK_FILE] if asks_via(use, artifact) == ApprovalVia.PULL_REQUEST else []
            paths += [f"{artifact.overlay.removesuffix('/')}/**", file] if artifact.overlay else []
            for path in paths:
                able = (it for it in pushed if artifact in it.artifacts(config))
                commands = _LOOKING if path != LOCK_FILE else _LOOKING | {"apply"}
                if not any(it.command in commands and _starts(it.workflow, path) for it in able):
                    wanted.setdefault(path, use)
    for use in {id(use.workflow): use for use in wanted.values()}.values():
        missing = [path for path, each in wanted.items() if each.workflow is use.workflow]
        late = f"for a merge that changes {', '.join(missing)}; it waits for the schedule"
        pushes = "push" in use.workflow.triggers
        if pushes and all(_starts(use.workflow, path) for path in missing):
            yield use.problem(f"does not run {late}. Let its condition be true for a push too", "if")
            continue
        listed = _listed(use.workflow.triggers.get("push"), "paths")
        paths = [each for each in listed if each and each not in missing]
        lines = f"paths: [{', '.join([*paths, *missing])}]"
        lines = lines if paths else f"push: {{branches: [{branch}], {lines}}}"
        at = ("on", "push") if pushes else ("on",)
        yield use.workflow.problem(f"starts no run {late}. Write {lines}", *at)


def _runs_on_push(use: ActionUse) -> bool:
    """Return whether a push starts a job, unless its condition is about another event alone."""
    condition = text(use.values.get("if"))
    return "push" in use.workflow.triggers and ("event_name ==" not in condition or "push" in condition)


def _starts(workflow: CheckedWorkflow, wanted: str) -> bool:
    """Return whether a push that changes a path, or any file below a folder, starts a workflow, as GitHub reads it."""
    given = workflow.triggers.get("push")
    ways = {key: [each for each in _listed(given, key) if each] for key in ("paths", "paths-ignore")}
    samples = [wanted.replace("**", each) for each in ("file", "folder/file")]
    if any(_matches(each, ways["paths-ignore"]) for each in samples):
        return False
    return not ways["paths"] or all(_matches(each, ways["paths"]) for each in samples)


def _matches(path: str, patterns: Iterable[str]) -> bool:
    """Return whether patterns match a path; of those that do the last counts, and `!` takes a path out again."""
    last = [each for each in patterns if is_found(_expression(each.removeprefix("!")), path)][-1:]
    return bool(last) and not last[0].startswith("!")


def _expression(pattern: str) -> str:
    parts = "".join(_MEANS.get(part) or re.escape(part) for part in _WILDCARD.split(pattern))
    return f"^(?:{parts})$"
