"""GitHub's own log of a branch: who moved it from which commit to which, and how."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.github.answers import Fields, segment
from ci_automation.github.errors import GitHubDenied, UnexpectedGitHubAnswer
from ci_automation.github.model import BranchUpdate, UpdateKind

if TYPE_CHECKING:
    from ci_automation.github.client import GitHub

_PAGE = 100  # as many as there can be
_KINDS = {kind.value: kind for kind in UpdateKind}


def branch_updates(client: GitHub, name: str, branch: str, limit: int) -> tuple[BranchUpdate, ...] | None:
    """Return the last updates of a branch, newest first; None where GitHub has no log, or none for this token.

    Raises:
        ReleaseSourceError: as `GitHub.get`, but for answers that show no log.
    """
    path = f"/repos/{name}/activity?ref={segment(f'refs/heads/{branch}')}&per_page={min(limit, _PAGE)}"
    what = f"GET {client.host}{path}"
    found: list[BranchUpdate] = []
    cursor = ""
    while True:
        try:
            answer = client.get(f"{path}&after={segment(cursor)}" if cursor else path)
        except (GitHubDenied, UnexpectedGitHubAnswer):
            return None
        if answer is None:
            return None
        found += map(_update, Fields.all(answer.value, what))
        cursor = answer.cursor
        if not cursor or len(found) >= limit:
            return tuple(found[:limit])


def _update(entry: Fields) -> BranchUpdate:
    return BranchUpdate(
        before=entry.oid("before"),
        after=entry.oid("after"),
        kind=_KINDS.get(entry.text("activity_type"), UpdateKind.OTHER),
        actor=entry.actor("actor"),
        at=entry.time("timestamp"),
    )
