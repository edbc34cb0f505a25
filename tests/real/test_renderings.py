"""What the documents show of a pull request and of a summary is what real releases give."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.real.peers import ROOT
from tests.real.renderings import DOCUMENTS, document, renderings

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def made(flux_releases: Path) -> dict[str, str]:
    return renderings(flux_releases)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_documents_show_what_people_see(name: str, made: dict[str, str]) -> None:
    assert (ROOT / name).read_text() == document(name, made), "run: python -m tests.real.renderings"


def test_each_is_shown_somewhere(made: dict[str, str]) -> None:
    text = "".join((ROOT / name).read_text() for name in DOCUMENTS)
    assert all(f"<!-- rendering: {name} -->" in text for name in made)
