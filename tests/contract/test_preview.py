"""Previews of pull requests, on a double of GitHub that gives the job a token for reading and for nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ci_automation.artifact.tree import Tree
from ci_automation.demo.samples import write_samples
from ci_automation.flows.preview import matching
from ci_automation.flux.bundle import ManifestsBundle
from ci_automation.flux.options import Options
from ci_automation.flux.render import render
from ci_automation.flux.version import Version
from ci_automation.report.preview import MAX_COMMENT
from tests.contract.previewed import (
    FOLDERS,
    KUSTOMIZATION,
    NAME,
    PATTERN,
    PRODUCTION,
    READS,
    STAGING,
    event,
    reading,
    sync,
)
from tests.contract.test_action_hostile import HOSTILE, LINE, acting
from tests.fakes.forge import Forge
from tests.fakes.runner import Runner
from tests.fakes.world import sample

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.fakes.forge.repository import Repository
    from tests.fakes.runner import Ran

MARK = "<!-- flux-manifests preview -->"
OLD, PATCH, MINOR = "v2.98.5", "v2.98.8", "v2.99.4"


def components(tag: str, options: Options | None = None) -> bytes:
    bundle = ManifestsBundle.of(Tree(sample(tag).bundle.files))
    return render(bundle, Version.parse(tag), options or Options()).encode()


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("releases")
    write_samples(folder)
    return folder


@pytest.fixture
def forge() -> Iterator[Forge]:
    with Forge() as running:
        yield running


@pytest.fixture
def fleet(forge: Forge) -> Repository:
    files = {f"{folder}/kustomization.yaml": KUSTOMIZATION for folder in FOLDERS}
    files |= {f"{folder}/gotk-sync.yaml": sync(folder) for folder in FOLDERS}
    files |= {PRODUCTION: components(OLD), STAGING: components(OLD), "apps/app.yaml": b"a: 1\n"}
    made = forge.repository(NAME, files)
    forge.user("renovate")
    made.collaborators["renovate"] = "write"
    return made


@pytest.fixture
def runner(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    releases: Path,
    forge: Forge,
    fleet: Repository,
) -> Runner:
    return reading(Runner.starting(tmp_path, monkeypatch, capsys, releases), forge, fleet)


def requested(
    runner: Runner, fleet: Repository, files: Mapping[str, bytes | None], branch: str = "renovate/flux", **inputs: str
) -> Ran:
    """Open a pull request that changes files, and run the preview of it."""
    fleet.push(branch, files, "renovate")
    pull = fleet.open_pull(branch, "renovate")
    runner.event("pull_request", event(fleet, pull.number))
    return runner.run(**{"command": "preview", "path": PATTERN, "releases": "releases", **inputs})


def test_a_patch_of_two_clusters_is_reviewed_once(runner: Runner, forge: Forge, fleet: Repository) -> None:
    ran = requested(runner, fleet, {PRODUCTION: components(PATCH), STAGING: components(PATCH)})
    assert (ran.code, ran.said("error")) == (0, []), ran
    assert f"| `{PRODUCTION}`, `{STAGING}` | {OLD} to {PATCH} |  | 3 image" in ran.summary
    assert "publishes it without approval" in ran.summary
    assert ran.summary.count("Flux: the rendering of this release and these options, byte for byte") == 2
    assert ran.outputs["preview"].strip() == ran.summary.strip()
    assert {request.method for request in forge.requests} <= {"GET", "POST"}
    assert [it.path for it in forge.requests if it.method == "POST"] == ["/graphql"] * 2  # files, in two batches
    assert len(forge.requests) <= 6


def test_what_a_minor_breaks_is_told_before_what_it_changes(runner: Runner, fleet: Repository) -> None:
    ran = requested(runner, fleet, {PRODUCTION: components(MINOR)}, fail_on="certain")
    assert ran.code == 0, ran
    assert "needs approval" in ran.summary
    assert ran.summary.index("What can break in") < ran.summary.index("What changes in")


@pytest.mark.parametrize(("limit", "code"), [("", 0), ("certain", 0), ("danger", 11), ("approval", 11)])
def test_the_exit_code_is_what_fail_on_asks_for(runner: Runner, fleet: Repository, limit: str, code: int) -> None:
    weaker = components(PATCH).replace(b"readOnlyRootFilesystem: true", b"readOnlyRootFilesystem: false", 1)
    ran = requested(runner, fleet, {PRODUCTION: weaker}, fail_on=limit)
    assert ran.code == code, ran
    assert "the file was edited by hand" in ran.summary
    assert "-          readOnlyRootFilesystem: true\n+          readOnlyRootFilesystem: false" in ran.summary
    assert "- **danger, " in ran.summary  # the page is there whatever the code is
    assert code == 0 or "the preview found what it is to fail on" in ran.said("error")[0]


def test_options_that_get_lost_are_named(runner: Runner, fleet: Repository) -> None:
    fleet.push("main", {PRODUCTION: components(OLD, Options(log_level="debug", network_policy=False))}, "acme")
    ran = requested(runner, fleet, {PRODUCTION: components(PATCH)}, fail_on="approval")
    assert ran.code == 11
    assert "| options | `--log-level=debug --network-policy=false` | Flux's own |" in ran.summary
    assert "the options change: log-level" in ran.summary


def test_hand_edits_that_a_request_drops_are_shown(runner: Runner, fleet: Repository) -> None:
    fleet.push("main", {PRODUCTION: components(OLD).replace(b"PeriodSeconds: 10", b"PeriodSeconds: 20", 1)}, "acme")
    ran = requested(runner, fleet, {PRODUCTION: components(PATCH)})
    assert "the request drops the hand edits that the file has" in ran.summary
    assert "<summary>Hand edits in the base</summary>" in ran.summary


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param(b"kind: List\n", "gotk-components.yaml cannot be read: no version", id="another file"),
        pytest.param(b"\xff\xfe", "it is not text", id="no text"),
        pytest.param(components(PATCH).replace(b"v2.98.8", b"v2.97.0"), "v2.97.0", id="a release that is not there"),
        pytest.param(b"---\n" * 5_000 + components(PATCH), "no header of Flux", id="padded"),
        pytest.param(components(PATCH) + b"---\nkind: [\n", "the files were not compared", id="no YAML"),
    ],
)
def test_a_file_that_cannot_be_checked_asks_for_a_person(
    runner: Runner, fleet: Repository, content: bytes, told: str
) -> None:
    ran = requested(runner, fleet, {PRODUCTION: content}, fail_on="approval")
    assert ran.code == 11, ran
    assert told in ran.summary
    assert "needs approval" in ran.summary or "refuses it" in ran.summary


def test_a_file_that_is_removed_and_one_that_is_added(runner: Runner, fleet: Repository) -> None:
    ran = requested(runner, fleet, {PRODUCTION: None, "clusters/new/flux-system/gotk-components.yaml": components(OLD)})
    assert ran.code == 0, ran
    assert f"| `{PRODUCTION}` | {OLD}, removed | 1 **possible**" in ran.summary
    assert f"| `clusters/new/flux-system/gotk-components.yaml` | {OLD}, added |" in ran.summary
    assert "- Deployment source-controller" in ran.summary


def test_a_patch_file_beside_the_components_is_part_of_the_review(runner: Runner, fleet: Repository) -> None:
    ran = requested(runner, fleet, {f"{FOLDERS[0]}/kustomization.yaml": KUSTOMIZATION + b"resorces: []\n"})
    assert ran.code == 0, ran
    assert f"| `{PRODUCTION}` | {OLD} | 1 " in ran.summary
    assert "the overlay changes: kustomization.yaml (changed)" in ran.summary
    assert "resorces" in ran.summary


def test_a_large_folder_is_not_read_and_that_is_said(runner: Runner, fleet: Repository) -> None:
    fleet.push("main", {f"{FOLDERS[0]}/x/{number}.yaml": b"a: 1\n" for number in range(150)}, "acme")
    ran = requested(runner, fleet, {PRODUCTION: components(PATCH)})
    assert "The files beside it were not read: there are too many." in ran.summary
    assert "publishes it without approval" in ran.summary


def test_what_main_got_since_is_no_change_of_the_request(runner: Runner, forge: Forge, fleet: Repository) -> None:
    start = fleet.head
    fleet.push("renovate/flux", {PRODUCTION: components(PATCH)}, "renovate")
    fleet.push("main", {STAGING: components(MINOR), ".github/workflows/x.yaml": b"on: push\n"}, "acme")
    pull = fleet.open_pull("renovate/flux", "renovate")
    runner.event("pull_request", event(fleet, pull.number))
    ran = runner.run(command="preview", path=PATTERN, releases="releases")
    assert f"From `{start}` to `{pull.head}`." in ran.summary
    assert STAGING not in ran.summary
    assert "The request changes workflows" not in ran.summary
    assert forge.violations == []


def test_a_request_of_a_fork_is_reviewed_too(runner: Runner, forge: Forge, fleet: Repository) -> None:
    fork = forge.fork(NAME, "mallory")
    fork.push("main", {PRODUCTION: components(PATCH)}, "mallory")
    fleet.collaborators["mallory"] = "read"
    pull = fleet.open_pull("mallory:main", "mallory")
    runner.event("pull_request", event(fleet, pull.number))
    ran = runner.run(command="preview", path=PATTERN, releases="releases")
    assert ran.code == 0, ran
    assert f"| `{PRODUCTION}` | {OLD} to {PATCH} |" in ran.summary


def test_a_request_that_changes_what_decides_says_so_first(runner: Runner, fleet: Repository) -> None:
    changed = {PRODUCTION: components(PATCH), ".github/workflows/preview.yaml": b"on: push\n", ".gitattributes": b"*\n"}
    ran = requested(runner, fleet, changed)
    first = ran.summary.index("**The request changes workflows: `.github/workflows/preview.yaml`.**")
    assert (
        first < ran.summary.index("**The request changes attributes: `.gitattributes`.**") < ran.summary.index("| file")
    )


def test_a_request_that_changes_nothing_of_it_is_green(runner: Runner, fleet: Repository) -> None:
    ran = requested(runner, fleet, {"apps/app.yaml": b"a: 2\n"}, fail_on="approval")
    assert ran.code == 0
    assert "The request changes nothing that was asked for." in ran.summary


@pytest.mark.parametrize(
    "name", ["pull_request_target", "workflow_run", "issue_comment", "push", "schedule", "workflow_dispatch", ""]
)
def test_other_events_than_pull_requests_are_refused_before_anything_is_asked(
    runner: Runner, forge: Forge, fleet: Repository, name: str
) -> None:
    fleet.push("renovate/flux", {PRODUCTION: components(PATCH)}, "renovate")
    runner.event(name, event(fleet, fleet.open_pull("renovate/flux", "renovate").number))
    ran = runner.run(command="preview", path=PATTERN, releases="releases")
    assert (ran.code, forge.requests) == (2, []), ran
    assert f"preview does not run on {name or 'no event'}" in ran.said("error")[0]


@pytest.mark.parametrize(
    "change",
    [
        {"pull_request": None},
        {"pull_request": {"number": 1}},
        {"base": {"sha": "x" * 40, "repo": {"full_name": NAME}}},
        {"base": {"sha": "1" * 40, "repo": {"full_name": "acme/other"}}},
        {"head": {"sha": "--upload-pack"}},
    ],
)
def test_an_event_that_says_too_little_is_refused(
    runner: Runner, forge: Forge, fleet: Repository, change: dict[str, Any]
) -> None:
    fleet.push("renovate/flux", {PRODUCTION: components(PATCH)}, "renovate")
    whole = event(fleet, fleet.open_pull("renovate/flux", "renovate").number)
    runner.event(
        "pull_request", whole | change if "pull_request" in change else {"pull_request": whole["pull_request"] | change}
    )
    ran = runner.run(command="preview", path=PATTERN, releases="releases")
    assert (ran.code, forge.requests) == (2, []), ran


def test_without_a_path_or_a_configuration_there_is_nothing_to_show(runner: Runner, fleet: Repository) -> None:
    ran = requested(runner, fleet, {PRODUCTION: components(PATCH)}, path="")
    assert ran.code == 0
    assert "There is no configuration to preview: .github/flux-manifests.yaml" in ran.summary
    assert PRODUCTION not in ran.summary


def test_text_of_a_request_does_nothing_on_its_page(runner: Runner, fleet: Repository) -> None:
    hostile = components(PATCH) + f"---\n# {LINE}\n".encode() + HOSTILE.replace("\n", "\n# ").encode()
    path = f"clusters/{LINE.replace('/', ':')}/flux-system/gotk-components.yaml"
    fences = components(PATCH).replace(b"---\n", b"---\n# ````` </details> <img src=x> @mallory fixes #4711\n", 40)
    ran = requested(runner, fleet, {PRODUCTION: hostile, path: components(OLD), STAGING: fences})
    assert ran.code == 0, ran
    assert "mallory" in ran.summary
    assert acting(ran.summary) == []
    assert acting(ran.outputs["preview"]) == []
    assert not {"set-output", "error"} & {each.name for each in ran.commands}


def test_a_long_diff_pushes_no_hazard_out(runner: Runner, fleet: Repository) -> None:
    padding = b"".join(b"# %d %s\n" % (number, b"x" * 230) for number in range(2000))
    weaker = components(MINOR).replace(b"readOnlyRootFilesystem: true", b"readOnlyRootFilesystem: false", 1)
    ran = requested(runner, fleet, {PRODUCTION: weaker + b"---\n" + padding})
    assert len(ran.outputs["preview"]) <= MAX_COMMENT
    assert "- **danger, " in ran.outputs["preview"]
    assert "(cut here)" in ran.outputs["preview"]


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        ("a/gotk.yaml", ["a/gotk.yaml"]),
        ("./a/gotk.yaml", ["a/gotk.yaml"]),
        ("*/gotk.yaml", ["a/gotk.yaml", "b/gotk.yaml"]),
        ("**/gotk.yaml", ["a/b/gotk.yaml", "a/gotk.yaml", "b/gotk.yaml", "gotk.yaml"]),
        ("a/**/**/gotk.yaml", ["a/b/gotk.yaml", "a/gotk.yaml"]),
        ("a/**", ["a/b/gotk.yaml", "a/gotk.yaml"]),
        ("?/g*.yaml", ["a/gotk.yaml", "b/gotk.yaml"]),
        ("a", []),
        ("", []),
    ],
)
def test_a_pattern_matches_whole_paths(pattern: str, matched: list[str]) -> None:
    assert matching([pattern], ["a/gotk.yaml", "b/gotk.yaml", "a/b/gotk.yaml", "gotk.yaml"]) == matched


class TestComment:
    """The other job: it may write comments, and has nothing but a text."""

    @pytest.fixture
    def writer(self, runner: Runner, forge: Forge, fleet: Repository) -> Runner:
        runner.variables["INPUT_GITHUB-TOKEN"] = forge.token("actions", NAME, {"pull-requests": "write"})
        fleet.push("renovate/flux", {PRODUCTION: components(PATCH)}, "renovate")
        runner.event("pull_request", event(fleet, fleet.open_pull("renovate/flux", "renovate").number))
        forge.user("mallory")
        fleet.collaborators["mallory"] = "write"
        return runner

    def test_one_comment_is_kept_current_in_two_requests(self, writer: Runner, forge: Forge, fleet: Repository) -> None:
        for text in ("first", "second", "third\n\n| a |\n| - |"):
            forge.requests.clear()
            assert writer.run(command="comment", text=text).code == 0
            assert len(forge.requests) == 2
        (comment,) = fleet.pull(1).comments
        assert (comment.author, comment.body) == ("github-actions[bot]", f"{MARK}\nthird\n\n| a |\n| - |")

    @pytest.mark.parametrize("place", ["behind", "before"])
    def test_it_is_found_beside_a_hundred_others(self, writer: Runner, fleet: Repository, place: str) -> None:
        for text in ("first", "second"):
            if (text == "first") is (place == "before"):
                for number in range(101):
                    fleet.comment(1, "mallory", f"{MARK}\n{number}")
            assert writer.run(command="comment", text=text).code == 0
        assert [it.body for it in fleet.pull(1).comments if it.author != "mallory"] == [f"{MARK}\nsecond"]

    def test_a_forged_comment_is_left_alone(self, writer: Runner, fleet: Repository) -> None:
        fleet.comment(1, "mallory", f"{MARK}\nnothing can break")
        fleet.comment(1, "github-actions[bot]", f"Something else, and then {MARK}")
        writer.run(command="comment", text="first")
        writer.run(command="comment", text="second")
        forged, other, ours = fleet.pull(1).comments
        assert (forged.author, forged.body) == ("mallory", f"{MARK}\nnothing can break")
        assert other.body == f"Something else, and then {MARK}"
        assert (ours.author, ours.body) == ("github-actions[bot]", f"{MARK}\nsecond")

    def test_on_a_request_of_a_fork_nothing_is_asked(self, writer: Runner, forge: Forge, fleet: Repository) -> None:
        fork = forge.fork(NAME, "eve")
        fork.push("main", {PRODUCTION: components(PATCH)}, "eve")
        fleet.collaborators["eve"] = "read"
        writer.event("pull_request", event(fleet, fleet.open_pull("eve:main", "eve").number))
        ran = writer.run(command="comment", text="first")
        assert (ran.code, forge.requests) == (0, []), ran

    @pytest.mark.parametrize("name", ["pull_request_target", "workflow_run", "issue_comment", "push"])
    def test_other_events_are_refused(self, writer: Runner, forge: Forge, fleet: Repository, name: str) -> None:
        writer.event(name, event(fleet, 1))
        assert (writer.run(command="comment", text="x").code, forge.requests) == (2, [])

    @pytest.mark.parametrize("text", ["", "x" * (MAX_COMMENT + 1)])
    def test_a_text_that_no_preview_has_is_refused(self, writer: Runner, forge: Forge, text: str) -> None:
        assert (writer.run(command="comment", text=text).code, forge.requests) == (2, [])

    def test_the_job_that_looks_cannot_write(self, writer: Runner, forge: Forge, fleet: Repository) -> None:
        writer.variables["INPUT_GITHUB-TOKEN"] = forge.token("actions", NAME, READS)
        ran = writer.run(command="comment", text="x")
        assert (ran.code, fleet.pull(1).comments) == (21, []), ran

    def test_what_a_page_has_arrives_byte_for_byte(self, writer: Runner, fleet: Repository) -> None:
        text = f"```text\n{LINE}\n\u00a0\u3164\u202e\n```\n{'x' * 50_000}"
        assert writer.run(command="comment", text=text).code == 0
        assert fleet.pull(1).comments[0].body == f"{MARK}\n{text}"
