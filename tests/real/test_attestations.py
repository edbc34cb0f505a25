"""Attestations and records beside a signature: cosign verifies what we say, and still verifies the artifact."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from ci_automation.artifact.manifest import CONFIG_BLOB, FLUX_CONFIG, FLUX_LAYER, Descriptor, Manifest
from ci_automation.artifact.reference import Digest
from ci_automation.flux.artifact import immutable_tag
from ci_automation.flux.options import Options
from ci_automation.flux.proof import Proof
from ci_automation.flux.version import Version
from ci_automation.policy.model import SignatureFormat
from ci_automation.records import attached
from ci_automation.records.attached import attest
from ci_automation.records.ledger import Ledger
from ci_automation.records.notes import Record
from ci_automation.records.predicates import Build, Invocation, Source, provenance, sbom
from ci_automation.records.writer import RecordWriter
from ci_automation.registry import open_registry
from ci_automation.signing import bundle
from ci_automation.signing.signer import KeySigner
from ci_automation.signing.sigstore.keyless import KeylessSigner
from ci_automation.signing.sigstore.oidc import ambient
from ci_automation.signing.sigstore.root import TrustRoot
from ci_automation.signing.verify import ensure_signed
from tests.fakes.sigstore import WORKFLOW, LocalSigstore
from tests.real import cosign, program
from tests.real.peers import peer
from tests.real.processes import run

if TYPE_CHECKING:
    from pathlib import Path

    from ci_automation.signing.signer import Signer
    from ci_automation.signing.trust import Identity
    from tests.real.pipeline import KeyPair
    from tests.real.registries import RealRegistry

VERSION = Version.parse("v2.9.4")
IMAGES = {"source-controller": "ghcr.io/fluxcd/source-controller:v1.9.4"}
TYPES = {"slsaprovenance1": "https://slsa.dev/provenance/v1", "cyclonedx": "https://cyclonedx.org/bom"}

Owner = tuple["Signer", "Path | Identity", cosign.Files]


@pytest.fixture(params=["key", "identity"])
def owner(request: pytest.FixtureRequest, local: LocalSigstore, tmp_path: Path, cosign_key: KeyPair) -> Owner:
    """Return who signs, and what cosign is told about that."""
    files = cosign.Files.write(local, tmp_path / "sigstore")
    if request.param == "key":
        return KeySigner(program.Pair.read(cosign_key.private, cosign_key.public).key), cosign_key.public, files
    config = tmp_path / "trust_config.json"
    config.write_bytes(local.trust_config())
    return KeylessSigner(TrustRoot.from_file(config), ambient(local.environment())), WORKFLOW, files


def attested(who: Path | Identity, files: cosign.Files, kind: str, reference: str) -> dict[str, Any]:
    """Return the statement of one type that cosign 3 verifies."""
    trust = (f"--trusted-root={files.trusted_root}", *cosign._trusted(who))
    form = ("--new-bundle-format=true", f"--type={kind}", "--allow-insecure-registry")
    said = json.loads(run([peer("cosign3"), "verify-attestation", *form, *trust, reference]))
    statement: dict[str, Any] = json.loads(base64.b64decode(said["payload"]))
    return statement


def test_cosign_verifies_what_is_said_and_still_the_artifact(
    any_registry: RealRegistry, repository: str, owner: Owner
) -> None:
    signer, who, files = owner
    channel = program.channel(any_registry.host, repository)
    registry = open_registry(channel)
    layer = str(channel).encode()
    for blob in (layer, CONFIG_BLOB):
        registry.put_blob(channel, blob)
    manifest = Manifest.build(Descriptor.of(FLUX_CONFIG, CONFIG_BLOB), (Descriptor.of(FLUX_LAYER, layer),))
    registry.put_manifest(channel, manifest)
    digest = manifest.digest
    source = Source("https://example.com/manifests.tar.gz", Digest.of(b"a"), Digest.of(b"b"), "c" * 40)
    build = Build(channel, VERSION, Options(), source, Digest.of(b"base"), Digest.of(b"overlay"))
    said = {
        TYPES["slsaprovenance1"]: provenance(build, Invocation("auto", Proof.KNOWN, "0.1.0")),
        TYPES["cyclonedx"]: sbom(VERSION, IMAGES, {}),
    }
    ensure_signed(registry, channel, digest, signer, SignatureFormat.LEGACY)
    attest(registry, channel, digest, said, signer)
    record = Record(
        channel=str(channel),
        digest=digest,
        previous=None,
        version=VERSION,
        tag=immutable_tag(VERSION, digest),
        by=str(signer.who),
        at=datetime(2026, 11, 21, tzinfo=UTC),
        proof=Proof.KNOWN,
        options=Options().digest,
    )
    RecordWriter(registry, channel, signer).write(manifest, record)
    relabelled = signer.sign_statement(record.to_statement("here").to_bytes(), attached.PAYLOAD_TYPE)
    bundle.attach_bundle(registry, channel, digest, relabelled, TYPES["cyclonedx"])

    reference = str(channel.at_digest(digest)).removeprefix("oci://")
    assert len(cosign.verify_legacy(who, files, reference)) == 1
    assert len(cosign.verify_bundle(who, files, reference)) == 2  # the attestations; no record is one
    for kind, predicate_type in TYPES.items():
        statement = attested(who, files, kind, reference)
        assert statement["predicateType"] == predicate_type
        assert statement["predicate"] == json.loads(json.dumps(said[predicate_type]))
    assert Ledger(registry, channel, signer.trusted).all_records(digest) == (record,)
