"""A plan over two minor releases of Flux itself fits on two screens, and -v has all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.cli import run
from tests.fakes.world import key_pem, signing_key
from tests.real.peers import flux_releases

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

LINES, COLUMNS = 2 * 24, 80
CONFIG = "version: 1\nsource: dir:{releases}\nartifacts: [{{name: production, url: 'layout:r:production', {keys}}}]\n"
KEYS = "signing: {key: cosign.key}, verify: {publicKey: cosign.pub}"


def screen_lines(text: str) -> int:
    """Return how many lines of a terminal a text takes."""
    return sum(max(1, -(-len(line) // COLUMNS)) for line in text.splitlines())


def test_a_plan_from_2_7_3_to_2_9_4_fits_on_two_screens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COSIGN_PASSWORD", "")
    (tmp_path / "cosign.key").write_bytes(key_pem())
    (tmp_path / "cosign.pub").write_text(signing_key().public.to_pem())
    (tmp_path / ".github").mkdir()
    (tmp_path / ".github/flux-manifests.yaml").write_text(CONFIG.format(releases=flux_releases(), keys=KEYS))
    assert run(["init", "production", "--flux-version", "v2.7.3"]) == 0
    capsys.readouterr()
    assert run(["plan", "production"]) == 0
    shown = capsys.readouterr().out
    assert screen_lines(shown) <= LINES, shown
    assert "10 CRDs lose v1beta2 (Alert, Bucket, GitRepository" in shown
    assert "Run `flux migrate`" in shown
    commands = [line for line in shown.splitlines() if line.startswith("flux-manifests ")]
    assert [line.split()[1] for line in commands] == ["plan", "apply", "apply"]
    assert run(["plan", "production", "-v"]) == 0
    assert capsys.readouterr().out.count("  possible, crds, approval (") == 10
