from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ci_automation.artifact.reference import Digest, Reference
from ci_automation.flux.proof import Proof
from ci_automation.flux.version import Version
from ci_automation.records.content import (
    ApprovedRules,
    CountedPerson,
    CountedRequest,
    FleetCommit,
    RecordedContent,
    Statement,
    is_same_approval,
)
from ci_automation.records.notes import Approval, InvalidRecord, Record, as_json, format_time, parse_time

CHANNEL = Reference.parse("oci://ghcr.io/acme/flux:production")
NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
RECORD = Record(
    channel=str(CHANNEL),
    digest=Digest.of(b"target"),
    previous=Digest.of(b"base"),
    version=Version.parse("v2.9.4"),
    tag="v2.9.4-1a2b3c4d5e6f",
    by="https://github.com/acme/fleet/.github/workflows/flux.yaml@refs/heads/main (issuer https://example.com)",
    at=NOW,
    proof=Proof.KNOWN,
    options=Digest.of(b"options"),
    run="https://github.com/acme/fleet/actions/runs/7",
    approval=Approval("octocat", "pull request 7", NOW - timedelta(hours=1)),
)

CONTENT = RecordedContent("77", "a" * 40, "b" * 40, Digest.of(b"options"), NOW, ApprovedRules(1, Digest.of(b"rest")))
TEAM = replace(CONTENT.rules, team="acme/platform")
COUNTED = CountedRequest("https://github.com/acme/fleet/pull/7", (CountedPerson("octocat", 583231),))
MERGED = Approval("octocat", "merge of pull request 7", NOW, (COUNTED, replace(COUNTED, people=(CountedPerson("x"),))))
GIT = as_json(CONTENT)
MERGED_JSON = as_json(MERGED)


def changed(**changes: Any) -> Statement:
    """Return the statement of `RECORD` with some members changed; `...` takes one away."""
    value = {**RECORD.to_json(), **changes}
    predicate = {key: member for key, member in value.items() if member is not ...}
    return Statement("here", RECORD.digest, Record.predicate_type, predicate)


def test_a_record_as_it_is_signed() -> None:
    statement = RECORD.to_statement("ghcr.io/acme/flux")
    assert (statement.name, statement.subject, statement.predicate_type) == (
        "ghcr.io/acme/flux",
        Digest.of(b"target"),
        "tag:flux-manifests.github.io,2026:publication/v1",
    )
    assert statement.predicate == {
        "channel": "oci://ghcr.io/acme/flux:production",
        "previous": str(Digest.of(b"base")),
        "version": "v2.9.4",
        "tag": "v2.9.4-1a2b3c4d5e6f",
        "by": RECORD.by,
        "run": "https://github.com/acme/fleet/actions/runs/7",
        "approval": {"by": "octocat", "how": "pull request 7", "at": "2026-11-21T11:00:00Z"},
        "at": "2026-11-21T12:00:00Z",
        "proof": "known",
        "options": str(Digest.of(b"options")),
        "recovered": False,
    }


@pytest.mark.parametrize(
    ("then", "last", "now"),
    [
        pytest.param((1, None), (2, None), (2, None), id="more approvals later"),
        pytest.param((2, None), (1, None), (2, None), id="more approvals then"),
        pytest.param((1, "acme/platform"), (1, None), (1, "acme/platform"), id="a team then"),
        pytest.param((1, "acme/platform"), (1, "acme/security"), (1, "acme/security"), id="another team later"),
    ],
)
def test_older_content_that_is_back_is_judged_by_the_stricter_rules(
    then: tuple[int, str | None], last: tuple[int, str | None], now: tuple[int, str | None]
) -> None:
    older = ApprovedRules(then[0], Digest.of(b"then"), then[1])
    newer = ApprovedRules(last[0], Digest.of(b"last"), last[1])
    assert older.after(newer) == ApprovedRules(now[0], Digest.of(b"last"), now[1])


def test_content_and_those_who_counted_as_they_are_signed() -> None:
    value = replace(RECORD, content=CONTENT, approval=MERGED).to_json()
    assert value["content"] == {
        "repository": "77",
        "commit": "a" * 40,
        "overlay": "b" * 40,
        "options": str(Digest.of(b"options")),
        "at": "2026-11-21T12:00:00Z",
        "rules": {"approvals": 1, "rest": str(Digest.of(b"rest"))},
    }
    assert value["approval"]["requests"][0] == {
        "url": "https://github.com/acme/fleet/pull/7",
        "people": [{"login": "octocat", "id": 583231}],
    }
    assert "requests" not in RECORD.to_json()["approval"]


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(RECORD, id="with everything"),
        pytest.param(replace(RECORD, run=None, approval=None), id="by hand"),
        pytest.param(replace(RECORD, previous=None, proof=None, recovered=True), id="recovered"),
        pytest.param(replace(RECORD, promoted_from="oci://ghcr.io/acme/flux:staging"), id="promoted"),
        pytest.param(replace(RECORD, rolled_back=True), id="rolled back"),
        pytest.param(replace(RECORD, put_back=True), id="put back"),
        pytest.param(replace(RECORD, adopted=True), id="adopted"),
        pytest.param(replace(RECORD, content=CONTENT, approval=MERGED), id="content from Git"),
        pytest.param(replace(RECORD, content=replace(CONTENT, rules=TEAM)), id="with a team"),
        pytest.param(replace(RECORD, source=FleetCommit("https://github.com/acme/fleet", "c" * 40)), id="by an action"),
    ],
)
def test_what_is_written_is_read(record: Record) -> None:
    raw = record.to_statement("here").to_bytes()
    assert Record.from_statement(Statement.parse(raw)) == record


@pytest.mark.parametrize(
    "changes",
    [
        *(pytest.param({key: ...}, id=f"{key} is missing") for key in RECORD.to_json()),
        *(pytest.param({key: 7}, id=f"{key} is a number") for key in RECORD.to_json()),
        pytest.param({"more": "x"}, id="an unknown member"),
        pytest.param({"previous": "sha1:00"}, id="another algorithm"),
        pytest.param({"version": "2"}, id="half a version"),
        pytest.param({"proof": "guessed"}, id="a proof of another version"),
        pytest.param({"at": "yesterday"}, id="no time"),
        pytest.param({"at": "2026-13-01T00:00:00Z"}, id="a month too many"),
        pytest.param({"at": "2026-11-21T12:00:00+00:00"}, id="a time in another form"),
        pytest.param({"run": "javascript:alert(1)"}, id="a run that is no page"),
        pytest.param({"run": "https://x/\x1b[31m"}, id="a run with an escape"),
        pytest.param({"run": "https://" + "x" * 2000}, id="a run without end"),
        pytest.param({"channel": ""}, id="no channel"),
        pytest.param({"promotedFrom": "a\nb"}, id="a source of two lines"),
        pytest.param({"rolledBack": False}, id="rolled back, but not"),
        pytest.param({"putBack": False}, id="put back, but not"),
        pytest.param({"adopted": "yes"}, id="adopted, in words"),
        pytest.param({"channel": "a\nb"}, id="a channel of two lines"),
        pytest.param({"tag": "\x1b[2J"}, id="a tag with an escape"),
        pytest.param({"by": "a\N{RIGHT-TO-LEFT OVERRIDE}b"}, id="a publisher written backwards"),
        pytest.param({"by": "x" * 2000}, id="a publisher without end"),
        pytest.param({"content": {**GIT, "commit": "main"}}, id="content of a branch"),
        pytest.param({"content": {**GIT, "overlay": "B" * 40}}, id="a tree id in capitals"),
        pytest.param({"content": {**GIT, "repository": "\x1b[2J"}}, id="a repository with an escape"),
        pytest.param({"content": {**GIT, "at": "yesterday"}}, id="content without a time"),
        pytest.param({"content": {**GIT, "rules": {"approvals": 1}}}, id="half of the rules"),
        pytest.param({"content": {**GIT, "rules": {**GIT["rules"], "team": ""}}}, id="an empty team"),
        pytest.param({"source": {"repository": "acme/fleet", "commit": "c" * 40}}, id="a source that is no page"),
        pytest.param({"source": {"repository": "https://x/y", "commit": "main"}}, id="a source of a branch"),
        pytest.param({"approval": {**MERGED_JSON, "requests": []}}, id="no requests, in words"),
        pytest.param({"approval": {**MERGED_JSON, "requests": [{"url": "x", "people": []}]}}, id="a request, no page"),
        pytest.param(
            {"approval": {**MERGED_JSON, "requests": [{"url": COUNTED.url, "people": [{"login": "\r"}]}]}},
            id="a person with a control character",
        ),
        pytest.param({"approval": {"by": "x", "how": "y"}}, id="an approval without a time"),
        pytest.param({"approval": {"by": "\r", "how": "y", "at": "2026-11-21T12:00:00Z"}}, id="a hostile approver"),
        pytest.param({"approval": {"by": "x", "how": None, "at": "2026-11-21T12:00:00Z"}}, id="an approval of no kind"),
    ],
)
def test_anything_else_is_no_record(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidRecord) as caught:
        Record.from_statement(changed(**changes))
    assert str(caught.value).isprintable()


def test_a_record_of_another_version_is_not_guessed_at() -> None:
    statement = replace(changed(), predicate_type="tag:flux-manifests.github.io,2026:publication/v2")
    with pytest.raises(InvalidRecord, match="publication/v2"):
        Record.from_statement(statement)


def test_a_time_without_a_zone_is_none() -> None:
    with pytest.raises(InvalidRecord, match="no time zone"):
        replace(RECORD, at=NOW.replace(tzinfo=None))


@given(st.datetimes(timezones=st.just(UTC) | st.just(timezone(timedelta(hours=2))), min_value=datetime(1, 1, 2)))  # noqa: DTZ001
def test_times_are_written_in_utc_and_keep_their_instant(moment: datetime) -> None:
    assert format_time(moment).endswith("Z")
    assert parse_time(format_time(moment)) == moment


def test_an_approval_tells_each_request_that_counted_and_else_the_person() -> None:
    assert Approval("octocat", "--approve", NOW).told == (("octocat", "--approve"),)
    own = replace(COUNTED, people=(CountedPerson("x"),), own=True)
    assert Approval("a", "merge", NOW, (COUNTED, own)).told == (
        (", ".join(it.login for it in COUNTED.people), f"pull request {COUNTED.url}"),
        ("x", f"pull request merged by its author {COUNTED.url}"),
    )


PAGE = "https://github.com/acme"


@pytest.mark.parametrize(
    ("how", "given", "same"),
    [
        pytest.param(None, f"run {PAGE}/fleet/actions/runs/7", False, id="none"),
        pytest.param(f"run {PAGE}/fleet/actions/runs/7", f"run {PAGE}/fleet/actions/runs/7", True, id="the same run"),
        pytest.param(f"run {PAGE}/fleet/actions/runs/7", f"run {PAGE}/cars/actions/runs/7", True, id="renamed"),
        pytest.param(f"run {PAGE}/fleet/actions/runs/7", f"run {PAGE}/fleet/actions/runs/77", False, id="another run"),
        pytest.param(f"pull request {PAGE}/a/pull/7", f"pull request {PAGE}/b/pull/7", False, id="another request"),
        pytest.param(f"pull request {PAGE}/a/pull/7", f"pull request {PAGE}/a/pull/7", True, id="the same request"),
    ],
)
def test_an_approval_is_known_by_the_number_of_its_run(how: str | None, given: str, *, same: bool) -> None:
    recorded = Approval("octocat", how, NOW) if how else None
    assert is_same_approval(recorded, Approval("octocat", given, NOW)) is same
