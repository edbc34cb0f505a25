"""Archives are read as clusters unpack them, with Flux's own code, and written as the flux CLI packs them."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import random
from typing import TYPE_CHECKING

import pytest
import requests

from ci_automation.artifact.archive import HiddenContent, UnsafeArchive, read_archive, write_archive
from ci_automation.artifact.manifest import CONFIG_BLOB, FLUX_CONFIG, FLUX_LAYER, Descriptor, Manifest
from ci_automation.artifact.tree import Tree, TreeFile
from tests.fakes import archives
from tests.real.peers import peer
from tests.real.processes import run

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from tests.real.registries import RealRegistry

SEED = 20_261_121
COUNT = 3_000
TIMEOUT = 10
LONG = "n" * 98
TREES = {
    "the usual": {"flux-system/gotk-components.yaml": b"a\n", "kustomization.yaml": b"", "bin/run": b"#!/bin/sh\n"},
    "by names, not by paths": {"sub/x": b"1", "sub-a.yaml": b"2", "sub.yaml": b"3", "sub0": b"4", "sub/y/z": b"5"},
    "blocks": {f"{size}.yaml": b"x" * size for size in (0, 1, 511, 512, 513, 70_000)},
    "around 100": {f"{'x' * length}.y": b"1" for length in range(96, 104)},
    "prefixes": {f"{LONG}/{'y' * length}.y": b"1" for length in range(94, 104)},
    "prefixes of all lengths": {
        "/".join(["p" * 50, "q" * 50, "r" * length, "s" * 60]): b"1" for length in range(48, 60)
    },
    "too long for ustar": {"/".join([LONG] * 4): b"1", "/".join(["d" * 50] * 12) + "/" + "z" * 150: b"2"},
    "not ASCII": {"ä.yaml": b"1", "日本/ファイル.yaml": b"2", "é/é/é": b"3", "\U0001f600": b"4", "ä" * 60: b"5"},
    "a slash at the cut": {f"ö{'x' * length}/{'y' * 90}": b"1" for length in range(96, 103)}
    | {f"{'x' * 96}/ö/ü/ä/{'z' * length}": b"1" for length in range(1, 8)},
}


def unpacked(packed: Iterable[bytes]) -> list[dict[str, bytes] | None]:
    """Return what source-controller's code unpacks, or nothing where it refuses."""
    said = run([peer("untar")], "".join(f"{base64.b64encode(archive).decode()}\n" for archive in packed))
    answers = [json.loads(line) for line in said.split("\n") if line]
    return [
        None
        if answer["error"]
        else {path: base64.b64decode(content) for path, content in (answer["files"] or {}).items()}
        for answer in answers
    ]


def ours(archive: bytes, *, exact: bool = False) -> dict[str, bytes] | None:
    """Return what we read, or nothing where we refuse."""
    try:
        return {file.path: file.content for file in read_archive(archive, exact=exact).files}
    except (UnsafeArchive, HiddenContent):
        return None


class Mutations:
    """Archives that differ from well-formed and hostile ones in a few bytes, most with a right checksum again."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311  # not for secrets: the same archives each time
        self._blocks = [
            content[start : start + 512]
            for case in archives.CASES
            if (content := self._content(case.archive)) and len(content) < 50_000
            for start in range(0, len(content) - 511, 512)
        ]

    @staticmethod
    def _content(archive: bytes) -> bytes:
        try:
            return gzip.decompress(archive)
        except (OSError, EOFError):
            return b""

    def archive(self) -> bytes:
        """Return the next one."""
        roll = self._random
        blocks = roll.choices(self._blocks, k=roll.randint(1, 5))
        if roll.random() < 0.6:
            at = roll.randrange(len(blocks))
            blocks[at] = self._mutated(blocks[at])
        content = b"".join(blocks) + roll.choice((archives.END, archives.END, b"", bytes(512)))
        return gzip.compress(content, 1, mtime=0)

    def _mutated(self, block: bytes) -> bytes:
        roll, changed = self._random, bytearray(block)
        for _ in range(roll.randint(1, 3)):
            field = roll.choice(((0, 12), (100, 108), (108, 124), (124, 136), (136, 148), (156, 157), (257, 265)))
            field = roll.choice((field, field, (329, 369), (476, 512)))
            changed[roll.randrange(*field)] = roll.choice(b"\0\0 012347/.a=5xgLK\x80\xff\\")
        if roll.random() < 0.9:
            changed[148:156] = b" " * 8
            changed[148:156] = b"%06o\0 " % sum(changed)
        return bytes(changed)


@pytest.fixture(scope="module")
def cluster() -> Mapping[str, dict[str, bytes] | None]:
    """Return what clusters make of each case."""
    names = [case.name for case in archives.CASES]
    return dict(zip(names, unpacked(case.archive for case in archives.CASES), strict=True))


@pytest.mark.parametrize("case", archives.CASES, ids=lambda case: case.name)
def test_a_cluster_unpacks_what_our_table_says(
    case: archives.Case, cluster: Mapping[str, dict[str, bytes] | None]
) -> None:
    assert cluster[case.name] == case.cluster


def test_whatever_we_read_a_cluster_unpacks_to_the_same_files() -> None:
    mutations = Mutations(SEED)
    packed = [mutations.archive() for _ in range(COUNT)]
    read = [ours(archive) for archive in packed]
    wrong = []
    for archive, mine, theirs in zip(packed, read, unpacked(packed), strict=True):
        if mine is None:
            continue
        stray = theirs is not None and all(theirs[path] == b"" for path in theirs.keys() - mine.keys())
        if theirs is None or not stray or any(theirs.get(path) != content for path, content in mine.items()):
            wrong.append((gzip.decompress(archive), mine, theirs))
    assert wrong == []
    assert sum(1 for mine in read if mine) > COUNT / 20


def test_of_what_we_sign_for_others_a_cluster_unpacks_these_files_and_no_other() -> None:
    mutations = Mutations(SEED + 1)
    packed = [*(case.archive for case in archives.CASES), *(mutations.archive() for _ in range(COUNT))]
    read = [ours(archive, exact=True) for archive in packed]
    both = [(mine, theirs) for mine, theirs in zip(read, unpacked(packed), strict=True) if mine is not None]
    assert [(mine, theirs) for mine, theirs in both if mine != theirs] == []
    assert len(both) > COUNT / 20


@pytest.mark.parametrize("files", TREES.values(), ids=TREES)
def test_our_tar_is_the_one_that_flux_packs(files: Mapping[str, bytes], tmp_path: Path) -> None:
    folder = tmp_path / "files"
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    for place in (folder, *folder.rglob("*")):
        place.chmod(0o755 if place.is_dir() or place.name == "run" else 0o644)
    tree = Tree(tuple(TreeFile(path, content, executable=path == "bin/run") for path, content in files.items()))
    run([peer("flux"), "build", "artifact", f"--path={folder}", f"--output={tmp_path / 'flux.tgz'}"])
    assert gzip.decompress(write_archive(tree)) == gzip.decompress((tmp_path / "flux.tgz").read_bytes())


@pytest.mark.parametrize("files", TREES.values(), ids=TREES)
def test_a_cluster_unpacks_what_we_write(files: Mapping[str, bytes]) -> None:
    tree = Tree(tuple(TreeFile(path, content) for path, content in files.items()))
    assert unpacked([write_archive(tree)]) == [files]


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param({}, id="none of its own"),
        pytest.param({"a.b/c": "<script>&\u2028\u2029\x7f\x01\b\f\n\r\t\"\\/'"}, id="what Go escapes"),
        pytest.param({"zä": "ä日本\U0001f600", "Z": "1", "a": "", "_": "2"}, id="not ASCII, in Go's order"),
    ],
)
def test_our_manifest_is_the_one_that_flux_pushes(
    annotations: dict[str, str], distribution_registry: RealRegistry, repository: str, tmp_path: Path
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "a.yaml").write_text("a: 1\n")
    flags = [f"--annotations={key}={value}" for key, value in annotations.items()]
    digest = json.loads(
        run(
            [
                *(peer("flux"), "push", "artifact", f"oci://{distribution_registry.host}/{repository}:one"),
                *(f"--path={folder}", "--source=https://example.com/a?b=<c>&d", "--revision=v1@sha1:0", *flags),
                *("--reproducible", "--insecure-registry", "--output=json"),
            ],
            TZ="UTC",
        )
    )["digest"]
    address = f"http://{distribution_registry.host}/v2/{repository}"
    pushed = requests.get(
        f"{address}/manifests/{digest}",
        headers={"Accept": "application/vnd.oci.image.manifest.v1+json"},
        timeout=TIMEOUT,
    ).content
    layer = requests.get(f"{address}/blobs/{Manifest.parse(pushed).layers[0].digest}", timeout=TIMEOUT).content
    config = requests.get(f"{address}/blobs/{Manifest.parse(pushed).config.digest}", timeout=TIMEOUT).content
    made = Manifest.build(
        Descriptor.of(FLUX_CONFIG, CONFIG_BLOB),
        (Descriptor.of(FLUX_LAYER, layer),),
        {
            "org.opencontainers.image.created": "1970-01-01T00:00:00Z",
            "org.opencontainers.image.source": "https://example.com/a?b=<c>&d",
            "org.opencontainers.image.revision": "v1@sha1:0",
        }
        | annotations,
    )
    assert config == CONFIG_BLOB
    assert made.raw == pushed
    assert str(made.digest) == digest == f"sha256:{hashlib.sha256(pushed).hexdigest()}"


def test_nothing_here_depends_on_the_umask(tmp_path: Path) -> None:
    """Flux's layer does; ours has modes of its own."""
    before = os.umask(0o077)
    try:
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "b").write_bytes(b"1")
        run([peer("flux"), "build", "artifact", f"--path={tmp_path / 'a'}", f"--output={tmp_path / 'flux.tgz'}"])
    finally:
        os.umask(before)
    theirs = (tmp_path / "flux.tgz").read_bytes()
    assert gzip.decompress(theirs) != gzip.decompress(write_archive(Tree((TreeFile("b", b"1"),))))
    assert write_archive(read_archive(theirs)) == write_archive(Tree((TreeFile("b", b"1"),)))
