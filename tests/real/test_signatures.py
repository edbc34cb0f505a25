"""Cosign accepts what we sign, we accept what cosign signs, and neither takes a signature for another digest."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ci_automation.artifact.reference import Digest
from ci_automation.flows.init import init
from ci_automation.flows.update import update
from ci_automation.policy.model import SignatureFormat
from ci_automation.signing import legacy
from ci_automation.signing.signer import KeySigner
from ci_automation.signing.verify import ensure_signed
from tests.real import program
from tests.real.peers import peer
from tests.real.pipeline import PASSWORD, KeyPair, tag
from tests.real.processes import ProgramFailed, run
from tests.real.registries import distribution

if TYPE_CHECKING:
    from pathlib import Path

    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.ports import Ports
    from tests.real.registries import RealRegistry


class Published:
    """A channel with an artifact of ours, and the two ways to have it verified: by cosign, and by our own program."""

    def __init__(self, channel: Reference, ports: Ports, digest: Digest, pair: program.Pair, keys: KeyPair) -> None:
        self.channel, self.ports, self.digest, self.pair, self.keys = channel, ports, digest, pair, keys

    def named(self, digest: Digest | None = None) -> str:
        """Return how cosign and crane name a digest in the channel's repository."""
        return str(self.channel.at_digest(digest or self.digest)).removeprefix("oci://")

    def signature(self, digest: Digest | None = None) -> str:
        """Return how crane names the signatures of a digest."""
        return str(legacy.signature_reference(self.channel, digest or self.digest)).removeprefix("oci://")

    def ours(self, digest: Digest | None = None) -> program.Done:
        """Return what our program says to a digest."""
        reference = self.channel.at_digest(digest or self.digest)
        return program.flux_manifests("verify", reference, "--public-key", self.pair.public)

    def planted(self, **annotations: str) -> Digest:
        """Return the digest of a manifest like ours that somebody without the key has pushed."""
        manifest = self.ports.registry.manifest(self.channel)
        return program.planted(self.ports.registry, self.channel, manifest, **annotations)

    def sign(self, pair: program.Pair) -> None:
        """Sign the digest with a key."""
        ensure_signed(self.ports.registry, self.channel, self.digest, KeySigner(pair.key), SignatureFormat.LEGACY)

    def signatures(self) -> int:
        """Return how many signatures the digest has."""
        return len(legacy.signatures(self.ports.registry, self.channel, self.digest))


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> program.Pair:
    """Return a key pair in PEM files, the private one without a password."""
    return program.elliptic_key(tmp_path_factory.mktemp("pem"))


@pytest.fixture(params=["PEM", "cosign.key"])
def pair(request: pytest.FixtureRequest, pem: program.Pair, cosign_key: KeyPair) -> program.Pair:
    """Return each kind of key pair in turn."""
    return pem if request.param == "PEM" else program.Pair.read(cosign_key.private, cosign_key.public)


@pytest.fixture
def published(
    any_registry: RealRegistry, repository: str, flux_releases: Path, pair: program.Pair, cosign_key: KeyPair
) -> Published:
    """Return a channel that our program, as a process, has published with the key."""
    channel = program.channel(any_registry.host, repository)
    begin = ("--flux-version", "v2.9.3", "--releases", flux_releases)
    digest = Digest.parse(program.succeed("init", channel, *begin, *pair.signing)["digest"])
    keys = KeyPair(pair.private, pair.public, cosign_key.trusted_root)
    return Published(channel, program.ports(channel, flux_releases, pair), digest, pair, keys)


@pytest.fixture
def unsigned(
    distribution_registry: RealRegistry, repository: str, flux_releases: Path, cosign_key: KeyPair
) -> Published:
    """Return a channel with an artifact of ours that nobody has signed; the key is cosign's own."""
    pair = program.Pair.read(cosign_key.private, cosign_key.public)
    channel = program.channel(distribution_registry.host, repository)
    ports = program.ports(channel, flux_releases, pair)
    wish = program.intent(unsafe_unsigned=True)
    digest = init(channel, program.versions(flux_releases)[-2], replace(ports, signer=None), wish).digest
    return Published(channel, ports, digest, pair, cosign_key)


class TestOursToCosign:
    def test_cosign_accepts_every_digest_that_we_publish(self, published: Published) -> None:
        first = published.digest
        (step,) = update(published.channel, published.ports, program.intent()).plan.steps
        for digest in (first, step.target):
            (claim,) = published.keys.verify(published.named(digest))
            assert claim["critical"]["image"]["docker-manifest-digest"] == str(digest)
            assert published.ours(digest).code == 0

    def test_cosign_refuses_what_another_key_signed(self, published: Published, tmp_path: Path) -> None:
        other = program.elliptic_key(tmp_path)
        with pytest.raises(ProgramFailed, match="no matching signatures"):
            dataclasses.replace(published.keys, public=other.public).verify(published.named())
        done = program.flux_manifests("verify", published.channel, "--public-key", other.public)
        assert (done.code, done.error) == (10, "foreign-signature")

    def test_a_manifest_that_was_changed_has_no_signature(self, published: Published) -> None:
        planted = published.planted(**{"org.opencontainers.image.source": "https://example.com/evil"})
        tag(published.named(planted), "production")
        with pytest.raises(ProgramFailed, match="no signatures found"):
            published.keys.verify(published.named(planted))
        done = published.ours(planted)
        assert (done.code, done.error) == (10, "unsigned")

    def test_a_signature_that_was_copied_to_another_digest_counts_for_neither(self, published: Published) -> None:
        planted = published.planted()
        run([peer("crane"), "copy", published.signature(), published.signature(planted)])
        with pytest.raises(ProgramFailed, match="no matching signatures"):
            published.keys.verify(published.named(planted))
        done = published.ours(planted)
        assert (done.code, done.error) == (10, "foreign-signature")
        assert "it was made for another digest" in done.errors


class TestCosignsToUs:
    def test_a_signature_of_cosign_is_accepted(self, unsigned: Published) -> None:
        assert unsigned.ours().error == "unsigned"
        unsigned.keys.sign(unsigned.named())
        assert unsigned.ours().code == 0

    def test_a_payload_for_another_digest_is_refused_whatever_it_is_attached_to(
        self, unsigned: Published, tmp_path: Path
    ) -> None:
        planted = unsigned.planted()
        payload = tmp_path / "payload.json"
        payload.write_bytes(legacy.payload(unsigned.channel, unsigned.digest))
        options = (f"--key={unsigned.keys.private}", "--tlog-upload=false", "--allow-insecure-registry", "--yes")
        run([peer("cosign"), "sign", *options, "--payload", payload, unsigned.named(planted)], COSIGN_PASSWORD=PASSWORD)
        with pytest.raises(ProgramFailed, match="no matching signatures"):
            unsigned.keys.verify(unsigned.named(planted))
        done = unsigned.ours(planted)
        assert (done.code, done.error) == (10, "foreign-signature")
        assert "it was made for another digest" in done.errors

    def test_with_annotations_it_is_a_signature_all_the_same(self, unsigned: Published) -> None:
        options = (f"--key={unsigned.keys.private}", "--tlog-upload=false", "--allow-insecure-registry", "--yes")
        signed = [peer("cosign"), "sign", *options, "-a", "by=<a> & b", unsigned.named()]
        run(signed, COSIGN_PASSWORD=PASSWORD)
        assert unsigned.ours().code == 0

    def test_it_is_not_signed_again_with_the_same_key(self, unsigned: Published) -> None:
        unsigned.keys.sign(unsigned.named())
        manifest = unsigned.ports.registry.manifest(legacy.signature_reference(unsigned.channel, unsigned.digest))
        unsigned.sign(unsigned.pair)
        after = unsigned.ports.registry.manifest(legacy.signature_reference(unsigned.channel, unsigned.digest))
        assert after == manifest

    def test_it_stays_when_another_key_of_ours_signs_too(self, unsigned: Published, pem: program.Pair) -> None:
        unsigned.keys.sign(unsigned.named())
        unsigned.sign(pem)  # as when keys are changed
        assert unsigned.signatures() == 2
        for public in (unsigned.keys.public, pem.public):
            (claim,) = dataclasses.replace(unsigned.keys, public=public).verify(unsigned.named())
            assert claim["critical"]["image"]["docker-manifest-digest"] == str(unsigned.digest)
            assert program.flux_manifests("verify", unsigned.channel, "--public-key", public).code == 0

    def test_ours_stays_when_cosign_signs_with_another_key(self, unsigned: Published, pem: program.Pair) -> None:
        unsigned.sign(pem)
        unsigned.keys.sign(unsigned.named())
        assert unsigned.signatures() == 2
        assert program.flux_manifests("verify", unsigned.channel, "--public-key", pem.public).code == 0
        assert unsigned.ours().code == 0


def test_the_payload_that_we_sign_has_cosigns_own_bytes(unsigned: Published, tmp_path: Path) -> None:
    """So a check can recompute it, and need not fetch it."""
    payload = tmp_path / "payload.json"
    options = (f"--key={unsigned.keys.private}", "--tlog-upload=false", "--allow-insecure-registry", "--yes")
    arguments = (*options, f"--output-payload={payload}", "--upload=false", unsigned.named())
    run([peer("cosign"), "sign", *arguments], COSIGN_PASSWORD=PASSWORD)
    assert payload.read_bytes() == legacy.payload(unsigned.channel, unsigned.digest)


@pytest.mark.parametrize("command", ["verify", "check", "update", "pull"])
def test_a_manifest_that_the_registry_altered_is_not_used(
    command: str, repository: str, flux_releases: Path, pem: program.Pair, tmp_path: Path
) -> None:
    with distribution(tmp_path / "registry") as registry:
        channel = program.channel(registry.host, repository)
        ports = program.ports(channel, flux_releases, pem)
        digest = init(channel, program.versions(flux_releases)[-2], ports, program.intent()).digest
        stored = tmp_path / f"registry/data/docker/registry/v2/blobs/sha256/{digest.hex[:2]}/{digest.hex}/data"
        stored.write_bytes(stored.read_bytes().replace(b"fluxcd/flux2", b"fluxcd/flux3"))
        before = len(registry.requests)
        more = {
            "verify": ("--public-key", pem.public),
            "check": ("--public-key", pem.public, "--releases", flux_releases),
            "update": (*pem.signing, "--releases", flux_releases),
            "pull": (tmp_path / "pulled", "--public-key", pem.public),
        }
        done = program.flux_manifests(command, channel, *more[command])
        assert (done.code, done.error) == (20, "content-mismatch")
        assert {request.method for request in registry.requests[before:]} == {"GET"}
        assert not (tmp_path / "pulled").exists()
