"""What git knows, as GraphQL shows it: mappings of fields, each a value or a function of the field's arguments."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Any

from tests.fakes.forge import shown
from tests.fakes.forge.connections import connection, paged
from tests.fakes.forge.objects import Signature
from tests.fakes.forge.routes import allowed
from tests.fakes.forge.state import Refused

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.fakes.forge.forge import Forge
    from tests.fakes.forge.objects import Commit, Entry
    from tests.fakes.forge.people import Token
    from tests.fakes.forge.repository import Repository
    from tests.fakes.forge.state import Pull

Json = dict[str, Any]
_CO_AUTHOR = re.compile(r"^Co-authored-by: (.+) <(.+)>$", re.MULTILINE | re.IGNORECASE)
_MODES = {"40000": 0o40000, "100644": 0o100644, "100755": 0o100755, "120000": 0o120000}


class GitNodes:
    """Shows accounts, refs and git objects to one token."""

    def __init__(self, forge: Forge, token: Token) -> None:
        self.forge, self.token = forge, token

    def may(self, repo: Repository, permission: str) -> None:
        """Refuse what the token may not do."""
        if not allowed(repo, self.token, permission):
            raise Refused(403, self.token.refusal, kind="FORBIDDEN")

    def person(self, login: str) -> Json:
        """Return an account."""
        user = self.forge.user(login)
        return {
            "id": user.node_id,
            "databaseId": user.id,
            "login": login,
            "name": None,
            "url": f"{self.forge.host}/{login.removesuffix('[bot]')}",
        }

    def actor(self, login: str | None) -> Json | None:
        """Return who did something: here, unlike in REST, a bot's login has no `[bot]`."""
        if login is None:
            return None
        kind = "Bot" if login.endswith("[bot]") else "User"
        return {**self.person(login), "login": login.removesuffix("[bot]"), "__typename": kind}

    def repository(self, repo: Repository) -> Json:
        """Return a repository."""
        raise NotImplementedError

    def pulls(self, repo: Repository, pulls: Iterable[Pull], named: Json) -> Json:
        """Return those pull requests that the arguments ask for."""
        raise NotImplementedError

    def ref(self, repo: Repository, name: str) -> Json | None:
        """Return a branch or tag, or None where there is none of that name."""
        self.may(repo, "contents=read")
        kind = "tags" if name.startswith("refs/tags/") else "heads"
        plain = name.removeprefix(f"refs/{kind}/")
        sha = (repo.branches if kind == "heads" else repo.tags).get(plain)
        if sha is None:
            return None
        rule = repo.protections.get(plain)
        return {
            "__typename": "Ref",
            "id": f"REF_{repo.id}_{plain}",
            "name": plain,
            "prefix": f"refs/{kind}/",
            "target": lambda _info: self.commit(repo, sha),
            "repository": lambda _info: self.repository(repo),
            "compare": lambda _info, *, headRef: self._compared(repo, sha, headRef),  # noqa: N803  # GitHub's name
            "associatedPullRequests": lambda _info, **named: self.pulls(
                repo, [p for p in repo.pulls if (p.source, p.branch) == (repo.full_name, plain)], named
            ),
            "branchProtectionRule": rule
            and {
                "id": f"BPR_{repo.id}_{plain}",
                "requiresApprovingReviews": rule.reviews > 0,
                "requiredApprovingReviewCount": rule.reviews,
                "requiresCodeOwnerReviews": rule.code_owners,
            },
        }

    def refs(self, repo: Repository, named: Json) -> Json:
        """Return branches or tags."""
        kind = named["refPrefix"]
        names = sorted(repo.branches if kind.startswith("refs/heads/") else repo.tags)
        below = kind.removeprefix("refs/heads/").removeprefix("refs/tags/")
        start = "refs/heads/" if kind.startswith("refs/heads/") else "refs/tags/"
        return connection([self.ref(repo, start + name) for name in names if name.startswith(below)], named)

    def _compared(self, repo: Repository, base: str, head: str) -> Json | None:
        other = repo.resolve(head)
        if other is None:
            raise Refused(404, f"Could not resolve to a Ref with the name '{head}'.", kind="NOT_FOUND")
        ahead, behind = repo.objects.since(base, other), repo.objects.since(other, base)
        status = "DIVERGED" if ahead and behind else "AHEAD" if ahead else "BEHIND" if behind else "IDENTICAL"
        return {
            "id": f"CMP_{base}_{other}",
            "aheadBy": len(ahead),
            "behindBy": len(behind),
            "status": status,
            "baseTarget": lambda _info: self.commit(repo, base),
            "headTarget": lambda _info: self.commit(repo, other),
            "commits": paged(lambda: [self.commit(repo, commit.sha) for commit in reversed(ahead)]),
        }

    def commit(self, repo: Repository, sha: str) -> Json:
        """Return a commit."""
        commit = repo.objects.commits[sha]
        headline, _, body = commit.message.partition("\n")
        return {
            "__typename": "Commit",
            "id": f"C_{sha}",
            "oid": sha,
            "abbreviatedOid": sha[:7],
            "message": commit.message,
            "messageHeadline": headline,
            "messageBody": body.lstrip("\n"),
            "committedDate": _at(commit.committer),
            "authoredDate": _at(commit.author),
            "url": f"{self.forge.host}/{repo.full_name}/commit/{sha}",
            "author": lambda _info: self._signature(commit.author),
            "committer": lambda _info: self._signature(commit.committer),
            "authors": paged(lambda: [self._signature(commit.author), *self._co_authors(commit)]),
            "parents": paged(lambda: [self.commit(repo, parent) for parent in commit.parents]),
            "tree": lambda _info: self._tree(repo, commit.tree),
            "file": lambda _info, *, path: self._entry(repo, path, repo.objects.entry(commit.tree, path)),
            "associatedPullRequests": lambda _info, **named: self.pulls(repo, repo.pulls_with(sha), named),
            "history": lambda _info, **named: self._history(repo, sha, named),
            "repository": lambda _info: self.repository(repo),
            "signature": {
                "__typename": "GpgSignature",
                "isValid": True,
                "wasSignedByGitHub": True,
                "state": "VALID",
                "signer": None,
            }
            if commit.signed
            else None,
        }

    def _history(self, repo: Repository, sha: str, named: Json) -> Json:
        self.may(repo, "contents=read")
        return connection([self.commit(repo, commit.sha) for commit in repo.objects.history(sha)], named)

    def _co_authors(self, commit: Commit) -> list[Json]:
        """Return those whom the trailers of a message name; GitHub knows accounts by their addresses."""
        by_address = {user.email: login for login, user in self.forge.users.items()}
        named = _CO_AUTHOR.findall(commit.message)
        return [self._signature(Signature(name, mail, commit.author.at, by_address.get(mail))) for name, mail in named]

    def _signature(self, of: Signature) -> Json:
        known = of.login if of.login in self.forge.users else None
        user = {**self.person(known), "__typename": "User"} if known else None  # of a bot too, and with its `[bot]`
        return {"name": of.name, "email": of.email, "date": _at(of), "user": user}

    def object_of(self, repo: Repository, named: Json) -> Json | None:
        """Return what an expression such as `HEAD:path` stands for."""
        self.may(repo, "contents=read")
        expression = named.get("expression") or named.get("oid") or ""
        ref, colon, path = expression.partition(":")
        commit = repo.resolve(ref)
        if commit is None:
            return self._tree(repo, ref) if ref in repo.objects.trees else None
        if not colon:
            return self.commit(repo, commit)
        tree = repo.objects.commits[commit].tree
        if not path.strip("/"):
            return self._tree(repo, tree)
        entry = repo.objects.entry(tree, path)
        if entry is None:
            return None
        return self._tree(repo, entry.sha) if entry.is_folder else self._blob(repo, entry.sha)

    def _tree(self, repo: Repository, sha: str) -> Json:
        def entries(_info: object) -> list[Json | None]:
            return [self._entry(repo, entry.name, entry) for entry in repo.objects.trees[sha]]

        return {"__typename": "Tree", "id": f"T_{sha}", "oid": sha, "abbreviatedOid": sha[:7], "entries": entries}

    def _entry(self, repo: Repository, path: str, entry: Entry | None) -> Json | None:
        self.may(repo, "contents=read")
        if entry is None:
            return None
        return {
            "name": entry.name,
            "path": path,
            "mode": _MODES.get(entry.mode, 0),
            "type": shown.FILE_TYPES.get(entry.mode, "blob"),
            "oid": entry.sha,
            "size": 0 if entry.is_folder else len(repo.objects.blobs[entry.sha]),
            "object": self._tree(repo, entry.sha) if entry.is_folder else self._blob(repo, entry.sha),
        }

    def _blob(self, repo: Repository, sha: str) -> Json:
        content = repo.objects.blobs[sha]
        try:
            text = None if b"\0" in content else content.decode()
        except UnicodeDecodeError:
            text = None
        truncated = len(content) > self.forge.largest_text
        return {
            "__typename": "Blob",
            "id": f"B_{sha}",
            "oid": sha,
            "abbreviatedOid": sha[:7],
            "byteSize": len(content),
            "isBinary": text is None,
            "isTruncated": truncated,
            "text": text[: self.forge.largest_text] if text is not None else None,
        }


def _at(of: Signature) -> str | None:
    return shown.when(dt.datetime.fromtimestamp(of.at, dt.UTC))
