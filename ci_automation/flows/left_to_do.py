"""The list that `setup` prints at its end: settings, runs and commands that are left to a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.flows.left_to_migrate import left_before_commit, left_for_clusters
from ci_automation.flows.setup import CONFIGURATION, ENVIRONMENT, PUBLIC_KEY

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.answers import Answers
    from ci_automation.flows.cluster_folders import Migration

_GHCR = "oci://ghcr.io/"
_PULL = "pull-flux-manifests"  # the Secret, as docs/guides/clusters.md has it


def left_to_do(
    answers: Answers,
    *,
    there: Mapping[str, bool | None],
    newest: str,
    migration: Migration | None = None,
    declined: Sequence[str] = (),
) -> Iterator[str]:
    """Yield what a person still does.

    `there`: which of the channels have a digest? None: not known. The channels begin with the version `newest`.
    `migration` is about clusters that `flux bootstrap` set up. `declined` are the files that the person left alone.
    """
    at = f"{answers.place.server}/{answers.place.repository}"
    run = f"Run workflow at {at}/actions/workflows/flux.yaml"
    if declined:
        yield f"Bring the differences above into {', '.join(declined)}: the rest of this list needs them."
    action = f"{answers.place.server}/{answers.action.partition('@')[0]}"
    yield (
        f"See that {action} has this project with its whole history. If it is private, let your repositories use it: "
        f"{action}/settings/actions, Access. Workflows run it at the commit behind each `@`; for another, such as your "
        f"checkout's, run this `setup` again with `--action {answers.action.partition('@')[0]}@COMMIT`."
    )
    if not answers.keyless:
        yield f"Make a key: `cosign generate-key-pair`. Move {PUBLIC_KEY} here; the other half becomes a secret below."
    yield from left_before_commit(answers, migration) if migration else ()
    yield f"Commit the files, and bring them to {answers.place.branch}."
    yield from _settings(answers, at)
    packages = {answers.channels[name].repository for name, is_there in there.items() if is_there}
    name, channel = answers.first
    first = _first(answers, run, newest, there=there[name])
    yield from _with_role(answers, channel, first, packages)
    yield from _promoted(answers, run, there, packages)
    yield from _secret(answers)
    yield from left_for_clusters(answers, migration) if migration else (_followed(answers),)
    yield "Look for what is missing, in this clone: `GITHUB_TOKEN=$(gh auth token) flux-manifests doctor`"


def _followed(answers: Answers) -> str:
    """Return how clusters come to follow their channels."""
    several = bool(answers.waves)
    each = " of each channel" if several else ""
    alone = " A cluster applies the folder of one channel: the objects of all have the same names." if several else ""
    return (
        f"After the first green run{each}, for each cluster, one cluster first: `kubectl apply -f "
        f"{answers.objects}/{'CHANNEL' if several else answers.first[0]}`.{alone} A cluster that follows the channel "
        "already needs the `verify` block alone: a second Kustomization over the same objects would fight with its "
        f"own. A cluster without Flux needs Flux before that: {answers.docs}/guides/clusters.md#the-first-installation"
    )


def _settings(answers: Answers, at: str) -> Iterator[str]:
    """Yield the settings of the repository at this address."""
    branch, environments = answers.place.branch, f"{at}/settings/environments/new"
    if not answers.by_run:
        yield f'Tick "Allow GitHub Actions to create and approve pull requests": {at}/settings/actions'
    yield (f"Make the environment {ENVIRONMENT} with required reviewers, for the branch {branch} alone: {environments}")
    yield (
        f"Protect {branch} with a rule that asks for a pull request with a review, since a person who may push a "
        f"workflow there can sign anything: {at}/settings/rules"
    )
    if not answers.keyless:
        names = [f"{ENVIRONMENT}-{name}" for name in answers.channels]
        yield (
            f"Make the environment{'s' if names[1:] else ''} {', '.join(names)} for the branch {branch} alone, without "
            f"reviewers, with the secrets COSIGN_KEY (the text of cosign.key) and COSIGN_PASSWORD: {environments}"
        )


def _promoted(
    answers: Answers, run: str, there: Mapping[str, bool | None], packages: Collection[object]
) -> Iterator[str]:
    """Yield how each promoted channel gets its next digest: a run has to trust those that exist before."""
    known = {answers.first[1].repository}
    for name, source in sorted(answers.waves, key=lambda wave: there[wave[0]] is not True):
        channel = answers.channels[name]
        line = (
            f"{answers.after} after {source} got its first digest: {run}: command promote, artifact {name}; a reviewer "
            f"approves the run. To go on at once, write `after: 0h` for {name} until then."
        )
        if there[name]:
            line = (
                f"{channel} is there. If this workflow did not sign it: {run}: command adopt, artifact {name}; a "
                f"reviewer approves the run. Before that, promotions to {name} fail. From then on, runs promote or ask."
            )
        elif there[name] is None:
            line += f" If {channel} is there already, take the command adopt in place of promote."
        yield from [line] if channel.repository in known else _with_role(answers, channel, line, packages)
        known.add(channel.repository)


def _first(answers: Answers, run: str, newest: str, *, there: bool | None) -> str:
    """Return how the first channel gets its first signed digest."""
    name, channel = answers.first
    made = f"{run}: command init, artifact {name}, to {newest}; a reviewer approves the run."
    if there:
        adopted = f"{run}: command adopt, artifact {name}; a reviewer approves the run."
        return f"{channel} is there. If this workflow did not sign it: {adopted}"
    made += " Runs before that fail: they find no channel."
    if there is None:
        before = "give the role of the next step first, and " if _at_github(channel) else ""
        return f"{made} If {channel} is there already, {before}take the command adopt in place of init."
    return made


def _secret(answers: Answers) -> Iterator[str]:
    """Yield how clusters may pull, where a new package is private."""
    if any(map(_at_github, answers.channels.values())):
        yield (
            "A new package is private, and clusters cannot pull it. Make it public (Package settings, Danger Zone). Or "
            f"write `sync: {{source: {{secretRef: {{name: {_PULL}}}}}}}` below `defaults` of {CONFIGURATION}, run the "
            "same `setup` again, and make the Secret in each cluster: `kubectl -n flux-system create secret "
            f"docker-registry {_PULL} --docker-server=ghcr.io --docker-username=USER --docker-password=TOKEN`. What "
            f"TOKEN needs: {answers.docs}/guides/clusters.md#three-credentials-each-with-the-least-rights"
        )


def _at_github(channel: Reference) -> bool:
    return str(channel).startswith(_GHCR)


def _with_role(answers: Answers, channel: Reference, line: str, packages: Collection[object]) -> Iterator[str]:
    """Yield how a channel gets its digest, and that its package needs the repository's role Write, where GitHub has it.

    One of the `packages` that exist needs the role before a run can write to it. The run that makes a package has it.
    """
    lines = [line]
    if _at_github(channel):
        owner, _, package = str(channel.repository).removeprefix(_GHCR).partition("/")
        role = (
            f"Give {answers.place.repository} the role Write, under Manage Actions access: "
            f"https://github.com/orgs/{owner}/packages/container/{package.replace('/', '%2F')}/settings"
        )
        lines.insert(0 if channel.repository in packages else 1, role)
    yield from lines
