"""The entries that the branch of a request adds, and the trace in the commit of a run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from ci_automation.approval.lock import InvalidLock, Lock, LockEntry
from ci_automation.artifact.reference import Digest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci_automation.approval.port import RequestKind
    from ci_automation.artifact.reference import Reference
    from ci_automation.github.model import Actor, Branch, Commit, PullSnapshot

    Place = tuple[Reference, RequestKind]  # of one entry

_TRACE = re.compile(r"^Flux-Manifests-Request: (?P<asked>\S+) on (?P<base>\S+)$", re.MULTILINE)


class Trace(Struct, frozen=True):
    """The trace in a commit message of ours: the entries that it set, and what the default branch had there."""

    asked: str
    base: str

    @classmethod
    def of(cls, entries: Sequence[LockEntry], default: Lock) -> Self:
        """Return the trace of a commit that sets `entries` in the lock file of the default branch."""
        return cls("+".join(map(_key, entries)), _places(default, [entry.place for entry in entries]))

    @classmethod
    def find(cls, commit: Commit, viewer: Actor) -> Self | None:
        """Return the trace that a commit of ours has, or None if it is not ours."""
        found = _TRACE.search(commit.message) if commit.may_be_of(viewer) else None
        return cls(found["asked"], found["base"]) if found else None

    def __str__(self) -> str:
        return f"Flux-Manifests-Request: {self.asked} on {self.base}"


class Work(Struct, frozen=True):
    """A branch and what is on it since it left the default branch.

    `base` is what the default branch had where it left, at the places of the entries: as long as that is the same
    there, git can merge.
    """

    branch: Branch
    lock: Lock
    entries: tuple[LockEntry, ...]  # that it asks for
    base: str
    is_merged: bool
    has_people: bool  # commits of theirs, or a commit of ours that is not as it was
    is_altered: bool  # what it asks for is not what a commit of ours set

    @classmethod
    def of(cls, snapshot: PullSnapshot, places: Sequence[Place]) -> Self | None:
        """Return what is on the branch, or None where there is none; without a trace all `places` are looked at."""
        if (branch := snapshot.branch) is None:
            return None
        try:
            lock = Lock.parse(branch.file)
        except InvalidLock:
            lock = Lock()
        traces = [Trace.find(commit, snapshot.viewer) for commit in branch.commits]
        newest = next((trace for trace in traces if trace), None)
        asked = newest.asked.split("+") if newest else []
        at = [entry for place in places if (entry := lock.find(*place)) and (len(places) == 1 or not newest)]
        entries = tuple(entry for entry in lock.entries if _key(entry) in asked or entry in at)
        altered = bool(traces) and sorted(map(_key, entries)) != sorted(asked)
        merged = snapshot.is_merged
        base = newest.base if newest else _places(lock, places)
        return cls(branch, lock, entries, base, merged, (altered or None in traces) and not merged, altered)

    def asks_for(self, wanted: Sequence[LockEntry]) -> bool:
        """Return whether the branch asks for exactly these entries."""
        return frozenset(self.entries) == frozenset(wanted)

    def has_others(self, wanted: Sequence[LockEntry]) -> bool:
        """Return whether the branch asks for an artifact that none of these entries is of."""
        return bool({entry.place for entry in self.entries} - {entry.place for entry in wanted})

    def serves(self, wanted: Sequence[LockEntry], default: Lock) -> bool:
        """Return whether nothing has to be done on the branch for `wanted` to be asked for."""
        if self.is_merged or not self.asks_for(wanted):
            return False
        return self.has_people or self.base == Trace.of(wanted, default).base


def _key(entry: LockEntry) -> str:
    return f"{entry.request.key}.{entry.ask}"


def _places(lock: Lock, places: Sequence[Place]) -> str:
    """Return what a lock file has in the places of entries: a change of anything else there git merges.

    Where there is no entry, that is the whole file: two entries that come to the same place conflict.
    """
    found = [_key(entry) if (entry := lock.find(*it)) else Digest.of(lock.text.encode()).short for it in places]
    return found[0] if len(found) == 1 else Digest.of("\n".join(found).encode()).short
