"""The recorded builds that the unit tests of overlays use are what the real kustomize builds."""

from __future__ import annotations

from tests.real.kustomize_builds import ASSET, builds


def test_the_recorded_builds_are_those_of_the_real_kustomize() -> None:
    assert ASSET.read_text() == builds(), "python -m tests.real.kustomize_builds writes it anew"
