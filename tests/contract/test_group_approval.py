"""Asking for the artifacts of a group in one pull request: an approval counts for the entries on its page, and once."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ci_automation.approval.lock import LOCK_FILE
from ci_automation.approval.port import AskedState, GrantedApproval, NotCounted
from ci_automation.approval.pull_request import ask_group
from ci_automation.artifact.reference import Digest, Reference
from tests.contract.approval_doubles import die_everywhere, question
from tests.contract.pull_requests import BASE, FLEET, FULL, PLAIN, desk, entry, lock, the_pull, why_not, world
from tests.fakes.forge import ACTIONS, Forge, Pull

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_automation.approval.port import Asked, Question
    from ci_automation.approval.pull_request import PullRequestApprovals
    from ci_automation.config.model import ApprovalConfig
    from tests.fakes.forge import Repository as Fleet

A, B, C = NAMES = ("a", "b", "c")
PLACES = {name: Reference.parse(f"oci://ghcr.io/acme/flux-manifests:{name}") for name in NAMES}
BRANCH = "flux-manifests/group-eu"


@pytest.fixture
def forge() -> Iterator[Forge]:
    with world() as running:
        yield running


@pytest.fixture
def fleet(forge: Forge) -> Fleet:
    return forge.repositories[FLEET]


def wants(name: str, version: str = "v2.9.4") -> Question:
    """Return the question for an artifact: all of them have the same digests."""
    return question(version, PLACES[name])


def member(
    forge: Forge, name: str, settings: ApprovalConfig = PLAIN, group: str = "eu", of: str = "abc"
) -> PullRequestApprovals:
    together = {"group": group, "group_channels": tuple(PLACES[it] for it in of)}
    return desk(forge, settings, channel=PLACES[name], name=name, group=together)


def run(
    forge: Forge,
    *versions: str | None,
    settings: ApprovalConfig = PLAIN,
    group: str = "eu",
    of: str = "abc",
) -> dict[str, Asked]:
    """Ask for a version of each artifact in one run: None needs no approval, and an empty one is not known."""
    members = [member(forge, name, settings, group, of) for name in of]
    for each, name, version in zip(members, of, versions, strict=True):
        each.granted(BASE)
        if version:
            assert each.ask(wants(name, version)).state is AskedState.LATER
        elif version is None:
            each.withdraw("no step needs approval")
    found = ask_group(members)
    return {name: found[PLACES[name]] for name in of if PLACES[name] in found}


def granted(forge: Forge, name: str, base: Digest = BASE) -> GrantedApproval | NotCounted | None:
    return member(forge, name).granted(base)


def counts(forge: Forge) -> str:
    """Return the artifacts with an approval that counts."""
    return "".join(name for name in NAMES if isinstance(granted(forge, name), GrantedApproval))


def put(fleet: Fleet, *entries: Question, ref: str = "main", by: str = "bob", ask: int = 1) -> None:
    text = lock(fleet, ref).with_entries(entry(it, ask) for it in entries).text
    fleet.push(ref, {LOCK_FILE: text.encode()}, by)


def state(forge: Forge) -> object:
    fleet = forge.repositories[FLEET]
    pulls = [(p.state, p.title, p.body, p.labels, [(c.author, c.body) for c in p.comments]) for p in fleet.pulls]
    return pulls, {name: fleet.read(LOCK_FILE, name) for name in fleet.branches}


class TestAsking:
    def test_one_request_asks_for_all_and_a_second_run_changes_nothing(self, forge: Forge, fleet: Fleet) -> None:
        asked = run(forge, "v2.9.4", "v2.9.5", None)
        pull = the_pull(fleet)
        assert (pull.branch, pull.title) == (BRANCH, "Flux v2.9.4, Flux v2.9.5 for eu (a, b)")
        assert pull.body.count(f"*Files changed* has `{LOCK_FILE}` alone") == 1
        assert {name: (it.state, it.url) for name, it in asked.items()} == dict.fromkeys(
            "ab", (AskedState.OPENED, f"{forge.host}/acme/fleet/pull/{pull.number}")
        )
        assert lock(fleet, BRANCH).entries == (entry(wants(A)), entry(wants(B, "v2.9.5")))
        before = state(forge)
        assert {it.state for it in run(forge, "v2.9.4", "v2.9.5", None).values()} == {AskedState.UNCHANGED}
        assert state(forge) == before

    def test_those_who_shall_answer_are_told_once(self, forge: Forge, fleet: Fleet) -> None:
        fleet.protect("main", 1)
        run(forge, "v2.9.4", "v2.9.4", None, settings=FULL)
        pull = the_pull(fleet)
        assert (pull.labels, pull.assignees, pull.asked) == (["flux", "update"], ["alice"], ["bob"])
        assert pull.auto_merge

    def test_a_newer_release_renews_the_whole_request_in_place(self, forge: Forge, fleet: Fleet) -> None:
        run(forge, "v2.9.4", "v2.9.4", "v2.9.4")
        assert {it.state for it in run(forge, "v2.9.4", "v2.9.5", "v2.9.5").values()} == {AskedState.UPDATED}
        (comment,) = the_pull(fleet).comments
        assert "now asks for v2.9.5 for b, `" in comment.body
        assert ", and for v2.9.5 for c, `" in comment.body
        assert len(fleet.commits(BRANCH)) == 2
        assert "v2.9.5" in the_pull(fleet).title

    @pytest.mark.parametrize("before", [(), ("a",), ("a", "b", "c")], ids=["new", "one is there", "all are there"])
    def test_artifacts_come_and_go_while_it_is_open(self, forge: Forge, fleet: Fleet, before: tuple[str, ...]) -> None:
        if before:
            put(fleet, *(wants(name, "v2.8.9") for name in before))
        for versions in (("v2.9.4", None, None), (None, "v2.9.4", None), ("v2.9.4", "v2.9.4", "v2.9.4"),
                         ("v2.9.4", None, "v2.9.4")):  # fmt: skip
            run(forge, *versions)
            pull = the_pull(fleet)
            asked = {name: wants(name) for name, version in zip(NAMES, versions, strict=True) if version}
            assert fleet.obstacle(pull)[0] == "CLEAN"
            default = lock(fleet)
            assert lock(fleet, BRANCH) == default.with_entries(map(entry, asked.values()))
            assert all((f"| {name} | " in pull.body) is (name in asked) for name in NAMES)
        fleet.merge(the_pull(fleet).number, "alice")
        assert counts(forge) == "ac"

    def test_one_that_failed_or_waits_stays_on_the_page_as_long_as_the_others_stay(
        self, forge: Forge, fleet: Fleet
    ) -> None:
        run(forge, "v2.9.4", "v2.9.4", "v2.9.4")
        before = state(forge)
        assert {it.state for it in run(forge, "", "v2.9.4", "v2.9.4").values()} == {AskedState.UNCHANGED}
        run(forge, "", "", "")
        run(forge, "", None, None)
        assert state(forge) == before
        run(forge, "", "v2.9.5", "v2.9.4")
        assert the_pull(fleet).title.endswith("(b, c)")
        run(forge, "v2.9.4", "v2.9.5", "v2.9.4")
        assert the_pull(fleet).title.endswith("(a, b, c)")

    def test_what_is_found_later_is_shown_though_another_artifact_failed(self, forge: Forge, fleet: Fleet) -> None:
        run(forge, "v2.9.4", "v2.9.4", "v2.9.4")
        found = "a CRD that is in use loses v1beta1"
        members = [member(forge, name) for name in NAMES]
        for each, name in zip(members, "ab", strict=False):
            asked = wants(name)
            each.ask(replace(asked, step=replace(asked.step, reasons=("a minor", found))))
        assert {it.state for it in ask_group(members).values()} == {AskedState.UPDATED}
        assert the_pull(fleet).body.count(found) == 2
        assert the_pull(fleet).title.endswith("(a, b)")

    def test_it_is_withdrawn_once_no_artifact_needs_it(self, forge: Forge, fleet: Fleet) -> None:
        run(forge, "v2.9.4", "v2.9.4", None)
        run(forge, None, None, None)
        (comment,) = the_pull(fleet).comments
        assert comment.body.startswith("Withdrawn: no step needs approval.")
        assert (the_pull(fleet).state, BRANCH in fleet.branches) == ("CLOSED", False)
        assert run(forge, "v2.9.4", None, None)["a"].state is AskedState.OPENED

    def test_two_groups_do_not_meet(self, forge: Forge, fleet: Fleet) -> None:
        run(forge, "v2.9.4", of="a")
        run(forge, "v2.9.4", "v2.9.4", group="us", of="bc")
        assert [pull.branch for pull in fleet.pulls] == [BRANCH, "flux-manifests/group-us"]
        fleet.merge(fleet.pulls[1].number, "alice")
        assert isinstance(member(forge, B, group="us").granted(BASE), GrantedApproval)
        assert counts(forge) == ""

    def test_a_crash_at_any_request_ends_as_without_it(self) -> None:
        def asked() -> Forge:
            forge = world()
            with forge:
                run(forge, "v2.9.4", "v2.9.4", None)
            forge.requests.clear()
            return forge

        die_everywhere(world, lambda forge: run(forge, "v2.9.4", "v2.9.4", None), state)
        die_everywhere(asked, lambda forge: run(forge, "v2.9.5", None, "v2.9.4"), state)
        die_everywhere(asked, lambda forge: run(forge, None, None, None), state)


class TestPeople:
    def test_a_no_is_for_each_entry_of_the_page(self, forge: Forge, fleet: Fleet) -> None:
        run(forge, "v2.9.4", "v2.9.4", None)
        fleet.close(the_pull(fleet).number, "alice")
        for _ in range(2):
            asked = run(forge, "v2.9.4", "v2.9.4", None)
            assert {it.state for it in asked.values()} == {AskedState.KEPT}
            assert "a person closed it" in asked["a"].remark
        for _ in range(2):
            asked = run(forge, "v2.9.4", "v2.9.5", None)
            assert asked["a"].state is AskedState.KEPT
            assert [pull.title for pull in fleet.pulls[1:]] == ["Flux v2.9.5 for eu (b)"]
        assert lock(fleet, BRANCH).entries == (entry(wants(B, "v2.9.5")),)
        run(forge, None, None, None)
        assert run(forge, "v2.9.4", None, None)["a"].state is AskedState.KEPT

    def test_what_people_changed_on_the_branch_is_kept(self, forge: Forge, fleet: Fleet) -> None:
        run(forge, "v2.9.4", "v2.9.4", None)
        put(fleet, wants(A, "v2.9.0"), ref=BRANCH, by="alice")
        before = state(forge)
        asked = run(forge, "v2.9.4", "v2.9.4", None)
        assert {it.state for it in asked.values()} == {AskedState.KEPT}
        assert f"a person changed the branch {BRANCH}, which asks for v2.9.4; v2.9.4 (" in asked["a"].remark
        run(forge, None, None, None)
        assert state(forge) == before


class TestGranted:
    @pytest.mark.parametrize("how", ["merge", "squash", "rebase"])
    def test_a_merge_approves_exactly_the_entries_on_the_page(self, forge: Forge, fleet: Fleet, how: str) -> None:
        run(forge, "v2.9.4", None, None)
        run(forge, "v2.9.4", "v2.9.5", None)
        fleet.merge(the_pull(fleet).number, "alice", how)
        assert counts(forge) == "ab"
        found = granted(forge, B)
        assert isinstance(found, GrantedApproval)
        assert found.request == entry(wants(B, "v2.9.5")).request
        assert granted(forge, B, Digest.of(b"another base")) is None

    @pytest.mark.parametrize("how", ["merge", "squash", "rebase"])
    @pytest.mark.parametrize("merged", [False, True], ids=["while it is open", "after its merge"])
    @pytest.mark.parametrize("settings", [PLAIN, replace(PLAIN, labels=("flux",))], ids=["plain", "with a label"])
    def test_an_entry_that_is_asked_anew_keeps_the_others_approved(
        self, forge: Forge, fleet: Fleet, settings: ApprovalConfig, how: str, *, merged: bool
    ) -> None:
        """C moved, A and B could not be published: their merge counts, whatever becomes of the request for C."""
        run(forge, "v2.9.4", "v2.9.4", "v2.9.4")
        fleet.merge(the_pull(fleet).number, "alice", how)
        soon = forge.now() + timedelta(minutes=1)
        forge.now = lambda: soon
        assert run(forge, "", "", "v2.9.5", settings=settings)["c"].state is AskedState.OPENED
        assert fleet.pulls[1].title == "Flux v2.9.5 for eu (c)"
        assert fleet.obstacle(fleet.pulls[1])[0] == "CLEAN"
        if merged:
            fleet.merge(fleet.pulls[1].number, "bob", how)
        assert counts(forge) == ("abc" if merged else "ab")
        for name, by in {A: "alice", B: "alice", **({C: "bob"} if merged else {})}.items():
            found = granted(forge, name)
            assert isinstance(found, GrantedApproval)
            assert found.approval.by == by

    def test_a_no_to_a_request_that_was_opened_again_without_the_artifact_counts(
        self, forge: Forge, fleet: Fleet
    ) -> None:
        reviewed = replace(PLAIN, approvals=1)
        run(forge, "v2.9.4", "v2.9.4", None)
        first = the_pull(fleet)
        fleet.merge(first.number, "alice")
        run(forge, "v2.9.4", "v2.9.4", None, settings=reviewed)
        again = fleet.pulls[-1]
        fleet.review(first.number, "bob")
        fleet.close(again.number, "bob")
        fleet.reopen(again.number, "alice")
        run(forge, None, "v2.9.5", None, settings=reviewed)
        fleet.close(again.number, "alice")
        assert counts(forge) == ""

    def test_what_was_merged_just_now_is_not_asked_beside_the_others(self, forge: Forge, fleet: Fleet) -> None:
        run(forge, "v2.9.4", "v2.9.4", None)
        members = [member(forge, name) for name in NAMES]
        for each, name, version in zip(members, NAMES, ("v2.9.4", "v2.9.5", "v2.9.4"), strict=True):
            assert each.granted(BASE) is None
            each.ask(wants(name, version))
        fleet.merge(the_pull(fleet).number, "alice")
        asked = ask_group(members)
        assert asked[PLACES[A]].remark == "it was merged just now; the next run picks it up"
        assert fleet.pulls[1].title == "Flux v2.9.5, Flux v2.9.4 for eu (b, c)"

    def test_what_did_not_count_is_asked_again_together(self, forge: Forge, fleet: Fleet) -> None:
        run(forge, "v2.9.4", "v2.9.4", None)
        fleet.merge(the_pull(fleet).number, ACTIONS)
        assert counts(forge) == ""
        run(forge, "v2.9.4", "v2.9.4", None)
        assert counts(forge) == ""
        fleet.merge(fleet.pulls[1].number, "alice")
        assert counts(forge) == "ab"

    def test_the_request_of_an_artifact_that_left_the_group_approves_nothing(self, forge: Forge, fleet: Fleet) -> None:
        run(forge, "v2.9.4", "v2.9.4", None)
        alone = desk(forge, channel=PLACES[A], name=A)
        assert alone.ask(wants(A)).state is AskedState.OPENED
        run(forge, "v2.9.4", None, of="bc")
        assert [pull.title.rpartition(" for ")[2] for pull in fleet.pulls] == ["eu (b)", "a (minor, from v2.8.8)"]
        assert lock(fleet, BRANCH).entries == (entry(wants(B)),)

    @pytest.mark.parametrize("later", ["alone", "in a group of another name"])
    def test_a_merge_on_the_branch_of_an_earlier_group_approves_nothing(
        self, forge: Forge, fleet: Fleet, later: str
    ) -> None:
        run(forge, "v2.9.4", "v2.9.4", None)
        fleet.merge(the_pull(fleet).number, "alice")
        now = desk(forge, channel=PLACES[A], name=A) if later == "alone" else member(forge, A, group="emea")
        assert "did not ask for exactly these digests" in why_not(now.granted(BASE))


class TestAttacks:
    """Bob may push, and wants an approval of what no page showed."""

    def test_a_merge_for_another_artifact_does_not_revive_an_old_entry(self, forge: Forge, fleet: Fleet) -> None:
        """Nobody approved A: GitHub merged it by itself. The later merge by Alice shows B alone."""
        run(forge, "v2.9.4", None, None)
        fleet.merge(the_pull(fleet).number, ACTIONS)
        run(forge, "", "v2.9.4", None)
        fleet.merge(fleet.pulls[1].number, "alice")
        assert counts(forge) == "b"
        assert f"pull request {fleet.pulls[0].number} was merged" in why_not(granted(forge, A))

    @pytest.mark.parametrize("where", ["main", BRANCH])
    def test_an_entry_of_the_same_digests_for_an_artifact_that_the_page_lacks(
        self, forge: Forge, fleet: Fleet, where: str
    ) -> None:
        run(forge, "v2.9.4", "v2.9.4", None)
        if where == BRANCH:
            put(fleet, wants(C), ref=BRANCH)
        fleet.merge(the_pull(fleet).number, "alice")
        if where == "main":
            put(fleet, wants(C))
        assert counts(forge) == "ab"
        assert isinstance(granted(forge, C), NotCounted)

    def test_an_entry_with_another_target_than_the_page(self, forge: Forge, fleet: Fleet) -> None:
        run(forge, "v2.9.4", "v2.9.4", None)
        put(fleet, wants(A, "v2.9.0"), ref=BRANCH)
        fleet.merge(the_pull(fleet).number, "alice")
        assert counts(forge) == "b"
        assert "had a description of other digests" in why_not(granted(forge, A))

    def test_a_page_that_was_made_to_name_another_artifact(self, forge: Forge, fleet: Fleet) -> None:
        run(forge, "v2.9.4", "v2.9.4", None)
        put(fleet, wants(C), ref=BRANCH)
        run(forge, "v2.9.4", None, "v2.9.4", group="us")
        fleet.edit(the_group(fleet, "eu").number, "bob", body=the_group(fleet, "us").body)
        fleet.merge(the_group(fleet, "eu").number, "alice")
        assert counts(forge) == ""

    def test_an_entry_that_was_replaced_since_is_not_brought_back_by_an_edit(self, forge: Forge, fleet: Fleet) -> None:
        """Alice approved v2.9.4 of A; a later request of the group, whose page has B alone, replaced it by the way."""
        run(forge, "v2.9.4", None, None)
        fleet.merge(the_pull(fleet).number, "alice")
        run(forge, "", "v2.9.4", None)
        put(fleet, wants(A, "v2.9.0"), ref=BRANCH)
        fleet.merge(fleet.pulls[1].number, "alice")
        assert counts(forge) == "b"
        put(fleet, wants(A))
        assert counts(forge) == "b"

    def test_an_entry_that_was_undone_is_not_brought_back_beside_another_artifact(
        self, forge: Forge, fleet: Fleet
    ) -> None:
        """Alice took her yes to A back; what she merges later shows B alone, or is no request of ours."""
        run(forge, "v2.9.4", None, None)
        fleet.merge(the_pull(fleet).number, "alice")
        fleet.push("main", {LOCK_FILE: None}, "alice", "Revert")
        run(forge, "", "v2.9.4", None)
        put(fleet, wants(A), ref=BRANCH)
        fleet.merge(fleet.pulls[1].number, "alice")
        assert counts(forge) == "b"
        assert "the default branch lost its entry since" in why_not(granted(forge, A))
        run(forge, "v2.9.4", "", None)
        fleet.merge(fleet.pulls[2].number, "bob")
        assert counts(forge) == "ab"

    def test_an_entry_that_an_open_request_asks_for_again(self, forge: Forge, fleet: Fleet) -> None:
        run(forge, "v2.9.4", "v2.9.4", None)
        fleet.merge(the_pull(fleet).number, "alice")
        run(forge, "v2.9.5", "", None)
        put(fleet, wants(A, "v2.8.9"))
        put(fleet, wants(A))
        assert counts(forge) == "b"
        assert f"before pull request {fleet.pulls[1].number} was opened, which asks again" in why_not(granted(forge, A))

    def test_a_page_that_says_nothing_of_an_artifact_counts_only_as_we_wrote_it(
        self, forge: Forge, fleet: Fleet
    ) -> None:
        """Bob hides that the open request asks for A again."""
        run(forge, "v2.9.4", "v2.9.4", None)
        fleet.merge(the_pull(fleet).number, "alice")
        run(forge, "v2.9.5", "", "v2.9.4")
        pull = fleet.pulls[1]
        mark = str(Digest.of(str(PLACES[A]).encode()))
        hidden = "\n".join(line for line in pull.body.splitlines() if mark not in line)
        fleet.edit(pull.number, "bob", body=hidden)
        assert isinstance(granted(forge, A), NotCounted)

    def test_whoever_has_a_hand_in_the_branch_is_no_reviewer_of_any_entry(self, forge: Forge, fleet: Fleet) -> None:
        run(forge, "v2.9.4", "v2.9.4", None)
        fleet.push(BRANCH, {"note": b"x"}, "bob")
        fleet.review(the_pull(fleet).number, "bob")
        fleet.merge(the_pull(fleet).number, ACTIONS)
        assert counts(forge) == ""

    def test_a_review_from_before_the_page_changed_counts_for_no_entry(self, forge: Forge, fleet: Fleet) -> None:
        run(forge, "v2.9.4", "v2.9.4", None)
        fleet.review(the_pull(fleet).number, "bob")
        run(forge, "v2.9.4", "v2.9.5", None)
        fleet.merge(the_pull(fleet).number, ACTIONS)
        assert counts(forge) == ""


def the_group(fleet: Fleet, name: str) -> Pull:
    (pull,) = (it for it in fleet.pulls if it.branch.endswith(f"group-{name}"))
    return pull
