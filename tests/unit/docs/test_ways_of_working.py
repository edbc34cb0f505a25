"""The numbers in the document on ways of working, from the files that they are about.

tests/real/test_life.py counts the clicks and the other runs.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs/guides/ways-of-working.md").read_text()
ROWS = [[cell.strip() for cell in line.split("|")[1:-1]] for line in TEXT.splitlines() if line.startswith("| ")][2:]


def lines(text: str) -> int:
    """Return the number of lines that are neither empty nor a comment."""
    return sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith("#"))


def test_a_row_has_the_lines_of_each_new_file() -> None:
    seen: set[str] = set()
    for _, files, counted, *_ in ROWS:
        new = [name for name in re.findall(r"\]\((?:\.\./)+(workflows/[\w-]+\.yaml)\)", files) if name not in seen]
        seen |= set(new)
        numbers = re.sub(r"\d+ of configuration", "", counted)
        assert [int(it) for it in re.findall(r"\d+", numbers)] == [lines((ROOT / it).read_text()) for it in new], files
    assert seen >= {f"workflows/{name}.yaml" for name in ("flux", "preview", "watch", "fleet")}


def test_a_row_that_says_how_often_its_workflow_runs_says_what_the_schedule_says() -> None:
    (runs,) = (row[4] for row in ROWS if "workflows/watch.yaml" in row[1])
    ((cron,),) = (it.values() for it in yaml.safe_load((ROOT / "workflows/watch.yaml").read_text())[True]["schedule"])
    assert (runs, re.sub(r"^\d+ \d+ ", "", cron)) == ("1 a day", "* * *")


def test_the_configuration_has_as_many_lines_as_the_rows_say_together() -> None:
    (block,) = re.findall(r"```yaml\n(version: 1\n.*?)```", TEXT, re.DOTALL)
    assert lines(block) == sum(int(it) for it in re.findall(r"(\d+) of configuration", TEXT))


def test_the_baseline_has_as_many_lines_as_it_says() -> None:
    blocks = re.findall(r"```\w+\n(.*?)```", TEXT.partition("<!-- baseline -->")[2], re.DOTALL)
    assert re.findall(r"That is (\d+) lines in (\d+) files", TEXT) == [(str(sum(map(lines, blocks))), str(len(blocks)))]


@pytest.mark.parametrize(
    ("job", "file"),
    [("show", "flux"), ("gate", "flux"), ("do", "flux"), ("watch", "watch")],
)
def test_the_documents_have_the_permissions_of_each_job(job: str, file: str) -> None:
    text = (ROOT / "docs/guides/action.md").read_text()
    header, row = (re.search(rf"(?m)^\| {word} \|(.*)\|$", text) for word in ("job", f"`{job}`"))
    assert header
    assert row
    names, levels = ([cell.strip() for cell in found[1].split("|")] for found in (header, row))
    permissions = yaml.safe_load((ROOT / f"workflows/{file}.yaml").read_text())["jobs"][job]["permissions"]
    assert {name: level for name, level in zip(names, levels, strict=True) if level} == permissions
