"""The files and folders of a repository that its configuration names."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from ci_automation.config.source import DirectorySourceConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_automation.config.model import Config


def named_files(config: Config) -> Iterator[str]:
    """Yield the files and folders of the repository that runs read: releases, trust, facts of clusters, evidence."""
    source = config.source
    named = [str(source.path) if isinstance(source, DirectorySourceConfig) else None, config.upstream.trust_config]
    for it in config.artifacts:
        named += [it.trust_config, *it.verify.public_keys, *it.clusters.snapshots, *it.clusters.objects]
        named += [each.report for each in it.promote.evidence] if it.promote else []
    for text in filter(None, named):
        path = PurePosixPath(text)
        if path.parts and "://" not in text and not text.startswith(("/", "layout:")) and ".." not in path.parts:
            yield str(path)
