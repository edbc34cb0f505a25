"""Events to other repositories, on a GitHub with state: sent once, found again, and one failure stops no other."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ci_automation.approval.dispatch import Delivery, Dispatch, DispatchApprovals, EventType, Sender, Told, announce
from ci_automation.approval.port import ApprovalRequest, Approvals, Asked, AskedState
from ci_automation.errors import ReleaseSourceError
from ci_automation.github.errors import InvalidToken
from ci_automation.github.runs import Runs
from tests.contract.approval_doubles import NOW, client, die_everywhere, question
from tests.fakes.forge.faults import LOST, nth
from tests.fakes.forge.forge import Forge

if TYPE_CHECKING:
    from collections.abc import Iterator

DECIDER = "acme/decider"
LISTENER = b"""
name: Listen
run-name: "Flux ${{ github.event.client_payload.version }} (${{ github.event.client_payload.key }})"
on: {repository_dispatch: {types: [flux-manifests-update-requested, flux-manifests-published]}}
jobs: {listen: {runs-on: ubuntu-latest, steps: [{run: "true"}]}}
"""
PATH = ".github/workflows/listen.yaml"
SENDER = Sender("acme/fleet", "https://github.com/acme/fleet/actions/runs/7")
SERVER = "https://github.com"
BOTH = {"contents": "write", "actions": "read"}
REQUEST = ApprovalRequest.of(question().plan, question().step)
PUBLISHED = Dispatch.telling(REQUEST, NOW, SENDER)


def made(flavour: str = "api.github.com", listener: bytes = LISTENER) -> Forge:
    """Return a GitHub with a repository that listens, and two more."""
    forge = Forge(flavour=flavour, now=lambda: NOW)
    forge.user("acme-bot")
    for name in (DECIDER, "acme/one", "acme/two"):
        forge.repository(name, {PATH: listener}).collaborators["acme-bot"] = "write"
    return forge


@pytest.fixture(params=["api.github.com", "ghes"])
def forge(request: pytest.FixtureRequest) -> Iterator[Forge]:
    """Yield it on github.com and on an Enterprise Server."""
    with made(request.param) as running:
        yield running


def receiver(forge: Forge, name: str = DECIDER, permissions: dict[str, str] | None = None) -> Runs:
    """Return what a machine's token can do with a repository."""
    return Runs(client(forge, permissions or BOTH, kind="pat", login="acme-bot"), name)


def ask(forge: Forge, permissions: dict[str, str] | None = None, slept: list[float] | None = None) -> Asked:
    """Ask, as a check of its own."""
    waits = slept if slept is not None else []
    to = receiver(forge, permissions=permissions)
    return DispatchApprovals(to, SERVER, SENDER, lambda: NOW, waits.append).ask(question())


def sent(forge: Forge) -> list[tuple[str, str, str]]:
    """Return what every repository was sent."""
    return [
        (name, kind, payload["key"])
        for name, repository in forge.repositories.items()
        for kind, payload in repository.dispatched
    ]


class TestAsking:
    def test_the_receiver_is_told_what_is_wanted(self, forge: Forge) -> None:
        slept: list[float] = []
        asked = ask(forge, slept=slept)
        ((kind, payload),) = forge.repositories[DECIDER].dispatched
        (run,) = forge.repositories[DECIDER].runs
        assert kind == "flux-manifests-update-requested"
        assert Dispatch.parse({"action": kind, "client_payload": payload}) == Dispatch.requesting(REQUEST, SENDER)
        assert asked.state is AskedState.OPENED
        assert asked.url.endswith(f"/acme/decider/actions/runs/{run.id}")
        assert not asked.remark
        assert slept == [1.0]

    def test_what_was_sent_is_found_again(self, forge: Forge) -> None:
        first = ask(forge)
        before = len(forge.requests)
        assert ask(forge) == replace(first, state=AskedState.UNCHANGED)
        assert len(sent(forge)) == 1
        assert len(forge.requests) == before + 1

    def test_how_it_ended_there_is_said(self, forge: Forge) -> None:
        ask(forge)
        forge.repositories[DECIDER].complete(forge.repositories[DECIDER].runs[0].id, "failure")
        assert ask(forge).remark == "The run there ended: failure."
        forge.repositories[DECIDER].complete(forge.repositories[DECIDER].runs[0].id, "success")
        assert not ask(forge).remark
        assert len(sent(forge)) == 1

    def test_after_a_month_it_is_sent_again(self, forge: Forge) -> None:
        ask(forge)
        forge.repositories[DECIDER].runs[0].created = NOW - timedelta(days=40)
        assert ask(forge).state is AskedState.OPENED
        assert len(sent(forge)) == 2

    def test_without_the_right_to_read_runs_it_is_sent_each_time_and_that_is_said(self, forge: Forge) -> None:
        for _ in range(2):
            slept: list[float] = []
            asked = ask(forge, {"contents": "write"}, slept)
            assert asked.state is AskedState.OPENED
            assert asked.url == "https://github.com/acme/decider/actions"
            assert "may send this event again" in asked.remark
            assert "actions" in asked.remark
            assert not slept
        assert len(sent(forge)) == 2

    def test_a_receiver_whose_titles_lack_the_key_is_told_what_to_write(self) -> None:
        with made(listener=LISTENER.replace(b"run-name", b"x-run-name")) as forge:
            asked = ask(forge)
            assert asked.url == "https://github.com/acme/decider/actions"
            assert "`client_payload.key`" in asked.remark

    def test_a_receiver_that_is_not_there_is_an_error(self, forge: Forge) -> None:
        desk = DispatchApprovals(receiver(forge, "acme/nothing"), SERVER, SENDER, lambda: NOW, lambda _: None)
        with pytest.raises(ReleaseSourceError):
            desk.ask(question())

    @pytest.mark.parametrize("word", [b"a%s", b"%sf", b"Z%s0"])
    def test_a_key_inside_a_word_is_another(self, word: bytes) -> None:
        key = b"${{ github.event.client_payload.key }}"
        with made(listener=LISTENER.replace(b"(" + key + b")", word % key)) as forge:
            ask(forge)
            ask(forge)
            assert len(sent(forge)) == 2

    def test_a_title_of_another_event_is_no_answer(self, forge: Forge) -> None:
        workflow = f'run-name: "{REQUEST.key}"\non: {{workflow_dispatch: {{}}}}\njobs: {{}}\n'.encode()
        forge.repositories[DECIDER].push("main", {".github/workflows/other.yaml": workflow}, "acme", "x")
        forge.repositories[DECIDER].dispatch("other.yaml", "main", {}, "mallory")
        assert ask(forge).state is AskedState.OPENED

    def test_nothing_that_comes_back_approves_and_nothing_is_called_back(self, forge: Forge) -> None:
        desk: Approvals = DispatchApprovals(receiver(forge), SERVER, SENDER, lambda: NOW, lambda _: None)
        assert desk.granted(REQUEST.base) is None
        desk.withdraw("it is paused")
        assert not forge.requests


class TestTelling:
    def tell(self, forge: Forge, *names: str) -> tuple[Delivery, ...]:
        """Tell the repositories, as a run of its own."""
        return announce(PUBLISHED, names, lambda name: receiver(forge, name), SERVER, NOW)

    def test_each_is_told_once(self, forge: Forge) -> None:
        first = self.tell(forge, "acme/one", "acme/two", "acme/one")
        assert [(delivery.repository, delivery.told) for delivery in first] == [
            ("acme/one", Told.SENT), ("acme/two", Told.SENT),
        ]  # fmt: skip
        assert [delivery.told for delivery in self.tell(forge, "acme/one", "acme/two")] == [Told.KNOWN, Told.KNOWN]
        assert sent(forge) == [
            ("acme/one", "flux-manifests-published", PUBLISHED.key),
            ("acme/two", "flux-manifests-published", PUBLISHED.key),
        ]

    def test_what_was_asked_for_is_still_told(self, forge: Forge) -> None:
        ask(forge)
        assert [delivery.told for delivery in self.tell(forge, DECIDER)] == [Told.SENT]
        assert [kind for _, kind, _ in sent(forge)] == list(EventType)

    def test_one_that_cannot_be_told_keeps_no_other_from_it(self, forge: Forge) -> None:
        def open_(name: str) -> Runs:
            if name == "acme/broken":
                raise InvalidToken("TOKEN")
            return receiver(forge, name)

        told = announce(PUBLISHED, ["acme/nothing", "acme/broken", "not a name", "acme/two"], open_, SERVER, NOW)
        assert [delivery.told for delivery in told] == [Told.FAILED, Told.FAILED, Told.FAILED, Told.SENT]
        assert all(delivery.remark for delivery in told[:3])
        assert "TOKEN is not a GitHub token. Set it" in told[1].remark

    def test_a_lost_answer_is_a_failure_that_the_next_run_finds_done(self, forge: Forge) -> None:
        forge.faults.append(nth(1, LOST, "POST"))
        assert [delivery.told for delivery in self.tell(forge, "acme/one", "acme/two")] == [Told.FAILED, Told.SENT]
        assert [delivery.told for delivery in self.tell(forge, "acme/one", "acme/two")] == [Told.KNOWN, Told.KNOWN]
        assert len(sent(forge)) == 2


class TestCrashes:
    def test_wherever_asking_dies_there_is_one_event(self) -> None:
        assert die_everywhere(made, ask, sent) >= 3

    def test_wherever_telling_dies_each_is_told_once(self) -> None:
        def act(forge: Forge) -> None:
            announce(PUBLISHED, ["acme/one", "acme/two"], lambda name: receiver(forge, name), SERVER, NOW)

        assert die_everywhere(made, act, lambda forge: sorted(sent(forge))) == 4
