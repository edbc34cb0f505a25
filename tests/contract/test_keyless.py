"""Keyless signatures by a Sigstore on loopback: what they hold, who is asked how often, what becomes of failures."""

from __future__ import annotations

import base64
import json
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from ci_automation.errors import SigningError
from ci_automation.net.waiting import Clock, Patience
from ci_automation.signing.signer import SignatureUnusable
from ci_automation.signing.sigstore.exchange import (
    FulcioFailed,
    RekorFailed,
    SigstoreExchange,
    TokenServiceFailed,
    UnsafeService,
)
from ci_automation.signing.sigstore.instance import NoSigningServices
from ci_automation.signing.sigstore.keyless import KeylessSigner, OtherIdentity, TokenRefused
from ci_automation.signing.sigstore.oidc import ambient
from ci_automation.signing.sigstore.root import TrustRoot
from ci_automation.signing.trust import Identity
from tests.fakes.sigstore import CANARY, WORKFLOW, LocalSigstore
from tests.fakes.sigstore import tokens as made

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.fakes.sigstore.api import Answer

PAYLOAD = b'{"critical":{"type":"cosign container image signature"}}'
STATEMENT = json.dumps(  # without a name in its subject, as cosign's
    {"_type": "https://in-toto.io/Statement/v1", "subject": [{"digest": {"sha256": "5f" * 32}}], "predicateType": "x"}
).encode()
PATHS = {"token": "/oidc/", "fulcio": "/signingCert", "rekor": "/log/entries"}


@dataclass
class Watch:
    """A clock that runs ahead by what the test says, and that does not wait."""

    ahead: float = 0.0
    slept: list[float] = field(default_factory=list)

    @property
    def exchange(self) -> SigstoreExchange:
        """Return an exchange that goes by it."""
        clock = Clock(time.monotonic, lambda: time.time() + self.ahead, self.slept.append)
        return SigstoreExchange(patience=Patience(attempts=3, clock=clock))


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def local() -> Iterator[LocalSigstore]:
    with LocalSigstore() as running:
        yield running


def root_of(local: LocalSigstore) -> TrustRoot:
    return TrustRoot("a file", local.trust_config())


def signer_of(local: LocalSigstore, watch: Watch, environment: Mapping[str, str] | None = None) -> KeylessSigner:
    tokens = ambient(local.environment() if environment is None else environment, watch.exchange)
    return KeylessSigner(root_of(local), tokens, watch.exchange)


def asked(local: LocalSigstore) -> dict[str, int]:
    found = Counter(name for _, path in local.requests for name, part in PATHS.items() if part in path)
    return {name: found[name] for name in PATHS}


class TestSignatures:
    def test_a_payloads_has_the_annotations_of_cosign_and_proves_who_signed(
        self, local: LocalSigstore, watch: Watch
    ) -> None:
        found = signer_of(local, watch).sign_payload(PAYLOAD)
        assert set(found) == {
            "dev.cosignproject.cosign/signature",
            "dev.sigstore.cosign/certificate",
            "dev.sigstore.cosign/chain",
            "dev.sigstore.cosign/bundle",
        }
        signature = base64.b64decode(found["dev.cosignproject.cosign/signature"])
        certificate, entry = found["dev.sigstore.cosign/certificate"], found["dev.sigstore.cosign/bundle"]
        proven = root_of(local).verify_detached(PAYLOAD, signature, certificate, entry)
        assert (proven.identity, proven.statement) == (WORKFLOW, PAYLOAD)
        assert found["dev.sigstore.cosign/chain"] == local.sign_detached(PAYLOAD).chain

    def test_a_statements_is_a_bundle_that_proves_who_signed(self, local: LocalSigstore, watch: Watch) -> None:
        raw = signer_of(local, watch).sign_statement(STATEMENT)
        proven = root_of(local).verify_bundle(raw)
        assert (proven.identity, proven.statement) == (WORKFLOW, STATEMENT)
        assert json.loads(raw)["mediaType"] == "application/vnd.dev.sigstore.bundle.v0.3+json"

    def test_exactly_that_identity_is_to_be_trusted(self, local: LocalSigstore, watch: Watch) -> None:
        signer = signer_of(local, watch)
        assert signer.who == WORKFLOW
        (match,) = signer.trusted.matches
        assert match.matches(WORKFLOW)
        assert not match.matches(Identity(WORKFLOW.issuer, f"{WORKFLOW.subject}x"))
        assert signer.trusted.root == root_of(local)
        assert asked(local) == {"token": 1, "fulcio": 0, "rekor": 0}

    def test_a_token_that_is_handed_over_signs_as_whom_it_names(self, local: LocalSigstore, watch: Watch) -> None:
        text = local.token("ada@example.org", "https://accounts.example", email="ada@example.org", email_verified=True)
        signer = signer_of(local, watch, environment={"SIGSTORE_ID_TOKEN": text})
        expected = Identity("https://accounts.example", "ada@example.org")
        assert root_of(local).verify_bundle(signer.sign_statement(STATEMENT)).identity == signer.who == expected
        assert asked(local)["token"] == 0


class TestAFleet:
    def test_one_token_and_one_certificate_sign_for_all_and_each_has_its_own_entry(
        self, local: LocalSigstore, watch: Watch
    ) -> None:
        signer = signer_of(local, watch)
        entries = {signer.sign_payload(PAYLOAD)["dev.sigstore.cosign/bundle"] for _ in range(3)}
        bundles = {signer.sign_statement(STATEMENT) for _ in range(2)}
        assert (len(entries), len(bundles)) == (3, 2)
        assert asked(local) == {"token": 1, "fulcio": 1, "rekor": 5}

    @pytest.mark.parametrize(
        ("ahead", "certificates"), [(530, 1), (545, 2)], ids=["more than a minute left", "less than a minute left"]
    )
    def test_a_certificate_is_renewed_before_it_expires(
        self, local: LocalSigstore, watch: Watch, ahead: float, certificates: int
    ) -> None:
        signer = signer_of(local, watch)
        signer.sign_payload(PAYLOAD)
        watch.ahead = ahead
        signer.sign_payload(PAYLOAD)
        assert asked(local)["fulcio"] == certificates

    def test_a_token_that_has_expired_by_then_is_asked_for_again(self, local: LocalSigstore, watch: Watch) -> None:
        signer = signer_of(local, watch)
        signer.sign_payload(PAYLOAD)
        watch.ahead = 595
        signer.sign_payload(PAYLOAD)
        assert asked(local)["token"] == 2


class TestFailures:
    @pytest.mark.parametrize("service", ["oidc", "fulcio", "rekor"])
    @pytest.mark.parametrize("faults", [(429,), (500, 503), ("reset", 502), ("reset", "reset")], ids=str)
    def test_what_passes_is_waited_for(
        self, local: LocalSigstore, watch: Watch, service: str, faults: tuple[int | str, ...]
    ) -> None:
        local.fail(service, *faults)
        raw = signer_of(local, watch).sign_statement(STATEMENT)
        assert root_of(local).verify_bundle(raw).identity == WORKFLOW
        assert watch.slept == [0.5, 1.0][: len(faults)]

    @pytest.mark.parametrize(
        ("service", "error", "name"),
        [
            ("oidc", TokenServiceFailed, "the identity token endpoint"),
            ("fulcio", FulcioFailed, "Fulcio"),
            ("rekor", RekorFailed, "Rekor"),
        ],
    )
    @pytest.mark.parametrize(
        ("faults", "reason"),
        [
            pytest.param((500,) * 3, r"it answered 500.*as the test wants it.*, the last of 3 attempts", id="broken"),
            pytest.param(("reset",) * 3, "the connection broke, the last of 3 attempts", id="gone"),
            pytest.param((302,), "it answered 302: as the test wants it", id="sent elsewhere"),
            pytest.param((418,), "it answered 418: as the test wants it", id="refused"),
        ],
    )
    def test_what_does_not_pass_is_said_by_service_host_answer_and_attempts(
        self,
        local: LocalSigstore,
        watch: Watch,
        service: str,
        error: type[SigningError],
        name: str,
        faults: tuple[int | str, ...],
        reason: str,
    ) -> None:
        local.fail(service, *faults)
        with pytest.raises(error, match=rf"{name}.* at 127\.0\.0\.1:\d+ failed: .*{reason}$") as caught:
            signer_of(local, watch).sign_statement(STATEMENT)
        assert isinstance(caught.value, SigningError)
        assert "Nothing was tagged" in caught.value.hint
        assert CANARY not in f"{caught.value}{caught.value!r}{caught.value.__cause__!r}"

    def test_after_a_failure_the_same_signer_goes_on(self, local: LocalSigstore, watch: Watch) -> None:
        signer = signer_of(local, watch)
        local.fail("rekor", 500, 500, 500)
        with pytest.raises(RekorFailed):
            signer.sign_payload(PAYLOAD)
        signer.sign_payload(PAYLOAD)
        assert asked(local)["fulcio"] == 1

    def test_an_entry_that_was_taken_before_the_connection_broke_is_fetched(
        self, local: LocalSigstore, watch: Watch, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        answer = local.answer
        lost: list[Answer | None] = []

        def losing(method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer | None:
            found = answer(method, target, headers, body)
            if target == "/api/v1/log/entries" and not lost:
                lost.append(found)
                return None
            return found

        monkeypatch.setattr(local, "answer", losing)
        signer = signer_of(local, watch)
        found = signer.sign_payload(PAYLOAD)
        assert lost
        assert [method for method, path in local.requests if "/log/entries" in path] == ["POST", "POST", "GET"]
        assert json.loads(found["dev.sigstore.cosign/bundle"])["Payload"]["logIndex"] >= 0

    def test_a_log_that_has_it_already_and_does_not_say_where_fails(self, local: LocalSigstore, watch: Watch) -> None:
        local.fail("rekor", 409)
        with pytest.raises(RekorFailed, match="has the entry already, but does not say where"):
            signer_of(local, watch).sign_payload(PAYLOAD)

    @pytest.mark.parametrize("status", [400, 401, 403])
    def test_a_refused_token_is_said_with_its_identity_and_not_shown(
        self, local: LocalSigstore, watch: Watch, status: int
    ) -> None:
        local.fail("fulcio", status)
        with pytest.raises(TokenRefused, match=rf"of {WORKFLOW.subject}.*{status}") as caught:
            signer_of(local, watch).sign_statement(STATEMENT)
        assert CANARY not in str(caught.value)
        assert watch.slept == []

    def test_a_token_of_an_issuer_that_the_instance_does_not_know_is_refused(
        self, local: LocalSigstore, watch: Watch
    ) -> None:
        text = made.encode({"iss": "https://unknown.example", "sub": "https://a.example"})
        with pytest.raises(TokenRefused, match=r"unknown issuer https://unknown\.example"):
            signer_of(local, watch, environment={"SIGSTORE_ID_TOKEN": text}).sign_payload(PAYLOAD)


@pytest.mark.parametrize(
    ("path", "body", "error"),
    [
        pytest.param("/signingCert", {"chain": []}, FulcioFailed, id="no certificate"),
        pytest.param(
            "/signingCert",
            {"signedCertificateEmbeddedSct": {"chain": {"certificates": ["x", "y"]}}},
            FulcioFailed,
            id="a certificate that is none",
        ),
        pytest.param("/log/entries", {"uuid": {}}, RekorFailed, id="no entry"),
        pytest.param("/log/entries", [], RekorFailed, id="a list of entries"),
    ],
)
def test_an_answer_of_another_form_is_the_services_failure(
    local: LocalSigstore,
    watch: Watch,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    body: Any,
    error: type[SigningError],
) -> None:
    from tests.fakes.sigstore.api import Answer

    answer = local.answer
    monkeypatch.setattr(local, "answer", lambda *call: Answer(201, body) if path in call[1] else answer(*call))
    with pytest.raises(error, match="127"):
        signer_of(local, watch).sign_statement(STATEMENT)


class TestSecrets:
    def test_each_goes_to_the_one_place_that_it_is_for(
        self, local: LocalSigstore, watch: Watch, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        answer = local.answer
        shown: list[str] = []

        def noting(method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer | None:
            if CANARY in f"{target}{dict(headers)}" or CANARY.encode() in body:
                shown.append(target.partition("?")[0])
            return answer(method, target, headers, body)

        monkeypatch.setattr(local, "answer", noting)
        signer = signer_of(local, watch)
        signer.sign_statement(STATEMENT)
        assert shown == ["/oidc/runs/0/idtoken", "/api/v2/signingCert"]
        assert CANARY not in repr(signer)

    def test_the_token_is_not_sent_without_tls_to_another_machine(self, local: LocalSigstore, watch: Watch) -> None:
        config = local.trust_config().replace(
            f'"caUrls": [{{"url": "{local.url}'.encode(), b'"caUrls": [{"url": "http://f'
        )
        signer = KeylessSigner(
            TrustRoot("a file", config), ambient(local.environment(), watch.exchange), watch.exchange
        )
        with pytest.raises(UnsafeService, match="without TLS"):
            signer.sign_payload(PAYLOAD)


class TestMismatches:
    def test_a_certificate_for_another_than_the_token_promised_signs_nothing(
        self, local: LocalSigstore, watch: Watch
    ) -> None:
        workflow = "acme/fleet/.github/workflows/flux.yaml@refs/heads/main"
        text = local.token(
            "https://ghes.example/acme", "https://ghes.example/_services/token", job_workflow_ref=workflow
        )
        environment = {"SIGSTORE_ID_TOKEN": text, "GITHUB_SERVER_URL": "https://ghes.example"}
        with pytest.raises(OtherIdentity) as caught:
            signer_of(local, watch, environment=environment).sign_payload(PAYLOAD)
        assert f"for https://ghes.example/{workflow}" in str(caught.value)
        assert "for https://ghes.example/acme (" in str(caught.value)
        assert asked(local)["rekor"] == 0

    @pytest.mark.parametrize("form", ["payload", "statement"])
    def test_what_the_trusted_roots_do_not_prove_is_not_handed_out(
        self, local: LocalSigstore, watch: Watch, form: str
    ) -> None:
        with LocalSigstore() as other:
            config = json.loads(local.trust_config()) | {"trustedRoot": json.loads(other.trusted_root)}
            root = TrustRoot("a file", json.dumps(config).encode())
            signer = KeylessSigner(root, ambient(local.environment(), watch.exchange), watch.exchange)
            with pytest.raises(SignatureUnusable, match="the new signature does not verify"):
                signer.sign_payload(PAYLOAD) if form == "payload" else signer.sign_statement(STATEMENT)

    def test_roots_alone_cannot_sign(self, local: LocalSigstore, watch: Watch) -> None:
        tokens = ambient(local.environment(), watch.exchange)
        with pytest.raises(NoSigningServices, match="a file"):
            KeylessSigner(TrustRoot("a file", local.trusted_root), tokens, watch.exchange).sign_payload(PAYLOAD)

    def test_a_log_of_version_2_alone_cannot_sign(self, local: LocalSigstore, watch: Watch) -> None:
        root = TrustRoot("a file", local.trust_config(2))
        signer = KeylessSigner(root, ambient(local.environment(), watch.exchange), watch.exchange)
        with pytest.raises(NoSigningServices, match="Rekor v1"):
            signer.sign_statement(STATEMENT)


@pytest.mark.parametrize("handed", [True, False], ids=["handed over", "asked for"])
def test_the_log_is_told_to_hide_a_token_before_it_is_used(local: LocalSigstore, handed: bool) -> None:
    masked: list[str] = []
    environment = {"SIGSTORE_ID_TOKEN": local.token()} if handed else local.environment()
    token = ambient(environment, mask=masked.append).token()
    assert masked == [token.text]
