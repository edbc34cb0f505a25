"""What every registry does: the same cases for the one in memory, the layout directory, and real servers over HTTP."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from ci_automation.artifact.digest import Digest
from ci_automation.artifact.manifest import (
    CONFIG_BLOB,
    FLUX_CONFIG,
    FLUX_LAYER,
    OCI_INDEX,
    Descriptor,
    InvalidManifest,
    Manifest,
)
from ci_automation.artifact.reference import InvalidReference
from ci_automation.registry.port import ContentMismatch, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_automation.artifact.reference import Reference
    from ci_automation.registry.port import Registry

NOBODY = Digest("0" * 64)


@dataclass(frozen=True, slots=True)
class Door:
    """A registry under test: `registry` is it, and `again` opens it anew.

    `at` is a channel in a repository that nobody else uses; `other` is one in another repository of the same registry,
    where it can have one.
    """

    registry: Registry
    again: Callable[[], Registry]
    at: Reference
    other: Reference | None = None


def artifact(layer: bytes = b"a layer", **annotations: str) -> Manifest:
    """Return the manifest of an artifact with one layer."""
    config = Descriptor.of(FLUX_CONFIG, CONFIG_BLOB)
    return Manifest.build(config, (Descriptor.of(FLUX_LAYER, layer),), annotations)


def publish(registry: Registry, at: Reference, layer: bytes = b"a layer", **annotations: str) -> Manifest:
    """Put an artifact with its blobs into a registry."""
    manifest = artifact(layer, **annotations)
    registry.put_blob(at, CONFIG_BLOB)
    registry.put_blob(at, layer)
    registry.put_manifest(at, manifest)
    return manifest


class RegistryContract:
    """Derive a class and give it a fixture `door`."""

    looks_for_blobs = True  # whether a manifest is refused as long as its blobs are not there

    def test_a_repository_that_nobody_wrote_to_is_empty(self, door: Door) -> None:
        assert door.registry.resolve(door.at) is None
        assert door.registry.resolve(door.at.at_digest(NOBODY)) is None
        assert door.registry.tags(door.at) == ()

    def test_a_manifest_that_is_not_there_is_not_found(self, door: Door) -> None:
        with pytest.raises(NotFound) as caught:
            door.registry.manifest(door.at)
        assert str(door.at) in str(caught.value)

    def test_what_was_published_is_read_back_byte_for_byte(self, door: Door) -> None:
        manifest = publish(door.registry, door.at, source="<&> ü")
        for registry in (door.registry, door.again()):
            found = registry.manifest(door.at)
            assert found == manifest
            assert found.raw == manifest.raw
            assert registry.resolve(door.at) == manifest.digest
            assert registry.blob(door.at, manifest.layers[0]) == b"a layer"
            assert registry.blob(door.at, manifest.config) == CONFIG_BLOB

    def test_a_manifest_put_by_digest_has_no_tag(self, door: Door) -> None:
        digest = artifact().digest
        publish(door.registry, door.at.at_digest(digest))
        assert door.registry.resolve(door.at.at_digest(digest)) == digest
        assert door.registry.manifest(door.at.at_digest(digest)).digest == digest
        assert door.registry.resolve(door.at) is None
        assert door.registry.tags(door.at) == ()

    def test_a_tag_moves_and_what_it_left_stays(self, door: Door) -> None:
        first, second = publish(door.registry, door.at, b"first"), publish(door.registry, door.at, b"second")
        for registry in (door.registry, door.again()):
            assert registry.resolve(door.at) == second.digest
            assert registry.manifest(door.at.at_digest(first.digest)) == first
            assert registry.tags(door.at) == (door.at.tag,)

    def test_a_tag_moves_back(self, door: Door) -> None:
        first = publish(door.registry, door.at, b"first")
        second = publish(door.registry, door.at, b"second")
        door.registry.put_manifest(door.at, first)
        assert door.again().resolve(door.at) == first.digest
        assert door.again().resolve(door.at.at_digest(second.digest)) == second.digest

    def test_one_digest_has_several_tags(self, door: Door) -> None:
        manifest = publish(door.registry, door.at.at_tag("v2.9.4-1a2b3c4d5e6f"))
        door.registry.put_manifest(door.at, manifest)
        door.registry.put_manifest(door.at.at_tag("Z_1"), manifest)
        assert door.again().tags(door.at) == tuple(sorted(["v2.9.4-1a2b3c4d5e6f", str(door.at.tag), "Z_1"]))
        assert {door.registry.resolve(door.at.at_tag(tag)) for tag in door.registry.tags(door.at)} == {manifest.digest}

    def test_storing_twice_is_storing_once(self, door: Door) -> None:
        manifest = publish(door.registry, door.at)
        assert publish(door.again(), door.at) == manifest
        assert door.registry.put_manifest(door.at.at_digest(manifest.digest), manifest) == manifest.digest
        assert door.registry.tags(door.at) == (door.at.tag,)

    def test_a_blob_that_is_not_there_is_not_found(self, door: Door) -> None:
        publish(door.registry, door.at)
        with pytest.raises(NotFound, match=NOBODY.hex):
            door.registry.blob(door.at, Descriptor(FLUX_LAYER, NOBODY, 7))

    @pytest.mark.parametrize("size", [0, 6, 8])
    def test_a_blob_of_another_size_is_not_handed_out(self, door: Door, size: int) -> None:
        manifest = publish(door.registry, door.at)
        with pytest.raises(ContentMismatch):
            door.registry.blob(door.at, replace(manifest.layers[0], size=size))

    @pytest.mark.parametrize("data", [b"", bytes(range(256)) * 5000], ids=["empty", "1.3 MB"])
    def test_any_bytes_are_a_blob(self, door: Door, data: bytes) -> None:
        assert door.registry.put_blob(door.at, data) == Digest.of(data)
        assert door.again().blob(door.at, Descriptor.of(FLUX_LAYER, data)) == data

    def test_a_manifest_is_not_stored_under_another_digest(self, door: Door) -> None:
        publish(door.registry, door.at)
        with pytest.raises(ContentMismatch):
            door.registry.put_manifest(door.at.at_digest(NOBODY), artifact())
        assert door.registry.resolve(door.at.at_digest(NOBODY)) is None

    def test_a_manifest_whose_blobs_are_missing_is_refused(self, door: Door) -> None:
        manifest = artifact(b"never uploaded")
        with pytest.raises(NotFound) if self.looks_for_blobs else nullcontext():
            door.registry.put_manifest(door.at, manifest)
        assert door.registry.resolve(door.at) == (None if self.looks_for_blobs else manifest.digest)

    def test_an_index_is_seen_and_refused(self, door: Door) -> None:
        manifest = publish(door.registry, door.at.at_digest(artifact().digest))
        entry = Descriptor(manifest.media_type, manifest.digest, len(manifest.raw)).to_json()
        raw = json.dumps({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [entry]}).encode()
        door.registry.put_manifest(door.at, replace(manifest, raw=raw, media_type=OCI_INDEX))
        assert door.registry.resolve(door.at) == Digest.of(raw)
        with pytest.raises(InvalidManifest, match="index"):
            door.registry.manifest(door.at)

    def test_a_reference_without_tag_and_digest_names_no_manifest(self, door: Door) -> None:
        with pytest.raises(InvalidReference):
            door.registry.resolve(replace(door.at, tag=None))

    def test_repositories_do_not_share_what_they_hold(self, door: Door) -> None:
        assert door.other is not None
        manifest = publish(door.registry, door.at)
        assert door.registry.resolve(door.other) is None
        assert publish(door.registry, door.other, b"elsewhere") != manifest
        assert door.registry.resolve(door.at) == manifest.digest

    def test_threads_share_it(self, door: Door) -> None:
        places = [place for place in (door.at, door.other) if place is not None]

        def publish_one(number: int) -> tuple[Reference, Manifest]:
            at = places[number % len(places)].at_tag(f"n{number}")
            return at, publish(door.registry, at, b"layer %d" % number)

        with ThreadPoolExecutor(8) as pool:
            published = list(pool.map(publish_one, range(24)))
        for at, manifest in published:
            assert door.registry.manifest(at) == manifest
        assert sum(len(door.registry.tags(place)) for place in places) == len(published)
