"""The releases of a repository that comes from a folder: what a release source asks for, by REST and GraphQL.

Downloads are redirected to another port, as GitHub redirects them to another host. The folder is read anew for each
request, so that a test may change it in between.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tests.fakes.forge.routes import REPO, Answer, Call, route
from tests.fakes.forge.state import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Json = dict[str, Any]


class QueryError(Exception):
    """A query that GitHub would refuse."""


@dataclass
class Releases:
    """The releases and tags of one repository."""

    folder: Path
    repository: str
    annotated: bool = True

    def listed(self) -> list[Json]:
        """Return the releases with what GitHub adds, in its usual order."""
        releases: list[Json] = json.loads((self.folder / "releases.json").read_text())
        for release in releases:
            release["created_at"] = release.get("created_at") or release["published_at"] or "2999-01-01T00:00:00Z"
            release["body"] = release.get("body") or f"Release notes of {release['tag_name']}"
            for asset in release["assets"]:
                asset["id"] = int(hashlib.sha256(f"{release['tag_name']}/{asset['name']}".encode()).hexdigest()[:8], 16)
        return sorted(releases, key=lambda release: str(release["created_at"]), reverse=True)

    def tags(self) -> dict[str, Json]:
        """Return the commits of the tags, by name."""
        found = json.loads((self.folder / "tags.json").read_text())
        return {tag["name"]: {"type": "commit", "sha": tag["commit"]["sha"]} for tag in found}

    def stored(self, path: str, headers: Mapping[str, str]) -> Answer:
        """Return what the host of the downloads answers."""
        if "authorization" in headers:  # as the stores behind GitHub do, since the address is signed
            return Answer(400, b"<Error>InvalidAuthenticationInfo</Error>")
        file = self.folder / unquote(path).lstrip("/")
        return Answer(200, file.read_bytes()) if file.is_file() else Answer(404, b"<Error>BlobNotFound</Error>")

    def node(self) -> Json:
        """Return the repository as GraphQL shows it."""
        nodes = [_release_node(release) for release in self.listed()]
        return {
            "releases": lambda _info, **named: _connection(nodes, named),
            "release": lambda _info, **named: next((n for n in nodes if n["tagName"] == named["tagName"]), None),
        }


def _here(call: Call) -> Releases:
    store, name = call.forge.store, f"{call.path['owner']}/{call.path['repo']}"
    if store is None or name != store.repository:
        raise Refused(404, "Not Found")
    return store


@route("GET", "/advisories")
def list_advisories(call: Call) -> Answer:
    file = call.forge.store.folder / "advisories.json" if call.forge.store else None
    known = json.loads(file.read_text()) if file and file.exists() else []
    asked = call.query.get("affects", "").split(",")
    return Answer(200, [it for it in known if any(each["package"]["name"] in asked for each in it["vulnerabilities"])])


@route("GET", f"{REPO}/releases", "contents=read")
def list_releases(call: Call) -> Answer:
    releases = [release for release in _here(call).listed() if call.who.token or not release["draft"]]
    size, number = int(call.query.get("per_page", "30")), int(call.query.get("page", "1"))
    path = f"{call.forge.url}/repositories/1/releases?per_page={size}&page="
    more = len(releases) > size * number
    links = {"Link": f'<{path}{number + 1}>; rel="next", <{path}9>; rel="last"'} if more else {}
    return Answer(200, releases[size * (number - 1) : size * number], links)


@route("GET", f"{REPO}/releases/tags/{{tag}}", "contents=read")
def get_release(call: Call) -> Answer:
    for release in _here(call).listed():
        if release["tag_name"] == call.path["tag"] and not release["draft"]:
            return Answer(200, release)
    raise Refused(404, "Not Found")


@route("GET", f"{REPO}/releases/assets/{{asset_id}}", "contents=read")
def get_asset(call: Call) -> Answer:
    for release in _here(call).listed():
        for asset in release["assets"]:
            if asset["id"] == int(call.path["asset_id"]):
                place = f"{call.forge.downloads}/{release['tag_name']}/{asset['name']}?sig=canary-store"
                return Answer(302, b"", {"Location": place})
    raise Refused(404, "Not Found")


@route("GET", f"{REPO}/git/tags/{{tag_sha}}", "contents=read")
def get_tag(call: Call) -> Answer:
    for name, commit in _here(call).tags().items():
        if _tag_object(name) == call.path["tag_sha"]:
            return Answer(200, {"object": commit})
    raise Refused(404, "Not Found")


def tag_ref(call: Call) -> Answer:
    """Return the ref of a release's tag."""
    store, name = _here(call), call.path["ref"].removeprefix("tags/")
    if name not in store.tags():
        raise Refused(404, "Not Found")
    target = {"type": "tag", "sha": _tag_object(name)} if store.annotated else store.tags()[name]
    return Answer(200, {"ref": f"refs/tags/{name}", "object": target})


def _tag_object(name: str) -> str:
    return hashlib.sha1(f"tag {name}".encode(), usedforsecurity=False).hexdigest()


def _release_node(release: Json) -> Json:
    def assets(_info: object, **named: Any) -> Json:
        wanted = [asset for asset in release["assets"] if asset["name"] == named.get("name", asset["name"])]
        return _connection(wanted, {key: value for key, value in named.items() if key != "name"})

    return {
        "tagName": release["tag_name"],
        "publishedAt": release["published_at"],
        "createdAt": release["created_at"],
        "isDraft": release["draft"],
        "isPrerelease": release["prerelease"],
        "description": release["body"],
        "releaseAssets": assets,
    }


def _connection(nodes: list[Json], arguments: Json) -> Json:
    """Return a page of a list, by the rules of GitHub: `first` is needed, at most 100; a cursor is opaque."""
    first, after, order = arguments.get("first"), arguments.get("after"), arguments.get("orderBy")
    if not isinstance(first, int) or not 0 < first <= 100:
        raise QueryError("You must provide a `first` of 1 to 100 to properly paginate the connection")
    if order:
        key = {"CREATED_AT": "createdAt", "NAME": "tagName"}[order["field"]]
        nodes = sorted(nodes, key=lambda node: str(node[key]), reverse=order["direction"] == "DESC")
    start = int(base64.b64decode(after).removeprefix(b"cursor:")) if after else 0
    end = min(start + first, len(nodes))
    cursor = base64.b64encode(b"cursor:%d" % end).decode() if end else None
    page = {"hasNextPage": end < len(nodes), "endCursor": cursor}
    return {"nodes": nodes[start:end], "pageInfo": page, "totalCount": len(nodes)}
