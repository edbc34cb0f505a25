from __future__ import annotations

import base64
import json
import os
import re
import shlex
from hashlib import sha512
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa, x25519
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS, PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from ci_automation.artifact.reference import Digest
from ci_automation.errors import SigningError
from ci_automation.signing.keys.private import SigningKey, WrongPassword, open_private_key
from ci_automation.signing.keys.public import (
    PASSWORD_VARIABLE,
    KeyFileMissing,
    KeyKind,
    KeyUnreadable,
    OtherHalf,
    PublicKey,
    UnsupportedKey,
    load_public_key,
)
from tests.fakes.keys import armoured, cosign_key, envelope
from tests.fakes.world import key_pem, signing_key

if TYPE_CHECKING:
    from pathlib import Path

PASSWORD = "canary-password\tbättery"
PRIVATE = signing_key().key
ENCRYPTED = BestAvailableEncryption(PASSWORD.encode())

FORMS = {
    "PKCS #8": key_pem(),
    "SEC 1": PRIVATE.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()),
    "encrypted PKCS #8": PRIVATE.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, ENCRYPTED),
    "encrypted SEC 1": PRIVATE.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, ENCRYPTED),
    "cosign.key": cosign_key(PASSWORD),
    "cosign.key of cosign 1": cosign_key(PASSWORD, kind="COSIGN"),
    "cosign.key with Windows' line ends": cosign_key(PASSWORD).replace(b"\n", b"\r\n"),
}


@pytest.mark.parametrize("data", FORMS.values(), ids=list(FORMS))
def test_every_form_opens_to_the_same_key(data: bytes) -> None:
    key = SigningKey.from_bytes(data, PASSWORD, "here")
    assert key.public.fingerprint == signing_key().public.fingerprint
    assert signing_key().public.accepts(key.sign(b"message"), b"message")


@pytest.mark.parametrize("form", ["cosign.key", "PKCS #8"])
def test_a_password_of_bytes_that_are_no_text_opens_it_too(form: str) -> None:
    password = b"canary-b\xe9ttery"
    encrypted = PRIVATE.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password))
    given = os.fsdecode(password)  # as it is in the environment
    data = encrypted if form == "PKCS #8" else cosign_key(given)
    assert SigningKey.from_bytes(data, given, "here").public.fingerprint == signing_key().public.fingerprint


@pytest.mark.parametrize("name", [name for name in FORMS if name.startswith(("encrypted", "cosign"))])
@pytest.mark.parametrize("password", [None, "", "wrong", PASSWORD + " "])
def test_an_encrypted_key_needs_its_password(name: str, password: str | None) -> None:
    with pytest.raises(WrongPassword) as refusal:
        SigningKey.from_bytes(FORMS[name], password, "the.key")
    assert "the.key" in str(refusal.value)
    assert "`read -rs COSIGN_PASSWORD; export COSIGN_PASSWORD`" in refusal.value.hint
    assert ("is not set" in str(refusal.value)) == (password is None)
    assert PASSWORD not in str(refusal.value)


def test_a_password_that_is_not_needed_does_no_harm() -> None:
    SigningKey.from_bytes(key_pem(), PASSWORD, "here")


KINDS: dict[KeyKind, Any] = {
    KeyKind.P256: ec.generate_private_key(ec.SECP256R1()),
    KeyKind.P384: ec.generate_private_key(ec.SECP384R1()),
    KeyKind.RSA: rsa.generate_private_key(65537, 2048),
    KeyKind.ED25519: ed25519.Ed25519PrivateKey.generate(),
}
by_kind = pytest.mark.parametrize("kind", KINDS)


def pem(key: Any, encryption: KeySerializationEncryption | None = None) -> bytes:
    made: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption())
    return made


def in_cosigns_envelope(key: Any) -> bytes:
    der = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    return armoured(json.dumps(envelope(PASSWORD, content=der)).encode())


class TestKinds:
    @by_kind
    def test_each_kind_is_read_in_every_form_and_signs_for_itself(self, kind: KeyKind) -> None:
        public = SigningKey(KINDS[kind]).public
        for data in (pem(KINDS[kind]), pem(KINDS[kind], ENCRYPTED), in_cosigns_envelope(KINDS[kind])):
            key = SigningKey.from_bytes(data, PASSWORD, "here")
            assert key.public.kind is kind
            assert key.public.fingerprint == public.fingerprint
            assert public.accepts(key.sign(b"message"), b"message")
            assert repr(key) == "SigningKey()"

    @by_kind
    def test_each_kind_is_read_as_a_public_key(self, kind: KeyKind) -> None:
        public = SigningKey(KINDS[kind]).public
        read = PublicKey.from_pem(public.to_pem().encode(), "here")
        assert (read.kind, read.fingerprint) == (kind, public.fingerprint)

    @by_kind
    def test_a_signature_counts_for_its_message_and_its_key_alone(self, kind: KeyKind) -> None:
        key = SigningKey(KINDS[kind])
        signature = key.sign(b"message")
        assert not key.public.accepts(signature, b"another")
        assert not key.public.accepts(signature[:-1], b"message")
        assert not key.public.accepts(b"", b"message")
        for other in KINDS.values():
            public = SigningKey(other).public
            assert public.accepts(signature, b"message") == (public == key.public)

    @pytest.mark.parametrize(
        ("kind", "signature"),
        [
            pytest.param(KeyKind.P384, KINDS[KeyKind.P384].sign(b"message", ec.ECDSA(SHA384())), id="SHA-384"),
            pytest.param(KeyKind.RSA, KINDS[KeyKind.RSA].sign(b"message", PSS(MGF1(SHA256()), 32), SHA256()), id="PSS"),
            pytest.param(KeyKind.RSA, KINDS[KeyKind.RSA].sign(b"message", PKCS1v15(), SHA512()), id="SHA-512"),
            pytest.param(KeyKind.ED25519, KINDS[KeyKind.ED25519].sign(sha512(b"message").digest()), id="hashed before"),
        ],
    )
    def test_what_flux_does_not_verify_is_not_accepted(self, kind: KeyKind, signature: bytes) -> None:
        assert not SigningKey(KINDS[kind]).public.accepts(signature, b"message")

    @pytest.mark.parametrize(
        ("kind", "word"),
        [(KeyKind.P256, None), (KeyKind.RSA, None), (KeyKind.P384, "SHA-384"), (KeyKind.ED25519, "Ed25519ph")],
    )
    def test_where_flux_cannot_follow_is_said(self, kind: KeyKind, word: str | None) -> None:
        limits = SigningKey(KINDS[kind]).public.limits
        assert (limits is None) if word is None else (limits is not None and word in limits)

    def test_rsa_in_its_own_form_is_read_too(self) -> None:
        key = KINDS[KeyKind.RSA]
        data = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        assert SigningKey.from_bytes(data, None, "here").public.kind is KeyKind.RSA
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.PKCS1)
        assert PublicKey.from_pem(public, "here").fingerprint == SigningKey(key).public.fingerprint

    @pytest.mark.parametrize(
        "key",
        [
            pytest.param(ec.generate_private_key(ec.SECP521R1()), id="P-521"),
            pytest.param(ec.generate_private_key(ec.SECP256K1()), id="the curve of bitcoin"),
            pytest.param(rsa.generate_private_key(65537, 1024), id="RSA too short"),  # noqa: S505
            pytest.param(ed448.Ed448PrivateKey.generate(), id="Ed448"),
            pytest.param(x25519.X25519PrivateKey.generate(), id="a key that does not sign"),
        ],
    )
    def test_other_kinds_are_refused_with_those_that_are_not(self, key: Any) -> None:
        with pytest.raises(UnsupportedKey, match=r"the key here is none of EC P-256, EC P-384, RSA of 2048 bits"):
            SigningKey.from_bytes(pem(key), None, "here")
        with pytest.raises(UnsupportedKey):
            SigningKey.from_bytes(in_cosigns_envelope(key), PASSWORD, "here")
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        with pytest.raises(UnsupportedKey):
            PublicKey.from_pem(public, "here")

    def test_a_kind_that_nobody_knows_is_not_supported(self) -> None:
        key = KINDS[KeyKind.ED25519]
        with pytest.raises(UnsupportedKey):
            SigningKey.from_bytes(of_unknown_kind(pem(key)), None, "here")
        with pytest.raises(UnsupportedKey):
            PublicKey.from_pem(of_unknown_kind(SigningKey(key).public.to_pem().encode()), "here")


def of_unknown_kind(data: bytes) -> bytes:
    """Return an Ed25519 key in PEM with another object identifier, which nobody has given out."""
    first, *body, last = data.splitlines()
    unknown = base64.b64decode(b"".join(body)).replace(b"\x2b\x65\x70", b"\x2b\x65\x7f")
    return b"\n".join([first, base64.b64encode(unknown), last])


def altered(**changes: object) -> bytes:
    """Return a cosign.key whose envelope has other values; a dotted path is written with two underscores."""
    value = envelope(PASSWORD)
    for path, new in changes.items():
        *folders, name = path.split("__")
        place = value
        for folder in folders:
            place = place[folder]
        place[name] = new
    return armoured(json.dumps(value).encode())


BROKEN = {
    "empty": b"",
    "no PEM": b"hello",
    "half a PEM": key_pem()[:60],
    "a damaged PEM": key_pem().replace(b"M", b"N", 5),
    "not JSON": armoured(b"hello"),
    "a list": armoured(b"[]"),
    "nested": armoured(b"[" * 30_000),
    "not base64": armoured(b"x").replace(b"eA==", b"eA="),
    "another derivation": altered(kdf__name="argon2"),
    "another cipher": altered(cipher__name="aes"),
    "no salt": altered(kdf__salt=None),
    "a short nonce": altered(cipher__nonce="AAAA"),
    "N of nothing": altered(kdf__params__N=0),
    "N that is no power of two": altered(kdf__params__N=3),
    "N as text": altered(kdf__params__N="16"),
    "N as truth": altered(kdf__params__N=True),
    "N of all memory": altered(kdf__params__N=1 << 40),
    "r of all memory": altered(kdf__params__r=1 << 30),
    "p for ever": altered(kdf__params__p=1 << 30),
    "N and p for ever": altered(kdf__params__N=1 << 10, kdf__params__r=1, kdf__params__p=1 << 13),
    "no parameters": altered(kdf__params={}),
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=list(BROKEN))
def test_a_broken_or_hostile_key_is_told_by_its_place(data: bytes) -> None:
    with pytest.raises(KeyUnreadable, match=r"the key here\.key cannot be read: \w+"):
        SigningKey.from_bytes(data, PASSWORD, "here.key")


def test_a_cosign_key_with_something_else_inside_is_not_a_wrong_password() -> None:
    data = armoured(json.dumps(envelope(PASSWORD, content=b"not a key")).encode())
    with pytest.raises(KeyUnreadable):
        SigningKey.from_bytes(data, PASSWORD, "here.key")


@pytest.mark.parametrize(
    "data", [b"", b"hello", key_pem(), b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"]
)
def test_what_is_no_public_key_is_told(data: bytes) -> None:
    with pytest.raises(KeyUnreadable, match="the key here cannot be read"):
        PublicKey.from_pem(data, "here")


class TestLoading:
    def test_from_a_file_beside_the_folder_or_by_its_whole_path(self, tmp_path: Path) -> None:
        (tmp_path / "cosign.key").write_bytes(cosign_key(PASSWORD))
        (tmp_path / "cosign.pub").write_text(signing_key().public.to_pem())
        environment = {PASSWORD_VARIABLE: PASSWORD}
        for location in ("cosign.key", str(tmp_path / "cosign.key")):
            key = open_private_key(location, environment, tmp_path)
            assert key.public.fingerprint == load_public_key("cosign.pub", {}, tmp_path).fingerprint

    def test_from_a_variable(self, tmp_path: Path) -> None:
        environment = {"KEY": key_pem().decode(), "PUBLIC": signing_key().public.to_pem()}
        expected = signing_key().public.fingerprint
        assert open_private_key("env://KEY", environment, tmp_path).public.fingerprint == expected
        assert load_public_key("env://PUBLIC", environment, tmp_path).fingerprint == expected

    def test_one_half_in_place_of_the_other_is_told_with_the_one_to_give(self, tmp_path: Path) -> None:
        environment = {"KEY": key_pem().decode(), "PUBLIC": signing_key().public.to_pem(), "JUNK": "hello"}
        for load, location, told, hint in (
            (open_private_key, "env://PUBLIC", "is a public key, and", "such as cosign.key"),
            (load_public_key, "env://KEY", "is a private key, and", "such as cosign.pub"),
        ):
            with pytest.raises(OtherHalf, match=f"the key {location} {told}") as refusal:
                load(location, environment, tmp_path)
            assert (hint in refusal.value.hint, refusal.value.exit_code) == (True, 2)
        for load in (open_private_key, load_public_key):
            with pytest.raises(KeyUnreadable, match="the key env://JUNK cannot be read: it is no PEM") as unreadable:
                load("env://JUNK", environment, tmp_path)
            assert "as PEM" in unreadable.value.hint

    @pytest.mark.parametrize("location", ["missing.key", ".", "env://NOPE", "env://", "env://EMPTY", "a\0b"])
    def test_what_is_not_there_is_a_mistake_of_use(self, tmp_path: Path, location: str) -> None:
        with pytest.raises(KeyFileMissing) as refusal:
            open_private_key(location, {"EMPTY": ""}, tmp_path)
        assert refusal.value.exit_code == 2

    @pytest.mark.parametrize("location", ["keys/my team.key", "keys/my team.pub"])
    def test_of_a_file_that_is_not_there_it_says_how_a_key_is_made(self, tmp_path: Path, location: str) -> None:
        with pytest.raises(KeyFileMissing) as refusal:
            load_public_key(location, {}, tmp_path)
        commands = re.findall("`(openssl [^`]*)`", refusal.value.hint)
        assert [shlex.split(it)[-1] for it in commands] == ["keys/my team.key", "keys/my team.pub"]
        for other in (".", "env://NOPE"):
            with pytest.raises(KeyFileMissing) as refusal:
                load_public_key(other, {}, tmp_path)
            assert "openssl" not in refusal.value.hint

    def test_a_file_too_large_is_not_read_to_its_end(self, tmp_path: Path) -> None:
        (tmp_path / "big").write_bytes(key_pem() + b"\n" * (64 << 10))
        with pytest.raises(KeyUnreadable, match="too large"):
            open_private_key("big", {}, tmp_path)
        with pytest.raises(KeyUnreadable, match="too large"):
            open_private_key("/dev/zero", {}, tmp_path)


def test_a_key_prints_nothing_of_itself() -> None:
    key = signing_key()
    assert repr(key) == str(key) == "SigningKey()"
    assert isinstance(key.key, ec.EllipticCurvePrivateKey)
    assert f"{key.key.private_numbers().private_value}" not in repr([key])


def test_what_goes_wrong_with_keys_exits_with_22() -> None:
    assert {error.exit_code for error in (KeyUnreadable, WrongPassword, UnsupportedKey, SigningError)} == {22}


class TestPublicKey:
    def test_the_fingerprint_is_the_digest_of_its_information(self) -> None:
        der = PRIVATE.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        assert signing_key().public.fingerprint == Digest.of(der)

    def test_as_pem_it_is_itself(self) -> None:
        public = signing_key().public
        assert PublicKey.from_pem(public.to_pem().encode(), "here").fingerprint == public.fingerprint

    @pytest.mark.parametrize(
        "signature", [b"", b"\x30\x00", b"x" * 72, b"\0" * 64], ids=["none", "empty", "junk", "raw"]
    )
    def test_what_is_no_signature_is_not_accepted(self, signature: bytes) -> None:
        assert not signing_key().public.accepts(signature, b"message")

    def test_a_signature_counts_for_its_message_and_its_key_alone(self) -> None:
        signature = signing_key().sign(b"message")
        assert signing_key().public.accepts(signature, b"message")
        assert not signing_key().public.accepts(signature, b"another")
        assert not signing_key("theirs").public.accepts(signature, b"message")


@pytest.mark.parametrize("pasted", ["-----BEGIN PRIVATE KEY-----\nMIGHsecret", "MIGH\nsecret", "x-----BEGINsecret"])
def test_a_key_that_is_pasted_in_place_of_its_file_is_not_repeated(pasted: str, tmp_path: Path) -> None:
    for load in (open_private_key, load_public_key):
        with pytest.raises(KeyFileMissing, match="looks like a key itself") as caught:
            load(pasted, {}, tmp_path)
        assert "secret" not in str(caught.value)


def test_a_key_of_ssh_is_called_one() -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    data = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    with pytest.raises(KeyUnreadable, match="the key here cannot be read: it is a key of OpenSSH") as unreadable:
        SigningKey.from_bytes(data, None, "here")
    assert "`cosign generate-key-pair` makes one" in unreadable.value.hint
