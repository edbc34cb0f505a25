"""The own files of a family of channels: where `setup` takes them from, and where they stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ci_automation.cli.clone import bootstrapped_folders, free_folder, written_at
from ci_automation.flows.answers import CLUSTERS
from ci_automation.flows.cluster_folders import read_migration
from ci_automation.flows.setup import CONFIGURATION, UnfitAnswer

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from ci_automation.cli.channels import Family
    from ci_automation.cli.questions import Questions
    from ci_automation.config.model import ArtifactConfig
    from ci_automation.flows.cluster_folders import Migration

    Tags = Mapping[str, Collection[str] | None]  # in the repository of each channel; None: not known


def own_files(
    ask: Questions, top: Path, objects: str, family: Family, tags: Tags, known: ArtifactConfig | None
) -> tuple[str | None, Migration | None]:
    """Return the folder with the own files of a family, None if they stay in the artifact, and what it takes over.

    Raises:
        UnfitAnswer: the option names another folder than the configuration.
        UnfitClusterFolder: a folder of `flux bootstrap` cannot be taken over.
    """
    first, channel = family.first
    listed = {name: (written_at(top / objects / name / CLUSTERS) or "").split() for name in family.channels}
    migration = read_migration(top, bootstrapped_folders(top), bootstrapped_folders(top, former=True), listed)
    if migration:  # the files of the others are not written
        moving = {name: it for name, it in migration.moving.items() if name in family.named or listed[name]}
        migration = replace(migration, moving=moving)
    if known:
        if (told := ask.told["overlay"]) and family.named and told != (known.overlay or "-"):
            raise UnfitAnswer(f"{CONFIGURATION} has the overlay {known.overlay or '-'} for {first}; change it there")
        return known.overlay, migration
    folders = (f"clusters/{first}/flux-system", f"flux/{first}")
    folders = ("clusters/flux-system", "flux/all") if len(family.channels) > 1 else folders
    free = free_folder(top, *folders) or (".github/flux-system" if migration else None)
    if not migration and channel.tag in (tags[first] or ()):
        free = None  # its own files stay where they are, in the artifact
    folder = ask.answer("overlay", "Folder with your own files (- for none)?", free or "-")
    return None if folder == "-" else folder, migration
