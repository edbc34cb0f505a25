"""Cosign and we agree on who has signed what: 2.6.1 on `.sig`, 3.0.6 on bundles, by key and keyless, both ways."""

from __future__ import annotations

import base64
import gzip
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ci_automation.artifact.manifest import CONFIG_BLOB, FLUX_CONFIG, FLUX_LAYER, Descriptor, Manifest
from ci_automation.artifact.reference import Digest
from ci_automation.policy.model import SignatureFormat
from ci_automation.registry import open_registry
from ci_automation.signing import bundle, legacy
from ci_automation.signing.bundle_format import PAYLOAD_TYPE
from ci_automation.signing.cluster import cluster_table
from ci_automation.signing.signer import KeySigner
from ci_automation.signing.sigstore.keyless import KeylessSigner
from ci_automation.signing.sigstore.oidc import ambient
from ci_automation.signing.sigstore.root import TrustRoot
from ci_automation.signing.trust import Identity, IdentityMatch, TrustedIdentities
from ci_automation.signing.verify import ForeignSignature, Unsigned, ensure_signed, gather, verify
from tests.fakes.sigstore import GITHUB, WORKFLOW, Fault, LocalSigstore
from tests.fakes.trust import signed_by
from tests.real import cosign, program
from tests.real.peers import peer
from tests.real.processes import ProgramFailed, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ci_automation.artifact.reference import Reference
    from ci_automation.registry.port import Registry
    from ci_automation.signing.signer import Signer
    from ci_automation.signing.trust import Trusted
    from tests.real.pipeline import KeyPair
    from tests.real.registries import RealRegistry

LEGACY, BOTH, BUNDLE = SignatureFormat.LEGACY, SignatureFormat.BOTH, SignatureFormat.BUNDLE
FORMATS = (LEGACY, BUNDLE)
STRANGER = Identity(GITHUB, "https://github.com/evil/fleet/.github/workflows/flux.yaml@refs/heads/main")
OTHER_ISSUER = Identity("https://issuer.example", WORKFLOW.subject)
PROVENANCE = "https://slsa.dev/provenance/v1"


@dataclass(frozen=True, slots=True)
class Impostor:
    """Signs with certificates of a local Sigstore as anybody, and with something wrong."""

    local: LocalSigstore
    root: TrustRoot
    identity: Identity = WORKFLOW
    fault: Fault | None = None

    @property
    def who(self) -> Identity:
        return self.identity

    @property
    def trusted(self) -> TrustedIdentities:
        return TrustedIdentities((IdentityMatch.exact(self.identity),), self.root)

    def sign_payload(self, payload: bytes) -> dict[str, str]:
        return self.local.sign_detached(payload, self.identity, fault=self.fault).annotations

    def sign_statement(self, statement: bytes, payload_type: str = PAYLOAD_TYPE) -> bytes:
        return self.local.sign_bundle(statement, self.identity, fault=self.fault, payload_type=payload_type)


@dataclass(frozen=True, slots=True)
class Someone:
    """Whoever signs, as we know them and as cosign does."""

    signer: Signer
    name: Path | Identity
    files: cosign.Files
    private: Path | None = None
    local: LocalSigstore | None = None

    def sign_with_cosign(self, form: SignatureFormat, reference: str) -> None:
        """Let the cosign of a format sign."""
        if self.private is not None:
            if form is LEGACY:
                cosign.sign_legacy_key(self.private, reference)
            else:
                cosign.sign_bundle_key(self.private, self.files, reference)
        elif self.local is not None:
            sign = cosign.sign_legacy_keyless if form is LEGACY else cosign.sign_bundle_keyless
            sign(self.local, self.files, reference)

    def accepted_by_cosign(self, form: SignatureFormat, reference: str) -> bool:
        """Return whether the cosign of a format accepts what is there."""
        verify_as = cosign.verify_legacy if form is LEGACY else cosign.verify_bundle
        try:
            (claim,) = verify_as(self.name, self.files, reference)
        except ProgramFailed as failed:
            if not re.search("no matching|no signatures found", str(failed)):  # but for want of something
                raise
            return False
        assert claim["critical"]["image"]["docker-manifest-digest"] == reference.partition("@")[2]
        return True


@dataclass(frozen=True, slots=True)
class Artifact:
    """An artifact that nobody has signed yet."""

    registry: Registry
    channel: Reference
    digest: Digest

    @property
    def name(self) -> str:
        """Return how cosign and crane name it."""
        return str(self.channel.at_digest(self.digest)).removeprefix("oci://")

    @property
    def signature(self) -> str:
        """Return how crane names its legacy signatures."""
        return str(legacy.signature_reference(self.channel, self.digest)).removeprefix("oci://")

    def sign(self, someone: Someone, form: SignatureFormat) -> None:
        ensure_signed(self.registry, self.channel, self.digest, someone.signer, form)

    def accepted_by_us(self, trusted: Trusted, form: SignatureFormat) -> bool:
        try:
            return verify(self.registry, self.channel, self.digest, trusted, form).digest == self.digest
        except (Unsigned, ForeignSignature):
            return False

    def plant(self, form: SignatureFormat, folder: Path, signer: Signer, about: Digest | None = None) -> None:
        """Put a signature beside it, whatever it is worth, as anybody may who can write to the registry."""
        if form is LEGACY:
            message = legacy.payload(self.channel, about or self.digest)
            cosign.plant_legacy(folder, self.name, message, signer.sign_payload(message))
        else:
            cosign.plant_bundle(folder, self.name, signer.sign_statement(bundle.statement(about or self.digest)))


@pytest.fixture(scope="module")
def files(local: LocalSigstore, tmp_path_factory: pytest.TempPathFactory) -> cosign.Files:
    """Return what cosign is told of it."""
    return cosign.Files.write(local, tmp_path_factory.mktemp("sigstore"))


@pytest.fixture(scope="module")
def root(files: cosign.Files) -> TrustRoot:
    """Return what we are told of it."""
    return TrustRoot.from_file(files.trusted_root)


@pytest.fixture
def by_key(cosign_key: KeyPair, files: cosign.Files) -> Someone:
    """Return the owner of cosign's key."""
    signer = KeySigner(program.Pair.read(cosign_key.private, cosign_key.public).key)
    return Someone(signer, cosign_key.public, files, cosign_key.private)


@pytest.fixture
def keyless(local: LocalSigstore, files: cosign.Files) -> Someone:
    """Return the workflow, which signs as our program does."""
    return Someone(keyless_signer(local, files), WORKFLOW, files, local=local)


def keyless_signer(local: LocalSigstore, files: cosign.Files) -> KeylessSigner:
    config = files.folder / "trust_config_1.json"
    config.write_bytes(local.trust_config())
    return KeylessSigner(TrustRoot.from_file(config), ambient(local.environment()))


@pytest.fixture(params=["by_key", "keyless"], ids=["by key", "keyless"])
def someone(request: pytest.FixtureRequest) -> Someone:
    """Return each in turn."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Someone)
    return found


@pytest.fixture
def artifact(any_registry: RealRegistry, repository: str) -> Artifact:
    """Return an artifact without signatures."""
    return pushed(any_registry, repository)


def pushed(at: RealRegistry, repository: str, content: str = "one") -> Artifact:
    channel = program.channel(at.host, repository)
    registry = open_registry(channel)
    layer = f"{channel} {content}".encode()
    for blob in (layer, CONFIG_BLOB):
        registry.put_blob(channel, blob)
    manifest = Manifest.build(Descriptor.of(FLUX_CONFIG, CONFIG_BLOB), (Descriptor.of(FLUX_LAYER, layer),))
    return Artifact(registry, channel, registry.put_manifest(channel.at_digest(manifest.digest), manifest))


@pytest.mark.parametrize("written", [LEGACY, BOTH, BUNDLE])
def test_cosign_accepts_what_we_sign(artifact: Artifact, someone: Someone, written: SignatureFormat) -> None:
    artifact.sign(someone, written)
    for form in FORMATS:
        assert artifact.accepted_by_us(someone.signer.trusted, form) is (written in (form, BOTH))
    assert someone.accepted_by_cosign(LEGACY, artifact.name) is written.has_legacy
    assert someone.accepted_by_cosign(BUNDLE, artifact.name)  # it takes a `.sig` where there is no bundle, as Flux does


@pytest.mark.parametrize("form", FORMATS)
def test_we_accept_what_cosign_signs(artifact: Artifact, someone: Someone, form: SignatureFormat) -> None:
    someone.sign_with_cosign(form, artifact.name)
    assert verify(artifact.registry, artifact.channel, artifact.digest, someone.signer.trusted, form).by == (
        someone.signer.who
    )


def test_we_accept_cosigns_bundle_with_an_entry_of_rekor_2(
    artifact: Artifact, keyless: Someone, local: LocalSigstore, files: cosign.Files
) -> None:
    cosign.sign_bundle_keyless(local, files, artifact.name, rekor=2)
    found = verify(artifact.registry, artifact.channel, artifact.digest, keyless.signer.trusted, BUNDLE)
    assert found.by == WORKFLOW


@pytest.mark.parametrize("form", FORMATS)
class TestTogether:
    def test_what_cosign_signed_is_not_signed_again(
        self, artifact: Artifact, someone: Someone, form: SignatureFormat
    ) -> None:
        someone.sign_with_cosign(form, artifact.name)
        before = gather(artifact.registry, artifact.channel, artifact.digest)
        artifact.sign(someone, form)
        assert gather(artifact.registry, artifact.channel, artifact.digest) == before

    def test_both_signatures_stay_whoever_signs_first(
        self, artifact: Artifact, by_key: Someone, keyless: Someone, form: SignatureFormat
    ) -> None:
        by_key.sign_with_cosign(form, artifact.name)
        artifact.sign(keyless, form)
        for each in (by_key, keyless):
            assert each.accepted_by_cosign(form, artifact.name)
            assert artifact.accepted_by_us(each.signer.trusted, form)

    def test_ours_stays_when_cosign_signs_too(
        self, artifact: Artifact, by_key: Someone, keyless: Someone, form: SignatureFormat
    ) -> None:
        artifact.sign(by_key, form)
        keyless.sign_with_cosign(form, artifact.name)
        for each in (by_key, keyless):
            assert each.accepted_by_cosign(form, artifact.name)
            assert artifact.accepted_by_us(each.signer.trusted, form)


@pytest.mark.parametrize("form", FORMATS)
class TestBothReject:
    def rejected(self, artifact: Artifact, someone: Someone, form: SignatureFormat, reason: str) -> None:
        assert not someone.accepted_by_cosign(form, artifact.name)
        with pytest.raises(ForeignSignature, match=reason):
            verify(artifact.registry, artifact.channel, artifact.digest, someone.signer.trusted)

    def test_a_signature_that_was_copied_from_another_digest(
        self,
        artifact: Artifact,
        someone: Someone,
        form: SignatureFormat,
        any_registry: RealRegistry,
        repository: str,
        tmp_path: Path,
    ) -> None:
        other = pushed(any_registry, repository, "another")
        other.sign(someone, form)
        if form is LEGACY:
            run([peer("crane"), "copy", other.signature, artifact.signature])
        else:
            (found,) = gather(other.registry, other.channel, other.digest).bundles
            cosign.plant_bundle(tmp_path, artifact.name, found.raw)
        self.rejected(artifact, someone, form, "it was made for another digest")

    def test_a_payload_that_names_another_digest(
        self, artifact: Artifact, someone: Someone, form: SignatureFormat, tmp_path: Path
    ) -> None:
        artifact.plant(form, tmp_path, someone.signer, Digest.of(b"another"))
        self.rejected(artifact, someone, form, "it was made for another digest")

    def test_a_signature_by_somebody_else(
        self, artifact: Artifact, by_key: Someone, keyless: Someone, form: SignatureFormat
    ) -> None:
        artifact.sign(keyless, form)
        self.rejected(artifact, by_key, form, "another key made it|with a certificate, not with a key")

    @pytest.mark.parametrize("who", [STRANGER, OTHER_ISSUER], ids=["subject", "issuer"])
    def test_another_identity(
        self,
        artifact: Artifact,
        keyless: Someone,
        form: SignatureFormat,
        who: Identity,
        local: LocalSigstore,
        root: TrustRoot,
        tmp_path: Path,
    ) -> None:
        artifact.plant(form, tmp_path, Impostor(local, root, who))
        self.rejected(artifact, keyless, form, "which is not a trusted signer")
        assert signed_by(artifact.registry, artifact.channel, artifact.digest, root) == (who,)

    @pytest.mark.parametrize("fault", [Fault.EXPIRED, Fault.EARLY, Fault.AUTHORITY, Fault.LOG, Fault.KEY])
    def test_what_is_wrong_with_it(
        self,
        artifact: Artifact,
        keyless: Someone,
        form: SignatureFormat,
        fault: Fault,
        local: LocalSigstore,
        root: TrustRoot,
        tmp_path: Path,
    ) -> None:
        artifact.plant(form, tmp_path, Impostor(local, root, fault=fault))
        assert not keyless.accepted_by_cosign(form, artifact.name)
        assert not artifact.accepted_by_us(keyless.signer.trusted, form)
        assert signed_by(artifact.registry, artifact.channel, artifact.digest, root) == ()

    def test_a_signature_of_which_one_byte_was_changed(
        self, artifact: Artifact, someone: Someone, form: SignatureFormat, tmp_path: Path
    ) -> None:
        if form is LEGACY:
            message = legacy.payload(artifact.channel, artifact.digest)
            signed = dict(someone.signer.sign_payload(message))
            signed[legacy.SIGNATURE_ANNOTATION] = tampered(signed[legacy.SIGNATURE_ANNOTATION])
            cosign.plant_legacy(tmp_path, artifact.name, message, signed)
        else:
            value = json.loads(someone.signer.sign_statement(bundle.statement(artifact.digest)))
            (signature,) = value["dsseEnvelope"]["signatures"]
            signature["sig"] = tampered(signature["sig"])
            cosign.plant_bundle(tmp_path, artifact.name, json.dumps(value).encode())
        assert not someone.accepted_by_cosign(form, artifact.name)
        assert not artifact.accepted_by_us(someone.signer.trusted, form)


def tampered(signature: str) -> str:
    """Return a signature with its last byte changed."""
    made = bytearray(base64.b64decode(signature))
    made[-1] ^= 1
    return base64.b64encode(made).decode()


class TestWhereCosignAndFluxDiffer:
    def accepted(self, artifact: Artifact, trusted: Trusted) -> dict[str, tuple[bool, bool]]:
        rows = cluster_table(gather(artifact.registry, artifact.channel, artifact.digest), trusted)
        return {row.flux: (row.judgement.accepted, row.judgement.strict) for row in rows}

    def test_flux_takes_a_payload_for_another_digest(self, artifact: Artifact, by_key: Someone, tmp_path: Path) -> None:
        artifact.plant(LEGACY, tmp_path, by_key.signer, Digest.of(b"another"))
        assert set(self.accepted(artifact, by_key.signer.trusted).values()) == {(True, False)}

    def test_a_planted_bundle_masks_a_good_sig(
        self, artifact: Artifact, by_key: Someone, keyless: Someone, tmp_path: Path
    ) -> None:
        artifact.sign(by_key, LEGACY)
        artifact.plant(BUNDLE, tmp_path, keyless.signer)
        accepted = self.accepted(artifact, by_key.signer.trusted)
        assert [flux for flux, (yes, _) in accepted.items() if yes] == ["2.2", "2.3", "2.4", "2.5", "2.6", "2.7"]
        assert artifact.accepted_by_us(by_key.signer.trusted, BOTH)
        assert by_key.accepted_by_cosign(LEGACY, artifact.name)
        assert not by_key.accepted_by_cosign(BUNDLE, artifact.name)
        # It does no harm any more as soon as a good one stands beside it.
        artifact.sign(by_key, BOTH)
        assert set(self.accepted(artifact, by_key.signer.trusted).values()) == {(True, True)}
        assert by_key.accepted_by_cosign(BUNDLE, artifact.name)

    def test_an_attestation_is_enough_for_flux_and_no_signature_for_us(
        self, artifact: Artifact, by_key: Someone
    ) -> None:
        attestation = by_key.signer.sign_statement(bundle.statement(artifact.digest, PROVENANCE))
        bundle.attach_bundle(artifact.registry, artifact.channel, artifact.digest, attestation, PROVENANCE)
        accepted = self.accepted(artifact, by_key.signer.trusted)
        assert (accepted["2.7"], accepted["2.9"]) == ((False, False), (True, False))
        with pytest.raises(Unsigned):
            verify(artifact.registry, artifact.channel, artifact.digest, by_key.signer.trusted)


def folded(manifest: Manifest, _: bytes) -> Manifest:
    return replace(manifest, raw=manifest.raw.replace(b'"layers":', b'"layers":[],"Layers":'))


def twice(manifest: Manifest, _: bytes) -> Manifest:
    return replace(manifest, raw=manifest.raw.replace(b'"layers":', b'"layers":[],"layers":'))


def long_s(manifest: Manifest, _: bytes) -> Manifest:
    return replace(manifest, raw=manifest.raw.replace(b'"layers":', '"layers":[],"layer\u017f":'.encode()))


def no_unicode(manifest: Manifest, _: bytes) -> Manifest:
    return replace(manifest, raw=manifest.raw.replace(b'"layers":', b'"x":"\xff","layers":'))


def compressed(manifest: Manifest, raw: bytes) -> Manifest:
    layer = Descriptor.of(bundle.BUNDLE_TYPE, gzip.compress(raw, mtime=0))
    return Manifest.build(manifest.config, (layer,), subject=manifest.subject)


def as_config(manifest: Manifest, raw: bytes) -> Manifest:
    layer = Descriptor.of("text/plain", raw)
    return Manifest.build(Descriptor.of(bundle.BUNDLE_TYPE, raw), (layer,), subject=manifest.subject)


@pytest.mark.parametrize("disguised", [folded, twice, long_s, no_unicode, compressed, as_config])
def test_a_bundle_that_cosign_finds_in_whatever_disguise_does_not_escape_us(
    artifact: Artifact, by_key: Someone, disguised: Callable[[Manifest, bytes], Manifest]
) -> None:
    """It is a good one here, so that cosign tells; a bad one would hide the `.sig` from clusters."""
    raw = by_key.signer.sign_statement(bundle.statement(artifact.digest))
    subject = artifact.registry.manifest(artifact.channel.at_digest(artifact.digest))
    plain = Manifest.build(
        Descriptor.of(bundle.EMPTY_TYPE, bundle.EMPTY_BLOB),
        (Descriptor.of(bundle.BUNDLE_TYPE, raw),),
        subject=Descriptor.of(subject.media_type, subject.raw),
    )
    for blob in (bundle.EMPTY_BLOB, raw, gzip.compress(raw, mtime=0)):
        artifact.registry.put_blob(artifact.channel, blob)
    artifact.registry.put_referrer(artifact.channel, disguised(plain, raw))
    assert by_key.accepted_by_cosign(BUNDLE, artifact.name)
    (found,) = gather(artifact.registry, artifact.channel, artifact.digest, formats=BUNDLE).bundles
    assert found.problem is not None or found.raw == raw


def test_another_media_type_makes_no_difference_to_cosign_nor_to_us(
    artifact: Artifact, by_key: Someone, tmp_path: Path
) -> None:
    message = legacy.payload(artifact.channel, artifact.digest)
    content = tmp_path / "payload.json"
    content.write_bytes(message)
    (tmp_path / "config.json").write_text("{}")
    annotations = tmp_path / "annotations.json"
    annotations.write_text(json.dumps({str(content): dict(by_key.signer.sign_payload(message))}))
    what = (f"--config={tmp_path / 'config.json'}:{cosign.CONFIG}", f"--annotation-file={annotations}")
    where = (artifact.signature, f"{content}:text/plain")
    run([peer("oras"), "push", "--plain-http", "--disable-path-validation", *what, *where])
    assert by_key.accepted_by_cosign(LEGACY, artifact.name)
    assert artifact.accepted_by_us(by_key.signer.trusted, LEGACY)
