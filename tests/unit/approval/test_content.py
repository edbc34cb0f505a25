"""The judge of merged content: one row for each attack that its values can show, and the rest of its rules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from ci_automation.approval.content import (
    NO_RECORD,
    OTHER_REPOSITORY,
    AwaitedMerge,
    ContentCase,
    ContentKey,
    Lags,
    Proven,
    Unproven,
    Way,
    changed_rules,
    commits_of,
    content_witnesses,
    foretold,
    judge_content,
    rules_of,
    stricter,
    way_back,
)
from ci_automation.approval.counting import People
from ci_automation.artifact.reference import Digest, Reference
from ci_automation.config.model import ApprovalConfig, PromoteConfig, SigningConfig, VerifyConfig
from ci_automation.config.sections import Artifact
from ci_automation.github.model import (
    Actor,
    BranchUpdate,
    ContentAt,
    ContentMerge,
    Making,
    PullRequest,
    PullState,
    Review,
    UpdateKind,
)
from ci_automation.impact.change import ChangeClass
from ci_automation.policy.decision import Decision, Verdict
from ci_automation.policy.model import Acknowledgement, Allowance, Policy
from ci_automation.records.content import ApprovedRules, CountedPerson, CountedRequest, RecordedContent

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
BOT = Actor("flux[bot]", is_bot=True)
OLD, NEW, OTHER = (ContentKey(tree * 40, "options") for tree in "abc")
START, MAIN, HEAD, MORE = (digit * 40 for digit in "1234")  # commits
TIP = "5" * 40  # of the request's branch
MERGE, PUSH = UpdateKind.PR_MERGE, UpdateKind.PUSH
URL = "https://github.com/acme/fleet/pull/7"


def at(minutes: int) -> datetime:
    return NOON + timedelta(minutes=minutes)


def update(before: str = START, after: str = HEAD, kind: UpdateKind = MERGE, minutes: int = 10) -> BranchUpdate:
    return BranchUpdate(before, after, kind, Actor("mallory" if kind is not MERGE else "bob"), at(minutes))


def approval(login: str, minutes: int = 5, state: str = "APPROVED", commit: str = TIP) -> Review:
    return Review(Actor(login, is_bot=login.endswith("[bot]")), state, commit, at(minutes))


def request(compared: str = START, making: dict[str, Any] | None = None, **changes: Any) -> ContentMerge:
    """Return a request of alice that bob merged, whose page compared a commit with the tip of her branch."""
    pull = PullRequest(
        "id", 7, URL, PullState.MERGED, "", "", "change", "main", TIP, cross_repository=False,
        author=Actor("alice"), merged_by=Actor("bob"), merged_at=at(10), merge_commit=HEAD,
    )  # fmt: skip
    made = replace(Making(frozenset({"alice"}), at(1)), **(making or {}))
    return ContentMerge(
        replace(pull, **changes), ContentAt(compared, None, None), ContentAt(TIP, None, None), made, BOT
    )


CONTENTS = {START: OLD, HEAD: NEW, TIP: NEW}
WRITERS = People(dict.fromkeys(("alice", "bob", "carol", "dave"), "write"), frozenset({"bob"}))
CASE = ContentCase(CONTENTS, {HEAD: (request(),)}, WRITERS, ApprovalConfig(), "main", NOON)


def judged(
    updates: tuple[BranchUpdate, ...] | None = (update(),), head: str = HEAD, present: ContentKey = OLD, **changes: Any
) -> Proven | Unproven | Lags:
    case = replace(CASE, **changes)
    way = way_back(head, present, updates, case.contents)
    return judge_content(way, case) if isinstance(way, Way) else way


def with_request(making: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    return {"merges": {HEAD: (request(making=making, **changes),)}}


def settings(**changes: Any) -> dict[str, Any]:
    return {"settings": ApprovalConfig(**changes)}


def test_a_merge_by_another_person_approves_what_its_page_showed() -> None:
    assert judged() == Proven((CountedRequest(URL, (CountedPerson("bob"),)),), at(10), at(10))


PUSH_BEFORE = (update(MAIN, HEAD, minutes=11), update(START, MAIN, PUSH, 10))
QUEUE = (replace(update(), kind=UpdateKind.MERGE_QUEUE, actor=Actor("github-merge-queue[bot]", is_bot=True)),)
BACK_AND_FORTH = (update(MAIN, MORE, PUSH, 12), update(HEAD, MAIN, PUSH, 11), update(START, HEAD))
ATTACKS = {
    "A1: content is pushed, and rides in with the next merge": (
        {"updates": PUSH_BEFORE, "contents": {**CONTENTS, MAIN: OTHER}, "merges": {HEAD: (request(MAIN),)}},
        "a push by mallory at 2026-11-22 12:10 UTC (2222222) is no merge of a pull request",
    ),
    "A2: a push marks the request as merged": ({"updates": (update(kind=PUSH),)}, "is no merge of a pull request"),
    "A3: a merge commit with a tree that is neither side's": (
        {"contents": {**CONTENTS, HEAD: OTHER}}, "left other content than its page showed",
    ),
    "A4: the request went into another branch": (with_request(base="feature"), "request 7, which went into feature"),
    "A4: several requests": ({"merges": {HEAD: (request(), request())}}, "is the merge commit of 2 pull requests"),
    "A5: reviewed against another base": (
        with_request({"retargeted_at": at(6)}, merged_by=None, reviews=(approval("carol"),)), "0 of 1 people who count",
    ),
    "A6: auto-merge was on": (with_request({"auto_merge": at(3)}), "auto-merge was on, so no person pressed merge"),
    "A7: who pushed the last commit merges": (with_request({"hands": frozenset({"alice", "bob"})}), "0 of 1 people"),
    "A7: who pushed the last commit reviews": (
        with_request({"hands": frozenset({"carol"})}, merged_by=None, reviews=(approval("carol"),)), "0 of 1 people",
    ),
    "A8: a merge queue, and nobody reviewed": ({"updates": QUEUE}, "0 of 1 people who count"),
    "A9: no request has this merge commit": ({"merges": {HEAD: ()}}, "is the merge commit of no pull request"),
    "A10: two requests that sum": (
        {"updates": (update(MAIN, HEAD, minutes=11), update(START, MAIN)),
         "contents": {**CONTENTS, MAIN: OTHER}, "merges": {HEAD: (request(),), MAIN: (request(),)}},
        "older content than the default branch had; update such a branch first",
    ),
    "A11: reverted, and pushed back": (
        {"updates": BACK_AND_FORTH, "head": MORE, "contents": {**CONTENTS, MAIN: OLD, MORE: NEW}},
        "a push by mallory at 2026-11-22 12:12 UTC (4444444)",
    ),
    "A11: forced back to the old merge": (
        {"updates": (update(MAIN, HEAD, UpdateKind.FORCE_PUSH, 11), update(START, MAIN, PUSH)),
         "contents": {**CONTENTS, MAIN: OLD}},
        "a force-push by mallory",
    ),
    "A12: rolled back since the merge": ({"since": at(10)}, "is not later than the content of the channel"),
    "A26: a bot merges": (with_request(merged_by=BOT), "0 of 1 people who count"),
    "A26: an App reviews": (with_request(merged_by=None, reviews=(approval("app[bot]"),)), "0 of 1 people"),
    "A26: the merger may not write": ({"people": People({})}, "bob may not write to the repository now"),
    "A26: the merger is not in the team": (
        {**settings(team="acme/x"), "people": replace(WRITERS, members=frozenset())}, "bob is not in the team acme/x",
    ),
    "A27: a fork": (with_request(cross_repository=True), "pull request 7, which comes from a fork"),
    "A28: one person is author, pusher and merger": (with_request(merged_by=Actor("Alice")), "0 of 1 people"),
    "A28: one person lets Actions open the request": (
        with_request(author=Actor("github-actions[bot]", is_bot=True)), "1 of 2 people who count",
    ),
    "A28: one person lets Actions write the last commit": (
        with_request({"hands": frozenset({"alice", "github-actions[bot]"})}), "1 of 2 people who count",
    ),
    "A31: the channel has what was never on the way": ({"present": OTHER}, "none of the last 1 states"),
    "A32: a gap": (
        {"updates": (update(MAIN, HEAD), update(START, MORE)), "contents": {**CONTENTS, MAIN: OTHER, MORE: OTHER}},
        "has a gap before 4444444",
    ),
    "A32: no log": ({"updates": None}, "GitHub shows no log of the default branch"),
    "an older review": (with_request(merged_by=None, reviews=(approval("carol", commit=MAIN),)), "0 of 1 people"),
    "a no after the yes": (
        with_request(merged_by=None, reviews=(approval("carol"), approval("carol", 6, "CHANGES_REQUESTED"))), "0 of 1",
    ),
    "too few reviews": (settings(approvals=2), "with 0 of 2 approving reviews of its last commit that count"),
    "nobody knows who pushed": (
        with_request({"pushed_at": None}), "1 of 2 people who count",
    ),
    "the branch of a request for digests": (with_request(branch="flux-manifests/production"), "asks for digests alone"),
    "content that cannot be told": ({"contents": {START: OLD, HEAD: NEW}}, "GitHub does not tell all content"),
    "a page without a merge base": (
        {"merges": {HEAD: (replace(request(), merge_base=None, head=None),)}}, "GitHub does not tell all content",
    ),
    "an unknown type by a deleted account": (
        {"updates": (replace(update(), kind=UpdateKind.OTHER, actor=None),)},
        "an update of an unknown type by an account that is gone",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "reason"), ATTACKS.values(), ids=list(ATTACKS))
def test_what_is_not_proven_is_asked_by_digest(changes: dict[str, Any], reason: str) -> None:
    found = judged(**changes)
    assert isinstance(found, Unproven)
    assert reason in "; ".join(found.reasons)


PROVEN: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "its author's merge, where that is enough": (
        {**with_request(merged_by=Actor("alice")), **settings(own_merge=True)}, ("alice",),
    ),
    "a review": (with_request(merged_by=None, reviews=(approval("carol"),)), ("carol",)),
    "a review after it got another base": (
        with_request({"retargeted_at": at(4)}, merged_by=None, reviews=(approval("carol"),)), ("carol",),
    ),
    "a merge and reviews": (
        {**settings(approvals=2), **with_request(reviews=(approval("carol"), approval("dave")))},
        ("bob", "carol", "dave"),
    ),
    "a comment is no word": (
        with_request(merged_by=None, reviews=(approval("carol"), approval("carol", 6, "COMMENTED"))), ("carol",),
    ),
    "auto-merge after a review": (with_request({"auto_merge": at(3)}, reviews=(approval("carol"),)), ("carol",)),
    "a queue after a review": ({"updates": QUEUE, **with_request(reviews=(approval("carol"),))}, ("carol",)),
    "two where nobody knows who pushed": (
        with_request({"pushed_at": None}, reviews=(approval("carol"),)), ("bob", "carol"),
    ),
    "two where Actions wrote it": (
        with_request(author=Actor("github-actions[bot]", is_bot=True), reviews=(approval("carol"),)), ("bob", "carol"),
    ),
    "one where another App wrote it": (with_request(author=Actor("renovate[bot]", is_bot=True)), ("bob",)),
    "somebody of the team": (settings(team="acme/x"), ("bob",)),
    "other files since": (
        {"updates": (update(HEAD, MORE, PUSH, 12), update()), "head": MORE, "contents": {**CONTENTS, MORE: NEW}},
        ("bob",),
    ),
    "other files in between": (
        {"updates": (update(MAIN, HEAD), update(START, MAIN, PUSH)), "contents": {**CONTENTS, MAIN: OLD}}, ("bob",),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "people"), PROVEN.values(), ids=list(PROVEN))
def test_who_counts(changes: dict[str, Any], people: tuple[str, ...]) -> None:
    found = judged(**changes)
    assert isinstance(found, Proven)
    assert tuple(person.login for person in found.requests[0].people) == people
    assert found.requests[0].own == (people == ("alice",))


def test_a_chain_names_every_request_and_the_oldest_first() -> None:
    first = replace(request(), pull=replace(request().pull, url=f"{URL}1", head=MORE), head=ContentAt(MORE, None, None))
    chain = (update(MAIN, HEAD, minutes=12), update(START, MAIN))
    contents = {**CONTENTS, MAIN: OTHER, MORE: OTHER}
    found = judged(chain, contents=contents, merges={HEAD: (request(MAIN),), MAIN: (first,)})
    assert isinstance(found, Proven)
    assert [each.url for each in found.requests] == [f"{URL}1", URL]
    assert found.at == at(12)


def test_many_requests_are_asked_by_digest() -> None:
    commits = [f"{number:040}" for number in range(1, 8)]
    contents = {commit: ContentKey(commit, "options") for commit in commits}
    updates = tuple(update(before, after) for before, after in pairwise(commits))[::-1]
    found = judged(updates, commits[-1], contents[commits[0]], contents=contents, merges={})
    assert isinstance(found, Unproven)
    assert found.reasons[-1] == "6 merges changed the content, and a run judges at most 5"


@pytest.mark.parametrize("updates", [(), (update(START, MAIN),)], ids=["an empty log", "its newest is another"])
def test_a_log_that_lags_waits_for_the_next_run(updates: tuple[BranchUpdate, ...]) -> None:
    assert judged(updates) == Lags()


def test_the_way_ends_at_the_newest_state_that_the_channel_has() -> None:
    older = replace(update(MORE, START, PUSH, 1))
    found = way_back(HEAD, OLD, (update(), older), {**CONTENTS, MORE: OTHER})
    assert found == Way((update(),))


def test_the_people_to_look_up_are_mergers_and_reviewers() -> None:
    way = way_back(HEAD, OLD, (update(),), CONTENTS)
    assert isinstance(way, Way)
    merges = {HEAD: (request(reviews=(approval("carol"), approval("bob"))),)}
    assert content_witnesses(way, merges, CASE.settings) == ("bob", "carol")
    assert content_witnesses(way, {}, CASE.settings) == ()


def test_states_are_named_once_and_the_nothing_before_a_branch_never() -> None:
    assert commits_of((update(), update("0" * 40, START))) == (HEAD, START)


def test_the_stricter_of_two_rules_holds() -> None:
    now = ApprovalConfig(approvals=0, own_merge=True, operations_by_code=True)
    assert stricter(now, 2, "acme/platform") == ApprovalConfig(approvals=2, team="acme/platform")
    assert stricter(replace(now, approvals=3, team="acme/x"), 2, None) == ApprovalConfig(approvals=3, team="acme/x")


def test_rules_have_another_name_on_a_page_once_any_of_them_changed() -> None:
    one, other = (ApprovedRules(0, Digest.of(text)) for text in (b"one", b"other"))
    assert len(one.name) == len(other.name) == 16
    assert one.name != other.name


RULES = ApprovedRules(0, Digest.of(b""))
HAD = RecordedContent("74", START, "a" * 40, Digest.of(b""), NOON, RULES)
AWAITED = AwaitedMerge("74", RULES, ApprovalConfig())
WHO = "if a person presses merge (no auto-merge, queue or bot) or approves its last commit who may write"
HOLD = Verdict("hold", Decision.WAIT, "v2.9.4 is on hold", "a record")
FILES = Verdict("files", Decision.APPROVAL, "the overlay changes: a.yaml", "its digest")
RISK = Verdict("rbac", Decision.APPROVAL, "a Role may do more", "rbac")
FORETOLD = {
    "everything fits": (AWAITED, HAD, (FILES,), f"can approve this content, {WHO}, and wrote and pushed nothing"),
    "own merges": (
        replace(AWAITED, settings=ApprovalConfig(own_merge=True)), HAD, (), "of it, or its author presses merge."
    ),
    "a team": (replace(AWAITED, settings=ApprovalConfig(team="acme/a")), HAD, (), f"{WHO} and is in the team acme/a,"),
    "one review": (replace(AWAITED, settings=ApprovalConfig(approvals=1)), HAD, (), "if a person approves its last"),
    "reviews": (replace(AWAITED, settings=ApprovalConfig(approvals=2)), HAD, (), "if 2 people approve its last"),
    "a hold": (AWAITED, HAD, (FILES, HOLD), "A run judges that anew. It has to wait then: v2.9.4 is on hold."),
    "no record": (AWAITED, None, (), f"does not approve this content: {NO_RECORD}. A run asks for its digest then."),
    "another repository": (AWAITED, replace(HAD, repository="7"), (), f"content: {OTHER_REPOSITORY}. A run asks"),
    "other rules": (
        replace(AWAITED, rules=replace(RULES, approvals=1)), HAD, (), "content: the rules changed since the content"
    ),
    "another team": (replace(AWAITED, rules=replace(RULES, team="acme/a")), HAD, (), "team (none -> acme/a)"),
    "any other rule": (
        replace(AWAITED, rules=replace(RULES, rest=Digest.of(b"1"))), HAD, (), "the rules of approvals, escalate,"
    ),
    "another gate": (AWAITED, HAD, (FILES, RISK), "does not approve this content: a Role may do more. A run asks"),
    "what is known before": (
        replace(AWAITED, obstacles=("it comes from a fork",)), None, (RISK,),
        f"it comes from a fork; {NO_RECORD}; a Role may do more. A run asks for its digest then.",
    ),
    "a refusal": (
        AWAITED, HAD, (RISK, replace(RISK, decision=Decision.REFUSED)), "no merge publishes this content: a Role may do"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("awaited", "had", "gates", "said"), FORETOLD.values(), ids=FORETOLD)
def test_before_a_merge_no_more_is_promised_than_is_known(
    awaited: AwaitedMerge, had: RecordedContent | None, gates: tuple[Verdict, ...], said: str
) -> None:
    assert said in foretold(awaited, had, gates, waiting=False)


def test_a_merge_approves_no_earlier_content_that_waits() -> None:
    said = " Earlier changes of the content, which the channel lacks, must be approved too. A run judges"
    assert said in foretold(AWAITED, HAD, (), waiting=True)
    assert said not in foretold(AWAITED, None, (), waiting=True)


PLAIN = Artifact(name="production", channel=Reference.parse("oci://ghcr.io/acme/flux-manifests:production"))
ALLOWED = Allowance("Deployment/helm-controller", NOON, "we have no charts")
ACCEPTED = Acknowledgement("0" * 16, NOON, "looked at")
RULED: dict[str, dict[str, Any]] = {
    "approvals": {"approval": ApprovalConfig(approvals=1)},
    "team": {"approval": ApprovalConfig(team="acme/a")},
    "own merges": {"approval": ApprovalConfig(own_merge=True)},
    "escalate": {"own_policy": Policy(escalate=frozenset({ChangeClass.RBAC}))},
    "refuse": {"refuse": (ChangeClass.RBAC,)},
    "acknowledge": {"acknowledge": (ACCEPTED,)},
    "allowRemoval": {"allow_removal": (ALLOWED,)},
    "acceptEdits": {"accept_edits": (ALLOWED,)},
    "overlay": {"overlay": "clusters/production"},
    "name": {"name": "other"},
    "url": {"channel": Reference.parse("oci://ghcr.io/acme/flux-manifests:staging")},
    "verify": {"verify": VerifyConfig(public_keys=("cosign.pub",))},
    "signing": {"signing": SigningConfig(key="cosign.key")},
    "from": {"promote": PromoteConfig("staging")},
}


@pytest.mark.parametrize("changed", RULED.values(), ids=RULED)
def test_each_rule_of_an_artifact_counts(changed: dict[str, Any]) -> None:
    old, new = rules_of(PLAIN), rules_of(replace(PLAIN, **changed))
    (said,) = changed_rules(old, new)
    assert "since the content of the channel was approved" in said
    assert not [*changed_rules(new, rules_of(replace(PLAIN, **changed)))]


def test_what_decides_no_approval_is_no_rule() -> None:
    told = replace(PLAIN, version_tags=True, announce=("acme/fleet",), group="all", paused=True)
    assert rules_of(told) == rules_of(PLAIN)
