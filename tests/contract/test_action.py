"""The whole command `action`: inputs in the environment, command files and a log out, on an image layout directory."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from ci_automation.approval.dispatch import Dispatch, Sender
from ci_automation.approval.port import (
    ApprovalRequest,
    Approvals,
    Asked,
    AskedState,
    GrantedApproval,
    NotCounted,
    Question,
)
from ci_automation.artifact.reference import Digest, Reference
from ci_automation.cli import run
from ci_automation.errors import ReleaseSourceError
from ci_automation.flows.files import read_plan_file
from ci_automation.flux.version import Version
from ci_automation.github.errors import GitHubUnreachable
from ci_automation.records.notes import Approval
from tests.fakes.runner import Runner, commands
from tests.fakes.samples import write_old_samples
from tests.fakes.world import key_pem, signing_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_automation.errors import Error

CHANNEL = "layout:registry:production"
OWN = {"artifact": CHANNEL, "key": "cosign.key", "releases": "releases", "approval": "none"}
CONFIGURED = {"key": "cosign.key", "releases": "releases", "approval": "none"}
OTHER = Digest.of(b"another")
HOSTILE = "x\n::error::owned\n##[error]owned\r::set-output name=changed::true\n@octocat fixes #1 |a|b| ![i](https://e.example/i)"


@dataclass
class FakeApprovals:
    """A desk whose answers a test says, and which remembers what it was asked."""

    grants: Callable[[Digest], GrantedApproval | NotCounted | None] = lambda _: None
    answer: Asked = field(default_factory=lambda: Asked("https://github.com/acme/fleet/pull/7", AskedState.OPENED))
    asked: list[Question] = field(default_factory=list)
    withdrawn: list[str] = field(default_factory=list)
    failure: Error | None = None

    def granted(self, base: Digest) -> GrantedApproval | NotCounted | None:
        return self.grants(base)

    def ask(self, question: Question) -> Asked:
        self.asked.append(question)
        if self.failure:
            raise self.failure
        return self.answer

    def withdraw(self, reason: str) -> None:
        self.withdrawn.append(reason)


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_old_samples(tmp_path_factory.mktemp("releases"))


@pytest.fixture
def runner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], releases: Path
) -> Runner:
    made = Runner.starting(tmp_path, monkeypatch, capsys, releases)
    (made.workspace / "cosign.key").write_bytes(key_pem())
    (made.workspace / "cosign.pub").write_text(signing_key().public.to_pem())
    publish(CHANNEL)
    return made


def publish(channel: str, version: str = "v2.98.5") -> None:
    own = ["--flux-version", version, "--releases", "releases", "--signing", "key", "--key", "cosign.key"]
    assert run(["init", channel, *own]) == 0


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> FakeApprovals:
    made = FakeApprovals()

    def found(*_: object) -> Approvals:
        return made

    monkeypatch.setattr("ci_automation.action.approval_rules.approvals_of", found)
    return made


def configure(runner: Runner, *artifacts: str, more: str = "") -> None:
    (runner.workspace / ".github").mkdir(exist_ok=True)
    (runner.workspace / ".github/flux-manifests.yaml").write_text(
        "version: 1\n" + more + "artifacts:\n" + "".join(f"- {{{artifact}}}\n" for artifact in artifacts)
    )


def test_a_patch_is_published_and_a_minor_told_of(runner: Runner) -> None:
    ran = runner.run(**OWN)
    assert (ran.code, ran.errors, ran.commands) == (0, "", [])
    told = ran.outputs
    assert (told["changed"], told["decision"], told["signed"], told["healed"]) == ("true", "auto", "true", "false")
    assert (told["current-version"], told["target-version"]) == ("v2.98.5", "v2.98.8")
    assert told["base-digest"] != told["digest"] == told["pending-base-digest"]
    assert told["digest-url"] == f"layout:registry@{told['digest']}"
    assert told["immutable-tag"] == f"v2.98.8-{told['digest'].removeprefix('sha256:')[:12]}"
    assert (told["pending-version"], told["pending-decision"]) == ("v2.99.4", "approval")
    assert told["pending-reasons"].splitlines() == [
        "a minor release needs approval",
        "ClusterRole crd-controller-flux-system may now create serviceaccounts/token",
        "upstream not proven: no signature shows that Flux published this release",
    ]
    assert "- Not checked: Flux's signature on v2.98.8 and v2.99.4; " in ran.summary
    assert "a patch release is published without approval" in told["reasons"].splitlines()
    assert told["approval-url"] == ""
    assert "pushing sha256:" in ran.log
    assert "published v2.98.8; v2.99.4 needs approval" in ran.summary


def test_the_plan_is_there_for_later_steps(runner: Runner) -> None:
    ran = runner.run(**OWN)
    plan = read_plan_file(runner.workspace / ran.outputs["plan-file"])
    assert plan.to_json() == json.loads(ran.outputs["plan"]) == ran.artifacts[0]["plan"]
    assert not Path(ran.outputs["plan-file"]).is_absolute()
    assert (runner.workspace / "flux-manifests-plans/.gitignore").read_text() == "*\n"


def test_a_second_run_changes_nothing(runner: Runner) -> None:
    first = runner.run(**OWN)
    ran = runner.run(**OWN)
    assert (ran.code, ran.outputs["changed"], ran.outputs["decision"]) == (0, "false", "")
    assert ran.outputs["digest"] == ran.outputs["base-digest"] == first.outputs["digest"]
    assert (ran.outputs["signed"], ran.outputs["immutable-tag"]) == ("true", "")


@pytest.mark.parametrize(("switch", "code"), [("true", 3), ("True", 3), ("false", 0), ("", 0)])
def test_what_waits_ends_with_3_only_where_that_is_wanted(runner: Runner, switch: str, code: int) -> None:
    assert runner.run(**OWN, exit_code=switch).code == code


@pytest.mark.parametrize(("github", "code"), [("true", 21), ("", 0)])
def test_at_a_terminal_releases_come_from_where_every_command_takes_them(
    runner: Runner, github: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*_: object, **__: object) -> NoReturn:
        raise ReleaseSourceError("GitHub cannot be reached")

    monkeypatch.setattr("ci_automation.cli.places.github", unreachable)
    runner.variables.update(GITHUB_ACTIONS=github, FLUX_RELEASES="releases")
    assert runner.run(**{name: value for name, value in OWN.items() if name != "releases"}).code == code


def test_a_person_is_asked_about_what_waits(runner: Runner, desk: FakeApprovals) -> None:
    ran = runner.run(**OWN)
    assert [str(question.step.new_version) for question in desk.asked] == ["v2.99.4"]
    assert ran.outputs["approval-url"] == "https://github.com/acme/fleet/pull/7"
    assert ran.said("notice") == [f"{CHANNEL}: v2.99.4 needs approval at https://github.com/acme/fleet/pull/7"]
    assert "[this page](<https://github.com/acme/fleet/pull/7>)" in ran.summary


def granting(runner: Runner) -> Callable[[Digest], GrantedApproval]:
    """Return a desk's yes to the minor, as the run before planned it."""
    told = runner.run(**OWN).outputs
    request = ApprovalRequest(
        Reference.parse_channel(CHANNEL),
        Version.parse(told["pending-version"]),
        Digest.parse(told["pending-base-digest"]),
        Digest.parse(told["pending-digest"]),
    )
    approval = Approval("octocat", "pull request https://github.com/acme/fleet/pull/7", datetime.now(UTC))
    return lambda _: GrantedApproval(request, approval)


@pytest.mark.parametrize("command", ["update", "apply"])
def test_what_was_approved_is_published(runner: Runner, desk: FakeApprovals, command: str) -> None:
    desk.grants = granting(runner)
    ran = runner.run(**OWN, command=command)
    assert (ran.code, ran.outputs["changed"], ran.outputs["decision"]) == (0, "true", "approval")
    assert (ran.outputs["current-version"], ran.outputs["target-version"]) == ("v2.98.8", "v2.99.4")
    assert ran.outputs["pending-version"] == ""
    assert "Approved by octocat: [pull request](<https://github.com/acme/fleet/pull/7>)." in ran.summary


def test_apply_publishes_nothing_by_itself(runner: Runner, desk: FakeApprovals) -> None:
    ran = runner.run(**OWN, command="apply")
    assert (ran.code, ran.outputs["changed"], ran.outputs["digest"]) == (0, "false", "")
    assert desk.asked == []
    assert "nothing to do" in ran.summary


def test_an_approval_that_does_not_count_is_a_warning_for_update_and_an_error_for_apply(
    runner: Runner, desk: FakeApprovals
) -> None:
    request = ApprovalRequest(Reference.parse_channel(CHANNEL), Version.parse("v2.99.4"), OTHER, OTHER)
    desk.grants = lambda _: NotCounted(request, "it was merged by a bot")
    ran = runner.run(**OWN)
    assert (ran.code, ran.outputs["target-version"]) == (0, "v2.98.8")
    assert ran.said("warning") == [f"{CHANNEL}: the approval of v2.99.4 does not count: it was merged by a bot"]
    ran = runner.run(**OWN, command="apply")
    assert ran.code == 11
    assert "it was merged by a bot" in ran.said("error")[0]


def test_hostile_text_is_neither_a_command_nor_an_output_nor_a_mention(runner: Runner, desk: FakeApprovals) -> None:
    request = ApprovalRequest(Reference.parse_channel(CHANNEL), Version.parse("v2.99.4"), OTHER, OTHER)
    desk.grants = lambda _: NotCounted(request, HOSTILE)
    desk.answer = Asked(f"https://e.example/{HOSTILE}", AskedState.KEPT, HOSTILE)
    ran = runner.run(**OWN)
    assert ran.code == 0
    assert [each.name for each in ran.commands] == ["warning", "warning", "notice"]
    assert ran.outputs["changed"] == "true"  # its own
    assert "owned" not in {line.strip() for line in ran.log.splitlines()}
    outside = re.sub(r"<code>[^<]*</code>|`[^`\n]*`", "", ran.summary)  # of code, where GitHub looks for nothing
    assert [found for found in ("@octocat", "#1", "](https", "![") if found in outside] == []
    tables = re.findall(r"(?:^\|.*\n)+", outside, re.MULTILINE)  # each has as many cells in every row as in its head
    assert [{line.count("|") for line in each.splitlines()} for each in tables] == [{5}, {5}, {5}]


def test_what_was_published_is_told_where_asking_for_the_rest_fails(runner: Runner, desk: FakeApprovals) -> None:
    desk.failure = GitHubUnreachable("GitHub does not answer")
    ran = runner.run(**OWN)
    assert ran.code == 21
    assert (ran.outputs["changed"], ran.outputs["target-version"], ran.outputs["signed"]) == ("true", "v2.98.8", "true")
    assert (ran.outputs["pending-version"], ran.outputs["approval-url"]) == ("v2.99.4", "")
    assert ran.artifacts[0]["error"]["code"] == "github-unreachable"
    assert "failed after it had published v2.98.8: GitHub does not answer" in ran.summary


def test_hostile_text_in_an_error_is_no_command(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        print(HOSTILE)
        print(HOSTILE, file=sys.stderr)
        raise LookupError(HOSTILE)

    monkeypatch.setattr("ci_automation.action.commands.update_and_ask", fail)
    ran = runner.run(**OWN)
    assert ran.code == 1
    assert [each.name for each in ran.commands] == ["error"]
    assert ran.outputs["changed"] == "false"
    assert "This is a bug" in ran.summary
    ran = runner.run(**OWN, verbose="true")
    assert "Traceback" in ran.said("error")[0]


def test_one_artifact_that_fails_keeps_no_other_from_being_done(runner: Runner) -> None:
    publish("layout:other:production")
    configure(
        runner,
        "name: first, url: 'layout:registry:production'",
        "name: missing, url: 'layout:registry:nowhere'",
        "name: last, url: 'layout:other:production'",
    )
    ran = runner.run(**CONFIGURED)
    assert ran.code == 20
    assert [(it["name"], it["changed"], it["error"] and it["error"]["code"]) for it in ran.artifacts] == [
        ("first", True, None),
        ("missing", False, "not-found"),
        ("last", True, None),
    ]
    single = {name: value for name, value in ran.outputs.items() if name not in {"changed", "artifacts"}}
    assert set(single.values()) == {""}
    assert ran.outputs["changed"] == "true"
    assert [each.name for each in ran.commands if each.name != "error"] == ["group", "endgroup"] * 3
    assert ran.said("group") == ["first", "missing", "last"]
    (error,) = (each for each in ran.commands if each.name == "error")
    assert error.data.startswith("missing: ")
    assert error.properties == {"title": "flux-manifests: not-found"}
    assert [it["plan-file"] for it in ran.artifacts] == [
        "flux-manifests-plans/1-first.json",
        None,
        "flux-manifests-plans/3-last.json",
    ]


def test_a_key_that_is_missing_stops_its_artifact_alone(runner: Runner) -> None:
    publish("layout:other:production")
    configure(
        runner,
        "name: first, url: 'layout:registry:production', signing: {key: 'env://LOST_KEY'}",
        "name: last, url: 'layout:other:production', signing: {key: cosign.key}",
    )
    ran = runner.run(releases="releases", approval="none")
    assert [(it["name"], it["changed"], it["error"] and it["error"]["code"]) for it in ran.artifacts] == [
        ("first", False, "key-file-missing"),
        ("last", True, None),
    ]
    assert (ran.code, ran.outputs["changed"]) == (2, "true")
    assert "first: no key at env://LOST_KEY" in ran.said("error")[0]
    assert "**first** failed: no key at" in ran.summary


def test_what_is_wrong_in_the_configuration_is_shown_beside_its_line(runner: Runner) -> None:
    configure(runner, "name: a, url: 'layout:registry:production', polcy: {}", more="sauce: dir:releases\n")
    ran = runner.run(**CONFIGURED)
    assert ran.code == 2
    shown = [each.properties for each in ran.commands if each.name == "error"]
    assert [(it["file"], it["line"]) for it in shown] == [
        (".github/flux-manifests.yaml", "2"),
        (".github/flux-manifests.yaml", "4"),
    ]
    assert all(int(it["col"]) > 0 for it in shown)
    assert "did you mean policy?" in ran.said("error")[1]
    assert (ran.outputs["changed"], ran.outputs["artifacts"]) == ("false", "[]")
    assert "**Failed**" in ran.summary


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        pytest.param({"exit_code": "yes"}, "exit-code: it is true or false, not 'yes'", id="a switch"),
        pytest.param({"artifact": "a\n::error::b"}, "artifact: it has invisible characters", id="a second line"),
        pytest.param({"artifact": "nowhere"}, "is not the address of an artifact", id="no artifact"),
        pytest.param({"signing": "kms", "key": ""}, "--signing kms needs --key", id="options that contradict"),
        pytest.param({"key": "missing.key"}, "missing.key", id="no key"),
    ],
)
def test_an_input_that_cannot_be_used_ends_with_2(runner: Runner, inputs: dict[str, str], told: str) -> None:
    ran = runner.run(**{**OWN, **inputs})
    assert ran.code == 2
    (error,) = ran.said("error")
    assert told in error
    assert ran.outputs["changed"] == "false"


def test_without_any_artifact_named_it_says_what_to_do(runner: Runner) -> None:
    ran = runner.run(**CONFIGURED)
    assert ran.code == 2
    assert "Name an artifact" in ran.said("error")[0]


def test_secrets_are_hidden_before_anything_else_is_said(runner: Runner) -> None:
    docker = json.dumps({"auths": {"r.example": {"auth": "bWU6Y2FuYXJ5LXNlY3JldA=="}}})
    assert runner.run(**OWN).code == 0  # so that the next run moves nothing, and asks nothing of GitHub
    ran = runner.run(**OWN, github_token="canary-token", docker_config=docker)
    assert ran.code == 0
    assert ran.said("add-mask") == ["canary-token", "bWU6Y2FuYXJ5LXNlY3JldA==", "canary-secret"]
    assert ran.log.splitlines()[2].startswith("::add-mask::")


def test_secrets_in_variables_are_hidden_too(runner: Runner) -> None:
    pem = (runner.workspace / "cosign.key").read_text()
    runner.variables.update(
        SIGN="", OWN_KEY=pem, COSIGN_PASSWORD="canary-password", PULLS="me", PULLS_WITH="canary-pull"
    )
    configure(
        runner,
        "name: a, url: 'layout:registry:production', signing: {mode: key, key: 'env://OWN_KEY'}, "
        "credentials: {pull: {usernameVariable: PULLS, passwordVariable: PULLS_WITH}}",
    )
    ran = runner.run(releases="releases", approval="none")
    assert (ran.code, ran.outputs["changed"]) == (0, "true"), ran
    hidden = ran.said("add-mask")
    assert {"canary-password", "canary-pull", *pem.split("\n")[1:-2]} <= set(hidden)
    assert all(line.startswith("::add-mask::") for line in ran.log.splitlines()[: len(hidden)])


def test_outside_of_github_actions_no_command_is_given(runner: Runner) -> None:
    runner.variables.update(GITHUB_ACTIONS="", GITHUB_OUTPUT="", GITHUB_STEP_SUMMARY="", GITHUB_WORKSPACE="")
    ran = runner.run(**OWN, github_token="canary-token")
    assert (ran.code, ran.commands, ran.outputs, ran.summary) == (0, [], {}, "")
    assert not (runner.workspace / "flux-manifests-plans").exists()
    ran = runner.run(**OWN, exit_code="perhaps")
    assert ran.code == 2
    assert "error: exit-code: it is true or false" in ran.log


A, B = ({"name": name, "artifact": f"layout:{name}:b"} for name in "ab")


def test_the_matrix_is_the_artifacts_by_name_and_address(runner: Runner) -> None:
    configure(runner, "name: a, url: 'layout:a:b'", "name: b, url: 'layout:b:b'")
    ran = runner.run(command="matrix")
    assert (ran.code, json.loads(ran.outputs["matrix"])) == (0, [A, B])
    assert json.loads(runner.run(command="matrix", artifact="b").outputs["matrix"]) == [B]
    assert runner.run(command="matrix", config="nowhere.yaml").code == 2


def test_a_matrix_of_nothing_is_refused(runner: Runner) -> None:
    ran = runner.run(command="matrix")
    assert (ran.code, ran.outputs["matrix"]) == (2, "")


def event(runner: Runner, artifact: str, **changes: Any) -> None:
    request = ApprovalRequest(Reference.parse_channel(artifact), Version.parse("v9.9.9"), OTHER, OTHER)
    payload = Dispatch.requesting(request, Sender()).to_payload()
    runner.event(
        "repository_dispatch",
        {"action": "flux-manifests-update-requested", "client_payload": payload, **changes},
    )


def test_an_event_narrows_the_run_to_one_of_its_artifacts(runner: Runner) -> None:
    publish("layout:other:production")
    configure(runner, "name: a, url: 'layout:registry:production'", "name: b, url: 'layout:other:production'")
    event(runner, "layout:other:production")
    ran = runner.run(**CONFIGURED)
    assert (ran.code, [it["name"] for it in ran.artifacts]) == (0, ["b"])
    assert ran.outputs["target-version"] == "v2.98.8"  # planned anew, whatever the event wants


@pytest.mark.parametrize("artifact", ["", CHANNEL, "a"])
def test_an_event_adds_no_artifact(runner: Runner, artifact: str) -> None:
    publish("layout:other:production")
    configure(runner, "name: a, url: 'layout:registry:production'")
    event(runner, "layout:other:production")
    ran = runner.run(**CONFIGURED, artifact=artifact)
    assert ran.code == 2
    assert "layout:other:production, which is none of the artifacts here" in ran.said("error")[0]
    assert ran.artifacts == []


def test_an_event_is_about_the_artifact_of_the_input_too(runner: Runner) -> None:
    event(runner, CHANNEL)
    assert runner.run(**OWN).outputs["changed"] == "true"


def test_an_event_of_ours_that_is_malformed_is_refused(runner: Runner) -> None:
    event(runner, CHANNEL, client_payload={"artifact": CHANNEL})
    ran = runner.run(**OWN)
    assert (ran.code, ran.outputs["changed"]) == (2, "false")


def test_an_event_of_somebody_else_says_nothing(runner: Runner) -> None:
    event(runner, "layout:other:production", action="deploy")
    assert runner.run(**OWN).outputs["changed"] == "true"


def test_only_the_digest_that_is_named_is_adopted(runner: Runner) -> None:
    (runner.workspace / "theirs.key").write_bytes(key_pem("theirs"))
    base = runner.run(**OWN).outputs["digest"]
    theirs = {**OWN, "key": "theirs.key"}
    assert runner.run(**theirs).code == 10
    assert runner.run(**theirs, adopt=str(OTHER)).code == 10
    ran = runner.run(**theirs, adopt=base)
    assert (ran.code, ran.outputs["signed"], ran.outputs["healed"]) == (0, "true", "true"), ran
    assert "gotk-components.yaml equals what Flux" in ran.log
    assert "Adoption signs and records this digest, and publishes nothing else." in ran.log
    assert any("was adopted and signed, and this run publishes nothing else" in said for said in ran.said("notice"))
    assert ran.said("warning") == []
    again = runner.run(**theirs, adopt=base)  # as it would be believed again, were the channel moved back to it
    assert any("leave adopt out" in said for said in again.said("warning"))


def test_a_digest_is_adopted_for_one_artifact_alone(runner: Runner) -> None:
    """A writer of the registry can let another channel have the digest that a person adopts for the first."""
    publish("layout:second:production")
    (runner.workspace / "theirs.key").write_bytes(key_pem("theirs"))
    configure(runner, f"name: first, url: '{CHANNEL}'", "name: second, url: 'layout:second:production'")
    theirs = {**CONFIGURED, "key": "theirs.key"}
    base, other = (it["digest"] for it in runner.run(**CONFIGURED).artifacts)
    assert base == other
    ran = runner.run(**theirs, adopt=base)
    assert (ran.code, "for one artifact, and this run is for 2" in ran.summary) == (2, True), ran
    assert runner.run(**theirs, artifact="first", adopt=base).outputs["healed"] == "true"
    assert runner.run(**theirs, artifact="second").code == 10


def test_an_approval_is_for_an_artifact_that_is_configured(runner: Runner) -> None:
    configure(runner, "name: a, url: 'layout:registry:production'")
    named = {"artifact": "layout:other:production", "base": str(OTHER), "target": str(OTHER), "version": "v2.99.4"}
    ran = runner.run(**{**CONFIGURED, **named}, command="approve", github_token="canary-token")
    assert ran.code == 2
    assert "which is none of the artifacts here" in ran.said("error")[0]


@pytest.mark.parametrize("approval", ["pull-request", "workflow-dispatch"])
def test_who_shall_be_asked_must_be_known(runner: Runner, approval: str) -> None:
    assert "github-token is empty" in runner.run(**{**OWN, "approval": approval}).said("error")[0]
    runner.variables["GITHUB_REPOSITORY"] = ""
    ran = runner.run(**{**OWN, "approval": approval}, github_token="canary-token")
    assert ran.code == 2
    assert "GITHUB_REPOSITORY is not set" in ran.said("error")[0]


def test_it_is_a_process_as_the_container_starts_it(runner: Runner) -> None:
    environment = runner.environment(**OWN, components_file="nowhere.yaml")
    source = str(Path(__file__).parents[2])
    start = f"import sys; sys.path.insert(0, {source!r}); from ci_automation.__main__ import main; main()"
    command = [sys.executable, "-I", "-u", "-c", start, "action"]
    done = subprocess.run(command, env=environment, cwd=runner.workspace, capture_output=True, text=True, check=False)
    ran = runner.ran(done.returncode, done.stdout, done.stderr)
    assert (ran.code, ran.errors) == (2, ""), ran
    assert [each.name for each in commands(done.stdout)] == ["error"]
    hint = "It has flux-system/gotk-components.yaml. Name it with the input components-file"
    assert ran.said("error")[0].splitlines()[1].startswith(hint)
