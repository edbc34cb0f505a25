"""The command `pull`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_automation.cli.output import print_json, print_text
from ci_automation.cli.parameters import COMMON, TRUST, HeadedCommand, takes
from ci_automation.cli.wiring import reading
from ci_automation.flows.files import write_tree
from ci_automation.flows.verify import pull

if TYPE_CHECKING:
    from ci_automation.cli.arguments import Arguments


@click.command("pull", cls=HeadedCommand)
@click.argument("artifact")
@click.argument("folder")
@takes(*TRUST, "registry-config", *COMMON)
def command(artifact: str, folder: str, given: Arguments) -> None:
    """Unpack an artifact into a folder.

    FOLDER must not exist, or be empty; it is filled all or nothing. With a key or an identity to trust,
    only a signed artifact is unpacked.

    \b
    flux-manifests pull oci://ghcr.io/acme/flux-manifests:production ./out --public-key cosign.pub
    """
    reference, ports = reading(artifact, given)
    tree, digest, trust = pull(reference, ports)
    write_tree(tree, Path(folder))
    if given.output == "json":
        files = sorted(file.path for file in tree.files)
        print_json({"artifact": str(reference), "digest": str(digest), "signature": trust, "files": files}, "pull")
        return
    print_text(f"{len(tree.files)} files of {digest} are in {folder}; its signature was {trust}.")
    if ports.trusted is None:
        print_text(f"Nothing was verified: {ports.why_nobody}.")
