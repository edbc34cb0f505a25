"""A release that Flux's own workflow vouches for, its rendering, and the proof that Flux renders it so (section 6).

Proofs are tried in this order: the release is known; upstream's own signed rendering has the same bytes; the release's
own flux CLI renders it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.artifact.archive import read_archive
from ci_automation.errors import Error, VerificationFailed
from ci_automation.flux.artifact import Recipe
from ci_automation.flux.bundle import LIMITS, ReleaseFiles, checksums_name
from ci_automation.flux.options import Options, UnknownFlag
from ci_automation.flux.proof import NotCalibrated, Proof, calibrate, is_known, unexercised
from ci_automation.flux.render import render
from ci_automation.registry.port import NotFound, Registry

if TYPE_CHECKING:
    from ci_automation.artifact.reference import Digest, Reference
    from ci_automation.artifact.tree import Tree
    from ci_automation.flows.ports import Ports, Upstream
    from ci_automation.flows.programs.delegate import DelegationFailed
    from ci_automation.flux.release import FetchedRelease
    from ci_automation.flux.version import Version
    from ci_automation.signing.upstream import Vouched


def fetch(version: Version, ports: Ports, *, log_entry: bytes | None = None) -> FetchedRelease:
    """Return the release of `version`, and in it who vouches for its checksums.

    That is no one if the release is unsigned and need not be signed, or if nothing is checked. The entry of the
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


def is_unsigned(release: FetchedRelease, ports: Ports) -> bool:
    """Return whether nothing proves that Flux published a release, where that is checked."""
    return ports.upstream is not None and release.vouched is None


def _vouched(version: Version, files: ReleaseFiles, upstream: Upstream) -> Vouched:
    """Return who vouches for the checksums; in one run the log is asked once for each of them."""
    from ci_automation.signing.upstream import RekorLog, verify_upstream

    proof = replace(files, bundle=b"")
    if (known := upstream.vouched.get((version, proof))) is None:
        known = verify_upstream(version, files, upstream.root, RekorLog(lambda: upstream.root.rekor_url))
        upstream.vouched[version, proof] = known
    return known


class UpstreamArtifact(Struct, frozen=True):
    """What upstream itself rendered of a release, and who vouches for it; None if no one does or must."""

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


class UnprovenRendering(VerificationFailed):
    """A release is unknown, and nothing else proves that it is rendered as Flux does."""

    hint = (
        "Use a newer version of this program, which may know the release. --unsafe-unproven-rendering publishes it "
        "unproven."
    )

    def __init__(self, version: Version, why: str) -> None:
        super().__init__(f"nothing proves that Flux renders {version} with this content the same way: {why}")


class FlagsNotRendered(VerificationFailed):
    """The release's own flux CLI did not render flags that only it knows."""

    hint = "Use a newer version of this program, which may know the flag, or leave it out of `flags`."

    def __init__(self, options: Options, why: DelegationFailed) -> None:
        super().__init__(f"this program does not know {options.unknown_flags}, and {why}")


class Rendering(Struct, frozen=True):
    """A components file and what proves it; `detail` says in a few words how, or why nothing does."""

    text: str
    proof: Proof
    detail: str = ""

    @property
    def doubt(self) -> str:
        """Return why it may not be what Flux renders; nothing where that is proven."""
        told = f"nothing proves that Flux renders it the same way: {self.detail}"
        return told if self.proof is Proof.NONE else ""


def rendering(release: FetchedRelease, options: Options, ports: Ports) -> Rendering:
    """Return the components file of `release`, with the first proof that there is.

    Raises:
        UnknownFlag: the release's own flux CLI does not know a flag that this program does not know either.
        ComponentMissing: the release lacks a component that the options name.
        FlagsNotRendered: it could not be asked, or did not render with such a flag.
        TemplateMismatch: we cannot render the release, and its own flux CLI did not do it either.
    """
    version = release.release.version
    for component in options.components:
        release.bundle.component(component)
    known = is_known(release.bundle, version)
    if options.others:
        if known:  # and with it all of its flags
            raise UnknownFlag(options.others[0][0], version)
        return _delegated(release, options, ports)
    if known:
        return Rendering(render(release.bundle, version, options), Proof.KNOWN)
    failures = []
    for prove in (_calibrated, _delegated):
        try:
            return prove(release, options, ports)
        except Error as error:  # whatever it is, there is no proof then
            failures.append(str(error))
    return Rendering(render(release.bundle, version, options), Proof.NONE, "; ".join(failures))


def render_release(version: Version, options: Options, ports: Ports) -> Rendering:
    """Return the components file of `version`, as `flux install --export` prints it, and what proves it."""
    return rendering(fetch(version, ports), options, ports)


def recipe_of(release: FetchedRelease, options: Options, components: str, overlay: Tree, path: str) -> Recipe:
    """Return what an artifact with components of a release is made from."""
    version, bundle = release.release.version, release.bundle
    return Recipe(version, release.commit, bundle.digest, options, components, overlay, path)


def _calibrated(release: FetchedRelease, options: Options, ports: Ports) -> Rendering:
    """Return our rendering, if upstream's own signed one has the same bytes."""
    version = release.release.version
    if lacking := unexercised(options):
        raise NotCalibrated(f"upstream's own rendering of {version} does not show {', '.join(lacking)}")
    if (found := find_artifact(version, ports)) is None:
        raise NotCalibrated("no repository of upstream's own renderings is configured")
    if found.vouched is None:
        raise NotCalibrated(f"nothing proves {found.reference}")
    ports.say(f"comparing with upstream's own {found.reference}")
    reference = found.reference.at_digest(found.digest)
    registry = found.upstream.registry
    layer = registry.manifest(reference).layers[0]
    if layer.size > LIMITS.compressed_bytes:
        raise NotCalibrated(f"{reference} has a layer of {layer.size} bytes, and upstream's have 50 KB")
    tree = read_archive(registry.blob(reference, layer), LIMITS)
    theirs = tree[tree.components_path()].decode(errors="replace")
    calibrate(theirs, release.bundle, version, options)
    return Rendering(
        render(release.bundle, version, options),
        Proof.CALIBRATED,
        f"upstream's own {found.reference} has the same bytes",
    )


def _delegated(release: FetchedRelease, options: Options, ports: Ports) -> Rendering:
    """Return what the release's own flux CLI renders."""
    # It brings much, for one release in many.
    from ci_automation.flows.programs.delegate import DelegationFailed, delegate

    version = release.release.version
    ports.say(f"looking for the flux CLI of {version}")
    try:
        made = delegate(release, options, ports.releases)
    except DelegationFailed as error:
        if options.others:
            raise FlagsNotRendered(options, error) from None
        raise
    flags = f" with flags that this program does not know: {options.unknown_flags}" if options.others else ""
    where = ", which ran with access to your files" if made.files_in_reach else ""
    return Rendering(made.text, Proof.DELEGATED, f"the release's own flux CLI rendered it{flags}{where}")
