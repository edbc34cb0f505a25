"""The map of the house has each room, and no room that is not there. GitHub accepts the issue forms."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.unit.docs.documents import ROOT

if TYPE_CHECKING:
    from pathlib import Path


def test_the_map_has_each_room() -> None:
    listed = re.findall(r"^\| `([a-z]+)/` \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    rooms = {path.parent.name for path in (ROOT / "ci_automation").glob("*/__init__.py")}
    assert sorted(listed) == sorted(rooms)


def test_it_names_only_files_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = re.findall(r"`((?:ci_automation|docs|tests)/[\w/.-]*)`", text)
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("path", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.stem)
def test_github_accepts_the_issue_form(path: Path) -> None:
    form = yaml.safe_load(path.read_text())
    if path.stem == "config":
        assert form == {"blank_issues_enabled": False}
        return
    assert form.keys() == {"name", "description", "labels", "body"}
    asked = [field for field in form["body"] if field["type"] != "markdown"]
    assert {field["type"] for field in asked} <= {"textarea", "input", "dropdown"}
    assert len({field["id"] for field in asked}) == len({field["attributes"]["label"] for field in asked}) == len(asked)
    assert any(field.get("validations") == {"required": True} for field in asked)
