"""Keys of every kind and origin: what cosign accepts of our signatures, we of cosign's, and what a KMS or HSM signs."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from ci_automation.artifact.manifest import CONFIG_BLOB, FLUX_CONFIG, FLUX_LAYER, Descriptor, Manifest
from ci_automation.artifact.reference import Digest
from ci_automation.policy.model import SignatureFormat
from ci_automation.registry import open_registry
from ci_automation.signing.keys.kms import KmsFailed
from ci_automation.signing.keys.private import open_private_key
from ci_automation.signing.keys.public import load_public_key
from ci_automation.signing.signer import KeySigner
from ci_automation.signing.trust import TrustedKeys
from ci_automation.signing.verify import ForeignSignature, ensure_signed, verify
from tests.fakes.keys import self_signed
from tests.fakes.kms import FakeAws, FakeVault
from tests.real import cosign, program
from tests.real.peers import peer
from tests.real.pipeline import PASSWORD, KeyPair
from tests.real.processes import ProgramFailed, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from ci_automation.artifact.reference import Reference
    from ci_automation.registry.port import Registry
    from ci_automation.signing.keys.kms import KmsKey
    from ci_automation.signing.keys.private import SigningKey
    from ci_automation.signing.trust import PrivateKey
    from tests.real.registries import RealRegistry

    KmsDouble = Callable[[ec.EllipticCurvePrivateKey, Path], AbstractContextManager[tuple[str, Mapping[str, str]]]]

LEGACY, BUNDLE = SignatureFormat.LEGACY, SignatureFormat.BUNDLE
COSIGNS = ("cosign", "cosign3")
OPENSSL = {
    "EC P-256": ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"),
    "EC P-384": ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"),
    "RSA 2048": ("-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"),
    "RSA 4096": ("-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:4096"),
    "Ed25519": ("-algorithm", "ED25519"),
}
SOFTHSM = Path("/usr/lib/softhsm/libsofthsm2.so")


@dataclass(frozen=True, slots=True)
class Files:
    """A key pair as files; the private one may have the tests' password."""

    private: Path
    public: Path

    @property
    def key(self) -> SigningKey | KmsKey:
        return open_private_key(str(self.private), {"COSIGN_PASSWORD": PASSWORD}, Path())


def by_openssl(kind: str, folder: Path, *more: str) -> Files:
    files = Files(folder / "openssl.pem", folder / "openssl.pub")
    run(["openssl", "genpkey", *OPENSSL[kind], *more, "-out", files.private], PASSWORD=PASSWORD)
    run(
        ["openssl", "pkey", "-in", files.private, "-passin", "env:PASSWORD", "-pubout", "-out", files.public],
        PASSWORD=PASSWORD,
    )
    return files


def by_openssl_with_password(kind: str, folder: Path) -> Files:
    return by_openssl(kind, folder, "-aes-256-cbc", "-pass", "env:PASSWORD")


def imported_by(name: str) -> Callable[[str, Path], Files]:
    def make(kind: str, folder: Path) -> Files:
        key, prefix = by_openssl(kind, folder).private, folder / "imported"
        run([peer(name), "import-key-pair", f"--key={key}", f"--output-key-prefix={prefix}"], COSIGN_PASSWORD=PASSWORD)
        return Files(prefix.with_suffix(".key"), prefix.with_suffix(".pub"))

    return make


def generated_by_cosign(_: str, folder: Path) -> Files:
    pair = KeyPair.make(folder)
    return Files(pair.private, pair.public)


ORIGINS: list[tuple[str, Callable[[str, Path], Files]]] = [
    ("EC P-256", generated_by_cosign),
    *((kind, by_openssl) for kind in OPENSSL),
    *((kind, by_openssl_with_password) for kind in ("EC P-256", "Ed25519")),
    *((kind, imported_by("cosign")) for kind in OPENSSL),
    ("EC P-384", imported_by("cosign3")),
]
IDS = [
    "cosign generate-key-pair",
    *(f"openssl, {kind}" for kind in OPENSSL),
    "openssl with a password, EC P-256",
    "openssl with a password, Ed25519",
    *(f"cosign import-key-pair, {kind}" for kind in OPENSSL),
    "cosign 3 import-key-pair, EC P-384",
]


@dataclass(frozen=True, slots=True)
class Artifact:
    """A manifest in a real registry, to be signed."""

    registry: Registry
    reference: Reference
    digest: Digest
    sigstore: cosign.Files

    @property
    def name(self) -> str:
        """How cosign names it."""
        return str(self.reference.at_digest(self.digest)).removeprefix("oci://")

    def signed(self, key: PrivateKey, form: SignatureFormat) -> None:
        """Let us sign it."""
        ensure_signed(self.registry, self.reference, self.digest, KeySigner(key), form)

    def signed_by(self, name: str, key: str, form: SignatureFormat) -> None:
        """Let a cosign sign it; `key` is a file or in a KMS."""
        nowhere = ("--use-signing-config=false",) if name == "cosign3" else ()
        how = (f"--key={key}", "--tlog-upload=false", _new(form), *nowhere, *cosign.ANYWAY)
        run([peer(name), "sign", *how, self.name], COSIGN_PASSWORD=PASSWORD)

    def verified(self, public: Path, form: SignatureFormat) -> bool:
        """Return whether we accept it."""
        key = load_public_key(str(public), {}, Path())
        try:
            verify(self.registry, self.reference, self.digest, TrustedKeys((key,)), form)
        except ForeignSignature:
            return False
        return True

    def verified_by(self, name: str, public: Path, form: SignatureFormat) -> bool:
        """Return whether a cosign accepts it."""
        trust = (f"--key={public}", f"--trusted-root={self.sigstore.trusted_root}", "--insecure-ignore-tlog")
        how = (_new(form), "--allow-insecure-registry")
        try:
            run([peer(name), "verify", *trust, *how, self.name])
        except ProgramFailed as failed:
            if "no matching" not in str(failed):  # for want of something, not of a signature
                raise
            return False
        return True


def _new(form: SignatureFormat) -> str:
    return f"--new-bundle-format={str(form is BUNDLE).lower()}"


@pytest.fixture
def artifact(referrers_registry: RealRegistry, repository: str, tmp_path: Path) -> Artifact:
    """Return something to sign, where nothing is signed yet."""
    channel = program.channel(
        referrers_registry.host, f"{repository[:80].rstrip('-')}-{Digest.of(repository.encode()).hex[:8]}"
    )
    registry = open_registry(channel)
    for blob in (CONFIG_BLOB, repository.encode()):
        registry.put_blob(channel, blob)
    made = Manifest.build(
        Descriptor.of(FLUX_CONFIG, CONFIG_BLOB), (Descriptor.of(FLUX_LAYER, repository.encode()),), {}
    )
    digest = registry.put_manifest(channel.at_digest(made.digest), made)
    return Artifact(registry, channel, digest, cosign.Files.without_sigstore(tmp_path / "sigstore"))


@pytest.mark.parametrize("form", [LEGACY, BUNDLE], ids=str)
@pytest.mark.parametrize(("kind", "make"), ORIGINS, ids=IDS)
def test_cosign_accepts_what_is_signed_here_with_every_kind_of_key(
    kind: str, make: Callable[[str, Path], Files], form: SignatureFormat, artifact: Artifact, tmp_path: Path
) -> None:
    files = make(kind, tmp_path)
    artifact.signed(files.key, form)
    for name in COSIGNS:
        assert artifact.verified_by(name, files.public, form)
    (tmp_path / "other").mkdir()
    other = by_openssl(kind, tmp_path / "other")
    assert not artifact.verified_by("cosign3", other.public, form)


@pytest.mark.parametrize(
    ("form", "name"),
    [(LEGACY, "cosign"), (LEGACY, "cosign3"), (BUNDLE, "cosign3")],
    ids=["2, .sig", "3, .sig", "3, bundle"],
)
@pytest.mark.parametrize("kind", OPENSSL)
def test_what_cosign_signs_we_accept_as_it_does_itself_and_say_where_nobody_does(
    kind: str, form: SignatureFormat, name: str, artifact: Artifact, tmp_path: Path
) -> None:
    """By default cosign signs with P-384 over SHA-384, and Ed25519ph, and verifies neither; nor does Flux."""
    files = imported_by(name)(kind, tmp_path)
    artifact.signed_by(name, str(files.private), form)
    expected = files.key.public.limits is None
    assert artifact.verified_by(name, files.public, form) == expected
    assert artifact.verified(files.public, form) == expected


@contextmanager
def in_vault(key: ec.EllipticCurvePrivateKey, _: Path) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the location of a key in a double of Vault, and the environment that leads there."""
    with FakeVault(keys={"flux": [key]}) as double:
        yield "hashivault://flux", double.environment()


@contextmanager
def in_aws(key: ec.EllipticCurvePrivateKey, folder: Path) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the location of a key in a double of AWS KMS, and the environment that leads there."""
    with FakeAws(tls=self_signed(folder)) as double:
        double.add(key, "flux")
        trust = {"AWS_CA_BUNDLE": str(folder / "server.pem")}
        yield f"awskms://{double.host}/alias/flux", {**double.environment(), **trust}


@pytest.mark.parametrize("kms", [in_vault, in_aws], ids=["Vault", "AWS KMS"])
@pytest.mark.parametrize("name", COSIGNS)
def test_a_key_in_a_kms_is_the_same_to_cosign_and_to_us(
    kms: KmsDouble, name: str, artifact: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cosign's own client of the service takes the double for the real one; we read the same location."""
    with kms(ec.generate_private_key(ec.SECP256R1()), tmp_path) as (location, environment):
        for variable, value in environment.items():
            monkeypatch.setenv(variable, value)
        key = open_private_key(location, environment, Path())
        public = tmp_path / "kms.pub"
        public.write_text(key.public.to_pem())
        # Cosign's client cannot be given an authority, only be told to trust anybody.
        monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
        monkeypatch.setenv("AWS_TLS_INSECURE_SKIP_VERIFY", "1")
        assert run([peer(name), "public-key", f"--key={location}"]) == key.public.to_pem()

        artifact.signed(key, BUNDLE)
        assert artifact.verified_by(name, public, BUNDLE)

        artifact.signed_by(name, location, LEGACY)
        assert artifact.verified(public, LEGACY)


def test_a_key_in_a_token_signs_what_cosign_accepts(
    artifact: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With SoftHSM, a PKCS #11 token in a folder. Its program wants the PIN on the command line: it is no canary."""
    pytest.importorskip("pkcs11", reason="python-pkcs11 is not installed")
    if not SOFTHSM.is_file() or not shutil.which("softhsm2-util"):
        pytest.skip("softhsm2 is not installed")
    pin, files = "4711-0815", by_openssl("EC P-256", tmp_path)
    (tmp_path / "tokens").mkdir()
    (tmp_path / "softhsm2.conf").write_text(f"directories.tokendir = {tmp_path / 'tokens'}\n")
    monkeypatch.setenv("SOFTHSM2_CONF", str(tmp_path / "softhsm2.conf"))
    monkeypatch.setenv("PYKCS11LIB", str(SOFTHSM))
    monkeypatch.setenv("COSIGN_PKCS11_PIN", pin)
    token = ("--token", "Yubi Key", "--pin", pin)
    run(["softhsm2-util", "--init-token", "--free", "--label", "Yubi Key", "--pin", pin, "--so-pin", pin])
    run(["softhsm2-util", "--import", files.private, *token, "--label", "flux", "--id", "02"])

    key = open_private_key("hsm:2?label=Yubi+Key", os.environ, Path())
    for form in (LEGACY, BUNDLE):
        artifact.signed(key, form)
        assert artifact.verified_by("cosign3", files.public, form)
    for location, said in (
        ("hsm:3?label=Yubi+Key", "could not find ECDSA key"),
        ("hsm:2?label=other", "No PKCS#11 token found"),
    ):
        with pytest.raises(KmsFailed, match=said) as failure:
            open_private_key(location, os.environ, Path())
        assert pin not in f"{failure.value}"
    with pytest.raises(KmsFailed, match="PinIncorrect"):
        open_private_key("hsm:2?label=Yubi+Key", {**os.environ, "COSIGN_PKCS11_PIN": "0000"}, Path()).sign(b"message")
