"""Statuses of commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.github.answers import Fields, object_at, require_name, segment
from ci_automation.github.errors import NotOnGitHub, UnexpectedGitHubAnswer

if TYPE_CHECKING:
    from datetime import datetime

    from ci_automation.github.client import GitHub

_PAGE, _MAX_PAGES = 100, 10


class Status(Struct, frozen=True):
    """Latest status under one context: `error`, `failure`, `pending` or `success`, and its time."""

    context: str
    state: str
    commit: str
    at: datetime


class Statuses:
    """Statuses of the commits of one repository."""

    def __init__(self, client: GitHub, name: str) -> None:
        self._client, self.name = client, require_name(name)

    def of_head(self, context: str) -> Status | None:
        """Return the status under a context at the head of the default branch, or None without one.

        A status is not a check, which jobs of GitHub Actions have.

        Raises:
            NotOnGitHub: the repository does not exist, or the token may not see it.
            ReleaseSourceError: as `GitHub.get`.
        """
        branch = object_at(self._client, f"/repos/{self.name}").text("default_branch")
        for page in range(1, _MAX_PAGES + 1):
            path = f"/repos/{self.name}/commits/{segment(branch)}/status?per_page={_PAGE}&page={page}"
            if (answer := self._client.get(path)) is None:
                raise NotOnGitHub(f"the branch {branch} of {self.name} on {self._client.host}")
            combined = Fields(answer.value, f"GET {self._client.host}{path}")
            for each in combined.each("statuses"):
                if each.text("context") == context:
                    return Status(context, each.text("state"), combined.oid("sha"), each.time("updated_at"))
            if not answer.has_next:
                return None
        raise UnexpectedGitHubAnswer(f"{self._client.host} never ends its list of statuses of {self.name}")
