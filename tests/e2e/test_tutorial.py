"""The tutorial for the command line works as it stands; its screenshots and the README show what it prints."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.e2e.tutorial import BLOCKS, DOCS, PAGE, README, printed, readme, screenshot

if TYPE_CHECKING:
    from pathlib import Path


def test_every_command_of_the_tutorial_works_and_ends_where_it_says(tmp_path: Path) -> None:
    outputs = printed(tmp_path)
    told = "\n".join(outputs)
    assert len(BLOCKS) > 8
    assert re.search(r"\bpublished\S* +v2\.98\.8 ", told)
    assert set(re.findall(r"sha256:[0-9a-f]{64}", PAGE)) <= set(
        re.findall(r"^flux-manifests (?:apply|promote) .*--approve (sha256:[0-9a-f]{64})", told, re.MULTILINE)
    )
    assert "layout:lesson:staging is signed: Flux v2.98.8" in told
    assert outputs[-2].partition("production: v2.98.8 promoted from staging")[1]
    assert re.search(r"^production: v2\.98\.8 is current", outputs[-1], re.MULTILINE)
    shown = {block.image: screenshot(block, text) for block, text in zip(BLOCKS, outputs, strict=True) if block.image}
    anew = "run `python -m tests.e2e.tutorial`"
    assert shown == {f"images/{file.name}": file.read_text() for file in (DOCS / "images").iterdir()}, anew
    assert README.read_text() == readme(outputs), anew
