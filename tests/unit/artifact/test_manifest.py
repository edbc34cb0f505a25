"""Manifests: the bytes that Flux would write, and nothing read that Flux would not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ci_automation.artifact.manifest import (
    CONFIG_BLOB,
    DOCKER_LIST,
    DOCKER_MANIFEST,
    FLUX_CONFIG,
    FLUX_LAYER,
    OCI_INDEX,
    OCI_MANIFEST,
    Descriptor,
    InvalidManifest,
    Manifest,
)
from ci_automation.artifact.reference import Digest

CONFIG = Descriptor.of(FLUX_CONFIG, CONFIG_BLOB)
LAYER = Descriptor.of(FLUX_LAYER, b"layer")
DIGEST = f"sha256:{'4' * 64}"
NONE: Any = object()
texts = st.text(st.characters(exclude_categories=["Cs"]))
annotated = st.dictionaries(texts, texts, max_size=4)


def described(**changes: Any) -> dict[str, Any]:
    return with_changes({"mediaType": FLUX_LAYER, "size": 5, "digest": DIGEST}, changes)


def manifest(**changes: Any) -> bytes:
    value = {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": described(), "layers": [described()]}
    return json.dumps(with_changes(value, changes)).encode()


def with_changes(value: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    return {key: part for key, part in (value | changes).items() if part is not NONE}


class TestConfig:
    def test_is_the_blob_of_flux_2_9(self) -> None:
        assert len(CONFIG_BLOB) == CONFIG.size == 115
        assert str(CONFIG.digest) == "sha256:5b943e2b943f6c81dbbd4e2eca5121f4fcc39139e3d1219d6d89bd925b77d9fe"


class TestBuild:
    def test_has_the_bytes_that_flux_writes(self) -> None:
        built = Manifest.build(CONFIG, (LAYER,), {"org.opencontainers.image.source": "x", "a": "b"})
        assert built.raw.decode() == (
            '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",'
            f'"config":{{"mediaType":"{FLUX_CONFIG}","size":115,"digest":"{CONFIG.digest}"}},'
            f'"layers":[{{"mediaType":"{FLUX_LAYER}","size":5,"digest":"{LAYER.digest}"}}],'
            '"annotations":{"a":"b","org.opencontainers.image.source":"x"}}'
        )

    def test_without_annotations_has_no_key_for_them(self) -> None:
        assert b"annotations" not in Manifest.build(CONFIG, (LAYER,)).raw

    def test_a_referrer_has_its_keys_in_gos_order(self) -> None:
        subject = Descriptor(OCI_MANIFEST, Digest("4" * 64), 7)
        built = Manifest.build(CONFIG, (LAYER,), {"a": "b"}, artifact_type="application/vnd.example", subject=subject)
        assert built.raw.decode() == (
            '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",'
            '"artifactType":"application/vnd.example",'
            f'"config":{{"mediaType":"{FLUX_CONFIG}","size":115,"digest":"{CONFIG.digest}"}},'
            f'"layers":[{{"mediaType":"{FLUX_LAYER}","size":5,"digest":"{LAYER.digest}"}}],'
            f'"subject":{{"mediaType":"{OCI_MANIFEST}","size":7,"digest":"{DIGEST}"}},'
            '"annotations":{"a":"b"}}'
        )
        assert Manifest.parse(built.raw) == built

    def test_no_kind_and_an_empty_one_are_the_same(self) -> None:
        assert Manifest.build(CONFIG, (LAYER,), artifact_type="") == Manifest.build(CONFIG, (LAYER,))

    def test_a_descriptors_kind_comes_after_its_annotations(self) -> None:
        layer = Descriptor(FLUX_LAYER, Digest("4" * 64), 5, {"a": "b"}, "application/vnd.example")
        assert b'"annotations":{"a":"b"},"artifactType":"application/vnd.example"}]' in (
            Manifest.build(CONFIG, (layer,)).raw
        )
        assert Descriptor.from_json(layer.to_json()) == layer

    def test_a_layers_annotations_come_last_and_sorted(self) -> None:
        layer = Descriptor.of(FLUX_LAYER, b"", {"b": "2", "a": "1"})
        assert b'","annotations":{"a":"1","b":"2"}}]}' in Manifest.build(CONFIG, (layer,)).raw

    @pytest.mark.parametrize(
        ("text", "written"),
        [
            pytest.param("<a href='b'>&", r"\u003ca href='b'\u003e\u0026", id="HTML's characters"),
            pytest.param("\u2028\u2029", r"\u2028\u2029", id="JavaScript's line ends"),
            pytest.param('\b\f\n\r\t"\\/', r"\b\f\n\r\t\"\\/", id="JSON's own"),
            pytest.param("\x00\x1f\x7f", "\\u0000\\u001f\x7f", id="control characters"),
            pytest.param("é日\U0001f600", "é日\U0001f600", id="all else is UTF-8"),
        ],
    )
    def test_escapes_what_go_escapes(self, text: str, written: str) -> None:
        assert f'"annotations":{{"a":"{written}"}}}}' in Manifest.build(CONFIG, (LAYER,), {"a": text}).raw.decode()

    @given(annotated, annotated)
    def test_reads_what_it_writes(self, own: dict[str, str], layers: dict[str, str]) -> None:
        built = Manifest.build(CONFIG, (LAYER, Descriptor.of(FLUX_LAYER, b"", layers)), own)
        assert Manifest.parse(built.raw) == built
        assert built.digest == Digest.of(built.raw)

    @given(annotated)
    def test_the_order_of_annotations_does_not_count(self, own: dict[str, str]) -> None:
        backwards = dict(reversed(own.items()))
        assert Manifest.build(CONFIG, (LAYER,), own).raw == Manifest.build(CONFIG, (LAYER,), backwards).raw


class TestParse:
    @pytest.mark.parametrize(
        "raw",
        [
            pytest.param(manifest(), id="OCI"),
            pytest.param(manifest(mediaType=DOCKER_MANIFEST), id="Docker"),
            pytest.param(manifest(mediaType=NONE), id="no media type, as OCI allows"),
            pytest.param(manifest(annotations=None), id="no annotations, as null"),
            pytest.param(manifest(layers=[described()] * 1000), id="1000 layers, as many signatures as cosign reads"),
            pytest.param(manifest(artifactType="a", subject=described()), id="keys of OCI 1.1"),
            pytest.param(manifest(layers=[described(annotations={"a": "b"}, urls=[])]), id="more about a layer"),
            pytest.param(
                manifest(annotations={"a": "", "A": "", "Layers": "", "SIZE": ""}), id="any key as annotation"
            ),
            pytest.param(manifest(a={"b": {"c": [{"d": {}}]}}), id="what nobody knows"),
            pytest.param(b" \n" + manifest() + b"\n ", id="space around it"),
        ],
    )
    def test_reads(self, raw: bytes) -> None:
        read = Manifest.parse(raw)
        assert read.raw == raw
        assert read.config == Descriptor(FLUX_LAYER, Digest("4" * 64), 5)
        assert read.layers[0].digest == Digest("4" * 64)

    @pytest.mark.parametrize(
        ("changes", "artifact_type", "subject"),
        [
            pytest.param({}, None, None, id="neither"),
            pytest.param({"artifactType": None, "subject": None}, None, None, id="null"),
            pytest.param({"artifactType": ""}, None, None, id="an empty kind, which Go takes for none"),
            pytest.param(
                {"artifactType": "a/b", "subject": described(artifactType="c/d")},
                "a/b",
                Descriptor(FLUX_LAYER, Digest("4" * 64), 5, {}, "c/d"),
                id="both",
            ),
        ],
    )
    def test_gives_kind_and_subject(
        self, changes: dict[str, Any], artifact_type: str | None, subject: Descriptor | None
    ) -> None:
        read = Manifest.parse(manifest(**changes))
        assert (read.artifact_type, read.subject) == (artifact_type, subject)

    def test_gives_the_annotations(self) -> None:
        assert Manifest.parse(manifest(annotations={"a": "b"})).annotations == {"a": "b"}

    @pytest.mark.parametrize(
        ("raw", "reason"),
        [
            pytest.param(b"", "it is not JSON$", id="nothing"),
            pytest.param(b"<!DOCTYPE html>", "it is not JSON$", id="a page"),
            pytest.param(b"[" * 100_000, "it is not JSON$", id="nested without end"),
            pytest.param(b"1" * 5000, "it is not JSON$", id="a number of 5000 digits"),
            pytest.param(b'{"a": NaN}', "it is not JSON$", id="not a number"),
            pytest.param(b'{"a": -Infinity}', "it is not JSON$", id="infinity"),
            pytest.param(b'{"a": "\xff"}', "it is not JSON$", id="not UTF-8"),
            pytest.param(manifest().decode().encode("utf-16"), "it is not JSON$", id="UTF-16"),
            pytest.param(b"\xef\xbb\xbf" + manifest(), "it is not JSON$", id="a byte order mark"),
            pytest.param(manifest(annotations={"a": "\ud800"}), "it is not JSON$", id="half a surrogate pair"),
            pytest.param(b"[]", "it is not a JSON object", id="a list"),
            pytest.param(manifest(mediaType=OCI_INDEX), "it is an index", id="an index"),
            pytest.param(manifest(mediaType=DOCKER_LIST), "it is an index", id="Docker's list"),
            pytest.param(manifest(manifests=[]), "it is an index", id="an index that says it is a manifest"),
            pytest.param(manifest(mediaType="text/html"), "not an OCI image manifest", id="another media type"),
            pytest.param(manifest(mediaType=[]), "not an OCI image manifest", id="a media type that is no text"),
            pytest.param(manifest(mediaType=None), "not an OCI image manifest", id="a media type that is null"),
            pytest.param(manifest(schemaVersion=1), "of schema version 2", id="schema version 1"),
            pytest.param(manifest(schemaVersion="2"), "of schema version 2", id="a text as schema version"),
            pytest.param(manifest(schemaVersion=2.0), "of schema version 2", id="a fraction as schema version"),
            pytest.param(manifest(schemaVersion=NONE), "of schema version 2", id="no schema version"),
            pytest.param(manifest(layers=[]), "it has no layers", id="an empty list of layers"),
            pytest.param(manifest(layers=NONE), "it has no layers", id="no layers"),
            pytest.param(manifest(layers=None), "it has no layers", id="null as layers"),
            pytest.param(manifest(layers={}), "not a list", id="layers that are no list"),
            pytest.param(manifest(layers=[described()] * 1001), "too many layers", id="1001 layers"),
            pytest.param(manifest(config=NONE), "a descriptor lacks", id="no config"),
            pytest.param(manifest(config=[]), "a descriptor lacks", id="a config that is no object"),
            pytest.param(manifest(layers=[None]), "a descriptor lacks", id="a layer that is null"),
            pytest.param(manifest(layers=[described(size=NONE)]), "a descriptor lacks", id="no size"),
            pytest.param(manifest(layers=[described(size=-1)]), "a descriptor lacks", id="a negative size"),
            pytest.param(manifest(layers=[described(size=1.0)]), "a descriptor lacks", id="a fraction as size"),
            pytest.param(manifest(layers=[described(size=True)]), "a descriptor lacks", id="a switch as size"),
            pytest.param(manifest(layers=[described(size=1 << 63)]), "a descriptor lacks", id="a size of 2^63"),
            pytest.param(manifest(layers=[described(mediaType=1)]), "a descriptor lacks", id="no media type"),
            pytest.param(manifest(layers=[described(digest=None)]), "a descriptor lacks", id="no digest"),
            pytest.param(manifest(layers=[described(digest="sha512:0")]), "not a sha256 digest", id="another digest"),
            pytest.param(manifest(annotations=[]), "an annotation is not a text", id="a list of annotations"),
            pytest.param(manifest(annotations={"a": 1}), "an annotation is not a text", id="a number as annotation"),
            pytest.param(manifest(artifactType=1), "an artifact type is not a text", id="a number as kind"),
            pytest.param(manifest(config=described(artifactType=[])), "an artifact type is not", id="a list as kind"),
            pytest.param(manifest(subject={}), "a descriptor lacks", id="a subject that is none"),
            pytest.param(manifest(subject=False), "a descriptor lacks", id="a switch as subject"),
            pytest.param(manifest(subject=described(digest="sha512:0")), "not a sha256 digest", id="its digest"),
            pytest.param(
                manifest(artifactType=None)[:-1] + b', "x": 1e999}', "it is not JSON", id="a number too large"
            ),
            pytest.param(manifest() + b" and more", "it is not JSON$", id="more after it, which Go does not look at"),
            pytest.param(manifest(Layers=[]), "'Layers' is 'layers' to Go", id="a key in another case"),
            pytest.param(manifest(layers=NONE, LAYERS=[described()]), "'LAYERS' is 'layers'", id="it alone"),
            pytest.param(
                manifest(x=[]).replace(b'"x"', '"layer\u017f"'.encode()),
                r"'layer\\u017f' is 'layers' to Go",
                id="a long s",
            ),
            pytest.param(
                manifest(x=1, kind=1).replace(b'"x"', '"\u212aind"'.encode()),
                "'kind' twice to Go",
                id="the sign of Kelvin",
            ),
            pytest.param(manifest(a=1, A=2), "'A' twice to Go", id="two keys that nobody knows"),
            pytest.param(manifest(config=described(MediaType="x")), "'MediaType' is 'mediaType'", id="of a descriptor"),
            pytest.param(manifest(a=[{"b": {"OS": 1}}]), "'OS' is 'os' to Go", id="deep inside"),
            pytest.param(manifest(Annotations={}), "'Annotations' is 'annotations' to Go", id="annotations"),
            pytest.param(manifest(subject=described(SUBJECT=1)), "'SUBJECT' is 'subject' to Go", id="of the subject"),
            pytest.param(manifest()[:-1] + b',"layers":[]}', "'layers' twice", id="a key twice"),
            pytest.param(manifest()[:-1] + b',"l\\u0061yers":[]}', "'layers' twice", id="a key twice, once escaped"),
            pytest.param(
                manifest(annotations=NONE)[:-1] + b',"annotations":{"a":"b","a":"c"}}', "'a' twice", id="there"
            ),
            pytest.param(manifest(annotations={"a": {"Size": 1}}), "'Size' is 'size' to Go", id="below an annotation"),
            pytest.param(manifest()[:-1] + b',"x":' + b"[" * 200 + b"]" * 200 + b"}", "too deep", id="deep"),
            pytest.param(
                manifest(layers=[described(annotations={"a": None})]), "an annotation is not a text", id="on a layer"
            ),
            pytest.param(manifest(layers=[described(data="no!")]), "data of a descriptor is not base64", id="data"),
            pytest.param(manifest(layers=[described(data=[5])]), "data of a descriptor is not base64", id="a list"),
        ],
    )
    def test_refuses(self, raw: bytes, reason: str) -> None:
        with pytest.raises(InvalidManifest, match=f"^the manifest is not a Flux artifact: .*{reason}") as error:
            Manifest.parse(raw)
        assert error.value.exit_code == 10

    @given(
        st.binary()
        | st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
            lambda inside: (
                st.lists(inside)
                | st.dictionaries(
                    st.sampled_from(
                        ["schemaVersion", "mediaType", "config", "layers", "subject", "annotations", "digest", "size"]
                    ),
                    inside,
                )
            ),
        ).map(lambda value: json.dumps(value).encode())
    )
    def test_nothing_worse_happens(self, raw: bytes) -> None:
        with pytest.raises(InvalidManifest):
            Manifest.parse(raw)


class TestReferral:
    SUBJECT = Descriptor(OCI_MANIFEST, Digest("4" * 64), 7)

    def test_lifts_kind_and_annotations_into_the_list(self) -> None:
        built = Manifest.build(CONFIG, (LAYER,), {"a": "b"}, artifact_type="a/b", subject=self.SUBJECT)
        assert built.referral == (
            Digest("4" * 64),
            Descriptor(OCI_MANIFEST, built.digest, len(built.raw), {"a": "b"}, "a/b"),
        )

    def test_the_configs_kind_is_that_of_a_manifest_without(self) -> None:
        assert Manifest.build(CONFIG, (LAYER,), subject=self.SUBJECT).referral[1].artifact_type == FLUX_CONFIG
        nothing = Descriptor("", CONFIG.digest, CONFIG.size)
        assert Manifest.build(nothing, (LAYER,), subject=self.SUBJECT).referral[1].artifact_type is None

    def test_there_is_none_without_a_subject(self) -> None:
        with pytest.raises(InvalidManifest, match="no subject"):
            _ = Manifest.build(CONFIG, (LAYER,)).referral


class TestEmbeddedContent:
    def test_is_read_as_it_was_written(self) -> None:
        layer = Descriptor.embedding("kind", b"content")
        (found,) = Manifest.parse(Manifest.build(CONFIG, (layer,)).raw).layers
        assert (found, found.content) == (layer, b"content")

    @pytest.mark.parametrize("data", [None, b"contenT", b"content "], ids=["none", "another digest", "another size"])
    def test_is_none_unless_digest_and_size_are_right(self, data: bytes | None) -> None:
        assert replace(Descriptor.of("kind", b"content"), data=data).content is None
