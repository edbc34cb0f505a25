"""A schema that both sides have is not read; what is found is what is found when all of it is read."""

from __future__ import annotations

import pytest

from ci_automation.impact.compare import COMPONENTS, compared
from ci_automation.impact.objects import entries_of_both
from ci_automation.impact.parts import Text


def schema(field: str) -> str:
    return f"""
      openAPIV3Schema:
        properties:
          spec:
            description: |-
              What a team says.

              And more.
            properties:
              {field}:
                type: string"""


def definition(*versions: tuple[str, str], name: str = "buckets.example.com", label: str = "1", more: str = "") -> str:
    """Return a CRD as kustomize writes it, with the schemas of its versions."""
    listed = "".join(
        f"  - name: {version}\n    schema:{text}\n    served: true\n    storage: {str(number == 0).lower()}\n"
        for number, (version, text) in enumerate(versions)
    )
    return (
        f"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  labels:\n    v: '{label}'\n"
        f"  name: {name}\nspec:\n  group: example.com\n{more}  versions:\n{listed}"
    )


A, B, C = schema("a"), schema("b"), schema("c")
ONE = definition(("v1", A), ("v2", B))
OTHER_LABEL = definition(("v1", A), ("v2", B), label="2")
ODD = ONE.replace("type: string", "type: string\n     odd: true", 1)


@pytest.mark.parametrize(
    ("old", "new", "skipped"),
    [
        pytest.param(ONE, OTHER_LABEL, 2, id="only a label differs"),
        pytest.param(ONE, definition(("v1", A), ("v2", C)), 1, id="one version differs"),
        pytest.param(ONE, definition(("v1", A), ("v2", f"{B} # c")), 0, id="one version is written in another way"),
        pytest.param(ONE, definition(("v2", B)), 1, id="a version is gone"),
        pytest.param(ONE, definition(("v1", B), ("v2", A)), 0, id="the versions swap schemas"),
        pytest.param(definition(("v1", A), ("v2", A)), definition(("v1", A), ("v2", B)), 1, id="two had the same one"),
        pytest.param(ONE, definition(("v3", A)), 0, id="a version changes name"),
        pytest.param(ONE, definition(("v1", A), name="others.example.com"), 0, id="another definition"),
        pytest.param(ONE, f"{ONE}---\n{OTHER_LABEL}", 0, id="the definition is there twice"),
        pytest.param(ONE, f"{OTHER_LABEL}---\nkind: List\nitems:\n- {{}}\n", 2, id="beside a list"),
        pytest.param(ODD, ODD.replace("'1'", "'2'"), 0, id="a line of it is no part of it"),
        pytest.param(definition(("v1", A), ("v1", B)), definition(("v1", A), ("v1", C)), 0, id="a version twice"),
        pytest.param(ONE, ONE.replace("  - name: v2\n", "  - n: v2\n"), 0, id="a version without a name"),
        pytest.param(ONE, ONE.replace("    served: true\n", ""), 0, id="a version that does not say served"),
        pytest.param(ONE, f"{ONE}\r\n", 0, id="a text that cannot be cut"),
        pytest.param(ONE, OTHER_LABEL.replace("metadata:", "metadata:\n  namespace: x"), 0, id="another namespace"),
        pytest.param(ONE.replace("\n  name: b", "\n  n: b"), ONE, 0, id="a definition without a name"),
        pytest.param("kind: Namespace\n", ONE, 0, id="a new definition"),
    ],
)
def test_what_is_found_is_the_same(old: str, new: str, skipped: int) -> None:
    assert compared(old, new, COMPONENTS) == compared(old, new, COMPONENTS, quick=False)
    for side in entries_of_both(Text.of(old), Text.of(new)):
        versions = [each for entry in side if entry.document for each in _versions(entry.document.value)]
        assert sum(each == {} for each in versions) == skipped


def _versions(value: object) -> list[object]:
    match value:
        case {"spec": {"versions": [*versions]}}:
            return [each.get("schema") for each in versions]
    return []
