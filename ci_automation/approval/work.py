"""Contents of a request's branch: its authors, the step it asks for, and whether git could merge it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from ci_automation.approval.lock import InvalidLock, Lock, LockEntry
from ci_automation.approval.port import RequestKind
from ci_automation.artifact.digest import Digest

if TYPE_CHECKING:
    from ci_automation.artifact.reference import Reference
    from ci_automation.github.model import Actor, Branch, Commit, PullSnapshot

_TRACE = re.compile(r"^Flux-Manifests-Request: (?P<asked>\S+) on (?P<base>\S+)$", re.MULTILINE)


class Trace(Struct, frozen=True):
    """The trace in a commit message of ours: the entry that it set, and what the default branch had in that place."""

    asked: str
    base: str

    @classmethod
    def of(cls, entry: LockEntry, default: Lock) -> Self:
        """Return the trace of a commit that sets `entry` in the lock file of the default branch."""
        return cls(_key(entry), _place(default, *entry.place))

    @classmethod
    def find(cls, commit: Commit, viewer: Actor) -> Self | None:
        """Return the trace that a commit of ours has, or None where it is somebody else's."""
        found = _TRACE.search(commit.message) if commit.may_be_of(viewer) else None
        return cls(found["asked"], found["base"]) if found else None

    def __str__(self) -> str:
        return f"Flux-Manifests-Request: {self.asked} on {self.base}"


class Work(Struct, frozen=True):
    """A branch and what is on it since it left the default branch.

    `base` is what the default branch had where it left, at the place of the artifact's entry: as long as that is the
    same there, git can merge.
    """

    branch: Branch
    lock: Lock
    entry: LockEntry | None
    base: str
    is_merged: bool
    has_people: bool  # commits of theirs, or a commit of ours that is not as it was
    is_altered: bool  # what it asks for is not what a commit of ours set

    @classmethod
    def of(cls, snapshot: PullSnapshot, artifact: Reference, kind: RequestKind = RequestKind.VERSION) -> Self | None:
        """Return what is on the branch, or None where there is none."""
        if (branch := snapshot.branch) is None:
            return None
        try:
            lock = Lock.parse(branch.file)
        except InvalidLock:
            lock = Lock()
        entry = lock.find(artifact, kind)
        traces = [Trace.find(commit, snapshot.viewer) for commit in branch.commits]
        newest = next((trace for trace in traces if trace), None)
        altered = bool(traces) and (entry is None or newest is None or _key(entry) != newest.asked)
        merged = snapshot.is_merged
        base = newest.base if newest else _place(lock, artifact, kind)
        return cls(branch, lock, entry, base, merged, (altered or None in traces) and not merged, altered)

    def serves(self, wanted: LockEntry, default: Lock) -> bool:
        """Return whether nothing has to be done on the branch for `wanted` to be asked for."""
        if self.is_merged or self.entry != wanted:
            return False
        return self.has_people or self.base == Trace.of(wanted, default).base


def _key(entry: LockEntry) -> str:
    return f"{entry.request.key}.{entry.ask}"


def _place(lock: Lock, artifact: Reference, kind: RequestKind) -> str:
    """Return what a lock file has in the place of an artifact's entry: a change of anything else there git merges.

    Where there is no entry, that is the whole file: two entries that come to the same place conflict.
    """
    entry = lock.find(artifact, kind)
    return _key(entry) if entry else Digest.of(lock.text.encode()).short
