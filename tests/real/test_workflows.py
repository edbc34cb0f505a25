"""The workflows: clean for actionlint and zizmor, narrow in what they may, and true to the action that they use."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from ci_automation.action.workflow_commands import OUTPUTS
from ci_automation.approval.dispatch import EventType
from ci_automation.approval.port import ApprovalRequest
from ci_automation.artifact.reference import Digest, Reference
from ci_automation.cli.options import ACTION_NAMES, INPUTS, OPERATION_NAMES
from ci_automation.config.model import ApprovalConfig
from ci_automation.flux.version import Version
from tests.real.peers import peer
from tests.real.processes import run
from tests.unit.docs.documents import notifying

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Node = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
CALLED = [ROOT / ".github/workflows" / f"{name}.yaml" for name in ("update", "approve", "fleet", "operate")]
OWN = [ROOT / ".github/workflows" / f"{name}.yaml" for name in ("ci", "release")]
COPIED = sorted((ROOT / "workflows").rglob("*.yaml"))
KEYLESS = [ROOT / "workflows" / f"{name}.yaml" for name in ("flux", "fleet", "flux-by-dispatch", "requested")]
OPERATING = [*KEYLESS, CALLED[3]]
PREVIEW = ROOT / "workflows/preview.yaml"
USERS = [*CALLED, *COPIED]
ALL = [*USERS, *OWN]
ACTION = "acme/ci-automation"
PIN = re.compile(rf"{ACTION}[^ @]*@([0-9a-f]{{40}})")
PUBLISHING = {"update", "apply", "approve"}
SIGNS_AS_ITSELF = {"schedule", "workflow_dispatch", "push", "repository_dispatch"}
# What a job may write to, and nothing else: the registry, what asks, and the proof of who signs.
GRANTS = {
    "actions": {"read", "write"},
    "contents": {"read", "write"},
    "id-token": {"write"},
    "issues": {"write"},
    "packages": {"read", "write"},
    "pull-requests": {"read", "write"},
}


def named(path: Path) -> str:
    """Return what a file is called in the output of the tests."""
    return str(path.relative_to(ROOT))


each = pytest.mark.parametrize("path", ALL, ids=named)
each_of_users = pytest.mark.parametrize("path", USERS, ids=named)
each_called = pytest.mark.parametrize("path", CALLED, ids=named)


def workflow(path: Path) -> Node:
    """Return a workflow; YAML 1.1 takes its `on` for a boolean."""
    read: dict[Any, Any] = yaml.safe_load(path.read_text())
    return {"on" if key is True else str(key): value for key, value in read.items()}


def triggers(of: Node) -> Node:
    """Return the events that start a workflow, with what it says of each."""
    return {name: value or {} for name, value in of["on"].items()}


def jobs(path: Path) -> Iterator[tuple[str, Node]]:
    """Yield the jobs of a workflow by their names."""
    yield from workflow(path)["jobs"].items()


def steps(path: Path) -> Iterator[tuple[str, Node, Node]]:
    """Yield the steps of a workflow, each with its job and that job's name."""
    for name, job in jobs(path):
        for step in job.get("steps", ()):
            yield name, job, step


def command_of(job: Node) -> str:
    """Return the command of the action that a job runs, or of the workflow that it calls; nothing if neither."""
    if "uses" in job:
        return Path(job["uses"].partition("@")[0]).stem
    for step in job["steps"]:
        if str(step.get("uses", "")).startswith(f"{ACTION}@"):
            return str(step.get("with", {}).get("command", "update"))
    return ""


@pytest.fixture
def guides(tmp_path: Path) -> list[Path]:
    """Return the workflows that the guide to notifications makes, as files."""
    folder = tmp_path / ".github/workflows"
    folder.mkdir(parents=True)
    for name, text in notifying().items():
        (folder / f"{name}.yaml").write_text(text)
    return sorted(folder.iterdir())


class TestLints:
    def test_actionlint_finds_nothing(self, guides: list[Path]) -> None:
        assert run([peer("actionlint"), "-no-color", "-shellcheck=", "-pyflakes=", *ALL, *guides]) == ""

    def test_zizmor_finds_nothing_even_when_it_is_pedantic(self, guides: list[Path]) -> None:
        arguments = ["--offline", "--pedantic", "--no-progress", "--no-exit-codes", "--format=plain"]
        done = subprocess.run(
            [peer("zizmor"), *arguments, *ALL, *guides, ROOT / "action.yml", ROOT / ".github/dependabot.yml"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert "No findings to report" in done.stdout, done.stdout

    def test_zizmor_would_find_something(self, tmp_path: Path) -> None:
        bad = tmp_path / ".github/workflows/bad.yaml"
        bad.parent.mkdir(parents=True)
        bad.write_text(CALLED[0].read_text().replace("permissions: {}", "permissions: write-all"))
        done = subprocess.run(
            [peer("zizmor"), "--offline", "--pedantic", "--no-progress", "--format=plain", bad],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode
        assert "excessive-permissions" in done.stdout


class TestRights:
    @each
    def test_a_workflow_has_none_and_each_job_says_its_own(self, path: Path) -> None:
        assert workflow(path)["permissions"] == {}
        for name, job in jobs(path):
            assert isinstance(job.get("permissions"), dict), f"{name} of {named(path)}"

    @each
    def test_each_right_has_its_reason_beside_it(self, path: Path) -> None:
        rights = re.findall(r"^ +(?:[a-z-]+): (?:read|write)\b.*$", path.read_text(), re.MULTILINE)
        assert rights
        assert [line for line in rights if not re.search(r" # \S", line)] == []

    @each_of_users
    def test_nothing_may_more_than_publish_and_ask(self, path: Path) -> None:
        for _, job in jobs(path):
            assert {
                name: right for name, right in job["permissions"].items() if right not in GRANTS.get(name, ())
            } == {}

    @pytest.mark.parametrize("path", COPIED, ids=named)
    def test_a_caller_grants_exactly_what_the_called_workflow_asks_for(self, path: Path) -> None:
        for _, job in jobs(path):
            if "uses" not in job:
                continue
            wanted: dict[str, str] = {}
            for _, inner in jobs(ROOT / job["uses"].partition("@")[0].removeprefix(f"{ACTION}/")):
                for right, level in inner["permissions"].items():
                    wanted[right] = max(level, wanted.get(right, "read"))  # "write" comes after "read"
            assert job["permissions"] == wanted

    @each_of_users
    def test_nobody_elses_code_runs_with_secrets(self, path: Path) -> None:
        of_others = {"pull_request", "pull_request_target", "workflow_run", "issue_comment"} & {
            *triggers(workflow(path))
        }
        assert of_others == ({"pull_request"} if path == PREVIEW else set())

    def test_a_preview_reads_in_one_job_and_writes_in_another_that_reads_nothing(self) -> None:
        text, read = PREVIEW.read_text(), workflow(PREVIEW)
        assert triggers(read) == {"pull_request": {}}
        look, comment = (read["jobs"][name] for name in ("look", "comment"))
        assert [*read["jobs"]] == ["look", "comment"]
        assert look["permissions"] == {"contents": "read", "packages": "read"}
        assert comment["permissions"] == {"pull-requests": "write"}
        assert "github.event.pull_request.head.repo.full_name == github.repository" in comment["if"]
        assert [command_of(job) for job in (look, comment)] == ["preview", "comment"]
        assert all(len(job["steps"]) == 1 for job in (look, comment))  # no checkout, no cache, no artifact
        assert comment["steps"][0]["with"] == {"command": "comment", "text": "${{ needs.look.outputs.preview }}"}
        assert not re.search(r"secrets\.|id-token|actions/|environment|run:", text)

    @pytest.mark.parametrize("path", COPIED, ids=named)
    def test_a_workflow_that_signs_as_itself_is_started_by_nobody_else(self, path: Path) -> None:
        read = workflow(path)
        if all("id-token" not in job.get("permissions", {}) for _, job in jobs(path)):
            return
        assert set(triggers(read)) <= SIGNS_AS_ITSELF
        if "push" in triggers(read):
            assert triggers(read)["push"]["branches"] == ["main"]

    @each
    def test_secrets_are_passed_by_name(self, path: Path) -> None:
        assert all(isinstance(job.get("secrets", {}), dict) for _, job in jobs(path))

    @each
    def test_the_checkout_leaves_no_token_behind(self, path: Path) -> None:
        for _, _, step in steps(path):
            if str(step.get("uses", "")).startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False

    @each
    def test_no_text_of_others_becomes_a_part_of_a_script(self, path: Path) -> None:
        assert [step["run"] for _, _, step in steps(path) if "${{" in step.get("run", "")] == []

    def test_the_checks_of_this_repository_run_for_forks_without_any_secret(self) -> None:
        ci = workflow(OWN[0])
        assert all(job["permissions"] == {"contents": "read"} for job in ci["jobs"].values())
        assert "secrets." not in OWN[0].read_text()

    def test_a_release_reads_no_cache(self) -> None:
        assert not re.search(r"actions/cache|cache-from|cache:", OWN[1].read_text())
        assert all("environment" in job for name, job in jobs(OWN[1]) if name != "test")


class TestPins:
    @each
    def test_what_is_used_is_named_by_a_commit(self, path: Path) -> None:
        used = [step["uses"] for _, _, step in steps(path) if "uses" in step]
        used += [job["uses"] for _, job in jobs(path) if "uses" in job]
        assert used
        assert [each for each in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", each)] == []

    @each_of_users
    def test_a_user_needs_nothing_but_the_checkout_and_this_action(self, path: Path) -> None:
        used = {step["uses"].partition("@")[0] for _, _, step in steps(path) if "uses" in step}
        assert used <= {"actions/checkout", ACTION}

    @each_of_users
    def test_the_action_is_pinned_to_a_commit_of_this_repository_everywhere_the_same(self, path: Path) -> None:
        (pin,) = set(PIN.findall(path.read_text()))
        alike = CALLED[0] if path in CALLED else ROOT / "workflows/flux.yaml"
        assert {pin} == set(PIN.findall(alike.read_text()))
        if run(["git", "-C", ROOT, "rev-parse", "--is-shallow-repository"]).strip() == "false":
            run(["git", "-C", ROOT, "merge-base", "--is-ancestor", pin, "HEAD"])

    def test_what_a_user_names_leads_to_the_action(self) -> None:
        if run(["git", "-C", ROOT, "rev-parse", "--is-shallow-repository"]).strip() == "true":
            pytest.skip("the history is not here")

        def at(commit: str, path: str) -> str:
            return run(["git", "-C", ROOT, "show", f"{commit}:{path}"])

        (pin,) = set(PIN.findall((ROOT / "workflows/flux.yaml").read_text()))
        listed = at(pin, ".github/workflows")
        for path in (it for it in CALLED if it.name in listed):  # one that is newer comes with the next pin
            (inner,) = set(PIN.findall(at(pin, named(path))))
            for commit in (pin, inner):
                assert yaml.safe_load(at(commit, "action.yml"))["runs"]["using"] == "docker"


class TestConcurrency:
    @each_of_users
    def test_one_publication_at_a_time_and_none_is_cancelled(self, path: Path) -> None:
        assert "concurrency" not in workflow(path)
        for name, job in jobs(path):
            if command_of(job) in PUBLISHING and "uses" not in job:
                group = job["concurrency"]
                assert group["group"].startswith("flux-manifests"), name
                assert group["cancel-in-progress"] is False

    @each_of_users
    def test_what_waits_for_a_person_or_only_reads_holds_no_group(self, path: Path) -> None:
        for name, job in jobs(path):
            if name in {"gate", "list", "show"} or "uses" in job:
                assert "concurrency" not in job, name

    def test_each_way_to_publish_an_artifact_is_in_the_same_group(self) -> None:
        def groups(*paths: Path) -> set[str]:
            found = [
                job["concurrency"]["group"] for path in paths for _, job in jobs(path) if command_of(job) in PUBLISHING
            ]
            return {re.sub(r"(inputs|matrix)\.artifact", "artifact", group) for group in found}

        assert groups(*CALLED, ROOT / "workflows/fleet.yaml") == {"flux-manifests-${{ artifact }}"}
        single = ("flux", "flux-by-dispatch", "approve", "requested")
        assert groups(*(ROOT / f"workflows/{name}.yaml" for name in single)) == {"flux-manifests"}

    @pytest.mark.parametrize("path", [CALLED[1], ROOT / "workflows/approve.yaml"], ids=named)
    def test_an_approval_is_waited_for_in_a_job_that_can_do_nothing(self, path: Path) -> None:
        parts = dict(jobs(path))
        assert parts["gate"]["permissions"] == {}
        assert "uses" not in str(parts["gate"]["steps"])
        assert "secrets" not in str(parts["gate"])
        assert parts["publish"]["needs"] == ["show", "gate"]
        assert set(parts["show"]["permissions"].values()) == {"read"}
        assert {"environment", "concurrency"}.isdisjoint(parts["show"])
        assert "secrets." not in str(parts["show"])
        assert parts["gate"].get("if", "") == ("" if path in CALLED else "needs.show.outputs.shown != ''")
        assert "if" not in parts["publish"]

    @pytest.mark.parametrize("path", OPERATING, ids=named)
    def test_what_a_person_dispatches_is_shown_without_rights_and_done_after_the_gate(self, path: Path) -> None:
        parts = dict(jobs(path))
        assert set(parts["show"]["permissions"].values()) == {"read"}
        assert parts["gate"]["permissions"] == {}
        asked = workflow(CALLED[3])["on"]["workflow_call"]["inputs"]["gate"]["default"] if path in CALLED else None
        assert parts["gate"]["environment"] == ("${{ inputs.gate }}" if asked else ApprovalConfig().environment)
        assert asked in {None, ApprovalConfig().environment}
        assert parts["do"]["needs"] == ["show", "gate"]
        assert "if" not in parts["do"]
        assert parts["do"].get("environment") != ApprovalConfig().environment
        assert path in CALLED or "inputs." not in parts["do"].get("environment", "")
        assert {"environment", "concurrency"}.isdisjoint(parts["show"])
        assert "secrets." not in str(parts["show"]) + str(parts["gate"])
        assert "github.run_id" in parts["do"]["concurrency"]["group"]  # GitHub never drops it
        assert "always()" not in path.read_text()

    @pytest.mark.parametrize("path", OPERATING, ids=named)
    def test_what_is_shown_and_what_is_done_have_the_same_inputs(self, path: Path) -> None:
        shown, done = ({**step["with"]} for name, _, step in steps(path) if name in {"show", "do"} and "with" in step
                       and "command" in step["with"])  # fmt: skip
        assert (shown.pop("command"), done.pop("command")) == ("show", "do")
        assert done.pop("shown") == "${{ needs.show.outputs.shown }}"
        assert shown == {name: value for name, value in done.items() if name in shown}
        secret = {"key", "registry-username", "registry-password", "docker-config", "provider"}
        assert set(done) - set(shown) <= secret
        known = {"config", "identity-regexp", "issuer", "accept-shared-subject"}
        given = {value for name, value in shown.items() if name not in known}
        if path in CALLED:
            assert given == {f"${{{{ inputs.{name} }}}}" for name in ("operation", "artifact", "to", "reason", "code")}
            return
        asked = triggers(workflow(path))["workflow_dispatch"]["inputs"]
        assert {f"${{{{ inputs.{name} }}}}" for name in asked} == given
        assert set(asked["command"]["options"]) == {"update", *OPERATION_NAMES}

    @pytest.mark.parametrize("name", ["flux.yaml", "fleet.yaml"])
    def test_a_caller_with_a_key_hands_on_what_a_person_dispatches(self, name: str) -> None:
        read = workflow(ROOT / "workflows/with-key" / name)
        asked, operate = triggers(read)["workflow_dispatch"]["inputs"], read["jobs"]["operate"]
        assert asked == triggers(workflow(KEYLESS[0]))["workflow_dispatch"]["inputs"]
        given = {key: value for key, value in operate["with"].items() if "inputs." in value}
        assert given == {each: f"${{{{ inputs.{each} }}}}" for each in ("artifact", "to", "reason", "code")} | {
            "operation": "${{ inputs.command }}"
        }

    def test_the_three_jobs_are_the_same_in_each_keyless_workflow(self) -> None:
        wanted = dict(jobs(KEYLESS[0]))
        own = {"identity-regexp", "issuer", "registry-username", "registry-password"}
        for path in KEYLESS[1:]:
            found = dict(jobs(path))
            for name in ("show", "gate", "do"):
                kept = {**found[name], "steps": [*found[name]["steps"]]}
                if name == "do":
                    kept.pop("environment", None)
                last = kept["steps"][-1]
                given = {key: value for key, value in last.get("with", {}).items() if key not in own}
                if path.stem == "flux-by-dispatch" and given:  # its environment needs reviewers, so no code counts
                    given["code"] = "${{ inputs.code }}"
                kept["steps"][-1] = {**last, **({"with": given} if given else {})}
                assert kept == wanted[name], f"{name} of {named(path)}"

    def test_the_jobs_of_a_fleet_have_the_secrets_of_their_own_artifact_alone(self) -> None:
        for path in (CALLED[2], ROOT / "workflows/fleet.yaml"):
            update = dict(jobs(path))["update"]
            assert "matrix.name" in update["environment"]
            assert update["steps"][-1]["with"]["artifact"] == "${{ matrix.artifact }}"
            assert update["strategy"]["fail-fast"] is False


class TestWhatTheyGiveToTheAction:
    @each_of_users
    def test_each_value_is_an_input_of_it(self, path: Path) -> None:
        known = {each.name: each for each in INPUTS}
        for _, _, step in steps(path):
            if not str(step.get("uses", "")).startswith(f"{ACTION}@"):
                continue
            given: Mapping[str, object] = step.get("with", {})
            assert set(given) <= set(known)
            assert given.get("command", "update") in ACTION_NAMES
            for name, value in given.items():
                if (choices := known[name].choices) and value and "${{" not in str(value):
                    assert value in choices, name

    @each_of_users
    def test_each_output_that_is_read_is_one_of_it(self, path: Path) -> None:
        read = set(re.findall(r"steps\.\w+\.outputs\.([\w-]+)", path.read_text()))
        assert read <= {each.name for each in OUTPUTS}

    @pytest.mark.parametrize("path", COPIED, ids=named)
    def test_what_a_caller_gives_a_workflow_is_an_input_of_that(self, path: Path) -> None:
        for _, job in jobs(path):
            if "uses" in job:
                called = triggers(workflow(ROOT / job["uses"].partition("@")[0].removeprefix(f"{ACTION}/")))
                wanted = called["workflow_call"]["inputs"]
                assert set(job["with"]) <= set(wanted)
                assert {name for name, each in wanted.items() if each.get("required")} <= set(job["with"])
                assert set(job["secrets"]) <= set(called["workflow_call"]["secrets"])

    @each_called
    def test_an_input_means_the_same_in_all_of_them(self, path: Path) -> None:
        ours = triggers(workflow(path))["workflow_call"]["inputs"]
        known = triggers(workflow(CALLED[0]))["workflow_call"]["inputs"]
        assert {name: each for name, each in ours.items() if name in known and known[name] != each} == {}

    @each_called
    def test_every_input_and_secret_is_used(self, path: Path) -> None:
        text = path.read_text()
        call = triggers(workflow(path))["workflow_call"]
        assert [name for name in call["inputs"] if not re.search(rf"inputs\.{name}\b(?!-)", text)] == []
        assert [name for name in call["secrets"] if f"secrets.{name} " not in text] == []

    @each_called
    def test_they_sign_keyless_only_where_the_shared_subject_is_accepted(self, path: Path) -> None:
        call = triggers(workflow(path))["workflow_call"]["inputs"]
        assert call["accept-shared-subject"]["default"] is False
        assert call["key"]["default"] == ""  # the configuration's, which an input would outweigh
        for _, job, step in steps(path):
            if command_of(job) in PUBLISHING and str(step.get("uses", "")).startswith(f"{ACTION}@"):
                assert step["with"]["key"] == "${{ !inputs.accept-shared-subject && inputs.key || '' }}"

    @pytest.mark.parametrize("path", ["workflows/approve.yaml", "workflows/with-key/approve.yaml"])
    def test_the_run_that_asks_is_started_with_what_it_takes_and_found_by_its_title(self, path: str) -> None:
        channel = Reference.parse("oci://ghcr.io/acme/flux-manifests:production")
        request = ApprovalRequest(channel, Version.parse("2.9.4"), Digest.of(b"base"), Digest.of(b"target"))
        given, approve = request.texts, workflow(ROOT / path)
        assert set(triggers(approve)["workflow_dispatch"]["inputs"]) == set(given)
        title = re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda match: given[match[1]], approve["run-name"])
        assert title == f"Approve {request.artifact} {request.version} ({request.key})"

    def test_the_environment_that_waits_is_the_one_that_is_judged(self) -> None:
        wanted = ApprovalConfig()
        assert wanted.workflow == "approve.yaml"
        assert dict(jobs(ROOT / "workflows/approve.yaml"))["gate"]["environment"] == wanted.environment
        assert triggers(workflow(CALLED[1]))["workflow_call"]["inputs"]["gate"]["default"] == wanted.environment

    @pytest.mark.parametrize(
        ("path", "event"),
        [
            pytest.param("workflows/requested.yaml", EventType.UPDATE_REQUESTED, id="an update is wanted"),
            pytest.param("workflows/consumers.yaml", EventType.PUBLISHED, id="one was published"),
        ],
    )
    def test_an_event_of_another_repository_starts_a_run_and_says_nothing_to_it(
        self, path: str, event: EventType
    ) -> None:
        received = workflow(ROOT / path)
        assert triggers(received)["repository_dispatch"] == {"types": [str(event)]}
        assert "github.event.client_payload.key" in received["run-name"]
        assert "client_payload" not in str(received["jobs"])


class TestTheMarketplace:
    """What GitHub asks of an action that it lists ("Metadata syntax", "Publishing actions in GitHub Marketplace")."""

    @pytest.fixture
    def metadata(self) -> Node:
        read: Node = yaml.safe_load((ROOT / "action.yml").read_text())
        return read

    def test_has_a_name_an_author_and_a_short_description(self, metadata: Node) -> None:
        assert metadata["name"]
        assert metadata["author"]
        assert 0 < len(metadata["description"]) <= 125

    def test_has_a_color_and_an_icon_that_it_knows(self, metadata: Node) -> None:
        colors = {"white", "black", "yellow", "blue", "green", "orange", "red", "purple", "gray-dark"}
        assert metadata["branding"]["color"] in colors
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", metadata["branding"]["icon"])


def test_the_messages_of_the_guide_say_what_happened_and_survive_any_value(guides: list[Path], tmp_path: Path) -> None:
    """The scripts of the guide, with a `curl` that keeps what it would send."""
    curl = tmp_path / "curl"
    curl.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > sent\n')
    curl.chmod(0o755)
    odd = '"$(touch hit)" `touch hit` \\ {"x": 1}'
    values = {"RESULT": "failure", "CHANGED": "true", "VERSION": "v2.9.4", "DIGEST": odd, "APPROVAL": "", "RUN": "url"}
    values |= {"WEBHOOK": "https://hook", "SERVER": "smtps://mail", "LOGIN": "a:b", "SENDER": "f@x", "RECIPIENT": "t@x"}
    lines = ["The run failed.", f"Published Flux v2.9.4: {odd}", "url"]
    for path in guides:
        for step in workflow(path)["jobs"]["notify"]["steps"]:
            environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"} | dict.fromkeys(step["env"], "") | values
            subprocess.run(["bash", "-e", "-c", step["run"]], cwd=tmp_path, env=environment, check=True)
        sent = (tmp_path / "sent").read_text().splitlines()
        assert sent[-1] == ("smtps://mail" if path.stem == "mail" else "https://hook")
        assert not (tmp_path / "hit").exists()
        if path.stem == "slack":
            assert json.loads((tmp_path / "body.json").read_text()) == {"text": "\n".join([*lines, ""])}
    cards, text = json.loads((tmp_path / "body.json").read_text()), (tmp_path / "mail.txt").read_text()
    assert [block["text"] for block in cards["attachments"][0]["content"]["body"]] == lines
    assert text.startswith("From: f@x\nTo: t@x\nDate: ")
    assert text.endswith("Subject: The run failed.\n\n" + "\n".join([*lines, ""]))


def test_a_release_names_the_image_by_digest_and_itself_by_a_commit(tmp_path: Path) -> None:
    """The script of release.yaml, on a copy of this repository."""
    for part in (".github", "workflows", "docs", "README.md", "action.yml"):
        (shutil.copytree if (ROOT / part).is_dir() else shutil.copyfile)(ROOT / part, tmp_path / part)

    def git(*arguments: str) -> str:
        who = ["-c", "user.name=tests", "-c", "user.email=tests@example.com"]
        return run(["git", "-C", tmp_path, *who, *arguments]).strip()

    git("init", "--quiet")
    git("add", "--all")
    git("commit", "--quiet", "--message", "the sources")
    released = git("rev-parse", "HEAD")
    digests = {"v1.2.3": f"sha256:{'a' * 64}", "v1.2.3-kms": f"sha256:{'b' * 64}"}
    (script,) = (step["run"] for _, _, step in steps(OWN[1]) if step.get("name") == "Write the digests and the pins")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "GITHUB_SHA": released,
        "IMAGE": "ghcr.io/acme/ci-automation",
        "VERSION": "v1.2.3",
        "RUNTIME": digests["v1.2.3"],
        "KMS": digests["v1.2.3-kms"],
    }
    subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, env=environment, check=True, capture_output=True)
    for tag, digest in digests.items():
        first, second = git("rev-parse", f"{tag}^^"), git("rev-parse", f"{tag}^")
        assert git("rev-parse", f"{first}^") == released
        assert git("diff", "--name-only", released, first) == "action.yml"
        image = yaml.safe_load(git("show", f"{tag}:action.yml"))["runs"]["image"]
        assert image == f"docker://ghcr.io/acme/ci-automation@{digest}"
        for path in USERS:
            pins = re.findall(rf"{ACTION}[^ @]*@([0-9a-f]{{40}}) # (\S+)", git("show", f"{tag}:{named(path)}"))
            assert set(pins) == {(first if path in CALLED else second, tag)}
        assert {named(path) for path in CALLED} <= set(git("diff", "--name-only", first, second).splitlines())
