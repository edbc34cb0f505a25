"""Where a command finds its configuration: here, or above in the clone, and never beyond."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci_automation.cli.arguments import (
    Arguments,
    ForeignConfiguration,
    MisnamedConfiguration,
    configuration,
    configuration_path,
    configuration_root,
)

TEXT = "version: 1\nartifacts: [{name: production, url: 'layout:registry:production'}]\n"
# The folders with the file and the tops of clones below the test's own folder, and where it is found from fleet/a/b.
SCENES = {
    "here": (("fleet/a/b", "fleet"), ("fleet",), "."),
    "at the top of the clone": (("fleet",), ("fleet",), "../.."),
    "in the nearest folder": (("fleet/a", "fleet"), ("fleet",), ".."),
    "not beyond the top of the clone": (("fleet", "."), ("fleet/a",), None),
    "not above the top of a clone without it": ((".",), ("fleet",), None),
    "not above a folder that is in no clone": (("fleet", "fleet/a"), (), None),
    "nowhere": ((), ("fleet",), None),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "fleet/a/b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "fleet/a/b")
    return tmp_path


def write(folder: Path) -> None:
    (folder / ".github").mkdir()
    (folder / ".github/flux-manifests.yaml").write_text(TEXT)


@pytest.mark.parametrize(("files", "clones", "root"), SCENES.values(), ids=list(SCENES))
def test_the_configuration_is_found_upwards(
    files: tuple[str, ...], clones: tuple[str, ...], root: str | None, folder: Path
) -> None:
    for each in files:
        write(folder / each)
    for each in clones:
        (folder / each / ".git").mkdir()
    found = configuration(Arguments())
    assert configuration_root(Arguments()) == Path(root or ".")
    if root is None:
        assert found is None
    else:
        assert found
        [artifact] = found.artifacts
        assert str(artifact.channel) == f"layout:{Path(root) / 'registry'}:production"


def test_the_top_of_a_worktree_or_submodule_counts_too(folder: Path) -> None:
    write(folder / "fleet")
    (folder / "fleet/.git").write_text("gitdir: ../elsewhere")
    assert configuration_path(Arguments()) == Path("../../.github/flux-manifests.yaml")


def test_a_named_configuration_is_the_one_and_its_paths_begin_here(folder: Path) -> None:
    write(folder / "fleet")
    (folder / "fleet/.git").mkdir()
    given = Arguments(config="../../.github/flux-manifests.yaml")
    found = configuration(given)
    assert configuration_root(given) == Path()
    assert found
    assert str(found.artifacts[0].channel) == "layout:registry:production"


def test_a_configuration_whose_name_ends_otherwise_is_told(folder: Path) -> None:
    write(folder / "fleet/a/b")
    file = folder / "fleet/a/b/.github/flux-manifests.yaml"
    file.rename(file.with_suffix(".yml"))
    with pytest.raises(MisnamedConfiguration, match=r"flux-manifests\.yml is not read"):
        configuration(Arguments())
    assert configuration(Arguments(config=".github/flux-manifests.yml"))


@pytest.mark.parametrize("theirs", [".", ".github", ".github/flux-manifests.yaml"])
def test_the_folder_or_file_of_another_user_does_not_count(
    theirs: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user may put a file into /tmp, with signers to trust, while root works in a folder below."""
    write(folder / "fleet")
    (folder / "fleet/.git").mkdir()
    of_another(folder / "fleet" / theirs, monkeypatch)
    assert configuration(Arguments()) is None


@pytest.mark.parametrize("theirs", [".github", ".github/flux-manifests.yaml"])
def test_the_file_of_another_user_in_the_working_directory_is_told(
    theirs: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder / "fleet/a/b")
    of_another(folder / "fleet/a/b" / theirs, monkeypatch)
    with pytest.raises(ForeignConfiguration):
        configuration(Arguments())
    assert configuration(Arguments(config=".github/flux-manifests.yaml"))


def test_a_checkout_may_belong_to_another_user_as_a_whole(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder / "fleet/a/b")
    monkeypatch.setattr(os, "geteuid", lambda: (folder / "fleet").stat().st_uid + 1)
    assert configuration(Arguments())


def of_another(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a file or folder belong to another user."""
    known = place.lstat().st_uid
    monkeypatch.setattr("ci_automation.cli.arguments.owner", lambda path: known + (path.absolute() == place.absolute()))
