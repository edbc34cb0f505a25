"""Reader of GitHub's answers: each field has the type that the API documents, or the answer counts as broken."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import parse_qs, quote

from msgspec import Struct

from ci_automation.github.errors import InvalidRepositoryName, NotOnGitHub, UnexpectedGitHubAnswer
from ci_automation.github.model import Actor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ci_automation.github.client import GitHub
    from ci_automation.net.values import Answer

_Kind = TypeVar("_Kind")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,99}/(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}")
_OID = re.compile(r"[0-9a-f]{40}")
_NEXT = 'rel="next"'
_NEXT_PAGE = re.compile(rf"<[^<>?]*\?([^<>]*)>; {_NEXT}")
_BOT = "[bot]"
_PAGE = 100  # as many as there can be


class GitHubValue(Struct, frozen=True):
    """An answer: its value, None if there is none, and the header that leads to the next page."""

    value: Any
    link: str = ""

    @property
    def has_next(self) -> bool:
        """Return whether another page follows."""
        return _NEXT in self.link

    @property
    def cursor(self) -> str:
        """Return the cursor of the next page, in a list that has no numbers of pages, or nothing."""
        found = _NEXT_PAGE.search(self.link)
        return parse_qs(found[1]).get("after", [""])[0] if found else ""


def document(reply: Answer, what: str) -> Any:  # noqa: ANN401  # whatever JSON has
    """Return the JSON value of an answer.

    Raises:
        UnexpectedGitHubAnswer: the answer is not JSON.
    """
    try:
        return json.loads(reply.body)
    except (ValueError, RecursionError):
        raise UnexpectedGitHubAnswer(f"{what} was answered with {reply.status} and without JSON") from None


class Fields:
    """One object of an answer, read field by field."""

    __slots__ = ("_value", "_what")

    def __init__(self, value: object, what: str) -> None:
        if not isinstance(value, dict):
            raise UnexpectedGitHubAnswer(f"{what} was not answered with an object")
        self._value: dict[str, Any] = value
        self._what = what

    @classmethod
    def all(cls, value: object, what: str) -> tuple[Self, ...]:
        """Return the objects of a list, without the nulls that GraphQL's lists may have."""
        if not isinstance(value, list):
            raise UnexpectedGitHubAnswer(f"{what} was not answered with a list")
        return tuple(cls(item, what) for item in value if item is not None)

    def text(self, name: str) -> str:
        """Return a string."""
        return self._of(name, str)

    def number(self, name: str) -> int:
        """Return an integer."""
        return self._of(name, int)

    def flag(self, name: str) -> bool:
        """Return true or false."""
        return self._of(name, bool)

    def oid(self, name: str) -> str:
        """Return the SHA-1 of a git object."""
        if not _OID.fullmatch(found := self.text(name)):
            raise self._broken(name)
        return found

    def time(self, name: str) -> datetime:
        """Return a time; GitHub writes all times in UTC."""
        try:
            found = datetime.fromisoformat(self.text(name))
        except ValueError:
            raise self._broken(name) from None
        if found.tzinfo is None:
            raise self._broken(name)
        return found

    def has(self, name: str) -> bool:
        """Return whether the object has a value under a name."""
        return self._value.get(name) is not None

    def maybe_text(self, name: str) -> str | None:
        """Return a string, or None if there is none."""
        return self.text(name) if self.has(name) else None

    def fields(self, name: str) -> Fields:
        """Return the object under a name."""
        return Fields(self._of(name, dict), self._what)

    def maybe(self, name: str) -> Fields | None:
        """Return the object under a name, or None if there is none."""
        return self.fields(name) if self.has(name) else None

    def each(self, name: str) -> tuple[Fields, ...]:
        """Return the objects of the list under a name."""
        return Fields.all(self._of(name, list), self._what)

    def nodes(self, name: str) -> tuple[Fields, ...]:
        """Return the objects of a GraphQL connection, or an empty tuple without a connection."""
        return self.fields(name).each("nodes") if self.has(name) else ()

    def actor(self, name: str) -> Actor | None:
        """Return a person or an App, or None if the account is gone.

        REST writes an App's login with `[bot]` at the end, and a `type`. GraphQL omits `[bot]` and has a `__typename`,
        except for itself (`viewer`) and for authors of commits: there it writes the login as REST does, and calls the
        App a `User`. The login of a person cannot have brackets.
        """
        if (found := self.maybe(name)) is None:
            return None
        login = found.text("login")
        is_bot = login.endswith(_BOT) or "Bot" in {found.maybe_text("type"), found.maybe_text("__typename")}
        return Actor(login if not is_bot or login.endswith(_BOT) else login + _BOT, is_bot)

    def _of(self, name: str, kind: type[_Kind]) -> _Kind:
        found = self._value.get(name)
        if not isinstance(found, kind) or (isinstance(found, bool) and kind is not bool):
            raise self._broken(name)
        return found

    def _broken(self, name: str) -> UnexpectedGitHubAnswer:
        return UnexpectedGitHubAnswer(f"{self._what} was answered without a valid {name!r}")


def require_name(name: str) -> str:
    """Return the name of a repository after a check.

    Raises:
        InvalidRepositoryName: the name is not OWNER/NAME.
    """
    if not _NAME.fullmatch(name):
        raise InvalidRepositoryName(name)
    return name


def segment(text: str) -> str:
    """Return a text as one segment of a path."""
    return quote(text, safe="")


def object_at(client: GitHub, path: str) -> Fields:
    """Return the object at a path.

    Raises:
        NotOnGitHub: GitHub has no such object.
    """
    if (answer := client.get(path)) is None:
        raise NotOnGitHub(f"{client.host}{path}")
    return Fields(answer.value, f"GET {client.host}{path}")


def _objects_at(client: GitHub, path: str, *, key: str | None = None, limit: int = 1000) -> Iterator[Fields]:
    """Yield at most `limit` of the objects that a path lists, page after page; under `key` where the list is in one."""
    what = f"GET {client.host}{path}"
    mark = "&" if "?" in path else "?"
    seen = 0
    for page in range(1, -(-limit // _PAGE) + 1):
        answer = client.get(f"{path}{mark}per_page={min(limit, _PAGE)}&page={page}")
        if answer is None:
            raise NotOnGitHub(f"{client.host}{path}")
        found = Fields(answer.value, what).each(key) if key else Fields.all(answer.value, what)
        yield from found[: limit - seen]
        seen += len(found)
        if not answer.has_next:
            return


class OfRepository:
    """A part of one repository, as the client's token sees it; its methods also raise what those of `GitHub` raise."""

    def __init__(self, client: GitHub, name: str) -> None:
        self._client, self.name = client, require_name(name)

    def _one(self, path: str) -> Fields:
        """Return the object at a path of the repository."""
        return object_at(self._client, f"/repos/{self.name}{path}")

    def _listed(self, path: str, *, key: str | None = None, limit: int = 1000) -> Iterator[Fields]:
        """Yield the objects that a path of the repository lists."""
        return _objects_at(self._client, f"/repos/{self.name}{path}", key=key, limit=limit)

    def _send(self, verb: str, path: str, body: Mapping[str, object] | None = None) -> GitHubValue:
        """Return the answer to a write at a path of the repository."""
        return self._client.send(verb, f"/repos/{self.name}{path}", body)

    def _created(self, path: str, body: Mapping[str, object]) -> Fields:
        """Return the object that a POST makes."""
        return Fields(self._send("POST", path, body).value, f"POST {self._client.host}/repos/{self.name}{path}")

    def _query(
        self, asked: str, variables: Mapping[str, object], fragments: str = "", types: Mapping[str, str] | None = None
    ) -> tuple[Fields, Actor]:
        """Return what GraphQL knows of the repository, and who asks; a variable is a text unless `types` has it."""
        owner, _, short = self.name.partition("/")
        values = {"owner": owner, "name": short, **variables}
        declared = ", ".join(f"${each}: {(types or {}).get(each, 'String!')}" for each in values)
        fields = f"viewer {{ login }} repository(owner: $owner, name: $name) {{ {asked} }}"
        data = Fields(self._client.graphql(f"query({declared}) {{ {fields} }} {fragments}", values), self._what)
        if (found := data.maybe("repository")) is None:
            raise NotOnGitHub(f"the repository {self.name} on {self._client.host}")
        if (viewer := data.actor("viewer")) is None:
            raise UnexpectedGitHubAnswer(f"{self._what} was answered without saying who asks")
        return found, viewer

    @property
    def _what(self) -> str:
        return f"a GraphQL query for {self.name} to {self._client.host}"
