"""The preview of pull requests as Renovate opens them: every release beside the next, as the real flux CLI wrote them.

kustomize is the real one; GitHub is the double, whose token refuses every write.
"""

from __future__ import annotations

import gzip
import os
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from ci_automation.flux.version import Bump, Version
from ci_automation.impact.compare import changes
from ci_automation.policy.model import ESCALATE
from ci_automation.report.preview import MAX_COMMENT
from tests.contract.previewed import FOLDERS, KUSTOMIZATION, NAME, PATTERN, PRODUCTION, READS, STAGING, event, sync
from tests.fakes.forge import Forge
from tests.fakes.runner import Runner
from tests.real.peers import peer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fakes.forge.repository import Repository

MOST_REQUESTS = 7  # what GraphQL cuts, because it has more than 512 kB, is read by itself
BY_FLUX = "Flux: the rendering of this release and these options, byte for byte"
PATCHED = b"""\
patches:
- target: {kind: Deployment, name: source-controller}
  patch: |
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: --requeue-dependency=5s}
"""


@pytest.fixture(scope="module")
def texts(golden: Path) -> dict[str, bytes]:
    """Return what `flux install --export` of each release prints, oldest first."""
    found = {
        Version.parse(folder.name): gzip.decompress((folder / "default.yaml.gz").read_bytes())
        for folder in (golden / "text").iterdir()
    }
    return {str(version): found[version] for version in sorted(found)}


@pytest.fixture
def fleet() -> Iterator[Repository]:
    with Forge() as forge:
        files = {f"{folder}/kustomization.yaml": KUSTOMIZATION + PATCHED for folder in FOLDERS}
        files |= {f"{folder}/gotk-sync.yaml": sync(folder) for folder in FOLDERS}
        made = forge.repository(NAME, files)
        forge.user("renovate")
        made.collaborators["renovate"] = "write"
        yield made


def test_every_release_beside_the_next(
    texts: dict[str, bytes],
    fleet: Repository,
    flux_releases: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    programs = str(peer("kustomize").parent)
    for name in os.environ:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", programs)
    variables = {"GITHUB_API_URL": fleet.forge.url, "GITHUB_REF": "refs/pull/1/merge"}
    variables["INPUT_GITHUB-TOKEN"] = fleet.forge.token("actions", NAME, READS)
    runner = Runner(tmp_path, tmp_path / "files", monkeypatch, capsys, variables)
    assert len(texts) == 23
    for old, new in pairwise(texts):
        fleet.push("main", {PRODUCTION: texts[old], STAGING: texts[old]}, "acme", force=True)
        branch = f"renovate/{new}"
        fleet.push(branch, {PRODUCTION: texts[new], STAGING: texts[new]}, "renovate")
        runner.event("pull_request", event(fleet, fleet.open_pull(branch, "renovate").number))
        fleet.forge.requests.clear()
        ran = runner.run(command="preview", path=PATTERN, releases=str(flux_releases))
        assert (ran.code, ran.said("error")) == (0, []), (old, new, ran)
        assert len(fleet.forge.requests) <= MOST_REQUESTS
        assert f"| `{PRODUCTION}`, `{STAGING}` | {old} to {new} |" in ran.summary, (old, new)
        assert ran.summary.count(BY_FLUX) == 2
        assert "**certain**" not in ran.summary
        assert len(ran.outputs["preview"]) <= MAX_COMMENT
        assert asks(texts[old].decode(), texts[new].decode(), old, new) is ("needs approval" in ran.summary), (old, new)


def asks(before: str, after: str, old: str, new: str) -> bool:
    """Return whether the default policy needs an approval for a step, by its changes and its versions."""
    found = changes(before, after)
    fields = {it.belongs_to for it in found}
    is_minor = Version.parse(old).bump_to(Version.parse(new)) is Bump.MINOR
    return is_minor or bool(fields & ESCALATE)
