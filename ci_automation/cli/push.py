"""The command `push`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_automation.cli.arguments import ContradictingOptions
from ci_automation.cli.output import print_aside, print_json, print_line, print_text
from ci_automation.cli.parameters import COMMON, IDENTITIES, HeadedCommand, takes
from ci_automation.cli.target import rendered
from ci_automation.cli.wiring import target
from ci_automation.flows.files import read_folder
from ci_automation.flows.init import push_manifests
from ci_automation.flows.migration import require_encrypted
from ci_automation.policy.model import SignatureFormat

if TYPE_CHECKING:
    from ci_automation.cli.arguments import Arguments

_SIGNING = ("signing", "key", "signature-format", "accept-identity-change", "public-key", *IDENTITIES)


@click.command("push", cls=HeadedCommand)
@click.argument("folder")
@click.argument("artifact")
@click.option("--source", metavar="URL", required=True, help="where the manifests are from, such as a Git repository")
@click.option("--revision", metavar="REVISION", required=True, help="which state of it, such as main@sha1:COMMIT")
@click.option("--allow-secrets", is_flag=True, help="publish Secrets that are not encrypted")
@takes(*_SIGNING, "registry-config", *COMMON)
def command(folder: str, artifact: str, *, source: str, revision: str, allow_secrets: bool, given: Arguments) -> None:
    """Publish a team's own manifests, signed, as the next artifact of a channel.

    The artifact holds the files of FOLDER as they are, as one that `flux push artifact` makes. Nothing is rendered, and
    the policy's rules about versions do not count; a pause, a freeze, a window and a hold do. It gets a signature
    before the channel moves, an immutable tag (v0.0.0-DIGEST), and a signed record, so that `promote`, `history`,
    `rollback` and `prune` work on the channel. Where it shows a version, that is v0.0.0. A Secret in plain text is
    refused, unless you give --allow-secrets.

    \b
    flux-manifests push ./deploy oci://ghcr.io/acme/shop:staging --signing key --key cosign.key \\
      --source https://github.com/acme/shop --revision main@sha1:$(git rev-parse HEAD)
    """
    (goal,) = rendered((target(artifact, given),), print_aside)
    if goal.intent.signature_format is SignatureFormat.BUNDLE:
        raise ContradictingOptions("push writes a .sig, which each Flux reads: take the format legacy or both")
    files = read_folder(Path(folder))
    if not allow_secrets:
        require_encrypted(files)
    done = push_manifests(goal.channel, files, source, revision, goal.ports, goal.intent)
    if given.output == "json":
        value = {"artifact": str(goal.channel), "digest": str(done.digest)}
        print_json({**value, "published": done.published, "signed": done.signed, "revision": revision}, "push")
        return
    print_line(f"{goal.channel} {'published' if done.published else 'has this content already'}: {done.digest}")
    if not done.signed:
        print_text("It is unsigned: clusters that verify will refuse it.")
