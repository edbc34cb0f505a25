"""Files that describe a Sigstore instance: its roots and its services' addresses (protobuf-specs, `trustroot`)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

from ci_automation.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

_CONFIG_TYPE = "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json"
SIGNING_TYPE = "application/vnd.dev.sigstore.signingconfig.v0.2+json"
_ROOT_TYPE_START = "application/vnd.dev.sigstore.trustedroot"
MAX_CONFIG_BYTES = 4 << 20


class TrustConfigUnreadable(UsageError):
    """A file does not describe a Sigstore instance."""

    hint = (
        "Give a client trust configuration (sigstore's clienttrustconfig.v0.1+json), or a trusted_root.json if you "
        "only verify."
    )

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"the trust configuration {where} cannot be used: {reason}")


def config(trusted_root: object, signing_config: object) -> bytes:
    """Return a client trust configuration."""
    return json.dumps(
        {"mediaType": _CONFIG_TYPE, "trustedRoot": trusted_root, "signingConfig": signing_config}
    ).encode()


def roots_in(content: bytes, where: str) -> tuple[dict[str, Any], bool]:
    """Return the trusted root in a file, and whether the file also has services to sign with.

    Raises:
        TrustConfigUnreadable: the file has no trusted root.
    """
    if len(content) > MAX_CONFIG_BYTES:
        raise TrustConfigUnreadable(where, "it is too large")
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise TrustConfigUnreadable(where, "it is not JSON") from None
    match value:
        case {"mediaType": str(media), "trustedRoot": {} as roots, "signingConfig": {}} if media == _CONFIG_TYPE:
            return roots, True
        case {"mediaType": str(media)} if media.startswith(_ROOT_TYPE_START):
            return value, False
    raise TrustConfigUnreadable(where, "it is neither a client trust configuration nor a trusted root")


class Term(Struct, frozen=True):
    """Time of service of an authority or a log."""

    start: datetime
    end: datetime | None

    @classmethod
    def of(cls, valid_for: Mapping[str, str]) -> Self:
        """Return the term in a `validFor`; a missing start or end means no limit.

        Raises:
            ValueError: a text is not a time.
        """
        start, end = valid_for.get("start"), valid_for.get("end")
        return cls(_time(start) if start else datetime.min.replace(tzinfo=UTC), _time(end) if end else None)

    def covers(self, at: datetime) -> bool:
        """Return whether the term includes that time."""
        return self.start <= at and (self.end is None or at <= self.end)


def _time(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError
    return found
