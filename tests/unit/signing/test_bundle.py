"""Sigstore bundles: which Flux takes notice of, which count, and what is written."""

from __future__ import annotations

import base64
import gzip
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from ci_automation.artifact.manifest import CONFIG_BLOB, FLUX_CONFIG, FLUX_LAYER, Descriptor, Manifest
from ci_automation.artifact.reference import Digest
from ci_automation.policy.model import SignatureFormat
from ci_automation.signing import bundle
from ci_automation.signing.bundle import BUNDLE_TYPE, SIGNATURE_PREDICATE
from ci_automation.signing.bundle_format import Bundle, Envelope
from ci_automation.signing.signer import KeySigner, SignatureUnusable
from ci_automation.signing.trust import TrustedKeys
from ci_automation.signing.verify import ForeignSignature, Unsigned, ensure_signed, verify
from tests.fakes.registry import InMemoryRegistry
from tests.fakes.trust import THEM, US, WrittenSigner, trust
from tests.fakes.trust import bundle as keyless
from tests.fakes.world import CHANNEL, signing_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_automation.signing.trust import Trusted, Verified

OURS, THEIRS = signing_key(), signing_key("theirs")
KEY, ONE = TrustedKeys((OURS.public,)), trust(US)
ARTIFACT = Manifest.build(Descriptor.of(FLUX_CONFIG, CONFIG_BLOB), (Descriptor.of(FLUX_LAYER, b"layer"),))
DIGEST, OTHER = ARTIFACT.digest, Digest.of(b"another artifact")
STATEMENT = bundle.statement(DIGEST)
SIGNED = bundle.signed_with_key(STATEMENT, OURS)


@pytest.fixture
def registry() -> InMemoryRegistry:
    """A registry with an artifact that has no signatures."""
    registry = InMemoryRegistry()
    for blob in (b"layer", CONFIG_BLOB):
        registry.put_blob(CHANNEL, blob)
    registry.put_manifest(CHANNEL, ARTIFACT)
    return registry


def attach(
    registry: InMemoryRegistry,
    *layers: bytes,
    kind: str = BUNDLE_TYPE,
    artifact_type: str = BUNDLE_TYPE,
    annotations: dict[str, str] | None = None,
) -> Manifest:
    """Attach a referrer as anybody may."""
    for blob in (bundle.EMPTY_BLOB, *layers):
        registry.put_blob(CHANNEL, blob)
    manifest = Manifest.build(
        Descriptor.of(bundle.EMPTY_TYPE, bundle.EMPTY_BLOB),
        tuple(Descriptor.of(kind, layer) for layer in layers),
        annotations,
        artifact_type=artifact_type,
        subject=Descriptor(ARTIFACT.media_type, DIGEST, len(ARTIFACT.raw)),
    )
    registry.put_referrer(CHANNEL, manifest)
    return manifest


def plant(registry: InMemoryRegistry, referrer: Manifest, change: tuple[bytes, bytes]) -> None:
    """Put other bytes in the place of a referrer, so that Go still reads its subject there."""
    manifests = registry.repositories[str(CHANNEL.repository)].manifests
    raw, count = re.subn(re.escape(change[0]), change[1], manifests.pop(referrer.digest))
    assert count == 1
    manifests[Digest.of(raw)] = raw


def read(registry: InMemoryRegistry) -> list[str | None]:
    """Return what is wrong with each of the bundles that are found."""
    return [each.problem for each in bundle.read_bundles(registry, CHANNEL, DIGEST)]


def checked(registry: InMemoryRegistry, trusted: Trusted = KEY) -> Verified:
    return verify(registry, CHANNEL, DIGEST, trusted, SignatureFormat.BUNDLE)


def sign(registry: InMemoryRegistry, signer: Any = None) -> Verified:
    return ensure_signed(registry, CHANNEL, DIGEST, signer or KeySigner(OURS), SignatureFormat.BUNDLE)


def changed(raw: bytes = SIGNED, **changes: Any) -> bytes:
    """Return a bundle with other members; None takes one out."""
    value = json.loads(raw) | changes
    return json.dumps({name: member for name, member in value.items() if member is not None}).encode()


def enveloped(**changes: Any) -> bytes:
    return changed(dsseEnvelope=json.loads(SIGNED)["dsseEnvelope"] | changes)


def test_the_statement_has_a_fixed_form() -> None:
    assert bundle.statement(DIGEST) == (
        b'{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"sha256":"' + DIGEST.hex.encode() + b'"}}],'
        b'"predicateType":"https://sigstore.dev/cosign/sign/v1","predicate":{}}'
    )


def test_what_is_signed_is_dsses_encoding() -> None:
    """The example of DSSE's own `protocol.md`."""
    envelope = Envelope("http://example.com/HelloWorld", b"hello world", ())
    assert envelope.message == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"


def test_a_key_is_named_by_the_digest_of_its_public_half() -> None:
    hint = json.loads(SIGNED)["verificationMaterial"]["publicKey"]["hint"]
    assert base64.b64decode(hint).hex() == OURS.public.fingerprint.hex


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


PROOF = {"inclusionProof": {"logIndex": "1"}}
KEY_MATERIAL = {"publicKey": {"hint": "x"}}
NOTICED = {
    "ours": SIGNED,
    "a message signature": changed(dsseEnvelope=None, messageSignature={"signature": "AAAA"}),
    "an envelope that is none": changed(dsseEnvelope={"payload": 1}),
    "the older name of the version": changed(mediaType="application/vnd.dev.sigstore.bundle+json;version=0.3"),
    "a patch of the version": changed(mediaType="application/vnd.dev.sigstore.bundle.v0.3.2+json"),
    "Protobuf's names": changed(mediaType=None, media_type=BUNDLE_TYPE, dsseEnvelope=None, dsse_envelope={}),
    "an entry with its proof": changed(verificationMaterial={"tlogEntries": [PROOF], **KEY_MATERIAL}),
    "one of two entries with its proof": changed(verificationMaterial={"tlogEntries": [{}, PROOF], **KEY_MATERIAL}),
}
NOT_NOTICED = {
    "no JSON": b"hello",
    "nested": b"[" * 50_000,
    "a list": b"[]",
    "no version": changed(mediaType=None),
    "version 0.1": changed(mediaType="application/vnd.dev.sigstore.bundle+json;version=0.1"),
    "version 0.2": changed(mediaType="application/vnd.dev.sigstore.bundle+json;version=0.2"),
    "version 0.4, which sigstore-go does not read": changed(mediaType="application/vnd.dev.sigstore.bundle.v0.4+json"),
    "a version that is no text": changed(mediaType=["x"]),
    "nothing signed": changed(dsseEnvelope=None),
    "nothing to verify with": changed(verificationMaterial={}),
    "a chain in place of a certificate": changed(verificationMaterial={"x509CertificateChain": {}}),
    "an entry without its proof": changed(verificationMaterial={"tlogEntries": [{}], **KEY_MATERIAL}),
    "a member twice": SIGNED[:-1] + b',"dsseEnvelope":null}',
    "a member twice, deep inside": SIGNED.replace(b'"hint":', b'"hint":"","hint":'),
    "a member under both names": changed(dsse_envelope={}),
    "two contents": changed(messageSignature={"signature": "AAAA"}),
    "two ways to verify": changed(verificationMaterial={"certificate": {"rawBytes": ""}, **KEY_MATERIAL}),
    "a name in another case": changed(dsseEnvelope=None, DsseEnvelope=json.loads(SIGNED)["dsseEnvelope"]),
    "not UTF-8": SIGNED[:-1] + b',"\xff":1}',
    "lists of lists": SIGNED[:-1].replace(b'"dsseEnvelope":', b'"dsseEnvelope":[[[]]],"x":')[:-1] + b"}}",
    "six hundred lists": changed(dsseEnvelope=nested(600)),
    "a member that nobody knows": changed(unknown=1),
    "a list within a list": enveloped(signatures=[[{"sig": "AAAA"}]]),
    "lists within lists": b'{"mediaType": ' + b"[" * 900 + b"]" * 900 + b"," + SIGNED[1:],
    "a member deep inside that nobody knows": enveloped(signatures=[{"sig": "AAAA", "unknown": 1}]),
    "entries that are no list": changed(verificationMaterial={"tlogEntries": "x", **KEY_MATERIAL}),
}


@pytest.mark.parametrize("raw", NOTICED.values(), ids=list(NOTICED))
def test_flux_takes_notice_of(raw: bytes) -> None:
    assert Bundle.parse(raw) is not None


@pytest.mark.parametrize("raw", NOT_NOTICED.values(), ids=list(NOT_NOTICED))
def test_flux_passes_over(raw: bytes) -> None:
    assert Bundle.parse(raw) is None


@pytest.mark.parametrize(
    ("entries", "only"),
    [
        pytest.param([], False, id="none"),
        pytest.param([PROOF], True, id="without a time"),
        pytest.param([PROOF | {"integratedTime": "0"}], True, id="with no time"),
        pytest.param([PROOF | {"integratedTime": "17"}], False, id="with a time"),
        pytest.param([PROOF | {"integratedTime": []}], False, id="with nonsense"),
        pytest.param([PROOF, PROOF | {"integratedTime": "17"}], False, id="one of each"),
    ],
)
def test_a_log_without_a_clock_is_rekor_2(entries: list[object], only: bool) -> None:
    parsed = Bundle.parse(changed(verificationMaterial={"tlogEntries": entries, **KEY_MATERIAL}))
    assert parsed is not None
    assert parsed.only_rekor_2 is only


class TestWhatCounts:
    def test_ours(self, registry: InMemoryRegistry) -> None:
        attach(registry, SIGNED)
        found = checked(registry)
        assert (found.digest, found.by) == (DIGEST, OURS.public.fingerprint)

    def test_one_by_any_of_several_keys(self, registry: InMemoryRegistry) -> None:
        attach(registry, SIGNED)
        assert checked(registry, TrustedKeys((THEIRS.public, OURS.public))).by == OURS.public.fingerprint

    def test_one_among_others(self, registry: InMemoryRegistry) -> None:
        attach(registry, b"an SBOM", kind="text/plain", artifact_type="text/plain")
        attach(registry, SIGNED, b"two layers")
        attach(registry, bundle.signed_with_key(STATEMENT, THEIRS))
        attach(registry, bundle.signed_with_key(bundle.statement(OTHER), OURS))
        attach(registry, SIGNED)
        assert checked(registry).by == OURS.public.fingerprint

    def test_whatever_its_referrer_says_it_is(self, registry: InMemoryRegistry) -> None:
        attach(registry, SIGNED, kind="application/vnd.dev.sigstore.bundle.v9", artifact_type="text/plain")
        assert checked(registry).by == OURS.public.fingerprint

    def test_a_keyless_one(self, registry: InMemoryRegistry) -> None:
        attach(registry, keyless(STATEMENT, THEM))
        attach(registry, keyless(STATEMENT, US))
        assert checked(registry, ONE).by == US

    def test_one_whose_entry_is_the_first_of_its_log(self, registry: InMemoryRegistry) -> None:
        """Protobuf's JSON leaves a 0 out, as cosign writes it; sigstore wants it."""
        value = json.loads(keyless(STATEMENT, US))
        (entry,) = value["verificationMaterial"]["tlogEntries"]
        entry["inclusionProof"] = {"treeSize": "1"}
        assert "logIndex" not in entry
        value["verificationMaterial"]["tlogEntries"].append({**entry, "inclusionProof": None, "logIndex": "9"})
        attach(registry, json.dumps(value).encode())
        assert checked(registry, ONE).by == US

    def test_one_of_several_subjects(self, registry: InMemoryRegistry) -> None:
        value = json.loads(STATEMENT)
        value["subject"] = [{"name": "a"}, {"digest": {"sha256": 1}}, *value["subject"]]
        attach(registry, bundle.signed_with_key(json.dumps(value).encode(), OURS))
        assert checked(registry).digest == DIGEST


def signed(statement: object) -> bytes:
    return bundle.signed_with_key(statement if isinstance(statement, bytes) else json.dumps(statement).encode(), OURS)


SIGNATURE = json.loads(SIGNED)["dsseEnvelope"]["signatures"]
OTHER_KIND = Envelope("text/plain", STATEMENT, ())
OF_OTHER_KIND = [{"sig": base64.b64encode(OURS.sign(OTHER_KIND.message)).decode()}]
TOO_MANY = json.loads(STATEMENT) | {"subject": [{"digest": {"sha256": DIGEST.hex}}] * 1025}
NOT_COUNTING: dict[str, tuple[bytes, str, Trusted]] = {
    "another key": (bundle.signed_with_key(STATEMENT, THEIRS), "another key made it", KEY),
    "another digest": (signed(bundle.statement(OTHER)), "it was made for another digest", KEY),
    "a tampered statement": (
        enveloped(payload=base64.b64encode(STATEMENT + b" ").decode()),
        "another key made it",
        KEY,
    ),
    "no envelope": (changed(dsseEnvelope=None, messageSignature={"signature": "A"}), "it holds no DSSE envelope", KEY),
    "an envelope without a payload": (enveloped(payload=None), "it holds no DSSE envelope", KEY),
    "an envelope that is no base64": (enveloped(payload="***"), "it holds no DSSE envelope", KEY),
    "an envelope of a lone surrogate": (enveloped(payloadType="\ud800"), "it holds no DSSE envelope", KEY),
    "no signatures": (enveloped(signatures=None), "it holds no DSSE envelope", KEY),
    "an empty list of signatures": (enveloped(signatures=[]), "another key made it", KEY),
    "two signatures": (enveloped(signatures=SIGNATURE * 2), "another key made it", KEY),
    "a signed text of another kind": (
        enveloped(payloadType="text/plain", signatures=OF_OTHER_KIND),
        "another key made it",
        KEY,
    ),
    "a statement that is no JSON": (signed(b"hello"), "it was made for another digest", KEY),
    "a statement that is nested": (signed(b"[" * 50_000), "it was made for another digest", KEY),
    "a statement with a member twice": (
        signed(STATEMENT.replace(b'"subject":', b'"subject":[],"subject":')),
        "it was made for another digest",
        KEY,
    ),
    "a statement with a digest twice": (
        signed(STATEMENT.replace(b'"sha256":', b'"sha256":"0","sha256":')),
        "it was made for another digest",
        KEY,
    ),
    "a statement that is nested, and closed": (
        signed(json.loads(STATEMENT) | {"subject": nested(600)}),
        "it was made for another digest",
        KEY,
    ),
    "a statement without subjects": (signed({"subject": []}), "it was made for another digest", KEY),
    "a statement whose subject is a text": (signed({"subject": str(DIGEST)}), "it was made for another digest", KEY),
    "more subjects than sigstore-go reads": (signed(TOO_MANY), "it was made for another digest", KEY),
    "a statement that says nothing": (
        signed({"subject": [{"digest": {"sha256": DIGEST.hex}}]}),
        "it is not a signature but a statement of type ",
        KEY,
    ),
    "a certificate, for a key": (keyless(STATEMENT, US), "with a certificate, not with a key", KEY),
    "a key, for an identity": (SIGNED, "made with a key, and has no certificate", ONE),
    "another identity": (keyless(STATEMENT, THEM), "evil.* made it, which is not a trusted signer", ONE),
    "a bad certificate": (keyless(STATEMENT, None), "not valid when the log recorded it", ONE),
    "an identity's for another digest": (keyless(bundle.statement(OTHER), US), "it was made for another digest", ONE),
}


@pytest.mark.parametrize(("raw", "reason", "trusted"), NOT_COUNTING.values(), ids=list(NOT_COUNTING))
def test_what_does_not_count_says_why(registry: InMemoryRegistry, raw: bytes, reason: str, trusted: Trusted) -> None:
    attach(registry, raw)
    with pytest.raises(ForeignSignature, match=reason):
        checked(registry, trusted)


@pytest.mark.parametrize(
    ("raw", "trusted"),
    [
        pytest.param(signed(json.loads(bundle.statement(DIGEST, "https://slsa.dev/provenance/v1"))), KEY, id="by key"),
        pytest.param(keyless(bundle.statement(DIGEST, "https://slsa.dev/provenance/v1"), US), ONE, id="by identity"),
        pytest.param(keyless(bundle.statement(DIGEST, "https://slsa.dev/provenance/v1"), THEM), ONE, id="by others"),
    ],
)
def test_an_attestation_is_no_signature(registry: InMemoryRegistry, raw: bytes, trusted: Trusted) -> None:
    """So that a digest whose signature was lost is healed, although its provenance is still there."""
    attach(registry, raw)
    with pytest.raises(Unsigned):
        checked(registry, trusted)


class TestReading:
    def test_what_is_too_large_is_not_read(self, registry: InMemoryRegistry) -> None:
        attach(registry, SIGNED + b" " * (2 << 20))
        with pytest.raises(ForeignSignature, match="more than the limit"):
            checked(registry)
        assert len([asked for asked in registry.requests if asked.method == "blob"]) == 0

    def test_what_is_gone_is_passed_over(self, registry: InMemoryRegistry) -> None:
        registry.referrers_api = False
        gone, empty = attach(registry, b"gone"), attach(registry, b"empty")
        attach(registry, SIGNED)
        repository = registry.repositories[str(CHANNEL.repository)]
        del repository.manifests[gone.digest]
        del repository.blobs[empty.layers[0].digest]
        assert checked(registry).digest == DIGEST

    def test_one_more_referrer_than_are_looked_at_may_be_a_bundle(self, registry: InMemoryRegistry) -> None:
        for number in range(256):
            attach(registry, b"%d" % number, kind="text/plain")
        assert read(registry) == []
        attach(registry, b"one more", kind="text/plain")
        assert read(registry) == ["there are 257 referrers, more than the limit of 256"]
        registry.requests.clear()
        with pytest.raises(ForeignSignature, match="more than the limit of 256"):
            checked(registry)
        assert len([asked for asked in registry.requests if asked.method == "manifest"]) == 256

    def test_what_has_no_layers_is_passed_over(self, registry: InMemoryRegistry) -> None:
        plant(registry, attach(registry, SIGNED), (b'"layers":', b'"blobs":'))
        assert read(registry) == []

    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            pytest.param((b'"layers":', b'"layers":[],"Layers":'), "'Layers' is 'layers' to Go", id="folded"),
            pytest.param((b'"layers":', b'"layers":[],"layers":'), "'layers' twice", id="twice"),
            pytest.param((b'"annotations":', b'"x":"\xff","annotations":'), "it is not JSON", id="not UTF-8"),
            pytest.param((b'"schemaVersion":2', b'"schemaVersion":3'), "of schema version 2", id="another version"),
            pytest.param((b'"config":', b'"x":'), "a descriptor lacks", id="no config"),
            pytest.param((b'"layers":', b'"manifests":[],"layers":'), "it is an index", id="an index"),
        ],
    )
    def test_what_flux_may_read_and_we_do_not_counts_as_a_bundle(
        self, registry: InMemoryRegistry, change: tuple[bytes, bytes], problem: str
    ) -> None:
        plant(registry, attach(registry, SIGNED, kind="text/plain", annotations={"a": "b"}), change)
        (found,) = read(registry)
        assert found is not None
        assert found.startswith("it may be a bundle, but cannot be read: the manifest is not a Flux artifact")
        assert problem in found

    @pytest.mark.parametrize("pack", [gzip.compress, lambda _: b"\x28\xb5\x2f\xfd"], ids=["gzip", "zstd"])
    def test_what_flux_unpacks_counts_as_a_bundle(
        self, registry: InMemoryRegistry, pack: Callable[[bytes], bytes]
    ) -> None:
        attach(registry, pack(SIGNED))
        assert read(registry) == ["it is compressed, and cannot be read"]

    @pytest.mark.parametrize("member", ["data", "urls"])
    @pytest.mark.parametrize("where", ["config", "layers"])
    def test_what_flux_may_find_elsewhere_counts_as_a_bundle(
        self, registry: InMemoryRegistry, member: str, where: str
    ) -> None:
        gone = attach(registry, SIGNED)
        plant(
            registry,
            gone,
            (f'"{where}":{"[" * (where == "layers")}{{'.encode(), b'\\g<0>"%s":"eA==",' % member.encode()),
        )
        del registry.repositories[str(CHANNEL.repository)].blobs[Digest.of(SIGNED)]
        assert read(registry) == ["it is not in this registry, but may be elsewhere"]

    @pytest.mark.parametrize(
        ("config", "layer", "found"), [(BUNDLE_TYPE, "text/plain", [None]), ("text/plain", BUNDLE_TYPE, [])]
    )
    def test_a_layer_that_is_the_config_too_is_what_the_config_says(
        self, registry: InMemoryRegistry, config: str, layer: str, found: list[None]
    ) -> None:
        """Flux looks it up by its digest, and comes to the config first."""
        registry.put_blob(CHANNEL, SIGNED)
        subject = Descriptor(ARTIFACT.media_type, DIGEST, len(ARTIFACT.raw))
        described = Descriptor.of(config, SIGNED), (Descriptor.of(layer, SIGNED),)
        registry.put_referrer(CHANNEL, Manifest.build(*described, subject=subject))
        assert read(registry) == found

    def test_a_list_that_we_cannot_read_may_have_bundles(self, registry: InMemoryRegistry) -> None:
        registry.referrers_api = False
        registry.put_manifest(CHANNEL.at_tag(f"sha256-{DIGEST.hex}"), ARTIFACT)
        (found,) = read(registry)
        assert found is not None
        assert "should be the index of the digest's referrers" in found


class TestSigning:
    def test_writes_what_cosign_writes(self, registry: InMemoryRegistry) -> None:
        sign(registry)
        (descriptor,) = registry.referrers(CHANNEL, DIGEST)
        manifest = registry.manifest(CHANNEL.at_digest(descriptor.digest))
        assert manifest.artifact_type == BUNDLE_TYPE == "application/vnd.dev.sigstore.bundle.v0.3+json"
        assert manifest.config == Descriptor.of("application/vnd.oci.empty.v1+json", b"{}")
        assert [layer.media_type for layer in manifest.layers] == [BUNDLE_TYPE]
        assert manifest.subject == Descriptor(ARTIFACT.media_type, DIGEST, len(ARTIFACT.raw))
        assert dict(manifest.annotations) == {
            "dev.sigstore.bundle.content": "dsse-envelope",
            "dev.sigstore.bundle.predicateType": SIGNATURE_PREDICATE,
            "org.opencontainers.image.created": "1970-01-01T00:00:00Z",
        }

    def test_once_is_enough(self, registry: InMemoryRegistry) -> None:
        first = sign(registry)
        registry.requests.clear()
        assert sign(registry) == first
        assert {asked.method for asked in registry.requests} == {"referrers", "manifest", "blob"}

    def test_keeps_the_bundles_of_others(self, registry: InMemoryRegistry) -> None:
        sign(registry, KeySigner(THEIRS))
        sign(registry)
        assert len(registry.referrers(CHANNEL, DIGEST)) == 2
        assert checked(registry, TrustedKeys((THEIRS.public,))).by == THEIRS.public.fingerprint

    def test_by_an_identity(self, registry: InMemoryRegistry) -> None:
        assert sign(registry, WrittenSigner()).by == US

    def test_writes_nothing_that_does_not_verify(self, registry: InMemoryRegistry) -> None:
        """It would hide a good `.sig` from every Flux since 2.8."""
        with pytest.raises(SignatureUnusable, match="not valid when the log recorded it"):
            sign(registry, WrittenSigner(broken=True))
        assert registry.referrers(CHANNEL, DIGEST) == ()

    def test_writes_nothing_that_is_no_bundle(
        self, registry: InMemoryRegistry, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(WrittenSigner, "sign_statement", lambda *_: b"{}")
        with pytest.raises(SignatureUnusable, match="it is not a bundle"):
            sign(registry, WrittenSigner())
        assert registry.referrers(CHANNEL, DIGEST) == ()
