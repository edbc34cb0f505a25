"""The history of a repository: moves, rollbacks and holds by time, what nobody knows, and tags without end."""

from __future__ import annotations

import itertools
import json
import re
import shlex
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from ci_automation.artifact.manifest import CONFIG_BLOB, FLUX_CONFIG, FLUX_LAYER, Descriptor, Manifest
from ci_automation.artifact.reference import Reference
from ci_automation.cli import run
from ci_automation.cli.history import history_rows, screen_lines, table_rows
from ci_automation.flows import history as flow
from ci_automation.flows.apply import apply
from ci_automation.flows.history import history
from ci_automation.flows.init import init
from ci_automation.flows.planning.plan import make_plan
from ci_automation.flows.publication.copy import copy
from ci_automation.flows.rollback import Wish, propose_rollback, roll_back
from ci_automation.flows.update import update
from ci_automation.policy.model import BUMPS, Action, Policy
from ci_automation.records.attached import channel_name, known_as
from ci_automation.registry import open_registry
from tests.contract.planting import at, attach_junk, forget_records, made, plant, put_in_place_of_the_list
from tests.contract.publishing import publish_text
from tests.contract.rolled_back import AUTO, back, grown
from tests.fakes.world import CHANNEL, MINOR, NOW, OLD, OVERLAY, PATCH, World, intent, signing_key

if TYPE_CHECKING:
    from pathlib import Path

    from ci_automation.artifact.reference import Digest
    from ci_automation.flux.version import Version

pytestmark = pytest.mark.usefixtures("unjudged")
NEVER = Policy(actions=dict.fromkeys(BUMPS, Action.NEVER))
FOOTER = ("All signed", "It is signed", "Newest move", "flux-manifests ", "To read all")  # lines that are no row


def test_the_newest_move_comes_first_whatever_its_version() -> None:
    world = grown()
    back(world, str(OLD), reason="webhooks time out")
    found = history(CHANNEL, world.ports())
    assert [entry.version for entry in found.entries] == [OLD, MINOR, PATCH]
    first = found.entries[0]
    assert [record.rolled_back for record in first.records] == [False, True]
    assert [(hold.refused.version, hold.reason) for hold in first.holds] == [(MINOR, "webhooks time out")]
    assert first.channels == ("production",)


def test_what_no_record_tells_comes_last_by_version() -> None:
    world = grown()
    for entry in history(CHANNEL, world.ports()).entries:
        if entry.version != OLD:
            forget_records(world, entry.digest)
    found = history(CHANNEL, world.ports())
    assert [entry.version for entry in found.entries] == [OLD, MINOR, PATCH]
    assert [entry.last is None for entry in found.entries] == [False, True, True]


@pytest.mark.parametrize("api", [True, False], ids=["too many records", "no list of them"])
def test_of_what_hides_records_a_row_says_so_and_the_other_rows_are_there(*, api: bool) -> None:
    world = grown()
    if api:
        attach_junk(world, digest_of(world, OLD))
        reason = "has 66 publication records, more than the limit of 64"
    else:
        world.registry.referrers_api = False
        put_in_place_of_the_list(world, digest_of(world, OLD))
        reason = "should be the index of the digest's referrers"
    entries = history(CHANNEL, world.ports()).entries
    assert {entry.version for entry in entries} == {OLD, PATCH, MINOR}
    (hidden,) = (entry for entry in entries if entry.problem)
    said = next(cells[6] for _, _, cells in table_rows((hidden,), CHANNEL.repository))
    assert hidden.version == OLD
    assert said.startswith("its records cannot be read: ")
    assert reason in said


def test_a_hold_by_a_clock_behind_that_of_a_record_is_not_said_to_be_lifted() -> None:
    world = World()
    init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY))
    ahead = replace(world.ports(), clock=lambda: datetime(2029, 1, 1, tzinfo=UTC))
    assert update(CHANNEL, ahead, intent()).done == 1
    back(world, str(OLD), until=datetime(2027, 3, 1, tzinfo=UTC))
    said = [cells[6] for _, _, cells in table_rows(history(CHANNEL, world.ports()).entries, CHANNEL.repository)]
    assert [it for it in said if "hold" in it] == [f"{PATCH} on hold until 2027-03-01 00:00 on production"]


def digest_of(world: World, version: Version) -> Digest:
    return next(it.digest for it in history(CHANNEL, world.ports()).entries if it.version == version)


def test_a_channel_of_several_has_its_own_moves_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers are those of the repository, so that one means the same everywhere; a channel has those of its own."""
    world, staging = grown(), CHANNEL.at_tag("staging")
    init(staging, OLD, world.ports(), intent(overlay=OVERLAY))  # the digest that production began with
    more = (OVERLAY.replaced(name, b"a") for name in ("first", "second"))
    init(CHANNEL.at_tag("other"), PATCH, world.ports(), intent(overlay=next(more)))
    init(CHANNEL.at_tag("gone"), PATCH, world.ports(None, None), intent(overlay=next(more), unsafe_unsigned=True))
    del world.registry.repositories[str(CHANNEL.repository)].tags["gone"]
    for command in ("history", "diff"):
        monkeypatch.setattr(
            f"ci_automation.cli.{command}.reading", lambda text, _: (Reference.parse(text), world.ports())
        )

    def told(channel: Reference, *arguments: str) -> list[str]:
        assert run(["history", str(channel), *arguments]) == 0
        return [it for it in capsys.readouterr().out.splitlines()[1:] if it[0] != " " and not it.startswith(FOOTER)]

    *rows, left = told(CHANNEL)
    assert [line.split()[1].split("-")[0] for line in rows] == [str(MINOR), str(PATCH), str(OLD)]
    assert all("  published to production" in line for line in rows)
    assert left == f"2 more artifacts in {CHANNEL.repository} have no record and no tag of production (-v lists them)."
    row, left = told(staging)
    assert row.split()[:2] == rows[-1].split()[:2]
    assert "  published to staging" in row
    assert left.startswith("4 more artifacts")
    everything = told(staging, "-v")
    assert len(everything) == 6
    assert sum("  published to production" in line for line in everything) == 3
    assert len(history(staging, world.ports(None, None)).entries) == 5
    assert [line.split()[0] for line in everything if "to production" in line] == ["-", "-", row.split()[0]]
    number = rows[0].split()[0]
    assert run(["diff", f"{staging}{row.split()[0]}", f"{staging}{number}"]) == 2  # of production alone
    told_why = capsys.readouterr().err
    assert f"the history of {staging} has no number {number[1:]}\n" in told_why
    assert f"It has {row.split()[0]}. Name what only another channel had by that channel, or by its tag." in told_why
    assert run(["diff", f"{staging}{row.split()[0]}", f"{CHANNEL}{number}"]) == 0
    headline = capsys.readouterr().out.splitlines()[0]
    sides = ((staging, row), (CHANNEL, rows[0]))
    names = ((f"{of}{it.split()[0]}", it.split()[1].replace("-", ", ", 1)) for of, it in sides)
    assert headline == " -> ".join(f"{name} ({facts})" for name, facts in names)
    assert run(["history", str(staging), "--output", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [it["channel"] for entry in found["entries"] for it in entry["records"]] == [str(staging)]


def test_it_is_read_without_anybody_to_trust() -> None:
    world = grown()
    found = history(CHANNEL, world.ports(None, None))
    assert [entry.version for entry in found.entries] == [MINOR, PATCH, OLD]
    assert {entry.records for entry in found.entries} == {()}


def test_of_tags_without_end_some_are_read_and_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    world = grown()
    monkeypatch.setattr(flow, "MAX_TAGS", 10)
    config = Descriptor.of(FLUX_CONFIG, CONFIG_BLOB)
    world.registry.put_blob(CHANNEL, b"theirs")
    theirs = Manifest.build(config, (Descriptor.of(FLUX_LAYER, b"theirs"),))
    for number in range(30):
        world.registry.put_manifest(CHANNEL.at_tag(f"a-{number}"), theirs)
    world.registry.requests.clear()
    found = history(CHANNEL, world.ports())
    assert found.left_out == 24
    assert {MINOR, PATCH, OLD} <= {entry.version for entry in found.entries}
    assert found.entries[0].channels == ("production",)
    assert sum(asked.method == "resolve" for asked in world.registry.requests) == 10


def test_the_table_shows_every_move_and_what_nobody_knows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = grown()
    back(world, reason="webhooks time out")
    layout = Reference.parse(f"layout:{tmp_path / 'registry'}:production")
    registry = open_registry(layout)
    for tag in world.registry.tags(CHANNEL):
        digest = world.registry.resolve(CHANNEL.at_tag(tag))
        if digest and not tag.startswith("sha256-"):
            copy(world.registry, CHANNEL, registry, layout.at_tag(tag), digest)
    key = tmp_path / "cosign.pub"
    key.write_bytes(signing_key().public.to_pem().encode())
    told = ["history", str(layout), "--public-key", str(key)]
    assert run([*told, "-v"]) == 0
    lines = [it for it in capsys.readouterr().out.splitlines() if not it.startswith(FOOTER)]
    assert [line.split()[0] for line in lines] == ["@", "@2", "v2.98.8", "@1", "@2", "@3"]
    assert {"when (UTC)", "digest", "here now"} <= set(re.split(r" {2,}", lines[0]))
    assert not {"run", "approved"} & set(lines[0].split())
    assert f"{CHANNEL} went back to this from v2.99.4" in lines[1]
    assert lines[1].endswith("production")
    assert f"v2.99.4 on hold until a newer release on {CHANNEL}: webhooks time out" in lines[2]
    assert f"published to {CHANNEL}" in lines[3]
    assert all(f"  key {signing_key().public.fingerprint.short}  " in line for line in lines[1:])
    assert sum(f"  {registry.resolve(layout)}  " in line for line in lines) == 3
    assert run(told) == 0
    piped = capsys.readouterr().out.splitlines()
    with monkeypatch.context() as terminal:
        terminal.setenv("COLUMNS", "80")
        terminal.setattr(sys.stdout, "isatty", lambda: True)
        assert run(told) == 0
    narrow = capsys.readouterr().out.splitlines()
    assert not [it for it in narrow[:-1] if len(it) > 80 and "oci://" not in it]  # which is one word
    assert max(map(len, piped[:-1])) > 100
    assert " ".join(" ".join(narrow).split()) == " ".join(" ".join(piped).split())
    assert piped[0].split() == ["@", "artifact", "when", "(UTC)", "what"]
    assert not any(line.endswith(" ") for line in piped)
    marked = [line.split()[0] for line in lines[1:]]
    shown = [it.split()[0].split("-")[0] for it in piped[1:-3]]
    assert shown == marked
    assert "production)" not in next(line for line in piped if "on hold until" in line)
    assert piped[-3:-1] == [
        f"All signed by key {signing_key().public.fingerprint.short}.",
        "Newest move first. @N is the Nth highest version; a new one moves the numbers. To compare two:",
    ]
    compare = shlex.split(piped[-1])[1:]
    assert compare == ["diff", f"{layout}@1", f"{layout}@2", "--public-key", str(key)]
    assert run(compare) == 0
    capsys.readouterr()
    assert run(["history", str(layout)]) == 0
    _, *unknown, signed, _, _, hint = capsys.readouterr().out.splitlines()
    assert signed == "All signed, not verified."
    assert [line.split()[0] for line in unknown] == ["@1", "@2", "@3"]
    assert [line.split()[1].split("-")[0] for line in unknown] == ["v2.99.4", "v2.98.8", "v2.98.5"]
    assert all(line.count("no verified record") == 1 for line in unknown)
    assert "--public-key" in hint


def test_people_know_a_channel_of_a_record_by_its_address_and_not_by_the_identity_of_a_layout(tmp_path: Path) -> None:
    layout = Reference.parse(f"layout:{tmp_path / 'registry'}:production")
    registry = open_registry(layout)
    registry.give_identity(layout)
    staging = layout.at_tag("staging")
    assert known_as(registry, layout, channel_name(registry, staging)) == str(staging)
    assert known_as(registry, layout, f"layout:{'0a' * 16}:blue") == "blue of another layout directory"
    assert known_as(registry, layout, str(CHANNEL)) == str(CHANNEL)


def test_where_nothing_was_published_there_is_no_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 20, as with `check`: an address with a typo is no success."""
    layout = Reference.parse(f"layout:{tmp_path}:production")
    open_registry(layout).put_blob(layout, b"theirs")
    for more in ([], ["--output", "json"], ["--since", "1d"]):
        assert run(["history", str(layout), *more]) == run(["check", str(layout)]) == 20
        assert f"{layout} was not found" in capsys.readouterr().err


def test_since_a_moment_rows_keep_their_numbers_and_a_diff_takes_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    days = [NOW - timedelta(days=number) for number in (40, 20, 0)]
    ports = [replace(world.ports(), clock=lambda day=day: day) for day in days]  # type: ignore[misc]
    init(CHANNEL, OLD, ports[0], intent(overlay=OVERLAY))
    update(CHANNEL, ports[1], intent())
    update(CHANNEL, ports[2], intent(policy=AUTO))
    for command in ("history", "diff"):
        monkeypatch.setattr(f"ci_automation.cli.{command}.reading", lambda *_: (CHANNEL, world.ports()))

    def told(*arguments: str) -> list[list[str]]:
        assert run(["history", str(CHANNEL), *arguments]) == 0
        lines = capsys.readouterr().out.splitlines()[1:]
        return [it.partition("-")[0].split() for it in lines if it.startswith("@")]

    rows = [["@1", str(MINOR)], ["@2", str(PATCH)], ["@3", str(OLD)]]
    assert told() == rows
    for moment, number in ((days[2], 1), (days[1], 2), (days[0], 3)):
        assert told("--since", f"{moment:%Y-%m-%d}") == rows[:number]
    assert run(["history", str(CHANNEL), "--since", "2099-01-01"]) == 0
    assert capsys.readouterr().out == "No record is as new as --since 2099-01-01.\n"
    monkeypatch.setattr("ci_automation.cli.history.reading", lambda *_: (CHANNEL, replace(world.ports(), trusted=None)))
    assert run(["history", str(CHANNEL), "--since", "87600h"]) == 0
    assert capsys.readouterr().out.startswith("--since 87600h leaves out all rows: without a verified record none has")
    monkeypatch.setattr("ci_automation.cli.history.reading", lambda *_: (CHANNEL, world.ports()))
    assert told("--since", "87600h") == rows
    assert run(["history", str(CHANNEL), "--since", f"{days[1]:%Y-%m-%d}", "--output", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(each["version"], each["rows"]) for each in found["entries"]] == [(str(MINOR), [1]), (str(PATCH), [2])]
    for wrong in ("yesterday", "2026-13-01", "-3d"):
        assert run(["history", str(CHANNEL), f"--since={wrong}"]) == 2
        assert "is neither a date nor an age" in capsys.readouterr().err

    for number in (0, 4):
        assert run(["diff", f"{CHANNEL}@{number}", f"{CHANNEL}@1"]) == 2
        assert f"has no number {number}" in capsys.readouterr().err
    assert run(["diff", f"{CHANNEL}@3", f"{CHANNEL}@1", "--output", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    digests = {entry.version: str(entry.digest) for entry in history(CHANNEL, world.ports()).entries}
    assert [found[side]["digest"] for side in ("from", "to")] == [digests[OLD], digests[MINOR]]


def test_of_one_version_the_newest_publication_has_the_smaller_number(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rollback and a promotion publish nothing, so that they change no number."""
    world = World()
    times = itertools.count()

    def publish(**content: Any) -> Digest:
        now = NOW + timedelta(hours=next(times))
        ports, wish = replace(world.ports(), clock=lambda: now), intent(**content, policy=NEVER)
        (step,) = (plan := make_plan(CHANNEL, ports, wish).plan).steps
        apply(plan, {step.target}, ports, wish)
        return at(world)

    init(CHANNEL, MINOR, world.ports(), intent(overlay=OVERLAY))
    first = at(world)
    digests = [first, *(publish(overlay=OVERLAY.replaced("own.txt", text)) for text in (b"1", b"2", b"3", b"4"))]

    def ranked() -> list[Digest]:
        return [it.digest for it in sorted(history(CHANNEL, world.ports()).entries, key=lambda it: it.number)]

    assert ranked() == digests[::-1]
    later = replace(world.ports(), clock=lambda: NOW + timedelta(days=1))
    roll_back(propose_rollback(CHANNEL, Wish(str(digests[1])), later, intent()), later, intent())
    assert (at(world), ranked()) == (digests[1], digests[::-1])
    entry = history(CHANNEL, world.ports()).entries[-1]
    promoted = replace(entry.records[-1], promoted_from="staging", at=NOW + timedelta(days=2))
    assert replace(entry, records=(*entry.records, promoted)).rank == entry.rank
    forget_records(world, digests[-1])
    assert ranked() == [*digests[-2::-1], digests[-1]]
    unknown = history(CHANNEL, world.ports(None, None)).entries
    assert [it.digest for it in unknown] == sorted(digests, key=str, reverse=True)
    assert {it.number for it in unknown} == {0}  # records alone tell which one is newer
    monkeypatch.setattr("ci_automation.cli.diff.reading", lambda *_: (CHANNEL, world.ports(None, None)))
    assert run(["diff", f"{CHANNEL}@2", f"{CHANNEL}@1"]) == 2
    assert "several of one version have no number: give --public-key" in " ".join(capsys.readouterr().err.split())
    assert publish(overlay=OVERLAY) == first
    assert ranked() == [first, *digests[-2:0:-1], digests[-1]]


def test_each_row_begins_with_the_name_to_copy() -> None:
    (entry, *_) = history(CHANNEL, grown().ports(None, None)).entries
    for tag, name in ((entry.tag, f"{entry.tag}"), (None, f"{entry.version} {entry.digest.short}")):
        lines = list(screen_lines(history_rows((replace(entry, tag=tag),), CHANNEL.repository), 120))
        assert lines[1].startswith(f"@1  {name}  ")
        assert lines[1].endswith("  no verified record (here now: production)")
        assert lines[2] == "It is signed, not verified."


def test_all_channels_that_have_it_are_named_unless_the_row_does() -> None:
    first, *_ = history(CHANNEL, grown().ports()).entries
    for channels, now in ((("production",), "here now"), (("production", "staging"), "here now: production, staging")):
        row, *_ = history_rows((replace(first, channels=channels),), CHANNEL.repository)
        assert list(screen_lines((row,), None))[1].endswith(f" to production ({now})")


def test_who_signed_is_told_of_each_row_if_it_is_not_the_same_for_all() -> None:
    first, *others = history(CHANNEL, grown().ports()).entries
    lines = list(screen_lines(history_rows((replace(first, signed="unsigned"), *others), CHANNEL.repository), None))
    key = f"key {signing_key().public.fingerprint.short}"
    assert [it.strip() for it in lines if it.startswith("    ")] == [
        f"unsigned; recorded by {key}",
        *[f"signed by {key}"] * len(others),
    ]


def test_of_other_content_of_the_version_it_says_which_was_left_and_is_on_hold() -> None:
    world = grown()
    here = at(world)
    debug = intent(flags={"log-level": "debug"}, policy=NEVER)
    plan = make_plan(CHANNEL, world.ports(), debug).plan
    apply(plan, {plan.steps[-1].target}, world.ports(), debug)
    left = at(world)
    back(world, str(here))
    entries = history(CHANNEL, world.ports()).entries
    said = [row[6] for _, _, row in table_rows(entries, CHANNEL.repository)]
    assert f"production went back to this from {MINOR}-{left.short}" in said
    assert f"{MINOR}-{left.short} on hold until a newer release on production" in said


@pytest.mark.parametrize("tagged", [False, True])
def test_what_another_writer_put_there_and_a_rollback_left_is_known_by_its_digest(*, tagged: bool) -> None:
    world = World()
    init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY))
    planted = plant(world, made(MINOR))
    if tagged:
        world.registry.put_manifest(CHANNEL.at_tag("theirs"), world.registry.manifest(CHANNEL))
    later = replace(world.ports(), clock=lambda: NOW + timedelta(days=1))
    proposal = propose_rollback(CHANNEL, Wish(str(OLD)), later, intent())
    assert (proposal.shown.base_version, proposal.shown.stated) == (OLD, MINOR)
    roll_back(proposal, later, intent())
    said = [row[6] for _, _, row in table_rows(history(CHANNEL, world.ports(), every=True).entries, CHANNEL.repository)]
    assert f"digest {planted.short} on hold until a newer release on production" in said
    left = str(MINOR) if tagged else f"digest {planted.short}"
    assert f"production went back to this from {left}" in said


def test_of_an_identity_the_table_has_the_subject() -> None:
    world = grown()
    workflow = "github.com/acme/fleet/.github/workflows/flux.yaml@refs/heads/main"
    (entry, *_) = history(CHANNEL, world.ports()).entries
    by = f"https://{workflow} (issuer https://token.actions.githubusercontent.com)"
    entry = replace(entry, records=(replace(entry.records[0], by=by),))
    ((_, _, row),) = table_rows((entry,), CHANNEL.repository)
    assert row[7] == workflow
    assert row[6] == "published to production"


def test_of_its_own_repository_a_channel_is_known_by_its_tag_and_where_it_came_from_by_its_version() -> None:
    world = grown()
    back(world, str(OLD))
    entry = history(CHANNEL, world.ports()).entries[0]
    assert entry.records[-1].previous
    left = entry.records[-1].previous.short
    moved = replace(entry.records[-1], promoted_from=str(CHANNEL.at_tag("staging")), rolled_back=False)
    for records, entries, what in (
        (entry.records[-1:], history(CHANNEL, world.ports()).entries, f"production went back to this from {MINOR}"),
        (entry.records[-1:], (entry,), f"production went back to this from digest {left}"),
        ((replace(entry.records[-1], previous=None),), (), "production went back to this from what is not known"),
        ((moved,), (), "promoted to production from staging"),
        ((replace(moved, channel="layout:x"),), (), "promoted to layout:x from staging"),
    ):
        told = [replace(entry, records=records, holds=()), *entries[1:]]
        rows = [row for _, _, row in table_rows(told, CHANNEL.repository)]
        assert rows[0][6] == what
    layout = Reference.parse("layout:somewhere:production").repository
    ((_, _, row),) = table_rows((replace(entry, records=(replace(moved, channel="layout:x"),), holds=()),), layout)
    assert row[6].startswith("promoted to x from ")


def test_what_another_tool_made_has_the_version_of_its_immutable_tag() -> None:
    world = World()
    digest = publish_text(world, b"# Flux Version: v2.98.5\n")
    manifest = world.registry.manifest(CHANNEL)
    world.registry.put_manifest(CHANNEL.at_tag(f"{OLD}-{digest.short}"), manifest)
    assert [(it.version, it.tag) for it in history(CHANNEL, world.ports()).entries] == [(OLD, f"{OLD}-{digest.short}")]
