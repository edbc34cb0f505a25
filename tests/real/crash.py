"""What tests of crashes share: killing the program at a request, and what a repository shows of itself afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_automation.artifact.reference import Digest
from ci_automation.records import attached
from ci_automation.records.ledger import Ledger
from ci_automation.signing import bundle, legacy
from ci_automation.signing.verify import verify
from tests.real import program
from tests.real.processes import COMMAND, wait_until
from tests.real.proxy import Drop, kill_after
from tests.real.share import READS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.ports import Ports
    from tests.real.proxy import Proxy, Request

MOMENTS = ("before it reached the registry", "while it was on its way", "when the registry had done it")
COSIGN = 6  # so many cases for one that cosign looks at too


@dataclass(frozen=True, slots=True)
class State:
    """What a repository shows of itself: where each tag is; how many signatures, bundles, records each digest has."""

    tags: dict[str, str]
    signatures: dict[str, int]
    bundles: dict[str, int]
    records: dict[str, int]

    @property
    def channel(self) -> str | None:
        """Where the channel is."""
        return self.tags.get("production")

    def is_as_after(self, undisturbed: State) -> bool:
        """Return whether all is as after a run that nobody killed.

        Only a step that lies behind the channel may be without its record, which is for people to read: the next one's
        record says that the channel was there.
        """
        assert set(self.records.values()) <= {0, 1}
        assert self.channel is not None
        same = (self.tags, self.signatures, self.bundles) == (
            undisturbed.tags,
            undisturbed.signatures,
            undisturbed.bundles,
        )
        return same and self.records.keys() == undisturbed.records.keys() and self.records[self.channel] == 1


def state(channel: Reference, ports: Ports) -> State:
    """Return what is in a repository, after checking that every tag but the signatures' points at a signed digest."""
    assert ports.trusted is not None
    found = State({}, {}, {}, {})
    name = attached.channel_name(ports.registry, channel)
    for tag in ports.registry.tags(channel):
        if tag.endswith(".sig"):
            digest = Digest.parse(tag.removesuffix(".sig").replace("-", ":"))
            found.signatures[str(digest)] = len(legacy.signatures(ports.registry, channel, digest))
        elif not tag.startswith("sha256-"):  # the index of referrers
            named = ports.registry.resolve(channel.at_tag(tag))
            assert named is not None
            verify(ports.registry, channel, named, ports.trusted)
            ports.registry.manifest(channel.at_digest(named))
            found.tags[tag] = str(named)
            found.bundles[str(named)] = len(tuple(bundle.read_bundles(ports.registry, channel, named)))
            believed = Ledger(ports.registry, channel, ports.trusted).all_records(named)
            found.records[str(named)] = sum(record.channel == name for record in believed)
    return found


def killed(proxy: Proxy, arguments: tuple[object, ...], number: int, moment: str, **environment: str) -> None:
    """Run the program and kill it at its request of that number."""
    client: Future[subprocess.Popen[bytes]] = Future()

    def kill() -> None:
        client.result(COMMAND).kill()
        client.result().wait(COMMAND)

    def before(seen: int, _method: str, _path: str) -> None:
        if seen == number:
            kill()
        if seen > number or (seen == number and moment == MOMENTS[0]):
            raise Drop

    if moment == MOMENTS[2]:
        proxy.after = kill_after(number, kill)
    else:
        proxy.before = before
    own = program.environment(**environment)
    with subprocess.Popen(
        program.command(*arguments), cwd="/", env=own, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        client.set_result(process)
        _, errors = process.communicate(timeout=COMMAND)
    assert process.returncode == -signal.SIGKILL, errors
    # The registry may still be at it; whoever runs next comes minutes later.
    # A later request that came beside it may be dropped before it ends.
    wait_until(
        lambda: (len(proxy.requests) >= number and not proxy.busy) or None,
        COMMAND,
        lambda: "the request came to no end",
    )
    proxy.forget()


def writes(requests: Iterable[Request]) -> list[str]:
    """Return the paths of those requests that write."""
    return [request.path for request in requests if request.method not in READS]


def at_each_request(case: Callable[[int], None], numbers: list[int], moment: str) -> None:
    """Run the case of each request, several at a time, and raise what the first that fails raises."""
    assert numbers
    with ThreadPoolExecutor(os.cpu_count()) as cases:
        outcomes = {number: cases.submit(case, number) for number in numbers}
    for number, outcome in outcomes.items():
        if (error := outcome.exception()) is not None:
            error.add_note(f"killed at request {number}, {moment}")
            raise error
