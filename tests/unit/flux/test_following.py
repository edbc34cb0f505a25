from __future__ import annotations

from typing import Any

import pytest

from ci_automation.flux.following import unfit_fields
from ci_automation.policy.patterns import is_found

CRDS = """\
---
kind: Namespace
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
spec:
  group: a.example
  names:
    kind: Thing
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        properties:
          spec:
            properties:
              any: {}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
              list: {type: array, items: {type: object, required: [name], properties: {name: {type: string}}}}
              map: {type: object, additionalProperties: {type: string}}
              number: {type: integer}
              of: {type: string, enum: [a, b]}
              open: {type: object}
              time: {type: string, pattern: "^[0-9]+s$"}
              truth: {type: boolean}
"""


@pytest.mark.parametrize(
    ("spec", "problems"),
    [
        pytest.param({"any": [1], "free": {"x": 1}, "open": {"x": 1}, "map": {"x": "1"}}, (), id="free"),
        pytest.param({"list": [{"name": "x"}], "number": 1, "of": "a", "time": "1s", "truth": True}, (), id="fit"),
        pytest.param({"list": [{}]}, ("spec.list[0].name is missing",), id="missing"),
        pytest.param({"list": {}}, ("spec.list must be a list",), id="no list"),
        pytest.param({"map": {"x": 1}}, ("spec.map.x must be a text",), id="no text in a mapping"),
        pytest.param({"number": True}, ("spec.number must be a whole number",), id="a truth is no number"),
        pytest.param({"of": "c"}, ("spec.of must be a or b, not 'c'",), id="none of them"),
        pytest.param({"time": "1"}, ("spec.time: '1' does not match ^[0-9]+s$",), id="a pattern"),
        pytest.param({"trut": True}, ("spec.trut is not known; did you mean truth?",), id="a slip"),
        pytest.param({"x": 1}, ("spec.x is not known",), id="unknown"),
    ],
)
def test_what_a_crd_does_not_take_is_told_with_its_place(spec: dict[str, Any], problems: tuple[str, ...]) -> None:
    assert unfit_fields(spec, "a.example/v1", "Thing", CRDS, is_found) == [*problems]


@pytest.mark.parametrize(
    ("version", "kind"), [("a.example/v2", "Thing"), ("b.example/v1", "Thing"), ("a.example/v1", "X")]
)
def test_without_its_crd_nothing_is_said(version: str, kind: str) -> None:
    assert unfit_fields({"x": 1}, version, kind, CRDS, is_found) == []
