"""The steps by which clusters come to verify and follow a channel, from `flux bootstrap` too, in the list of `setup`.

A channel's clusters move one first, then the others, by a loop over their names. The file `CLUSTERS` has these, which
are the names of their contexts for kubectl and flux too.
"""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

from ci_automation.flows.setting_up.answers import CLUSTERS, CONFIGURATION, Answers
from ci_automation.flows.setting_up.differing import enumerated, left_to_settle
from ci_automation.flows.setting_up.files import PUBLIC_KEY, cluster_trust
from ci_automation.impact.overlay.bootstrapped import COMPONENTS, SYNC, patches_of_sync
from ci_automation.report.sync import ByKey, verify_block

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci_automation.flows.setting_up.cluster_folders import Migration


READY = "wait ocirepository,kustomization flux-manifests --for=condition=Ready --timeout=5m"  # of kubectl


def left_to_verify(answers: Answers) -> Iterator[str]:
    """Yield how clusters come to verify the channels that are there."""
    if not (there := {name: it for name, it in answers.channels.items() if answers.has(name)}):
        return
    yield "Look for NAMESPACE and NAME of the OCIRepository in these clusters: `kubectl get ocirepositories -A`"
    yield from left_to_trust(answers, "NAMESPACE")
    guide = f"{answers.docs}/guides/from-a-script.md#what-can-go-wrong"
    verify = shlex.quote(json.dumps({"spec": {"verify": verify_block(cluster_trust(answers))}}))
    for channel in there.values():
        yield (
            f"Once {channel} is adopted, let one cluster verify, then the others. If Git has the OCIRepository, write "
            f"`verify` there instead. If it fails: {guide}\n"
            f"kubectl -n NAMESPACE patch ocirepository NAME --type merge --patch {verify}\n"
            "kubectl -n NAMESPACE wait ocirepository NAME --for=condition=SourceVerified --timeout=5m"
        )
    if answers.first[0] in there:
        yield f"When clusters of {answers.first[0]} verify, delete its line `paused: true` again, if it has one."


def left_to_follow(answers: Answers) -> Iterator[str]:
    """Yield how clusters come to follow their channels."""
    home = answers.home
    yield from left_to_trust(answers, home)
    yield f"A cluster without Flux gets it first: {answers.docs}/guides/clusters.md#the-first-installation"
    kubectl = f"kubectl -n {home}"
    for name in answers.channels:
        yield (
            f"In each cluster of {name} that has Flux and follows no channel yet, one first. If it fails, "
            f"`{kubectl} get ocirepositories,kustomizations` says why.\n"
            f"kubectl apply -f {answers.objects}/{name}\n"
            f"{kubectl} {READY}"
        )


def left_to_trust(answers: Answers, namespace: str) -> Iterator[str]:
    """Yield how clusters get the public key, if runs sign with one."""
    if isinstance(by := cluster_trust(answers), ByKey):
        secret = f"flux-manifests public-key {PUBLIC_KEY} --secret {by.secret} --namespace {namespace}"
        made = in_clusters(answers, f"{secret} | kubectl apply -f -")
        yield f"In each cluster, make the Secret with the public key.\n{made}"


def left_before_commit(answers: Answers, migration: Migration) -> Iterator[str]:
    """Yield what a person looks at and changes in Git before the files are committed."""
    guide, source = f"{answers.docs}/guides/migration.md", migration.source
    for path, reason in migration.unfit.items():
        yield f"`flux bootstrap` made {path} too, and this list leaves it out: {reason}. What it has to be: {guide}"
    if answers.overlay and source in migration.every:
        arguments = [f"--{flag}={_written(value)}" for flag, value in source.flags.items()]
        command = shlex.join(("flux-manifests", "render", "--flux-version", str(source.version), *arguments))
        yield (
            f"Read {answers.overlay}: it has the files of {source.path} without {SYNC} and {COMPONENTS}, which each "
            "run renders. Add as patches what this prints, if anything.\n"
            f"{command} | diff - {source.path}/{COMPONENTS}"
        )
        if stray := [f"{answers.overlay}/{place}" for place in patches_of_sync(source.overlay)]:
            patches = f"Take the patches at {enumerated(stray)} out of {answers.overlay}"
            yield f"{patches}: they are for the objects in {SYNC}."
    for channel in migration.moving:
        if beside := [it.path for it in migration.folders.get(channel, ()) if it.patches_beside(source)]:
            yield (
                f"Read `sync` of {channel} in {CONFIGURATION}: it has the patches that the artifact lacks, from "
                f"{enumerated(beside)}."
            )
    yield from left_to_settle(answers, migration)
    if migration.moving and any(by.prune for folder in migration.every for by in folder.applied):
        edit = in_each(answers, [_prune(migration, "true", "false")])
        why = f"or Flux can delete itself once {COMPONENTS} is gone"
        yield f"Set `prune: false` for the clusters that move, {why}.\n{edit}"


def left_to_name(answers: Answers) -> Iterator[str]:
    """Yield how commands come to know the clusters by the names that the list has for them, and clusters the key."""
    yield from _behind(answers)
    if answers.migration and answers.migration.moving:
        yield (
            "Give the contexts of kubectl and flux the names that clusters have below: `kubectl config rename-context "
            "OLD NAME`. This stops at one that is missing.\n"
            f"{in_each(answers, ['kubectl config get-contexts $it > /dev/null'])}"
        )
        yield from left_to_trust(answers, answers.home)


def _behind(answers: Answers) -> Iterator[str]:
    """Yield which channels that are there, or get what is there, have an older Flux than their clusters in Git."""
    sources = dict(answers.waves)
    for channel, folders in answers.migration.folders.items() if answers.migration else ():
        holder = channel if channel in answers.existing else answers.first[0]
        has, newest = answers.existing.get(holder), max(it.version for it in folders)
        if has and has.version < newest:
            how = "let a run publish it, or approve its request"
            how = f"promote it from {sources[channel]}" if channel in sources else how
            yield (
                f"Bring {channel} to {newest} or later before a cluster moves, or the cluster goes back: {holder} has "
                f"{has.version}, and Git {newest}. To do that, {how}."
            )


def left_for_clusters(answers: Answers, migration: Migration) -> dict[str, Iterable[str]]:
    """Return how the clusters of each channel come from Git to the artifact, by the titles of the sections."""
    sections: dict[str, Iterable[str]] = {
        f"Clusters of {channel}, when {channel} has its first digest": _moved(answers, channel, migration)
        for channel in migration.moving
    }
    guide = f"{answers.docs}/guides/clusters.md#the-first-installation"
    without = [f"A cluster without Flux gets it from a channel, and follows that from then on: {guide}"]
    return sections | ({"Other clusters": without} if answers.channels.keys() - migration.folders.keys() else {})


def _moved(answers: Answers, channel: str, migration: Migration) -> Iterator[str]:
    """Yield how the clusters of a channel come to it.

    Runs keep the channel current meanwhile, so Git applies nothing until the folders no longer have Flux.
    """
    source, (first, *others) = migration.source, migration.moving[channel]
    git = [f"-n {by.namespace} {{}} kustomization {by.name}" for by in source.applied]
    prunes_not = "--for=jsonpath='{.spec.prune}'=false --timeout=15m"
    commands = (
        *(f"kubectl --context $it {one.format('wait')} {prunes_not}" for one in git),
        *(f"flux --context $it {one.format('suspend')}" for one in git),
        f"kubectl --context $it apply -f {answers.objects}/{channel}",
        f"kubectl --context $it -n {source.options.namespace} {READY}",
    )
    page = f"{answers.docs}/tutorials/from-bootstrap.md#when-a-command-fails"
    yield (
        f"Move {first}{' first' if others else ''}. Git applies nothing there until it is resumed below, or it would "
        f"take back newer patches. When a command fails: {page}\n{chain(commands).replace('$it', first)}"
    )
    if others:
        loop = in_each(answers, commands, channel)
        yield f"Then the others, one after the other, until a command fails: {', '.join(others)}.\n{loop}"
    yield from _left_by_git(answers, channel, migration)


def _left_by_git(answers: Answers, channel: str, migration: Migration) -> Iterator[str]:
    """Yield how Git gives up Flux, and applies the rest again."""
    path, branch = migration.names.path("$it"), answers.place.branch
    folders = (migration.source, *migration.folders.get(channel, ()))
    own = any(patches_of_sync(folder.overlay) for folder in folders)
    kept = f" In each kustomization.yaml leave only {SYNC}, and your patches of the objects in it." if own else ""
    removal = (
        f'git rm -qr --ignore-unmatch {path} ":(exclude){path}/{SYNC}" ":(exclude){path}/kustomization.yaml"',
        *(() if own else (f"echo 'resources: [{SYNC}]' > {path}/kustomization.yaml",)),
        f"git add {path}",
    )
    loop = in_each(answers, removal, channel)
    yield f"In Git, delete Flux from their folders, and bring that to {branch}.{kept}\n{loop}"
    if applied := migration.source.applied:
        resumed = (
            f"! git cat-file -e FETCH_HEAD:{path}/{COMPONENTS} 2> /dev/null",
            *(f"flux --context $it -n {by.namespace} reconcile source git {by.source}" for by in applied),
            *(f"flux --context $it -n {by.namespace} resume kustomization {by.name}" for by in applied),
        )
        yield (
            f"Let Git apply the rest again. This stops where the folder still has {COMPONENTS} on {branch}.\n"
            f"{chain((f'git fetch -q origin {branch}', in_each(answers, resumed, channel)))}"
        )
    edit = in_each(answers, [_prune(migration, "false", "true")], channel)
    if "|| break" in edit:  # which would be a success for what follows
        edit = f"({edit.replace('|| break', '|| exit 1')})"
    yield (
        f"Set `prune: true` again, and bring that to {branch}. Never run `flux bootstrap` for them again.\n{edit} &&\n"
        f"git rm -qf {answers.objects}/{channel}/{CLUSTERS}"
    )


def _prune(migration: Migration, before: str, after: str) -> str:
    """Return the command that changes whether Git prunes for a cluster."""
    sync = migration.names.path("$it") + f"/{SYNC}"
    return f"sed -i.bak 's/prune: {before}/prune: {after}/' {sync} &&\nrm {sync}.bak && git add {sync}"


def _written(value: object) -> object:
    return ",".join(value) if isinstance(value, list) else str(value).lower() if isinstance(value, bool) else value


def in_clusters(answers: Answers, command: str) -> str:
    """Return a command with kubectl for each cluster: in a loop where a list has their names."""
    if answers.migration and answers.migration.moving:
        return in_each(answers, [command.replace("kubectl ", "kubectl --context $it ")])
    return command


def in_each(answers: Answers, commands: Iterable[str], channel: str = "*") -> str:
    """Return a loop of commands on `$it` over the clusters of a channel, or of all; of just one the commands alone.

    The loop ends at the first command that fails.
    """
    names = answers.migration.moving[channel] if answers.migration and channel != "*" else answers.moving
    if len(names) == 1:
        return chain(commands).replace("$it", names[0])
    body = chain(('echo "$it:"', *commands)).replace("\n", "\n  ")
    return f"for it in $(cat {answers.objects}/{channel}/{CLUSTERS}); do\n  {body} || break\ndone"


def chain(commands: Iterable[str]) -> str:
    """Return commands of which each runs if the one before succeeded."""
    return " &&\n".join(commands)
