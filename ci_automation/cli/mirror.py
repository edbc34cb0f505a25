"""The command `mirror`."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from ci_automation.artifact.reference import Reference
from ci_automation.cli.arguments import Arguments, configuration
from ci_automation.cli.output import print_json, print_table, print_text, progress
from ci_automation.cli.parameters import COMMON, takes
from ci_automation.cli.places import registry, release_source, upstream
from ci_automation.flows.mirror import MirrorFolder, mirror, push
from ci_automation.flows.ports import Ports
from ci_automation.flux.sources.directory import DirectorySource
from ci_automation.flux.version import Version
from ci_automation.registry import open_registry
from ci_automation.registry.releases import rendered_beside
from ci_automation.report.text import Table, plain_text
from ci_automation.signing.upstream import WORKFLOW

if TYPE_CHECKING:
    from ci_automation.config.model import Config
    from ci_automation.flows.mirror import Mirrored


@click.command("mirror")
@click.argument("folder", metavar="DIR")
@click.option("--flux-version", metavar="VERSION", multiple=True, help="a release to take; may be repeated")
@click.option("--with-programs", is_flag=True, help="take the flux CLI for Linux too, which renders what we cannot")
@click.option("--push", "target", metavar="oci://...", help="take nothing; push what DIR has to this repository")
@takes("releases", "registry-config", *COMMON)
def command(
    folder: str, flux_version: tuple[str, ...], target: str | None, *, with_programs: bool, given: Arguments
) -> None:
    """Fill a directory with verified releases, for sites without a way to GitHub.

    DIR gets each release's files, Flux's signatures on them with their entries of the transparency log, and, as an OCI
    image layout, what Flux itself rendered. Without --flux-version it takes what is newer than all that DIR has; or,
    where DIR has none, the newest patch of each of the last three minors. The security advisories come along each time.

    With --push, the releases of DIR go to a registry, verified before and after; GitHub is not asked. A run reads them
    there with --releases oci://..., or `source: oci://...` in the configuration. --push refuses what DIR may have: a
    release that Flux did not sign, unless the configuration has `upstream: {verify: if-available}`.

    \b
    flux-manifests mirror ./releases
    flux-manifests update oci://registry.edge.example/flux:stable --releases ./releases
    flux-manifests mirror ./releases --push oci://registry.edge.example/flux/releases
    """
    config = configuration(given)
    if target is not None:
        _push(Path(folder), Reference.parse_repository(target), config, given)
        return
    artifacts = Reference.parse(f"layout:{Path(folder) / 'flux-manifests'}")
    ports = Ports(
        registry=open_registry(artifacts),
        releases=release_source(given, config),
        find_upstream=cache(partial(upstream, given, config)),
        say=progress(verbose=given.verbose, text=given.output == "text"),
    )
    wanted = [Version.parse(text) for text in flux_version]
    done = mirror(MirrorFolder(Path(folder), artifacts), ports, wanted, with_programs=with_programs)
    if given.output == "json":
        print_json({"folder": folder, "releases": [_json(each) for each in done]})
    elif done:
        print_table(_table(done))
        if unsigned := [str(each.version) for each in done if not each.vouched]:
            print_text(f"NOT signed: {', '.join(unsigned)}. `upstream: {{verify: required}}` refuses such releases.")
        print_text(f"Signed is what the release's own run of {WORKFLOW} has signed, as the transparency log tells.")
    else:
        print_text(f"Nothing to do: {plain_text(folder)} has all that is newest.")


def _push(folder: Path, target: Reference, config: Config | None, given: Arguments) -> None:
    """Push the releases of a folder; a registry's must be signed by Flux, unless the configuration says otherwise."""
    artifacts = Reference.parse(f"layout:{folder / 'flux-manifests'}")
    there = upstream(replace(given, releases=str(target.repository)), config)
    proof = replace(there, manifests=artifacts.at_tag("latest"), registry=open_registry(artifacts))
    ports = Ports(
        registry(target, None, given, writes=True),
        DirectorySource(folder),
        find_upstream=lambda: proof,
        say=progress(verbose=given.verbose, text=given.output == "text"),
    )
    done = push(folder, target, registry(rendered_beside(target), None, given, writes=True), ports)
    if given.output == "json":
        releases = [
            {"version": str(it.release.version), "signedBy": it.vouched, "written": written} for it, written in done
        ]
        print_json({"repository": str(target.repository), "releases": releases})
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


def _json(each: Mirrored) -> dict[str, Any]:
    return {
        "version": str(each.version),
        "signedBy": each.vouched,
        "artifact": str(each.artifact.digest) if each.artifact else None,
        "artifactSignedBy": each.artifact.vouched if each.artifact else None,
        "programs": list(each.programs),
    }
