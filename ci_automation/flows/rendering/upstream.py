"""Taking from upstream only what Flux's own release workflow vouches for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.flux.bundle import checksums_name
from ci_automation.registry.port import NotFound

if TYPE_CHECKING:
    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.ports import Ports, Upstream
    from ci_automation.flux.bundle import ReleaseFiles
    from ci_automation.flux.release import FetchedRelease
    from ci_automation.flux.version import Version
    from ci_automation.registry.port import Registry
    from ci_automation.signing.upstream import Vouched


def fetch(version: Version, ports: Ports, *, log_entry: bytes | None = None) -> FetchedRelease:
    """Return the release of `version`, and in it who vouches for its checksums.

    That is nobody where the release is unsigned and need not be signed, or where nothing is checked. The entry of the
    transparency log is among the files afterwards; it is looked up unless it comes with them, or is given.

    Raises:
        ReleaseSourceError: there is no such release, or its files are not what its checksums say.
        UpstreamUnsigned: it is not signed, and must be.
        UpstreamForged: it is signed, and not by Flux's release workflow of that version.
    """
    found = ports.releases.fetch(version)
    if ports.upstream is None:
        return found
    files = found.files if log_entry is None else replace(found.files, log_entry=log_entry)
    if not (files.is_signed or ports.upstream.required):  # and nothing is loaded to find that out
        ports.say(f"{checksums_name(version)} is not signed, so nothing proves {version}")
        return found
    vouched = _vouched(version, files, ports.upstream)
    ports.say(f"{checksums_name(version)} is signed by {vouched.identity}")
    return replace(found, files=replace(files, log_entry=vouched.log_entry), vouched=str(vouched.identity))


def _vouched(version: Version, files: ReleaseFiles, upstream: Upstream) -> Vouched:
    """Return who vouches for the checksums; in one run the log is asked once for each of them."""
    from ci_automation.signing.sigstore.lookup import RekorLog
    from ci_automation.signing.upstream import verify_upstream

    proof = replace(files, bundle=b"")
    if (known := upstream.vouched.get((version, proof))) is None:
        known = verify_upstream(version, files, upstream.root, RekorLog(lambda: upstream.root.rekor_url))
        upstream.vouched[version, proof] = known
    return known


class UpstreamArtifact(Struct, frozen=True):
    """What upstream itself rendered of a release, and who vouches for it; None where nobody does and nobody must."""

    upstream: Upstream
    reference: Reference
    digest: Digest
    vouched: str | None


def find_artifact(version: Version, ports: Ports) -> UpstreamArtifact | None:
    """Return upstream's own artifact of `version`, `flux-manifests:vX.Y.Z`, or None where it is not to be looked for.

    Raises:
        NotFound: there is none.
        UpstreamUnsigned: it is not signed, and must be.
        UpstreamForged: it is signed, and not by Flux's release workflow of that version.
    """
    from ci_automation.signing.upstream import UpstreamUnsigned

    upstream = ports.upstream
    if upstream is None:
        return None
    reference = upstream.manifests.at_tag(str(version))
    if (digest := upstream.registry.resolve(reference)) is None:
        raise NotFound(str(reference))
    try:
        vouched = verify_artifact(version, upstream, upstream.registry, reference.at_digest(digest))
    except UpstreamUnsigned:
        if upstream.required:
            raise
        ports.say(f"{reference} is not signed, so nothing proves it")
        vouched = None
    return UpstreamArtifact(upstream, reference, digest, vouched)


def verify_artifact(version: Version, upstream: Upstream, registry: Registry, reference: Reference) -> str:
    """Return who vouches for a copy of upstream's artifact of `version`, which `reference` names by its digest.

    Raises:
        UpstreamUnsigned: it is not signed.
        UpstreamForged: it is signed, and not by Flux's release workflow of that version.
    """
    from ci_automation.signing.upstream import UpstreamForged, UpstreamUnsigned, upstream_trust
    from ci_automation.signing.verify import ForeignSignature, Unsigned, verify

    assert reference.digest is not None  # noqa: S101  # for the type checker
    try:
        trusted = upstream_trust(version, upstream.root)
        return str(verify(registry, reference, reference.digest, trusted).by)
    except Unsigned:
        raise UpstreamUnsigned(version, f"upstream's artifact {reference}") from None
    except ForeignSignature as error:
        raise UpstreamForged(version, f"upstream's artifact {reference}", str(error)) from None
