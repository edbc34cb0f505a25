"""Predicates of an artifact's attestations: its provenance, and the list of its controllers' images (SBOM).

The provenance has the form of SLSA v1 (https://slsa.dev/spec/v1.0/provenance), and names inputs by their digests. Its
parts, for our build type:

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

Its only time is that of an approval, so another run with the same inputs makes the same predicate.

The SBOM is a CycloneDX 1.6 document (ECMA-424), and the same each time too: SPDX 2.3 demands a time of creation, and a
namespace that no other document has. `spdx` converts the signed document to SPDX.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from msgspec import Struct, field

from ci_automation.artifact.reference import OciRepository, Reference
from ci_automation.records.notes import Approval, as_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_automation.artifact.reference import Digest
    from ci_automation.flux.options import Options
    from ci_automation.flux.proof import Proof
    from ci_automation.flux.version import Version

PROVENANCE_TYPE = "https://slsa.dev/provenance/v1"
# Tag URIs (RFC 4151): names for ever, and no addresses.
BUILD_TYPE = "tag:flux-manifests.github.io,2026:build/v1"
LOCAL_BUILDER = "tag:flux-manifests.github.io,2026:builder/local"
CONTENT_ANNOTATION = "io.github.flux-manifests.release-digest"
SBOM_TYPE = "https://cyclonedx.org/bom"
# `registry:5000/path/name:tag`: a colon before a slash is a port's.
_IMAGE = re.compile(r"(?:(?P<path>.+)/)?(?P<name>[^/:@]+)(?::(?P<tag>[^/:@]+))?")
_SUBJECT = "artifact"
_NAMESPACE = "tag:flux-manifests.github.io,2026:spdx"


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


def sbom(version: Version, images: Mapping[str, str], digests: Mapping[str, Digest]) -> dict[str, Any]:
    """Return the document for the controllers' images, by controller; `digests` has those of the images that are known.

    Nothing is looked up: an image without a digest is listed by its tag alone.
    """
    components = [_component(controller, image, digests.get(image)) for controller, image in sorted(images.items())]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "bom-ref": _SUBJECT, "name": "flux", "version": str(version)}
        },
        "components": components,
        "dependencies": [{"ref": _SUBJECT, "dependsOn": [component["bom-ref"] for component in components]}],
    }


def _component(controller: str, image: str, digest: Digest | None) -> dict[str, Any]:
    component = {"type": "container", "bom-ref": controller, "name": image}
    if match := _IMAGE.fullmatch(image):
        component |= {"group": match["path"]} if match["path"] else {}
        component |= {"name": match["name"]}
        component |= {"version": match["tag"]} if match["tag"] else {}
        component |= {"purl": _purl(match, digest)}
    return component


def _purl(image: re.Match[str], digest: Digest | None) -> str:
    """Return the package URL (package-url/purl-spec, type *oci*): its version is the digest, the tag a qualifier."""
    version = f"@{quote(str(digest), safe='')}" if digest else ""
    repository = "/".join(part for part in (image["path"], image["name"]) if part)
    qualifiers = [f"repository_url={quote(repository, safe='/')}"]
    qualifiers += [f"tag={quote(image['tag'], safe='')}"] if image["tag"] else []
    return f"pkg:oci/{quote(image['name'].lower(), safe='')}{version}?{'&'.join(qualifiers)}"


def spdx(document: Mapping[str, Any], subject: Digest) -> dict[str, Any]:
    """Return a document of `sbom`, signed about `subject`, as SPDX 2.3 (JSON).

    Its time of creation is the epoch and its namespace has the digest, so that it is the same each time. Where images
    come from and their licences are not known (`NOASSERTION`).
    """
    about = document["metadata"]["component"]
    flux = _package("SPDXRef-artifact", about["name"], about["version"])
    packages = [
        _package(
            f"SPDXRef-{it['bom-ref']}",
            "/".join(part for part in (it.get("group"), it["name"]) if part),
            it.get("version"),
            it.get("purl"),
        )
        for it in document["components"]
    ]
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"flux {about['version']}",
        "documentNamespace": f"{_NAMESPACE}/{subject.hex}",
        "creationInfo": {"created": "1970-01-01T00:00:00Z", "creators": ["Tool: flux-manifests"]},
        "packages": [flux, *packages],
        "relationships": [
            _relationship("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-artifact"),
            *(_relationship("SPDXRef-artifact", "DEPENDS_ON", it["SPDXID"]) for it in packages),
        ],
    }


def _package(identifier: str, name: str, version: str | None, purl: str | None = None) -> dict[str, Any]:
    package: dict[str, Any] = {
        "SPDXID": identifier,
        "name": name,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
    }
    if version:
        package["versionInfo"] = version
    if purl:
        locator = {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}
        package["externalRefs"] = [locator]
    return package


def _relationship(one: str, kind: str, other: str) -> dict[str, str]:
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
