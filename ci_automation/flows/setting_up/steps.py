"""The list of `setup`: settings, runs and commands that are left to a person, one action a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.artifact.reference import OciRepository, Reference
from ci_automation.flows.setting_up.answers import CONFIGURATION, Answers
from ci_automation.flows.setting_up.cluster_steps import (
    left_before_commit,
    left_for_clusters,
    left_to_decide,
    left_to_follow,
    left_to_name,
    left_to_verify,
)
from ci_automation.flows.setting_up.differing import enumerated
from ci_automation.flows.setting_up.files import ENVIRONMENT, PUBLIC_KEY, other_registries
from ci_automation.flows.setting_up.todo import CAREFUL, DECIDE, LAST, in_clusters
from ci_automation.flux.following import SyncSettings
from ci_automation.report.cluster_objects import named_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ci_automation.config.model import Config

_GHCR = "oci://ghcr.io/"
_TOKEN = "https://github.com/settings/tokens/new?scopes=read:packages"  # noqa: S105  # the page that makes one
_PULL = "pull-flux-manifests"  # the Secret, as docs/guides/clusters.md has it
_LOGINS = {"secretRef", "serviceAccountName", "provider"}  # of an OCIRepository
_EACH = ": each follows one channel, since the objects of all have the same names"
_LOOK, _DOCTOR = "Look in this clone for what is missing.", "GITHUB_TOKEN=$(gh auth token) flux-manifests doctor"


def left_to_do(answers: Answers, config: Config, declined: Sequence[str]) -> dict[str, list[str]]:
    """Return the steps that a person still takes, by the titles of their sections.

    After its first line a step has lines of commands. `declined` are the files that the person left alone.
    """
    at, is_paused = f"{answers.place.server}/{answers.place.repository}", config.find(answers.first[0]).paused
    sections: dict[str, Iterable[str]] = {
        "First: which channels exist": _asked(answers),
        DECIDE: _to_decide(answers, config),
        "The action, once for your organisation": _action(answers),
        "Files": _files(answers, declined, is_paused=is_paused),
        f"Settings of {answers.place.repository}": _settings(answers, at, other_registries(config.artifacts)),
        "First digests": _first_digests(answers, f"Run workflow at {at}/actions/workflows/flux.yaml"),
        "Clusters: before they move": left_to_name(answers),
        "The package, which is private at first": _to_pull(answers, config, github=True),
        "The login by which clusters pull": _to_pull(answers, config, github=False),
        "Clusters that follow a channel now, and do not verify it": left_to_verify(answers),
        **(
            left_for_clusters(answers, answers.migration)
            if answers.migration
            else {f"Clusters{_EACH if answers.waves else ''}": left_to_follow(answers)}
        ),
        LAST: _later(answers, is_paused=is_paused),
    }
    return {title: steps for title, found in sections.items() if (steps := [*found])}


def _asked(answers: Answers) -> Iterator[str]:
    """Yield what lets the registry say which channels it has, if it did not."""
    silent = dict.fromkeys(it.repository for name, it in answers.channels.items() if answers.tags[name] is None)
    for repository in silent:
        host = str(repository).removeprefix("oci://").partition("/")[0]
        password = f", with a token as the password: {_TOKEN}" if host == "ghcr.io" else "."
        yield f"{repository} did not say which channels it has. Log in{password}\ndocker login {host}"
    if silent:
        yield (
            "Then run `setup` again, whose list has what to do about channels that exist. If the registry is still "
            f"silent, go on with this list.\n{answers.again}"
        )


def _to_decide(answers: Answers, config: Config) -> Iterator[str]:
    """Yield what changes the rest of the list, or what clusters get."""
    page = f"{answers.docs}/guides/action.md#a-private-repository-without-github-enterprise"
    yield (
        f"If {answers.place.repository} is private, and you have no GitHub Enterprise, no reviewer can approve the "
        f"runs below. Then choose another way first: {page}"
    )
    if answers.migration:
        yield from left_to_decide(answers, answers.migration)
    for github in (True, False):
        if undecided := _pulled(answers, config, github=github)[0]:
            private = "A new package is private. To keep it so," if github else f"{_asking(undecided)}:"
            yield (
                f"{private} write `sync: {{source: {{secretRef: {{name: {_PULL}}}}}}}` below `defaults` of "
                f"{CONFIGURATION}. Then run `flux-manifests setup`, which writes it into the objects for clusters."
            )


def _action(answers: Answers) -> Iterator[str]:
    """Yield how workflows come to the action."""
    action = answers.action.partition("@")[0]
    at = f"{answers.place.server}/{action}"
    yield (
        f"Workflows run {at}/commit/{answers.pin}. If that page is not there, make the repository {action}. Then run "
        f"this in a full checkout of this project, not here.\ngit push {at} {answers.pin}:refs/heads/main"
    )
    owner = answers.place.repository.partition("/")[0]
    yield (
        f'If {action} is private, let yours use it: {at}/settings/actions, "Access". If your organisation allows only '
        f"some actions, allow it and actions/checkout: {answers.place.server}/organizations/{owner}/settings/actions"
    )


def _files(answers: Answers, declined: Sequence[str], *, is_paused: bool) -> Iterator[str]:
    """Yield what comes into Git."""
    if declined:
        yield (
            f"Take the changes of {', '.join(declined)}, which were left as they are: the rest of this list needs "
            f"them.\n{answers.again}"
        )
    if not answers.keyless:
        yield f"Make a key: `cosign generate-key-pair`. Move {PUBLIC_KEY} here; the other half becomes a secret below."
    (name, channel), overlay = answers.first, answers.overlay
    if answers.migration:
        yield from left_before_commit(answers, answers.migration)
    there = answers.there
    if overlay and answers.has(name) and (answers.unlike or not there):
        differing = f"They differ in {', '.join(answers.unlike)}. " if answers.unlike else ""
        yield (
            f"Bring the own files of {channel} into {overlay}, since runs ask to remove what is not in Git. {differing}"
            f"FOLDER is a new one.\nflux-manifests pull {channel} FOLDER"
        )
    if there and answers.components and answers.components not in there.tree.by_path:
        yield (
            f"Write `componentsFile: {there.components}` for {name} in {CONFIGURATION}: {channel} has no "
            f"{answers.components}, and its adoption would fail."
        )
    if answers.unverified and not is_paused:
        yield (
            f"If clusters do not verify {channel} yet, write `paused: true` below `name: {name}` in {CONFIGURATION}, "
            "or the first run after its first signed digest publishes the newest patch to them."
        )
    failing = "Runs fail until a channel has its first signed digest."
    yield f"Commit the files, and bring them to {answers.place.branch}. {failing}"


def _settings(answers: Answers, at: str, registries: Sequence[str]) -> Iterator[str]:
    """Yield the settings of the repository at this address."""
    branch, environments = answers.place.branch, f"{at}/settings/environments/new"
    if not answers.by_run:
        yield f'Tick "Allow GitHub Actions to create and approve pull requests": {at}/settings/actions'
    yield f"Make the environment {ENVIRONMENT} with required reviewers, for the branch {branch} alone: {environments}"
    yield (
        f"Protect {branch} with a rule that asks for a pull request with a review, since a person who may push a "
        f"workflow there can sign anything: {at}/settings/rules"
    )
    if registries:
        yield _login(answers, at, registries)
    for name in () if answers.keyless else answers.channels:
        yield (
            f"Make the environment {ENVIRONMENT}-{name} for the branch {branch} alone, without reviewers, with the "
            f"secrets COSIGN_KEY (the text of cosign.key) and COSIGN_PASSWORD: {environments}"
        )


def _login(answers: Answers, at: str, registries: Sequence[str]) -> str:
    """Return how runs get a login at registries where the job's own token is none."""
    if len(registries) == 1:
        needed = "the variable REGISTRY_USERNAME and the secret REGISTRY_PASSWORD"
        reader = "REGISTRY_READER and REGISTRY_READER_PASSWORD"
    else:
        needed, reader = "the secret DOCKER_CONFIG_JSON, the text of a config.json", "DOCKER_CONFIG_READER"
    looking = f", and {reader} for the jobs that only look" if answers.keyless else ""  # a call gives those no secret
    return (
        f"Give runs a login at {' and '.join(registries)}: {needed}{looking}: {at}/settings/secrets/actions. In a "
        f"cloud, `provider` takes their place: {answers.docs}/guides/logins.md#registries"
    )


def _first_digests(answers: Answers, run: str) -> Iterator[str]:
    """Yield how each channel gets its first signed digest: a run has to trust those that exist before."""
    first, sources = answers.first[0], dict(answers.waves)
    there = [name for name in answers.channels if answers.has(name)]
    packages = {it.repository: it for name, it in answers.channels.items() if answers.tags[name] != ()}
    for channel in filter(_at_github, packages.values()):  # a package that the workflow makes lets its repository write
        yield (
            f"If others pushed the package before, give {answers.place.repository} the role Write under Manage "
            f"Actions access; the workflow's own package needs none: {_package(channel)}"
        )
    approved = "A reviewer approves the run." if answers.keyless else "A reviewer approves it, or run it in a terminal."
    if first not in there:
        yield f"{run}: command init, artifact {first}, to {answers.version}. {approved}"
    if there:
        promoted = [name for name in there if name in sources]
        before = f" Until then, promotions to {enumerated(promoted)} fail." if promoted else ""
        which = str(answers.channels[there[0]]) if len(there) == 1 else enumerated(there)
        signed = "it" if len(there) == 1 else "them"
        each = f"artifact {'; then artifact '.join(there)}"
        yield f"Adopt {which}, unless this workflow signed {signed}. {run}: command adopt, {each}. {approved}{before}"
    if new := [name for name in sources if name not in there]:
        each = f"artifact {'; then artifact '.join(new)}"
        yield f"{run}: command promote, {each}. The first digest of a channel does not wait. {approved}"


def _package(channel: Reference) -> str:
    """Return the address of the settings of a package."""
    owner, _, package = str(channel.repository).removeprefix(_GHCR).partition("/")
    return f"https://github.com/orgs/{owner}/packages/container/{package.replace('/', '%2F')}/settings"


def _at_github(channel: Reference) -> bool:
    return str(channel).startswith(_GHCR)


def _pulled(answers: Answers, config: Config, *, github: bool) -> tuple[list[Reference], list[str]]:
    """Return which channels of ghcr.io, or of other registries, say nothing of a login, and what makes the Secrets."""
    undecided, secrets = list[Reference](), dict[str, None]()
    for it in map(config.find, answers.channels):
        settings = it.sync or SyncSettings()
        if _at_github(it.channel) is not github or not isinstance(it.channel.repository, OciRepository):
            continue
        source = settings.source
        if _LOGINS.isdisjoint(source):
            undecided.append(it.channel)
            source = {"secretRef": {"name": _PULL}}  # which a person is told to write
        needed = named_secrets(settings.namespace or answers.home, it.channel, source, {})
        secrets |= {each.command: None for each in needed if each.template.startswith("docker-registry")}
    return undecided, [in_clusters(answers, it) for it in secrets]


def _asking(undecided: Iterable[Reference]) -> str:
    hosts = {str(it.repository).removeprefix("oci://").partition("/")[0] for it in undecided}
    return f"If {' or '.join(sorted(hosts))} asks for a login"


def _to_pull(answers: Answers, config: Config, *, github: bool) -> Iterator[str]:
    """Yield how clusters may pull from ghcr.io, or from other registries: with the Secret that their objects name."""
    undecided, commands = _pulled(answers, config, github=github)
    if not commands:
        return
    made = "In each cluster, make the Secret that the objects name,"
    if undecided:
        public = f'Make it public below "Danger Zone": {" and ".join(dict.fromkeys(map(_package, undecided)))}'
        private = f"{public}. If it stays private, run this in each cluster,"
        made = private if github else f"{_asking(undecided)}, make the Secret in each cluster,"
    guide = f"{answers.docs}/guides/clusters.md#three-credentials-each-with-the-least-rights"
    yield "\n".join((f"{made} with a TOKEN that may only pull: {guide}", *commands))


def _later(answers: Answers, *, is_paused: bool) -> Iterator[str]:
    """Yield when the first channel gets newer patches, who applies later changes, and what finds what is missing."""
    if is_paused:
        (name, _), moved = answers.first, "have moved and " if answers.migration else ""
        yield (
            f"{CAREFUL}only when all clusters {moved}verify, delete `paused: true` below `name: {name}` in "
            f"{CONFIGURATION}, and bring that to {answers.place.branch}. The next run publishes the newest patch."
        )
    yield (
        f"Later: no Kustomization applies {answers.objects}. When a file there changes, by `setup` or by hand, apply "
        f"it to each cluster of its CHANNEL, one first.\nkubectl apply -f {answers.objects}/CHANNEL"
    )
    yield f"{_LOOK} If something fails: {answers.docs}/guides/troubleshooting.md\n{_DOCTOR}"
