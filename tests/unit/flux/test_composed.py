"""Composing an artifact: the same inputs give the same digest, any other input another one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from ci_automation.artifact.archive import read_archive
from ci_automation.artifact.manifest import CONFIG_BLOB, Descriptor, InvalidManifest, Manifest
from ci_automation.artifact.reference import Digest
from ci_automation.artifact.tree import Tree
from ci_automation.flux.artifact import (
    compose,
    compose_pushed,
    immutable_tag,
    immutable_version,
    stated_flags,
    stated_options_digest,
    stated_origin,
    stated_overlay_digest,
    stated_version,
    tagged_version,
    version_tag,
    with_stated_flags,
)
from ci_automation.flux.options import Options
from ci_automation.flux.version import Version
from tests.unit.flux.recipe import BUNDLE, OVERLAY, PATH, RECIPE, SAMPLE

KNOWN = '{"log-level": "debug"}'  # by now


def test_the_annotations_are_those_of_the_contract() -> None:
    composed = compose(RECIPE)
    tree = read_archive(composed.recipe.layer)
    overlay = (
        b"0755 " + Digest.of(b"#!/bin/sh\n").hex.encode() + b" bin/run\n"
        b"0644 " + Digest.of(b"resources: [flux-system]\n").hex.encode() + b" kustomization.yaml\n"
    )
    assert dict(composed.manifest.annotations) == {
        "org.opencontainers.image.created": "1970-01-01T00:00:00Z",
        "org.opencontainers.image.source": "https://github.com/fluxcd/flux2",
        "org.opencontainers.image.revision": f"{SAMPLE.tag}@sha1:{SAMPLE.commit}",
        "io.github.flux-manifests.version": SAMPLE.tag,
        "io.github.flux-manifests.components-digest": str(Digest.of(tree[PATH])),
        "io.github.flux-manifests.overlay-digest": str(Digest.of(overlay)),
        "io.github.flux-manifests.options-digest": str(Digest.of(b"{}")),
        "io.github.flux-manifests.release-digest": str(BUNDLE.digest),
    }


def test_the_manifest_has_fluxs_media_types_and_one_layer() -> None:
    value = json.loads(compose(RECIPE).manifest.raw)
    assert value["config"]["mediaType"] == "application/vnd.cncf.flux.config.v1+json"
    assert value["config"]["digest"] == "sha256:5b943e2b943f6c81dbbd4e2eca5121f4fcc39139e3d1219d6d89bd925b77d9fe"
    assert [layer["mediaType"] for layer in value["layers"]] == ["application/vnd.cncf.flux.content.v1.tar+gzip"]


def test_the_artifact_holds_the_components_and_the_overlay_byte_for_byte() -> None:
    composed = compose(RECIPE)
    files = read_archive(composed.recipe.layer).by_path
    assert files[PATH].content.decode() == RECIPE.components
    assert {path: file for path, file in files.items() if path != PATH} == dict(OVERLAY.by_path)


def test_the_digest_is_the_same_for_ever() -> None:
    # A fact, not a wish: whoever changes it makes every artifact of every team look changed.
    assert str(compose(RECIPE).digest) == "sha256:9048b9c394cc15643e8da6e41d3357d05eb5d6535c1767bb1193dfaede5b4a4a"


@pytest.mark.parametrize(
    "change",
    [
        {"version": Version.parse("2.99.5")},
        {"commit": "0" * 40},
        {"release": Digest.of(b"another")},
        {"options": Options(namespace="fleet")},
        {"options": Options(others=(("zone", "a"),))},
        {"components": RECIPE.components + "\n"},
        {"overlay": OVERLAY.replaced("kustomization.yaml", b"resources: []\n")},
        {"overlay": Tree((OVERLAY.files[0], replace(OVERLAY.files[1], executable=False)))},
        {"path": "gotk-components.yaml"},
    ],
    ids="-".join,
)
def test_another_input_gives_another_digest(change: dict[str, Any]) -> None:
    assert compose(replace(RECIPE, **change)).digest != compose(RECIPE).digest


def test_the_order_of_the_overlays_files_does_not_matter() -> None:
    assert compose(replace(RECIPE, overlay=Tree(OVERLAY.files[::-1]))).digest == compose(RECIPE).digest


def with_annotations(annotations: dict[str, str]) -> Manifest:
    descriptor = Descriptor.of("application/x", CONFIG_BLOB)
    return Manifest.build(descriptor, (descriptor,), annotations)


def test_what_an_artifact_states_is_read_back() -> None:
    manifest = compose(RECIPE).manifest
    assert stated_version(manifest) == RECIPE.version
    assert stated_options_digest(manifest) == str(Options().digest)
    assert stated_overlay_digest(manifest) == str(RECIPE.overlay.digest())
    assert stated_flags(manifest) == {}
    others = Options().with_flags({"zone": "ä", "arch": True})
    manifest = compose(replace(RECIPE, options=others)).manifest
    assert stated_flags(manifest) == {"arch": "true", "zone": "ä"}
    assert stated_origin(manifest) == "rendered by its own flux CLI with --arch, --zone"
    assert stated_origin(compose(RECIPE).manifest) == ""
    assert with_stated_flags(Options(), manifest) == others
    assert with_stated_flags(Options(), with_annotations({"io.github.flux-manifests.other-flags": KNOWN})) == Options()


def test_an_artifact_of_others_states_nothing() -> None:
    assert stated_version(with_annotations({})) is None
    assert stated_options_digest(with_annotations({})) is None
    assert stated_overlay_digest(with_annotations({})) is None


def test_a_teams_own_manifests_have_their_source_and_no_release() -> None:
    composed = compose_pushed(OVERLAY, "https://git.example/shop", "main@sha1:1")
    assert dict(composed.manifest.annotations) == {
        "org.opencontainers.image.created": "1970-01-01T00:00:00Z",
        "org.opencontainers.image.source": "https://git.example/shop",
        "org.opencontainers.image.revision": "main@sha1:1",
        "io.github.flux-manifests.version": "v0.0.0",
        "io.github.flux-manifests.overlay-digest": str(OVERLAY.digest()),
    }
    assert read_archive(composed.recipe.layer).by_path == OVERLAY.by_path
    assert compose_pushed(OVERLAY, "https://git.example/shop", "main@sha1:2").digest != composed.digest
    assert stated_origin(composed.manifest) == "from main@sha1:1"


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}'])
def test_stated_flags_that_are_no_texts_are_an_error(text: str) -> None:
    with pytest.raises(InvalidManifest, match="other-flags is not an object of texts"):
        stated_flags(with_annotations({"io.github.flux-manifests.other-flags": text}))


def test_a_stated_version_that_is_none_is_an_error() -> None:
    with pytest.raises(InvalidManifest, match="not a version"):
        stated_version(with_annotations({"io.github.flux-manifests.version": "newest"}))


def test_immutable_tags_name_version_and_digest() -> None:
    digest = Digest("1a2b3c4d5e6f" + "0" * 52)
    assert immutable_tag(Version.parse("2.9.4"), digest) == "v2.9.4-1a2b3c4d5e6f"
    assert immutable_tag(Version.parse("2.9.4+build.1"), digest) == "v2.9.4_build.1-1a2b3c4d5e6f"


@pytest.mark.parametrize("version", ["v2.9.4", "v2.9.4-rc.1", "v2.9.4+build.1"])
def test_an_immutable_tag_says_its_version(version: str) -> None:
    tag = immutable_tag(Version.parse(version), Digest.of(b"x"))
    assert immutable_version(tag) == Version.parse(version)


@pytest.mark.parametrize("version", ["v2.9.4", "v2.9.4-rc.1", "v2.9.4+build.1"])
def test_a_version_tag_says_its_version(version: str) -> None:
    assert str(tagged_version(version_tag(Version.parse(version)))) == version


@pytest.mark.parametrize("tag", ["production", "v2.9.4-1a2b3c4d5e6f", "v2.9", "sha256-ab.sig"])
def test_another_tag_is_no_version_tag(tag: str) -> None:
    assert tagged_version(tag) is None


@pytest.mark.parametrize("tag", ["production", "v2.9.4", "v2.9.4-1a2b3c", "v2-1a2b3c4d5e6f"])
def test_another_tag_says_none(tag: str) -> None:
    assert immutable_version(tag) is None
