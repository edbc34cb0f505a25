"""What several contract tests meet: a Sigstore on this machine and its roots, and a fleet on a double of GitHub."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ci_automation.flows.planning.findings import impact_of
from ci_automation.impact.assess import Impact
from ci_automation.net.waiting import Clock, Patience
from ci_automation.registry.http import HttpRegistry
from ci_automation.signing.sigstore.root import TrustRoot
from tests.contract.hostile_registry import HostileRegistry, Source
from tests.fakes.sigstore import LocalSigstore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ci_automation.impact.change import Hazard
    from ci_automation.net.network import Network
    from ci_automation.registry.credentials import CredentialSource
    from tests.contract.scene import Scene


@pytest.fixture(autouse=True)
def _no_releases_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away a variable that stands for `source`: the real tier is told by it where real releases are."""
    monkeypatch.delenv("FLUX_RELEASES", raising=False)


@pytest.fixture(scope="module")
def local() -> Iterator[LocalSigstore]:
    """Yield the Sigstore that upstream signs with here."""
    with LocalSigstore() as running:
        yield running


@pytest.fixture(scope="module")
def root(local: LocalSigstore, tmp_path_factory: pytest.TempPathFactory) -> TrustRoot:
    """Return what is trusted: that Sigstore's roots."""
    path = tmp_path_factory.mktemp("root") / "trusted_root.json"
    path.write_bytes(local.trusted_root)
    return TrustRoot.from_file(path)


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what scenes are copies of: releases, and a workspace with a channel."""
    from tests.contract.scene import template

    return template(tmp_path_factory.mktemp("stage"))


@pytest.fixture
def scene(
    stage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Scene]:
    """Yield a fleet repository on a double of GitHub, and a job of it."""
    from tests.contract.scene import staged

    with staged(stage, tmp_path / "scene", monkeypatch, capsys) as made:
        yield made


@pytest.fixture
def server() -> Iterator[HostileRegistry]:
    """Yield a registry that answers as a test wants."""
    with HostileRegistry() as running:
        yield running


@pytest.fixture
def seconds() -> list[float]:
    """Return the time of the clients' clock."""
    return [0.0]


@pytest.fixture
def opened(seconds: list[float]) -> Iterator[Callable[..., HttpRegistry]]:
    """Yield the function that opens a registry, for which no time passes while it waits."""
    with ExitStack() as stack:

        def open_one(host: str, source: CredentialSource | None = None, network: Network | None = None) -> HttpRegistry:
            clock = Clock(lambda: seconds[0], lambda: 0.0, lambda _: None)
            registry = HttpRegistry(host, source or Source(), network, Patience(clock=clock))
            stack.callback(registry.close)
            return registry

        yield open_one


@pytest.fixture
def unjudged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare no contents and build no overlay, which takes longer than all the rest."""
    for place in ("step", "findings"):
        monkeypatch.setattr(f"ci_automation.flows.planning.{place}.impact_of", lambda *_: Impact())


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> list[Hazard]:
    """Return what every run finds beside the rest from now on."""
    found: list[Hazard] = []

    def finds(*given: object) -> object:
        made = impact_of(*given)  # type: ignore[arg-type]  # whatever the caller gives
        return replace(made, hazards=(*made.hazards, *found))

    monkeypatch.setattr("ci_automation.flows.planning.step.impact_of", finds)
    monkeypatch.setattr("ci_automation.flows.planning.findings.impact_of", finds)
    return found
