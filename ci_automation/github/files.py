"""The files of a repository: which there are at a commit, and what is in them. Nothing in here changes anything."""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import TYPE_CHECKING

from ci_automation.github.answers import Fields, object_at, require_name, segment
from ci_automation.github.errors import GitHubAnswerTooLarge, NotOnGitHub, TooManyFiles, UnexpectedGitHubAnswer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci_automation.github.client import GitHub

_MODES = frozenset({"100644", "100755"})
_BATCH = 50  # texts of at most 512 kB each, as GitHub cuts them; an answer has at most 32 MB


class Files:
    """The files of one repository, as the client's token sees them."""

    def __init__(self, client: GitHub, name: str) -> None:
        self._client, self.name = client, require_name(name)

    def listed(self, ref: str, paths: Iterable[str] = ()) -> tuple[tuple[str, str], ...]:
        """Return path and blob SHA of the files of a commit, sorted, below `paths`, or all; no links, no submodules.

        Raises:
            NotOnGitHub: there is no such commit.
            TooManyFiles: there are more than GitHub lists at once.
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

    def contents(self, commit: str, listed: Iterable[tuple[str, str]]) -> Iterator[tuple[str, bytes | None]]:
        """Yield each blob of the `listed` paths and blobs of a commit once, with its content; None: it is too large.

        Fifty are read in one request, so that a fleet's thousands fit into an hour's limit. GraphQL gives texts, not
        bytes: what is no text, is cut, or came otherwise is read by itself.

        Raises:
            NotOnGitHub: the repository or a blob is gone.
            ReleaseSourceError: as `GitHub.graphql` and `GitHub.get`.
        """
        paths = {sha: path for path, sha in listed}
        shas = list(paths)
        for start in range(0, len(shas), _BATCH):
            batch = shas[start : start + _BATCH]
            texts = self._texts([f"{commit}:{paths[sha]}" for sha in batch])
            for sha, text in zip(batch, texts, strict=True):
                data = (text or "").encode(errors="replace")
                yield sha, data if _oid(data) == sha else self._alone(sha)

    def blob(self, sha: str) -> bytes:
        """Return the content that a blob SHA stands for.

        Raises:
            NotOnGitHub: there is no such blob.
            UnexpectedGitHubAnswer: the content is another.
            ReleaseSourceError: as `GitHub.get`.
        """
        found = object_at(self._client, f"/repos/{self.name}/git/blobs/{segment(sha)}")
        try:
            content = base64.b64decode(found.text("content"))
        except (binascii.Error, ValueError):
            content = b""
        if _oid(content) != sha:
            raise UnexpectedGitHubAnswer(f"the blob {sha} of {self.name} was answered with another content")
        return content

    def _texts(self, expressions: list[str]) -> Iterator[str | None]:
        """Yield what GraphQL has as text of each `commit:path`."""
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
        return object_at(
            self._client, f"/repos/{self.name}/git/trees/{segment(sha)}" + ("?recursive=1" if recursive else "")
        )

    def _files_at(self, ref: str, path: str) -> Iterator[tuple[str, str]]:
        """Yield the files below one path, walking down to it, of a tree that is too large to be listed."""
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
    """Return the name that git gives to a file of these bytes."""
    return hashlib.sha1(b"blob %d\0%s" % (len(data), data), usedforsecurity=False).hexdigest()


def _is_below(path: str, folder: str) -> bool:
    return not folder or path == folder or path.startswith(f"{folder}/")


def _files(tree: Fields, folder: str) -> Iterator[tuple[str, str]]:
    for entry in tree.each("tree"):
        if entry.text("mode") in _MODES:
            yield folder + entry.text("path"), entry.oid("sha")
