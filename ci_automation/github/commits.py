"""Branches and their commits. Each write requires that the branch has not moved since it was read."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from ci_automation.github.answers import Fields, OfRepository, segment
from ci_automation.github.errors import GitHubRefused, HeadMoved, NotOnGitHub
from ci_automation.github.model import OUR_BRANCHES

if TYPE_CHECKING:
    from collections.abc import Mapping

_COMMIT = """
mutation($input: CreateCommitOnBranchInput!) {
  createCommitOnBranch(input: $input) { commit { oid } }
}
"""
_PLAIN = "100644"
_SAFE = re.compile(r"(?!consumer-|content-|group-)[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?=[A-Za-z0-9_-]))*(?<!\.lock)")


def branch_name(artifact: str, kind: str = "") -> str:
    """Return the branch for one kind of pull request about an artifact, or about a group of them.

    `kind` is nothing, `consumer-`, `content-` or `group-`.

    A name that git would refuse, or that begins like a kind, is shortened, and gets a hash before it.
    """
    if not _SAFE.fullmatch(artifact):
        letters = re.sub(r"[^A-Za-z0-9]+", "-", artifact)[:60].strip("-")
        artifact = f"{hashlib.sha256(artifact.encode()).hexdigest()[:8]}-{letters}"
    return f"{OUR_BRANCHES}{kind}{artifact}"


class Commits(OfRepository):
    """Branches of one repository; the token must allow writes."""

    def create_branch(self, name: str, oid: str) -> None:
        """Make a branch at a commit, unless it already exists there.

        Raises:
            HeadMoved: the branch already exists at another commit.
        """
        try:
            self._send("POST", "/git/refs", {"ref": f"refs/heads/{name}", "sha": oid})
        except GitHubRefused as refused:
            if not refused.says("already exists"):
                raise
            if self._tip(name) != oid:
                raise HeadMoved(self.name, name, oid) from None

    def delete_branch(self, name: str) -> None:
        """Delete a branch with all its commits, if it exists; look at it before."""
        try:
            self._send("DELETE", f"/git/refs/heads/{quote(name)}")
        except GitHubRefused as refused:
            if not refused.says("does not exist"):
                raise

    def commit(self, branch: str, expected_head: str, message: str, files: Mapping[str, bytes | None]) -> str:
        """Add one commit, signed by GitHub, to the expected tip of a branch, and return the new tip.

        A file with None is deleted. The mutation `createCommitOnBranch` compares and swaps.

        Raises:
            HeadMoved: the branch has another tip.
        """
        headline, _, body = message.partition("\n")
        changes = {
            "additions": [
                {"path": path, "contents": base64.b64encode(content).decode()}
                for path, content in files.items()
                if content is not None
            ],
            "deletions": [{"path": path} for path, content in files.items() if content is None],
        }
        asked = {
            "branch": {"repositoryNameWithOwner": self.name, "branchName": branch},
            "expectedHeadOid": expected_head,
            "message": {"headline": headline, "body": body.strip("\n")},
            "fileChanges": changes,
        }
        try:
            data = self._client.mutate(_COMMIT, {"input": asked})
        except GitHubRefused as refused:
            if refused.kind == "STALE_DATA" or refused.says("expected branch to point to"):
                raise HeadMoved(self.name, branch, expected_head) from None
            raise
        made = Fields(data, f"the commit on {branch} of {self.name}").fields("createCommitOnBranch")
        return made.fields("commit").oid("oid")

    def rebase_commit(
        self, branch: str, expected_head: str, onto: str, message: str, files: Mapping[str, bytes | None]
    ) -> str:
        """Merge `onto` into a branch, with the files of `onto` except for `files`, and return the new tip.

        The merge undoes the branch's other changes, which stay in its history. Both tips are parents, so a move of the
        branch without force compares and swaps.

        Raises:
            HeadMoved: the branch has another tip.
            NotOnGitHub: the commit `onto` does not exist.
        """
        base = self._one(f"/git/commits/{segment(onto)}").fields("tree").oid("sha")
        entries = [self._entry(path, content) for path, content in files.items()]
        tree = self._created("/git/trees", {"base_tree": base, "tree": entries}).oid("sha")
        asked = {"message": message, "tree": tree, "parents": [expected_head, onto]}
        made = self._created("/git/commits", asked).oid("sha")
        try:
            self._send("PATCH", f"/git/refs/heads/{quote(branch)}", {"sha": made, "force": False})
        except GitHubRefused as refused:
            if refused.says("not a fast forward") or refused.says("does not exist"):
                raise HeadMoved(self.name, branch, expected_head) from None
            raise
        return made

    def _entry(self, path: str, content: bytes | None) -> dict[str, object]:
        entry: dict[str, object] = {"path": path, "mode": _PLAIN, "type": "blob"}
        if content is None:
            return entry | {"sha": None}
        try:
            return entry | {"content": content.decode()}
        except UnicodeDecodeError:
            encoded: dict[str, object] = {"content": base64.b64encode(content).decode(), "encoding": "base64"}
            return entry | {"sha": self._created("/git/blobs", encoded).oid("sha")}

    def _tip(self, name: str) -> str | None:
        try:
            found = self._one(f"/git/ref/heads/{quote(name)}")
        except NotOnGitHub:
            return None
        return found.fields("object").oid("sha")
