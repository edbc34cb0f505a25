"""Two updaters of one channel at once: one wins, and the other hears of it; the channel is signed at every moment."""

from __future__ import annotations

import dataclasses
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ci_automation.artifact.reference import Reference
from ci_automation.flows.init import init
from ci_automation.flux.artifact import immutable_tag
from ci_automation.flux.version import Version
from ci_automation.records.ledger import Ledger
from ci_automation.records.writer import RecordWriter
from ci_automation.signing.verify import verify
from tests.real import program
from tests.real.pipeline import KeyPair
from tests.real.processes import COMMAND
from tests.real.proxy import Drop, Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future
    from pathlib import Path

    from ci_automation.artifact.reference import Digest
    from ci_automation.flows.ports import Ports
    from tests.real.registries import RealRegistry

BEFORE, ONE, OTHER = "v2.8.5", "v2.8.7", "v2.8.8"
CHANNEL = "/manifests/production"
Hook = Callable[[], None]


@dataclass
class Updater:
    """Somebody's schedule that goes as far as `version`, behind a proxy of its own so that it can be held up."""

    proxy: Proxy
    version: str
    channel: Reference
    config: Path
    signing: tuple[str, ...]
    workers: ThreadPoolExecutor

    def start(self) -> Future[program.Done]:
        """Start it, and return what will say how it ended."""
        return self.workers.submit(
            program.flux_manifests, "update", "production", "--config", self.config, *self.signing
        )

    def run(self) -> program.Done:
        """Run it to its end."""
        return self.start().result(COMMAND)

    def at(self, method: str, path: str, hook: Hook, *, nth: int = 1) -> None:
        """Let `hook` run before the nth of its requests of that kind is passed on."""
        previous = self.proxy.before
        count = 0

        def before(number: int, seen: str, where: str) -> None:
            nonlocal count
            previous(number, seen, where)
            if seen == method and where.endswith(path):
                count += 1
                if count == nth:
                    hook()

        self.proxy.before = before

    def after(self, method: str, path: str, hook: Hook) -> None:
        """Let `hook` run when the registry has answered the first of its requests of that kind."""
        done = False

        def after(_number: int, seen: str, where: str, _status: int) -> None:
            nonlocal done
            if seen == method and where.endswith(path) and not done:
                done = True
                hook()

        self.proxy.after = after


@dataclass(frozen=True, slots=True)
class Scene:
    """One channel, at `BEFORE`, and two updaters that want different things of it."""

    one: Updater
    other: Updater
    base: Digest
    ports: Ports
    channel: Reference

    def now(self) -> Digest:
        """Return where the channel is, after checking that everything that has a tag is signed and whole."""
        assert self.ports.trusted is not None
        for tag in self.ports.registry.tags(self.channel):
            if not tag.startswith("sha256-"):  # signatures, and the index of referrers
                digest = self.ports.registry.resolve(self.channel.at_tag(tag))
                assert digest is not None
                verify(self.ports.registry, self.channel, digest, self.ports.trusted)
                manifest = self.ports.registry.manifest(self.channel.at_digest(digest))
                self.ports.registry.blob(self.channel, manifest.layers[0])
        found = self.ports.registry.resolve(self.channel)
        assert found is not None
        return found

    def target(self, version: str) -> Digest:
        """Return the digest that somebody published for a version, by its immutable tag."""
        (tag,) = [tag for tag in self.ports.registry.tags(self.channel) if tag.startswith(f"{version}-")]
        found = self.ports.registry.resolve(self.channel.at_tag(tag))
        assert found is not None
        assert tag == immutable_tag(Version.parse(version), found)
        return found


@pytest.fixture
def scene(
    distribution_registry: RealRegistry, repository: str, flux_releases: Path, pair: program.Pair, tmp_path: Path
) -> Iterator[Scene]:
    """Yield the scene, with nobody held up."""
    channel = program.channel(distribution_registry.host, repository)
    ports = program.ports(channel, flux_releases, pair)
    base = init(channel, Version.parse(BEFORE), ports, program.intent()).digest
    with ExitStack() as stack:
        workers = stack.enter_context(ThreadPoolExecutor(4))

        def updater(version: str) -> Updater:
            proxy = stack.enter_context(Proxy(distribution_registry.proxy.upstream))
            seen_as = program.channel(proxy.host, repository)
            known_as(seen_as, channel, base, ports)
            config = program.configuration(tmp_path / f"{version}.yaml", seen_as, flux_releases, range=f"<={version}")
            return Updater(proxy, version, seen_as, config, pair.signing, workers)

        yield Scene(updater(ONE), updater(OTHER), base, ports, channel)


def known_as(seen_as: Reference, channel: Reference, base: Digest, ports: Ports) -> None:
    """Let the base have a record for the address that an updater knows the channel by, that of its own proxy."""
    assert ports.trusted is not None
    assert ports.signer is not None
    (record,) = Ledger(ports.registry, channel, ports.trusted).records(base)
    manifest = ports.registry.manifest(channel.at_digest(base))
    RecordWriter(ports.registry, channel, ports.signer).write(manifest, replace(record, channel=str(seen_as)))


def wait(barrier: threading.Barrier) -> None:
    """Wait until the other is there too."""
    barrier.wait()


def lost(done: program.Done, *digests: Digest) -> None:
    """Check that an updater says that it lost a race, and between which digests the channel moved."""
    assert done.code == 12, done.errors
    assert done.error in {"channel-moved", "tag-moved"}
    assert "moved from" in done.errors
    assert all(str(digest) in done.errors for digest in digests), done.errors
    assert re.search("Another writer moved the (channel|tag)", done.errors)


def test_who_looks_again_and_finds_the_channel_moved_leaves_it_alone(scene: Scene) -> None:
    results: list[program.Done] = []
    scene.one.at("HEAD", CHANNEL, lambda: results.append(scene.other.run()))
    loser = scene.one.run()
    (winner,) = results
    assert winner.code == 0, winner.errors
    assert scene.now() == scene.target(OTHER)
    lost(loser, scene.base, scene.target(OTHER))
    assert not [request for request in scene.one.proxy.requests if request.method == "PUT" and CHANNEL in request.path]


def test_of_two_who_move_the_channel_at_once_the_first_hears_that_it_was_overtaken(scene: Scene) -> None:
    looked, moved = (threading.Barrier(2, timeout=COMMAND) for _ in range(2))
    for updater in (scene.one, scene.other):
        updater.at("PUT", CHANNEL, lambda: wait(looked))
        updater.at("HEAD", CHANNEL, lambda: wait(moved), nth=2)
    runs = {updater.version: updater.start() for updater in (scene.one, scene.other)}
    done = {version: run.result(COMMAND) for version, run in runs.items()}
    assert sorted(result.code for result in done.values()) == [0, 12]
    winner, loser = sorted(done, key=lambda version: done[version].code)
    assert scene.now() == scene.target(winner)
    lost(done[loser], scene.target(loser), scene.target(winner))


@pytest.mark.parametrize("path", [CHANNEL, ".sig"], ids=["moving the channel", "signing"])
def test_two_who_want_the_same_at_once_both_have_it(
    path: str, scene: Scene, cosign_key: KeyPair, pair: program.Pair
) -> None:
    barrier = threading.Barrier(2, timeout=COMMAND)
    arrived = 0

    def hold(_number: int, method: str, where: str) -> None:
        nonlocal arrived
        if method == "PUT" and where.endswith(path):
            arrived += 1
            barrier.wait()

    scene.other.proxy.before = hold
    runs = [scene.other.start() for _ in range(2)]
    assert [run.result(COMMAND).code for run in runs] == [0, 0]
    assert arrived == 2
    assert scene.now() == scene.target(OTHER)
    keys = KeyPair(pair.private, pair.public, cosign_key.trusted_root)
    assert len(keys.verify(str(scene.channel.at_digest(scene.now())).removeprefix("oci://"))) == 1


@pytest.mark.parametrize("reached", [False, True], ids=["the request was lost", "the answer was lost"])
def test_a_move_that_broke_off_is_not_repeated_over_somebody_elses(reached: bool, scene: Scene) -> None:
    results: list[program.Done] = []

    def break_off() -> None:
        results.append(scene.other.run())
        raise Drop

    if reached:
        scene.one.after("PUT", CHANNEL, break_off)
    else:
        scene.one.at("PUT", CHANNEL, break_off)
    loser = scene.one.run()
    (winner,) = results
    assert winner.code == 0, winner.errors
    assert scene.now() == scene.target(OTHER)
    lost(loser, scene.base, scene.target(OTHER))


def test_in_the_one_request_that_no_registry_guards_the_later_write_stays_signed_and_the_next_run_mends_it(
    scene: Scene,
) -> None:
    """A registry cannot compare and swap a tag: that is why publishing jobs of one artifact never run side by side."""
    results: list[program.Done] = []
    scene.one.at("PUT", CHANNEL, lambda: results.append(scene.other.run()))
    assert scene.one.run().code == 0
    assert results[0].code == 0
    assert scene.now() == scene.target(ONE)
    scene.one.proxy.forget()
    # The next run comes by the same address: a record is about a channel under its address.
    config = scene.other.config.with_name("again.yaml")
    config.write_text(scene.other.config.read_text().replace(scene.other.proxy.host, scene.one.proxy.host))
    again = dataclasses.replace(scene.other, proxy=scene.one.proxy, config=config).run()
    assert again.code == 0, again.errors
    assert scene.now() == scene.target(OTHER)


def test_of_two_first_artifacts_one_is_the_first(
    distribution_registry: RealRegistry, repository: str, flux_releases: Path, pair: program.Pair
) -> None:
    results: list[program.Done] = []

    def start(host: str, version: str) -> program.Done:
        begin = ("--flux-version", version, "--releases", flux_releases)
        return program.flux_manifests("init", program.channel(host, repository), *begin, *pair.signing)

    with Proxy(distribution_registry.proxy.upstream) as proxy:
        looks = 0

        def before(_number: int, method: str, path: str) -> None:
            nonlocal looks
            if method == "HEAD" and path.endswith(CHANNEL):  # the record is uploaded beside the second look
                looks += 1
                if looks == 2:
                    results.append(start(distribution_registry.host, OTHER))

        proxy.before = before
        loser = start(proxy.host, ONE)
    (winner,) = results
    assert winner.code == 0, winner.errors
    channel = program.channel(distribution_registry.host, repository)
    ports = program.ports(channel, flux_releases, pair)
    digest = ports.registry.resolve(channel)
    assert digest is not None
    assert ports.registry.resolve(channel.at_tag(f"{OTHER}-{digest.short}")) == digest
    assert (loser.code, loser.error) == (12, "channel-moved")
    assert f"moved from nothing to {digest}" in loser.errors


@pytest.mark.parametrize("kind", ["registry", "layout"])
def test_whoever_runs_when_it_pleases_gets_through_or_hears_of_a_conflict(
    kind: str,
    distribution_registry: RealRegistry,
    repository: str,
    flux_releases: Path,
    pair: program.Pair,
    tmp_path: Path,
) -> None:
    channel = program.channel(distribution_registry.host, repository)
    if kind == "layout":
        channel = Reference.parse_channel(f"layout:{tmp_path / 'layout'}:production")
    ports = program.ports(channel, flux_releases, pair)
    init(channel, Version.parse(BEFORE), ports, program.intent())
    goals = ("v2.8.6", ONE, OTHER, OTHER)
    configurations = [
        program.configuration(tmp_path / f"{number}.yaml", channel, flux_releases, range=f"<={goal}")
        for number, goal in enumerate(goals)
    ]
    arguments = [("update", "production", *pair.signing, "--config", file) for file in configurations]
    with ThreadPoolExecutor(len(goals)) as workers:
        done = list(workers.map(lambda each: program.flux_manifests(*each), arguments))
    for result in done:
        assert result.code in {0, 12}, result.errors
        assert result.code == 0 or result.error == "channel-moved"
    assert 0 in {result.code for result in done}
    digest = ports.registry.resolve(channel)
    assert digest is not None
    assert ports.trusted is not None
    verify(ports.registry, channel, digest, ports.trusted)
    assert program.flux_manifests(*arguments[-1]).code == 0
    digest = ports.registry.resolve(channel)
    assert digest is not None
    assert ports.registry.resolve(channel.at_tag(f"{OTHER}-{digest.short}")) == digest
