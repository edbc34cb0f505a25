"""Whether somebody trusted has signed: which signatures are looked at, and who is said to have signed."""

from __future__ import annotations

import pytest

from ci_automation.artifact.manifest import CONFIG_BLOB, FLUX_CONFIG, FLUX_LAYER, Descriptor, Manifest
from ci_automation.artifact.reference import Digest
from ci_automation.policy.model import SignatureFormat
from ci_automation.signing import bundle, legacy
from ci_automation.signing.signer import KeySigner
from ci_automation.signing.trust import Identity, NobodyTrusted, TrustedIdentities, TrustedKeys
from ci_automation.signing.verify import ForeignSignature, Unsigned, ensure_signed, examine, gather, refusal, verify
from tests.fakes.registry import InMemoryRegistry
from tests.fakes.trust import THEM, US, WrittenSigner, signed_by, trust
from tests.fakes.world import CHANNEL, signing_key

LEGACY, BOTH, BUNDLE = SignatureFormat.LEGACY, SignatureFormat.BOTH, SignatureFormat.BUNDLE
OURS, THEIRS = KeySigner(signing_key()), KeySigner(signing_key("theirs"))
IDENTITY, STRANGER = WrittenSigner(), WrittenSigner(THEM)
ARTIFACT = Manifest.build(Descriptor.of(FLUX_CONFIG, CONFIG_BLOB), (Descriptor.of(FLUX_LAYER, b"layer"),))
DIGEST = ARTIFACT.digest


@pytest.fixture
def registry() -> InMemoryRegistry:
    """A registry with an artifact that has no signatures."""
    registry = InMemoryRegistry()
    for blob in (b"layer", CONFIG_BLOB):
        registry.put_blob(CHANNEL, blob)
    registry.put_manifest(CHANNEL, ARTIFACT)
    return registry


def calls(registry: InMemoryRegistry) -> list[str]:
    """Return what was asked of the registry since the last time."""
    asked = [call.method for call in registry.requests]
    registry.requests.clear()
    return asked


class TestVerifying:
    @pytest.mark.parametrize("signer", [OURS, IDENTITY], ids=["key", "identity"])
    @pytest.mark.parametrize("written", [LEGACY, BOTH, BUNDLE])
    def test_any_format_will_do(
        self, registry: InMemoryRegistry, signer: KeySigner | WrittenSigner, written: SignatureFormat
    ) -> None:
        ensure_signed(registry, CHANNEL, DIGEST, signer, written)
        found = verify(registry, CHANNEL, DIGEST, signer.trusted)
        assert (found.digest, found.by) == (DIGEST, signer.who)

    @pytest.mark.parametrize("written", [LEGACY, BOTH])
    def test_a_sig_settles_it_with_one_request(self, registry: InMemoryRegistry, written: SignatureFormat) -> None:
        ensure_signed(registry, CHANNEL, DIGEST, OURS, written)
        calls(registry)
        verify(registry, CHANNEL, DIGEST, OURS.trusted)
        assert calls(registry) == ["manifest"]

    def test_a_bundle_settles_it_with_four(self, registry: InMemoryRegistry) -> None:
        ensure_signed(registry, CHANNEL, DIGEST, OURS, BUNDLE)
        calls(registry)
        verify(registry, CHANNEL, DIGEST, OURS.trusted)
        assert calls(registry) == ["manifest", "referrers", "manifest", "blob"]

    def test_a_good_bundle_counts_beside_a_foreign_sig(self, registry: InMemoryRegistry) -> None:
        ensure_signed(registry, CHANNEL, DIGEST, THEIRS, LEGACY)
        ensure_signed(registry, CHANNEL, DIGEST, OURS, BUNDLE)
        assert verify(registry, CHANNEL, DIGEST, OURS.trusted).by == OURS.who

    @pytest.mark.parametrize("asked", [LEGACY, BUNDLE])
    def test_one_format_can_be_asked_for(self, registry: InMemoryRegistry, asked: SignatureFormat) -> None:
        ensure_signed(registry, CHANNEL, DIGEST, OURS, LEGACY if asked is BUNDLE else BUNDLE)
        with pytest.raises(Unsigned):
            verify(registry, CHANNEL, DIGEST, OURS.trusted, asked)

    def test_nothing_is_unsigned(self, registry: InMemoryRegistry) -> None:
        with pytest.raises(Unsigned, match=str(DIGEST)) as refusal:
            verify(registry, CHANNEL, DIGEST, OURS.trusted)
        assert (refusal.value.exit_code, refusal.value.code) == (10, "unsigned")

    def test_what_strangers_signed_says_who_they_are(self, registry: InMemoryRegistry) -> None:
        ensure_signed(registry, CHANNEL, DIGEST, STRANGER, BOTH)
        ensure_signed(registry, CHANNEL, DIGEST, THEIRS, BOTH)
        with pytest.raises(ForeignSignature) as refusal:
            verify(registry, CHANNEL, DIGEST, trust(US))
        assert (refusal.value.exit_code, refusal.value.code) == (10, "foreign-signature")
        assert refusal.value.signers == (THEM,)
        assert str(THEM) in str(refusal.value)
        assert "made with a key" in str(refusal.value)

    def test_attestations_are_not_what_somebody_signed(self, registry: InMemoryRegistry) -> None:
        statement = bundle.statement(DIGEST, "https://slsa.dev/provenance/v1")
        bundle.attach_bundle(registry, CHANNEL, DIGEST, STRANGER.sign_statement(statement), "x")
        found = examine(gather(registry, CHANNEL, DIGEST), trust(US)).bundles
        assert isinstance(refusal(CHANNEL, trust(US), found), Unsigned)
        ensure_signed(registry, CHANNEL, DIGEST, STRANGER, LEGACY)
        with pytest.raises(ForeignSignature) as caught:
            verify(registry, CHANNEL, DIGEST, trust(US))
        assert "provenance" not in str(caught.value)

    def test_a_refusal_stays_readable(self, registry: InMemoryRegistry) -> None:
        for number in range(20):
            stranger = WrittenSigner(Identity("https://token.example", f"https://git.example/{number}"))
            ensure_signed(registry, CHANNEL, DIGEST, stranger, LEGACY)
        with pytest.raises(ForeignSignature) as refusal:
            verify(registry, CHANNEL, DIGEST, trust(US))
        assert str(refusal.value).endswith("; and 15 more")
        assert len(refusal.value.signers) == 20

    def test_nobody_is_trusted_by_accident(self) -> None:
        for nobody in (lambda: TrustedKeys(()), lambda: TrustedIdentities((), trust(US).root)):
            with pytest.raises(NobodyTrusted):
                nobody()


class TestWhoSigned:
    def test_is_everybody_with_a_valid_signature_over_this_digest(self, registry: InMemoryRegistry) -> None:
        ensure_signed(registry, CHANNEL, DIGEST, STRANGER, LEGACY)
        ensure_signed(registry, CHANNEL, DIGEST, IDENTITY, BUNDLE)
        ensure_signed(registry, CHANNEL, DIGEST, OURS, BOTH)
        assert signed_by(registry, CHANNEL, DIGEST, trust(US).root) == (US, THEM)

    def test_is_nobody_who_attested_or_signed_another_digest(self, registry: InMemoryRegistry) -> None:
        other = Digest.of(b"another")
        message = legacy.payload(CHANNEL, other)
        registry.put_blob(CHANNEL, message)
        layer = Descriptor.of(legacy.PAYLOAD_TYPE, message, STRANGER.sign_payload(message))
        manifest = Manifest.build(Descriptor.of(FLUX_CONFIG, CONFIG_BLOB), (layer,))
        registry.put_manifest(legacy.signature_reference(CHANNEL, DIGEST), manifest)
        for statement in (bundle.statement(other), bundle.statement(DIGEST, "https://slsa.dev/provenance/v1")):
            bundle.attach_bundle(registry, CHANNEL, DIGEST, STRANGER.sign_statement(statement), "x")
        assert signed_by(registry, CHANNEL, DIGEST, trust(US).root) == ()


class TestSigning:
    def test_both_verifies_as_both(self, registry: InMemoryRegistry) -> None:
        ensure_signed(registry, CHANNEL, DIGEST, OURS, BOTH)
        for each in (LEGACY, BUNDLE):
            assert verify(registry, CHANNEL, DIGEST, OURS.trusted, each).by == OURS.who

    @pytest.mark.parametrize("there", [LEGACY, BUNDLE])
    def test_what_is_missing_is_added_and_the_rest_left(
        self, registry: InMemoryRegistry, there: SignatureFormat
    ) -> None:
        ensure_signed(registry, CHANNEL, DIGEST, OURS, there)
        before = gather(registry, CHANNEL, DIGEST)
        ensure_signed(registry, CHANNEL, DIGEST, OURS, BOTH)
        after = gather(registry, CHANNEL, DIGEST)
        assert (len(after.signatures), len(after.bundles)) == (1, 1)
        assert (before.signatures or after.signatures, before.bundles or after.bundles) == (
            after.signatures,
            after.bundles,
        )

    def test_two_runs_of_one_signer_leave_one_signature(self, registry: InMemoryRegistry) -> None:
        message = legacy.payload(CHANNEL, DIGEST)
        made = [(who, who.sign_payload(message)) for who in (THEIRS, OURS, OURS)]  # all before anybody wrote
        assert made[1] != made[2]
        for who, signature in made:
            legacy.add(registry, CHANNEL, DIGEST, signature, unless=who.trusted)
        assert len(legacy.signatures(registry, CHANNEL, DIGEST)) == 2

    def test_an_attestation_of_ours_is_no_reason_not_to_sign(self, registry: InMemoryRegistry) -> None:
        attestation = OURS.sign_statement(bundle.statement(DIGEST, "https://slsa.dev/provenance/v1"))
        bundle.attach_bundle(registry, CHANNEL, DIGEST, attestation, "https://slsa.dev/provenance/v1")
        ensure_signed(registry, CHANNEL, DIGEST, OURS, BUNDLE)
        assert len(registry.referrers(CHANNEL, DIGEST)) == 2


def test_evidence_has_only_the_formats_that_were_asked_for(registry: InMemoryRegistry) -> None:
    ensure_signed(registry, CHANNEL, DIGEST, OURS, BOTH)
    counts = []
    for formats in (LEGACY, BUNDLE, BOTH):
        found = gather(registry, CHANNEL, DIGEST, formats=formats)
        assert found.digest == DIGEST
        counts.append((len(found.signatures), len(found.bundles)))
    assert counts == [(1, 0), (0, 1), (1, 1)]
