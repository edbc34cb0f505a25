"""The command `verify`."""

from __future__ import annotations

from typing import Any

import click

from ci_automation.artifact.reference import Reference
from ci_automation.cli import options as shared
from ci_automation.cli.given import Given
from ci_automation.cli.output import print_json, print_text
from ci_automation.cli.target import ports_for
from ci_automation.flows.verify import verify


@click.command("verify")
@click.argument("artifact")
@click.option("--public-key", metavar="FILE", required=True, help="the key that clusters verify with")
@shared.registry_config
@shared.common
def command(artifact: str, **options: Any) -> None:
    """Say whether an artifact is signed by the key that clusters trust.

    ARTIFACT may also be a digest, oci://HOST/REPOSITORY@sha256:... Exit code 10 says that it is not. Unlike Flux up
    to v2.9, it compares the digest that was signed with the digest that is there.

    \b
    flux-manifests verify oci://ghcr.io/acme/flux-manifests:production --public-key cosign.pub
    """
    given = Given.of(options)
    reference = Reference.parse(artifact)
    found = verify(reference, ports_for(reference, given))
    version = str(found.version) if found.version else None
    if given.output == "json":
        value = {"artifact": str(reference), "digest": str(found.digest), "version": version, "key": str(found.key)}
        print_json({**value, "verified": True})
        return
    flux = f"Flux {version}, " if version else ""
    print_text(f"{reference} is signed: {flux}{found.digest}\n  by the key {found.key}")
