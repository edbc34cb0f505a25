"""The forms of JSON outputs: each has a schema, which is documented and printed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from ci_automation.cli import run
from ci_automation.cli.schema import FORMS, output_schema

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("form", FORMS)
def test_the_schema_of_a_form_is_one_and_names_itself(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", form]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema == output_schema(form)
    Draft202012Validator.check_schema(schema)
    assert schema["properties"]["schema"] == {"const": f"flux-manifests.{form}/v1"}
    assert "schema" in schema["required"]
    assert schema["description"]


def test_each_form_that_the_program_prints_has_a_schema() -> None:
    code = "".join(path.read_text() for path in (ROOT / "ci_automation/cli").glob("*.py"))
    printed = re.findall(r'print_json\((?:.|\n)*?, "([a-z-]+)"\)\n', code)
    assert {*printed, "error"} == set(FORMS)


def test_the_document_lists_each_form() -> None:
    rows = re.findall(r"^\| (`.*?) \| ", (ROOT / "docs/reference/json.md").read_text(), re.MULTILINE)
    assert {form for row in rows for form in re.findall(r"`([a-z-]+)`", row)} == set(FORMS)


def test_an_error_has_its_form(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", "nothing", "--output", "json"]) == 2
    Draft202012Validator(output_schema("error")).validate(json.loads(capsys.readouterr().out))


@pytest.mark.parametrize(
    "entry", [{"name": "a", "artifact": "b", "exitCode": 0}, {"name": "a", "error": {"code": "x"}, "exitCode": 1}]
)
def test_an_entry_is_whole_or_has_an_error(entry: dict[str, object]) -> None:
    value = {"schema": "flux-manifests.results/v1", "exitCode": 0, "artifacts": [entry]}
    assert not Draft202012Validator(output_schema("results")).is_valid(value)
