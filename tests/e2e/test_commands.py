"""The user's story on an image layout: each command does what its help says, and its JSON has what is written here."""

from __future__ import annotations

import json
import shlex
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from ci_automation.artifact.digest import Digest
from tests.e2e.desk import CHANNEL, SIGNED, TRUSTED, digests, packed
from tests.fakes.releases import SampleRelease, write_releases
from tests.fakes.world import OVERLAY, key_pem, sample, signing_key

if TYPE_CHECKING:
    from pathlib import Path

    from ci_automation.artifact.tree import Tree
    from tests.e2e.desk import Desk

UPDATE = ("update", CHANNEL, *SIGNED)
COMPONENTS = "flux-system/gotk-components.yaml"
STEP_KEYS = {
    *("from", "to", "kind", "base", "target", "decision", "reasons"),
    *("options", "overlay", "release", "proof", "changes"),
}
RESULT_KEYS = {
    *("name", "artifact", "exitCode", "changed", "version", "digest", "signature", "published", "waiting", "plan"),
}


def write_tree(desk: Desk, folder: str, tree: Tree) -> str:
    for file in tree.files:
        desk.write(f"{folder}/{file.path}", file.content)
        (desk.folder / folder / file.path).chmod(file.mode)
    return folder


def approved(plan: dict[str, Any], number: int = -1) -> tuple[str, str]:
    return "--approve", plan["steps"][number]["target"]


def test_the_whole_story(desk: Desk) -> None:
    overlay = write_tree(desk, "overlay", OVERLAY)
    extra = ("--components-extra", "image-reflector-controller")
    ran = desk.ok("init", CHANNEL, "--flux-version", "v2.98.5", "--overlay", overlay, *extra, *SIGNED)
    assert ran.out.startswith(f"{CHANNEL} published: Flux v2.98.5, sha256:")

    ran = desk.ok("check", CHANNEL, *TRUSTED)
    assert "can be published" in ran.out and "v2.98.8" in ran.out
    assert "waits for approval" in ran.out and "v2.99.4" in ran.out and "a minor release needs approval" in ran.out

    plan = desk.plan()
    assert [(step["from"], step["to"], step["decision"]) for step in plan["steps"]] == [
        ("v2.98.5", "v2.98.8", "auto"),
        ("v2.98.8", "v2.99.4", "approval"),
    ]
    assert plan["steps"][1]["base"] == plan["steps"][0]["target"]

    ran = desk.ok(*UPDATE)
    assert f"published           v2.98.8  {plan['steps'][0]['target']}" in ran.out
    assert f"waits for approval  v2.99.4  {plan['steps'][1]['target']}" in ran.out
    assert "image   source-controller: ghcr.io/fluxcd/source-controller:v1.98.5 -> " in ran.out

    assert desk.run("apply", "plan.json", *SIGNED).code == 11
    ran = desk.ok("apply", "plan.json", *approved(plan), *SIGNED)
    assert f"published  v2.99.4  {plan['steps'][1]['target']}" in " ".join(ran.out.split(" " * 3)).replace("   ", "  ")

    ran = desk.ok("verify", CHANNEL, *TRUSTED)
    assert ran.out.startswith(f"{CHANNEL} is signed: Flux v2.99.4, {plan['steps'][1]['target']}")

    desk.ok("pull", CHANNEL, "out", *TRUSTED)
    pulled = desk.files("out")
    flags = ("--flux-version", "v2.99.4", *extra)
    assert pulled.pop(COMPONENTS).decode() == desk.ok("render", *flags).out
    assert pulled == {file.path: file.content for file in OVERLAY.files}
    assert (desk.folder / "out" / "hooks" / "after.sh").stat().st_mode & 0o777 == 0o755

    ran = desk.ok("history", CHANNEL, *TRUSTED)
    rows = [line.split() for line in ran.out.splitlines()]
    assert [row[0] for row in rows] == ["version", "v2.99.4", "v2.98.8", "v2.98.5"]
    assert all(row[3:5] == ["key", signing_key().public.fingerprint.short] for row in rows[1:])
    assert [row[5:] for row in rows[1:]] == [["production"], [], []]

    before = desk.state()
    ran = desk.ok(*UPDATE, "--exit-code")
    assert "Nothing to do." in ran.out
    assert desk.state() == before


def test_a_plan_writes_nothing_but_its_file_and_is_the_same_each_time(desk: Desk) -> None:
    desk.init()
    before = desk.state()
    plan = desk.plan()
    assert desk.plan() == plan
    (desk.folder / "plan.json").unlink()
    assert desk.state() == before
    ran = desk.ok("plan", CHANNEL, "--out", "plan.json", *TRUSTED)
    assert ran.out.endswith(f"The plan is in plan.json, its digest is {plan['digest']}.\n")


def test_a_second_update_does_nothing(desk: Desk) -> None:
    desk.init()
    desk.ok(*UPDATE)
    before = desk.state()
    ran = desk.ok(*UPDATE, "--output", "json")
    assert ran.json["changed"] is False and ran.json["published"] == []
    assert desk.state() == before


@pytest.mark.parametrize("command", [("check", CHANNEL), ("plan", CHANNEL), UPDATE], ids=lambda it: it[0])
def test_exit_code_3_is_for_what_waits_and_only_when_asked_for(desk: Desk, command: tuple[str, ...]) -> None:
    desk.init(version="v2.98.8")
    assert desk.run(*command).code == 0
    assert desk.run(*command, "--exit-code").code == 3


def test_exit_code_0_where_nothing_waits(desk: Desk) -> None:
    desk.init(version="v2.99.4")
    assert desk.run("check", CHANNEL, "--exit-code").code == 0


class TestInit:
    def test_twice_is_fine_and_writes_nothing(self, desk: Desk) -> None:
        digest = desk.init()
        before = desk.state()
        ran = desk.ok("init", CHANNEL, "--flux-version", "v2.98.5", *SIGNED)
        assert ran.out == f"{CHANNEL} is there already, with exactly this content: Flux v2.98.5, {digest}\n"
        assert desk.state() == before

    @pytest.mark.parametrize("other", [("--flux-version", "v2.98.8"), ("--flux-version", "v2.98.5", "--log-level", "debug")])
    def test_on_other_content_is_a_conflict(self, desk: Desk, other: tuple[str, ...]) -> None:
        digest = desk.init()
        before = desk.state()
        ran = desk.run("init", CHANNEL, *other, *SIGNED, "--output", "json")
        assert (ran.code, ran.error["code"]) == (12, "channel-exists")
        assert digest in ran.error["message"]
        assert desk.state() == before

    def test_of_the_same_content_signed_by_somebody_else_is_refused(self, desk: Desk) -> None:
        desk.init()
        desk.write("other.key", key_pem("theirs"))
        ran = desk.run("init", CHANNEL, "--flux-version", "v2.98.5", "--signing", "key", "--key", "other.key")
        assert (ran.code, "foreign-signature" in ran.err) == (10, True)

    def test_without_a_key_publishes_nothing(self, desk: Desk) -> None:
        ran = desk.run("init", CHANNEL, "--flux-version", "v2.98.5")
        assert (ran.code, "no-signing-key" in ran.err) == (22, True)
        assert not (desk.folder / "registry").exists()


class TestApply:
    def test_without_approval_is_refused_and_says_how(self, desk: Desk) -> None:
        desk.init(version="v2.98.8")
        plan = desk.plan()
        before = desk.state()
        ran = desk.run("apply", "plan.json", *SIGNED)
        assert ran.code == 11
        assert f"adds --approve {plan['steps'][0]['target']}" in ran.err
        assert desk.state() == before

    def test_with_another_digest_is_refused(self, desk: Desk) -> None:
        desk.init(version="v2.98.8")
        desk.plan()
        before = desk.state()
        ran = desk.run("apply", "plan.json", "--approve", f"sha256:{'0' * 64}", *SIGNED)
        assert (ran.code, "no-such-step" in ran.err) == (11, True)
        assert desk.state() == before

    def test_an_approval_of_the_base_is_none_of_the_target(self, desk: Desk) -> None:
        base = desk.init(version="v2.98.8")
        desk.plan()
        assert desk.run("apply", "plan.json", "--approve", base, *SIGNED).code == 11

    def test_does_what_is_automatic_and_stops_where_approval_is_missing(self, desk: Desk) -> None:
        desk.init()
        plan = desk.plan()
        ran = desk.ok("apply", "plan.json", *SIGNED, "--output", "json")
        assert [step["to"] for step in ran.json["published"]] == ["v2.98.8"]
        assert [step["target"] for step in ran.json["waiting"]] == [plan["steps"][1]["target"]]
        assert desk.run("apply", "plan.json", *SIGNED, "--exit-code").code == 11

    def test_on_a_channel_that_moved_is_a_conflict(self, desk: Desk) -> None:
        desk.init()
        plan = desk.plan()
        shutil.rmtree(desk.folder / "registry")
        desk.init("--log-level", "debug")
        before = desk.state()
        ran = desk.run("apply", "plan.json", *approved(plan), *SIGNED)
        assert (ran.code, "plan-outdated" in ran.err) == (12, True)
        assert desk.state() == before

    def test_twice_is_fine(self, desk: Desk) -> None:
        desk.init()
        plan = desk.plan()
        desk.ok("apply", "plan.json", *approved(plan), *SIGNED)
        before = desk.state()
        desk.ok("apply", "plan.json", *approved(plan), *SIGNED)
        assert desk.state() == before

    def test_of_a_release_that_changed_since_is_a_conflict(self, desk: Desk) -> None:
        write_releases(desk.folder / "own", [ours("v2.98.1"), ours("v2.98.2")])
        unproven = ("--releases", "own", "--unsafe-unproven-rendering")
        desk.init(*unproven, version="v2.98.1")
        desk.plan(*unproven)
        write_releases(desk.folder / "own", [ours("v2.98.1"), ours("v2.98.2", like="v2.99.4")])
        before = desk.state()
        ran = desk.run("apply", "plan.json", *SIGNED, *unproven)
        assert (ran.code, "target-differs" in ran.err) == (12, True)
        assert desk.state() == before


def ours(tag: str, like: str = "v2.98.5") -> SampleRelease:
    files = {file.path: file.content.decode() for file in sample(like).bundle.files}
    return SampleRelease(tag, published_at="2020-01-01T00:00:00Z", files=files)


class TestContent:
    """Changes of overlay and options wait for approval at any step, also at none."""

    def test_an_overlay_waits_and_then_has_exactly_these_files(self, desk: Desk) -> None:
        desk.init("--overlay", write_tree(desk, "old", OVERLAY), version="v2.99.4")
        desk.write("new/kustomization.yaml", "resources: []\n")
        desk.write("new/.gitignore", "x")
        new = ("--overlay", "new")
        ran = desk.run(*UPDATE, *new, "--exit-code")
        assert ran.code == 3
        assert "the overlay changes: hooks/after.sh, kustomization.yaml, patches/limits.yaml" in ran.out
        plan = desk.plan(*new)
        assert [(step["kind"], step["decision"]) for step in plan["steps"]] == [("content", "approval")]
        desk.ok("apply", "plan.json", *approved(plan), *SIGNED, *new)
        desk.ok("pull", CHANNEL, "out")
        assert set(desk.files("out")) == {COMPONENTS, "kustomization.yaml"}
        assert desk.run(*UPDATE, *new, "--exit-code").code == 0

    def test_an_approved_overlay_is_that_one_and_no_other(self, desk: Desk) -> None:
        desk.init(version="v2.99.4")
        desk.write("new/a.yaml", "a: 1\n")
        plan = desk.plan("--overlay", "new")
        desk.write("new/a.yaml", "a: 2\n")
        for overlay in (("--overlay", "new"), ()):
            ran = desk.run("apply", "plan.json", *approved(plan), *SIGNED, *overlay)
            assert (ran.code, "target-differs" in ran.err) == (12, True)

    def test_flags_wait_and_then_stay(self, desk: Desk) -> None:
        desk.init(version="v2.99.4")
        debug = ("--log-level", "debug")
        ran = desk.run(*UPDATE, *debug, "--exit-code")
        assert (ran.code, "the options change: log-level" in ran.out) == (3, True)
        plan = desk.plan(*debug)
        assert plan["steps"][0]["options"] == {"log-level": "debug"}
        desk.ok("apply", "plan.json", *approved(plan), *SIGNED)
        desk.ok("pull", CHANNEL, "out")
        assert desk.read(f"out/{COMPONENTS}") == desk.ok("render", "--flux-version", "v2.99.4", *debug).out

    def test_a_patch_does_not_wait_for_the_change_beside_it(self, desk: Desk) -> None:
        desk.init()
        plan = desk.plan("--log-level", "debug")
        assert [(step["kind"], step["decision"]) for step in plan["steps"]] == [
            ("patch", "auto"),
            ("content", "approval"),
            ("minor", "approval"),
        ]
        assert [step["options"] for step in plan["steps"]] == [{}, {"log-level": "debug"}, {"log-level": "debug"}]

    def test_a_component_that_would_vanish_is_refused_until_it_is_allowed(self, desk: Desk) -> None:
        desk.init("--components-extra", "source-watcher", version="v2.99.4")
        fewer = ("--components", "source-controller,kustomize-controller,helm-controller,notification-controller")
        before = desk.state()
        ran = desk.ok(*UPDATE, *fewer)
        assert "refused" in ran.out and "Deployment/source-watcher" in ran.out and "--allow-removal" in ran.out
        assert desk.state() == before
        plan = desk.plan(*fewer, "--allow-removal")
        assert "Deployment/source-watcher" in plan["steps"][0]["changes"]["removed"]
        assert plan["steps"][0]["decision"] == "approval"
        assert desk.run("apply", "plan.json", *approved(plan), *SIGNED).code == 11
        desk.ok("apply", "plan.json", *approved(plan), *SIGNED, "--allow-removal")

    def test_an_option_that_left_no_trace_must_be_said_again(self, desk: Desk) -> None:
        domain = ("--cluster-domain", "fleet.example")
        desk.init("--components", "kustomize-controller", *domain)
        before = desk.state()
        ran = desk.run(*UPDATE)
        assert (ran.code, "options-unclear" in ran.err, "--cluster-domain" in ran.err) == (11, True, True)
        assert desk.state() == before
        ran = desk.ok(*UPDATE, *domain, "--output", "json")
        assert ran.json["version"] == "v2.98.8"
        assert ran.json["published"][0]["options"]["cluster-domain"] == "fleet.example"
        plan = desk.plan(*domain)
        desk.ok("apply", "plan.json", *approved(plan), *SIGNED)


CHANGES = {
    "of the log level": ((), ("--log-level", "debug")),
    "with a switch": ((), ("--network-policy=false", "--watch-all-namespaces", "false")),
    "of the overlay": ((), ("--overlay", "over lay")),
    "that removes": (("--components-extra", "source-watcher"), ("--components", "source-controller", "--allow-removal")),
    "of nothing but the version": ((), ()),
}


@pytest.mark.parametrize(("before", "change"), CHANGES.values(), ids=list(CHANGES))
def test_the_commands_that_are_printed_for_approval_work_as_they_are(
    desk: Desk, before: tuple[str, ...], change: tuple[str, ...]
) -> None:
    desk.write("over lay/a.yaml", "a: 1\n")
    desk.init(*before, version="v2.98.8")
    ran = desk.ok(*UPDATE, *change)
    commands = [shlex.split(line) for line in ran.out.partition("To approve:\n")[2].splitlines()]
    assert [command[:2] for command in commands] == [["flux-manifests", "plan"], ["flux-manifests", "apply"]]
    target = commands[1][commands[1].index("--approve") + 1]
    for command in commands:
        desk.ok(*command[1:])
    assert desk.ok("verify", CHANNEL, *TRUSTED, "--output", "json").json["digest"] == target


class TestHandEdits:
    @pytest.fixture
    def edited(self, desk: Desk) -> str:
        desk.init()
        desk.ok("pull", CHANNEL, "out")
        files = desk.files("out")
        files[COMPONENTS] = files[COMPONENTS].replace(b"replicas: 1\n", b"replicas: 3\n", 1)
        shutil.rmtree(desk.folder / "out")
        return str(desk.publish(packed(dict(files))))

    def test_stop_the_run_with_a_diff(self, desk: Desk, edited: str) -> None:
        before = desk.state()
        ran = desk.run(*UPDATE)
        assert ran.code == 11
        assert "\n-  replicas: 1\n+  replicas: 3\n" in ran.err
        assert "--- flux install --export (v2.98.5)" in ran.err
        assert "--accept-edits" in ran.err
        assert "edited-by-hand" in ran.err
        assert desk.state() == before
        assert desk.run("verify", f"layout:registry@{edited}", *TRUSTED).code == 0

    @pytest.mark.usefixtures("edited")
    def test_are_dropped_when_that_is_accepted(self, desk: Desk) -> None:
        ran = desk.ok(*UPDATE, "--accept-edits")
        assert "edits of the components file are dropped" in ran.out
        desk.ok("pull", CHANNEL, "out", *TRUSTED)
        assert desk.read(f"out/{COMPONENTS}") == desk.ok("render", "--flux-version", "v2.98.8").out


class TestUnproven:
    @pytest.fixture(autouse=True)
    def own(self, desk: Desk) -> None:
        write_releases(desk.folder / "own", [ours("v2.98.1"), ours("v2.98.2")])

    def test_rendering_warns(self, desk: Desk) -> None:
        ran = desk.ok("render", "--flux-version", "v2.98.1", "--releases", "own")
        assert ran.err == "warning: nobody has proven that v2.98.1 is rendered as Flux itself does\n"
        assert ran.out.startswith("---\n")
        ran = desk.ok("render", "--flux-version", "v2.98.1", "--releases", "own", "--output", "json")
        assert ran.json["proven"] is False

    def test_init_refuses_and_the_flag_allows(self, desk: Desk) -> None:
        init = ("init", CHANNEL, "--flux-version", "v2.98.1", *SIGNED, "--releases", "own")
        ran = desk.run(*init)
        assert (ran.code, "unproven-rendering" in ran.err) == (10, True)
        assert not (desk.folder / "registry").exists()
        desk.ok(*init, "--unsafe-unproven-rendering")

    def test_update_refuses_and_the_flag_allows(self, desk: Desk) -> None:
        desk.init("--releases", "own", "--unsafe-unproven-rendering", version="v2.98.1")
        before = desk.state()
        update = (*UPDATE, "--releases", "own")
        ran = desk.ok(*update)
        assert "refused" in ran.out and "--unsafe-unproven-rendering takes it anyway" in ran.out
        assert desk.state() == before
        desk.plan("--releases", "own")
        assert desk.run("apply", "plan.json", *SIGNED, "--releases", "own").code == 11
        assert desk.state().keys() - before.keys() == {"plan.json"}
        ran = desk.ok(*update, "--unsafe-unproven-rendering", "--output", "json")
        assert ran.json["published"][0]["proof"] == "none"


class TestAdoption:
    @pytest.mark.parametrize("signing", [("--signing", "unsafe-unsigned"), ("--signing", "key", "--key", "other.key")])
    def test_a_base_that_is_not_ours_is_taken_once_and_what_follows_is_signed(
        self, desk: Desk, signing: tuple[str, ...]
    ) -> None:
        desk.write("other.key", key_pem("theirs"))
        desk.ok("init", CHANNEL, "--flux-version", "v2.98.5", *signing)
        assert desk.run(*UPDATE).code == 10
        ran = desk.ok(*UPDATE, "--adopt", "--output", "json")
        assert ran.json["signature"] == "adopted"
        desk.ok("verify", CHANNEL, *TRUSTED)
        desk.ok(*UPDATE)

    def test_without_a_key_the_signature_is_said_to_be_unchecked(self, desk: Desk) -> None:
        desk.init()
        assert "was not checked" in desk.ok("check", CHANNEL).out
        assert "was not checked" not in desk.ok("check", CHANNEL, *TRUSTED).out
        assert "its signature was not checked" in desk.ok("pull", CHANNEL, "out").out


CONFIG = """\
version: 1
defaults:
  signing: {mode: key, key: cosign.key}
artifacts:
  - {name: production, url: "layout:registry:production"}
  - {name: broken, url: "layout:nowhere:production"}
  - {name: edge, url: "layout:edge:stable", paused: true}
"""


class TestConfiguration:
    @pytest.fixture(autouse=True)
    def configured(self, desk: Desk, releases: Path) -> None:
        desk.patch.delenv("FLUX_RELEASES")
        desk.init("--releases", str(releases))
        signed = (*SIGNED, "--releases", str(releases))
        desk.ok("init", "layout:edge:stable", "--flux-version", "v2.98.5", *signed)
        desk.config(f"source: dir:{releases}\n{CONFIG}")

    def test_all_artifacts_are_updated_and_the_highest_code_wins(self, desk: Desk) -> None:
        ran = desk.run("update", "--output", "json")
        assert ran.code == 20
        assert set(ran.json) == {"exitCode", "artifacts"}
        assert ran.json["exitCode"] == 20
        found = {each["name"]: each for each in ran.json["artifacts"]}
        assert [each["exitCode"] for each in found.values()] == [0, 20, 0]
        assert found["production"]["version"] == "v2.98.8"
        assert set(found["broken"]) == {"name", "artifact", "exitCode", "error"}
        assert found["broken"]["error"]["code"] == "not-found"
        assert (found["edge"]["changed"], found["edge"]["version"]) == (False, "v2.98.5")
        assert {step["decision"] for step in found["edge"]["waiting"]} == {"hold"}

    def test_each_artifact_is_told_for_itself(self, desk: Desk) -> None:
        ran = desk.run("check")
        assert ran.code == 20
        parts = ran.out.split("\n\n")
        names = [part.splitlines()[0].split()[0] for part in (part.strip() for part in parts) if part]
        assert [name for name in names if name in {"production", "broken", "edge"}] == ["production", "broken", "edge"]
        assert "error: layout:nowhere:production was not found" in ran.out
        assert "(exit 20, code not-found)" in ran.out
        assert "the artifact is paused in the configuration" in ran.out

    def test_one_artifact_is_meant_by_its_name_or_its_address(self, desk: Desk) -> None:
        by_name, by_address = (desk.ok("check", text, "--output", "json").json for text in ("production", CHANNEL))
        assert by_name == by_address
        assert by_name["name"] == "production"

    def test_the_commands_for_approval_use_the_key_of_the_configuration(self, desk: Desk) -> None:
        ran = desk.ok("update", "production")
        for line in ran.out.partition("To approve:\n")[2].splitlines():
            assert "--key" not in line
            desk.ok(*shlex.split(line)[1:])
        assert desk.ok("check", "production", "--output", "json").json["version"] == "v2.99.4"

    def test_validate_and_schema(self, desk: Desk) -> None:
        path = ".github/flux-manifests.yaml"
        ran = desk.ok("config", "validate")
        assert ran.out == f"{path} is valid; its artifacts are production, broken, edge.\n"
        ran = desk.ok("config", "validate", "--output", "json")
        assert ran.json == {"file": path, "valid": True, "artifacts": ["production", "broken", "edge"]}
        assert desk.ok("config", "schema").json["$schema"].startswith("https://json-schema.org/")


class TestJson:
    """The JSON output is a contract: keys are added, never renamed or removed."""

    def test_render(self, desk: Desk) -> None:
        ran = desk.ok("render", "--flux-version", "v2.98.5", "--namespace", "fleet", "--output", "json")
        assert set(ran.json) == {"version", "options", "proven", "components"}
        assert (ran.json["version"], ran.json["options"]) == ("v2.98.5", {"namespace": "fleet"})

    def test_init(self, desk: Desk) -> None:
        ran = desk.ok("init", CHANNEL, "--flux-version", "v2.98.5", *SIGNED, "--output", "json")
        assert set(ran.json) == {"artifact", "version", "digest", "published", "options"}
        assert (ran.json["artifact"], ran.json["published"]) == (CHANNEL, True)

    @pytest.mark.parametrize("command", [("check", CHANNEL), ("plan", CHANNEL), UPDATE], ids=lambda it: it[0])
    def test_check_plan_and_update(self, desk: Desk, command: tuple[str, ...]) -> None:
        digest = desk.init()
        ran = desk.ok(*command, "--output=json")
        assert set(ran.json) == RESULT_KEYS
        assert set(ran.json["plan"]) == {"schema", "artifact", "current", "steps", "passedOver", "digest"}
        assert ran.json["plan"]["schema"] == "flux-manifests.plan/v1"
        assert ran.json["plan"]["current"] == {"version": "v2.98.5", "digest": digest}
        assert ran.json["plan"]["steps"] == [*ran.json["published"], *ran.json["waiting"]]
        assert all(set(step) == STEP_KEYS for step in ran.json["plan"]["steps"])
        assert set(ran.json["waiting"][-1]["changes"]) == {"images", "added", "removed"}
        assert ran.json["changed"] is (command is UPDATE)
        assert ran.json["version"] == ("v2.98.8" if command is UPDATE else "v2.98.5")

    def test_apply(self, desk: Desk) -> None:
        desk.init()
        plan = desk.plan()
        ran = desk.ok("apply", "plan.json", *approved(plan), *SIGNED, "--output", "json")
        assert set(ran.json) == RESULT_KEYS
        assert (ran.json["digest"], ran.json["waiting"]) == (plan["steps"][1]["target"], [])

    def test_verify_and_pull(self, desk: Desk) -> None:
        digest = desk.init()
        ran = desk.ok("verify", CHANNEL, *TRUSTED, "--output", "json")
        key = str(signing_key().public.fingerprint)
        expected = {"artifact": CHANNEL, "digest": digest, "version": "v2.98.5", "key": key, "verified": True}
        assert ran.json == expected
        ran = desk.ok("pull", f"layout:registry@{digest}", "out", *TRUSTED, "--output", "json")
        artifact = f"layout:registry@{digest}"
        assert ran.json == {"artifact": artifact, "digest": digest, "signature": "verified", "files": [COMPONENTS]}

    def test_history(self, desk: Desk) -> None:
        digest = desk.init()
        short = digest.removeprefix("sha256:")[:12]
        key = f"key {signing_key().public.fingerprint.short}"
        ran = desk.ok("history", CHANNEL, *TRUSTED, "--output", "json")
        entry = {"version": "v2.98.5", "tag": f"v2.98.5-{short}", "digest": digest}
        assert ran.json == [{**entry, "signed": key, "channels": ["production"]}]


def test_text_for_a_pipe_has_no_escapes_and_progress_is_only_told_with_v(desk: Desk) -> None:
    desk.init()
    ran = desk.ok(*UPDATE)
    assert "\x1b" not in ran.out + ran.err
    assert ran.err == ""
    ran = desk.ok("check", CHANNEL, "-v")
    assert f"reading {CHANNEL}\n" in ran.err
    assert "\x1b" not in ran.out + ran.err


def test_a_withdrawn_release_is_passed_over_with_its_reason(desk: Desk, releases: Path) -> None:
    shutil.copytree(releases, desk.folder / "own")
    listed = json.loads(desk.read("own/releases.json"))
    for each in listed:
        if each["tag_name"] == "v2.98.8":
            each["assets"] = [asset for asset in each["assets"] if asset["name"] != "manifests.tar.gz"]
    desk.write("own/releases.json", json.dumps(listed))
    desk.init("--releases", "own")
    ran = desk.ok(*UPDATE, "--releases", "own")
    assert "v2.98.8 cannot be taken: it has no manifests.tar.gz" in ran.out
    assert digests(ran.out)


def test_the_digest_does_not_depend_on_where_it_is_published(desk: Desk) -> None:
    first = desk.init()
    second = desk.ok("init", "layout:elsewhere/deep:edge", "--flux-version", "v2.98.5", *SIGNED, "--output", "json")
    assert second.json["digest"] == first
    assert Digest.parse(first).short in desk.read("elsewhere/deep/index.json")
