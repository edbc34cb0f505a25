"""Files of a repository at a commit, and their contents, read only."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.github.answers import Fields, OfRepository, segment
from ci_automation.github.errors import GitHubAnswerTooLarge, TooManyFiles, UnexpectedGitHubAnswer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ci_automation.github.client import GitHub

EXECUTABLE = "100755"
PLAIN_MODES = frozenset({"100644", EXECUTABLE})  # neither links nor submodules
_MAX_KEPT, _MOST_KEPT = 64 << 10, 500  # bytes of a blob, and blobs
_SHA = re.compile(r"[0-9a-f]{40}")
_DEPTH = 4  # of folders that one query lists
_MOST_ENTRIES = 5_000
_BATCH = 50  # texts of at most 512 kB each, as GitHub cuts them; an answer has at most 32 MB


class Files(OfRepository):
    """Files of one repository that the client's token may see; trees of commits and small blobs are asked for once."""

    def __init__(self, client: GitHub, name: str) -> None:
        super().__init__(client, name)
        self._trees: dict[tuple[str, bool], Fields] = {}
        self._read: dict[str, bytes] = {}

    def listed(self, ref: str, paths: Iterable[str] = ()) -> tuple[tuple[str, str], ...]:
        """Return path and blob SHA of a commit's files, sorted, below `paths` or all, without links and submodules.

        Raises:
            NotOnGitHub: the commit does not exist.
            TooManyFiles: the commit has more files than GitHub lists at once.
        """
        below = tuple(path.strip("/") for path in paths)
        root = self._tree(ref, recursive=True)
        if not root.flag("truncated"):
            found = set(_files(root, ""))
            return tuple(sorted(item for item in found if not below or any(_is_below(item[0], path) for path in below)))
        if not below:
            raise TooManyFiles(self.name, "")
        return tuple(sorted({item for path in below for item in self._files_at(ref, path)}))

    def below(self, asked: Mapping[str, Iterable[str]]) -> dict[str, dict[str, tuple[str, str]]]:
        """Return, by commit, mode and SHA of each entry at or below some of its paths, but for the folders.

        A folder that is named by its own SHA, without paths, comes whole. One request reads folders of a usual depth
        together with the texts of their files, which `contents` and `blob` then need not ask for.

        Raises:
            TooManyFiles: they have more entries than this reads.
        """
        found: dict[str, dict[str, tuple[str, str]]] = {oid: {} for oid in asked}
        todo = [_Wanted(oid, oid, path) for oid, paths in asked.items() for path in dict.fromkeys(paths) or ("",)]
        while todo:
            deeper: list[_Wanted] = []
            for wanted, node in zip(todo, self._nodes(todo), strict=True):
                for path, entry in _nested(wanted, node):
                    oid = entry.oid("oid")
                    if entry.text("type") == "tree":
                        deeper.append(_Wanted(wanted.of, oid, folder=f"{path}/"))
                        continue
                    found[wanted.of][path] = (f"{entry.number('mode'):06o}", oid)
                    blob = entry.maybe("object")
                    data = ((blob.maybe_text("text") if blob else "") or "").encode(errors="replace")
                    if _oid(data) == oid:  # else GitHub has cut it, or it is no text
                        self._kept(oid, data)
            if sum(map(len, (deeper, *found.values()))) > _MOST_ENTRIES:
                raise TooManyFiles(self.name, "")
            todo = deeper
        return found

    def contents(self, commit: str, listed: Iterable[tuple[str, str]]) -> Iterator[tuple[str, bytes | None]]:
        """Yield each blob of the `listed` paths of a commit once, with its content, or None if it is too large.

        One request reads fifty blobs, so that thousands of files of a fleet fit into an hour's rate limit. GraphQL
        returns texts, not bytes, so each blob with other, cut or different content costs another request.

        Raises:
            NotOnGitHub: the repository or a blob is gone.
        """
        paths = {sha: path for path, sha in listed}
        yield from ((sha, self._read[sha]) for sha in paths if sha in self._read)
        shas = [sha for sha in paths if sha not in self._read]
        for start in range(0, len(shas), _BATCH):
            batch = shas[start : start + _BATCH]
            texts = self._texts([f"{commit}:{paths[sha]}" for sha in batch])
            for sha, text in zip(batch, texts, strict=True):
                data = (text or "").encode(errors="replace")
                yield sha, self._kept(sha, data) if _oid(data) == sha else self.small_blob(sha)

    def blob(self, sha: str) -> bytes:
        """Return the content of a blob.

        Raises:
            NotOnGitHub: the blob does not exist.
            UnexpectedGitHubAnswer: the content does not match the SHA.
        """
        if (known := self._read.get(sha)) is not None:
            return known
        found = self._one(f"/git/blobs/{segment(sha)}")
        try:
            content = base64.b64decode(found.text("content"))
        except ValueError:
            content = b""
        if _oid(content) != sha:
            raise UnexpectedGitHubAnswer(f"the blob {sha} of {self.name} was answered with another content")
        return self._kept(sha, content)

    def _kept(self, sha: str, content: bytes) -> bytes:
        """Return the content of a blob, which is kept if it is small, and one of the first."""
        if len(content) <= _MAX_KEPT and len(self._read) < _MOST_KEPT:
            self._read[sha] = content
        return content

    def _nodes(self, todo: Sequence[_Wanted]) -> Iterator[Fields | None]:
        try:
            return self._objects(*_query_of(todo, "text"))
        except GitHubAnswerTooLarge:  # `contents` asks for the texts, a few at a time
            return self._objects(*_query_of(todo, "oid"))

    def _texts(self, expressions: list[str]) -> Iterator[str | None]:
        """Yield GraphQL's text of each `commit:path`, or None without one."""
        asked = [f"object(expression: $v{number}) {{ ... on Blob {{ text }} }}" for number in range(len(expressions))]
        variables = {f"v{number}": each for number, each in enumerate(expressions)}
        return (blob.maybe_text("text") if blob else None for blob in self._objects(asked, variables))

    def _objects(
        self,
        asked: Sequence[str],
        variables: Mapping[str, str],
        fragments: str = "",
        types: Mapping[str, str] | None = None,
    ) -> Iterator[Fields | None]:
        """Return the objects of the repository that one query asks for, each None if there is none."""
        fields = " ".join(f"f{number}: {each}" for number, each in enumerate(asked))
        found, _ = self._query(fields, variables, fragments, types)
        return (found.maybe(f"f{number}") for number in range(len(asked)))

    def small_blob(self, sha: str) -> bytes | None:
        """Return the content of a blob, or None if it is too large to be sent."""
        try:
            return self.blob(sha)
        except GitHubAnswerTooLarge:
            return None

    def _tree(self, sha: str, *, recursive: bool) -> Fields:
        if (found := self._trees.get((sha, recursive))) is None:
            found = self._one(f"/git/trees/{segment(sha)}" + ("?recursive=1" if recursive else ""))
            if _SHA.fullmatch(sha):  # a branch may get other files
                self._trees[sha, recursive] = found
        return found

    def _files_at(self, ref: str, path: str) -> Iterator[tuple[str, str]]:
        """Yield the files below one path of a tree that is too large to list, folder by folder."""
        sha, walked = ref, ""
        for name in path.split("/"):
            entries = {entry.text("path"): entry for entry in self._tree(sha, recursive=False).each("tree")}
            if (entry := entries.get(name)) is None:
                return
            walked = f"{walked}{name}"
            if entry.text("type") != "tree":
                if walked == path and entry.text("mode") in PLAIN_MODES:
                    yield path, entry.oid("sha")
                return
            sha, walked = entry.oid("sha"), f"{walked}/"
        tree = self._tree(sha, recursive=True)
        if tree.flag("truncated"):
            raise TooManyFiles(self.name, path)
        yield from _files(tree, walked)


class _Wanted(Struct, frozen=True):
    """A commit with a path in it, or a folder by its SHA; `of` is what it was asked for, `folder` its path there."""

    of: str
    oid: str
    path: str = ""
    folder: str = ""


def _query_of(todo: Sequence[_Wanted], blob: str) -> tuple[list[str], dict[str, str], str, dict[str, str]]:
    """Return fields, variables, fragments and types of a query for what is wanted; `blob` is asked for of each file."""
    inner = "oid"
    for _ in range(_DEPTH):
        inner = f"entries {{ name type mode oid object {{ ... on Blob {{ {blob} }} ... on Tree {{ {inner} }} }} }}"
    entry = f"name type mode oid object {{ ... on Blob {{ {blob} }} ...Folder }}"
    asked = []
    variables: dict[str, str] = {}
    for number, wanted in enumerate(todo):
        variables[f"o{number}"] = wanted.oid
        fields = "...Folder"
        if wanted.path:
            variables[f"p{number}"] = wanted.path
            fields = f"... on Commit {{ file(path: $p{number}) {{ {entry} }} }}"
        asked.append(f"object(oid: $o{number}) {{ {fields} }}")
    oids = {f"o{number}": "GitObjectID!" for number in range(len(asked))}
    return asked, variables, f"fragment Folder on Tree {{ {inner} }}", oids


def _nested(wanted: _Wanted, node: Fields | None) -> Iterator[tuple[str, Fields]]:
    """Yield path and fields of each file, and of each folder that is too deep to be listed."""
    if node is None:
        return
    if not wanted.path:
        yield from _entries(node, wanted.folder)
    elif entry := node.maybe("file"):
        yield from _entry(entry, wanted.path)


def _entry(entry: Fields, path: str) -> Iterator[tuple[str, Fields]]:
    tree = entry.maybe("object") if entry.text("type") == "tree" else None
    if tree and tree.has("entries"):
        yield from _entries(tree, f"{path}/")
    else:
        yield path, entry


def _entries(tree: Fields, folder: str) -> Iterator[tuple[str, Fields]]:
    for entry in tree.each("entries"):
        yield from _entry(entry, f"{folder}{entry.text('name')}")


def _oid(data: bytes) -> str:
    """Return the SHA that git gives to a file with these bytes."""
    return hashlib.sha1(b"blob %d\0%s" % (len(data), data), usedforsecurity=False).hexdigest()


def _is_below(path: str, folder: str) -> bool:
    return not folder or path == folder or path.startswith(f"{folder}/")


def _files(tree: Fields, folder: str) -> Iterator[tuple[str, str]]:
    for entry in tree.each("tree"):
        if entry.text("mode") in PLAIN_MODES:
            yield folder + entry.text("path"), entry.oid("sha")
