"""What all tests share."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.canaries import canaries, pytest_runtest_makereport

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Once = Callable[[str, Path, Callable[[], object]], None]

__all__ = ["canaries", "pytest_runtest_makereport"]

# The contract's assertions are in a module that pytest does not collect by itself.
pytest.register_assert_rewrite("tests.contract.registry_contract")


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """Return what fills a folder by calling a function the first time, and with a copy of that from then on."""
    made: dict[str, Path] = {}

    def fill(name: str, folder: Path, make: Callable[[], object]) -> None:
        if name in made:
            shutil.copytree(made[name], folder, symlinks=True, dirs_exist_ok=True)
            return
        make()
        made[name] = shutil.copytree(folder, tmp_path_factory.mktemp("once") / "folder", symlinks=True)

    return fill
