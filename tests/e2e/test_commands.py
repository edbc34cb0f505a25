"""The user's story on an image layout: each command does what its help says, and its JSON has what is written here."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from threading import Barrier
from typing import TYPE_CHECKING, Any
from unittest.mock import ANY

import pytest

from ci_automation.artifact.reference import Digest, Reference
from ci_automation.cli import rollback
from ci_automation.cli.places import registry
from ci_automation.registry import open_registry
from tests.e2e.desk import CHANNEL, COMPONENTS, SIGNED, TRUSTED, UPDATE, approved, digests, ours, packed, write_tree
from tests.fakes.releases import write_releases
from tests.fakes.world import OVERLAY, key_pem, signing_key

if TYPE_CHECKING:
    from pathlib import Path

    from ci_automation.registry.port import Registry
    from tests.e2e.desk import Desk

WHEN = re.compile(r"\d{4}-\d\d-\d\d|\d\d:\d\d")  # a date, or a time
CLUSTERS = [*(f"2.{minor}" for minor in range(2, 8)), "2.8.0 - 2.8.5", "2.8.6 and later 2.8", "2.9"]
BRIEF_KEYS = ("from", "to", "kind", "base", "target", "decision", "reasons")
STEP_KEYS = {
    *BRIEF_KEYS,
    *("options", "overlay", "release", "proof", "changes", "pinned", "hazards", "pruned", "rights", "gates"),
}
RESULT_KEYS = {
    *("name", "artifact", "exitCode", "changed", "version", "digest", "signature", "healed", "movedBackChecked"),
    "versionTagsAstray",
    *("published", "waiting", "plan", "releaseNotes", "vulnerabilities"),
}
RECORD_KEYS = {
    *("channel", "previous", "version", "tag", "by", "at", "proof", "options"),
    *("run", "approval", "recovered"),
}


@pytest.mark.parametrize("unsigned", [False, True], ids=["", "unsigned"])
@pytest.mark.parametrize(("trust", "signed"), [(TRUSTED, "signed by a trusted signer"), ((), "not verified")])
def test_check_says_what_a_channel_has_though_no_release_can_be_listed(
    desk: Desk, trust: tuple[str, ...], signed: str, *, unsigned: bool
) -> None:
    digest = desk.init()
    if unsigned:
        desk.ok("pull", CHANNEL, "out", *TRUSTED)
        digest = str(desk.publish(packed(dict(desk.files("out"))), signer=None))
    (desk.folder / "empty").mkdir()
    ran = desk.run("check", CHANNEL, *trust, "--releases", "empty")
    told = f"{CHANNEL}: v2.98.5 ({Digest.parse(digest).short}), {signed}. What is newer is not known:\nerror: "
    if unsigned and trust:
        assert (ran.code, "What is newer" in ran.err) == (10, False)
    else:
        assert (ran.code, ran.out, ran.err.startswith(told)) == (21, "", True), ran.err


def test_check_prints_the_command_that_publishes(desk: Desk) -> None:
    desk.init()
    ran = desk.ok("check", CHANNEL)
    assert "v2.98.8 is possible (nothing was verified); " in ran.out
    unverified, told = (
        said.out.partition("To publish v2.98.8:\nflux-manifests ")[2].partition("\n")[0]
        for said in (ran, desk.ok("check", CHANNEL, *SIGNED))
    )
    assert told.startswith("update ")
    assert "--adopt" not in told + unverified
    assert "published       v2.98.8" in desk.ok(*shlex.split(unverified)).out
    assert "To publish" not in desk.ok("check", CHANNEL).out


def test_the_whole_story(desk: Desk) -> None:
    overlay = write_tree(desk, "overlay", OVERLAY)
    extra = ("--components-extra", "image-reflector-controller")
    ran = desk.ok("init", CHANNEL, "--flux-version", "v2.98.5", "--overlay", overlay, *extra, *SIGNED)
    assert ran.out.startswith(f"{CHANNEL} published: Flux v2.98.5, sha256:")

    ran = desk.ok("check", CHANNEL, *TRUSTED)
    assert "can be published" in ran.out
    assert "v2.98.8" in ran.out
    assert "needs approval" in ran.out
    assert "v2.99.4" in ran.out
    assert "v2.99.4 needs approval: v1beta2 of ImageRepository is removed, RBAC widens\n" in ran.out
    assert "\nNot checked: Flux's signature on v2.98.8 and v2.99.4; " in ran.out
    assert "…" not in ran.out

    plan = desk.plan()
    assert [(step["from"], step["to"], step["decision"]) for step in plan["steps"]] == [
        ("v2.98.5", "v2.98.8", "auto"),
        ("v2.98.8", "v2.99.4", "approval"),
    ]
    assert plan["steps"][1]["base"] == plan["steps"][0]["target"]

    ran = desk.ok(*UPDATE)
    verdict = "v2.98.8 published; v2.99.4 needs approval: v1beta2 of ImageRepository is removed, RBAC widens"
    assert ran.out.splitlines()[0] == f"{CHANNEL}: {verdict}"
    first, second = (Digest.parse(step["target"]) for step in plan["steps"])
    assert f"published       v2.98.8  {first.short}" in ran.out
    assert f"needs approval  v2.99.4  {second.short}" in ran.out
    assert "source-controller:v1.98.5 -> v1.98.7, 2 version labels, 21 checks passed (-v lists them)" in ran.out

    assert desk.run("apply", "plan.json", *SIGNED).code == 11
    ran = desk.ok("apply", "plan.json", *approved(plan), *SIGNED)
    assert re.search(f"^published +v2.99.4  {second.short}  approved$", ran.out, re.MULTILINE)

    ran = desk.ok("verify", CHANNEL, *TRUSTED)
    assert ran.out.startswith(f"{CHANNEL} is signed: Flux v2.99.4, {plan['steps'][1]['target']}")

    desk.ok("pull", CHANNEL, "out", *TRUSTED)
    pulled = desk.files("out")
    flags = ("--flux-version", "v2.99.4", *extra)
    assert pulled.pop(COMPONENTS).decode() == desk.ok("render", *flags).out
    assert pulled == {file.path: file.content for file in OVERLAY.files}
    assert (desk.folder / "out" / "hooks" / "after.sh").stat().st_mode & 0o777 == 0o755

    ran = desk.ok("history", CHANNEL, *TRUSTED, "-v")
    *rows, _, _ = [re.split(r"  +", line) for line in ran.out.splitlines()]
    assert [row[:2] for row in rows] == [["@", "version"], ["@1", "v2.99.4"], ["@2", "v2.98.8"], ["@3", "v2.98.5"]]
    assert all(row[4] == f"key {signing_key().public.fingerprint.short}" for row in rows[1:])
    assert all(all(WHEN.fullmatch(part) for part in row[5].split()) for row in rows[1:])
    said = "published to production"
    by = f"key {signing_key().public.fingerprint.short}"
    wanted = [[said, by, "the signer, at a command line (--approve)", "production"], [said, by], [said, by]]
    assert [row[6:] for row in rows[1:]] == wanted

    before = desk.state()
    ran = desk.ok(*UPDATE, "--exit-code")
    assert ran.out == f"{CHANNEL}: v2.99.4 is current\n"
    assert str(second) in desk.ok("check", CHANNEL, *TRUSTED, "-v").out
    assert desk.state() == before


def test_a_plan_writes_nothing_but_its_file_and_is_the_same_each_time(desk: Desk) -> None:
    desk.init()
    before = desk.state()
    plan = desk.plan()
    assert desk.plan() == plan
    (desk.folder / "plan.json").unlink()
    assert desk.state() == before
    ran = desk.ok("plan", CHANNEL, "--out", "other.json", *TRUSTED)
    assert "flux-manifests apply other.json --approve" in ran.out
    assert "flux-manifests plan" not in ran.out.partition("To approve:")[2]
    ran = desk.ok("plan", CHANNEL, "--out", "plan.json", *TRUSTED)
    assert ran.out.endswith("The plan is in plan.json.\n")


def test_a_second_update_does_nothing(desk: Desk) -> None:
    desk.init()
    desk.ok(*UPDATE)
    before = desk.state()
    ran = desk.ok(*UPDATE, "--output", "json")
    assert ran.json["changed"] is False
    assert ran.json["published"] == []
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
        first, unsigned, rights, *_ = ran.out.splitlines()
        assert first == f"{CHANNEL} is there already, with exactly this content: Flux v2.98.5, {digest}"
        assert unsigned.startswith("Not checked: Flux's signature on v2.98.5; ")
        assert rights.startswith("Rights as in plain Flux: ")
        assert desk.state() == before

    @pytest.mark.parametrize(
        "other", [("--flux-version", "v2.98.8"), ("--flux-version", "v2.98.5", "--log-level", "debug")]
    )
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

    def test_a_dry_run_shows_all_of_it_and_writes_nothing(self, desk: Desk) -> None:
        desk.write("new/kustomization.yaml", f"namePrefix: own-\nresources: [{COMPONENTS}]\n")
        init = ("init", CHANNEL, "--flux-version", "v2.98.5", "--overlay", "new", *SIGNED)
        before = desk.state()
        shown = desk.ok(*init, "--dry-run").out
        proposed = desk.ok(*init, "--dry-run", "--output", "json").json
        assert desk.state() == before
        files = [COMPONENTS, "kustomization.yaml"]
        lines = ("  its files:", *(f"    {path}" for path in files))
        headline = f"{CHANNEL} would begin with this: Flux v2.98.5, {proposed['digest']}\n"
        assert shown.startswith(headline + "\n".join(lines))
        assert "\nWhat can break:" in shown
        assert shown.endswith("\nNothing was written. To publish it, leave out --dry-run.\n")
        assert (proposed["published"], proposed["files"]) == (False, files)
        assert desk.ok(*init).out.startswith(f"{CHANNEL} published: Flux v2.98.5, {proposed['digest']}\n")
        assert "is there already, " in desk.ok(*init, "--dry-run").out.splitlines()[0]

    def test_the_plan_of_a_channel_that_is_not_there_names_the_dry_run(self, desk: Desk) -> None:
        assert "`init --dry-run` shows what it would publish." in desk.run("plan", CHANNEL, *TRUSTED).err

    @pytest.mark.parametrize("form", ["dir:", ""])
    def test_a_folder_of_releases_is_named_as_in_the_configuration(self, desk: Desk, releases: Path, form: str) -> None:
        desk.patch.setenv("FLUX_RELEASES", f"{form}{desk.folder}/none")
        assert "none/releases.json" in (told := desk.run("render", "--flux-version", "v2.98.5").err)
        assert "(from $FLUX_RELEASES)" in told
        desk.ok("render", "--flux-version", "v2.98.5", "--releases", f"{form}{releases}")

    def test_without_a_key_publishes_nothing(self, desk: Desk) -> None:
        ran = desk.run("init", CHANNEL, "--flux-version", "v2.98.5")
        assert (ran.code, "no-signer" in ran.err) == (22, True)
        assert not (desk.folder / "registry").exists()


class TestApply:
    def test_without_approval_is_refused_and_says_how(self, desk: Desk) -> None:
        desk.init(version="v2.98.8")
        plan = desk.plan()
        before = desk.state()
        ran = desk.run("apply", "plan.json", *SIGNED)
        assert ran.code == 11
        assert desk.state() == before
        (command,) = re.findall(r"`flux-manifests (.*)`", ran.err.splitlines()[-1])
        assert f"--approve {plan['steps'][0]['target']}" in command
        desk.ok(*shlex.split(command))

    def test_with_another_digest_is_refused(self, desk: Desk) -> None:
        desk.init(version="v2.98.8")
        desk.plan()
        before = desk.state()
        ran = desk.run("apply", "plan.json", "--approve", f"sha256:{'0' * 64}", *SIGNED)
        assert (ran.code, "no-such-step" in ran.err) == (11, True)
        assert desk.state() == before

    @pytest.mark.parametrize(
        "start", [slice(7, 19), slice(19), slice(7, None)], ids=["12", "with sha256", "all but it"]
    )
    def test_a_part_of_a_digest_approves_nothing_and_the_error_has_all_of_it(self, desk: Desk, start: slice) -> None:
        desk.init(version="v2.98.8")
        target, before = desk.plan()["steps"][0]["target"], desk.state()
        ran = desk.run("apply", "plan.json", "--approve", target[start], *SIGNED)
        assert (ran.code, "code short-digest" in ran.err, f"`--approve {target}`" in ran.err) == (2, True, True)
        unknown = desk.run("apply", "plan.json", "--approve", "000000000000", *SIGNED)
        assert "Copy the whole digest" in unknown.err
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
        assert set(ran.json) == {"schema", "exitCode", "artifacts", "promotions"}
        assert ran.json["exitCode"] == 20
        found = {each["name"]: each for each in ran.json["artifacts"]}
        assert [each["exitCode"] for each in found.values()] == [0, 20, 0]
        assert found["production"]["version"] == "v2.98.8"
        assert set(found["broken"]) == {"name", "artifact", "exitCode", "error"}
        assert found["broken"]["error"]["code"] == "not-found"
        assert (found["edge"]["changed"], found["edge"]["version"]) == (False, "v2.98.5")
        assert {step["decision"] for step in found["edge"]["waiting"]} == {"wait"}

    def test_each_artifact_is_told_for_itself(self, desk: Desk) -> None:
        ran = desk.run("check")
        assert ran.code == 20
        parts = ran.out.split("\n\n")
        names = [part.splitlines()[0].partition(":")[0] for part in (part.strip() for part in parts) if part]
        assert [name for name in names if name in {"production", "broken", "edge"}] == ["production", "broken", "edge"]
        assert "broken: nothing yet; `init broken` publishes its first artifact" in ran.out
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
            assert CHANNEL not in line
            desk.ok(*shlex.split(line)[1:])
        assert desk.ok("check", "production", "--output", "json").json["version"] == "v2.99.4"

    def test_rendering_takes_the_releases_that_the_configuration_names(self, desk: Desk, releases: Path) -> None:
        here = desk.ok("render", "--flux-version", "v2.98.5")
        assert here.out == desk.ok("render", "--flux-version", "v2.98.5", "--releases", str(releases)).out
        desk.write("other.yaml", f"source: dir:nowhere\n{CONFIG}")
        assert desk.run("render", "--flux-version", "v2.98.5", "--config", "other.yaml").code == 21

    def test_validate_and_schema(self, desk: Desk) -> None:
        path = ".github/flux-manifests.yaml"
        ran = desk.ok("config", "validate")
        assert ran.out == f"{path} is valid; its artifacts are production, broken, edge.\n"
        assert ran.err == ""
        ran = desk.ok("config", "validate", "--output", "json")
        assert ran.json == {
            "schema": "flux-manifests.config/v1",
            "file": path,
            "valid": True,
            "artifacts": ["production", "broken", "edge"],
        }
        assert desk.ok("config", "schema").json["$schema"].startswith("https://json-schema.org/")
        assert desk.ok("schema", "flux-manifests.results/v1").json == desk.ok("schema", "results").json


def test_content_of_a_checkout_is_a_step_that_a_person_chooses(desk: Desk) -> None:
    desk.init(version="v2.99.4")
    entry = f"- {{name: a, url: '{CHANNEL}', overlay: clusters, signing: {{mode: key, key: cosign.key}}}}"
    desk.config(f"version: 1\nartifacts:\n{entry}\n")
    desk.write("clusters/limits.txt", "memory: 1Gi\n")
    ran = desk.ok("check", "a", "--output", "json")
    assert ran.json["waiting"] == []
    assert (
        "warning: the overlay 'clusters' is not looked at, and the artifact keeps the files that it has: . is no "
        "checkout of Git. Run this in a clone, or give --overlay clusters.\n"
    ) in ran.err
    (step,) = desk.ok("check", "a", "--overlay", "clusters", "--output", "json").json["waiting"]
    assert step["kind"] == "content"
    desk.write(".git/HEAD", "ref: refs/heads/main\n")
    (step,) = desk.ok("plan", "a", "--out", "plan.json", "--output", "json").json["waiting"]
    assert (step["kind"], step["decision"], step["reasons"][:1]) == (
        "content", "approval", ["the overlay changes: limits.txt (new)"]
    )  # fmt: skip
    assert (
        desk.ok("apply", "plan.json", "--approve", step["target"], "--output", "json").json["digest"] == step["target"]
    )
    assert desk.ok("plan", "a", "--output", "json").json["waiting"] == []


def test_a_first_artifact_has_the_overlay_of_the_configuration(desk: Desk) -> None:
    entry = f"- {{name: a, url: '{CHANNEL}', overlay: clusters, signing: {{mode: key, key: cosign.key}}}}"
    desk.config(f"version: 1\nartifacts:\n{entry}\n")
    desk.write("clusters/limits.txt", "memory: 1Gi\n")
    init = ("init", "a", "--flux-version", "v2.99.4")
    refused = desk.run(*init)
    assert refused.code == 2
    assert "the first artifact would have no file of the overlay 'clusters'" in refused.err
    desk.write(".git/HEAD", "ref: refs/heads/main\n")
    desk.ok(*init)
    desk.ok("pull", "a", "out")
    assert desk.folder.joinpath("out/limits.txt").read_text() == "memory: 1Gi\n"
    assert desk.ok("plan", "a", "--output", "json").json["waiting"] == []


FOLDERS = {"a": "clusters", "b": "clusters/b", "c": "other"}


def test_artifacts_that_share_an_overlay_folder_are_named_where_the_configuration_is_checked(desk: Desk) -> None:
    entries = (f"- {{name: {name}, url: 'layout:{name}:x', overlay: {folder}}}" for name, folder in FOLDERS.items())
    desk.config("\n".join(("version: 1", "artifacts:", *entries, "")))
    for folder in FOLDERS.values():
        desk.write(f"{folder}/limits.txt", "memory: 1Gi\n")
    assert desk.ok("config", "validate").err == "a (clusters) and b (clusters/b) share overlay files\n"


def test_a_range_that_begins_later_than_it_reads_is_told(desk: Desk) -> None:
    desk.init()
    desk.config(f"version: 1\nartifacts: [{{name: a, url: '{CHANNEL}', policy: {{range: '>2.98'}}}}]\n")
    told = "`>2.98` begins at v2.99.0; for v2.98.0 and later write `>=2.98.0`"
    assert desk.ok("config", "validate").err == f"a: range: {told}\n"
    (refused,) = desk.ok("plan", "a", *TRUSTED, "--output", "json").json["plan"]["passedOver"]
    assert refused["reasons"] == [f"v2.98.8 is outside of the range >2.98; {told}"]


def test_a_flag_of_a_later_flux_is_told_where_the_configuration_is_checked(desk: Desk) -> None:
    desk.config("version: 1\nartifacts:\n- {name: a, url: 'layout:a:x', flags: {log-lvel: debug}}\n")
    told = desk.ok("config", "validate").err
    assert told.startswith("a: this program does not know the flag --log-lvel. ")
    assert told.endswith("with any other one the run stops. Did you mean log-level?\n")
    ran = desk.run("render", "--flux-version", "v2.99.4", "--flag", "zone=a")
    assert (ran.code, "flux install of v2.99.4 has no flag --zone" in ran.err) == (2, True)


def test_an_acknowledgement_that_ended_is_told_where_the_configuration_is_checked(desk: Desk) -> None:
    given = "{fingerprint: 0123456789abcdef, until: 2020-01-31, reason: of old}"
    desk.config(f"version: 1\nartifacts:\n- name: a\n  url: {CHANNEL}\n  acknowledge:\n  - {given}\n")
    ran = desk.ok("config", "validate")
    assert ran.err == "a: the acknowledgement 0123456789abcdef (of old) ended on 2020-01-31\n"
    desk.init()
    assert "the acknowledgement 0123456789abcdef (of old) ended on 2020-01-31\n" in desk.ok("plan", "a").out


def test_a_name_that_nobody_knows_is_told_to_be_no_address_and_no_name(desk: Desk) -> None:
    for command in (("check", "production"), ("promote", "--from", "staging", "--to", "production")):
        ran = desk.run(*command)
        assert (ran.code, "invalid-reference" in ran.err) == (2, True)
        assert "no .github/flux-manifests.yaml is here that has names of artifacts" in ran.err


def test_without_a_key_the_commands_for_approval_name_both_halves_of_the_usual_one(desk: Desk) -> None:
    desk.init()
    told = desk.ok("check", CHANNEL).out.partition("To approve:\n")[2].partition("To publish ")[0]
    commands = [shlex.split(line) for line in told.splitlines()]
    assert [command[1] for command in commands] == ["plan", "apply"]
    assert commands[0][commands[0].index("--public-key") + 1] == "cosign.pub"
    for command in commands:
        desk.ok(*command[1:])


def test_each_of_several_channels_has_its_commands_in_its_own_block(desk: Desk) -> None:
    urls = {name: f"layout:{name}:production" for name in ("one", "two")}
    entries = "".join(f"- {{name: {name}, url: '{url}'}}\n" for name, url in urls.items())
    desk.config(f"version: 1\ndefaults: {{signing: {{key: cosign.key}}}}\nartifacts:\n{entries}")
    for name in urls:
        desk.ok("init", name, "--flux-version", "v2.98.5")
    lines = desk.ok("check").out.splitlines()
    heads = [line.partition(":")[0] for line in lines if line.startswith(("one:", "two:"))]
    told = [line.split()[2] for before, line in pairwise(lines) if before == "To publish v2.98.8:"]
    assert (heads, told) == (["one", "two"], ["one", "two"])
    assert lines.index("To publish v2.98.8:") < next(at for at, line in enumerate(lines) if line.startswith("two:"))


def test_nothing_is_adopted_unasked_for_several_channels_at_once(desk: Desk) -> None:
    urls = {name: f"layout:{name}:production" for name in ("one", "two")}
    for url in urls.values():
        desk.ok("init", url, "--flux-version", "v2.98.5", "--signing", "unsafe-unsigned")
    entries = "".join(f"- {{name: {name}, url: '{url}'}}\n" for name, url in urls.items())
    desk.config(f"version: 1\ndefaults: {{signing: {{key: cosign.key}}}}\nartifacts:\n{entries}")
    ran, before = desk.run("update", "--adopt", "--yes"), desk.state()
    assert (ran.code, "code several-to-adopt)" in ran.err) == (2, True), ran
    assert desk.state() == before
    assert "adopted and signed" in desk.ok("update", "one", "--adopt", "--yes").out


def test_an_update_tells_little_of_a_step_that_waits(desk: Desk) -> None:
    desk.init()
    desk.config(f"version: 1\nartifacts:\n- name: a\n  url: {CHANNEL}\n  paused: true\n")
    ran = desk.ok("update", "a", *SIGNED)
    assert re.search(r"^waiting +v2", ran.out, re.MULTILINE)
    assert "2 version labels" not in ran.out
    assert "2 version labels" in desk.ok("plan", "a").out


@pytest.mark.parametrize("command", [("history",), ("verify",), ("plan",), ("rollback", "--lift", "--yes")])
def test_the_only_artifact_of_the_configuration_needs_no_name(desk: Desk, command: tuple[str, ...]) -> None:
    desk.write("cosign.pub", signing_key().public.to_pem())
    keys = ", signing: {key: cosign.key}, verify: {publicKey: cosign.pub}"
    one = f"{{name: production, url: '{CHANNEL}'{keys}}}"
    desk.config(f"version: 1\nartifacts: [{one}]\n")
    desk.init()
    named = desk.ok(command[0], "production", *command[1:])
    assert desk.ok(*command).out.replace("plan -v", "plan -v production") == named.out
    (desk.folder / ".github/flux-manifests.yaml").rename(desk.folder / "elsewhere.yaml")
    assert desk.run(*command).code == 2
    assert desk.ok(*command, "--config", "elsewhere.yaml").code == 0
    desk.config(f"version: 1\nartifacts: [{one}, {{name: edge, url: 'layout:registry:edge'{keys}}}]\n")
    ran = desk.run(*command)
    assert (ran.code, "hint: The configuration has production, edge." in ran.err) == (2, True)


@pytest.mark.parametrize("command", ["verify NAME", "rollback NAME --to v2.98.5", "pull NAME first"])
def test_a_configured_channel_that_is_not_there_is_told_with_the_command_that_makes_it(
    desk: Desk, command: str
) -> None:
    desk.config(
        "version: 1\ndefaults: {signing: {key: cosign.key}, verify: {publicKey: cosign.pub}}\nartifacts:\n"
        "- {name: fresh, url: 'layout:registry:new'}\n"
        "- {name: edge, url: 'layout:registry:edge', promote: {from: fresh}}\n"
    )
    desk.write("cosign.pub", signing_key().public.to_pem())
    desk.init()
    for name, makes in ("fresh", "`init fresh`"), ("edge", "`promote --to edge`"):
        ran = desk.run(*command.replace("NAME", name).split())
        told = f"Channels there: production. Check the spelling; {makes} makes this one."
        assert (ran.code, told in ran.err) == (20, True)


class TestJson:
    """The JSON output is a contract: keys are added, never renamed or removed."""

    def test_render(self, desk: Desk) -> None:
        ran = desk.ok("render", "--flux-version", "v2.98.5", "--namespace", "fleet", "--output", "json")
        assert set(ran.json) == {"schema", "version", "options", "proven", "proof", "proofDetail", "components"}
        assert (ran.json["version"], ran.json["options"]) == ("v2.98.5", {"namespace": "fleet"})

    def test_init(self, desk: Desk) -> None:
        ran = desk.ok("init", CHANNEL, "--flux-version", "v2.98.5", *SIGNED, "--output", "json")
        made = {
            "schema",
            "artifact",
            "version",
            "digest",
            "published",
            "signed",
            "files",
            "options",
            "components",
            "proof",
            "changes",
            "hazards",
            "rights",
        }
        assert set(ran.json) == made
        assert (ran.json["artifact"], ran.json["published"]) == (CHANNEL, True)

    @pytest.mark.parametrize("command", [("check", CHANNEL), ("plan", CHANNEL), UPDATE], ids=lambda it: it[0])
    def test_check_plan_and_update(self, desk: Desk, command: tuple[str, ...]) -> None:
        digest = desk.init()
        ran = desk.ok(*command, "--output=json")
        assert set(ran.json) == RESULT_KEYS
        assert set(ran.json["plan"]) == {"schema", "artifact", "current", "steps", "passedOver", "digest"}
        assert ran.json["plan"]["schema"] == "flux-manifests.plan/v1"
        assert ran.json["plan"]["current"] == {"version": "v2.98.5", "digest": digest, "since": ANY}
        steps = ran.json["plan"]["steps"]
        in_brief = [*ran.json["published"], *ran.json["waiting"]]
        assert in_brief == [{key: step[key] for key in BRIEF_KEYS} for step in steps]  # all else is there once
        assert all(set(step) == STEP_KEYS for step in steps)
        assert set(steps[-1]["changes"]) == {"images", "added", "removed", "all", "diffs"}
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
        said = ran.json
        clusters = said.pop("clusters")
        assert said.pop("schema") == "flux-manifests.verify/v1"
        assert said.pop("unprovenRendering") is False
        expected = {"artifact": CHANNEL, "digest": digest, "version": "v2.98.5", "by": key, "verified": True}
        assert said == expected
        assert clusters == [
            {"flux": flux, "accepts": True, "reason": f"the cosign signature (.sig) of {key}"} for flux in CLUSTERS
        ]
        ran = desk.ok("pull", f"layout:registry@{digest}", "out", *TRUSTED, "--output", "json")
        artifact = f"layout:registry@{digest}"
        assert ran.json == {
            "schema": "flux-manifests.pull/v1",
            "artifact": artifact,
            "digest": digest,
            "signature": "verified",
            "files": [COMPONENTS],
        }

    def test_history(self, desk: Desk) -> None:
        digest = desk.init()
        short = digest.removeprefix("sha256:")[:12]
        key = f"key {signing_key().public.fingerprint.short}"
        ran = desk.ok("history", CHANNEL, *TRUSTED, "--output", "json")
        entry = {"version": "v2.98.5", "tag": f"v2.98.5-{short}", "digest": digest}
        entries = ran.json["entries"]
        (record,) = entries[0].pop("records")
        assert entries == [
            {
                **entry,
                "signed": key,
                "origin": "",
                "channels": ["production"],
                "versionTags": [],
                "problem": "",
                "holds": [],
                "rows": [1],
            }
        ]
        assert set(record) == RECORD_KEYS
        said = {
            "channel": CHANNEL,
            "previous": None,
            "version": "v2.98.5",
            "tag": f"v2.98.5-{short}",
        }
        assert {name: record[name] for name in said} == said
        assert (record["by"], record["proof"]) == (str(signing_key().public.fingerprint), "known")
        assert (record["run"], record["approval"], record["recovered"]) == (None, None, False)
        assert timedelta() <= datetime.now(UTC) - datetime.fromisoformat(record["at"]) < timedelta(minutes=5)


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
    assert "v2.98.8 cannot be used: it has no manifests.tar.gz" in ran.out
    assert digests(ran.out)


def test_the_digest_does_not_depend_on_where_it_is_published(desk: Desk) -> None:
    first = desk.init()
    second = desk.ok("init", "layout:elsewhere/deep:edge", "--flux-version", "v2.98.5", *SIGNED, "--output", "json")
    assert second.json["digest"] == first
    assert Digest.parse(first).short in desk.read("elsewhere/deep/index.json")


def test_a_check_says_whether_it_looked_if_the_channel_was_moved_back(desk: Desk) -> None:
    desk.init(version="v2.99.4")
    for command, looked in ((("check", CHANNEL, *TRUSTED), False), (UPDATE, True)):
        assert ("Not checked: whether the channel was moved back" in desk.ok(*command).out) is not looked
        assert desk.ok(*command, "--output", "json").json["movedBackChecked"] is looked
    desk.ok("init", "layout:registry:older", "--flux-version", "v2.98.5", *SIGNED)
    older = ("check", "layout:registry:older", *TRUSTED)
    assert "Not checked: whether" not in desk.ok(*older).out
    assert desk.ok(*older, "--output", "json").json["movedBackChecked"] is True
    desk.ok("init", "layout:registry:unsigned", "--flux-version", "v2.98.5", "--signing", "unsafe-unsigned")
    for unverified in (("unsigned",), ("older",), ("unsigned", "--signing", "unsafe-unsigned")):
        channel, *options = unverified
        found = desk.ok("check", f"layout:registry:{channel}", *options, "--output", "json").json
        assert (found["signature"], found["movedBackChecked"]) == ("not checked", False)


def test_a_command_in_a_sentence_has_the_options_that_it_needs(desk: Desk) -> None:
    desk.init(version="v2.99.4")
    (verify,) = re.findall(r"`(verify [^`]*)` checks that", desk.ok("check", CHANNEL, *TRUSTED).out)
    desk.ok(*shlex.split(verify))
    (adopt,) = re.findall(r"begin with `(update [^`]*)`", desk.ok("check", CHANNEL).out)
    assert "there is nothing to adopt" in desk.ok(*shlex.split(adopt)).out
    desk.config(f"version: 1\nartifacts: [{{name: production, url: '{CHANNEL}'}}]\n")
    assert "with a tag that `history production` shows." in desk.run("verify", "production@2", *TRUSTED).err


def test_version_tags_are_looked_at_and_moved_where_the_configuration_wants_them(desk: Desk) -> None:
    desk.config(f"version: 1\nartifacts: [{{name: production, url: '{CHANNEL}', versionTags: true}}]\n")
    desk.ok("init", "production", "--flux-version", "v2.99.4", *SIGNED)
    check = ("check", "production", *TRUSTED)
    assert "Version tags" not in desk.ok(*check).out
    index = json.loads(desk.read("registry/index.json"))
    name = "org.opencontainers.image.ref.name"
    index["manifests"] = [it for it in index["manifests"] if it.get("annotations", {}).get(name) != "v2.99.4"]
    desk.write("registry/index.json", json.dumps(index))
    told = desk.ok(*check).out
    assert desk.ok(*check, "--output", "json").json["versionTagsAstray"] == ["v2.99.4"]
    (heal,) = re.findall(r"Version tags that do not lead to this digest: v2\.99\.4\. `(check [^`]*)` moves them", told)
    desk.ok(*shlex.split(heal))
    assert desk.ok(*check, "--output", "json").json["versionTagsAstray"] == []
    desk.ok("verify", "layout:registry:v2.99.4", *TRUSTED)


def test_what_is_on_hold_is_told_with_the_command_that_lifts_it(desk: Desk) -> None:
    desk.init(version="v2.98.8")
    desk.ok("apply", "plan.json", *approved(desk.plan()), *SIGNED)
    desk.ok("rollback", CHANNEL, "--to", "v2.98.8", "--yes", *SIGNED)
    lines = {
        command: desk.ok(command, CHANNEL, *options).out.partition("To lift the hold:\n")[2].partition("\n")[0]
        for command, options in (("check", TRUSTED), ("plan", TRUSTED), ("update", ("-v", *SIGNED)))
    }
    for line in lines.values():
        assert shlex.split(line)[:4] == ["flux-manifests", "rollback", CHANNEL, "--lift"]
    assert desk.ok(*shlex.split(lines["check"])[1:], "--yes").out.splitlines()[0].endswith(f") on {CHANNEL} is lifted.")
    assert "To lift the hold" not in desk.ok("check", CHANNEL, *TRUSTED).out


def test_each_of_several_holds_has_its_command(desk: Desk) -> None:
    desk.init()
    desk.ok(*UPDATE)
    desk.ok("apply", "plan.json", *approved(desk.plan()), *SIGNED)
    for back in "v2.98.8", "v2.98.5":
        desk.ok("rollback", CHANNEL, "--to", back, "--yes", *SIGNED)
    told = desk.ok("check", CHANNEL, *TRUSTED).out
    lines = told.partition("To lift the hold on ")[2].splitlines()
    assert [line.partition(" (")[0].rpartition(" ")[2] for line in lines[::2]] == ["v2.99.4", "v2.98.8"]
    for line in lines[1::2]:
        assert desk.ok(*shlex.split(line)[1:], "--yes").out.splitlines()[0].endswith(f") on {CHANNEL} is lifted.")
    assert "To lift the hold" not in desk.ok("check", CHANNEL, *TRUSTED).out


def test_pull_counts_what_it_unpacked(desk: Desk) -> None:
    digest = desk.init()
    told = desk.ok("pull", CHANNEL, "out", *TRUSTED).out
    assert told == f"out has 1 file of {digest}; its signature was verified.\n"
    desk.write("out/kustomization.yaml", "resources: [flux-system/gotk-components.yaml]\n")
    desk.publish(packed(dict(desk.files("out"))))
    assert desk.ok("pull", CHANNEL, "again", *TRUSTED).out.startswith("again has 2 files of sha256:")


@pytest.mark.parametrize("trusted", [(), TRUSTED], ids=["no key", "a key"])
def test_history_reads_the_version_of_another_tool_in_its_components(desk: Desk, trusted: tuple[str, ...]) -> None:
    desk.init()
    desk.ok("pull", CHANNEL, "out", *TRUSTED)
    desk.publish(packed(dict(desk.files("out"))))
    told = desk.ok("history", CHANNEL, *trusted).out
    assert re.search(r"v2\.98\.5 [0-9a-f]{12} .*no verified record", told)
    assert ("unknown" in told, "Nothing was verified" in told) == (False, not trusted)
    desk.publish(packed({"a.yaml": b"{}"}))
    assert re.search(r"unknown [0-9a-f]{12} ", desk.ok("history", CHANNEL, *trusted).out)


def test_a_held_release_that_the_plan_passes_over_is_told_with_that_command_too(desk: Desk) -> None:
    desk.init()
    desk.ok(*UPDATE)
    desk.ok("rollback", CHANNEL, "--to", "v2.98.5", "--yes", *SIGNED)
    lines: list[str] = []
    for command, *options in (("check", *TRUSTED), ("plan", *TRUSTED), ("update", "-v", *SIGNED)):
        told = desk.ok(command, CHANNEL, *options).out
        assert re.search(r"^waiting +v2\.98\.8 +v2\.98\.8 was rolled back on", told, re.MULTILINE), told
        assert "v2.99.4 needs approval" in told
        lines = told.partition("To lift the hold:\n")[2].splitlines()
        assert shlex.split(lines[0])[:4] == ["flux-manifests", "rollback", CHANNEL, "--lift"]
    told = desk.ok("update", CHANNEL, *SIGNED).out  # which runs each day
    assert (" v2.98.8 was rolled back on" in told, "To lift the hold" in told) == (True, False)
    desk.ok(*shlex.split(lines[0])[1:], "--yes")
    assert "To lift the hold" not in desk.ok("check", CHANNEL, *TRUSTED).out


def test_a_hint_has_the_configured_name_and_the_options_that_its_command_needs(desk: Desk) -> None:
    desk.init()
    desk.config(f"version: 1\nartifacts: [{{name: production, url: '{CHANNEL}', verify: {{publicKey: cosign.pub}}}}]\n")
    desk.ok("plan", "production", "--out", "plan.json")
    desk.ok("update", "production", *SIGNED)
    desk.ok("rollback", "production", "--to", "v2.98.5", "--yes", *SIGNED)
    failed = desk.run("apply", "plan.json", *SIGNED)
    (line,) = re.findall(r"`(rollback [^`]*)` ends the hold", " ".join(failed.err.split()))
    assert shlex.split(line) == ["rollback", "production", "--lift", *SIGNED]
    assert desk.ok(*shlex.split(line), "--yes").out.splitlines()[0].endswith(") on production is lifted.")


def test_a_rollback_names_the_other_channels_that_have_the_release(desk: Desk) -> None:
    desk.init()
    desk.ok("update", CHANNEL, *SIGNED)
    staging, edge, old, empty = (CHANNEL.replace("production", name) for name in ("staging", "edge", "old", "empty"))
    desk.ok("init", staging, "--flux-version", "v2.98.8", *SIGNED)
    desk.ok("init", edge, "--flux-version", "v2.98.8", "--log-level", "debug", *SIGNED)
    desk.ok("init", old, "--flux-version", "v2.98.5", "--log-level", "debug", *SIGNED)
    back = ("rollback", CHANNEL, "--to", "v2.98.5", *SIGNED)
    assert " too: roll back" not in desk.run(*back).out  # nothing is configured
    channels = {"production": CHANNEL, "staging": staging, "edge": edge, "old": old, "empty": empty}
    listed = ", ".join(f"{{name: {name}, url: '{url}'}}" for name, url in channels.items())
    desk.config(f"version: 1\nartifacts: [{listed}]\n")
    said = "staging and edge have v2.98.8 too: roll back each channel by itself.\n"
    together = Barrier(len(channels) - 1, timeout=20)  # at night no dead registry makes a person wait for the others

    def at_once(*given: Any, **how: Any) -> Registry:
        together.wait()
        return registry(*given, **how)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rollback, "registry", at_once)
        assert desk.run(*back).out.endswith(said)
    assert said in desk.ok(*back, "--yes", "--output", "json").err
    assert " too: roll back" not in desk.ok(*back, "--yes").out  # it is there already
    desk.publish(b"another tool's", signer=None)
    desk.publish(b"another tool's", signer=None, channel=old)
    desk.write("broken/index.json", "{")
    desk.config(f"version: 1\nartifacts: [{listed}, {{name: broken, url: 'layout:broken:production'}}]\n")
    (unread, said) = desk.run(*back).out.splitlines()[-2:]
    assert unread.startswith("broken could not be looked at: ")
    assert re.fullmatch(r"old has digest [0-9a-f]{12} too: roll back each channel by itself\.", said)


def test_a_rollback_from_an_untrusted_digest_names_the_command_that_shows_all_of_it(desk: Desk) -> None:
    desk.init()
    pushed = CHANNEL.replace("production", "pushed")
    desk.ok("init", pushed, "--flux-version", "v2.98.8", "--signing", "unsafe-unsigned")
    registry = open_registry(Reference.parse(CHANNEL))
    registry.put_manifest(Reference.parse(CHANNEL), registry.manifest(Reference.parse(pushed)))
    shown = desk.run("rollback", CHANNEL, "--to", "v2.98.5", *SIGNED).out
    assert "(-v lists them)" in shown
    (command,) = re.findall(rf"\nflux-manifests (rollback -v {CHANNEL} .*)\n", shown)
    whole = desk.run(*shlex.split(command)).out
    assert "goes back to v2.98.5 from an untrusted digest" in whole
    assert "-v lists them" not in whole
    assert "rollback -v" not in desk.ok("rollback", CHANNEL, "--to", "v2.98.5", "--yes", *SIGNED).out


class TestLiftingAHold:
    @pytest.fixture(autouse=True)
    def rolled_back(self, desk: Desk) -> None:
        desk.init()
        desk.ok("update", CHANNEL, *SIGNED)
        shown = desk.ok("rollback", CHANNEL, "--to", "v2.98.5", "--reason", "webhooks", "--yes", *SIGNED)
        assert "v2.98.8 will be on hold until" in shown.out
        assert "source-controller:v1.98.7 -> v1.98.5, 2 version labels (-v lists them)\n" in shown.out
        assert f"To lift the hold:\nflux-manifests rollback {CHANNEL} --lift --signing key" in shown.out

    def test_it_ends_the_hold_and_moves_nothing(self, desk: Desk) -> None:
        before = desk.ok("verify", CHANNEL, *TRUSTED, "--output", "json").json["digest"]
        lifting = ("rollback", CHANNEL, "--lift", "--reason", "fixed on our side", *SIGNED, "--output", "json")
        there = desk.state()
        refused = desk.run(*lifting)  # no person is at a terminal
        assert (refused.code, refused.error["code"], desk.state()) == (11, "not-confirmed", there)
        assert refused.error["message"] == f"no hold on {CHANNEL} was lifted: no person confirmed it"
        told = re.sub(r"[0-9a-f]{12}", "-", refused.err)
        assert told.startswith(
            "Now: v2.98.8 (-) is on hold until the channel takes a newer release: webhooks\n"
            "After the lift its gates decide again.\n"
        )
        ran = desk.ok(*lifting, "--yes")
        assert (ran.json["changed"], ran.json["digest"]) == (True, before)
        assert [hold["refused"]["version"] for hold in ran.json["lifted"]] == ["v2.98.8"]
        assert (
            "the hold on v2.98.8 was lifted on production: fixed on our side"
            in desk.ok("history", CHANNEL, *TRUSTED).out
        )
        state = desk.state()
        told = desk.ok("rollback", CHANNEL, "--lift", *SIGNED).out
        assert told == f"Nothing to do: no hold is on {CHANNEL}, which is at {before}.\n"
        assert desk.state() == state
        assert desk.ok("update", CHANNEL, *SIGNED, "--output", "json").json["version"] == "v2.98.8"

    def test_for_people_it_says_what_is_lifted(self, desk: Desk) -> None:
        said = desk.ok("rollback", CHANNEL, "--lift", "--yes", *SIGNED).out
        lifted, head, command = re.sub(r"[0-9a-f]{12}", "-", said).splitlines()
        assert lifted == f"The hold on v2.98.8 (-) on {CHANNEL} is lifted."
        assert (head, command) == ("To see what comes next:", shlex.join(("flux-manifests", "plan", CHANNEL, *TRUSTED)))
        assert "v2.98.8 can be published" in desk.ok(*shlex.split(command)[1:]).out

    def test_going_back_to_where_the_channel_is_makes_no_hold_anew(self, desk: Desk) -> None:
        desk.ok("rollback", CHANNEL, "--lift", "--yes", *SIGNED)
        there = desk.state()
        said = desk.ok("rollback", CHANNEL, "--to", "v2.98.5", "--yes", *SIGNED).out
        assert ": nothing to do.\nThe hold on v2.98.8 ended on 20" in said
        assert desk.state() == there
        again = desk.ok("rollback", CHANNEL, "--to", "v2.98.5", "--until", "2099-01-01", "--yes", *SIGNED).out
        assert "v2.98.8 will be on hold until 2099-01-01 00:00 UTC" in again
        assert again.endswith("The hold is changed.\n")
        assert "rolled back on" in desk.ok("update", CHANNEL, *SIGNED).out

    def test_a_version_that_the_channel_has_names_its_other_digests(self, desk: Desk) -> None:
        """After a change of the team's own files alone, the version is no way back."""
        before = desk.ok("verify", CHANNEL, *TRUSTED, "--output", "json").json["digest"]
        desk.write("own/kustomization.yaml", "resources: [flux-system/gotk-components.yaml]\n")
        plan = desk.plan("--overlay", "own")
        desk.ok("apply", "plan.json", *approved(plan, 0), "--overlay", "own", *SIGNED)
        tag = f"v2.98.5-{before.removeprefix('sha256:')[:12]}"
        said = desk.ok("rollback", CHANNEL, "--to", "2.98.5", "--reason", "x", "--yes", *SIGNED).out
        assert f"\nv2.98.5 has another digest here; --to takes: {tag}\n" in said
        said = desk.ok("rollback", CHANNEL, "--to", tag, "--reason", "x", "--yes", *SIGNED).out
        assert "goes back to other content of v2.98.5" in said
        said = desk.ok("rollback", CHANNEL, "--to", tag, "--reason", "x", "--yes", *SIGNED).out
        assert "another digest" not in said
        held = plan["steps"][0]["target"].removeprefix("sha256:")[:12]
        lifted = desk.ok("rollback", CHANNEL, "--lift", "--to", held, "--yes", *SIGNED)
        assert f"The hold on digest {held} on {CHANNEL} is lifted.\n" in lifted.out
        assert f"Now: digest {held} is on hold until the channel takes a newer release: x\n" in lifted.err

    def test_of_a_channel_that_left_the_hold_it_says_where_that_is(self, desk: Desk) -> None:
        held = desk.ok("verify", CHANNEL, *TRUSTED, "--output", "json").json["digest"]
        index = json.loads(desk.read("registry/index.json"))
        name = "org.opencontainers.image.ref.name"
        tags = {it["annotations"].get(name, ""): it for it in index["manifests"] if "annotations" in it}
        left = next(it for tag, it in tags.items() if tag.startswith("v2.98.8-"))
        tags["production"]["digest"], tags["production"]["size"] = left["digest"], left["size"]
        desk.write("registry/index.json", json.dumps(index))
        said = desk.ok("rollback", CHANNEL, "--lift", *SIGNED).out
        assert said == (
            f"Nothing to do: no hold is on {CHANNEL}, which is at {left['digest']}.\n"
            f"A hold on v2.98.8 is on {held}, which the channel has left: it counts when the channel is there.\n"
        )

    def test_of_two_it_ends_the_one_that_is_named(self, desk: Desk) -> None:
        desk.ok("rollback", CHANNEL, "--lift", "--to", "v2.98.8", "--yes", *SIGNED)
        desk.ok("apply", "plan.json", *approved(desk.plan()), *SIGNED)
        desk.ok("rollback", CHANNEL, "--to", "v2.98.8", "--reason", "webhooks", "--yes", *SIGNED)
        desk.ok("rollback", CHANNEL, "--to", "v2.98.5", "--reason", "leaks", "--yes", *SIGNED)
        before = desk.state()
        lifting = ("rollback", CHANNEL, "--lift", *SIGNED)
        ran = desk.run(*lifting, "--yes")
        assert (ran.code, "code several-holds)" in ran.err, desk.state()) == (2, True, before)
        assert re.search(r"2 holds are on .*: v2\.9\d\.\d \([0-9a-f]{12}\), v2\.9\d\.\d \([0-9a-f]{12}\)", ran.err)
        ran = desk.run(*lifting)
        assert (ran.code, desk.state()) == (11, before)
        assert "\nAfter the lift their gates decide again.\n" in ran.err
        ran = desk.run(*lifting, "--to", "v2.98.5")
        assert (ran.code, "code no-such-hold)" in ran.err, desk.state()) == (2, True, before)
        ran = desk.ok(*lifting, "--to", "v2.99.4", "--yes")
        told = ran.out.splitlines()[0]
        assert re.fullmatch(rf"The hold on v2\.99\.4 \([0-9a-f]{{12}}\) on {CHANNEL} is lifted\.", told)
        (short,) = re.findall(r"^Now: v2\.98\.8 \(([0-9a-f]{12})\) is on hold", desk.run(*lifting).err)
        assert "is lifted" in desk.ok(*lifting, "--to", short, "--yes").out

    @pytest.mark.parametrize("wrong", [("--lift", "--allow-removal"), ("--lift", "--until", "2099-01-01")])
    def test_it_goes_with_nothing_that_moves(self, desk: Desk, wrong: tuple[str, ...]) -> None:
        before = desk.state()
        ran = desk.run("rollback", CHANNEL, *wrong, *SIGNED)
        assert (ran.code, "contradicting-options" in ran.err) == (2, True)
        assert desk.state() == before

    def test_without_a_word_on_where_to_go_it_lists_the_tags(self, desk: Desk) -> None:
        unknown = desk.run("rollback", CHANNEL)  # with no key either: where it goes is asked first
        assert (unknown.code, "code not-in-history)" in unknown.err) == (2, True)
        assert "with --lift. `history` lists what the channel had, if you name a key" in unknown.err
        ran = desk.run("rollback", CHANNEL, *SIGNED)
        assert (ran.code, f"nothing says where {CHANNEL} goes back to\n" in ran.err) == (2, True)
        assert "Add --to, or end a hold alone with --lift. The channel is at the oldest that it had" in ran.err
        desk.ok("rollback", CHANNEL, "--lift", "--yes", *SIGNED)
        desk.ok("update", CHANNEL, *SIGNED)
        tag = desk.ok("history", CHANNEL, *TRUSTED, "--output", "json").out
        (tag,) = {*re.findall(r"v2\.98\.5-[0-9a-f]{12}", tag)}
        assert f"one of these tags: {tag}. `history`" in desk.run("rollback", CHANNEL, *SIGNED).err

    @pytest.mark.parametrize("word", ["tomorrow", "31.1.2027", "2027-02-30", "2027-01-31T10:00"])
    def test_what_is_no_date_is_told_with_one(self, desk: Desk, word: str) -> None:
        ran = desk.run("rollback", CHANNEL, "--to", "v2.98.5", "--until", word, *SIGNED)
        assert (ran.code, f"'{word}' is not a date: write one such as 2027-01-31" in ran.err) == (2, True)
        assert "%" not in ran.err

    def test_a_date_that_has_passed_names_it(self, desk: Desk) -> None:
        ran = desk.run("rollback", CHANNEL, "--to", "v2.98.5", "--until", "2020-01-01", *SIGNED)
        assert (ran.code, "use --lift" in ran.err) == (2, True)


@pytest.mark.parametrize("series", ["v2.98", "2.98"])
def test_a_rollback_to_a_series_names_its_newest_version_that_the_channel_had(desk: Desk, series: str) -> None:
    desk.init()
    desk.ok("update", CHANNEL, *SIGNED)
    ran = desk.run("rollback", CHANNEL, "--to", series, *SIGNED)
    assert (ran.code, "hint: Did you mean --to v2.98.5? " in ran.err) == (2, True)


def test_a_rollback_to_the_beginning_of_the_present_digest_says_that_it_is_that(desk: Desk) -> None:
    begins = desk.init()[7:15]
    ran = desk.run("rollback", CHANNEL, "--to", begins, *SIGNED)
    assert (ran.code, f"error: {CHANNEL} has {begins} now\n" in ran.err) == (2, True)


@pytest.mark.parametrize("trusted", [TRUSTED, ()], ids=["verified", "not verified"])
def test_a_channel_that_never_was_has_no_history(desk: Desk, trusted: tuple[str, ...]) -> None:
    desk.init()
    ran = desk.run("history", CHANNEL.replace("production", "staging"), *trusted)
    assert (ran.code, ran.out, "hint: Channels there: production." in ran.err) == (20, "", True)
    mistyped = desk.run("history", CHANNEL[:-1], *trusted, "--output", "json")
    assert (mistyped.code, f"Did you mean {CHANNEL}?" in mistyped.error["hint"]) == (20, True)


def test_a_deleted_channel_has_its_history(desk: Desk) -> None:
    desk.init()
    other = CHANNEL.replace("production", "staging")
    desk.ok("init", other, "--flux-version", "v2.98.8", *SIGNED)
    index = json.loads(desk.read("registry/index.json"))
    named = "org.opencontainers.image.ref.name"
    index["manifests"] = [it for it in index["manifests"] if it.get("annotations", {}).get(named) != "production"]
    desk.write("registry/index.json", json.dumps(index))
    first, *rows = desk.ok("history", CHANNEL, *TRUSTED).out.splitlines()
    assert first == f"{CHANNEL} was deleted. Signed records say what it had:"
    assert [line.split()[1].split("-")[0] for line in rows if line.startswith("@")] == ["artifact", "v2.98.5"]


def test_a_teams_own_manifests_are_pushed_and_promoted(desk: Desk) -> None:
    desk.write("shop/deploy.yaml", "kind: Deployment\n")
    origin = ("--source", "https://git.example/shop", "--revision", "main@sha1:1")
    ran = desk.ok("push", "shop", "layout:shop-registry:staging", *origin, *SIGNED)
    digest = ran.out.rpartition(" ")[2].strip()
    assert ran.out == f"layout:shop-registry:staging published: {digest}\n"
    said = desk.ok("push", "shop", "layout:shop-registry:staging", *origin, *SIGNED, "--output", "json").json
    assert (said["published"], said["digest"]) == (False, digest)
    assert (
        desk.run("push", "shop", "layout:shop-registry:staging", *origin, *SIGNED, "--signature-format", "bundle").code
        == 2
    )
    moved = ("--from", "layout:shop-registry:staging", "--to", "layout:shop-registry:production", "--approve", digest)
    assert f"`--approve {digest}`" in desk.run("promote", *moved[:-1], digest[7:19], *SIGNED).err
    desk.ok("promote", *moved, *SIGNED)
    for command, shown in (
        ("history", "promoted to production from staging, from main@sha1:1"),
        ("verify", "pushed manifests, sha256:"),
        ("check", " is current"),
    ):
        assert shown in desk.ok(command, "layout:shop-registry:production", *TRUSTED).out
    desk.write("shop/new.yaml", "kind: Secret\n")
    assert "overlay: new.yaml is new" in desk.ok("diff", "layout:shop-registry:staging", "./shop", *TRUSTED).out
    assert "no Flux" in desk.run("update", "layout:shop-registry:staging", "--log-level", "debug", *SIGNED).err


def test_the_doctor_says_the_wrong_first_and_exits_with_its_code(desk: Desk) -> None:
    ran = desk.run("doctor", "layout:registry:production", "--key", "cosign.key")
    assert ran.code == 20
    assert "wrong   layout:registry:production: read: there is no such channel" in ran.out
    marks = [line.split()[0] for line in ran.out.splitlines() if not line.startswith(" ")][:-1]
    assert marks == sorted(marks, key=["wrong", "unseen", "good"].index)
    desk.init()
    desk.config(f"version: 1\nartifacts: [{{name: live, url: '{CHANNEL}'}}]\n")
    told = desk.run("doctor", "--key", "cosign.key").out
    assert ("good    live: read: it has sha256:" in told, CHANNEL in told) == (True, False)
    found = desk.run("doctor", "layout:registry:production", "--key", "cosign.key", "--output", "json")
    assert [it["found"] for it in found.json["findings"] if it["health"] == "wrong" and it["what"] != "kustomize"] == []


def test_a_version_needs_no_v(desk: Desk) -> None:
    rendered = desk.ok("render", "--flux-version", "2.98.5", "--output", "json").json
    assert rendered == desk.ok("render", "--flux-version", "v2.98.5", "--output", "json").json
    assert rendered["version"] == "v2.98.5"
    assert desk.ok("diff", "2.98.5", "2.98.8", "-v").out == desk.ok("diff", "v2.98.5", "v2.98.8", "-v").out
    assert desk.ok("mirror", "mirrored", "--flux-version", "2.98.5").out == desk.ok(
        "mirror", "again", "--flux-version", "v2.98.5"
    ).out.replace("again", "mirrored")
    desk.init(version="2.98.5")
    desk.ok(*UPDATE)
    back = desk.ok("rollback", CHANNEL, "--to", "2.98.5", "--reason", "x", "--yes", "--output", "json", *SIGNED).json
    assert back["to"]["version"] == "v2.98.5"


MISSING = {
    "render": ("render", "--flux-version", "2.98.6"),
    "init": ("init", "layout:another:production", "--flux-version", "2.98.6", *SIGNED),
    "diff": ("diff", "v2.98.5", "2.98.6"),
    "mirror": ("mirror", "mirrored", "--flux-version", "2.98.6"),
    "rollback": ("rollback", CHANNEL, "--to", "2.98.6", "--reason", "a test", *SIGNED),
}


@pytest.mark.parametrize("command", MISSING)
def test_a_version_that_is_not_there_names_those_beside_it(desk: Desk, command: str) -> None:
    desk.init()
    desk.ok(*UPDATE)
    ran = desk.run(*MISSING[command])
    assert ran.code in {2, 21}
    assert "v2.98.6" in ran.err
    assert re.search(r"; the nearest (is v2\.98\.5|are v2\.98\.5 and v2\.98\.\d+)\n", ran.err)


def test_the_results_of_one_artifact_have_the_shape_of_many(desk: Desk) -> None:
    desk.init()
    one = json.loads(desk.ok("check", CHANNEL, *TRUSTED, "--output", "json").out)
    assert one.keys() == {"schema", "exitCode", "artifacts", "promotions"}
    assert [set(entry) for entry in one["artifacts"]] == [RESULT_KEYS]
