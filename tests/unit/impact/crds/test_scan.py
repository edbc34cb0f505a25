"""Who uses which version of Flux's custom resources is found with its line, in whatever form a file has it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_automation.impact.crds.manifests import How, Use, uses

HELM = "helm.toolkit.fluxcd.io"
OBJECT = f"apiVersion: {HELM}/v2beta1\nkind: HelmRelease\nmetadata:\n  name: podinfo\n"


def found(text: str) -> list[tuple[int, str, str, str, How]]:
    return [(use.line, use.version, use.kind, use.name, use.how) for use in uses(text.encode(), "a.yaml")]


def test_an_object_is_found_by_its_line_kind_and_name() -> None:
    assert uses(OBJECT.encode(), "apps/a.yaml") == (
        Use("apps/a.yaml", 1, HELM, "v2beta1", "HelmRelease", "podinfo", How.OBJECT),
    )


def test_each_document_of_a_file_counts() -> None:
    other = "apiVersion: v1\nkind: ConfigMap\n"
    alert = "# a comment\nkind: Alert\napiVersion: 'notification.toolkit.fluxcd.io/v1beta2'\n"
    text = f"---\n{OBJECT}---\n{other}---\n{alert}"
    assert found(text) == [
        (2, "v2beta1", "HelmRelease", "podinfo", How.OBJECT),
        (12, "v1beta2", "Alert", "", How.OBJECT),
    ]


@pytest.mark.parametrize("indent", [None, 2, "\t"], ids=["one line", "lines", "tabs"])
def test_json_and_lists_are_read(indent: int | str | None) -> None:
    item = {"apiVersion": f"{HELM}/v2", "kind": "HelmRelease", "metadata": {"name": "podinfo"}}
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [item]}, indent=indent)
    line = 1 + text[: text.index(HELM)].count("\n")
    assert found(text) == [(line, "v2", "HelmRelease", "podinfo", How.OBJECT)]


def test_what_names_an_object_or_holds_one_is_a_reference() -> None:
    text = f"""\
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {{name: apps}}
spec:
  healthChecks:
  - apiVersion: {HELM}/v2beta1
    kind: HelmRelease
    name: podinfo
  resources:
  - apiVersion: {HELM}/v2beta2
    kind: HelmRelease
    metadata: {{name: inside}}
"""
    assert found(text) == [
        (1, "v1", "Kustomization", "apps", How.OBJECT),
        (6, "v2beta1", "HelmRelease", "podinfo", How.REFERENCE),
        (10, "v2beta2", "HelmRelease", "inside", How.REFERENCE),
    ]


def test_the_targets_and_field_specs_of_kustomize_are_selectors() -> None:
    text = f"""\
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
patches:
- path: a.yaml
  target: {{group: {HELM}, version: v2beta1, kind: HelmRelease, name: podinfo}}
- path: b.yaml
  target:
    kind: HelmRelease
    version: v2beta2
- path: c.yaml
  target: {{group: apps, version: v1, kind: Deployment}}
transformers:
- fieldSpecs:
  - path: spec/a
    group: {HELM}
    version: v2beta2
"""
    uses_of = uses(text.encode(), "kustomization.yaml")
    assert [(use.line, use.group, use.version, use.kind, use.name, use.how) for use in uses_of] == [
        (5, HELM, "v2beta1", "HelmRelease", "podinfo", How.SELECTOR),
        (9, "", "v2beta2", "HelmRelease", "", How.SELECTOR),
        (16, HELM, "v2beta2", "", "", How.SELECTOR),
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"patches:\n- patch: |-\n    apiVersion: {HELM}/v2beta1\n    kind: HelmRelease\n", 3),
        (f"patches:\n- patch: |\n    # why\n    - kind: HelmRelease\n      apiVersion: {HELM}/v2beta1\n", 5),
        (f"patchesStrategicMerge:\n- a.yaml\n- |-\n  apiVersion: {HELM}/v2beta1\n  kind: HelmRelease\n", 4),
        (f'- patch: "kind: HelmRelease\\napiVersion: {HELM}/v2beta1"\n', 2),
    ],
    ids=["a patch", "a list in a patch", "a strategic patch", "a patch in quotes"],
)
def test_a_patch_that_is_a_text_in_a_file_is_read_line_by_line(text: str, line: int) -> None:
    assert found(text) == [(line, "v2beta1", "HelmRelease", "", How.TEXT)]


def test_a_template_that_is_no_yaml_is_read_line_by_line() -> None:
    text = f"""\
{{{{- if .Values.enabled }}}}
apiVersion: {HELM}/v2beta1
kind: HelmRelease
metadata:
  name: {{{{ .Release.Name }}}}
---
  - "kind": "Alert",
    "apiVersion": "notification.toolkit.fluxcd.io/v1beta2",
---
apiVersion: {HELM}/{{{{ .version }}}}
---
apiVersion: source.toolkit.fluxcd.io/v1beta2  # the kind is elsewhere

{{{{- end }}}}
"""
    assert found(text) == [
        (2, "v2beta1", "HelmRelease", "", How.TEXT),
        (8, "v1beta2", "Alert", "", How.TEXT),
        (12, "v1beta2", "", "", How.TEXT),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "just a text",
        f"data:\n  apps.yaml: |\n    {OBJECT}",
        f"apiVersion: {HELM}/v2beta1\n",
        f"apiVersion: {HELM}/v2beta1\nkind: [HelmRelease]\n",
        "apiVersion: helm.toolkit.fluxcd.io\nkind: HelmRelease\n",
        "apiVersion: [a, b]\nkind: HelmRelease\n",
        "apiVersion: apps/v1\nkind: Deployment\n",
        "? [a, b]\n: {apiVersion: 5, kind: A}\n",
        "chart: {version: 1.2.3}\n",
        "- patch: a.yaml\n",
        "a: *nothing",
    ],
)
def test_anything_else_is_no_use(text: str) -> None:
    assert found(text) == []


def test_an_alias_of_a_text_stands_for_it_in_its_document_alone() -> None:
    first, then = (
        f"a: &v {HELM}/{version}\nb:\n  apiVersion: *v\n  kind: HelmRelease\n" for version in ("v2beta1", "v2")
    )
    assert found(f"{first}---\n{then}") == [
        (3, "v2beta1", "HelmRelease", "", How.REFERENCE),
        (8, "v2", "HelmRelease", "", How.REFERENCE),
    ]


def test_what_an_alias_stands_for_is_told_where_it_is_written() -> None:
    text = f"a: &o\n  apiVersion: {HELM}/v2beta1\n  kind: HelmRelease\nb: *o\nc:\n  <<: *o\n"
    assert found(text) == [(2, "v2beta1", "HelmRelease", "", How.REFERENCE)]


def test_what_is_no_text_is_passed_over_and_a_byte_order_mark_is_none_of_it() -> None:
    assert uses(b"\xff\xfe\x00", "a.bin") == ()
    assert len(uses(b"\xef\xbb\xbf" + OBJECT.encode(), "a.yaml")) == 1


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_no_content_makes_it_fail(data: bytes) -> None:
    uses(data, "a.yaml")
    uses(OBJECT.encode() + b"---\n" + data, "a.yaml")
