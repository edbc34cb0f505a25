"""SBOM of an artifact: its controllers' images as a CycloneDX 1.6 document (ECMA-424).

What is signed is CycloneDX rather than SPDX 2.3: SPDX demands a time of creation and a namespace that no other document
has, so that two runs with the same inputs could not say the same. `spdx` says in SPDX what is signed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_automation.artifact.digest import Digest
    from ci_automation.flux.version import Version

PREDICATE_TYPE = "https://cyclonedx.org/bom"
# `registry:5000/path/name:tag`: a colon before a slash is a port's.
_IMAGE = re.compile(r"(?:(?P<path>.+)/)?(?P<name>[^/:@]+)(?::(?P<tag>[^/:@]+))?")
_SUBJECT = "artifact"
_NAMESPACE = "tag:flux-manifests.github.io,2026:spdx"


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
