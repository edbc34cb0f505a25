# ruff: noqa: E501 - the tables have a row a line
"""Published advisories: what they say of versions, and that nothing else is believed of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ci_automation.flux.advisories import (
    Vulnerability,
    advisories_in,
    component_versions,
    fixed_by,
    vulnerabilities,
    written_advisories,
)
from ci_automation.flux.version import Version
from tests.fakes.releases import advisory

SOURCE = "source-controller"


def versions(flux: str = "v2.9.3", **controllers: str) -> dict[str, Version]:
    images = {name.replace("_", "-"): f"ghcr.io/fluxcd/x:{tag}" for name, tag in controllers.items()}
    return component_versions(Version.parse(flux), images)


@pytest.mark.parametrize(
    ("written", "inside", "outside"),
    [
        pytest.param("< 1.2.5", "v1.2.4", "v1.2.5", id="below"),
        pytest.param(">= 1.0.0, < 1.2.5", "v1.0.0", "v0.9.9", id="between"),
        pytest.param("> 1.0.0, <= 1.2.5", "v1.2.5", "v1.0.0", id="the ends"),
        pytest.param("= 1.2.4", "v1.2.4", "v1.2.5", id="one"),
    ],
)
def test_a_range_has_versions(written: str, inside: str, outside: str) -> None:
    known = advisories_in([advisory(1, {SOURCE: written})])
    assert vulnerabilities(known, versions(source_controller=inside)) == (
        Vulnerability("CVE-2026-0001", "high", SOURCE),
    )
    assert vulnerabilities(known, versions(source_controller=outside)) == ()


def test_a_controller_is_named_rather_than_flux_as_a_whole() -> None:
    known = advisories_in([advisory(1, {"flux2/v2": "< 2.9.4", SOURCE: "< 1.9.1"})])
    assert [str(it) for it in vulnerabilities(known, versions(source_controller="v1.9.0"))] == [
        "CVE-2026-0001 (high) in source-controller"
    ]
    assert [it.component for it in vulnerabilities(known, versions())] == ["flux2"]


def test_a_release_fixes_what_it_is_not_affected_by_in_any_component() -> None:
    known = advisories_in([advisory(1, {"flux2": "< 2.9.4", SOURCE: "< 1.9.1"}), advisory(2, {SOURCE: "< 1.8.0"})])
    before = versions(source_controller="v1.9.0")
    assert [it.id for it in fixed_by(known, before, versions("v2.9.4", source_controller="v1.9.1"))] == [
        "CVE-2026-0001"
    ]
    assert fixed_by(known, before, versions("v2.9.4", source_controller="v1.9.0")) == ()


def test_what_a_mirror_writes_down_is_read_as_the_same() -> None:
    known = advisories_in(
        [advisory(1, {"flux2": ">= 2.0.0, < 2.9.4", SOURCE: "= 1.9.0"}), advisory(2, {SOURCE: "<= 1.8.0"}, cve_id=None)]
    )
    assert len(known) == 2
    assert advisories_in(json.loads(written_advisories(known))) == known
    assert advisories_in(json.loads(written_advisories(()))) == ()


def test_without_a_cve_the_number_at_github_names_it() -> None:
    (found,) = advisories_in([advisory(1, {SOURCE: "< 9.0.0"}, cve_id=None)])
    assert found.id == "GHSA-aaaa-bbbb-0001"


GOOD = {"package": {"name": f"github.com/fluxcd/{SOURCE}"}, "vulnerable_version_range": "< 9.0.0"}


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({}, id="no list"),
        pytest.param(["x"], id="no advisory"),
        pytest.param([advisory(1, {SOURCE: "< 9.0.0"}, withdrawn_at="2026-01-02T00:00:00Z")], id="withdrawn"),
        pytest.param([advisory(1, {SOURCE: "< 9.0.0"}, cve_id="\x1b[2J", ghsa_id=7)], id="no number"),
        pytest.param([advisory(1, {SOURCE: "< 9.0.0"}, "unknown")], id="no severity"),
        pytest.param([advisory(1, {"other": "< 9.0.0"})], id="another package of Flux"),
        pytest.param([advisory(1, {}, vulnerabilities=[{**GOOD, "package": {"name": "x.test/y"}}])], id="another package"),
        pytest.param([advisory(1, {}, vulnerabilities=["x", None, {}, {**GOOD, "package": None}])], id="no packages"),
        pytest.param([advisory(1, {}, vulnerabilities="x")], id="no list of packages"),
        pytest.param([advisory(1, {SOURCE: "< 9.0"})], id="half a version"),
        pytest.param([advisory(1, {SOURCE: "< 9.0.0, before 8"})], id="half a range"),
        pytest.param([advisory(1, {}, vulnerabilities=[{**GOOD, "vulnerable_version_range": None}])], id="no range"),
    ],
)  # fmt: skip
def test_what_is_not_understood_says_nothing(value: Any) -> None:
    assert advisories_in(value) == ()


def test_controllers_are_known_by_the_tags_of_their_images() -> None:
    images = {
        "a": "r.test/a:v1.2.3",
        "b": f"r.test:5000/b:v1.2.3@sha256:{'0' * 64}",
        "c": "r.test/c@sha256:0",
        "d": "d:v1",
        "e": "e",
    }
    found = component_versions(Version.parse("v2.9.3"), images)
    assert {name: str(version) for name, version in found.items()} == {"flux2": "v2.9.3", "a": "v1.2.3", "b": "v1.2.3"}
