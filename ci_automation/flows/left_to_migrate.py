"""The steps of a migration from `flux bootstrap`, in the list that `setup` prints."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from ci_automation.flows.cluster_folders import ANY
from ci_automation.impact.overlay.bootstrapped import COMPONENTS, SYNC, patches_of_sync

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci_automation.flows.answers import Answers
    from ci_automation.flows.cluster_folders import ClusterFolder, Migration


def left_before_commit(answers: Answers, migration: Migration) -> Iterator[str]:
    """Yield what a person looks at and changes in Git before the files are committed."""
    guide, source, newest = f"{answers.docs}/guides/migration.md", migration.source, migration.version
    yield f"Read how clusters move, with each command: {answers.docs}/tutorials/from-bootstrap.md"
    for path, reason in migration.unfit.items():
        yield f"`flux bootstrap` made {path} too, and this list leaves it out: {reason}. What it has to be: {guide}"
    if answers.overlay:
        arguments = [f"--{flag}={_written(value)}" for flag, value in source.flags.items()]
        command = shlex.join(("flux-manifests", "render", "--flux-version", str(source.version), *arguments))
        yield (
            f"Read {answers.overlay}: it has the files of {source.path} without {SYNC} and {COMPONENTS}, which each "
            "run renders."
        )
        yield f"Keep as patches what this prints, if anything: `{command} | diff - {source.path}/{COMPONENTS}`"
        if stray := [f"{answers.overlay}/{place}" for place in patches_of_sync(source.overlay)]:
            yield f"Take the patches at {_all(stray)} out of {answers.overlay}: they are for the objects in {SYNC}."
    for folder in migration.every:
        if folder.version < newest:
            yield (
                f"Update {folder.path} ({folder.version}) to {newest} in Git, as until now. Its cluster then keeps its "
                "Flux when it starts to follow a channel."
            )
        if differs := list(folder.differs(source)):
            yield (
                f"{folder.path} differs from {source.path} in {_all(differs)}, and a channel is one content. What to "
                f"do: {guide}#folders-that-differ"
            )
    for folder in migration.every:
        if any(by.prune for by in folder.applied):
            yield f"Set `prune: false` in {folder.path}/{SYNC}, or Flux can delete itself once {COMPONENTS} is gone."


def left_for_clusters(answers: Answers, migration: Migration) -> dict[str, list[str]]:
    """Return how each cluster comes from Git to the artifact, by the titles of the sections."""
    sections = {
        f"The cluster of {folder.cluster}, when {name} has its first digest": [
            *_moved(answers, name, folder, migration)
        ]
        for name, there in migration.folders.items()
        for folder in there
    }
    guide = f"{answers.docs}/guides/clusters.md#the-first-installation"
    without = [f"A cluster without Flux gets it from a channel, and follows that from then on: {guide}"]
    return sections | ({"Other clusters": without} if answers.channels.keys() - migration.folders.keys() else {})


def _moved(answers: Answers, channel: str, folder: ClusterFolder, migration: Migration) -> Iterator[str]:
    """Yield how one cluster comes to its channel.

    Runs keep the channel current meanwhile, so Git applies nothing until the folder no longer has Flux.
    """
    named = [f"-n {by.namespace} {{}} kustomization {by.name}" for by in folder.applied]
    if any(folder.differs(migration.source)):
        yield f"Begin when you settled what differs in {folder.path}, as said above: else the cluster loses it."
    if channel == ANY:
        yield f"Choose its channel, and take the name of that in place of {ANY} below."
    for one in named:
        yield f"See that this prints false there: `kubectl {one.format('get')} -o jsonpath='{{.spec.prune}}'`"
    for one in named:
        suspend = f"flux {one.format('suspend')}"
        yield f"Suspend what Git applies, or it takes back each newer patch of the channel: `{suspend}`"
    yield f"Let it follow: `kubectl apply -f {answers.objects}/{channel}`"
    home = f"kubectl -n {folder.options.namespace}"
    yield f"Wait: `{home} wait ocirepository,kustomization flux-manifests --for=condition=Ready --timeout=5m`"
    kept = f", and your patches of the objects in {SYNC}" if any(patches_of_sync(folder.overlay)) else ""
    yield (
        f"Then delete all files of {folder.path} but {SYNC} and kustomization.yaml. Leave only "
        f"`resources: [{SYNC}]` in the latter{kept}."
    )
    for by, one in zip(folder.applied, named, strict=True):
        source = f"kubectl -n {by.namespace} get gitrepository"
        yield f"When `{source}` shows that commit there, and not before: `flux {one.format('resume')}`"
    applied = "When that has applied the commit" if named else "Then"
    yield f"{applied}, set `prune: true` in {folder.path}/{SYNC}. Never run `flux bootstrap` for it again."


def _written(value: object) -> object:
    return ",".join(value) if isinstance(value, list) else str(value).lower() if isinstance(value, bool) else value


def _all(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
