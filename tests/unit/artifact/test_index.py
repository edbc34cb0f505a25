"""Indexes: what Go would read, and additions that leave the rest as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ci_automation.artifact.index import MAX_ENTRIES, Index, InvalidIndex, parse_stored
from ci_automation.artifact.manifest import DOCKER_LIST, OCI_INDEX, OCI_MANIFEST, Descriptor, Manifest
from ci_automation.artifact.reference import Digest
from ci_automation.errors import VerificationFailed

DIGEST = f"sha256:{'4' * 64}"
ENTRY = Descriptor(OCI_MANIFEST, Digest("4" * 64), 5, {"a": "b"}, "application/vnd.example")
OTHER = Descriptor(OCI_MANIFEST, Digest("5" * 64), 6)
NONE: Any = object()


def listed(**changes: Any) -> dict[str, Any]:
    return {"mediaType": OCI_MANIFEST, "digest": DIGEST, "size": 5} | changes


def index(**changes: Any) -> bytes:
    value = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [listed()]} | changes
    return json.dumps({key: part for key, part in value.items() if part is not NONE}).encode()


class TestBuild:
    def test_has_its_keys_in_gos_order(self) -> None:
        assert Index.build((ENTRY,)).raw.decode() == (
            '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json",'
            f'"manifests":[{{"mediaType":"{OCI_MANIFEST}","size":5,"digest":"{DIGEST}",'
            '"annotations":{"a":"b"},"artifactType":"application/vnd.example"}]}'
        )

    def test_an_empty_one_is_a_list_too(self) -> None:
        assert Index.build().raw.endswith(b'"manifests":[]}')

    @pytest.mark.parametrize("manifests", [(), (ENTRY,), (OTHER, ENTRY, OTHER)])
    def test_reads_what_it_writes(self, manifests: tuple[Descriptor, ...]) -> None:
        built = Index.build(manifests)
        assert Index.parse(built.raw) == built
        assert built.digest == Digest.of(built.raw)
        assert built.media_type == OCI_INDEX


class TestParse:
    @pytest.mark.parametrize(
        ("raw", "number"),
        [
            pytest.param(index(), 1, id="one"),
            pytest.param(index(manifests=[]), 0, id="none"),
            pytest.param(index(manifests=None), 0, id="null, as Go writes an empty list"),
            pytest.param(index(mediaType=NONE), 1, id="no media type, as OCI allows"),
            pytest.param(index(manifests=[listed()] * MAX_ENTRIES), MAX_ENTRIES, id="many"),
            pytest.param(index(artifactType="x", subject=listed(), annotations={}), 1, id="keys of OCI 1.1"),
            pytest.param(index(manifests=[listed(platform={"os": "linux"}, urls=[], data="")]), 1, id="more about one"),
        ],
    )
    def test_reads(self, raw: bytes, number: int) -> None:
        read = Index.parse(raw)
        assert (read.raw, len(read.manifests)) == (raw, number)

    def test_gives_kind_and_annotations(self) -> None:
        entry = listed(artifactType="application/vnd.example", annotations={"a": "b"})
        assert Index.parse(index(manifests=[entry])).manifests == (ENTRY,)

    @pytest.mark.parametrize(
        ("raw", "reason"),
        [
            pytest.param(b"", "it is not JSON$", id="nothing"),
            pytest.param(b"<!DOCTYPE html>", "it is not JSON$", id="a page"),
            pytest.param(b"[]", "it is not a JSON object", id="a list"),
            pytest.param(index(x=float("inf")), "it is not JSON$", id="infinity"),
            pytest.param(index()[:-1] + b', "x": 1e999}', "it is not JSON$", id="a number too large to be written"),
            pytest.param(index(mediaType=OCI_MANIFEST), "no|not an OCI image index", id="a manifest"),
            pytest.param(index(mediaType=DOCKER_LIST), "not an OCI image index", id="Docker's list"),
            pytest.param(index(mediaType=None), "not an OCI image index", id="a media type that is null"),
            pytest.param(index(schemaVersion=1), "of schema version 2", id="schema version 1"),
            pytest.param(index(schemaVersion=NONE), "of schema version 2", id="no schema version"),
            pytest.param(index(manifests=NONE), "it has no list", id="no list"),
            pytest.param(index(Manifests=[]), "'Manifests' is 'manifests' to Go", id="a second list in another case"),
            pytest.param(
                index(x=[]).replace(b'"x"', '"manifest\u017f"'.encode()),
                "is 'manifests' to Go",
                id="a list with a long s",
            ),
            pytest.param(index()[:-1] + b',"manifests":[]}', "'manifests' twice", id="two lists"),
            pytest.param(index(manifests=[listed(Digest="")]), "'Digest' is 'digest' to Go", id="of an entry"),
            pytest.param(index(manifests={}), "it has no list", id="an object as list"),
            pytest.param(index(manifests=[listed()] * (MAX_ENTRIES + 1)), "too long", id="too many"),
            pytest.param(index(manifests=[None]), "a descriptor lacks", id="an entry that is null"),
            pytest.param(index(manifests=[listed(digest="sha512:0")]), "not a sha256 digest", id="another digest"),
            pytest.param(index(manifests=[listed(annotations=[])]), "an annotation is not", id="annotations"),
            pytest.param(index(manifests=[listed(artifactType=1)]), "an artifact type is not", id="kind"),
        ],
    )
    def test_refuses(self, raw: bytes, reason: str) -> None:
        with pytest.raises(InvalidIndex, match=f"^the image index is invalid: .*{reason}") as error:
            Index.parse(raw)
        assert error.value.exit_code == 10

    @given(st.binary() | st.from_regex(rb"[{}\[\]\",:a-z0-9]*"))
    def test_nothing_worse_happens(self, raw: bytes) -> None:
        with pytest.raises(InvalidIndex):
            Index.parse(raw)


class TestAddition:
    def test_comes_last_and_leaves_the_rest(self) -> None:
        theirs = {
            "annotations": {"kept-by": "<somebody> & ü"},
            "schemaVersion": 2,
            "manifests": [listed(platform={"os": "linux"}, data="e30=", **{"x-new": [1, 2.5, None]})],
            "subject": listed(),
            "mediaType": OCI_INDEX,
        }
        added = Index.parse(json.dumps(theirs, indent=2).encode()).with_entry(OTHER)
        assert json.loads(added.raw) == theirs | {"manifests": [*theirs["manifests"], OTHER.to_json()]}  # type: ignore[misc]
        assert Index.parse(added.raw) == added

    def test_a_media_type_is_added_where_readers_need_one(self) -> None:
        assert json.loads(Index.parse(index(mediaType=NONE)).with_entry(OTHER).raw)["mediaType"] == OCI_INDEX

    def test_null_becomes_a_list(self) -> None:
        assert Index.parse(index(manifests=None)).with_entry(ENTRY).manifests == (ENTRY,)

    def test_what_is_listed_is_known_by_its_digest(self) -> None:
        assert Index.build((ENTRY,)).lists(ENTRY.digest)
        assert not Index.build((ENTRY,)).lists(OTHER.digest)

    def test_an_embedded_manifest_is_left_out_of_a_large_index(self) -> None:
        entry = replace(ENTRY, data=b"x" * 600_000)
        first = Index.build().with_entry(entry)
        assert first.manifests == (entry,)
        assert first.with_entry(replace(OTHER, data=entry.data)).manifests == (entry, OTHER)


class TestImages:
    """An image in a registry: one manifest, or an index of several platforms."""

    @pytest.mark.parametrize("kind", [OCI_INDEX, DOCKER_LIST])
    def test_an_index_is_read_with_what_has_to_be_there_before_it(self, kind: str) -> None:
        raw = json.dumps({"schemaVersion": 2, "mediaType": kind, "manifests": [ENTRY.to_json()]}).encode()
        found = parse_stored(raw)
        assert (found.raw, found.media_type, found.parts) == (raw, kind, (ENTRY,))

    def test_an_image_is_its_manifest(self) -> None:
        config, layer = Descriptor.of("text/plain", b"config"), Descriptor.of("text/plain", b"layer")
        manifest = Manifest.build(config, (layer,))
        assert parse_stored(manifest.raw) == manifest
        assert manifest.parts == (config, layer)

    @pytest.mark.parametrize("raw", [b"", b"[]", b'{"schemaVersion":2,"layers":[]}', b'{"manifests":[{}]}'])
    def test_anything_else_is_refused(self, raw: bytes) -> None:
        with pytest.raises(VerificationFailed):
            parse_stored(raw)
