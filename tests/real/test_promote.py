"""Three channels in two real registries: the digest stays, cosign verifies it, and a kill changes nothing of that."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.flows.init import init
from ci_automation.flows.planning.promotion import Promotion
from ci_automation.flows.promote import promote
from ci_automation.flows.update import update
from ci_automation.flux.version import Version
from ci_automation.policy.model import SignatureFormat
from ci_automation.records.ledger import Ledger
from ci_automation.signing.verify import verify
from tests.real import program
from tests.real.crash import COSIGN, MOMENTS, at_each_request, killed, state, writes
from tests.real.proxy import Proxy, Request
from tests.real.share import kills

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ci_automation.artifact.reference import Digest, Reference
    from ci_automation.flows.ports import Ports
    from tests.real.crash import State
    from tests.real.pipeline import KeyPair
    from tests.real.registries import RealRegistry

BEFORE, AFTER = Version.parse("v2.8.5"), Version.parse("v2.8.8")
OVERLAY = Tree((TreeFile("notes.txt", b"for people\n"),))
NAMES = ("edge", "staging", "production")
# Not in the middle of one: the registry with the API, which is for tests, stores what it got of a cut-off manifest.
WHOLE = MOMENTS[::2]


def _nothing(*_: object) -> None:
    pass


@dataclass(slots=True)
class Both:
    """Two proxies as one: their requests have one number."""

    proxies: tuple[Proxy, Proxy]
    asked: list[Request] = field(default_factory=list)  # in the order in which they came, of both
    _numbers: dict[tuple[int, int], int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _before: Callable[[int, str, str], None] = _nothing
    _after: Callable[[int, str, str, int], None] = _nothing

    @property
    def requests(self) -> list[Request]:
        """The requests to both."""
        return [request for proxy in self.proxies for request in proxy.requests]

    @property
    def busy(self) -> bool:
        """Whether a request to either was neither answered nor dropped yet."""
        return any(proxy.busy for proxy in self.proxies)

    def forget(self) -> None:
        """Start anew, and let nobody interfere."""
        for proxy in self.proxies:
            proxy.forget()
        self._numbers.clear()
        self.asked.clear()
        self._before, self._after = _nothing, _nothing
        for place, proxy in enumerate(self.proxies):
            self._listen(place, proxy)

    def _listen(self, place: int, proxy: Proxy) -> None:
        def before(number: int, method: str, path: str) -> None:
            with self._lock:
                mine = self._numbers[place, number] = len(self._numbers) + 1
                self.asked.append(Request(method, path, 0))
            self._before(mine, method, path)

        def after(number: int, method: str, path: str, status: int) -> None:
            self._after(self._numbers[place, number], method, path, status)

        proxy.before, proxy.after = before, after

    @property
    def before(self) -> Callable[[int, str, str], None]:
        """What runs before a request to either."""
        return self._before

    @before.setter
    def before(self, what: Callable[[int, str, str], None]) -> None:
        self._before = what

    @property
    def after(self) -> Callable[[int, str, str, int], None]:
        """What runs after a request to either."""
        return self._after

    @after.setter
    def after(self, what: Callable[[int, str, str, int], None]) -> None:
        self._after = what


@dataclass(frozen=True, slots=True)
class Line:
    """Three channels, of which the first has a newer release than the others; each hands on to the next."""

    channels: tuple[Reference, Reference, Reference]
    ports: tuple[Ports, Ports, Ports]
    config: Path

    @classmethod
    def make(cls, hosts: tuple[str, str], name: str, releases: Path, pair: program.Pair, folder: Path) -> Line:
        """Return the line, once its channels are there: two in the first registry, one in the second."""
        first, second = hosts
        places = zip((first, first, second), NAMES, strict=True)
        channels = tuple(program.channel(host, f"{name}/{each}") for host, each in places)
        ports = tuple(program.ports(channel, releases, pair) for channel in channels)
        wish = program.intent("v2.8.99", overlay=OVERLAY)
        for channel, own in zip(channels, ports, strict=True):
            init(channel, BEFORE, own, wish)
        both = replace(program.intent("v2.8.99"), signature_format=SignatureFormat.BOTH, attestations=True)
        quiet = replace(both, policy=replace(both.policy, escalate=frozenset()))
        assert update(channels[0], ports[0], quiet).done == 1
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "flux-manifests.json"
        path.write_text(json.dumps(configuration(channels, releases, pair)))
        return cls(channels, ports, path)  # type: ignore[arg-type]  # three, as there are names

    @property
    def command(self) -> tuple[object, ...]:
        """The command line that promotes all along."""
        return ("promote", "--config", self.config)

    def digests(self) -> list[Digest | None]:
        """Return where the channels are."""
        return [own.registry.resolve(channel) for channel, own in zip(self.channels, self.ports, strict=True)]

    def states(self) -> list[State]:
        """Return what the repositories show, every tag of them signed."""
        return [state(channel, own) for channel, own in zip(self.channels, self.ports, strict=True)]

    def repeat(self) -> int:
        """Do in this process what the command does, and return how many channels moved."""
        wish = program.intent("v2.8.99")
        wish = replace(wish, policy=replace(wish.policy, escalate=frozenset()))
        legs = [
            Promotion(
                self.channels[number], self.ports[number], self.channels[number + 1], self.ports[number + 1], wish
            )
            for number in (0, 1)
        ]
        return sum(promote(leg).done for leg in legs)


def configuration(channels: tuple[Reference, ...], releases: Path, pair: program.Pair) -> dict[str, object]:
    """Return a configuration in which each channel is promoted from the one before."""
    ages = {"patch": "0", "minor": "0", "major": "0"}
    policy = {"patch": "auto", "minor": "auto", "major": "auto", "minReleaseAge": ages, "escalate": []}
    artifacts: list[dict[str, object]] = [
        {"name": name, "url": str(channel)} for name, channel in zip(NAMES, channels, strict=True)
    ]
    for before, artifact in zip(NAMES, artifacts[1:], strict=False):
        artifact["promote"] = {"from": before}
    return {
        "version": 1,
        "source": f"dir:{releases}",
        "defaults": {
            "policy": policy,
            "signing": {"mode": "key", "key": str(pair.private)},
            "verify": {"publicKey": str(pair.public)},
        },
        "artifacts": artifacts[::-1],  # the order of the file is not that of the waves
    }


@pytest.fixture(scope="module")
def pair(cosign_key: KeyPair, tmp_path_factory: pytest.TempPathFactory) -> program.Pair:
    """Return cosign's key without its password: opening it takes longer than all the rest."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    own = program.Pair.read(cosign_key.private, cosign_key.public)
    path = tmp_path_factory.mktemp("key") / "key.pem"
    path.write_bytes(own.key.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return program.Pair(path, cosign_key.public, own.key)


@pytest.fixture
def both(distribution_registry: RealRegistry, referrers_registry: RealRegistry) -> Iterator[Both]:
    """Yield doors of one's own to the two registries."""
    with Proxy(distribution_registry.proxy.upstream) as one, Proxy(referrers_registry.proxy.upstream) as other:
        yield Both((one, other))


def test_the_digest_stays_from_the_first_channel_to_the_last(
    both: Both, repository: str, flux_releases: Path, pair: program.Pair, cosign_key: KeyPair, tmp_path: Path
) -> None:
    hosts = (both.proxies[0].host, both.proxies[1].host)
    line = Line.make(hosts, repository, flux_releases, pair, tmp_path)
    edge, *others = line.digests()
    assert edge not in others
    both.forget()
    said = program.succeed(*line.command)
    assert [each["name"] for each in said["promotions"]] == ["staging", "production"]
    assert all(each["changed"] and each["decision"] == "auto" for each in said["promotions"])
    assert line.digests() == [edge] * 3
    mounted = [request for request in both.proxies[0].requests if "mount=" in request.path]
    assert mounted
    assert {request.status for request in mounted} == {201}
    assert not [request for request in both.proxies[1].requests if "mount=" in request.path]
    assert edge is not None
    first = line.channels[0]
    kept = {each.digest for each in line.ports[0].registry.referrers(first, edge)}
    assert len(kept) == 4  # a signature, provenance, the list of contents, and a record
    for number in (1, 2):
        channel, own = line.channels[number], line.ports[number]
        assert own.trusted is not None
        cosign_key.verify(f"{channel.repository}@{edge}".removeprefix("oci://"))
        verify(own.registry, channel, edge, own.trusted, SignatureFormat.BUNDLE)
        verify(own.registry, channel, edge, own.trusted, SignatureFormat.LEGACY)
        assert own.registry.manifest(channel).raw == line.ports[0].registry.manifest(first).raw
        assert kept <= {each.digest for each in own.registry.referrers(channel, edge)}
        (record,) = (
            it for it in Ledger(own.registry, channel, own.trusted).all_records(edge) if it.channel == str(channel)
        )
        assert record.promoted_from == str(line.channels[number - 1])
        assert (record.previous, record.version) == (others[number - 1], AFTER)
    assert [each.channel for each in line.states()] == [str(edge)] * 3
    both.forget()
    assert not any(each["changed"] for each in program.succeed(*line.command)["promotions"])
    assert writes(both.requests) == []


def test_a_channel_waits_for_its_time_and_says_until_when(
    both: Both, repository: str, flux_releases: Path, pair: program.Pair, tmp_path: Path
) -> None:
    hosts = (both.proxies[0].host, both.proxies[1].host)
    line = Line.make(hosts, repository, flux_releases, pair, tmp_path)
    before = line.digests()
    own = ("--config", line.config)
    done = program.flux_manifests("promote", "--from", "edge", "--to", "staging", "--after", "72h", *own)
    assert (done.code, done.error) == (11, "promotion-refused")
    assert "the source must have had it for " in done.output
    assert line.digests() == before
    program.succeed("promote", "--from", "edge", "--to", "staging", *own)
    assert line.digests() == [before[0], before[0], before[2]]


@pytest.fixture
def upstreams(distribution_registry: RealRegistry, referrers_registry: RealRegistry) -> tuple[str, str]:
    """Return where the two registries are."""
    return distribution_registry.proxy.upstream, referrers_registry.proxy.upstream


@pytest.mark.parametrize("moment", WHOLE)
def test_a_kill_at_any_request_leaves_signed_channels_and_the_next_run_finishes_the_work(
    moment: str,
    upstreams: tuple[str, str],
    repository: str,
    flux_releases: Path,
    pair: program.Pair,
    cosign_key: KeyPair,
    tmp_path: Path,
) -> None:
    def place(proxies: Both, name: object) -> Line:
        hosts = (proxies.proxies[0].host, proxies.proxies[1].host)
        line = Line.make(hosts, f"{repository}/{name}", flux_releases, pair, tmp_path / str(name))
        proxies.forget()
        return line

    with Proxy(upstreams[0]) as one, Proxy(upstreams[1]) as other:
        both = Both((one, other))
        line = place(both, "undisturbed")
        base = line.states()
        both.forget()
        program.succeed(*line.command)
        asked, expected = [*both.asked], line.states()
    assert len(writes(asked)) > 30
    numbers = kills(asked, WHOLE.index(moment), len(WHOLE))
    looked_at = set(numbers[::COSIGN])

    def case(number: int) -> None:
        with Proxy(upstreams[0]) as one, Proxy(upstreams[1]) as other:
            both = Both((one, other))
            line = place(both, number)
            killed(both, line.command, number, moment)  # type: ignore[arg-type]  # two in the place of one
            left = line.states()
            for now, was, will in zip(left, base, expected, strict=True):
                assert now.channel in {was.channel, will.channel}
                tags = {tag: now.tags[tag] for tag in now.tags if tag != "production"}
                assert tags.items() <= will.tags.items()
            moved = sum(now.channel == will.channel for now, will in zip(left, expected, strict=True)) - 1
            assert line.repeat() == 2 - moved
            for now, will in zip(line.states(), expected, strict=True):
                assert now.is_as_after(will)
            if number in looked_at:
                last = line.channels[2]
                cosign_key.verify(f"{last.repository}@{expected[2].channel}".removeprefix("oci://"))
            both.forget()
            assert line.repeat() == 0
            assert writes(both.requests) == []

    at_each_request(case, numbers, moment)
