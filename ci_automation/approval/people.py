"""Approvers: people who may write to the repository now and, if a team is named, are in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ci_automation.github.repository import Repository

_MAY_WRITE = frozenset({"admin", "write"})


class People(Struct, frozen=True):
    """Possible approvers: their permissions and team membership, as GitHub states them now."""

    permissions: Mapping[str, str]
    members: frozenset[str] = frozenset()
    accounts: Mapping[str, int] = {}  # the number of each account, which a new login does not change

    @classmethod
    def of(cls, logins: Iterable[str], team: str | None, repository: Repository) -> Self:
        """Return what GitHub says of them.

        Raises:
            TeamHidden: there is no such team, or the token may not see it.
            ReleaseSourceError: as `GitHub.get`.
        """
        found = {login: repository.permission(login) for login in logins}
        members = frozenset(login for login in found if team and repository.is_member(team, login))
        levels = {login: permission.level for login, permission in found.items()}
        return cls(levels, members, {login: permission.account for login, permission in found.items()})

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
