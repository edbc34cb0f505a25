"""Issues, which report that a scheduled check no longer runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.github.answers import Fields, objects_at, require_name, segment
from ci_automation.github.model import Issue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ci_automation.github.client import GitHub

_MANY = 100


class Issues:
    """Issues of one repository; the token must allow writes."""

    def __init__(self, client: GitHub, name: str) -> None:
        self._client, self.name = client, require_name(name)

    def open_issue(self, title: str, body: str, labels: Iterable[str] = ()) -> Issue:
        """Open an issue, and return it; GitHub creates missing labels.

        Raises:
            NotOnGitHub: issues are switched off in the repository.
            ReleaseSourceError: as `GitHub.send`.
        """
        path = f"/repos/{self.name}/issues"
        answer = self._client.send("POST", path, {"title": title, "body": body, "labels": list(labels)})
        return _issue(Fields(answer.value, f"POST {self._client.host}{path}"))

    def issues(self, label: str) -> tuple[Issue, ...]:
        """Return the open issues with a label, newest first, at most 100, without pull requests.

        Raises:
            NotOnGitHub: the repository does not exist, or issues are switched off in it.
            ReleaseSourceError: as `GitHub.get`.
        """
        found = objects_at(self._client, f"/repos/{self.name}/issues?state=open&labels={segment(label)}", limit=_MANY)
        return tuple(_issue(issue) for issue in found if not issue.has("pull_request"))

    def close_issue(self, number: int) -> None:
        """Close an issue as done.

        Raises:
            ReleaseSourceError: as `GitHub.send`.
        """
        asked = {"state": "closed", "state_reason": "completed"}
        self._client.send("PATCH", f"/repos/{self.name}/issues/{number}", asked)


def _issue(found: Fields) -> Issue:
    return Issue(
        number=found.number("number"),
        url=found.text("html_url"),
        title=found.text("title"),
        body=found.maybe_text("body") or "",
    )
