"""Artifact of Flux manifests: composed from a release, options and an overlay, always with the same digest."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from msgspec import MsgspecError, Struct
from msgspec.json import decode

from ci_automation.artifact.archive import write_archive
from ci_automation.artifact.manifest import CONFIG_BLOB, FLUX_CONFIG, FLUX_LAYER, Descriptor, InvalidManifest, Manifest
from ci_automation.artifact.reference import Digest
from ci_automation.flux.options import KNOWN_FLAGS, Options
from ci_automation.flux.version import InvalidVersion, Version

if TYPE_CHECKING:
    from ci_automation.artifact.tree import Tree

SOURCE = "https://github.com/fluxcd/flux2"
_OURS = "io.github.flux-manifests."
_VERSION = f"{_OURS}version"
_OPTIONS = f"{_OURS}options-digest"
_OTHERS = f"{_OURS}other-flags"
PUSHED = Version.parse("v0.0.0")  # the version of a team's own manifests, which are no release of Flux
_OVERLAY = f"{_OURS}overlay-digest"
_REVISION = "org.opencontainers.image.revision"
_MAX_SHOWN = 100
_IMMUTABLE = re.compile(r"(?P<version>v[0-9].*)-[0-9a-f]{12}")


def called(version: Version) -> str:
    """Return what an artifact with a version has, for people."""
    return "pushed manifests" if version == PUSHED else f"Flux {version}"


class Recipe(Struct, frozen=True):
    """Everything that an artifact's digest depends on.

    `components` is the text of the file at `path`, `overlay` is every other file, `release` the digest of its bundle.
    """

    version: Version
    commit: str
    release: Digest
    options: Options
    components: str
    overlay: Tree
    path: str

    @property
    def files(self) -> Tree:
        """Return the files of the artifact."""
        return self.overlay.replaced(self.path, self.components.encode()) if self.path else self.overlay

    @property
    def layer(self) -> bytes:
        """Return the artifact's one layer, made anew each time: a plan makes several, and publishes few of them."""
        return write_archive(self.files)


class Composed(Struct, frozen=True):
    """A complete artifact: its manifest, and the recipe of its one layer."""

    manifest: Manifest
    recipe: Recipe

    @property
    def digest(self) -> Digest:
        """Return the artifact's digest in every registry."""
        return self.manifest.digest


def compose(recipe: Recipe) -> Composed:
    """Return the artifact of `recipe` (design section 5.1): same inputs, same digest, on any machine."""
    annotations = {
        f"{_OURS}components-digest": str(Digest.of(recipe.components.encode())),
        _OPTIONS: str(recipe.options.digest),
        f"{_OURS}release-digest": str(recipe.release),
    }
    if recipe.options.others:  # no components file shows them to a program that does not know them
        annotations[_OTHERS] = json.dumps(dict(recipe.options.others), separators=(",", ":"), ensure_ascii=False)
    return _composed(recipe, SOURCE, f"{recipe.version}@sha1:{recipe.commit}", annotations)


def compose_pushed(files: Tree, source: str, revision: str) -> Composed:
    """Return the artifact of a team's own manifests, from a revision of their source: same inputs, same digest."""
    return _composed(Recipe(PUSHED, revision, files.digest(), Options(), "", files, ""), source, revision, {})


def _composed(recipe: Recipe, source: str, revision: str, more: dict[str, str]) -> Composed:
    annotations = {
        # Flux's own --reproducible writes the epoch; a time of the run would give each run another digest.
        "org.opencontainers.image.created": "1970-01-01T00:00:00Z",
        "org.opencontainers.image.source": source,
        _REVISION: revision,
        _VERSION: str(recipe.version),
        _OVERLAY: str(recipe.overlay.without(recipe.path).digest()),
    } | more
    layers = (Descriptor.of(FLUX_LAYER, recipe.layer),)
    return Composed(Manifest.build(Descriptor.of(FLUX_CONFIG, CONFIG_BLOB), layers, annotations), recipe)


def stated_version(manifest: Manifest) -> Version | None:
    """Return the version in this program's annotation, or None if another program made the artifact.

    Raises:
        InvalidManifest: the annotation is not a version.
    """
    text = manifest.annotations.get(_VERSION)
    try:
        return Version.parse(text) if text is not None else None
    except InvalidVersion as error:
        raise InvalidManifest(str(error)) from None


def stated_options_digest(manifest: Manifest) -> str | None:
    """Return the digest of the options in this program's annotation, or None if another program made the artifact."""
    return manifest.annotations.get(_OPTIONS)


def stated_flags(manifest: Manifest) -> dict[str, str]:
    """Return the flags in this program's annotation that the program which made the artifact did not know.

    Raises:
        InvalidManifest: the annotation is not an object of texts.
    """
    try:
        return decode(manifest.annotations.get(_OTHERS, "{}"), type=dict[str, str])
    except MsgspecError:
        raise InvalidManifest(f"its annotation {_OTHERS} is not an object of texts") from None


def with_stated_flags(options: Options, manifest: Manifest) -> Options:
    """Return options with the flags of `stated_flags`, as far as this program does not know them by now either.

    Raises:
        InvalidManifest, InvalidOption: they are not as this program writes them.
    """
    return options.with_flags({flag: it for flag, it in stated_flags(manifest).items() if flag not in KNOWN_FLAGS})


def stated_origin(manifest: Manifest) -> str:
    """Return what an artifact's version does not say of its making: a revision of pushed manifests, or unknown flags.

    Raises:
        InvalidManifest: an annotation of this program is not as this program writes it.
    """
    if stated_version(manifest) == PUSHED:
        return f"from {manifest.annotations.get(_REVISION, 'an unknown revision')[:_MAX_SHOWN]}"
    flags = ", ".join(f"--{flag}" for flag in sorted(stated_flags(manifest)))
    return f"rendered by its own flux CLI with {flags[:_MAX_SHOWN]}" if flags else ""


def stated_overlay_digest(manifest: Manifest) -> str | None:
    """Return the digest of the overlay in this program's annotation, or None if another program made the artifact."""
    return manifest.annotations.get(_OVERLAY)


def immutable_tag(version: Version, digest: Digest) -> str:
    """Return the tag that always names this digest, such as `v2.9.4-1a2b3c4d5e6f`; tags cannot contain `+`."""
    return f"{str(version).replace('+', '_')}-{digest.short}"


def immutable_version(tag: str) -> Version | None:
    """Return the version in an immutable tag, or None for another tag."""
    if (match := _IMMUTABLE.fullmatch(tag)) is None:
        return None
    try:
        return Version.parse(match["version"].replace("_", "+"))
    except InvalidVersion:
        return None


def version_tag(version: Version) -> str:
    """Return the tag that names the newest publication of a version, such as `v2.9.4`, for `spec.ref.semver`."""
    return str(version).replace("+", "_")


def tagged_version(tag: str) -> Version | None:
    """Return the version in a tag that `spec.ref.semver` takes for a version, or None for an immutable or other tag."""
    if immutable_version(tag) is not None:
        return None
    try:
        return Version.parse(tag.replace("_", "+"))
    except InvalidVersion:
        return None
