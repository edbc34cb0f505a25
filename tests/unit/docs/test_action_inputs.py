"""The inputs and outputs are the same in `action.yml`, in the options of the command, and in the reference."""

from __future__ import annotations

import re
from typing import Any

import click
import pytest
import yaml

from ci_automation.action.inputs import Inputs
from ci_automation.action.workflow_commands import OUTPUTS
from ci_automation.cli import cli
from ci_automation.cli.options import INPUTS, Kind
from ci_automation.report.account import Account, outputs
from tests.fakes.world import CHANNEL
from tests.unit.docs.generated import ACTION, REFERENCE, made_anew


@pytest.fixture(scope="module")
def action() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(ACTION.read_text())
    return loaded


def test_the_reference_is_as_the_code_makes_it() -> None:
    again = "run: python -m tests.unit.docs.generated"
    assert [path.name for path, text in made_anew().items() if path.read_text() != text] == [], again


def test_action_yml_has_the_inputs_with_their_defaults(action: dict[str, Any]) -> None:
    assert {name: it["default"] for name, it in action["inputs"].items()} == {
        each.name: each.expression or each.default for each in INPUTS
    }
    assert all(it["description"] for it in action["inputs"].values())


def test_action_yml_has_the_outputs(action: dict[str, Any]) -> None:
    assert {name: it["description"] for name, it in action["outputs"].items()} == {
        each.name: each.description for each in OUTPUTS
    }


def test_the_defaults_in_action_yml_mean_what_is_meant_without_them(action: dict[str, Any]) -> None:
    given = {name.replace("-", "_"): it["default"] for name, it in action["inputs"].items()}
    given["github_token"] = ""  # an expression, which the runner fills in
    assert Inputs.parse(given) == Inputs.parse({})


def test_the_container_gets_the_command_alone(action: dict[str, Any]) -> None:
    assert action["runs"] == {"using": "docker", "image": "Dockerfile", "args": ["action"]}
    assert set(action["branding"]) == {"icon", "color"}
    assert len(action["description"]) <= 125  # what the Marketplace shows


def test_the_options_are_the_inputs() -> None:
    command = cli.get_command(click.Context(cli), "action")
    assert command is not None
    options = {it.opts[0]: it for it in command.params if isinstance(it, click.Option)}
    assert {name: it.envvar for name, it in options.items()} == {
        f"--{each.name}": each.input_variable for each in INPUTS
    }
    assert {name: it.help for name, it in options.items()} == {f"--{each.name}": each.input for each in INPUTS}


def test_no_option_is_parsed_by_anybody_else() -> None:
    command = cli.get_command(click.Context(cli), "action")
    assert command is not None
    assert all(it.type is click.STRING and not it.multiple for it in command.params if isinstance(it, click.Option))


def test_the_outputs_written_are_those_described() -> None:
    written = outputs((Account("a", CHANNEL),), {}, limit=100) | {"matrix": "", "shown": "", "preview": ""}
    assert set(written) == {each.name for each in OUTPUTS}


def test_the_reference_has_a_row_for_each() -> None:
    section = (REFERENCE / "inputs.md").read_text().partition("## Inputs")[2].partition("## What the log")[0]
    rows = re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE)
    assert rows == [*(each.name for each in INPUTS), *(each.name for each in OUTPUTS)]


def test_what_is_secret_has_no_default_in_the_open() -> None:
    assert [each.name for each in INPUTS if each.kind is Kind.SECRET and each.default] == []
