"""What others made is signed only if a person can be shown all that clusters could find in it."""

from __future__ import annotations

import gzip
import re
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ci_automation.artifact.archive import HiddenContent
from ci_automation.artifact.manifest import CONFIG_BLOB, FLUX_CONFIG, FLUX_LAYER, Descriptor, Manifest
from ci_automation.artifact.tree import COMPONENTS_PATH, Tree, TreeFile
from ci_automation.flows.init import init
from ci_automation.flows.planning.promotion import Promotion, consider
from ci_automation.flows.rollback import Wish, propose_rollback, roll_back
from ci_automation.flows.update import update
from ci_automation.flux.artifact import Recipe, compose, immutable_tag
from ci_automation.flux.options import Options, UnknownFlag
from ci_automation.flux.render import render
from ci_automation.records.ledger import Ledger
from ci_automation.records.writer import RecordWriter
from ci_automation.signing.trust import TrustedKeys
from ci_automation.signing.verify import ensure_signed
from tests.contract.planting import made, plant
from tests.fakes import archives
from tests.fakes.world import CHANNEL, NOW, OLD, OVERLAY, PATCH, MemoryReleases, World, intent, signing_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_automation.artifact.reference import Digest
    from ci_automation.report.adoption import Adoption

    Hide = Callable[[World, bytes], Manifest]

OURS = TrustedKeys((signing_key().public,))


@pytest.fixture
def world() -> World:
    """Return a channel that went from the oldest release to its patch, with a record of each."""
    made = World()
    init(CHANNEL, OLD, made.ports(), intent(overlay=OVERLAY))
    assert update(CHANNEL, made.ports(), intent(now=NOW + timedelta(hours=1))).done == 1
    return made


def layer(*names: str) -> bytes:
    """Return the layer of an artifact that anybody could make, with files that the channel does not have."""
    release = MemoryReleases().fetch(PATCH)
    text = render(release.bundle, PATCH, Options())
    overlay = Tree((*OVERLAY.files, *(TreeFile(name, b"a: 1\n") for name in names or ("new.yaml",))))
    return compose(
        Recipe(PATCH, release.commit, release.bundle.digest, Options(), text, overlay, COMPONENTS_PATH)
    ).recipe.layer


def layers(*types: str) -> Hide:
    """Return what makes an artifact with layers of these types, of which the first has the files."""

    def hide(world: World, first: bytes) -> Manifest:
        blobs = (first, b"another")[: len(types)]
        for blob in (*blobs, CONFIG_BLOB):
            world.registry.put_blob(CHANNEL, blob)
        described = tuple(Descriptor.of(kind, blob) for kind, blob in zip(types, blobs, strict=True))
        return Manifest.build(Descriptor.of(FLUX_CONFIG, CONFIG_BLOB), described)

    return hide


def stating(what: str, said: str) -> Hide:
    """Return what makes an artifact with one of our own annotations."""

    def hide(world: World, first: bytes) -> Manifest:
        plain = layers(FLUX_LAYER)(world, first)
        return Manifest.build(plain.config, plain.layers, {f"io.github.flux-manifests.{what}": said})

    return hide


def entries(*more: bytes) -> Hide:
    """Return what makes an artifact with these entries behind the files."""

    def hide(world: World, first: bytes) -> Manifest:
        files = gzip.decompress(first).removesuffix(archives.END)
        return layers(FLUX_LAYER)(world, archives.packed(files, *more))

    return hide


def members(world: World, first: bytes) -> Manifest:
    """Make an artifact of two gzip members."""
    content = gzip.decompress(first)
    return layers(FLUX_LAYER)(world, gzip.compress(content[:512]) + gzip.compress(content[512:]))


def file(path: str, mode: bytes = b"0000644\0") -> Hide:
    """Return what makes an artifact with one more file."""
    return entries(archives.entry(path.encode(), b"a", mode=mode))


CHART, IMAGE = "application/vnd.cncf.helm.chart.content.v1.tar+gzip", "application/vnd.oci.image.layer.v1.tar+gzip"
HIDDEN: dict[str, tuple[Hide, str]] = {
    "a second layer": (layers(FLUX_LAYER, FLUX_LAYER), "it has 2 layers, and clusters can select any of them"),
    "a second layer of another type": (layers(FLUX_LAYER, CHART), "it has 2 layers"),
    "a chart": (layers(CHART), f"its layer is of the type '{CHART}'"),
    "an image": (layers(IMAGE), f"its layer is of the type '{IMAGE}'"),
    "several gzip members": (members, "it is made of 2 gzip members"),
    "a global pax header": (entries(archives.entry(b"stray.yaml", b"", b"g")), "'stray.yaml' is a global pax header"),
    "a symbolic link": (entries(archives.link("l", "/etc/passwd")), "'l' is a symbolic link"),
    "a duplicate": (file("new.yaml"), "'new.yaml' is in it twice"),
    "a file that nobody may read": (file("z", b"0000000\0"), "'z' has the mode 0000"),
    "a file that ignores others": (file("hooks/.sourceignore"), "with 'hooks/.sourceignore', clusters leave out"),
    "another case": (file("New.yaml"), "'New.yaml' and 'new.yaml' are two files whose names look alike"),
    "a wide letter": (file("\uff4eew.yaml"), "are two files whose names look alike"),
    "another version": (stating("version", "v0.0.0"), "its annotations state another version or other files"),
    "other files": (stating("overlay-digest", str(OVERLAY.digest())), "its annotations state another version or other"),
    "an unseen letter": (file("new\u200b.yaml"), r"the name 'new\u200b.yaml' has invisible characters"),
}


def everything(world: World) -> frozenset[str]:
    """Return all manifests of the repository: artifacts, signatures, records."""
    return frozenset(map(str, world.registry.repositories[str(CHANNEL.repository)].manifests))


def never(adoption: Adoption) -> bool:
    """Answer that nobody should have been asked."""
    raise AssertionError(adoption)


@pytest.mark.parametrize(("hide", "words"), HIDDEN.values(), ids=HIDDEN)
def test_what_hides_something_is_not_adopted(world: World, hide: Hide, words: str) -> None:
    world.registry.put_manifest(CHANNEL, hide(world, layer()))
    before = everything(world)
    with pytest.raises(HiddenContent, match=re.escape(words)):
        update(CHANNEL, replace(world.ports(), confirm=never), intent(adopt=True))
    assert everything(world) == before


def test_a_flag_in_an_annotation_is_rendered_before_anybody_is_asked(world: World) -> None:
    """Later steps take it along: whoever adopts has to see it and what it does, and no page of theirs shows it."""
    composed = made(PATCH)
    planted = compose(replace(composed.recipe, options=Options(others=(("patches", "https://evil.example"),))))
    plant(world, planted)
    before = everything(world)
    with pytest.raises(UnknownFlag, match="has no flag --patches"):
        update(CHANNEL, replace(world.ports(), confirm=never), intent(adopt=True))
    assert everything(world) == before


@pytest.mark.parametrize("names", [[f"{n:05}" for n in range(7000)], [f"{n}/{chr(97) * 90}" for n in range(2500)]])
def test_more_files_than_a_page_lists_are_not_adopted(world: World, names: list[str]) -> None:
    world.registry.put_manifest(CHANNEL, layers(FLUX_LAYER)(world, layer(*names)))
    with pytest.raises(HiddenContent, match="is longer than a page"):
        update(CHANNEL, replace(world.ports(), confirm=never), intent(adopt=True))


def test_what_hides_nothing_is_adopted(world: World) -> None:
    manifest = layers(FLUX_LAYER)(world, layer())
    world.registry.put_manifest(CHANNEL, manifest)
    assert update(CHANNEL, world.ports(), intent(adopt=True)).trust == "adopted"


@pytest.fixture
def recorded(world: World) -> Digest:
    """Return a digest with two layers that the channel has by a signed record, and that lost its signature."""
    manifest = layers(FLUX_LAYER, FLUX_LAYER)(world, layer())
    present = world.registry.resolve(CHANNEL)
    assert present is not None
    (last,) = Ledger(world.registry, CHANNEL, OURS).all_records(present)
    signer = world.ports().signer
    assert signer is not None
    world.registry.put_manifest(CHANNEL, manifest)
    world.registry.put_manifest(CHANNEL.at_tag(immutable_tag(PATCH, manifest.digest)), manifest)
    made = replace(last, digest=manifest.digest, previous=present, at=last.at + timedelta(hours=1))
    RecordWriter(world.registry, CHANNEL, signer).write(manifest, made)
    return manifest.digest


@pytest.mark.usefixtures("recorded")
def test_it_is_not_signed_again_either(world: World) -> None:
    before = everything(world)
    with pytest.raises(HiddenContent, match="2 layers"):
        update(CHANNEL, world.ports(), intent())
    assert everything(world) == before


def test_nor_at_a_rollback(world: World, recorded: Digest) -> None:
    last = next(
        tag for tag in world.registry.tags(CHANNEL) if tag.startswith(f"{PATCH}-") and recorded.short not in tag
    )
    world.registry.put_manifest(CHANNEL, world.registry.manifest(CHANNEL.at_tag(last)))
    proposal = propose_rollback(CHANNEL, Wish(to=str(recorded)), world.ports(), intent())
    assert proposal.shown.signs
    before = everything(world)
    with pytest.raises(HiddenContent, match="2 layers"):
        roll_back(proposal, world.ports(), intent())
    assert everything(world) == before


def test_of_several_layers_none_is_promoted_even_if_the_digest_is_signed(world: World, recorded: Digest) -> None:
    signer = world.ports().signer
    assert signer is not None
    ensure_signed(world.registry, CHANNEL, recorded, signer, intent().signature_format)
    promotion = Promotion(CHANNEL, world.ports(), CHANNEL.at_tag("next"), world.ports(), intent())
    with pytest.raises(HiddenContent, match="2 layers"):
        consider(promotion)
