"""Keys in a KMS: what is asked of it, what is believed of its answers, and what of it is ever shown."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from botocore.loaders import JSONFileLoader
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from securesystemslib.exceptions import UnsupportedAlgorithmError

from ci_automation.errors import Error
from ci_automation.net.waiting import watched
from ci_automation.signing.keys import kms
from ci_automation.signing.keys.kms import KmsClientMissing, KmsFailed, KmsKeyUnsuitable, KmsLocationInvalid, is_kms
from ci_automation.signing.keys.private import SigningKey, open_private_key
from ci_automation.signing.keys.public import KeyFileMissing, KeyKind, UnsupportedKey
from tests.fakes.keys import self_signed
from tests.fakes.kms import CANARY, REGION, FakeAws, FakeVault, Fault
from tests.fakes.world import key_pem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ci_automation.signing.keys.kms import KmsKey

MESSAGE = b"what is signed" * 1000
NAME = "alias/flux"
NOT_UNDERSTOOD = "its answer is not understood"
NO_FOLDER = Path("/nonexistent")


@cache
def p256(owner: str = "ours") -> ec.EllipticCurvePrivateKey:
    assert owner
    return ec.generate_private_key(ec.SECP256R1())


@cache
def rsa_2048() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


def opened(location: str, **environment: str) -> SigningKey | KmsKey:
    return open_private_key(location, environment, NO_FOLDER)


@pytest.fixture(scope="module", autouse=True)
def _reads_once() -> Iterator[None]:
    """Let boto3 read its descriptions of AWS once: each new client reads megabytes of JSON."""
    read = cache(JSONFileLoader().load_file)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JSONFileLoader, "load_file", lambda _, path: read(path))
        yield


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAws]:
    with FakeAws() as double:
        for name, value in double.environment().items():
            monkeypatch.setenv(name, value)
        yield double


@pytest.fixture
def vault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeVault]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("VAULT_TOKEN", raising=False)
    with FakeVault() as double:
        yield double


class TestAws:
    @pytest.mark.parametrize(
        ("key", "algorithm"),
        [
            pytest.param(p256, "ECDSA_SHA_256", id="EC P-256"),
            pytest.param(rsa_2048, "RSASSA_PKCS1_V1_5_SHA_256", id="RSA, not with PSS, which Flux does not verify"),
        ],
    )
    def test_what_it_signs_is_what_flux_verifies(self, aws: FakeAws, key: Any, algorithm: str) -> None:
        aws.add(key(), "flux")
        held = opened(f"awskms:///{NAME}")
        assert held.public.fingerprint == SigningKey(key()).public.fingerprint
        assert held.public.accepts(held.sign(MESSAGE), MESSAGE)
        assert aws.paths == ["POST TrentService.GetPublicKey", "POST TrentService.Sign"]
        assert aws.requests[1].json["SigningAlgorithm"] == algorithm

    def test_only_a_digest_leaves_this_machine(self, aws: FakeAws) -> None:
        aws.add(p256(), "flux")
        opened(f"awskms:///{NAME}").sign(MESSAGE)
        assert aws.requests[1].json["MessageType"] == "DIGEST"
        assert all(len(request.body) < 400 for request in aws.requests)

    @pytest.mark.parametrize(
        "written",
        [
            pytest.param("{id}", id="ID"),
            pytest.param("{arn}", id="ARN"),
            pytest.param("alias/flux", id="alias"),
            pytest.param("{alias}", id="ARN of an alias"),
        ],
    )
    def test_a_key_is_named_as_aws_names_it(self, aws: FakeAws, written: str) -> None:
        identifier = aws.add(p256(), "flux")
        name = written.format(id=identifier, arn=aws.arn(identifier), alias=aws.arn(NAME))
        assert opened(f"awskms:///{name}").public.kind is KeyKind.P256

    def test_an_arn_says_its_region_whatever_the_environment_says(
        self, aws: FakeAws, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        opened(f"awskms:///{aws.arn(aws.add(p256(), 'flux'))}").sign(MESSAGE)

    def test_either_variable_says_the_region_of_an_alias(self, aws: FakeAws, monkeypatch: pytest.MonkeyPatch) -> None:
        aws.add(p256(), "flux")
        monkeypatch.delenv("AWS_DEFAULT_REGION")
        monkeypatch.delenv("AWS_REGION")
        with pytest.raises(KmsFailed, match="NoRegionError"):
            opened(f"awskms:///{NAME}")
        opened(f"awskms:///{NAME}", AWS_REGION=REGION).sign(MESSAGE)

    def test_a_host_in_the_location_is_asked_over_tls(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with FakeAws(tls=self_signed(tmp_path)) as double:
            double.add(p256(), "flux")
            for name, value in {**double.environment(), "AWS_CA_BUNDLE": str(tmp_path / "server.pem")}.items():
                monkeypatch.setenv(name, value)
            monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", "https://127.0.0.1:9")  # that in the location counts
            opened(f"awskms://{double.host}/{NAME}").sign(MESSAGE)
            assert len(double.requests) == 2

    def test_credentials_are_not_sent_where_others_can_read_them(
        self, aws: FakeAws, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        aws.add(p256(), "flux")
        monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", "http://kms.example:80")
        with pytest.raises(KmsFailed, match="not https"):
            opened(f"awskms:///{NAME}")

    @pytest.mark.parametrize(
        ("key", "why"),
        [
            pytest.param(ec.generate_private_key(ec.SECP384R1()), "EC P-384", id="SHA-384"),
            pytest.param(ed25519.Ed25519PrivateKey.generate(), "Ed25519", id="messages up to 4 KiB"),
        ],
    )
    def test_a_key_that_signs_otherwise_is_refused(self, aws: FakeAws, key: Any, why: str) -> None:
        aws.add(key, "flux")
        with pytest.raises(KmsKeyUnsuitable, match=why) as refusal:
            opened(f"awskms:///{NAME}")
        assert refusal.value.exit_code == 22

    def test_a_key_for_encryption_is_refused(self, aws: FakeAws) -> None:
        aws.for_encryption.add(aws.add(rsa_2048(), "flux"))
        with pytest.raises(KmsKeyUnsuitable, match="does not sign"):
            opened(f"awskms:///{NAME}")

    def test_a_key_that_is_too_short_is_refused(self, aws: FakeAws) -> None:
        aws.add(rsa.generate_private_key(65537, 1024), "flux")  # noqa: S505
        with pytest.raises(UnsupportedKey):
            opened(f"awskms:///{NAME}")

    def test_an_alias_that_moves_in_between_signs_nothing(self, aws: FakeAws) -> None:
        aws.add(p256(), "flux")
        held = opened(f"awskms:///{NAME}")
        aws.add(p256("theirs"), "flux")
        with pytest.raises(KmsFailed, match="another key than the one it showed"):
            held.sign(MESSAGE)

    @pytest.mark.parametrize(
        ("fault", "said"),
        [
            pytest.param(Fault(400, {"__type": "AccessDeniedException"}), "AccessDeniedException", id="not allowed"),
            pytest.param(Fault(400, {"__type": "DisabledException"}), "DisabledException", id="disabled"),
            pytest.param(Fault(403, b"<html>no</html>"), "403", id="some proxy"),
            pytest.param(Fault(200, b"<html>yes</html>"), NOT_UNDERSTOOD, id="no AWS at all"),
            pytest.param(Fault(200, {}), NOT_UNDERSTOOD, id="an answer without a key"),
            pytest.param(Fault(200, {"PublicKey": "AAAA"}), NOT_UNDERSTOOD, id="a key that is none"),
            pytest.param(Fault(400, {"__type": "\x1b[31m" + "x" * 9999}), "an error without a name", id="terminal"),
            pytest.param(Fault(400, {"__type": f"{CANARY}-echo"}), "an error without a name", id="an echo"),
        ],
    )
    def test_what_it_says_is_told_by_its_code_alone(self, aws: FakeAws, fault: Fault, said: str) -> None:
        aws.add(p256(), "flux")
        if isinstance(fault.body, dict) and "__type" in fault.body:
            fault.body = {**fault.body, "message": f"the token {CANARY} is no good"}
        aws.faults += [fault] * 4  # as often as it is asked again
        with pytest.raises(KmsFailed) as failure:
            opened(f"awskms:///{NAME}")
        assert str(failure.value) == f"AWS KMS did not provide the key awskms:///{NAME}: {said}"
        assert "kms:Sign" in failure.value.hint

    @pytest.mark.parametrize("faults", [1, 3])
    def test_a_moment_of_weakness_is_overcome(self, aws: FakeAws, monkeypatch: pytest.MonkeyPatch, faults: int) -> None:
        monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0)
        aws.add(p256(), "flux")
        held = opened(f"awskms:///{NAME}")
        aws.faults += [Fault(500, {"__type": "KMSInternalException"})] * faults
        assert held.public.accepts(held.sign(MESSAGE), MESSAGE)

    def test_without_credentials_nobody_is_asked(self, aws: FakeAws, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            monkeypatch.delenv(name)
        with pytest.raises(KmsFailed, match="NoCredentialsError"):
            opened(f"awskms:///{NAME}")
        assert not aws.requests


class TestVault:
    @pytest.mark.parametrize(
        "key",
        [
            pytest.param(p256(), id="ecdsa-p256"),
            pytest.param(ec.generate_private_key(ec.SECP384R1()), id="ecdsa-p384, with SHA-256 as Flux wants it"),
            pytest.param(rsa_2048(), id="rsa-2048, not with PSS"),
            pytest.param(ed25519.Ed25519PrivateKey.generate(), id="ed25519"),
        ],
    )
    def test_what_it_signs_is_what_flux_verifies(self, vault: FakeVault, key: Any) -> None:
        vault.keys["flux"] = [key]
        held = opened("hashivault://flux", **vault.environment())
        assert held.public.fingerprint == SigningKey(key).public.fingerprint
        assert held.public.accepts(held.sign(MESSAGE), MESSAGE)
        assert vault.paths == ["GET /v1/transit/keys/flux", "POST /v1/transit/sign/flux"]

    def test_the_newest_version_signs(self, vault: FakeVault) -> None:
        vault.keys["flux"] = [p256(f"version {number}") for number in range(12)]
        held = opened("hashivault://flux", **vault.environment())
        assert held.public.fingerprint == SigningKey(p256("version 11")).public.fingerprint
        assert held.public.accepts(held.sign(MESSAGE), MESSAGE)

    def test_a_rotation_in_between_changes_nothing(self, vault: FakeVault) -> None:
        vault.keys["flux"] = [p256()]
        held = opened("hashivault://flux", **vault.environment())
        vault.keys["flux"].append(p256("newer"))
        assert held.public.accepts(held.sign(MESSAGE), MESSAGE)

    def test_the_engine_and_the_namespace_are_those_of_the_environment(self, vault: FakeVault) -> None:
        vault.mount, vault.namespace, vault.keys["flux"] = "signing/keys", "team-a", [p256()]
        more = {"TRANSIT_SECRET_ENGINE_PATH": "signing/keys", "VAULT_NAMESPACE": "team-a"}
        opened("hashivault://flux", **vault.environment(), **more).sign(MESSAGE)

    def test_a_token_is_found_where_the_vault_command_keeps_it(self, vault: FakeVault, tmp_path: Path) -> None:
        vault.keys["flux"] = [p256()]
        environment = vault.environment()
        (tmp_path / ".vault-token").write_text(environment.pop("VAULT_TOKEN"))
        opened("hashivault://flux", **environment).sign(MESSAGE)

    def test_the_token_goes_to_its_one_host(self, vault: FakeVault) -> None:
        vault.keys["flux"] = [p256()]
        with FakeVault(keys=vault.keys) as other:
            vault.faults.append(Fault(307, {}, Location=f"{other.url}/v1/transit/keys/flux"))
            with pytest.raises(KmsFailed, match=NOT_UNDERSTOOD):
                opened("hashivault://flux", **vault.environment())
            assert not other.requests

    @pytest.mark.parametrize(
        ("address", "why"),
        [
            pytest.param("", "VAULT_ADDR is not set", id="no address"),
            pytest.param("http://vault.example:8200", "not https", id="in the clear"),
            pytest.param("vault.example:8200", "not the address of a web server", id="no URL"),
            pytest.param(f"https://user:{CANARY}@vault.example", "user name", id="with a password in it"),
        ],
    )
    def test_an_address_that_is_not_safe_is_not_asked(self, address: str, why: str) -> None:
        with pytest.raises(KmsFailed, match=why):
            opened("hashivault://flux", VAULT_ADDR=address, VAULT_TOKEN=CANARY)

    @pytest.mark.parametrize(
        ("fault", "said"),
        [
            pytest.param(Fault(403, {"errors": [f"{CANARY}: permission denied"]}), "Forbidden", id="not allowed"),
            pytest.param(Fault(404, {"errors": []}), "InvalidPath", id="no such key"),
            pytest.param(Fault(503, {"errors": ["Vault is sealed"]}), "VaultDown", id="sealed"),
            pytest.param(Fault(200, b"<html>"), NOT_UNDERSTOOD, id="no Vault at all"),
            pytest.param(Fault(200, {"data": {}}), NOT_UNDERSTOOD, id="nothing"),
        ],
    )
    def test_what_it_says_is_told_by_its_code_alone(self, vault: FakeVault, fault: Fault, said: str) -> None:
        vault.faults.append(fault)
        with pytest.raises(KmsFailed) as failure:
            opened("hashivault://flux", **vault.environment())
        assert str(failure.value) == f"Vault did not provide the key hashivault://flux: {said}"

    @pytest.mark.parametrize("data", [{}, {"signature": 1}, {"signature": "vault:v1:AAAA"}, {"signature": "é"}])
    def test_a_signature_that_is_none_is_not_passed_on(self, vault: FakeVault, data: object) -> None:
        vault.keys["flux"] = [p256()]
        held = opened("hashivault://flux", **vault.environment())
        vault.faults.append(Fault(200, {"data": data}))
        with pytest.raises(KmsFailed):
            held.sign(MESSAGE)

    def test_a_key_that_does_not_sign_is_refused(self, vault: FakeVault) -> None:
        body = {"data": {"type": "aes256-gcm96", "latest_version": 1, "keys": {"1": 1_700_000_000}}}
        vault.faults.append(Fault(200, body))
        with pytest.raises(KmsKeyUnsuitable, match="'aes256-gcm96'"):
            opened("hashivault://flux", **vault.environment())

    def test_nobody_there_is_told(self) -> None:
        with pytest.raises(KmsFailed, match="ConnectionError"):
            opened("hashivault://flux", VAULT_ADDR="http://127.0.0.1:9", VAULT_TOKEN=CANARY)


GOOGLE = "gcpkms://projects/p/locations/global/keyRings/r/cryptoKeys/k"


@pytest.mark.parametrize(
    "location",
    [
        pytest.param("awskms://alias/flux", id="two slashes"),
        pytest.param("awskms:///flux", id="no alias"),
        pytest.param(f"awskms://user:{CANARY}@kms.example/alias/flux", id="a password"),
        pytest.param(GOOGLE, id="no version of a key of Google"),
        pytest.param(f"{GOOGLE}/versions/latest", id="a version that moves"),
        pytest.param("azurekms://vault.example/key", id="no vault of Azure"),
        pytest.param("hashivault://", id="no name"),
        pytest.param("hashivault://a/b", id="a path"),
        pytest.param(f"hsm:2?label=token&pin={CANARY}", id="a PIN"),
        pytest.param(f"pkcs11:token=t;id=%01?pin-value={CANARY}", id="the form of PKCS #11"),
        pytest.param("awskms:///alias/flux\n", id="a line more"),
        pytest.param("hsm:2?label=\x1b[31m", id="what a terminal obeys"),
        pytest.param(f"{GOOGLE}/versions/1".replace("/p/", "/\x1b[31m/"), id="in a project's name too"),
    ],
)
def test_a_location_that_cannot_be_is_refused_and_not_repeated(location: str) -> None:
    with pytest.raises(KmsLocationInvalid) as refusal:
        opened(location)
    assert refusal.value.exit_code == 2
    assert "Write it as" in refusal.value.hint
    assert CANARY not in str(refusal.value)


@pytest.mark.parametrize(
    ("location", "without", "command"),
    [
        pytest.param(f"awskms:///{NAME}", "boto3.session", ".[kms]", id="AWS"),
        pytest.param("hashivault://flux", "hvac", ".[kms]", id="Vault"),
        pytest.param(f"{GOOGLE}/versions/1", None, ".[kms]", id="Google"),
        pytest.param(f"{GOOGLE}/cryptoKeyVersions/1", None, ".[kms]", id="Google, as it writes it"),
        pytest.param("azurekms://acme.vault.azure.net/flux", None, ".[kms]", id="Azure"),
        pytest.param("azurekms://acme.vault.azure.net/flux/0123abcd", None, ".[kms]", id="with version"),
        pytest.param("hsm:2?label=YubiKey+PIV", None, ".[hsm]", id="HSM"),
    ],
)
def test_a_library_that_is_not_there_is_told_with_the_command_that_brings_it(
    location: str, without: str | None, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import securesystemslib.signer._azure_signer as azure
    import securesystemslib.signer._gcp_signer as google
    import securesystemslib.signer._hsm_signer as hsm

    if without:
        monkeypatch.setitem(__import__("sys").modules, without, None)
    for module, flag in ((azure, "AZURE_IMPORT_ERROR"), (google, "GCP_IMPORT_ERROR"), (hsm, "PKCS11_IMPORT_ERROR")):
        monkeypatch.setattr(module, flag, "it is not installed")
    with pytest.raises(KmsClientMissing) as missing:
        opened(location, PYKCS11LIB="/lib/token.so", COSIGN_PKCS11_PIN=CANARY)
    assert missing.value.exit_code == 22
    assert f"pip install '{command}'" in missing.value.hint


class Signed:
    def __init__(self, signature: str) -> None:
        self.signature = signature


class Remote:
    """One of securesystemslib's signers, by what it promises: a URI and a key first, then hexadecimal signatures."""

    def __init__(self, key: Any, scheme: str, uri: str) -> None:
        self.key, self.scheme, self.uri = SigningKey(key), scheme, uri
        self.asked: list[Any] = []

    def import_(self, *names: Any) -> tuple[str, Any]:
        from securesystemslib.signer import SSlibKey

        self.asked.append(names)
        return self.uri, SSlibKey.from_crypto(self.key.public.key, scheme=self.scheme)

    def from_priv_key_uri(self, uri: str, key: Any, secrets: Any = None) -> Remote:
        self.asked.append((uri, key.scheme))
        if secrets:
            self.asked.append(secrets("pin"))
        return self

    def sign(self, message: bytes) -> Signed:
        return Signed(self.key.sign(message).hex())


VERSION = "https://acme.vault.azure.net/keys/flux/0123abcd".replace("https", "azurekms")


class TestThroughSecuresystemslib:
    @pytest.mark.parametrize(
        ("location", "signer", "names"),
        [
            pytest.param(
                f"{GOOGLE}/versions/7",
                "GCPSigner",
                (f"{GOOGLE.removeprefix('gcpkms://')}/cryptoKeyVersions/7",),
                id="Google",
            ),
            pytest.param("azurekms://acme.vault.azure.net/flux", "AzureSigner", ("acme", "flux"), id="Azure"),
            pytest.param(
                "azurekms://acme.vault.azure.net/flux/0123abcd", "AzureSigner", ("acme", "flux"), id="Azure's newest"
            ),
        ],
    )
    def test_a_key_is_asked_for_by_the_service_s_own_name(
        self, location: str, signer: str, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        remote = Remote(p256(), "ecdsa-sha2-nistp256", VERSION)
        monkeypatch.setattr(f"securesystemslib.signer.{signer}", remote)
        held = opened(location)
        assert remote.asked[0] == names
        assert held.public.accepts(held.sign(MESSAGE), MESSAGE)

    def test_rsa_of_google_with_pkcs1_is_used(self, monkeypatch: pytest.MonkeyPatch) -> None:
        remote = Remote(rsa_2048(), "rsa-pkcs1v15-sha256", "gcpkms:x")
        monkeypatch.setattr("securesystemslib.signer.GCPSigner", remote)
        assert opened(f"{GOOGLE}/versions/7").sign(MESSAGE)

    @pytest.mark.parametrize(
        ("key", "scheme"),
        [
            pytest.param(ec.generate_private_key(ec.SECP384R1()), "ecdsa-sha2-nistp384", id="SHA-384"),
            pytest.param(rsa_2048(), "rsassa-pss-sha256", id="PSS"),
            pytest.param(rsa_2048(), "rsa-pkcs1v15-sha512", id="SHA-512"),
        ],
    )
    def test_a_key_that_signs_otherwise_is_refused(
        self, key: Any, scheme: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("securesystemslib.signer.GCPSigner", Remote(key, scheme, "gcpkms:x"))
        with pytest.raises(KmsKeyUnsuitable, match=scheme):
            opened(f"{GOOGLE}/versions/7")

    def test_an_older_version_of_azure_s_key_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("securesystemslib.signer.AzureSigner", Remote(p256(), "ecdsa-sha2-nistp256", VERSION))
        with pytest.raises(KmsKeyUnsuitable, match="newer version"):
            opened("azurekms://acme.vault.azure.net/flux/ffff")

    def test_a_token_is_given_its_pin_and_nobody_else(self, monkeypatch: pytest.MonkeyPatch) -> None:
        remote = Remote(p256(), "ecdsa-sha2-nistp256", "hsm:2?label=Yubi+Key")
        monkeypatch.setattr("securesystemslib.signer.HSMSigner", remote)
        held = opened("hsm:2?label=Yubi%20Key", PYKCS11LIB="/lib/token.so", COSIGN_PKCS11_PIN=CANARY)
        (number, label, _), *rest = remote.asked
        assert (number, label) == (2, "Yubi Key")
        assert rest[-1] == CANARY
        assert CANARY not in f"{held!r}{held}"

    @pytest.mark.parametrize(
        ("failure", "error", "said"),
        [
            pytest.param(ValueError("No PKCS#11 token found"), KmsFailed, "No PKCS#11 token found", id="no token"),
            pytest.param(OSError(CANARY), KmsFailed, "OSError", id="its own trouble"),
            pytest.param(UnsupportedAlgorithmError(CANARY), KmsKeyUnsuitable, "its kind is unknown", id="kind"),
        ],
    )
    def test_what_goes_wrong_is_told(
        self, failure: Exception, error: type[Error], said: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: Any) -> None:
            raise failure

        monkeypatch.setattr("securesystemslib.signer.HSMSigner.import_", fail)
        with pytest.raises(error, match=said) as caught:
            opened("hsm:", PYKCS11LIB="/lib/token.so", COSIGN_PKCS11_PIN="4711")
        assert CANARY not in str(caught.value)

    @pytest.mark.parametrize("missing", ["PYKCS11LIB", "COSIGN_PKCS11_PIN"])
    def test_a_token_needs_its_library_and_its_pin(self, missing: str) -> None:
        environment = {"PYKCS11LIB": "/lib/token.so", "COSIGN_PKCS11_PIN": CANARY}
        del environment[missing]
        with pytest.raises(KmsFailed, match=f"{missing} is not set"):
            opened("hsm:", **environment)


def test_whatever_goes_wrong_no_credential_is_in_it(
    aws: FakeAws, vault: FakeVault, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """With a service that repeats what it was told."""

    def echo(environment: Mapping[str, str]) -> Fault:
        return Fault(
            400, {"__type": "AccessDeniedException", "message": str(environment), "errors": [str(environment)]}
        )

    for location, double in ((f"awskms:///{NAME}", aws), ("hashivault://flux", vault)):
        double.faults.append(echo(double.environment()))
        with pytest.raises(Error) as failure:
            opened(location, **vault.environment())
        shown = f"{failure.value!r}{failure.value}{failure.value.hint}{failure.getrepr(showlocals=False)}"
        assert CANARY not in shown
        assert failure.value.__cause__ is None
        assert failure.value.__suppress_context__
    assert CANARY not in "".join(capfd.readouterr())
    assert CANARY not in caplog.text


def test_a_key_that_is_held_elsewhere_shows_its_place_alone(aws: FakeAws) -> None:
    aws.add(p256(), "flux")
    assert repr(opened(f"awskms:///{NAME}")) == f"KmsKey(location='awskms:///{NAME}')"


def test_files_and_variables_are_opened_as_ever(tmp_path: Path) -> None:
    (tmp_path / "our.key").write_bytes(key_pem())
    key = open_private_key("our.key", {}, tmp_path)
    assert key.public.fingerprint == opened("env://KEY", KEY=key_pem().decode()).public.fingerprint
    with pytest.raises(KeyFileMissing):
        opened("k8s://flux/cosign")
    assert not any(map(is_kms, ("our.key", "env://KEY", "./awskms", "C:/keys/cosign.key")))


def test_a_service_that_does_not_answer_is_told_and_given_up(
    aws: FakeAws, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its library would ask four times, for 30 seconds each."""
    aws.add(p256(), "flux")
    key = opened(f"awskms:///{NAME}")
    monkeypatch.setattr(kms, "watched", partial(watched, wait=lambda *_: False))
    with pytest.raises(KmsFailed, match=r"AWS KMS did not provide .*: it did not answer within 60 seconds"):
        key.sign(MESSAGE)
    with pytest.raises(KmsFailed, match="it did not answer within 7 seconds"):
        opened(f"awskms:///{NAME}", FLUX_MANIFESTS_TIMEOUT="7")
    assert capsys.readouterr().err == "still waiting for AWS KMS after 5 s\n" * 2
