"""The extracts that the double of GitHub is held to are what GitHub publishes, and our GraphQL is what GitHub takes."""

from __future__ import annotations

import gzip
import importlib
import pkgutil
from typing import TYPE_CHECKING

import pytest
from graphql import build_schema, parse, validate

import ci_automation.flux.sources
import ci_automation.github
from tests.real.make_openapi import OPENAPI, SCHEMA, openapi, schema
from tests.real.peers import peer

if TYPE_CHECKING:
    from pathlib import Path

    from graphql import GraphQLSchema


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
