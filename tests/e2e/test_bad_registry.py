"""Registries that fail, lie, or are none: each gives one clear message, its exit code, and nothing is written."""

from __future__ import annotations

import base64
import json
import socket
from typing import TYPE_CHECKING, Any

import pytest

from ci_automation.artifact.manifest import OCI_MANIFEST
from ci_automation.artifact.reference import Digest
from tests.e2e.bad import Bad, told
from tests.e2e.doubles import Said, serving
from tests.fakes.keys import self_signed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.e2e.desk import Desk

LAYER = b"x" * 100
BLOB = {"mediaType": "application/vnd.cncf.flux.content.v1.tar+gzip", "digest": str(Digest.of(LAYER)), "size": 100}
MANIFEST = json.dumps({"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": BLOB, "layers": [BLOB]}).encode()
BASIC = {"WWW-Authenticate": 'Basic realm="registry"'}
JSON = {"Content-Type": OCI_MANIFEST}
LOGIN = base64.b64encode(b"ci:canary-wr0ng-p4ssw0rd").decode()


def always(said: Said) -> Callable[[str, str], Said]:
    return lambda _, __: said


def manifest_then(blob: Said) -> Callable[[str, str], Said]:
    return lambda _, path: Said(200, MANIFEST, JSON) if "/manifests/" in path else blob


LYING = [
    ("no credentials", 20, "access-denied", "wants credentials", always(Said(401, b"", BASIC))),
    ("forbidden", 20, "access-denied", "DENIED", always(Said(403, b'{"errors": [{"code": "DENIED"}]}'))),
    ("not found", 20, "not-found", "was not found", always(Said(404, b"{}"))),
    ("HTML", 20, "unexpected-answer", "text/html", always(Said(200, b"<html>Log in", {"Content-Type": "text/html"}))),
    ("HTML in disguise", 20, "unexpected-answer", "<html>", always(Said(200, b"<html>Log in", JSON))),
    ("not JSON", 10, "invalid-manifest", "not JSON", always(Said(200, b"hello", JSON))),
    ("index", 10, "invalid-manifest", "index", always(Said(200, b'{"schemaVersion": 2, "manifests": []}', JSON))),
    (
        "manifest of another digest",
        20,
        "content-mismatch",
        "got sha256:",
        always(Said(200, MANIFEST, {**JSON, "Docker-Content-Digest": f"sha256:{'0' * 64}"})),
    ),
    ("blob of another digest", 20, "content-mismatch", "got sha256:", manifest_then(Said(200, b"y" * 100))),
    (
        "blob with more in it",
        20,
        "content-mismatch",
        "expected 100 bytes, got more",
        manifest_then(Said(200, LAYER + b"x")),
    ),
    (
        "blob as HTML",
        20,
        "unexpected-answer",
        "text/html",
        manifest_then(Said(200, b"<p>", {"Content-Type": "text/html"})),
    ),
    (
        "blob elsewhere",
        20,
        "unexpected-answer",
        "redirects to an address",
        manifest_then(Said(307, b"", {"Location": "http://evil.invalid/"})),
    ),
    ("endless manifest", 20, "answer-too-long", "bytes", always(Said(200, bytes((4 << 20) + 1), JSON))),
    ("layer is no archive", 10, "not-packed", "not gzip", manifest_then(Said(200, LAYER))),
]


@pytest.mark.parametrize(
    ("exit_code", "code", "message", "answer"), [row[1:] for row in LYING], ids=[row[0] for row in LYING]
)
def test_a_registry_that_fails_or_lies_is_one_message(
    desk: Desk, exit_code: int, code: str, message: str, answer: Callable[[str, str], Said]
) -> None:
    with serving(answer) as double:
        told(desk, ("pull", double.channel, "out"), Bad("", exit_code, code, message))


def test_wrong_credentials_are_told_and_not_repeated(desk: Desk) -> None:
    def answer(_: str, __: str) -> Said:
        return Said(401, b'{"errors": [{"code": "UNAUTHORIZED", "message": "not ' + LOGIN.encode() + b'"}]}', BASIC)

    with serving(answer) as double:
        desk.write("docker.json", json.dumps({"auths": {f"127.0.0.1:{double.port}": {"auth": LOGIN}}}))
        arguments = ("check", double.channel, "--registry-config", "docker.json")
        told(desk, arguments, Bad("", 20, "access-denied", "refuses to read acme/flux-manifests"))
        ran = desk.run(*arguments, "-v")
        assert "hint: The login is the one in docker.json. Correct it" in ran.err
        assert LOGIN not in ran.err + ran.out
        assert "wr0ng" not in ran.err + ran.out


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Know registry.test as this machine, and no other name: nothing here depends on a network."""
    known = socket.getaddrinfo

    def look_up(host: str, *arguments: Any, **keywords: Any) -> Any:
        if host == "registry.test":
            return known("127.0.0.1", *arguments, **keywords)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


@pytest.mark.usefixtures("names")
def test_an_unknown_host_is_told(desk: Desk) -> None:
    told(
        desk,
        ("check", "oci://registry.invalid/a/b:c"),
        Bad("", 20, "unreachable", "registry.invalid could not"),
    )


@pytest.mark.usefixtures("names")
def test_a_registry_elsewhere_is_spoken_to_over_tls_alone(desk: Desk) -> None:
    with serving(always(Said(200, MANIFEST, JSON))) as double:
        channel = f"oci://registry.test:{double.port}/acme/flux:production"
        told(desk, ("check", channel), Bad("", 20, "unreachable", "does not speak TLS"))
        assert double.asked == []


@pytest.mark.usefixtures("names")
def test_a_certificate_that_nobody_vouches_for_is_told(desk: Desk, tmp_path: Path) -> None:
    with serving(always(Said(200, MANIFEST, JSON)), self_signed(tmp_path)) as double:
        channel = f"oci://registry.test:{double.port}/acme/flux:production"
        told(desk, ("check", channel), Bad("", 20, "unreachable", "certificate is not trusted"))
        assert double.asked == []
