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
    for path, reason in migration.unfit.items():
        yield f"`flux bootstrap` made {path} too, and this list leaves it out: {reason}. What it has to be: {guide}"
    if answers.overlay:
        arguments = [f"--{flag}={_written(value)}" for flag, value in source.flags.items()]
        command = shlex.join(("flux-manifests", "render", "--flux-version", str(source.version), *arguments))
        yield (
            f"Read {answers.overlay}: it has the files of {source.path} without {SYNC} and {COMPONENTS}, which each "
            f"run renders. Edits of it by hand would be lost: `{command} | diff - {source.path}/{COMPONENTS}` prints "
            "them. Keep them as patches."
        )
        if stray := [f"{answers.overlay}/{place}" for place in patches_of_sync(source.overlay)]:
            yield f"Take the patches at {_all(stray)} out of {answers.overlay}: they are for the objects in {SYNC}."
    if older := [f"{it.path} ({it.version})" for it in migration.every if it.version < newest]:
        yield (
            f"Update {_all(older)} to {newest} in Git, as until now. While Git and the artifact both apply Flux, each "
            "would undo the changes of the other."
        )
    for folder in migration.every:
        if differs := list(folder.differs(source)):
            yield (
                f"{folder.path} differs from {source.path} in {_all(differs)}, and a channel is one content. What to "
                f"do: {guide}#folders-that-differ"
            )
    if pruning := [f"{it.path}/{SYNC}" for it in migration.every if any(by.prune for by in it.applied)]:
        yield f"Set `prune: false` in {_all(pruning)}. Otherwise Flux can delete itself once Git has no {COMPONENTS}."


def left_for_clusters(answers: Answers, migration: Migration) -> Iterator[str]:
    """Yield how the clusters come from Git to the artifact."""
    every, home = migration.every, f"kubectl -n {migration.source.options.namespace}"
    looks = dict.fromkeys(f"kubectl -n {by.namespace} get kustomization {by.name}" for it in every for by in it.applied)
    places = [
        f"`kubectl apply -f {answers.objects}/{name}` in {_clusters(there)}"
        for name, there in migration.folders.items()
    ]
    chosen = f" {ANY} is the channel that you choose for it." if ANY in migration.folders else ""
    before = " or ".join(f"`{look} -o jsonpath='{{.spec.prune}}'`" for look in looks)
    yield (
        f"When a channel has its first digest, let its clusters follow it, one cluster first: {'; '.join(places)}."
        f"{chosen} Before that, {before} has to print false there. After it, wait: `{home} wait "
        "ocirepository,kustomization flux-manifests --for=condition=Ready --timeout=5m`."
    )
    kept = f", and your patches of the objects in {SYNC}" if any(patches_of_sync(it.overlay) for it in every) else ""
    yield (
        f"Soon after that, take Flux out of Git for this cluster: of {_all(it.path for it in every)} delete all files "
        f"but {SYNC} and kustomization.yaml, and leave only `resources: [{SYNC}]` in the latter{kept}. "
        "From then on, do not run `flux bootstrap` for this cluster."
    )
    yield (
        f"When a cluster has applied that commit, which {' or '.join(f'`{look}`' for look in looks)} names, set "
        f"`prune: true` again in its {SYNC}. Why, and each step with its commands: {answers.docs}/guides/migration.md"
    )
    if answers.channels.keys() - migration.folders.keys():
        guide = f"{answers.docs}/guides/clusters.md#the-first-installation"
        yield f"A cluster without Flux gets it from a channel, and follows that from then on: {guide}"


def _written(value: object) -> object:
    return ",".join(value) if isinstance(value, list) else str(value).lower() if isinstance(value, bool) else value


def _clusters(folders: Iterable[ClusterFolder]) -> str:
    names = [it.cluster for it in folders]
    return f"the cluster{'s' if len(names) > 1 else ''} of {_all(names)}"


def _all(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
