"""What signing and verifying cost in requests, behind a registry that asks for tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci_automation.artifact.manifest import CONFIG_BLOB, FLUX_CONFIG, FLUX_LAYER, Descriptor, Manifest
from ci_automation.artifact.reference import OciRepository
from ci_automation.policy.model import SignatureFormat
from ci_automation.registry import open_registry
from ci_automation.registry.docker_config import DockerConfig
from ci_automation.signing.cluster import cluster_table
from ci_automation.signing.signer import KeySigner
from ci_automation.signing.verify import ensure_signed, gather, verify
from tests.real import program
from tests.real.registries import RealRegistry, distribution, docker_config
from tests.real.test_requests import REPOSITORY
from tests.real.test_requests import said as named
from tests.real.tokens import READER, WRITER, User

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ci_automation.artifact.reference import Reference
    from ci_automation.registry.port import Registry

LEGACY, BOTH, BUNDLE = SignatureFormat.LEGACY, SignatureFormat.BOTH, SignatureFormat.BUNDLE
DOOR = ["GET channel 401", "GET token 200", "GET channel 200"]
NO_REFERRERS_API = ["GET referrers 404"]


@pytest.fixture
def walled(tmp_path: Path) -> Iterator[RealRegistry]:
    """Yield a registry that asks for tokens, as the public ones do."""
    with distribution(tmp_path / "registry", "token") as registry:
        yield registry


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> KeySigner:
    """Return who signs."""
    return KeySigner(program.elliptic_key(tmp_path_factory.mktemp("key")).key)


@pytest.fixture
def channel(walled: RealRegistry, tmp_path: Path) -> Reference:
    """Return a channel with an artifact that nobody has signed."""
    channel = program.channel(walled.host, REPOSITORY)
    registry = opened(channel, WRITER, tmp_path)
    for blob in (b"layer", CONFIG_BLOB):
        registry.put_blob(channel, blob)
    layers = (Descriptor.of(FLUX_LAYER, b"layer"),)
    registry.put_manifest(channel, Manifest.build(Descriptor.of(FLUX_CONFIG, CONFIG_BLOB), layers))
    return channel


def opened(channel: Reference, user: User, folder: Path) -> Registry:
    """Return the registry, as that user sees it who has not been there yet."""
    host = channel.repository.host if isinstance(channel.repository, OciRepository) else ""
    config = docker_config(folder / user.name, host, user.name, user.password)
    return open_registry(channel, DockerConfig.find({"DOCKER_CONFIG": str(config)}, folder))


def said(registry: RealRegistry) -> list[str]:
    """Return the requests since the last time as a person names them, in their order."""
    found = named(registry)
    registry.proxy.forget()
    return found


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param(LEGACY, ["GET signature 200"], id="a .sig"),
        pytest.param(BOTH, ["GET signature 200"], id="both"),
        pytest.param(
            BUNDLE,
            ["GET signature 404", *NO_REFERRERS_API, "GET fallback 200", "GET digest 200", "GET blob 200"],
            id="a bundle",
        ),
    ],
)
def test_verifying(
    walled: RealRegistry,
    channel: Reference,
    signer: KeySigner,
    written: SignatureFormat,
    expected: list[str],
    tmp_path: Path,
) -> None:
    writing = opened(channel, WRITER, tmp_path)
    ensure_signed(writing, channel, writing.manifest(channel).digest, signer, written)
    said(walled)
    registry = opened(channel, READER, tmp_path)
    assert verify(registry, channel, registry.manifest(channel).digest, signer.trusted).by == signer.who
    requests = said(walled)
    assert requests == [*DOOR, *expected]
    assert len(requests) <= (10 if written is BUNDLE else 8)


@pytest.mark.parametrize(("written", "most"), [(LEGACY, 8), (BOTH, 10), (BUNDLE, 10)])
def test_the_table_of_clusters(
    walled: RealRegistry, channel: Reference, signer: KeySigner, written: SignatureFormat, most: int, tmp_path: Path
) -> None:
    writing = opened(channel, WRITER, tmp_path)
    ensure_signed(writing, channel, writing.manifest(channel).digest, signer, written)
    said(walled)
    registry = opened(channel, READER, tmp_path)
    rows = cluster_table(gather(registry, channel, registry.manifest(channel).digest), signer.trusted)
    accepting = {row.flux for row in rows if row.judgement.accepted}
    assert ("2.7" in accepting, "2.9" in accepting) == (written.has_legacy, True)
    assert len(said(walled)) <= most


@pytest.mark.parametrize(("written", "most"), [(LEGACY, 1), (BUNDLE, 4), (BOTH, 5)])
def test_signing_again_what_is_signed(
    walled: RealRegistry, channel: Reference, signer: KeySigner, written: SignatureFormat, most: int, tmp_path: Path
) -> None:
    registry = opened(channel, WRITER, tmp_path)
    digest = registry.manifest(channel).digest
    ensure_signed(registry, channel, digest, signer, written)
    said(walled)
    ensure_signed(registry, channel, digest, signer, written)
    requests = said(walled)
    assert {request.partition(" ")[0] for request in requests} == {"GET"}
    assert len(requests) <= most
