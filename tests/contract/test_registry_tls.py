"""Over TLS, with names and certificates: who is spoken to, and who is shown credentials."""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ci_automation.artifact.manifest import FLUX_LAYER, Descriptor
from ci_automation.artifact.reference import Reference
from ci_automation.net.network import MissingCertificates, Network
from ci_automation.registry.credentials import Credential
from ci_automation.registry.http import HttpRegistry
from ci_automation.registry.port import AccessDenied, UnexpectedAnswer, UnknownTokenHost, Unreachable
from tests.contract.hostile_registry import (
    MANIFEST,
    PASSWORD,
    ROBOT,
    USER,
    HostileRegistry,
    Reply,
    Source,
    Wall,
    challenge,
    in_turn,
)
from tests.contract.registry_contract import artifact

if TYPE_CHECKING:
    from collections.abc import Iterator

BASIC = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
LAYER = Descriptor.of(FLUX_LAYER, b"the bytes of a layer")
Opened = Callable[..., HttpRegistry]


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority: the file of its certificate, and a server's context for some names."""

    bundle: str
    context: ssl.SSLContext


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Return one that vouches for `registry.test` and `tokens.test`."""
    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "registry.test")])
    now = dt.datetime.now(dt.UTC)
    names = [*map(x509.DNSName, ("registry.test", "tokens.test")), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return Authority(str(folder / "cert.pem"), context)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all names of the domain `test` be this machine's, and no other name be known."""
    original = socket.getaddrinfo

    def look_up(host: str, *rest: Any, **more: Any) -> Any:
        if str(host).endswith(".test"):
            return original("127.0.0.1", *rest, **more)
        if host == "127.0.0.1":
            return original(host, *rest, **more)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


@pytest.mark.usefixtures("names")
class TestOverTls:
    @pytest.fixture
    def secure(self, authority: Authority) -> Iterator[HostileRegistry]:
        with HostileRegistry(tls=authority.context) as running:
            yield running

    @pytest.fixture
    def network(self, authority: Authority) -> Network:
        return Network(ca_bundle=authority.bundle)

    def at(self, host: str) -> Reference:
        return Reference.parse(f"oci://{host}/acme/flux:production")

    def test_any_other_host_is_spoken_to_over_tls(
        self, secure: HostileRegistry, opened: Opened, network: Network
    ) -> None:
        secure.answer = lambda seen: MANIFEST if seen.authorization == BASIC else challenge("Basic")
        host = f"registry.test:{secure.port}"
        source = Source()
        assert opened(host, source, network).manifest(self.at(host)) == artifact()
        assert source.asked == [host]

    def test_a_certificate_that_nobody_vouches_for_is_refused(self, secure: HostileRegistry, opened: Opened) -> None:
        host = f"registry.test:{secure.port}"
        with pytest.raises(Unreachable, match="certificate is not trusted: self-signed certificate"):
            opened(host).manifest(self.at(host))
        assert secure.connections == 1

    def test_a_certificate_of_another_name_is_refused(
        self, secure: HostileRegistry, opened: Opened, network: Network
    ) -> None:
        host = f"other.test:{secure.port}"
        with pytest.raises(Unreachable, match=r"certificate is not trusted: .*other\.test"):
            opened(host, None, network).manifest(self.at(host))

    def test_tls_to_a_plain_registry_is_said_so(self, server: HostileRegistry, opened: Opened) -> None:
        host = f"registry.test:{server.port}"
        with pytest.raises(Unreachable, match="does not speak TLS") as caught:
            opened(host).manifest(self.at(host))
        assert host in str(caught.value)
        assert server.seen == []
        assert server.connections == 1

    @pytest.mark.parametrize("host", ["registry.example", "a" * 64 + ".example", "registry.test:99999"])
    def test_an_unknown_host_is_said_so(self, opened: Opened, host: str) -> None:
        with pytest.raises(Unreachable) as caught:
            opened(host).manifest(self.at(host))
        assert host in str(caught.value)

    @pytest.mark.parametrize(
        ("token_host", "credential", "scheme"),
        [
            pytest.param("tokens.test", ROBOT, "Basic", id="a password, where it is configured"),
            pytest.param("tokens.test", Credential("", "", "canary-identity"), None, id="an identity token, too"),
            pytest.param(None, None, None, id="nobody's, wherever it is"),
        ],
    )
    def test_tokens_may_come_from_another_host(
        self,
        secure: HostileRegistry,
        opened: Opened,
        network: Network,
        token_host: str | None,
        credential: Credential | None,
        scheme: str | None,
    ) -> None:
        wall = Wall(realm=f"https://tokens.test:{secure.port}/token")
        secure.answer = wall.answer
        host = f"registry.test:{secure.port}"
        source = Source(credential, token_host=token_host and f"{token_host}:{secure.port}")
        assert opened(host, source, network).manifest(self.at(host)) == artifact()
        assert [seen.headers["host"].partition(":")[0] for seen in secure.seen] == [
            *("registry.test", "tokens.test", "registry.test")
        ]
        assert (secure.seen[1].authorization or "").partition(" ")[0] == (scheme or "")

    @pytest.mark.parametrize(
        "credential",
        [pytest.param(ROBOT, id="a password"), pytest.param(Credential("", "", "canary-id"), id="a token")],
    )
    @pytest.mark.parametrize("token_host", [None, "other.test", "tokens.test"])
    def test_no_credentials_go_to_a_token_server_that_only_the_registry_names(
        self,
        secure: HostileRegistry,
        opened: Opened,
        network: Network,
        credential: Credential,
        token_host: str | None,
    ) -> None:
        secure.answer = Wall(realm=f"https://tokens.test:{secure.port}/token").answer
        host = f"registry.test:{secure.port}"
        with pytest.raises(UnknownTokenHost) as caught:
            opened(host, Source(credential, token_host=token_host), network).manifest(self.at(host))
        assert str(caught.value) == (
            f"{host} asks this run to send its credentials to tokens.test:{secure.port}, another host"
        )
        assert "`tokenHost` under the `credentials` of the artifact" in caught.value.hint
        assert [seen.headers["host"].partition(":")[0] for seen in secure.seen] == ["registry.test"]

    @pytest.mark.parametrize(
        "realm",
        [
            pytest.param("http://registry.test/token", id="itself, without TLS"),
            pytest.param("http://127.0.0.1:{plain}/token", id="loopback, without TLS"),
            pytest.param("https://127.0.0.1:{plain}/token", id="loopback"),
            pytest.param("https://localhost:{plain}/token", id="loopback by name"),
            pytest.param("https://169.254.169.254/latest/meta-data", id="link-local"),
            pytest.param("https://10.0.0.1/token", id="private"),
            pytest.param("https://[::ffff:10.0.0.1]/token", id="private, in the other notation"),
            pytest.param("https://[fe80::1%25eth0]/token", id="link-local, with its zone"),
            pytest.param("https://robot:secret@tokens.test/token", id="with a password in it"),
        ],
    )
    def test_credentials_are_not_taken_into_private_networks(
        self, secure: HostileRegistry, server: HostileRegistry, opened: Opened, network: Network, realm: str
    ) -> None:
        secure.answer = in_turn(challenge(f'Bearer realm="{realm.format(plain=server.port)}"'))
        host = f"registry.test:{secure.port}"
        with pytest.raises(AccessDenied, match="refuses"):
            opened(host, None, network).manifest(self.at(host))
        assert server.connections == 0
        assert len(secure.seen) == 1

    @pytest.mark.parametrize("where", ["http://registry.test:{}/x", "http://127.0.0.1:{}/x", "https://127.0.0.1:{}/x"])
    def test_nothing_is_fetched_off_tls_or_from_private_networks(
        self, secure: HostileRegistry, server: HostileRegistry, opened: Opened, network: Network, where: str
    ) -> None:
        secure.answer = in_turn(Reply(302, headers={"Location": where.format(server.port)}))
        host = f"registry.test:{secure.port}"
        with pytest.raises(UnexpectedAnswer, match="refuses"):
            opened(host, None, network).blob(self.at(host), LAYER)
        assert server.connections == 0

    def test_a_proxy_is_used_as_the_environment_says_and_its_password_kept(
        self, server: HostileRegistry, opened: Opened
    ) -> None:
        server.answer = in_turn(Reply(502))
        environment = {"HTTPS_PROXY": f"http://robot:canary-proxy@{server.host}", "NO_PROXY": "other.test"}
        network = Network.from_environment(environment)
        with pytest.raises(Unreachable, match="proxy") as caught:
            opened("registry.test", None, network).manifest(self.at("registry.test"))
        assert {(seen.method, seen.path) for seen in server.seen} == {("CONNECT", "registry.test:443")}
        assert "secret" not in str(caught.value)
        assert "secret" not in repr(network)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__

    def test_certificates_that_are_not_there_are_the_users_mistake(self, opened: Opened) -> None:
        with pytest.raises(MissingCertificates, match="/no/such/file") as caught:
            opened("registry.test", None, Network(ca_bundle="/no/such/file"))
        assert caught.value.exit_code == 2
