"""What inputs mean, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from ci_automation.action.inputs import FALSE, TRUE, Inputs, InvalidInput
from ci_automation.action.workflow_commands import OUTPUTS
from ci_automation.cli.arguments import Arguments
from ci_automation.cli.options import INPUTS, Kind

APPROVE = {"command": "approve", "artifact": "production", "base": "b", "target": "t", "version": "v"}


def test_nothing_given_is_an_update_of_all_with_the_defaults() -> None:
    inputs = Inputs.parse({})
    assert inputs == Inputs.parse({each.parameter: "" for each in INPUTS})
    assert (inputs.command, inputs.approval, inputs.artifact, inputs.max_age_days) == ("update", "pull-request", "", 7)
    assert (inputs.given.attestations, inputs.exit_code, inputs.app_id, inputs.given.identity) == (
        False,
        False,
        None,
        (),
    )
    assert inputs.secrets == ()


def test_each_input_has_one_field() -> None:
    own = set(Inputs.__struct_fields__) - {"given"}
    names = {each.parameter for each in INPUTS}
    assert own <= names
    assert names - own <= set(Arguments.__struct_fields__)


def test_names_are_kebab_case_and_said_once() -> None:
    for listed in (INPUTS, OUTPUTS):
        names = [each.name for each in listed]
        assert len(set(names)) == len(names)
        assert all(name == name.lower() and "_" not in name for name in names)
    texts = [*(each.input for each in INPUTS), *(each.description for each in OUTPUTS)]
    assert all(text and not text.endswith(".") for text in texts)


def test_an_input_arrives_with_its_hyphens() -> None:
    assert {each.name: each.input_variable for each in INPUTS}["registry-password"] == "INPUT_REGISTRY-PASSWORD"


@pytest.mark.parametrize("text", sorted(TRUE | FALSE))
def test_a_switch_is_written_as_the_toolkit_takes_it(text: str) -> None:
    assert Inputs.parse({"exit_code": text}).exit_code == (text in {"true", "True", "TRUE"})


@pytest.mark.parametrize("text", ["yes", "1", "on", "tRue", "truefalse", "true x"])
def test_any_other_word_is_no_switch(text: str) -> None:
    with pytest.raises(InvalidInput, match="exit-code: it is true or false"):
        Inputs.parse({"exit_code": text})


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (
            {"command": "destroy"},
            "command: it is one of update, apply, .*, comment, not 'destroy'",
        ),
        ({"artifact": "a\nb"}, r"artifact: it has invisible characters: 'a\\nb'"),
        ({"artifact": "a\u202eb"}, r"artifact: it has invisible characters: 'a\\u202eb'"),
        ({"identity": "a\nb\x1bc"}, r"identity: it has invisible characters: 'b\\x1bc'"),
        ({"max_age_days": "0"}, "max-age-days: it is a whole number, not '0'"),
        ({"max_age_days": "7d"}, "max-age-days: it is a whole number"),
        ({"app_id": "\u0663"}, "app-id: it is a whole number"),
        ({"provider": "ibm"}, "provider: it is one of aws, azure, gcp"),
        ({"registry_username": "me"}, "registry-password: it goes together with registry-username"),
        ({"registry_password": "canary-p"}, "registry-username: it goes together with registry-password"),
        ({"app_id": "7"}, "app-private-key: it goes together with app-id"),
        ({"provider": "aws", "docker_config": "{}"}, "provider: it and docker-config exclude each other"),
        ({**APPROVE, "target": " "}, "target: approve needs it"),
        ({"command": "comment"}, "text: comment needs it"),
        ({"command": "preview", "path": "x", "fail_on": "any"}, "fail-on: it is one of certain, danger, approval, not"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_cannot_be_used_is_told(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        Inputs.parse(given)


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(InvalidInput) as caught:
        Inputs.parse({"command": "x", "exit_code": "y", "max_age_days": "z"})
    assert [problem.partition(":")[0] for problem in caught.value.problems] == ["command", "max-age-days", "exit-code"]


def test_values_lose_the_space_around_them() -> None:
    inputs = Inputs.parse({"artifact": " production\n", "identity": "\n a \n\n b\n", "github_token": "canary-t\n"})
    assert (inputs.artifact, inputs.given.identity, inputs.github_token) == ("production", ("a", "b"), "canary-t")
    assert inputs.secrets == ("canary-t",)


def test_secrets_are_in_no_repr() -> None:
    given = {each.parameter: f"canary-{each.name}" for each in INPUTS if each.kind is Kind.SECRET}
    inputs = Inputs.parse({**given, "docker_config": "", "registry_username": "me", "app_id": "7"})
    assert "canary-" not in repr(inputs)
    assert len(inputs.secrets) == 3


def test_an_approval_names_what_it_is_for() -> None:
    assert Inputs.parse(APPROVE).target == "t"
