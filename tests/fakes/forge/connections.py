"""Pages of lists, by the rules of GitHub's GraphQL."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from tests.fakes.forge.state import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Json = dict[str, Any]
_MOST = 100


def connection(items: Sequence[Any], named: Json) -> Json:
    """Return a page of a list by GitHub's rules: `first` or `last` is needed, of at most 100.

    Raises:
        Refused: it is not there, or larger.
    """
    first, last = named.get("first"), named.get("last")
    size = last if first is None else first
    if size is None:
        message = "You must provide a `first` or `last` value to properly paginate the connection."
        raise Refused(422, message, kind="MISSING_PAGINATION_BOUNDARIES")
    if not 0 <= size <= _MOST:
        raise Refused(422, "Requesting more records than the limit of 100 records.", kind="EXCESSIVE_PAGINATION")
    start, end = _cursor(named.get("after"), 0), _cursor(named.get("before"), len(items) + 1) - 1
    end = min(end, len(items))
    if first is not None:
        end = min(end, start + size)
    else:
        start = max(start, end - size)
    page = {
        "hasNextPage": end < len(items),
        "hasPreviousPage": start > 0,
        "startCursor": _mark(start + 1) if start < end else None,
        "endCursor": _mark(end) if start < end else None,
    }
    return {"nodes": list(items[start:end]), "pageInfo": page, "totalCount": len(items)}


def _mark(place: int) -> str:
    return base64.b64encode(b"cursor:%d" % place).decode()


def _cursor(text: str | None, usual: int) -> int:
    return int(base64.b64decode(text).removeprefix(b"cursor:")) if text else usual


def paged(items: Callable[[], Iterable[Any]]) -> Callable[..., Json]:
    """Return the field that pages through a list."""
    return lambda _info, **named: connection(list(items()), named)
