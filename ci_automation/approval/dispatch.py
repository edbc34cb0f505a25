"""Events to other repositories: a request for approval of an update, a notice of a publication.

An event asks or tells, but never approves: its receiver makes a plan of its own, and every step passes the same gates.
GitHub does not say which events were sent; but the receiver's workflow has the event's key in its
`run-name`, and by that the run which an event started is found again.
"""

from __future__ import annotations

import enum
import hashlib
import re
import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Self

from msgspec import Meta, Struct, ValidationError, convert

from ci_automation.approval.port import KEY_DIGITS, ApprovalRequest, Asked, AskedState, RequestKind
from ci_automation.artifact.reference import Digest, Reference
from ci_automation.errors import Error, UsageError
from ci_automation.flux.version import Version
from ci_automation.github.errors import GitHubDenied, NotOnGitHub
from ci_automation.records.notes import format_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ci_automation.approval.port import GrantedApproval, Question
    from ci_automation.github.model import WorkflowRun
    from ci_automation.github.runs import Runs

SCHEMA = "flux-manifests.dispatch/v1"
MEMORY = timedelta(days=32)  # an event that was sent longer ago is sent again
MOST_RUNS = 1000  # GitHub lists no more of what is searched for
_WAITS = (1.0, 2.0, 4.0)  # seconds until GitHub lists the run that an event started
_MAX_TEXT = 1024
_KEY = re.compile(r"(content-)?[0-9a-f]{16}")
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/(?!\.\.?$)[A-Za-z0-9._-]{1,100}")
_URL = re.compile(r"https?://[!-~]+")
_EVENT = "repository_dispatch"


class InvalidDispatch(UsageError):
    """An event that this version does not send; nothing of it was done."""

    hint = "The sender may have another version of this program; docs/guides/action.md describes the expected form."

    def __init__(self, reason: str) -> None:
        super().__init__(f"the event cannot be used: {reason}")


class EventType(enum.StrEnum):
    """Type of an event, as in `types` of a workflow's `on: repository_dispatch`."""

    UPDATE_REQUESTED = "flux-manifests-update-requested"
    PUBLISHED = "flux-manifests-published"


class Sender(Struct, frozen=True):
    """Which repository sent an event, and in which run; empty outside of CI."""

    repository: str = ""
    run: str = ""

    def __post_init__(self) -> None:
        """Raise `InvalidDispatch` if a part is invalid."""
        if self.repository and not _REPOSITORY.fullmatch(self.repository):
            raise InvalidDispatch("its repository is not OWNER/NAME")
        if self.run and not (_URL.fullmatch(self.run) and len(self.run) <= _MAX_TEXT):
            raise InvalidDispatch("its run is not the address of a page")


class Dispatch(Struct, frozen=True):
    """An event: of a step that is wanted, or that was published."""

    type: EventType
    key: str
    request: ApprovalRequest
    sender: Sender = Sender()

    def __post_init__(self) -> None:
        """Raise `InvalidDispatch` if a part is invalid: what this program sends, it would also read."""
        if not _KEY.fullmatch(self.key):
            raise InvalidDispatch("its key is not 16 hex digits, with content- before them or without")
        if self.type is EventType.UPDATE_REQUESTED and self.key != self.request.key:
            raise InvalidDispatch("its key does not belong to the step that it asks for")
        artifact = str(self.request.artifact)
        if len(artifact) > _MAX_TEXT or not artifact.isprintable():
            raise InvalidDispatch("its artifact is too long or not printable")

    @classmethod
    def requesting(cls, request: ApprovalRequest, sender: Sender) -> Self:
        """Return the event that asks for a step."""
        return cls(EventType.UPDATE_REQUESTED, request.key, request, sender)

    @classmethod
    def telling(cls, request: ApprovalRequest, at: datetime, sender: Sender) -> Self:
        """Return the event that tells of a step that was published `at`: once, for it may be published again."""
        text = f"{EventType.PUBLISHED}\n{request.key}\n{format_time(at)}\n"
        key = hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]
        return cls(EventType.PUBLISHED, key, request, sender)

    def to_payload(self) -> dict[str, str]:
        """Return the event's `client_payload`."""
        own = {"key": self.key, "repository": self.sender.repository, "run": self.sender.run}
        return {"schema": SCHEMA, **self.request.texts, **own}

    @classmethod
    def parse(cls, event: Mapping[str, Any]) -> Self:
        """Return the event that a run was started by, as the runner has it; it asks, and is nothing to believe.

        Raises:
            InvalidDispatch: another type or schema, a key too many or too few, or a value that is not of its type.
        """
        action, payload = event.get("action"), event.get("client_payload")
        if action not in tuple(EventType) or not isinstance(payload, dict):
            raise InvalidDispatch("it is of another type, or has no payload")
        if payload.get("schema") != SCHEMA:
            raise InvalidDispatch(f"its schema is not {SCHEMA}")
        try:
            texts = convert(payload, _Payload)
            request = ApprovalRequest(
                Reference.parse_channel(texts.artifact),
                Version.parse(texts.version),
                Digest.parse(texts.base),
                Digest.parse(texts.target),
                RequestKind.of_key(texts.key),
            )
        except (ValidationError, UsageError) as error:
            raise InvalidDispatch(str(error)) from None
        dispatch = cls(EventType(action), texts.key, request, Sender(texts.repository, texts.run))
        if dispatch.to_payload() != payload:
            raise InvalidDispatch("a value does not have the form that this program writes")
        return dispatch


_Text = Annotated[str, Meta(max_length=_MAX_TEXT)]


class _Payload(Struct, frozen=True, forbid_unknown_fields=True, tag_field="schema", tag=SCHEMA):
    """The `client_payload` of an event, which GitHub limits to ten keys."""

    key: _Text
    artifact: _Text
    version: _Text
    base: _Text
    target: _Text
    repository: _Text
    run: _Text


class Told(enum.StrEnum):
    """Result of an event."""

    SENT = "sent"
    KNOWN = "known"  # it was sent before
    FAILED = "failed"


class Delivery(Struct, frozen=True):
    """Result of an event to one repository: where to look, and a remark for the log."""

    repository: str
    told: Told
    url: str = ""
    remark: str = ""


class DispatchApprovals:
    """Approvals in another repository: it gets an event for each request, and answers nothing."""

    def __init__(
        self,
        receiver: Runs,
        server: str,
        sender: Sender,
        clock: Callable[[], datetime],
        sleep: Callable[[float], None] = time.sleep,
        kind: RequestKind = RequestKind.VERSION,
    ) -> None:
        self._receiver, self._server, self._sender = receiver, server, sender
        self._clock, self._sleep, self._kind = clock, sleep, kind

    def granted(self, base: Digest) -> GrantedApproval | None:
        """Return None: an event only asks, and no answer to it approves."""
        del base
        return None

    def ask(self, question: Question) -> Asked:
        """Send the event, unless a run of the receiver shows that it was sent.

        Raises:
            ReleaseSourceError: GitHub failed or refused. An event whose answer was lost is found by the next run.
        """
        dispatch = Dispatch.requesting(ApprovalRequest.of(question.plan, question.step, self._kind), self._sender)
        delivery = _deliver(dispatch, self._receiver, self._server, self._clock(), _WAITS, self._sleep)
        state = AskedState.UNCHANGED if delivery.told is Told.KNOWN else AskedState.OPENED
        return Asked(delivery.url, state, delivery.remark)

    def withdraw(self, reason: str) -> None:
        """Do nothing: an event cannot be withdrawn, and the receiver makes a new plan."""
        del reason


def announce(
    dispatch: Dispatch, repositories: Iterable[str], receiver: Callable[[str], Runs], server: str, now: datetime
) -> tuple[Delivery, ...]:
    """Send the event to each repository and return the results; one failure does not stop the others."""
    return tuple(_announced(dispatch, name, receiver, server, now) for name in dict.fromkeys(repositories))


def _announced(dispatch: Dispatch, name: str, receiver: Callable[[str], Runs], server: str, now: datetime) -> Delivery:
    try:
        return _deliver(dispatch, receiver(name), server, now)
    except Error as error:
        return Delivery(name, Told.FAILED, remark=f"{error}. {error.hint}".strip())


def _deliver(
    dispatch: Dispatch,
    receiver: Runs,
    server: str,
    now: datetime,
    waits: tuple[float, ...] = (),
    sleep: Callable[[float], None] = time.sleep,
) -> Delivery:
    """Send an event that was not sent yet, and wait a little for the run that it starts."""
    name, remark = receiver.name, ""
    try:
        if run := _started_by(dispatch, receiver, now):
            return Delivery(name, Told.KNOWN, run.url, _ended(run))
    except (GitHubDenied, NotOnGitHub) as error:
        waits = ()
        remark = (
            f"This run cannot read the runs there, so the next run may send this event again: {error}. {error.hint}"
        )
    receiver.dispatch_event(dispatch.type, dispatch.to_payload())
    for wait in waits:
        sleep(wait)
        if run := _started_by(dispatch, receiver, now):
            return Delivery(name, Told.SENT, run.url)
        remark = (
            f"No run of {name} has {dispatch.key} in its title yet. Put `client_payload.key` into the `run-name` of a "
            "workflow there; without it, the next run may send this event again."
        )
    return Delivery(name, Told.SENT, f"{server}/{name}/actions", remark.strip())


def _started_by(dispatch: Dispatch, receiver: Runs, now: datetime) -> WorkflowRun | None:
    """Return the newest run whose title has the event's key as a word of its own."""
    key = re.compile(rf"(?<![0-9A-Za-z]){dispatch.key}(?![0-9A-Za-z])")
    runs = receiver.runs(event=_EVENT, since=midnight(now - MEMORY), limit=MOST_RUNS)
    return next((run for run in runs if key.search(run.title)), None)


def _ended(run: WorkflowRun) -> str:
    return f"The run there ended: {run.conclusion}." if run.conclusion and run.conclusion != "success" else ""


def midnight(moment: datetime) -> datetime:
    """Return the beginning of a day: the same list, asked for twice in a day, has one address, and is remembered."""
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)
