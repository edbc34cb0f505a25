"""Output on a real terminal: a plan over two minors of Flux itself fits on two screens, and so does the demo."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from typing import TYPE_CHECKING

import pytest

from ci_automation.cli import run
from tests.fakes.world import key_pem, signing_key
from tests.real.peers import flux_releases

if TYPE_CHECKING:
    from pathlib import Path

LINES, COLUMNS = 2 * 24, 80
CONFIG = "version: 1\nsource: dir:{releases}\nartifacts: [{{name: production, url: 'layout:r:production', {keys}}}]\n"
KEYS = "signing: {key: cosign.key}, verify: {publicKey: cosign.pub}"


def screen_lines(text: str) -> int:
    """Return how many lines of a terminal a text takes."""
    return sum(max(1, -(-len(line) // COLUMNS)) for line in text.splitlines())


def screen(folder: Path, columns: int, *arguments: str) -> list[str]:
    """Return the lines that a command leaves on a terminal of this width, without colours and progress."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in {"COLUMNS", "LINES", "NO_COLOR"}}
    command = [sys.executable, "-m", "ci_automation", *arguments]
    with subprocess.Popen(command, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as child:
        os.close(theirs)
        written = bytearray()
        with contextlib.suppress(OSError), open(ours, "rb", buffering=0) as file:  # noqa: PTH123 - of a descriptor
            while piece := file.read(4096):
                written += piece
    assert child.returncode == 0, written.decode()
    text = re.sub(r"\x1b\[[0-9;]*m", "", written.decode()).replace("\r\n", "\n")
    return [line.rpartition("\x1b[K")[2].replace("\r", "") for line in text.removesuffix("\n").split("\n")]


COMMANDS = (
    ("update", "production"),
    ("check", "production"),
    ("plan", "production"),
    ("history", "production"),
    ("verify", "production"),
    ("doctor", "production"),
    ("promote", "--config", "promoted.yaml"),
    ("rollback", "production", "--to", "v2.98.5", "--yes"),
    ("update", "--help"),
)
PROMOTED = """\
version: 1
artifacts:
  - {name: production, url: 'layout:registry:production', verify: {publicKey: cosign.pub}}
  - name: edge
    url: layout:edge:stable
    signing: {key: cosign.key}
    verify: {publicKey: cosign.pub}
    promote: {from: production, after: 0h}
"""
TO_COPY = re.compile(r"(cd|\$|The folder stays\.|flux-manifests) |--components=")


@pytest.mark.parametrize("columns", [80, 100, 160])
def test_no_line_is_wider_than_the_terminal_and_no_digest_or_command_is_broken(tmp_path: Path, columns: int) -> None:
    demo = screen(tmp_path, columns, "demo", "--folder", "here")
    (tmp_path / "here/promoted.yaml").write_text(PROMOTED)
    shown = {command: screen(tmp_path / "here", columns, *command) for command in COMMANDS}
    for lines in (demo, *shown.values()):
        told = [line for line in lines if not TO_COPY.match(line.lstrip())]
        assert max(map(len, told)) <= columns, told
        for digest in re.findall(r"sha256:([0-9a-f]*)", "\n".join(lines)):
            assert len(digest) == 64
    assert shown["check", "production"][0] == "production: v2.99.4 is waiting"
    assert shown["history", "production"][0].split() == ["@", "artifact", "when", "(UTC)", "what"]
    assert len(shown["history", "production"]) <= 16  # the last ones say what the numbers are
    promoted = " ".join(line.strip() for line in shown["promote", "--config", "promoted.yaml"])
    assert promoted.startswith("edge: v2.98.8 from production needs approval: ")
    back = " ".join(shown["rollback", "production", "--to", "v2.98.5", "--yes"])
    assert back.startswith("production goes back from v2.98.8 to v2.98.5:")
    approving = next(line for line in demo if line.startswith("flux-manifests apply"))
    assert re.fullmatch(r"flux-manifests apply plan\.json --approve sha256:[0-9a-f]{64}", approving)
    if columns == 100:  # two screens; what is dangerous is whole, though it takes ten lines of them
        assert sum(max(1, -(-len(line) // columns)) for line in demo) <= 112, demo


def test_a_plan_from_2_7_3_to_2_9_4_fits_on_two_screens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COSIGN_PASSWORD", "")
    (tmp_path / "cosign.key").write_bytes(key_pem())
    (tmp_path / "cosign.pub").write_text(signing_key().public.to_pem())
    (tmp_path / ".github").mkdir()
    (tmp_path / ".github/flux-manifests.yaml").write_text(CONFIG.format(releases=flux_releases(), keys=KEYS))
    assert run(["init", "production", "--flux-version", "v2.7.3"]) == 0
    shown = "\n".join(screen(tmp_path, COLUMNS, "plan", "production"))
    read = shown.partition("To approve:")[0]  # without commands, whose paths and digests have any length
    assert screen_lines(read) <= LINES, shown
    words = " ".join(shown.split())
    assert "10 CRDs lose v1beta2 (Alert, Bucket, GitRepository" in words
    assert "Run `flux migrate`" in words
    assert words.startswith("production: v2.7.5 needs approval: "), words
    for step in shown.split("\n\n")[1:]:
        # Ten lines and two titles, but for dangers, which are whole, and warnings: 10 CRDs lose a version.
        assert len(step.partition("To approve:")[0].splitlines()) <= (23 if "danger" in step else 12), step
    assert "warning, networkPolicyNarrowed, auto" in words
    commands = [line for line in shown.splitlines() if line.startswith("flux-manifests ")]
    assert [line.split()[1] for line in commands] == ["plan", "apply"]
    capsys.readouterr()
    assert run(["plan", "production", "-v"]) == 0
    told = re.findall(r"^ {8}v[0-9a-z]+ of \w+ is removed: .* \([0-9a-f]{16}\)$", capsys.readouterr().out, re.MULTILINE)
    assert len(told) == 10
