"""Parts of a publication record about commits and content in Git, and about the requests that approved it."""

from __future__ import annotations

import re
from datetime import datetime  # noqa: TC003  # msgspec reads it
from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct

from ci_automation.artifact.reference import Digest  # noqa: TC001  # same

if TYPE_CHECKING:
    from ci_automation.records.notes import Approval

_RUN = re.compile(r"run [!-~]+/actions/runs/([0-9]+)")
OID = re.compile(r"[0-9a-f]{40}")  # of an object of Git


def is_same_approval(recorded: Approval | None, given: Approval) -> bool:
    """Return whether a record names this approval: a run keeps its number if its repository gets another name."""
    if recorded is None:
        return False
    one, other = _RUN.fullmatch(recorded.how), _RUN.fullmatch(given.how)
    return one[1] == other[1] if one and other else recorded.how == given.how


class CountedPerson(Struct, frozen=True):
    """Person whose word counted for a request: the login at that time, and the account's number if GitHub told it."""

    omitted: ClassVar[frozenset[str]] = frozenset({"id"})

    login: str
    id: int = 0


class CountedRequest(Struct, frozen=True):
    """Merged request that approved content, and everyone whose word counted; `own` if its author merged it."""

    omitted: ClassVar[frozenset[str]] = frozenset({"own"})

    url: str
    people: tuple[CountedPerson, ...]
    own: bool = False

    @property
    def told(self) -> tuple[str, str]:
        """Return who counted, and how they approved, the address at its end."""
        own = "merged by its author " if self.own else ""
        return ", ".join(person.login for person in self.people), f"pull request {own}{self.url}"


class ApprovedRules(Struct, frozen=True):
    """Rules of an artifact when its content was approved; `rest` is a digest of those that have no member here."""

    omitted: ClassVar[frozenset[str]] = frozenset({"team"})

    approvals: int
    rest: Digest
    team: str | None = None

    def after(self, last: ApprovedRules) -> ApprovedRules:
        """Return the rules of older content that is back: those that counted last, and as many approvals as ever."""
        return ApprovedRules(max(self.approvals, last.approvals), last.rest, last.team or self.team)


class FleetCommit(Struct, frozen=True):
    """Commit of the fleet repository that a run was started for; `repository` is the address of its page."""

    repository: str
    commit: str


class RecordedContent(Struct, frozen=True):
    """Content of a channel that a commit of the default branch has, since when, and under which rules.

    `overlay` is the tree id that Git gives to the folder, `repository` the number or name of the repository. `at` is by
    GitHub's clock: a merge before it approves nothing any more.
    """

    repository: str
    commit: str
    overlay: str
    options: Digest
    at: datetime
    rules: ApprovedRules
