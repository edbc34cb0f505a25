"""Which jobs of the shipped workflows run, by their `if` and `needs`: the double of GitHub evaluates neither."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci_automation.approval.handover import NOTHING_SHOWN

ROOT = Path(__file__).parents[2]
FILES = {
    str(it.relative_to(ROOT)): it
    for folder in ("workflows", ".github/workflows")
    for it in (ROOT / folder).rglob("*.yaml")
}
READ: dict[str, dict[Any, Any]] = {name: yaml.load(path.read_bytes(), yaml.CSafeLoader) for name, path in FILES.items()}
JOBS: dict[str, dict[str, Any]] = {name: it["jobs"] for name, it in READ.items()}
EVENTS: dict[str, dict[str, Any]] = {name: it[True] for name, it in READ.items()}
GATED = {name: jobs for name, jobs in JOBS.items() if "gate" in jobs}
DISPATCHED = [name for name in JOBS if "command" in ((EVENTS[name].get("workflow_dispatch") or {}).get("inputs") or {})]
COMMANDS = ("update", "init", "adopt", "rollback", "lift-hold", "promote")
STATUS = re.compile(r"\b(always|success|failure|cancelled)\(\)")
TOKENS = re.compile(r"'(?P<text>[^']*)'|(?P<sign>&&|\|\||==|!=|!|[()])|(?P<name>[a-z][\w.-]*(?:\(\))?)|(?P<blank>\s+)")
SIGNS = {"&&": " and ", "||": " or ", "!": " not "}
SHOWN = '{"name":"production"}'


def holds(condition: str, known: dict[str, str]) -> bool:
    """Return the value of an expression of GitHub's, of the kind that we use: names, texts, comparisons, no more."""
    written, place = "", 0
    while place < len(condition):
        found = TOKENS.match(condition, place)
        assert found, f"this test cannot read {condition[place:]!r}"
        place = found.end()
        if (text := found["text"]) is not None:
            written += repr(text)
        elif sign := found["sign"]:
            written += SIGNS.get(sign, sign)
        elif name := found["name"]:
            written += repr(known[name] if name.endswith("()") else known.get(name, ""))
    return bool(eval(written, {"__builtins__": {}}))  # noqa: S307  # of the tokens above, from files of ours


def ran(jobs: dict[str, Any], known: dict[str, str], results: dict[str, str]) -> dict[str, str]:
    """Return how each job ended, `results` where it began, by what GitHub documents of `if` and `needs`."""
    ended: dict[str, str] = {}
    for name, job in jobs.items():  # each is below those that it needs
        needs = [job["needs"]] if isinstance(job.get("needs"), str) else job.get("needs", [])
        before = {ended[it] for it in needs}
        condition = str(job.get("if", "success()")).removeprefix("${{").removesuffix("}}").strip()
        if not STATUS.search(condition):
            condition = f"success() && ({condition})"
        state = {
            "always()": "yes",
            "success()": "yes" if before <= {"success"} else "",
            "failure()": "yes" if "failure" in before else "",
            "cancelled()": "",
        }
        ended[name] = results.get(name, "success") if holds(condition, known | state) else "skipped"
    return ended


def started(event: str, command: str = "", shown: str = SHOWN) -> dict[str, str]:
    """Return what the expressions of a run see."""
    return {"github.event_name": event, "inputs.command": command, "needs.show.outputs.shown": shown}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("gate", ["failure", "cancelled", "skipped"])
@pytest.mark.parametrize("file", GATED)
def test_nothing_is_done_after_a_gate_that_did_not_succeed(file: str, gate: str, command: str) -> None:
    doing = GATED[file].keys() & {"do", "publish"}
    assert doing
    for event in ("workflow_dispatch", "schedule", "push", "repository_dispatch"):
        ended = ran(GATED[file], started(event, command), {"gate": gate})
        assert {ended[name] for name in doing} == {"skipped"}, ended


@pytest.mark.parametrize("file", [name for name in GATED if name != ".github/workflows/approve.yaml"])
@pytest.mark.parametrize(("show", "shown"), [("failure", ""), ("success", ""), ("cancelled", SHOWN)])
def test_without_a_page_nobody_is_asked_and_nothing_done(file: str, show: str, shown: str) -> None:
    ended = ran(GATED[file], started("workflow_dispatch", "rollback", shown), {"show": show})
    assert {ended[name] for name in ended.keys() & {"gate", "do", "publish"}} == {"skipped"}


def test_where_nothing_can_be_shown_the_reusable_workflow_asks_all_the_same() -> None:
    jobs = GATED[".github/workflows/approve.yaml"]
    _, show, last = jobs["show"]["steps"]
    assert (show["id"], show["continue-on-error"], last["run"]) == ("show", True, "exit 1")
    ended = ran(jobs, started("workflow_dispatch", shown=""), {})
    assert (ended["gate"], ended["publish"]) == ("success", "success")
    for shown, stops in ((NOTHING_SHOWN, True), ("", False), (SHOWN, False)):
        assert holds(last["if"], {"steps.show.outputs.shown": shown}) is stops


@pytest.mark.parametrize("file", DISPATCHED)
def test_a_run_updates_or_operates_and_never_both(file: str) -> None:
    operating = JOBS[file].keys() & {"show", "gate", "do", "operate"}
    assert operating
    for event in EVENTS[file]:
        for command in COMMANDS if event == "workflow_dispatch" else ("",):
            ended = ran(JOBS[file], started(event, command), {})
            did = {name for name, result in ended.items() if result == "success"}
            by_hand = event == "workflow_dispatch" and command != "update"
            assert did == operating if by_hand else did and not did & operating, (event, command, ended)


@pytest.mark.parametrize(
    ("head", "commented"), [("acme/fleet", "success"), ("mallory/fleet", "skipped"), ("", "skipped")]
)
def test_a_request_of_a_fork_gets_no_comment(head: str, commented: str) -> None:
    known = {"github.event.pull_request.head.repo.full_name": head, "github.repository": "acme/fleet"}
    known |= {"needs.look.outputs.preview": "a page", **started("pull_request")}
    assert ran(JOBS["workflows/preview.yaml"], known, {})["comment"] == commented


@pytest.mark.parametrize("condition", ["always()", "!success() || failure()", "failure() && always()"])
def test_a_condition_that_runs_after_a_rejection_would_be_found(condition: str) -> None:
    jobs = {"gate": {}, "do": {"needs": "gate", "if": condition}}
    assert ran(jobs, {}, {"gate": "failure"})["do"] == "success"


def test_all_conditions_that_we_ship_can_be_read() -> None:
    for name, jobs in JOBS.items():
        if not name.endswith(("ci.yaml", "release.yaml")):
            ran(jobs, started("schedule"), {})
