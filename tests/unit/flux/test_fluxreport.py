"""FluxReports: what says that all is well, and nothing else that passes for it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_automation.flows.evidence import MAX_REPORT_BYTES, FluxReport, InvalidReport, parse_reports


def report(**spec: Any) -> dict[str, Any]:
    """Return a report as flux-operator writes it, with changes."""
    own = {
        "cluster": {"serverVersion": "v1.33.1"},
        "components": [
            {"name": "source-controller", "image": "x", "ready": True, "status": "Current Deployment is available."},
            {"name": "kustomize-controller", "image": "x", "ready": True, "status": "Current"},
        ],
        "distribution": {
            "entitlement": "Issued",
            "managedBy": "flux-operator",
            "status": "Installed",
            "version": "v2.9.4",
        },
        "reconcilers": [
            {"apiVersion": "v1", "kind": "Kustomization", "stats": {"failing": 0, "running": 5, "suspended": 0}}
        ],
        "sync": {"ready": True},
    }
    return {"apiVersion": "fluxcd.controlplane.io/v1", "kind": "FluxReport", "metadata": {}, "spec": {**own, **spec}}


def parsed(value: object) -> tuple[FluxReport, ...]:
    return parse_reports(json.dumps(value).encode())


def test_one_object_and_a_list_of_kubectl_are_read() -> None:
    good = FluxReport("v2.9.4", (), 2)
    assert parsed(report()) == (good,)
    assert parsed({"kind": "List", "items": [report(), report()]}) == (good, good)


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"components": [{"name": "helm-controller", "ready": False}]}, "'helm-controller' is not ready"),
        ({"distribution": {"status": "NotInstalled", "version": "v2.9.4"}}, "the distribution is 'NotInstalled'"),
        ({"reconcilers": [{"kind": "HelmRelease", "stats": {"failing": 2}}]}, "2 of kind 'HelmRelease' fail"),
    ],
    ids=["a component", "the distribution", "a reconciler"],
)
def test_what_is_not_well_is_named(spec: dict[str, Any], problem: str) -> None:
    (found,) = parsed(report(**spec))
    assert len(found.problems) == 1
    assert found.problems[0].startswith(problem)


def test_a_version_that_it_does_not_say_is_empty() -> None:
    assert parsed(report(distribution={"status": "Installed"}))[0].version == ""
    assert parsed(report(distribution={"status": "Installed", "version": 2}))[0].version == ""


def test_a_cluster_without_reconcilers_is_one() -> None:
    value = report()
    del value["spec"]["reconcilers"]
    assert parsed(value) == (FluxReport("v2.9.4", (), 2),)


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        {"items": []},
        {"items": {}},
        {"items": [None]},
        report(components=[]),
        report(components=[{"name": "x"}]),
        report(components=[{"name": "x", "ready": "true"}]),
        report(distribution={}),
        report(distribution=None),
        report(reconcilers={}),
        report(reconcilers=[{"kind": "Kustomization", "stats": {}}]),
        report(reconcilers=[{"kind": "Kustomization", "stats": {"failing": "0"}}]),
        {**report(), "kind": "Kustomization"},
    ],
)
def test_what_does_not_tell_is_no_report(value: object) -> None:
    with pytest.raises(InvalidReport):
        parsed(value)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[" * 100_000, b" " * (MAX_REPORT_BYTES + 1)])
def test_what_is_not_json_or_too_large_is_none(data: bytes) -> None:
    with pytest.raises(InvalidReport):
        parse_reports(data)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_no_value_breaks_it(value: object) -> None:
    with pytest.raises(InvalidReport):
        parsed({**report(), "spec": value} if isinstance(value, dict) else value)
