"""What a repository has besides its files: plain values that the acts change."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping


class Refused(Exception):
    """GitHub says no; a person sees it as an error, a program as an answer with the status."""

    def __init__(self, status: int, message: str, errors: tuple[object, ...] = (), kind: str = "UNPROCESSABLE") -> None:
        super().__init__(message)
        self.status, self.message, self.errors, self.kind = status, message, errors, kind


def invalid(resource: str, message: str, name: str = "") -> Refused:
    """Return the refusal of a request that asks for what cannot be."""
    error = {
        "resource": resource,
        "code": "custom" if message else "invalid",
        **({"message": message} if message else {}),
    }
    return Refused(422, "Validation Failed", ({**error, **({"field": name} if name else {})},))


@dataclass
class Comment:
    """A comment of an issue or a pull request."""

    id: int
    author: str
    body: str
    created: dt.datetime
    updated: dt.datetime


@dataclass
class Review:
    """A review: of which commit, and whether it still stands."""

    id: int
    author: str
    state: str  # APPROVED, CHANGES_REQUESTED, COMMENTED, DISMISSED
    commit: str
    at: dt.datetime
    body: str = ""


@dataclass
class Issue:
    """An issue; a pull request is one with more."""

    number: int
    id: int
    author: str
    title: str
    body: str
    created: dt.datetime
    updated: dt.datetime
    state: str = "OPEN"
    labels: list[str] = field(default_factory=list)
    assignees: list[str] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)
    closed: dt.datetime | None = None
    closed_by: str | None = None
    state_reason: str | None = None
    edited: dt.datetime | None = None  # its text
    editor: str | None = None


@dataclass(frozen=True)
class Activity:
    """A change of a branch: who pushed, merged, made or deleted it; a side that is not there is all zeros."""

    id: int
    kind: str  # push, force_push, branch_creation, branch_deletion, pr_merge, merge_queue_merge
    branch: str
    before: str
    after: str
    by: str
    at: dt.datetime


@dataclass(frozen=True)
class TimelineEvent:
    """What the timeline of a pull request shows: auto-merge switched on or off, another base, or a reopening."""

    kind: str  # the name of the type in GraphQL
    by: str | None
    at: dt.datetime
    more: Mapping[str, str] = field(default_factory=dict)  # the type's other fields


@dataclass
class AutoMerge:
    """That a pull request is merged once it may be: by whom, how."""

    by: str
    how: str
    at: dt.datetime


@dataclass
class Pull(Issue):
    """A pull request; `source` is the repository of its branch."""

    source: str = ""
    branch: str = ""
    base: str = ""
    head: str = ""
    base_sha: str = ""
    draft: bool = False
    merged_by: str | None = None
    merged_at: dt.datetime | None = None
    merge_commit: str | None = None
    reviews: list[Review] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)  # people whose review was requested
    asked_teams: list[str] = field(default_factory=list)
    auto_merge: AutoMerge | None = None
    timeline: list[TimelineEvent] = field(default_factory=list)
    maintainer_can_modify: bool = False

    @property
    def merged(self) -> bool:
        """Whether it was merged."""
        return self.merged_at is not None


@dataclass
class Protection:
    """The rules of a branch."""

    reviews: int = 0
    dismiss_stale: bool = False
    code_owners: bool = False


@dataclass
class Environment:
    """Where a job waits for a person; a reviewer is a login, or `organisation/team`."""

    id: int
    name: str
    reviewers: list[str]
    prevent_self_review: bool
    branches: str | None  # protected, custom, or None
    created: dt.datetime
    wait_timer: int = 0  # minutes, after which a job goes on without anybody


@dataclass
class Workflow:
    """A workflow file, and whether it is switched on."""

    id: int
    path: str
    created: dt.datetime
    state: str = "active"


@dataclass(frozen=True)
class Decision:
    """What a person said about the environments that a run waits for."""

    by: str
    state: str  # approved or rejected
    environments: tuple[str, ...]
    comment: str
    at: dt.datetime


@dataclass
class Run:
    """A run of a workflow; `waits_for` names the environments that nobody has answered for."""

    id: int
    number: int
    workflow: Workflow
    name: str
    event: str
    branch: str
    sha: str
    title: str
    actor: str
    created: dt.datetime
    updated: dt.datetime
    inputs: dict[str, str] = field(default_factory=dict)
    event_payload: dict[str, Any] = field(default_factory=dict)
    status: str = "queued"
    conclusion: str | None = None
    attempt: int = 1
    triggered_by: str = ""  # who ran it again; the actor stays who started it
    waits_for: list[str] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
