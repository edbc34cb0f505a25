"""One request and its answer: who asks, whether they may, whether it is as described, and what goes wrong."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.fakes.forge import releases, rest_actions, rest_activity, rest_git, rest_issues, rest_people, rest_pulls
from tests.fakes.forge.described import description
from tests.fakes.forge.limits import LimitReached
from tests.fakes.forge.queries import Queries
from tests.fakes.forge.routes import Answer, Call, Caller, caller, require, route_of
from tests.fakes.forge.state import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.fakes.forge.described import Operation
    from tests.fakes.forge.faults import Fault
    from tests.fakes.forge.forge import Forge

_ROUTES = (
    rest_actions,
    rest_activity,
    rest_git,
    rest_issues,
    rest_people,
    rest_pulls,
    releases,
)  # importing them fills the table
_WITH_STATUS = frozenset({401, 403, 404})  # GitHub writes it into the others too, and does not describe it there
_DOCS = "https://docs.github.com/rest"


@dataclass
class Request:
    """One request as it was on the wire, and the status that it got: 0 where there was no answer.

    The host is `api` or `assets`; `received` and `sent` are bytes of the request and of the answer.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any
    status: int
    login: str | None
    host: str = "api"
    received: int = 0
    sent: int = 0


@dataclass
class _Asked:
    """A request taken apart."""

    method: str
    path: str
    query: dict[str, str]
    headers: Mapping[str, str]
    body: Any
    target: str


class Exchanges:
    """Answers the requests of a forge."""

    def __init__(self, forge: Forge) -> None:
        self.forge = forge
        self.description = description(forge.flavour)
        self._queries = Queries(forge)

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Return what GitHub answers to one request, and write the request down."""
        asked = self._asked(method, target, headers, body)
        with self.forge.lock:
            fault = self._fault(asked)
            who = caller(self.forge, headers.get("authorization", ""))
            answer = _instead(fault) if fault and (fault.status or fault.reset) else self._done(asked, who)
            if fault:
                answer = replace(answer, delay=fault.delay, status=0 if fault.lost else answer.status)
            return self._logged(asked, answer, who)

    def stored(self, method: str, target: str, headers: Mapping[str, str]) -> Answer:
        """Return what the host of the downloads answers, and write the request down."""
        assert self.forge.store
        asked = _Asked(method, urlsplit(target).path, {}, headers, None, target)
        with self.forge.lock:
            fault = self._fault(asked)
            answer = _instead(fault) if fault else self.forge.store.stored(asked.path, headers)
            return self._logged(asked, answer, Caller(), "assets")

    def _asked(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> _Asked:
        parts = urlsplit(target)
        path = parts.path
        if not self.forge.is_public:
            path = path.removeprefix("/api/v3") if path.startswith("/api/v3/") else path.removeprefix("/api")
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        try:
            read = json.loads(body) if body else None
        except ValueError:
            read = None
        shown = f"{path}?{parts.query}" if parts.query else path
        return _Asked(method, path, query, headers, read, shown)

    def _fault(self, asked: _Asked) -> Fault | None:
        for fault in self.forge.faults:
            if (found := fault(asked.method, asked.target, asked.body)) is not None:
                return found
        return None

    def _logged(self, asked: _Asked, answer: Answer, who: Caller, host: str = "api") -> Answer:
        login = who.token.login if who.token else None
        log = Request(asked.method, asked.target, asked.headers, asked.body, answer.status, login, host)
        self.forge.requests.append(log)
        return replace(answer, log=log)

    def _done(self, asked: _Asked, who: Caller) -> Answer:
        is_graphql = asked.path == "/graphql"
        resource = "graphql" if is_graphql else "core"
        if who.wrong:
            return Answer(401, _message(Refused(401, "Bad credentials")))
        try:
            if asked.path != "/rate_limit":
                creates = asked.method == "POST" and not is_graphql
                self.forge.limits.spend(who.key, resource, creates=creates)
            answer = self._graphql(asked, who) if is_graphql else self._rest(asked, who)
        except LimitReached as refused:
            answer = Answer(refused.status, _message(refused), refused.headers)
            if is_graphql and not refused.headers:
                answer = Answer(200, {"errors": [{"type": refused.kind, "message": refused.message}]})
        except Refused as refused:
            answer = Answer(refused.status, _message(refused))
        limits = self.forge.limits.headers(who.key, resource)
        usual = {
            "X-GitHub-Media-Type": "github.v3; format=json",
            "Date": format_datetime(self.forge.now(), usegmt=True),
        }
        return replace(answer, headers={**limits, **usual, **answer.headers})

    def _graphql(self, asked: _Asked, who: Caller) -> Answer:
        if who.token is None:
            raise Refused(401, "This endpoint requires you to be authenticated.")
        body = asked.body if isinstance(asked.body, dict) else {}
        return Answer(200, self._queries.answer(str(body.get("query", "")), body.get("variables") or {}, who.token))

    def _rest(self, asked: _Asked, who: Caller) -> Answer:
        moved = self._moved(asked)
        if moved:
            return moved
        path = asked.path
        if path.startswith("/repositories/"):
            path = self._by_number(path)
        operation = self.description.operation(asked.method, path)
        route = route_of(operation) if operation else None
        if operation is None or route is None:
            self._wrong(asked, ["the double has no such operation"])
            raise Refused(404, "Not Found")
        problems = self._as_this_server(self.description.wrong_request(operation, asked.query, asked.body), asked)
        if problems:
            self._wrong(asked, problems)
            raise Refused(422, f"Invalid request.\n\n{' '.join(problems)}")
        named = {name: unquote(value) for name, value in operation.parameters.items()}
        call = Call(self.forge, who, named, asked.query, asked.body, path)
        accepted = {"X-Accepted-GitHub-Permissions": route.permissions} if route.permissions else {}
        try:
            require(call, route)
            answer = route.handler(call)
        except Refused as refused:
            answer = Answer(refused.status, _message(refused))
        return self._as_described(asked, operation, replace(answer, headers={**accepted, **answer.headers}))

    def _as_this_server(self, problems: list[str], asked: _Asked) -> list[str]:
        """Refuse without a violation what newer servers take: a program finds out by asking."""
        new = "$.return_run_details is not described"
        if new in problems and asked.path.endswith("/dispatches"):
            raise Refused(422, 'Invalid request.\n\n"return_run_details" is not a permitted key.')
        return problems

    def _as_described(self, asked: _Asked, operation: Operation, answer: Answer) -> Answer:
        if isinstance(answer.body, bytes):
            return answer
        whole, problems = self.description.answer(operation, answer.status, answer.body)
        if problems:
            self._wrong(asked, [f"answered with {answer.status}: {problem}" for problem in problems])
        return replace(answer, body=whole, cached=asked.method == "GET")

    def _moved(self, asked: _Asked) -> Answer | None:
        for old, new in self.forge.renamed.items():
            if asked.path == f"/repos/{old}" or asked.path.startswith(f"/repos/{old}/"):
                rest = asked.target.removeprefix(f"/repos/{old}")
                place = f"{self.forge.url}/repositories/{self.forge.repositories[new].id}{rest}"
                status = 301 if asked.method == "GET" else 307
                body = {"message": "Moved Permanently", "url": place, "documentation_url": _DOCS}
                return Answer(status, body, {"Location": place})
        return None

    def _by_number(self, path: str) -> str:
        _, _, number, rest = [*path.split("/", 3), ""][:4]
        for repository in self.forge.repositories.values():
            if str(repository.id) == number:
                return f"/repos/{repository.full_name}/{rest}".rstrip("/")
        name = self.forge.releases_repository
        return f"/repos/{name}/{rest}" if self.forge.store and number == "1" else path

    def _wrong(self, asked: _Asked, problems: list[str]) -> None:
        self.forge.violations += [f"{asked.method} {asked.target}: {problem}" for problem in problems]


def _instead(fault: Fault) -> Answer:
    return Answer(fault.status, fault.body, fault.headers, cached=True, cut=fault.cut)


def _message(refused: Refused) -> dict[str, Any]:
    errors = {"errors": list(refused.errors)} if refused.errors else {}
    status = {"status": str(refused.status)} if refused.status in _WITH_STATUS else {}
    return {"message": refused.message, **errors, "documentation_url": _DOCS, **status}
