"""The first artifact from a folder that `flux bootstrap` made, and the way of a cluster to it without a deletion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.errors import PolicyRefused
from ci_automation.flows.files import read_folder
from ci_automation.flows.rendering import render_release
from ci_automation.flows.workspace import read_overlay_folder
from ci_automation.flux.recover import prove_options, recover
from ci_automation.flux.text import unified_diff
from ci_automation.impact.overlay.bootstrapped import (
    COMPONENTS,
    AppliedPath,
    UnfitBootstrap,
    covering,
    edits_as_patches,
    outside,
    without_sync,
)
from ci_automation.impact.overlay.secrets import PLAIN, plain_secret, plain_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from ci_automation.artifact.tree import Tree
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.flux.version import Version
    from ci_automation.impact.change import Hazard


class GitAppliesFolder(PolicyRefused):
    """Flux goes on applying the folder from Git, where no signature counts."""

    hint = (
        "Run this with --still-in-git: it publishes the artifact, and prints the steps that take the folder out of "
        "Git's reach. In the action's repository, docs/guides/migration.md explains them."
    )

    def __init__(self, folder: str, by: Sequence[AppliedPath]) -> None:
        names = ", ".join(map(str, by))
        super().__init__(f"Git applies this unsigned: the Kustomization {names} applies {folder}")


class PlainSecrets(PolicyRefused):
    """Files of the folder hold Secrets, which all who can pull the artifact can read."""

    hint = (
        "Encrypt them with SOPS, or move them out of the folder. To publish them as they are, put their fingerprints "
        "into `acknowledge` of the artifact's configuration; on the command line, --allow-secrets does it once."
    )


class HandEditedComponents(PolicyRefused):
    """gotk-components.yaml is not what its release renders; an update would drop the edits."""

    hint = "Put the patch into the folder's kustomization.yaml, write gotk-components.yaml anew, and run this again."

    def __init__(self, version: Version, diff: str, patch: str) -> None:
        super().__init__(
            f"{COMPONENTS} has been edited by hand since Flux {version} made it:\n{diff}\nThis keeps the edit:\n{patch}"
        )
        self.patch = patch


class MigrationAllowances(Struct, frozen=True):
    """What a person allows for one migration."""

    keep_sync: bool = False
    allow_secrets: bool = False
    still_in_git: bool = False


class BootstrappedFolder(Struct, frozen=True):
    """A bootstrapped folder: the version of its components, and the intent with its options and its overlay."""

    version: Version
    intent: Intent
    git: tuple[AppliedPath, ...] = ()  # the Kustomizations that still apply it from Git


def read_bootstrapped(folder: Path, ports: Ports, intent: Intent, allowed: MigrationAllowances) -> BootstrappedFolder:
    """Return what a bootstrapped folder holds, its components proven by a rendering.

    Raises:
        UnfitBootstrap: it has no components file, or refers to what is outside of it.
        PlainSecrets, GitAppliesFolder: see there.
        HandEditedComponents: the components are not what their release renders with their options.
        MadeByAnotherTool: another tool wrote them.
    """
    tree, path = _read(folder)
    if COMPONENTS not in tree.by_path:
        raise UnfitBootstrap(f"{folder} has no {COMPONENTS}")
    if found := outside(tree):
        raise UnfitBootstrap(f"{folder} refers to what is outside of it: {', '.join(found)}")
    git = covering(tree, path)
    overlay = tree if allowed.keep_sync else without_sync(tree)
    overlay = overlay.without(COMPONENTS)
    if not allowed.allow_secrets:
        require_encrypted(overlay, intent, lenient=False)
    text = tree[COMPONENTS].decode(errors="replace")
    recovered = recover(text, COMPONENTS)
    ports.say(f"rendering {recovered.version} again to prove its options")
    expected = render_release(recovered.version, recovered.options, ports).text
    if text != expected and recovered.generated:
        diff = unified_diff(expected, text, f"flux install --export ({recovered.version})", COMPONENTS)
        raise HandEditedComponents(recovered.version, diff, edits_as_patches(expected, text))
    prove_options(text, recovered, expected)
    if git and not allowed.still_in_git:
        raise GitAppliesFolder(path or str(folder), git)
    flags = recovered.options.flags()
    wanted = replace(intent, flags=flags, overlay=overlay, components_file=COMPONENTS)
    return BootstrappedFolder(recovered.version, wanted, git)


def require_encrypted(files: Tree, intent: Intent, *, lenient: bool = True) -> None:
    """Raise `PlainSecrets` if a Secret in plain text is not acknowledged; for `lenient` see `plain_secrets`."""
    found = {path: plain_secret(path) for path in plain_secrets(files, lenient=lenient)}
    policy, now = intent.policy, intent.now
    if left := {path: it for path, it in found.items() if not policy.acknowledged(it.fingerprint, now)}:
        named = ", ".join(f"{path} ({hazard.fingerprint})" for path, hazard in left.items())
        raise PlainSecrets(f"these files hold Secrets in plain text: {named}")


def require_encrypted_build(hazards: Iterable[Hazard]) -> None:
    """Raise `PlainSecrets` if kustomize makes a Secret in plain text of a first artifact that is not acknowledged."""
    if told := [f"{it.sentence} ({it.fingerprint})" for it in hazards if it.subject.startswith(PLAIN)]:
        raise PlainSecrets("; ".join(told))


def _read(folder: Path) -> tuple[Tree, str | None]:
    """Return the files of a folder, and its path in its repository if it is in a checkout of Git."""
    place = folder.absolute()
    for root in place.parents:
        if (root / ".git").exists():
            path = place.relative_to(root).as_posix()
            return read_overlay_folder(root, path, components=True).tree, path
    return read_folder(folder), None
