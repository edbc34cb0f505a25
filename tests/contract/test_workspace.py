"""The overlay folder of a checkout, in repositories that git itself made: one for each trick."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ci_automation.artifact.git import concealed, git_blob_id
from ci_automation.errors import UsageError
from ci_automation.flows.workspace import (
    ConcealedOverlay,
    UnfitOverlayFile,
    UnfitOverlayFolder,
    read_overlay_folder,
    require_shown,
)

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="git is not here")

FOLDER = "clusters/production"
PLAIN = {f"{FOLDER}/flux-system/kustomization.yaml": b"resources:\n- gotk-components.yaml\n", "README.md": b"x\n"}
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"


def git(folder: Path, *arguments: str) -> str:
    environment = {
        **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        **dict.fromkeys(("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"), os.devnull),
        **{f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    done = subprocess.run(
        ["git", "-c", "core.quotePath=false", "-c", "protocol.file.allow=always", *arguments],
        cwd=folder, env=environment, capture_output=True, check=True,
    )  # fmt: skip
    return done.stdout.decode().strip()


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    folder = tmp_path / "origin"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    return folder


def commit(origin: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (origin / name).parent.mkdir(parents=True, exist_ok=True)
        (origin / name).write_bytes(data)
    git(origin, "add", "--all", "--force")
    git(origin, "commit", "--quiet", "--message", "x")


def checkout(origin: Path, *settings: str) -> Path:
    """Return a fresh checkout of what was committed, made with some settings of git."""
    folder = origin.parent / "checkout"
    git(origin.parent, *(part for one in settings for part in ("-c", one)), "clone", "--quiet", str(origin), "checkout")
    return folder


def id_of(origin: Path, folder: str = FOLDER) -> str:
    return git(origin, "rev-parse", f"HEAD:{folder}")


def refusal(workspace: Path, folder: str = FOLDER) -> UsageError:
    with pytest.raises(UsageError) as refused:
        read_overlay_folder(workspace, folder)
    assert refused.value.hint
    return refused.value


class TestIds:
    def test_a_folder_has_the_id_of_git_and_its_files_in_the_artifact_their_modes(self, origin: Path) -> None:
        files = {
            "a/b.yaml": b"1",
            "a-b": b"",
            "a.d/x": b"\xff\x00\r\n",
            "ä/ö.yaml": "ü".encode(),
            "run.sh": b"#!/bin/sh",
        }
        for name, data in files.items():
            (origin / FOLDER / name).parent.mkdir(parents=True, exist_ok=True)
            (origin / FOLDER / name).write_bytes(data)
        (origin / FOLDER / "run.sh").chmod(0o700)
        (origin / FOLDER / "a-b").chmod(0o666)
        commit(origin, PLAIN)
        for workspace in (origin, checkout(origin)):
            found = read_overlay_folder(workspace, f"{FOLDER}/")
            assert (found.path, found.tree_id) == (FOLDER, id_of(origin))
            modes = {file.path: file.mode for file in found.tree.files}
            assert modes == {**dict.fromkeys([*files, "flux-system/kustomization.yaml"], 0o644), "run.sh": 0o755}
            assert all(found.tree[name] == data for name, data in files.items())
            assert git_blob_id(b"1") == git(origin, "rev-parse", f"HEAD:{FOLDER}/a/b.yaml")

    @pytest.mark.parametrize(
        ("attributes", "settings", "data"),
        [
            pytest.param(b"", ["core.autocrlf=true"], b"a: 1\n", id="autocrlf of the machine"),
            pytest.param(b"*.yaml eol=crlf\n", [], b"a: 1\n", id="eol"),
            pytest.param(b"*.yaml ident\n", [], b"a: $Id$\n", id="ident"),
            pytest.param(b"*.yaml filter=evil\n", ["filter.evil.smudge=tr 1 2"], b"a: 1\n", id="filter"),
            pytest.param(b"*.yaml text working-tree-encoding=UTF-16\n", [], "ä: 1\n".encode(), id="encoding"),
        ],
    )
    def test_a_checkout_that_git_changed_is_refused_or_has_another_id(
        self, origin: Path, attributes: bytes, settings: list[str], data: bytes
    ) -> None:
        stored = "ä: 1\n".encode("utf-16") if b"UTF-16" in attributes else data  # git stores it as UTF-8
        commit(origin, {f"{FOLDER}/a.yaml": stored, ".gitattributes": attributes or b"\n"})
        workspace = checkout(origin, *settings)
        assert (workspace / FOLDER / "a.yaml").read_bytes() != data
        if attributes:
            assert isinstance(refusal(workspace), ConcealedOverlay)
        (workspace / ".gitattributes").unlink()
        assert read_overlay_folder(workspace, FOLDER).tree_id != id_of(origin)

    @pytest.mark.parametrize("trick", ["written", "removed", "mode", "added", "sparse"])
    def test_a_workspace_that_is_not_what_git_has_has_another_id(self, origin: Path, trick: str) -> None:
        commit(origin, {**PLAIN, f"{FOLDER}/apps/a.yaml": b"a: 1\n"})
        workspace = checkout(origin)
        file = workspace / FOLDER / "apps" / "a.yaml"
        if trick == "written":
            file.write_bytes(b"a: 2\n")
        elif trick == "removed":
            file.unlink()
        elif trick == "mode":
            file.chmod(0o755)
        elif trick == "added":
            (workspace / FOLDER / "b.yaml").write_bytes(b"")
        else:
            git(workspace, "sparse-checkout", "set", f"{FOLDER}/flux-system")
        assert read_overlay_folder(workspace, FOLDER).tree_id != id_of(origin)


class TestFiles:
    def test_a_link_is_refused(self, origin: Path) -> None:
        commit(origin, PLAIN)
        (origin / FOLDER / "token").symlink_to("/proc/self/environ")
        commit(origin, {})
        found = refusal(checkout(origin))
        assert isinstance(found, UnfitOverlayFile)
        assert "is a symbolic link" in str(found)

    def test_a_link_to_a_folder_is_refused(self, origin: Path) -> None:
        commit(origin, PLAIN)
        (origin / FOLDER / "etc").symlink_to("../..")
        commit(origin, {})
        assert "is a symbolic link" in str(refusal(checkout(origin)))

    @pytest.mark.parametrize("link", ["clusters", FOLDER])
    def test_a_link_on_the_way_is_refused(self, origin: Path, link: str) -> None:
        commit(origin, {**PLAIN, "evil/production/a.yaml": b"a: 2\n"})
        shutil.rmtree(origin / link)
        (origin / link).symlink_to("evil" if link == "clusters" else "../evil/production")
        commit(origin, {})
        found = refusal(checkout(origin))
        assert isinstance(found, UnfitOverlayFolder)
        assert f"{link} is a symbolic link" in str(found)

    def test_a_pipe_is_refused(self, origin: Path) -> None:
        commit(origin, PLAIN)
        os.mkfifo(origin / FOLDER / "pipe")
        assert "is not a regular file" in str(refusal(origin))

    def test_a_pointer_of_lfs_is_refused(self, origin: Path) -> None:
        commit(origin, {**PLAIN, f"{FOLDER}/big.yaml": POINTER})
        assert "pointer of Git LFS" in str(refusal(checkout(origin)))

    def test_a_submodule_is_refused_and_has_another_id_where_it_is_left_out(self, origin: Path, tmp_path: Path) -> None:
        other = tmp_path / "other"
        other.mkdir()
        git(other, "init", "--quiet")
        commit(other, {"a.yaml": b"a: 1\n"})
        commit(origin, PLAIN)
        git(origin, "submodule", "--quiet", "add", str(other), f"{FOLDER}/sub")
        commit(origin, {})
        workspace = checkout(origin)
        assert read_overlay_folder(workspace, FOLDER).tree_id != id_of(origin)
        git(workspace, "submodule", "--quiet", "update", "--init")
        assert "has the name .git," in str(refusal(workspace))

    @pytest.mark.parametrize(
        "name", [".gitattributes", "a/.GitModules", ".gitkeep", ".sourceignore", "a/.sourceignore"]
    )
    def test_files_that_git_and_flux_take_for_their_own_are_refused(self, origin: Path, name: str) -> None:
        commit(origin, {**PLAIN, f"{FOLDER}/{name}": b"*\n"})
        assert "takes for its own" in str(refusal(checkout(origin)))

    def test_a_components_file_is_refused(self, origin: Path) -> None:
        commit(origin, {**PLAIN, f"{FOLDER}/flux-system/gotk-components.yaml": b""})
        assert "is a components file" in str(refusal(origin))

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("a.yaml", "A.yaml"),
            ("caf\u00e9.yaml", "cafe\u0301.yaml"),
            ("stra\u00dfe", "STRASSE"),
            ("a/x.yaml", "A/y.yaml"),
        ],
    )
    def test_names_that_look_the_same_are_refused(self, origin: Path, one: str, other: str) -> None:
        commit(origin, {**PLAIN, f"{FOLDER}/{one}": b"1", f"{FOLDER}/{other}": b"2"})
        assert "but for case or accents" in str(refusal(checkout(origin)))

    @pytest.mark.parametrize("name", ["a\nb", "a\u202eb", "a\u200bb", "a\u2066b/c", "\x1b[2Ja", "a\u2028b"])
    def test_names_with_characters_that_nobody_sees_are_refused(self, origin: Path, name: str) -> None:
        commit(origin, {**PLAIN, f"{FOLDER}/{name}": b"1"})
        found = refusal(checkout(origin))
        assert "which is invisible" in str(found)
        assert not set(str(found)) & set("\n\u202e\u200b\u2066\x1b\u2028")

    def test_a_name_that_is_no_text_is_refused(self, origin: Path) -> None:
        commit(origin, PLAIN)
        Path(os.fsdecode(bytes(origin / FOLDER) + b"/\xff")).write_bytes(b"")
        assert "which is invisible" in str(refusal(origin))

    def test_more_than_an_artifact_may_have_is_refused(self, origin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        commit(origin, {**PLAIN, f"{FOLDER}/a": b"x" * 60, f"{FOLDER}/b": b"x" * 60})
        monkeypatch.setattr("ci_automation.flows.workspace.MAX_OVERLAY_BYTES", 100)
        assert "holds more than" in str(refusal(origin))


class TestFolders:
    @pytest.mark.parametrize(
        "folder",
        ["", ".", "..", "/", "/etc", "./clusters", "clusters/../clusters", "clusters//production", "a\\b", ".git"],
    )
    def test_what_is_no_path_below_the_root_is_refused(self, origin: Path, folder: str) -> None:
        commit(origin, PLAIN)
        assert "is not a path like" in str(refusal(origin, folder))

    @pytest.mark.parametrize("folder", [".github", ".github/workflows", ".github/workflows/a"])
    def test_what_holds_configuration_lock_file_or_workflows_is_refused(self, origin: Path, folder: str) -> None:
        commit(origin, {f"{folder}/a.yaml": b""})
        assert "which approvals change" in str(refusal(origin, folder))

    def test_what_holds_the_configuration_of_the_run_is_refused(self, origin: Path) -> None:
        commit(origin, {**PLAIN, "clusters/fleet.yaml": b""})
        with pytest.raises(UnfitOverlayFolder, match=r"clusters/fleet.yaml"):
            read_overlay_folder(origin, "clusters", config="clusters/fleet.yaml")
        assert read_overlay_folder(origin, FOLDER, config="clusters/fleet.yaml").tree_id == id_of(origin)

    def test_what_is_not_there_or_no_folder_is_refused(self, origin: Path) -> None:
        commit(origin, PLAIN)
        assert "is not in the checkout" in str(refusal(origin, "clusters/staging"))
        assert "is no folder" in str(refusal(origin, "README.md"))

    def test_a_path_that_nobody_can_read_is_refused(self, origin: Path) -> None:
        commit(origin, {"a\u202eb/c": b""})
        assert "which is invisible" in str(refusal(origin, "a\u202eb"))


class TestAttributes:
    @pytest.mark.parametrize(
        "line",
        [
            "*.yaml -diff", "* binary", "/clusters/** linguist-generated", "clusters/*/*/* linguist-generated=true",
            "kustomization.yaml -text -diff", '"*.yaml" -diff', '"\\153*" -diff', "[k]*.yaml binary", "**/*.yaml -diff",
            "[attr]quiet -diff\n*.yaml quiet", "[attr]quiet -diff\n[attr]still quiet\n*.yaml still",
            "\t*.yaml\t-diff\r", "\ufeff*.yaml -diff", "*.yaml filter=lfs", "* ident", "* text eol=lf",
            "*.yaml working-tree-encoding=UTF-16",
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("place", ["", "clusters/"])
    def test_an_attribute_that_conceals_a_file_is_refused(self, origin: Path, line: str, place: str) -> None:
        if place and line.startswith(("/", "clusters")):
            line = f"* {line.split()[1]}"
        commit(origin, PLAIN)
        (origin / place / ".gitattributes").write_text(f"{line}\n", encoding="utf-8")
        found = refusal(origin)
        assert isinstance(found, ConcealedOverlay)
        assert f"{place}.gitattributes gives" in str(found)

    @pytest.mark.parametrize(
        "text",
        [
            "*.png binary\ndocs/** linguist-generated\n/*.yaml -diff\n", "# *.yaml -diff\n\n",
            "* linguist-generated=false\n",
            "* text=auto\n*.sh !eol -filter -ident diff\n", "staging/** binary\n", "kustomization.yaml diff=yaml\n",
            "*.yaml export-ignore\n[attr]quiet text\n*.yaml quiet\n",
        ],
    )  # fmt: skip
    def test_other_attributes_and_other_files_are_not(self, origin: Path, text: str) -> None:
        commit(origin, {**PLAIN, ".gitattributes": text.encode()})
        assert read_overlay_folder(origin, FOLDER).tree_id == id_of(origin)

    def test_whatever_git_finds_is_found(self, origin: Path) -> None:
        """Too much may be found, never too little."""
        names = ("a.yaml", "b.yml", "c/a.yaml", "c/d/e.yaml", "x y.yaml", "[z].yaml", "ä.yaml", "q*.yaml")
        patterns = (
            "*", "*.yaml", "a.yaml", "/p/a.yaml", "p/**", "p/**/a.yaml", "**/e.yaml", "p/*/a.yaml", "p/c/?.yaml",
            "?.yaml", "[a-c].yaml", "[!a].yaml", "[[:alpha:]].y*ml", "\\[z\\].yaml", '"x y.yaml"', "ä.yaml",
            '"\\303\\244.yaml"', "q\\*.yaml", "p/c/", "c", "c/d", "p/***/e.yaml", "a.y[a]ml", "p", "*/c/*", "!a.yaml",
            "[", "a.yaml[", "p/c/a**/.yaml",
        )  # fmt: skip
        commit(origin, {f"p/{name}": b"" for name in names})
        for pattern in patterns:
            (origin / ".gitattributes").write_text(f"{pattern} -diff\n", encoding="utf-8")
            for name in names:
                told = git(origin, "check-attr", "-z", "diff", "--", f"p/{name}").split("\0")[2]
                if told == "unset":
                    assert concealed({".gitattributes": f"{pattern} -diff\n"}, [f"p/{name}"]), (pattern, name)

    def test_attributes_that_nobody_can_read_are_refused(self, origin: Path) -> None:
        commit(origin, PLAIN)
        (origin / ".gitattributes").symlink_to("README.md")
        assert "not a text that this run can read" in str(refusal(origin))
        found = read_overlay_folder(checkout(origin), FOLDER)
        with pytest.raises(ConcealedOverlay, match=r"^clusters/.gitattributes gives"):
            require_shown({"clusters/.gitattributes": "* -diff"}, found.paths)
