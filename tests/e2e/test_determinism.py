"""Invariant 10: same inputs, same digest, whatever the machine looks like."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import semver

from ci_automation.flux.artifact import compose
from tests.unit.flux.recipe import RECIPE

PROGRAM = """
import os, sys
os.umask(int(sys.argv[1], 8))
from ci_automation.flux.artifact import compose
from tests.unit.flux.recipe import RECIPE
print(compose(RECIPE).digest)
"""
ROOT = Path(__file__).parents[2]
LIBRARIES = os.pathsep.join([str(ROOT), str(Path(semver.__file__).parents[1])])


def digest_in(python: str, umask: str = "022", **environment: str) -> str:
    """Compose the sample artifact in another process."""
    done = subprocess.run(
        [python, "-W", "ignore", "-c", PROGRAM, umask],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": LIBRARIES, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param({"PYTHONHASHSEED": "1"}, id="hash seed"),
        pytest.param({"PYTHONHASHSEED": "4242"}, id="another hash seed"),
        pytest.param({"TZ": "Pacific/Chatham"}, id="time zone"),
        pytest.param({"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8"}, id="locale"),
        pytest.param({"LC_ALL": "C", "PYTHONUTF8": "0"}, id="no UTF-8"),
        pytest.param({"SOURCE_DATE_EPOCH": "1700000000"}, id="build date"),
    ],
)
def test_the_environment_does_not_matter(environment: dict[str, str]) -> None:
    assert digest_in(sys.executable, **environment) == str(compose(RECIPE).digest)


@pytest.mark.parametrize("umask", ["000", "077", "027"])
def test_the_umask_does_not_matter(umask: str) -> None:
    assert digest_in(sys.executable, umask) == str(compose(RECIPE).digest)


def other_pythons() -> list[str]:
    """Return the interpreters of this machine that can load the libraries, which are compiled for some of them."""
    found = [name for minor in range(11, 20) if (name := shutil.which(f"python3.{minor}"))]
    load, environment = ("-W", "ignore", "-c", "import msgspec"), {**os.environ, "PYTHONPATH": LIBRARIES}
    return [
        name
        for name in found
        if subprocess.run([name, *load], env=environment, capture_output=True, check=False).returncode == 0
    ]


@pytest.mark.parametrize("python", other_pythons())
def test_the_version_of_python_does_not_matter(python: str) -> None:
    assert digest_in(python) == str(compose(RECIPE).digest)
