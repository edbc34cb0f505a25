"""Limits of requests, answers that are lost, late or wrong, and names that moved."""

from __future__ import annotations

import datetime as dt
import time

import pytest

from tests.contract.forge.asking import FLEET, ask, ask_raw, query
from tests.fakes.forge import ACTIONS, LOST, RESET, Fault, Forge, Repository, after, nth, times


def test_so_many_requests_and_no_more(forge: Forge, repo: Repository, token: str) -> None:
    forge.limits.hourly = 2
    first = ask(forge, token, "GET", FLEET)
    assert (first.status, first.headers["X-RateLimit-Remaining"]) == (200, "1")
    ask(forge, token, "GET", FLEET)
    over = ask(forge, token, "GET", FLEET)
    assert (over.status, over.headers["X-RateLimit-Remaining"]) == (403, "0")
    assert "rate limit exceeded" in over.value["message"]
    later = forge.now() + dt.timedelta(seconds=3601)
    forge.now = lambda: later
    assert ask(forge, forge.token("actions", repo.full_name, {}), "GET", FLEET).status == 200


def test_the_limit_of_graphql_is_its_own(forge: Forge, token: str) -> None:
    forge.limits.hourly = 1
    assert ask(forge, token, "GET", FLEET).status == 200
    assert query(forge, token, "query {viewer {login}}")["data"] == {"viewer": {"login": ACTIONS}}
    assert query(forge, token, "query {viewer {login}}")["errors"][0]["type"] == "RATE_LIMITED"


def test_creating_too_much_in_a_minute_is_slowed_down(forge: Forge, token: str) -> None:
    forge.limits.creations_a_minute = 1
    replies = [ask(forge, token, "POST", f"{FLEET}/issues", {"title": "t"}) for _ in range(2)]
    assert [reply.status for reply in replies] == [201, 403]
    assert replies[1].headers["Retry-After"] == "60"
    assert "secondary rate limit" in replies[1].value["message"]


@pytest.mark.parametrize(("fault", "done"), [(LOST, 1), (RESET, 0)], ids=["lost", "reset"])
def test_a_request_without_an_answer_was_done_or_not(
    forge: Forge, repo: Repository, token: str, fault: Fault, done: int
) -> None:
    forge.faults.append(nth(2, fault, "POST", "/issues"))
    ask(forge, token, "POST", f"{FLEET}/issues", {"title": "first"})
    with pytest.raises(ConnectionError):
        ask(forge, token, "POST", f"{FLEET}/issues", {"title": "second"})
    assert (len(repo.issues), forge.requests[-1].status) == (1 + done, 0)
    assert ask(forge, token, "POST", f"{FLEET}/issues", {"title": "third"}).status == 201


def test_a_fault_is_answered_in_place_of_github(forge: Forge, token: str) -> None:
    forge.faults += [times(1, Fault(502, b"<html>"), part="/issues"), after(1, Fault(429, {}, {"Retry-After": "7"}))]
    assert ask_raw(forge, token, f"{FLEET}/issues") == (502, b"<html>", None)
    assert ask_raw(forge, token, f"{FLEET}/issues")[0] == 200
    assert ask_raw(forge, token, f"{FLEET}/issues") == (429, b"{}", "7")


def test_an_answer_can_come_late(forge: Forge, token: str) -> None:
    forge.faults.append(times(1, Fault(delay=0.05)))
    before = time.monotonic()
    assert ask(forge, token, "GET", FLEET).status == 200
    assert time.monotonic() - before >= 0.05


def test_a_new_name_redirects_from_the_old_one(forge: Forge, repo: Repository, token: str) -> None:
    forge.renamed["acme/old"] = "acme/fleet"
    assert ask(forge, token, "GET", "/repos/acme/old").value["full_name"] == "acme/fleet"
    assert ask(forge, token, "POST", "/repos/acme/old/issues", {"title": "t"}).status == 307
    assert repo.issues == []
