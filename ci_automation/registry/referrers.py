"""Referrers where a registry has no API for them: an index under a tag, which the writers keep between them.

OCI distribution spec v1.1, *Referrers Tag Schema*. A registry cannot compare and swap, so that two writers at once can
each overwrite what the other wrote: what was written is read back, and merged again while it is missing.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from ci_automation.artifact.manifest import OCI_INDEX, Index, InvalidIndex
from ci_automation.registry.port import ReferrerLost, TagMoved
from ci_automation.registry.wire import unexpected

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.manifest import Descriptor
    from ci_automation.artifact.reference import Reference
    from ci_automation.net.values import Answer
    from ci_automation.net.waiting import Clock

MAX_MERGES = 5
_OK = 200
_NO_API = frozenset({404, 400, 406})  # as go-containerregistry, and so Flux and cosign, take it
_SHORTEST_WAIT, _LONGEST_WAIT = 0.1, 5.0


class IndexStore(Protocol):
    """Store of the indexes of referrers."""

    def read_index(self, tag: Reference) -> Index:
        """Return the index under a tag, an empty one where there is none."""
        ...

    def write_index(self, tag: Reference, index: Index) -> None:
        """Store an index under a tag."""
        ...


def referrers_tag(reference: Reference, digest: Digest) -> Reference:
    """Return the tag that lists the referrers of `digest`."""
    return reference.at_tag(f"sha256-{digest.hex}")


def is_no_api(answer: Answer) -> bool:
    """Return whether Flux and cosign would read the tag after this answer of the referrers API to them."""
    return answer.status in _NO_API or (answer.status == _OK and answer.headers.get("content-type") != OCI_INDEX)


def referrers_in(answer: Answer, what: str) -> tuple[Descriptor, ...]:
    """Return the referrers that an answer of the API lists.

    Raises:
        UnexpectedAnswer: it is no such list.
    """
    if answer.status == _OK:
        with suppress(InvalidIndex):
            return Index.parse(answer.body).manifests
    raise unexpected(answer, what)


def merge(
    store: IndexStore, tag: Reference, entry: Descriptor, clock: Clock, look: Callable[[], Index] | None = None
) -> None:
    """Have the index under `tag` list `entry`, beside all that it lists already; `look` is how it is read first.

    Before the look back goes twice the time that our own look and write took: who looked before we wrote, and is not
    far slower than we are, has overwritten ours by then, and it is seen. Whoever looks later finds it, and keeps it.

    Raises:
        ReferrerLost: others overwrote it each time.
    """
    for merges in range(MAX_MERGES + 1):
        began = clock.monotonic()
        index = look() if look is not None and not merges else store.read_index(tag)
        if index.lists(entry.digest):
            return
        if merges < MAX_MERGES:
            with suppress(TagMoved):  # the next look finds what it moved to
                store.write_index(tag, index.with_entry(entry))
            clock.sleep(min(max(_SHORTEST_WAIT, 2 * (clock.monotonic() - began)), _LONGEST_WAIT))
    raise ReferrerLost(tag, entry.digest, MAX_MERGES)
