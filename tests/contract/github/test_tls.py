"""An Enterprise Server with a certificate of its own authority."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ci_automation.github.client import GitHub
from ci_automation.github.commits import Commits
from ci_automation.github.errors import AnswerLost, GitHubUnreachable
from ci_automation.github.waiting import GitHubPatience
from ci_automation.net.network import MissingCertificates, Network
from ci_automation.net.session import Session
from ci_automation.net.values import Call
from ci_automation.net.waiting import Clock, Deadline
from tests.contract.github.conftest import ALL, BRANCH, FLEET
from tests.fakes.forge import Forge

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SIGNS = x509.KeyUsage(
    digital_signature=True,
    key_cert_sign=True,
    crl_sign=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Return a certificate of 127.0.0.1, which is its own authority, with its key beside it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "github.acme.example")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(_SIGNS, critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (tmp_path / "key.pem").write_bytes(key.private_bytes(pem, form, serialization.NoEncryption()))
    (tmp_path / "ca.pem").write_bytes(made.public_bytes(pem))
    return tmp_path / "ca.pem"


@pytest.fixture
def server(certificate: Path) -> Iterator[Forge]:
    """Yield an Enterprise Server over TLS."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    with Forge("ghes") as running:
        assert running._server is not None
        running._server.socket = context.wrap_socket(running._server.socket, server_side=True)
        running.repository(FLEET)
        yield running


def opened(server: Forge) -> GitHub:
    patience = GitHubPatience(clock=Clock(sleep=lambda _: None))
    return GitHub(server.token("actions", FLEET, ALL), over_tls(server), patience=patience)


def over_tls(server: Forge) -> str:
    return server.url.replace("http:", "https:")


def test_its_authority_can_be_trusted(server: Forge, certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    client = opened(server)
    Commits(client, FLEET).create_branch(BRANCH, server.repositories[FLEET].head)
    client.close()
    assert BRANCH in server.repositories[FLEET].branches


def test_without_that_nothing_is_sent(server: Forge) -> None:
    client = opened(server)
    with pytest.raises(GitHubUnreachable, match="certificate is not trusted") as caught:
        Commits(client, FLEET).create_branch(BRANCH, server.repositories[FLEET].head)
    client.close()
    assert not isinstance(caught.value, AnswerLost)
    assert server.requests == []


@pytest.mark.parametrize("name", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_the_environment_does_not_come_before_what_was_given(
    server: Forge, certificate: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "/nowhere/ca.pem")
    with Session(Network(ca_bundle=str(certificate))) as session:
        url = f"{over_tls(server)}/repos/{FLEET}/git/commits/{server.repositories[FLEET].head}"
        headers = {"Authorization": f"token {server.token('actions', FLEET, ALL)}"}
        assert session.answer(Call("GET", url, headers), Deadline(Clock().monotonic() + 10, Clock())).status == 200


def test_a_file_that_is_not_there_is_an_error(server: Forge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "other.pem"))
    with pytest.raises(MissingCertificates, match=r"other\.pem"):
        opened(server)
    assert server.requests == []
