"""A local Sigstore: Fulcio, Rekor 1 and 2, a certificate transparency log, a time stamper, GitHub's identity tokens."""

from __future__ import annotations

from tests.fakes.sigstore.server import LocalSigstore
from tests.fakes.sigstore.signing import Detached, Fault, NoSuchFault, faults
from tests.fakes.sigstore.tokens import CANARY, GITHUB, WORKFLOW

__all__ = ["CANARY", "GITHUB", "WORKFLOW", "Detached", "Fault", "LocalSigstore", "NoSuchFault", "faults"]
