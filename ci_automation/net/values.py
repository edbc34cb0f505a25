"""Requests, answers and complaints as values, and the errors for a missing answer."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO, Self
from urllib.parse import urlsplit

from msgspec import Struct, field
from msgspec.structs import replace

from ci_automation.hiding import Hiding

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_COMPLAINT_BYTES = 64 << 10
MAX_HEADER_BYTES = 64 << 10  # of all names and values; http.client reads no more than 100 of them
TOO_LATE = "it took longer than is allowed"
_MAX_TEXT = 300
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class NoAnswer(Exception):
    """No answer came, or no readable one. The text is the reason, without any address.

    `hopeless` says that another attempt would fail too, `unsent` that the request certainly never left.
    """

    def __init__(self, reason: str, *, hopeless: bool = False, unsent: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hopeless = hopeless
        self.unsent = unsent


class TooLong(NoAnswer):
    """An answer exceeds its cap: `begun` is its beginning, None if its headers are too long."""

    def __init__(self, limit: int, begun: Answer | None) -> None:
        what = "its answer has" if begun else "its headers have"
        super().__init__(f"{what} more than {limit} bytes", hopeless=True)
        self.limit = limit
        self.begun = begun


class Complaint(Struct, frozen=True):
    """Refusal or failure in a service's words, safe to print, and without the secrets of the request.

    `code` is one of the OCI distribution spec, *Error Codes*; `code` and `message` are empty if the answer lacks them.
    """

    host: str
    status: int
    code: str = ""
    message: str = ""

    def __str__(self) -> str:
        said = " ".join(part for part in (str(self.status), self.code) if part)
        return f"{said}: {self.message}" if self.message else said


class Call(Hiding, Struct, frozen=True):
    """One request; `cap` limits the bytes of its answer, and `secrets` has the secrets that the request contains."""

    hides = ("headers", "body", "secrets", "file", "sink")

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=lambda: _NO_HEADERS)
    body: bytes | None = None
    cap: int = 1 << 20
    secrets: frozenset[str] = frozenset()
    file: BinaryIO | None = None  # in place of a body; it is sent from its beginning each time
    sink: Callable[[bytes], object] | None = None  # for the body of an answer with the status 200, in pieces

    @property
    def path(self) -> str:
        """Return the URL's path, without the query, which may hold a signature or an upload's state."""
        return urlsplit(self.url).path

    def accepting(self, *media_types: str) -> Self:
        """Return the request with the accepted media types."""
        return replace(self, headers={"Accept": ", ".join(media_types)})

    def carrying(self, body: bytes, media_type: str) -> Self:
        """Return the request with a body."""
        return replace(self, body=body, headers={"Content-Type": media_type})


class Answer(Hiding, Struct, frozen=True):
    """One complete answer, with lower-case names of headers. `url` is the address that answered.

    `secrets` has the secrets that the request contained, which the answer may quote.
    """

    hides = ("body", "url", "secrets")

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str = ""
    secrets: frozenset[str] = frozenset()

    @property
    def host(self) -> str:
        """Return the host that answered."""
        return urlsplit(self.url).netloc

    @property
    def media_type(self) -> str:
        """Return the media type without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def is_web_page(self) -> bool:
        """Return whether this is a page of a proxy, a login or a web server instead of an answer of a registry."""
        return self.media_type in {"text/html", "application/xhtml+xml"} or self.body[:64].lstrip()[:1] == b"<"

    def complaint(self) -> Complaint:
        """Return the complaint in the answer (OCI distribution spec, *Error Codes*; token servers vary)."""
        code, message = _code_and_message(parsed_json(self.body))
        code, message = self._redacted(code), self._redacted(message)
        return Complaint(self.host, self.status, printable(code, 60), printable(message))

    def described(self) -> str:
        """Return the answer's status, media type and beginning, for messages about unexpected answers."""
        start = printable(self._redacted(self.body[:MAX_COMPLAINT_BYTES].decode(errors="replace")), 100)
        kind = printable(self.media_type, 60) or "no media type"
        return f"{self.status} with {kind}: {start}" if start else f"{self.status} with {kind}"

    def _redacted(self, text: str) -> str:
        for secret in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text


def printable(text: str, limit: int = _MAX_TEXT) -> str:
    """Return a foreign text without control characters, line ends and overrides of direction, cut to `limit`."""
    clean = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    return clean if len(clean) <= limit else f"{clean[: limit - 1]}…"


def parsed_json(body: bytes) -> Any:  # noqa: ANN401 - it is JSON, and looked at by match
    """Return the value in `body`, or None if it is not JSON."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _code_and_message(value: object) -> tuple[str, str]:
    match value:
        case {"errors": [{"code": str(code), "message": str(message)}, *_]}:
            return code, message
        case {"errors": [{"code": str(code)}, *_]}:
            return code, ""
        case {"error": str(code), "error_description": str(message)}:
            return code, message
        case {"details": str(message)} | {"message": str(message)} | {"error": str(message)}:
            return "", message
    return "", ""
