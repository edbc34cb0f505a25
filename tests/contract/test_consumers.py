"""Repositories that pin an artifact, on the double of GitHub: one pull request each, found again, and people first."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ci_automation.artifact.reference import Digest, Reference
from ci_automation.config.model import ConsumerConfig
from ci_automation.consumers.model import ConsumersReport, MentionKind, Published, State
from ci_automation.flows import consumers as flow
from ci_automation.flows.consumers import update_consumers
from ci_automation.flux.version import Version
from ci_automation.github.client import GitHub
from ci_automation.github.commits import branch_name
from ci_automation.github.waiting import GitHubPatience
from ci_automation.net.waiting import Clock
from tests.fakes.forge.faults import LOST, RESET, Fault, after, nth
from tests.fakes.forge.forge import Forge
from tests.fakes.forge.objects import Leaf
from tests.fakes.forge.people import ACTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fakes.forge.repository import Repository
    from tests.fakes.forge.state import Pull

URL = "oci://ghcr.io/acme/flux-manifests"
OLD = Published("production", Reference.parse(f"{URL}:production"), Version.parse("v2.9.2"), Digest("a" * 64))
NEW = replace(OLD, version=Version.parse("v2.9.3"), digest=Digest("b" * 64))
NEWER = replace(OLD, version=Version.parse("v2.9.4"), digest=Digest("c" * 64))
BRANCH = "flux-manifests/consumer-production"
RIGHTS = {"contents": "write", "pull_requests": "write", "metadata": "read"}
WRITES = ("POST", "PATCH", "PUT", "DELETE")


def noon() -> datetime:  # it never is another time, so that commits have the same names in each run
    return datetime(2026, 11, 21, 12, tzinfo=UTC)


def source(published: Published, interval: str = "10m") -> bytes:
    return f"""\
apiVersion: source.toolkit.fluxcd.io/v1
kind: OCIRepository
metadata: {{name: flux, namespace: flux-system}}
spec:
  interval: {interval}
  url: {URL}
  ref:
    digest: {published.digest} # pinned
    tag: '{published.tag}'
""".encode()


def setter(published: Published) -> bytes:
    return f'\ufefflocals:\r\n  flux: "{published.digest}" # {{"$flux-manifests": "production:digest"}}'.encode()


def follower(ref: str) -> bytes:
    return source(OLD).partition(b"  ref:")[0] + f"  ref: {{{ref}}}\n".encode()


FILES = {"clusters/east/flux.yaml": source(OLD), "apps/values.yml": setter(OLD), "notes.txt": source(OLD)}
DONE = {"clusters/east/flux.yaml": source(NEW), "apps/values.yml": setter(NEW), "notes.txt": source(OLD)}


@pytest.fixture
def forge() -> Iterator[Forge]:
    with Forge(now=noon) as running:
        running.user("ann")
        yield running


@pytest.fixture
def east(forge: Forge) -> Repository:
    made = forge.repository("acme/east", FILES)
    made.collaborators["ann"] = "write"
    return made


def connect(forge: Forge, name: str, attempts: int = 4, rights: dict[str, str] | None = None) -> GitHub:
    """Return a client with a token for one repository, as a job's."""
    token = forge.token("app", name, RIGHTS if rights is None else rights)
    return GitHub(
        token, forge.url, patience=GitHubPatience(attempts=attempts, pace=0, clock=Clock(sleep=lambda _: None))
    )


def run(forge: Forge, published: Published, *names: str, attempts: int = 4) -> ConsumersReport:
    repositories = [ConsumerConfig(name) for name in names or ("acme/east",)]
    return update_consumers(published, repositories, lambda name: connect(forge, name, attempts))


def state(report: ConsumersReport) -> State:
    (outcome,) = report.repositories
    return outcome.state


def files(repository: Repository, ref: str) -> dict[str, bytes]:
    """Return the files at a ref, but for the README."""
    commit = repository.resolve(ref)
    assert commit is not None
    found = {path: repository.objects.read(commit, path) for path in repository.objects.files_at(commit)}
    return {path: content for path, content in found.items() if path != "README.md" and content is not None}


def opened(repository: Repository) -> Pull:
    """Return the one pull request that is open."""
    (pull,) = [pull for pull in repository.pulls if pull.state == "OPEN"]
    return pull


def test_all_pins_of_a_repository_move_in_one_signed_commit_of_one_pull_request(forge: Forge, east: Repository) -> None:
    report = run(forge, NEW)
    (outcome,) = report.repositories
    pull = opened(east)
    assert (outcome.state, outcome.url, report.exit_code) == (State.OPENED, f"{forge.host}/acme/east/pull/1", 0)
    assert {file.path: len(file.findings) for file in outcome.files} == {
        "apps/values.yml": 1,
        "clusters/east/flux.yaml": 2,
    }
    assert (outcome.count(MentionKind.EDITED), outcome.count(MentionKind.LEFT)) == (3, 0)
    assert (pull.branch, pull.base, pull.title, pull.draft) == (
        BRANCH,
        "main",
        "production: Flux v2.9.3 (bbbbbbbbbbbb)",
        False,
    )
    assert str(NEW.digest) in pull.body
    (commit,) = east.commits(BRANCH)
    assert commit.signed
    assert files(east, BRANCH) == DONE
    assert files(east, "main") == FILES


def test_a_second_run_finds_it_all_and_writes_nothing(forge: Forge, east: Repository) -> None:
    run(forge, NEW)
    forge.requests.clear()
    head = east.branches[BRANCH]
    assert state(run(forge, NEW)) is State.UNCHANGED
    assert [request.method for request in forge.requests if "graphql" not in request.path] == ["GET"]  # the tree
    assert len(forge.requests) == 3
    assert east.branches[BRANCH] == head
    assert len(east.pulls) == 1


def test_the_next_publication_updates_the_same_pull_request(forge: Forge, east: Repository) -> None:
    run(forge, NEW)
    east.push("main", {"clusters/east/flux.yaml": source(OLD, "1h"), "other": b"x"}, "ann")
    assert state(run(forge, NEWER)) is State.UPDATED
    pull = opened(east)
    assert (pull.number, pull.title) == (1, "production: Flux v2.9.4 (cccccccccccc)")
    assert str(NEWER.digest) in pull.body
    assert str(NEW.digest) not in pull.body
    east.merge(pull.number, "ann")
    expected = {**DONE, "clusters/east/flux.yaml": source(NEWER, "1h"), "apps/values.yml": setter(NEWER), "other": b"x"}
    assert files(east, "main") == expected


def test_after_the_merge_there_is_nothing_to_do_until_the_next_publication(forge: Forge, east: Repository) -> None:
    for number, (published, how) in enumerate(((NEW, "squash"), (NEWER, "merge"), (NEW, "merge")), 1):
        assert state(run(forge, published)) is State.OPENED
        assert opened(east).number == number
        east.merge(number, "ann", how)
        assert state(run(forge, published)) is State.CURRENT
        assert files(east, "main")["clusters/east/flux.yaml"] == source(published)


def test_who_closes_the_pull_request_says_no_to_that_digest_alone(forge: Forge, east: Repository) -> None:
    run(forge, NEW)
    east.close(1, "ann")
    head = east.branches[BRANCH]
    (outcome,) = run(forge, NEW).repositories
    assert (outcome.state, outcome.url) == (State.DECLINED, f"{forge.host}/acme/east/pull/1")
    east.push("main", {"clusters/west/flux.yaml": source(OLD)}, "ann")
    assert state(run(forge, NEW)) is State.DECLINED
    assert east.branches[BRANCH] == head
    assert state(run(forge, NEWER)) is State.OPENED
    assert opened(east).number == 2
    east.close(2, "ann")
    east.reopen(2, "ann")
    assert state(run(forge, NEWER)) is State.UNCHANGED


def test_a_no_is_taken_back_by_deleting_the_branch(forge: Forge, east: Repository) -> None:
    run(forge, NEW)
    east.close(1, "ann")
    (outcome,) = run(forge, NEW).repositories
    assert outcome.remark == f"a person closed it; to have it offered again, reopen it or delete the branch {BRANCH}"
    east.delete_branch(BRANCH, "ann")
    assert state(run(forge, NEW)) is State.OPENED
    assert opened(east).number == 2


def test_what_people_commit_to_the_branch_is_never_overwritten(forge: Forge, east: Repository) -> None:
    run(forge, NEW)
    head = east.push(BRANCH, {"more.txt": b"more"}, "ann")
    assert state(run(forge, NEW)) is State.UNCHANGED
    (outcome,) = run(forge, NEWER).repositories
    assert (outcome.state, outcome.url) == (State.KEPT, f"{forge.host}/acme/east/pull/1")
    assert outcome.remark == f"{BRANCH} has commits of ann; delete it to start again"
    assert east.branches[BRANCH] == head
    assert opened(east).title == "production: Flux v2.9.3 (bbbbbbbbbbbb)"
    east.close(1, "ann")
    assert run(forge, NEWER).repositories[0].url == ""
    assert len(east.pulls) == 1


def test_commits_of_people_that_were_merged_hold_up_nothing(forge: Forge, east: Repository) -> None:
    run(forge, NEW)
    east.push(BRANCH, {"more.txt": b"more"}, "ann")
    east.merge(1, "ann", "squash")
    assert state(run(forge, NEWER)) is State.OPENED
    east.merge(2, "ann", "squash")
    assert files(east, "main")["clusters/east/flux.yaml"] == source(NEWER)
    assert files(east, "main")["more.txt"] == b"more"


def test_a_commit_of_ours_that_somebody_amended_is_theirs(forge: Forge, east: Repository) -> None:
    run(forge, NEW)
    (ours,) = east.commits(BRANCH)
    tree = east.objects.changed(ours.tree, {"more.txt": b"more"})
    head = east.objects.commit(tree, ours.parents, ours.author, east.signature("ann"), ours.message)
    east.move(BRANCH, head, "ann", force=True)
    assert state(run(forge, NEW)) is State.UNCHANGED
    (outcome,) = run(forge, NEWER).repositories
    assert (outcome.state, outcome.remark) == (
        State.KEPT,
        f"{BRANCH} has commits of an unknown account; delete it to start again",
    )
    assert east.branches[BRANCH] == head


def test_a_person_who_shares_our_account_is_a_person(forge: Forge, east: Repository) -> None:
    run(forge, NEW)
    head = east.push(BRANCH, {"more.txt": b"more"}, ACTIONS)
    assert state(run(forge, NEWER)) is State.KEPT
    assert east.branches[BRANCH] == head


def test_a_branch_of_that_name_that_people_made_is_left_alone(forge: Forge, east: Repository) -> None:
    head = east.push(BRANCH, {"mine": b"mine"}, "ann")
    (outcome,) = run(forge, NEW).repositories
    assert (outcome.state, outcome.url) == (State.KEPT, "")
    assert (east.branches[BRANCH], east.pulls) == (head, [])


def test_words_that_people_change_stay_until_the_next_publication(forge: Forge, east: Repository) -> None:
    run(forge, NEW)
    east.edit(1, "ann", title="Mine", body=f"- [x] looked at it\n\n{opened(east).body}")
    assert state(run(forge, NEW)) is State.UNCHANGED
    assert opened(east).title == "Mine"
    assert state(run(forge, NEWER)) is State.UPDATED
    assert opened(east).title == "production: Flux v2.9.4 (cccccccccccc)"
    east.edit(1, "ann", title="Mine", body="All mine.")
    assert state(run(forge, NEW)) is State.UPDATED  # the branch
    assert (opened(east).title, opened(east).body) == ("Mine", "All mine.")


def test_a_pull_request_is_withdrawn_once_people_did_it_by_hand(forge: Forge, east: Repository) -> None:
    run(forge, NEW)
    east.push("main", {path: DONE[path] for path in ("clusters/east/flux.yaml", "apps/values.yml")}, "ann")
    assert state(run(forge, NEW)) is State.WITHDRAWN
    pull = east.pull(1)
    assert pull.state == "CLOSED"
    assert pull.body.startswith("**Closed: nothing is left to be changed.**\n\n")
    assert state(run(forge, NEW)) is State.CURRENT
    east.push("main", FILES, "ann")
    assert state(run(forge, NEW)) is State.OPENED  # nobody said no


@pytest.mark.parametrize("touched", ["branch", "text"])
def test_a_pull_request_that_people_changed_is_not_withdrawn(forge: Forge, east: Repository, touched: str) -> None:
    run(forge, NEW)
    if touched == "branch":
        east.push(BRANCH, {"more.txt": b"more"}, "ann")
    else:
        east.edit(1, "ann", body="All mine.")
    east.push("main", {path: DONE[path] for path in ("clusters/east/flux.yaml", "apps/values.yml")}, "ann")
    (outcome,) = run(forge, NEW).repositories
    assert outcome.state is State.KEPT
    assert outcome.remark == "nothing is left to be changed, but a person changed the pull request; close it yourself"
    assert opened(east).number == 1


def test_a_change_below_the_same_lines_is_no_conflict(forge: Forge, east: Repository) -> None:
    run(forge, NEWER)
    east.push("main", {"clusters/east/flux.yaml": source(NEW)}, "ann")  # by hand, and not the newest
    assert east.obstacle(opened(east))[0] == "DIRTY"
    assert state(run(forge, NEWER)) is State.UPDATED
    assert east.obstacle(opened(east))[0] == "CLEAN"
    east.merge(1, "ann")
    assert files(east, "main")["clusters/east/flux.yaml"] == source(NEWER)


def test_what_needs_no_pull_request_is_reported(forge: Forge) -> None:
    forge.repository(
        "acme/east",
        {
            "a.yaml": follower("tag: production"),
            "b.yaml": follower("semver: 2.x"),
            "c.yaml": follower("tag: staging"),
            "d.yaml": source(NEW),
            "e.yaml": source(OLD).replace(b"digest: ", b"digest: &pin "),
            "f.yaml": b"nothing: here\n",
        },
    )
    (outcome,) = run(forge, NEW).repositories
    assert (outcome.state, outcome.url) == (State.CURRENT, "")
    assert {kind: outcome.count(kind) for kind in MentionKind} == {
        MentionKind.EDITED: 0,
        MentionKind.CURRENT: 2,
        MentionKind.FOLLOWS: 1,
        MentionKind.SEMVER: 1,
        MentionKind.OTHER: 1,
        MentionKind.LEFT: 1,
    }
    assert not [request for request in forge.requests if request.method in WRITES and "graphql" not in request.path]


def test_only_below_the_paths_and_each_repository_once(forge: Forge, east: Repository) -> None:
    consumers = [ConsumerConfig("acme/east", ("clusters/east",)), ConsumerConfig("Acme/East", ("clusters/west/",))]
    report = update_consumers(NEW, consumers, lambda name: connect(forge, name))
    assert [outcome.repository for outcome in report.repositories] == ["acme/east"]
    assert files(east, BRANCH) == {**FILES, "clusters/east/flux.yaml": source(NEW)}
    report = update_consumers(NEWER, [*consumers, ConsumerConfig("acme/east")], lambda name: connect(forge, name))
    assert files(east, BRANCH) == {**FILES, "clusters/east/flux.yaml": source(NEWER), "apps/values.yml": setter(NEWER)}


def test_files_are_read_by_the_fifty_and_each_content_once(forge: Forge) -> None:
    contents = {f"clusters/{number}.yaml": b"%d" % number for number in range(120)}
    pinned = {f"clusters/{name}/flux.yaml": source(OLD) for name in "abc"}
    east = forge.repository("acme/east", contents | pinned)
    run(forge, NEW)
    assert files(east, BRANCH) == contents | dict.fromkeys(pinned, source(NEW))
    assert len(forge.requests) == 8  # snapshot, tree, 3 for the contents, branch, commit, pull request


def test_what_is_no_text_or_a_long_one_is_read_by_itself(forge: Forge) -> None:
    forge.largest_text = 200
    contents = {"latin.yaml": f"# {URL} ".encode() + b"\xff", "binary.yaml": b"\0", "short.yaml": b"a: b"}
    east = forge.repository("acme/east", contents | {"flux.yaml": source(OLD)})
    (outcome,) = run(forge, NEW).repositories
    assert [(file.path, *[finding.kind for finding in file.findings]) for file in outcome.files] == [
        ("flux.yaml", MentionKind.EDITED, MentionKind.EDITED),
        ("latin.yaml", MentionKind.LEFT),
    ]
    assert files(east, BRANCH)["flux.yaml"] == source(NEW)
    read = [request for request in forge.requests if "/git/blobs/" in request.path and request.method == "GET"]
    assert len(read) == 3


def test_links_are_not_followed_and_not_written(forge: Forge, east: Repository) -> None:
    objects, commit = east.objects, east.objects.commits[east.head]
    link = Leaf("120000", objects.blob(source(OLD)))
    tree = objects.tree(objects.files(commit.tree) | {"link.yaml": link})
    east.move("main", objects.commit(tree, [commit.sha], commit.author, commit.author, "Link"), "acme")
    (outcome,) = run(forge, NEW).repositories
    assert [file.path for file in outcome.files] == ["apps/values.yml", "clusters/east/flux.yaml"]
    assert objects.files_at(east.branches[BRANCH])["link.yaml"] == link


def test_workflows_are_reported_and_hold_up_nothing(forge: Forge, east: Repository) -> None:
    workflow = f'on: push\nenv:\n  DIGEST: {OLD.digest} # {{"$flux-manifests": "production:digest"}}\n'.encode()
    same = {".github/workflows/a.yaml": workflow, "a.yaml": workflow}
    east.push("main", same, "ann")
    (outcome,) = run(forge, NEW).repositories
    assert (outcome.state, outcome.count(MentionKind.LEFT)) == (State.OPENED, 1)
    assert files(east, BRANCH)[".github/workflows/a.yaml"] == workflow
    assert str(NEW.digest).encode() in files(east, BRANCH)["a.yaml"]
    assert "this run never changes workflows; change it yourself" in opened(east).body


def test_a_file_that_no_answer_can_hold_is_reported(
    forge: Forge, east: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    forge.largest_text = 100
    monkeypatch.setattr("ci_automation.github.client._MAX_ANSWER_BYTES", 20_000)
    east.push("main", {"huge.yaml": b"#" * 40_000}, "ann")
    (outcome,) = run(forge, NEW).repositories
    assert outcome.state is State.OPENED
    (huge,) = [file for file in outcome.files if file.path == "huge.yaml"]
    assert [finding.reason for finding in huge.findings] == ["it is larger than 1 MiB"]


def test_a_repository_that_goes_away_meanwhile_is_a_failure(forge: Forge, east: Repository) -> None:
    forge.faults.append(nth(2, Fault(200, {"data": {"repository": None}}), "POST", "graphql"))
    (outcome,) = run(forge, NEW).repositories
    assert outcome.state is State.FAILED
    assert "acme/east" in outcome.remark
    assert east.pulls == []


def test_too_many_files_are_an_error_that_says_what_to_do(
    forge: Forge, east: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow, "MAX_FILES", 1)
    report = run(forge, NEW)
    assert state(report) is State.FAILED
    assert "has 2 YAML files" in report.repositories[0].remark
    assert "`paths`" in report.repositories[0].remark
    assert report.exit_code == 2
    assert east.pulls == []


def test_one_failure_does_not_stop_the_others(forge: Forge) -> None:
    names = ("acme/closed", "acme/gone", "acme/readonly", "acme/fine")
    made = {name: forge.repository(name, FILES) for name in names if name != "acme/gone"}
    made["acme/closed"].can_create_pulls = False
    rights = {"acme/readonly": {"contents": "read", "pull_requests": "read", "metadata": "read"}}
    consumers = [ConsumerConfig(name) for name in names]
    report = update_consumers(NEW, consumers, lambda name: connect(forge, name, rights=rights.get(name)))
    assert [outcome.state for outcome in report.repositories] == [State.FAILED] * 3 + [State.OPENED]
    assert all(outcome.remark for outcome in report.repositories[:3])
    assert "Allow GitHub Actions to create" in report.repositories[0].remark
    assert "contents: write" in report.repositories[2].remark
    assert report.exit_code == 21
    assert opened(made["acme/fine"]).number == 1


def test_what_a_rate_limit_leaves_is_not_reached_and_done_by_the_next_run(forge: Forge) -> None:
    names = [f"acme/r{number}" for number in range(4)]
    made = [forge.repository(name, FILES) for name in names]
    limited = Fault(429, {"message": "rate limit"}, {"Retry-After": "3600"})
    forge.faults.append(after(8, limited))
    report = run(forge, NEW, *names)
    states = [outcome.state for outcome in report.repositories]
    assert states == [State.OPENED, *[State.NOT_REACHED] * 3]
    assert report.repositories[1].remark.endswith("run again after that")
    assert report.exit_code == 21
    forge.faults.clear()
    assert [outcome.state for outcome in run(forge, NEW, *names).repositories] == [State.UNCHANGED, *[State.OPENED] * 3]
    assert [len(each.pulls) for each in made] == [1] * 4


def picture(repository: Repository) -> object:
    """Return all that should be the same, however often a run broke off."""
    pulls = [(pull.number, pull.state, pull.title, pull.body, pull.branch) for pull in repository.pulls]
    messages = [commit.message for commit in repository.commits(BRANCH)] if BRANCH in repository.branches else []
    return pulls, files(repository, BRANCH), messages, [len(pull.comments) for pull in repository.pulls]


def story(forge: Forge, act: str) -> tuple[Repository, Published]:
    """Return a repository where the next run has something to do, and what was published."""
    east = forge.repository("acme/east", FILES)
    east.collaborators["ann"] = "write"
    if act == "open":
        return east, NEW
    run(forge, NEW)
    if act == "update":
        east.push("main", {"other": b"x"}, "ann")
        return east, NEWER
    if act == "merged":
        east.merge(1, "ann", "squash")
        return east, NEWER
    east.push("main", {path: DONE[path] for path in ("clusters/east/flux.yaml", "apps/values.yml")}, "ann")
    return east, NEW


@pytest.mark.parametrize("fault", [pytest.param(LOST, id="done, unanswered"), pytest.param(RESET, id="not done")])
@pytest.mark.parametrize("act", ["open", "update", "merged", "withdraw"])
def test_a_crash_after_any_request_ends_in_the_same_state(act: str, fault: Fault) -> None:
    with Forge(now=noon) as forge:
        forge.user("ann")
        east, published = story(forge, act)
        forge.requests.clear()
        run(forge, published)
        expected, requests = picture(east), len(forge.requests)
    assert requests >= 4
    for number in range(1, requests + 1):
        with Forge(now=noon) as forge:
            forge.user("ann")
            east, published = story(forge, act)
            forge.faults.append(nth(number, fault))
            broken = run(forge, published, attempts=1)
            assert state(broken) is State.FAILED, number
            assert broken.exit_code == 21
            forge.faults.clear()
            again = run(forge, published)
            assert state(again) is not State.FAILED, number
            assert picture(east) == expected, number
            assert len([pull for pull in east.pulls if pull.state == "OPEN"]) == (act != "withdraw")


@pytest.mark.parametrize(
    ("name", "branch"),
    [
        pytest.param("production", BRANCH, id="a name"),
        pytest.param("Prod_1.2", "flux-manifests/consumer-Prod_1.2", id="all that git takes"),
        pytest.param("a..b", "flux-manifests/consumer-{8}-a-b", id="two dots"),
        pytest.param("a.lock", "flux-manifests/consumer-{8}-a-lock", id="the end of git's own files"),
        pytest.param("a.", "flux-manifests/consumer-{8}-a", id="a dot at the end"),
    ],
)
def test_every_name_of_an_artifact_makes_a_branch_of_its_own(name: str, branch: str) -> None:
    assert re.fullmatch(re.escape(branch).replace(r"\{8\}", "[0-9a-f]{8}"), branch_name(name, "consumer-"))
    names = ("a..b", "a--b", "a-b", "a.lock", "a-lock", "a.", "a-")
    assert branch_name(name, "consumer-") not in {branch_name(other, "consumer-") for other in names if other != name}
    assert branch_name(name, "consumer-") != branch_name(f"consumer-{name}")  # where approvals are asked for


def test_a_pull_request_of_a_fork_is_nobodys_no(forge: Forge, east: Repository) -> None:
    forge.user("eve")
    fork = forge.fork("acme/east", "eve")
    mark = f"<!-- flux-manifests {NEW.digest} 00 00 -->"
    fork.push(BRANCH, {"evil": b"x"}, "eve")
    east.open_pull(f"eve:{BRANCH}", "eve", "Evil", mark)
    east.close(1, "eve")
    east.open_pull(f"eve:{BRANCH}", "eve", "Evil", mark)
    assert state(run(forge, NEW)) is State.OPENED
    assert east.pull(3).author != "eve"
    assert (east.pull(2).title, east.pull(2).state) == ("Evil", "OPEN")


def test_an_enterprise_server_does() -> None:
    with Forge("ghes", now=noon) as forge:
        east = forge.repository("acme/east", FILES)
        assert state(run(forge, NEW)) is State.OPENED
        assert state(run(forge, NEW)) is State.UNCHANGED
        assert state(run(forge, NEWER)) is State.UPDATED
        assert opened(east).title == "production: Flux v2.9.4 (cccccccccccc)"


def test_a_token_of_a_job_does(forge: Forge, east: Repository) -> None:
    token = forge.token("actions", "acme/east", RIGHTS)
    report = update_consumers(NEW, [ConsumerConfig("acme/east")], lambda _: GitHub(token, forge.url))
    assert state(report) is State.OPENED
    assert opened(east).author == ACTIONS
