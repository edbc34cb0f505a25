"""Cosign's legacy signatures: which count, and what becomes of those that are there."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from ci_automation.artifact.manifest import CONFIG_BLOB, FLUX_CONFIG, FLUX_LAYER, Descriptor, Manifest
from ci_automation.artifact.reference import Digest, Reference
from ci_automation.policy.model import SignatureFormat
from ci_automation.registry.port import TagMoved
from ci_automation.signing import legacy
from ci_automation.signing.legacy import SignaturesUnreadable
from ci_automation.signing.signer import KeySigner, SignatureUnusable
from ci_automation.signing.trust import TrustedKeys
from ci_automation.signing.verify import ForeignSignature, Unsigned, ensure_signed, verify
from tests.fakes.registry import InMemoryRegistry
from tests.fakes.trust import THEM, US, WrittenSigner, sig_annotations, trust
from tests.fakes.world import CHANNEL, signing_key

if TYPE_CHECKING:
    from ci_automation.signing.keys.private import SigningKey
    from ci_automation.signing.trust import Trusted, Verified

OURS, THEIRS = signing_key(), signing_key("theirs")
KEY = TrustedKeys((OURS.public,))
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


def checked(registry: InMemoryRegistry, digest: Digest, trusted: Trusted = KEY) -> Verified:
    return verify(registry, CHANNEL, digest, trusted, SignatureFormat.LEGACY)


def sign(registry: InMemoryRegistry, digest: Digest, key: SigningKey = OURS) -> Verified:
    return ensure_signed(registry, CHANNEL, digest, KeySigner(key), SignatureFormat.LEGACY)


def test_what_is_not_signed_is_unsigned(registry: InMemoryRegistry, digest: Digest) -> None:
    with pytest.raises(Unsigned, match=str(digest)):
        checked(registry, digest)
    assert legacy.signatures(registry, CHANNEL, digest) == ()


def test_layers_without_a_signature_are_none(registry: InMemoryRegistry, digest: Digest) -> None:
    attach(registry, digest, (b"an SBOM", {"author": "somebody"}), kind="application/octet-stream")
    with pytest.raises(Unsigned):
        checked(registry, digest)


class TestWhatCounts:
    def test_ours(self, registry: InMemoryRegistry, digest: Digest) -> None:
        attach(registry, digest, signed(legacy.payload(CHANNEL, digest)))
        found = checked(registry, digest)
        assert (found.digest, found.by) == (digest, OURS.public.fingerprint)

    def test_without_fetching_the_payload_that_is_known(self, registry: InMemoryRegistry, digest: Digest) -> None:
        attach(registry, digest, signed(legacy.payload(CHANNEL, digest)))
        registry.requests.clear()
        verify(registry, CHANNEL, digest, KEY)
        assert [asked.method for asked in registry.requests] == ["manifest"]

    def test_ours_is_found_first_among_many_that_were_planted(self, registry: InMemoryRegistry, digest: Digest) -> None:
        planted = [signed(payload(digest, planted=number)) for number in range(60)]
        attach(registry, digest, *planted, signed(legacy.payload(CHANNEL, digest)))
        registry.requests.clear()
        checked(registry, digest)
        assert len(registry.requests) == 1

    def test_one_that_was_made_for_a_mirror_of_the_same_digest(
        self, registry: InMemoryRegistry, digest: Digest
    ) -> None:
        attach(registry, digest, signed(payload(digest)))
        assert checked(registry, digest).digest == digest

    def test_one_among_others(self, registry: InMemoryRegistry, digest: Digest) -> None:
        good = legacy.payload(CHANNEL, digest)
        attach(registry, digest, signed(payload(OTHER)), signed(good, THEIRS), (good, {}), signed(good))
        assert checked(registry, digest).by == OURS.public.fingerprint

    def test_one_by_any_of_several_keys(self, registry: InMemoryRegistry, digest: Digest) -> None:
        attach(registry, digest, signed(legacy.payload(CHANNEL, digest)))
        keys = TrustedKeys((THEIRS.public, OURS.public))
        assert checked(registry, digest, keys).by == OURS.public.fingerprint

    def test_one_with_any_remarks(self, registry: InMemoryRegistry, digest: Digest) -> None:
        remarked = payload(digest).replace(b'"creator": "somebody"', b'"a": "1", "A": "2", "Type": "x", "IMAGE": ""')
        attach(registry, digest, signed(remarked))
        assert checked(registry, digest).digest == digest

    def test_one_of_another_media_type_as_cosign_takes_it_too(self, registry: InMemoryRegistry, digest: Digest) -> None:
        attach(registry, digest, signed(legacy.payload(CHANNEL, digest)), kind="application/octet-stream")
        assert checked(registry, digest).by == OURS.public.fingerprint

    def test_a_keyless_one(self, registry: InMemoryRegistry, digest: Digest) -> None:
        good = legacy.payload(CHANNEL, digest)
        attach(registry, digest, (good, sig_annotations(good, THEM)), (good, sig_annotations(good, US)))
        assert checked(registry, digest, trust(US)).by == US


SUBJECT = Digest.of(Manifest.build(Descriptor.of(FLUX_CONFIG, CONFIG_BLOB), (Descriptor.of(FLUX_LAYER, b"layer"),)).raw)
GOOD = legacy.payload(CHANNEL, SUBJECT)
FOR_ANOTHER = payload(OTHER)
NOT_COUNTING: dict[str, tuple[tuple[bytes, dict[str, str]], str, Trusted]] = {
    "another key": (signed(GOOD, THEIRS), "another key made it", KEY),
    "a payload of another digest": (signed(FOR_ANOTHER), "it was made for another digest", KEY),
    "our own payload of another digest": (signed(legacy.payload(CHANNEL, OTHER)), "made for another digest", KEY),
    "a signature of something else": ((GOOD, signed(b"else")[1]), "another key made it", KEY),
    "a payload of another type": (signed(payload(SUBJECT, type="approval")), "it was made for another digest", KEY),
    "a digest that is no text": (signed(payload(SUBJECT, image={"docker-manifest-digest": 1})), "another digest", KEY),
    "a payload that is no JSON": (signed(b"hello"), "it was made for another digest", KEY),
    "a payload that is nested": (signed(b"[" * 50_000), "it was made for another digest", KEY),
    "a payload with a key twice": (signed(payload(SUBJECT).replace(b"{", b'{"critical":1,', 1)), "another digest", KEY),
    "a payload with a key twice to Go": (
        signed(payload(SUBJECT, Image={"docker-manifest-digest": str(OTHER)})),
        "another digest",
        KEY,
    ),
    "a payload with a key in another case": (signed(payload(SUBJECT, TYPE="x")), "another digest", KEY),
    "a payload in UTF-16": (signed(payload(SUBJECT).decode().encode("utf-16")), "another digest", KEY),
    "a huge payload": (signed(payload(SUBJECT) + b" " * (64 << 10)), "its payload is too large", KEY),
    "garbage": ((GOOD, {legacy.SIGNATURE_ANNOTATION: "*** not base64 ***"}), "it is not base64", KEY),
    "base64 beyond ASCII": ((GOOD, {legacy.SIGNATURE_ANNOTATION: "ÄÖÜ="}), "it is not base64", KEY),
    "base64 of nothing": ((GOOD, {legacy.SIGNATURE_ANNOTATION: ""}), "another key made it", KEY),
    "no signature at all": ((GOOD, {}), "another key made it", KEY),
    "a keyless one, for a key": ((GOOD, sig_annotations(GOOD, US)), "another key made it", KEY),
    "a key, for an identity": (signed(GOOD), "made with a key", trust(US)),
    "no log entry": ((GOOD, sig_annotations(GOOD, US) | {legacy.ENTRY_ANNOTATION: ""}), "no entry in a", trust(US)),
    "another identity": (
        (GOOD, sig_annotations(GOOD, THEM)),
        "evil.* made it, which is not a trusted signer",
        trust(US),
    ),
    "a bad certificate": ((GOOD, sig_annotations(GOOD, None)), "not valid when the log recorded it", trust(US)),
    "a certificate's for another text": ((GOOD, sig_annotations(b"else", US)), "did not sign this", trust(US)),
    "a certificate's for another digest": (
        (FOR_ANOTHER, sig_annotations(FOR_ANOTHER, US)),
        "it was made for another digest",
        trust(US),
    ),
}


@pytest.mark.parametrize(("layer", "reason", "trusted"), NOT_COUNTING.values(), ids=list(NOT_COUNTING))
def test_what_does_not_count_says_why(
    registry: InMemoryRegistry, digest: Digest, layer: tuple[bytes, dict[str, str]], reason: str, trusted: Trusted
) -> None:
    assert digest == SUBJECT
    attach(registry, digest, layer)
    with pytest.raises(ForeignSignature, match=reason) as refusal:
        checked(registry, digest, trusted)
    assert str(trusted) in str(refusal.value)
    assert refusal.value.exit_code == 10


class TestSigning:
    def test_once_is_enough(self, registry: InMemoryRegistry, digest: Digest) -> None:
        first = sign(registry, digest)
        registry.requests.clear()
        assert sign(registry, digest) == first
        assert [asked.method for asked in registry.requests] == ["manifest"]
        assert len(legacy.signatures(registry, CHANNEL, digest)) == 1

    def test_keeps_the_signatures_of_others(self, registry: InMemoryRegistry, digest: Digest) -> None:
        sign(registry, digest, THEIRS)
        theirs = legacy.signatures(registry, CHANNEL, digest)
        sign(registry, digest)
        assert legacy.signatures(registry, CHANNEL, digest)[:1] == theirs
        for key in (OURS, THEIRS):
            assert checked(registry, digest, TrustedKeys((key.public,))).by == key.public.fingerprint

    def test_keeps_their_descriptors_byte_for_byte(self, registry: InMemoryRegistry, digest: Digest) -> None:
        """Whatever annotations they have, and in whatever media type they are."""
        good = legacy.payload(CHANNEL, digest)
        more = {"dev.sigstore.cosign/rfc3161timestamp": "{}", "by": "<a> & b"}
        attach(
            registry,
            digest,
            (good, sig_annotations(good, THEM) | more),
            signed(payload(OTHER), THEIRS),
            kind="text/plain",
        )
        before = registry.manifest(legacy.signature_reference(CHANNEL, digest)).raw
        sign(registry, digest)
        after = registry.manifest(legacy.signature_reference(CHANNEL, digest)).raw
        kept = before[before.index(b'"layers":[') : -len(b"]}")]
        assert kept in after

    @pytest.mark.parametrize("where", ["its own", "a layer before", "the config"])
    @pytest.mark.parametrize(
        ("by", "data", "why"),
        [(1, None, "its payload is not there"), (-1, None, "its payload is not there"), (0, b"x", "embeds another")],
        ids=["a larger size", "a smaller size", "other bytes"],
    )
    def test_takes_the_place_of_what_states_another_size_of_the_payload(
        self, registry: InMemoryRegistry, digest: Digest, where: str, by: int, data: bytes | None, why: str
    ) -> None:
        """No cluster reads it, nor a signature over the same payload: see `tests/real/test_judge.py`."""
        sign(registry, digest)
        at = legacy.signature_reference(CHANNEL, digest)
        manifest = registry.manifest(at)
        (layer,) = manifest.layers
        wrong = replace(layer, size=layer.size + by, data=data)
        config = wrong if where == "the config" else manifest.config
        layers = {"its own": (wrong,), "a layer before": (wrong, layer), "the config": (layer,)}[where]
        registry.put_manifest(at, Manifest.build(config, layers))
        with pytest.raises(ForeignSignature, match=why):
            checked(registry, digest)
        assert sign(registry, digest).digest == digest
        now = registry.manifest(at)
        assert (now.config, [(it.digest, it.size) for it in now.layers]) == (
            manifest.config,
            [(layer.digest, layer.size)],
        )

    def test_adds_to_what_does_not_count(self, registry: InMemoryRegistry, digest: Digest) -> None:
        attach(registry, digest, signed(payload(OTHER)))
        sign(registry, digest)
        assert len(legacy.signatures(registry, CHANNEL, digest)) == 2

    def test_writes_what_cosign_writes(self, registry: InMemoryRegistry, digest: Digest) -> None:
        sign(registry, digest)
        manifest = registry.manifest(legacy.signature_reference(CHANNEL, digest))
        (layer,) = manifest.layers
        assert layer.media_type == "application/vnd.dev.cosign.simplesigning.v1+json"
        assert registry.blob(CHANNEL, layer) == legacy.payload(CHANNEL, digest)
        assert set(layer.annotations) == {"dev.cosignproject.cosign/signature"}
        assert manifest.config.media_type == "application/vnd.oci.image.config.v1+json"

    def test_writes_the_annotations_of_whoever_signs(self, registry: InMemoryRegistry, digest: Digest) -> None:
        ensure_signed(registry, CHANNEL, digest, WrittenSigner(), SignatureFormat.LEGACY)
        (layer,) = legacy.signatures(registry, CHANNEL, digest)
        assert dict(layer.annotations) == sig_annotations(legacy.payload(CHANNEL, digest), US)

    def test_needs_no_blob_to_be_there(self, registry: InMemoryRegistry, digest: Digest) -> None:
        """Healing signs what other tools have pushed, with other config blobs."""
        del registry.repositories[str(CHANNEL.repository)].blobs[Digest.of(CONFIG_BLOB)]
        assert sign(registry, digest).digest == digest

    def test_writes_nothing_that_does_not_verify(self, registry: InMemoryRegistry, digest: Digest) -> None:
        registry.requests.clear()
        with pytest.raises(SignatureUnusable, match="not valid when the log recorded it") as refusal:
            ensure_signed(registry, CHANNEL, digest, WrittenSigner(broken=True), SignatureFormat.LEGACY)
        assert refusal.value.exit_code == 22
        assert [asked.method for asked in registry.requests] == ["manifest"]

    @pytest.mark.parametrize(
        "change", [(b'"layers":', b'"Layers":'), (b"manifest.v1", b"other.v1"), (b"}]}", b"}]} ,")]
    )
    def test_never_takes_the_place_of_what_go_may_read(
        self, registry: InMemoryRegistry, digest: Digest, change: tuple[bytes, bytes]
    ) -> None:
        attach(registry, digest, signed(GOOD, THEIRS))
        at = legacy.signature_reference(CHANNEL, digest)
        planted = registry.manifest(at).raw.replace(*change)
        plant(registry, digest, planted)
        with pytest.raises(ForeignSignature, match=r"the \.sig manifest cannot be read"):
            checked(registry, digest)
        with pytest.raises(SignaturesUnreadable, match=r"\.sig cannot be read.*nothing was written") as refusal:
            sign(registry, digest)
        assert refusal.value.exit_code == 10
        assert registry.resolve(at) == Digest.of(planted)

    def test_takes_the_place_of_what_has_no_layers(self, registry: InMemoryRegistry, digest: Digest) -> None:
        plant(registry, digest, b'{"schemaVersion":2,"layers":[]}')
        with pytest.raises(Unsigned):
            checked(registry, digest)
        assert sign(registry, digest).digest == digest

    def test_keeps_as_many_signatures_as_cosign_reads(self, registry: InMemoryRegistry, digest: Digest) -> None:
        made = signed(GOOD, THEIRS)[1]
        attach(registry, digest, *((GOOD, made | {"number": str(number)}) for number in range(999)))
        assert sign(registry, digest).digest == digest
        assert len(legacy.signatures(registry, CHANNEL, digest)) == 1000

    def test_adds_none_to_as_many_signatures_as_cosign_reads(self, registry: InMemoryRegistry, digest: Digest) -> None:
        """With one more it would read none of them."""
        made = signed(GOOD, THEIRS)[1]
        attach(registry, digest, *((GOOD, made | {"number": str(number)}) for number in range(1000)))
        before = registry.resolve(legacy.signature_reference(CHANNEL, digest))
        with pytest.raises(SignaturesUnreadable, match="nothing was written: it has 1000 signatures"):
            sign(registry, digest)
        assert registry.resolve(legacy.signature_reference(CHANNEL, digest)) == before


def plant(registry: InMemoryRegistry, digest: Digest, raw: bytes) -> None:
    """Let the signatures' tag name these bytes."""
    repository = registry.repositories[str(CHANNEL.repository)]
    repository.manifests[Digest.of(raw)] = raw
    repository.tags[legacy.signature_reference(CHANNEL, digest).name] = Digest.of(raw)


def overwriting(registry: InMemoryRegistry, digest: Digest, times: int) -> list[int]:
    """Let another signer overwrite the manifest between our write and our look at it, as often as that."""
    left = [times]

    def overwrite(asked: object) -> None:
        last = registry.requests[-1].method if registry.requests else ""
        if left[0] and last == "put_manifest" and getattr(asked, "method", "") == "manifest":
            left[0] -= 1
            registry.before, before = (lambda _: None), registry.before
            attach(registry, digest, signed(GOOD, THEIRS))
            registry.before = before

    registry.requests.clear()
    registry.before = overwrite
    return left


class TestARace:
    def test_that_is_lost_is_run_again_with_the_same_signature(
        self, registry: InMemoryRegistry, digest: Digest
    ) -> None:
        left = overwriting(registry, digest, 2)
        assert sign(registry, digest).by == OURS.public.fingerprint
        assert left == [0]
        assert len(legacy.signatures(registry, CHANNEL, digest)) == 2  # theirs and ours

    def test_that_the_registry_reports_is_run_again(
        self, registry: InMemoryRegistry, digest: Digest, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        written, put = [], InMemoryRegistry.put_manifest

        def once(self: InMemoryRegistry, reference: Reference, manifest: Manifest) -> Digest:
            written.append(reference)
            if len(written) == 1:
                raise TagMoved(reference, None, OTHER)
            return put(self, reference, manifest)

        monkeypatch.setattr(InMemoryRegistry, "put_manifest", once)
        assert sign(registry, digest).by == OURS.public.fingerprint
        assert len(written) == 2

    def test_that_is_lost_again_and_again_is_no_signature(self, registry: InMemoryRegistry, digest: Digest) -> None:
        overwriting(registry, digest, 3)
        with pytest.raises(ForeignSignature, match="another key made it"):
            sign(registry, digest)


def test_a_planted_signature_whose_payload_is_missing_hides_no_valid_one(
    registry: InMemoryRegistry, digest: Digest
) -> None:
    planted, good = payload(OTHER), payload(digest)
    attach(registry, digest, signed(planted), signed(good))
    del registry.repositories[str(CHANNEL.repository)].blobs[Digest.of(planted)]
    assert checked(registry, digest).digest == digest
