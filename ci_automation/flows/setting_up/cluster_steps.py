"""The steps by which clusters come to verify and follow a channel, and from `flux bootstrap` to it, in the list.

A channel's clusters move one first, then the others, by a loop over their names. The file `CLUSTERS` has these, which
are the names of their contexts for kubectl and flux too.
"""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

from ci_automation.flows.setting_up.answers import CLUSTERS, CONFIGURATION, Answers
from ci_automation.flows.setting_up.cluster_folders import as_arguments
from ci_automation.flows.setting_up.differing import enumerated, left_to_settle
from ci_automation.flows.setting_up.files import PUBLIC_KEY, cluster_trust
from ci_automation.flows.setting_up.todo import (
    CAREFUL,
    READY,
    Block,
    chain,
    changed_prune,
    in_clusters,
    in_each,
)
from ci_automation.impact.overlay.bootstrapped import COMPONENTS, SYNC, patches_of_sync
from ci_automation.report.sync import ByKey, verify_block

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci_automation.flows.setting_up.cluster_folders import Migration


def left_to_verify(answers: Answers) -> Iterator[str]:
    """Yield how clusters come to verify the channels that are there."""
    if not (there := {name: it for name, it in answers.channels.items() if answers.has(name)}):
        return
    yield "Look for NAMESPACE and NAME of the OCIRepository in these clusters: `kubectl get ocirepositories -A`"
    yield from left_to_trust(answers, "NAMESPACE")
    guide = f"{answers.docs}/guides/from-a-script.md#what-can-go-wrong"
    verify = shlex.quote(json.dumps({"spec": {"verify": verify_block(cluster_trust(answers))}}))
    adopted = f"{next(iter(there.values()))} is adopted" if len(there) == 1 else "their channel is adopted"
    yield (
        f"Once {adopted}, let one cluster verify, then the others. If Git has the OCIRepository, write "
        f"`verify` there instead. If it fails: {guide}\n"
        f"kubectl -n NAMESPACE patch ocirepository NAME --type merge --patch {verify}\n"
        "kubectl -n NAMESPACE wait ocirepository NAME --for=condition=SourceVerified --timeout=5m"
    )


def left_to_follow(answers: Answers) -> Iterator[str]:
    """Yield how clusters come to follow their channels."""
    home = answers.home
    yield from left_to_trust(answers, home)
    yield f"A cluster without Flux gets it first: {answers.docs}/guides/clusters.md#the-first-installation"
    kubectl, block = f"kubectl -n {home}", Block(tuple(answers.channels))
    yield block.step(
        f"In each cluster {block.order} that has Flux and follows no channel yet, one first. If it fails, "
        f"`{kubectl} get ocirepositories,kustomizations` says why.",
        f"kubectl apply -f {answers.objects}/{block.channel}\n{kubectl} {READY}",
    )


def left_to_trust(answers: Answers, namespace: str) -> Iterator[str]:
    """Yield how clusters get the public key, if runs sign with one."""
    if isinstance(by := cluster_trust(answers), ByKey):
        secret = f"flux-manifests public-key {PUBLIC_KEY} --secret {by.secret} --namespace {namespace}"
        made = in_clusters(answers, f"{secret} | kubectl apply -f -")
        yield f"In each cluster, make the Secret with the public key.\n{made}"


def left_to_decide(answers: Answers, migration: Migration) -> Iterator[str]:
    """Yield what a person decides about folders in Git before the list goes on."""
    guide = f"{answers.docs}/guides/migration.md"
    for path, reason in migration.unfit.items():
        yield f"`flux bootstrap` made {path} too, and this list leaves it out: {reason}. What it has to be: {guide}"
    yield from left_to_settle(answers, migration)


def left_before_commit(answers: Answers, migration: Migration) -> Iterator[str]:
    """Yield what a person looks at and changes in Git before the files are committed."""
    source = migration.source
    if answers.overlay and source in migration.every:
        words = ("flux-manifests", "render", "--flux-version", str(source.version), *as_arguments(source.flags))
        command = shlex.join(words)
        yield (
            f"Read {answers.overlay}: it has the files of {source.path} without {SYNC} and {COMPONENTS}, which each "
            "run renders. Add as patches what this prints, if anything.\n"
            f"{command} | diff - {source.path}/{COMPONENTS}"
        )
        if stray := [f"{answers.overlay}/{place}" for place in patches_of_sync(source.overlay)]:
            patches = f"Take the patches at {enumerated(stray)} out of {answers.overlay}"
            yield f"{patches}: they are for the objects in {SYNC}."
    for channel in migration.moving:
        there = (it for it in migration.folders.get(channel, ()) if not migration.lacking(it, channel))
        if beside := [it.path for it in there if it.patches_beside(source)]:
            yield (
                f"Read `sync` of {channel} in {CONFIGURATION}: it has the patches that the artifact lacks, from "
                f"{enumerated(beside)}."
            )
    if migration.moving and any(by.prune for folder in migration.every for by in folder.applied):
        edit = in_each(answers, [changed_prune(migration, "true", "false")])
        why = f"or Flux can delete itself once {COMPONENTS} is gone"
        yield f"{CAREFUL}set `prune: false` for the clusters that move, {why}.\n{edit}"


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
    """Return how the clusters of the channels come from Git to the artifact, by the titles of the sections."""
    sections: dict[str, Iterable[str]] = {}
    if migration.moving:
        block = Block(tuple(migration.moving))
        each = "each when it" if len(block.channels) > 1 else f"when {block.channel}"
        sections[f"Clusters {block.order}, {each} has its first digest"] = _moved(answers, block, migration)
    guide = f"{answers.docs}/guides/clusters.md#the-first-installation"
    without = [f"A cluster without Flux gets it from a channel, and follows that from then on: {guide}"]
    return sections | ({"Other clusters": without} if answers.channels.keys() - migration.folders.keys() else {})


def _moved(answers: Answers, block: Block, migration: Migration) -> Iterator[str]:
    """Yield how the clusters of these channels come to them.

    Runs keep a channel current meanwhile, so Git applies nothing until the folders no longer have Flux.
    """
    source, (first, *others) = migration.source, block.channels
    git = [f"-n {by.namespace} {{}} kustomization {by.name}" for by in source.applied]
    prunes_not = "--for=jsonpath='{.spec.prune}'=false --timeout=15m"
    commands = (
        *(f"kubectl --context $it {one.format('wait')} {prunes_not}" for one in git),
        *(f"flux --context $it {one.format('suspend')}" for one in git),
        f"kubectl --context $it apply -f {answers.objects}/{block.channel}",
        f"kubectl --context $it -n {source.options.namespace} {READY}",
    )
    loop = in_each(answers, commands, block.channel)
    begin = f"Do this section for {first}, then for CHANNEL={' and CHANNEL='.join(others)}. " if others else ""
    why = "Git applies nothing there until it is resumed below, or it would take back newer patches."
    failing = f"When a command fails: {answers.docs}/tutorials/from-bootstrap.md#when-a-command-fails"
    if any(len(names) > 1 for names in migration.moving.values()):
        rest = "Look at it, and paste this with MOST=999 for the others."
        loop = loop.replace("$(cat ", "$(head -n $MOST ")
        yield block.step(f"{begin}Move one cluster. {why} {rest} {failing}", loop, "MOST=1")
    else:
        which = "its cluster" if others else migration.moving[first][0]
        yield block.step(f"{begin}Move {which}. {why} {failing}", loop)
    yield from _left_by_git(answers, block, migration)


def _left_by_git(answers: Answers, block: Block, migration: Migration) -> Iterator[str]:
    """Yield how Git gives up Flux, and applies the rest again."""
    path, branch, channel = migration.names.path("$it"), answers.place.branch, block.channel
    moving, own = [it for names in migration.moving.values() for it in names], _with_own_patches(migration)
    whose = "each kustomization.yaml" if len(own) == len(moving) else f"kustomization.yaml of {', '.join(own)}"
    kept = f" In {whose} leave only {SYNC}, and your patches of the objects in it." if own else ""
    only = f"echo 'resources: [{SYNC}]' > {path}/kustomization.yaml"
    spared = f"case $it in {'|'.join(own)}) ;; *) {only} ;; esac" if own else only
    removal = (
        f'git rm -qr --ignore-unmatch {path} ":(exclude){path}/{SYNC}" ":(exclude){path}/kustomization.yaml"',
        *(() if len(own) == len(moving) else (spared,)),
        f"git add {path}",
    )
    loop = in_each(answers, removal, channel)
    yield block.step(f"In Git, delete Flux from their folders, and bring that to {branch}.{kept}", loop)
    if applied := migration.source.applied:
        resumed = (
            f"! git cat-file -e FETCH_HEAD:{path}/{COMPONENTS} 2> /dev/null",
            *(f"flux --context $it -n {by.namespace} reconcile source git {by.source}" for by in applied),
            *(f"flux --context $it -n {by.namespace} resume kustomization {by.name}" for by in applied),
        )
        yield block.step(
            f"Let Git apply the rest again. This stops where the folder still has {COMPONENTS} on {branch}.",
            chain((f"git fetch -q origin {branch}", in_each(answers, resumed, channel))),
        )
    edit = in_each(answers, [changed_prune(migration, "false", "true")], channel)
    if "|| break" in edit:  # which would be a success for what follows
        edit = f"({edit.replace('|| break', '|| exit 1')})"
    yield block.step(
        f"{CAREFUL}only after the step before, or Flux deletes itself, set `prune: true` again, and bring that to "
        f"{branch}. Never run `flux bootstrap` for them again.",
        f"{edit} &&\ngit rm -qf {answers.objects}/{channel}/{CLUSTERS}",
    )


def _with_own_patches(migration: Migration) -> list[str]:
    """Return the clusters that move whose kustomization has, or may have, patches of the objects in `SYNC`."""
    own = {migration.names.name(it.path): bool(patches_of_sync(it.overlay)) for it in migration.every}
    if not any((patches_of_sync(migration.source.overlay), *own.values())):
        return []
    moving = (name for names in migration.moving.values() for name in names)
    return [name for name in moving if own.get(name, True)]  # a folder without Flux is not read
