"""The extracts that the double of GitHub is held to are what GitHub publishes, and our GraphQL is what GitHub takes."""

from __future__ import annotations

import gzip
import importlib
import json
import pkgutil
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from graphql import build_schema, parse, validate

import ci_automation.flux.sources
import ci_automation.github
from tests.contract.gh import gh_calls
from tests.fakes.forge.described import Description
from tests.real.make_openapi import OPENAPI, SCHEMA, described_of, openapi, schema
from tests.real.peers import peer

if TYPE_CHECKING:
    from graphql import GraphQLSchema

TUTORIAL = Path(__file__).parents[2] / "docs/tutorials/three-channels.md"


@pytest.fixture(scope="module")
def packages() -> Path:
    return peer("node-modules") / "@octokit"


@pytest.fixture(scope="module")
def whole(packages: Path) -> GraphQLSchema:
    return build_schema(
        (packages / "graphql-schema" / "schema.graphql").read_text(), assume_valid=True
    )  # it says some things twice


def documents() -> dict[str, str]:
    """Return every GraphQL document of the program, by the name of its constant."""
    found = {}
    for package in (ci_automation.github, ci_automation.flux.sources):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            for name, value in vars(importlib.import_module(module.name)).items():
                if isinstance(value, str) and value.lstrip().startswith(("query(", "query {", "mutation(")):
                    found[f"{module.name.rpartition('.')[2]}.{name}"] = value
    return found


def test_the_description_is_the_one_that_github_publishes(packages: Path) -> None:
    made, kept = openapi(packages / "openapi"), OPENAPI.read_bytes()
    assert gzip.decompress(made) == gzip.decompress(kept)  # the packed bytes differ from one zlib to another


def test_the_schema_is_the_one_that_github_publishes(packages: Path) -> None:
    assert schema(packages / "graphql-schema") == SCHEMA.read_text()


@pytest.mark.parametrize("name", documents())
def test_a_document_is_one_that_github_takes(whole: GraphQLSchema, name: str) -> None:
    assert validate(whole, parse(documents()[name])) == []


def test_documents_are_found() -> None:
    assert len(documents()) >= 3


@pytest.mark.parametrize("flavour", ["api.github.com", "ghes-3.17"])
def test_the_commands_of_the_list_of_setup_ask_what_github_describes(
    packages: Path, tmp_path: Path, flavour: str
) -> None:
    repo = "/repos/{owner}/{repo}"
    operations = (
        "GET /user",
        f"PUT {repo}/actions/permissions/workflow",
        f"PUT {repo}/environments/{{environment_name}}",
        f"POST {repo}/environments/{{environment_name}}/deployment-branch-policies",
        f"POST {repo}/rulesets",
    )
    document = json.loads((packages / f"openapi/generated/{flavour}.json").read_text())
    description = Description(flavour, described_of(document, operations))
    (listed,) = re.findall(r"^```text\n(.*?)^```", TUTORIAL.read_text(), re.MULTILINE | re.DOTALL)
    steps = re.findall(r"^\d+\. .*\n((?:    .*\n)+)", listed, re.MULTILINE)
    requests = [it.request for step in steps if "gh api" in step for it in gh_calls(step, tmp_path)]
    asked = []
    for method, path, body in requests:
        operation = description.operation(method, path)
        assert operation, (method, path)
        assert description.wrong_request(operation, {}, body) == []
        asked.append(f"{method} {operation.template}")
    assert sorted(asked) == sorted(operations)
