"""The releases of a repository that comes from a folder: what a release source asks for, by REST and GraphQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.fakes.forge.routes import REPO, Answer, Call, route
from tests.fakes.forge.state import Refused

if TYPE_CHECKING:
    from tests.fakes.github import FakeGitHub

Json = dict[str, Any]


def _store(call: Call) -> FakeGitHub:
    store, name = call.forge.store, f"{call.path['owner']}/{call.path['repo']}"
    if store is None or name != store.repository:
        raise Refused(404, "Not Found")
    return store


def _answer(call: Call, path: str) -> Answer:
    store = _store(call)
    known = {"authorization": "yes"} if call.who.token else {}
    query = {name: [value] for name, value in call.query.items()}
    found = store._rest(f"/repos/{store.repository}/{path}", query, known)
    if found is None:
        raise Refused(404, "Not Found")
    links = {"Link": found.headers["Link"].replace(store.url(), call.forge.url)} if "Link" in found.headers else {}
    return Answer(found.status, found.body, {**found.headers, **links})


@route("GET", f"{REPO}/releases", "contents=read")
def list_releases(call: Call) -> Answer:
    return _answer(call, "releases")


@route("GET", f"{REPO}/releases/tags/{{tag}}", "contents=read")
def get_release(call: Call) -> Answer:
    return _answer(call, f"releases/tags/{call.path['tag']}")


@route("GET", f"{REPO}/releases/assets/{{asset_id}}", "contents=read")
def get_asset(call: Call) -> Answer:
    return _answer(call, f"releases/assets/{call.path['asset_id']}")


@route("GET", f"{REPO}/git/tags/{{tag_sha}}", "contents=read")
def get_tag(call: Call) -> Answer:
    return _answer(call, f"git/tags/{call.path['tag_sha']}")


def tag_ref(call: Call) -> Answer:
    """Return the ref of a release's tag."""
    return _answer(call, f"git/ref/{call.path['ref']}")
