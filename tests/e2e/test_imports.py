"""A command imports what it runs."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.desk import CHANNEL, SIGNED, TRUSTED

if TYPE_CHECKING:
    from tests.e2e.desk import Desk

LOADED = """\
import contextlib, io, json, sys

from ci_automation.cli import run

with contextlib.redirect_stdout(io.StringIO()):
    code = run(sys.argv[1:])
print(json.dumps([code, sorted(sys.modules)]))
"""
OURS = "ci_automation."
# What nobody needs for a constant: the version of this program, the number that a C library calls something.
FOR_A_CONSTANT = {"importlib.metadata", "importlib.resources", "ctypes", "email.utils", "tempfile"}
GITHUB = {"github", "jwt", f"{OURS}github.client", f"{OURS}flux.sources.github"}
MAKING = {
    *(
        f"{OURS}{room}"
        for room in ("impact.checks", "impact.crds", "impact.compare", "impact.assess", "impact.overlay")
    ),
    *(
        f"{OURS}flows.{it}"
        for it in (
            "publication",
            "rendering",
            "planning.steps",
            "planning.step",
            "planning.base",
            "programs",
            "clusters",
        )
    ),
    *(f"{OURS}{it}" for it in ("flux.recover", "flux.render", "report.changes", "report.findings")),
    f"{OURS}records",
}
PRIVATE_KEYS = {f"{OURS}signing.keys.{it}" for it in ("private", "kms", "services")}
SIGSTORE = {"sigstore", "tuf", "pydantic", f"{OURS}signing.sigstore"}
NETWORK = {"oras", "requests", "urllib3", f"{OURS}registry.http", f"{OURS}registry.transport"}
LIBRARIES = {"sigstore", "tuf", "pydantic", "rich", "importlib.metadata"}
PEOPLE = {"rich", "yaml", f"{OURS}config.load"}  # there is no terminal, and no configuration
READING = GITHUB | SIGSTORE | PRIVATE_KEYS | NETWORK | PEOPLE
NEVER = {
    "check": (
        ("check", CHANNEL, *TRUSTED),
        READING | MAKING | FOR_A_CONSTANT,
    ),
    "verify": (
        ("verify", CHANNEL, *TRUSTED),
        READING | {"importlib.metadata", "ctypes"},
    ),
    "pull": (
        ("pull", CHANNEL, "out", *TRUSTED),
        READING | {"importlib.metadata"},
    ),
    "history": (
        ("history", CHANNEL, *TRUSTED),
        READING | {"importlib.metadata"},
    ),
    "render": (
        ("render", "--flux-version", "v2.99.4", "--output", "json"),
        {f"{OURS}{it}" for it in ("impact.compare", "flows.diff", "flows.verify", "records", "report.changes")},
    ),
    "public-key": (("public-key", "cosign.pub"), {f"{OURS}{it}" for it in ("flows", "config", "registry", "impact")}),
    "a patch": (
        ("update", CHANNEL, *SIGNED),
        GITHUB | NETWORK | LIBRARIES | {"ctypes", "concurrent.futures", "zoneinfo"},
    ),
}


def test_what_is_not_imported_exists() -> None:
    names = {name for _, never in NEVER.values() for name in never if name.startswith(OURS)}
    assert {name for name in names if importlib.util.find_spec(name) is None} == set()


def loaded(desk: Desk, *arguments: str) -> set[str]:
    """Return the modules that a process has after a command."""
    command = [sys.executable, "-c", LOADED, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, cwd=desk.folder, env=environment, capture_output=True, text=True, check=True)
    code, modules = json.loads(done.stdout)
    assert code == 0, done.stderr
    return set(modules)


@pytest.mark.parametrize(("arguments", "never"), NEVER.values(), ids=list(NEVER))
def test_a_command_imports_what_it_runs(
    desk: Desk, arguments: tuple[str, ...], never: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.init(version="v2.98.5" if arguments[0] == "update" else "v2.99.4")
    if arguments[0] in {"verify", "pull", "history"}:  # nobody said where releases are: they would come from GitHub
        monkeypatch.delenv("FLUX_RELEASES")
    found = loaded(desk, *arguments)
    assert sorted(found & never) == []


def test_a_check_without_a_newer_release_knows_few_modules_of_ours(desk: Desk) -> None:
    desk.init(version="v2.99.4")
    own = {name for name in loaded(desk, "check", CHANNEL, *TRUSTED) if name.startswith(OURS)}
    assert len(own) <= 75


def test_a_check_by_a_configuration_reads_that_and_no_more(desk: Desk) -> None:
    desk.init(version="v2.99.4")
    desk.config(f"version: 1\nartifacts: [{{name: production, url: '{CHANNEL}'}}]\n")
    found = loaded(desk, "check", "production", *TRUSTED)
    never = GITHUB | MAKING | SIGSTORE | NETWORK | {f"{OURS}flows.clusters", f"{OURS}impact.parts"}
    assert sorted(found & never) == []
