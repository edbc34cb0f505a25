"""A keyless publication that is killed anywhere, or that finds a service down, leaves a signed channel.

The next run ends as if nothing had happened: with the same digest, and beside it one signature in each format, one
attestation of each kind, and one record.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

import pytest

from ci_automation.artifact.reference import Digest
from ci_automation.flows.update import update
from ci_automation.flux.version import Version
from ci_automation.records.ledger import Ledger
from ci_automation.signing import bundle, legacy
from ci_automation.signing.verify import verify
from tests.fakes.sigstore import WORKFLOW, LocalSigstore
from tests.fakes.sigstore.server import SERVICES
from tests.real import cosign, program
from tests.real.crash import writes
from tests.real.peers import peer
from tests.real.processes import COMMAND, run, wait_until
from tests.real.proxy import Proxy, kill_after
from tests.real.share import kills, share
from tests.real.stage import BOTH, BUNDLE, LEGACY, OWN_ONE, Place, Sigstore, World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from ci_automation.policy.model import SignatureFormat
    from tests.real.proxy import Request
    from tests.real.registries import RealRegistry

    Make = Callable[[Proxy, LocalSigstore, object], "Channel"]

T = TypeVar("T")

BEFORE = Version.parse("v2.9.0")
COSIGN = 6  # so many cases for one that cosign looks at too
AT_ONCE, AT_ONCE_WAITING = 3, 6
ERRORS = {"oidc": "token-service-failed", "fulcio": "fulcio-failed", "rekor": "rekor-failed"}


@dataclass(frozen=True, slots=True)
class Kind:
    """How a publication is signed, and in which registry."""

    registry: str
    form: SignatureFormat
    attestations: bool = False

    @property
    def formats(self) -> tuple[SignatureFormat, ...]:
        """Each format in which everything has to be signed."""
        return (LEGACY, BUNDLE) if self.form is BOTH else (self.form,)

    @property
    def options(self) -> tuple[str, ...]:
        """The options that say so."""
        return (f"--signature-format={self.form}", *(("--attestations",) if self.attestations else ()))


KINDS = {
    "legacy": Kind("referrers_registry", LEGACY),
    "both and attestations": Kind("distribution_registry", BOTH, attestations=True),
}


@dataclass(frozen=True, slots=True)
class State:
    """What a repository shows of itself: where each tag is, and how much of what each digest has beside it."""

    tags: Mapping[str, str]
    beside: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel behind a proxy, and behind the same one its Sigstore: all that a process does is one list."""

    place: Place
    kind: Kind
    proxy: Proxy

    @property
    def own(self) -> Sigstore:
        """The Sigstore."""
        return self.place.world.own

    def command(self) -> tuple[list[str], dict[str, str]]:
        """Return what updates the channel in a job of GitHub Actions: a command line, and its environment."""
        here, there = f"http://{self.proxy.host}", self.own.local.url
        config = self.own.folder / "behind_proxy.json"
        config.write_text(self.own.config.read_text().replace(there, here))
        told = {name: value.replace(there, here) for name, value in self.own.local.environment().items()}
        policy = program.configuration(self.own.folder / "config.yaml", self.place.channel, self.place.releases)
        line = program.command(
            "update", self.place.channel, "--config", policy, "--trust-config", config, *self.kind.options
        )
        return line, program.environment(**told)

    def run(self) -> program.Done:
        """Let a process update the channel."""
        line, environment = self.command()
        done = subprocess.run(
            line, cwd="/", env=environment, capture_output=True, text=True, timeout=COMMAND, check=False
        )
        return program.Done(done.returncode, done.stdout, done.stderr)

    def run_until(self, number: int) -> None:
        """Let a process update the channel, and kill it as soon as its request of that number has been done."""
        client: Future[subprocess.Popen[str]] = Future()

        def kill() -> None:
            client.result(COMMAND).kill()
            client.result().wait(COMMAND)

        self.proxy.forget()
        self.proxy.after = kill_after(number, kill)
        line, environment = self.command()
        with subprocess.Popen(
            line, cwd="/", env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as process:
            client.set_result(process)
            _, errors = process.communicate(timeout=COMMAND)
        assert process.returncode == -signal.SIGKILL, errors
        # Nothing of it may still be on its way: whoever runs next comes minutes later.
        wait_until(
            lambda: True if len(self.proxy.requests) >= number else None, COMMAND, lambda: "the request came to no end"
        )
        self.proxy.forget()

    def repeat(self) -> int:
        """Update the channel in this process, and return how many steps that took."""
        wish = program.intent("v2.9.99", signature_format=self.kind.form, attestations=self.kind.attestations)
        return update(self.place.channel, self.place.ports(self.own.signer), wish).done

    def state(self) -> State:
        """Return what is there, after checking that each tag points at a digest that is signed in each format."""
        registry, channel = self.place.registry, self.place.channel
        tags: dict[str, str] = {}
        for tag in registry.tags(channel):
            if not tag.startswith("sha256-"):  # signatures, and the index of referrers
                found = registry.resolve(channel.at_tag(tag))
                assert found is not None
                for form in self.kind.formats:
                    verify(registry, channel, found, self.own.trusted(), form)
                tags[tag] = str(found)
        return State(tags, {digest: self._beside(Digest.parse(digest)) for digest in set(tags.values())})

    def _beside(self, digest: Digest) -> Mapping[str, int]:
        registry, channel, trusted = self.place.registry, self.place.channel, self.own.trusted()
        said = (bundle.proven(each, trusted) for each in bundle.read_bundles(registry, channel, digest))
        found = Counter(json.loads(each[1])["predicateType"] for each in said if each)
        found[".sig"] = len(legacy.signatures(registry, channel, digest))
        found["record"] = len(Ledger(registry, channel, trusted).all_records(digest))
        return found

    def check_finished(self, expected: State) -> None:
        """Check that the next run finishes the work, and that the one after it has nothing to do."""
        moved = self.state().tags["production"] == expected.tags["production"]
        assert self.repeat() == (0 if moved else 1)
        assert self.state() == expected
        self.proxy.forget()
        assert self.repeat() == 0
        assert writes(self.proxy.requests) == []

    def check_with_cosign(self, files: cosign.Files) -> None:
        """Check that cosign 2.6.1 accepts the channel's signature, and 3.0.6 its bundles."""
        name = f"{self.place.channel.repository}@{self.state().tags['production']}".removeprefix("oci://")
        assert cosign.verify_legacy(WORKFLOW, files, name)
        if BUNDLE in self.kind.formats:
            assert cosign.verify_bundle(WORKFLOW, files, name)


@pytest.fixture(params=KINDS.values(), ids=list(KINDS))
def make(request: pytest.FixtureRequest, repository: str, flux_releases: Path, tmp_path: Path) -> Make:
    """Return what makes a channel at an older release, signed by that Sigstore, as each kind in turn."""
    kind: Kind = request.param
    registry: RealRegistry = request.getfixturevalue(kind.registry)
    nowhere = program.channel(registry.proxy.upstream, repository)
    with LocalSigstore() as local:
        world = alone(Sigstore(local, tmp_path / "template"))
    template = Place.make(world, flux_releases, BEFORE, nowhere)

    def make(proxy: Proxy, local: LocalSigstore, name: object) -> Channel:
        proxy.upstream = registry.proxy.upstream
        proxy.routes = dict.fromkeys(("/api/", "/oidc/"), urlsplit(local.url).netloc)
        world = alone(Sigstore(local, tmp_path / f"{name}"))
        place = replace(template, world=world).at(program.channel(proxy.host, f"{repository}/{name}"))
        place.publish(OWN_ONE, kind.form, attestations=kind.attestations)
        proxy.forget()
        return Channel(place, kind, proxy)

    return make


def alone(sigstore: Sigstore) -> World:
    """Return a world with one Sigstore."""
    return World(sigstore, sigstore)


def service(path: str) -> str:
    """Return which service a request is for; empty for the registry."""
    return next((name for name, pattern in SERVICES.items() if re.fullmatch(pattern, urlsplit(path).path)), "")


def undisturbed(make: Make) -> tuple[State, list[Request]]:
    """Return what an update leaves that nothing goes wrong with, and what it asked for."""
    with Proxy() as proxy, LocalSigstore() as local:
        channel = make(proxy, local, "undisturbed")
        done = channel.run()
        assert done.code == 0, done.errors
        requests = proxy.requests
        return channel.state(), requests


def check_each(cases: Iterable[T], check: Callable[[T], None], at_once: int = AT_ONCE) -> None:
    """Check all cases, a few at a time; a failure names its case."""
    with ThreadPoolExecutor(at_once) as workers:
        outcomes = [(case, workers.submit(check, case)) for case in cases]
    for case, outcome in outcomes:
        if (error := outcome.exception()) is not None:
            error.add_note(f"in the case {case}")
            raise error


def check_left(channel: Channel, base: str, expected: State) -> None:
    """Check that the channel is where it was or where it shall be, and each other tag where it shall be."""
    left = channel.state().tags
    assert left["production"] in {base, expected.tags["production"]}
    assert {tag: left[tag] for tag in left if tag != "production"}.items() <= expected.tags.items()


def test_a_kill_after_any_request_leaves_a_signed_channel_and_the_next_run_finishes_the_work(
    make: Make, tmp_path: Path
) -> None:
    expected, requests = undisturbed(make)
    assert {service(request.path) for request in requests} == {"", "oidc", "fulcio", "rekor"}
    for beside in expected.beside.values():
        assert set(beside.values()) == {1}
    numbers = kills(requests)
    assert len(numbers) > 5
    looked_at = set(numbers[::COSIGN])

    def check(number: int) -> None:
        with Proxy() as proxy, LocalSigstore() as local:
            channel = make(proxy, local, number)
            base = channel.state().tags["production"]
            channel.run_until(number)
            check_left(channel, base, expected)
            channel.check_finished(expected)
            if number in looked_at:
                channel.check_with_cosign(cosign.Files.write(local, tmp_path / f"{number}" / "cosign"))

    check_each(numbers, check)


def test_a_service_that_fails_from_any_call_on_leaves_a_signed_channel_and_the_next_run_finishes_the_work(
    make: Make,
) -> None:
    expected, requests = undisturbed(make)
    calls = Counter(service(request.path) for request in requests if service(request.path))
    cases = share(
        ((name, number) for name, calls_of_it in calls.items() for number in range(1, calls_of_it + 1)),
        lambda case: case[0],
    )

    def check(case: tuple[str, int]) -> None:
        failing, number = case
        seen = 0

        def before(_number: int, _method: str, path: str) -> None:
            nonlocal seen
            seen += service(path) == failing
            if service(path) == failing and seen >= number:
                local.fail(failing, 500)

        with Proxy() as proxy, LocalSigstore() as local:
            channel = make(proxy, local, f"{failing}-{number}")
            base = channel.state().tags["production"]
            proxy.before = before
            done = channel.run()
            assert (done.code, done.error) == (22, ERRORS[failing]), done.errors
            assert "500" in done.errors
            check_left(channel, base, expected)
            channel.check_finished(expected)

    check_each(cases, check, AT_ONCE_WAITING)


def test_a_service_that_fails_for_a_moment_is_asked_again(make: Make) -> None:
    with Proxy() as proxy, LocalSigstore() as local:
        channel = make(proxy, local, "moment")
        for name in ERRORS:
            local.fail(name, 500, "reset")
        done = channel.run()
        assert done.code == 0, done.errors
        state = channel.state()
        assert set(state.beside[state.tags["production"]].values()) == {1}


@pytest.mark.parametrize("make", [KINDS["legacy"]], ids=["legacy"], indirect=True)
def test_a_channel_that_lost_its_signature_is_signed_again_once_the_log_is_back(make: Make) -> None:
    with Proxy() as proxy, LocalSigstore() as local:
        channel = make(proxy, local, "healed")
        assert channel.repeat() == 1
        expected, place = channel.state(), channel.place
        where = legacy.signature_reference(place.channel, Digest.parse(expected.tags["production"]))
        run([peer("crane"), "delete", "--insecure", str(where).removeprefix("oci://")])
        assert place.registry.resolve(where) is None

        local.fail("rekor", *[500] * 4)
        done = channel.run()
        assert (done.code, done.error) == (22, ERRORS["rekor"]), done.errors
        assert str(place.registry.resolve(place.channel)) == expected.tags["production"]
        assert channel.repeat() == 0
        assert channel.state() == expected
