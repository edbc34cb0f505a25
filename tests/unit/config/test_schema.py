from __future__ import annotations

from typing import Any

import jsonschema
import pytest
import yaml

from ci_automation.config.schema import config_schema
from ci_automation.flux.options import Options
from tests.unit.config.texts import FULL, MINIMAL


def nodes(node: object) -> list[dict[str, Any]]:
    """Return every mapping in a schema."""
    below = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return ([node] if isinstance(node, dict) else []) + [found for part in below for found in nodes(part)]


def test_it_is_a_schema_of_camel_case_keys_without_null() -> None:
    jsonschema.Draft202012Validator.check_schema(config_schema())
    keys = {key for node in nodes(config_schema()) for key in node.get("properties", {})}
    assert {"minReleaseAge", "timeZone", "for", "componentsFile", "publicKey", "usernameVariable"} <= keys
    assert not [key for key in keys if "_" in key]
    assert not [node for node in nodes(config_schema()) if node.get("type") == "null" or "default" in node]


def test_every_flag_of_flux_is_in_it() -> None:
    flags = config_schema()["$defs"]["Artifact"]["properties"]["flags"]["properties"]
    assert set(flags) == Options().flags().keys() | {"components-extra"}


@pytest.mark.parametrize("text", [FULL, MINIMAL], ids=["every key", "the least"])
def test_an_editor_accepts_what_the_program_accepts(text: str) -> None:
    jsonschema.validate(yaml.safe_load(text), config_schema())


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(MINIMAL + "artefacts: []", id="an unknown key"),
        pytest.param(MINIMAL + "defaults: {policy: {patch: sometimes}}", id="no such action"),
        pytest.param(MINIMAL + "defaults: {approval: {via: mail}}", id="no such way to ask"),
        pytest.param(MINIMAL + "defaults: ", id="no value"),
        pytest.param("version: 1\nartifacts: []", id="no artifacts"),
        pytest.param(MINIMAL.replace("name: a", "name: a, flags: {log-level: loud}"), id="a flag's value"),
    ],
)
def test_an_editor_refuses_what_the_program_refuses(text: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(text), config_schema())
