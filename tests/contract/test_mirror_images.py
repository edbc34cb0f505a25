"""Images of the controllers in another registry: the originals by digest, with what speaks for them, the tag last."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ci_automation.artifact.index import parse_stored
from ci_automation.artifact.manifest import OCI_INDEX, Descriptor, Manifest
from ci_automation.artifact.reference import Reference
from ci_automation.cli import run
from ci_automation.flows.mirror_images import AmbiguousImage, ImageTooLarge, OtherImage, mirror_images
from ci_automation.flows.ports import Ports
from ci_automation.flows.publication.copy import Copying, RefersElsewhere
from ci_automation.flux.sources.directory import DirectorySource
from ci_automation.flux.version import Version
from ci_automation.policy.model import SignatureFormat
from ci_automation.registry import open_registry
from ci_automation.registry.port import ContentMismatch, NotFound
from ci_automation.signing.signer import KeySigner
from ci_automation.signing.trust import TrustedKeys
from ci_automation.signing.verify import ensure_signed
from tests.contract.interference import Killed
from tests.fakes.registry import InMemoryRegistry
from tests.fakes.releases import FILES, SampleRelease, write_releases
from tests.fakes.world import signing_key

if TYPE_CHECKING:
    from pathlib import Path

    from ci_automation.artifact.index import Index
    from ci_automation.artifact.reference import Digest
    from ci_automation.flows.mirror_images import MirroredImage
    from tests.fakes.registry import Asked

UPSTREAM = Reference.parse("oci://ghcr.example/fluxcd")
EDGE = Reference.parse("oci://edge.example/mirror/fluxcd")
IMAGES = ("kustomize-controller:v1.9.1", "source-controller:v1.9.4")
DEPLOYMENT = "apiVersion: apps/v1\nkind: Deployment\nspec:\n  containers:\n      - image: fluxcd/{}\n"
BASE = b"a base of all images " * (60 << 10)  # more than goes through memory
LAYER, CONFIG = "application/vnd.oci.image.layer.v1.tar+gzip", "application/vnd.oci.image.config.v1+json"


def image(registry: InMemoryRegistry, at: Reference, *layers: bytes) -> Manifest:
    """Put an image by its digest."""
    config, *others = (b'{"os":"linux"}', *layers)
    descriptors = [Descriptor.of(LAYER, data) for data in others]
    for data in (config, *others):
        registry.put_blob(at, data)
    manifest = Manifest.build(Descriptor.of(CONFIG, config), tuple(descriptors))
    registry.put_manifest(at.at_digest(manifest.digest), manifest)
    return manifest


def index_of(*manifests: Manifest | Index, subject: Manifest | Index | None = None) -> Index:
    listed = [Descriptor.of(each.media_type, each.raw).to_json() for each in manifests]
    value = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": listed}
    if subject is not None:
        value["subject"] = Descriptor.of(subject.media_type, subject.raw).to_json()
    found = parse_stored(json.dumps(value).encode())
    assert not isinstance(found, Manifest)
    return found


def reference(place: Reference, name: str) -> Reference:
    return Reference.parse(f"{place.repository}/{name}")


@pytest.fixture
def upstream() -> InMemoryRegistry:
    """Return what upstream has of a release: indexes of two platforms, signed, with an attestation and a referrer."""
    registry = InMemoryRegistry()
    for name in IMAGES:
        at = reference(UPSTREAM, name)
        own = [f"{name} for {machine}".encode() for machine in ("amd64", "arm64")]
        index = index_of(*(image(registry, at, BASE, layer) for layer in own))
        registry.put_manifest(at, index)
        for kind in ("sig", "att"):
            registry.put_manifest(at.at_tag(f"sha256-{index.digest.hex}.{kind}"), image(registry, at, kind.encode()))
        registry.put_blob(at, b"{}")
        subject = Descriptor.of(OCI_INDEX, index.raw)
        empty = Descriptor.of("application/vnd.oci.empty.v1+json", b"{}")
        registry.put_referrer(at, Manifest.build(empty, (empty,), artifact_type="application/x-note", subject=subject))
    registry.requests.clear()
    return registry


@pytest.fixture
def releases(tmp_path: Path) -> Path:
    files = {f"{name.partition(':')[0]}.yaml": DEPLOYMENT.format(name) for name in IMAGES}
    return write_releases(tmp_path / "releases", [SampleRelease("v2.9.4", files={**FILES, **files})])


def mirrored(way: Copying, releases: Path, *versions: str, said: list[str] | None = None) -> tuple[MirroredImage, ...]:
    ports = Ports(way.target, DirectorySource(releases), say=(said if said is not None else []).append)
    return mirror_images(way, ports, [Version.parse(it) for it in versions])


def content(registry: InMemoryRegistry, place: Reference) -> dict[str, object]:
    """Return what is in each repository below an address."""
    return {
        name.removeprefix(f"{place.repository}/"): (held.manifests, held.blobs, held.tags)
        for name, held in registry.repositories.items()
        if name.startswith(f"{place.repository}/")
    }


def test_each_image_arrives_whole_under_its_digest_with_what_speaks_for_it(
    upstream: InMemoryRegistry, releases: Path
) -> None:
    edge = InMemoryRegistry()
    said: list[str] = []
    done = mirrored(Copying(upstream, UPSTREAM, edge, EDGE), releases, said=said)
    assert [(str(it.reference), it.new, it.vouched) for it in done] == [
        (f"{EDGE.repository}/{name}", True, None) for name in IMAGES
    ]
    assert content(edge, EDGE) == content(upstream, UPSTREAM)
    for name, it in zip(IMAGES, done, strict=True):
        at = reference(EDGE, name)
        about = [each for each in edge.requests if each.what.startswith(f"{at.repository}")]
        assert about[-1] == ("put_manifest", str(at))
        assert it.digest == edge.resolve(at)
    assert any(line == f"copying {IMAGES[0]}: a layer of 1 MiB" for line in said)


def test_a_layer_that_a_sibling_has_is_mounted_and_not_sent(upstream: InMemoryRegistry, releases: Path) -> None:
    edge = InMemoryRegistry()
    first, second = mirrored(Copying(upstream, UPSTREAM, edge, EDGE), releases)
    assert first.sent.bytes > len(BASE) > second.sent.bytes
    assert second.sent.mounted > 0
    assert [each.method for each in upstream.requests if each.what == str(Descriptor.of("", BASE).digest)] == ["blob"]


def test_a_second_run_writes_nothing_and_takes_a_signature_that_came_later(
    upstream: InMemoryRegistry, releases: Path
) -> None:
    edge = InMemoryRegistry()
    way = Copying(upstream, UPSTREAM, edge, EDGE)
    mirrored(way, releases)
    edge.requests.clear()
    assert not any(it.new or it.sent.bytes for it in mirrored(way, releases))
    assert not [each for each in edge.requests if each.method.startswith(("put", "mount"))]
    at = reference(UPSTREAM, IMAGES[0])
    digest = upstream.resolve(at)
    assert digest is not None
    upstream.put_manifest(at.at_tag(f"sha256-{digest.hex}.sig"), image(upstream, at, b"sig", b"another"))
    mirrored(way, releases)
    assert content(edge, EDGE).keys() == content(upstream, UPSTREAM).keys()
    assert len(edge.manifest(reference(EDGE, IMAGES[0]).at_tag(f"sha256-{digest.hex}.sig")).layers) == 2


def test_a_run_may_end_at_any_request(upstream: InMemoryRegistry, releases: Path) -> None:
    undisturbed = InMemoryRegistry()
    mirrored(Copying(upstream, UPSTREAM, undisturbed, EDGE), releases)
    for number in range(len(undisturbed.requests)):
        edge, left = InMemoryRegistry(), [number]

        def before(_: Asked, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == -1:
                raise Killed

        edge.before = before
        with contextlib.suppress(Killed):
            mirrored(Copying(upstream, UPSTREAM, edge, EDGE), releases)
        edge.before = lambda _: None
        for name in IMAGES:
            at = reference(EDGE, name)
            if edge.resolve(at) is not None:  # then it is whole
                repository = str(at.repository)
                whole = undisturbed.repositories[repository]
                held = edge.repositories[repository]
                assert (held.manifests, held.blobs, held.tags) == (whole.manifests, whole.blobs, whole.tags)
        mirrored(Copying(upstream, UPSTREAM, edge, EDGE), releases)
        assert content(edge, EDGE) == content(undisturbed, EDGE)


def test_another_image_under_the_tag_is_not_overwritten(upstream: InMemoryRegistry, releases: Path) -> None:
    edge = InMemoryRegistry()
    other = image(edge, at := reference(EDGE, IMAGES[0]), b"another")
    edge.put_manifest(at, other)
    with pytest.raises(OtherImage, match=f"{IMAGES[0]} is {other.digest} already, and not sha256:"):
        mirrored(Copying(upstream, UPSTREAM, edge, EDGE), releases)
    assert edge.resolve(at) == other.digest


def test_a_signature_says_nothing_of_the_tag_of_an_image(upstream: InMemoryRegistry, releases: Path) -> None:
    at, trusted = reference(UPSTREAM, IMAGES[0]), TrustedKeys((signing_key().public,))
    older = image(upstream, at, b"an older one")
    for name in IMAGES[1:]:
        home = reference(UPSTREAM, name)
        sign(upstream, home, upstream.resolve(home))
    sign(upstream, at, upstream.put_manifest(at, older))
    edge = InMemoryRegistry()
    ports = Ports(edge, DirectorySource(releases), trusted=trusted)
    first, *_ = mirror_images(Copying(upstream, UPSTREAM, edge, EDGE), ports)
    assert (first.digest, first.vouched) == (older.digest, str(signing_key().public.fingerprint))


def sign(registry: InMemoryRegistry, at: Reference, digest: Digest | None) -> None:
    """Sign an image with our key, in place of what was there."""
    assert digest
    registry.repositories[str(at.repository)].tags.pop(f"sha256-{digest.hex}.sig", None)
    ensure_signed(registry, at, digest, KeySigner(signing_key()), SignatureFormat.LEGACY)


def test_what_is_missing_or_damaged_at_the_source_gets_no_tag(upstream: InMemoryRegistry, releases: Path) -> None:
    edge = InMemoryRegistry()
    held = upstream.repositories[f"{UPSTREAM.repository}/source-controller"]
    digest = Descriptor.of("", b"source-controller:v1.9.4 for arm64").digest
    for damage in (b"as many other bytes, yes, as many!", None):
        held.blobs[digest] = damage or b""
        if damage is None:
            del held.blobs[digest]
        with pytest.raises((ContentMismatch, NotFound)):
            mirrored(Copying(upstream, UPSTREAM, edge, EDGE), releases)
        assert edge.resolve(reference(EDGE, IMAGES[1])) is None
    held.tags.clear()
    with pytest.raises(NotFound, match=IMAGES[1]):
        mirrored(Copying(upstream, UPSTREAM, edge, EDGE), releases)


@pytest.mark.parametrize("kind", ["many", "deep", "large", "many in many"])
def test_there_is_an_end_to_an_image(upstream: InMemoryRegistry, releases: Path, kind: str) -> None:
    at, edge = reference(UPSTREAM, IMAGES[0]), InMemoryRegistry()
    listed: Manifest | Index = image(upstream, at, b"one")
    if kind == "many in many":
        indexes = [index_of(*(image(upstream, at, b"%d.%d" % (one, two)) for two in range(8))) for one in range(8)]
        for each in (*indexes, listed := index_of(*indexes)):
            upstream.put_manifest(at.at_digest(each.digest), each)
        upstream.put_manifest(at, listed)
    if kind == "large":
        layer = replace(listed.parts[1], size=9 << 30)
        listed = Manifest.build(listed.parts[0], (layer,))
        upstream.put_manifest(at, listed)
    for _ in range({"deep": 3, "many": 1}.get(kind, 0)):
        listed = index_of(*([listed] * (1 if kind == "deep" else 65)))
        upstream.put_manifest(at, listed)
    with pytest.raises(ImageTooLarge):
        mirrored(Copying(upstream, UPSTREAM, edge, EDGE), releases)
    assert edge.resolve(reference(EDGE, IMAGES[0])) is None


class TestFolder:
    """One layout has the images of several repositories, by their whole names."""

    @pytest.fixture
    def folder(self, upstream: InMemoryRegistry, releases: Path, tmp_path: Path) -> Copying:
        at = Reference.parse(f"layout:{tmp_path / 'images'}")
        way = Copying(upstream, UPSTREAM, open_registry(at), at)
        mirrored(way, releases)
        return way

    def from_here(self, folder: Copying) -> Copying:
        return Copying(folder.target, folder.put, InMemoryRegistry(), EDGE)

    @pytest.mark.parametrize("versions", [(), ("v2.9.4",)], ids=["all that it has", "a version"])
    def test_what_went_through_it_is_what_upstream_has(
        self, upstream: InMemoryRegistry, folder: Copying, releases: Path, versions: tuple[str, ...]
    ) -> None:
        names = [tag for tag in folder.target.tags(folder.put) if "/" in tag]
        assert names == [f"ghcr.example/fluxcd/{name}" for name in IMAGES]
        way = self.from_here(folder)
        mirrored(way, releases, *versions)
        assert isinstance(way.target, InMemoryRegistry)
        assert content(way.target, EDGE) == content(upstream, UPSTREAM)

    def test_a_damaged_file_in_it_is_told_and_mended_by_another_run(self, folder: Copying, releases: Path) -> None:
        path = folder.target._blob_path(Descriptor.of("", BASE).digest)  # type: ignore[attr-defined]
        path.write_bytes(BASE[:-1] + b"?")
        with pytest.raises(ContentMismatch):
            mirrored(self.from_here(folder), releases)
        mirrored(folder, releases)
        assert path.read_bytes() == BASE
        assert len(mirrored(self.from_here(folder), releases)) == len(IMAGES)

    @pytest.mark.parametrize("versions", [(), ("v2.9.4",)], ids=["all that it has", "a version"])
    @pytest.mark.parametrize("host", ["aaa.example/x", "zzz.example/x"])
    def test_another_image_of_the_same_name_in_it_is_not_taken_for_it(
        self, folder: Copying, releases: Path, host: str, versions: tuple[str, ...]
    ) -> None:
        planted = folder.put.at_tag(f"{host}/{IMAGES[0]}")
        folder.target.put_manifest(planted, image(folder.target, planted, b"planted"))  # type: ignore[arg-type]
        way = self.from_here(folder)
        with pytest.raises(AmbiguousImage, match="have the same name"):
            mirrored(way, releases, *versions)
        assert isinstance(way.target, InMemoryRegistry)
        assert content(way.target, EDGE) == {}

    def test_a_copy_of_it_has_the_same_names(self, folder: Copying, releases: Path, tmp_path: Path) -> None:
        at = Reference.parse(f"layout:{tmp_path / 'copy'}")
        mirrored(way := Copying(folder.target, folder.put, open_registry(at), at), releases)
        assert way.target.tags(at) == folder.target.tags(folder.put)

    def test_one_without_images_or_without_the_wanted_one_is_told(
        self, folder: Copying, releases: Path, tmp_path: Path
    ) -> None:
        at = Reference.parse(f"layout:{tmp_path / 'empty'}")
        with pytest.raises(NotFound, match="an image with its whole name"):
            mirrored(Copying(open_registry(at), at, InMemoryRegistry(), EDGE), releases)
        files = {"source-controller.yaml": DEPLOYMENT.format("source-controller:v9.9.9")}
        write_releases(releases, [SampleRelease("v2.9.5", files={**FILES, **files})])
        with pytest.raises(NotFound, match=r"source-controller:v9\.9\.9"):
            mirrored(self.from_here(folder), releases, "v2.9.5")

    def test_the_command_says_what_it_copied_and_that_it_verified_nothing(
        self, folder: Copying, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        again = ["mirror", "--images", f"layout:{tmp_path / 'copy'}", "--from-images", str(folder.put.repository)]
        assert run(again) == 0
        head, *rows, below = capsys.readouterr().out.splitlines()
        assert head.split() == ["image", "digest", "signature", "copied"]
        assert [row.split()[0].rpartition("/")[2] for row in rows] == list(IMAGES)
        assert all("not verified" in row and " new, " in row for row in rows)
        assert below.startswith("Signatures were copied as they are, and NOT verified: no option says who signs.")
        assert run([*again, "--output", "json"]) == 0
        told = json.loads(capsys.readouterr().out)["images"]
        assert [(it["new"], it["sentBytes"], it["signedBy"]) for it in told] == [(False, 0, None)] * 2
        assert run([*again, "--identity", "https://a.example/b", "--issuer", "https://a.example"]) == 10


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["a", "b"], "fills one directory, not 2", id="two directories"),
        pytest.param(["a", "--from-images", "layout:b"], "--from-images needs --images", id="from without to"),
        pytest.param(["a", "--public-key", "k.pub"], "need --images", id="signers of releases"),
        pytest.param(["--images", "layout:a", "--push", "oci://a.example/b"], "exclude", id="two targets"),
        pytest.param(["--images", "layout:a", "--with-programs"], "exclude", id="programs"),
        pytest.param(["--images", "oci://a.example/b:c", "v2.9.4"], "name the repository alone", id="a tag"),
    ],
)
def test_what_does_not_go_together_is_told(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mirror", *arguments]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("whole", [True, False], ids=["the image", "one of its platforms"])
def test_an_image_that_is_attached_to_something_else_is_not_copied(
    upstream: InMemoryRegistry, releases: Path, *, whole: bool
) -> None:
    name = IMAGES[0]
    at, put = reference(UPSTREAM, name), reference(EDGE, name)
    honest = upstream.stored(at)
    part = image(upstream, at, b"a layer")
    if not whole:
        subject = Descriptor.of(honest.media_type, honest.raw)
        part = Manifest.build(part.config, part.layers, subject=subject)
        upstream.put_manifest(at.at_digest(part.digest), part)
    upstream.put_manifest(at, index_of(part, subject=honest if whole else None))
    there = InMemoryRegistry()
    with pytest.raises(RefersElsewhere, match=f"is attached to {honest.digest}"):
        mirrored(Copying(upstream, UPSTREAM, there, EDGE), releases, "v2.9.4")
    assert there.referrers(put, honest.digest) == ()
