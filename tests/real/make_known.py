"""Writes the table of known releases: `python -m tests.real.make_known`.

A release is in it only if every option set of `golden/cases.json` renders to the bytes that `flux install --export` of
that release printed. The samples in the table are kept.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import ci_automation.flux
from ci_automation.flux.options import Options
from ci_automation.flux.render import render
from ci_automation.flux.sources.directory import DirectorySource
from ci_automation.flux.version import Version
from tests.real import peers

TABLE = Path(ci_automation.flux.__path__[0]) / "known.json"


def cases(golden: Path) -> dict[str, Options]:
    """Return the option sets by name; the file writes flags as Go's fields are named."""
    found: list[dict[str, Any]] = json.loads((golden / "cases.json").read_text())
    return {case.pop("name"): Options().with_flags({_flag(key): case[key] for key in case}) for case in found}


def _flag(key: str) -> str:
    return re.sub("[A-Z]", lambda letter: f"-{letter[0].lower()}", key)


def known(releases: Path, golden: Path) -> dict[str, str]:
    """Return the version of each proven release, by the digest of its bundle's content, oldest first."""
    source, options = DirectorySource(releases), cases(golden)
    expected: dict[str, dict[str, str]] = json.loads((golden / "golden.json").read_text())
    table: dict[str, str] = {}
    for tag in sorted(expected, key=Version.parse):
        version = Version.parse(tag)
        bundle = source.fetch(version).bundle
        rendered = {
            name: hashlib.sha256(render(bundle, version, options[name]).encode()).hexdigest() for name in expected[tag]
        }
        if rendered and rendered == expected[tag]:
            assert str(bundle.digest) not in table, f"{tag} has the files of {table[str(bundle.digest)]}"
            table[str(bundle.digest)] = tag
    return table


def written(table: dict[str, str], samples: dict[str, str]) -> str:
    """Return the text of the table."""
    return json.dumps({"releases": table, "samples": samples}, indent=1) + "\n"


def samples() -> dict[str, str]:
    """Return the samples that are in the table."""
    found: dict[str, str] = json.loads(TABLE.read_text())["samples"] if TABLE.exists() else {}
    return found


def main() -> None:
    """Write the table."""
    releases = peers.flux_releases()
    table = known(releases, releases.parent / "golden")
    TABLE.write_text(written(table, samples()))
    sys.stdout.write(f"{len(table)} releases in {TABLE}\n")


if __name__ == "__main__":
    main()
