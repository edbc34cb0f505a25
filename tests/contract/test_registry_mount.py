"""Mounting over HTTP: what is asked, with which rights, and what follows where a registry does not mount."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

from ci_automation.artifact.manifest import FLUX_LAYER, Descriptor
from ci_automation.artifact.reference import Digest, Reference
from ci_automation.net.waiting import Clock, Patience
from ci_automation.registry.http import HttpRegistry
from ci_automation.registry.port import ContentMismatch, OtherRegistry, UnexpectedAnswer
from tests.contract.hostile_registry import HostileRegistry, Reply, Source, challenge

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.contract.hostile_registry import Seen

LAYER = Descriptor.of(FLUX_LAYER, b"a layer")


def mount(answer: Callable[[Seen], Reply], *, put: bool = False) -> tuple[bool, HostileRegistry]:
    """Return whether a blob was mounted from a registry that answers so, and what it was asked."""
    with HostileRegistry(answer) as server:
        at, source = (Reference.parse(f"oci://{server.host}/acme/{name}:x") for name in ("target", "source"))
        patience = Patience(attempts=2, clock=Clock(sleep=lambda _: None))
        with closing(HttpRegistry(server.host, Source(), patience=patience)) as registry:
            found = registry.mount_blob(at, LAYER, source)
            if put:
                assert registry.put_blob(at, b"a layer") == LAYER.digest
    return found, server


def test_the_question_names_the_blob_and_where_it_is() -> None:
    found, server = mount(lambda _: Reply(201), put=True)
    assert found
    (seen,) = server.seen  # what is mounted is not put
    path = urlsplit(seen.path)
    assert (seen.method, path.path) == ("POST", "/v2/acme/target/blobs/uploads/")
    assert parse_qs(path.query) == {"mount": [str(LAYER.digest)], "from": ["acme/source"]}
    assert seen.body == b""


def test_an_upload_that_was_begun_instead_is_gone_on_with() -> None:
    def answer(seen: Seen) -> Reply:
        return (
            Reply(202, headers={"Location": "/v2/acme/target/blobs/uploads/7"}) if seen.method == "POST" else Reply(201)
        )

    found, server = mount(answer, put=True)
    assert not found
    assert [seen.method for seen in server.seen] == ["POST", "PUT"]
    assert server.seen[1].path.startswith("/v2/acme/target/blobs/uploads/7?digest=")


def test_an_upload_that_broke_off_is_begun_anew() -> None:
    def answer(seen: Seen) -> Reply:
        if seen.method == "POST":
            number = 7 if "mount=" in seen.path else 8
            return Reply(202, headers={"Location": f"/v2/acme/target/blobs/uploads/{number}"})
        return Reply(503) if "uploads/7" in seen.path else Reply(201)

    _, server = mount(answer, put=True)
    assert [f"{seen.method} {seen.path.partition('?')[0][-1]}" for seen in server.seen] == [
        *("POST /", "PUT 7", "POST /", "PUT 8")
    ]


@pytest.mark.parametrize("status", [400, 403, 404, 405, 501])
def test_a_registry_that_refuses_is_given_the_bytes(status: int) -> None:
    found, _ = mount(lambda _: Reply(status))
    assert not found


def test_a_token_is_asked_for_both_repositories() -> None:
    def answer(seen: Seen) -> Reply:
        if seen.path.startswith("/token"):
            return Reply.json({"token": "canary-token"})
        if seen.authorization != "Bearer canary-token":
            return challenge(f'Bearer realm="http://{seen.headers["host"]}/token",service="registry"')
        return Reply(201)

    found, server = mount(answer)
    assert found
    (asked,) = [seen for seen in server.seen if seen.path.startswith("/token")]
    scopes = parse_qs(urlsplit(asked.path).query)["scope"]
    assert scopes == ["repository:acme/target:pull,push", "repository:acme/source:pull"]


def test_who_may_not_read_the_source_still_writes() -> None:
    def answer(seen: Seen) -> Reply:
        if seen.path.startswith("/token"):
            if "acme%2Fsource" in seen.path or "acme/source" in seen.path:
                return Reply.json({"errors": [{"code": "DENIED"}]}, 403)
            return Reply.json({"token": "canary-token"})
        if seen.authorization is None:
            return challenge(f'Bearer realm="http://{seen.headers["host"]}/token",service="registry"')
        return (
            Reply(202, headers={"Location": "/v2/acme/target/blobs/uploads/7"}) if seen.method == "POST" else Reply(201)
        )

    found, server = mount(answer, put=True)
    assert not found
    assert server.seen[-1].method == "PUT"


def test_another_blob_than_the_one_asked_for_is_an_error() -> None:
    with pytest.raises(ContentMismatch):
        mount(lambda _: Reply(201, headers={"Docker-Content-Digest": str(Digest.of(b"another"))}))


def test_an_upload_is_followed_to_no_other_network() -> None:
    with pytest.raises(UnexpectedAnswer):
        mount(lambda _: Reply(202, headers={"Location": "http://registry.example/upload"}))


def test_another_registry_is_not_asked() -> None:
    with closing(HttpRegistry("registry.example", Source())) as registry:
        here, there = (Reference.parse(f"oci://{host}.example/acme/flux:x") for host in ("registry", "other"))
        for one, other in ((here, there), (there, here)):
            with pytest.raises(OtherRegistry):
                registry.mount_blob(one, LAYER, other)
