"""Whose certificates count, and what they prove: each link of the proof is broken once, and nothing is believed."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import ExtendedKeyUsageOID, ObjectIdentifier
from hypothesis import given
from hypothesis import strategies as st

from ci_automation.artifact.reference import Digest
from ci_automation.errors import UsageError
from ci_automation.net.network import Network
from ci_automation.signing.bundle_format import PAYLOAD_TYPE, Envelope
from ci_automation.signing.sigstore.certified import identity_of, require_code_signing, require_signed
from ci_automation.signing.sigstore.instance import NoSigningServices, Services
from ci_automation.signing.sigstore.instance_files import TrustConfigUnreadable
from ci_automation.signing.sigstore.root import TrustRoot
from ci_automation.signing.trust import Certified, Identity, IdentityMatch, Rejected, TrustedIdentities
from tests.fakes.sigstore import WORKFLOW, Fault, LocalSigstore
from tests.fakes.sigstore.ca import pem
from tests.fakes.sigstore.der import text as utf8
from tests.fakes.sigstore.entries import Body, Verifier, encode
from tests.fakes.sigstore.signing import Desk, faults
from tests.fakes.sigstore.tokens import claims_of
from tests.fakes.sigstore.trust import trust_config, trusted_root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from hypothesis.strategies import DataObject

URL = "http://127.0.0.1:1"
HEX = "5f" * 32
STATEMENT = json.dumps(
    {"_type": "https://in-toto.io/Statement/v1", "subject": [{"digest": {"sha256": HEX}}], "predicateType": "x"}
).encode()
MESSAGE = b'{"critical":{}}'
LOCAL = LocalSigstore()
CONFIG: dict[str, Any] = trust_config(LOCAL.services, URL, 1)
ENDLESS = {"start": "2020-01-01T00:00:00Z", "end": "2040-01-01T00:00:00"}
DETACHED = LOCAL.sign_detached(MESSAGE)
MAIL = Identity("https://accounts.example", "ada@example.org")
LONG = Identity(f"https://token.example/{'b' * 300}", f"https://git.example/{'a' * 300}")


def root_of(value: Any) -> TrustRoot:
    return TrustRoot("a file", json.dumps(value).encode())


ROOT = root_of(CONFIG)
BUNDLES = {1: LOCAL.sign_bundle(STATEMENT), 2: LOCAL.sign_bundle(STATEMENT, rekor=2)}


def detached(root: TrustRoot = ROOT, **changes: Any) -> Certified:
    kept = {
        "message": MESSAGE,
        "signature": DETACHED.signature,
        "certificate_pem": DETACHED.certificate,
        "entry_json": DETACHED.entry,
    }
    return root.verify_detached(**(kept | changes))


class TestBundles:
    def test_one_with_an_entry_of_rekor_1_proves_who_signed_what_and_when(self) -> None:
        at = datetime(2026, 3, 1, 12, tzinfo=UTC)
        found = ROOT.verify_bundle(LOCAL.sign_bundle(STATEMENT, at=at))
        assert found == Certified(WORKFLOW, STATEMENT, PAYLOAD_TYPE)

    @pytest.mark.parametrize(
        "as_envelope", [pytest.param(False, id="as sigstore"), pytest.param(True, id="as cosign 3")]
    )
    def test_one_with_an_entry_of_rekor_2_does_too(self, *, as_envelope: bool) -> None:
        found = ROOT.verify_bundle(LOCAL.sign_bundle(STATEMENT, rekor=2, as_envelope=as_envelope))
        assert found == Certified(WORKFLOW, STATEMENT, PAYLOAD_TYPE)

    @pytest.mark.parametrize("identity", [WORKFLOW, MAIL, LONG], ids=["a workflow", "a person", "a long name"])
    def test_whoever_signed_is_named_as_the_certificate_does(self, identity: Identity) -> None:
        assert ROOT.verify_bundle(LOCAL.sign_bundle(STATEMENT, identity)).identity == identity

    @pytest.mark.parametrize(
        ("fault", "rekor", "as_envelope"),
        [
            pytest.param(
                fault, rekor, as_envelope, id=f"{fault.name}, Rekor {rekor}, {'cosign 3' if as_envelope else ''}"
            )
            for rekor, as_envelope in ((1, False), (2, False), (2, True))
            for fault in sorted(faults("statement", rekor), key=str)
        ],
    )
    def test_one_thing_wrong_and_it_proves_nothing(self, fault: Fault, rekor: int, *, as_envelope: bool) -> None:
        raw = LOCAL.sign_bundle(STATEMENT, rekor=rekor, fault=fault, as_envelope=as_envelope)
        with pytest.raises(Rejected) as caught:
            ROOT.verify_bundle(raw)
        assert "malformed" not in caught.value.reason

    @pytest.mark.parametrize(
        "as_envelope", [pytest.param(False, id="as sigstore"), pytest.param(True, id="as cosign 3")]
    )
    @pytest.mark.parametrize("rekor", [1, 2])
    def test_the_log_may_have_taken_what_does_not_hold(
        self, monkeypatch: pytest.MonkeyPatch, rekor: int, *, as_envelope: bool
    ) -> None:
        monkeypatch.setattr(Verifier, "check", lambda *_: None)
        monkeypatch.setattr(Desk, "_sign", lambda desk, _: desk.key.sign(b"another", ec.ECDSA(SHA256())))
        with pytest.raises(Rejected, match=r"invalid signature|did not sign this"):
            ROOT.verify_bundle(LOCAL.sign_bundle(STATEMENT, rekor=rekor, as_envelope=as_envelope))

    def test_one_around_a_message_holds_no_envelope(self) -> None:
        with pytest.raises(Rejected, match="holds no DSSE envelope"):
            ROOT.verify_bundle(LOCAL.sign_artifact(MESSAGE))

    def test_one_by_a_key_names_no_identity(self) -> None:
        value = json.loads(BUNDLES[1])
        value["verificationMaterial"] = {"publicKey": {"hint": "AA=="}}
        with pytest.raises(Rejected, match="names no identity"):
            ROOT.verify_bundle(json.dumps(value).encode())

    def test_one_of_an_older_version_is_not_what_flux_reads(self) -> None:
        value = json.loads(BUNDLES[1]) | {"mediaType": "application/vnd.dev.sigstore.bundle+json;version=0.2"}
        with pytest.raises(Rejected, match=r"version 0\.3"):
            ROOT.verify_bundle(json.dumps(value).encode())

    def test_the_type_of_the_envelope_is_told(self) -> None:
        assert ROOT.verify_bundle(LOCAL.sign_bundle(STATEMENT, payload_type="text/plain")).payload_type == "text/plain"

    @pytest.mark.parametrize(
        "raw",
        [
            pytest.param(b"", id="nothing"),
            pytest.param(b"\xff\xfe", id="no text"),
            pytest.param(b"[" * 200_000, id="nested without end"),
            pytest.param(b'{"a":' * 50_000, id="objects without end"),
            pytest.param(b"null", id="null"),
            pytest.param(b"[]", id="a list"),
            pytest.param(b"{}", id="an empty object"),
            pytest.param(b'{"mediaType": 1}', id="a number for a type"),
            pytest.param(b"9" * 5000, id="a number without end"),
            pytest.param(b" " * (33 << 20), id="too large"),
        ],
    )
    def test_what_is_none_is_rejected(self, raw: bytes) -> None:
        with pytest.raises(Rejected):
            ROOT.verify_bundle(raw)

    @pytest.mark.parametrize("rekor", [1, 2])
    @given(data=st.data())
    def test_whatever_is_changed_it_proves_the_same_or_nothing(self, rekor: int, data: DataObject) -> None:
        value = json.loads(BUNDLES[rekor])
        change(value, data)
        try:
            found = ROOT.verify_bundle(json.dumps(value).encode())
        except Rejected:
            return
        assert (found.identity, found.statement) == (WORKFLOW, STATEMENT)


class TestDetached:
    def test_it_proves_who_signed_what_and_when(self) -> None:
        at = datetime(2026, 3, 1, 12, tzinfo=UTC)
        made = LOCAL.sign_detached(MESSAGE, MAIL, at)
        found = ROOT.verify_detached(MESSAGE, made.signature, made.certificate, made.entry)
        assert found == Certified(MAIL, MESSAGE)

    @pytest.mark.parametrize("fault", sorted(faults("detached"), key=str))
    def test_one_thing_wrong_and_it_proves_nothing(self, fault: Fault) -> None:
        made = LOCAL.sign_detached(MESSAGE, fault=fault)
        with pytest.raises(Rejected) as caught:
            ROOT.verify_detached(MESSAGE, made.signature, made.certificate, made.entry)
        assert "malformed" not in caught.value.reason

    def test_none_of_its_parts_may_be_another_signatures(self) -> None:
        other = LOCAL.sign_detached(MESSAGE)
        for part in (
            {"message": b"another"},
            {"signature": other.signature},
            {"certificate_pem": other.certificate},
            {"entry_json": other.entry},
        ):
            with pytest.raises(Rejected) as caught:
                detached(**part)
            assert "malformed" not in caught.value.reason

    @pytest.mark.parametrize("name", ["body", "integratedTime", "logIndex", "logID"])
    def test_the_log_signed_each_part_of_its_entry(self, name: str) -> None:
        entry = json.loads(DETACHED.entry)
        value = entry["Payload"][name]
        entry["Payload"][name] = value + 1 if isinstance(value, int) else value[:-4] + "0000"
        with pytest.raises(Rejected):
            detached(entry_json=json.dumps(entry))

    def test_the_entry_must_be_about_this_very_signature_and_this_very_certificate(self) -> None:
        begun, desk = datetime.now(UTC), Desk(LOCAL.services, WORKFLOW, None, None)
        first = desk.detached(MESSAGE)
        second = desk.key.sign(MESSAGE, ec.ECDSA(SHA256()))
        with pytest.raises(Rejected, match="about another signature"):
            ROOT.verify_detached(MESSAGE, second, first.certificate, first.entry)
        other = LOCAL.services.authority.certify(desk.key.public_key(), claims_of(MAIL), begun, LOCAL.services.ct)
        with pytest.raises(Rejected, match="about another certificate"):
            ROOT.verify_detached(MESSAGE, first.signature, pem(other), first.entry)

    def test_the_entry_of_an_envelope_is_none_of_a_payload(self) -> None:
        material = (value := json.loads(BUNDLES[1]))["verificationMaterial"]
        (entry,) = material["tlogEntries"]
        annotation = {
            "SignedEntryTimestamp": entry["inclusionPromise"]["signedEntryTimestamp"],
            "Payload": {
                "body": entry["canonicalizedBody"],
                "integratedTime": int(entry["integratedTime"]),
                "logIndex": int(entry["logIndex"]),
                "logID": base64.b64decode(entry["logId"]["keyId"]).hex(),
            },
        }
        leaf = x509.load_der_x509_certificate(base64.b64decode(material["certificate"]["rawBytes"]))
        signature = base64.b64decode(value["dsseEnvelope"]["signatures"][0]["sig"])
        signed = Envelope(PAYLOAD_TYPE, STATEMENT, ()).message
        with pytest.raises(Rejected, match="not about a signature over a digest"):
            ROOT.verify_detached(signed, signature, pem(leaf), json.dumps(annotation))

    @pytest.mark.parametrize(
        ("logged", "signed", "reason"),
        [
            pytest.param(MESSAGE, b"another", "did not sign this", id="a signature over something else"),
            pytest.param(b"another", MESSAGE, "about something else", id="an entry about something else"),
        ],
    )
    def test_the_log_may_have_taken_what_does_not_hold(self, logged: bytes, signed: bytes, reason: str) -> None:
        desk = Desk(LOCAL.services, WORKFLOW, None, None)
        signature = desk.key.sign(signed, ec.ECDSA(SHA256()))
        spec = {
            "data": {"hash": {"algorithm": "sha256", "value": Digest.of(logged).hex}},
            "signature": {
                "content": encode(signature),
                "publicKey": {"content": encode(pem(desk.certificate).encode())},
            },
        }
        log = LOCAL.services.rekor1
        entry = log.add(Body("hashedrekord", "0.0.1", spec), int(desk.moment.timestamp()))
        stored = {"SignedEntryTimestamp": encode(log.promise(entry)), "Payload": log.payload(entry)}
        with pytest.raises(Rejected, match=reason):
            ROOT.verify_detached(MESSAGE, signature, pem(desk.certificate), json.dumps(stored))

    def test_a_certificate_for_something_else_signs_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ExtendedKeyUsageOID, "CODE_SIGNING", ExtendedKeyUsageOID.EMAIL_PROTECTION)
        made = LOCAL.sign_detached(MESSAGE)
        monkeypatch.undo()
        with pytest.raises(Rejected, match="not for signing code"):
            ROOT.verify_detached(MESSAGE, made.signature, made.certificate, made.entry)

    def test_only_ec_keys_sign_keyless(self) -> None:
        key = rsa.generate_private_key(65537, 2048)
        signature = key.sign(MESSAGE, PKCS1v15(), SHA256())
        with pytest.raises(Rejected, match="not an EC key"):
            require_signed(certificate([], {}, key=key), signature, MESSAGE)

    def test_an_entry_of_a_bare_key_does_not_count_for_the_certificate(self) -> None:
        made = LOCAL.sign_detached(MESSAGE, fault=Fault.KEY)
        with pytest.raises(Rejected, match="another certificate, or a bare key"):
            ROOT.verify_detached(MESSAGE, made.signature, made.certificate, made.entry)

    @pytest.mark.parametrize(
        "part",
        [
            pytest.param({"certificate_pem": ""}, id="no certificate"),
            pytest.param({"certificate_pem": DETACHED.certificate * 2}, id="two certificates"),
            pytest.param({"certificate_pem": "\ud800"}, id="a certificate that is no text"),
            pytest.param({"certificate_pem": DETACHED.certificate + " " * (65 << 10)}, id="a huge certificate"),
            pytest.param({"entry_json": ""}, id="no entry"),
            pytest.param({"entry_json": "{" * 100_000}, id="an entry without end"),
            pytest.param({"entry_json": DETACHED.entry.replace(':"M', ':"?', 1)}, id="a promise that is not base64"),
            pytest.param({"signature": b""}, id="no signature"),
        ],
    )
    def test_what_cannot_be_read_proves_nothing(self, part: dict[str, Any]) -> None:
        with pytest.raises(Rejected):
            detached(**part)

    @given(data=st.data())
    def test_whatever_is_changed_in_the_entry_it_proves_the_same_or_nothing(self, data: DataObject) -> None:
        entry = json.loads(DETACHED.entry)
        change(entry, data)
        try:
            found = detached(entry_json=json.dumps(entry))
        except Rejected:
            return
        assert (found.identity, found.statement) == (WORKFLOW, MESSAGE)


class TestTimes:
    """Authorities and logs count for the time that they were in service; sigstore itself does not look."""

    @pytest.mark.parametrize("name", ["certificateAuthorities", "tlogs"])
    @pytest.mark.parametrize(
        "verify", [detached, lambda root: root.verify_bundle(BUNDLES[1])], ids=["detached", "bundle"]
    )
    def test_what_had_retired_counts_no_more(self, name: str, verify: Callable[[TrustRoot], Certified]) -> None:
        def root_until(end: datetime) -> TrustRoot:
            config = json.loads(json.dumps(CONFIG))
            for each in config["trustedRoot"][name]:
                each.get("publicKey", each)["validFor"]["end"] = end.strftime("%Y-%m-%dT%H:%M:%SZ")
            return root_of(config)

        now = datetime.now(UTC)
        assert verify(root_until(now + timedelta(hours=1))).identity == WORKFLOW
        with pytest.raises(Rejected):
            verify(root_until(now - timedelta(hours=1)))

    def test_what_begins_later_does_not_count_yet(self) -> None:
        config = json.loads(json.dumps(CONFIG))
        config["trustedRoot"]["certificateAuthorities"][0]["validFor"] = {"start": "2023-01-01T00:00:00Z"}
        early = LOCAL.sign_bundle(STATEMENT, at=datetime(2022, 12, 31, tzinfo=UTC))
        assert ROOT.verify_bundle(early).identity == WORKFLOW
        with pytest.raises(Rejected):
            root_of(config).verify_bundle(early)


class TestIdentities:
    def test_a_newer_extension_for_the_issuer_is_enough(self) -> None:
        assert identity_of(
            certificate([x509.UniformResourceIdentifier("https://a.example")], {8: utf8("https://i")})
        ) == (Identity("https://i", "https://a.example"))

    def test_a_name_of_fulcios_own_kind_is_read(self) -> None:
        name = x509.OtherName(ObjectIdentifier("1.3.6.1.4.1.57264.1.7"), utf8("ada"))
        assert identity_of(certificate([name], {1: b"https://i"})).subject == "ada"

    @pytest.mark.parametrize(
        ("names", "extensions"),
        [
            pytest.param([], {8: utf8("https://i")}, id="nobody"),
            pytest.param([x509.RFC822Name("a@b.c"), x509.RFC822Name("d@e.f")], {8: utf8("https://i")}, id="two"),
            pytest.param([x509.DNSName("a.example")], {8: utf8("https://i")}, id="a machine"),
            pytest.param([x509.RFC822Name("a@b.c")], {}, id="no issuer"),
            pytest.param([x509.RFC822Name("a@b.c")], {1: b"https://i", 8: utf8("https://j")}, id="two issuers"),
            pytest.param([x509.RFC822Name("a@b.c")], {8: b"https://i"}, id="an issuer that is not DER"),
            pytest.param([x509.RFC822Name("a@b.c")], {8: utf8("https://i")[:-1]}, id="an issuer cut short"),
            pytest.param([x509.RFC822Name("a@b.c")], {8: b"\x0c"}, id="an issuer without a length"),
            pytest.param([x509.RFC822Name("a@b.c")], {1: b"\xff"}, id="an issuer that is no text"),
            pytest.param(
                [x509.RFC822Name("a@b.c")], {8: utf8("https://i\n::warning::")}, id="an issuer with a line end"
            ),
            pytest.param(
                [x509.OtherName(ObjectIdentifier("1.2.3"), utf8("ada"))],
                {8: utf8("https://i")},
                id="another kind of name",
            ),
        ],
    )
    def test_who_is_not_named_as_fulcio_does_is_nobody(self, names: list[x509.GeneralName], extensions: Any) -> None:
        with pytest.raises(Rejected):
            identity_of(certificate(names, extensions))

    def test_a_certificate_must_be_for_signing_code(self) -> None:
        require_code_signing(certificate([], {}))
        for usage in (ExtendedKeyUsageOID.SERVER_AUTH, None):
            with pytest.raises(Rejected):
                require_code_signing(certificate([], {}, usage))


class TestFiles:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        return tmp_path / "trust.json"

    def test_a_client_trust_configuration_says_where_to_sign(self, file: Path) -> None:
        file.write_text(json.dumps(CONFIG))
        root = TrustRoot.from_file(file)
        assert root.custom
        assert root.services == Services(URL, f"{URL}/api/v1/log/entries")
        assert root.rekor_url == URL

    def test_a_trusted_root_alone_verifies_and_does_not_sign(self, file: Path) -> None:
        file.write_text(json.dumps(trusted_root(LOCAL.services, URL)))
        root = TrustRoot.from_file(str(file))
        assert root.verify_bundle(BUNDLES[2]).identity == detached(root).identity == WORKFLOW
        assert root.rekor_url == URL
        with pytest.raises(NoSigningServices, match="signingConfig"):
            _ = root.services

    @pytest.mark.parametrize(
        "content",
        [
            pytest.param(b"", id="empty"),
            pytest.param(b"-----BEGIN PUBLIC KEY-----", id="a key"),
            pytest.param(b"[" * 100_000, id="nested without end"),
            pytest.param(b"{}", id="neither"),
            pytest.param(BUNDLES[1], id="a bundle"),
            pytest.param(b" " * (5 << 20), id="too large"),
        ],
    )
    def test_what_is_neither_is_refused_at_once(self, file: Path, content: bytes) -> None:
        file.write_bytes(content)
        with pytest.raises(TrustConfigUnreadable) as caught:
            TrustRoot.from_file(file)
        assert isinstance(caught.value, UsageError)
        assert str(file) in str(caught.value)

    @pytest.mark.parametrize("name", ["absent.json", ".", "nul\0"])
    def test_what_cannot_be_read_is_refused(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(TrustConfigUnreadable):
            TrustRoot.from_file(f"{tmp_path}/{name}")

    @pytest.mark.parametrize(
        ("part", "value"),
        [
            pytest.param("tlogs", [], id="no log"),
            pytest.param("tlogs", [{}], id="a log of nothing"),
            pytest.param("certificateAuthorities", "none", id="text for authorities"),
            pytest.param("timestampAuthorities", [{"certChain": {}}], id="no chain"),
            pytest.param("novelty", 1, id="something newer"),
            pytest.param(
                "certificateAuthorities",
                [CONFIG["trustedRoot"]["certificateAuthorities"][0] | {"validFor": {"start": "2020-01-01T00:00:00"}}],
                id="a time without its zone",
            ),
            pytest.param(
                "tlogs",
                [
                    CONFIG["trustedRoot"]["tlogs"][0]
                    | {"publicKey": CONFIG["trustedRoot"]["tlogs"][0]["publicKey"] | {"validFor": ENDLESS}}
                ],
                id="an end without its zone",
            ),
        ],
    )
    def test_what_sigstore_cannot_use_is_refused_when_it_is_used(self, part: str, value: Any) -> None:
        root = root_of(CONFIG | {"trustedRoot": CONFIG["trustedRoot"] | {part: value}})
        with pytest.raises(TrustConfigUnreadable):
            root.verify_bundle(BUNDLES[1])


class TestTrustRoots:
    def test_equal_roots_are_one_and_another_instance_is_another(self, tmp_path: Path) -> None:
        environment = {"XDG_CACHE_HOME": str(tmp_path)}
        assert len({root_of(CONFIG), root_of(CONFIG), TrustRoot.public(environment=environment)}) == 2
        match = IdentityMatch.exact(WORKFLOW)
        assert hash(TrustedIdentities((match,), ROOT)) == hash(TrustedIdentities((match,), root_of(CONFIG)))

    def test_the_public_instance_is_no_custom_one_and_touches_nothing_before_it_is_used(self, tmp_path: Path) -> None:
        root = TrustRoot.public(environment={"HOME": str(tmp_path), "HTTPS_PROXY": "https://u:canary@proxy.example"})
        assert not root.custom
        assert root.network == Network("https://u:canary@proxy.example")
        assert root.folder == tmp_path / ".cache/flux-manifests/sigstore"
        assert "canary" not in repr(root)
        assert list(tmp_path.iterdir()) == []

    def test_without_a_network_the_public_roots_are_those_that_sigstore_came_with(self, tmp_path: Path) -> None:
        root = TrustRoot.public(offline=True, environment={"XDG_CACHE_HOME": str(tmp_path)})
        assert root.rekor_url == "https://rekor.sigstore.dev"
        assert root.services.fulcio == "https://fulcio.sigstore.dev"
        with pytest.raises(Rejected):
            root.verify_bundle(BUNDLES[1])


def change(value: Any, data: DataObject) -> None:
    """Change one thing, somewhere in a JSON value."""
    places = list(_places(value))
    holder, key = data.draw(st.sampled_from(places))
    old = holder[key]
    other: st.SearchStrategy[Any] = (
        st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just([]) | st.just({})
    )
    if isinstance(old, str) and old:
        flipped = st.integers(0, len(old) - 1).map(
            lambda at: old[:at] + ("A" if old[at] != "A" else "B") + old[at + 1 :]
        )
        other = other | flipped | st.just(old[:-1]) | st.just(base64.b64encode(b"x" * 64).decode())
    holder[key] = data.draw(other)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    for key in value if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


def certificate(
    names: list[x509.GeneralName],
    extensions: dict[int, bytes],
    usage: ObjectIdentifier | None = ExtendedKeyUsageOID.CODE_SIGNING,
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | None = None,
) -> x509.Certificate:
    """Return a certificate as Fulcio never makes one; nobody has issued it."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(x509.Name([]))
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(minutes=10))
        .add_extension(
            x509.KeyUsage(True, False, False, False, False, False, False, False, False),
            critical=True,
        )
    )
    if usage:
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=True)
    for number, value in extensions.items():
        own = x509.UnrecognizedExtension(ObjectIdentifier(f"1.3.6.1.4.1.57264.1.{number}"), value)
        builder = builder.add_extension(own, critical=False)
    return builder.sign(key, SHA256())
