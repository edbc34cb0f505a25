"""Layers: read with suspicion, written the same way everywhere."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import tarfile
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_automation.artifact.archive import HiddenContent, Limits, UnsafeArchive, read_archive, write_archive
from ci_automation.artifact.tree import Tree, TreeFile
from tests.fakes import archives
from tests.fakes.archives import CASES, by_python, entry, packed

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Mapping

USUAL = Tree(
    (
        TreeFile("kustomization.yaml", b"resources: [flux-system]\n"),
        TreeFile("flux-system/gotk-components.yaml", b"a\n" * 40_000),
        TreeFile("bin/run", b"#!/bin/sh\n", executable=True),
        TreeFile("sub-a.yaml", b""),
        TreeFile("sub/é.yaml", b"1"),
        TreeFile("/".join(["p" * 60] * 4) + ".yaml", b"2"),
    )
)
# What no machine, umask, locale, time zone, Python or zlib may change: the digest of an artifact depends on it.
USUAL_DIGEST = "92de290cc13adafde1cdf80d5ef9baed821fc701d8dd7150410b7637cc9c42f6"
octets = st.integers(0, 255)
names = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/\\"), min_size=1, max_size=40
).filter(lambda name: name != "." and not name.endswith(".."))
contents = st.binary(max_size=40) | st.integers(500, 1030).map(lambda size: b"x" * size)


def flattened(folder: Mapping[str, object], prefix: str = "") -> Iterator[TreeFile]:
    for name, inside in folder.items():
        if isinstance(inside, dict):
            yield from flattened(inside, f"{prefix}{name}/")
        elif isinstance(inside, bytes):
            yield TreeFile(f"{prefix}{name}", inside, executable=len(inside) % 2 == 1)


def folders(inside: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.dictionaries(names, inside, min_size=1, max_size=4)


trees = st.dictionaries(names, st.recursive(contents, folders, max_leaves=8), max_size=5).map(
    lambda folder: Tree(tuple(flattened(folder)))
)


def in_order(tree: Tree) -> list[TreeFile]:
    return sorted(tree.files, key=lambda file: file.path)


class TestReading:
    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
    def test_gives_the_files_or_says_why_not(self, case: archives.Case) -> None:
        if isinstance(case.ours, str):
            with pytest.raises(UnsafeArchive) as error:
                read_archive(case.archive)
            assert str(error.value).startswith(case.ours)
            assert error.value.exit_code == 10
        else:
            assert {file.path: file.content for file in read_archive(case.archive).files} == case.ours

    @pytest.mark.parametrize(
        ("mode", "executable"),
        [
            pytest.param(b"0000644\0", False, id="0644"),
            pytest.param(b"0000600\0", False, id="0600"),
            pytest.param(b"0000000\0", False, id="0000"),
            pytest.param(b"0000755\0", True, id="0755"),
            pytest.param(b"0000700\0", True, id="0700"),
            pytest.param(b"0000001\0", True, id="0001"),
            pytest.param(b"0006644\0", False, id="setuid and setgid"),
        ],
    )
    def test_keeps_of_the_mode_whether_it_is_executable(self, mode: bytes, *, executable: bool) -> None:
        (file,) = read_archive(packed(entry(b"a", mode=mode))).files
        assert (file.executable, file.mode) == (executable, 0o755 if executable else 0o644)

    @given(st.dictionaries(names, contents, max_size=5), st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]))
    def test_takes_what_pythons_tarfile_writes(self, files: dict[str, bytes], form: int) -> None:
        assert {file.path: file.content for file in read_archive(by_python(files, form)).files} == files

    @given(st.binary(max_size=2000), st.sampled_from([b"", b"\x1f\x8b", b"\x1f\x8b\x08\0\0\0\0\0\0\xff"]))
    def test_refuses_random_bytes_and_nothing_worse_happens(self, data: bytes, start: bytes) -> None:
        with pytest.raises(UnsafeArchive):
            read_archive(start + data)

    @settings(max_examples=600)
    @given(st.sampled_from(CASES), st.data())
    def test_reads_or_refuses_an_archive_with_changed_bytes(self, case: archives.Case, data: st.DataObject) -> None:
        changed = bytearray(case.archive)
        for _ in range(data.draw(st.integers(0, 4)) if changed else 0):
            changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(octets)
        self.read_or_refused(
            bytes(changed[: data.draw(st.integers(0, len(changed)))] if data.draw(st.booleans()) else changed)
        )

    @settings(max_examples=600)
    @given(st.lists(st.sampled_from([case for case in CASES if case.cluster is not None]), max_size=3), st.data())
    def test_reads_or_refuses_a_tar_with_changed_headers(self, cases: list[archives.Case], data: st.DataObject) -> None:
        content = bytearray(b"".join(self.unpacked(case.archive).removesuffix(archives.END) for case in cases))
        for _ in range(data.draw(st.integers(0, 4)) if content else 0):
            at = data.draw(st.integers(0, len(content) - 1))
            content[at] = data.draw(octets)
            start = at // 512 * 512
            header = content[start : start + 512]
            header[148:156] = b" " * 8
            header[148:156] = b"%06o\0 " % sum(header)
            content[start : start + 512] = header
        self.read_or_refused(gzip.compress(bytes(content), 0, mtime=0))

    @staticmethod
    def unpacked(archive: bytes) -> bytes:
        try:
            return gzip.decompress(archive)
        except (OSError, EOFError):
            return b""

    @staticmethod
    def read_or_refused(archive: bytes) -> None:
        with suppress(UnsafeArchive):
            read_archive(archive)


class TestLimits:
    def test_a_gzip_bomb_is_not_unpacked_to_its_end(self) -> None:
        bomb = gzip.compress(bytes(50 << 20))
        with pytest.raises(UnsafeArchive, match="unpacks to more than 1000000 bytes"):
            read_archive(bomb, Limits(total_bytes=1_000_000))

    def test_nor_is_one_of_many_members(self) -> None:
        bomb = gzip.compress(bytes(1000)) * 1001
        with pytest.raises(UnsafeArchive, match="unpacks to more than 1000000 bytes"):
            read_archive(bomb, Limits(total_bytes=1_000_000))

    def test_nor_is_one_of_many_members_with_nothing_in_them(self) -> None:
        with pytest.raises(UnsafeArchive, match="more than 10000 gzip members"):
            read_archive(gzip.compress(b"") * 10_001)

    def test_as_much_as_the_limit_is_read(self) -> None:
        archive = packed(entry(b"a", b"1"))
        assert read_archive(archive, Limits(1, 2048, len(archive))).files

    @pytest.mark.parametrize(
        ("limits", "words"),
        [
            pytest.param(Limits(entries=0), "more than 0 entries", id="an entry more"),
            pytest.param(Limits(total_bytes=2047), "unpacks to more than 2047 bytes", id="a byte more"),
            pytest.param(Limits(compressed_bytes=10), "has more than 10 bytes", id="a byte more, compressed"),
        ],
    )
    def test_more_is_refused(self, limits: Limits, words: str) -> None:
        with pytest.raises(UnsafeArchive, match=words):
            read_archive(packed(entry(b"a", b"1")), limits)

    def test_directories_and_links_count_as_entries(self) -> None:
        many = packed(*(entry(b"d", kind=b"5") for _ in range(11)))
        with pytest.raises(UnsafeArchive, match="more than 10 entries"):
            read_archive(many, Limits(entries=10))

    def test_a_thousand_extension_headers_in_a_row_are_no_recursion(self) -> None:
        headers = archives.pax((b"path", b"b")) * 3000
        assert read_archive(packed(headers, entry(b"a", b"1")))["b"] == b"1"

    def test_a_large_pax_header_takes_no_long_time(self) -> None:
        records = archives.record(b"c", b"x") * 150_000
        started = time.process_time()
        read_archive(packed(entry(b"x", records, b"x"), entry(b"a", b"1")))
        assert time.process_time() - started < 10


HIDDEN = {
    "several gzip members": "it is made of 2 gzip members",
    "an empty gzip member": "it is made of 2 gzip members",
    "a duplicate: the last wins": "'a' is in it twice",
    "a symbolic link is left out": "'l' is a symbolic link",
    "a symbolic link does not hide the file before it": "'a' is a symbolic link",
    "GNU's long link": "'l' is a symbolic link",
    "git archive's global header": "'pax_global_header' is a global pax header",
    "Python's global header": "'@PaxHeader' is a global pax header",
    "a global header names no other file": "'stray' is a global pax header",
    "a global header ends the extensions before it": "'g' is a global pax header",
    "no permissions at all": "'a' has the mode 0000",
}


class TestReadingExactly:
    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
    def test_gives_the_files_only_where_every_reader_finds_just_these(self, case: archives.Case) -> None:
        if words := HIDDEN.get(case.name):
            with pytest.raises(HiddenContent, match=re.escape(words)) as error:
                read_archive(case.archive, exact=True)
            assert error.value.exit_code == 10
        elif isinstance(case.ours, str):
            with pytest.raises((UnsafeArchive, HiddenContent)):
                read_archive(case.archive, exact=True)
        else:
            assert {file.path: file.content for file in read_archive(case.archive, exact=True).files} == case.ours
            assert case.ours == case.cluster

    def test_every_case_of_something_hidden_is_there(self) -> None:
        assert HIDDEN.keys() <= {case.name for case in CASES}

    @given(trees)
    def test_takes_whatever_we_write(self, tree: Tree) -> None:
        assert in_order(read_archive(write_archive(tree), exact=True)) == in_order(tree)


class TestWriting:
    @given(trees)
    def test_what_is_written_is_read_again(self, tree: Tree) -> None:
        assert in_order(read_archive(write_archive(tree))) == in_order(tree)

    @given(trees, st.randoms(use_true_random=False))
    def test_the_order_of_the_files_does_not_count(self, tree: Tree, dice: random.Random) -> None:
        shuffled = list(tree.files)
        dice.shuffle(shuffled)
        assert write_archive(Tree(tuple(shuffled))) == write_archive(tree)

    @given(trees)
    def test_pythons_tarfile_reads_it(self, tree: Tree) -> None:
        with tarfile.open(fileobj=io.BytesIO(write_archive(tree)), mode="r:gz") as archive:
            assert {member.name for member in archive} == {".", *tree.by_path, *tree.directories}

    def test_the_bytes_are_the_same_everywhere_and_for_ever(self) -> None:
        assert hashlib.sha256(write_archive(USUAL)).hexdigest() == USUAL_DIGEST

    @pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu"])
    def test_neither_umask_nor_time_zone_change_them(self, zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        before = os.umask(0o077)
        try:
            assert hashlib.sha256(write_archive(USUAL)).hexdigest() == USUAL_DIGEST
        finally:
            os.umask(before)
            monkeypatch.undo()
            time.tzset()

    def test_entries_are_in_the_order_of_names_not_of_paths(self) -> None:
        tree = Tree(tuple(TreeFile(path, b"") for path in ("sub-a", "sub/x", "sub.b", "a")))
        content = gzip.decompress(write_archive(tree))
        headers = [content[at : at + 100].rstrip(b"\0") for at in range(0, len(content) - 1024, 512)]
        assert headers == [b".", b"a", b"sub", b"sub/x", b"sub-a", b"sub.b"]

    @pytest.mark.parametrize(
        ("path", "field", "pax"),
        [
            pytest.param("x" * 100, b"x" * 100, False, id="100 characters fit"),
            pytest.param(f"{'p' * 155}/{'x' * 100}", b"x" * 100, False, id="155 more fit into the prefix"),
            pytest.param("x" * 101, b"x" * 100, True, id="one more does not"),
            pytest.param(f"{'p' * 156}/x", b"p" * 100, True, id="nor does a longer prefix"),
            pytest.param("é.yaml", b".yaml", True, id="what is not ASCII is left out"),
            pytest.param(f"é{'x' * 99}/y", b"x" * 99, True, id="no slash where the name is cut"),
            pytest.param(f"{'x' * 98}/é/y", b"x" * 98 + b"\0/", True, id="but for two of them, as Go has it"),
        ],
    )
    def test_a_name_that_does_not_fit_is_in_a_pax_header(self, path: str, field: bytes, *, pax: bool) -> None:
        content = gzip.decompress(write_archive(Tree((TreeFile(path, b""),))))[: -len(archives.END)]
        assert content[-512:][:100].rstrip(b"\0") == field
        assert (f" path={path}\n".encode() in content) == pax

    def test_no_compressor_has_a_say(self) -> None:
        archive = write_archive(USUAL)
        content = gzip.decompress(archive)
        assert archive[:10] == b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
        assert archive[10:15] == b"\0\xff\xff\0\0"
        assert content[:1000] in archive

    def test_an_empty_tree_is_the_root_alone(self) -> None:
        assert gzip.decompress(write_archive(Tree(()))).count(b"ustar") == 1
