"""What a registry asks for before it lets anybody in (RFC 9110 section 11, and the Docker token specification)."""

from __future__ import annotations

import re
from typing import Self

from msgspec import Struct

# Parameters may be quoted or not: both are seen. A word without `=` begins the next challenge.
_PART = re.compile(
    r'[\s,]*(?:(?P<name>[\w-]+)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s,"]*))|(?P<scheme>[A-Za-z][\w-]*))'
)
_MAX_LENGTH = 8192


class Challenge(Struct, frozen=True):
    """One challenge: `bearer`, with a realm to get tokens from and the service to name there; or `basic`."""

    scheme: str
    realm: str = ""
    service: str = ""

    @classmethod
    def parse(cls, header: str) -> Self | None:
        """Return the challenge in a `WWW-Authenticate` header that we can meet, tokens first, or None."""
        found: list[tuple[str, dict[str, str]]] = []
        text, position = header[:_MAX_LENGTH], 0
        while match := _PART.match(text, position):
            position = match.end()
            if match["scheme"]:
                found.append((match["scheme"].lower(), {}))
            elif found:
                value = match["plain"] if match["quoted"] is None else re.sub(r"\\(.)", r"\1", match["quoted"])
                found[-1][1].setdefault(match["name"].lower(), value)
        for scheme, parameters in found:
            if scheme == "bearer" and parameters.get("realm"):
                return cls(scheme, parameters["realm"], parameters.get("service", ""))
        return cls("basic") if any(scheme == "basic" for scheme, _ in found) else None
