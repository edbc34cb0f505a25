"""The command `history`."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct
from msgspec.structs import replace

from ci_automation.artifact.reference import Digest, LayoutDirectory, OciRepository, Reference
from ci_automation.cli.follow_up import comparing, whole
from ci_automation.cli.output import print_json, print_line, print_parts, print_reading, print_table, print_text, width
from ci_automation.cli.parameters import COMMON, TRUST, HeadedCommand, one_artifact_argument, takes
from ci_automation.cli.wiring import reading
from ci_automation.errors import UsageError
from ci_automation.flows.history import UNTRUSTED, History, HistoryEntry, history
from ci_automation.flux.proof import Proof
from ci_automation.policy.model import InvalidDuration, duration
from ci_automation.records.attached import known_as
from ci_automation.records.notes import HoldStatement, Record, format_time, parse_time
from ci_automation.registry.port import NotFound
from ci_automation.report.blocks import HINT, MarkedLine, Table, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ci_automation.cli.arguments import Arguments
    from ci_automation.flows.ports import Ports
    from ci_automation.flux.version import Version

    Place = OciRepository | LayoutDirectory
    _Entries = Mapping[Digest, HistoryEntry]


@click.command("history", cls=HeadedCommand)
@one_artifact_argument()
@click.option("--since", metavar="WHEN", help="list only what is newer: a date such as 2026-11-01 (UTC), or 30d")
@takes(*TRUST, "registry-config", *COMMON)
def history_command(artifact: str, *, since: str | None, given: Arguments) -> None:
    """List what was published, when, signed and approved by whom, and where the channels stand.

    The newest move of the channel comes first. When, why and by whom is in signed records and holds. It leaves out
    those that no trusted signer signed. Artifacts that only other channels of the repository have are listed with -v
    (they have no number), or without a key to read records with. @1 is the artifact of the repository with the highest
    version now, and of one version the newest publication; @2 is the one below it: `diff ARTIFACT@2 ARTIFACT@1`
    compares two. The next publication can move these numbers; a tag such as v2.9.4-1a2b3c4d5e6f stays. --since leaves
    out older rows, and those without a time. -v prints a table with every column.

    \b
    flux-manifests history oci://ghcr.io/acme/flux-manifests:production --public-key cosign.pub
    """
    after = _moment(since, datetime.now(UTC)) if since else None
    reference, ports = reading(artifact, given)
    found = history(reference, ports, every=given.verbose)
    rows = history_rows(found.entries, reference.repository, every=given.verbose)
    if not rows:
        raise NotFound(str(reference))
    shown = tuple(row for row in rows if after is None or (row.at is not None and row.at >= after))
    if given.output == "json":
        known = partial(known_as, ports.registry, reference)
        print_json({"entries": [_to_json(entry, known) for entry in _newer(found.entries, after)]}, "history")
    else:
        if found.is_deleted:
            print_line(f"{reference} was deleted. Signed records say what it had:")
        if shown:
            _print_rows(artifact, shown, given, verified=ports.trusted is not None)
        elif ports.trusted is None:
            print_line(f"--since {since} leaves out all rows: without a verified record none has a time.")
        else:
            print_line(f"No record is as new as --since {since}.")
        remarks = [*map(MarkedLine, _remarks(found, reference, ports))]
        print_parts(remarks)
        print_reading(remarks, whole())
    if found.left_out:
        click.echo(f"{found.left_out} more tags were not read. Delete those that are not yours.", err=True)


def _print_rows(artifact: str, shown: Sequence[HistoryRow], given: Arguments, *, verified: bool) -> None:
    if given.verbose:
        told = [it for it in range(len(_HEAD)) if any(row.cells[it] for row in shown)]  # columns that say something
        print_table(Table(tuple(_HEAD[it] for it in told), tuple(tuple(row.cells[it] for it in told) for row in shown)))
    else:
        print_text("\n".join(screen_lines(shown, width())))
    named = [row for row in shown if row.cells[0].startswith("@") and not (verified and row.cells[4] in UNTRUSTED)]
    if len(numbers := dict.fromkeys(f"{artifact}{row.cells[0]}" for row in named)) > 1:
        new, old, *_ = numbers
        print_line(_NUMBERS)
        print_text(comparing(old, new, given))


def _remarks(found: History, reference: Reference, ports: Ports) -> Iterator[str]:
    """Yield what the table does not show: what only records say, and artifacts of other channels."""
    if ports.trusted is None:
        yield (
            f"Nothing was verified: {ports.why_nobody}. When, why, by whom and in which channel is in signed records: "
            "give --public-key, or an identity, to read them."
        )
    if found.elsewhere:
        artifacts, verb = ("artifact", "has") if found.elsewhere == 1 else ("artifacts", "have")
        lacks = f"{verb} no record and no tag of {reference.tag}{HINT}."
        yield f"{found.elsewhere} more {artifacts} in {reference.repository} {lacks}"


_KEY = re.compile(r"sha256:[0-9a-f]{64}")
_NUMBER, _WHEN = "@", "when (UTC)"
_NUMBERS = "Newest move first. @N is the Nth highest version; a new one moves the numbers. To compare two:"
_UNSIGNED = ("signed, not verified", "unsigned")  # of which no signer is told
_HEAD = (_NUMBER, "version", "digest", "tag or digest", "signed", _WHEN, "what", "by", "approved", "run", "here now")


class HistoryRow(Struct, frozen=True):
    """One row of the table: when it was, and its cells; without a signed record the time is unknown."""

    at: datetime | None
    cells: tuple[str, ...]


class NoMoment(UsageError):
    """A text that says no moment to list from."""

    hint = "Give a date such as 2026-11-01, or an age such as 30d or 12h."

    def __init__(self, text: str) -> None:
        super().__init__(f"--since: {text[:80]!r} is neither a date nor an age")


def _moment(text: str, now: datetime) -> datetime:
    """Return the moment that a date or an age names; raise `NoMoment` for what is neither."""
    with suppress(ValueError):
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    try:
        return now - duration(text)
    except InvalidDuration:
        raise NoMoment(text) from None


def _newer(entries: Sequence[HistoryEntry], after: datetime | None) -> Iterator[HistoryEntry]:
    """Yield the entries with their records and holds since a moment; without one, all of them."""
    for entry in entries:
        records = tuple(it for it in entry.records if after is None or it.at >= after)
        holds = tuple(it for it in entry.holds if after is None or it.at >= after)
        if after is None or records or holds:
            yield replace(entry, records=records, holds=holds)


def history_rows(entries: Sequence[HistoryEntry], repository: Place, *, every: bool = False) -> tuple[HistoryRow, ...]:
    """Return the moves of channels and the holds, the newest first."""
    found = sorted(table_rows(entries, repository, every=every), key=lambda it: it[:2], reverse=True)
    return tuple(HistoryRow(parse_time(at) if at else None, cells) for at, _, cells in found)


def screen_lines(rows: Sequence[HistoryRow], columns: int | None) -> Iterator[str]:
    """Yield the rows, folded to `columns`; who signed all of them is at the end, else below each, as who approved."""
    cells = [dict(zip(_HEAD, row.cells, strict=True)) for row in rows]
    names = [_name_of(cell) for cell in cells]
    wide, many = max(map(len, ("artifact", *names))), max(map(len, (_NUMBER, *(cell[_NUMBER] for cell in cells))))
    yield f"{_NUMBER.ljust(many)}  {'artifact'.ljust(wide)}  {_WHEN.ljust(16)}  what"
    signed = [it["signed"] if it["signed"] in _UNSIGNED else f"signed by {it['signed']}" for it in cells]
    columns = columns or 1 << 30
    for cell, name, own in zip(cells, names, signed, strict=True):
        head = f"{cell[_NUMBER].ljust(many)}  {name.ljust(wide)}  {cell[_WHEN].ljust(16)}  "
        here = cell["here now"]
        now = " (here now)" if {*here.split(", ")} <= {*cell["what"].split()} else f" (here now: {here})"
        line, *rest = wrapped(cell["what"] + (now if here else ""), columns - len(head))
        yield from (head + line, *(" " * len(head) + line for line in rest))
        said = [own] if len(set(signed)) > 1 else []
        said += [f"recorded by {cell['by']}"] if cell["by"] not in {"", cell["signed"]} else []
        said += [f"approved: {cell['approved']}"] if cell["approved"] else []
        yield from (f"{' ' * (many + 2)}{line}" for line in wrapped("; ".join(said), columns - many - 2) if line)
    if len(set(signed)) == 1:
        yield f"{'All' if cells[1:] else 'It is'} {signed[0]}."


def _name_of(cell: Mapping[str, str]) -> str:
    """Return the immutable tag, which people copy, or the version and the beginning of a digest that has none."""
    name = cell["tag or digest"]
    return f"{cell['version']} {Digest.parse(name).short}" if name.startswith("sha256:") else name


def table_rows(
    entries: Sequence[HistoryEntry], repository: Place, *, every: bool = False
) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """Yield each move of a channel and each hold, with its moment and its place among those that have none.

    A hold has no number: it names no other artifact than a move, and channels are at a move. With `every`, a move has
    the commits of its content and of its run, and each request that approved it with everyone who counted.
    """
    others = {entry.digest: entry for entry in entries}
    for place, entry in enumerate(entries):
        what = [
            (
                it.at,
                entry.mark,
                _move(it, others, repository, entry) + (_content(it) if every else ""),
                _by(it),
                _approval(it, every=every),
                it.run or "",
            )
            for it in entry.records
        ]
        held = [it for it in entry.holds if it.digest != it.refused.digest]  # of others the rollback's record tells
        moved = max((it[0] for it in what), default=None)
        what += [(it.at, "", _hold(it, others, repository, entry), _by(it), "", it.run or "") for it in held]
        tags = ", ".join((*entry.channels, *entry.version_tags))
        common = (str(entry.version or "unknown"), str(entry.digest), entry.tag or str(entry.digest), entry.signed)
        if not what:
            yield "", -place, (entry.mark, *common, "", entry.unrecorded, "", "", "", tags)
        for at, number, *said in what:
            here = tags if at == (moved or max(it[0] for it in what)) and (number or not moved) else ""
            yield format_time(at), -place, (number, *common, f"{at:%Y-%m-%d %H:%M}", *said, here)


def _move(record: Record, others: _Entries, repository: Place, entry: HistoryEntry) -> str:
    channel = _name(record.channel, repository)
    if record.rolled_back or record.put_back:
        left = _told(record.previous, others, entry) if record.previous else "what is not known"
        return f"{channel} {'went' if record.rolled_back else 'was put'} back to this from {left}"
    if record.adopted:
        return f"adopted on {channel}"
    made = f", {entry.origin}" if entry.origin else ""
    if record.proof is Proof.NONE:
        made += ", rendering not proven (--unsafe-unproven-rendering)"
    if record.promoted_from:
        return f"promoted to {channel} from {_name(record.promoted_from, repository)}{made}"
    return f"published to {channel}{made}"


def _told(digest: Digest, others: _Entries, entry: HistoryEntry, version: Version | None = None) -> str:
    """Return the version that the channel left for this entry; if it is the same, its tag or the digest."""
    left = others.get(digest)
    version = version or (left.version if left else None)
    return str(version) if version and version != entry.version else (left and left.tag) or f"digest {digest.short}"


def _content(record: Record) -> str:
    found = f", with the content of {record.content.commit[:12]}" if record.content else ""
    if record.source:
        found += f", from {record.source.repository.removeprefix('https://')} at {record.source.commit[:12]}"
    return found


def _name(channel: str, repository: Place) -> str:
    """Return a channel by its tag alone, where it is of the repository whose history that is."""
    if isinstance(repository, OciRepository):
        return channel.removeprefix(f"{repository}:")
    return channel.rpartition(":")[2] if channel.startswith("layout:") else channel


def _by(said: Record | HoldStatement) -> str:
    """Return who signed it, as short as it is still told apart: a part of the key's digest, or the subject alone."""
    if _KEY.fullmatch(said.by):
        return f"key {Digest.parse(said.by).short}"
    return said.by.partition(" (issuer ")[0].removeprefix("https://")


def _approval(record: Record, *, every: bool) -> str:
    if record.approval:
        told = record.approval.told if every else ((record.approval.by, record.approval.how),)
        return "; ".join(f"{by} ({how})" for by, how in told)
    return "not known" if record.recovered and record.proof is None else ""


def _hold(hold: HoldStatement, others: _Entries, repository: Place, entry: HistoryEntry) -> str:
    because = f": {hold.reason}" if hold.reason else ""
    what = _told(hold.refused.digest, others, entry, entry.version if hold.alone else hold.refused.version)
    if hold.moved and hold.until and hold.until <= hold.at:
        return f"the hold on {what} was lifted on {_name(hold.channel, repository)}{because}"
    until = f"{hold.until:%Y-%m-%d %H:%M}" if hold.until else "a newer release"
    return f"{what} on hold until {until} on {_name(hold.channel, repository)}{because}"


def _to_json(entry: HistoryEntry, known: Callable[[str], str]) -> dict[str, Any]:
    """Return an entry as the JSON output has it, with channels as they are `known` to the user."""
    notes: dict[str, list[dict[str, Any]]] = {"records": [], "holds": []}
    for kind, of in (("records", entry.records), ("holds", entry.holds)):
        for note in of:
            named = note.to_json()
            names = {key: known(named[key]) for key in ("channel", "promotedFrom") if named.get(key)}
            notes[kind].append(named | names)
    return {
        "rows": [entry.number] if entry.number else [],
        "version": str(entry.version or "unknown"),
        "tag": entry.tag or "",
        "digest": str(entry.digest),
        "signed": entry.signed,
        "origin": entry.origin,
        "channels": list(entry.channels),
        "versionTags": list(entry.version_tags),
        "problem": entry.problem,
        **notes,
    }
