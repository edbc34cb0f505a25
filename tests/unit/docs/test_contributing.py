"""The map of the house has each room, and no room that is not there."""

from __future__ import annotations

import re

from tests.unit.docs.documents import ROOT


def test_the_map_has_each_room() -> None:
    listed = re.findall(r"^\| `([a-z]+)/` \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    rooms = {path.parent.name for path in (ROOT / "ci_automation").glob("*/__init__.py")}
    assert sorted(listed) == sorted(rooms)


def test_it_names_only_files_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = re.findall(r"`((?:ci_automation|docs|tests)/[\w/.-]*)`", text)
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []
