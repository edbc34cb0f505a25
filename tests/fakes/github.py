"""A double of GitHub on loopback, with the state of a directory of releases: REST, GraphQL, and downloads.

Downloads are redirected to another port, as GitHub redirects them to another host. The directory is read anew for each
request, so that a test may change it in between. Every request is written down, with its bytes.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

from tests.fakes.graphql import QueryError, execute

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


TOKEN = "ghs_canary-of-the-tests"
NOW = 1_790_000_000  # where a test lets the clock stand still


@dataclass(frozen=True, slots=True)
class Response:
    """What is answered: JSON where the body is no bytes; a status of 0 closes the connection without an answer."""

    status: int
    body: Any = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int = 0  # so many bytes of the body are announced and not sent


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it was on the wire, and what came back; the host is `api` or `assets`."""

    host: str
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    status: int
    received: int
    sent: int


Fault = Callable[[str, str], Response | None]  # host and path


RESET = Response(0)


def times(number: int, response: Response, part: str = "") -> Fault:
    """Return the fault that answers the next `number` requests whose path has `part` in it."""
    left = [number]

    def fault(_: str, path: str) -> Response | None:
        if part not in path or not left[0]:
            return None
        left[0] -= 1
        return response

    return fault


@dataclass
class FakeGitHub:
    """GitHub with one repository; a context manager. With a `prefix` it is GitHub Enterprise Server."""

    folder: Path
    repository: str = "fluxcd/flux2"
    token: str = TOKEN
    prefix: str = ""
    annotated: bool = True
    fault: Fault = lambda _host, _path: None  # nothing goes wrong
    requests: list[Request] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._servers = {host: _Server(self, host) for host in ("api", "assets")}
        for server in self._servers.values():
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers.values():
            server.shutdown()
            server.server_close()

    def url(self, host: str = "api") -> str:
        """Return the address of a host."""
        return f"http://127.0.0.1:{self._servers[host].server_address[1]}{self.prefix if host == 'api' else ''}"

    def answer(self, host: str, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Response:
        """Return what GitHub answers to one request."""
        if (fault := self.fault(host, target)) is not None:
            return fault
        parts = urlsplit(target)
        if host == "assets":
            return self._stored(parts.path, headers)
        credential = headers.get("authorization", "")
        if credential and credential.partition(" ")[2] != self.token:
            return Response(401, {"message": "Bad credentials"})
        if method == "POST" and parts.path == f"{self.prefix.removesuffix('/v3')}/graphql":
            return (
                self._graphql(json.loads(body)) if credential else Response(401, {"message": "Requires authentication"})
            )
        found = self._rest(parts.path.removeprefix(self.prefix), parse_qs(parts.query), headers)
        return found or Response(404, {"message": "Not Found"})

    def _rest(self, path: str, query: dict[str, list[str]], headers: Mapping[str, str]) -> Response | None:
        base = f"/repos/{self.repository}/"
        releases = self._releases()
        found: object = None
        match path.removeprefix(base).split("/") if path.startswith(base) else []:
            case ["releases"]:
                return self._page([r for r in releases if "authorization" in headers or not r["draft"]], query)
            case ["releases", "assets", identity]:
                return self._asset(int(identity))
            case ["releases", "tags", tag]:
                found = next((r for r in releases if r["tag_name"] == unquote(tag) and not r["draft"]), None)
            case ["git", "ref", "tags", tag]:
                found = next((self._ref(known) for known in self._tags() if known["name"] == unquote(tag)), None)
            case ["git", "tags", sha]:
                found = next(({"object": _commit(t)} for t in self._tags() if _tag_object(t["name"]) == sha), None)
            case _:
                pass
        return Response(200, found) if found else None

    def _ref(self, tag: dict[str, Any]) -> dict[str, Any]:
        name = tag["name"]
        target = {"type": "tag", "sha": _tag_object(name)} if self.annotated else _commit(tag)
        return {"ref": f"refs/tags/{name}", "object": target}

    def _page(self, releases: list[dict[str, Any]], query: dict[str, list[str]]) -> Response:
        size, number = int(query.get("per_page", ["30"])[0]), int(query.get("page", ["1"])[0])
        path = f"{self.url()}/repositories/1/releases?per_page={size}&page="
        more = len(releases) > size * number
        links = {"Link": f'<{path}{number + 1}>; rel="next", <{path}9>; rel="last"'} if more else {}
        return Response(200, releases[size * (number - 1) : size * number], links)

    def _asset(self, identity: int) -> Response | None:
        for release in self._releases():
            for asset in release["assets"]:
                if asset["id"] == identity:
                    place = f"{self.url('assets')}/{release['tag_name']}/{asset['name']}?sig=canary-store"
                    return Response(302, b"", {"Location": place})
        return None

    def _stored(self, path: str, headers: Mapping[str, str]) -> Response:
        if "authorization" in headers:  # as the stores behind GitHub do, since the address is signed
            return Response(400, b"<Error>InvalidAuthenticationInfo</Error>")
        file = self.folder / unquote(path).lstrip("/")
        return Response(200, file.read_bytes()) if file.is_file() else Response(404, b"<Error>BlobNotFound</Error>")

    def _releases(self) -> list[dict[str, Any]]:
        """Return the releases with what GitHub adds, in its usual order."""
        releases: list[dict[str, Any]] = json.loads((self.folder / "releases.json").read_text())
        for release in releases:
            release["created_at"] = release.get("created_at") or release["published_at"] or "2999-01-01T00:00:00Z"
            release["body"] = release.get("body") or f"Release notes of {release['tag_name']}"
            for asset in release["assets"]:
                asset["id"] = int(hashlib.sha256(f"{release['tag_name']}/{asset['name']}".encode()).hexdigest()[:8], 16)
        return sorted(releases, key=lambda release: str(release["created_at"]), reverse=True)

    def _tags(self) -> list[dict[str, Any]]:
        tags: list[dict[str, Any]] = json.loads((self.folder / "tags.json").read_text())
        return tags

    def _graphql(self, request: dict[str, Any]) -> Response:
        errors: list[dict[str, Any]] = []
        try:
            data = execute(request["query"], request["variables"], {"repository": partial(self._repository, errors)})
        except QueryError as error:
            return Response(200, {"errors": [{"message": str(error)}]})
        return Response(200, {"data": data, **({"errors": errors} if errors else {})})

    def _repository(self, errors: list[dict[str, Any]], arguments: dict[str, Any]) -> dict[str, Any] | None:
        name = f"{arguments['owner']}/{arguments['name']}"
        if name != self.repository:
            errors.append(
                {"type": "NOT_FOUND", "message": f"Could not resolve to a Repository with the name '{name}'."}
            )
            return None
        nodes = [_release_node(release) for release in self._releases()]
        return {
            "releases": partial(_connection, nodes),
            "release": lambda arguments: next(
                (node for node in nodes if node["tagName"] == arguments["tagName"]), None
            ),
        }


def _tag_object(name: str) -> str:
    return hashlib.sha1(f"tag {name}".encode(), usedforsecurity=False).hexdigest()


def _commit(tag: dict[str, Any]) -> dict[str, str]:
    return {"type": "commit", "sha": tag["commit"]["sha"]}


def _release_node(release: dict[str, Any]) -> dict[str, Any]:
    def assets(arguments: dict[str, Any]) -> dict[str, Any]:
        wanted = [asset for asset in release["assets"] if asset["name"] == arguments.get("name", asset["name"])]
        return _connection(wanted, {key: value for key, value in arguments.items() if key != "name"})

    return {
        "tagName": release["tag_name"],
        "publishedAt": release["published_at"],
        "createdAt": release["created_at"],
        "isDraft": release["draft"],
        "isPrerelease": release["prerelease"],
        "description": release["body"],
        "releaseAssets": assets,
    }


def _connection(nodes: list[dict[str, Any]], arguments: dict[str, Any]) -> dict[str, Any]:
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


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, github: FakeGitHub, host: str) -> None:
        super().__init__(("127.0.0.1", 0), _Exchange)
        self.github, self.host = github, host

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a client that hangs up is no news."""


class _Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 30
    server: _Server

    def _answer(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length", 0)))
        received = (
            len(self.requestline) + 2 + sum(len(f"{k}: {v}\r\n") for k, v in self.headers.items()) + 2 + len(body)
        )
        response = self.server.github.answer(self.server.host, self.command, self.path, headers, body)
        status, wire = _on_the_wire(response, headers) if response.status else (0, b"")
        log = Request(self.server.host, self.command, self.path, headers, body, status, received, len(wire))
        self.server.github.requests.append(log)
        if response.status and not response.cut:
            self.wfile.write(wire)
            return
        self.wfile.write(wire[: len(wire) - response.cut])
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    do_GET = do_POST = _answer  # noqa: N815  # the names that http.server wants

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def _on_the_wire(response: Response, asked: Mapping[str, str]) -> tuple[int, bytes]:
    status, body, headers = response.status, response.body, dict(response.headers)
    if not isinstance(body, bytes):
        body = json.dumps(body, separators=(",", ":")).encode()
        headers["Content-Type"] = "application/json; charset=utf-8"
        if status == HTTPStatus.OK:
            headers["ETag"] = f'W/"{hashlib.sha256(body).hexdigest()}"'
            if asked.get("if-none-match") == headers["ETag"]:
                status, body = 304, b""
        if "gzip" in asked.get("accept-encoding", "") and body:
            body = gzip.compress(body, mtime=0)
            headers["Content-Encoding"] = "gzip"
    headers["Content-Length"] = str(len(body))
    phrase = HTTPStatus(status).phrase
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    return status, "\r\n".join(lines).encode() + b"\r\n\r\n" + body
