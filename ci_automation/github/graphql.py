"""How GraphQL answers: with status 200, even where nothing of what was asked for was done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ci_automation.github.answers import document
from ci_automation.github.errors import GitHubRefused, NotOnGitHub, UnexpectedGitHubAnswer
from ci_automation.net.values import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_automation.github.refusals import Asker
    from ci_automation.github.waiting import Waiting
    from ci_automation.net.values import Answer

_DENIALS = frozenset({"FORBIDDEN", "INSUFFICIENT_SCOPES", "UNAUTHORIZED", "UNAUTHENTICATED"})
_MISSING = "NOT_FOUND"
_LIMITED = "RATE_LIMITED"


def queried(reply: Answer, what: str, asker: Asker, waiting: Waiting) -> Any:  # noqa: ANN401  # whatever was asked for
    """Return the data that answers a query; what is not there is None in it.

    Raises:
        GitHubDenied, RateLimited, UnexpectedGitHubAnswer: as they say.
    """
    answer = _answer(reply, what)
    for said, kind in _errors(answer):
        if kind == _LIMITED:
            raise waiting.limited(reply)
        if kind in _DENIALS:
            raise asker.denied(reply, what, said)
        if kind != _MISSING:
            raise UnexpectedGitHubAnswer(f"{what} was answered with an error: {said}")
    return _data(answer, what)


def mutated(reply: Answer, what: str, asker: Asker, waiting: Waiting) -> Any:  # noqa: ANN401  # same
    """Return the data that answers a mutation, all of which was done.

    Raises:
        NotOnGitHub, GitHubRefused, GitHubDenied, RateLimited, UnexpectedGitHubAnswer: as they say.
    """
    answer = _answer(reply, what)
    for said, kind in _errors(answer):
        if kind == _LIMITED:
            raise waiting.limited(reply)
        if kind in _DENIALS:
            raise asker.forbidden(reply, what, said)
        raise NotOnGitHub(f"what {what} is for ({said})") if kind == _MISSING else GitHubRefused(what, said, kind)
    return _data(answer, what)


def _answer(reply: Answer, what: str) -> dict[str, Any]:
    answer = document(reply, what)
    if not isinstance(answer, dict):
        raise UnexpectedGitHubAnswer(f"{what} was answered without data")
    return answer


def _errors(answer: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what each error says, and of which kind it is."""
    errors = answer.get("errors") or []
    for error in errors if isinstance(errors, list) else [errors]:
        known = error if isinstance(error, dict) else {}
        yield printable(str(known.get("message", "without a word")), 200), str(known.get("type") or "")


def _data(answer: dict[str, Any], what: str) -> Any:  # noqa: ANN401  # whatever was asked for
    if not isinstance(answer.get("data"), dict):
        raise UnexpectedGitHubAnswer(f"{what} was answered without data")
    return answer["data"]
