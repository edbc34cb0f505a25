"""Judge whether merges approved the content at the head of the default branch, from GitHub's answers alone.

GitHub's own log of the branch is the history: the judge goes back to the state that the channel has, and each update on
the way that changes content must be the merge of one request whose page showed exactly that change, and that a person
besides its makers merged or reviewed. Whatever is not proven is asked by digest. Pure: values in, a verdict out.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from ci_automation.approval.counting import MergedRequest, People
from ci_automation.artifact.reference import Digest
from ci_automation.github.model import BranchUpdate, ContentMerge, UpdateKind, is_request_branch
from ci_automation.policy.decision import Decision, Verdict
from ci_automation.records.content import ApprovedRules, CountedRequest, RecordedContent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from ci_automation.config.model import ApprovalConfig
    from ci_automation.config.sections import Artifact

MOST_REQUESTS = 5  # more are asked by digest
MOST_PEOPLE = 10  # same
NO_RECORD = "no record says which content of Git the channel has"
OTHER_REPOSITORY = "the channel has content of another repository"
_NOT_NEEDED = "was not looked into: the digest needs approval anyway"
_ANSWERED = frozenset({"options", "files"})  # the gates that a merge answers
_ACTIONS = "github-actions[bot]"
_MERGES = frozenset({UpdateKind.PR_MERGE, UpdateKind.MERGE_QUEUE})
_WORDS = {
    UpdateKind.PUSH: "a push",
    UpdateKind.FORCE_PUSH: "a force-push",
    UpdateKind.BRANCH_CREATION: "a creation of the branch",
    UpdateKind.BRANCH_DELETION: "a deletion of the branch",
}


class ContentKey(Struct, frozen=True):
    """Content that the channel would have if a state of the repository were published."""

    overlay: str | None  # the tree id of the folder; None: there is no folder
    options: str


class Way(Struct, frozen=True):
    """Updates of the default branch since it had the content of the channel, newest first, that change content."""

    updates: tuple[BranchUpdate, ...]

    @property
    def merges(self) -> tuple[BranchUpdate, ...]:
        """Return those that can be merges of requests."""
        return tuple(update for update in self.updates if update.kind in _MERGES)


class Lags(Struct, frozen=True):
    """GitHub's log of the branch does not show its newest commit yet."""


class Unproven(Struct, frozen=True):
    """Reasons why no merge approved the content, one for each update that did not count."""

    reasons: tuple[str, ...]


class Proven(Struct, frozen=True):
    """Merged requests that approved the content, the oldest first, with everyone whose word counted."""

    requests: tuple[CountedRequest, ...]
    since: datetime  # of the first merge
    at: datetime  # of the last one


def way_back(
    head: str, present: ContentKey, updates: Sequence[BranchUpdate] | None, contents: Mapping[str, ContentKey]
) -> Way | Lags | Unproven:
    """Return the updates since the default branch had the content of the channel, or why they are not known."""
    if updates is None:
        return Unproven(("GitHub shows no log of the default branch, so merges cannot be judged",))
    if not updates or updates[0].after != head:
        return Lags()
    changing = []
    for update, newer in zip(updates, (None, *updates), strict=False):
        if newer is not None and newer.before != update.after:
            gap = f"GitHub's log of the default branch has a gap before {update.after[:7]}"
            return Unproven((gap,))
        before, after = contents.get(update.before), contents.get(update.after)
        if before is None or after is None or before != after:
            changing.append(update)
        if before == present:
            return Way(tuple(changing))
    return Unproven((f"none of the last {len(updates)} states of the default branch has the channel's content",))


def content_witnesses(
    way: Way, merges: Mapping[str, tuple[ContentMerge, ...]], settings: ApprovalConfig
) -> tuple[str, ...]:
    """Return the logins whose permission and team membership `judge_content` needs."""
    found = (_request(update, merge) for update in way.merges for merge in merges.get(update.after, ()))
    return tuple(dict.fromkeys(login for request in found for login in request.possible(settings).people))


def _request(update: BranchUpdate, merge: ContentMerge) -> MergedRequest:
    """Return a request as it is counted: a pusher of a branch can let a workflow there write in Actions' name."""
    author, making = merge.pull.author, replace(merge.making, merged_as=update.kind)
    if _ACTIONS in making.hands or (author and author.login == _ACTIONS):
        making = replace(making, pushed_at=None)
    return MergedRequest(merge.pull, making, merge.viewer)


class ContentCase(Struct, frozen=True):
    """Facts about the updates of a way: the content of states as far as it can be told, requests, people, settings."""

    contents: Mapping[str, ContentKey]
    merges: Mapping[str, tuple[ContentMerge, ...]]
    people: People
    settings: ApprovalConfig
    branch: str  # the default branch
    since: datetime  # a merge that is not later approves nothing
    whole: bool = True  # if not, what was not asked for yet is as it should be, and a verdict can only be a no


def judge_content(way: Way, case: ContentCase) -> Proven | Unproven:
    """Return the requests that approved everything on the way, or each update that did not count, and why."""
    judged = [(update, _judged(update, case)) for update in reversed(way.updates)]
    if len(requests := tuple(found for _, found in judged if isinstance(found, CountedRequest))) < len(judged):
        told = judged if not case.whole else [(update, it) for update, it in judged if isinstance(it, str)]
        reasons = (f"{_named(update)} {it if isinstance(it, str) else _NOT_NEEDED}" for update, it in told)
        if len(way.merges) <= MOST_REQUESTS:
            return Unproven(tuple(reasons))
        many = f"{len(way.merges)} merges changed the content, and a run judges at most {MOST_REQUESTS}"
        return Unproven((*reasons, many))
    moments = [update.at for update in way.updates]
    return Proven(requests, min(moments), max(moments))


def _named(update: BranchUpdate) -> str:
    by = update.actor.login if update.actor else "an account that is gone"
    what = _WORDS.get(update.kind, "a merge" if update.kind in _MERGES else "an update of an unknown type")
    return f"{what} by {by} at {update.at:%Y-%m-%d %H:%M} UTC ({update.after[:7]})"


def _judged(update: BranchUpdate, case: ContentCase) -> CountedRequest | str:
    """Return the request that an update merged, with who counted, or why it approves nothing."""
    if update.kind not in _MERGES:
        return "is no merge of a pull request"
    if update.at <= case.since:
        return f"is not later than the content of the channel, which is of {case.since:%Y-%m-%d %H:%M} UTC"
    found = case.merges.get(update.after)
    own = [merge for merge in found or () if not merge.pull.cross_repository and merge.pull.base == case.branch]
    if found is None or len(own) != 1 or len(found) != 1:
        return _no_one_request(found, len(own))
    merge = own[0]
    number = merge.pull.number
    if reason := _shown_otherwise(update, merge, case):
        return f"merged pull request {number}, {reason}"
    request = _request(update, merge)
    counted = request.counted(case.people, case.settings)
    if isinstance(counted, str):
        return f"merged pull request {number}, {counted}"
    return request.recorded(counted, case.people)


def _no_one_request(found: Sequence[ContentMerge] | None, own: int) -> str:
    if found is None:
        return _NOT_NEEDED
    if not found:
        return "is the merge commit of no pull request"
    if own > 1 or (own and len(found) > 1):
        return f"is the merge commit of {len(found)} pull requests"
    pull = found[0].pull
    where = "comes from a fork" if pull.cross_repository else f"went into {pull.base}"
    return f"merged pull request {pull.number}, which {where}"


def _shown_otherwise(update: BranchUpdate, merge: ContentMerge, case: ContentCase) -> str:
    """Return how the change of an update is another one than the page of its request showed, or nothing."""
    if is_request_branch(merge.pull.branch):
        return "whose page asks for digests alone"
    contents = case.contents
    base = contents.get(merge.merge_base.commit) if merge.merge_base else None
    head = contents.get(merge.head.commit) if merge.head else None
    before, after = contents.get(update.before), contents.get(update.after)
    if None in (base, head, before, after):
        return "of which GitHub does not tell all content, or did not show all changes"
    if base != before:
        return "whose page compared with older content than the default branch had; update such a branch first"
    if head == after:
        return ""
    older = "" if case.whole else "whose page compared with older content, or "
    return f"{older}{'which' if older else 'and'} left other content than its page showed"


def stricter(settings: ApprovalConfig, approvals: int, team: str | None) -> ApprovalConfig:
    """Return settings for which earlier rules hold too: more reviews, their team, no own merge or code."""
    reviews, team = max(settings.approvals, approvals), team or settings.team
    return replace(settings, approvals=reviews, team=team, own_merge=False, operations_by_code=False)


def commits_of(updates: Iterable[BranchUpdate]) -> tuple[str, ...]:
    """Return the states that a log names, but for that before the branch was made."""
    return tuple(
        dict.fromkeys(commit for update in updates for commit in (update.after, update.before) if commit.strip("0"))
    )


def rules_of(artifact: Artifact) -> ApprovedRules:
    """Return the rules under which content of an artifact is approved."""
    policy = artifact.policy
    rest = {
        "approval": to_builtins(artifact.approval),
        "escalate": sorted(policy.escalate),
        "refuse": sorted(policy.refuse),
        "acknowledge": [[it.fingerprint, it.until.isoformat(), it.reason] for it in policy.acknowledge],
        "overlay": artifact.overlay,
        "name": artifact.name,  # by which a person's no to content is found
        "url": str(artifact.channel),
        "verify": to_builtins(artifact.verify),
        "signing": to_builtins(artifact.signing),
        "from": artifact.promote.source if artifact.promote else None,
    }
    allowed = {"allowRemoval": policy.allow_removal, "acceptEdits": policy.accept_edits}
    rest |= {key: [[it.of, it.until.isoformat(), it.reason] for it in given] for key, given in allowed.items() if given}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return ApprovedRules(artifact.approval.approvals, Digest.of(text.encode()), artifact.approval.team)


def changed_rules(old: ApprovedRules, new: ApprovedRules) -> Iterator[str]:
    """Yield how the rules changed under which content is approved."""
    since = "since the content of the channel was approved"
    if old.approvals != new.approvals:
        yield f"the rules changed {since}: approvals ({old.approvals} -> {new.approvals})"
    if old.team != new.team:
        yield f"the rules changed {since}: team ({old.team or 'none'} -> {new.team or 'none'})"
    if old.rest != new.rest and (old.approvals, old.team) == (new.approvals, new.team):
        names = "escalate, refuse, acknowledge, allowRemoval, acceptEdits, overlay, name, url, verify, signing or from"
        yield f"the rules of approvals, {names} changed {since}"


class AwaitedMerge(Struct, frozen=True):
    """Facts about a request that changes content, before its merge: what can keep the merge from approving it."""

    repository: str  # its number, or its name
    rules: ApprovedRules  # as the request leaves them
    settings: ApprovalConfig
    obstacles: tuple[str, ...] = ()


def foretold(it: AwaitedMerge, had: RecordedContent | None, gates: Sequence[Verdict], *, waiting: bool) -> str:
    """Return what the merge of a request will mean, as far as it is known: what was judged after it alone counts.

    `had` is the recorded content of the channel, `gates` are those of the step; `waiting` says that the default branch
    has content that the channel lacks.
    """
    refused, held, asking = (
        tuple(dict.fromkeys(gate.reason for gate in gates if gate.decision is decision and gate.gate not in _ANSWERED))
        for decision in (Decision.REFUSED, Decision.WAIT, Decision.APPROVAL)
    )
    if refused:
        return f"no merge publishes this content: {'; '.join(refused)}."
    then = f" It has to wait then: {'; '.join(held)}." if held else ""
    if obstacles := (*it.obstacles, *_known_obstacles(it, had), *asking):
        return f"the merge does not approve this content: {'; '.join(obstacles)}. A run asks for its digest then.{then}"
    earlier = " Earlier changes of the content, which the channel lacks, must be approved too." if waiting else ""
    return f"the merge can approve this content, if {_who_counts(it.settings)}.{earlier} A run judges that anew.{then}"


def _known_obstacles(it: AwaitedMerge, had: RecordedContent | None) -> Iterator[str]:
    if had is None:
        yield NO_RECORD
    elif had.repository != it.repository:
        yield OTHER_REPOSITORY
    else:
        yield from changed_rules(had.rules, it.rules)


def _who_counts(settings: ApprovalConfig) -> str:
    """Return who has to merge or review a request, as a condition."""
    team = f" and is in the team {settings.team}" if settings.team else ""
    people = f"may write{team}, and wrote and pushed nothing of it"
    if settings.approvals > 1:
        return f"{settings.approvals} people approve its last commit, each of whom {people}"
    if settings.approvals:
        return f"a person approves its last commit who {people}"
    own = ", or its author presses merge" if settings.own_merge else ""
    return f"a person presses merge (no auto-merge, queue or bot) or approves its last commit who {people}{own}"
