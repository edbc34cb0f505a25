"""Provenance of an artifact: a predicate of SLSA v1 (https://slsa.dev/spec/v1.0/provenance), inputs by digest.

What the parts of the predicate mean, for our build type:

externalParameters    `artifact` is the channel it was made for, `flux` the version, `options` each flag of
                      `flux install` that differs from Flux's default, `policy` how the step was let through: `auto`, or
                      `approval` with the `approval` that was given
internalParameters    `proof` is how the rendering is known to be Flux's own (design section 6)
resolvedDependencies  `release` is the archive of manifests, with its commit, and in an annotation the digest of its
                      contents, however packed; `base` what the channel had before; `overlay` every other file of the
                      artifact; `configuration` the file that the run was configured by; `image` each controller's
                      image where it is pinned by its digest
runDetails            `builder.id` is the identity in the signing certificate, or `LOCAL_BUILDER` where a key signed;
                      `metadata.invocationId` the address of the run

No time is in it but an approval's: who runs it again with the same inputs says the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from ci_automation.artifact.reference import OciRepository, Reference
from ci_automation.records.notes import Approval, as_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_automation.artifact.digest import Digest
    from ci_automation.flux.options import Options
    from ci_automation.flux.proof import Proof
    from ci_automation.flux.version import Version

PREDICATE_TYPE = "https://slsa.dev/provenance/v1"
# Tag URIs (RFC 4151): names for ever, and no addresses.
BUILD_TYPE = "tag:flux-manifests.github.io,2026:build/v1"
LOCAL_BUILDER = "tag:flux-manifests.github.io,2026:builder/local"
CONTENT_ANNOTATION = "io.github.flux-manifests.release-digest"


class Source(Struct, frozen=True):
    """The release that was rendered: where its archive is, the digests of archive and contents, and the commit."""

    uri: str
    archive: Digest
    content: Digest
    commit: str


class Build(Struct, frozen=True):
    """Inputs of an artifact."""

    channel: Reference
    version: Version
    options: Options
    source: Source
    base: Digest | None
    overlay: Digest
    configuration: Digest | None = None
    pins: Mapping[str, Digest] = field(default_factory=dict)  # by image


class Invocation(Struct, frozen=True):
    """Run that made an artifact, and its approval: `builder` is an identity's subject, `program` is our own version."""

    policy: str
    proof: Proof
    program: str
    builder: str | None = None
    url: str | None = None
    approval: Approval | None = None


def provenance(build: Build, run: Invocation) -> dict[str, Any]:
    """Return the predicate."""
    parameters = {
        "artifact": _artifact_name(build.channel),
        "flux": str(build.version),
        "options": build.options.differing(),
        "policy": run.policy,
    }
    if run.approval is not None:
        parameters["approval"] = as_json(run.approval)
    details: dict[str, Any] = {
        "builder": {"id": run.builder or LOCAL_BUILDER, "version": {"flux-manifests": run.program}}
    }
    if run.url is not None:
        details["metadata"] = {"invocationId": run.url}
    return {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": parameters,
            "internalParameters": {"proof": str(run.proof)},
            "resolvedDependencies": [*_dependencies(build)],
        },
        "runDetails": details,
    }


def _dependencies(build: Build) -> list[Mapping[str, Any]]:
    source = build.source
    found: list[Mapping[str, Any]] = [
        {
            "name": "release",
            "uri": source.uri,
            "digest": {"sha256": source.archive.hex, "gitCommit": source.commit},
            "annotations": {CONTENT_ANNOTATION: str(source.content)},
        }
    ]
    if build.base is not None:
        found.append({"name": "base", **_artifact(build.channel, build.base), "digest": {"sha256": build.base.hex}})
    found.append({"name": "overlay", "digest": {"sha256": build.overlay.hex}})
    if build.configuration is not None:
        found.append({"name": "configuration", "digest": {"sha256": build.configuration.hex}})
    found += [
        {"name": "image", "uri": f"oci://{image}", "digest": {"sha256": digest.hex}}
        for image, digest in sorted(build.pins.items())
    ]
    return found


def _artifact_name(channel: Reference) -> str:
    """Return the address of a channel; of a layout directory, which may be anywhere, the tag."""
    return str(channel) if isinstance(channel.repository, OciRepository) else f"layout:{channel.tag}"


def _artifact(channel: Reference, digest: Digest) -> dict[str, str]:
    """Return the address of another digest of the channel's repository; a layout directory has none for others."""
    return {"uri": str(channel.at_digest(digest))} if isinstance(channel.repository, OciRepository) else {}
