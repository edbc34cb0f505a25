"""Each test gets a desk of its own, in a folder of its own, with nothing of this machine's environment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.canaries import search_folder
from tests.e2e.desk import Desk
from tests.fakes.samples import write_old_samples
from tests.fakes.world import key_pem, signing_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HAVE_SECRETS = (".key", "config.json", "docker.json")  # the names of files in which people keep them


@pytest.fixture(scope="session")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample releases, published so long ago that they are old enough by any clock."""
    return write_old_samples(tmp_path_factory.mktemp("releases"))


@pytest.fixture
def desk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], releases: Path
) -> Iterator[Desk]:
    for name in os.environ:
        monkeypatch.delenv(name)
    home = tmp_path / "home"
    folder = tmp_path / "desk"
    home.mkdir()
    folder.mkdir()
    for name, value in {"HOME": str(home), "PATH": str(home / "no programs"), "FLUX_RELEASES": str(releases)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(folder)
    (folder / "cosign.key").write_bytes(key_pem())
    (folder / "cosign.pub").write_text(signing_key().public.to_pem())
    yield Desk(folder, capsys, monkeypatch)
    search_folder(folder, but=HAVE_SECRETS)
