"""Where credentials go over HTTP, and where they never go."""

from __future__ import annotations

import base64
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from ci_automation.artifact.manifest import FLUX_LAYER, Descriptor
from ci_automation.artifact.reference import Digest, Reference
from ci_automation.registry.credentials import Credential, Writing
from ci_automation.registry.http import HttpRegistry
from ci_automation.registry.port import AccessDenied, NotFound, UnexpectedAnswer, Unreachable
from tests.contract.hostile_registry import (
    MANIFEST,
    PASSWORD,
    ROBOT,
    USER,
    HostileRegistry,
    Reply,
    Seen,
    Source,
    Wall,
    challenge,
    in_turn,
)
from tests.contract.registry_contract import artifact

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


BASIC = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
DATA = b"the bytes of a layer"
LAYER = Descriptor.of(FLUX_LAYER, DATA)


Opened = Callable[..., HttpRegistry]


@pytest.fixture
def elsewhere() -> Iterator[HostileRegistry]:
    """Yield a second server: another host, since its port differs."""
    with HostileRegistry() as running:
        yield running


def channel(server: HostileRegistry, repository: str = "acme/flux") -> Reference:
    """Return a channel of a server."""
    return Reference.parse(f"oci://{server.host}/{repository}:production")


class TestAskedFor:
    def test_nobody_is_asked_for_credentials_that_no_registry_wants(
        self, server: HostileRegistry, opened: Opened
    ) -> None:
        source = Source()
        server.answer = in_turn(MANIFEST)
        opened(server.host, source).manifest(channel(server))
        assert source.asked == []
        assert server.seen[0].authorization is None

    @pytest.mark.parametrize(
        "text",
        ['Basic realm="a registry"', "basic", 'Negotiate, Basic realm=x, charset="UTF-8"', 'Digest a="b", BASIC'],
    )
    def test_a_password_is_shown_once_it_is_asked_for_and_then_at_once(
        self, server: HostileRegistry, opened: Opened, text: str
    ) -> None:
        server.answer = lambda seen: MANIFEST if seen.authorization == BASIC else challenge(text)
        registry = opened(server.host)
        for _ in range(2):
            registry.manifest(channel(server))
        assert [seen.authorization for seen in server.seen] == [None, BASIC, BASIC]

    def test_a_password_of_bytes_that_are_no_text_is_shown_as_it_is(
        self, server: HostileRegistry, opened: Opened
    ) -> None:
        server.answer = lambda seen: MANIFEST if seen.authorization else challenge("Basic")
        opened(server.host, Source(Credential(USER, b"canary-\xe9".decode(errors="surrogateescape")))).manifest(
            channel(server)
        )
        shown = f"{USER}:canary-".encode() + b"\xe9"
        assert server.seen[-1].authorization == f"Basic {base64.b64encode(shown).decode()}"
        server.seen.clear()
        server.answer = Wall().answer
        opened(server.host, Source(Credential.of("<token>", b"\xe9".decode(errors="surrogateescape")))).manifest(
            channel(server)
        )
        assert b"refresh_token=%E9&" in server.seen[1].body

    @pytest.mark.parametrize(
        "text",
        [
            pytest.param('Bearer realm="{}",service="a b&c"', id="quoted"),
            pytest.param("Bearer realm={},service=a", id="not quoted"),
            pytest.param('bearer service=a , Realm="{}" , scope="repository:acme/flux:pull"', id="another order"),
            pytest.param('Basic realm="x", Bearer realm="{}"', id="a token rather than a password"),
            pytest.param(
                'Bearer error="invalid_token", realm="{}", error_description="say \\"please\\""', id="escapes"
            ),
        ],
    )
    def test_tokens_are_fetched_from_where_the_registry_says(
        self, server: HostileRegistry, opened: Opened, text: str
    ) -> None:
        asked = challenge(text.format(f"http://{server.host}/token?account=1"))
        wall = Wall()
        server.answer = lambda seen: wall.answer(seen) if seen.authorization or "token" in seen.path else asked
        assert opened(server.host).manifest(channel(server)) == artifact()
        assert [seen.authorization for seen in server.seen] == [None, BASIC, "Bearer canary-token-1"]
        query = parse_qs(urlsplit(server.seen[1].path).query)
        assert query["scope"] == ["repository:acme/flux:pull"]
        assert query["account"] == ["1"]

    @pytest.mark.parametrize("text", ["", "Negotiate", "Bearer", 'Bearer service="x"', '"', "Bearer realm", "=,=" * 9])
    def test_what_cannot_be_met_is_access_denied(self, server: HostileRegistry, opened: Opened, text: str) -> None:
        server.answer = in_turn(challenge(text))
        with pytest.raises(AccessDenied):
            opened(server.host).manifest(channel(server))
        assert len(server.seen) == 1

    def test_an_identity_token_buys_tokens_and_is_no_password(self, server: HostileRegistry, opened: Opened) -> None:
        server.answer = Wall().answer
        source = Source(Credential.of("<token>", "the identity"))
        opened(server.host, source).manifest(channel(server))
        bought = server.seen[1]
        assert (bought.method, bought.path, bought.authorization) == ("POST", "/token", None)
        assert parse_qs(bought.body.decode()) == {
            "grant_type": ["refresh_token"],
            "refresh_token": ["the identity"],
            "client_id": ["flux-manifests"],
            "service": ["registry.example"],
            "scope": ["repository:acme/flux:pull"],
        }
        server.seen.clear()
        server.answer = in_turn(challenge("Basic"))
        with pytest.raises(AccessDenied):
            opened(server.host, source).manifest(channel(server))
        assert [seen.authorization for seen in server.seen] == [None]

    @pytest.mark.parametrize(
        "answer",
        [
            pytest.param(Reply(200, b"<html>"), id="a page"),
            pytest.param(Reply.json({}), id="nothing"),
            pytest.param(Reply.json({"token": ""}), id="an empty one"),
            pytest.param(Reply.json({"token": "a\r\nX-Injected: 1"}), id="a second header"),
            pytest.param(Reply.json({"token": 1}), id="a number"),
            pytest.param(Reply.json([]), id="a list"),
            pytest.param(Reply.json({"token": "x"}, 500), id="an error"),
            pytest.param(Reply(302, headers={"Location": "/other"}), id="a redirect"),
        ],
    )
    def test_what_is_no_token_is_not_sent(self, server: HostileRegistry, opened: Opened, answer: Reply) -> None:
        wall = Wall()
        server.answer = lambda seen: answer if "/token" in seen.path else wall.answer(seen)
        with pytest.raises(UnexpectedAnswer):
            opened(server.host).manifest(channel(server))
        assert len(server.seen) == 2

    @pytest.mark.parametrize("status", [400, 401, 403])
    def test_a_token_server_that_refuses_is_access_denied(
        self, server: HostileRegistry, opened: Opened, status: int
    ) -> None:
        wall = Wall()
        refusal = Reply.json({"details": f"{PASSWORD} is not the password"}, status)
        server.answer = lambda seen: refusal if "/token" in seen.path else wall.answer(seen)
        with pytest.raises(AccessDenied, match=f"gives no token to pull acme/flux: {status}: ") as caught:
            opened(server.host).manifest(channel(server))
        assert PASSWORD not in str(caught.value)
        assert len(server.seen) == 2

    def test_a_token_server_may_be_busy_too(self, server: HostileRegistry, opened: Opened) -> None:
        wall, busy = Wall(), [Reply(503), Reply(then="reset")]
        server.answer = lambda seen: busy.pop() if "/token" in seen.path and busy else wall.answer(seen)
        assert opened(server.host).manifest(channel(server)) == artifact()

    @pytest.mark.parametrize("name", ["token", "access_token"])
    def test_a_token_has_two_names(self, server: HostileRegistry, opened: Opened, name: str) -> None:
        wall = Wall(current={"repository:acme/flux:pull": "abc"})
        server.answer = lambda seen: Reply.json({name: "abc"}) if "/token" in seen.path else wall.answer(seen)
        assert opened(server.host).manifest(channel(server)) == artifact()


class TestKept:
    @pytest.mark.parametrize(
        ("expires_in", "used"),
        [
            pytest.param(100, 89, id="as it says"),
            pytest.param(None, 53, id="a minute where it does not say"),
            pytest.param("100", 53, id="a minute where it says it oddly"),
            pytest.param(-1, 53, id="a minute where it cannot be"),
            pytest.param(1e300, 77_000, id="a day at most"),
        ],
    )
    def test_a_token_is_used_for_a_little_less_than_it_lasts(
        self, server: HostileRegistry, opened: Opened, seconds: list[float], expires_in: object, used: int
    ) -> None:
        wall = Wall(expires_in=expires_in)
        server.answer = wall.answer
        registry = opened(server.host)
        registry.manifest(channel(server))
        seconds[0] += used
        registry.manifest(channel(server))
        assert wall.issued == 1
        seconds[0] += 2000
        registry.manifest(channel(server))
        assert wall.issued == 2

    def test_a_token_that_ends_in_the_middle_of_a_run_is_renewed(self, server: HostileRegistry, opened: Opened) -> None:
        wall = Wall()
        server.answer = wall.answer
        registry = opened(server.host)
        for _ in range(3):
            registry.manifest(channel(server))
            wall.current.clear()
        assert [seen.authorization for seen in server.seen if "/token" not in seen.path] == [
            None,
            *(f"Bearer canary-token-{number}" for number in (1, 1, 2, 2, 3)),
        ]

    def test_a_registry_that_refuses_its_own_tokens_is_not_asked_for_ever(
        self, server: HostileRegistry, opened: Opened
    ) -> None:
        wall = Wall()
        server.answer = lambda seen: (
            wall.token(seen)
            if "/token" in seen.path
            else wall.answer(Seen("GET", seen.path, {"host": server.host}, b""))
        )
        registry = opened(server.host)
        for expected in (3, 6):
            with pytest.raises(AccessDenied, match="acme/flux"):
                registry.manifest(channel(server))
            assert len(server.seen) == expected

    def test_a_registry_that_moves_its_token_server_is_followed(
        self, server: HostileRegistry, elsewhere: HostileRegistry, opened: Opened
    ) -> None:
        wall = Wall()
        server.answer = elsewhere.answer = wall.answer
        registry = opened(server.host)
        registry.manifest(channel(server))
        wall.current.clear()
        wall.realm = f"http://{elsewhere.host}/token"
        registry.manifest(channel(server))
        assert [seen.authorization for seen in elsewhere.seen] == [BASIC]

    @pytest.mark.parametrize(
        ("writer", "issued"),
        [pytest.param(None, 1, id="one user, one token"), pytest.param(Credential("writer", "w"), 2, id="two users")],
    )
    def test_what_is_read_after_a_write_needs_no_other_users_token(
        self, server: HostileRegistry, opened: Opened, writer: Credential | None, issued: int
    ) -> None:
        wall = Wall()
        server.answer = wall.answer
        registry = opened(server.host, Source(push=writer))
        with pytest.raises(NotFound):
            registry.put_blob(channel(server), DATA)
        registry.manifest(channel(server))
        assert wall.issued == issued
        assert list(wall.current) == ["repository:acme/flux:pull,push", "repository:acme/flux:pull"][:issued]

    @pytest.mark.parametrize(
        ("writer", "asked"),
        [
            pytest.param(None, ["pull,push"], id="one user, one token"),
            pytest.param(Credential("writer", "w"), ["pull", "pull,push"], id="two users"),
        ],
    )
    def test_a_run_that_writes_asks_for_both_rights_at_once(
        self, server: HostileRegistry, opened: Opened, writer: Credential | None, asked: list[str]
    ) -> None:
        wall = Wall()
        server.answer = wall.answer
        registry = opened(server.host, Writing(Source(push=writer)))
        registry.manifest(channel(server))
        with pytest.raises(NotFound):
            registry.put_blob(channel(server), DATA)
        assert list(wall.current) == [f"repository:acme/flux:{actions}" for actions in asked]

    def test_who_may_only_read_still_does_in_a_run_that_writes(self, server: HostileRegistry, opened: Opened) -> None:
        wall = Wall()

        def only_reads(seen: Seen) -> Reply:
            return Reply(403) if "push" in seen.path else wall.answer(seen)

        server.answer = only_reads
        registry = opened(server.host, Writing(Source()))
        for name in ("acme/flux", "acme/other"):
            assert registry.manifest(channel(server, name)).digest == artifact().digest
        assert list(wall.current) == ["repository:acme/flux:pull", "repository:acme/other:pull"]
        with pytest.raises(AccessDenied, match="gives no token to pull and push acme/flux"):
            registry.put_blob(channel(server), DATA)

    def test_two_repositories_have_a_token_each_also_for_many_threads(
        self, server: HostileRegistry, opened: Opened
    ) -> None:
        wall = Wall()
        server.answer = wall.answer
        registry = opened(server.host)
        channels = [channel(server, name) for name in ("acme/flux", "acme/other")] * 20
        for issued in (2, 4):
            with ThreadPoolExecutor(8) as pool:
                assert set(pool.map(lambda at: registry.manifest(at).digest, channels)) == {artifact().digest}
            assert wall.issued == issued
            wall.current.clear()


class TestBoundToTheHost:
    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    def test_a_redirect_of_a_blob_is_followed_without_credentials(
        self, server: HostileRegistry, elsewhere: HostileRegistry, opened: Opened, status: int
    ) -> None:
        there = Reply(status, headers={"Location": f"http://{elsewhere.host}/storage?signature=secret"})
        server.answer = lambda seen: there if seen.authorization == BASIC else challenge("Basic")
        elsewhere.answer = in_turn(Reply(200, DATA))
        assert opened(server.host).blob(channel(server), LAYER) == DATA
        assert [(seen.path, seen.authorization) for seen in elsewhere.seen] == [("/storage?signature=secret", None)]

    def test_another_host_that_asks_for_credentials_gets_none(
        self, server: HostileRegistry, elsewhere: HostileRegistry, opened: Opened
    ) -> None:
        server.answer = in_turn(Reply(307, headers={"Location": f"http://{elsewhere.host}/x?signature=secret"}))
        elsewhere.answer = in_turn(challenge(f'Bearer realm="http://{elsewhere.host}/token"'))
        source = Source()
        with pytest.raises(AccessDenied) as caught:
            opened(server.host, source).blob(channel(server), LAYER)
        assert elsewhere.host in str(caught.value)
        assert "secret" not in str(caught.value)
        assert source.asked == []
        assert elsewhere.asked == ["GET /x"]

    def test_a_redirect_within_the_registry_keeps_them(self, server: HostileRegistry, opened: Opened) -> None:
        def answer(seen: Seen) -> Reply:
            if seen.authorization != BASIC:
                return challenge("Basic")
            return MANIFEST if seen.path == "/moved" else Reply(302, headers={"Location": "/moved"})

        server.answer = answer
        assert opened(server.host).manifest(channel(server)) == artifact()

    def test_a_redirect_and_back_is_given_up(self, server: HostileRegistry, opened: Opened) -> None:
        server.answer = in_turn(Reply(302, headers={"Location": "/round"}))
        with pytest.raises(UnexpectedAnswer, match="302"):
            opened(server.host).manifest(channel(server))
        assert len(server.seen) == 6

    @pytest.mark.parametrize(
        "location",
        [
            "http://registry.example/x",
            "http://192.0.2.1/x",
            "ftp://127.0.0.1/x",
            "file:///etc/passwd",
            "http://robot:canary-redirect@127.0.0.1/x",
            "http://127.0.0.1:99999/x",
            "http://[::1/x",
            "",
        ],
    )
    def test_a_redirect_off_to_anywhere_is_not_followed(
        self, server: HostileRegistry, opened: Opened, location: str
    ) -> None:
        server.answer = in_turn(Reply(302, headers={"Location": location}))
        with pytest.raises(UnexpectedAnswer) as caught:
            opened(server.host).manifest(channel(server))
        assert "secret" not in str(caught.value)
        assert len(server.seen) == 1

    def test_writes_are_not_redirected(
        self, server: HostileRegistry, elsewhere: HostileRegistry, opened: Opened
    ) -> None:
        server.answer = in_turn(Reply(307, headers={"Location": f"http://{elsewhere.host}/x"}))
        with pytest.raises(UnexpectedAnswer, match="307"):
            opened(server.host).put_manifest(channel(server), artifact())
        assert elsewhere.seen == []

    def test_an_upload_elsewhere_gets_the_bytes_and_no_credentials(
        self, server: HostileRegistry, elsewhere: HostileRegistry, opened: Opened
    ) -> None:
        def answer(seen: Seen) -> Reply:
            if seen.authorization != BASIC:
                return challenge("Basic")
            return (
                Reply(404) if seen.method == "HEAD" else Reply(202, headers={"Location": f"http://{elsewhere.host}/up"})
            )

        server.answer = answer
        elsewhere.answer = in_turn(Reply(201))
        opened(server.host).put_blob(channel(server), DATA)
        assert [(str(seen), seen.body, seen.authorization) for seen in elsewhere.seen] == [("PUT /up", DATA, None)]

    def test_tags_are_not_continued_elsewhere(
        self, server: HostileRegistry, elsewhere: HostileRegistry, opened: Opened
    ) -> None:
        server.answer = in_turn(Reply.json({"tags": ["a"]}, Link=f"<http://{elsewhere.host}/tags>; rel=next"))
        with pytest.raises(UnexpectedAnswer, match="another host"):
            opened(server.host).tags(channel(server))
        assert elsewhere.seen == []

    @pytest.mark.parametrize(
        "realm", ["http://tokens.example/token", "http://192.0.2.1/token", "ftp://127.0.0.1/", "//", "x"]
    )
    def test_a_realm_off_to_plain_http_is_refused(self, server: HostileRegistry, opened: Opened, realm: str) -> None:
        server.answer = in_turn(challenge(f'Bearer realm="{realm}"'))
        with pytest.raises(AccessDenied, match="refuses"):
            opened(server.host).manifest(channel(server))
        assert len(server.seen) == 1

    def test_what_the_registry_quotes_of_our_secrets_is_not_repeated(
        self, server: HostileRegistry, opened: Opened
    ) -> None:
        wall = Wall()

        def answer(seen: Seen) -> Reply:
            if "/token" in seen.path or seen.authorization is None:
                return wall.answer(seen)
            said = f"{seen.authorization} of {PASSWORD} is not good enough"
            return Reply(403, f'{{"errors": [{{"code": "DENIED", "message": "{said}"}}]}}'.encode())

        server.answer = answer
        with pytest.raises(AccessDenied, match="DENIED") as caught:
            opened(server.host).manifest(channel(server))
        assert "canary-token-1" not in str(caught.value)
        assert PASSWORD not in str(caught.value)
        assert "Bearer *** of *** is not good enough" in str(caught.value)
        assert PASSWORD not in repr(ROBOT)

    def test_nor_is_it_where_a_page_quotes_them(self, server: HostileRegistry, opened: Opened) -> None:
        page = Reply(200, f"<p>{PASSWORD} {BASIC}</p>".encode(), {"Content-Type": "text/html"})
        server.answer = lambda seen: page if seen.authorization else challenge("Basic")
        with pytest.raises(UnexpectedAnswer, match=r"<p>\*\*\* Basic \*\*\*</p>"):
            opened(server.host).manifest(channel(server))

    def test_a_netrc_and_the_environments_proxies_are_not_used(
        self,
        server: HostileRegistry,
        elsewhere: HostileRegistry,
        opened: Opened,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        (tmp_path / ".netrc").write_text("machine 127.0.0.1 login robot password canary-netrc\n")
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, f"http://{elsewhere.host}")
        server.answer = in_turn(MANIFEST)
        opened(server.host).manifest(channel(server))
        assert server.seen[0].authorization is None
        assert elsewhere.seen == []


def test_docker_hub_has_another_address_and_a_library(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up = []

    def look_up(host: str, *_: object, **__: object) -> Any:
        looked_up.append(host)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with pytest.raises(Unreachable, match=r"registry-1\.docker\.io"):
        opened("docker.io").resolve(Reference.parse("oci://docker.io/flux:1").at_digest(Digest.of(b"")))
    assert set(looked_up) == {"registry-1.docker.io"}
