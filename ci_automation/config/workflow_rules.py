"""The rules for workflows beside the configuration: groups, identities, triggers, environments, pins."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ci_automation.artifact.yaml import text
from ci_automation.config.document import InvalidConfig, Problem
from ci_automation.config.model import ApprovalConfig, ApprovalVia, Config, VerifyConfig
from ci_automation.config.source import GitHubSourceConfig
from ci_automation.config.workflow_events import wrong_events, wrong_schedule
from ci_automation.config.workflow_rights import INPUTS_OF_CALLED, SECRETS_OF_CALLED, asks_via, missing_rights
from ci_automation.config.workflows import (
    GATED,
    PUBLISHING,
    ActionUse,
    CheckedWorkflow,
    GitHubPlace,
    action_uses,
    environment_of,
    expressions,
    group_of,
    named_artifacts,
    read_workflow,
    wrong_issuer,
)
from ci_automation.flux.options import nearest
from ci_automation.policy.patterns import is_found

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_COMMIT = re.compile(r"[0-9a-f]{40}")
_IMAGE = re.compile(r"docker://.+@sha256:[0-9a-f]{64}")
_CONTEXTS = {  # what `concurrency` may read (GitHub, "Contexts reference")
    "job": ("github", "inputs", "matrix", "needs", "strategy", "vars"),
    "workflow": ("github", "inputs", "vars"),
}
# With one of them, a job runs whatever the jobs that it needs have come to.
_ANY_STATUS = re.compile(r"(?i)\b(always|failure|cancelled)\s*\(")


class UnfitWorkflows(InvalidConfig):
    """The workflows do not fit together, or do not fit the configuration."""

    hint = "docs/guides/action.md has one file for each way of working; correct the lines above and check again."


def workflow_problems(
    texts: Mapping[str, str],
    config: Config | None,
    place: GitHubPlace | None,
    inputs: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Problem, ...]:
    """Return everything that does not fit together in the workflow files that use the action, by file and line.

    Without a place the subjects of keyless signatures are not known, and are not checked. `inputs` are those of the
    action, with the values that each takes if it does not take any; without them no input is checked.
    """
    read = [read_workflow(file, written) for file, written in sorted(texts.items())]
    workflows = [it for it in read if isinstance(it, CheckedWorkflow)]
    uses = [use for workflow in workflows for use in action_uses(workflow)]
    config = config or Config(GitHubSourceConfig(), named_artifacts(uses))
    ours = list({id(use.workflow): use.workflow for use in uses}.values())
    found = [it for it in read if isinstance(it, Problem)]
    for workflow in ours:
        found += [*_unpinned(workflow), *wrong_schedule(workflow)]
    for use in uses:
        found += _wrong_inputs(use, inputs or {})
        found += [*_wrong_group(use), *wrong_events(use, place), *missing_rights(use, config)]
        found += [*_wrong_environment(use, config), *_wrong_names(use, config, workflows)]
        found += _lost_code(use, config)
    found += [*_different_pins(uses), *_different_groups(uses, config), *_shared_groups(uses, config)]
    found += _untrusted(uses, config, place) if place else ()
    return tuple(found)


def uses_of_action(texts: Mapping[str, str]) -> tuple[ActionUse, ...]:
    """Return the jobs of workflow files that use the action."""
    read = (read_workflow(file, written) for file, written in sorted(texts.items()))
    return tuple(use for it in read if isinstance(it, CheckedWorkflow) for use in action_uses(it))


def _unpinned(workflow: CheckedWorkflow) -> Iterator[Problem]:
    for used, path in workflow.used():
        _, _, pin = used.partition("@")
        if not (used.startswith("./") or _IMAGE.fullmatch(used) or _COMMIT.fullmatch(pin)):
            what = f"uses {used}, which its owner can change. Pin it to a full commit: @<40 hex digits> # <version>"
            yield workflow.problem(what, *path)


def _wrong_inputs(use: ActionUse, known: Mapping[str, Sequence[str]]) -> Iterator[Problem]:
    """Yield inputs and secrets that are not there or missing, and values that inputs do not take; expressions aside."""
    required, others = INPUTS_OF_CALLED.get(use.command, ((), ())) if use.called else ((), tuple(known))
    asked, taken = f"the called {use.command}.yaml" if use.called else "the action", (*required, *others)
    for name, value in use.inputs.items() if taken else ():
        at = (*use.path, "with", name)
        if name not in taken:
            yield use.workflow.problem(f"{asked} has no input {name!r}. {nearest(name, taken)}", *at)
        elif (choices := known.get(name)) and value and value not in choices and not expressions(value):
            yield use.workflow.problem(f"the input {name} does not take {value!r}. {nearest(value, choices)}", *at)
    passed, known_secrets = use.values.get("secrets"), SECRETS_OF_CALLED.get(use.command, ())
    for secret in passed if use.called and known_secrets and isinstance(passed, dict) else ():
        if secret not in known_secrets:
            what = f"{asked} has no secret {secret!r}. {nearest(secret, known_secrets)}"
            yield use.workflow.problem(what, *use.path, "secrets", secret)
    if missing := [name for name in required if not use.inputs.get(name)]:
        what = f"{asked} needs {', '.join(missing)}. Add what is missing to `with`"
        yield use.workflow.problem(what, *use.path, *(("with",) if use.inputs else ()))


def _different_pins(uses: Sequence[ActionUse]) -> Iterator[Problem]:
    for use in uses[1:]:
        first = uses[0]
        if use.called == first.called and use.pin != first.pin:
            what = (
                f"pins the action to {use.pin[:12]}, {first.workflow.name} to {first.pin[:12]}. Use one commit in all"
            )
            yield use.workflow.problem(what, *use.path, "uses")


def _wrong_group(use: ActionUse) -> Iterator[Problem]:
    concurrency, path = use.setting("concurrency")
    if use.called:
        if group_of(concurrency).startswith("flux-manifests-"):
            yield use.problem("holds a group that the called workflow needs too. Remove concurrency here", *path[2:])
        return
    if use.command not in PUBLISHING:
        return
    if not group_of(concurrency):
        what = "publishes in no concurrency group, so two runs can publish at once. Add concurrency: {group: "
        yield use.problem(f"{what}flux-manifests, cancel-in-progress: false}}")
    if isinstance(concurrency, dict) and concurrency.get("cancel-in-progress"):
        what = "lets GitHub cancel a run that publishes. Set cancel-in-progress: false"
        yield use.workflow.problem(what, *path, "cancel-in-progress")
    known = _CONTEXTS["job" if len(path) > 1 else "workflow"]
    for context in sorted(_contexts(group_of(concurrency)) - set(known)):
        what = f"GitHub gives a group no {context} context; it can read {', '.join(known)}"
        yield use.workflow.problem(what, *path)


def _contexts(written: str) -> set[str]:
    return {name for each in expressions(written) for name in re.findall(r"(?<![\w.'-])([a-z]+)\.", each)}


def _different_groups(uses: Sequence[ActionUse], config: Config) -> Iterator[Problem]:
    """Yield the jobs that publish an artifact in another group than an earlier job does."""
    first: dict[str, tuple[str, ActionUse]] = {}
    for use in uses:
        for artifact in use.artifacts(config) if use.command in PUBLISHING else ():
            if not (group := use.group(artifact)):
                continue
            wanted, other = first.setdefault(str(artifact.channel), (group, use))
            if group != wanted:
                what = (
                    f"publishes {artifact.name} in the group {group!r}, the job {other.job} of {other.workflow.name} in"
                )
                yield use.problem(f"{what} {wanted!r}, so both can publish at once. Use the same group", "concurrency")


def _shared_groups(uses: Sequence[ActionUse], config: Config) -> Iterator[Problem]:
    """Yield the jobs that share a group with a job for another artifact: GitHub drops all but one waiting job."""
    held: dict[str, str] = {}
    for use in uses:
        if use.command not in PUBLISHING - {"approve"} or not use.inputs.get("artifact"):
            continue  # one job for all artifacts, or one that can be run again
        for artifact in use.artifacts(config):
            group = use.group(artifact)
            if group and (other := held.setdefault(group, artifact.name)) != artifact.name:
                what = f"is in the group {group!r} with the job for {other}: GitHub keeps one waiting job and drops the"
                yield use.problem(
                    f"{what} rest. Give each artifact its group, such as flux-manifests-NAME", "concurrency"
                )
                break


def _wrong_environment(use: ActionUse, config: Config) -> Iterator[Problem]:
    name = use.environment
    if any("inputs." in each for each in expressions(name)):
        what = (
            "takes the environment from an input, so the person who starts the run chooses its secrets. Write its name"
        )
        yield use.problem(what, "environment")
    if name and "matrix.artifact" in use.inputs.get("artifact", "") and "matrix." not in name:
        what = "gives the jobs of all artifacts one environment, and with it the same secrets. Use "
        yield use.problem(f"{what}flux-manifests-${{{{ matrix.name }}}}", "environment")
    if use.command not in GATED:
        return
    gates = {it.approval.environment for it in use.artifacts(config)} or {ApprovalConfig().environment}
    waiting = {job: values for job, values in use.workflow.jobs.items() if environment_of(values) in gates}
    if use.called:
        if (gate := use.inputs.get("gate") or ApprovalConfig().environment) not in gates:
            what = f"waits in the environment {gate}, the configuration says {', '.join(sorted(gates))}. Use one name"
            yield use.problem(what, "with", "gate")
        return
    if found := _ANY_STATUS.search(text(use.values.get("if"))):
        yield use.problem(f"runs after a rejection too, by {found[1]}(). Remove it", "if")
    if not waiting.keys() & set(_needed_jobs(use.values)):
        what = f"waits for no approval. Let it need a job in the environment {' or '.join(sorted(gates))}"
        yield use.problem(f"{what}, which the configuration names", "needs")
    for job, values in waiting.items():
        if group_of(values.get("concurrency") or use.workflow.value.get("concurrency")):
            what = (
                "waits for reviewers in a concurrency group, and blocks it for up to 30 days. Move the group to the job"
            )
            yield use.workflow.problem(f"{what} that publishes", "jobs", job, "concurrency")


def _lost_code(use: ActionUse, config: Config) -> Iterator[Problem]:
    """Yield the job that does not get the code by which a person approves operations."""
    by_code = any(it.approval.operations_by_code for it in use.artifacts(config))
    if by_code and use.command in {"show", "do", "operate"} and "code" not in use.inputs:
        what = "gets no code, by which operationsByCode lets a person approve. Add code: ${{ inputs.code }}"
        yield use.problem(f"{what} to its `with`, and the input code to workflow_dispatch")


def _needed_jobs(job: Mapping[str, Any]) -> list[str]:
    needs = job.get("needs")
    return [text(each) for each in (needs if isinstance(needs, list) else [needs])]


def _wrong_names(use: ActionUse, config: Config, workflows: Iterable[CheckedWorkflow]) -> Iterator[Problem]:
    """Yield the names of artifacts and of workflow files that lead nowhere."""
    files = {workflow.name: workflow for workflow in workflows}
    artifacts = use.artifacts(config)
    if use.is_fixed and not artifacts:
        names = ", ".join(it.name for it in config.artifacts)
        what = f"the configuration has no artifact {use.inputs['artifact']!r}; it has {names}"
        yield use.workflow.problem(what, *use.path, "with", "artifact")
    if use.command == "watch" and use.inputs.get("workflow", "") not in files:
        what = f"there is no workflow {use.inputs.get('workflow', '')!r} beside this one. Name the file that publishes"
        yield use.workflow.problem(what, *use.path, "with", "workflow")
    for artifact in artifacts:
        started = artifact.approval.workflow
        if use.command not in {"update", "fleet"} or asks_via(use, artifact) != ApprovalVia.WORKFLOW_DISPATCH:
            continue
        if started not in files or all(each.command != "approve" for each in action_uses(files[started])):
            what = f"starts {started} for approvals, and there is no such file with command: approve. Copy approve.yaml"
            yield use.workflow.problem(what, *use.path, "with", "approval")
            return


def _untrusted(uses: Sequence[ActionUse], config: Config, place: GitHubPlace) -> Iterator[Problem]:
    """Yield the jobs whose signatures another job, or the configuration, does not trust.

    Artifacts with the same signers and the same trust are one problem: of a job, or of all jobs that trust whom the
    configuration trusts.
    """
    told: set[tuple[object, ...]] = set()
    for use in uses:
        alike: dict[tuple[frozenset[str], VerifyConfig | None, bool], list[str]] = {}
        for artifact in use.artifacts(config):
            signers = frozenset(
                each.workflow.name
                for each in uses
                if artifact.channel in {it.channel for it in each.artifacts(config)} and each.is_keyless(artifact)
            )
            if signers:
                key = (signers, use.trusts(artifact), use.is_keyless(artifact))
                alike.setdefault(key, []).append(artifact.name)
        for (signers, trusted, keyless), names in alike.items():
            alone = keyless and signers != {use.workflow.name}
            what = _distrust(", ".join(names), signers, trusted, place, alone=alone)
            if not what or (signers, trusted, *names) in told:
                continue
            if trusted is None or use.own_trust:
                yield use.workflow.problem(what, *use.path)
            else:
                told.add((signers, trusted, *names))
                yield Problem("the configuration", None, None, ("verify",), what)


def _distrust(
    artifacts: str, signers: frozenset[str], trusted: VerifyConfig | None, place: GitHubPlace, *, alone: bool
) -> str:
    """Return what is wrong with whom a job trusts; empty if it trusts every workflow that signs the artifacts."""
    named = ", ".join(sorted(signers))
    if trusted is None:
        what = f"trusts itself alone, and {named} sign {artifacts}" if alone else ""
    elif trusted.public_keys:
        what = f"trusts keys, not the keyless signatures of {named} on {artifacts}"
    elif place.is_public and trusted.issuer != place.issuer:
        return f"trusts the issuer {trusted.issuer}, and GitHub's is {place.issuer}. Write that one"
    elif wrong := wrong_issuer(trusted):
        return wrong
    elif strangers := [each for each in sorted(signers) if not _is_trusted(trusted, place.subject(each))]:
        whom = ", ".join((*trusted.identities, *trusted.patterns)) or "no identity"
        signing = f"sign{'' if strangers[1:] else 's'} {artifacts}"
        what = f"trusts {whom}, and {', '.join(strangers)} of {place.repository} on {place.branch} {signing}"
    else:
        what = ""
    one = f"identity: {place.subject(named)}"
    return f"{what}. Trust {one if len(signers) == 1 else f'identityRegexp: {place.pattern(signers)}'}" if what else ""


def _is_trusted(trusted: VerifyConfig, subject: str) -> bool:
    return subject in trusted.identities or any(is_found(pattern, subject) for pattern in trusted.patterns)
