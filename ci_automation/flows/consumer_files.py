"""The contents of a repository's files, fifty to a request, so that a fleet's thousands fit into an hour's limit.

GraphQL gives texts, not bytes: of each the git hash is compared, and what is no text, is cut, or came otherwise is read
by itself.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from ci_automation.github.answers import Fields
from ci_automation.github.errors import GitHubAnswerTooLarge, NotOnGitHub

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci_automation.github.client import GitHub
    from ci_automation.github.repository import Repository

_BATCH = 50  # texts of at most 512 kB each, as GitHub cuts them; an answer has at most 32 MB


def contents(
    client: GitHub, repository: Repository, commit: str, listed: Iterable[tuple[str, str]]
) -> Iterator[tuple[str, bytes | None]]:
    """Yield each blob of the `listed` paths and blobs of a commit once, with its content; None where it is too large.

    Raises:
        NotOnGitHub: the repository or a blob is gone.
        ReleaseSourceError: as `GitHub.graphql` and `GitHub.get`.
    """
    paths = {sha: path for path, sha in listed}
    shas = list(paths)
    for start in range(0, len(shas), _BATCH):
        batch = shas[start : start + _BATCH]
        texts = _texts(client, repository.name, [f"{commit}:{paths[sha]}" for sha in batch])
        for sha, text in zip(batch, texts, strict=True):
            data = (text or "").encode(errors="replace")
            yield sha, data if _blob(data) == sha else _alone(repository, sha)


def _texts(client: GitHub, name: str, expressions: list[str]) -> Iterator[str | None]:
    """Yield what GraphQL has as text of each `commit:path`."""
    declared = "".join(f", $e{number}: String!" for number in range(len(expressions)))
    fields = " ".join(
        f"f{number}: object(expression: $e{number}) {{ ... on Blob {{ text }} }}" for number in range(len(expressions))
    )
    query = (
        f"query($owner: String!, $name: String!{declared}) {{ repository(owner: $owner, name: $name) {{ {fields} }} }}"
    )
    owner, _, short = name.partition("/")
    variables = {"owner": owner, "name": short} | {f"e{number}": each for number, each in enumerate(expressions)}
    found = Fields(client.graphql(query, variables), f"a GraphQL query for files of {name}").maybe("repository")
    if found is None:
        raise NotOnGitHub(f"the repository {name} on {client.host}")
    for number in range(len(expressions)):
        blob = found.maybe(f"f{number}")
        yield blob.maybe_text("text") if blob else None


def _alone(repository: Repository, sha: str) -> bytes | None:
    try:
        return repository.blob(sha)
    except GitHubAnswerTooLarge:
        return None


def _blob(data: bytes) -> str:
    """Return the name that git gives to a file of these bytes."""
    return hashlib.sha1(b"blob %d\0%s" % (len(data), data), usedforsecurity=False).hexdigest()
