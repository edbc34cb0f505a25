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


def notifying() -> dict[str, str]:
    """Return `workflows/flux.yaml` with what the guide to notifications adds to it, by the channel of the message."""
    guide = (ROOT / "docs/guides/notifications.md").read_text()
    outputs, schedule, job, *channels = re.findall(r"^```yaml\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    text = (ROOT / "workflows/flux.yaml").read_text()
    text, found = re.subn(r"^    outputs:\n(?: {6}.*\n)+", lambda _: outputs, text, count=1, flags=re.MULTILINE)
    text, also = re.subn(r"^    - cron: .*\n", lambda line: line[0] + schedule, text, flags=re.MULTILINE)
    assert (found, also) == (1, 1)
    return {name: f"{text}\n{job}{step}" for name, step in zip(("slack", "teams", "mail"), channels, strict=True)}
