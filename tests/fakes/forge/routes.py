"""The table of operations, and what each asks of the token that it is asked with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jwt

from tests.fakes.forge.state import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.fakes.forge.described import Operation
    from tests.fakes.forge.exchange import Request
    from tests.fakes.forge.forge import Forge
    from tests.fakes.forge.people import App, Token
    from tests.fakes.forge.repository import Repository

Json = dict[str, Any]
REPO = "/repos/{owner}/{repo}"
_LONGEST_JWT = 660  # seconds: ten minutes, and one for clocks that differ


@dataclass(frozen=True)
class Answer:
    """What goes over the wire: JSON where the body is no bytes; without a status there is no answer."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    cached: bool = False
    cut: int = 0
    log: Request | None = None


@dataclass(frozen=True)
class Caller:
    """Who asks: a token, an App with its own key, or nobody."""

    token: Token | None = None
    app: App | None = None
    wrong: bool = False

    @property
    def key(self) -> str:
        """What the limits count by."""
        return self.token.text if self.token else f"app {self.app.id}" if self.app else ""


@dataclass(frozen=True)
class Call:
    """One call of an operation."""

    forge: Forge
    who: Caller
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Any
    place: str = ""  # the path as it was asked for

    @property
    def repo(self) -> Repository:
        """The repository that is meant.

        Raises:
            Refused: there is none, or none that the token can see.
        """
        name = f"{self.path['owner']}/{self.path['repo']}"
        found = self.forge.repositories.get(name)
        if found is None or not visible(found, self.who.token):
            raise Refused(404, "Not Found", kind="NOT_FOUND")
        return found

    @property
    def login(self) -> str:
        """Who acts."""
        if self.who.token is None:
            raise Refused(401, "Requires authentication")
        return self.who.token.login

    @property
    def given(self) -> Json:
        """The body, which may be absent."""
        return self.body if isinstance(self.body, dict) else {}


@dataclass(frozen=True)
class Route:
    """An operation of the double; permissions are as GitHub writes them: `issues=write; pull_requests=write`."""

    handler: Callable[[Call], Answer]
    permissions: str


ROUTES: dict[tuple[str, str], Route] = {}


def route(
    method: str, template: str, permissions: str = "metadata=read"
) -> Callable[[Callable[[Call], Answer]], Callable[[Call], Answer]]:
    """Return what puts a function into the table; of what `;` separates one is enough, of `,` all must be."""

    def put(handler: Callable[[Call], Answer]) -> Callable[[Call], Answer]:
        ROUTES[method, template] = Route(handler, permissions)
        return handler

    return put


def route_of(operation: Operation) -> Route | None:
    """Return what answers an operation."""
    return ROUTES.get((operation.method, operation.template))


def visible(repository: Repository, token: Token | None) -> bool:
    """Return whether a repository is there at all for a token."""
    if not repository.private:
        return True
    if token is None:
        return False
    if token.repositories is not None and repository.full_name not in token.repositories:
        return False
    return token.login.endswith("[bot]") or repository.may(token.login, "read")


def allowed(repository: Repository, token: Token | None, permissions: str) -> bool:
    """Return whether a token has permissions in a repository; what is public can be read by all."""
    for choice in permissions.split(";"):
        wanted = [tuple(part.strip().split("=")) for part in choice.split(",")]
        if not repository.private and all(level == "read" for _, level in wanted):
            return True
        if token is None or (token.repositories is not None and repository.full_name not in token.repositories):
            continue
        person = token.kind == "pat" and any(
            level != "read" and not repository.may(token.login, level) for name, level in wanted if name != "issues"
        )
        if not person and all(token.grants(name, level) for name, level in wanted):
            return True
    return False


def require(call: Call, of: Route) -> None:
    """Refuse a call whose token lacks a permission.

    Raises:
        Refused: it does.
    """
    if (
        not of.permissions
        or "owner" not in call.path
        or f"{call.path['owner']}/{call.path['repo']}" == call.forge.releases_repository
    ):
        return
    if not allowed(call.repo, call.who.token, of.permissions):
        if call.who.token is None:
            raise Refused(401, "Requires authentication")
        raise Refused(403, call.who.token.refusal, kind="FORBIDDEN")


def caller(forge: Forge, header: str) -> Caller:
    """Return who a request is from."""
    scheme, _, credential = header.partition(" ")
    if not header:
        return Caller()
    if credential.count(".") == 2:  # a JSON web token has three parts
        return _app(forge, credential) if scheme.lower() == "bearer" else Caller(wrong=True)
    token = forge.tokens.get(credential)
    if token is None or (token.expires and token.expires <= forge.now()):
        return Caller(wrong=True)
    return Caller(token)


def _app(forge: Forge, credential: str) -> Caller:
    try:
        claims = jwt.decode(credential, options={"verify_signature": False})
        app = next(app for app in forge.apps.values() if str(claims["iss"]) in {str(app.id), app.client_id})
        options: Any = {"verify_exp": False, "verify_iat": False, "verify_nbf": False}
        jwt.decode(credential, app.public_key, algorithms=["RS256"], options=options)
    except (jwt.InvalidTokenError, StopIteration, KeyError):
        return Caller(wrong=True)
    now = forge.now().timestamp()
    timely = claims["iat"] <= now + 1 and now < claims["exp"] <= claims["iat"] + _LONGEST_JWT
    return Caller(app=app) if timely else Caller(wrong=True)


def page(call: Call, items: Sequence[Any], key: str = "") -> Answer:
    """Return a page of a list; under `key`, with the number of all, where the operation has it so."""
    size, number = min(100, int(call.query.get("per_page", "30"))), int(call.query.get("page", "1"))
    shown = list(items[size * (number - 1) : size * number])
    links = {}
    if len(items) > size * number:
        rest = "&".join(f"{name}={value}" for name, value in call.query.items() if name not in {"page", "per_page"})
        place = f"/repositories/{call.repo.id}{call.place.removeprefix(f'/repos/{call.repo.full_name}')}"
        here = f"{call.forge.url}{place}?{rest}{'&' if rest else ''}per_page={size}&page="
        last = -(-len(items) // size)
        links = {"Link": f'<{here}{number + 1}>; rel="next", <{here}{last}>; rel="last"'}
    return Answer(200, {"total_count": len(items), key: shown} if key else shown, links)
