"""What the documents say of the code is so."""

from __future__ import annotations

import re
from pathlib import Path

from ci_automation.cli import COMMANDS
from ci_automation.errors import Error

ROOT = Path(__file__).parents[3]


def all_errors(cls: type[Error] = Error) -> set[type[Error]]:
    return {cls}.union(*(all_errors(sub) for sub in cls.__subclasses__()))


def test_each_invariant_names_tests_that_exist() -> None:
    rows = re.findall(r"^\| +(\d+) \| .* \| (.*) \|$", (ROOT / "docs/threat-model.md").read_text(), re.MULTILINE)
    defined = {
        name
        for path in (ROOT / "tests").rglob("*.py")
        for name in re.findall(r"^ *def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    assert [int(number) for number, _ in rows] == list(range(1, 13))
    for number, cell in rows:
        named = set(re.findall(r"`(test_\w+)`", cell))
        assert named, f"invariant {number} names no test"
        assert named <= defined, f"invariant {number} names {named - defined}"


def test_the_readme_lists_every_command() -> None:
    rows = re.findall(r"^\| (`.*?) \| ", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert set(COMMANDS) <= {word for row in rows for word in re.findall(r"`([\w-]+)", row)}


def test_the_readme_lists_every_exit_code() -> None:
    codes = {int(code) for code in re.findall(r"^\| (\d+) \| ", (ROOT / "README.md").read_text(), re.MULTILINE)}
    assert codes == {0, 3, 130} | {error.exit_code for error in all_errors()}
