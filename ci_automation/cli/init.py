"""The commands that publish what a channel did not have: `init` its first artifact, `push` a team's own manifests."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import click

from ci_automation.artifact.tree import COMPONENTS_PATH
from ci_automation.cli.arguments import Arguments, ContradictingOptions
from ci_automation.cli.follow_up import verifying_keys, whole
from ci_automation.cli.output import print_aside, print_json, print_line, print_parts, print_reading, print_text
from ci_automation.cli.parameters import (
    COMMON,
    IDENTITIES,
    SIGNING,
    HeadedCommand,
    artifact_argument,
    known_versions,
    takes,
)
from ci_automation.cli.target import Target, rendered
from ci_automation.cli.wiring import target
from ci_automation.errors import UsageError, VerificationFailed
from ci_automation.flows.files import read_folder
from ci_automation.flows.init import FirstArtifact, FirstRefused, propose_init, publish_first, push_manifests
from ci_automation.flows.migration import (
    BootstrappedFolder,
    MigrationAllowances,
    read_bootstrapped,
    require_encrypted,
    require_encrypted_build,
)
from ci_automation.flows.sync import sync
from ci_automation.flux.proof import known_releases
from ci_automation.flux.version import Version
from ci_automation.impact.change import Certainty
from ci_automation.impact.checks.images import GATE as IMAGES
from ci_automation.policy.model import SignatureFormat
from ci_automation.report.blocks import on_terminal, plain_text
from ci_automation.report.bootstrap import migration_steps
from ci_automation.report.changes import beside_flux
from ci_automation.report.details import rights_blocks
from ci_automation.report.findings import Findings, unsigned_upstream

_UNSIGNED = "It is unsigned: clusters that verify will refuse it. Sign with --signing key or --signing keyless."
_SIGNING = ("signing", "key", "signature-format", "accept-identity-change", "public-key", *IDENTITIES)


class NoFluxVersion(UsageError):
    """A first artifact is asked for, and no release of Flux to begin with."""

    def __init__(self) -> None:
        super().__init__("init begins with a release of Flux, and none is named")
        self.hint = f"Add `--flux-version {known_releases()[-1]}`, or `--from` with the folder of `flux bootstrap`."


class OverlayLeftOut(UsageError):
    """A first artifact would lack the team's own files, which the configuration names."""

    def __init__(self, folder: str) -> None:
        super().__init__(f"the first artifact would have no file of the overlay {folder!r}")
        self.hint = "Run this in a clone of Git that has the configuration, or give the folder with --overlay."


@click.command("init", cls=HeadedCommand)
@artifact_argument("artifact")
@click.option(
    "--flux-version",
    metavar="VERSION",
    shell_complete=known_versions,
    help="the release to begin with, for example v2.9.4",
)
@click.option("--overlay", metavar="DIR", help="the team's own files: kustomization.yaml, patches, anything")
@click.option("--from", "source", metavar="DIR", help="a folder of `flux bootstrap`: its version, options and overlay")
@click.option("--keep-sync", is_flag=True, help="with --from: keep gotk-sync.yaml in the overlay")
@click.option("--allow-secrets", is_flag=True, help="publish Secrets that are not encrypted")
@click.option("--still-in-git", is_flag=True, help="with --from: publish although Git still applies the folder")
@click.option("--dry-run", is_flag=True, help="show what it would publish; write nothing")
@takes(
    "acknowledge",
    "unsafe-unproven-rendering",
    *SIGNING,
    "components-file",
    "releases",
    "registry-config",
    *COMMON,
    install_flags=True,
)
def init_command(
    artifact: str,
    flux_version: str | None,
    source: str | None,
    *,
    keep_sync: bool,
    allow_secrets: bool,
    still_in_git: bool,
    dry_run: bool,
    given: Arguments,
) -> None:
    """Publish the first artifact of a channel; `update --adopt` takes over one that is there.

    It holds the components of a release, rendered with the flags of `flux install`, and the overlay: --overlay, or in a
    clone of Git that of the configuration. The components are in flux-system/gotk-components.yaml, unless
    --components-file names another path, which the overlay's kustomization.yaml has to list. The artifact is signed
    before the channel names it. A channel that exists is left alone, unless it would be the same. What is sure to break
    clusters, such as an overlay that cannot be built or leaves Flux out, is refused. What may break them is listed, and
    what they get beside plain Flux: with --dry-run before anything is written. A Secret in plain text is refused
    without --allow-secrets.

    With --from the folder of `flux bootstrap` is taken as it is: gotk-components.yaml says the version and the flags,
    which a rendering proves, and all other files are the overlay. Then the output is the objects by which a cluster
    follows the artifact, as YAML. The steps that take it there, and all else, are on standard error.

    \b
    flux-manifests init oci://ghcr.io/acme/flux-manifests:production --flux-version v2.9.4 \\
      --overlay ./overlay --signing key --key cosign.key
    flux-manifests init production --from clusters/production/flux-system --still-in-git
    """
    allowed = MigrationAllowances(keep_sync, allow_secrets, still_in_git)
    _require_fitting(source, flux_version, allowed, given)
    (goal,) = rendered((target(artifact, given),), print_aside)
    taken, first = _proposed(source, flux_version, allowed, goal)
    done = first if dry_run else publish_first(first, goal.ports, taken.intent)
    if source is None or dry_run:
        _print(done, goal, given, is_proposal=dry_run and not done.is_there)
    else:
        _print_migrated(done, goal, given, migration_steps(source, taken.git, keep_sync=keep_sync))


def _proposed(
    source: str | None, flux_version: str | None, allowed: MigrationAllowances, goal: Target
) -> tuple[BootstrappedFolder, FirstArtifact]:
    """Return what the artifact is made of, and the artifact, if nothing of it is refused."""
    taken = _taken(source, flux_version, allowed, goal)
    first = propose_init(goal.channel, taken.version, goal.ports, taken.intent)
    if not allowed.allow_secrets:
        require_encrypted_build(first.hazards)
    if source is None:
        _require_known_images(first)
    return taken, first


def _taken(
    source: str | None, flux_version: str | None, allowed: MigrationAllowances, goal: Target
) -> BootstrappedFolder:
    """Return what the artifact is made of: a folder of `flux bootstrap`, or a version and the overlay."""
    if source is not None:
        return read_bootstrapped(Path(source), goal.ports, goal.intent, allowed)
    intent = goal.ports.with_overlay(goal.intent)
    if intent.overlay is None and goal.configured and goal.configured.overlay is not None:
        raise OverlayLeftOut(goal.configured.overlay)
    if intent.overlay and not allowed.allow_secrets:
        require_encrypted(intent.overlay, intent)
    return BootstrappedFolder(Version.parse(flux_version or ""), intent)


def _require_fitting(
    source: str | None, flux_version: str | None, allowed: MigrationAllowances, given: Arguments
) -> None:
    """Check that the options go together."""
    if source is None and flux_version is None:
        raise NoFluxVersion
    others = (flux_version, given.overlay, given.components_file, given.flags)
    if source is not None and any(others):
        raise ContradictingOptions(
            "--from says version, flags, overlay and components file: no option for these goes with it",
            "Leave out those options. To choose them yourself, leave out --from.",
        )
    if source is None and (allowed.keep_sync or allowed.still_in_git):
        raise ContradictingOptions(
            "--keep-sync and --still-in-git go with --from",
            "Leave them out, or add --from with the folder of `flux bootstrap`.",
        )


def _require_known_images(first: FirstArtifact) -> None:
    """Check that the registry of --registry could be asked for the images: its name may be misspelt.

    The folder of `flux bootstrap` has a name from which clusters pull.

    Raises:
        FirstRefused: it could not, and that is not acknowledged.
    """
    unknown = [it for it in first.hazards if (it.gate, it.certainty) == (IMAGES, Certainty.UNCHECKED)]
    if unknown and not first.is_there:
        raise FirstRefused(first.publication.channel, unknown)


def _objects(goal: Target, given: Arguments) -> str:
    """Return the objects by which a cluster follows the artifact, or why there are none."""
    try:
        found, *_ = sync(goal.channel, goal.ports, goal.configured.sync if goal.configured else None)
        return found.to_yaml(verifying_keys(goal.configured, given))
    except (UsageError, VerificationFailed) as error:
        return f"# `sync-manifests` prints the objects: {plain_text(str(error))}"


def _print_migrated(result: FirstArtifact, goal: Target, given: Arguments, steps: str) -> None:
    """Print the objects by which a cluster follows the artifact, and everything else on standard error."""
    objects = _objects(goal, given).rstrip()
    if given.output == "json":
        _print(result, goal, given, f"{steps}\n\n{objects}")
        return
    with redirect_stdout(sys.stderr):
        _print(result, goal, given)
        print_text(f"\n{steps}\n")
    print_text(objects)


def _to_json(result: FirstArtifact, goal: Target, steps: str, *, published: bool) -> dict[str, Any]:
    recipe = result.publication.composed.recipe
    value = {"artifact": str(goal.channel), "version": str(recipe.version), "digest": str(result.digest)}
    made = {
        "published": published,
        "signed": result.signed,
        "files": sorted(recipe.files.by_path),
        "components": recipe.path,
        "proof": str(result.publication.proof),
        "options": recipe.options.differing(),
    }
    found = {
        "changes": [change.to_json() for change in result.findings.ranked()],
        "hazards": [hazard.to_json() for hazard in result.hazards],
        "rights": [each.to_json() for each in result.findings.rights],
    }
    return {**value, **made, **found, **({"migration": steps} if steps else {})}


def _print(
    result: FirstArtifact, goal: Target, given: Arguments, steps: str = "", *, is_proposal: bool = False
) -> None:
    recipe = result.publication.composed.recipe
    if given.output == "json":
        print_json(_to_json(result, goal, steps, published=not (result.is_there or is_proposal)), "init")
        return
    verb = "is there already, with exactly this content" if result.is_there else "published"
    print_line(
        f"{goal.name} {'would begin with this' if is_proposal else verb}: Flux {recipe.version}, {result.digest}"
    )
    if is_proposal:
        print_line("\n".join(("  its files:", *(f"    {path}" for path in sorted(recipe.files.by_path)))))
    elif recipe.path != COMPONENTS_PATH:
        print_line(f"  its components are in {recipe.path}")
    if result.unsigned:
        print_line(unsigned_upstream(str(recipe.version)))
    if result.doubt:
        print_line(f"Rendering not proven: {result.doubt}")
    if not (result.signed or is_proposal):
        print_line(f"Nothing was verified: {goal.ports.why_nobody}." if result.is_there else _UNSIGNED)
    beside = beside_flux(Findings(result.findings.changes, result.hazards), every=given.verbose)
    parts = (*beside, *on_terminal(rights_blocks(result.findings.rights, every=given.verbose)))
    print_parts(parts)
    print_reading(parts, whole())
    if is_proposal:
        print_line("Nothing was written. To publish it, leave out --dry-run.")


@click.command("push", cls=HeadedCommand)
@click.argument("folder")
@artifact_argument("artifact")
@click.option("--source", metavar="URL", required=True, help="where the manifests are from, such as a Git repository")
@click.option("--revision", metavar="REVISION", required=True, help="which state of it, such as main@sha1:COMMIT")
@click.option("--allow-secrets", is_flag=True, help="publish Secrets that are not encrypted")
@takes(*_SIGNING, "registry-config", *COMMON)
def push_command(
    folder: str, artifact: str, *, source: str, revision: str, allow_secrets: bool, given: Arguments
) -> None:
    """Publish a team's own manifests, signed, as the next artifact of a channel.

    The artifact holds the files of FOLDER as they are, as one that `flux push artifact` makes. Nothing is rendered, and
    the policy's rules about versions do not count; a pause, a freeze, a window and a hold do. It gets a signature
    before the channel moves, an immutable tag (v0.0.0-DIGEST), and a signed record, so that `promote`, `history`,
    `rollback` and `prune` work on the channel. Where it shows a version, that is v0.0.0. A Secret in plain text is
    refused without --allow-secrets.

    \b
    flux-manifests push ./deploy oci://ghcr.io/acme/shop:staging --signing key --key cosign.key \\
      --source https://github.com/acme/shop --revision main@sha1:$(git rev-parse HEAD)
    """
    (goal,) = rendered((target(artifact, given),), print_aside)
    if goal.intent.signature_format is SignatureFormat.BUNDLE:
        raise ContradictingOptions(
            "`push` writes a .sig, which each Flux reads, and the format bundle has none",
            "Give --signature-format legacy, or both.",
        )
    files = read_folder(Path(folder))
    if not allow_secrets:
        require_encrypted(files, goal.intent)
    done = push_manifests(goal.channel, files, source, revision, goal.ports, goal.intent)
    if given.output == "json":
        value = {"artifact": str(goal.channel), "digest": str(done.digest)}
        print_json({**value, "published": done.published, "signed": done.signed, "revision": revision}, "push")
        return
    print_line(f"{goal.name} {'published' if done.published else 'has this content already'}: {done.digest}")
    if not done.signed:
        print_text("It is unsigned: clusters that verify will refuse it.")
