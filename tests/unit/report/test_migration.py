from __future__ import annotations

import pytest

from ci_automation.report.migration import migration_steps

FOLDER = "clusters/production/flux-system"
GIT = ("flux-system/flux-system (path ./clusters/production)",)


@pytest.mark.parametrize("keep_sync", [False, True])
def test_pruning_stops_before_the_folder_leaves_git_and_starts_again_after_it(keep_sync: bool) -> None:
    told = migration_steps(FOLDER, GIT, "---\nkind: OCIRepository\n", keep_sync=keep_sync)
    order = [
        "1. In Git, set `prune: false`",
        "2. Apply the objects below",
        f"3. {'Delete' if keep_sync else 'In Git, leave'}",
    ]
    places = [told.index(words) for words in (*order, "4. When clusters have applied that, set `prune: true` again")]
    assert places == sorted(places)
    assert GIT[0] in told
    assert told.endswith("\n\n---\nkind: OCIRepository")
    assert ("in the artifact" in told) is keep_sync


def test_what_git_does_not_apply_takes_one_step() -> None:
    told = migration_steps(FOLDER, (), "", keep_sync=False)
    assert "1. Apply the objects below" in told
    assert "2. " not in told
