"""The summary of a run, for people: the result for each artifact, what waits, and how to approve it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.flux.artifact import called
from ci_automation.policy.decision import Decision
from ci_automation.report.accepting import acknowledgements
from ci_automation.report.blocks import Detail, MarkedLine, Strong
from ci_automation.report.changes import sections, verdicts
from ci_automation.report.findings import Findings
from ci_automation.report.markdown import code, inline, link, to_markdown
from ci_automation.report.text import WORDS, approvals, main_reasons, step_title, steps_table, what_comes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ci_automation.report.account import Account, Trouble

_MOST_ROWS = 60  # of one step's changes, and of each other list
_LONGEST = 600  # characters of one error
_LEFT = {**WORDS, Decision.AUTO: "not done yet"}
_MOST_NAMES = 3
_CUT = "_A summary has a limit, so the rest is missing here. The outputs and the log have everything._"


def summary(accounts: Sequence[Account], trouble: Trouble | None, limit: int, more: Sequence[str] = ()) -> str:
    """Return the summary of a run in at most `limit` bytes: first one line for each artifact, then the details.

    `trouble` is what ended the whole run, `more` are sections of Markdown that are made elsewhere. What does not fit is
    left out from the end, in whole parts, and a last line says so.
    """
    parts = [f"## {_headline(accounts)}\n", *(f"- {verdict(account)}" for account in accounts), ""]
    if trouble:
        parts.append("\n\n".join(_trouble(trouble)) + "\n")
    parts += [*(_details(account) for account in accounts), *more]
    return fitting(parts, limit)


def _headline(accounts: Sequence[Account]) -> str:
    """Return the first line: a run that ends well although policy refuses everything must not look like others."""
    refused = [_name(account) for account in accounts if account.refused]
    if len(refused) > _MOST_NAMES:
        return f"Flux: refused for {len(refused)} artifacts"
    return f"Flux: refused for {', '.join(refused)}" if refused else "Flux"


def verdict(account: Account) -> str:
    """Return the result for an artifact, in one line."""
    name = f"**{_name(account)}**"
    did = [f"published {what_comes(step)}" for step in account.published] + list(filter(None, (account.done,)))
    if account.trouble:
        before = f" after it had {' and '.join(did)}" if did else ""
        return f"{name} failed{before}: {inline(account.trouble.message, _LONGEST)}"
    if account.healed:
        did.append("signed the present digest again")
    pending = account.pending
    if pending is not None and pending.decision is Decision.APPROVAL:
        where = link("needs approval", account.approval_url) if account.approval_url else "needs approval"
        did.append(f"{what_comes(pending)} {where}")
    elif pending is None and account.refused:
        did.append("policy refuses everything newer")
    elif pending is not None:
        did.append(f"{what_comes(pending)} is {_LEFT[pending.decision]}")
    at = f" is at {called(account.after.version)}" if account.after else ""
    return f"{name}{at}: {'; '.join(did) or 'nothing to do'}"


def _name(account: Account) -> str:
    """Return an artifact's name, or its address if it has none."""
    return code(account.name) if account.name == str(account.channel) else inline(account.name)


def _details(account: Account) -> str:
    """Return the section of one artifact."""
    blocks = [f"### {_name(account)}", *([code(str(account.channel))] if account.name != str(account.channel) else [])]
    blocks += [*(_trouble(account.trouble) if account.trouble else ()), *_steps(account)]
    for by, how in account.approved:
        words, _, url = how.rpartition(" ")
        blocks.append(f"Approved by {inline(by, _LONGEST)}: {link(inline(words) or 'there', url)}.")
    blocks += [*_to_approve(account), *_changes(account)]
    if account.remarks:
        blocks.append("\n".join(f"- {inline(remark, _LONGEST)}" for remark in account.remarks))
    return "\n\n".join(blocks) + "\n"


def _trouble(trouble: Trouble) -> Iterator[str]:
    yield f"**Failed** ({code(trouble.code)}): {inline(trouble.message, _LONGEST)}"
    if trouble.hint:
        yield f"What to do: {inline(trouble.hint, _LONGEST)}"


def _steps(account: Account) -> Iterator[str]:
    """Yield the table of where the channel is, what was published, what waits, and what was passed over."""
    asked = Decision.APPROVAL
    rows = [("published, approved" if step.decision is asked else "published", step) for step in account.published]
    for step in account.waiting:
        word = _LEFT[step.decision]
        rows.append((Strong(word) if step.decision is asked and step is account.pending else word, step))
    if account.before:
        moved = account.promoted if account.promoted != account.before else None
        word = "before" if account.published or moved else "now"
        places = [(word, account.before), *([("now", moved)] if moved else [])]
        told = ((word, step, "; ".join(main_reasons(step))) for word, step in rows)
        yield to_markdown(
            (steps_table(((it, at.version, at.digest) for it, at in places), told, account.plan, every=True),)
        )


def _to_approve(account: Account) -> Iterator[str]:
    pending = account.pending
    if pending is None or pending.decision is not Decision.APPROVAL:
        return
    for step, digests in approvals(account.waiting):
        approved = " ".join(f"--approve {digest}" for digest in digests)
        how = f"give the plan of this run to {code('apply')} with {code(approved)}"
        if account.approval_urls:
            how = f"wait: the run asks once {pending.new_version} is published"
        if url := account.approval_urls.get(step.target):
            how = f"open {link('this page', url)}"
        yield f"To approve {called(step.new_version)}, {how}."
        yield f"The approval counts only for {code(str(step.target))} on top of {code(str(step.base))}."


def _changes(account: Account) -> Iterator[str]:
    """Yield what the published steps changed, and what the waiting one will: what can break first."""
    pending = (account.pending,) if account.pending else ()
    detail = Detail.page(_MOST_ROWS)
    for step in (*account.published, *pending):
        found = Findings.of(step)
        title = MarkedLine(Strong(step_title(step, "to")))
        yield to_markdown((title, *sections(found, detail), *verdicts(found, detail), *acknowledgements(found, detail)))


def fitting(parts: Iterable[str], limit: int, cut: str = _CUT) -> str:
    """Return as many whole parts as fit in `limit` bytes, each ended by a line feed; `cut` ends what was cut.

    It asks for no part that comes later than the one that is cut and its neighbour.
    """
    text: list[str] = []
    used = 0
    room = limit - len(cut.encode()) - 2
    rest = iter(parts)
    for part in rest:
        used += len(part.encode(errors="replace")) + 1
        if used > limit or (used > room and next(rest, None) is not None):
            last = f"\n{cut}\n"
            return "\n".join([*text, last]) if len(last) <= limit else ""
        text.append(part)
    return "\n".join([*text, ""])
