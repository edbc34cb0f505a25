"""Asking by pull request, on a GitHub with state: one branch, one pull request, and what people did stays."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ci_automation.approval.lock import LOCK_FILE, MOST_ASKS, InvalidLock, Lock, LockEntry
from ci_automation.approval.port import AskedState, GrantedApproval, NotCounted, Question, RequestKind
from ci_automation.artifact.reference import Digest, Reference
from ci_automation.config.model import ApprovalConfig
from ci_automation.errors import Conflict, ReleaseSourceError
from ci_automation.github.commits import branch_name
from ci_automation.github.model import is_request_branch
from tests.contract.approval_doubles import CHANNEL, SOME, die_everywhere, question
from tests.contract.pull_requests import (
    BASE,
    BRANCH,
    FLEET,
    FULL,
    NEWER,
    PLAIN,
    desk,
    entry,
    lock,
    the_pull,
    why_not,
    world,
)
from tests.fakes.forge import ACTIONS, Fault, Forge, Pull

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fakes.forge import Repository as Fleet

OTHER = Reference.parse("oci://ghcr.io/acme/flux-manifests:edge")


@pytest.fixture
def forge() -> Iterator[Forge]:
    with world() as running:
        yield running


@pytest.fixture
def fleet(forge: Forge) -> Fleet:
    return forge.repositories[FLEET]


def state(forge: Forge) -> object:
    """Return all that people see of the requests, without what differs between two worlds."""
    fleet = forge.repositories[FLEET]
    return (
        [
            (
                p.state,
                p.title,
                p.body,
                p.draft,
                p.labels,
                p.assignees,
                p.asked,
                p.asked_teams,
                bool(p.auto_merge),
                [(c.author, c.body) for c in p.comments],
            )
            for p in fleet.pulls
        ],
        {name: fleet.objects.files_at(sha).keys() for name, sha in fleet.branches.items()},
        {name: fleet.read(LOCK_FILE, name) for name in fleet.branches},
    )


def spent(forge: Forge, act: Callable[[], object]) -> int:
    """Return how many requests something takes."""
    before = len(forge.requests)
    act()
    return len(forge.requests) - before


class TestAsking:
    def test_a_pull_request_is_opened_that_changes_one_entry(self, forge: Forge, fleet: Fleet) -> None:
        asked = desk(forge).ask(question())
        pull = the_pull(fleet)
        assert asked.state is AskedState.OPENED
        assert asked.url == f"{forge.host}/acme/fleet/pull/{pull.number}"
        assert (pull.title, pull.base, pull.branch, pull.author) == (
            "Flux v2.9.4 for production (minor, from v2.8.8)", "main", BRANCH, ACTIONS
        )  # fmt: skip
        assert lock(fleet, BRANCH) == Lock().with_entry(entry(question()))
        assert lock(fleet) == Lock()
        assert f"*Files changed* has `{LOCK_FILE}` alone" in pull.body
        (commit,) = fleet.commits(BRANCH)
        assert commit.signed

    def test_with_everybody_that_is_to_be_told(self, forge: Forge, fleet: Fleet) -> None:
        fleet.protect("main", 1)
        desk(forge, FULL).ask(question())
        pull = the_pull(fleet)
        assert (pull.labels, pull.assignees, pull.asked, pull.asked_teams) == (
            ["flux", "update"], ["alice"], ["bob"], ["platform"]
        )  # fmt: skip
        assert pull.auto_merge
        here = Digest.of(str(CHANNEL).encode())
        assert pull.body.endswith(f"<!-- flux-manifests asked {BASE} {Digest.of(b'v2.9.4')} {here} shown -->\n")

    def test_as_a_draft(self, forge: Forge, fleet: Fleet) -> None:
        desk(forge, replace(PLAIN, draft=True)).ask(question())
        assert the_pull(fleet).draft

    def test_asking_takes_seven_requests_at_most_and_the_one_before(self, forge: Forge, fleet: Fleet) -> None:
        fleet.protect("main", 1)
        mine = desk(forge, FULL)
        assert spent(forge, lambda: mine.granted(BASE)) == 1
        assert spent(forge, lambda: mine.ask(question())) == 6
        assert spent(forge, lambda: desk(forge, FULL).ask(question())) == 1

    @pytest.mark.parametrize("settings", [PLAIN, FULL])
    def test_to_ask_again_changes_nothing_and_takes_one_request(
        self, forge: Forge, fleet: Fleet, settings: ApprovalConfig
    ) -> None:
        fleet.protect("main", 1)
        first = desk(forge, settings).ask(question())
        before = state(forge)
        mine = desk(forge, settings)
        assert spent(forge, lambda: mine.ask(question())) == 1
        asked = desk(forge, settings).ask(question())
        assert (asked.state, asked.url) == (AskedState.UNCHANGED, first.url)
        assert state(forge) == before

    def test_what_was_seen_when_approvals_were_looked_for_is_not_asked_for_again(self, forge: Forge) -> None:
        desk(forge).ask(question())
        mine = desk(forge)
        assert mine.granted(BASE) is None
        assert spent(forge, lambda: mine.ask(question())) == 0

    def test_a_browser_that_changes_the_ends_of_lines_changes_nothing(self, forge: Forge, fleet: Fleet) -> None:
        desk(forge).ask(question())
        the_pull(fleet).body = the_pull(fleet).body.replace("\n", "\r\n")
        assert desk(forge).ask(question()).state is AskedState.UNCHANGED

    def test_a_changed_page_is_brought_up_to_date(self, forge: Forge, fleet: Fleet) -> None:
        desk(forge).ask(question())
        head = the_pull(fleet).head
        asked = desk(forge).ask(replace(question(), notes=SOME))
        assert asked.state is AskedState.UPDATED
        assert "now there are some" in the_pull(fleet).body
        assert the_pull(fleet).head == head

    def test_two_artifacts_have_two_pull_requests(self, forge: Forge, fleet: Fleet) -> None:
        desk(forge).ask(question())
        desk(forge, channel=OTHER, name="edge").ask(question(channel=OTHER))
        assert [pull.branch for pull in fleet.pulls] == [BRANCH, "flux-manifests/edge"]

    def test_content_and_version_wait_at_once_and_neither_answers_for_the_other(
        self, forge: Forge, fleet: Fleet
    ) -> None:
        desk(forge).ask(question())
        assert desk(forge, kind=RequestKind.CONTENT).ask(NEWER).state is AskedState.OPENED
        version, content = fleet.pulls
        assert [version.branch, content.branch] == [BRANCH, "flux-manifests/content-production"]
        fleet.merge(content.number, "alice")
        assert desk(forge).granted(BASE) is None
        granted = desk(forge, kind=RequestKind.CONTENT).granted(BASE)
        assert isinstance(granted, GrantedApproval)
        assert granted.request == replace(entry(NEWER).request, kind=RequestKind.CONTENT)
        assert desk(forge).ask(question()).state is AskedState.UPDATED  # both entries came to the same place
        fleet.merge(version.number, "alice")
        found = desk(forge).granted(BASE)
        assert isinstance(found, GrantedApproval)
        assert found.request == entry(question()).request
        assert len(lock(fleet).entries) == 2
        desk(forge, kind=RequestKind.CONTENT).withdraw("it was published")
        assert BRANCH in fleet.branches

    @pytest.mark.parametrize(
        ("name", "branch"),
        [
            ("production", "flux-manifests/production"),
            ("v1.2_x-Y", "flux-manifests/v1.2_x-Y"),
            ("a..b", "flux-manifests/{8}-a-b"),
            ("a.lock", "flux-manifests/{8}-a-lock"),
            ("a.", "flux-manifests/{8}-a"),
            ("consumer-production", "flux-manifests/{8}-consumer-production"),
            ("content-production", "flux-manifests/{8}-content-production"),
            ("oci://ghcr.io/acme/x:production", "flux-manifests/{8}-oci-ghcr-io-acme-x-production"),
        ],
    )
    def test_every_name_has_a_branch_that_git_takes(self, name: str, branch: str) -> None:
        assert re.fullmatch(re.escape(branch).replace(r"\{8\}", "[0-9a-f]{8}"), branch_name(name))
        assert is_request_branch(branch_name(name))

    def test_a_damaged_lock_file_is_an_error(self, forge: Forge, fleet: Fleet) -> None:
        fleet.push("main", {LOCK_FILE: b"version: 7\n"}, "alice")
        with pytest.raises(InvalidLock):
            desk(forge).ask(question())
        with pytest.raises(InvalidLock):
            desk(forge).granted(BASE)

    def test_auto_merge_that_the_repository_forbids_is_said_each_time(self, forge: Forge, fleet: Fleet) -> None:
        fleet.allow_auto_merge = False
        for _ in range(2):
            with pytest.raises(ReleaseSourceError, match=r"[Aa]uto.?merge"):
                desk(forge, FULL).ask(question())
        assert the_pull(fleet).state == "OPEN"


class TestSuperseding:
    def test_a_newer_release_takes_the_place_with_one_comment(self, forge: Forge, fleet: Fleet) -> None:
        first = desk(forge).ask(question())
        asked = desk(forge).ask(NEWER)
        pull = the_pull(fleet)
        assert (asked.state, asked.url) == (AskedState.UPDATED, first.url)
        assert pull.title == "Flux v2.9.5 for production (minor, from v2.8.8)"
        assert lock(fleet, BRANCH) == Lock().with_entry(entry(NEWER))
        (comment,) = pull.comments
        assert comment.body.startswith("Superseded: this pull request now asks for v2.9.5")
        desk(forge).ask(NEWER)
        assert len(pull.comments) == 1

    def test_there_and_back_again_is_two_comments(self, forge: Forge, fleet: Fleet) -> None:
        for asked in (question(), NEWER, question(), question()):
            desk(forge).ask(asked)
        assert len(the_pull(fleet).comments) == 2

    def test_another_base_alone_is_no_comment(self, forge: Forge, fleet: Fleet) -> None:
        desk(forge).ask(question())
        moved = question()
        moved = replace(moved, step=replace(moved.step, base=Digest.of(b"a patch came between")))
        assert desk(forge).ask(moved).state is AskedState.UPDATED
        assert the_pull(fleet).comments == []
        assert lock(fleet, BRANCH) == Lock().with_entry(entry(moved))

    def test_reviews_of_what_it_was_before_do_not_count(self, forge: Forge, fleet: Fleet) -> None:
        desk(forge).ask(question())
        fleet.review(the_pull(fleet).number, "bob")
        desk(forge).ask(NEWER)
        fleet.merge(the_pull(fleet).number, "alice")
        assert "0 of 1" in why_not(desk(forge, replace(PLAIN, approvals=1)).granted(BASE))

    def test_a_neighbour_that_was_merged_meanwhile_is_kept(self, forge: Forge, fleet: Fleet) -> None:
        """Two new entries come to the same place: git cannot merge them, so the branch is put on top of the other."""
        desk(forge).ask(question())
        desk(forge, channel=OTHER, name="edge").ask(question(channel=OTHER))
        first, second = fleet.pulls
        fleet.merge(second.number, "alice")
        assert fleet.obstacle(first)[0] == "DIRTY"
        assert desk(forge).ask(question()).state is AskedState.UPDATED
        assert fleet.obstacle(first)[0] == "CLEAN"
        fleet.merge(first.number, "alice")
        assert lock(fleet).entries == (entry(question(channel=OTHER)), entry(question()))

    def test_a_neighbour_that_changed_does_not_cost_the_reviews(self, forge: Forge, fleet: Fleet) -> None:
        both = Lock().with_entry(entry(question("v2.8.9"))).with_entry(entry(question("v2.8.9", OTHER)))
        fleet.push("main", {LOCK_FILE: both.text.encode()}, "alice")
        desk(forge).ask(question())
        head = the_pull(fleet).head
        fleet.push("main", {LOCK_FILE: both.with_entry(entry(question(channel=OTHER))).text.encode()}, "alice")
        assert desk(forge).ask(question()).state is AskedState.UNCHANGED
        assert the_pull(fleet).head == head

    def test_other_files_that_people_push_to_the_default_branch_do_not_matter(self, forge: Forge, fleet: Fleet) -> None:
        desk(forge).ask(question())
        fleet.push("main", {"apps/a.yaml": b"a: 1\n"}, "alice")
        assert desk(forge).ask(question()).state is AskedState.UNCHANGED
        desk(forge).ask(NEWER)
        fleet.merge(the_pull(fleet).number, "alice")
        assert fleet.read("apps/a.yaml") == b"a: 1\n"


class TestPeople:
    def test_their_commits_beside_are_left_alone(self, forge: Forge, fleet: Fleet) -> None:
        desk(forge).ask(question())
        fleet.push(BRANCH, {"NOTES.md": b"ours\n"}, "alice")
        asked = desk(forge).ask(question())
        assert asked.state is AskedState.UNCHANGED
        assert fleet.read("NOTES.md", BRANCH) == b"ours\n"

    @pytest.mark.parametrize(
        "files",
        [
            pytest.param({"NOTES.md": b"ours\n"}, id="a file beside"),
            pytest.param({LOCK_FILE: Lock().with_entry(entry(question("v2.9.0"))).text.encode()}, id="the entry"),
            pytest.param({LOCK_FILE: None}, id="the lock file deleted"),
            pytest.param({LOCK_FILE: b"x: ["}, id="the lock file damaged"),
        ],
    )
    def test_what_they_changed_is_not_overwritten(
        self, forge: Forge, fleet: Fleet, files: dict[str, bytes | None]
    ) -> None:
        first = desk(forge).ask(question())
        head = fleet.push(BRANCH, files, "alice")
        for _ in range(2):
            asked = desk(forge).ask(NEWER)
            assert (asked.state, asked.url) == (AskedState.KEPT, first.url)
            assert f"a person changed the branch {BRANCH}" in asked.remark
        assert fleet.branches[BRANCH] == head
        assert the_pull(fleet).title == "Flux v2.9.4 for production (minor, from v2.8.8)"
        assert the_pull(fleet).comments == []

    def test_an_entry_of_theirs_is_not_what_was_asked(self, forge: Forge, fleet: Fleet) -> None:
        desk(forge).ask(question())
        fleet.push(BRANCH, {LOCK_FILE: Lock().with_entry(entry(question("v2.9.0"))).text.encode()}, "alice")
        assert desk(forge).ask(question()).state is AskedState.KEPT

    def test_comments_of_theirs_in_the_file_stay(self, forge: Forge, fleet: Fleet) -> None:
        fleet.push("main", {LOCK_FILE: f"# ours\n{Lock().with_entry(entry(NEWER)).text}".encode()}, "alice")
        desk(forge).ask(question())
        assert lock(fleet, BRANCH).text.startswith("# ours\n")

    def test_a_closed_pull_request_is_a_no(self, forge: Forge, fleet: Fleet) -> None:
        desk(forge).ask(question())
        fleet.close(the_pull(fleet).number, "alice")
        before = state(forge)
        asked = desk(forge).ask(question())
        assert asked.state is AskedState.KEPT
        assert asked.remark.startswith("a person closed it; to have it asked for again, reopen it or delete the branch")
        assert state(forge) == before

    def test_a_no_is_for_that_release_alone(self, forge: Forge, fleet: Fleet) -> None:
        desk(forge).ask(question())
        fleet.close(the_pull(fleet).number, "alice")
        assert desk(forge).ask(NEWER).state is AskedState.OPENED
        assert [pull.state for pull in fleet.pulls] == ["CLOSED", "OPEN"]
        assert lock(fleet, BRANCH) == Lock().with_entry(entry(NEWER))

    def test_a_no_is_taken_back_by_reopening(self, forge: Forge, fleet: Fleet) -> None:
        desk(forge).ask(question())
        fleet.close(the_pull(fleet).number, "alice")
        fleet.reopen(the_pull(fleet).number, "alice")
        assert desk(forge).ask(question()).state is AskedState.UNCHANGED

    def test_a_no_is_taken_back_by_deleting_the_branch(self, forge: Forge, fleet: Fleet) -> None:
        desk(forge).ask(question())
        fleet.delete_branch(BRANCH, "alice")
        assert desk(forge).ask(question()).state is AskedState.OPENED

    def test_a_branch_with_their_commits_and_no_pull_request_is_kept(self, forge: Forge, fleet: Fleet) -> None:
        fleet.push(BRANCH, {"NOTES.md": b"ours\n"}, "alice")
        asked = desk(forge).ask(question())
        assert (asked.state, asked.url) == (AskedState.KEPT, "")
        assert fleet.pulls == []

    def test_who_moves_the_branch_meanwhile_is_not_overwritten(self, forge: Forge, fleet: Fleet) -> None:
        desk(forge).ask(question())
        moved: list[str] = []

        def move(method: str, _path: str, body: object) -> None:
            if method == "POST" and "createCommitOnBranch" in str(body) and not moved:
                moved.append(fleet.push(BRANCH, {"NOTES.md": b"ours\n"}, "alice"))

        forge.faults.append(move)  # it lets every request through
        assert desk(forge).ask(NEWER).state is AskedState.KEPT
        assert moved == [fleet.branches[BRANCH]]

    def test_a_branch_that_never_rests_is_a_conflict(self, forge: Forge, fleet: Fleet) -> None:
        desk(forge).ask(question())
        ours = fleet.branches[BRANCH]

        def move(method: str, _path: str, body: object) -> None:
            if method == "POST" and "createCommitOnBranch" in str(body):
                fleet.push(BRANCH, {"NOTES.md": b"ours\n"}, "alice")
            elif "viewer" in str(body):
                fleet.move(BRANCH, ours, "alice", force=True)

        forge.faults.append(move)
        with pytest.raises(Conflict):
            desk(forge).ask(NEWER)


def pushed(
    fleet: Fleet, author: str, message: str = "Change files", *, committer: str = "", by: str = "", note: str = ""
) -> str:
    """Push to the branch, whose entry keeps its digests."""
    files = {"note": (note or message).encode()}
    return fleet.push(BRANCH, files, author, message, committer=committer, by=by)


class TestGranted:
    @pytest.fixture
    def pull(self, forge: Forge, fleet: Fleet) -> Pull:
        desk(forge).ask(question())
        return the_pull(fleet)

    def test_nothing_was_said_before_the_merge(self, forge: Forge, fleet: Fleet, pull: Pull) -> None:
        fleet.review(pull.number, "bob")
        assert desk(forge).granted(BASE) is None

    @pytest.mark.parametrize("how", ["merge", "squash", "rebase"])
    def test_a_merge_is_a_yes_to_that_step(self, forge: Forge, fleet: Fleet, pull: Pull, how: str) -> None:
        fleet.merge(pull.number, "alice", how)
        mine = desk(forge)
        found = mine.granted(BASE)
        assert isinstance(found, GrantedApproval)
        assert found.request == entry(question()).request
        assert (found.approval.by, found.approval.at) == ("alice", pull.merged_at)
        assert found.approval.how == f"pull request {forge.host}/acme/fleet/pull/{pull.number}"
        assert desk(forge).granted(Digest.of(b"another base")) is None
        assert desk(forge).granted(found.request.target) is None

    def test_a_permission_that_was_revoked_is_none(self, forge: Forge, fleet: Fleet, pull: Pull) -> None:
        fleet.merge(pull.number, "alice")
        fleet.collaborators["alice"] = "read"
        assert "alice may not write to the repository now" in why_not(desk(forge).granted(BASE))

    def test_a_merge_by_the_bot_is_nobodys_yes(self, forge: Forge, fleet: Fleet, pull: Pull) -> None:
        fleet.merge(pull.number, ACTIONS)
        assert isinstance(desk(forge).granted(BASE), NotCounted)

    def test_what_github_merged_after_a_review_is_the_reviewers_yes(self, forge: Forge, fleet: Fleet) -> None:
        fleet.protect("main", 1)
        desk(forge, FULL).ask(question())
        fleet.review(the_pull(fleet).number, "bob")
        assert the_pull(fleet).merged_by == ACTIONS
        found = desk(forge, FULL).granted(BASE)
        assert isinstance(found, GrantedApproval)
        assert found.approval.by == "bob"

    def test_an_accomplice_cannot_use_an_auto_merge_that_somebody_else_switched_on(
        self, forge: Forge, fleet: Fleet, pull: Pull
    ) -> None:
        """Alice lets GitHub merge what she saw; Bob pushes another target and approves his own commit."""
        fleet.protect("main", 1)
        fleet.enable_auto_merge(pull.number, "alice")
        pushed(fleet, "bob")
        fleet.review(pull.number, "bob")
        assert (pull.merged_by, pull.reviews[0].commit) == ("alice", pull.head)
        for settings in (PLAIN, replace(PLAIN, approvals=1)):
            found = desk(forge, settings).granted(BASE)
            assert isinstance(found, NotCounted)
            assert found.request == entry(question()).request
            assert found.reason.endswith(
                "auto-merge was on, so no person pressed merge; bob is its author or pushed to it"
            )

    @pytest.mark.parametrize(
        "made",
        [
            pytest.param({"author": "bob"}, id="an author"),
            pytest.param({"author": ACTIONS, "by": "bob"}, id="who pushes a commit that says it is ours"),
            pytest.param({"author": ACTIONS, "committer": "bob", "by": ACTIONS}, id="a committer"),
            pytest.param(
                {"author": ACTIONS, "by": ACTIONS, "message": "x\n\nCo-authored-by: bob <{bob}>"}, id="a co-author"
            ),
        ],
    )
    @pytest.mark.parametrize("later", [False, True], ids=["with the last commit", "with an earlier one"])
    def test_whoever_has_a_hand_in_the_branch_is_no_reviewer_of_it(
        self, forge: Forge, fleet: Fleet, pull: Pull, made: dict[str, str], *, later: bool
    ) -> None:
        pushed(fleet, **{name: text.format(bob=forge.user("bob").email) for name, text in made.items()})
        if later:
            pushed(fleet, ACTIONS, note="more")
        fleet.review(pull.number, "bob")
        fleet.merge(pull.number, "alice")
        assert isinstance(desk(forge).granted(BASE), GrantedApproval)
        found = desk(forge, replace(PLAIN, approvals=1)).granted(BASE)
        assert isinstance(found, NotCounted)
        assert "with 0 of 1 approving" in found.reason
        assert "bob is its author or pushed to it" in found.reason

    def test_a_review_of_what_somebody_else_pushed_counts(self, forge: Forge, fleet: Fleet, pull: Pull) -> None:
        pushed(fleet, "bob")
        fleet.review(pull.number, "alice")
        fleet.merge(pull.number, "bob")
        for settings in (PLAIN, replace(PLAIN, approvals=1)):
            found = desk(forge, settings).granted(BASE)
            assert isinstance(found, GrantedApproval)
            assert found.approval.by == "alice"

    def test_what_the_description_did_not_say_when_it_was_merged_is_asked_again(
        self, forge: Forge, fleet: Fleet, pull: Pull
    ) -> None:
        page = pull.body
        fleet.edit(pull.number, "bob", body=page.replace("needs approval", "is fine"))
        desk(forge).ask(question())  # renews it
        assert pull.body == page
        fleet.edit(pull.number, "bob", body=f"Trust me.\n\n{page.splitlines()[-1]}\n")
        fleet.merge(pull.number, "alice")
        mine = desk(forge)
        assert "had a description that bob wrote last, and not github-actions[bot]" in why_not(mine.granted(BASE))
        assert mine.ask(question()).state is AskedState.OPENED
        fleet.merge(fleet.pulls[-1].number, "alice")
        assert isinstance(desk(forge).granted(BASE), GrantedApproval)

    def test_a_description_that_another_account_wrote_is_written_again(
        self, forge: Forge, fleet: Fleet, pull: Pull
    ) -> None:
        page = pull.body
        for body in ("Trust me.", page):
            fleet.edit(pull.number, "bob", body=body)
        assert desk(forge).ask(question()).state is AskedState.UPDATED
        assert (pull.body, pull.editor) == (page, ACTIONS)
        assert spent(forge, lambda: desk(forge).ask(question())) == 1
        fleet.merge(pull.number, "alice")
        assert isinstance(desk(forge).granted(BASE), GrantedApproval)

    def test_a_request_that_another_account_opened_gives_way_to_one_of_ours(
        self, forge: Forge, fleet: Fleet, pull: Pull
    ) -> None:
        app = {"login": "acme-flux[bot]"}
        page = pull.body
        assert desk(forge, token=app).ask(question()).state is AskedState.OPENED
        assert [(it.state, it.author) for it in fleet.pulls] == [("CLOSED", ACTIONS), ("OPEN", "acme-flux[bot]")]
        assert (
            "Withdrawn: a run asks only in the newest pull request from this branch, and only if it opened that itself"
            in pull.comments[-1].body
        )
        assert fleet.pulls[-1].body == page
        assert spent(forge, lambda: desk(forge, token=app).ask(question())) == 1
        fleet.merge(fleet.pulls[-1].number, "alice")
        assert isinstance(desk(forge, token=app).granted(BASE), GrantedApproval)

    def test_a_request_that_another_account_opens_meanwhile_gets_no_page(
        self, forge: Forge, fleet: Fleet, pull: Pull
    ) -> None:
        desk(forge).withdraw("a freeze is on")
        theirs: list[Pull] = []

        def faster(method: str, path: str, _body: object) -> None:
            if method == "POST" and path.endswith("/pulls") and not theirs:
                theirs.append(fleet.open_pull(BRANCH, "alice"))

        forge.faults.append(faster)  # it lets every request through
        assert desk(forge, FULL).ask(question()).state is AskedState.OPENED
        assert (theirs[0].body, theirs[0].labels) == ("", [])
        desk(forge).ask(question())
        assert [it.state for it in fleet.pulls] == [pull.state, "CLOSED", "OPEN"]

    def test_a_page_that_was_withdrawn_approves_nothing_until_it_asks_again(
        self, forge: Forge, fleet: Fleet, pull: Pull
    ) -> None:
        """It does not say any more which hazards it shows."""
        desk(forge).withdraw("a freeze is on")
        fleet.move(BRANCH, pull.head, "bob")
        fleet.reopen(pull.number, "bob")
        fleet.merge(pull.number, "alice")
        run = desk(forge)
        assert "was withdrawn" in why_not(run.granted(BASE))
        assert run.ask(question()).state is AskedState.OPENED
        fleet.merge(fleet.pulls[-1].number, "alice")
        assert isinstance(desk(forge).granted(BASE), GrantedApproval)

    def test_an_entry_that_the_description_does_not_name_is_asked_again(
        self, forge: Forge, fleet: Fleet, pull: Pull
    ) -> None:
        files = {LOCK_FILE: lock(fleet).with_entry(entry(NEWER)).text.encode()}
        fleet.push(BRANCH, files, "bob")
        fleet.merge(pull.number, "alice")
        assert "had a description of other digests" in why_not(desk(forge).granted(BASE))

    def test_the_last_number_of_an_entry_ends_no_asking(self, forge: Forge, fleet: Fleet, pull: Pull) -> None:
        fleet.merge(pull.number, "alice")
        text = Lock().with_entry(entry(question(), MOST_ASKS)).text
        fleet.push("main", {LOCK_FILE: text.encode()}, "bob")
        run = desk(forge)
        assert isinstance(run.granted(BASE), NotCounted)
        assert run.ask(question()).state is AskedState.OPENED
        assert isinstance(desk(forge).granted(BASE), NotCounted)
        fleet.merge(fleet.pulls[-1].number, "alice")
        assert isinstance(desk(forge).granted(BASE), GrantedApproval)

    def test_a_merge_of_ones_own_push_does_not_count_alone(self, forge: Forge, fleet: Fleet, pull: Pull) -> None:
        pushed(fleet, "bob")
        fleet.merge(pull.number, "bob")
        found = desk(forge).granted(BASE)
        assert isinstance(found, NotCounted)
        assert "with 0 of 1 people who count" in found.reason
        assert "bob is its author or pushed to it" in found.reason

    @pytest.mark.parametrize("order", ["review first", "retarget first"])
    def test_a_review_counts_for_the_base_that_it_saw(self, forge: Forge, fleet: Fleet, pull: Pull, order: str) -> None:
        fleet.push("feature", {"f": b"1"}, "alice")
        fleet.retarget(pull.number, "feature", "alice")
        start = forge.now()
        for minute, act in enumerate(("review", "retarget") if order == "review first" else ("retarget", "review")):
            now = start + timedelta(minutes=minute)
            forge.now = partial(max, start, now)
            if act == "review":
                fleet.review(pull.number, "bob")
            else:
                fleet.retarget(pull.number, "main", "alice")
        fleet.merge(pull.number, "alice")
        found = desk(forge, replace(PLAIN, approvals=1)).granted(BASE)
        assert isinstance(found, NotCounted if order == "review first" else GrantedApproval)
        if isinstance(found, NotCounted):
            assert "bob approved it before its base changed" in found.reason

    @pytest.mark.parametrize("how", ["merge", "squash", "rebase"])
    @pytest.mark.parametrize("again", [False, True], ids=["once", "off and on again"])
    def test_an_auto_merge_is_nobodys_merge_even_after_the_last_push(
        self, forge: Forge, fleet: Fleet, pull: Pull, how: str, *, again: bool
    ) -> None:
        fleet.protect("main", 1)
        if again:
            fleet.enable_auto_merge(pull.number, "bob", how)
            pushed(fleet, "bob")
            fleet.disable_auto_merge(pull.number, "bob")
        later = forge.now() + timedelta(minutes=1)
        forge.now = lambda: later
        fleet.enable_auto_merge(pull.number, "alice", how)
        fleet.review(pull.number, "bob")
        assert pull.merged_by == "alice"
        found = desk(forge).granted(BASE)
        assert isinstance(found, NotCounted if again else GrantedApproval)
        if isinstance(found, GrantedApproval):
            assert found.approval.by == "bob"  # who reviewed it

    def test_who_presses_merge_after_an_auto_merge_was_switched_off_counts(
        self, forge: Forge, fleet: Fleet, pull: Pull
    ) -> None:
        fleet.protect("main", 1)
        fleet.enable_auto_merge(pull.number, "bob")
        fleet.disable_auto_merge(pull.number, "bob")
        fleet.protect("main", 0)
        fleet.merge(pull.number, "alice")
        found = desk(forge).granted(BASE)
        assert isinstance(found, GrantedApproval)
        assert found.approval.by == "alice"

    @pytest.mark.parametrize("place", ["first", "last"])
    def test_a_merge_queue_is_nobody_and_reviews_count(
        self, forge: Forge, fleet: Fleet, pull: Pull, place: str
    ) -> None:
        fleet.push("other", {"note": b"1"}, "alice", onto=fleet.head)
        other = fleet.open_pull("other", "alice").number
        fleet.merge_queue(*((pull.number, other) if place == "first" else (other, pull.number)))
        assert "with 0 of 1 people who count" in why_not(desk(forge).granted(BASE))
        fleet.review(pull.number, "bob")
        assert isinstance(desk(forge).granted(BASE), GrantedApproval)

    def test_a_push_that_has_its_commits_is_nobodys_yes(self, forge: Forge, fleet: Fleet, pull: Pull) -> None:
        fleet.review(pull.number, "bob")
        fleet.move("main", pull.head, "alice")
        assert (pull.state, pull.merged_by) == ("MERGED", "alice")
        assert "was merged by a push of its commits to the default branch" in why_not(desk(forge).granted(BASE))

    def test_the_merge_of_a_request_that_has_its_commits_is_nobodys_yes(
        self, forge: Forge, fleet: Fleet, pull: Pull
    ) -> None:
        fleet.push("other", {"note": b"1"}, "bob", onto=pull.head)
        other = fleet.open_pull("other", "bob")
        fleet.merge(other.number, "alice")
        assert (pull.state, pull.merge_commit) == ("MERGED", other.merge_commit)
        assert f"was merged by the same commit as pull request {other.number}" in why_not(desk(forge).granted(BASE))

    @pytest.mark.parametrize("many", [10, 50])
    def test_nor_behind_many_that_have_its_commits(self, forge: Forge, fleet: Fleet, many: int) -> None:
        fleet.push("aside", {"x": b"1"}, "bob")
        for number in range(many):
            fleet.push(f"early-{number}", {f"{number}": b"1"}, "bob")
            fleet.open_pull(f"early-{number}", "bob", base="aside")
        desk(forge).ask(question())
        pull = fleet.pulls[-1]
        fleet.push("other", {"note": b"1"}, "bob", onto=pull.head)
        fleet.merge(fleet.open_pull("other", "bob").number, "alice")
        for number in range(many):
            fleet.move(f"early-{number}", fleet.head, "bob", force=True)
        assert "was merged by the same commit as pull request" in why_not(desk(forge).granted(BASE))

    def test_a_merge_that_the_log_does_not_show_yet_waits_for_the_next_run(
        self, forge: Forge, fleet: Fleet, pull: Pull
    ) -> None:
        fleet.merge(pull.number, "alice")
        fleet.lag = 1
        mine = desk(forge)
        assert mine.granted(BASE) is None
        asked = mine.ask(question())
        assert (asked.state, asked.url) == (AskedState.UNCHANGED, f"{forge.host}/acme/fleet/pull/{pull.number}")
        assert "the next run picks it up" in asked.remark
        fleet.lag = 0
        assert isinstance(desk(forge).granted(BASE), GrantedApproval)

    def test_where_github_keeps_no_log_the_merge_counts_as_it_is(self, forge: Forge, fleet: Fleet, pull: Pull) -> None:
        fleet.has_activity = False
        fleet.merge(pull.number, "alice")
        assert isinstance(desk(forge).granted(BASE), GrantedApproval)

    def test_a_push_counts_as_no_merge_where_github_fails_to_show_its_log(
        self, forge: Forge, fleet: Fleet, pull: Pull
    ) -> None:
        fleet.move("main", pull.head, "alice")
        assert pull.state == "MERGED"
        forge.faults.append(lambda _verb, path, _body: Fault(502) if "/activity" in path else None)
        with pytest.raises(ReleaseSourceError, match=r"/activity.*502"):
            desk(forge).granted(BASE)
        forge.faults.clear()
        assert isinstance(desk(forge).granted(BASE), NotCounted)

    def test_a_merge_that_the_log_has_lost_is_nobodys_but_its_reviews_count(
        self, forge: Forge, fleet: Fleet, pull: Pull
    ) -> None:
        fleet.review(pull.number, "bob")
        fleet.merge(pull.number, "alice")
        del fleet.activity[-1]
        fleet.push("main", {"f": b"1"}, "alice")
        found = desk(forge).granted(BASE)
        assert isinstance(found, GrantedApproval)
        assert found.approval.by == "bob"
        now = forge.now() + timedelta(minutes=1)
        forge.now = lambda: now
        text = fleet.read(LOCK_FILE)
        fleet.push("main", {LOCK_FILE: None}, "alice", "Revert")
        fleet.push("main", {LOCK_FILE: text}, "alice", "Once more")
        assert isinstance(desk(forge).granted(BASE), NotCounted)

    @pytest.mark.parametrize("author", [ACTIONS, "alice"], ids=["ours", "a person's"])
    def test_where_github_shows_no_activity_only_commits_that_it_signed_as_ours_are_reviewed(
        self, forge: Forge, fleet: Fleet, pull: Pull, author: str
    ) -> None:
        if author != ACTIONS:
            pushed(fleet, ACTIONS, by=author)
        fleet.activity.clear()
        fleet.review(pull.number, "bob")
        fleet.merge(pull.number, "alice")
        found = desk(forge, replace(PLAIN, approvals=1)).granted(BASE)
        assert isinstance(found, GrantedApproval if author == ACTIONS else NotCounted)
        if isinstance(found, NotCounted):
            assert "GitHub does not show who pushed its last commit, so one more person is needed" in found.reason
        assert isinstance(desk(forge).granted(BASE), GrantedApproval)  # of two people

    @pytest.mark.parametrize("then", ["more is pushed", "more is pushed in their name", "they merged it before"])
    def test_a_no_is_not_undone_by_a_push_nor_by_an_own_merge_before(
        self, forge: Forge, fleet: Fleet, pull: Pull, then: str
    ) -> None:
        fleet.collaborators["carl"] = "write"
        forge.user("carl")
        if then == "they merged it before":
            fleet.merge(pull.number, "bob")
        fleet.review(pull.number, "bob", "CHANGES_REQUESTED")
        if then != "they merged it before":
            named = "bob" if then == "more is pushed in their name" else "carl"
            fleet.push(BRANCH, {"notes.txt": b"nothing"}, named, by="carl")
            fleet.merge(pull.number, "alice")
        found = desk(forge).granted(BASE)
        assert isinstance(found, NotCounted)
        assert "though bob requested changes" in found.reason

    def test_a_team_is_asked_for_its_members(self, forge: Forge, fleet: Fleet, pull: Pull) -> None:
        fleet.merge(pull.number, "alice")
        settings = replace(PLAIN, team="acme/platform")
        assert isinstance(desk(forge, settings).granted(BASE), NotCounted)
        forge.team("acme/platform", ["alice"])
        assert isinstance(desk(forge, settings).granted(BASE), GrantedApproval)

    @pytest.mark.parametrize(
        ("wrote", "why"),
        [
            pytest.param(entry(NEWER), "the file was edited", id="another target"),
            pytest.param(replace(entry(question()), ask=2), "the file was edited", id="another ask"),
        ],
    )
    def test_an_edit_of_the_default_branch_is_none(
        self, forge: Forge, fleet: Fleet, pull: Pull, wrote: LockEntry, why: str
    ) -> None:
        fleet.merge(pull.number, "alice")
        fleet.push("main", {LOCK_FILE: lock(fleet).with_entry(wrote).text.encode()}, "bob")
        found = desk(forge).granted(BASE)
        assert isinstance(found, NotCounted)
        assert why in found.reason

    def test_a_push_without_a_pull_request_is_none(self, forge: Forge, fleet: Fleet, pull: Pull) -> None:
        fleet.push("main", {LOCK_FILE: fleet.read(LOCK_FILE, BRANCH)}, "bob")
        assert pull.state == "OPEN"
        assert isinstance(desk(forge).granted(BASE), NotCounted)

    def test_a_merge_from_a_fork_is_none(self, forge: Forge, fleet: Fleet, pull: Pull) -> None:
        fork = forge.fork(FLEET, "eve")
        del fork.branches[BRANCH]
        fork.push(BRANCH, {LOCK_FILE: fleet.read(LOCK_FILE, BRANCH)}, "eve")
        opened = fleet.open_pull(f"eve:{BRANCH}", "eve")
        fleet.merge(opened.number, "alice")
        assert "comes from a fork" in why_not(desk(forge).granted(BASE))
        assert pull.state == "OPEN"

    def test_a_merge_of_another_branch_is_none(self, forge: Forge, fleet: Fleet) -> None:
        fleet.push("sneaky", {LOCK_FILE: Lock().with_entry(entry(question())).text.encode()}, "bob")
        fleet.merge(fleet.open_pull("sneaky", "bob").number, "bob")
        assert isinstance(desk(forge).granted(BASE), NotCounted)

    def test_a_merge_into_another_branch_is_none(self, forge: Forge, fleet: Fleet, pull: Pull) -> None:
        fleet.push("dev", {"x": b""}, "alice")
        fleet.close(pull.number, "alice")
        fleet.merge(fleet.open_pull(BRANCH, "alice", base="dev").number, "alice")
        assert desk(forge).granted(BASE) is None

    def test_it_takes_one_request_where_nothing_was_said_and_one_for_each_person(
        self, forge: Forge, fleet: Fleet, pull: Pull
    ) -> None:
        assert spent(forge, lambda: desk(forge).granted(BASE)) == 1
        fleet.merge(pull.number, "alice")
        assert spent(forge, lambda: desk(forge).granted(Digest.of(b"x"))) == 1
        assert spent(forge, lambda: desk(forge).granted(BASE)) == 5  # three of them ask who had a hand in it, and how
        for number in range(2):
            fleet.push("main", {"note": b"%d" % number}, "alice")
        assert spent(forge, lambda: desk(forge).granted(BASE)) == 6  # whether the entry was there all the time


class TestAskingAgain:
    """What was merged and did not count, or was used up, is asked for in a new pull request."""

    @pytest.mark.parametrize("how", ["merge", "squash"])
    @pytest.mark.parametrize("deleted", [True, False])
    def test_the_same_is_asked_for_anew_and_its_old_merge_does_not_answer(
        self, forge: Forge, fleet: Fleet, how: str, *, deleted: bool
    ) -> None:
        fleet.delete_branch_on_merge = deleted
        desk(forge).ask(question())
        fleet.merge(the_pull(fleet).number, ACTIONS, how)
        mine = desk(forge)
        assert isinstance(mine.granted(BASE), NotCounted)
        assert mine.ask(question()).state is AskedState.OPENED
        _, second = fleet.pulls
        assert lock(fleet, BRANCH) == lock(fleet).with_entry(entry(question(), ask=2))
        assert fleet.obstacle(second)[0] == "CLEAN"
        again = desk(forge)
        assert isinstance(again.granted(BASE), NotCounted)
        assert again.ask(question()).state is AskedState.UNCHANGED
        fleet.merge(second.number, "alice", how)
        found = desk(forge).granted(BASE)
        assert isinstance(found, GrantedApproval)
        assert found.approval.how.endswith(f"/{second.number}")

    def test_what_github_merged_and_did_not_count_is_not_merged_by_it_again(self, forge: Forge, fleet: Fleet) -> None:
        fleet.protect("main", 1)
        desk(forge, FULL).ask(question())
        fleet.collaborators["bob"] = "admin"
        fleet.review(the_pull(fleet).number, "bob")
        fleet.collaborators["bob"] = "read"
        fleet.team_permissions.clear()
        settings = replace(FULL, team_reviewers=(), reviewers=())
        mine = desk(forge, settings)
        assert isinstance(mine.granted(BASE), NotCounted)
        assert mine.ask(question()).state is AskedState.OPENED
        assert not fleet.pulls[1].auto_merge

    def test_what_was_merged_just_now_is_left_to_the_next_run(self, forge: Forge, fleet: Fleet) -> None:
        desk(forge).ask(question())
        mine = desk(forge)
        assert mine.granted(BASE) is None
        fleet.merge(the_pull(fleet).number, "alice")
        assert mine.ask(NEWER).state is AskedState.OPENED  # something else than what was merged
        fleet.close(fleet.pulls[1].number, "alice")
        late = desk(forge)
        asked = late.ask(question())
        assert (asked.state, asked.remark) == (
            AskedState.UNCHANGED, "it was merged just now; the next run picks it up"
        )  # fmt: skip

    @pytest.mark.parametrize("how", ["merge", "squash", "rebase"])
    def test_the_next_release_is_asked_for_on_the_same_branch(self, forge: Forge, fleet: Fleet, how: str) -> None:
        desk(forge).ask(question())
        fleet.push(BRANCH, {"NOTES.md": b"theirs\n"}, "alice")
        fleet.merge(the_pull(fleet).number, "alice", how)
        fleet.push("main", {"apps/a.yaml": b"a: 1\n"}, "alice")
        assert desk(forge).ask(NEWER).state is AskedState.OPENED
        assert fleet.obstacle(fleet.pulls[1])[0] == "CLEAN"
        fleet.merge(fleet.pulls[1].number, "alice", how)
        assert lock(fleet) == Lock().with_entry(entry(NEWER))
        assert (fleet.read("NOTES.md"), fleet.read("apps/a.yaml")) == (b"theirs\n", b"a: 1\n")

    def test_commits_after_the_merge_are_kept(self, forge: Forge, fleet: Fleet) -> None:
        first = desk(forge).ask(question())
        fleet.merge(the_pull(fleet).number, "alice")
        fleet.push(BRANCH, {"NOTES.md": b"more\n"}, "alice")
        asked = desk(forge).ask(NEWER)
        assert (asked.state, asked.url) == (AskedState.KEPT, first.url)


class TestWithdrawing:
    def test_what_is_void_is_closed_with_a_comment_and_its_branch_deleted(self, forge: Forge, fleet: Fleet) -> None:
        desk(forge).ask(question())
        desk(forge).withdraw("the channel is at v2.9.4 now; see #1")
        pull = the_pull(fleet)
        assert (pull.state, pull.closed_by) == ("CLOSED", ACTIONS)
        (comment,) = pull.comments
        assert comment.body.startswith(r"Withdrawn: the channel is at v2.9.4 now; see \# 1.")
        assert BRANCH not in fleet.branches

    def test_nothing_there_is_nothing_to_do(self, forge: Forge) -> None:
        assert spent(forge, lambda: desk(forge).withdraw("nothing waits")) == 1
        mine = desk(forge)
        mine.granted(BASE)
        assert spent(forge, lambda: mine.withdraw("nothing waits")) == 0

    def test_what_was_withdrawn_can_be_asked_for_again(self, forge: Forge, fleet: Fleet) -> None:
        desk(forge).ask(question())
        desk(forge).withdraw("a freeze is on")
        assert desk(forge).ask(question()).state is AskedState.OPENED
        assert [pull.state for pull in fleet.pulls] == ["CLOSED", "OPEN"]

    def test_what_people_reopen_after_that_is_asked_for(self, forge: Forge, fleet: Fleet) -> None:
        desk(forge).ask(question())
        head = fleet.branches[BRANCH]
        desk(forge).withdraw("a freeze is on")
        fleet.move(BRANCH, head, "alice")
        fleet.reopen(the_pull(fleet).number, "alice")
        assert desk(forge).ask(question()).state is AskedState.UPDATED
        fleet.close(the_pull(fleet).number, "alice")
        assert desk(forge).ask(question()).state is AskedState.KEPT

    @pytest.mark.parametrize("how", ["merge", "squash"])
    def test_a_branch_that_was_merged_is_cleared_away(self, forge: Forge, fleet: Fleet, how: str) -> None:
        desk(forge).ask(question())
        fleet.push(BRANCH, {"NOTES.md": b"theirs\n"}, "alice")
        fleet.merge(the_pull(fleet).number, "alice", how)
        desk(forge).withdraw("done")
        assert BRANCH not in fleet.branches
        assert the_pull(fleet).comments == []

    def test_a_no_stays_a_no(self, forge: Forge, fleet: Fleet) -> None:
        desk(forge).ask(question())
        fleet.close(the_pull(fleet).number, "alice")
        desk(forge).withdraw("a freeze is on")
        assert desk(forge).ask(question()).state is AskedState.KEPT

    def test_a_branch_with_commits_of_people_stays(self, forge: Forge, fleet: Fleet) -> None:
        desk(forge).ask(question())
        head = fleet.push(BRANCH, {"NOTES.md": b"ours\n"}, "alice")
        desk(forge).withdraw("done")
        assert the_pull(fleet).state == "CLOSED"
        assert fleet.branches[BRANCH] == head

    def test_what_people_ask_for_there_stays_open(self, forge: Forge, fleet: Fleet) -> None:
        desk(forge).ask(question())
        fleet.push(BRANCH, {LOCK_FILE: Lock().with_entry(entry(question("v2.9.0"))).text.encode()}, "alice")
        before = state(forge)
        desk(forge).withdraw("done")
        assert state(forge) == before

    @pytest.mark.parametrize("body", ["", "rewritten by a person"])
    def test_a_page_that_people_rewrote_is_closed_all_the_same(self, forge: Forge, fleet: Fleet, body: str) -> None:
        desk(forge).ask(question())
        the_pull(fleet).body = body
        desk(forge).withdraw("done")
        pull = the_pull(fleet)
        assert (pull.state, len(pull.comments)) == ("CLOSED", 1)
        assert pull.body.startswith(body)


def test_an_enterprise_server_is_asked_in_the_same_way() -> None:
    with Forge(flavour="ghes") as forge:
        fleet = world(forge).repositories[FLEET]
        desk(forge).ask(question())
        desk(forge).ask(NEWER)
        fleet.push("main", {LOCK_FILE: Lock().with_entry(entry(question(channel=OTHER))).text.encode()}, "alice")
        desk(forge).ask(NEWER)
        fleet.merge(the_pull(fleet).number, "alice")
        assert isinstance(desk(forge).granted(BASE), GrantedApproval)
        desk(forge).withdraw("done")
        assert list(fleet.branches) == ["main"]


@pytest.mark.parametrize("flavour", ["api.github.com", "ghes"])
@pytest.mark.parametrize(("kind", "login"), [("actions", ACTIONS), ("app", "acme-flux[bot]"), ("pat", "bob")])
@pytest.mark.parametrize("renewed", [False, True], ids=["never edited", "renewed by a run"])
def test_each_kind_of_token_has_its_requests_approved(flavour: str, kind: str, login: str, *, renewed: bool) -> None:
    token = {"kind": kind, "login": login}
    with Forge(flavour) as forge:
        fleet = world(forge).repositories[FLEET]
        desk(forge, token=token).ask(question())
        pull = the_pull(fleet)
        if renewed:
            fleet.edit(pull.number, "alice", body="Trust me.")
            desk(forge, token=token).ask(question())
        assert (pull.author, pull.editor) == (login, login if renewed else None)
        fleet.merge(pull.number, "alice")
        assert isinstance(desk(forge, token=token).granted(BASE), GrantedApproval)


def test_the_owner_of_the_token_that_asks_cannot_approve(forge: Forge, fleet: Fleet) -> None:
    token = {"kind": "pat", "login": "bob"}
    desk(forge, token=token).ask(question())
    fleet.merge(the_pull(fleet).number, "bob")
    assert "with 0 of 1 people who count" in why_not(desk(forge, token=token).granted(BASE))


class TestCrashes:
    """A run that dies at any request, done or not done, and the next one: the same as without a death."""

    @pytest.mark.parametrize("settings", [PLAIN, FULL, ApprovalConfig(reviewers=("bob",))])
    def test_opening(self, settings: ApprovalConfig) -> None:
        def make() -> Forge:
            forge = world()
            forge.repositories[FLEET].protect("main", 1)
            return forge

        def act(forge: Forge) -> None:
            mine = desk(forge, settings)
            mine.granted(BASE)
            mine.ask(question())

        assert die_everywhere(make, act, state) == {PLAIN: 4, FULL: 7}.get(settings, 6)

    def test_superseding(self) -> None:
        assert die_everywhere(asking(question(), FULL), lambda forge: desk(forge, FULL).ask(NEWER), state) == 5

    def test_writing_a_description_again(self) -> None:
        def make() -> Forge:
            forge = asking(question())()
            pull = the_pull(forge.repositories[FLEET])
            for body in ("Trust me.", pull.body):
                forge.repositories[FLEET].edit(pull.number, "bob", body=body)
            return forge

        def seen(forge: Forge) -> object:
            return state(forge), the_pull(forge.repositories[FLEET]).editor

        assert die_everywhere(make, lambda forge: desk(forge).ask(question()), seen) == 3

    def test_superseding_what_was_not_finished(self) -> None:
        def make() -> Forge:
            forge = asking(question(), FULL)()
            pull = the_pull(forge.repositories[FLEET])
            pull.body = pull.body.replace("flux-manifests asked", "flux-manifests opened")
            pull.asked, pull.asked_teams, pull.labels, pull.assignees, pull.auto_merge = [], [], [], [], None
            return forge

        die_everywhere(make, lambda forge: desk(forge, FULL).ask(NEWER), state)

    def test_asking_again_after_a_merge(self) -> None:
        def make() -> Forge:
            forge = asking(question())()
            fleet = forge.repositories[FLEET]
            fleet.merge(the_pull(fleet).number, ACTIONS, "squash")
            return forge

        def act(forge: Forge) -> None:
            mine = desk(forge)
            assert isinstance(mine.granted(BASE), NotCounted)
            mine.ask(question())

        die_everywhere(make, act, state)

    def test_putting_the_branch_on_top_of_a_neighbour(self) -> None:
        def make() -> Forge:
            forge = asking(question())()
            edge = Lock().with_entry(entry(question(channel=OTHER)))
            forge.repositories[FLEET].push("main", {LOCK_FILE: edge.text.encode()}, "alice")
            return forge

        die_everywhere(make, lambda forge: desk(forge).ask(question()), state)

    def test_withdrawing(self) -> None:
        assert die_everywhere(asking(question(), FULL), lambda forge: desk(forge).withdraw("void"), state) == 5


def asking(asked: Question, settings: ApprovalConfig = PLAIN) -> Callable[[], Forge]:
    """Return what makes a world in which something was asked for already."""

    def make() -> Forge:
        forge = world()
        if settings.auto_merge:
            forge.repositories[FLEET].protect("main", 1)
        with forge:
            desk(forge, settings).ask(asked)
        forge.requests.clear()
        return forge

    return make
