from __future__ import annotations

import json
from typing import Any

import pytest

from ci_automation.artifact.reference import Digest
from ci_automation.flux.bundle import ManifestsBundle
from ci_automation.flux.options import COMPONENTS, Options
from ci_automation.flux.render import render
from ci_automation.flux.text import controller_images
from ci_automation.flux.version import Version
from ci_automation.records.predicates import sbom, spdx
from tests.fakes.world import sample

VERSION = Version.parse("v2.9.4")
KNOWN = Digest.of(b"image")


def only(image: str, digests: dict[str, Digest] | None = None) -> dict[str, Any]:
    """Return what the list says of one image."""
    (component,) = sbom(VERSION, {"a-controller": image}, digests or {})["components"]
    found: dict[str, Any] = component
    return found


def test_the_list_of_two_controllers() -> None:
    source, kustomize = "ghcr.io/fluxcd/source-controller:v1.9.1", "ghcr.io/fluxcd/kustomize-controller:v1.9.0"
    made = sbom(VERSION, {"source-controller": source, "kustomize-controller": kustomize}, {source: KNOWN})
    assert made == {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "application", "bom-ref": "artifact", "name": "flux", "version": "v2.9.4"}},
        "components": [
            {
                "type": "container",
                "bom-ref": "kustomize-controller",
                "group": "ghcr.io/fluxcd",
                "name": "kustomize-controller",
                "version": "v1.9.0",
                "purl": "pkg:oci/kustomize-controller?repository_url=ghcr.io/fluxcd/kustomize-controller&tag=v1.9.0",
            },
            {
                "type": "container",
                "bom-ref": "source-controller",
                "group": "ghcr.io/fluxcd",
                "name": "source-controller",
                "version": "v1.9.1",
                "purl": f"pkg:oci/source-controller@sha256%3A{KNOWN.hex}"
                "?repository_url=ghcr.io/fluxcd/source-controller&tag=v1.9.1",
            },
        ],
        "dependencies": [{"ref": "artifact", "dependsOn": ["kustomize-controller", "source-controller"]}],
    }


@pytest.mark.parametrize(
    ("image", "purl"),
    [
        pytest.param("host:5000/a/b:v1", "pkg:oci/b?repository_url=host%3A5000/a/b&tag=v1", id="a port"),
        pytest.param("host:5000/a/b", "pkg:oci/b?repository_url=host%3A5000/a/b", id="a port and no tag"),
        pytest.param("b:v1", "pkg:oci/b?repository_url=b&tag=v1", id="no registry"),
    ],
)
def test_images_of_other_forms(image: str, purl: str) -> None:
    assert only(image)["purl"] == purl


def test_an_image_of_no_form_is_listed_by_its_text() -> None:
    assert only("a@b@c") == {"type": "container", "bom-ref": "a-controller", "name": "a@b@c"}


def test_a_digest_counts_for_exactly_its_image() -> None:
    assert KNOWN.hex not in only("ghcr.io/fluxcd/a:v2", {"ghcr.io/fluxcd/a:v1": KNOWN})["purl"]


def test_every_controller_of_a_rendered_release_is_in_the_list_and_twice_the_same() -> None:
    bundle = ManifestsBundle.of(sample("v2.99.4").bundle)
    text = render(
        bundle, Version.parse("v2.99.4"), Options(components=tuple(c for c in COMPONENTS if c in bundle.components))
    )
    first, second = (
        json.dumps(sbom(VERSION, found, {}))
        for found in (controller_images(text), dict(reversed(controller_images(text).items())))
    )
    assert first == second
    assert [component["bom-ref"] for component in json.loads(first)["components"]] == sorted(bundle.components)


def test_the_same_list_as_spdx() -> None:
    image = "ghcr.io/fluxcd/source-controller:v1.9.1"
    made = sbom(VERSION, {"source-controller": image}, {image: KNOWN})
    subject = Digest.of(b"artifact")
    assert spdx(made, subject) == {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": "flux v2.9.4",
        "documentNamespace": f"tag:flux-manifests.github.io,2026:spdx/{subject.hex}",
        "creationInfo": {"created": "1970-01-01T00:00:00Z", "creators": ["Tool: flux-manifests"]},
        "packages": [
            {
                "SPDXID": "SPDXRef-artifact",
                "name": "flux",
                "downloadLocation": "NOASSERTION",
                "filesAnalyzed": False,
                "versionInfo": "v2.9.4",
            },
            {
                "SPDXID": "SPDXRef-source-controller",
                "name": "ghcr.io/fluxcd/source-controller",
                "downloadLocation": "NOASSERTION",
                "filesAnalyzed": False,
                "versionInfo": "v1.9.1",
                "externalRefs": [
                    {
                        "referenceCategory": "PACKAGE-MANAGER",
                        "referenceType": "purl",
                        "referenceLocator": made["components"][0]["purl"],
                    }
                ],
            },
        ],
        "relationships": [
            {
                "spdxElementId": "SPDXRef-DOCUMENT",
                "relationshipType": "DESCRIBES",
                "relatedSpdxElement": "SPDXRef-artifact",
            },
            {
                "spdxElementId": "SPDXRef-artifact",
                "relationshipType": "DEPENDS_ON",
                "relatedSpdxElement": "SPDXRef-source-controller",
            },
        ],
    }


def test_an_image_of_no_form_has_only_a_name_in_spdx() -> None:
    _, package = spdx(sbom(VERSION, {"a": "a@b@c"}, {}), KNOWN)["packages"]
    assert package == {
        "SPDXID": "SPDXRef-a",
        "name": "a@b@c",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
    }
