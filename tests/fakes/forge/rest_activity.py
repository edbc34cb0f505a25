"""The operation that lists who changed which branch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fakes.forge import shown
from tests.fakes.forge.routes import REPO, Answer, Call, route
from tests.fakes.forge.state import Refused

if TYPE_CHECKING:
    from tests.fakes.forge.repository import Repository
    from tests.fakes.forge.routes import Json
    from tests.fakes.forge.state import Activity

_ORDERS = {"asc": 1, "desc": -1}


@route("GET", f"{REPO}/activity", "contents=read")
def list_activity(call: Call) -> Answer:
    """Return a page of a log: its pages have no numbers, the next one begins after a cursor."""
    if not call.repo.has_activity:
        raise Refused(404, "Not Found", kind="NOT_FOUND")
    wanted, kind = call.query.get("ref", "").removeprefix("refs/heads/"), call.query.get("activity_type", "")
    found = [each for each in call.repo.activity if wanted in {"", each.branch} and kind in {"", each.kind}]
    found = found[: len(found) - call.repo.lag][:: _ORDERS[call.query.get("direction", "desc")]]
    size, start = min(100, int(call.query.get("per_page", "30"))), int(call.query.get("after", "cursor0")[6:])
    links = {}
    if len(found) > start + size:
        rest = "".join(f"&{name}={value}" for name, value in call.query.items() if name != "after")
        place = f"{call.forge.url}/repositories/{call.repo.id}/activity?after=cursor{start + size}{rest}"
        links = {"Link": f'<{place}>; rel="next"'}
    return Answer(200, [_shown(call.repo, each) for each in found[start : start + size]], links)


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
