"""The demonstration's releases, published so long ago that every policy takes them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ci_automation.demo.samples import write_samples

if TYPE_CHECKING:
    from pathlib import Path


def write_old_samples(folder: Path) -> Path:
    """Write the sample releases into a folder, all published in 2020, and return the folder."""
    write_samples(folder)
    listed = json.loads((folder / "releases.json").read_bytes())
    aged = [{**release, "published_at": "2020-01-01T00:00:00Z"} for release in listed]
    (folder / "releases.json").write_text(json.dumps(aged))
    return folder
