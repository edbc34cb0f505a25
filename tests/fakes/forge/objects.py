"""Git objects as git makes them: the same bytes, and so the same names; ancestry, differences and merges over them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_FOLDER = "40000"
_FILE = "100644"


class MergeConflict(Exception):
    """Two sides changed the same file in different ways."""


@dataclass(frozen=True, slots=True)
class Signature:
    """Who, and when in seconds; `login` is the account behind it, which git itself does not know."""

    name: str
    email: str
    at: int
    login: str | None = None

    def __str__(self) -> str:
        return f"{self.name} <{self.email}> {self.at} +0000"


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit; `signed` is GitHub's word for it."""

    sha: str
    tree: str
    parents: tuple[str, ...]
    author: Signature
    committer: Signature
    message: str
    signed: bool = False

    @property
    def content(self) -> bytes:
        """The bytes that git stores."""
        lines = [f"tree {self.tree}", *(f"parent {parent}" for parent in self.parents), f"author {self.author}"]
        return "\n".join([*lines, f"committer {self.committer}", "", self.message]).encode()


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a tree."""

    name: str
    mode: str
    sha: str

    @property
    def is_folder(self) -> bool:
        """Whether it is a tree itself."""
        return self.mode == _FOLDER

    @property
    def order(self) -> bytes:
        """The key that git sorts by: folders as if their name ended with a slash."""
        return self.name.encode() + (b"/" if self.is_folder else b"")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A file as its folder has it."""

    mode: str
    sha: str


Files = dict[str, Leaf]  # by path


def sha_of(kind: str, content: bytes) -> str:
    """Return the name that git gives to an object."""
    return hashlib.sha1(b"%s %d\0%s" % (kind.encode(), len(content), content), usedforsecurity=False).hexdigest()


class Objects:
    """The objects of a network of repositories."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.trees: dict[str, tuple[Entry, ...]] = {}
        self.commits: dict[str, Commit] = {}

    def blob(self, content: bytes) -> str:
        """Store the bytes of a file, and return their name."""
        sha = sha_of("blob", content)
        self.blobs[sha] = content
        return sha

    def tree(self, files: Mapping[str, Leaf]) -> str:
        """Store a tree with all its folders, and return its name."""
        folders: dict[str, Files] = {}
        entries: list[Entry] = []
        for path, leaf in files.items():
            head, slash, rest = path.partition("/")
            if slash:
                folders.setdefault(head, {})[rest] = leaf
            else:
                entries.append(Entry(head, leaf.mode, leaf.sha))
        entries += [Entry(name, _FOLDER, self.tree(inside)) for name, inside in folders.items()]
        entries.sort(key=lambda entry: entry.order)
        content = b"".join(b"%s %s\0" % (e.mode.encode(), e.name.encode()) + bytes.fromhex(e.sha) for e in entries)
        sha = sha_of("tree", content)
        self.trees[sha] = tuple(entries)
        return sha

    def commit(  # a commit has that many parts
        self,
        tree: str,
        parents: Sequence[str],
        author: Signature,
        committer: Signature,
        message: str,
        *,
        signed: bool = False,
    ) -> str:
        """Store a commit, and return its name."""
        made = Commit("", tree, tuple(parents), author, committer, message, signed)
        sha = sha_of("commit", made.content)
        self.commits[sha] = replace(made, sha=sha)
        return sha

    def files(self, tree: str, prefix: str = "") -> Files:
        """Return all files of a tree by their paths."""
        found: Files = {}
        for entry in self.trees[tree]:
            if entry.is_folder:
                found |= self.files(entry.sha, f"{prefix}{entry.name}/")
            else:
                found[f"{prefix}{entry.name}"] = Leaf(entry.mode, entry.sha)
        return found

    def entry(self, tree: str, path: str) -> Entry | None:
        """Return the file or folder at a path of a tree, or None where there is none."""
        head, slash, rest = path.strip("/").partition("/")
        found = next((entry for entry in self.trees[tree] if entry.name == head), None)
        if not slash or found is None:
            return found
        return self.entry(found.sha, rest) if found.is_folder else None

    def files_at(self, commit: str) -> Files:
        """Return all files of a commit."""
        return self.files(self.commits[commit].tree)

    def read(self, commit: str, path: str) -> bytes | None:
        """Return the bytes of a file at a commit, or None where there is none."""
        leaf = self.files_at(commit).get(path)
        return None if leaf is None else self.blobs[leaf.sha]

    def changed(self, tree: str, changes: Mapping[str, bytes | None]) -> str:
        """Return the tree with some files set, or taken away where the bytes are None."""
        files = self.files(tree)
        for path, content in changes.items():
            if content is None:
                files.pop(path, None)
            else:
                mode = files[path].mode if path in files else _FILE
                files[path] = Leaf(mode, self.blob(content))
        return self.tree(files)

    def history(self, head: str) -> Iterator[Commit]:
        """Return a commit and its ancestors, newest first, each once, never before its children."""
        reachable: dict[str, int] = {}  # number of children that are not written yet
        waiting = [head]
        while waiting:
            sha = waiting.pop()
            if sha in reachable:
                continue
            reachable[sha] = 0
            waiting += self.commits[sha].parents
        for sha in list(reachable):
            for parent in self.commits[sha].parents:
                reachable[parent] += 1
        ready = [head]
        while ready:
            ready.sort(key=lambda sha: self.commits[sha].committer.at)
            commit = self.commits[ready.pop()]
            yield commit
            for parent in commit.parents:
                reachable[parent] -= 1
                if not reachable[parent]:
                    ready.append(parent)

    def is_ancestor(self, old: str, new: str) -> bool:
        """Return whether `new` has `old` in its history."""
        return any(commit.sha == old for commit in self.history(new))

    def since(self, base: str, head: str) -> list[Commit]:
        """Return the commits of `head` that `base` has not, newest first."""
        known = {commit.sha for commit in self.history(base)}
        return [commit for commit in self.history(head) if commit.sha not in known]

    def merge_base(self, one: str, other: str) -> str | None:
        """Return the newest commit that both have."""
        known = {commit.sha for commit in self.history(one)}
        return next((commit.sha for commit in self.history(other) if commit.sha in known), None)

    def difference(self, old: str, new: str) -> dict[str, tuple[Leaf | None, Leaf | None]]:
        """Return the files that differ between two trees, by path."""
        before, after = self.files(old), self.files(new)
        paths = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
        return {path: (before.get(path), after.get(path)) for path in paths}

    def merged(self, base: str, ours: str, theirs: str) -> str:
        """Return the tree that has what both sides changed since the tree `base`.

        Raises:
            MergeConflict: both changed a file, differently; text is not merged within a file.
        """
        files = self.files(ours)
        mine = self.difference(base, ours)
        for path, (_, after) in self.difference(base, theirs).items():
            if path in mine and mine[path][1] != after:
                raise MergeConflict(path)
            if after is None:
                files.pop(path, None)
            else:
                files[path] = after
        return self.tree(files)
