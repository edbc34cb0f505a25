"""The action on an artifact whose overlay is in Git, against the double of GitHub."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci_automation.approval.lock import Lock, LockEntry
from ci_automation.approval.port import RequestKind
from tests.contract.scene import BRANCH, FIRST, LOCK, Scene, staged, template

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FOLDER = "clusters/production"
CONTENT_BRANCH = "flux-manifests/content-production"
MAP = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more, namespace: flux-system}\n"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return template(tmp_path_factory.mktemp("template"))


@pytest.fixture
def scene(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Scene]:
    """Yield a repository whose artifact has an empty overlay, and whose folder holds one file more."""
    with staged(source, tmp_path / "scene", monkeypatch, capsys) as made:
        made.configure(approval="{via: pull-request}", more=f", overlay: {FOLDER}")
        made.offer(FIRST)
        write(made, {"more.yaml": MAP})
        yield made


def write(scene: Scene, files: dict[str, bytes]) -> None:
    """Let the checkout have these files in the folder of the overlay."""
    for name, data in files.items():
        path = scene.runner.workspace / FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def merge(scene: Scene, number: int) -> None:
    """Let one person review a request and another one merge it."""
    scene.fleet.review(number, "ben")
    scene.fleet.merge(number, "ada")


def test_changed_content_is_asked_for_and_its_merge_publishes_it_once(scene: Scene) -> None:
    before = scene.channel
    ran = scene.run()
    assert (ran.code, scene.channel) == (0, before)
    (pull,) = scene.fleet.pulls
    assert (pull.branch, pull.title) == (CONTENT_BRANCH, "Flux v2.98.5 for production (changed content)")
    assert "more.yaml (new)" in pull.body
    assert scene.run().outputs["approval-url"].endswith(f"/pull/{pull.number}")
    merge(scene, pull.number)
    ran = scene.run()
    assert (ran.outputs["changed"], ran.outputs["target-version"]) == ("true", FIRST)
    assert scene.channel != before
    after = scene.channel
    asked = len(scene.forge.requests)
    assert scene.run().outputs["changed"] == "false"
    assert len(scene.forge.requests) == asked
    assert scene.channel == after


def test_content_and_minor_wait_at_once_and_either_voids_the_other(scene: Scene) -> None:
    scene.offer(FIRST, "v2.99.4")
    ran = scene.run()
    minor, content = scene.fleet.pulls
    assert [minor.branch, content.branch] == [BRANCH, CONTENT_BRANCH]
    assert len(ran.said("notice")) == 2
    bases = {entry_of(scene, branch, kind).request.base for branch, kind in BRANCHES.items()}
    assert {str(base) for base in bases} == {scene.channel}
    merge(scene, content.number)
    scene.run()
    now = entry_of(scene, BRANCH, RequestKind.VERSION).request
    assert (str(now.base), str(now.version)) == (scene.channel, "v2.99.4")
    assert len(scene.fleet.pulls) == 2


BRANCHES = {BRANCH: RequestKind.VERSION, CONTENT_BRANCH: RequestKind.CONTENT}


def entry_of(scene: Scene, branch: str, kind: RequestKind) -> LockEntry:
    lock = Lock.parse((scene.fleet.read(LOCK, branch) or b"").decode())
    (entry,) = (entry for entry in lock.entries if entry.request.kind is kind)
    return entry
