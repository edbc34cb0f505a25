"""Git's own names for all objects, and branches that are compared and swapped."""

from __future__ import annotations

import base64
import datetime as dt
import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.contract.forge.asking import BRANCH, COMMIT, FILES, FLEET, ask, commit_input, query
from tests.fakes.forge import ACTIONS, Forge, Repository

if TYPE_CHECKING:
    from pathlib import Path


def git(folder: Path, *arguments: str, stdin: bytes = b"") -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    done = subprocess.run(
        ["git", *arguments], cwd=folder, input=stdin, env=environment, capture_output=True, check=True
    )
    return done.stdout.decode().strip()


def exported(repo: Repository, folder: Path) -> None:
    """Write all objects into a real repository; git names them itself."""
    git(folder, "init", "-q")
    for sha, content in repo.objects.blobs.items():
        assert git(folder, "hash-object", "-w", "--stdin", stdin=content) == sha
    for sha, entries in sorted(repo.objects.trees.items(), key=lambda tree: any(e.is_folder for e in tree[1])):
        lines = "".join(f"{e.mode.zfill(6)} {'tree' if e.is_folder else 'blob'} {e.sha}\t{e.name}\n" for e in entries)
        assert git(folder, "mktree", "--missing", stdin=lines.encode()) == sha
    for commit in sorted(repo.objects.commits.values(), key=lambda commit: commit.committer.at):
        text = [f"tree {commit.tree}", *(f"parent {parent}" for parent in commit.parents), f"author {commit.author}"]
        raw = "\n".join([*text, f"committer {commit.committer}", "", commit.message]).encode()
        assert git(folder, "hash-object", "-t", "commit", "-w", "--stdin", stdin=raw) == commit.sha


@pytest.mark.skipif(not shutil.which("git"), reason="git is not here")
def test_objects_have_the_names_that_git_gives_them(tmp_path: Path) -> None:
    seconds = iter(range(1_790_000_000, 1_791_000_000))
    forge = Forge(now=lambda: dt.datetime.fromtimestamp(next(seconds), dt.UTC))
    repo = forge.repository("acme/fleet", {"a/b/c": b"1", "a.b": b"2", "a-b": b"3", "z": b"\0\xff", "ü": b""})
    forked = repo.head
    repo.push("one", {"a/b/d": b"4", "z": None}, "acme", "Zwei Wörter\n\nund mehr\n")
    repo.push("main", {"m": b"5"}, "acme")
    repo.push("one", {"a/b/e": b"6"}, "acme")
    merged = repo.merge(repo.open_pull("one", "acme").number, "acme")
    exported(repo, tmp_path)
    tip = repo.objects.commits[merged].parents[1]
    assert git(tmp_path, "merge-base", tip, repo.objects.commits[merged].parents[0]) == forked
    assert git(tmp_path, "rev-list", merged).split() == [commit.sha for commit in repo.objects.history(merged)]
    assert git(tmp_path, "ls-tree", "-r", "--name-only", "-z", merged).split("\0")[:-1] == [
        "README.md", "a-b", "a.b", "a/b/c", "a/b/d", "a/b/e", "m", "ü",
    ]  # fmt: skip
    assert git(tmp_path, "merge-tree", "--write-tree", *repo.objects.commits[merged].parents) == (
        repo.objects.commits[merged].tree
    )


@pytest.mark.skipif(not shutil.which("git"), reason="git is not here")
def test_a_commit_is_the_one_that_git_makes(tmp_path: Path, repo: Repository) -> None:
    commit = repo.objects.commits[repo.head]
    exported(repo, tmp_path)
    who = commit.author
    names = {"NAME": who.name, "EMAIL": who.email, "DATE": f"{who.at} +0000"}
    settings = {f"GIT_{role}_{name}": value for role in ("AUTHOR", "COMMITTER") for name, value in names.items()}
    done = subprocess.run(
        ["git", "commit-tree", commit.tree],
        cwd=tmp_path,
        input=commit.message.encode(),
        env={"PATH": os.environ["PATH"], **settings},
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode().strip() == commit.sha


def test_files_come_back_as_they_were_committed(forge: Forge, repo: Repository, token: str) -> None:
    tree = ask(forge, token, "GET", f"{FLEET}/git/trees/{repo.head}?recursive=1").value
    blobs = {line["path"]: line["sha"] for line in tree["tree"] if line["type"] == "blob"}
    assert blobs.keys() == FILES.keys() | {"README.md"}
    blob = ask(forge, token, "GET", f"{FLEET}/git/blobs/{blobs['a/b/c.txt']}").value
    assert base64.b64decode(blob["content"]) == b"c\n"
    forge.largest_tree = 2
    short = ask(forge, token, "GET", f"{FLEET}/git/trees/{repo.head}?recursive=1").value
    assert (short["truncated"], len(short["tree"])) == (True, 2)


def test_a_branch_is_compared_and_swapped(forge: Forge, opened: Repository, token: str) -> None:
    tip = opened.branches[BRANCH]
    other = opened.push("main", {"new": b""}, "alice")
    tree = ask(forge, token, "POST", f"{FLEET}/git/trees", {
        "base_tree": opened.objects.commits[other].tree,
        "tree": [{"path": "lock.yaml", "mode": "100644", "type": "blob", "content": "a: 2\n"}],
    }).value["sha"]  # fmt: skip
    made = ask(
        forge, token, "POST", f"{FLEET}/git/commits", {"message": "m", "tree": tree, "parents": [tip, other]}
    ).value
    place = f"{FLEET}/git/refs/heads/{BRANCH}"
    assert ask(forge, token, "PATCH", place, {"sha": made["sha"], "force": False}).status == 200
    late = ask(forge, token, "PATCH", place, {"sha": other, "force": False})
    assert (late.status, late.value["message"]) == (422, "Update is not a fast forward")
    assert opened.read("lock.yaml", BRANCH) == b"a: 2\n"
    assert [commit.sha for commit in opened.commits(BRANCH)] == [made["sha"], tip]
    again = ask(forge, token, "POST", f"{FLEET}/git/refs", {"ref": f"refs/heads/{BRANCH}", "sha": tip})
    assert (again.status, again.value["message"]) == (422, "Reference already exists")
    assert [ask(forge, token, "DELETE", place).status for _ in range(2)] == [204, 422]
    assert opened.pull(1).state == "CLOSED"


def test_a_commit_by_graphql_needs_the_expected_head(forge: Forge, opened: Repository, token: str) -> None:
    head = opened.branches[BRANCH]
    changes = {
        "additions": [{"path": "x/y", "contents": base64.b64encode(b"\0z").decode()}],
        "deletions": [{"path": "lock.yaml"}],
    }
    made = query(forge, token, COMMIT, input=commit_input(opened, head, **changes))
    oid = made["data"]["createCommitOnBranch"]["commit"]["oid"]
    commit = opened.objects.commits[oid]
    assert (opened.branches[BRANCH], commit.message, commit.author.login, commit.signed) == (
        oid,
        "h\n\nb",
        ACTIONS,
        True,
    )
    assert (opened.read("x/y", BRANCH), opened.read("lock.yaml", BRANCH)) == (b"\0z", None)
    late = query(forge, token, COMMIT, input=commit_input(opened, head))
    assert late["data"] == {"createCommitOnBranch": None}
    assert late["errors"][0]["type"] == "STALE_DATA"
    assert f'Expected branch to point to "{head}"' in late["errors"][0]["message"]
