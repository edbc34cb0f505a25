"""The tutorial for the command line, run as it stands: each block for a shell, in order, in one shell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs/tutorials/command-line.md").read_text()
BLOCKS = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_every_command_of_the_tutorial_works_and_ends_where_it_says(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    script = "set -euo pipefail\n" + "".join(BLOCKS)
    ran = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=home, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert len(BLOCKS) > 8
    assert re.search(r"^published +v2\.98\.8 ", ran.stdout, re.MULTILINE)
    assert set(re.findall(r"sha256:[0-9a-f]{64}", PAGE)) <= set(
        re.findall(r"^flux-manifests apply .* --approve (sha256:[0-9a-f]{64})", ran.stdout, re.MULTILINE)
    )
    assert "layout:lesson:production is signed: Flux v2.98.8" in ran.stdout
