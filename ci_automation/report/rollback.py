"""The page that a person sees before a rollback: what it changes, what it breaks, and the hold."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.impact.change import in_shell
from ci_automation.policy.decision import Decision, decide
from ci_automation.report.blocks import MarkedLine, Part
from ci_automation.report.changes import text_parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ci_automation.artifact.reference import Digest, Reference
    from ci_automation.flux.version import Version
    from ci_automation.policy.decision import Hold
    from ci_automation.report.findings import Findings

_SIGNS = "The target has lost its signature; the rollback signs it again first."


class Rollback(Struct, frozen=True):
    """A channel on its way back: from which digest to which, what that does to clusters, and what is on hold then.

    `problem` says why what the channel has now is not to be trusted, or does not belong there; nothing of it is taken
    along. Then `base_version` is what signed statements say, or else the target's, so that the hold is of one digest
    alone, and `stated` is what it says of its version, if it can be read. `signs` says that the target has lost its
    signature, and is signed again. Where both digests are the same, the channel is there. `version_tags` lead to the
    target afterwards, or, without `moves_tags`, stay at the base. `holds` says that the hold is not on yet, or changes;
    without one, `ended` is the last one that was on, and with one that on the target, which ends. `others` are the tags
    of other digests with the version that the channel has already. `puts_back` says that the tag was moved away from
    the target without a record: nothing is held. `last` is what the channel had last, if its tag was moved away from
    that to where it is. `also` are the other holds that are on afterwards.
    """

    channel: Reference
    base: Digest
    base_version: Version
    target: Digest
    target_version: Version
    hold: Hold | None
    findings: Findings
    problem: str = ""
    stated: Version | None = None
    signs: bool = False
    version_tags: tuple[str, ...] = ()
    moves_tags: bool = False
    holds: bool = True
    ended: Hold | None = None
    others: tuple[str, ...] = ()
    puts_back: bool = False
    last: tuple[Version, Digest] | None = None
    also: tuple[Hold, ...] = ()

    @property
    def is_there(self) -> bool:
        """Return whether the channel has the target already."""
        return self.base == self.target

    @property
    def _left(self) -> Version | None:
        return self.stated if self.problem and not self.is_there else self.base_version

    @property
    def decision(self) -> Decision:
        """Return the gravest of what the gates say."""
        return decide(self.findings.gates) if self.findings.gates else Decision.AUTO

    @property
    def obstacles(self) -> tuple[str, ...]:
        """Return the sentences of the gates that refuse it."""
        return tuple(it.reason for it in self.findings.gates if it.decision is Decision.REFUSED)

    @property
    def breaks(self) -> tuple[str, ...]:
        """Return the fingerprints of what refuses it, each once; what only needs approval, a yes does.

        There are none where something refuses it that cannot be acknowledged.
        """
        found, taken = self.findings, self.findings.taken()
        if any(it.final for it in found.hazards):
            return ()
        hazards = (it.fingerprint for it in found.ranked_hazards() if taken.hazard(it) == Decision.REFUSED)
        changes = (it.fingerprint for it in found.ranked() if taken.change(it) == Decision.REFUSED)
        return tuple(dict.fromkeys((*hazards, *changes)))

    def to_json(self) -> dict[str, Any]:
        """Return it as documents have it."""
        return {
            "artifact": str(self.channel),
            "from": {"version": str(self._left or ""), "digest": str(self.base)},
            "to": {"version": str(self.target_version), "digest": str(self.target)},
            "decision": str(self.decision),
            "hold": hold_json(self.hold) if self.hold else None,
            "otherHolds": [hold_json(it) for it in self.also],
            "problem": self.problem,
            "signedAgain": self.signs,
            "putsBack": self.puts_back,
            "versionTags": list(self.version_tags) if self.moves_tags else [],
            **self.findings.to_json(),
        }


def hold_json(hold: Hold) -> dict[str, Any]:
    """Return a hold as documents have it."""
    return {
        "refused": {"version": str(hold.version), "digest": str(hold.digest)},
        "digestAlone": hold.alone,
        "until": hold.until.isoformat() if hold.until else None,
        "reason": hold.reason,
        "at": hold.at.isoformat(),
    }


def rollback_parts(
    rollback: Rollback, lifting: Sequence[str] | None, *, name: str = "", every: bool = False
) -> Iterator[Part]:
    """Yield what a person should know before saying yes; `every` change on request.

    `name` is the channel's. `lifting` is the command that lifts the hold; None where people use the workflow.
    """
    name = name or str(rollback.channel)
    if rollback.is_there:
        yield from _there_parts(rollback, lifting, name)
        return
    if rollback.puts_back:
        yield MarkedLine(_moved_away(rollback), "warning")
    yield MarkedLine(f"{name} goes back {_way(rollback)}:")
    yield MarkedLine(f"  from {rollback.base}")
    yield MarkedLine(f"  to   {rollback.target}")
    if rollback.problem:
        yield MarkedLine(f"Its present digest is not trusted: {rollback.problem}", "warning")
    if rollback.signs:
        yield MarkedLine(_SIGNS)
    yield from (_refused_before(rollback.ended),) if rollback.ended else ()
    if rollback.version_tags:
        yield _tags_line(rollback)
    yield from text_parts(_without_approvals(rollback.findings), every=every)
    yield from _hold_lines(rollback, rollback.hold) if rollback.hold else ()
    yield from _other_lines(rollback, lifting)
    if rollback.puts_back:
        yield MarkedLine("No hold is written: runs go on from there as the policy says. Find out who moved the tag.")


def _there_parts(rollback: Rollback, lifting: Sequence[str] | None, name: str) -> Iterator[Part]:
    is_done = not (rollback.signs or rollback.problem or rollback.hold)
    there = f"{name} is already at {rollback.target_version}, {rollback.target}"
    yield MarkedLine(f"{there}{': nothing to do' if is_done else ''}.")
    if rollback.others:
        many = "other digests" if rollback.others[1:] else "another digest"
        yield MarkedLine(f"{rollback.target_version} has {many} here; --to takes: {', '.join(rollback.others)}")
    if rollback.problem:
        yield MarkedLine(f"Updates stop at it: {rollback.problem}", "warning")
        if rollback.last:
            version, last = rollback.last
            yield MarkedLine(f"To put it back at {version}: {in_shell('rollback', name, '--to', str(last))}.")
        adopting = in_shell("update", name, "--adopt")
        yield MarkedLine(f"To go on from there, adopt it with {adopting}.")
    yield from [MarkedLine(_SIGNS)] if rollback.signs else ()
    if rollback.hold or rollback.also:
        yield from _hold_lines(rollback, rollback.hold) if rollback.hold else ()
        yield from _other_lines(rollback, lifting)
    else:
        yield from _free_lines(rollback, lifting)


def _refused_before(hold: Hold) -> MarkedLine:
    """Return the sentence that an earlier rollback refused the target, by its hold that this one ends."""
    refused = f"A rollback refused {hold.told} at {hold.since:%Y-%m-%d %H:%M} UTC{_because(hold)}"
    return MarkedLine(f"{refused}. Going back to it ends that hold.", "warning")


def _way(rollback: Rollback) -> str:
    """Return from where to where a channel goes back, in versions."""
    if rollback.puts_back:
        return f"to {rollback.target_version}, which it had last"
    if rollback.problem:
        says = f", which says it is {rollback.stated}" if rollback.stated else " that no run can read"
        return f"to {rollback.target_version} from an untrusted digest{says}"
    if rollback.base_version == rollback.target_version:
        return f"to other content of {rollback.target_version}"
    return f"from {rollback.base_version} to {rollback.target_version}"


def _moved_away(rollback: Rollback) -> str:
    """Return the sentence that a tag was moved without a record, and where it goes now."""
    was, now = rollback.target_version, rollback.base_version
    away = f"to {now}" if now != was else "to other content of it"
    return f"The tag was moved back from {was} {away} without a record. This puts it back at {was}."


def _without_approvals(found: Findings) -> Findings:
    """Return the findings with the gates that refuse, or have a person's word: one yes answers all others."""
    gates = tuple(it for it in found.gates if it.allowed or it.decision is Decision.REFUSED)
    return replace(found, gates=gates)


def _tags_line(rollback: Rollback) -> MarkedLine:
    """Return where the version tags lead afterwards, which clusters with `ref.semver` follow."""
    tags = ", ".join(rollback.version_tags)
    if rollback.moves_tags:
        return MarkedLine(f"These version tags lead to it too: {tags}.")
    stays_at = "it" if rollback.problem else rollback.base_version
    stays = f"These tags stay at {stays_at}, and clusters with ref.semver keep it: {tags}."
    return MarkedLine(f"{stays} To move them too, run with the configuration that has versionTags: true.", "warning")


def _free_lines(rollback: Rollback, lifting: Sequence[str] | None) -> Iterator[MarkedLine]:
    """Yield what the channel may get, and what keeps that away; where updates stop, that is said already."""
    if rollback.problem:
        yield MarkedLine("No hold is on.")
        return
    ended, again = rollback.ended, ""
    if ended:
        yield MarkedLine(f"The hold on {ended.version} ended on {ended.until:%Y-%m-%d %H:%M} UTC.")
        again = f", or add `--until DATE` to hold {ended.version} again" if lifting is not None else ""
    yield MarkedLine(
        "No hold is on: runs may publish newer releases, as the policy says. To keep them away, write `paused: true` "
        f"or a `freeze` for the channel into the configuration{again}."
    )


def _also_held(target: Version, refused: Version) -> Iterator[MarkedLine]:
    """Yield which other releases the hold keeps away, if the rollback passes over any."""
    if (*target.minor, target.semver.patch + 1) < (*refused.minor, refused.semver.patch):
        between = f"each release between {target} and {refused} that is out by now"
        yield MarkedLine(f"The hold also keeps back {between}; runs may publish one that comes out later.")


def _hold_lines(rollback: Rollback, hold: Hold) -> Iterator[MarkedLine]:
    """Yield what the hold keeps away, and until when."""
    verb = "will be" if rollback.holds else "is"
    what = f"{f'Digest {hold.digest.short}' if hold.alone else hold.version} {verb} on hold {hold.end}{_because(hold)}"
    free = f" {hold.version} with other options or files is not on hold." if hold.alone else ""
    if rollback.problem and not rollback.is_there:
        free = " This hold keeps back no release of Flux."
    yield MarkedLine(f"{what}: no scheduled run and no old approval publishes it.{free}")
    yield from () if hold.alone else _also_held(rollback.target_version, hold.version)


def _other_lines(rollback: Rollback, lifting: Sequence[str] | None) -> Iterator[MarkedLine]:
    """Yield which other holds go on, and how the first is lifted."""
    for it in rollback.also:
        yield MarkedLine(f"The hold on {it.told} goes on {it.end}{_because(it)}.")
    on = (*filter(None, (rollback.hold,)), *rollback.also)
    yield from (line for lines in how_to_lift(on, lifting)[:1] for line in lines)


def how_to_lift(on: Sequence[Hold], lifting: Sequence[str] | None) -> list[tuple[MarkedLine, ...]]:
    """Return for each hold of a channel how it is lifted: by a command, or without one by this workflow."""
    found: list[tuple[MarkedLine, ...]] = []
    for hold in on:
        one, to = (f"the hold on {hold.told}", ("--to", str(hold.digest))) if on[1:] else ("the hold", ())
        if lifting is None:
            named = f" and {hold.digest} as `to`" if to else ""
            found.append((MarkedLine(f"To lift {one}, start this workflow with the command lift-hold{named}."),))
        else:
            place = lifting.index("--lift") + 1
            command = shlex.join((*lifting[:place], *to, *lifting[place:]))
            found.append((MarkedLine(f"To lift {one}:"), MarkedLine(command, to_copy=True)))
    return found


def _because(hold: Hold) -> str:
    return f" ({hold.reason})" if hold.reason else ""
