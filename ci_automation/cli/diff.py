"""The command `diff`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ci_automation.cli.arguments import Arguments, configuration
from ci_automation.cli.follow_up import whole
from ci_automation.cli.output import print_json, print_parts, print_reading, print_text, progress
from ci_automation.cli.parameters import CLUSTERS, COMMON, TRUST, HeadedCommand, artifact_names, known_versions, takes
from ci_automation.cli.places import clusters, kustomize, release_ports
from ci_automation.cli.wiring import reading, reading_files
from ci_automation.config.model import ClustersConfig, Config, UnknownArtifact
from ci_automation.errors import UsageError
from ci_automation.flows.diff import Difference, Side, compare, of_artifact, of_file, of_folder, of_release
from ci_automation.flux.options import Options
from ci_automation.flux.version import read_version
from ci_automation.impact.change import Certainty, some_of
from ci_automation.report.blocks import Block, Bullet, Code, Detail, MarkedLine, on_terminal
from ci_automation.report.changes import sections, text_parts
from ci_automation.report.markdown import to_markdown, words_markdown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from click.shell_completion import CompletionItem

    from ci_automation.artifact.reference import Digest, Reference
    from ci_automation.flows.ports import Ports

_ROWS = 100  # of each table and list in Markdown
_ROW = re.compile(r"(?P<artifact>.+)@(?P<number>[0-9]{1,6})")
_MAX_NAMED = 200
_SAME, _DIFFERS, _BREAKS = 0, 1, 3
_BREAKING = (Certainty.CERTAIN, Certainty.POSSIBLE)


class NothingToCompare(UsageError):
    """A text names nothing that could be compared."""

    hint = (
        "Name an artifact (oci://..., layout:..., or its name in the configuration), a folder, a components file, or a "
        "release such as v2.9.4; a file of that name is ./v2.9.4."
    )

    def __init__(self, text: str) -> None:
        super().__init__(f"{text[:_MAX_NAMED]!r} is no artifact, folder, file or release")
        if row := _ROW.fullmatch(text[:_MAX_NAMED]):
            at = f"{row['artifact']}@{row['number']}"
            self.hint = (
                f"No configuration here has that name: write oci://HOST/REPOSITORY:{at} or layout:DIRECTORY:{at}."
            )


class NoSuchRow(UsageError):
    """A channel never had an artifact of that number, which may be another channel's."""

    def __init__(self, artifact: str, number: int, numbers: Iterable[int], *, trusts: bool) -> None:
        super().__init__(f"the history of {artifact} has no number {number}")
        known = some_of([f"@{each}" for each in sorted(numbers)])
        self.hint = (
            f"It has {known}. Name what only another channel had by that channel, or by its tag."
            if known
            else "Nothing was published there."
        )
        if not trusts:
            self.hint += " Without a key, several of one version have no number: give --public-key, or an identity."


def _sides_here(ctx: click.Context, side: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Return the names of artifacts, or the releases, that begin so, for a shell."""
    from click.shell_completion import CompletionItem

    names = [CompletionItem(name) for name in artifact_names(ctx, side, incomplete)]
    return names or (known_versions(ctx, side, incomplete) if re.match("v[0-9]", incomplete) else [])


@click.command("diff", cls=HeadedCommand)
@click.argument("old", shell_complete=_sides_here)
@click.argument("new", shell_complete=_sides_here)
@click.option("--exit-code", is_flag=True, help="exit with 1 if anything changes, with 3 if something can break")
@takes(*CLUSTERS, *TRUST, "components-file", "releases", "registry-config", *COMMON, markdown=True, install_flags=True)
def diff_command(old: str, new: str, *, exit_code: bool, given: Arguments) -> int:
    """Say what changes between two artifacts, folders, files or releases, and what that can break.

    OLD and NEW are each an artifact, also by digest, or by its number in `history` such as production@3; a folder with
    its files; a components file alone; or a release of Flux, which is rendered with the flags given here and has no
    other files. With a key or
    an identity to trust, only signed artifacts are compared. Every change has a class, as policies name it, and a
    severity; the gravest come first.

    \b
    flux-manifests diff oci://ghcr.io/acme/flux:production \\
      oci://ghcr.io/acme/flux:staging
    flux-manifests diff v2.9.3 v2.9.4 --components-extra source-watcher --output json
    flux-manifests diff production@2 production@1 --exit-code
    """
    config = configuration(given)
    before, after = (_side(text, config, given) for text in (old, new))
    known = clusters(_follow(old, config), given, lambda text: reading_files(text, given))
    found = compare(before, after, known, kustomize())
    if given.output == "json":
        print_json(_to_json(found), "diff")
    elif given.output == "markdown":
        named = [(Code(it.name), f" ({facts})" if (facts := _facts(it)) else "") for it in (before, after)]
        print_text(f"## {words_markdown((*named[0], ' to ', *named[1]))}\n")
        told = sections(found.found, Detail.page(_ROWS)) if _is_telling(found) else ()
        blocks: list[Block] = [*map(Bullet, _remarks(found)), *told]
        print_text(to_markdown(blocks, "### {}"))
    else:
        print_parts(on_terminal(map(MarkedLine, [_sides(before, after), *_remarks(found)])))
        shown = text_parts(found.found, every=given.verbose)
        parts = (*shown,) if _is_telling(found) else ()
        print_parts(parts)
        print_reading(parts, whole())
    return _code(found) if exit_code else _SAME


def _sides(old: Side, new: Side) -> str:
    """Return what is compared: of each side its name, its version and its digest."""
    if old.digest and old.digest == new.digest:
        return f"{old.name} and {new.name} are the same artifact: {old.version or 'no Flux'}, {old.digest.short}"
    return " -> ".join(f"{it.name} ({facts})" if (facts := _facts(it)) else it.name for it in (old, new))


def _facts(side: Side) -> str:
    """Return the version and the digest of a side, but for what its name says."""
    facts = (str(side.version or ""), side.digest.short if side.digest else "")
    return ", ".join(it for it in facts if it and it not in side.name)


def _code(found: Difference) -> int:
    """Return what `--exit-code` says of a difference."""
    if any(hazard.certainty in _BREAKING for hazard in found.found.hazards):
        return _BREAKS
    return _DIFFERS if found.found.changes or found.found.hazards or found.found.pruned else _SAME


def _side(text: str, config: Config | None, given: Arguments) -> Side:
    """Return what a text names: a number in a history, an address, a release, a path, or a configured artifact."""
    named = {it.name for it in config.artifacts} if config else set()
    row = _ROW.fullmatch(text)
    if row and (row["artifact"].startswith(("oci://", "layout:")) or row["artifact"] in named):
        reference, ports = reading(row["artifact"], given)
        at = reference.at_digest(_digest_at(row["artifact"], int(row["number"]), reference, ports))
        return of_artifact(text, at, ports, given.components_file)
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


def _digest_at(artifact: str, number: int, reference: Reference, ports: Ports) -> Digest:
    """Return the digest that has a number in an artifact's history."""
    from ci_automation.flows.history import history

    digests = {entry.number: entry.digest for entry in history(reference, ports).entries if entry.number}
    if number not in digests:
        raise NoSuchRow(artifact, number, digests, trusts=ports.trusted is not None)
    return digests[number]


def _follow(old: str, config: Config | None) -> ClustersConfig | None:
    """Return what is configured of the clusters that have what is compared now."""
    row = _ROW.fullmatch(old)
    try:
        return config.find(row["artifact"] if row else old).clusters if config else None
    except UnknownArtifact:
        return None


def _is_telling(found: Difference) -> bool:
    """Return whether there is more to tell than the remarks; that nothing changes takes a look at all files."""
    return not _unseen(found) or bool(found.found.changes or found.found.hazards)


def _unseen(found: Difference) -> str:
    """Return what says that files of one side were not compared, if so."""
    sides = sorted((found.old, found.new), key=lambda side: side.overlay is None)
    if found.overlays_compared or sides[0].overlay is None:
        return ""
    equal = "" if found.found.changes else "The components are equal. "
    return f"{equal}The other files of {sides[0].name} were not compared: {sides[1].name} has the components alone."


def _remarks(found: Difference) -> list[str]:
    """Return what a person must know of the two sides."""
    remarks = [f"{side.name}: {side.remark}" for side in (found.old, found.new) if side.remark]
    return [*remarks, *filter(None, [_unseen(found)])]


def _to_json(found: Difference) -> dict[str, Any]:
    value = found.found.to_json()
    return {
        **{key: _side_json(side) for key, side in (("from", found.old), ("to", found.new))},
        "overlaysCompared": found.overlays_compared,
        **{key: value[key] for key in ("changes", "hazards", "pruned")},
    }


def _side_json(side: Side) -> dict[str, Any]:
    return {"name": side.name, "digest": str(side.digest) if side.digest else None, "remark": side.remark}
