"""Plain English: a text names who acts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.unit.docs.documents import DOCUMENTS, ROOT

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = (*DOCUMENTS, *sorted((ROOT / "ci_automation").rglob("*.py")), *sorted((ROOT / "workflows").rglob("*.yaml")))
UNNAMED = re.compile(r"\b(?:somebody|nobody|anybody|everybody|whoever|shall)\b", re.IGNORECASE)
NO_PROSE = re.compile(r"`[^`\n]*`|`?nobody-[a-z-]+|\bself\.everybody|\bit\.everybody|\beverybody[:=]")


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_text_names_who_acts(path: Path) -> None:
    """Write "the attacker", "the reviewer" or "you", and "must" or "is to" where it said "shall"."""
    assert not UNNAMED.findall(NO_PROSE.sub("", path.read_text()))
