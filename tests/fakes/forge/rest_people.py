"""The operations on accounts, teams, permissions, Apps and limits."""

from __future__ import annotations

import datetime as dt

from tests.fakes.forge import shown
from tests.fakes.forge.people import LEVELS, Token, new_token
from tests.fakes.forge.routes import REPO, Answer, Call, route
from tests.fakes.forge.state import Refused

_COARSE = {"triage": "read", "maintain": "write"}
_HOUR = dt.timedelta(hours=1)


@route("GET", f"{REPO}/collaborators/{{username}}/permission")
def get_permission(call: Call) -> Answer:
    login, repo = call.path["username"], call.repo
    if login not in call.forge.users or login.endswith("[bot]"):
        raise Refused(404, f"{login} is not a user")
    role = repo.permission(login)
    at_least = {name: LEVELS.index(role) >= LEVELS.index(level) for name, level in _FLAGS.items()}
    user = (shown.user(call.forge, login) or {}) | {"permissions": at_least, "role_name": role}
    return Answer(200, {"permission": _COARSE.get(role, role), "role_name": role, "user": user})


_FLAGS = {"pull": "read", "triage": "triage", "push": "write", "maintain": "maintain", "admin": "admin"}


def _require_members(call: Call) -> None:
    """Refuse whoever may not see teams; GitHub says then that there are none."""
    token = call.who.token
    if token is None or not token.grants("members", "read"):
        raise Refused(404, "Not Found")


@route("GET", "/orgs/{org}/teams/{team_slug}", "members=read")
def get_team(call: Call) -> Answer:
    _require_members(call)
    name = f"{call.path['org']}/{call.path['team_slug']}"
    team = call.forge.teams.get(name)
    if team is None:
        raise Refused(404, "Not Found")
    slug = {"id": team.id, "node_id": team.node_id, "name": team.slug, "slug": team.slug}
    return Answer(200, {**slug, "members_count": len(team.members), "repos_count": 0})


@route("GET", "/orgs/{org}/teams/{team_slug}/memberships/{username}", "members=read")
def get_membership(call: Call) -> Answer:
    _require_members(call)
    team = call.forge.teams.get(f"{call.path['org']}/{call.path['team_slug']}")
    login = call.path["username"]
    if team is None or login not in team.members | team.invited:
        raise Refused(404, "Not Found")
    place = f"{call.forge.url}/orgs/{team.organisation}/teams/{team.slug}/memberships/{login}"
    return Answer(200, {"state": "active" if login in team.members else "pending", "role": "member", "url": place})


@route("GET", "/app", "")
def get_app(call: Call) -> Answer:
    app = call.who.app
    if app is None:
        raise Refused(401, "A JSON web token could not be decoded")
    return Answer(200, {"id": app.id, "slug": app.slug, "name": app.slug, "client_id": app.client_id})


@route("GET", f"{REPO}/installation", "")
def get_installation(call: Call) -> Answer:
    app = call.who.app
    if app is None:
        raise Refused(401, "A JSON web token could not be decoded")
    name = f"{call.path['owner']}/{call.path['repo']}"
    for found in call.forge.installations.values():
        if found.app is app and name in found.repositories:
            shown_app = {"app_id": app.id, "app_slug": app.slug, "client_id": app.client_id}
            return Answer(200, {"id": found.id, "permissions": found.permissions, **shown_app})
    raise Refused(404, "Not Found")


@route("POST", "/app/installations/{installation_id}/access_tokens", "")
def create_token(call: Call) -> Answer:
    app, found = call.who.app, call.forge.installations.get(int(call.path["installation_id"]))
    if app is None:
        raise Refused(401, "A JSON web token could not be decoded")
    if found is None or found.app is not app:
        raise Refused(404, "Not Found")
    asked = {f"{found.account}/{name}" for name in call.given.get("repositories", [])} or found.repositories
    if not asked <= found.repositories:
        message = (
            "There is at least one repository that does not exist or is not accessible to the parent installation."
        )
        raise Refused(422, message)
    wanted = call.given.get("permissions") or found.permissions
    for name, level in wanted.items():
        if LEVELS.index(level) > LEVELS.index(found.permissions.get(name, "none")):
            raise Refused(422, "The permissions requested are not granted to this installation.")
    ends = call.forge.now() + _HOUR
    made = Token(new_token("app"), "app", app.login, frozenset(asked), dict(wanted), ends)
    call.forge.tokens[made.text] = made
    repositories = [shown.repository(call.forge.repositories[name]) for name in sorted(asked)]
    return Answer(
        201,
        {
            "token": made.text,
            "expires_at": shown.when(ends),
            "permissions": made.permissions,
            "repository_selection": "selected",
            "repositories": repositories,
        },
    )
