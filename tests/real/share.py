"""Which of many like cases a run takes: all with `make real EVERY=1`, otherwise some, the same ones each time."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from tests.real.proxy import Request

T = TypeVar("T")

EVERY = int(os.environ.get("EVERY") or 4)
READS = frozenset({"GET", "HEAD"})
_NAMES = (
    (re.compile(r"/v2/.+/(blobs|manifests|referrers|tags)/"), r"/v2/NAME/\1/"),
    (re.compile(r"sha256[:-][0-9a-f]{64}"), "DIGEST"),
    (re.compile(r"/uploads/.+"), "/uploads/ONE"),
    (re.compile(r"/manifests/v\d.*"), "/manifests/VERSION"),
)


def share(cases: Iterable[T], kind: Callable[[T], Hashable] = lambda _: None) -> list[T]:
    """Return every n-th case, the first and the last, and the first of each kind, in their order."""
    every = list(cases)
    kinds: dict[Hashable, int] = {}
    for place, case in enumerate(every):
        kinds.setdefault(kind(case), place)
    taken = {*range(0, len(every), EVERY), *kinds.values(), len(every) - 1}
    return [case for place, case in enumerate(every) if place in taken]


def kills(requests: Sequence[Request], moment: int = 0, moments: int = 1) -> list[int]:
    """Return the numbers of the requests at which to kill a run at a moment: of those that write, its part of a share.

    A run that is killed at a read leaves what the write before it left.
    """
    numbers = [number for number, each in enumerate(requests, 1) if EVERY == 1 or each.method not in READS]
    return dealt(share(numbers, lambda it: kind_of(requests[it - 1])), moment, moments)


def dealt(cases: Sequence[T], hand: int, hands: int) -> list[T]:
    """Return the cases of one of several hands among which a share is dealt out; each gets all where all run."""
    return list(cases) if EVERY == 1 else list(cases[hand::hands])


def kind_of(request: Request) -> tuple[str, str]:
    """Return what sort of request it is: the method, and the path without the names of what it is about."""
    path = urlsplit(request.path).path
    for pattern, name in _NAMES:
        path = pattern.sub(name, path)
    return request.method, path


def told() -> str:
    """Return in one line what share a run took."""
    if EVERY == 1:
        return "share: all kills and random overlays"
    return (
        f"share: one in {EVERY} of the kills at writes and of the random overlays, and each kind of write; "
        "`make real EVERY=1` runs all of them"
    )
