"""A publication that is killed anywhere leaves a signed channel, and the next run ends as if nothing had happened."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from ci_automation.artifact.reference import Digest, Reference
from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.flows.apply import apply
from ci_automation.flows.files import read_plan_file
from ci_automation.flows.init import init
from ci_automation.flows.planning.plan import make_plan
from ci_automation.flows.ports import Intent
from ci_automation.flows.update import update
from ci_automation.flux.version import Version
from tests.real import program
from tests.real.crash import COSIGN, MOMENTS, at_each_request, killed, state, writes
from tests.real.peers import peer
from tests.real.processes import run
from tests.real.proxy import Proxy
from tests.real.share import dealt, kills, share

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ci_automation.flows.ports import Ports
    from tests.real.pipeline import KeyPair
    from tests.real.registries import RealRegistry

BEFORE, AFTER = "v2.8.5", "v2.8.8"
BESIDE = ("before", "after")  # a rename
OVERLAY = Tree(
    (TreeFile("kustomization.yaml", b"resources: [flux-system/gotk-components.yaml]\n"), TreeFile("b", b"\0\1\2"))
)
AT_RENAME = """\
import atexit, os, signal, sys

number, moment, real, seen = int(sys.argv.pop(1)), sys.argv.pop(1), os.replace, 0


def replace(*arguments, **more):
    global seen
    seen += 1
    if (seen, moment) == (number, "before"):
        os.kill(os.getpid(), signal.SIGKILL)
    real(*arguments, **more)
    if (seen, moment) == (number, "after"):
        os.kill(os.getpid(), signal.SIGKILL)


os.replace = replace
atexit.register(lambda: print(seen, "renames", file=sys.stderr))
from ci_automation.__main__ import main

main()
"""


@dataclass(frozen=True, slots=True)
class Job:
    """A publication: its command line, what was there before, and the same as a call."""

    arguments: Callable[[Reference], tuple[object, ...]]
    prepare: Callable[[Reference, Ports], object]
    repeat: Callable[[Reference, Ports], bool]  # whether something was published


@pytest.fixture(scope="module")
def pair(cosign_key: KeyPair) -> program.Pair:
    """Return cosign's key, without its password: opening it takes longer than all the rest."""
    return program.Pair.read(cosign_key.private, cosign_key.public)


@pytest.fixture(scope="module")
def signing(pair: program.Pair, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Return the options that sign with the key, which is in a file without a password."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    path = tmp_path_factory.mktemp("key") / "key.pem"
    path.write_bytes(pair.key.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return ("--signing", "key", "--key", str(path))


@pytest.fixture(params=["init", "update", "apply"])
def job(request: pytest.FixtureRequest, flux_releases: Path, signing: tuple[str, ...], tmp_path: Path) -> Job:
    """Return each kind of publication in turn."""
    folder = tmp_path / "overlay"
    folder.mkdir()
    for file in OVERLAY.files:
        (folder / file.path).write_bytes(file.content)
    wish = program.intent("v2.8.99", overlay=OVERLAY)
    common = (*signing, "--releases", flux_releases)

    def first(channel: Reference, ports: Ports) -> bool:
        return not init(channel, Version.parse(BEFORE), ports, wish).is_there

    if request.param == "init":
        return Job(
            lambda channel: ("init", channel, "--flux-version", BEFORE, "--overlay", folder, *common),
            lambda _channel, _ports: None,
            first,
        )
    if request.param == "update":
        return Job(
            lambda channel: ("update", channel, *common),
            first,
            lambda channel, ports: update(channel, ports, program.intent("v2.8.99")).done > 0,
        )

    def plan_file(channel: Reference) -> Path:
        return tmp_path / f"{Digest.of(str(channel).encode()).hex}.json"

    def planned(channel: Reference, ports: Ports) -> None:
        first(channel, ports)
        plan_file(channel).write_text(make_plan(channel, ports, Intent(program.NOW)).plan.to_text())

    def approved(channel: Reference) -> Digest:
        return read_plan_file(plan_file(channel)).steps[-1].target

    def applied(channel: Reference, ports: Ports) -> bool:
        plan, before = read_plan_file(plan_file(channel)), ports.registry.resolve(channel)
        done = apply(plan, {plan.steps[-1].target}, ports, Intent(program.NOW)).done
        assert done == len(plan.steps) == 2
        return ports.registry.resolve(channel) != before

    return Job(lambda channel: ("apply", plan_file(channel), "--approve", approved(channel), *common), planned, applied)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_kill_at_any_request_leaves_a_signed_channel_and_the_next_run_finishes_the_work(
    moment: str,
    job: Job,
    distribution_registry: RealRegistry,
    repository: str,
    flux_releases: Path,
    pair: program.Pair,
    cosign_key: KeyPair,
) -> None:
    def place(proxy: Proxy, name: object) -> tuple[Reference, Ports]:
        channel = program.channel(proxy.host, f"{repository}/{name}")
        ports = program.ports(channel, flux_releases, pair)
        job.prepare(channel, ports)
        proxy.forget()
        return channel, ports

    with Proxy(distribution_registry.proxy.upstream) as proxy:
        channel, ports = place(proxy, "undisturbed")
        base = state(channel, ports)
        proxy.forget()
        program.succeed(*job.arguments(channel))
        requests = proxy.requests
        expected = state(channel, ports)
        assert set(expected.signatures.values()) == set(expected.records.values()) == {1}
    assert len(requests) > 20
    numbers = kills(requests, MOMENTS.index(moment), len(MOMENTS))
    looked_at = set(numbers[::COSIGN])

    def case(number: int) -> None:
        with Proxy(distribution_registry.proxy.upstream) as proxy:
            channel, ports = place(proxy, number)
            killed(proxy, job.arguments(channel), number, moment)
            left = state(channel, ports)
            assert left.channel in {base.channel, *expected.tags.values()}
            assert {tag: left.tags[tag] for tag in left.tags if tag != "production"}.items() <= expected.tags.items()
            if left.channel and number in looked_at:
                cosign_key.verify(f"{channel.repository}@{left.channel}".removeprefix("oci://"))
            moved = left.channel == expected.channel
            assert job.repeat(channel, ports) is not moved
            assert state(channel, ports).is_as_after(expected)
            if number in looked_at:
                cosign_key.verify(f"{channel.repository}@{expected.channel}".removeprefix("oci://"))
            proxy.forget()
            assert not job.repeat(channel, ports)
            assert writes(proxy.requests) == []

    at_each_request(case, numbers, moment)


@pytest.mark.parametrize("moment", BESIDE)
def test_a_kill_at_any_rename_leaves_a_whole_layout_and_the_next_run_finishes_the_work(
    moment: str, job: Job, flux_releases: Path, pair: program.Pair, tmp_path: Path
) -> None:
    script = tmp_path / "at_rename.py"
    script.write_text(AT_RENAME)

    def place(name: object) -> tuple[Reference, Ports]:
        channel = Reference.parse_channel(f"layout:{tmp_path / str(name)}:production")
        ports = program.ports(channel, flux_releases, pair)
        job.prepare(channel, ports)
        return channel, ports

    channel, ports = place("undisturbed")
    base = state(channel, ports)
    done = program.flux_manifests(0, moment, *job.arguments(channel), script=script)
    assert done.code == 0, done.errors
    renames = int(re.findall(r"^(\d+) renames$", done.errors, re.MULTILINE)[0])
    assert renames > 8
    expected = state(channel, ports)
    assert set(expected.signatures.values()) == set(expected.records.values()) == {1}

    for number in dealt(share(range(1, renames + 1)), BESIDE.index(moment), len(BESIDE)):
        channel, ports = place(number)
        done = program.flux_manifests(number, moment, *job.arguments(channel), script=script)
        assert done.code == -signal.SIGKILL, done.errors
        left = state(channel, ports)
        assert left.channel in {base.channel, *expected.tags.values()}
        moved = left.channel == expected.channel
        assert job.repeat(channel, ports) is not moved
        after = state(channel, ports)
        assert after.is_as_after(expected)
        assert not job.repeat(channel, ports)
        assert state(channel, ports) == after
        tags = run([peer("oras"), "repo", "tags", "--oci-layout", tmp_path / str(number)]).split()
        assert sorted(tags) == sorted([*expected.tags, *(f"{d.replace(':', '-')}.sig" for d in expected.signatures)])
