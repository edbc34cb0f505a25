"""The workflows of a repository that use the action: what they say, and where they say it."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ci_automation.artifact.reference import InvalidReference, Reference
from ci_automation.artifact.yaml import Unreadable, nodes, place_of, plain, text
from ci_automation.config.document import Path, Problem
from ci_automation.config.model import Config, SigningMode, UnknownArtifact, VerifyConfig
from ci_automation.config.sections import Artifact

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    import yaml

ISSUER = "https://token.actions.githubusercontent.com"  # of github.com
_GITHUB, _OF_SERVER = "https://github.com", "/_services/token"
_SERVER = re.compile(r"(https://[\w.-]+)/")
_ACTION = re.compile(r"[\w.-]+/(?:ci-automation|flux-manifests)(?:/\.github/workflows/(?P<called>[\w.-]+)\.ya?ml)?")
_EXPRESSION = re.compile(r"\$\{\{([^{}]*)\}\}")
PUBLISHING = frozenset({"update", "apply", "approve", "fleet"})  # they render, sign, and move a channel
SIGNING = PUBLISHING | {"promote", "do", "operate"}
GATED = frozenset({"approve", "do", "operate"})  # they do what reviewers approved in an earlier job of the run
PREVIEWING = frozenset({"preview", "comment"})


class GitHubPlace(Struct, frozen=True):
    """The repository that the workflows run in, as their keyless signatures name it."""

    repository: str
    branch: str = "main"
    server: str = _GITHUB

    @property
    def is_public(self) -> bool:
        """Return whether the repository is on github.com, whose workflows the public Sigstore knows."""
        return self.server == _GITHUB

    @property
    def host(self) -> str:
        """Return the host of the server."""
        return self.server.partition("://")[2]

    @property
    def issuer(self) -> str:
        """Return the issuer of the identities of workflows."""
        return ISSUER if self.is_public else f"{self.server}{_OF_SERVER}"

    def subject(self, workflow: str) -> str:
        """Return the subject that jobs of a workflow file sign as."""
        return f"{self.server}/{self.repository}/.github/workflows/{workflow}@refs/heads/{self.branch}"

    def pattern(self, workflows: Collection[str]) -> str:
        """Return the pattern of RE2 that the subjects of these workflow files match, and no others."""
        before, after = (re.escape(part).replace(r"\-", "-") for part in self.subject("\0").split("\0"))
        names = "|".join(re.escape(name).replace(r"\-", "-") for name in sorted(workflows))
        return f"^{before}({names}){after}$"


def wrong_issuer(verify: VerifyConfig) -> str:
    """Return why the issuer cannot be that of an identity beside it; empty if it may be."""
    issuer = verify.issuer or ""
    for named in (*verify.identities, *verify.patterns):
        found = _SERVER.match(named.removeprefix("^").replace("\\", ""))
        server = found[1] if found else ""
        if server == _GITHUB and issuer.endswith(_OF_SERVER):
            return f"trusts an identity of {server} with the issuer of an Enterprise Server: github.com's is {ISSUER}"
        if server not in {"", _GITHUB} and issuer.startswith(ISSUER):
            what = f"trusts an identity of {server} with github.com's issuer"
            return f"{what}: an Enterprise Server has its own, {server}{_OF_SERVER}"
    return ""


class CheckedWorkflow(Struct, frozen=True):
    """One workflow file: its values, and the YAML they came from for the places in messages."""

    file: str
    root: yaml.Node
    value: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Return the name of the file, without its folder."""
        return PurePosixPath(self.file).name

    @property
    def jobs(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the jobs that are mappings, by their names."""
        return {name: job for name, job in _mapping(self.value.get("jobs")).items() if isinstance(job, dict)}

    @property
    def triggers(self) -> Mapping[str, Any]:
        """Return the events that start the workflow, each with what the file says about it."""
        events = self.value.get("on")
        if isinstance(events, str | list):
            return {text(event): None for event in ([events] if isinstance(events, str) else events)}
        return _mapping(events)

    def problem(self, what: str, *path: str | int) -> Problem:
        """Return a problem at a place of the file."""
        return Problem(self.file, *place_of(self.root, *path), path, what)

    def used(self) -> Iterator[tuple[str, Path]]:
        """Yield what the jobs and their steps use, each with its place."""
        for name, job in self.jobs.items():
            if "uses" in job:
                yield text(job["uses"]), ("jobs", name, "uses")
            steps = job.get("steps")
            for number, step in enumerate(steps if isinstance(steps, list) else ()):
                if isinstance(step, dict) and "uses" in step:
                    yield text(step["uses"]), ("jobs", name, "steps", number, "uses")


class ActionUse(Struct, frozen=True):
    """One job that runs the action, or that calls one of its reusable workflows."""

    workflow: CheckedWorkflow
    job: str
    path: Path  # of the step, or of the job that calls
    pin: str
    called: bool
    command: str
    inputs: Mapping[str, str]

    @property
    def values(self) -> Mapping[str, Any]:
        """Return what the file says about the job."""
        return self.workflow.jobs[self.job]

    @property
    def step(self) -> Mapping[str, Any]:
        """Return what the file says about the step, or about the job that calls."""
        return self.values["steps"][self.path[3]] if len(self.path) > 2 else self.values  # noqa: PLR2004  # jobs, job

    def problem(self, what: str, *path: str | int) -> Problem:
        """Return a problem at a place of the job."""
        return self.workflow.problem(what, "jobs", self.job, *path)

    def setting(self, key: str) -> tuple[Any, Path]:
        """Return what the job says for a key, else what its workflow says, with the place."""
        if key in self.values:
            return self.values[key], ("jobs", self.job, key)
        return self.workflow.value.get(key), (key,)

    @property
    def environment(self) -> str:
        """Return the name of the job's environment; empty without one."""
        return environment_of(self.values)

    def group(self, artifact: Artifact) -> str:
        """Return the concurrency group in which the job works on an artifact; empty without one."""
        if self.called:
            return f"flux-manifests-{self.inputs.get('artifact', '') if self.is_fixed else artifact.channel}"
        values = {"inputs.artifact": str(artifact.channel), "matrix.artifact": str(artifact.channel)}
        values |= {"matrix.name": artifact.name, "github.workflow": text(self.workflow.value.get("name"))}
        group = group_of(self.setting("concurrency")[0])
        return _EXPRESSION.sub(lambda found: values.get(found[1].strip(), found[0]), group)

    @property
    def is_fixed(self) -> bool:
        """Return whether the job names one artifact itself."""
        named = self.inputs.get("artifact", "")
        return bool(named) and not expressions(named)

    def artifacts(self, config: Config) -> tuple[Artifact, ...]:
        """Return the artifacts that the job works on: the one that it names, or all of the configuration."""
        if self.is_fixed:
            with suppress(UnknownArtifact):
                return (config.find(self.inputs["artifact"]),)
            return ()
        return tuple(it for it in config.artifacts if it.promote or self.command != "promote")

    def is_keyless(self, artifact: Artifact) -> bool:
        """Return whether the job signs the artifact as its own workflow."""
        given, configured = self.inputs.get("key") or self.inputs.get("signing", ""), artifact.signing
        if self.called or self.command not in SIGNING:
            return False
        return given == "keyless" or (
            not given and not configured.key and configured.mode in (None, SigningMode.KEYLESS)
        )

    @property
    def own_trust(self) -> VerifyConfig | None:
        """Return whose signatures the inputs of the job trust; None where they do not say."""
        keys, exact, patterns = (
            tuple(self.inputs.get(name, "").split()) for name in ("public-key", "identity", "identity-regexp")
        )
        said = VerifyConfig(keys, exact, patterns, self.inputs.get("issuer") or None)
        return None if said == VerifyConfig() else said

    def trusts(self, artifact: Artifact) -> VerifyConfig | None:
        """Return whose signatures the job trusts, as its inputs or the configuration say; None where neither says."""
        return self.own_trust or (None if artifact.verify == VerifyConfig() else artifact.verify)


def read_workflow(file: str, written: str) -> CheckedWorkflow | Problem:
    """Return a workflow file, or why it cannot be read."""
    try:
        [root] = nodes(written)
        value = plain(root)
    except Unreadable as error:
        return Problem(file, error.line or 1, 1, (), error.reason)
    except ValueError:
        return Problem(file, 1, 1, (), "is not one YAML document")
    if not isinstance(value, dict):
        return Problem(file, 1, 1, (), "is not a workflow")
    return CheckedWorkflow(file, root, value)


def action_uses(workflow: CheckedWorkflow) -> Iterator[ActionUse]:
    """Yield the jobs of a workflow that run the action, or call one of its reusable workflows."""
    for used, path in workflow.used():
        name, _, pin = used.partition("@")
        if (match := _ACTION.fullmatch(name)) is None:
            continue
        job, called = str(path[1]), match["called"]
        holder: Mapping[str, Any] = workflow.jobs[job]
        if len(path) > 3:  # noqa: PLR2004  # jobs, job, steps, number, uses
            holder = holder["steps"][path[3]]
        inputs = {key: text(value) for key, value in _mapping(holder.get("with")).items()}
        command = called or inputs.get("command") or "update"
        yield ActionUse(workflow, job, path[:-1], pin, called is not None, command, inputs)


def named_artifacts(uses: Iterable[ActionUse]) -> tuple[Artifact, ...]:
    """Return the artifacts that jobs name by their addresses."""
    found = {}
    for use in uses:
        with suppress(InvalidReference):
            if use.is_fixed:
                channel = Reference.parse_channel(use.inputs["artifact"])
                found[channel] = Artifact(name=str(channel), channel=channel)
    return tuple(found.values())


def expressions(written: str) -> list[str]:
    """Return the expressions of GitHub in a text."""
    return _EXPRESSION.findall(written)


def group_of(concurrency: object) -> str:
    """Return the group of a `concurrency`."""
    return text(concurrency.get("group") if isinstance(concurrency, dict) else concurrency)


def environment_of(job: Mapping[str, Any]) -> str:
    """Return the name of the environment of a job; empty without one."""
    environment = job.get("environment")
    return text(environment.get("name") if isinstance(environment, dict) else environment)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
