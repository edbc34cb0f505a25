"""The operation that lists who changed which branch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fakes.forge import shown
from tests.fakes.forge.routes import REPO, Answer, Call, page, route

if TYPE_CHECKING:
    from tests.fakes.forge.repository import Repository
    from tests.fakes.forge.routes import Json
    from tests.fakes.forge.state import Activity


@route("GET", f"{REPO}/activity", "contents=read")
def list_activity(call: Call) -> Answer:
    wanted = call.query.get("ref", "").removeprefix("refs/heads/")
    found = [each for each in call.repo.activity if wanted in {"", each.branch}]
    if call.query.get("direction", "desc") == "desc":
        found.reverse()
    return page(call, [_shown(call.repo, each) for each in found])


def _shown(repo: Repository, of: Activity) -> Json:
    """Return a change of a branch."""
    return {
        "id": of.id,
        "node_id": f"PSH_{of.id}",
        "before": of.before,
        "after": of.after,
        "ref": f"refs/heads/{of.branch}",
        "timestamp": shown.when(of.at),
        "activity_type": of.kind,
        "actor": shown.user(repo.forge, of.by),
    }
