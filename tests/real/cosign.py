"""Cosign, the real one, in both of its formats: 2.6.1 signs and verifies `.sig` manifests, 3.0.6 bundles.

A `reference` is `host/repository@digest`. Keyless, it signs against a local Sigstore and trusts that alone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ci_automation.signing.trust import Identity
from tests.real.peers import peer
from tests.real.pipeline import PASSWORD, TRUSTED_ROOT
from tests.real.processes import run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_automation.signing.trust import IdentityMatch
    from tests.fakes.sigstore import LocalSigstore

BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
PAYLOAD = "application/vnd.dev.cosign.simplesigning.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
# Without a signing configuration cosign asks the public Sigstore for its own.
NOWHERE = {"mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json"}
ANYWAY = ("--allow-insecure-registry", "--yes")


@dataclass(frozen=True, slots=True)
class Files:
    """What cosign is told about a Sigstore, as files in a folder."""

    folder: Path

    @classmethod
    def write(cls, local: LocalSigstore, folder: Path) -> Self:
        """Write what a local Sigstore says of itself."""
        files = cls.without_sigstore(folder)
        files.trusted_root.write_bytes(local.trusted_root)
        for rekor in (1, 2):
            files.signing_config(rekor).write_bytes(local.signing_config(rekor))
        (folder / "fulcio.pem").write_text(local.services.authority.chain_pem)
        (folder / "rekor.pub").write_text(local.rekor_key)
        (folder / "ct.pub").write_text(local.ct_key)
        return files

    @classmethod
    def without_sigstore(cls, folder: Path) -> Self:
        """Write that there is none: enough for signatures by a key."""
        folder.mkdir(parents=True, exist_ok=True)
        files = cls(folder)
        files.trusted_root.write_text(json.dumps(TRUSTED_ROOT))
        files.signing_config(0).write_text(json.dumps(NOWHERE))
        return files

    @property
    def trusted_root(self) -> Path:
        """The trusted root."""
        return self.folder / "trusted_root.json"

    def signing_config(self, rekor: int) -> Path:
        """Return where to sign, with which Rekor; 0 for none."""
        return self.folder / f"signing_config_{rekor}.json"

    def token(self, text: str) -> Path:
        """Return the file with an identity token: everybody on a machine sees a command line."""
        path = self.folder / "token"
        path.write_text(text)
        return path

    @property
    def environment(self) -> Mapping[str, str]:
        """What cosign 2 wants to know about a Sigstore when it signs."""
        return {
            "SIGSTORE_ROOT_FILE": str(self.folder / "fulcio.pem"),
            "SIGSTORE_REKOR_PUBLIC_KEY": str(self.folder / "rekor.pub"),
            "SIGSTORE_CT_LOG_PUBLIC_KEY_FILE": str(self.folder / "ct.pub"),
        }


def sign_legacy_keyless(local: LocalSigstore, files: Files, reference: str, token: str = "") -> None:
    """Sign with cosign 2.6.1, without a key: a `.sig` manifest with certificate, chain and an entry of Rekor 1."""
    where = (f"--fulcio-url={local.url}", f"--rekor-url={local.url}", "--tlog-upload=true")
    who = f"--identity-token={files.token(token or local.token())}"
    run([peer("cosign"), "sign", *where, who, *ANYWAY, reference], **files.environment)


def sign_bundle_keyless(local: LocalSigstore, files: Files, reference: str, token: str = "", rekor: int = 1) -> None:
    """Sign with cosign 3.0.6, without a key: a bundle as a referrer, with an entry of Rekor 1 or 2 and a time stamp."""
    where = (f"--signing-config={files.signing_config(rekor)}", f"--trusted-root={files.trusted_root}")
    who = f"--identity-token={files.token(token or local.token())}"
    run([peer("cosign3"), "sign", *where, who, *ANYWAY, reference])


def sign_legacy_key(key: Path, reference: str) -> None:
    """Sign with cosign 2.6.1 and a private key: a `.sig` manifest, in no log."""
    arguments = (f"--key={key}", "--tlog-upload=false", *ANYWAY, reference)
    run([peer("cosign"), "sign", *arguments], COSIGN_PASSWORD=PASSWORD)


def sign_bundle_key(key: Path, files: Files, reference: str) -> None:
    """Sign with cosign 3.0.6 and a private key: a bundle as a referrer, in no log."""
    where = (f"--signing-config={files.signing_config(0)}", f"--trusted-root={files.trusted_root}")
    run([peer("cosign3"), "sign", f"--key={key}", *where, *ANYWAY, reference], COSIGN_PASSWORD=PASSWORD)


def verify_legacy(who: Path | Identity | IdentityMatch, files: Files, reference: str) -> list[dict[str, Any]]:
    """Return the claims that cosign 2.6.1 accepts from a public key, or an identity: what Flux before 2.8 does.

    Raises:
        ProgramFailed: it accepts none.
    """
    return _verify("cosign", "--new-bundle-format=false", who, files, reference)


def verify_bundle(who: Path | Identity | IdentityMatch, files: Files, reference: str) -> list[dict[str, Any]]:
    """Return the claims that cosign 3.0.6 accepts from a public key, or an identity: what Flux since 2.8.6 does.

    Raises:
        ProgramFailed: it accepts none.
    """
    return _verify("cosign3", "--new-bundle-format=true", who, files, reference)


def _verify(
    name: str, form: str, who: Path | Identity | IdentityMatch, files: Files, reference: str
) -> list[dict[str, Any]]:
    trust = (f"--trusted-root={files.trusted_root}", *_trusted(who))
    said = run([peer(name), "verify", form, *trust, "--allow-insecure-registry", "--output=json", reference])
    claims: list[dict[str, Any]] = json.loads(said)
    return claims


def _trusted(who: Path | Identity | IdentityMatch) -> tuple[str, ...]:
    if isinstance(who, Path):
        return (f"--key={who}", "--insecure-ignore-tlog")
    kind = "" if isinstance(who, Identity) else "-regexp"
    return (f"--certificate-identity{kind}={who.subject}", f"--certificate-oidc-issuer{kind}={who.issuer}")


def plant_legacy(folder: Path, reference: str, payload: bytes, annotations: Mapping[str, str]) -> None:
    """Put a `.sig` manifest with that one signature where those of a digest are, whatever was there."""
    content, config = _written(folder / "payload.json", payload), _written(folder / "config.json", b"{}")
    beside = _written(folder / "annotations.json", json.dumps({str(content): dict(annotations)}).encode())
    repository, _, digest = reference.partition("@")
    where = f"{repository}:{digest.replace(':', '-')}.sig"
    what = (f"--config={config}:{CONFIG}", f"--annotation-file={beside}", where, f"{content}:{PAYLOAD}")
    run([peer("oras"), "push", "--plain-http", "--disable-path-validation", *what])


def plant_bundle(folder: Path, reference: str, bundle: bytes) -> None:
    """Attach a bundle to a digest, as one more referrer."""
    content = _written(folder / "bundle.json", bundle)
    what = (f"--artifact-type={BUNDLE}", reference, f"{content}:{BUNDLE}")
    run([peer("oras"), "attach", "--plain-http", "--disable-path-validation", *what])


def _written(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path
