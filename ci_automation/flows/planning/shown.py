"""States of content between which a request's page hides lines: by attributes, in binary or generated files.

Only the newest state is in the checkout. One in between may have had attributes, or other bytes, for as long as people
looked at a page, and the next page may show no more of such a file than its new name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ci_automation.artifact.git import git_blob_id
from ci_automation.flows.workspace import ConcealedOverlay, require_shown
from ci_automation.report.blocks import plain_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_automation.artifact.tree import Tree
    from ci_automation.github.content_history import ContentHistory
    from ci_automation.github.model import ContentAt

MOST_SHOWN = 400_000  # bytes before and after; pages show 500 kB of a file (GitHub, "Limits for viewing content")
_MOST_READ = 10  # files of states in between; with more, the content is asked for by digest
_GIT = ".git"
# Pages fold files that GitHub's Linguist takes for generated: by their folder, their name, or by what they hold where
# they have another extension than these (github-linguist/linguist, lib/linguist/generated.rb).
_WRITTEN = re.compile(r"(?:^|/)[^/.]*$|\.(?:ya?ml|json|md|txt|env|toml|ini|conf|cfg|properties|pub|pem|crt|asc)$")
_GENERATED = re.compile(
    r"(?:^|/)(?:\.idea|Pods|Carthage/Build|htmlcov|\.sqlx)/|(?:node_modules|vendor|Godeps|__generated__)/|[.-]lock|shrinkwrap"
)
_GENERATED_FILE = re.compile(
    r"/\.pnp\.|Package\.resolved|Cargo\.toml\.orig|(?:^|/)(?:(?:Julia)?Manifest(?:-v[0-9.]{1,9})?\.toml|(?i:gradlew|mvnw))$"
)
_CASSETTE = b"recorded_with: VCR"  # near the end of a .yml file


def hidden_states(
    states: Mapping[str, ContentAt], trees: Mapping[str, Tree], folder: str, config: str, history: ContentHistory
) -> frozenset[str]:
    """Return the commits of `states` whose pages cannot be trusted to have shown all of the folder and configuration.

    The files of `trees`, by the id that Git gives to the folder, are here already; those of others are asked for.

    Raises:
        ReleaseSourceError: GitHub failed or refused.
    """
    files = {name: {file.path: git_blob_id(file.content) for file in tree.files} for name, tree in trees.items()}
    here: dict[str, bytes | None] = {
        files[name][it.path]: it.content for name, tree in trees.items() for it in tree.files
    }
    between = sorted({at.overlay for at in states.values() if at.overlay} - trees.keys())
    if between:
        if (listed := history.files(*between)) is None:
            return frozenset(states)
        files |= {name: dict(of) for name, of in listed.items()}
    unread = sorted({blob for name in between for blob in files[name].values()} - here.keys())
    here |= {blob: history.blob(blob) for blob in unread[:_MOST_READ]}
    text = {blob for blob, data in here.items() if data is not None and _is_shown(data)}
    unshown = {
        frozenset(
            (path, blob) for path, blob in of.items() if blob not in text or _is_folded(f"{folder}/{path}", here[blob])
        )
        for of in files.values()
    }
    texts = {at.config.encode() for at in states.values() if at.config}
    configs = {None if _is_shown(it) and not _is_folded(config, it) else it for it in texts}
    sides = [frozenset(of.items()) for of in files.values()]
    changed = frozenset().union(*sides) - sides[0].intersection(*sides)
    sizes = [len(here.get(blob) or b"") for _, blob in changed] + [len(it) for it in texts if len(texts) > 1]
    differ = len(unshown) > 1 or len(configs) > 1 or sum(sizes) > MOST_SHOWN
    paths = {config, *(f"{folder}/{path}" for of in files.values() for path in of)}
    return frozenset(
        commit
        for commit, at in states.items()
        if differ or (at.overlay and _has_attributes(files[at.overlay])) or _conceals(at, paths)
    )


def is_unseen(path: str, data: bytes) -> bool:
    """Return whether a request's page may not have shown each line of a file."""
    return not _is_shown(data) or _is_folded(path, data)


def _is_shown(data: bytes) -> bool:
    """Return whether a page shows each line of a file as such: of one with a zero byte, Git shows none.

    YAML has more ends of lines than Git and pages, so that a comment can hold another line. And of signs that no reader
    sees, some turn the text around.
    """
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n").replace("\t", " ")
    except UnicodeDecodeError:
        return False
    return plain_text(text) == text


def _is_folded(path: str, data: bytes | None) -> bool:
    """Return whether a page shows the lines of a file only after a click, as GitHub takes the file for generated."""
    is_cassette = path.endswith(".yml") and data is not None and _CASSETTE in data
    return is_cassette or not _WRITTEN.search(path) or bool(_GENERATED.search(path) or _GENERATED_FILE.search(path))


def _has_attributes(files: Mapping[str, str]) -> bool:
    """Return whether the folder itself has files that Git takes for its own."""
    return any(name.casefold().startswith(_GIT) for path in files for name in path.split("/"))


def _conceals(at: ContentAt, paths: set[str]) -> bool:
    try:
        require_shown(at.attributes, paths)
    except ConcealedOverlay:
        return True
    return False
