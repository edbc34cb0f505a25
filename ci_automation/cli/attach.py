"""The command `attach`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_automation.artifact.tree import TreeFile
from ci_automation.cli.output import print_json, print_text
from ci_automation.cli.parameters import COMMON, HeadedCommand, takes
from ci_automation.cli.wiring import reading
from ci_automation.errors import UsageError
from ci_automation.flows.attachments import UnfitAttachment, attach
from ci_automation.flows.files import read_file
from ci_automation.registry.port import MAX_BLOB_BYTES

if TYPE_CHECKING:
    from ci_automation.cli.arguments import Arguments


class UnreadableAttachment(UsageError):
    """A file that cannot be read."""

    hint = "Name regular files of at most 100 MiB."


@click.command("attach", cls=HeadedCommand)
@click.argument("artifact")
@click.argument("files", nargs=-1)
@click.option("--type", "kind", metavar="TYPE", required=True, help="what it is, such as application/vnd.acme.readme")
@click.option("--annotation", "annotations", metavar="KEY=VALUE", multiple=True, help="a note; repeatable")
@takes("registry-config", *COMMON)
def command(artifact: str, kind: str, files: tuple[str, ...], annotations: tuple[str, ...], given: Arguments) -> None:
    """Attach files and notes of your own to an artifact, such as a README, a team or a link.

    They are a referrer of the digest that ARTIFACT has now, as `oras attach` makes it. Its signature stays valid,
    clusters do not read it, and the next publication has another digest without it. Nobody signs it.

    \b
    flux-manifests attach oci://ghcr.io/acme/flux-manifests:production README.md \\
      --type application/vnd.acme.readme --annotation com.acme.team=platform
    """
    reference, ports = reading(artifact, given)
    held = [TreeFile(Path(name).name, _content(name)) for name in files]
    digest, made = attach(reference, kind, held, dict(map(_pair, annotations)), ports)
    if given.output == "json":
        print_json({"artifact": str(reference), "digest": str(digest), "attachment": str(made), "type": kind}, "attach")
        return
    print_text(f"Attached to {digest}: {made}")


def _content(name: str) -> bytes:
    return read_file(Path(name), MAX_BLOB_BYTES, lambda why: UnreadableAttachment(f"{name}: {why}"))


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals or not text.isprintable():
        raise UnfitAttachment(f"{text!r} is not KEY=VALUE")
    return key, value
