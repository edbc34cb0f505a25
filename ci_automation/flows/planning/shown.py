"""States of an overlay between which a request's page hides lines: by attributes of Git, or in files that are binary.

Only the newest state is in the checkout. One in between may have had attributes, or other bytes, for as long as people
looked at a page, and the next page may show no more of such a file than its new name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.artifact.git_tree import git_blob_id
from ci_automation.flows.workspace import ConcealedOverlay, require_shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_automation.artifact.tree import Tree
    from ci_automation.github.content_history import ContentHistory
    from ci_automation.github.model import ContentAt

_MOST_READ = 10  # files of states in between; with more, the content is asked for by digest
_GIT = ".git"


def hidden_states(
    states: Mapping[str, ContentAt], trees: Mapping[str, Tree], folder: str, history: ContentHistory
) -> frozenset[str]:
    """Return the commits of `states` whose pages cannot be trusted to have shown every line of the folder.

    The files of `trees`, by the id that Git gives to the folder, are here already; those of others are asked for.

    Raises:
        ReleaseSourceError: GitHub failed or refused.
    """
    here: dict[str, bytes | None] = {
        git_blob_id(file.content): file.content for tree in trees.values() for file in tree.files
    }
    files = {name: {file.path: git_blob_id(file.content) for file in tree.files} for name, tree in trees.items()}
    between = sorted({at.overlay for at in states.values() if at.overlay} - trees.keys())
    files |= {name: dict(history.files(name)) for name in between}
    unread = sorted({blob for name in between for blob in files[name].values()} - here.keys())
    here |= {blob: history.blob(blob) for blob in unread[:_MOST_READ]}
    # Git shows no lines where the old or the new file has a zero byte; what was not read may have one.
    text = {blob for blob, data in here.items() if data is not None and b"\0" not in data}
    binary = {frozenset(of.values()) - text for of in files.values()}
    paths = {path for of in files.values() for path in of}
    return frozenset(
        commit
        for commit, at in states.items()
        if len(binary) > 1 or (at.overlay and _has_attributes(files[at.overlay])) or _conceals(at, folder, paths)
    )


def _has_attributes(files: Mapping[str, str]) -> bool:
    """Return whether the folder itself has files that Git takes for its own."""
    return any(name.casefold().startswith(_GIT) for path in files for name in path.split("/"))


def _conceals(at: ContentAt, folder: str, paths: set[str]) -> bool:
    try:
        require_shown(at.attributes, folder, paths)
    except ConcealedOverlay:
        return True
    return False
