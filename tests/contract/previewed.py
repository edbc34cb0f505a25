"""A repository as `flux bootstrap` leaves it, and what GitHub tells a run of a pull request into it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.fakes.forge import Forge
    from tests.fakes.forge.repository import Repository
    from tests.fakes.runner import Runner

NAME = "acme/fleet"
FOLDERS = ("clusters/production/flux-system", "clusters/staging/flux-system")
PATTERN = "clusters/*/flux-system/gotk-components.yaml"
PRODUCTION, STAGING = (f"{folder}/gotk-components.yaml" for folder in FOLDERS)
KUSTOMIZATION = b"""\
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
- gotk-components.yaml
- gotk-sync.yaml
"""
READS = {"contents": "read"}  # all rights that the job has: GitHub refuses it every write


def sync(folder: str) -> bytes:
    """Return the objects by which a cluster follows its folder."""
    return (
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\n"
        f"metadata: {{name: flux-system, namespace: flux-system}}\nspec: {{path: ./{folder}, prune: true}}\n"
    ).encode()


def reading(runner: Runner, forge: Forge, fleet: Repository) -> Runner:
    """Let a job be one of a pull request: without a checkout, and with a token for reading."""
    runner.variables.update({"GITHUB_API_URL": forge.url, "GITHUB_SERVER_URL": forge.host})
    runner.variables["GITHUB_REF"] = "refs/pull/1/merge"
    runner.variables["INPUT_GITHUB-TOKEN"] = forge.token("actions", fleet.full_name, READS)
    return runner


def event(fleet: Repository, number: int) -> dict[str, Any]:
    """Return what GitHub says of a pull request to the run that it starts."""
    pull = fleet.pull(number)
    home = {"full_name": fleet.full_name, "default_branch": fleet.default_branch}
    base = {"ref": pull.base, "sha": fleet.branches[pull.base], "repo": home}
    head = {"ref": pull.branch, "sha": pull.head, "repo": {"full_name": pull.source}}
    return {"action": "synchronize", "number": number, "pull_request": {"number": number, "base": base, "head": head}}
