"""The steps by which clusters come to verify and follow a channel, and move from `flux bootstrap` to it, in the list.

A channel's clusters move one first, then the others, by a loop over their names. The file `CLUSTERS` has these, and
their contexts for kubectl and flux if they have other names.
"""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

from ci_automation.flows.setting_up.answers import CLUSTERS, CONFIGURATION, Answers
from ci_automation.flows.setting_up.cluster_folders import own_patches
from ci_automation.flows.setting_up.configuration import PUBLIC_KEY
from ci_automation.flows.setting_up.differing import enumerated, left_to_settle
from ci_automation.flows.setting_up.files import cluster_trust
from ci_automation.flows.setting_up.todo import CAREFUL, NAMES, READY, Block, chain, changed_prune, in_clusters, in_each
from ci_automation.flux.options import as_arguments
from ci_automation.impact.overlay.bootstrapped import COMPONENTS, SYNC, patches_of_sync
from ci_automation.impact.overlay.kustomization import listed_at
from ci_automation.report.sync import ByKey, verify_block

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci_automation.flows.setting_up.cluster_folders import Migration
    from ci_automation.flux.version import Version

_SAME = " With it, kustomize builds the same objects."
_BUILT = " With it, kustomize builds the same objects for {}; the others differ from that in the values alone."
_UNPROVEN = (
    " There is no kustomize here, so nothing proves that clusters get the same objects: build both yourself, or run "
    "`setup` again on Linux with kustomize 5."
)


def left_to_verify(answers: Answers) -> Iterator[str]:
    """Yield how clusters come to verify the channels that are there."""
    if not (there := answers.to_adopt):
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
    guide = answers.early_page("guides/migration.md")
    for path, reason in migration.unfit.items():
        yield f"`flux bootstrap` made {path} too, and this list leaves it out: {reason}. What it has to be: {guide}"
    for channel in migration.written:
        for problem in migration.not_fitting(channel):
            then = "If that is a mistake, correct it, and run `setup` again."
            yield f"Look at `sync` of {channel} in {CONFIGURATION}: {problem}. {then}"
    yield from left_to_settle(answers, migration)


def left_before_commit(answers: Answers, migration: Migration) -> Iterator[str]:
    """Yield what a person looks at and changes in Git before the files are committed."""
    source = migration.source
    edits = _edits(answers, migration)
    if answers.overlay and source in migration.every:
        yield (
            f"Read {answers.overlay}: it has the files of {source.path} without {SYNC} and {COMPONENTS}, which each "
            f"run renders. {edits}"
        )
        if stray := [f"{answers.overlay}/{place}" for place in patches_of_sync(source.overlay)]:
            patches = f"Take the patches at {enumerated(stray)} out of {answers.overlay}"
            yield f"{patches}: they are for the objects in {SYNC}."
    elif edits:
        yield f"Runs render {COMPONENTS}. {edits}"
    yield from _own_values(answers, migration)
    yield from _left_to_read(migration)
    if migration.moving and any(by.prune for folder in migration.every for by in folder.applied):
        edit = in_each(answers, [changed_prune(migration, "true", "false")])
        why = f"or Flux can delete itself once {COMPONENTS} is gone"
        yield f"{CAREFUL}set `prune: false` for the clusters that move, {why}.\n{edit}"


def _edits(answers: Answers, migration: Migration) -> str:
    """Return how a person finds what was edited in the components of the source, and of what is not built like it."""
    source, name = migration.source, migration.names.name
    one_each = {source.files[COMPONENTS]: source}
    for channel, there in migration.folders.items():
        for it in there:
            if name(it.path) not in answers.moving or it.files[COMPONENTS] in one_each:
                continue
            if it.version != source.version or migration.unlike(it, migration.gets(it, channel)) != ():
                one_each[it.files[COMPONENTS]] = it
    commands = []
    for it in filter(migration.every.__contains__, one_each.values()):
        words = ("flux-manifests", "render", "--flux-version", str(it.version), *as_arguments(it.flags))
        commands.append(f"made=$({shlex.join(words)}) &&\ndiff <(printf '%s\\n' \"$made\") {it.path}/{COMPONENTS}")
    whose = ", to `sync` of its channel if only that has it" if len(commands) > 1 else ""
    return "\n".join((f"Add as patches what this prints, if anything{whose}.", *commands)) if commands else ""


def _own_values(answers: Answers, migration: Migration) -> Iterator[str]:
    """Yield which clusters keep values of their own in one channel with others."""
    own = [
        it
        for channel, there in migration.folders.items()
        for it in there
        if it.path in migration.values and migration.own(it, channel)
    ]
    if not own:
        return
    source, names = migration.source.path, migration.names
    places = enumerated(sorted({place for it in own for place in migration.values[it.path].places}))
    built = _UNPROVEN if migration.kustomize is None else _BUILT.format(names.name(own[0].path))
    differ = "folders differ" if len(own) > 1 else "folder differs"
    yield (
        f"{len(own)} {differ} from {source} only in the value of {places}. They need no channels of their own: the "
        f"artifact has the value of {source}, and `setup` wrote that of each cluster as a patch into "
        f"{answers.objects}/CHANNEL/NAME/sync.yaml, which the cluster applies in place of the objects of its channel. "
        f"Read one.{built} More: {answers.docs}/guides/one-cluster-differs.md#a-value-of-each-cluster"
    )


def _left_to_read(migration: Migration) -> Iterator[str]:
    """Yield what a person looks at where clusters move although their folders differ from the source."""
    for channel in migration.moving:
        own, there = migration.kustomization(channel), migration.folders.get(channel, ())
        usual = [it for it in there if not migration.own(it, channel)]
        unlike = [it for it in usual if any(it.differs(migration.source)) and not migration.lacking(it, channel)]
        same = all(migration.unlike(it, own) == () for it in unlike)
        paths = enumerated(it.path for it in unlike) if unlike else ""
        if unlike and (listed_at(own, "patches") or listed_at(own, "images")):
            is_patch = all(map(migration.beside, unlike)) and not listed_at(own, "images")
            what = "the patches that" if is_patch else "what"
            built = _UNPROVEN if migration.kustomize is None else _SAME if same else ""
            yield f"Read `sync` of {channel} in {CONFIGURATION}: it has {what} the artifact lacks, from {paths}.{built}"
        elif unlike:
            yield f"Look at what differs in {paths}: kustomize builds the same objects as of {migration.source.path}."


def left_to_name(answers: Answers) -> Iterator[str]:
    """Yield how commands come to know the clusters by the names that the list has for them, and clusters the key."""
    yield from _behind(answers)
    if answers.migration and answers.migration.moving:
        lists = f"{answers.objects}/CHANNEL/{CLUSTERS}"
        yield (
            f"Where kubectl and flux know a cluster by another name, write that CONTEXT after it in {lists}, as `NAME "
            f"CONTEXT`, and run `setup` again. This stops at a context that is missing.\n"
            f"{in_each(answers, ['kubectl config get-contexts $at > /dev/null'])}"
        )
        yield from left_to_trust(answers, answers.home)


def _behind(answers: Answers) -> Iterator[str]:
    """Yield which channels that are there have an older Flux than the clusters in Git that get what they have."""
    sources = dict(answers.waves)
    newest: dict[str, Version] = {}
    for name, folders in answers.migration.folders.items() if answers.migration else ():
        holder = answers.holder(name)
        newest[holder] = max(newest.get(holder, folders[0].version), *(it.version for it in folders))
    for holder, has in answers.existing.items():
        if has.version < (wanted := newest.get(holder, has.version)):
            how = "let a run publish it, or approve its request"
            how = f"promote it from {sources[holder]}" if holder in sources else how
            yield (
                f"Bring {holder} to {wanted} or later before a cluster moves, or the cluster goes back: it has "
                f"{has.version}, and Git {wanted}. To do that, {how}. Then run `setup` again."
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
        *(f"kubectl --context $at {one.format('wait')} {prunes_not}" for one in git),
        *(f"flux --context $at {one.format('suspend')}" for one in git),
        *_applied(answers, block),
        f"kubectl --context $at -n {source.options.namespace} {READY}",
    )
    loop = in_each(answers, commands, block.channel)
    then = enumerated(f"CHANNEL={it}" for it in others) if others else ""
    begin = f"Do this section for {first}, then with {then} here. " if others else ""
    why = "Git applies nothing there until it is resumed below, or it would take back newer patches."
    failing = f"When a command fails: {answers.docs}/tutorials/from-bootstrap.md#when-a-command-fails"
    if any(len(names) > 1 for names in migration.moving.values()):
        rest = "Look at it, and paste this with MOST=999 for the others."
        loop = loop.replace(NAMES, "awk -v most=$MOST 'NR <= most {print $1}'")
        yield block.step(f"{begin}Move one cluster. {why} {rest} {failing}", loop, "MOST=1")
    else:
        which = "its cluster" if others else migration.moving[first][0]
        yield block.step(f"{begin}Move {which}. {why} {failing}", loop)
    yield from _left_by_git(answers, block, migration)


def _applied(answers: Answers, block: Block) -> Iterator[str]:
    """Yield the commands by which a cluster follows its channel, by objects of its own if it has some."""
    at = f"{answers.objects}/{block.channel}"
    own = {cluster for name in block.channels for cluster in own_patches(answers, name)}
    moving = {it for names in answers.migration.moving.values() for it in names} if answers.migration else set()
    if not own.isdisjoint(moving):
        yield f"own={at}/$it && {{ [ -d $own ] || own={at}; }}"
        at = "$own"
    yield f"kubectl --context $at apply -f {at}"


def _left_by_git(answers: Answers, block: Block, migration: Migration) -> Iterator[str]:
    """Yield how Git gives up Flux, and applies the rest again."""
    path, branch = migration.names.path("$it"), answers.place.branch
    channel = block.channel.replace("$CHANNEL", "${CHANNEL:?}")  # set by the first step, perhaps in another terminal
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
    folders, them = ("their folders", "them") if moving[1:] else ("its folder", "it")
    yield f"In Git, delete Flux from {folders}, and bring that to {branch}.{kept}\n{loop}"
    if applied := migration.source.applied:
        resumed = (
            f"{{ ! git cat-file -e FETCH_HEAD:{path}/{COMPONENTS} 2> /dev/null || ! echo '{branch} still has it'; }}",
            *(f"flux --context $at -n {by.namespace} reconcile source git {by.source}" for by in applied),
            *(f"flux --context $at -n {by.namespace} resume kustomization {by.name}" for by in applied),
        )
        loop = chain((f"git fetch -q origin {branch}", in_each(answers, resumed, channel)))
        yield f"Let Git apply the rest again. This stops where the folder still has {COMPONENTS} on {branch}.\n{loop}"
    next_one = " One pull request can do this, and delete Flux for the next channel." if block.channels[1:] else ""
    edit = in_each(answers, [changed_prune(migration, "false", "true")], channel)
    yield (
        f"{CAREFUL}only after the step before, or Flux deletes itself, set `prune: true` again, and bring that to "
        f"{branch}. Never run `flux bootstrap` for {them} again.{next_one}\n"
        f"{edit} &&\ngit rm -qf {answers.objects}/{channel}/{CLUSTERS}"
    )


def _with_own_patches(migration: Migration) -> list[str]:
    """Return the clusters that move whose kustomization has, or may have, patches of the objects in `SYNC`."""
    own = {migration.names.name(it.path): bool(patches_of_sync(it.overlay)) for it in migration.every}
    if not any((patches_of_sync(migration.source.overlay), *own.values())):
        return []
    moving = (name for names in migration.moving.values() for name in names)
    return [name for name in moving if own.get(name, True)]  # a folder without Flux is not read
