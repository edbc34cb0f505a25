"""The ids that Git gives to files and folders; those below are what `git rev-parse HEAD:` printed."""

from __future__ import annotations

from ci_automation.artifact.git import EXECUTABLE, PLAIN, GitEntry, git_blob_id, git_tree_id

# `a-b` comes before the folder `a`, which Git sorts as `a/`, and `a.d` between them.
FILES = (
    GitEntry(PLAIN, "a/b/x.yaml", b"x: 1\n"),
    GitEntry(EXECUTABLE, "a/run", b"#!/bin/sh\n"),
    GitEntry(PLAIN, "ä", b"u"),
    GitEntry(PLAIN, "a.d/bin", b"\xff\x00"),
    GitEntry(PLAIN, "a-b", b""),
)


def test_a_file_has_its_id_of_git() -> None:
    assert git_blob_id(b"x: 1\n") == "d508cf756344aaf9123c531122a9d2d410c4ecfa"


def test_a_folder_has_its_id_of_git_in_whatever_order_its_files_come() -> None:
    assert git_tree_id(FILES) == git_tree_id(FILES[::-1]) == "249505d0d66094a89c7f9a4542a97c55e421c2da"


def test_a_mode_and_a_byte_change_the_id() -> None:
    assert len({git_tree_id([GitEntry(mode, "f", data)]) for mode in (PLAIN, EXECUTABLE) for data in (b"", b"1")}) == 4


def test_a_name_that_is_not_utf_8_keeps_its_bytes() -> None:
    assert git_tree_id([GitEntry(PLAIN, "\udcff", b"")]) != git_tree_id([GitEntry(PLAIN, "ÿ", b"")])


def test_a_folder_without_files_is_the_empty_tree() -> None:
    assert git_tree_id([]) == "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
