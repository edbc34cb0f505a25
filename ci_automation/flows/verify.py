"""Whether a digest is signed by the key that clusters trust."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_automation.flows.observe import observe, read_tree
from ci_automation.flux.artifact import stated_version

if TYPE_CHECKING:
    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.reference import Reference
    from ci_automation.artifact.tree import Tree
    from ci_automation.flows.ports import Ports
    from ci_automation.flux.version import Version


@dataclass(frozen=True, slots=True)
class Verification:
    """A digest with a valid signature."""

    digest: Digest
    version: Version | None
    key: Digest


def verify(reference: Reference, ports: Ports) -> Verification:
    """Return what `reference` names, if the trusted key signed it.

    Raises:
        Unsigned: it has no signature.
        ForeignSignature: no signature is by the trusted key, or none is over this digest.
    """
    observed = observe(reference, ports)
    assert ports.trusted_key is not None  # noqa: S101  # for the type checker: the command line asks for it
    return Verification(observed.digest, stated_version(observed.manifest), ports.trusted_key.fingerprint)


def pull(reference: Reference, ports: Ports) -> tuple[Tree, Digest, str]:
    """Return the files of the artifact, its digest, and how far its signature is trusted."""
    observed = observe(reference, ports)
    return read_tree(observed, ports), observed.digest, str(observed.trust)
