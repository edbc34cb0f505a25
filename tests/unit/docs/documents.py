"""The documents, and what is in them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
DOCUMENTS = (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")))


def configurations() -> list[tuple[Path, str]]:
    """Return each block of YAML that is about artifacts, and where it is."""
    blocks = (
        (path, re.findall(r"^```yaml\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)) for path in DOCUMENTS
    )
    return [(path, block) for path, found in blocks for block in found if "artifacts:" in block or "defaults:" in block]
