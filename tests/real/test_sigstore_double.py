"""The local Sigstore backs what the real cosign accepts, and the real cosign signs with it; each fault is seen."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ci_automation.signing.trust import Identity, IdentityMatch
from tests.fakes.sigstore import GITHUB, WORKFLOW, Fault, LocalSigstore, faults
from tests.real import cosign
from tests.real.peers import peer
from tests.real.pipeline import push
from tests.real.processes import ProgramFailed, run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.real.pipeline import KeyPair
    from tests.real.registries import RealRegistry

# Given a trusted root, cosign 2.6.1 takes any entry of the log for that of a signature (CVE-2026-22703).
UNSEEN = {Fault.OTHER_ENTRY}
SOMEBODY = Identity("https://issuer.example", "https://somebody.example/me")
ELSEWHERE = Identity(GITHUB, WORKFLOW.subject.replace("acme", "evil"))


@pytest.fixture(scope="module")
def files(local: LocalSigstore, tmp_path_factory: pytest.TempPathFactory) -> cosign.Files:
    """Return what cosign is told about it."""
    return cosign.Files.write(local, tmp_path_factory.mktemp("sigstore"))


@pytest.fixture
def reference(any_registry: RealRegistry, repository: str, tmp_path: Path) -> str:
    """Return an artifact that flux has pushed, in each kind of registry."""
    return pushed(any_registry, repository, tmp_path)


@pytest.fixture
def planted(distribution_registry: RealRegistry, repository: str, tmp_path: Path) -> str:
    """Return an artifact that flux has pushed."""
    return pushed(distribution_registry, repository, tmp_path)


def pushed(registry: RealRegistry, repository: str, folder: Path) -> str:
    (folder / "manifests").mkdir()
    (folder / "manifests" / "name.yaml").write_text(f"name: {repository}\n")
    where = f"{registry.host}/{repository}"
    return f"{where}@{push(f'{where}:production', folder / 'manifests')}"


def payload(reference: str) -> bytes:
    repository, _, digest = reference.partition("@")
    critical = {
        "identity": {"docker-reference": repository},
        "image": {"docker-manifest-digest": digest},
        "type": "cosign container image signature",
    }
    return json.dumps({"critical": critical, "optional": None}, separators=(",", ":")).encode()


def statement(reference: str) -> bytes:
    value = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "", "digest": {"sha256": reference.rpartition(":")[2]}}],
        "predicateType": "https://sigstore.dev/cosign/sign/v1",
        "predicate": {},
    }
    return json.dumps(value).encode()


class TestCosignSigns:
    def test_legacy(self, local: LocalSigstore, files: cosign.Files, reference: str) -> None:
        cosign.sign_legacy_keyless(local, files, reference)
        (claim,) = cosign.verify_legacy(WORKFLOW, files, reference)
        assert claim["critical"]["image"]["docker-manifest-digest"] == reference.partition("@")[2]
        with pytest.raises(ProgramFailed, match="none of the expected identities matched"):
            cosign.verify_legacy(ELSEWHERE, files, reference)

    @pytest.mark.parametrize("rekor", [1, 2])
    def test_a_bundle(self, local: LocalSigstore, files: cosign.Files, reference: str, rekor: int) -> None:
        cosign.sign_bundle_keyless(local, files, reference, rekor=rekor)
        (claim,) = cosign.verify_bundle(WORKFLOW, files, reference)
        assert claim["critical"]["image"]["docker-manifest-digest"] == reference.partition("@")[2]
        with pytest.raises(ProgramFailed, match="failed to verify certificate identity"):
            cosign.verify_bundle(ELSEWHERE, files, reference)

    def test_as_somebody_else(self, local: LocalSigstore, files: cosign.Files, reference: str) -> None:
        token = local.token(SOMEBODY.subject, SOMEBODY.issuer)
        cosign.sign_legacy_keyless(local, files, reference, token)
        cosign.sign_bundle_keyless(local, files, reference, token)
        for who in (SOMEBODY, IdentityMatch("issuer", "^https://somebody")):
            assert cosign.verify_legacy(who, files, reference)
            assert cosign.verify_bundle(who, files, reference)

    def test_with_a_key(self, files: cosign.Files, reference: str, cosign_key: KeyPair, tmp_path: Path) -> None:
        without = cosign.Files.without_sigstore(tmp_path / "none")
        cosign.sign_legacy_key(cosign_key.private, reference)
        cosign.sign_bundle_key(cosign_key.private, without, reference)
        assert cosign.verify_legacy(cosign_key.public, without, reference)
        assert cosign.verify_bundle(cosign_key.public, without, reference)
        with pytest.raises(ProgramFailed):
            cosign.verify_bundle(WORKFLOW, files, reference)


class TestCosignAccepts:
    def test_a_detached_signature(
        self, local: LocalSigstore, files: cosign.Files, reference: str, tmp_path: Path
    ) -> None:
        signed = local.sign_detached(payload(reference))
        cosign.plant_legacy(tmp_path, reference, payload(reference), signed.annotations)
        assert cosign.verify_legacy(WORKFLOW, files, reference)

    @pytest.mark.parametrize(
        ("rekor", "as_envelope"), [(1, False), (2, False), (2, True)], ids=["Rekor 1", "Rekor 2", "Rekor 2, envelope"]
    )
    def test_a_bundle(
        self,
        local: LocalSigstore,
        files: cosign.Files,
        reference: str,
        rekor: int,
        as_envelope: bool,
        tmp_path: Path,
    ) -> None:
        bundle = local.sign_bundle(statement(reference), rekor=rekor, as_envelope=as_envelope)
        cosign.plant_bundle(tmp_path, reference, bundle)
        assert cosign.verify_bundle(WORKFLOW, files, reference)


class TestCosignRefuses:
    @pytest.mark.parametrize("fault", [fault for fault in Fault if fault in faults("detached")])
    def test_a_detached_signature_with_a_fault(
        self, local: LocalSigstore, files: cosign.Files, planted: str, fault: Fault, tmp_path: Path
    ) -> None:
        signed = local.sign_detached(payload(planted), fault=fault)
        cosign.plant_legacy(tmp_path, planted, payload(planted), signed.annotations)
        if fault in UNSEEN:
            assert cosign.verify_legacy(WORKFLOW, files, planted)
            return
        with pytest.raises(ProgramFailed, match="no matching signatures"):
            cosign.verify_legacy(WORKFLOW, files, planted)

    @pytest.mark.parametrize(
        ("rekor", "fault"),
        [
            pytest.param(rekor, fault, id=f"Rekor {rekor}: {fault.name}")
            for rekor in (1, 2)
            for fault in Fault
            if fault in faults("statement", rekor)
        ],
    )
    def test_a_bundle_with_a_fault(
        self, local: LocalSigstore, files: cosign.Files, planted: str, rekor: int, fault: Fault, tmp_path: Path
    ) -> None:
        cosign.plant_bundle(tmp_path, planted, local.sign_bundle(statement(planted), rekor=rekor, fault=fault))
        with pytest.raises(ProgramFailed, match="no matching attestations"):
            cosign.verify_bundle(WORKFLOW, files, planted)

    @pytest.mark.parametrize("rekor", [1, 2])
    def test_a_bundle_without_an_envelope(
        self, local: LocalSigstore, files: cosign.Files, planted: str, rekor: int, tmp_path: Path
    ) -> None:
        manifest = run([peer("crane"), "manifest", planted]).encode()
        cosign.plant_bundle(tmp_path, planted, local.sign_artifact(manifest, rekor=rekor))
        with pytest.raises(ProgramFailed, match="does not contain a DSSE envelope"):
            cosign.verify_bundle(WORKFLOW, files, planted)
