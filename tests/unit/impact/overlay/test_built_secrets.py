"""Secrets that a build has in plain text, though no file holds one: replacements make them of other values."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from ci_automation.artifact.tree import Tree
from ci_automation.impact.change import Certainty
from ci_automation.impact.overlay.preflight import preflight
from tests.unit.impact.overlay.trees import COMPONENTS, MAP, PATH, Builder, check, tree

if TYPE_CHECKING:
    from collections.abc import Mapping

EMPTY = "apiVersion: v1\nkind: Secret\nmetadata: {name: token, namespace: flux-system}\ntype: Opaque\n"
VALUE = base64.b64encode(b"hunter2").decode()
SEALED = base64.b64encode(b"data: ENC[AES256_GCM,data:x]").decode()
SENTENCE = (
    "the overlay at ./ renders Secret flux-system/token in plain text, "
    "which everyone who can pull the artifact can read"
)


def replaced(value: str, **more: Any) -> dict[str, object]:
    """Return an overlay that copies a value of a ConfigMap into a Secret."""
    source = {"kind": "ConfigMap", "name": "settings", "fieldPath": "data.token"}
    target = {"select": {"kind": "Secret", "name": "token"}, "fieldPaths": ["data.token"], "options": {"create": True}}
    resources = {"resources": [PATH, "map.yaml", "secret.yaml"]}
    rules = resources | {"replacements": [{"source": source, "targets": [target]}]} | more
    return {"kustomization.yaml": rules, "map.yaml": f"{MAP}data: {{token: '{value}'}}\n", "secret.yaml": EMPTY}


def told(files: Mapping[str, object], then: Mapping[str, object]) -> list[str]:
    """Return what is told of Secrets when the files of an overlay change."""
    found = check(files, COMPONENTS, then=then)
    assert {it.certainty for it in found.hazards} <= {Certainty.POSSIBLE}
    return [it.sentence for it in found.hazards]


def test_what_a_replacement_copies_into_one_is_told_and_asks() -> None:
    assert told({"kustomization.yaml": {"resources": [PATH]}}, replaced(VALUE)) == [SENTENCE]


def test_a_first_artifact_is_looked_into_too() -> None:
    found = preflight(Tree(()), tree(replaced(VALUE)), PATH, Builder())
    assert [it.sentence for it in found.hazards] == [SENTENCE]


def test_it_is_told_again_only_if_its_data_changes() -> None:
    assert told(replaced(VALUE), replaced(VALUE, commonLabels={"a": "b"})) == []
    assert told(replaced(VALUE), replaced("b3RoZXI=")) == [SENTENCE]


def test_with_new_components_it_is_no_news() -> None:
    assert check(replaced(VALUE)).hazards == ()


@pytest.mark.parametrize("value", ["ENC[AES256_GCM,data:x]", SEALED])
def test_what_is_encrypted_is_not_told(value: str) -> None:
    assert told({"kustomization.yaml": {"resources": [PATH]}}, replaced(value)) == []


def test_what_a_file_shows_by_itself_is_told_by_that_file_alone() -> None:
    had = {"kustomization.yaml": {"resources": [PATH]}}
    generated = {"secretGenerator": [{"name": "own", "literals": ["token=hunter2"]}]}
    assert told(had, {"kustomization.yaml": {"resources": [PATH], **generated}}) == []
    held = f"{EMPTY}data: {{token: {VALUE}}}\nstringData: {{more: 'not base64 '}}\n"
    listed = {"resources": [PATH, "secret.yaml"], "commonLabels": {"a": "b"}}
    assert told(had, {"kustomization.yaml": listed, "secret.yaml": held}) == []


def test_one_that_a_file_shows_hides_no_other() -> None:
    own: dict[str, Any] = {"secretGenerator": [{"name": "own", "literals": ["a=b"]}]}
    assert told({"kustomization.yaml": {"resources": [PATH]}}, replaced(VALUE, **own)) == [SENTENCE]


def test_what_cannot_be_built_is_told_as_that() -> None:
    found = check({"kustomization.yaml": json.dumps({"resources": [PATH, "gone.yaml"]})}, COMPONENTS)
    assert "cannot be built" in found.hazards[0].sentence
