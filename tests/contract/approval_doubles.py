"""What the tests of desks share: a question, a GitHub to ask it on, and runs that die at any request."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ci_automation.approval.port import Question
from ci_automation.artifact.reference import Digest, Reference
from ci_automation.errors import Error
from ci_automation.flux.options import Options
from ci_automation.flux.proof import Proof
from ci_automation.flux.version import Version
from ci_automation.github.client import GitHub
from ci_automation.github.waiting import GitHubPatience
from ci_automation.net.waiting import Clock
from ci_automation.policy.decision import Decision
from ci_automation.policy.plan import Plan, PlannedStep
from ci_automation.report.notes import ReleaseNotes
from tests.fakes.forge.faults import LOST, RESET, Fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fakes.forge.faults import Faults
    from tests.fakes.forge.forge import Forge

CHANNEL = Reference.parse("oci://ghcr.io/acme/flux-manifests:production")
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
SOME = (ReleaseNotes(Version.parse("v2.9.4"), (), "now there are some"),)
_MANY = 40


def question(version: str = "v2.9.4", channel: Reference = CHANNEL) -> Question:
    """Return the question whether Flux `version` may be published on top of what the channel has."""
    old, new, base = Version.parse("v2.8.8"), Version.parse(version), Digest.of(b"base")
    step = PlannedStep(
        old, new, base, Digest.of(version.encode()), Decision.APPROVAL, ("a minor",), Options(), base, base, Proof.KNOWN
    )
    return Question(Plan(channel, old, base, (step,)), step)


def client(forge: Forge, permissions: dict[str, str], repository: str | None = None, **token: Any) -> GitHub:
    """Return a client with a token of these permissions alone, which waits for nothing."""
    text = forge.token(token.pop("kind", "actions"), repository, permissions, **token)
    return GitHub(text, forge.url, patience=GitHubPatience(attempts=2, clock=Clock(sleep=lambda _: None)))


def dying(number: int, fault: Fault) -> Faults:
    """Return the faults of a run that dies of one at its n-th request: from then on it asks nothing."""
    seen = [0]

    def of(_verb: str, _path: str, _body: object) -> Fault | None:
        seen[0] += 1
        return fault if seen[0] == number else RESET if seen[0] > number else None

    return of


def deaths() -> list[tuple[int, Fault]]:
    """Return every way to die: the n-th request was done and its answer lost, or it was not done."""
    return [(number, fault) for number in range(1, _MANY) for fault in (LOST, RESET)]


def die_everywhere(make: Callable[[], Forge], act: Callable[[Forge], object], state: Callable[[Forge], object]) -> int:
    """Return how many requests `act` takes, after it died at each and a re-run ended where no death would have led."""
    with make() as forge:
        again = forge.saved()
        act(forge)
        wanted, requests = state(forge), len(forge.requests)
        act(forge)
        assert state(forge) == wanted, "a second run changed something"
        for number, fault in deaths():
            if number > requests:
                break
            again()
            forge.faults.append(dying(number, fault))
            with suppress(Error):
                act(forge)
            forge.faults.clear()
            act(forge)
            assert state(forge) == wanted, f"a run that died at request {number} ({fault}) left another state"
    return requests
