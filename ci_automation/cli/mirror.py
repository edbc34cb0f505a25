"""The command `mirror`."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from ci_automation.artifact.reference import Reference
from ci_automation.cli.arguments import Arguments, ContradictingOptions, configuration
from ci_automation.cli.output import print_json, print_line, print_table, print_text, progress
from ci_automation.cli.parameters import COMMON, IDENTITIES, HeadedCommand, first_example, known_versions, takes
from ci_automation.cli.places import registry, release_source, upstream
from ci_automation.flows.mirror import Mirrored, artifacts_in, mirror, push
from ci_automation.flows.ports import Ports
from ci_automation.flux.sources.directory import DirectorySource
from ci_automation.flux.version import Version
from ci_automation.registry import open_registry
from ci_automation.registry.releases import rendered_beside
from ci_automation.report.blocks import Table
from ci_automation.signing.upstream import WORKFLOW

if TYPE_CHECKING:
    from ci_automation.flows.mirror_images import MirroredImage
    from ci_automation.registry.port import Registry

_IMAGES = "oci://ghcr.io/fluxcd"
_SIGNERS = ("public-key", *IDENTITIES)
_UNVERIFIED = (
    "Signatures were copied as they are, and NOT verified: no option says who signs. Flux's own images: "
    r"--identity-regexp '^https://github\.com/fluxcd/.*$' --issuer https://token.actions.githubusercontent.com"
)


@click.command("mirror", cls=HeadedCommand)
@click.argument("places", metavar="DIR | --images TO VERSION...", nargs=-1)
@click.option(
    "--flux-version",
    metavar="VERSION",
    shell_complete=known_versions,
    multiple=True,
    help="a release to take; may be repeated",
)
@click.option("--with-programs", is_flag=True, help="take the flux CLI for Linux too, which renders what we cannot")
@click.option("--push", "target", metavar="oci://...", help="take nothing; push what DIR has to this repository")
@click.option("--images", metavar="TO", help="copy the controllers' images to oci://HOST/PATH or layout:DIR")
@click.option("--from-images", metavar="FROM", help=f"where --images takes them from; default: {_IMAGES}")
@takes("releases", "registry-config", *_SIGNERS, *COMMON)
def mirror_command(
    places: tuple[str, ...],
    flux_version: tuple[str, ...],
    target: str | None,
    images: str | None,
    from_images: str | None,
    *,
    with_programs: bool,
    given: Arguments,
) -> None:
    """Fill a directory with verified releases, for sites without GitHub, or copy the controllers' images.

    DIR gets each release's files, Flux's signatures on them with their entries of the transparency log, and, as an OCI
    image layout, what Flux itself rendered. Without --flux-version it takes what is newer than all that DIR has; or,
    where DIR has none, the newest patch of each of the last three minors. The security advisories come along each time.

    With --push, the releases of DIR go to a registry, verified before and after; GitHub is not asked. A run reads them
    there with --releases oci://..., or `source: oci://...` in the configuration. --push refuses what DIR may have: a
    release that Flux did not sign, unless the configuration has `upstream: {verify: if-available}`.

    With --images, the images of all controllers of these versions go to TO, by digest, all platforms, with signatures
    and attestations; the tag comes last. What TO has is not sent again, so a run that was cut off is repeated. Nothing
    unsigned is copied if --identity-regexp and --issuer (or --public-key) say who signs; otherwise nothing is verified.
    A layout: keeps the whole names, and gives all that it has if no version is named.

    \b
    flux-manifests mirror ./releases
    flux-manifests update oci://registry.edge.example/flux:stable --releases ./releases
    flux-manifests mirror ./releases --push oci://registry.edge.example/flux/releases
    flux-manifests mirror --images layout:images v2.9.4
    flux-manifests mirror --images oci://registry.edge.example/fluxcd --from-images layout:images
    """
    if wrong := _contradiction(places, target, images, from_images, given, with_programs=with_programs):
        raise ContradictingOptions(*wrong)
    if images is None and not places:
        raise click.MissingParameter(ctx=click.get_current_context(), param_hint="'DIR'", param_type="argument")
    if images is not None:
        _copy_images(Reference.parse_repository(images), from_images or _IMAGES, (*places, *flux_version), given)
    elif target is not None:
        _push(Path(places[0]), Reference.parse_repository(target), given)
    else:
        _fill(places[0], flux_version, given, with_programs=with_programs)


def _contradiction(
    places: tuple[str, ...],
    target: str | None,
    images: str | None,
    from_images: str | None,
    given: Arguments,
    *,
    with_programs: bool,
) -> tuple[str, str] | None:
    """Return what does not go together, and what to do."""
    if images is not None:
        other = "--push" if target is not None else "--with-programs" if with_programs else ""
        return (f"--images and {other} exclude each other", "Run `mirror` twice.") if other else None
    if from_images is not None:
        return "--from-images needs --images", "Add --images with the place that the images go to."
    if any(getattr(given, name.replace("-", "_")) for name in _SIGNERS):
        return f"{', '.join(f'--{name}' for name in _SIGNERS)} need --images: releases are signed by Flux's own run", (
            "Leave them out: `mirror` verifies each release."
        )
    if not places[1:]:
        return None
    hint = f"For example: `{first_example(mirror_command)}`. For images: --images."
    return f"`mirror` fills one directory, not {len(places)}", hint


def _fill(folder: str, wanted: tuple[str, ...], given: Arguments, *, with_programs: bool) -> None:
    """Fill a directory, and say with what."""
    ports = _ports(open_registry(artifacts_in(Path(folder))), given)
    done = mirror(Path(folder), ports, [*map(Version.parse, wanted)], with_programs=with_programs)
    if given.output == "json":
        print_json({"folder": folder, "releases": [_json(each) for each in done]}, "mirror")
    elif done:
        print_table(_table(done))
        if unsigned := [str(each.version) for each in done if not each.vouched]:
            print_line(f"NOT signed: {', '.join(unsigned)}. `upstream: {{verify: required}}` refuses such releases.")
        print_line(f"Signed is what the release's own run of {WORKFLOW} has signed, as the transparency log tells.")
    else:
        print_line(f"Nothing to do: {folder} has all that is newest.")


def _ports(port: Registry, given: Arguments) -> Ports:
    """Return the ports of a flow that reads releases and writes to a registry."""
    config = configuration(given)
    return Ports(
        registry=port,
        releases=release_source(given, config),
        find_upstream=cache(partial(upstream, given, config)),
        say=progress(verbose=given.verbose, text=given.output == "text"),
    )


def _copy_images(put: Reference, place: str, wanted: tuple[str, ...], given: Arguments) -> None:
    """Copy the images of the controllers, and say what it took and what was verified."""
    from ci_automation.cli.trust import trusted
    from ci_automation.flows.mirror_images import mirror_images
    from ci_automation.flows.publication.copy import Copying

    taken = Reference.parse_repository(place)
    way = Copying(registry(taken, None, given), taken, registry(put, None, given, writes=True), put)
    ports = replace(_ports(way.target, given), trusted=trusted(None, given, None))
    done = mirror_images(way, ports, [*map(Version.parse, wanted)])
    if given.output == "json":
        print_json({"to": str(put.repository), "images": [_image_json(each) for each in done]}, "mirror-images")
        return
    rows = [(str(it.reference), str(it.digest), "verified" if it.vouched else "not verified", _took(it)) for it in done]
    print_table(Table(("image", "digest", "signature", "copied"), tuple(rows)))
    if ports.trusted is None:
        print_text(_UNVERIFIED)


def _took(image: MirroredImage) -> str:
    sent = image.sent.bytes / (1 << 20)
    return f"{'new' if image.new else 'there already'}, {sent:.1f} MiB sent"


def _push(folder: Path, target: Reference, given: Arguments) -> None:
    """Push the releases of a folder; a registry's must be signed by Flux, unless the configuration says otherwise."""
    artifacts = artifacts_in(folder)
    there = upstream(replace(given, releases=str(target.repository)), configuration(given))
    proof = replace(there, manifests=artifacts.at_tag("latest"), find_registry=partial(open_registry, artifacts))
    ports = Ports(
        registry(target, None, given, writes=True),
        DirectorySource(folder),
        find_upstream=lambda: proof,
        say=progress(verbose=given.verbose, text=given.output == "text"),
    )
    done = push(target, registry(rendered_beside(target), None, given, writes=True), ports)
    if given.output == "json":
        releases = [
            {"version": str(it.release.version), "signedBy": it.vouched, "written": written} for it, written in done
        ]
        print_json({"repository": str(target.repository), "releases": releases}, "mirror-push")
        return
    rows = [(str(it.release.version), _signed(it.vouched), "pushed" if new else "there already") for it, new in done]
    print_table(Table(("release", "files", str(target.repository)), tuple(rows)))


def _table(done: tuple[Mirrored, ...]) -> Table:
    rows = tuple(
        (
            str(each.version),
            _signed(each.vouched),
            f"{each.artifact.digest}, {_signed(each.artifact.vouched)}" if each.artifact else "none",
            ", ".join(name.replace("_", "/") for name in each.programs) or "none",
        )
        for each in done
    )
    return Table(("release", "files", "rendered by Flux", "programs"), rows)


def _signed(vouched: str | None) -> str:
    return "signed" if vouched else "not signed"


def _image_json(each: MirroredImage) -> dict[str, Any]:
    return {
        "image": str(each.reference),
        "digest": str(each.digest),
        "new": each.new,
        "signedBy": each.vouched,
        "sentBytes": each.sent.bytes,
        "mountedBlobs": each.sent.mounted,
        "presentBlobs": each.sent.present,
    }


def _json(each: Mirrored) -> dict[str, Any]:
    return {
        "version": str(each.version),
        "signedBy": each.vouched,
        "artifact": str(each.artifact.digest) if each.artifact else None,
        "artifactSignedBy": each.artifact.vouched if each.artifact else None,
        "programs": list(each.programs),
    }
