"""The files of an artifact: what may be among them, which one has the components, and what their digest is."""

from __future__ import annotations

import hashlib

import pytest

from ci_automation.artifact.tree import NoComponentsFile, SeveralComponentsFiles, Tree, TreeFile, UnfitPath

COMPONENTS = "flux-system/gotk-components.yaml"


def tree(*paths: str) -> Tree:
    return Tree(tuple(TreeFile(path, path.encode()) for path in paths))


class TestPaths:
    @pytest.mark.parametrize(
        "path",
        [
            pytest.param("a", id="a file"),
            pytest.param("d/e/f.yaml", id="in folders"),
            pytest.param("..a/.b/c..", id="dots"),
            pytest.param("with space", id="a space"),
            pytest.param("é/日本\U0001f600", id="not ASCII"),
            pytest.param("C:d", id="a colon"),
            pytest.param("/".join(["d"] * 64), id="63 folders"),
            pytest.param("é" * 512, id="1024 bytes"),
        ],
    )
    def test_a_cluster_unpacks(self, path: str) -> None:
        assert TreeFile(path, b"").path == path

    @pytest.mark.parametrize(
        ("path", "reason"),
        [
            pytest.param("", "is empty, absolute, or has", id="nothing"),
            pytest.param("/a", "is empty, absolute, or has", id="absolute"),
            pytest.param("a/", "is empty, absolute, or has", id="a slash at the end"),
            pytest.param("a//b", "is empty, absolute, or has", id="an empty part"),
            pytest.param("./a", "is empty, absolute, or has", id="this folder"),
            pytest.param("a/../b", "is empty, absolute, or has", id="a parent"),
            pytest.param("..", "is empty, absolute, or has", id="the parent"),
            pytest.param("a../b", "is empty, absolute, or has", id="what Flux takes for a parent"),
            pytest.param("a\\b", "is empty, absolute, or has", id="a backslash"),
            pytest.param("a\0b", "has control characters", id="a NUL"),
            pytest.param("a\nb", "has control characters", id="a line break"),
            pytest.param("a\x1b[2Jb", "has control characters", id="a terminal's escape"),
            pytest.param("a\x7f", "has control characters", id="delete"),
            pytest.param("a\x9b2J", "has control characters", id="a terminal's escape of one byte"),
            pytest.param("a\udc80", "is not UTF-8", id="a byte that is not UTF-8"),
            pytest.param("/".join(["d"] * 65), "deeper than 64 folders", id="64 folders"),
            pytest.param("é" * 512 + "x", "longer than 1024 bytes", id="1025 bytes"),
        ],
    )
    def test_a_cluster_does_not_unpack(self, path: str, reason: str) -> None:
        with pytest.raises(UnfitPath, match=reason) as error:
            TreeFile(path, b"")
        assert len(str(error.value)) < 900

    def test_two_files_cannot_have_one_path(self) -> None:
        with pytest.raises(UnfitPath, match="'b' is there twice"):
            tree("a", "b", "c", "b")

    def test_a_file_cannot_be_a_folder_too(self) -> None:
        with pytest.raises(UnfitPath, match="'d/e' is a file and a directory at once"):
            tree("d/e", "d/e/f/g")

    def test_the_folders_are_those_of_the_files(self) -> None:
        assert tree("a", "d/e/f", "d/g").directories == {"d", "d/e"}


class TestComponentsFile:
    @pytest.mark.parametrize(
        ("paths", "wanted", "found"),
        [
            pytest.param([COMPONENTS, "a.yaml"], None, COMPONENTS, id="the one with Flux's name"),
            pytest.param(["gotk-components.yaml"], None, "gotk-components.yaml", id="at the root, as upstream has it"),
            pytest.param(["x/gotk_components.yaml"], None, "x/gotk_components.yaml", id="as Flux's RFC spells it"),
            pytest.param(["a.yaml", COMPONENTS], "a.yaml", "a.yaml", id="the one that is named"),
            pytest.param(["a/gotk-components.yaml", COMPONENTS], COMPONENTS, COMPONENTS, id="the named one of two"),
        ],
    )
    def test_is_found(self, paths: list[str], wanted: str | None, found: str) -> None:
        assert tree(*paths).components_path(wanted) == found

    @pytest.mark.parametrize(
        ("paths", "wanted", "missing"),
        [
            pytest.param(["a.yaml"], None, "gotk-components.yaml", id="there is none"),
            pytest.param([], None, "gotk-components.yaml", id="there is nothing"),
            pytest.param([COMPONENTS], "a.yaml", "a.yaml", id="the named one is not there"),
            pytest.param(["my-gotk-components.yaml"], None, "gotk-components.yaml", id="the whole name counts"),
        ],
    )
    def test_is_missing(self, paths: list[str], wanted: str | None, missing: str) -> None:
        with pytest.raises(NoComponentsFile, match=f"the artifact has no {missing}"):
            tree(*paths).components_path(wanted)

    @pytest.mark.parametrize(
        ("paths", "there"),
        [
            (["b.yaml", "a.yaml"], "It has a.yaml, b.yaml. "),
            (["a.yaml", COMPONENTS], f"It has {COMPONENTS}, a.yaml. "),
            ([f"{it}.yaml" for it in range(12)], ", 6.yaml and 3 more files. "),
            ([], "It has no file. "),
        ],
    )
    def test_what_is_there_is_told_and_what_can_be_named_first(self, paths: list[str], there: str) -> None:
        with pytest.raises(NoComponentsFile) as error:
            tree(*paths).components_path("wanted.yaml")
        assert error.value.hint.endswith(f"{there}{NoComponentsFile.hint}")
        assert error.value.hint.startswith("It has ")

    def test_of_several_one_must_be_named(self) -> None:
        with pytest.raises(SeveralComponentsFiles, match=f"a/gotk-components.yaml, {COMPONENTS}") as error:
            tree(COMPONENTS, "a/gotk-components.yaml").components_path()
        assert "--components-file" in error.value.hint


class TestEdits:
    def test_a_replaced_file_leaves_the_others_as_they_are(self) -> None:
        before = Tree((TreeFile("a", b"1"), TreeFile("b", b"2", executable=True)))
        after = before.replaced("a", b"3")
        assert (after["a"], after.by_path["b"]) == (b"3", before.by_path["b"])
        assert before["a"] == b"1"

    def test_a_file_can_be_added(self) -> None:
        assert set(tree("a").replaced("b", b"").by_path) == {"a", "b"}

    def test_the_overlay_is_the_tree_without_the_components(self) -> None:
        assert tree("a", COMPONENTS, "b").without(COMPONENTS) == tree("a", "b")


class TestDigest:
    def test_is_over_modes_contents_and_paths_sorted_by_path(self) -> None:
        one, two = (hashlib.sha256(content).hexdigest() for content in (b"1", b"2"))
        lines = f"0755 {two} bin/run\n0644 {one} é.yaml\n"
        files = (TreeFile("é.yaml", b"1"), TreeFile("bin/run", b"2", executable=True))
        assert Tree(files).digest().hex == hashlib.sha256(lines.encode()).hexdigest()

    @pytest.mark.parametrize(
        "other",
        [
            pytest.param(TreeFile("a", b"2"), id="content"),
            pytest.param(TreeFile("b", b"1"), id="path"),
            pytest.param(TreeFile("a", b"1", executable=True), id="mode"),
        ],
    )
    def test_tells_apart(self, other: TreeFile) -> None:
        assert Tree((TreeFile("a", b"1"),)).digest() != Tree((other,)).digest()

    def test_the_order_of_the_files_does_not_count(self) -> None:
        assert tree("a", "b").digest() == tree("b", "a").digest()
