"""The command `verify`."""

from __future__ import annotations

from typing import Any

import click

from ci_automation.cli import options as shared
from ci_automation.cli.given import Given
from ci_automation.cli.output import print_json, print_text
from ci_automation.cli.target import reading
from ci_automation.errors import UsageError
from ci_automation.flows.verify import verify


class NoTrustedKey(UsageError):
    """Something is to be verified, and no key is trusted."""

    hint = "Give --public-key FILE, or verify.publicKey in the configuration."

    def __init__(self) -> None:
        super().__init__("there is no key to verify with")


@click.command("verify")
@click.argument("artifact")
@click.option("--public-key", metavar="FILE", help="the key that clusters verify with; default: the configured one")
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
    reference, ports = reading(artifact, given)
    if ports.trusted_key is None:
        raise NoTrustedKey
    found = verify(reference, ports)
    version = str(found.version) if found.version else None
    if given.output == "json":
        value = {"artifact": str(reference), "digest": str(found.digest), "version": version, "key": str(found.key)}
        print_json({**value, "verified": True})
        return
    flux = f"Flux {version}, " if version else ""
    print_text(f"{reference} is signed: {flux}{found.digest}\n  by the key {found.key}")
