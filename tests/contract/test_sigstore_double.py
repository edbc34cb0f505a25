"""The local Sigstore is like the real one: sigstore-python signs with it, and sees everything that can be wrong."""

from __future__ import annotations

import base64
import hashlib
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import requests
import rfc8785
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from cryptography.x509 import load_pem_x509_certificate
from rekor_types import Hashedrekord
from sigstore._internal.rekor.client import RekorClient
from sigstore.dsse import Statement
from sigstore.errors import Error, VerificationError
from sigstore.models import Bundle, ClientTrustConfig
from sigstore.oidc import IdentityToken, detect_credential
from sigstore.sign import SigningContext
from sigstore.verify import Verifier, policy

from ci_automation.signing.trust import Identity
from tests.fakes.sigstore import CANARY, GITHUB, WORKFLOW, Fault, LocalSigstore, NoSuchFault, faults

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sigstore.verify.policy import VerificationPolicy

    from tests.fakes.sigstore import Detached

MESSAGE = b"what is signed"
STATEMENT = json.dumps(
    {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "", "digest": {"sha256": hashlib.sha256(MESSAGE).hexdigest()}}],
        "predicateType": "https://sigstore.dev/cosign/sign/v1",
        "predicate": {},
    }
).encode()
SOMEBODY = Identity("https://issuer.example", "https://somebody.example/me")
REASONS = {
    Fault.EXPIRED: "cert is not valid at validation time",
    Fault.EARLY: "cert is not valid at validation time",
    Fault.UNTIMED: r"must contain an inclusion promise or signed timestamp",
    Fault.PROMISE: "SET: invalid inclusion promise",
    Fault.LOG: "checkpoint: (invalid signature|Signature not found)",
    Fault.OTHER_ENTRY: "inconsistent with other materials|payload hash does not match",
    Fault.AUTHORITY: "signature does not match",
    Fault.UNLOGGED: "failed to verify SCT",
    Fault.KEY: "(?i)signature is invalid|invalid signature",
    Fault.CONTENT: "DSSE: invalid signature",
    Fault.STAMPER: "not enough sources of verified time",
    Fault.OTHER_STAMP: "not enough sources of verified time",
}
BUNDLES = [(form, rekor) for form in ("statement", "artifact") for rekor in (1, 2)]


@pytest.fixture
def local() -> Iterator[LocalSigstore]:
    """Yield a local Sigstore that nobody has used."""
    with LocalSigstore() as running:
        yield running


def whoever(identity: Identity = WORKFLOW) -> VerificationPolicy:
    return policy.Identity(identity=identity.subject, issuer=identity.issuer)


def verify(local: LocalSigstore, bundle: str | bytes, identity: Identity = WORKFLOW) -> None:
    """Let sigstore-python verify a bundle of what is signed here."""
    config = ClientTrustConfig.from_json(local.trust_config().decode())
    verifier, read = Verifier(trusted_root=config.trusted_root), Bundle.from_json(bundle)
    if read._dsse_envelope is None:
        verifier.verify_artifact(MESSAGE, read, whoever(identity))
    else:
        kind, payload = verifier.verify_dsse(read, whoever(identity))
        assert (kind, payload) == ("application/vnd.in-toto+json", STATEMENT)


def made(local: LocalSigstore, form: str, rekor: int, **how: Any) -> bytes:
    """Return a bundle that the local Sigstore made by itself."""
    if form == "statement":
        return local.sign_bundle(STATEMENT, rekor=rekor, **how)
    return local.sign_artifact(MESSAGE, rekor=rekor, **how)


class TestSigning:
    @pytest.mark.parametrize(("form", "rekor"), BUNDLES)
    def test_sigstore_python_verifies_what_it_signed_here(self, local: LocalSigstore, form: str, rekor: int) -> None:
        config = ClientTrustConfig.from_json(local.trust_config(rekor).decode())
        with SigningContext.from_trust_config(config).signer(IdentityToken(local.token())) as signer:
            bundle = signer.sign_dsse(Statement(STATEMENT)) if form == "statement" else signer.sign_artifact(MESSAGE)
        verify(local, bundle.to_json())
        assert local.requests == [
            ("POST", "/api/v2/signingCert"),
            ("POST", "/api/v1/timestamp"),
            ("POST", f"/api/v{rekor}/log/entries"),
        ]

    def test_what_a_run_finds_in_its_environment_signs_as_its_workflow(
        self, local: LocalSigstore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other = Identity(GITHUB, "https://github.com/acme/other/.github/workflows/x.yaml@refs/tags/v1")
        for identity in (WORKFLOW, other):
            for name, value in {"GITHUB_ACTIONS": "true", **local.environment(identity)}.items():
                monkeypatch.setenv(name, value)
            token = detect_credential()
            assert token is not None
            config = ClientTrustConfig.from_json(local.trust_config().decode())
            with SigningContext.from_trust_config(config).signer(IdentityToken(token)) as signer:
                verify(local, signer.sign_artifact(MESSAGE).to_json(), identity)

    def test_a_workflow_that_is_called_is_the_identity_not_the_one_that_calls(self, local: LocalSigstore) -> None:
        called = "platform/ci/.github/workflows/publish.yaml@refs/heads/main"
        token = local.token(job_workflow_ref=called, repository="acme/fleet")
        with context(local).signer(IdentityToken(token)) as signer:
            bundle = signer.sign_artifact(MESSAGE)
        verify(local, bundle.to_json(), Identity(GITHUB, f"https://github.com/{called}"))
        policy.GitHubWorkflowRepository("acme/fleet").verify(bundle.signing_certificate)

    @pytest.mark.parametrize("subject", ["https://somebody.example/me", "me@somebody.example"])
    def test_others_are_named_by_their_subject(self, local: LocalSigstore, subject: str) -> None:
        token = local.token(subject, "https://issuer.example")
        with context(local).signer(IdentityToken(token)) as signer:
            verify(local, signer.sign_artifact(MESSAGE).to_json(), Identity("https://issuer.example", subject))

    def test_a_certificate_says_of_a_workflow_what_fulcio_says(self, local: LocalSigstore) -> None:
        certificate = load_pem_x509_certificate(local.sign_detached(MESSAGE).certificate.encode())
        for expected in (
            policy.OIDCIssuer(GITHUB),
            policy.OIDCIssuerV2(GITHUB),
            policy.GitHubWorkflowRepository("acme/fleet"),
            policy.GitHubWorkflowRef("refs/heads/main"),
            policy.OIDCBuildSignerURI(WORKFLOW.subject),
            policy.OIDCRunnerEnvironment("github-hosted"),
            policy.OIDCSourceRepositoryURI("https://github.com/acme/fleet"),
            policy.OIDCSourceRepositoryRef("refs/heads/main"),
            policy.OIDCSourceRepositoryOwnerURI("https://github.com/acme"),
            policy.OIDCBuildConfigURI(WORKFLOW.subject),
            policy.OIDCBuildTrigger("schedule"),
        ):
            expected.verify(certificate)
        assert certificate.not_valid_after_utc - certificate.not_valid_before_utc == timedelta(minutes=10)


class TestFulcio:
    @pytest.mark.parametrize(
        ("claims", "reason"),
        [
            ({"iss": "https://unknown.example"}, "unknown issuer"),
            ({"aud": "somebody else"}, "expected audience"),
            ({"exp": 1_600_000_000}, "expired"),
        ],
        ids=["issuer", "audience", "expired"],
    )
    def test_a_token_that_is_not_for_it_is_refused(
        self, local: LocalSigstore, claims: dict[str, Any], reason: str
    ) -> None:
        answer = certified(local, local.token(**claims), {})
        assert answer.status_code == 401
        assert reason in answer.json()["message"]

    @pytest.mark.parametrize("proof", [b"somebody else", None], ids=["of another", "missing"])
    def test_a_key_that_is_not_proven_is_not_certified(self, local: LocalSigstore, proof: bytes | None) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        signature = key.sign(proof, ec.ECDSA(SHA256())) if proof else b""
        public = {"content": local.ct_key, "algorithm": "ecdsa"}
        wish = {"publicKey": public, "proofOfPossession": base64.b64encode(signature).decode()}
        assert certified(local, local.token(), {"publicKeyRequest": wish}).status_code == 400


class TestRekor:
    def test_an_entry_is_found_by_what_is_signed_by_its_name_and_by_its_number(self, local: LocalSigstore) -> None:
        local.sign_detached(b"something before")
        payload = json.loads(local.sign_detached(MESSAGE).entry)["Payload"]
        wanted = {"hash": f"sha256:{hashlib.sha256(MESSAGE).hexdigest()}"}
        (uuid,) = requests.post(f"{local.url}/api/v1/index/retrieve", json=wanted, timeout=5).json()
        rekor = RekorClient(local.url)
        for entry in (rekor.log.entries.get(uuid=uuid), rekor.log.entries.get(log_index=payload["logIndex"])):
            assert base64.b64encode(entry._inner.canonicalized_body).decode() == payload["body"]
            assert entry._inner.integrated_time == payload["integratedTime"]
            assert entry._inner.log_id.key_id.hex() == payload["logID"]

    def test_an_entry_is_found_by_what_it_would_be_and_only_with_its_own_signature(self, local: LocalSigstore) -> None:
        detached, other = (local.sign_detached(MESSAGE) for _ in range(2))
        payload = json.loads(detached.entry)["Payload"]
        found = RekorClient(local.url).log.entries.retrieve.post(Hashedrekord(**proposal(detached, detached.signature)))
        assert found is not None
        assert found._inner.log_index == payload["logIndex"]
        wanted = {"entries": [proposal(detached, other.signature)]}
        assert requests.post(f"{local.url}/api/v1/log/entries/retrieve", json=wanted, timeout=5).status_code == 400

    def test_nobody_has_what_is_not_there(self, local: LocalSigstore) -> None:
        wanted = {"hash": "sha256:" + "0" * 64}
        assert requests.post(f"{local.url}/api/v1/index/retrieve", json=wanted, timeout=5).json() == []
        assert requests.get(f"{local.url}/api/v1/log/entries/{'0' * 80}", timeout=5).status_code == 404

    @pytest.mark.parametrize("rekor", [1, 2])
    def test_every_entry_stays_provable_while_the_log_grows(self, local: LocalSigstore, rekor: int) -> None:
        bundles = [made(local, "artifact", rekor) for _ in range(9)]
        log = local.services.rekor1 if rekor == 1 else local.services.rekor2
        for index, bundle in enumerate(bundles):
            verify(local, bundle)
            value = json.loads(bundle)
            (entry,) = value["verificationMaterial"]["tlogEntries"]
            entry["inclusionProof"] = log.proof(log.entries[index]).proto
            assert entry["inclusionProof"]["treeSize"] == "9"
            verify(local, json.dumps(value))

    def test_a_promise_of_a_detached_signature_is_signed_as_cosign_wants_it(self, local: LocalSigstore) -> None:
        stored = json.loads(local.sign_detached(MESSAGE).entry)
        key = load_pem_public_key(local.rekor_key.encode())
        assert isinstance(key, ec.EllipticCurvePublicKey)
        promise = base64.b64decode(stored["SignedEntryTimestamp"])
        key.verify(promise, rfc8785.dumps(stored["Payload"]), ec.ECDSA(SHA256()))

    def test_the_same_entry_twice_is_a_conflict_that_says_where_it_is(self, local: LocalSigstore) -> None:
        detached = local.sign_detached(MESSAGE)
        again = logged(local, detached, detached.signature)
        assert again.status_code == 409
        uuid = again.headers["Location"].rpartition("/")[2]
        assert requests.get(f"{local.url}/api/v1/log/entries/{uuid}", timeout=5).status_code == 200

    def test_a_signature_that_does_not_hold_is_not_logged(self, local: LocalSigstore) -> None:
        answer = logged(local, local.sign_detached(MESSAGE), local.sign_detached(MESSAGE).signature)
        assert answer.status_code == 400
        assert "invalid signature" in answer.json()["message"]


class TestFaults:
    @pytest.mark.parametrize(("form", "rekor"), BUNDLES)
    def test_without_a_fault_a_bundle_is_accepted(self, local: LocalSigstore, form: str, rekor: int) -> None:
        verify(local, made(local, form, rekor))
        verify(local, made(local, form, rekor, at=datetime(2021, 5, 5, tzinfo=UTC)))
        verify(local, made(local, form, rekor, identity=SOMEBODY), SOMEBODY)

    @pytest.mark.parametrize(
        ("form", "rekor", "fault"),
        [
            pytest.param(form, rekor, fault, id=f"{form} in Rekor {rekor}: {fault.name}")
            for form, rekor in BUNDLES
            for fault in sorted(faults(form, rekor), key=lambda fault: fault.value)
        ],
    )
    def test_each_is_seen_and_is_the_only_one(self, local: LocalSigstore, form: str, rekor: int, fault: Fault) -> None:
        with pytest.raises(Error, match=REASONS[fault]):
            verify(local, made(local, form, rekor, fault=fault))

    @pytest.mark.parametrize(("form", "rekor"), BUNDLES)
    def test_what_could_not_be_wrong_is_not_asked_for(self, local: LocalSigstore, form: str, rekor: int) -> None:
        for fault in set(Fault) - faults(form, rekor):
            with pytest.raises(NoSuchFault):
                made(local, form, rekor, fault=fault)

    def test_another_identity_is_another(self, local: LocalSigstore) -> None:
        elsewhere = Identity(GITHUB, WORKFLOW.subject.replace("acme", "evil"))
        for other in (SOMEBODY, Identity(SOMEBODY.issuer, WORKFLOW.subject), elsewhere):
            with pytest.raises(VerificationError):
                verify(local, made(local, "statement", 1, identity=other))

    def test_another_sigstore_is_another(self, local: LocalSigstore) -> None:
        with LocalSigstore() as other, pytest.raises(VerificationError):
            verify(local, made(other, "statement", 1))

    @pytest.mark.parametrize(
        ("service", "method", "path"),
        [
            ("fulcio", "POST", "/api/v2/signingCert"),
            ("rekor", "POST", "/api/v1/log/entries"),
            ("rekor", "POST", "/api/v2/log/entries"),
            ("rekor", "POST", "/api/v1/index/retrieve"),
            ("tsa", "POST", "/api/v1/timestamp"),
            ("oidc", "GET", "/oidc/runs/0/idtoken?audience=sigstore"),
        ],
    )
    def test_a_service_fails_as_often_as_it_is_told(
        self, local: LocalSigstore, service: str, method: str, path: str
    ) -> None:
        local.fail(service, 503, "reset", 429)
        statuses: list[object] = []
        for _ in range(4):
            try:
                statuses.append(requests.request(method, local.url + path, timeout=5).status_code)
            except requests.ConnectionError:
                statuses.append("reset")
        assert statuses[:3] == [503, "reset", 429]
        assert statuses[3] in (400, 401)
        assert local.requests == [(method, path)] * 4


class TestSecrets:
    def test_a_token_is_had_for_the_secret_of_the_run_alone(self, local: LocalSigstore) -> None:
        environment = local.environment()
        url = f"{environment['ACTIONS_ID_TOKEN_REQUEST_URL']}&audience=sigstore"
        answers = [
            requests.get(url, headers={"Authorization": f"bearer {secret}"}, timeout=5)
            for secret in (environment["ACTIONS_ID_TOKEN_REQUEST_TOKEN"], "another")
        ]
        assert [answer.status_code for answer in answers] == [200, 401]
        assert IdentityToken(answers[0].json()["value"]).identity == "repo:acme/fleet:ref:refs/heads/main"

    def test_every_secret_has_the_canary_in_it(self, local: LocalSigstore) -> None:
        assert CANARY in local.environment()["ACTIONS_ID_TOKEN_REQUEST_TOKEN"]
        assert CANARY in local.token().rpartition(".")[2]
        assert local.token() != local.token()


def context(local: LocalSigstore) -> SigningContext:
    return SigningContext.from_trust_config(ClientTrustConfig.from_json(local.trust_config().decode()))


def certified(local: LocalSigstore, token: str, wish: dict[str, Any]) -> requests.Response:
    headers = {"Authorization": f"Bearer {token}"}
    return requests.post(f"{local.url}/api/v2/signingCert", json=wish, headers=headers, timeout=5)


def logged(local: LocalSigstore, detached: Detached, signature: bytes) -> requests.Response:
    """Propose that entry to Rekor 1."""
    return requests.post(f"{local.url}/api/v1/log/entries", json=proposal(detached, signature), timeout=5)


def proposal(detached: Detached, signature: bytes) -> dict[str, Any]:
    """Return the entry of a detached signature, with that signature in its place."""
    key = {"content": base64.b64encode(detached.certificate.encode()).decode()}
    digest = {"algorithm": "sha256", "value": hashlib.sha256(MESSAGE).hexdigest()}
    spec = {
        "signature": {"content": base64.b64encode(signature).decode(), "publicKey": key},
        "data": {"hash": digest},
    }
    return {"kind": "hashedrekord", "apiVersion": "0.0.1", "spec": spec}
