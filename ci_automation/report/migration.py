"""The way of a cluster from a folder in Git to the artifact, so that no object of Flux is deleted on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.report.text import plain_text

if TYPE_CHECKING:
    from collections.abc import Sequence


def migration_steps(folder: str, git: Sequence[str], objects: str, *, keep_sync: bool) -> str:
    """Return the steps in their order; `git` are the Kustomizations that still apply the folder."""
    names = plain_text(", ".join(git))
    ready = "kubectl -n flux-system wait ocirepository,kustomization flux-manifests --for=condition=Ready"
    steps = [f"Apply the objects below to each cluster, and wait until both are ready:\n     {ready}"]
    if git:
        without = f"In Git, set `prune: false` in gotk-sync.yaml, and wait until clusters have applied that: {names}."
        rest = f"Delete {folder} in Git"
        if not keep_sync:
            rest = f"In Git, leave only gotk-sync.yaml in {folder}, with a kustomization.yaml that lists nothing else"
        steps = [
            f"{without}\n     Without this step Flux can delete itself in step 3.",
            *steps,
            f"{rest}. Keep the overlay's files elsewhere, outside the path of that Kustomization.",
            f"When clusters have applied that, set `prune: true` again{' in the artifact' if keep_sync else ''}.",
        ]
    numbered = "\n".join(f"  {number}. {step}" for number, step in enumerate(steps, 1))
    return f"The way of a cluster to this artifact, in this order:\n{numbered}\n\n{objects}".rstrip()
