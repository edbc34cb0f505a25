"""The command `diff`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ci_automation.cli.arguments import Arguments, configuration
from ci_automation.cli.output import print_json, print_parts, print_text, progress
from ci_automation.cli.parameters import CLUSTERS, COMMON, TRUST, takes
from ci_automation.cli.places import clusters, kustomize, release_ports
from ci_automation.cli.wiring import reading, reading_files
from ci_automation.config.model import UnknownArtifact
from ci_automation.errors import UsageError
from ci_automation.flows.diff import Difference, Side, compare, of_artifact, of_file, of_folder, of_release
from ci_automation.flux.options import Options
from ci_automation.flux.release import read_version
from ci_automation.report.changes import text_parts
from ci_automation.report.changes_markdown import difference_markdown
from ci_automation.report.text import MarkedLine, plain_text

if TYPE_CHECKING:
    from ci_automation.config.model import ClustersConfig, Config

_ROWS = 100  # of each table and list in Markdown


class NothingToCompare(UsageError):
    """A text names nothing that could be compared."""

    hint = (
        "Name an artifact (oci://..., layout:..., or its name in the configuration), a folder, a components file, or a "
        "release such as v2.9.4; a file of that name is ./v2.9.4."
    )

    def __init__(self, text: str) -> None:
        super().__init__(f"{text[:200]!r} is no artifact, folder, file or release")


@click.command("diff")
@click.argument("old")
@click.argument("new")
@takes(*CLUSTERS, *TRUST, "components-file", "releases", "registry-config", *COMMON, markdown=True, install_flags=True)
def command(old: str, new: str, given: Arguments) -> None:
    """Say what changes between two artifacts, folders, files or releases, and what that can break.

    OLD and NEW are each an artifact, also by digest; a folder with its files; a components file alone; or a release of
    Flux, which is rendered with the flags given here. With a key or an identity to trust, only signed artifacts are
    compared. Every change has a class, as policies name it, and a severity; the gravest come first.

    \b
    flux-manifests diff oci://ghcr.io/acme/flux:production oci://ghcr.io/acme/flux:staging
    flux-manifests diff v2.9.3 v2.9.4 --components-extra source-watcher --output json
    """
    config = configuration(given)
    before, after = (_side(text, config, given) for text in (old, new))
    known = clusters(_follow(old, config), given, lambda text: reading_files(text, given))
    found = compare(before, after, known, kustomize())
    if given.output == "json":
        print_json(_to_json(found))
    elif given.output == "markdown":
        print_text(difference_markdown(before.name, after.name, _remarks(found), found.found, _ROWS))
    else:
        print_parts(MarkedLine(plain_text(remark)) for remark in _remarks(found))
        print_parts(text_parts(found.found, every=given.verbose))


def _side(text: str, config: Config | None, given: Arguments) -> Side:
    """Return what a text names: an address, a release, a path, or an artifact of the configuration, in this order."""
    named = {it.name for it in config.artifacts} if config else set()
    if text.startswith(("oci://", "layout:")):
        return of_artifact(text, *reading(text, given), given.components_file)
    if (version := read_version(f"v{text.removeprefix('v')}")) is not None:
        return of_release(
            version,
            Options().with_flags(given.flags),
            release_ports(given, config, progress(verbose=given.verbose, text=given.output == "text")),
        )
    if (path := Path(text)).is_dir():
        return of_folder(path, given.components_file)
    if path.exists():
        return of_file(path)
    if text in named:
        return of_artifact(text, *reading(text, given), given.components_file)
    raise NothingToCompare(text)


def _follow(old: str, config: Config | None) -> ClustersConfig | None:
    """Return what is configured of the clusters that have what is compared now."""
    try:
        return config.find(old).clusters if config else None
    except UnknownArtifact:
        return None


def _remarks(found: Difference) -> list[str]:
    """Return what a person must know of the two sides."""
    remarks = [f"{side.name}: {side.remark}" for side in (found.old, found.new) if side.remark]
    if found.overlays_compared:
        return remarks
    neither = found.old.overlay is None and found.new.overlay is None
    why = "neither side has any" if neither else "one side has none"
    return [*remarks, f"Files around the components were not compared: {why}."]


def _to_json(found: Difference) -> dict[str, Any]:
    value = found.found.to_json()
    return {
        **{key: _side_json(side) for key, side in (("from", found.old), ("to", found.new))},
        "overlaysCompared": found.overlays_compared,
        **{key: value[key] for key in ("changes", "hazards", "pruned")},
    }


def _side_json(side: Side) -> dict[str, Any]:
    return {"name": side.name, "digest": str(side.digest) if side.digest else None, "remark": side.remark}
