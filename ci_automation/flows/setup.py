"""A fleet repository that keeps one artifact current: its files, from a few answers, and what is left to click."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.artifact.reference import OciRepository
from ci_automation.config.document import InvalidConfig
from ci_automation.config.load import parse_config
from ci_automation.config.model import ApprovalVia, SigningMode
from ci_automation.config.workflow_rules import UnfitWorkflows, workflow_problems
from ci_automation.errors import UsageError
from ci_automation.flux.following import SyncSettings
from ci_automation.report.sync import ByIdentity, ByKey, Sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ci_automation.artifact.reference import Reference
    from ci_automation.config.workflows import GitHubPlace
    from ci_automation.flux.version import Version

CONFIGURATION, WORKFLOWS = ".github/flux-manifests.yaml", ".github/workflows"
ENVIRONMENT = "flux-manifests"
ISSUER, PUBLIC_KEY = "https://token.actions.githubusercontent.com", "cosign.pub"
_SCHEMA = "docs/reference/config.schema.json"
_ARTIFACT, _REPOSITORY = "oci://ghcr.io/acme/flux-manifests:production", "acme/fleet"
_ARTIFACT_LINE = re.compile(rf"^ +artifact: {_ARTIFACT}\n", re.MULTILINE)
_USED = re.compile(r"acme/ci-automation((?:/\.github/workflows/[a-z]+\.yaml)?)@([0-9a-f]{40})")
_NAMES = (  # in the shipped workflows, for which a team has its own
    rf"https://github\.com/{_REPOSITORY}",
    _REPOSITORY,
    _ARTIFACT,
    "flux-manifests-production",
    "refs/heads/main",
    "branches: [main]",
    "approval: pull-request",
    "paths: [",
)
_NAMED = re.compile("|".join(map(re.escape, _NAMES)))
# What goes into workflows as it is: a name that YAML, a pattern or an expression of GitHub would read as more is none.
_PLAIN = {
    "repository": re.compile(r"[A-Za-z0-9][\w-]*/(?!\.\.?$)[\w.-]+", re.ASCII),
    "branch": re.compile(r"(?!refs/)\w[\w./+@-]*", re.ASCII),
    "overlay": re.compile(r"[\w.][\w./+@-]*", re.ASCII),
}


_KUSTOMIZATION = """\
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - flux-system/gotk-components.yaml
"""


class UnfitAnswer(UsageError):
    """An answer to a question of `setup` cannot be used."""

    hint = "`setup --help` has an example for each."


class Answers(Struct, frozen=True):
    """What a person decides: the channel and its name in the configuration, the repository, who signs and how to ask.

    `action` is the repository with the action, with its commit after an @ if it is not the one of the shipped files.
    `overlay` is a folder of the repository; None: the team's own files stay in the artifact.
    """

    channel: Reference
    name: str
    place: GitHubPlace
    action: str
    signing: SigningMode
    approval: ApprovalVia
    overlay: str | None

    @property
    def keyless(self) -> bool:
        """Return whether the workflow itself signs."""
        return self.signing is SigningMode.KEYLESS

    @property
    def by_run(self) -> bool:
        """Return whether a run that waits asks for approvals, instead of a pull request."""
        return self.approval is ApprovalVia.WORKFLOW_DISPATCH

    @property
    def signers(self) -> tuple[str, ...]:
        """Return the workflow files that sign."""
        return ("flux.yaml", "approve.yaml") if self.by_run else ("flux.yaml",)


def setup_files(
    answers: Answers, template: Callable[[str], str], version: Version, path: str, existing: str | None = None
) -> dict[str, str]:
    """Return the files by their paths in the repository; `template` reads one of the shipped workflows.

    An `existing` configuration keeps all that it has, and gets the artifact if it lacks it.

    One has the objects by which clusters follow the channel, of a Flux of that version, with that path in the artifact.
    Nothing applies it: a person does, after the first signed run.

    Raises:
        UnfitAnswer, NotForClusters: an answer cannot be used.
        InvalidConfig: the existing configuration cannot be used.
        UnfitWorkflows: the files would not fit together.
    """
    _require_usable(answers)
    shipped = (
        {"flux.yaml": "flux-by-dispatch.yaml"} if answers.by_run and answers.keyless else {"flux.yaml": "flux.yaml"}
    )
    shipped |= {"approve.yaml": "approve.yaml"} if answers.by_run else {}
    shipped = {file: name if answers.keyless else f"with-key/{name}" for file, name in shipped.items()}
    shipped |= {"preview.yaml": "preview.yaml"} if answers.overlay else {}
    workflows = {f"{WORKFLOWS}/{file}": _filled(template(name), answers) for file, name in shipped.items()}
    if existing is None:
        configuration = _configuration(answers, _USED.findall(template("flux.yaml"))[0][1])
    else:
        configuration = _grown(existing, answers)
    config = parse_config(configuration.encode(), CONFIGURATION)
    if problems := workflow_problems(workflows, config, answers.place):
        raise UnfitWorkflows(list(problems))
    objects = {objects_file(answers): _objects(answers, version, path)}
    return {CONFIGURATION: configuration, **workflows, **objects}


def _require_usable(answers: Answers) -> None:
    if not isinstance(answers.channel.repository, OciRepository):
        raise UnfitAnswer(f"{answers.channel} is not in a registry, where clusters and workflows could reach it")
    if not re.fullmatch(r"[\w.-]+/(ci-automation|flux-manifests)(@[0-9a-f]{40})?", answers.action):
        raise UnfitAnswer(
            f"{answers.action!r} is not OWNER/ci-automation, with or without the @ and 40 digits of a commit"
        )
    named = {"repository": answers.place.repository, "branch": answers.place.branch, "overlay": answers.overlay}
    for what, name in named.items():
        if name is not None and not _PLAIN[what].fullmatch(name):
            raise UnfitAnswer(f"the {what} {name!r} has characters that a workflow cannot have as they are")


def first_files(answers: Answers) -> dict[str, str]:
    """Return the files of an overlay that adds nothing yet, by their paths in the repository."""
    return {f"{answers.overlay}/kustomization.yaml": _KUSTOMIZATION}


def objects_file(answers: Answers) -> str:
    """Return the name of the file with the objects for clusters; no Kustomization of Flux applies the top folder."""
    return f"flux-manifests-{answers.name}.yaml"


def _filled(text: str, answers: Answers) -> str:
    """Return a shipped workflow with the team's own names in it."""
    place, (action, _, commit) = answers.place, answers.action.partition("@")
    server, repository = (re.escape(it).replace(r"\-", "-") for it in (place.server, place.repository))
    own = (
        f"{server}/{repository}",
        place.repository,
        str(answers.channel),
        f"flux-manifests-{answers.name}",
        f"refs/heads/{place.branch}",
        f"branches: [{place.branch}]",
        f"approval: {answers.approval}",
        f"paths: [{answers.overlay}/**, " if answers.overlay else "paths: [",
    )
    names = dict(zip(_NAMES, own, strict=True))
    if answers.keyless:  # the configuration names the artifact
        text = _ARTIFACT_LINE.sub("", text)
    text = _NAMED.sub(lambda found: names[found[0]], text)
    return _USED.sub(lambda found: f"{action}{found[1]}@{commit or found[2]}", text)


def _configuration(answers: Answers, shipped: str) -> str:
    place, (action, _, commit) = answers.place, answers.action.partition("@")
    if not answers.keyless:
        verify = [f"publicKey: {PUBLIC_KEY}"]
    elif answers.by_run:
        verify = [f"identityRegexp: '{place.pattern(answers.signers)}'", f"issuer: {ISSUER}"]
    else:
        verify = [f"identity: {place.subject('flux.yaml')}", f"issuer: {ISSUER}"]
    lines = [
        f"# yaml-language-server: $schema=https://raw.githubusercontent.com/{action}/{commit or shipped}/{_SCHEMA}",
        "version: 1",
        "defaults:",
        "  verify:",
        *(f"    {line}" for line in verify),
        *([] if answers.keyless else ["  signing: {mode: key, key: env://COSIGN_KEY}"]),
        *(["  approval: {via: workflow-dispatch}"] if answers.by_run else []),
        "artifacts:",
        *(f"  {line}" for line in _entry(answers)),
    ]
    return "\n".join(lines) + "\n"


def _grown(existing: str, answers: Answers) -> str:
    """Return a configuration with one artifact more, or as it is if it has that artifact."""
    before = parse_config(existing.encode(), CONFIGURATION).artifacts
    if any(it.channel == answers.channel for it in before):
        return existing
    lines = _entry(answers)
    for indent in ("  ", ""):
        grown = existing.rstrip("\n") + "".join(f"\n{indent}{line}" for line in lines) + "\n"
        with suppress(InvalidConfig):
            if parse_config(grown.encode(), CONFIGURATION).artifacts[:-1] == before:
                return grown
    raise UnfitAnswer(f"{CONFIGURATION} does not end with its artifacts; add these lines to them: {'; '.join(lines)}")


def _entry(answers: Answers) -> list[str]:
    overlay = [f"  overlay: {answers.overlay}"] if answers.overlay else []
    return [f"- name: {answers.name}", f"  url: {answers.channel}", *overlay]


def _objects(answers: Answers, version: Version, path: str) -> str:
    verify: ByKey | ByIdentity
    if answers.keyless:
        verify = ByIdentity(((f"^{re.escape(ISSUER)}$", answers.place.pattern(answers.signers)),))
    else:
        verify = ByKey("flux-manifests-keys", ())
    return Sync(answers.channel, version, "flux-system", path, verify, SyncSettings()).to_yaml()


def left_to_do(answers: Answers, *, there: bool | None, newest: str, bootstrapped: str | None) -> Iterator[str]:
    """Yield what a person still does, each with its address; `there`: has the channel a digest? None: not known."""
    place, name = answers.place, answers.name
    at = f"{place.server}/{place.repository}"
    files = f"Commit the files, and bring them to {place.branch}."
    yield files if answers.keyless else f"{files} Add the public half of the key as {PUBLIC_KEY}."
    if not answers.by_run:
        yield f'Tick "Allow GitHub Actions to create and approve pull requests": {at}/settings/actions'
    yield (
        f"Make the environment {ENVIRONMENT} with required reviewers, for the branch {place.branch} alone: "
        f"{at}/settings/environments/new"
    )
    if not answers.keyless:
        yield (
            f"Make the environment {ENVIRONMENT}-{name} for the branch {place.branch} alone, without reviewers, with "
            f"the secrets COSIGN_KEY and COSIGN_PASSWORD: {at}/settings/environments/new"
        )
    run = f"Run workflow at {at}/actions/workflows/flux.yaml"
    first = f"{run}: command init, artifact {name}, to {newest}; a reviewer approves the run."
    if bootstrapped:
        yield (
            f"{bootstrapped} is what `flux bootstrap` made. Do not install Flux twice: docs/guides/migration.md has "
            "the steps that take these clusters to the artifact, with the version that they have."
        )
    elif there:
        adopted = f"{run}: command adopt, artifact {name}; a reviewer approves the run."
        yield f"{answers.channel} is there. If this workflow did not sign it: {adopted}"
    elif there is None:
        yield f"{first} If {answers.channel} is there already, take the command adopt in place of init."
    else:
        yield first
    if str(answers.channel.repository).startswith("oci://ghcr.io/"):
        owner, _, package = str(answers.channel.repository).removeprefix("oci://ghcr.io/").partition("/")
        yield (
            f"Give {place.repository} the role Write, under Manage Actions access: "
            f"https://github.com/orgs/{owner}/packages/container/{package.replace('/', '%2F')}/settings"
        )
    yield f"After the first green run, for each cluster, one cluster first: kubectl apply -f {objects_file(answers)}"
