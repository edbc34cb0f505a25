"""What somebody tries who may write to a repository, or to nothing: no yes counts for what its giver has not seen."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ci_automation.approval.lock import LOCK_FILE
from ci_automation.approval.port import AskedState, GrantedApproval, NotCounted
from ci_automation.artifact.reference import Reference
from ci_automation.config.document import InvalidConfig
from ci_automation.config.load import parse_config
from ci_automation.errors import Error
from ci_automation.github.client import GitHub
from ci_automation.github.waiting import GitHubPatience
from ci_automation.net.waiting import Clock
from tests.contract.approval_doubles import SOME, question
from tests.contract.pull_requests import BASE, BRANCH, FULL, NEWER, desk, entry, lock, the_pull, why_not, world
from tests.fakes.forge.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fakes.forge import Forge
    from tests.fakes.forge import Repository as Fleet


@pytest.fixture
def forge() -> Iterator[Forge]:
    with world() as running:
        yield running


@pytest.fixture
def fleet(forge: Forge) -> Fleet:
    return forge.repositories["acme/fleet"]


class TestMergingLater:
    """GitHub keeps what a person told it to merge, and merges in that person's name whatever the branch has by then."""

    def test_does_not_approve_what_took_the_place_of_what_was_seen(self, forge: Forge, fleet: Fleet) -> None:
        fleet.protect("main", 1)
        desk(forge).ask(question())
        fleet.enable_auto_merge(the_pull(fleet).number, "alice")
        assert desk(forge).ask(NEWER).state is AskedState.UPDATED
        fleet.review(the_pull(fleet).number, "bob")
        assert the_pull(fleet).state == "OPEN"
        assert desk(forge).granted(BASE) is None

    def test_is_not_taken_back_where_nothing_else_is_asked_for(self, forge: Forge, fleet: Fleet) -> None:
        fleet.protect("main", 1)
        desk(forge).ask(question())
        fleet.enable_auto_merge(the_pull(fleet).number, "alice")
        desk(forge).ask(replace(question(), notes=SOME))
        assert the_pull(fleet).auto_merge

    def test_goes_on_where_it_is_configured_and_reviews_of_the_last_commit_count(
        self, forge: Forge, fleet: Fleet
    ) -> None:
        fleet.protect("main", 1)
        desk(forge, FULL).ask(question())
        fleet.review(the_pull(fleet).number, "eve")
        desk(forge, FULL).ask(NEWER)
        assert the_pull(fleet).auto_merge
        fleet.review(the_pull(fleet).number, "bob")
        assert the_pull(fleet).state == "MERGED"
        assert isinstance(desk(forge, FULL).granted(BASE), GrantedApproval)


class TestTakingAYesBack:
    """A merge that was undone is asked for anew, and then the new request alone can be agreed to."""

    @pytest.fixture
    def undone(self, forge: Forge, fleet: Fleet) -> bytes:
        """Return the lock file that was merged, and then reverted by a person."""
        desk(forge).ask(question())
        fleet.merge(the_pull(fleet).number, "alice")
        text = fleet.read(LOCK_FILE) or b""
        fleet.push("main", {LOCK_FILE: None}, "bob", "Revert")
        assert desk(forge).granted(BASE) is None
        return text

    def test_is_not_undone_by_a_push_of_the_same_file(self, forge: Forge, fleet: Fleet, undone: bytes) -> None:
        desk(forge).ask(question())
        fleet.push("main", {LOCK_FILE: undone}, "bob", "Once more")
        mine = desk(forge)
        assert "merged before pull request 2 was opened, which asks again" in why_not(mine.granted(BASE))
        mine.ask(question())
        assert lock(fleet, BRANCH).entries == (entry(question(), ask=2),)

    @pytest.mark.parametrize("how", ["a push", "a request of another branch"])
    def test_is_not_undone_before_the_next_run_either(
        self, forge: Forge, fleet: Fleet, undone: bytes, how: str
    ) -> None:
        fleet.push("main" if how == "a push" else "other", {LOCK_FILE: undone}, "bob", "Once more")
        if how != "a push":
            fleet.merge(fleet.open_pull("other", "bob").number, "alice")
        fleet.push("main", {"note": b"1"}, "alice")
        mine = desk(forge)
        assert "the default branch lost its entry since" in why_not(mine.granted(BASE))
        mine.ask(question())
        assert lock(fleet, BRANCH).entries == (entry(question(), ask=2),)

    def test_is_not_undone_so_long_ago_that_no_run_reads_it(self, forge: Forge, fleet: Fleet) -> None:
        desk(forge).ask(question())
        fleet.review(the_pull(fleet).number, "bob")
        fleet.merge(the_pull(fleet).number, "alice")
        text, now = fleet.read(LOCK_FILE), forge.now() + timedelta(minutes=1)
        forge.now = lambda: now
        fleet.push("main", {LOCK_FILE: None}, "bob", "Revert")
        fleet.push("main", {LOCK_FILE: text}, "bob", "Once more")
        for number in range(200):
            fleet.push("main", {"note": b"%d" % number}, "alice")
        run = desk(forge)
        assert "was merged before what a run reads of GitHub's log" in why_not(run.granted(BASE))
        assert run.ask(question()).state is AskedState.OPENED
        fleet.merge(2, "alice")
        assert isinstance(desk(forge).granted(BASE), GrantedApproval)

    @pytest.mark.usefixtures("undone")
    def test_does_not_keep_the_new_request_from_being_merged(self, forge: Forge, fleet: Fleet) -> None:
        desk(forge).ask(question())
        fleet.merge(2, "bob")
        found = desk(forge).granted(BASE)
        assert isinstance(found, GrantedApproval)
        assert found.approval.by == "bob"


def test_an_entry_of_the_same_digests_beside_the_one_that_the_page_shows(forge: Forge, fleet: Fleet) -> None:
    """The artifact moves to another address later, where the channel has the same digests."""
    later = Reference.parse("oci://registry.example/acme/flux-manifests:production")
    desk(forge).ask(question())
    text = lock(fleet, BRANCH).with_entry(entry(question(channel=later))).text
    fleet.push(BRANCH, {LOCK_FILE: text.encode()}, "bob")
    fleet.merge(the_pull(fleet).number, "alice")
    assert isinstance(desk(forge).granted(BASE), GrantedApproval)
    assert isinstance(desk(forge, channel=later).granted(BASE), NotCounted)


@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 409, 422, 451, 500])
def test_a_token_that_the_server_repeats_is_repeated_to_nobody(forge: Forge, status: int) -> None:
    token = forge.token("actions", "acme/fleet", {"contents": "write"})
    words = {"message": f"no {token}", "errors": [{"message": f"no {token}", "type": "FORBIDDEN"}]}
    fault = Fault(status, words, {"x-accepted-github-permissions": f"contents=write; {token}", "location": token})
    forge.faults.append(lambda *_: fault)
    github = GitHub(token, forge.url, patience=GitHubPatience(attempts=1, clock=Clock(sleep=lambda _: None)))
    asks = (
        lambda: github.graphql("query { viewer { login } }", {}),
        lambda: github.mutate("mutation { x }", {}),
        lambda: github.get("/repos/acme/fleet"),
        lambda: github.send("POST", "/repos/acme/fleet/pulls", {}),
        lambda: github.send("PATCH", "/repos/acme/fleet/pulls/1", {}),
        lambda: github.asset("acme/fleet", 1, 1000),
    )
    said = []
    for ask in asks:
        try:
            ask()
        except Error as error:
            said.append(f"{error} {error.hint}")
    assert said
    assert not any(token in text for text in said)


def test_two_names_that_one_environment_has_are_refused() -> None:
    text = "version: 1\nartifacts:\n- {name: prod, url: 'layout:a:p'}\n- {name: Prod, url: 'layout:b:p'}\n"
    with pytest.raises(InvalidConfig, match=r"artifacts\[1\]\.name: is the same as that of artifacts\[0\]"):
        parse_config(text.encode(), "flux-manifests.yaml")
