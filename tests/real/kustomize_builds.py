"""What the real kustomize builds for the unit tests of overlays.

`python -m tests.real.kustomize_builds` writes `tests/assets/kustomize-builds.json`, so that those need no program.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.real.peers import peer

ASSET = Path(__file__).parents[1] / "assets" / "kustomize-builds.json"
TESTS = "tests/unit/impact/overlay"


def builds() -> str:
    """Return the builds that the unit tests ask for, as the asset has them: the tests run with the program itself."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "builds.json"
        environment = os.environ | {"RECORD_WITH": str(peer("kustomize")), "RECORD_TO": str(result)}
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-m", "not often", TESTS],
            cwd=ASSET.parents[2],
            env=environment,
            check=False,
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 0, ran.stdout[-5_000:]
        return result.read_text()


if __name__ == "__main__":
    ASSET.write_text(builds())
