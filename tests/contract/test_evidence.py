"""Evidence from outside: what says yes, what does not, and what never ends in a log."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from ci_automation.flows.evidence import Address, CommitStatus, Report, UnsafeEvidence
from ci_automation.flux.version import Version
from ci_automation.github.errors import GitHubUnreachable
from ci_automation.github.model import Status
from ci_automation.net.services import Exchange
from ci_automation.net.waiting import Clock, Patience
from ci_automation.policy.decision import Decision, Verdict
from tests.contract.hostile_registry import HostileRegistry, Reply
from tests.fakes.world import NOW

if TYPE_CHECKING:
    from pathlib import Path

V = Version.parse("v2.9.4")
SECRET = "canary-who-is-on-call"
WELL = {"status": {"healthy": True, "secret": SECRET, "checks": [{"ready": 3}, {"ready": 1.5}]}, "word": "ok"}


def asked(reply: Reply, path: str = "status.healthy", equals: str = "true") -> tuple[Verdict, HostileRegistry]:
    """Return what an address says that answers so."""
    exchange = Exchange(patience=Patience(attempts=2, seconds=5.0, clock=Clock(sleep=lambda _: None)))
    with HostileRegistry(lambda _: reply) as server:
        word = Address(f"http://{server.host}/health?token={SECRET}", path, equals, exchange).look(V)
    return word, server


@pytest.mark.parametrize(
    ("path", "equals", "speaks_for"),
    [
        ("status.healthy", "true", True),
        ("status.healthy", "True", False),
        ("status.healthy", "false", False),
        ("status.checks.0.ready", "3", True),
        ("status.checks.1.ready", "1.5", True),
        ("status.checks.2.ready", "3", False),
        ("status.checks.-1.ready", "1.5", False),
        ("status.checks.ready", "3", False),
        ("word", "ok", True),
        ("word.ok", "ok", False),
        ("status", "true", False),
        ("nowhere", "null", False),
        ("", "ok", False),
    ],
)
def test_the_field_must_have_the_value(path: str, equals: str, speaks_for: bool) -> None:  # of a table
    word, _ = asked(Reply.json(WELL), path, equals)
    assert (word.decision is Decision.AUTO) is speaks_for


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply.json(WELL, 201), "answers 201, not 200"),
        (Reply.json(WELL, 404), "answers 404, not 200"),
        (Reply.json(WELL, 503), "gives no answer: it is busy, or broken"),
        (Reply(302, headers={"Location": "http://127.0.0.1:1/elsewhere"}), "answers 302, not 200"),
        (Reply(200, b"<html>healthy</html>"), "does not answer with JSON"),
        (Reply(200, b""), "does not answer with JSON"),
        (Reply(200, b'{"status": {"healthy": true}}' + b" " * (1 << 20)), "its answer has more than 1048576 bytes"),
        (Reply(200, b"[" * 200_000), "does not answer with JSON"),
        (Reply(200, then="reset"), "gives no answer: "),
    ],
    ids=["201", "404", "503", "a redirect", "a page", "nothing", "too much", "too deep", "broken off"],
)
def test_anything_else_than_the_answer_is_no_yes(reply: Reply, words: str) -> None:
    word, server = asked(reply)
    assert word.decision is Decision.WAIT
    assert words in word.reason
    assert len(server.seen) <= 2


@pytest.mark.parametrize("reply", [Reply.json(WELL), Reply.json({"message": SECRET}, 503), Reply(404, SECRET.encode())])
def test_nothing_of_the_answer_and_no_query_is_told(reply: Reply) -> None:
    word, server = asked(reply, "status.secret", "quiet")
    assert word.decision is Decision.WAIT
    assert SECRET not in f"{word}"
    assert all(seen.authorization is None and "cookie" not in seen.headers for seen in server.seen)


def test_nobody_there_is_no_yes() -> None:
    with HostileRegistry() as server:
        gone = server.host
    exchange = Exchange(patience=Patience(attempts=1, seconds=2.0))
    word = Address(f"http://{gone}/", "a", "b", exchange).look(V)
    assert word.decision is Decision.WAIT
    assert word.reason == f"{gone} gives no answer: nothing listens there"


@pytest.mark.parametrize(
    "url", ["http://health.example/", "https://user:canary-x@health.example/", "ftp://health.example/", "health", ""]
)
def test_an_address_that_nobody_should_ask_is_refused_before(url: str) -> None:
    with pytest.raises(UnsafeEvidence) as caught:
        Address(url, "a", "b")
    assert "canary" not in f"{caught.value}"


class Said:
    """The statuses of a repository."""

    name = "acme/fleet"

    def __init__(self, found: Status | GitHubUnreachable | None) -> None:
        self.found = found

    def head_status(self, _: str) -> Status | None:
        """Return it."""
        if isinstance(self.found, GitHubUnreachable):
            raise self.found
        return self.found


@pytest.mark.parametrize(
    ("found", "speaks_for", "words"),
    [
        (Status("e2e", "success", "1" * 40, NOW), True, "is success"),
        (Status("e2e", "pending", "1" * 40, NOW), False, "is pending"),
        (None, False, "has no status e2e"),
        (GitHubUnreachable("GET api.github.com: it is away"), False, "cannot be read"),
    ],
    ids=["success", "pending", "none", "away"],
)
def test_a_status_must_be_a_success(found: Any, speaks_for: bool, words: str) -> None:  # of a table
    word = CommitStatus(Said(found), "e2e").look(V)  # type: ignore[arg-type]  # all that is asked of it
    assert (word.decision is Decision.AUTO) is speaks_for
    assert words in word.reason


def report(version: str = "v2.9.4", *, ready: bool = True) -> dict[str, Any]:
    components = [{"name": "source-controller", "ready": ready}]
    return {
        "kind": "FluxReport",
        "spec": {"components": components, "distribution": {"status": "Installed", "version": version}},
    }


@pytest.mark.parametrize(
    ("value", "speaks_for", "words"),
    [
        (report(), True, "1 FluxReport with v2.9.4"),
        ({"items": [report(), report()]}, True, "2 FluxReports"),
        ({"items": [report(), report(ready=False)]}, False, "'source-controller' is not ready"),
        (report("v2.9.3"), False, "it is of v2.9.3, not of v2.9.4"),
        (report("", ready=False), False, "is not ready, and 1 more"),
        ({}, False, "it is not a FluxReport"),
    ],
    ids=["one", "two", "one of two is not ready", "another version", "both", "something else"],
)
def test_a_report_must_be_well_and_of_that_version(
    tmp_path: Path,
    value: object,
    speaks_for: bool,  # of a table
    words: str,
) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(value))
    word = Report(path).look(V)
    assert (word.decision is Decision.AUTO) is speaks_for
    assert words in word.reason


@pytest.mark.parametrize("value", [report("v" * 300_000), {"kind": "x" * 300_000}], ids=["version", "kind"])
def test_no_word_of_a_report_without_end_is_told(tmp_path: Path, value: object) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(value))
    word = Report(path).look(V)
    assert word.decision is Decision.WAIT
    assert len(word.reason) < len(str(path)) + 300


def test_a_report_that_is_not_there_is_no_yes(tmp_path: Path) -> None:
    word = Report(tmp_path / "report.json").look(V)
    assert word.decision is Decision.WAIT
    assert "it is not there" in word.reason


def test_a_pipe_is_no_report_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "report.json")
    word = Report(tmp_path / "report.json").look(V)
    assert word.decision is Decision.WAIT
    assert "it is not a regular file" in word.reason
