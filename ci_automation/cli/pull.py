"""The command `pull`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ci_automation.cli import options as shared
from ci_automation.cli.arguments import Arguments
from ci_automation.cli.output import print_json, print_text
from ci_automation.cli.wiring import reading
from ci_automation.flows.files import write_tree
from ci_automation.flows.verify import pull


@click.command("pull")
@click.argument("artifact")
@click.argument("folder")
@shared.trust
@shared.registry_config
@shared.common
def command(artifact: str, folder: str, **options: Any) -> None:
    """Unpack an artifact into a folder.

    FOLDER must not exist, or be empty; it is filled all or nothing. With a key or an identity to trust,
    only a signed artifact is unpacked.

    \b
    flux-manifests pull oci://ghcr.io/acme/flux-manifests:production ./out --public-key cosign.pub
    """
    given = Arguments.of(options)
    reference, ports = reading(artifact, given)
    tree, digest, trust = pull(reference, ports)
    write_tree(tree, Path(folder))
    if given.output == "json":
        files = sorted(file.path for file in tree.files)
        print_json({"artifact": str(reference), "digest": str(digest), "signature": trust, "files": files})
        return
    print_text(f"{len(tree.files)} files of {digest} are in {folder}; its signature was {trust}.")
    if ports.trusted is None:
        print_text(f"Nothing was verified: {ports.why_nobody}.")
