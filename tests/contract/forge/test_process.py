"""Releases beside the repository, and the double as a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from ci_automation.flux.sources.github import GitHubSource
from ci_automation.github.client import GitHub
from tests.contract.forge.asking import FILES
from tests.fakes.forge import Forge
from tests.fakes.releases import SampleRelease, write_releases


@pytest.mark.parametrize("flavour", ["api.github.com", "ghes"])
@pytest.mark.parametrize("with_token", [True, False], ids=["with a token", "without"])
def test_releases_are_served_beside_the_repository(tmp_path: Path, flavour: str, with_token: bool) -> None:
    release = SampleRelease("v2.9.4")
    write_releases(tmp_path, [release])
    with Forge(flavour, tmp_path) as forge:
        token = forge.token("actions", "acme/fleet", {"contents": "read"}) if with_token else None
        client = GitHub(token, forge.url)
        (found,) = GitHubSource(client).list()
        assert GitHubSource(client).fetch(found.version).commit == release.commit
        client.close()
        assert len(forge.requests) >= 2


def control(where: dict[str, str], act: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(f"{where['host']}/_control/{act}", data, timeout=10) as answer:  # noqa: S310
        return json.load(answer)


def test_another_process_acts_as_people(tmp_path: Path) -> None:
    world = {
        "teams": {"acme/platform": ["bob"]},
        "repositories": {
            "acme/fleet": {
                "files": {path: text.decode() for path, text in FILES.items()},
                "collaborators": {"alice": "write"},
                "environments": {"flux-manifests": {"reviewers": ["acme/platform"]}},
            }
        },
    }
    (tmp_path / "state.json").write_text(json.dumps(world))
    command = [
        sys.executable,
        "-m",
        "tests.fakes.forge",
        "--listen",
        "127.0.0.1:0",
        "--state",
        str(tmp_path / "state.json"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]) as process:
        assert process.stdout
        where = json.loads(process.stdout.readline())
        fleet = {"repository": "acme/fleet"}
        control(where, "push", fleet | {"branch": "b", "files": {"x": "1"}, "by": "alice"})
        assert control(where, "open_pull", fleet | {"branch": "b", "by": "alice"})["number"] == 1
        sha = control(where, "merge", fleet | {"number": 1, "by": "alice", "how": "squash"})["sha"]
        inputs = {"artifact": "a"}
        run = control(
            where, "dispatch", fleet | {"workflow": "approve.yaml", "ref": "main", "inputs": inputs, "by": "alice"}
        )
        control(where, "approve", {"run": run["id"], "by": "bob"})
        for branch in ("one", "two"):
            control(where, "push", fleet | {"branch": branch, "files": {branch: "1"}, "by": "alice"})
            control(where, "open_pull", fleet | {"branch": branch, "by": "alice"})
        control(where, "log", fleet | {"lag": 1, "lose": 1})
        (_, queued) = control(where, "merge_queue", fleet | {"numbers": [2, 3]})["commits"]
        control(where, "move", fleet | {"branch": "main", "commit": sha, "by": "acme", "force": True})
        control(where, "move", fleet | {"branch": "main", "commit": queued, "by": "acme"})
        state = control(where, "state")["repositories"]["acme/fleet"]
        process.terminate()
        assert process.wait(10) == 0
    assert (state["branches"]["main"], state["issues"][0]["merged_by"], state["runs"][0]["status"]) == (
        queued,
        "alice",
        "queued",
    )
    assert json.loads((tmp_path / "state.end.json").read_text())["violations"] == []
