"""Holds as they are signed, and what is no hold."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ci_automation.artifact.reference import Digest, Reference
from ci_automation.flux.version import Version
from ci_automation.records.content import InvalidStatement, Statement
from ci_automation.records.notes import HoldStatement, InvalidHold, RefusedRelease

CHANNEL = Reference.parse("oci://ghcr.io/acme/flux:production")
AT = datetime(2026, 11, 21, 12, 0, 0, 123, tzinfo=UTC)
HOLD = HoldStatement(
    channel=str(CHANNEL),
    digest=Digest.of(b"target"),
    refused=RefusedRelease(Version.parse("v2.9.4"), Digest.of(b"refused")),
    until=AT + timedelta(days=70),
    reason="webhooks time out, see #7",
    by="sha256:abcdef",
    at=AT,
    run="https://github.com/acme/fleet/actions/runs/7",
)


def changed(**changes: Any) -> Statement:
    """Return the statement of `HOLD` with some members changed; `...` takes one away."""
    value = {**HOLD.to_json(), **changes}
    return Statement(
        "here", HOLD.digest, HoldStatement.predicate_type, {key: it for key, it in value.items() if it is not ...}
    )


def test_a_hold_as_it_is_signed() -> None:
    statement = HOLD.to_statement("ghcr.io/acme/flux")
    assert (statement.subject, statement.predicate_type) == (
        Digest.of(b"target"),
        "tag:flux-manifests.github.io,2026:hold/v1",
    )
    assert statement.predicate == {
        "channel": "oci://ghcr.io/acme/flux:production",
        "refused": {"version": "v2.9.4", "digest": str(Digest.of(b"refused"))},
        "until": "2027-01-30T12:00:00.000123Z",
        "reason": "webhooks time out, see #7",
        "by": "sha256:abcdef",
        "run": "https://github.com/acme/fleet/actions/runs/7",
        "at": "2026-11-21T12:00:00.000123Z",
        "moved": None,
    }


def test_flux_does_not_take_its_type_for_a_signatures() -> None:
    assert HoldStatement.media_type == "application/vnd.flux-manifests.hold.v1+json"
    assert "sigstore" not in HoldStatement.media_type


@pytest.mark.parametrize(
    "hold",
    [
        HOLD,
        replace(HOLD, until=None),
        replace(HOLD, run=None),
        replace(HOLD, reason=""),
        replace(HOLD, alone=True),
        replace(HOLD, moved=AT - timedelta(days=2)),
    ],
    ids=["with everything", "without a date", "by hand", "without a reason", "on the digest alone", "changed"],
)
def test_what_is_written_is_read(hold: HoldStatement) -> None:
    assert HoldStatement.from_statement(Statement.parse(hold.to_statement("x").to_bytes())) == hold


@pytest.mark.parametrize(
    "changes",
    [
        {"channel": ...},
        {"channel": 7},
        {"channel": ""},
        {"refused": "v2.9.4"},
        {"refused": {"version": "v2.9.4"}},
        {"refused": {"version": "newest", "digest": str(HOLD.digest)}},
        {"refused": {"version": "v2.9.4", "digest": "sha256:0"}},
        {"refused": {"version": "v2.9.4", "digest": str(HOLD.digest), "more": 1}},
        {"until": "tomorrow"},
        {"until": 7},
        {"reason": None},
        {"reason": "a\x1b[2J"},
        {"reason": "long" * 1000},
        {"by": ...},
        {"by": ""},
        {"run": "javascript:alert(1)"},
        {"at": "2026-11-21"},
        {"at": ...},
        {"moved": "2026-11-21"},
        {"moved": ...},
        {"more": 1},
    ],
    ids=str,
)
def test_what_is_no_hold_of_this_version(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidHold):
        HoldStatement.from_statement(changed(**changes))


def test_another_statement_is_no_hold() -> None:
    with pytest.raises(InvalidHold, match="hold/v1"):
        HoldStatement.from_statement(replace(changed(), predicate_type="https://example.com/other"))


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(InvalidHold, match="zone"):
        replace(HOLD, at=AT.replace(tzinfo=None))
    with pytest.raises(InvalidHold, match="zone"):
        replace(HOLD, until=AT.replace(tzinfo=None))
    with pytest.raises(InvalidHold, match="zone"):
        replace(HOLD, moved=AT.replace(tzinfo=None))


@given(st.binary(max_size=200))
def test_whatever_bytes_there_are_the_answer_is_a_hold_or_an_error_of_ours(raw: bytes) -> None:
    with pytest.raises((InvalidHold, InvalidStatement)):
        HoldStatement.from_statement(Statement.parse(raw))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(sorted(HOLD.to_json())), _JSON)
def test_whatever_a_member_is_the_answer_is_a_hold_or_an_error_of_ours(key: str, value: object) -> None:
    try:
        found = HoldStatement.from_statement(changed(**{key: value}))
    except InvalidHold:
        return
    assert found.to_json() == {**HOLD.to_json(), key: value} or key in {"at", "until", "refused"}
