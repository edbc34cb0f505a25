"""What every registry does: the same cases for the one in memory, the layout directory, and real servers over HTTP."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ci_automation.artifact.index import parse_stored
from ci_automation.artifact.manifest import (
    CONFIG_BLOB,
    DOCKER_LIST,
    FLUX_CONFIG,
    FLUX_LAYER,
    OCI_INDEX,
    OCI_MANIFEST,
    Descriptor,
    InvalidManifest,
    Manifest,
)
from ci_automation.artifact.reference import Digest, InvalidReference
from ci_automation.registry.port import ContentMismatch, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_automation.artifact.reference import Reference
    from ci_automation.registry.port import Registry

NOBODY = Digest("0" * 64)
EMPTY = "application/vnd.oci.empty.v1+json"
NOTE = "application/vnd.example.note"


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


def note(text: bytes, subject: Digest | Manifest, artifact_type: str | None = NOTE, **annotations: str) -> Manifest:
    """Return a referrer of a manifest."""
    config, layer = Descriptor.of(EMPTY, b"{}"), Descriptor.of("text/plain", text)
    about = (
        Descriptor(OCI_MANIFEST, subject, 7)
        if isinstance(subject, Digest)
        else Descriptor.of(subject.media_type, subject.raw)
    )
    return Manifest.build(config, (layer,), annotations, artifact_type=artifact_type, subject=about)


def attach(registry: Registry, at: Reference, manifest: Manifest, *blobs: bytes) -> Manifest:
    """Put a referrer with its blobs into a registry."""
    for data in (b"{}", *blobs):
        registry.put_blob(at, data)
    assert registry.put_referrer(at, manifest) == manifest.digest
    return manifest


def own_tags(registry: Registry, at: Reference) -> tuple[str, ...]:
    """Return the tags but those that list referrers."""
    return tuple(tag for tag in registry.tags(at) if not re.fullmatch("sha256-[0-9a-f]{64}", tag))


class RegistryContract:
    """Derive a class and give it a fixture `door`."""

    looks_for_blobs = True  # whether a manifest is refused as long as its blobs are not there
    mounts = True  # whether blobs of other repositories are mounted
    untags = True  # whether a manifest that is deleted loses its tags, which else keep it
    lifts = True  # whether a list of referrers has their kind and annotations

    def test_a_repository_that_nobody_wrote_to_is_empty(self, door: Door) -> None:
        assert door.registry.resolve(door.at) is None
        assert door.registry.resolve(door.at.at_digest(NOBODY)) is None
        assert door.registry.tags(door.at) == ()

    def test_whoever_may_write_can_learn_that_and_leaves_nothing(self, door: Door) -> None:
        door.registry.require_writable(door.at)
        assert door.again().tags(door.at) == ()
        publish(door.registry, door.at)
        door.registry.require_writable(door.at)

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

    def test_a_blob_that_is_too_large_for_memory_goes_by_way_of_a_file(self, door: Door) -> None:
        data = bytes(range(256)) * (5 << 12)
        layer = Descriptor.of(FLUX_LAYER, data)
        assert not door.registry.has_blob(door.at, layer)
        with pytest.raises(NotFound):
            door.registry.fetch_blob(door.at, layer, BytesIO())
        door.registry.send_blob(door.at, layer, BytesIO(data))
        for registry in (door.registry, door.again()):
            file = BytesIO(b"more than nothing")
            assert registry.has_blob(door.at, layer)
            registry.fetch_blob(door.at, layer, file)
            assert file.getvalue() == data == registry.blob(door.at, layer)
        with pytest.raises(ContentMismatch):
            door.registry.fetch_blob(door.at, replace(layer, size=len(data) - 1), BytesIO())

    def test_an_index_of_images_keeps_its_bytes_and_comes_after_them(self, door: Door) -> None:
        image = artifact(b"an image")
        written = {
            "schemaVersion": 2,
            "mediaType": DOCKER_LIST,
            "manifests": [Descriptor.of(OCI_MANIFEST, image.raw).to_json()],
        }
        index = parse_stored(json.dumps(written, indent=3).encode())
        if self.looks_for_blobs:
            with pytest.raises(NotFound):
                door.registry.put_manifest(door.at, index)
        for data in (CONFIG_BLOB, b"an image"):
            door.registry.put_blob(door.at, data)
        door.registry.put_manifest(door.at.at_digest(image.digest), image)
        assert door.registry.put_manifest(door.at, index) == index.digest
        for registry in (door.registry, door.again()):
            assert registry.stored(door.at) == registry.stored(door.at.at_digest(index.digest)) == index
            assert registry.stored(door.at.at_digest(index.parts[0].digest)) == image
        with pytest.raises(NotFound):
            door.registry.stored(door.at.at_digest(NOBODY))

    def test_a_blob_of_another_repository_is_mounted_or_has_to_be_put(self, door: Door) -> None:
        assert door.other is not None
        manifest = publish(door.registry, door.at)
        (layer,) = manifest.layers
        for descriptor, data in ((layer, b"a layer"), (manifest.config, CONFIG_BLOB)):
            there = door.registry.mount_blob(door.other, descriptor, door.at)
            assert there or not self.mounts
            if not there:
                assert door.registry.put_blob(door.other, data) == descriptor.digest
            assert door.again().blob(door.other, descriptor) == data
        door.registry.put_manifest(door.other, manifest)
        assert door.again().manifest(door.other) == manifest

    def test_a_blob_that_is_nowhere_is_not_mounted(self, door: Door) -> None:
        assert door.other is not None
        publish(door.registry, door.at)
        unknown = Descriptor.of(FLUX_LAYER, b"elsewhere")
        assert not door.registry.mount_blob(door.other, unknown, door.at)
        assert door.registry.put_blob(door.other, b"elsewhere") == unknown.digest
        assert door.again().blob(door.other, unknown) == b"elsewhere"

    def test_what_is_there_already_is_there_after_a_mount(self, door: Door) -> None:
        manifest = publish(door.registry, door.at)
        for _ in range(2):
            assert door.registry.mount_blob(door.at, manifest.layers[0], door.at) or not self.mounts
        assert door.again().blob(door.at, manifest.layers[0]) == b"a layer"

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

    def test_a_manifest_that_is_deleted_is_gone_with_all_its_tags(self, door: Door) -> None:
        gone, stays = publish(door.registry, door.at), publish(door.registry, door.at.at_tag("other"), b"another layer")
        door.registry.put_manifest(door.at.at_tag("second"), gone)
        door.registry.delete_manifest(door.at.at_digest(gone.digest))
        again = door.again()
        assert again.resolve(door.at.at_digest(gone.digest)) is None
        if self.untags:
            assert door.registry.resolve(door.at) is None
            assert again.tags(door.at) == ("other",)
        assert again.manifest(door.at.at_tag("other")) == stays
        assert again.blob(door.at, stays.layers[0]) == b"another layer"

    def test_what_was_deleted_can_be_put_again(self, door: Door) -> None:
        manifest = publish(door.registry, door.at)
        door.registry.delete_manifest(door.at.at_digest(manifest.digest))
        assert publish(door.again(), door.at) == manifest
        assert door.again().manifest(door.at) == manifest

    def test_to_delete_what_is_not_there_is_done(self, door: Door) -> None:
        manifest = publish(door.registry, door.at)
        for _ in range(2):
            door.registry.delete_manifest(door.at.at_digest(manifest.digest))

    def test_a_tag_alone_is_never_deleted(self, door: Door) -> None:
        manifest = publish(door.registry, door.at)
        with pytest.raises(InvalidReference):
            door.registry.delete_manifest(door.at)
        assert door.again().resolve(door.at) == manifest.digest

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

    def test_nothing_refers_to_what_nobody_wrote_about(self, door: Door) -> None:
        assert door.registry.referrers(door.at, NOBODY) == ()
        manifest = publish(door.registry, door.at)
        assert door.registry.referrers(door.at, manifest.digest) == ()
        assert door.registry.referrers(door.at, NOBODY) == ()

    def test_a_referrer_is_listed_with_its_kind_and_its_annotations(self, door: Door) -> None:
        assert door.registry.referrers(door.at, NOBODY) == ()  # what was not there before may be there now
        subject = publish(door.registry, door.at).digest
        wrote = attach(door.registry, door.at, note(b"a note", subject, by="<me> & ü"), b"a note")
        for registry in (door.registry, door.again()):
            (found,) = registry.referrers(door.at, subject)
            assert (found.media_type, found.digest, found.size) == (OCI_MANIFEST, wrote.digest, len(wrote.raw))
            if self.lifts:
                assert (found.artifact_type, found.annotations) == (NOTE, {"by": "<me> & ü"})
            assert registry.manifest(door.at.at_digest(found.digest)) == wrote

    def test_a_referrer_without_a_kind_of_its_own_has_that_of_its_config(self, door: Door) -> None:
        attach(door.registry, door.at, note(b"a note", NOBODY, None), b"a note")
        assert [found.artifact_type for found in door.registry.referrers(door.at, NOBODY)] == [EMPTY]

    def test_referrers_of_several_are_kept_apart_and_none_is_lost(self, door: Door) -> None:
        subjects = [publish(door.registry, door.at, b"first").digest, publish(door.registry, door.at, b"second").digest]
        notes = [
            [attach(door.registry, door.at, note(text, subject), text).digest for text in (b"one", b"two", b"three")]
            for subject in subjects
        ]
        subjects.append(notes[0][0])
        notes.append([attach(door.registry, door.at, note(b"about a note", notes[0][0]), b"about a note").digest])
        for subject, expected in zip(subjects, notes, strict=True):
            assert sorted(found.digest for found in door.again().referrers(door.at, subject)) == sorted(expected)

    def test_a_referrer_has_no_tag(self, door: Door) -> None:
        subject = publish(door.registry, door.at).digest
        wrote = note(b"a note", subject, **{"org.opencontainers.image.ref.name": "not-a-tag"})
        attach(door.registry, door.at, wrote, b"a note")
        assert own_tags(door.registry, door.at) == (door.at.tag,)
        assert door.registry.resolve(door.at) == subject
        assert door.registry.resolve(door.at.at_digest(wrote.digest)) == wrote.digest

    def test_a_referrer_that_is_put_twice_is_listed_once(self, door: Door) -> None:
        subject = publish(door.registry, door.at).digest
        for registry in (door.registry, door.registry, door.again()):
            attach(registry, door.at, note(b"a note", subject), b"a note")
        assert len(door.registry.referrers(door.at, subject)) == 1

    def test_a_manifest_without_a_subject_is_no_referrer(self, door: Door) -> None:
        with pytest.raises(InvalidManifest, match="no subject"):
            door.registry.put_referrer(door.at, artifact())
        assert door.registry.resolve(door.at.at_digest(artifact().digest)) is None

    def test_a_referrer_whose_blobs_are_missing_is_refused(self, door: Door) -> None:
        with pytest.raises(NotFound) if self.looks_for_blobs else nullcontext():
            door.registry.put_referrer(door.at, note(b"never uploaded", NOBODY))
        assert len(door.registry.referrers(door.at, NOBODY)) == (0 if self.looks_for_blobs else 1)

    def test_threads_attach_to_the_same(self, door: Door) -> None:
        subject = publish(door.registry, door.at).digest
        notes = [note(b"%d" % number, subject) for number in range(8)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda each: attach(door.registry, door.at, notes[each], b"%d" % each), range(8)))
        found = sorted(found.digest for found in door.again().referrers(door.at, subject))
        assert found == sorted(each.digest for each in notes)
