"""People's acts by HTTP, for tests in another process: `POST /_control/ACT` with JSON, `GET /_control/state`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.fakes.forge.routes import Answer
from tests.fakes.forge.shown import when
from tests.fakes.forge.state import Pull, Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fakes.forge.forge import Forge
    from tests.fakes.forge.repository import Repository
    from tests.fakes.forge.state import Issue, Run

Json = dict[str, Any]


def answer(forge: Forge, method: str, path: str, body: Json | None) -> Answer:
    """Do what a person would do, and return what came of it."""
    act, given = path.removeprefix("/_control/"), dict(body or {})
    if method == "GET" and act == "state":
        return Answer(200, state(forge))
    if method != "POST" or act not in _ACTS:
        return Answer(404, {"message": f"no such act; there are {', '.join(_ACTS)}, and GET state"})
    try:
        return Answer(200, _ACTS[act](forge, given))
    except Refused as refused:
        return Answer(409, {"message": refused.message, "status": refused.status})
    except (KeyError, TypeError) as error:
        return Answer(400, {"message": f"{type(error).__name__}: {error}"})


def build(forge: Forge, world: Json) -> None:
    """Make what a description says: `repositories`, by name, each with files, collaborators, environments; `tokens`."""
    for name, members in world.get("teams", {}).items():
        forge.team(name, members)
    for name, described in world.get("repositories", {}).items():
        files = {path: text.encode() for path, text in described.get("files", {}).items()}
        repo = forge.repository(name, files, private=described.get("private", True))
        repo.collaborators |= {
            forge.user(login).login: level for login, level in described.get("collaborators", {}).items()
        }
        for setting in ("can_create_pulls", "allow_auto_merge", "delete_branch_on_merge"):
            setattr(repo, setting, described.get(setting, getattr(repo, setting)))
        for environment, rule in described.get("environments", {}).items():
            repo.environment(
                environment, rule.get("reviewers", ()), prevent_self_review=rule.get("prevent_self_review", False)
            )
        for branch, reviews in described.get("protected", {}).items():
            repo.protect(branch, reviews)


def state(forge: Forge) -> Json:
    """Return all that a test may want to look at."""
    return {
        "violations": forge.violations,
        "requests": [[r.method, r.path, r.status] for r in forge.requests],
        "repositories": {name: _repository(repo) for name, repo in forge.repositories.items()},
    }


def _repository(repo: Repository) -> Json:
    return {
        "branches": repo.branches,
        "issues": [_issue(issue) for issue in repo.issues],
        "runs": [_run(run) for run in repo.runs],
        "dispatched": [{"event_type": kind, "client_payload": payload} for kind, payload in repo.dispatched],
    }


def _issue(issue: Issue) -> Json:
    plain = {"number": issue.number, "title": issue.title, "body": issue.body, "state": issue.state}
    plain |= {"author": issue.author, "labels": issue.labels, "assignees": issue.assignees}
    plain["comments"] = [{"author": comment.author, "body": comment.body} for comment in issue.comments]
    if not isinstance(issue, Pull):
        return plain
    reviews = [{"author": r.author, "state": r.state, "commit": r.commit} for r in issue.reviews]
    merged = {"merged_by": issue.merged_by, "merge_commit": issue.merge_commit}
    return plain | merged | {"branch": issue.branch, "head": issue.head, "draft": issue.draft, "reviews": reviews}


def _run(run: Run) -> Json:
    plain = {"id": run.id, "workflow": run.workflow.path, "event": run.event, "title": run.title, "actor": run.actor}
    plain |= {"status": run.status, "conclusion": run.conclusion, "inputs": run.inputs, "waits_for": run.waits_for}
    return plain | {"created_at": when(run.created), "event_payload": run.event_payload}


def _repo(forge: Forge, given: Json) -> Repository:
    return forge.repositories[given.pop("repository")]


def _push(forge: Forge, given: Json) -> Json:
    repo = _repo(forge, given)
    files = {path: None if text is None else text.encode() for path, text in given.pop("files").items()}
    return {"sha": repo.push(given.pop("branch", repo.default_branch), files, given.pop("by"), **given)}


def _move(forge: Forge, given: Json) -> Json:
    _repo(forge, given).move(**given)
    return {}


def _log(forge: Forge, given: Json) -> Json:
    """Let the log of branches lag by some updates, lose some of the last ones, or be there no more."""
    repo = _repo(forge, given)
    repo.lag, repo.has_activity = given.get("lag", repo.lag), given.get("has_activity", repo.has_activity)
    del repo.activity[len(repo.activity) - given.get("lose", 0) :]
    return {}


def _merge_queue(forge: Forge, given: Json) -> Json:
    return {"commits": _repo(forge, given).merge_queue(*given["numbers"])}


def _token(forge: Forge, given: Json) -> Json:
    return {"token": forge.token(**given)}


def _build(forge: Forge, given: Json) -> Json:
    build(forge, given)
    return {}


def _of_repository(name: str) -> Callable[[Forge, Json], Json]:
    def act(forge: Forge, given: Json) -> Json:
        done = getattr(_repo(forge, given), name)(**given)
        if isinstance(done, str):
            return {"sha": done}
        number = getattr(done, "number", None)
        return {"id": getattr(done, "id", None)} | ({"number": number} if number else {})

    return act


def _decide(*, approved: bool) -> Callable[[Forge, Json], Json]:
    def act(forge: Forge, given: Json) -> Json:
        (forge.approve if approved else forge.reject)(int(given["run"]), given["by"], given.get("comment", ""))
        return {}

    return act


_ACTS: dict[str, Callable[[Forge, Json], Json]] = {
    "world": _build,
    "token": _token,
    "push": _push,
    "move": _move,
    "log": _log,
    "merge_queue": _merge_queue,
    "approve": _decide(approved=True),
    "reject": _decide(approved=False),
    **{
        name: _of_repository(name)
        for name in (
            "merge",
            "review",
            "close",
            "reopen",
            "comment",
            "open_pull",
            "start",
            "begin",
            "complete",
            "cancel",
            "dispatch",
            "delete_branch",
            "disable_auto_merge",
            "enable_auto_merge",
            "rerun",
            "retarget",
        )
    },
}
