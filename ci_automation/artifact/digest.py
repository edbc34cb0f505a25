"""Content digests."""

from __future__ import annotations

import hashlib
import re
from typing import Self

from msgspec import Struct

from ci_automation.errors import UsageError

_SHA256 = re.compile(r"sha256:(?P<hex>[0-9a-f]{64})")


class InvalidDigest(UsageError):
    """A text is not a sha256 digest."""

    hint = "Write sha256: and 64 lower-case hex digits, as `history` and `plan` print them."

    def __init__(self, text: str) -> None:
        super().__init__(f"{text!r} is not a sha256 digest")


class Digest(Struct, frozen=True, order=True):
    """A content digest, ``sha256:`` and 64 lower-case hex digits (OCI image spec, *Digests*)."""

    hex: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the digest in `text`.

        Raises:
            InvalidDigest: another algorithm, another length, upper case, or anything around it.
        """
        if not (match := _SHA256.fullmatch(text)):
            raise InvalidDigest(text)
        return cls(match["hex"])

    @classmethod
    def of(cls, data: bytes) -> Self:
        """Return the digest of `data`."""
        return cls(hashlib.sha256(data).hexdigest())

    @property
    def short(self) -> str:
        """Return the first 12 hex digits, as in immutable tags."""
        return self.hex[:12]

    def __str__(self) -> str:
        return f"sha256:{self.hex}"
