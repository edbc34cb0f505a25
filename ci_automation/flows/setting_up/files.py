"""A fleet repository that keeps channels current: its files, from a few answers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

import ci_automation
from ci_automation.artifact.reference import OciRepository
from ci_automation.artifact.yaml import place_of, yaml_of
from ci_automation.config.load import parse_config
from ci_automation.config.workflow_events import NO_ARTIFACT
from ci_automation.config.workflow_rules import UnfitWorkflows, workflow_problems
from ci_automation.config.workflows import ISSUER, ActionUse, CheckedWorkflow, action_uses, read_workflow
from ci_automation.flows.setting_up.answers import CONFIGURATION, Answers, UnfitAnswer, require_action, require_plain
from ci_automation.flows.setting_up.cluster_folders import own_patches
from ci_automation.flows.setting_up.configuration import configuration_of, grown, settings_with
from ci_automation.flux.following import SyncSettings
from ci_automation.report.sync import ByIdentity, ByKey, Sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ci_automation.config.model import Config
    from ci_automation.config.sections import Artifact
    from ci_automation.config.workflows import GitHubPlace

WORKFLOWS = ".github/workflows"
ENVIRONMENT = "flux-manifests"
_ARTIFACT, _REPOSITORY = "oci://ghcr.io/acme/flux-manifests:production", "acme/fleet"
_ARTIFACT_LINE = re.compile(rf"^ +artifact: {_ARTIFACT}\n", re.MULTILINE)
_ASKED = f"The artifact's name in {CONFIGURATION}, if it has several\n        type: string\n"
_OFFERED = "The artifact, for all commands but update\n        type: choice\n        options: {}\n"
_FOR_READERS = re.compile(r"\A# Copy (?:[^\n]+\n)+?#\n|; with an overlay in Git[^\n]+| # for clusters without[^\n]+")
_USED = re.compile(r"acme/ci-automation((?:/\.github/workflows/[a-z]+\.yaml)?)@([0-9a-f]{40})")
_ACTION = re.compile(r"([\w.-]+/(?:ci-automation|flux-manifests))(?:/[^@]*)?@(.+)")
_NAMES = (  # in the shipped workflows, for which a team has its own
    rf"https://github\.com/{_REPOSITORY}",
    _REPOSITORY,
    _ARTIFACT,
    "flux-manifests-production",
    "refs/heads/main",
    "branches: [main]",
    "approval: pull-request",
    "paths: [",
    f"issuer: {ISSUER}",
)
_NAMED = re.compile("|".join(map(re.escape, _NAMES)))
_SHIPPED = (
    *("flux.yaml", "flux-by-dispatch.yaml", "approve.yaml", "preview.yaml", "watch.yaml"),
    *("with-key/flux.yaml", "with-key/fleet.yaml", "with-key/approve.yaml"),
)
_LOGINS = {"registry-password", "docker-config", "provider", "REGISTRY_PASSWORD", "DOCKER_CONFIG_JSON"}  # one is enough
_WRITER = ("REGISTRY_USERNAME", "REGISTRY_PASSWORD", "DOCKER_CONFIG_JSON")
_READER = ("REGISTRY_READER", "REGISTRY_READER_PASSWORD", "DOCKER_CONFIG_READER")
_OURS = re.compile(r"\$\{\{ (?:vars|secrets)\.(?:REGISTRY|DOCKER_CONFIG)_[A-Z_]+ \}\}")  # what `setup` writes


def setup_files(answers: Answers, path: str, read: Callable[[str], str | None]) -> dict[str, str]:
    """Return the files by their paths in the repository.

    A configuration that `read` finds keeps all that it has, and gets the channels that it lacks. The workflows are for
    all its artifacts, and keep inputs and secrets of a person's own. Of each channel one folder has the objects by
    which clusters follow it, with that `path` in the artifact, and below that those of clusters with own patches.

    Raises:
        UnfitWorkflows: the files would not fit together.
        UnfitAnswer, NotForClusters: an answer cannot be used.
        InvalidConfig: the existing configuration cannot be used.
    """
    _require_usable(answers)
    existing = read(CONFIGURATION)
    configuration = configuration_of(answers) if existing is None else grown(existing, answers)
    config = parse_config(configuration.encode(), CONFIGURATION)
    workflows, every = {}, "".join(map(_template, _SHIPPED))
    for place, name in ((f"{WORKFLOWS}/{file}", name) for file, name in _shipped(answers, config).items()):
        # Each person who can push a branch could read a login of the preview.
        registries = () if name == "preview.yaml" else other_registries(config.artifacts, answers.place)
        workflows[place] = _completed(_filled(name, answers, config), read(place) or "", registries, every)
    if problems := workflow_problems(workflows, config, answers.place):
        raise UnfitWorkflows(list(problems))
    followed = map(config.find, answers.named)
    objects = {at: text for it in followed for at, text in _objects(answers, it, path).items()}
    return {CONFIGURATION: configuration, **workflows, **objects}


def _require_usable(answers: Answers) -> None:
    """Raise `UnfitAnswer` unless files can be made of the answers."""
    for channel in (answers.channels[name] for name in answers.named):
        if not isinstance(channel.repository, OciRepository):
            raise UnfitAnswer(f"{channel} is not in a registry, where clusters and workflows could reach it")
    require_action(answers.action, answers.place.server)
    named = {"repository": answers.place.repository, "branch": answers.place.branch, "overlay": answers.overlay}
    for what, name in named.items():
        require_plain(what, name)


def shipped_pin() -> str:
    """Return the commit at which the shipped workflows take the action."""
    return str(_USED.findall(_template("flux.yaml"))[0][1])


def _template(name: str) -> str:
    """Return a shipped workflow: from the wheel, or from the project's own checkout."""
    package = Path(ci_automation.__file__).parent
    folder = next(it for it in (package / "workflows", package.parent / "workflows") if it.is_dir())
    return (folder / name).read_text(encoding="utf-8")


def cluster_trust(answers: Answers, root: str | None = None) -> ByKey | ByIdentity:
    """Return who signs, as clusters verify it, by the Secret with the root of your own Sigstore if there is one."""
    if answers.keyless:
        issuer = re.escape(answers.place.issuer).replace(r"\-", "-")
        return ByIdentity(((f"^{issuer}$", answers.place.pattern(answers.signers)),), root)
    return ByKey("flux-manifests-keys", ())


def actions_of(workflow: str) -> frozenset[str]:
    """Return the repositories of the action that a workflow uses, each with its commit after an @."""
    read = read_workflow("", workflow)
    used = [it for it, _ in read.used()] if isinstance(read, CheckedWorkflow) else []
    return frozenset(f"{found[1]}@{found[2]}" for it in used if (found := _ACTION.fullmatch(it)))


def _shipped(answers: Answers, config: Config) -> dict[str, str]:
    """Return which of the shipped workflows become which files."""
    several = len(config.artifacts) > 1
    if answers.keyless:
        shipped = {"flux.yaml": "flux-by-dispatch.yaml" if answers.by_run else "flux.yaml"}
        shipped |= {"approve.yaml": "approve.yaml"} if answers.by_run else {}
    elif several and answers.by_run:
        raise UnfitAnswer(
            "several channels with keys need an approve.yaml each, which setup does not write; take --approval "
            "pull-request, or --signing keyless"
        )
    else:
        shipped = {"flux.yaml": "with-key/fleet.yaml" if several else "with-key/flux.yaml"}
        shipped |= {"approve.yaml": "with-key/approve.yaml"} if answers.by_run else {}
    others = ("watch.yaml", *(("preview.yaml",) if overlays_of(config) else ()))
    return shipped | {name: name for name in others}


def overlays_of(config: Config) -> list[str]:
    """Return the folders with own files of all channels."""
    return list(dict.fromkeys(it.overlay.removesuffix("/") for it in config.artifacts if it.overlay))


def _filled(shipped: str, answers: Answers, config: Config) -> str:
    """Return a shipped workflow with the team's own names in it."""
    (name, channel), overlays = answers.first, overlays_of(config)
    for overlay in overlays:
        require_plain("overlay", overlay)
    place, (action, _, commit) = answers.place, answers.action.partition("@")
    server, repository = (re.escape(it).replace(r"\-", "-") for it in (place.server, place.repository))
    own = (
        f"{server}/{repository}",
        place.repository,
        str(channel),
        f"flux-manifests-{name}",
        f"refs/heads/{place.branch}",
        f"branches: [{place.branch}]",
        f"approval: {answers.approval}",
        f"paths: [{''.join(f'{overlay}/**, ' for overlay in overlays)}",
        f"issuer: {place.issuer}",
    )
    names = dict(zip(_NAMES, own, strict=True))
    text = _FOR_READERS.sub("", _template(shipped))
    text = _ARTIFACT_LINE.sub("", text) if answers.keyless else text  # the configuration names the artifact
    if len(config.artifacts) > 1:
        offered = [NO_ARTIFACT, *(it.name for it in config.artifacts)]
        text = text.replace(_ASKED, _OFFERED.format(yaml_of(offered, flow=True)))
    text = _NAMED.sub(lambda found: names[found[0]], text)
    if overlays and "schedule:" in text and "  push:" not in text:
        push = f"  push: # a merge that changes what is published\n    branches: [{place.branch}]\n    paths: ["
        paths = f"{', '.join(f'{overlay}/**' for overlay in overlays)}, {CONFIGURATION}]\n"
        text = text.replace("\npermissions: {}\n", f"{push}{paths}\npermissions: {{}}\n", 1)
    return _USED.sub(lambda found: f"{action}{found[1]}@{commit or found[2]}", text)


def _objects(answers: Answers, artifact: Artifact, path: str) -> dict[str, str]:
    """Return the objects by which clusters follow a channel, by their paths."""
    known = answers.migration.oldest(artifact.name) if answers.migration else answers.version
    home, settings = answers.home, artifact.sync or SyncSettings()
    trust = cluster_trust(answers, f"{settings.name}-trusted-root" if artifact.trust_config else None)
    at = f"{answers.objects}/{artifact.name}"
    told = f"# For clusters that follow {artifact.name}: kubectl apply -f {at}\n"
    told += "# No Kustomization applies this file: when it changes, apply it to each of them again, one first.\n"
    if answers.waves:
        told += "# Each cluster applies one of these folders: the objects of all channels have the same names.\n"
    made = {f"{at}/sync.yaml": told + Sync(artifact.channel, known, home, path, trust, settings).to_yaml()}
    for name, patches in own_patches(answers, artifact.name).items():
        kustomization = settings_with(settings.kustomization, {"patches": [*patches]})["kustomization"]
        sync = Sync(artifact.channel, known, home, path, trust, replace(settings, kustomization=kustomization))
        told = f"# For {name} alone, which follows {artifact.name}: kubectl apply -f {at}/{name}\n"
        told += f"# Its own patches come last; `setup` keeps them. The rest is as in {at}/sync.yaml.\n"
        made[f"{at}/{name}/sync.yaml"] = told + sync.to_yaml()
    return made


def other_registries(artifacts: Iterable[Artifact], place: GitHubPlace) -> tuple[str, ...]:
    """Return the hosts of the registries at which runs need a login, if the configuration names none itself.

    The job's own token is one at ghcr.io, if it is github.com's.
    """
    places = [(it.channel.repository, it) for it in artifacts]
    hosts = [(at.host, it.credentials.push) for at, it in places if isinstance(at, OciRepository)]
    is_needed = any(known is None and (host != "ghcr.io" or not place.is_public) for host, known in hosts)
    return tuple(sorted({host for host, _ in hosts})) if is_needed else ()


def _completed(text: str, existing: str, registries: Sequence[str], shipped: str) -> str:
    """Return a workflow whose jobs log in at these registries, with what a person gave the action in the existing one.

    That are the inputs and secrets with names that nothing `shipped` has, and the right that a `provider` needs.
    """
    made, there = read_workflow("", text), read_workflow("", existing)
    assert isinstance(made, CheckedWorkflow)  # noqa: S101  # for the type checker: tests read all that is shipped
    before = {it.job: it for it in action_uses(there)} if isinstance(there, CheckedWorkflow) else {}
    alike = {_right(it): it for it in reversed(before.values())}  # what a job with a new name takes over
    added = dict[tuple[int, int], dict[str, str]]()
    for use in action_uses(made):
        own, right = _own(before.get(use.job, alike.get(_right(use))), shipped), _right(use)
        needs_login = registries and right and _LOGINS.isdisjoint([*own["with"], *own["secrets"]])
        login = _login(use, right, is_one=len(registries) == 1) if needs_login else {}
        for key, values in own.items():
            given = login.get(key, {}) | values
            if given := {name: it for name, it in given.items() if name not in use.step.get(key, ())}:
                added[place_of(made.root, *use.path, key)] = given
        if "provider" in own["with"] and "id-token" not in use.values["permissions"]:
            added[place_of(made.root, "jobs", use.job, "permissions")] = {"id-token": "write"}
    lines = text.split("\n")
    for (line, column), values in sorted(added.items(), reverse=True):
        lines[line:line] = [f"{' ' * (column + 1)}{it}" for it in yaml_of(values, flow=False).split("\n")]
    return "\n".join(lines)


def _right(use: ActionUse) -> str:
    """Return what a job may do with packages: only one that may do the same gets its login."""
    rights = use.values.get("permissions")
    return str(rights.get("packages", "")) if isinstance(rights, dict) else ""


def _own(use: ActionUse | None, shipped: str) -> dict[str, dict[str, str]]:
    """Return the inputs and secrets of a job that are a person's own: of no shipped file, and no login of `setup`."""
    said = {key: use.step.get(key) if use else None for key in ("with", "secrets")}
    return {
        key: {
            name: value
            for name, value in (there.items() if isinstance(there, dict) else ())
            if f" {name}:" not in shipped and not _OURS.fullmatch(str(value))
        }
        for key, there in said.items()
    }


def _login(use: ActionUse, right: str, *, is_one: bool) -> dict[str, dict[str, str]]:
    """Return the inputs and secrets by which a job logs in at one registry or several; others if it only reads."""
    user, password, files = _READER if right == "read" else _WRITER
    named = {"registry-username": f"${{{{ vars.{user} }}}}"} if is_one else {}
    secret = password if is_one else files
    value = f"${{{{ secrets.{secret} }}}}"
    if use.called:
        return {"with": named, "secrets": {secret: value}}
    return {"with": {**named, "registry-password" if is_one else "docker-config": value}}
