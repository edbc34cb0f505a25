"""What several contract tests meet: a Sigstore on this machine, and its roots."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci_automation.signing.sigstore.root import TrustRoot
from tests.fakes.sigstore import LocalSigstore

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def local() -> Iterator[LocalSigstore]:
    """Yield the Sigstore that upstream signs with here."""
    with LocalSigstore() as running:
        yield running


@pytest.fixture(scope="module")
def root(local: LocalSigstore, tmp_path_factory: pytest.TempPathFactory) -> TrustRoot:
    """Return what is trusted: that Sigstore's roots."""
    path = tmp_path_factory.mktemp("root") / "trusted_root.json"
    path.write_bytes(local.trusted_root)
    return TrustRoot.from_file(path)
