"""Plain English: a text names who acts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.unit.docs.documents import DOCUMENTS, ROOT

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = (*DOCUMENTS, *sorted((ROOT / "ci_automation").rglob("*.py")), *sorted((ROOT / "workflows").rglob("*.yaml")))
PAGES = tuple(it for it in DOCUMENTS if it.parent.name != "adr" and it.name != "CHANGELOG.md")
LONGEST = 35
SPAN = re.DOTALL | re.MULTILINE
UNNAMED = re.compile(r"\b(?:somebody|nobody|anybody|everybody|whoever|shall)\b", re.IGNORECASE)
NO_PROSE = re.compile(r"`[^`\n]*`|`?nobody-[a-z-]+|\bself\.everybody|\bit\.everybody|\beverybody[:=]")


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_text_names_who_acts(path: Path) -> None:
    """Write "the attacker", "the reviewer" or "you", and "must" or "is to" where it said "shall"."""
    assert not UNNAMED.findall(NO_PROSE.sub("", path.read_text()))


def sentences(path: Path) -> list[str]:
    """Return the sentences and the cells of a document, without code, renderings and what is made from the code."""
    text = re.sub(
        r"<!-- (made|rendering|printed).*?<!-- end of .*?-->|^ *```.*?^ *```", "", path.read_text(), flags=SPAN
    )
    text = re.sub(r"`[^`\n]+`", "code", re.sub(r"\]\([^)]+\)", "]", text))
    blocks = re.split(r"\n\s*\n|\n(?=\s*(?:[-*|>#]|\d+\.) ?)", text)
    return [it for block in blocks for it in re.split(r" \| |[.!?:;](?:\*\*)?\)?\s", " ".join(block.split()))]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_sentence_can_be_read_at_once(path: Path) -> None:
    """Split a sentence with more than two conditions, or make a list of it."""
    assert [it for it in sentences(path) if len(it.split()) > LONGEST] == []
