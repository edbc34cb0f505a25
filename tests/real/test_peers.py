"""The real programs are what the rest of the tier takes them for."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING

import pytest
import requests

from tests.real import peers
from tests.real.peers import BY_NAME, PEERS, Peer, PeerMissing, peer
from tests.real.pipeline import KeyPair, push
from tests.real.processes import Daemon, ProgramFailed, run
from tests.real.proxy import Drop, Request, kill_after
from tests.real.registries import PASSWORD, USER, RealRegistry, distribution, docker_config
from tests.real.tokens import ANYBODY, PATH, READER, SERVICE, WRITER, TokenRequest, TokenServer, User

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NOBODY = "sha256:" + "0" * 64
OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
TIMEOUT = 10


@pytest.fixture(params=[False, True], ids=["tokens from its own host", "tokens from another host"])
def guarded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RealRegistry]:
    """Yield a registry that asks for tokens."""
    with distribution(tmp_path / "guarded", "token", TokenServer(apart=request.param)) as registry:
        yield registry


@pytest.fixture
def log_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[RealRegistry, User], None]:
    """Return the function that makes every program that follows speak to a registry as a user."""

    def as_user(registry: RealRegistry, user: User) -> None:
        folder = docker_config(tmp_path / "docker", registry.host, user.name, user.password)
        monkeypatch.setenv("DOCKER_CONFIG", str(folder))

    return as_user


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    """Return a folder with one manifest."""
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / "one.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one, namespace: default}\n")
    return folder


class TestPrograms:
    @pytest.mark.parametrize("wanted", [p for p in PEERS if p.greeting], ids=lambda wanted: wanted.name)
    def test_says_the_version_that_the_tests_were_made_for(self, wanted: Peer) -> None:
        done = subprocess.run([peer(wanted.name), *wanted.greeting], capture_output=True, text=True, check=False)
        said = done.stdout + done.stderr
        pattern = {"etcd": r"etcd Version: 3\.\d+", "kubectl": r"Client Version: .*v1\.\d+"}.get(wanted.name)
        if wanted.name.endswith("-controller"):
            pattern = "--watch-all-namespaces"
        assert re.search(pattern or rf"\bv?{re.escape(wanted.version)}\b", said), said

    @pytest.mark.parametrize(
        ("span", "version", "valid", "match"),
        [
            pytest.param(">=2.0.0", "v2.9.4", True, True, id="in range, with the v of a tag"),
            pytest.param("2.8.x", "v2.9.4", True, False, id="not in range"),
            pytest.param(">=2.0.0", "2.10.0-rc.1", True, False, id="a prerelease is in no range that names none"),
            pytest.param(">=2.0.0-0", "2.10.0-rc.1", True, True, id="a prerelease where the range names one"),
            pytest.param("not a range", "2.9.4", False, False, id="no range"),
            pytest.param(">=2.0.0", "2.9", False, False, id="no version: Flux wants three numbers"),
        ],
    )
    def test_masterminds_answers(self, *, span: str, version: str, valid: bool, match: bool) -> None:
        answer = json.loads(run([peer("masterminds")], json.dumps({"range": span, "version": version})))
        assert (answer["valid"], answer["match"], bool(answer["error"])) == (valid, match, not valid)

    def test_a_missing_peer_names_the_command_that_makes_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(peers, "cache", lambda: tmp_path)
        with pytest.raises(PeerMissing, match=r"python tests/real/peers.py cosign$"):
            peer("cosign")

    def test_a_missing_system_program_names_its_package(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(PeerMissing, match=r"apt-get install etcd-server$"):
            peer("etcd")

    def test_a_build_that_fails_leaves_no_peer_and_shows_its_log(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(peers, "cache", lambda: tmp_path / "cache")
        monkeypatch.setattr(peers, "PROGRAMS", tmp_path / "programs")
        broken = tmp_path / "programs" / "masterminds"
        broken.mkdir(parents=True)
        (broken / "main.go").write_text("package main\n\nfunc main() { nowhere() }\n")
        (broken / "go.mod").write_text("module masterminds\n\ngo 1.26.0\n")
        assert peers.main(["masterminds"]) == 1
        assert "undefined: nowhere" in capsys.readouterr().err
        assert not BY_NAME["masterminds"].there
        assert [path.name for path in peers.cache().iterdir() if path.is_dir()] == []

    def test_what_is_there_is_not_built_again(self) -> None:
        program = peer("masterminds")
        before = program.stat().st_mtime_ns
        script = [sys.executable, peers.__file__, "masterminds"]
        assert run(script, PATH="/nonexistent").strip().endswith(": there")
        assert program.stat().st_mtime_ns == before


class TestRegistries:
    @pytest.mark.parametrize(
        ("auth", "challenge"),
        [
            pytest.param("htpasswd", 'Basic realm="a registry with passwords"', id="passwords"),
            pytest.param("token", f',service="{SERVICE}"', id="tokens"),
        ],
    )
    def test_a_stranger_is_challenged(self, auth: str, challenge: str, tmp_path: Path) -> None:
        with distribution(tmp_path / "registry", auth) as registry:
            answer = requests.get(f"http://{registry.host}/v2/", timeout=TIMEOUT)
        assert answer.status_code == HTTPStatus.UNAUTHORIZED
        assert challenge in answer.headers["WWW-Authenticate"]

    def test_whoever_knows_the_password_is_let_in(self, tmp_path: Path) -> None:
        with distribution(tmp_path / "registry", "htpasswd") as registry:
            known = requests.get(f"http://{registry.host}/v2/", auth=(USER, PASSWORD), timeout=TIMEOUT)
            unknown = requests.get(f"http://{registry.host}/v2/", auth=(USER, "wrong"), timeout=TIMEOUT)
        assert (known.status_code, unknown.status_code) == (HTTPStatus.OK, HTTPStatus.UNAUTHORIZED)

    def test_an_open_registry_lets_everybody_in(self, any_registry: RealRegistry) -> None:
        assert requests.get(f"http://{any_registry.host}/v2/", timeout=TIMEOUT).status_code == HTTPStatus.OK

    def test_just_one_of_them_has_the_referrers_api(
        self, distribution_registry: RealRegistry, referrers_registry: RealRegistry, repository: str, manifests: Path
    ) -> None:
        statuses = []
        for registry in (distribution_registry, referrers_registry):
            push(f"{registry.host}/{repository}:one", manifests)
            answer = requests.get(f"http://{registry.host}/v2/{repository}/referrers/{NOBODY}", timeout=TIMEOUT)
            statuses.append(answer.status_code)
        assert statuses == [HTTPStatus.NOT_FOUND, HTTPStatus.OK]

    def test_what_was_stored_is_there_after_a_restart(self, tmp_path: Path, manifests: Path) -> None:
        with distribution(tmp_path / "registry") as registry:
            digest = push(f"{registry.host}/tests/kept:one", manifests)
        with distribution(tmp_path / "registry") as registry:
            assert run([peer("crane"), "digest", f"{registry.host}/tests/kept:one"]).strip() == digest


class TestTokens:
    def test_flux_and_crane_write_with_tokens_for_just_that(
        self, guarded: RealRegistry, log_in: Callable[[RealRegistry, User], None], manifests: Path
    ) -> None:
        assert guarded.tokens is not None
        log_in(guarded, WRITER)
        push(f"{guarded.host}/tests/tokens:one", manifests)
        run([peer("crane"), "tag", f"{guarded.host}/tests/tokens:one", "two"])
        scopes = [(f"repository:tests/tokens:{actions}",) for actions in ("pull", "push,pull")]
        assert set(guarded.tokens.requests) == {TokenRequest(WRITER.name, scope, HTTPStatus.OK) for scope in scopes}

    def test_cosign_signs_and_a_reader_verifies(
        self,
        guarded: RealRegistry,
        log_in: Callable[[RealRegistry, User], None],
        manifests: Path,
        cosign_key: KeyPair,
    ) -> None:
        log_in(guarded, WRITER)
        reference = f"{guarded.host}/tests/signed@{push(f'{guarded.host}/tests/signed:one', manifests)}"
        cosign_key.sign(reference)
        log_in(guarded, READER)
        assert len(cosign_key.verify(reference)) == 1

    @pytest.mark.parametrize(
        "user",
        [
            pytest.param(READER, id="a reader may not push"),
            pytest.param(replace(WRITER, password=""), id="without the password a name is nobody's"),
        ],
    )
    def test_a_push_without_the_right_is_refused(
        self, user: User, guarded: RealRegistry, log_in: Callable[[RealRegistry, User], None], manifests: Path
    ) -> None:
        log_in(guarded, user)
        with pytest.raises(ProgramFailed, match=r"(?i)unauthorized"):
            push(f"{guarded.host}/tests/refused:one", manifests)

    @pytest.mark.parametrize(
        ("user", "granted"),
        [
            pytest.param(WRITER, ["pull", "push"], id="all that was asked, no more"),
            pytest.param(READER, ["pull"], id="the part that the user may"),
            pytest.param(ANYBODY, [], id="nothing to a stranger"),
        ],
    )
    def test_a_token_is_for_what_was_asked_and_allowed(self, user: User, granted: list[str]) -> None:
        with TokenServer() as tokens:
            question = {"service": SERVICE, "scope": "repository:tests/one:pull,push"}
            auth = (user.name, user.password) if user.name else None
            token = requests.get(f"http://{tokens.host}{PATH}", question, auth=auth, timeout=TIMEOUT).json()
        claims = json.loads(base64.urlsafe_b64decode(token["token"].split(".")[1] + "=="))
        access = [{"type": "repository", "name": "tests/one", "actions": granted}]
        assert claims["access"] == (access if granted else [])

    @pytest.mark.parametrize(
        ("lifetime", "status"),
        [
            pytest.param(300, HTTPStatus.NOT_FOUND, id="good: the repository is not there"),
            pytest.param(-1, HTTPStatus.UNAUTHORIZED, id="run out a second ago"),
        ],
    )
    def test_a_token_is_good_for_its_lifetime(self, lifetime: int, status: HTTPStatus, tmp_path: Path) -> None:
        scope = "repository:tests/nothing:pull"
        with distribution(tmp_path / "registry", "token", TokenServer(lifetime=lifetime)) as registry:
            question = {"service": SERVICE, "scope": scope}
            user = (READER.name, READER.password)
            token = requests.get(f"http://{registry.host}{PATH}", question, auth=user, timeout=TIMEOUT).json()["token"]
            address = f"http://{registry.host}/v2/tests/nothing/manifests/one"
            answer = requests.get(address, headers={"Authorization": f"Bearer {token}"}, timeout=TIMEOUT)
        assert answer.status_code == status


class TestProxy:
    def test_writes_down_what_was_on_the_wire(self, tmp_path: Path) -> None:
        with distribution(tmp_path / "registry") as registry:
            upload = requests.post(f"http://{registry.host}/v2/tests/wire/blobs/uploads/", timeout=TIMEOUT)
            requests.head(f"http://{registry.host}/v2/tests/wire/blobs/{NOBODY}?a=b", timeout=TIMEOUT)
            assert registry.requests == [
                Request("POST", "/v2/tests/wire/blobs/uploads/", HTTPStatus.ACCEPTED),
                Request("HEAD", f"/v2/tests/wire/blobs/{NOBODY}?a=b", HTTPStatus.NOT_FOUND),
            ]
            assert upload.headers["Location"].startswith(f"http://{registry.host}/v2/tests/wire/blobs/uploads/")

    @pytest.mark.parametrize("chunked", [False, True], ids=["with a length", "in chunks"])
    def test_large_bodies_pass_unchanged(self, *, chunked: bool, any_registry: RealRegistry, repository: str) -> None:
        body = bytes(range(256)) * 40_000
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        base = f"http://{any_registry.host}/v2/{repository}/blobs"
        with requests.Session() as session:
            upload = session.post(f"{base}/uploads/", timeout=TIMEOUT).headers["Location"]
            upload = requests.compat.urljoin(base, upload)
            sent = session.patch(upload, data=iter([body[:7], body[7:]]) if chunked else body, timeout=TIMEOUT)
            upload = requests.compat.urljoin(base, sent.headers["Location"])
            done = session.put(upload, params={"digest": digest}, timeout=TIMEOUT)
            assert done.status_code == HTTPStatus.CREATED
            assert session.get(f"{base}/{digest}", timeout=TIMEOUT).content == body

    @pytest.mark.parametrize(
        ("when", "happened"),
        [
            pytest.param("before", False, id="before it reached the registry"),
            pytest.param("after", True, id="when the registry had done it"),
        ],
    )
    def test_a_request_can_be_lost(self, *, when: str, happened: bool, tmp_path: Path, manifests: Path) -> None:
        def lose(_number: int, method: str, *_: object) -> None:
            if method == "DELETE":
                raise Drop

        with distribution(tmp_path / "registry") as registry:
            digest = push(f"{registry.host}/tests/lost:one", manifests)
            address = f"http://{registry.host}/v2/tests/lost/manifests/{digest}"
            setattr(registry.proxy, when, lose)
            with pytest.raises(requests.ConnectionError):
                requests.delete(address, timeout=TIMEOUT)
            there = requests.head(address, headers={"Accept": OCI_MANIFEST}, timeout=TIMEOUT).status_code
            assert (there == HTTPStatus.NOT_FOUND) == happened
            assert registry.requests[-2].status == 0

    def test_a_client_can_be_killed_at_its_nth_request(self, tmp_path: Path, manifests: Path) -> None:
        with distribution(tmp_path / "registry") as registry:
            push(f"{registry.host}/tests/killed:one", manifests)
            registry.proxy.forget()
            client: Future[Daemon] = Future()
            registry.proxy.after = kill_after(2, lambda: client.result(TIMEOUT).kill())
            copy = [peer("crane"), "copy", f"{registry.host}/tests/killed:one", f"{registry.host}/tests/killed:two"]
            with Daemon(copy, tmp_path / "crane.log") as crane:
                client.set_result(crane)
                assert crane.wait() == -signal.SIGKILL
            assert [request.status > 0 for request in registry.requests] == [True, False]

    def test_requests_can_be_held_until_all_are_there(self, tmp_path: Path) -> None:
        barrier = threading.Barrier(3, timeout=TIMEOUT)
        with distribution(tmp_path / "registry") as registry, ThreadPoolExecutor(3) as clients:

            def hold(*_: object) -> None:
                barrier.wait()

            registry.proxy.before = hold
            address = f"http://{registry.host}/v2/"
            answers = [clients.submit(requests.get, address, timeout=TIMEOUT) for _ in range(3)]
            assert [answer.result().status_code for answer in answers] == [HTTPStatus.OK] * 3


class TestPipeline:
    def test_what_flux_pushed_and_cosign_signed_verifies(
        self, any_registry: RealRegistry, repository: str, manifests: Path, cosign_key: KeyPair
    ) -> None:
        digest = push(f"{any_registry.host}/{repository}:one", manifests)
        reference = f"{any_registry.host}/{repository}@{digest}"
        with pytest.raises(ProgramFailed, match="no signatures found"):
            cosign_key.verify(reference)
        cosign_key.sign(reference)
        (claim,) = cosign_key.verify(reference)
        assert claim["critical"]["image"]["docker-manifest-digest"] == digest

    def test_another_key_does_not_verify(
        self, any_registry: RealRegistry, repository: str, manifests: Path, cosign_key: KeyPair, tmp_path: Path
    ) -> None:
        reference = f"{any_registry.host}/{repository}@{push(f'{any_registry.host}/{repository}:one', manifests)}"
        KeyPair.make(tmp_path / "another").sign(reference)
        with pytest.raises(ProgramFailed, match="no matching signatures"):
            cosign_key.verify(reference)
