"""Folders and files of this machine: what is taken as an overlay, and how things are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ci_automation.artifact.tree import Tree, TreeFile, UnfitPath
from ci_automation.errors import UsageError
from ci_automation.flows import files
from ci_automation.flows.diff import of_file
from ci_automation.flows.files import (
    OutputExists,
    UnreadableFolder,
    UnreadableOverlay,
    Unwritable,
    read_file,
    read_overlay,
    read_plan_file,
    write_file,
    write_tree,
)

if TYPE_CHECKING:
    from collections.abc import Callable

TREE = Tree((TreeFile("a.yaml", b"a: 1\r\n"), TreeFile("bin/run", b"#!/bin/sh\n", executable=True)))


def test_an_overlay_is_what_its_folder_has_but_for_git(tmp_path: Path) -> None:
    write_tree(TREE, tmp_path / "overlay")
    for name in (".git/config", "bin/.gitignore"):
        (tmp_path / "overlay" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "overlay" / name).write_text("x")
    assert read_overlay(tmp_path / "overlay").digest() == TREE.digest()


BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "a link": (lambda folder: (folder / "link").symlink_to("/etc/passwd"), "link is a symbolic link"),
    "a link to a folder": (lambda folder: (folder / "link").symlink_to("/etc"), "link is a symbolic link"),
    "a pipe": (lambda folder: os.mkfifo(folder / "pipe"), "pipe is neither a regular file nor a folder"),
    "components": (lambda folder: (folder / "gotk-components.yaml").touch(), "holds gotk-components.yaml"),
    "too large a file": (lambda folder: (folder / "big").write_bytes(b"12345"), "big: it is larger than 0 MiB"),
    "too much": (lambda folder: [(folder / name).write_bytes(b"123") for name in "ab"], "holds more than"),
}


@pytest.mark.parametrize(("make", "message"), BAD.values(), ids=list(BAD))
def test_what_clusters_could_not_unpack_is_no_overlay(
    tmp_path: Path, make: Callable[[Path], object], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_OVERLAY_BYTES", 4)
    make(tmp_path)
    with pytest.raises(UnreadableOverlay, match=message):
        read_overlay(tmp_path)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").touch()

    def fail(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as without:
        without.setattr("pathlib.Path.open", fail)
        with pytest.raises(UnreadableOverlay, match=r"a: it cannot be read: Permission denied"):
            read_overlay(tmp_path)
    monkeypatch.setattr("os.scandir", fail)
    with pytest.raises(UnreadableOverlay, match="cannot be read: Permission denied"):
        read_overlay(tmp_path)


def test_a_folder_that_is_deeper_than_any_artifact_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(1200):
        Path("a").mkdir()
        os.chdir("a")
    Path("x.yaml").touch()
    os.chdir(tmp_path)
    try:
        with pytest.raises(UnfitPath):
            read_overlay(Path())
    finally:  # no recursion of others gets so deep
        os.chdir("a/" * 1200)
        Path("x.yaml").unlink()
        for _ in range(1200):
            os.chdir("..")
            Path("a").rmdir()


class TestReadingAFile:
    @pytest.mark.parametrize(
        ("make", "reason"),
        [
            pytest.param(lambda path: path.write_bytes(b"12345"), "larger than 0 MiB", id="too large"),
            pytest.param(os.mkfifo, "it is not a regular file", id="a pipe"),
            pytest.param(Path.mkdir, "it is not a regular file", id="a folder"),
            pytest.param(lambda _: None, "it is not there", id="nothing"),
            pytest.param(lambda path: path.symlink_to("/dev/zero"), "it is not a regular file", id="a device"),
        ],
    )
    def test_takes_a_regular_one_of_limited_size(
        self, tmp_path: Path, make: Callable[[Path], object], reason: str
    ) -> None:
        make(path := tmp_path / "file")
        with pytest.raises(UnreadableFolder, match=reason):
            read_file(path, 4, UnreadableFolder)

    def test_takes_one_as_large_as_the_limit(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"1234")
        assert read_file(tmp_path / "file", 4, UnreadableFolder) == b"1234"

    @pytest.mark.parametrize("read", [read_plan_file, of_file], ids=["a plan", "a components file"])
    def test_waits_for_no_pipe(self, tmp_path: Path, read: Callable[[Path], object]) -> None:
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(UsageError, match="it is not a regular file"):
            read(tmp_path / "pipe")

    @pytest.mark.parametrize("folder", ["/dev/fd", "/proc/self/fd"])
    def test_takes_a_pipe_that_is_open_already(self, folder: str) -> None:
        reading, writing = os.pipe()
        try:
            os.write(writing, b"1234")
            os.close(writing)
            assert read_file(Path(folder) / str(reading), 4, UnreadableFolder) == b"1234"
        finally:
            os.close(reading)


class TestTree:
    def test_goes_into_a_new_or_an_empty_folder(self, tmp_path: Path) -> None:
        (tmp_path / "empty").mkdir()
        for target in (tmp_path / "empty", tmp_path / "new" / "deep"):
            write_tree(TREE, target)
            assert (target / "a.yaml").read_bytes() == b"a: 1\r\n"
            assert (target / "bin" / "run").stat().st_mode & 0o777 == 0o755
            assert (target / "a.yaml").stat().st_mode & 0o777 == 0o644

    @pytest.mark.parametrize("taken", ["file", "link", "folder"])
    def test_never_over_what_is_there(self, tmp_path: Path, taken: str) -> None:
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder" / "mine").touch()
        (tmp_path / "file").touch()
        (tmp_path / "link").symlink_to(tmp_path / "nowhere")
        with pytest.raises(OutputExists):
            write_tree(TREE, tmp_path / taken)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder", "link"]

    def test_leaves_nothing_where_writing_fails(self, tmp_path: Path) -> None:
        too_long = Tree((TreeFile("a", b""), TreeFile("b" * 300, b"")))
        with pytest.raises(Unwritable):
            write_tree(too_long, tmp_path / "out")
        assert list(tmp_path.iterdir()) == []


class TestFile:
    def test_is_written_whole_and_readable(self, tmp_path: Path) -> None:
        (tmp_path / "plan.json").write_text("old")
        write_file(tmp_path / "plan.json", b"new")
        assert (tmp_path / "plan.json").read_text() == "new"
        assert (tmp_path / "plan.json").stat().st_mode & 0o777 == 0o644
        assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]

    def test_stays_as_it_was_where_writing_fails(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "plan.json").write_text("old")

        def fail(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("pathlib.Path.replace", fail)
        with pytest.raises(Unwritable, match="No space left on device"):
            write_file(tmp_path / "plan.json", b"new")
        assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("plan.json", "old")]

    def test_may_be_a_device(self) -> None:
        write_file(Path("/dev/null"), b"x")
