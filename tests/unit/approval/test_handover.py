"""What one job hands to another: whole, from the first attempt, young, and the same as what is computed anew."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from ci_automation.approval.handover import MAX_AGE, NOTHING, Handover, HandoverVoid, InvalidHandover
from ci_automation.artifact.digest import Digest

NOW = datetime(2026, 11, 22, 3, tzinfo=UTC)
SHOWN = Handover(
    command="rollback",
    name="production",
    artifact="oci://ghcr.io/acme/flux-manifests:production",
    base=str(Digest.of(b"base")),
    target=str(Digest.of(b"target")),
    content=str(Digest.of(b"options")),
    rules=str(Digest.of(b"rules")),
    head="a" * 40,
    plan=str(Digest.of(b"plan")),
    attempt=1,
    at=NOW,
)
OTHER = str(Digest.of(b"other"))


@pytest.mark.parametrize("shown", [SHOWN, replace(SHOWN, base=NOTHING)])
def test_what_was_written_is_read(shown: Handover) -> None:
    assert Handover.parse(shown.to_text()) == shown


@pytest.mark.parametrize("name", Handover.__struct_fields__)
def test_a_part_that_is_missing_is_refused(name: str) -> None:
    value = json.loads(SHOWN.to_text())
    del value[name]
    with pytest.raises(InvalidHandover, match=name):
        Handover.parse(json.dumps(value))


@pytest.mark.parametrize(
    "changes",
    [
        *({name: text} for name in ("command", "artifact", "content", "target", "plan") for text in ("", " ", "a\nb")),
        *({name: "none"} for name in ("target", "rules", "plan")),
        {"base": "latest"},
        {"head": "main"},
        {"head": "A" * 40},
        {"attempt": "1"},
        {"attempt": None},
        {"at": "yesterday"},
        {"at": "2026-11-22T03:00:00"},
        {"more": "x"},
    ],
)
def test_what_is_malformed_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidHandover):
        Handover.parse(json.dumps({**json.loads(SHOWN.to_text()), **changes}))


@pytest.mark.parametrize("text", ["", "***", "{}", "[]", "null", "{", "x" * 8193])
def test_what_is_lost_is_refused(text: str) -> None:
    with pytest.raises(InvalidHandover):
        Handover.parse(text)


@pytest.mark.parametrize("later", [timedelta(), timedelta(hours=1), MAX_AGE])
def test_a_later_attempt_of_the_last_job_and_a_newer_head_are_the_same(later: timedelta) -> None:
    SHOWN.require_same(replace(SHOWN, attempt=3, at=NOW + later, head="b" * 40))


@pytest.mark.parametrize("name", ["command", "name", "artifact", "base", "target", "content", "rules", "plan"])
def test_each_change_since_voids_it(name: str) -> None:
    changes: dict[str, Any] = {name: OTHER}
    with pytest.raises(HandoverVoid, match=f"{name} was .*, and is {OTHER}"):
        SHOWN.require_same(replace(SHOWN, **changes))


@pytest.mark.parametrize("later", [MAX_AGE + timedelta(seconds=1), -timedelta(seconds=1)])
def test_what_is_too_old_or_of_the_future_is_void(later: timedelta) -> None:
    with pytest.raises(HandoverVoid, match="counts for 7 days"):
        SHOWN.require_same(replace(SHOWN, at=NOW + later))


def test_what_another_attempt_showed_is_void() -> None:
    with pytest.raises(HandoverVoid, match="attempt 2 of the run showed it"):
        replace(SHOWN, attempt=2).require_same(SHOWN)
