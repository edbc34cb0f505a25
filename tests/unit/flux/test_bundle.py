"""A release's manifests bundle."""

from __future__ import annotations

import hashlib

import pytest

from ci_automation.artifact.archive import UnsafeArchive, write_archive
from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.flux.bundle import BadBundle, ComponentMissing, ManifestsBundle
from tests.fakes.archives import entry, packed

FILES = {
    "rbac.yaml": b"r",
    "policies.yaml": b"p",
    "source-controller.yaml": "s é".encode(),
    "helm-controller.yaml": b"h",
}


def tree(**changes: bytes | None) -> Tree:
    files = FILES | {f"{name}.yaml": content for name, content in changes.items()}
    return Tree(tuple(TreeFile(name, content) for name, content in files.items() if content is not None))


def test_has_the_text_of_each_component() -> None:
    bundle = ManifestsBundle.from_archive(write_archive(tree()))
    assert bundle.components == ("helm-controller", "source-controller")
    assert bundle.component("source-controller") == "s é"


def test_what_is_in_folders_or_no_yaml_is_no_component() -> None:
    bundle = ManifestsBundle.of(Tree((*tree().files, TreeFile("more/a.yaml", b"\xff"), TreeFile("LICENSE", b"l"))))
    assert bundle.components == ("helm-controller", "source-controller")


def test_a_component_that_the_release_lacks_is_named_with_those_that_it_has() -> None:
    with pytest.raises(ComponentMissing, match="no source-watcher; it has helm-controller, source-controller") as error:
        ManifestsBundle.of(tree()).component("source-watcher")
    assert (error.value.exit_code, "v2.7.0" in error.value.hint) == (21, True)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        pytest.param(tree(rbac=None), "lacks rbac.yaml", id="no rbac.yaml"),
        pytest.param(tree(rbac=None, policies=None), "lacks policies.yaml, rbac.yaml", id="neither of the two"),
        pytest.param(Tree(()), "lacks policies.yaml, rbac.yaml", id="nothing"),
        pytest.param(tree(rbac=b"\xff"), "is not UTF-8", id="no text"),
    ],
)
def test_what_is_no_bundle_is_refused(files: Tree, words: str) -> None:
    with pytest.raises(BadBundle, match=words) as error:
        ManifestsBundle.of(files)
    assert error.value.exit_code == 21


@pytest.mark.parametrize(
    ("archive", "words"),
    [
        pytest.param(b"<html>", "not gzip", id="a page"),
        pytest.param(packed(*(entry(b"a") for _ in range(65))), "more than 64 entries", id="too many files"),
        pytest.param(packed(entry(b"a", bytes(16 << 20))), "unpacks to more than", id="too large"),
        pytest.param(bytes((4 << 20) + 1), "has more than", id="too large, compressed"),
        pytest.param(packed(entry(b"../a")), "leaves the archive", id="an escape"),
    ],
)
def test_a_hostile_archive_is_refused(archive: bytes, words: str) -> None:
    with pytest.raises(UnsafeArchive, match=words):
        ManifestsBundle.from_archive(archive)


class TestDigest:
    def test_is_over_contents_and_names_sorted_by_name(self) -> None:
        lines = "".join(f"{hashlib.sha256(FILES[name]).hexdigest()}  {name}\n" for name in sorted(FILES))
        assert ManifestsBundle.of(tree()).digest.hex == hashlib.sha256(lines.encode()).hexdigest()

    def test_is_the_same_for_a_bundle_that_was_packed_again(self) -> None:
        again = packed(*(entry(name.encode(), FILES[name], mode=b"0000600\0") for name in reversed(FILES)))
        assert ManifestsBundle.from_archive(again).digest == ManifestsBundle.from_archive(write_archive(tree())).digest

    @pytest.mark.parametrize(
        "other", [tree(rbac=b"R"), tree(more=b""), tree(**{"helm-controller": None})], ids=["content", "more", "less"]
    )
    def test_tells_apart(self, other: Tree) -> None:
        assert ManifestsBundle.of(other).digest != ManifestsBundle.of(tree()).digest
