"""The people whose word counts for a merged pull request: who pressed merge, and who approved what was merged.

At least one of them must not be a maker of the request: its author, or an author, committer or pusher of its commits.
Each must be allowed to approve now. Branch rules and CODEOWNERS are GitHub's to enforce.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from msgspec import Struct

from ci_automation.github.model import Actor, Making, PullRequest, Review, UpdateKind
from ci_automation.records.content import CountedPerson, CountedRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from ci_automation.config.model import ApprovalConfig

_MAY_WRITE = frozenset({"admin", "write"})
_OPINIONS = frozenset({"APPROVED", "CHANGES_REQUESTED", "DISMISSED"})
_PRESSED = frozenset({UpdateKind.PR_MERGE, None})  # None: this GitHub has no log that could say otherwise


class People(Struct, frozen=True):
    """Possible approvers: their permissions and team membership, as GitHub states them now."""

    permissions: Mapping[str, str]
    members: frozenset[str] = frozenset()
    accounts: Mapping[str, int] = {}  # the number of each account, which a new login does not change

    @classmethod
    def all_of(cls, logins: Iterable[str]) -> Self:
        """Return people who may approve, as long as GitHub was not asked about them."""
        return cls(dict.fromkeys(logins, "write"), frozenset(logins))

    def lacking(self, login: str, team: str | None) -> str:
        """Return what a person lacks to be an approver, or nothing."""
        if self.permissions.get(login) not in _MAY_WRITE:
            return "may not write to the repository now"
        if team and login not in self.members:
            return f"is not in the team {team} now"
        return ""


class Counted(Struct, frozen=True):
    """The people who approved a request: the one who pressed merge, if that counts, and the reviewers."""

    merger: str | None
    reviewers: tuple[str, ...]
    is_own: bool = False  # the merger is the author, whose merge is configured to count

    @property
    def people(self) -> tuple[str, ...]:
        """Return them, each once."""
        return tuple(dict.fromkeys([*([self.merger] if self.merger else ()), *self.reviewers]))


class MergedRequest(Struct, frozen=True):
    """A merged pull request, how it was made and merged, and who we are: our own account is no second person."""

    pull: PullRequest
    making: Making
    viewer: Actor
    told_at: datetime | None = None  # when it got the description that reviews have to be of, if that matters

    def possible(self, settings: ApprovalConfig) -> Counted:
        """Return the people who count if they are allowed to approve."""
        is_own = self._is_author(self._presser) and settings.own_merge
        merger = self._presser if is_own or self._is_free(self._presser) else None
        return Counted(merger, tuple(filter(self._is_free, self._approving)), is_own)

    def counted(self, people: People, settings: ApprovalConfig) -> Counted | str:
        """Return the people who count, or why they are too few: the end of a sentence on a request that was merged."""
        found = self.possible(settings)
        lacking = {login: why for login in found.people if (why := people.lacking(login, settings.team))}
        merger = found.merger if found.merger not in lacking else None
        reviewers = tuple(login for login in found.reviewers if login not in lacking)
        counted = Counted(merger, reviewers, found.is_own and merger is not None)
        more = 0 if self.making.pushed_at else 1  # where GitHub does not show who pushed, one of them may have
        reviews, needed = settings.approvals and settings.approvals + more, 1 + more
        if len(reviewers) >= reviews and len(counted.people) >= needed:
            against = ", ".join(self._against)
            return f"though {against} requested changes" if against else counted
        if len(reviewers) < reviews:
            few = f"with {len(reviewers)} of {reviews} approving reviews of its last commit that count"
        else:
            few = f"with {len(counted.people)} of {needed} people who count, by pressing merge or approving it"
        return "; ".join((few, *(f"{login} {why}" for login, why in lacking.items()), *self._remarks(found)))

    def recorded(self, found: Counted, people: People) -> CountedRequest:
        """Return the request as a record names it, with the people who counted."""
        named = tuple(CountedPerson(login, people.accounts.get(login, 0)) for login in found.people)
        return CountedRequest(self.pull.url, named, own=found.is_own)

    @property
    def _presser(self) -> str | None:
        """Return the person who pressed merge, or None where auto-merge, a queue, an App or this program merged it.

        GitHub merges in the name of who switched auto-merge on, and that person may not have seen what was merged.
        """
        by = self.pull.merged_by
        pressed = self.making.auto_merge is None and self.making.merged_as in _PRESSED
        return by.login if by and pressed and self._is_person(by) else None

    @property
    def _latest(self) -> dict[str, Review]:
        """Return the last word of each person."""
        latest = {}
        for review in sorted(self.pull.reviews, key=lambda review: review.at):
            if review.state in _OPINIONS and self._is_person(review.author):
                latest[review.author.login] = review
        return latest

    @property
    def _last_words(self) -> tuple[tuple[str, bool], ...]:
        """Return who approves the last commit by their last word, and whether that came after base and description."""
        since, told = self.making.retargeted_at, self.told_at
        return tuple(
            (login, (since is None or review.at > since) and (told is None or review.at >= told))
            for login, review in self._latest.items()
            if review.state == "APPROVED" and review.commit == self.pull.head
        )

    @property
    def _against(self) -> tuple[str, ...]:
        """Return who may write and says no, in the team or not; to press merge later takes one's own no back.

        A no to an older commit counts, and one by a person whom commits name: anyone can push more, in any name.
        """
        merged, by = self.pull.merged_at, self._presser
        said = ((login, it.at) for login, it in self._latest.items() if it.state == "CHANGES_REQUESTED")
        return tuple(login for login, at in said if not (login == by and merged and at < merged))

    @property
    def _approving(self) -> tuple[str, ...]:
        return tuple(login for login, is_of_base in self._last_words if is_of_base)

    def _remarks(self, found: Counted) -> Iterator[str]:
        """Yield what explains that a merge or a review does not count."""
        if self.making.auto_merge:
            yield "auto-merge was on, so no person pressed merge"
        elif self.making.merged_as not in _PRESSED:
            yield (
                "a merge queue merged it"
                if self.making.merged_as is UpdateKind.MERGE_QUEUE
                else "no person pressed merge"
            )
        if self.making.pushed_at is None:
            yield "GitHub does not show who pushed its last commit, so one more person is needed"
        what = "base" if self.making.retargeted_at else "description"
        makers = [login for login in (self._presser, *self._approving) if login and login not in found.people]
        yield from (f"{login} is its author or pushed to it" for login in dict.fromkeys(makers))
        yield from (
            f"{login} approved it before its {what} changed" for login, is_of_base in self._last_words if not is_of_base
        )

    def _is_person(self, actor: Actor) -> bool:
        return not actor.is_bot and actor.login.casefold() != self.viewer.login.casefold()

    def _is_author(self, login: str | None) -> bool:
        author = self.pull.author
        return login is not None and author is not None and author.login.casefold() == login.casefold()

    def _is_free(self, login: str | None) -> bool:
        return login is not None and not self._is_author(login) and login.casefold() not in self.making.hands
