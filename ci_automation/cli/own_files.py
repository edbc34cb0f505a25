"""The own files of a family of channels: where `setup` takes them from, and where they stay."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from ci_automation.cli.clone import bootstrapped_folders, free_folder, written_at
from ci_automation.cli.places import existing_at
from ci_automation.errors import UsageError
from ci_automation.flows.answers import CLUSTERS
from ci_automation.flows.cluster_folders import ClusterNames, read_migration
from ci_automation.flows.first_overlay import first_overlay
from ci_automation.flows.setup import CONFIGURATION, UnfitAnswer

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from ci_automation.cli.channels import Family
    from ci_automation.cli.questions import Questions
    from ci_automation.config.model import ArtifactConfig
    from ci_automation.flows.answers import Answers
    from ci_automation.flows.cluster_folders import Migration
    from ci_automation.flows.existing import Existing
    from ci_automation.flows.first_overlay import FirstOverlay

    Tags = Mapping[str, Collection[str] | None]  # in the repository of each channel; None: not known


class OwnFiles(Struct, frozen=True):
    """The folder with the own files of a family; None: they stay in the artifact.

    `migration` is what clusters have in Git, `existing` what the channels have that are there. Files in `unlike` are
    not the same in the folder and in the artifact that is there. A new artifact takes over `flags`.
    """

    overlay: str | None
    migration: Migration | None
    existing: Mapping[str, Existing]
    unlike: tuple[str, ...] = ()
    flags: Mapping[str, Any] = field(default_factory=dict)


class UnknownCluster(UsageError):
    """A list of clusters has a name that is that of no folder of `flux bootstrap`."""

    hint = "Nothing was written. Correct the name, or delete its line, and run `setup` again."

    def __init__(self, path: str, name: str, known: Collection[str]) -> None:
        near = difflib.get_close_matches(name, known, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        super().__init__(f"{path} has {name}, and no folder of `flux bootstrap` is named so{meant}")


def own_files(
    ask: Questions, top: Path, objects: str, family: Family, tags: Tags, known: ArtifactConfig | None
) -> OwnFiles:
    """Return where the own files of a family are. An artifact that is there wins over the folders of clusters.

    Raises:
        UnfitAnswer: the option names another folder than the configuration.
        UnknownCluster: a list of clusters has a name that no folder has.
        UnfitClusterFolder: a folder of `flux bootstrap` cannot be taken over.
    """
    first, _ = family.first
    listed = {name: (written_at(top / objects / name / CLUSTERS) or "").split() for name in family.channels}
    synced = bootstrapped_folders(top, former=True)
    for name, clusters in listed.items():
        _require_folders(f"{objects}/{name}/{CLUSTERS}", clusters, synced)
    taken = first_overlay(top, known.overlay, None).tree if known and known.overlay and synced else None
    migration = read_migration(top, bootstrapped_folders(top), synced, listed, taken)
    there = {name for name, it in family.channels.items() if it.tag in (tags[name] or ())}
    looked = [name for name in family.channels if name in there and (migration or name == first)]
    existing = {name: found for name in looked if (found := existing_at(family.channels[name]))}
    if migration and first in existing:
        migration = migration.to_move_to(existing[first].as_folder(migration.source.applied), listed)
    if migration:  # the files of the others are not written
        moving = {name: it for name, it in migration.moving.items() if name in family.named or listed[name]}
        migration = replace(migration, moving=moving)
    folder = _folder(ask, top, family, known, is_there=first in there, is_migration=migration is not None)
    if folder is None or first not in existing:
        flags = migration.source.flags if migration and first not in there else {}
        return OwnFiles(folder, migration, existing, flags=flags)
    ours = first_overlay(top, folder, existing[first].overlay, complete=True).tree.by_path
    theirs = existing[first].overlay.by_path
    unlike = sorted(it for it in ours.keys() | theirs.keys() if ours.get(it) != theirs.get(it))
    return OwnFiles(folder, migration, existing, tuple(unlike))


def _require_folders(path: str, listed: Iterable[str], synced: Sequence[str]) -> None:
    """Check that each cluster of a list has one of the folders that `flux bootstrap` made, if there are any."""
    known = [*map(ClusterNames.of(synced).name, synced)] if synced else []
    if known and (unknown := [name for name in listed if name not in known]):
        raise UnknownCluster(path, unknown[0], known)


def _folder(
    ask: Questions, top: Path, family: Family, known: ArtifactConfig | None, *, is_there: bool, is_migration: bool
) -> str | None:
    first, _ = family.first
    if known:
        if (told := ask.told["overlay"]) and family.named and told != (known.overlay or "-"):
            raise UnfitAnswer(f"{CONFIGURATION} has the overlay {known.overlay or '-'} for {first}; change it there")
        return known.overlay
    folders = (f"clusters/{first}/flux-system", f"flux/{first}")
    folders = ("clusters/flux-system", "flux/all") if len(family.channels) > 1 else folders
    free = free_folder(top, *folders) or (".github/flux-system" if is_migration else None)
    usual = None if is_there else free  # what is in the artifact stays there
    folder = ask.answer("overlay", "Folder with your own files (- for none)?", usual or "-")
    return None if folder == "-" else folder


def overlay_of(top: Path, answers: Answers) -> FirstOverlay:
    """Return the overlay that a family begins with."""
    taken = answers.migration.source.overlay if answers.migration else None
    if answers.there:
        return first_overlay(top, answers.overlay, answers.there.overlay, complete=True)
    return first_overlay(top, answers.overlay, taken)
