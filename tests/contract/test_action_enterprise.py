"""The whole action in a job of an Enterprise Server: other addresses, and no word on which run was started."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.contract.scene import EVERYTHING, MINOR, Scene, staged, template

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Scene]:
    source = template(tmp_path / "template")
    with staged(source, tmp_path / "scene", monkeypatch, capsys, flavour="ghes") as made:
        yield made


def test_a_merge_is_asked_for_and_published(scene: Scene) -> None:
    del scene.own["releases"]  # a copy of the releases is on the server
    scene.configure(approval=EVERYTHING)
    ran = scene.run()
    assert (ran.code, ran.outputs["pending-version"]) == (0, MINOR), ran
    assert ran.outputs["approval-url"] == f"{scene.forge.host}/acme/fleet/pull/1"
    scene.fleet.review(1, "ben", "APPROVED")
    scene.pushed()
    ran = scene.run("apply")
    assert (ran.code, ran.outputs["target-version"]) == (0, MINOR), ran


def test_a_run_is_asked_for_found_by_its_title_and_published(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ci_automation.approval.workflow_run._WAITS", (0.0,))
    scene.configure(approval="{via: workflow-dispatch}")
    for _ in range(2):
        ran = scene.run()
        assert (ran.code, len(scene.fleet.runs)) == (0, 1), ran
        assert ran.outputs["approval-url"].endswith(f"/runs/{scene.fleet.runs[0].id}")
    scene.forge.approve(scene.fleet.runs[0].id, "ada")
    ran = scene.run("approve", **scene.approving())
    assert (ran.code, ran.outputs["target-version"]) == (0, MINOR), ran
