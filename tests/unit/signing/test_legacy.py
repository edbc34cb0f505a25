"""Cosign's legacy signatures: which count, and what becomes of those that are there."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from ci_automation.artifact.digest import Digest
from ci_automation.artifact.manifest import CONFIG_BLOB, FLUX_CONFIG, FLUX_LAYER, Descriptor, Manifest
from ci_automation.artifact.reference import Reference
from ci_automation.signing import legacy
from tests.fakes.registry import InMemoryRegistry
from tests.fakes.world import CHANNEL, signing_key

if TYPE_CHECKING:
    from ci_automation.signing.keys import SigningKey

OURS, THEIRS = signing_key(), signing_key("theirs")
OTHER = Digest.of(b"another artifact")


@pytest.fixture
def registry() -> InMemoryRegistry:
    return InMemoryRegistry()


@pytest.fixture
def digest(registry: InMemoryRegistry) -> Digest:
    """An artifact without signatures."""
    for blob in (b"layer", CONFIG_BLOB):
        registry.put_blob(CHANNEL, blob)
    layers = (Descriptor.of(FLUX_LAYER, b"layer"),)
    return registry.put_manifest(CHANNEL, Manifest.build(Descriptor.of(FLUX_CONFIG, CONFIG_BLOB), layers))


def attach(
    registry: InMemoryRegistry, digest: Digest, *layers: tuple[bytes, dict[str, str]], kind: str = legacy.PAYLOAD_TYPE
) -> None:
    """Attach signatures as anybody may: each a payload and its annotations."""
    for message, _ in layers:
        registry.put_blob(CHANNEL, message)
    described = tuple(Descriptor.of(kind, message, annotations) for message, annotations in layers)
    manifest = Manifest.build(Descriptor.of(FLUX_CONFIG, CONFIG_BLOB), described)
    registry.put_manifest(legacy.signature_reference(CHANNEL, digest), manifest)


def signed(message: bytes, key: SigningKey = OURS) -> tuple[bytes, dict[str, str]]:
    return message, {legacy.SIGNATURE_ANNOTATION: base64.b64encode(key.sign(message)).decode()}


def payload(digest: Digest, **changes: Any) -> bytes:
    """Return a payload as cosign writes one for another repository."""
    value = {
        "critical": {
            "identity": {"docker-reference": "mirror.example/flux"},
            "image": {"docker-manifest-digest": str(digest)},
            "type": "cosign container image signature",
        },
        "optional": {"creator": "somebody"},
    }
    value["critical"].update(changes)  # type: ignore[attr-defined]
    return json.dumps(value).encode()


def test_the_payload_has_cosigns_bytes() -> None:
    digest = Digest.of(b"x")
    assert legacy.payload(CHANNEL, digest) == (
        b'{"critical":{"identity":{"docker-reference":"registry.example/acme/flux-manifests"},'
        b'"image":{"docker-manifest-digest":"' + str(digest).encode() + b'"},'
        b'"type":"cosign container image signature"},"optional":null}'
    )
    assert b'"docker-reference":"localhost/layout"' in legacy.payload(Reference.parse("layout:/tmp/x:y"), digest)


def test_the_signature_is_beside_the_digest() -> None:
    digest = Digest.of(b"x")
    assert str(legacy.signature_reference(CHANNEL, digest)) == f"{CHANNEL.repository}:sha256-{digest.hex}.sig"


def test_what_is_not_signed_is_unsigned(registry: InMemoryRegistry, digest: Digest) -> None:
    with pytest.raises(legacy.Unsigned, match=str(digest)):
        legacy.verify(registry, CHANNEL, digest, OURS.public)
    assert legacy.signatures(registry, CHANNEL, digest) == ()


def test_layers_of_another_kind_are_no_signatures(registry: InMemoryRegistry, digest: Digest) -> None:
    attach(registry, digest, signed(legacy.payload(CHANNEL, digest)), kind="application/octet-stream")
    with pytest.raises(legacy.Unsigned):
        legacy.verify(registry, CHANNEL, digest, OURS.public)


class TestWhatCounts:
    def test_ours(self, registry: InMemoryRegistry, digest: Digest) -> None:
        attach(registry, digest, signed(legacy.payload(CHANNEL, digest)))
        found = legacy.verify(registry, CHANNEL, digest, OURS.public)
        assert (found.digest, found.key) == (digest, OURS.public.fingerprint)

    def test_without_fetching_the_payload_that_is_known(self, registry: InMemoryRegistry, digest: Digest) -> None:
        attach(registry, digest, signed(legacy.payload(CHANNEL, digest)))
        registry.requests.clear()
        legacy.verify(registry, CHANNEL, digest, OURS.public)
        assert [asked.method for asked in registry.requests] == ["manifest"]

    def test_one_that_was_made_for_a_mirror_of_the_same_digest(
        self, registry: InMemoryRegistry, digest: Digest
    ) -> None:
        attach(registry, digest, signed(payload(digest)))
        assert legacy.verify(registry, CHANNEL, digest, OURS.public).digest == digest

    def test_one_among_others(self, registry: InMemoryRegistry, digest: Digest) -> None:
        good = legacy.payload(CHANNEL, digest)
        attach(registry, digest, signed(payload(OTHER)), signed(good, THEIRS), (good, {}), signed(good))
        assert legacy.verify(registry, CHANNEL, digest, OURS.public).key == OURS.public.fingerprint


SUBJECT = Digest.of(Manifest.build(Descriptor.of(FLUX_CONFIG, CONFIG_BLOB), (Descriptor.of(FLUX_LAYER, b"layer"),)).raw)
GOOD = legacy.payload(CHANNEL, SUBJECT)
NOT_COUNTING = {
    "another key": (signed(GOOD, THEIRS), "another key made it"),
    "a payload of another digest": (signed(payload(OTHER)), "it was made for another digest"),
    "our own payload of another digest": (signed(legacy.payload(CHANNEL, OTHER)), "it was made for another digest"),
    "a signature of something else": ((GOOD, signed(b"else")[1]), "another key made it"),
    "a payload of another type": (signed(payload(SUBJECT, type="approval")), "it was made for another digest"),
    "a digest that is no text": (signed(payload(SUBJECT, image={"docker-manifest-digest": 1})), "another digest"),
    "a payload that is no JSON": (signed(b"hello"), "it was made for another digest"),
    "a payload that is nested": (signed(b"[" * 50_000), "it was made for another digest"),
    "a huge payload": (signed(payload(SUBJECT) + b" " * (64 << 10)), "its payload is too large"),
    "garbage": ((GOOD, {legacy.SIGNATURE_ANNOTATION: "*** not base64 ***"}), "it is not base64"),
    "base64 beyond ASCII": ((GOOD, {legacy.SIGNATURE_ANNOTATION: "ÄÖÜ="}), "it is not base64"),
    "base64 of nothing": ((GOOD, {legacy.SIGNATURE_ANNOTATION: ""}), "another key made it"),
    "no signature at all": ((GOOD, {}), "another key made it"),
}


@pytest.mark.parametrize(("layer", "reason"), NOT_COUNTING.values(), ids=list(NOT_COUNTING))
def test_what_does_not_count_says_why(
    registry: InMemoryRegistry, digest: Digest, layer: tuple[bytes, dict[str, str]], reason: str
) -> None:
    assert digest == SUBJECT
    attach(registry, digest, layer)
    with pytest.raises(legacy.ForeignSignature, match=reason) as refusal:
        legacy.verify(registry, CHANNEL, digest, OURS.public)
    assert str(OURS.public.fingerprint) in str(refusal.value)
    assert refusal.value.exit_code == 10


class TestSigning:
    def test_once_is_enough(self, registry: InMemoryRegistry, digest: Digest) -> None:
        first = legacy.ensure_signed(registry, CHANNEL, digest, OURS)
        registry.requests.clear()
        assert legacy.ensure_signed(registry, CHANNEL, digest, OURS) == first
        assert {asked.method for asked in registry.requests} == {"put_blob", "manifest"}  # the blob is there already
        assert len(legacy.signatures(registry, CHANNEL, digest)) == 1

    def test_keeps_the_signatures_of_others(self, registry: InMemoryRegistry, digest: Digest) -> None:
        legacy.ensure_signed(registry, CHANNEL, digest, THEIRS)
        theirs = legacy.signatures(registry, CHANNEL, digest)
        legacy.ensure_signed(registry, CHANNEL, digest, OURS)
        assert legacy.signatures(registry, CHANNEL, digest)[:1] == theirs
        for key in (OURS, THEIRS):
            assert legacy.verify(registry, CHANNEL, digest, key.public).key == key.public.fingerprint

    def test_adds_to_what_does_not_count(self, registry: InMemoryRegistry, digest: Digest) -> None:
        attach(registry, digest, signed(payload(OTHER)))
        legacy.ensure_signed(registry, CHANNEL, digest, OURS)
        assert len(legacy.signatures(registry, CHANNEL, digest)) == 2

    def test_writes_what_cosign_writes(self, registry: InMemoryRegistry, digest: Digest) -> None:
        legacy.ensure_signed(registry, CHANNEL, digest, OURS)
        manifest = registry.manifest(legacy.signature_reference(CHANNEL, digest))
        (layer,) = manifest.layers
        assert layer.media_type == "application/vnd.dev.cosign.simplesigning.v1+json"
        assert registry.blob(CHANNEL, layer) == legacy.payload(CHANNEL, digest)
        assert set(layer.annotations) == {"dev.cosignproject.cosign/signature"}
        assert manifest.config.media_type == "application/vnd.oci.image.config.v1+json"

    def test_is_not_believed_before_it_was_read_back(self, registry: InMemoryRegistry, digest: Digest) -> None:
        """Another signer overwrites the manifest between our write and our look at it."""

        def overwrite(asked: object) -> None:
            written = [call for call in registry.requests if call.method == "put_manifest"]
            if len(written) == 1 and getattr(asked, "method", "") == "manifest":
                registry.before = lambda _: None
                attach(registry, digest, signed(GOOD, THEIRS))

        registry.requests.clear()
        registry.before = overwrite
        with pytest.raises(legacy.ForeignSignature, match="another key made it"):
            legacy.ensure_signed(registry, CHANNEL, digest, OURS)


def test_a_planted_signature_whose_payload_is_missing_hides_no_valid_one(
    registry: InMemoryRegistry, digest: Digest
) -> None:
    planted, good = legacy.payload(CHANNEL, OTHER), legacy.payload(CHANNEL, digest)
    attach(registry, digest, signed(planted), signed(good))
    del registry.repositories[str(CHANNEL.repository)].blobs[Digest.of(planted)]
    assert legacy.verify(registry, CHANNEL, digest, OURS.public).digest == digest
