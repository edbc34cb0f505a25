"""What can go wrong with a request; a fault is a function of method, path and body, asked before each request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Fault:
    """What happens instead of, or besides, an answer.

    With a status that is answered and nothing is done. `lost`: it is done, and the answer is dropped. `reset`: it is
    not done and there is no answer. With a `delay` alone the answer comes late.
    """

    status: int = 0
    body: Any = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    lost: bool = False
    reset: bool = False
    cut: int = 0  # so many bytes of the body are announced and not sent


LOST = Fault(lost=True)
RESET = Fault(reset=True)
Faults = Callable[[str, str, Any], Fault | None]


def nth(number: int, fault: Fault, method: str = "", part: str = "") -> Faults:
    """Return the fault of the n-th request (from 1) of a method whose path has `part` in it."""
    seen = [0]

    def of(verb: str, path: str, _body: object) -> Fault | None:
        if (method and verb != method) or part not in path:
            return None
        seen[0] += 1
        return fault if seen[0] == number else None

    return of


def times(number: int, fault: Fault, method: str = "", part: str = "") -> Faults:
    """Return the fault of the next `number` requests of a method whose path has `part` in it."""
    left = [number]

    def of(verb: str, path: str, _body: object) -> Fault | None:
        if (method and verb != method) or part not in path or not left[0]:
            return None
        left[0] -= 1
        return fault

    return of


def after(number: int, fault: Fault) -> Faults:
    """Return the fault of every request after the first `number`: from then on GitHub is gone."""
    seen = [0]

    def of(_verb: str, _path: str, _body: object) -> Fault | None:
        seen[0] += 1
        return fault if seen[0] > number else None

    return of
