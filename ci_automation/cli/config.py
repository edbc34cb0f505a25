"""The commands `config validate` and `config schema`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_automation.cli.output import print_aside, print_json, print_text
from ci_automation.cli.parameters import COMMON, takes
from ci_automation.config import DEFAULT_PATH
from ci_automation.config.load import load_config
from ci_automation.config.schema import config_schema
from ci_automation.report.findings import ended
from ci_automation.report.text import plain_text

if TYPE_CHECKING:
    from ci_automation.cli.arguments import Arguments


@click.group("config")
def command() -> None:
    """Check the configuration file, or print its JSON schema.

    \b
    flux-manifests config validate
    """


@command.command("validate")
@takes(*COMMON)
def validate(given: Arguments) -> None:
    """Check the configuration file; each error has its file, line and path.

    \b
    flux-manifests config validate --config fleet.yaml
    """
    path = Path(given.config) if given.config else DEFAULT_PATH
    config = load_config(path)
    names = [artifact.name for artifact in config.artifacts]
    if given.output == "json":
        print_json({"file": str(path), "valid": True, "artifacts": names})
    else:
        print_text(f"{path} is valid; its artifacts are {', '.join(names)}.")
    for one, other in config.sharing_folders():
        print_aside(f"{one.name} ({one.overlay}) and {other.name} ({other.overlay}) share overlay files")
    now = datetime.now(UTC)
    for artifact in config.artifacts:
        for each in artifact.policy.acknowledge:
            if not each.is_on(now):
                print_aside(plain_text(f"{artifact.name}: {ended(each)}"))


@command.command("schema")
def schema() -> None:
    """Print the JSON schema of the configuration file, for editors.

    \b
    flux-manifests config schema > flux-manifests.schema.json
    """
    print_json(config_schema())
