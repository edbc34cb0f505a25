"""The steps by which clusters come from `flux bootstrap` to their channels, in the list of `setup`.

A channel's clusters move one first, then the others, by a loop over their names. The file `CLUSTERS` has these, which
are the names of their contexts for kubectl and flux too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.flows.setting_up.answers import CLUSTERS
from ci_automation.flows.setting_up.commands import READY, Block, chain, changed_prune, in_each
from ci_automation.flows.setting_up.todo import CAREFUL
from ci_automation.impact.overlay.bootstrapped import COMPONENTS, SYNC, patches_of_sync

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci_automation.flows.setting_up.answers import Answers
    from ci_automation.flows.setting_up.cluster_folders import Migration


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
