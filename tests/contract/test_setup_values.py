"""Clusters of one channel whose folders differ only in values: each keeps its own in the objects that it applies."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from ci_automation.cli import run
from ci_automation.flux.options import Options
from tests.contract.bootstrapped import OWN, bootstrap
from tests.contract.test_setup_migration import DOCS, THREE, Building, Terminal, block, clone, left, line, of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ci_automation.impact.overlay.builder import Build, BuildFailed

__all__ = ["clone", "left"]  # fixtures
SIZES = {"staging": 2, "production-1": 3, "production-2": 4, "production-3": 5, "stable-1": 6, "stable-2": 7}
PLACE = "`/spec/template/spec/containers/0/resources/limits/memory` of Deployment source-controller"
TOLD = f" from clusters/staging/flux-system only in the value of {PLACE}. They need no channels of their own: "
ALL = "Clusters of staging, then of production, then of stable, each when it has its first digest"


class Counting(Building):
    """A kustomize that counts what it builds."""

    count = 0

    def builds(self, wanted: Sequence[Build]) -> tuple[str | BuildFailed, ...]:
        """Return the builds."""
        Counting.count += len(wanted)
        return super().builds(wanted)


def sized(clone: Path) -> None:
    """Write the folders of clusters with a limit of memory each."""
    for name, size in SIZES.items():
        own = {**OWN, "memory.yaml": OWN["memory.yaml"].replace("2Gi", f"{size}Gi")}
        bootstrap(clone, f"clusters/{name}/flux-system", own=own)


def limits(path: Path) -> list[str]:
    """Return what the patches of a cluster's objects set."""
    _, applied = yaml.safe_load_all(path.read_text())
    return [yaml.safe_load(it["patch"])[0]["value"] for it in applied["spec"].get("patches", ())]


def test_each_cluster_keeps_its_value_in_one_channel(
    clone: Path, left: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ci_automation.cli.questions.kustomize", Counting)
    sized(clone)
    Counting.count = 0
    listed = left(*THREE)
    assert Counting.count == len(["one folder for all", "the source with its patch"])
    told = line(listed, "only in the value of")
    assert f". 5 folders differ{TOLD}" in told
    assert "With it, kustomize builds the same objects for production-1; the others differ from that in the" in told
    assert not any("channel of its own" in it or "No step below" in it for it in listed)
    objects = clone / "flux-manifests"
    listing = {it.parent.name: it.read_text().split() for it in objects.glob("*/clusters.txt")}
    assert sorted(name for names in listing.values() for name in names) == sorted(SIZES)
    for channel, names in listing.items():
        assert limits(objects / channel / "sync.yaml") == []
        for name in names:
            own = objects / channel / name / "sync.yaml"
            assert (limits(own) if own.exists() else ["2Gi"]) == [f"{SIZES[name]}Gi"]
            assert own.exists() is (name != "staging")
    move = of("production", block(listed, "Move one cluster.", ALL)).replace("MOST=1", "MOST=999")
    applied = [it for it in Terminal(clone).run(move) if " apply " in it]
    assert applied == [
        f"kubectl --context {it} apply -f flux-manifests/production/{it}" for it in listing["production"]
    ]
    staging = of("staging", block(listed, "Move one cluster.", ALL))
    shutil.rmtree(clone.parent / "programs")
    shutil.rmtree(clone.parent / "origin.git")
    assert "kubectl --context staging apply -f flux-manifests/staging" in Terminal(clone).run(staging)
    assert left("setup", "--yes") == listed


def test_values_stay_when_git_has_given_up_flux(clone: Path, left: Callable[..., list[str]]) -> None:
    sized(clone)
    told = line(left(*THREE), "only in the value of")
    assert "There is no kustomize here, so nothing proves that clusters get the same objects" in told
    (clone / "clusters/staging/flux-system/gotk-components.yaml").unlink()
    told = line(left("setup", "--yes"), "only in the value of")
    assert ". 5 folders differ from clusters/flux-system only in the value of " in told
    for name in ("production-1", "production-2", "stable-1", "stable-2"):
        (clone / f"clusters/{name}/flux-system/gotk-components.yaml").unlink()
    assert ". 1 folder differs from clusters/flux-system only in" in line(left("setup", "--yes"), "only in the value")
    usual = "{timeout: 7m, patches: [{patch: '[{value: 1Gi}]', target: {kind: X}}]}"
    config = clone / ".github/flux-manifests.yaml"
    for it in (clone / "clusters/production-3", clone / "flux-manifests/production/clusters.txt"):
        shutil.rmtree(it) if it.is_dir() else it.unlink()
    config.write_text(config.read_text().replace("defaults:\n", f"defaults:\n  sync: {{kustomization: {usual}}}\n"))
    for _ in range(2):
        left("setup", "--yes")
        for name, size in SIZES.items():
            for own in (clone / "flux-manifests").glob(f"*/{name}/sync.yaml"):
                assert limits(own) == ["1Gi", f"{size}Gi"]
                assert "timeout: 7m" in own.read_text()
    for own in (clone / "flux-manifests").glob("*/stable-1/sync.yaml"):
        own.write_text("a: [")
        assert run(["setup", "--yes"]) == 2


ROLE = """\
apiVersion: v1
kind: ServiceAccount
metadata:
  name: source-controller
  annotations: {eks.amazonaws.com/role-arn: ROLE}
"""
WITH_ROLE = f"- patch: |\n{re.sub('^', '    ', ROLE, flags=re.MULTILINE).rstrip()}\n"


@pytest.mark.parametrize(
    ("patch", "is_value"),
    [
        (WITH_ROLE, True),
        (WITH_ROLE.replace("name: source-controller", "name: ROLE"), False),
        (WITH_ROLE.replace("{eks.amazonaws.com/role-arn: ROLE}", "{ROLE: a}"), False),
        (WITH_ROLE.replace("{eks.amazonaws.com/role-arn: ROLE}", "{$patch: ROLE}"), False),
        (WITH_ROLE.replace("{eks.amazonaws.com/role-arn: ROLE}", "[ROLE]"), False),
        ("- {patch: '[{op: add, path: /a/b, value: {c: ROLE}}]', target: {kind: Role}}\n", True),
        ("- {patch: '[{op: add, path: /a/-, value: ROLE}]', target: {kind: Role}}\n", False),
        ("- {patch: '[{op: add, path: /a/1, value: ROLE}]', target: {kind: Role}}\n", False),
        ("- {patch: '[{op: test, path: /a, value: ROLE}]', target: {kind: Role}}\n", False),
        ("- {patch: '[{op: add, path: /ROLE, value: a}]', target: {kind: Role}}\n", False),
        ("- {patch: '[{op: add, path: /a, value: a}]', target: {kind: Role, name: ROLE}}\n", False),
        ("namePrefix: ROLE\n", False),
    ],
)
def test_only_fields_that_are_set_again_are_values(
    clone: Path, left: Callable[..., list[str]], patch: str, *, is_value: bool
) -> None:
    for name in ("staging", "production-1", "production-2"):
        more = OWN["kustomization.yaml"] + patch.replace("ROLE", f"of-{name}")
        bootstrap(clone, f"clusters/{name}/flux-system", own={**OWN, "kustomization.yaml": more})
    listed = left(*THREE)
    assert any("only in the value of" in it for it in listed) is is_value
    assert (clone / "flux-manifests/production/clusters.txt").exists() is is_value
    assert (clone / "flux-manifests/production/production-1/sync.yaml").exists() is is_value
    if patch is WITH_ROLE:
        told = "`/metadata/annotations/eks.amazonaws.com~1role-arn` of ServiceAccount source-controller"
        assert told in line(listed, "only in the value of")


@pytest.mark.parametrize("more", [{"options": Options(log_level="debug")}, {"components": "edited"}])
def test_a_folder_with_a_value_of_its_own_and_another_difference_is_told(
    clone: Path, left: Callable[..., list[str]], more: dict[str, Any]
) -> None:
    sized(clone)
    own = {**OWN, "memory.yaml": OWN["memory.yaml"].replace("2Gi", "9Gi")}
    if more.get("components"):
        path = clone / "clusters/staging/flux-system/gotk-components.yaml"
        more = {"components": path.read_text().replace("replicas: 1", "replicas: 2")}
    bootstrap(clone, "clusters/stable-2/flux-system", own=own, **more)
    listed = left(*THREE)
    assert "No step below moves it" in line(listed, "stable-2 differs from staging: memory.yaml and ")
    assert ". 4 folders differ" in line(listed, "only in the value of")


def test_the_commands_of_the_guide_give_a_new_cluster_its_value(clone: Path, left: Callable[..., list[str]]) -> None:
    section = (DOCS / "guides/one-cluster-differs.md").read_text().partition("\n## A value of each cluster\n")[2]
    section = section.partition("\n## ")[0]
    (commands,) = re.findall(r"^```sh\n(.*?)\n```", section, re.MULTILINE | re.DOTALL)
    (patches,) = re.findall(r"^```yaml\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    left(*THREE)
    Terminal(clone).run(commands)
    own = clone / "flux-manifests/production/production-9/sync.yaml"
    own.write_text(own.read_text() + patches)
    left("setup", "--yes")
    assert own.read_text().startswith("# For production-9 alone, which follows production: kubectl apply -f ")
    assert yaml.safe_load(patches)["patches"] == [*yaml.safe_load_all(own.read_text())][1]["spec"]["patches"]
