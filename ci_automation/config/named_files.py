"""The files and folders of a repository that its configuration names."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from ci_automation.config.source import DirectorySourceConfig

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci_automation.config.model import Config


def named_files(config: Config) -> Iterator[str]:
    """Yield the files and folders of the repository that runs read: releases, trust, facts of clusters, evidence."""
    source = config.source
    named = [str(source.path) if isinstance(source, DirectorySourceConfig) else None, config.upstream.trust_config]
    for it in config.artifacts:
        named += [it.trust_config, *it.verify.public_keys, *it.clusters.snapshots, *it.clusters.objects]
        named += [each.report for each in it.promote.evidence] if it.promote else []
    yield from in_repository(named)


def in_repository(named: Iterable[str | None]) -> Iterator[str]:
    """Yield those of the named files and folders that are in the repository, as Git has their paths."""
    for text in filter(None, named):
        path = posixpath.normpath(text)
        is_address = "://" in text or text.startswith("layout:")
        if not (is_address or path in {".", ".."} or path.startswith(("/", "../"))):
            yield path
