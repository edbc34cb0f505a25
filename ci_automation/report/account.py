"""Result of one artifact in a run, for the summary (people) and the outputs (programs)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ci_automation.flux.artifact import immutable_tag
from ci_automation.policy.decision import Decision
from ci_automation.report.blocks import plain_line, plain_text
from ci_automation.report.text import what_comes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.reference import Reference
    from ci_automation.flux.version import Version
    from ci_automation.policy.plan import PassedOver, Plan, PlannedStep


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

    @property
    def digest_url(self) -> str:
        """Return the digest with its repository, as cosign and docker write it."""
        if self.after is None:
            return ""
        return str(self.channel.at_digest(self.after.digest)).removeprefix("oci://")

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
            "digest-url": self.digest_url or None,
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
