"""The password of an encrypted key: in a variable, or from the person at the terminal."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_automation.cli.output import done_with_progress
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
