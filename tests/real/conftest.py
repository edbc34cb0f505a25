"""What the real tier's tests share: the programs, registries that run for a whole session, data of real releases.

A test whose peer is not there is skipped and says how to get it; with ``FLUX_MANIFESTS_REQUIRE_REAL=1``, as in CI,
it fails.
"""

from __future__ import annotations

import os
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NoReturn

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling

from tests.fakes.sigstore import LocalSigstore
from tests.real import peers, program, registries, share
from tests.real.cluster import Cluster
from tests.real.pipeline import KeyPair
from tests.real.processes import RUNNING
from tests.real.registries import RealRegistry

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path

    from xdist.remote import Producer

# What takes minutes begins first, so that no worker is left alone with it at the end.
LONGEST = (
    *("test_life", "test_action", "test_callers", "test_guard_clusters", "test_guard_follow", "test_migration"),
    *("test_judge", "test_image", "test_changes", "test_preview", "test_cosign", "test_image_mirror", "test_package"),
    *("test_kustomize_builds", "test_promote", "test_keyless_crash", "test_crash"),
)
# The tests of a file share what takes long to start, so that one worker runs them; the tests of these share nothing.
SPREAD = frozenset({"test_crash", "test_keyless_crash", "test_keys", "test_overlay", "test_promote"})
TOGETHER = dict.fromkeys(("test_life", "test_action", "test_callers"), "act")  # one act at a time


class BySharedSetup(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships no types
    """A scheduler that gives one worker the tests that share what takes long to start.

    `--dist loadgroup` would do that, but xdist 3.8 marks a test's group where pytest 9.2 does not look any more.
    """

    def _split_scope(self, nodeid: str) -> str:
        name = PurePosixPath(nodeid.partition("::")[0]).stem
        return nodeid if name in SPREAD else TOGETHER.get(name, name)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> BySharedSetup:
    """Return what hands the tests to the workers."""
    return BySharedSetup(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest tests."""
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what share of the many like cases ran."""
    terminalreporter.write_line(share.told())


def required() -> bool:
    """Tell whether a missing peer is a failure."""
    return os.environ.get("FLUX_MANIFESTS_REQUIRE_REAL") == "1"


def absent(reason: str) -> NoReturn:
    """End a test that cannot run here."""
    if required():
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, None, None]:
    """Turn a peer that a fixture misses into a skip or a failure."""
    try:
        yield
    except peers.PeerMissing as missing:
        absent(str(missing))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    """Turn a peer that the test itself misses into a skip or a failure."""
    try:
        yield
    except peers.PeerMissing as missing:
        absent(str(missing))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the programs that run behind a test said last, where it failed."""
    report = yield
    if report.failed:
        report.sections += [(f"{daemon.name} runs", daemon.tail()) for daemon in RUNNING]
    return report


@pytest.fixture(scope="session", autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the programs off the credentials and the trust roots of whoever runs the tests."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_CONFIG", str(home / "docker"))
        patch.setenv("TUF_ROOT", str(home / "tuf"))
        yield


@pytest.fixture(scope="module")
def local() -> Iterator[LocalSigstore]:
    """Yield a Sigstore that is not the public one."""
    with LocalSigstore() as running:
        yield running


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> program.Pair:
    """Return the key that signs."""
    return program.elliptic_key(tmp_path_factory.mktemp("key"))


@pytest.fixture(scope="session")
def peer() -> Callable[[str], Path]:
    """Return the function from a peer's name to its program."""
    return peers.peer


@pytest.fixture(scope="session")
def flux_releases() -> Path:
    """Return the folder with the data of the real Flux releases, one folder a tag."""
    folder = peers.flux_releases()
    if not folder.is_dir():
        absent(f"no {folder}: name the folder of the Flux releases' data in FLUX_RELEASES")
    return folder


@pytest.fixture(scope="session")
def golden(flux_releases: Path) -> Path:
    """Return the folder with the hashes and texts of what ``flux install --export`` prints."""
    return flux_releases.parent / "golden"


@pytest.fixture(scope="session")
def distribution_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRegistry]:
    """Yield the CNCF registry, open to all, without the referrers API; tests keep apart by `repository`."""
    with registries.distribution(tmp_path_factory.mktemp("registry")) as registry:
        yield registry


@pytest.fixture(scope="session")
def referrers_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRegistry]:
    """Yield a registry with the referrers API, open to all."""
    with registries.referrers_registry(tmp_path_factory.mktemp("referrers")) as registry:
        yield registry


@pytest.fixture(params=["distribution_registry", "referrers_registry"], ids=["distribution", "referrers API"])
def any_registry(request: pytest.FixtureRequest) -> RealRegistry:
    """Return each of the open registries in turn."""
    registry = request.getfixturevalue(request.param)
    assert isinstance(registry, RealRegistry)
    return registry


@pytest.fixture
def repository(request: pytest.FixtureRequest) -> str:
    """Return a repository name that no other test uses."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.nodeid.rpartition("::")[2].lower()).strip("-")
    return f"tests/{words}"


@pytest.fixture(scope="session")
def cosign_key(tmp_path_factory: pytest.TempPathFactory) -> KeyPair:
    """Return a key pair as people have it: made by ``cosign generate-key-pair``."""
    return KeyPair.make(tmp_path_factory.mktemp("key"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Yield a control plane without Flux; a test applies a release's components, then starts the controllers."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running
