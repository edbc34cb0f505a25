"""The pipeline that people build from the real programs: flux pushes, cosign signs and verifies, crane tags."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from tests.real.peers import peer
from tests.real.processes import run

if TYPE_CHECKING:
    from pathlib import Path

PASSWORD = "canary-of the tests"
SOURCE = "https://github.com/fluxcd/flux2"
# Without one cosign asks the public Sigstore for it, even where a key is all that counts.
TRUSTED_ROOT = {"mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1"}


def push(reference: str, folder: Path, revision: str = "v2.9.4@sha1:0000000") -> str:
    """Push a folder as the flux CLI does, to `host/repository:tag`, and return the digest."""
    what = (f"oci://{reference}", f"--path={folder}", f"--source={SOURCE}", f"--revision={revision}")
    said = run([peer("flux"), "push", "artifact", *what, "--insecure-registry", "--output=json"])
    digest: str = json.loads(said)["digest"]
    return digest


def tag(reference: str, name: str) -> None:
    """Let a tag point at `host/repository@digest`."""
    run([peer("crane"), "tag", reference, name])


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A key pair that cosign made, as people have it in their secrets; the private one has `PASSWORD`."""

    private: Path
    public: Path
    trusted_root: Path

    @classmethod
    def make(cls, folder: Path) -> Self:
        """Let cosign make one in `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        pair = cls(folder / "cosign.key", folder / "cosign.pub", folder / "trusted_root.json")
        pair.trusted_root.write_text(json.dumps(TRUSTED_ROOT))
        run([peer("cosign"), "generate-key-pair", f"--output-key-prefix={folder / 'cosign'}"], COSIGN_PASSWORD=PASSWORD)
        return pair

    def sign(self, reference: str) -> None:
        """Sign `host/repository@digest`, in the legacy format, without a transparency log."""
        options = (f"--key={self.private}", "--tlog-upload=false", "--allow-insecure-registry", "--yes")
        run([peer("cosign"), "sign", *options, reference], COSIGN_PASSWORD=PASSWORD)

    def verify(self, reference: str) -> list[dict[str, Any]]:
        """Return the signed claims about `host/repository@digest` that cosign accepts.

        Raises:
            ProgramFailed: it accepts none.
        """
        options = (f"--key={self.public}", f"--trusted-root={self.trusted_root}", "--insecure-ignore-tlog")
        said = run([peer("cosign"), "verify", *options, "--allow-insecure-registry", "--output=json", reference])
        claims: list[dict[str, Any]] = json.loads(said)
        return claims
