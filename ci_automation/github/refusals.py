"""Errors for failed answers of REST and GraphQL, with the cause and the remedy."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.github.answers import document
from ci_automation.github.errors import (
    GitHubDenied,
    GitHubRefused,
    NotOnGitHub,
    PermissionMissing,
    PullRequestsForbidden,
    RepositoryArchived,
    RepositoryRenamed,
    UnexpectedGitHubAnswer,
)
from ci_automation.hiding import Hiding
from ci_automation.net.values import Answer, parsed_json, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_automation.errors import Error
    from ci_automation.github.waiting import Waiting

_MANY_REASONS = 5
REDIRECTS = frozenset({301, 302, 303, 307, 308})
_UNDERSTOOD = frozenset({400, 405, 409, 410, 412, 413, 422})
_OTHERS_PULLS = "not permitted to create or approve pull requests"
_GRANTABLE = frozenset({
    "actions", "attestations", "checks", "contents", "deployments", "discussions", "issues", "packages", "pages",
    "pull_requests", "security_events", "statuses",
})  # fmt: skip  # GitHub's *Workflow syntax*, `permissions`
_PERMISSION = re.compile(r"(?<![a-z_])([a-z_]{1,60})=(read|write|admin)")
# Permissions for a write if GitHub does not name them: the first pattern that fits the path or the mutation counts.
_NEEDED: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"/actions/|/environments/"), "actions=write"),
    (re.compile(r"/pulls\b"), "pull_requests=write"),
    (re.compile(r"/issues$"), "issues=write"),
    (re.compile(r"/issues/"), "issues=write; pull_requests=write"),
    (re.compile(r"/collaborators/"), "metadata=read"),
    (re.compile(r"/orgs/"), "members=read"),
    (re.compile(r"(?:en|dis)ablePullRequestAutoMerge"), "contents=write,pull_requests=write"),
    (re.compile(r""), "contents=write"),
)
# The kinds of GraphQL's errors.
_DENIALS = frozenset({"FORBIDDEN", "INSUFFICIENT_SCOPES", "UNAUTHORIZED", "UNAUTHENTICATED"})
_MISSING = "NOT_FOUND"
_LIMITED = "RATE_LIMITED"


class Asker(Hiding, Struct, frozen=True):
    """The user of a client: a token, which no message may contain, and the token's name for messages."""

    hides = ("token",)

    token: str | None
    token_name: str

    def unheard(self, reply: Answer) -> Answer:
        """Return an answer without the token, which a server or a proxy may repeat anywhere in it."""
        if self.token is None:
            return reply
        headers = {name: text.replace(self.token, "***") for name, text in reply.headers.items()}
        return replace(reply, headers=headers, body=reply.body.replace(self.token.encode(), b"***"))

    def denied(self, reply: Answer, what: str, said: str) -> GitHubDenied:
        """Return the error for a refused read."""
        if self.token is None:
            return GitHubDenied(
                f"{what} was refused without a token: {said}",
                f"Set {self.token_name} to a token that may read the repository's contents.",
            )
        wanted = reply.headers.get("x-accepted-github-permissions") or reply.headers.get("x-accepted-oauth-scopes")
        rights = printable(wanted, 200) if wanted else _known(what, "read")
        return GitHubDenied(
            f"{what} was refused with the token of {self.token_name}: {said}",
            f"The token may have expired, belong to another host, or lack rights; it needs {rights}. "
            f"{_line(reply, what, 'read')} "
            f"A public repository needs no token: unset {self.token_name} to read it without one.",
        )

    def refused(self, reply: Answer, what: str) -> Error:
        """Return the error for a refused write; `what` names it with its path."""
        said = said_in(reply)
        if reply.status in REDIRECTS:
            return RepositoryRenamed(what, reply.status)
        if reply.status == HTTPStatus.UNAUTHORIZED:
            return GitHubDenied(
                f"{what} was refused with the token of {self.token_name}: {said}",
                "The token may have expired or belong to another host: set a valid one.",
            )
        if reply.status == HTTPStatus.FORBIDDEN:
            return self.forbidden(reply, what, said)
        if reply.status == HTTPStatus.NOT_FOUND:
            hint = f"Check the name. If it is right, the token lacks rights. {_line(reply, what)}"
            return NotOnGitHub(f"the target of {what}", hint)
        if reply.status in _UNDERSTOOD:
            return GitHubRefused(what, said)
        return UnexpectedGitHubAnswer(f"{what} was answered with {reply.status}: {said}")

    def forbidden(self, reply: Answer, what: str, said: str) -> GitHubDenied:
        """Return the error for a write that the token may not do."""
        if _OTHERS_PULLS in said:
            return PullRequestsForbidden(what)
        if "archived" in said:
            return RepositoryArchived(what)
        return PermissionMissing(f"{what} was refused with the token of {self.token_name}: {said}", _line(reply, what))


def said_in(reply: Answer) -> str:
    """Return GitHub's words about a failure, with details, safe to print."""
    match parsed_json(reply.body):
        case {"message": message, **rest}:
            pass
        case _:
            return "without a word"
    errors = rest.get("errors")
    said = [message]
    for error in errors if isinstance(errors, list) else [errors] if isinstance(errors, str) else []:
        named = [error] if isinstance(error, str) else _details(error)
        said += [text for text in named if text not in said]
    return "; ".join(printable(str(text), 200) for text in said[:_MANY_REASONS])


def _details(error: object) -> list[str]:
    """Return one entry of GitHub's `errors`: its message, or the field and its error code."""
    if not isinstance(error, dict):
        return []
    parts = [error.get("message")] if error.get("message") else [error.get(name) for name in ("field", "code")]
    return [" ".join(str(part) for part in parts if part)] if any(parts) else []


def _line(reply: Answer, what: str, level: str = "write") -> str:
    """Return the permissions to add to a job, from GitHub's `X-Accepted-GitHub-Permissions` or from `_NEEDED`.

    GitHub puts commas between permissions that are needed together, and semicolons between alternatives.
    """
    said = _alternatives(reply.headers.get("x-accepted-github-permissions", "")) or _alternatives(_known(what, level))
    grantable = [found for found in said if all(name in _GRANTABLE for name, _ in found)]
    if not grantable:
        rights = ", ".join(f"{name}: {needed}" for name, needed in said[0])
        return f"No workflow can grant its GITHUB_TOKEN {rights}: use the token of a GitHub App that has it."
    written = (", ".join(f"{name.replace('_', '-')}: {needed}" for name, needed in found) for found in grantable)
    lines = " or ".join(f"`permissions: {{{it}}}`" for it in written)
    return f"Add to the job {lines}, beside what it has; an App's or a fine-grained token needs the same."


def _known(what: str, level: str) -> str:
    return next(needed for pattern, needed in _NEEDED if pattern.search(what)).replace("write", level)


def _alternatives(header: str) -> list[list[tuple[str, str]]]:
    return [found for part in header[:500].split(";") if (found := _PERMISSION.findall(part))]


def graphql_data(reply: Answer, what: str, asker: Asker, waiting: Waiting, *, changes: bool) -> Any:  # noqa: ANN401  # whatever was asked for
    """Return the data of an answer: of a query with None for missing objects, of what `changes` only if all was done.

    Raises:
        NotOnGitHub, GitHubRefused: what should change is missing, or GitHub refused it.
        GitHubDenied, RateLimited, UnexpectedGitHubAnswer: as they say.
    """
    answer = document(reply, what)
    for said, kind in _graphql_errors(answer if isinstance(answer, dict) else {}):
        if kind == _LIMITED:
            raise waiting.limited(reply)
        if kind in _DENIALS:
            raise (asker.forbidden if changes else asker.denied)(reply, what, said)
        if changes:
            raise NotOnGitHub(f"the target of {what} ({said})") if kind == _MISSING else GitHubRefused(what, said, kind)
        if kind != _MISSING:
            raise UnexpectedGitHubAnswer(f"{what} was answered with an error: {said}")
    if not isinstance(answer, dict) or not isinstance(answer.get("data"), dict):
        raise UnexpectedGitHubAnswer(f"{what} was answered without data")
    return answer["data"]


def _graphql_errors(answer: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the message and the kind of each error."""
    errors = answer.get("errors") or []
    for error in errors if isinstance(errors, list) else [errors]:
        known = error if isinstance(error, dict) else {}
        yield printable(str(known.get("message", "without a word")), 200), str(known.get("type") or "")
