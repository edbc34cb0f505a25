"""The demo is the real program: what it prints can be done again, and it says what to do next."""

from __future__ import annotations

import re
import shlex
import sys
from typing import TYPE_CHECKING

from tests.e2e.desk import ours
from tests.fakes.releases import write_releases

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.e2e.desk import Desk


def test_it_shows_the_whole_job_and_ends_verified(desk: Desk) -> None:
    ran = desk.ok("demo", "--folder", "here")
    commands = [shlex.split(line)[2:] for line in ran.out.splitlines() if line.startswith("$ flux-manifests ")]
    wanted = ["init", "update", "plan", "apply", "rollback", "update", "verify", "history"]
    assert [command[0] for command in commands] == wanted
    assert "before          v2.98.5" in ran.out
    assert "published       v2.98.8" in ran.out
    assert "needs approval  v2.99.4" in ran.out
    assert "v2.99.4 needs approval: v1beta2 of ImageRepository is removed, RBAC widens\n" in ran.out
    assert "\nNot checked: Flux's signature on v2.98.8 and v2.99.4; " in ran.out
    assert re.search(r"^waiting +v2\.99\.4 .*: webhooks fail", ran.out, re.MULTILINE)
    assert re.search(r"is signed: Flux v2\.98\.8, sha256:", ran.out)
    found = desk.ok("verify", "layout:here/registry:production", "--public-key", "here/cosign.pub", "--output", "json")
    assert found.json["version"] == "v2.98.8"
    assert (desk.folder / "here" / "cosign.key").stat().st_mode & 0o777 == 0o600


def test_without_a_folder_it_keeps_a_new_one_and_what_it_prints_to_do_next_works(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = set(tmp_path.iterdir())
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("FLUX_RELEASES", "/nowhere")  # which is for real channels
    program = desk.folder / "flux-manifests"
    program.touch()
    monkeypatch.setattr(sys, "argv", [str(program)])
    ran = desk.ok("demo")
    (place,) = set(tmp_path.iterdir()) - before
    assert ran.out.startswith("The versions below are samples that Flux never had")
    assert f"To delete it: rm -r {place}\n" in ran.out
    told = ran.out.partition("What to do next:\n")[2].partition("The folder stays")[0]
    path, unset, first, *commands = told.splitlines()
    assert path == f'export PATH="{program.parent}:$PATH"'
    assert (unset, first) == ("unset FLUX_RELEASES", f"cd {place}")
    assert len(commands) == 2
    monkeypatch.chdir(place)
    for command in commands:
        desk.ok(*shlex.split(command)[1:])
    assert "needs approval" in desk.ok("check", "production").out  # the hold is lifted


def test_a_folder_in_use_is_refused_before_anything_is_done(desk: Desk) -> None:
    desk.ok("demo", "--folder", "here")
    before = desk.state()
    ran = desk.run("demo", "--folder", "here")
    assert (ran.code, "output-exists" in ran.err, ran.out) == (2, True, "")
    assert desk.state() == before


def test_releases_without_a_step_to_show_are_refused(desk: Desk) -> None:
    write_releases(desk.folder / "few", [ours("v2.98.1"), ours("v2.98.2")])
    ran = desk.run("demo", "--releases", "few")
    assert (ran.code, "too-few-releases" in ran.err) == (2, True)
