"""The action against a double of GitHub: asked by pull request and by run, approved by people, published, and done."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from ci_automation.cli import run
from ci_automation.signing.trust import Identity
from tests.contract.scene import APPROVE, CHANNEL, CHECK, LOCK
from tests.fakes.forge import LOST, RESET, Fault, Forge, times
from tests.fakes.runner import Runner
from tests.fakes.samples import write_old_samples
from tests.fakes.world import key_pem, signing_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.fakes.forge.repository import Repository
    from tests.fakes.sigstore import LocalSigstore

EDGE = "layout:registry:edge"
GROUP = {"key": "cosign.key", "releases": "releases"}
OWN = {"artifact": CHANNEL, "key": "cosign.key", "releases": "releases"}
ALL = {"contents": "write", "pull_requests": "write", "issues": "write", "actions": "write"}


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_old_samples(tmp_path_factory.mktemp("releases"))


@pytest.fixture
def forge(releases: Path) -> Iterator[Forge]:
    with Forge(releases=releases) as running:
        yield running


@pytest.fixture
def fleet(forge: Forge) -> Repository:
    files = {".github/workflows/approve.yaml": APPROVE, ".github/workflows/flux.yaml": CHECK}
    made = forge.repository("acme/fleet", files)
    for person, level in {"ada": "write", "rita": "read"}.items():
        forge.user(person)
        made.collaborators[person] = level
    made.environment("flux-manifests", ["ada", "rita"])
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
    made = Runner.starting(tmp_path, monkeypatch, capsys, releases)
    (made.workspace / ".git").mkdir()
    (made.workspace / "cosign.key").write_bytes(key_pem())
    own = ["--flux-version", "v2.98.8", "--releases", "releases", "--signing", "key", "--key", "cosign.key"]
    assert run(["init", CHANNEL, *own]) == 0
    made.variables.update({"GITHUB_API_URL": forge.url, "GITHUB_SERVER_URL": forge.host})
    made.variables["INPUT_GITHUB-TOKEN"] = forge.token("actions", fleet.full_name, ALL)
    return made


def checkout(runner: Runner, fleet: Repository) -> None:
    """Do what actions/checkout does with the lock file."""
    path = runner.workspace / LOCK
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(fleet.read(LOCK) or b"")


def test_a_minor_is_asked_for_by_pull_request_and_its_merge_publishes_it(
    runner: Runner, forge: Forge, fleet: Repository
) -> None:
    asked = runner.run(**OWN)
    assert (asked.code, asked.outputs["changed"], asked.outputs["pending-decision"]) == (0, "false", "approval"), asked
    (pull,) = fleet.pulls
    assert asked.outputs["approval-url"].endswith(f"/acme/fleet/pull/{pull.number}")
    assert len(forge.requests) + 1 <= 8  # the list of releases is read from a folder here

    again = runner.run(**OWN)
    assert (again.code, again.outputs["approval-url"]) == (0, asked.outputs["approval-url"])
    assert len(fleet.pulls) == 1

    fleet.merge(pull.number, "ada")
    runner.event("push", {"repository": {"default_branch": "main", "full_name": "acme/fleet"}})
    checkout(runner, fleet)
    applied = runner.run(**OWN, command="apply")
    assert (applied.code, applied.outputs["changed"], applied.outputs["decision"]) == (0, "true", "approval"), applied
    assert applied.outputs["digest"] == asked.outputs["pending-digest"]
    assert applied.outputs["target-version"] == "v2.99.4"
    assert f"Approved by ada: [pull request](<{asked.outputs['approval-url']}>)." in applied.summary

    for command in ("apply", "update"):
        done = runner.run(**OWN, command=command)
        assert (done.code, done.outputs["changed"], done.commands) == (0, "false", done.commands[:1]), done


def test_the_scheduled_check_takes_up_a_merge_that_was_not_applied(runner: Runner, fleet: Repository) -> None:
    asked = runner.run(**OWN)
    fleet.merge(fleet.pulls[0].number, "ada")
    checkout(runner, fleet)
    ran = runner.run(**OWN)
    assert (ran.code, ran.outputs["changed"], ran.outputs["digest"]) == (0, "true", asked.outputs["pending-digest"])


@pytest.fixture
def group(runner: Runner) -> Callable[..., None]:
    """Return what configures two channels of one repository, with the same digest, as one group."""
    assert (
        run(
            [
                "init",
                EDGE,
                "--flux-version",
                "v2.98.8",
                "--releases",
                "releases",
                "--signing",
                "key",
                "--key",
                "cosign.key",
            ]
        )
        == 0
    )

    def configure(paused: str = "false") -> None:
        (runner.workspace / ".github").mkdir(exist_ok=True)
        (runner.workspace / ".github/flux-manifests.yaml").write_text(
            "version: 1\ndefaults: {approval: {via: pull-request}}\nartifacts:\n"
            f"- {{name: production, url: '{CHANNEL}', group: eu}}\n"
            f"- {{name: edge, url: '{EDGE}', group: eu, paused: {paused}}}\n"
        )

    configure()
    return configure


def test_a_group_is_asked_for_once_and_each_artifact_is_published_by_itself(
    runner: Runner, fleet: Repository, group: Callable[..., None]
) -> None:
    asked = runner.run(**GROUP)
    (pull,) = fleet.pulls
    assert (asked.code, pull.title) == (0, "Flux v2.99.4 for eu (production, edge)"), asked
    url = f"/acme/fleet/pull/{pull.number}"
    assert [it["approval-url"].endswith(url) for it in asked.artifacts] == [True, True]
    assert asked.summary.count("[needs approval](<") == 2
    assert f"edge: v2.99.4 needs approval at {asked.artifacts[1]['approval-url']}" in asked.said("notice")
    assert runner.run(**GROUP).artifacts[1]["approval-url"] == asked.artifacts[1]["approval-url"]
    assert len(fleet.pulls) == 1

    fleet.merge(pull.number, "ada")
    group(paused="true")
    checkout(runner, fleet)
    first = runner.run(**GROUP)
    assert [it["changed"] for it in first.artifacts] == [True, False], first
    assert first.artifacts[0]["digest"] == asked.artifacts[0]["pending-digest"]

    group()
    second = runner.run(**GROUP)
    assert [it["changed"] for it in second.artifacts] == [False, True], second
    assert second.artifacts[1]["digest"] == asked.artifacts[1]["pending-digest"]
    done = runner.run(**GROUP)
    assert (done.code, [it["changed"] for it in done.artifacts], len(fleet.pulls)) == (0, [False, False], 1)


@pytest.mark.usefixtures("group")
def test_a_run_for_a_part_of_a_group_says_that_it_does_not_ask(runner: Runner, fleet: Repository) -> None:
    ran = runner.run(**GROUP, artifact="edge")
    assert (ran.code, fleet.pulls) == (0, [])
    assert (
        "the group eu is asked for by a run for all of its artifacts, and this one is for 1" in ran.said("warning")[0]
    )


@pytest.mark.usefixtures("group")
def test_a_request_of_a_group_that_fails_is_an_error_of_each_artifact(
    runner: Runner, forge: Forge, fleet: Repository
) -> None:
    forge.faults.append(lambda method, path, _: RESET if method == "POST" and path.endswith("/pulls") else None)
    ran = runner.run(**GROUP)
    assert (ran.code, [it["error"]["code"] for it in ran.artifacts]) == (21, ["answer-lost"] * 2), ran
    forge.faults.clear()
    assert runner.run(**GROUP).code == 0
    assert len(fleet.pulls) == 1


def test_a_minor_is_asked_for_by_a_run_that_waits_and_published_by_it(
    runner: Runner, forge: Forge, fleet: Repository
) -> None:
    own = {**OWN, "approval": "workflow-dispatch"}
    runner.event("schedule", {"schedule": "17 * * * *"})
    asked = runner.run(**own)
    assert asked.code == 0, asked
    (waiting,) = fleet.runs
    assert asked.outputs["approval-url"].endswith(f"/runs/{waiting.id}")
    assert runner.run(**own).outputs["approval-url"] == asked.outputs["approval-url"]
    assert len(fleet.runs) == 1

    named = {name: str(waiting.inputs[name]) for name in ("artifact", "base", "target", "version")}
    approving = {**own, **named, "request_key": str(waiting.inputs["key"]), "command": "approve"}
    runner.variables["GITHUB_RUN_ID"] = str(waiting.id)
    runner.event("workflow_dispatch", {"repository": {"default_branch": "main", "full_name": "acme/fleet"}})
    early = runner.run(**approving)
    assert (early.code, early.outputs["changed"]) == (11, "false")
    assert "no reviewer approved this run" in early.said("error")[0]

    forge.approve(waiting.id, "ada")
    other = runner.run(**{**approving, "request_key": "0" * 16})
    assert (other.code, other.outputs["changed"]) == (11, "false")
    ran = runner.run(**approving)
    assert (ran.code, ran.outputs["changed"], ran.outputs["digest"]) == (0, "true", waiting.inputs["target"]), ran
    assert runner.run(**approving).outputs["changed"] == "false"


def test_a_yes_of_somebody_who_may_not_write_does_not_count(runner: Runner, forge: Forge, fleet: Repository) -> None:
    own = {**OWN, "approval": "workflow-dispatch"}
    runner.run(**own)
    (waiting,) = fleet.runs
    forge.approve(waiting.id, "rita")
    named = {name: str(waiting.inputs[name]) for name in ("artifact", "base", "target", "version")}
    runner.variables["GITHUB_RUN_ID"] = str(waiting.id)
    runner.event("workflow_dispatch", {"repository": {"default_branch": "main", "full_name": "acme/fleet"}})
    ran = runner.run(**{**own, **named, "request_key": str(waiting.inputs["key"]), "command": "approve"})
    assert (ran.code, ran.outputs["changed"]) == (11, "false")
    assert "rita" in ran.said("error")[0]


def test_a_missing_permission_is_named_with_the_line_to_add(runner: Runner, forge: Forge, fleet: Repository) -> None:
    runner.variables["INPUT_GITHUB-TOKEN"] = forge.token("actions", fleet.full_name, {"contents": "write"})
    ran = runner.run(**OWN)
    assert ran.code == 21
    assert "Add to the job `permissions: {" in ran.said("error")[0]


def test_an_app_asks_in_place_of_the_token(runner: Runner, forge: Forge, fleet: Repository) -> None:
    app = forge.app("keeper")
    forge.install(app, [fleet.full_name], ALL)
    del runner.variables["INPUT_GITHUB-TOKEN"]
    ran = runner.run(**OWN, app_id=str(app.id), app_private_key=app.key)
    assert ran.code == 0, ran
    (pull,) = fleet.pulls
    assert pull.author == "keeper[bot]"
    tokens = [secret for secret in ran.said("add-mask") if secret.startswith("ghs_")]
    assert len(tokens) == len(set(tokens)) == 1
    assert ran.log.count(tokens[0]) == 1


def test_the_switch_fails_where_the_check_is_silent_and_is_silent_where_it_runs(
    runner: Runner, fleet: Repository
) -> None:
    runner.event("schedule", {})
    ran = runner.run(command="watch", workflow="flux.yaml", max_age_days="3")
    assert (ran.code, "flux.yaml is new, and has not succeeded yet" in ran.log) == (0, True)
    fleet.workflow("flux.yaml").created -= timedelta(days=4)
    ran = runner.run(command="watch", workflow="flux.yaml", max_age_days="3")
    assert ran.code == 11
    assert "has not succeeded yet" in ran.said("error")[0]
    assert len(fleet.issues) == 1
    made = fleet.start("flux.yaml", "schedule", "ada", branch="main")
    fleet.complete(made.id)
    ran = runner.run(command="watch", workflow="flux.yaml", max_age_days="3")
    assert (ran.code, ran.commands[1:]) == (0, []), ran


def write_configuration(runner: Runner, keys: str) -> None:
    """Configure the channel, with these keys."""
    (runner.workspace / ".github").mkdir()
    (runner.workspace / ".github/flux-manifests.yaml").write_text(
        f"version: 1\nartifacts:\n- {{name: production, url: 'layout:registry:production', {keys}}}\n"
    )


def test_consumers_are_offered_what_the_channel_has(runner: Runner, forge: Forge) -> None:
    pins = b'spec:\n  digest: sha256:0000 # {"$flux-manifests": "production:digest"}\n'
    consumer = forge.repository("acme/apps", {"flux/source.yaml": pins})
    write_configuration(runner, "consumers: [{repository: acme/apps}]")
    ran = runner.run(command="consumers", key="cosign.key", github_token=forge.token("pat", None, ALL, login="acme"))
    assert ran.code == 0, ran
    assert len(consumer.pulls) == 1
    assert "Repositories that pin production" in ran.summary


@pytest.mark.parametrize(
    ("verify", "code", "offered"), [(", verify: {publicKey: cosign.pub}", 0, 1), ("", 2, 0)], ids=["named", "nobody"]
)
def test_consumers_need_no_key_where_it_is_named_whom_to_trust(
    runner: Runner, forge: Forge, verify: str, code: int, offered: int
) -> None:
    pins = b'spec:\n  digest: sha256:0000 # {"$flux-manifests": "production:digest"}\n'
    consumer = forge.repository("acme/apps", {"flux/source.yaml": pins})
    (runner.workspace / "cosign.pub").write_text(signing_key().public.to_pem())
    write_configuration(runner, f"consumers: [{{repository: acme/apps}}]{verify}")
    token = forge.token("pat", None, ALL, login="acme")
    ran = runner.run(command="consumers", key="env://LOST_KEY", github_token=token)
    assert (ran.code, len(consumer.pulls)) == (code, offered), ran
    assert any("the variable is not set" in said for said in ran.said("error")) is not bool(verify)


def test_those_who_are_to_hear_of_a_publication_are_told_once(runner: Runner, forge: Forge) -> None:
    hearing = forge.repository("acme/apps")
    write_configuration(runner, "policy: {minor: auto, escalate: []}, announce: [acme/apps, acme/missing]")
    token = forge.token("pat", None, ALL, login="acme")
    own = {"key": "cosign.key", "releases": "releases", "approval": "none", "github_token": token}
    ran = runner.run(**own)
    assert (ran.code, ran.outputs["changed"]) == (0, "true"), ran
    assert any("acme/missing was not told" in said for said in ran.said("warning"))
    assert runner.run(**own).outputs["changed"] == "false"
    told = [(kind, payload["target"]) for kind, payload in hearing.dispatched]
    assert told == [("flux-manifests-published", ran.outputs["digest"])]


@pytest.mark.parametrize("fault", [LOST, RESET], ids=["the answer was lost", "it was not sent"])
def test_a_re_run_tells_what_its_first_attempt_had_no_time_to_tell(runner: Runner, forge: Forge, fault: Fault) -> None:
    event = b"on: {repository_dispatch: {types: [flux-manifests-published]}}\n"
    told = event + b"run-name: (${{ github.event.client_payload.key }})\n"
    hearing = forge.repository("acme/apps", {".github/workflows/told.yaml": told})
    write_configuration(runner, "policy: {minor: auto, escalate: []}, announce: [acme/apps]")
    token = forge.token("pat", None, ALL, login="acme")
    own = {"key": "cosign.key", "releases": "releases", "approval": "none", "github_token": token}
    forge.faults.append(times(1, fault, "POST", "/dispatches"))
    first = runner.run(**own)
    assert first.outputs["changed"] == "true", first
    runner.variables["GITHUB_RUN_ATTEMPT"] = "2"
    for _ in range(2):
        assert runner.run(**own).outputs["changed"] == "false"
    assert [payload["target"] for _, payload in hearing.dispatched] == [first.outputs["digest"]]


WORKFLOW = "acme/fleet/.github/workflows/flux.yaml@refs/heads/main"


@pytest.fixture
def keyless(runner: Runner, local: LocalSigstore, forge: Forge) -> Runner:
    """Return a job that may ask for identity tokens, as a workflow of this GitHub's, and a channel that it signed."""
    (runner.workspace / "sigstore.json").write_bytes(local.trust_config())
    subject = Identity("https://token.actions.githubusercontent.com", f"https://github.com/{WORKFLOW}")
    runner.variables.update(local.environment(subject), GITHUB_WORKFLOW_REF=WORKFLOW)
    runner.variables["GITHUB_SERVER_URL"] = "https://github.com"
    with runner.patch.context() as patch:
        for name, value in runner.environment().items():
            patch.setenv(name, value)
        own = ["--flux-version", "v2.98.5", "--releases", "releases", "--trust-config", "sigstore.json"]
        assert run(["init", "layout:keyless:production", *own]) == 0
    forge.requests.clear()
    return runner


KEYLESS = {
    "artifact": "layout:keyless:production",
    "releases": "releases",
    "trust_config": "sigstore.json",
    "approval": "none",
}


def test_without_a_key_the_job_signs_as_its_own_workflow(keyless: Runner) -> None:
    ran = keyless.run(**KEYLESS)
    assert (ran.code, ran.outputs["changed"], ran.outputs["signed"]) == (0, "true", "true"), ran
    before = ran.log.split("::add-mask::eyJ")[0]
    assert "eyJ" not in before
    assert "pushing" not in before


def test_a_called_workflow_signs_keyless_only_where_that_is_accepted(keyless: Runner) -> None:
    keyless.variables["GITHUB_WORKFLOW_REF"] = "acme/other/.github/workflows/caller.yaml@refs/heads/main"
    ran = keyless.run(**KEYLESS)
    assert (ran.code, ran.outputs["changed"]) == (2, "false")
    assert "called by acme/other/.github/workflows/caller.yaml@refs/heads/main" in ran.said("error")[0]
    ran = keyless.run(**KEYLESS, accept_shared_subject="true")
    assert (ran.code, ran.outputs["changed"]) == (0, "true"), ran
