"""The operations on issues, their labels and comments; pull requests are issues too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.fakes.forge import shown
from tests.fakes.forge.routes import REPO, Answer, Call, allowed, page, route
from tests.fakes.forge.state import Pull, Refused

if TYPE_CHECKING:
    from tests.fakes.forge.state import Issue

_READ = "issues=read; pull_requests=read"
_WRITE = "issues=write; pull_requests=write"


def _issue(call: Call, level: str) -> Issue:
    """Return the issue that is meant; a permission for the one kind is none for the other."""
    issue = call.repo.issue(int(call.path["issue_number"]))
    kind = "pull_requests" if isinstance(issue, Pull) else "issues"
    if not allowed(call.repo, call.who.token, f"{kind}={level}"):
        raise Refused(403, call.who.token.refusal if call.who.token else "Forbidden", kind="FORBIDDEN")
    return issue


def _names(labels: list[Any]) -> list[str]:
    return list(dict.fromkeys(label["name"] if isinstance(label, dict) else str(label) for label in labels))


def _assignable(call: Call, logins: list[str]) -> list[str]:
    """Return those who can be assigned; GitHub leaves the others out without a word."""
    return [login for login in logins if login in call.forge.users and call.repo.may(login, "read")]


@route("GET", f"{REPO}/issues", _READ)
def list_issues(call: Call) -> Answer:
    state = call.query.get("state", "open")
    labels = {label for label in call.query.get("labels", "").split(",") if label}
    creator = call.query.get("creator")
    found = [
        issue
        for issue in reversed(call.repo.issues)
        if (state == "all" or (issue.state == "OPEN") == (state == "open"))
        and labels <= set(issue.labels)
        and creator in {None, issue.author}
    ]
    return page(call, [shown.issue_of(call.repo, issue) for issue in found])


@route("POST", f"{REPO}/issues", "issues=write")
def create_issue(call: Call) -> Answer:
    given = call.given
    labels = _names(given.get("labels", []))
    opened = call.repo.open_issue(str(given["title"]), call.login, given.get("body") or "", labels)
    opened.assignees = _assignable(call, given.get("assignees", []))
    return Answer(201, shown.issue_of(call.repo, opened))


@route("PATCH", f"{REPO}/issues/{{issue_number}}", _WRITE)
def edit_issue(call: Call) -> Answer:
    issue, given = _issue(call, "write"), call.given
    call.repo.edit(issue.number, call.login, given.get("title"), given.get("body"))
    if "labels" in given:
        issue.labels = _names(given["labels"])
    if "assignees" in given:
        issue.assignees = _assignable(call, given["assignees"])
    if given.get("state") == "closed":
        call.repo.close(issue.number, call.login)
        issue.state_reason = given.get("state_reason", "completed")
    elif given.get("state") == "open" and issue.state != "OPEN":
        call.repo.reopen(issue.number, call.login)
        issue.state_reason = "reopened"
    return Answer(200, shown.issue_of(call.repo, issue))


@route("GET", f"{REPO}/issues/{{issue_number}}/comments", _READ)
def list_comments(call: Call) -> Answer:
    issue = _issue(call, "read")
    return page(call, [shown.comment_of(call.repo, issue, comment) for comment in issue.comments])


@route("POST", f"{REPO}/issues/{{issue_number}}/comments", _WRITE)
def create_comment(call: Call) -> Answer:
    issue = _issue(call, "write")
    comment = call.repo.comment(issue.number, call.login, call.given["body"])
    return Answer(201, shown.comment_of(call.repo, issue, comment))


@route("PATCH", f"{REPO}/issues/comments/{{comment_id}}", _WRITE)
def edit_comment(call: Call) -> Answer:
    for issue in call.repo.issues:
        for comment in issue.comments:
            if str(comment.id) == call.path["comment_id"]:
                comment.body, comment.updated = call.given["body"], call.repo.now()
                return Answer(200, shown.comment_of(call.repo, issue, comment))
    raise Refused(404, "Not Found")
