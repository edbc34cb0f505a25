"""The rights that the jobs of workflows need for the action's commands, and what the reusable workflows take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.artifact.reference import OciRepository
from ci_automation.artifact.yaml import text
from ci_automation.config.model import ApprovalVia, Config
from ci_automation.config.workflows import SIGNING, ActionUse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ci_automation.config.document import Problem
    from ci_automation.config.sections import Artifact

_LEVELS = ("none", "read", "write")
_RIGHTS = {  # of a job that runs the command; those that ask have the rights of their approvals as well
    "update": {"contents": "read"},
    "apply": {"contents": "read", "pull-requests": "read"},
    "approve": {"contents": "read", "actions": "read"},
    "do": {"contents": "read", "actions": "read"},
    "review": {"contents": "read"},
    "show": {"contents": "read"},
    "preview": {"contents": "read"},
    "comment": {"pull-requests": "write"},
    "promote": {"contents": "read"},
    "consumers": {"contents": "read"},
    "matrix": {"contents": "read"},
    "watch": {"actions": "write", "issues": "write"},
    "doctor": {"contents": "read", "actions": "read"},
}
_RIGHTS_TO_ASK: Mapping[str, Mapping[str, str]] = {
    ApprovalVia.PULL_REQUEST: {"contents": "write", "pull-requests": "write"},
    ApprovalVia.WORKFLOW_DISPATCH: {"actions": "write"},
}
_OWN = {"packages": "write", "id-token": "write"}
RIGHTS_OF_CALLED = {  # exactly: with less GitHub does not start the called workflow
    "update": {"contents": "write", "pull-requests": "write", "actions": "write"} | _OWN,
    "approve": {"contents": "read", "actions": "read"} | _OWN,
    "fleet": {"contents": "write", "pull-requests": "write", "actions": "write"} | _OWN,
    "operate": {"contents": "read", "actions": "read"} | _OWN,
}
_INPUTS = (
    *("config", "key", "accept-shared-subject", "registry-username", "provider", "aws-role-arn", "aws-region"),
    *("azure-client-id", "azure-tenant-id", "google-workload-identity-provider", "google-service-account"),
    "vault-address",
)
INPUTS_OF_CALLED = {  # those that a caller has to give, and the others; GitHub does not start a workflow with any more
    "update": (("artifact",), (*_INPUTS, "approval", "app-id", "environment")),
    "approve": (("artifact", "version", "base", "target"), (*_INPUTS, "request-key", "gate", "environment")),
    "fleet": ((), (*_INPUTS, "approval", "app-id", "environments")),
    "operate": (("operation", "artifact"), (*_INPUTS, "to", "reason", "code", "gate", "environment", "environments")),
}
_SECRETS = ("COSIGN_KEY", "COSIGN_PASSWORD", "REGISTRY_PASSWORD", "DOCKER_CONFIG_JSON", "VAULT_TOKEN")
_OF_APP = (*_SECRETS, "APP_PRIVATE_KEY")
SECRETS_OF_CALLED = {"update": _OF_APP, "approve": _SECRETS, "fleet": _OF_APP, "operate": _SECRETS}


def missing_rights(use: ActionUse, config: Config) -> Iterator[Problem]:
    """Yield the rights that a job needs and does not have."""
    given, path = use.setting("permissions")
    wanted = RIGHTS_OF_CALLED.get(use.command, {}) if use.called else _needed(use, config)
    rights = ", ".join(f"{name}: {level}" for name, level in wanted.items())
    if given is None:
        yield use.problem(f"names no permissions, so the repository's default counts. Add permissions: {{{rights}}}")
    elif given == "write-all":
        yield use.workflow.problem(f"gives every right to a job that needs {{{rights}}}. Write those", *path)
    elif missing := lacking(use, wanted):
        what = f"the job {use.job} lacks {', '.join(missing)} for {use.command}. Add it to its permissions"
        yield use.workflow.problem(what, *path)


def lacking(use: ActionUse, wanted: Mapping[str, str]) -> list[str]:
    """Return those of the wanted rights that the job's permissions leave out."""
    given, _ = use.setting("permissions")
    has = given if isinstance(given, dict) else dict.fromkeys(wanted, "read" if given == "read-all" else "none")
    return [f"{name}: {level}" for name, level in wanted.items() if _below(has.get(name), level)]


def _below(given: object, wanted: str) -> bool:
    level = text(given) or "none"
    return level not in _LEVELS or _LEVELS.index(level) < _LEVELS.index(wanted)


def _needed(use: ActionUse, config: Config) -> Mapping[str, str]:
    """Return the rights that a job needs for its command."""
    wanted = dict(_RIGHTS.get(use.command, {}))
    artifacts = use.artifacts(config)
    if use.command in {"update", "promote"} and not use.inputs.get("app-id"):
        for artifact in artifacts:
            wanted |= _RIGHTS_TO_ASK.get(asks_via(use, artifact), {})
    if use.command in SIGNING & _RIGHTS.keys():
        logins = ("registry-password", "docker-config", "provider")
        if any(str(it.channel).startswith("oci://ghcr.io/") for it in artifacts) and not any(
            map(use.inputs.get, logins)
        ):
            wanted["packages"] = "write"
        if use.inputs.get("provider") or any(map(use.is_keyless, artifacts)):
            wanted["id-token"] = "write"
    return wanted


def missing_login(use: ActionUse, config: Config) -> Iterator[Problem]:
    """Yield the job that publishes in a registry other than ghcr.io with no login: it does not see those of the runner.

    What an environment variable or an inherited secret holds is not known.
    """
    secrets = use.values.get("secrets")
    given = {*use.inputs, *(secrets if isinstance(secrets, dict) else ())}
    holders = (use.workflow.value, use.values, use.step)
    known = {"registry-password", "docker-config", "provider", "DOCKER_CONFIG_JSON"} & given
    called = {"registry-username", "REGISTRY_PASSWORD"} <= given
    if use.command not in SIGNING or known or called or secrets == "inherit" or any("env" in it for it in holders):
        return
    places = {it.channel.repository for it in use.artifacts(config) if it.credentials.push is None}
    hosts = {it.host for it in places if isinstance(it, OciRepository) and not it.is_loopback} - {"ghcr.io"}
    if hosts:
        ways = "registry-username and REGISTRY_PASSWORD" if use.called else "registry-username and registry-password"
        what = f"the job {use.job} has no login for {', '.join(sorted(hosts))}. Give it {ways}, or another one of "
        yield use.workflow.problem(f"{what}docs/guides/logins.md#registries", *use.path)


def asks_via(use: ActionUse, artifact: Artifact) -> str:
    """Return how a job asks for approvals of an artifact."""
    return artifact.approval.via or use.inputs.get("approval") or ApprovalVia.PULL_REQUEST
