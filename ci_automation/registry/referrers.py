"""Referrers in a registry without an API for them: an index under a tag, which all writers maintain.

OCI distribution spec v1.1, *Referrers Tag Schema*. A registry cannot compare and swap, so two writers at the same time
can overwrite each other's entries: each reads the index back, and merges again while its entry is missing.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from ci_automation.artifact.index import Index, InvalidIndex
from ci_automation.artifact.manifest import OCI_INDEX
from ci_automation.registry.port import ReferrerLost, TagMoved
from ci_automation.registry.wire import unexpected

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.manifest import Descriptor, Manifest
    from ci_automation.artifact.reference import Reference
    from ci_automation.net.values import Answer
    from ci_automation.net.waiting import Clock

MAX_MERGES = 5
_OK = 200
_NO_API = frozenset({404, 400, 406})  # as in go-containerregistry, and so in Flux and cosign
_SHORTEST_WAIT, _LONGEST_WAIT = 0.05, 5.0


class IndexStore(Protocol):
    """Store of the indexes of referrers."""

    def read_index(self, tag: Reference) -> Index:
        """Return the index under a tag, empty if the tag does not exist."""
        ...

    def write_index(self, tag: Reference, index: Index) -> None:
        """Store an index under a tag."""
        ...


def referrers_tag(reference: Reference, digest: Digest) -> Reference:
    """Return the tag that lists the referrers of `digest`."""
    return reference.at_tag(f"sha256-{digest.hex}")


def index_entry(manifest: Manifest) -> tuple[Digest, Descriptor]:
    """Return the digest of a manifest's subject, and the entry for the manifest in the index under the subject's tag.

    If the manifest's layers are embedded in it, it is embedded in the entry: who reads the index needs no request more.
    """
    subject, entry = manifest.referral
    embeds = all(layer.data is not None for layer in manifest.layers)
    return subject, replace(entry, data=manifest.raw) if embeds else entry


def is_no_api(answer: Answer) -> bool:
    """Return whether Flux and cosign would read the tag after this answer of the referrers API."""
    return answer.status in _NO_API or (answer.status == _OK and answer.headers.get("content-type") != OCI_INDEX)


def referrers_in(answer: Answer, what: str) -> tuple[Descriptor, ...]:
    """Return the referrers in an answer of the API.

    Raises:
        UnexpectedAnswer: the answer is not a list of referrers.
    """
    if answer.status == _OK:
        with suppress(InvalidIndex):
            return Index.parse(answer.body).manifests
    raise unexpected(answer, what)


def merge(
    store: IndexStore, tag: Reference, entry: Descriptor, clock: Clock, look: Callable[[], Index] | None = None
) -> None:
    """Add `entry` to the index under `tag`, beside its other entries; `look` does the first read.

    The run reads back after twice the time of its own read and write. By then, another writer that read before our
    write, and is not far slower, has overwritten our entry, and the run notices. A writer that reads later sees our
    entry, and keeps it.

    Raises:
        ReferrerLost: other writers overwrote the entry each time.
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
