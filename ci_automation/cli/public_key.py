"""The command `public-key`, which loads no more than keys, and the password of an encrypted key."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_automation.cli.output import done_with_progress, print_text
from ci_automation.cli.parameters import HeadedCommand, details_option
from ci_automation.errors import Error
from ci_automation.signing.keys.public import PASSWORD_VARIABLE, read_key

if TYPE_CHECKING:
    from collections.abc import Mapping


def environment_for(key: str) -> Mapping[str, str]:
    """Return the environment by which a key opens; with a password that it lacks, if a person can be asked for it."""
    if PASSWORD_VARIABLE in os.environ or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return os.environ
    if "ENCRYPTED" not in _text(key):
        return os.environ
    done_with_progress()
    asked = click.prompt(f"Password of {key}", default="", show_default=False, hide_input=True, err=True)
    return {**os.environ, PASSWORD_VARIABLE: asked}


def _text(key: str) -> str:
    """Return the text of a key; nothing for one in a KMS, or one that is missing, which its use says."""
    try:
        return read_key(key, os.environ, Path()).decode(errors="replace")
    except Error:
        return ""


@click.command("public-key", cls=HeadedCommand)
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@click.option("--secret", metavar="NAME", help="print the Secret for the clusters, with all the keys in it")
@click.option("--namespace", metavar="NAME", default="flux-system", show_default=True, help="the Secret's namespace")
@details_option
def public_key_command(keys: tuple[str, ...], secret: str | None, namespace: str) -> None:
    """Print the public half of a signing key, or the Secret that clusters verify with.

    KEY is what --key takes: a file (password in $COSIGN_PASSWORD), env://NAME, or a key in a KMS; a public key as PEM
    does too. With several keys in the Secret any of them may have signed: so a key is changed without a gap.

    \b
    flux-manifests public-key cosign.key > cosign.pub
    flux-manifests public-key old.pub awskms:///alias/flux \\
      --secret flux-manifests-keys
    """
    from ci_automation.report.cluster_objects import secret_yaml
    from ci_automation.signing.keys.private import load_public_half

    halves = [load_public_half(location, environment_for(location), Path()) for location in keys]
    for location, half in zip(keys, halves, strict=True):
        if half.limits:
            click.echo(f"{location}: {half.limits}", err=True)
    texts = [half.to_pem() for half in halves]
    print_text((secret_yaml(secret, namespace, texts) if secret else "".join(texts)).rstrip("\n"))
