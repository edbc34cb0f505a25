"""Sigstore's roots by TUF: asked for once a day, verified each time, and kept when the network fails."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from filelock import FileLock
from msgspec.structs import replace
from securesystemslib.signer import CryptoSigner, SSlibKey
from tuf.api.metadata import (  # type: ignore[attr-defined]  # same
    Metadata,
    MetaFile,
    Root,
    Snapshot,
    TargetFile,
    Targets,
    Timestamp,
)

from ci_automation.net.values import Answer
from ci_automation.signing.sigstore import instance_files, root
from ci_automation.signing.sigstore.instance_files import (
    MAX_AGE_SECONDS,
    PUBLIC_TUF,
    TARGETS,
    TrustRootUnavailable,
    TufFailed,
    TufRepository,
)
from ci_automation.signing.sigstore.root import TrustRoot
from tests.fakes.sigstore import LocalSigstore
from tests.fakes.sigstore.trust import signing_config, trusted_root

if TYPE_CHECKING:
    from pathlib import Path

    from ci_automation.net.values import Call
    from ci_automation.signing.sigstore.exchange import SigstoreExchange

NOW = datetime.now(UTC).replace(microsecond=0)  # TUF's client reads the clock itself
FILES = (b'{"roots": 1}', b'{"services": 1}')
URL = "https://tuf.example"


@dataclass
class Server:
    """A TUF repository, which is also the exchange that asks it; `down` and `status` are what ails it."""

    key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)
    asked: list[str] = field(default_factory=list)
    status: int | None = None
    down: bool = False
    pages: dict[str, bytes] = field(default_factory=dict)
    url: str = URL

    def __post_init__(self) -> None:
        self.publish(1)

    def publish(self, version: int, files: tuple[bytes, ...] = FILES, life: timedelta = timedelta(days=7)) -> None:
        """Publish these files as the newest."""
        signer = CryptoSigner(self.key, SSlibKey.from_crypto(self.key.public_key()))
        expires = NOW + life
        targets = Targets(version, expires=expires)
        for name, data in zip(TARGETS, files, strict=True):
            targets.targets[name] = TargetFile.from_data(name, data)
            self.pages[f"targets/{targets.targets[name].hashes['sha256']}.{name}"] = data
        snapshot = Snapshot(version, expires=expires, meta={"targets.json": MetaFile(version)})
        timestamp = Timestamp(version, expires=expires, snapshot_meta=MetaFile(version))
        root = Root(1, expires=NOW + timedelta(days=365), consistent_snapshot=True)
        for role in ("root", "timestamp", "snapshot", "targets"):
            root.add_key(signer.public_key, role)
        for path, signed in (
            ("1.root.json", root),
            (f"{version}.targets.json", targets),
            (f"{version}.snapshot.json", snapshot),
            ("timestamp.json", timestamp),
        ):
            metadata: Metadata[Any] = Metadata(signed)
            metadata.sign(signer)
            self.pages[path] = metadata.to_bytes()

    def ask(self, call: Call, failed: type[TufFailed]) -> Answer:
        """Answer as the exchange does."""
        path = call.url.removeprefix(f"{self.url}/")
        self.asked.append(path)
        if self.down:
            raise failed("tuf.example", "the connection broke", 4)
        page = self.pages.get(path, b"")
        return Answer(self.status or (200 if page else 404), {}, page, call.url)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def repository(server: Server, tmp_path: Path) -> TufRepository:
    exchange = cast("SigstoreExchange", server)
    return TufRepository(server.pages["1.root.json"], tmp_path / "a/b", exchange, URL, NOW.timestamp)


def later(repository: TufRepository, **age: float) -> TufRepository:
    return replace(repository, now=(NOW + timedelta(**age)).timestamp)


def test_the_first_time_everything_is_asked_for(server: Server, repository: TufRepository) -> None:
    assert repository.targets() == FILES
    assert [path.rpartition(".")[0].rpartition(".")[2] for path in server.asked] == [
        "root",
        "timestamp",
        "snapshot",
        "targets",
        "trusted_root",
        "2",
    ]


@pytest.mark.parametrize("age", [0, MAX_AGE_SECONDS - 1], ids=["at once", "within the day"])
def test_while_it_is_fresh_nobody_is_asked(server: Server, repository: TufRepository, age: float) -> None:
    repository.targets()
    server.asked.clear()
    server.publish(2, (b"{}", b"{}"))
    assert later(repository, seconds=age).targets() == FILES
    assert server.asked == []


@pytest.mark.parametrize("age", [MAX_AGE_SECONDS, -1], ids=["after a day", "when the clock was set back"])
def test_else_the_newest_is_taken(server: Server, repository: TufRepository, age: float) -> None:
    repository.targets()
    server.publish(2, (b'{"roots": 2}', b'{"services": 2}'))
    assert later(repository, seconds=age).targets() == (b'{"roots": 2}', b'{"services": 2}')


def test_where_nothing_changed_only_the_root_and_the_timestamp_are_asked_for(
    server: Server, repository: TufRepository
) -> None:
    repository.targets()
    server.asked.clear()
    assert later(repository, days=2).targets() == FILES
    assert server.asked == ["2.root.json", "timestamp.json"]


@pytest.mark.parametrize("name", [*TARGETS, "timestamp.json", "snapshot.json", "targets.json"])
def test_what_was_tampered_with_in_the_cache_is_asked_for_again(
    server: Server, repository: TufRepository, name: str
) -> None:
    repository.targets()
    file = repository.folder / name
    file.write_bytes(file.read_bytes().replace(b'"', b"'", 1))
    server.asked.clear()
    assert repository.targets() == FILES
    assert server.asked


def test_a_cache_that_somebody_else_signed_is_not_believed(server: Server, repository: TufRepository) -> None:
    theirs = Server()
    theirs.publish(1, (b'{"roots": "theirs"}', b"{}"))
    replace(repository, root=theirs.pages["1.root.json"], exchange=cast("SigstoreExchange", theirs)).targets()
    assert repository.targets() == FILES
    server.down = True
    assert repository.targets() == FILES


@pytest.mark.parametrize("text", ["", "yesterday", "nan", "inf"])
def test_a_note_that_cannot_be_read_is_no_note(server: Server, repository: TufRepository, text: str) -> None:
    repository.targets()
    (repository.folder / "asked-at").write_text(text)
    server.asked.clear()
    repository.targets()
    assert server.asked


@pytest.mark.parametrize("ailing", [{"down": True}, {"status": 500}], ids=["down", "broken"])
def test_when_the_server_fails_what_is_stored_serves_as_long_as_it_holds(
    server: Server, repository: TufRepository, ailing: dict[str, Any]
) -> None:
    repository.targets()
    vars(server).update(ailing)
    assert later(repository, days=2).targets() == FILES


def test_when_the_server_fails_and_nothing_is_stored_it_says_who_and_why(
    server: Server, repository: TufRepository
) -> None:
    server.down = True
    with pytest.raises(
        TrustRootUnavailable, match=r"could not be fetched: .*tuf\.example failed: the connection"
    ) as error:
        repository.targets()
    assert error.value.exit_code == 22
    assert "--trust-config" in error.value.hint


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param({"status": 500}, "answered 500", id="an error"),
        pytest.param({"status": 404}, "not there", id="nothing there"),
        pytest.param({"key": Ed25519PrivateKey.generate()}, "not valid", id="another's signature"),
    ],
)
def test_what_does_not_hold_is_refused(
    server: Server, repository: TufRepository, change: dict[str, Any], reason: str
) -> None:
    vars(server).update(change)
    server.publish(1)
    with pytest.raises(TrustRootUnavailable, match=reason):
        repository.targets()


def test_what_has_expired_is_not_believed_online_or_offline(server: Server, repository: TufRepository) -> None:
    server.publish(1, life=timedelta(seconds=-1))
    for offline in (False, True):
        with pytest.raises(TrustRootUnavailable):
            repository.targets(offline=offline)


def test_offline_what_is_stored_serves_at_any_age_and_nobody_is_asked(
    server: Server, repository: TufRepository
) -> None:
    repository.targets()
    server.asked.clear()
    assert later(repository, days=6).targets(offline=True) == FILES
    assert server.asked == []


def test_offline_without_a_cache_there_is_nothing(server: Server, repository: TufRepository) -> None:
    with pytest.raises(TrustRootUnavailable, match="no cached trust root"):
        repository.targets(offline=True)
    assert server.asked == []


def test_a_repository_without_the_files_is_not_sigstores(
    repository: TufRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ci_automation.signing.sigstore.instance_files.TARGETS", ("another.json",))
    with pytest.raises(TrustRootUnavailable, match=r"has no another\.json"):
        repository.targets()


def test_a_folder_that_cannot_be_written_costs_the_downloads_alone(
    server: Server, repository: TufRepository, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    without = replace(repository, folder=tmp_path / "file/folder")
    for _ in range(2):
        assert without.targets() == FILES
    assert server.asked.count("timestamp.json") == 2
    with pytest.raises(TrustRootUnavailable, match="file/folder cannot be used: Not a directory"):
        without.targets(offline=True)


def test_a_run_that_holds_the_cache_for_too_long_is_not_waited_for(
    repository: TufRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instance_files, "_LOCK_SECONDS", 0.0)
    repository.folder.mkdir(parents=True)
    with FileLock(repository.folder / ".lock"):
        assert repository.targets() == FILES
        with pytest.raises(TrustRootUnavailable, match="another run has locked it"):
            repository.targets(offline=True)


def test_the_folder_is_for_its_owner_alone(repository: TufRepository) -> None:
    repository.targets()
    assert repository.folder.stat().st_mode & 0o077 == 0


def test_the_files_are_what_they_are_in_the_cache(repository: TufRepository) -> None:
    repository.targets()
    assert tuple((repository.folder / name).read_bytes() for name in TARGETS) == FILES
    assert json.loads((repository.folder / "timestamp.json").read_text())["signed"]["version"] == 1


class TestThePublicInstance:
    """A run that signs or verifies by it."""

    @pytest.fixture
    def server(self, monkeypatch: pytest.MonkeyPatch) -> Server:
        """Return the public TUF repository, with another instance's roots in it."""
        local = LocalSigstore()
        files = (trusted_root(local.services, "https://s.example"), signing_config("https://s.example", 1))
        server = Server(url=PUBLIC_TUF)
        server.publish(2, (json.dumps(files[0]).encode(), json.dumps(files[1]).encode()))
        self.bundle = local.sign_bundle(b"{}")
        monkeypatch.setattr("ci_automation.signing.sigstore.instance.shipped", lambda name: server.pages[f"1.{name}"])
        monkeypatch.setattr("ci_automation.signing.sigstore.exchange.SigstoreExchange", lambda _: server)
        return server

    def run(self, folder: Path) -> None:
        root._instance.cache_clear()  # as a new process has none
        public = TrustRoot.public(environment={"XDG_CACHE_HOME": str(folder)})
        assert public.verify_bundle(self.bundle).statement == b"{}"
        assert public.services.fulcio == "https://s.example"

    def test_the_second_run_of_a_day_downloads_nothing(self, server: Server, tmp_path: Path) -> None:
        self.run(tmp_path)
        assert "timestamp.json" in server.asked
        server.asked.clear()
        self.run(tmp_path)
        assert server.asked == []

    def test_without_roots_nothing_is_verified(self, server: Server, tmp_path: Path) -> None:
        server.down = True
        with pytest.raises(TrustRootUnavailable):
            self.run(tmp_path)
