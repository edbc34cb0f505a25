"""Result of one artifact in a run, for the summary (people) and the outputs (programs)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ci_automation.flux.artifact import called, immutable_tag
from ci_automation.policy.decision import Decision
from ci_automation.report.blocks import Detail, MarkedLine, Strong, plain_line, plain_text
from ci_automation.report.changes import sections
from ci_automation.report.details import acknowledgements, verdicts
from ci_automation.report.findings import Findings
from ci_automation.report.markdown import code, inline, link, to_markdown
from ci_automation.report.text import WORDS, approvals, main_reasons, step_title, steps_table, what_comes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ci_automation.artifact.reference import Digest, Reference
    from ci_automation.flux.version import Version
    from ci_automation.policy.plan import PassedOver, Plan, PlannedStep

_MOST_ROWS = 60  # of one step's changes, and of each other list
_LONGEST = 600  # characters of one error
_LEFT = {**WORDS, Decision.AUTO: "not done yet"}
_MOST_NAMES = 3
_CUT = "_A summary has a limit, so the rest is missing here. The outputs and the log have everything._"


class Standing(Struct, frozen=True):
    """A channel's position: the digest, and the version of Flux in it."""

    version: Version
    digest: Digest


class Trouble(Struct, frozen=True):
    """Why something failed, and what to do next."""

    message: str
    code: str
    hint: str = ""
    exit_code: int = 1


class Account(Struct, frozen=True):
    """Result of one artifact; a field is empty if the run failed before it was known."""

    name: str
    channel: Reference
    before: Standing | None = None
    published: tuple[PlannedStep, ...] = ()
    waiting: tuple[PlannedStep, ...] = ()
    left: Decision | None = None  # what keeps the rest from being published
    plan: Plan | None = None
    approved: tuple[tuple[str, str], ...] = ()  # who approved what was published, and how, an address at its end
    approval_urls: Mapping[Digest, str] = {}  # by the target of the step that is asked for
    promoted: Standing | None = None  # where a promotion, or another operation, has put it
    done: str = ""  # the operation of this run, in words, or that it needs approval
    signed: bool = False
    healed: bool = False
    remarks: tuple[str, ...] = ()
    trouble: Trouble | None = None

    @property
    def after(self) -> Standing | None:
        """Return where the channel is now."""
        if self.promoted:
            return self.promoted
        if not self.published:
            return self.before
        return Standing(self.published[-1].new_version, self.published[-1].target)

    @property
    def pending(self) -> PlannedStep | None:
        """Return the step that waits for a person, or else the one that is held back."""
        asked = (step for step in self.waiting if step.decision is Decision.APPROVAL)
        return next(asked, self.waiting[0] if self.waiting else None)

    @property
    def approval_url(self) -> str:
        """Return where the step can be approved that waits, or nothing."""
        return self.approval_urls.get(self.pending.target, "") if self.pending else ""

    @property
    def notices(self) -> Iterator[str]:
        """Yield who approved what was published, and which step waits where for an approval."""
        yield from (f"approved by {by}: {how}" for by, how in self.approved)
        for step in self.waiting:
            if url := self.approval_urls.get(step.target):
                yield f"{what_comes(step)} needs approval at {url}"

    @property
    def refused(self) -> bool:
        """Return whether nothing was published or asked for, and the policy refuses what could be taken."""
        return not self.published and self.left is Decision.REFUSED

    def outputs(self, plan_file: str = "") -> dict[str, str | bool | None]:
        """Return the outputs of the action about this artifact, but for the plan; None is what is not known."""
        before, after, pending = self.before, self.after, self.pending
        last = self.published[-1] if self.published else None
        return {
            "changed": bool(last or self.promoted),
            "decision": str(last.decision) if last else str(Decision.REFUSED) if self.refused else None,
            "reasons": _lines(last.reasons if last else self._obstacles) if last or self.refused else None,
            "current-version": str(before.version) if before else None,
            "target-version": str(after.version) if after else None,
            "base-digest": str(before.digest) if before else None,
            "digest": str(after.digest) if after else None,
            "digest-url": str(self.channel.at_digest(after.digest)).removeprefix("oci://") if after else None,
            "immutable-tag": immutable_tag(after.version, after.digest) if after and (last or self.promoted) else None,
            "signed": self.signed if after else None,
            "healed": self.healed,
            "approval-url": self.approval_url or None,
            "pending-version": str(pending.new_version) if pending else None,
            "pending-base-digest": str(pending.base) if pending else None,
            "pending-digest": str(pending.target) if pending else None,
            "pending-decision": str(pending.decision) if pending else None,
            "pending-reasons": _lines(pending.reasons) if pending else None,
            "plan-file": plan_file or None,
        }

    @property
    def _obstacles(self) -> tuple[str, ...]:
        """Return why the policy refuses what could be taken."""
        offered: list[PlannedStep | PassedOver] = [*self.waiting, *(self.plan.passed_over if self.plan else ())]
        refused = (it for it in offered if it.decision is Decision.REFUSED)
        return tuple(dict.fromkeys(reason for it in refused for reason in it.reasons))

    def to_json(self, plan_file: str = "") -> dict[str, Any]:
        """Return the account as the output `artifacts` has it."""
        trouble = self.trouble
        return {
            "name": self.name,
            "artifact": str(self.channel),
            **self.outputs(plan_file),
            "plan": self.plan.to_json() if self.plan else None,
            "error": {"code": trouble.code, "message": plain_text(trouble.message), "hint": plain_text(trouble.hint)}
            if trouble
            else None,
        }


def outputs(accounts: tuple[Account, ...], plan_files: dict[str, str], *, limit: int) -> dict[str, str]:
    """Return the outputs of a run as texts; of several artifacts the single ones are empty.

    A plan, or a list, longer than `limit` bytes is left out: the runner takes no more, and the file has the plan.
    """
    alone = accounts[0] if len(accounts) == 1 else Account("", accounts[0].channel) if accounts else None
    values = alone.outputs(plan_files.get(alone.name, "")) if alone else {}
    texts = {name: _text(value) for name, value in values.items()} if len(accounts) == 1 else dict.fromkeys(values, "")
    texts["changed"] = _text(any(account.published or account.promoted for account in accounts))
    texts["plan"] = _short(alone.plan.to_json() if alone and alone.plan else None, limit)
    listed = [account.to_json(plan_files.get(account.name, "")) for account in accounts]
    texts["artifacts"] = _short(listed, limit) or _short([{**each, "plan": None} for each in listed], limit)
    return texts


def _text(value: str | bool | None) -> str:  # noqa: FBT001  # any value of an output
    return value if isinstance(value, str) else "" if value is None else str(value).lower()


def _short(value: object, limit: int) -> str:
    text = "" if value is None else json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return text if len(text) <= limit else ""


def _lines(reasons: tuple[str, ...]) -> str:
    return "\n".join(map(plain_line, reasons))


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
    did = [f"published {what_comes(step)}" for step in account.published] + list(filter(None, (inline(account.done),)))
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
