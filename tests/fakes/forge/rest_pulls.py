"""The operations on pull requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fakes.forge import shown
from tests.fakes.forge.routes import REPO, Answer, Call, page, route

if TYPE_CHECKING:
    from tests.fakes.forge.state import Pull

_EVENTS = {"APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "COMMENT": "COMMENTED"}


def _pull(call: Call) -> Pull:
    return call.repo.pull(int(call.path["pull_number"]))


@route("GET", f"{REPO}/pulls", "pull_requests=read")
def list_pulls(call: Call) -> Answer:
    state, head, base = (call.query.get(name, usual) for name, usual in (("state", "open"), ("head", ""), ("base", "")))

    def wanted(pull: Pull) -> bool:
        label = f"{pull.source.partition('/')[0]}:{pull.branch}"
        is_open = pull.state == "OPEN"
        return (state == "all" or is_open == (state == "open")) and head in {"", label} and base in {"", pull.base}

    found = [pull for pull in call.repo.pulls if wanted(pull)]
    if call.query.get("direction", "desc") == "desc":
        found.reverse()
    return page(call, [shown.pull_of(call.repo, pull) for pull in found])


@route("POST", f"{REPO}/pulls", "pull_requests=write")
def create_pull(call: Call) -> Answer:
    given = call.given
    opened = call.repo.open_pull(
        given["head"],
        call.login,
        given.get("title", ""),
        given.get("body") or "",
        base=given["base"],
        draft=given.get("draft", False),
    )
    opened.maintainer_can_modify = given.get("maintainer_can_modify", False)
    return Answer(201, shown.full_pull(call.repo, opened))


@route("PATCH", f"{REPO}/pulls/{{pull_number}}", "pull_requests=write")
def edit_pull(call: Call) -> Answer:
    pull, given = _pull(call), call.given
    call.repo.edit(pull.number, call.login, given.get("title"), given.get("body"))
    if given.get("state") == "closed":
        call.repo.close(pull.number, call.login)
    elif given.get("state") == "open" and pull.state != "OPEN":
        call.repo.reopen(pull.number, call.login)
    return Answer(200, shown.full_pull(call.repo, pull))


@route("POST", f"{REPO}/pulls/{{pull_number}}/requested_reviewers", "pull_requests=write")
def request_reviewers(call: Call) -> Answer:
    pull = _pull(call)
    call.repo.request_reviews(pull.number, call.given.get("reviewers", []), call.given.get("team_reviewers", []))
    return Answer(201, shown.pull_of(call.repo, pull))
