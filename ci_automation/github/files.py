"""Files of a repository at a commit, and their contents, read only."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from typing import TYPE_CHECKING

from ci_automation.github.answers import Fields, object_at, require_name, segment
from ci_automation.github.errors import GitHubAnswerTooLarge, NotOnGitHub, TooManyFiles, UnexpectedGitHubAnswer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci_automation.github.client import GitHub

_PLAIN = "100644"
_MODES = frozenset({_PLAIN, "100755"})
_MAX_KEPT, _MOST_KEPT = 64 << 10, 500  # bytes of a blob, and blobs
_SHA = re.compile(r"[0-9a-f]{40}")
_BATCH = 50  # texts of at most 512 kB each, as GitHub cuts them; an answer has at most 32 MB


class Files:
    """Files of one repository that the client's token may see; trees of commits and small blobs are asked for once."""

    def __init__(self, client: GitHub, name: str) -> None:
        self._client, self.name = client, require_name(name)
        self._trees: dict[tuple[str, bool], Fields] = {}
        self._read: dict[str, bytes] = {}

    def listed(self, ref: str, paths: Iterable[str] = ()) -> tuple[tuple[str, str], ...]:
        """Return path and blob SHA of a commit's files, sorted, below `paths` or all, without links and submodules.

        Raises:
            NotOnGitHub: the commit does not exist.
            TooManyFiles: the commit has more files than GitHub lists at once.
            ReleaseSourceError: as `GitHub.get`.
        """
        below = tuple(path.strip("/") for path in paths)
        root = self._tree(ref, recursive=True)
        if not root.flag("truncated"):
            found = set(_files(root, ""))
            return tuple(sorted(item for item in found if not below or any(_is_below(item[0], path) for path in below)))
        if not below:
            raise TooManyFiles(self.name, "")
        return tuple(sorted({item for path in below for item in self._files_at(ref, path)}))

    def unusual(self, ref: str) -> dict[str, str]:
        """Return the mode of each entry of a commit that is no plain file: executables, links and submodules.

        Raises:
            NotOnGitHub: there is no such commit.
            TooManyFiles: there are more than GitHub lists at once.
            ReleaseSourceError: as `GitHub.get`.
        """
        root = self._tree(ref, recursive=True)
        if root.flag("truncated"):
            raise TooManyFiles(self.name, "")
        found = (
            (entry.text("path"), entry.text("mode")) for entry in root.each("tree") if entry.text("type") != "tree"
        )
        return {path: mode for path, mode in found if mode != _PLAIN}

    def contents(self, commit: str, listed: Iterable[tuple[str, str]]) -> Iterator[tuple[str, bytes | None]]:
        """Yield each blob of the `listed` paths of a commit once, with its content, or None if it is too large.

        One request reads fifty blobs, so that thousands of files of a fleet fit into an hour's rate limit. GraphQL
        returns texts, not bytes, so each blob with other, cut or different content costs another request.

        Raises:
            NotOnGitHub: the repository or a blob is gone.
            ReleaseSourceError: as `GitHub.graphql` and `GitHub.get`.
        """
        paths = {sha: path for path, sha in listed}
        yield from ((sha, self._read[sha]) for sha in paths if sha in self._read)
        shas = [sha for sha in paths if sha not in self._read]
        for start in range(0, len(shas), _BATCH):
            batch = shas[start : start + _BATCH]
            texts = self._texts([f"{commit}:{paths[sha]}" for sha in batch])
            for sha, text in zip(batch, texts, strict=True):
                data = (text or "").encode(errors="replace")
                yield sha, self._kept(sha, data) if _oid(data) == sha else self._alone(sha)

    def blob(self, sha: str) -> bytes:
        """Return the content of a blob.

        Raises:
            NotOnGitHub: the blob does not exist.
            UnexpectedGitHubAnswer: the content does not match the SHA.
            ReleaseSourceError: as `GitHub.get`.
        """
        if (known := self._read.get(sha)) is not None:
            return known
        found = object_at(self._client, f"/repos/{self.name}/git/blobs/{segment(sha)}")
        try:
            content = base64.b64decode(found.text("content"))
        except (binascii.Error, ValueError):
            content = b""
        if _oid(content) != sha:
            raise UnexpectedGitHubAnswer(f"the blob {sha} of {self.name} was answered with another content")
        return self._kept(sha, content)

    def _kept(self, sha: str, content: bytes) -> bytes:
        """Return the content of a blob, which is kept if it is small, and one of the first."""
        if len(content) <= _MAX_KEPT and len(self._read) < _MOST_KEPT:
            self._read[sha] = content
        return content

    def _texts(self, expressions: list[str]) -> Iterator[str | None]:
        """Yield GraphQL's text of each `commit:path`, or None without one."""
        numbered = range(len(expressions))
        declared = "".join(f", $e{number}: String!" for number in numbered)
        asked = " ".join(
            f"f{number}: object(expression: $e{number}) {{ ... on Blob {{ text }} }}" for number in numbered
        )
        head = f"query($owner: String!, $name: String!{declared})"
        query = f"{head} {{ repository(owner: $owner, name: $name) {{ {asked} }} }}"
        owner, _, short = self.name.partition("/")
        variables = {"owner": owner, "name": short} | {f"e{number}": each for number, each in enumerate(expressions)}
        data = self._client.graphql(query, variables)
        found = Fields(data, f"a GraphQL query for files of {self.name}").maybe("repository")
        if found is None:
            raise NotOnGitHub(f"the repository {self.name} on {self._client.host}")
        for number in numbered:
            blob = found.maybe(f"f{number}")
            yield blob.maybe_text("text") if blob else None

    def _alone(self, sha: str) -> bytes | None:
        try:
            return self.blob(sha)
        except GitHubAnswerTooLarge:
            return None

    def _tree(self, sha: str, *, recursive: bool) -> Fields:
        if (found := self._trees.get((sha, recursive))) is None:
            path = f"/repos/{self.name}/git/trees/{segment(sha)}" + ("?recursive=1" if recursive else "")
            found = object_at(self._client, path)
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
                if walked == path and entry.text("mode") in _MODES:
                    yield path, entry.oid("sha")
                return
            sha, walked = entry.oid("sha"), f"{walked}/"
        tree = self._tree(sha, recursive=True)
        if tree.flag("truncated"):
            raise TooManyFiles(self.name, path)
        yield from _files(tree, walked)


def _oid(data: bytes) -> str:
    """Return the SHA that git gives to a file with these bytes."""
    return hashlib.sha1(b"blob %d\0%s" % (len(data), data), usedforsecurity=False).hexdigest()


def _is_below(path: str, folder: str) -> bool:
    return not folder or path == folder or path.startswith(f"{folder}/")


def _files(tree: Fields, folder: str) -> Iterator[tuple[str, str]]:
    for entry in tree.each("tree"):
        if entry.text("mode") in _MODES:
            yield folder + entry.text("path"), entry.oid("sha")
