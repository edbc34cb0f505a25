"""As much of DER (X.690) as time stamps and Fulcio's extensions need: values written, and read as a tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

INTEGER, BOOLEAN, OCTETS, NULL, OID, SEQUENCE, SET = 0x02, 0x01, 0x04, 0x05, 0x06, 0x30, 0x31


def tlv(tag: int, *parts: bytes) -> bytes:
    """Return a value with its tag and length."""
    content = b"".join(parts)
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + content


def sequence(*parts: bytes) -> bytes:
    """Return a SEQUENCE."""
    return tlv(SEQUENCE, *parts)


def set_of(*parts: bytes) -> bytes:
    """Return a SET OF, in the one order that DER allows."""
    return tlv(SET, *sorted(parts))


def integer(value: int) -> bytes:
    """Return an INTEGER that is not negative."""
    return tlv(INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def octets(value: bytes) -> bytes:
    """Return an OCTET STRING."""
    return tlv(OCTETS, value)


def text(value: str) -> bytes:
    """Return a UTF8String."""
    return tlv(0x0C, value.encode())


def oid(dotted: str) -> bytes:
    """Return an OBJECT IDENTIFIER."""
    first, second, *rest = (int(number) for number in dotted.split("."))
    content = b""
    for number in (40 * first + second, *rest):
        digits = [number & 0x7F]
        while number := number >> 7:
            digits.append(0x80 | number & 0x7F)
        content += bytes(reversed(digits))
    return tlv(OID, content)


def tagged(number: int, *parts: bytes) -> bytes:
    """Return what is inside a context-specific tag that is constructed, such as `[0]`."""
    return tlv(0xA0 | number, *parts)


def moment(at: datetime) -> bytes:
    """Return a GeneralizedTime, to the second."""
    return tlv(0x18, at.strftime("%Y%m%d%H%M%SZ").encode())


@dataclass(frozen=True, slots=True)
class Node:
    """A value that was read: its tag, its content, and all its bytes."""

    tag: int
    content: bytes
    encoded: bytes

    @property
    def children(self) -> list[Node]:
        """The values inside, of a constructed one."""
        found, rest = [], self.content
        while rest:
            node = read(rest)
            found.append(node)
            rest = rest[len(node.encoded) :]
        return found


def read(data: bytes) -> Node:
    """Return the value that `data` begins with.

    Raises:
        ValueError: there is none, or it is cut short.
    """
    if len(data) < 2:
        raise ValueError("no DER")
    start, size = 2, data[1]
    if size & 0x80:
        start += size & 0x7F
        size = int.from_bytes(data[2:start], "big")
    if len(data) < start + size:
        raise ValueError("DER that is cut short")
    return Node(data[0], data[start : start + size], data[: start + size])
