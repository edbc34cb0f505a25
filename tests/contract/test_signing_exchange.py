"""What goes to the services of a Sigstore, and what comes back: never too long, too large, or too far."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from ci_automation.net.network import MissingCertificates, Network
from ci_automation.net.values import Call
from ci_automation.net.waiting import Clock, Patience
from ci_automation.signing.sigstore.exchange import FulcioFailed, ServiceFailed, SigstoreExchange, UnsafeService

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOST = r"127\.0\.0\.1:\d+"


@dataclass
class Server:
    """Answers what it is told to: status, headers, body; a body that is a number is that many seconds of dripping."""

    answers: list[tuple[int, dict[str, str], bytes | float]] = field(default_factory=list)
    seen: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    url: str = ""

    @contextmanager
    def running(self, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
        """Listen on loopback."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                outer.seen.append(
                    (self.command, self.path, {name.lower(): text for name, text in self.headers.items()})
                )
                status, headers, body = outer.answers.pop(0)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                if isinstance(body, bytes):
                    self.wfile.write(body)
                    return
                end = time.monotonic() + body
                while time.monotonic() < end:
                    self.wfile.write(b".")
                    time.sleep(0.02)

            do_GET = do_POST = do_CONNECT = _answer  # noqa: N815  # the names that http.server wants

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that hangs up is no news
            if tls:
                server.socket = tls.wrap_socket(server.socket, server_side=True)
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
            self.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_address[1]}"
            yield self
            server.shutdown()


@pytest.fixture
def server() -> Iterator[Server]:
    with Server().running() as running:
        yield running


@pytest.fixture
def slept() -> list[float]:
    return []


@pytest.fixture
def exchange(slept: list[float]) -> SigstoreExchange:
    return SigstoreExchange(patience=Patience(attempts=3, seconds=60.0, clock=Clock(sleep=slept.append)))


def test_an_answer_comes_with_its_status_headers_and_body(server: Server, exchange: SigstoreExchange) -> None:
    server.answers = [(201, {"Location": "/there"}, b"done")]
    answer = exchange.ask(Call("POST", f"{server.url}/in", {"Accept": "text/plain"}, b"asked"), FulcioFailed)
    assert (answer.status, answer.headers["location"], answer.body) == (201, "/there", b"done")
    method, path, headers = server.seen[0]
    assert (method, path, headers["accept"], headers["user-agent"]) == ("POST", "/in", "text/plain", "flux-manifests")


def test_a_service_that_says_how_long_is_waited_for_as_long(
    server: Server, exchange: SigstoreExchange, slept: list[float]
) -> None:
    server.answers = [(429, {"Retry-After": "7"}, b""), (503, {"Retry-After": "4000"}, b""), (200, {}, b"")]
    exchange.ask(Call("GET", server.url), FulcioFailed)
    assert slept == [7.0, 30.0]


def test_a_redirect_is_not_followed(server: Server, exchange: SigstoreExchange) -> None:
    server.answers = [(307, {"Location": f"{server.url}/elsewhere"}, b"")]
    assert exchange.ask(Call("POST", server.url, {"Authorization": "Bearer t"}, b"x"), FulcioFailed).status == 307
    assert len(server.seen) == 1


def test_an_answer_that_is_too_large_is_cut_off_and_not_asked_for_again(
    server: Server, exchange: SigstoreExchange
) -> None:
    server.answers = [(200, {}, b"x" * 101)]
    with pytest.raises(FulcioFailed, match="more than 100 bytes"):
        exchange.ask(Call("GET", server.url, cap=100), FulcioFailed)
    assert len(server.seen) == 1


def test_headers_without_end_are_not_looked_at(server: Server, exchange: SigstoreExchange) -> None:
    server.answers = [(200, {f"Link-{number}": "<" * 1000 for number in range(70)}, b"")]
    with pytest.raises(FulcioFailed, match="its headers have more than 65536 bytes"):
        exchange.ask(Call("GET", server.url), FulcioFailed)


def test_an_answer_that_drips_without_end_is_given_up(server: Server) -> None:
    server.answers = [(200, {}, 20.0)]
    started = time.monotonic()
    with pytest.raises(FulcioFailed, match="longer than is allowed"):
        SigstoreExchange(patience=Patience(seconds=0.3)).ask(Call("GET", server.url), FulcioFailed)
    assert time.monotonic() - started < 10


def test_a_service_that_says_nothing_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(FulcioFailed, match=rf"Fulcio .*at {HOST} failed: it does not answer in time"):
            SigstoreExchange(patience=Patience(attempts=1, seconds=0.2)).ask(Call("GET", url), FulcioFailed)


def test_where_nothing_listens_that_is_said(exchange: SigstoreExchange, slept: list[float]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as there:
        url = f"http://127.0.0.1:{there.getsockname()[1]}"
    with pytest.raises(FulcioFailed, match="nothing listens there, the last of 3 attempts"):
        exchange.ask(Call("GET", url), FulcioFailed)
    assert slept == [0.5, 1.0]


def test_where_there_is_no_tls_it_is_not_tried_again(
    server: Server, exchange: SigstoreExchange, slept: list[float]
) -> None:
    with pytest.raises(FulcioFailed, match=r"does not speak TLS, and only this machine may use plain HTTP$"):
        exchange.ask(Call("GET", server.url.replace("http:", "https:")), FulcioFailed)
    assert slept == []


@pytest.fixture
def certified(tmp_path: Path) -> Path:
    """A certificate of this machine and its key, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([]), datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(days=1), now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=True)
        .sign(key, SHA256())
    )
    file = tmp_path / "certificate.pem"
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(made.public_bytes(Encoding.PEM) + private)
    return file


def test_only_a_certificate_that_is_trusted_is_spoken_to(certified: Path, slept: list[float]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certified)
    patience = Patience(clock=Clock(sleep=slept.append))
    with Server(answers=[(200, {}, b"yes")]).running(context) as server:
        with pytest.raises(FulcioFailed, match="its certificate is not trusted: self"):
            SigstoreExchange(patience=patience).ask(Call("GET", server.url), FulcioFailed)
        assert (slept, server.seen) == ([], [])
        trusting = SigstoreExchange(Network(ca_bundle=str(certified)), patience)
        assert trusting.ask(Call("GET", server.url), FulcioFailed).body == b"yes"


def test_certificates_that_are_not_there_are_named(tmp_path: Path) -> None:
    exchange = SigstoreExchange(Network(ca_bundle=f"{tmp_path}/absent.pem"))
    with pytest.raises(MissingCertificates, match=r"absent\.pem"):
        exchange.ask(Call("GET", "https://127.0.0.1:1"), FulcioFailed)


def test_a_name_that_is_unknown_is_said(
    exchange: SigstoreExchange, monkeypatch: pytest.MonkeyPatch, slept: list[float]
) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_AGAIN, "canary")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(FulcioFailed, match=r"fulcio\.example failed: its host name cannot .* \(DNS\), the last of 3"):
        exchange.ask(Call("GET", "https://fulcio.example/x?canary"), FulcioFailed)
    assert len(slept) == 2


@pytest.mark.parametrize(
    "url", ["http://fulcio.example", "https://user@fulcio.example", "ftp://fulcio.example", "https://[", "fulcio"]
)
def test_nothing_is_sent_to_an_address_that_is_not_safe(exchange: SigstoreExchange, url: str) -> None:
    with pytest.raises(UnsafeService, match="Fulcio"):
        exchange.ask(Call("GET", url), FulcioFailed)


def test_the_proxy_of_the_environment_is_used_with_its_password_which_is_not_shown(server: Server) -> None:
    server.answers = [(502, {}, b"")]
    proxy = server.url.replace("//", "//user:can%61ry@")
    exchange = SigstoreExchange(Network(https_proxy=proxy), Patience(attempts=1))
    with pytest.raises(FulcioFailed, match="the proxy on the way to it fails") as caught:
        exchange.ask(Call("GET", "https://fulcio.example/x"), FulcioFailed)
    method, target, headers = server.seen[0]
    assert (method, target) == ("CONNECT", "fulcio.example:443")
    assert headers["proxy-authorization"] == "Basic dXNlcjpjYW5hcnk="
    assert "can" not in str(caught.value).removeprefix("Fulcio (certificates)")
    assert "can" not in repr(exchange)


def test_neither_netrc_nor_cookies_add_to_what_is_sent(
    server: Server, exchange: SigstoreExchange, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".netrc").write_text("default login u password canary\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    server.answers = [(200, {"Set-Cookie": "a=canary"}, b""), (200, {}, b"")]
    for _ in range(2):
        exchange.ask(Call("GET", server.url), FulcioFailed)
    assert all("authorization" not in headers and "cookie" not in headers for _, _, headers in server.seen)


def test_what_the_service_was_shown_it_may_not_quote(server: Server, exchange: SigstoreExchange) -> None:
    server.answers = [(500, {}, b'{"message": "no: canary\\u001b[0m"}')] * 3
    with pytest.raises(ServiceFailed, match=r"500: no: \*\*\* \[0m, the last") as caught:
        exchange.ask(Call("GET", server.url, secrets=frozenset({"canary"})), FulcioFailed)
    assert "canary" not in str(caught.value)
