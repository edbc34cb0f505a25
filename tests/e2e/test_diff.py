"""What `diff` says of two states, whatever they are given as, in each form the same."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from ci_automation.impact.change import ChangeClass, ObjectId, Severity
from ci_automation.report.findings import COUNTED
from tests.e2e.desk import BINDING, CHANNEL, TRUSTED, write_tree
from tests.fakes.world import OVERLAY, key_pem

if TYPE_CHECKING:
    from tests.e2e.desk import Desk

OLD, NEW = "v2.98.8", "v2.99.4"
CHANGE_KEYS = {"class", "kind", "object", "severity", "sentence", "path", "from", "to", "fingerprint"}
HAZARD_KEYS = {
    "gate",
    "certainty",
    "subject",
    "sentence",
    "places",
    "remedies",
    "fingerprint",
    "together",
    "name",
    "final",
}
EXTRA = ("--components-extra", "image-reflector-controller")  # the minor release takes a version of its CRDs away


def components(desk: Desk, name: str, version: str, *flags: str) -> str:
    return desk.write(name, desk.ok("render", "--flux-version", version, *flags).out)


def test_every_change_and_hazard_of_two_releases_is_in_the_json(desk: Desk) -> None:
    found = desk.ok("diff", OLD, NEW, *EXTRA, "--output", "json").json
    assert found.keys() == {"schema", "from", "to", "overlaysCompared", "changes", "hazards", "pruned"}
    assert found["from"] == {"name": OLD, "digest": None, "remark": ""}
    assert all(change.keys() == CHANGE_KEYS for change in found["changes"])
    assert all(hazard.keys() == HAZARD_KEYS for hazard in found["hazards"])
    assert {change["class"] for change in found["changes"]} >= {"image", "rbac", "crdRemoval"}
    severities = [list(Severity).index(change["severity"]) for change in found["changes"]]
    assert severities == sorted(severities, reverse=True)
    assert all(change["class"] in tuple(ChangeClass) and change["sentence"] for change in found["changes"])
    assert len({change["fingerprint"] for change in found["changes"]}) == len(found["changes"])


def test_text_markdown_and_json_show_the_same(desk: Desk) -> None:
    found = desk.ok("diff", OLD, NEW, *EXTRA, "--output", "json").json
    every = " ".join(desk.ok("diff", OLD, NEW, *EXTRA, "-v").out.split())
    page = desk.ok("diff", OLD, NEW, *EXTRA, "--output", "markdown").out.replace("\\", "")
    assert page.startswith(f"## `{OLD}` to `{NEW}`\n\n### ")
    for change in found["changes"]:
        where = str(ObjectId(**change["object"]))
        assert " ".join(change["sentence"].removeprefix(f"{where} ").split()) in every
        assert change["severity"] == "info" or change["fingerprint"] in every
        if change["class"] not in COUNTED:
            assert f", {change['class']}" in page
            assert change["object"]["name"] in page
    for hazard in found["hazards"]:
        for form in (every, page):
            assert hazard["fingerprint"] in form
            assert hazard["certainty"] in form


def test_nothing_is_other_in_the_same(desk: Desk) -> None:
    ran = desk.ok("diff", OLD, OLD)
    assert ran.out == f"{OLD} -> {OLD}\nNo object and no file changes.\n"
    assert desk.ok("diff", OLD, OLD, "--output", "json").json["changes"] == []


@pytest.mark.parametrize(
    ("sides", "code"),
    [
        pytest.param((OLD, OLD), 0, id="the same"),
        pytest.param(("v2.98.5", OLD), 1, id="something changes"),
        pytest.param((OLD, NEW, *EXTRA, "--objects", "fleet"), 3, id="something can break"),
        pytest.param((OLD, "nothing"), 2, id="a side that is not there"),
    ],
)
def test_the_exit_code_says_whether_it_differs_or_breaks(desk: Desk, sides: tuple[str, ...], code: int) -> None:
    using = "apiVersion: image.toolkit.fluxcd.io/v1beta2\nkind: ImageRepository\nmetadata: {name: x, namespace: y}\n"
    desk.write("fleet/apps/x.yaml", using)
    assert desk.run("diff", *sides, "--exit-code").code == code
    assert desk.run("diff", *sides).code == (2 if code == 2 else 0)


def test_a_row_of_a_configured_artifact_is_a_side(desk: Desk) -> None:
    desk.config(f"version: 1\nartifacts: [{{name: production, url: '{CHANNEL}'}}]\n")
    digest = desk.init(version=OLD)
    found = desk.ok("diff", "production@1", NEW, *TRUSTED, "--output", "json").json
    assert found["from"] == {"name": "production@1", "digest": digest, "remark": ""}
    assert desk.run("diff", "production@2", NEW, *TRUSTED).code == 2


def test_an_artifact_a_folder_a_file_and_a_release_are_the_same_to_it(desk: Desk) -> None:
    digest = desk.init(version=OLD)
    desk.ok("pull", CHANNEL, "out")
    alone = components(desk, "alone.yaml", OLD)
    sides = [CHANNEL, f"layout:registry@{digest}", "out", alone, OLD, OLD.removeprefix("v")]
    told = [desk.ok("diff", side, NEW, *TRUSTED, "--output", "json").json for side in sides]
    assert all(each["changes"] == told[0]["changes"] and each["changes"] for each in told)
    assert [each["from"]["digest"] for each in told] == [digest, digest, None, None, None, None]


def test_flags_are_those_of_the_releases(desk: Desk) -> None:
    extra = ("--components-extra", "source-watcher")
    alone = components(desk, "alone.yaml", OLD, *extra)
    assert desk.ok("diff", alone, OLD, *extra, "--output", "json").json["changes"] == []
    classes = [change["class"] for change in desk.ok("diff", alone, OLD, "--output", "json").json["changes"]]
    assert "removedWorkload" in classes


def test_files_of_the_team_are_compared_where_both_sides_have_them(desk: Desk) -> None:
    desk.init("--overlay", write_tree(desk, "overlay", OVERLAY), version=OLD)
    desk.ok("pull", CHANNEL, "out")
    desk.write("out/patches/limits.yaml", "# 4Gi\n- op: replace\n")
    found = desk.ok("diff", CHANNEL, "out", *TRUSTED, "--output", "json").json
    assert found["overlaysCompared"]
    assert [change["class"] for change in found["changes"]] == ["overlay"]
    assert "not compared" not in desk.ok("diff", CHANNEL, "out", *TRUSTED).out


def test_a_release_has_no_files_of_the_team_and_a_components_file_alone_does_not_say(desk: Desk) -> None:
    """A planted object beside Flux's own components is no "nothing changes"."""
    desk.write("overlay/kustomization.yaml", "resources: [flux-system/gotk-components.yaml, planted.yaml]\n")
    desk.write("overlay/planted.yaml", BINDING)
    desk.init("--overlay", "overlay", version=OLD)
    ran = desk.run("diff", OLD, CHANNEL, *TRUSTED, "--exit-code")
    assert ran.code == 1
    assert "danger, rbac: ClusterRoleBinding planted is new" in ran.out
    ran = desk.ok("diff", components(desk, "alone.yaml", OLD), CHANNEL, *TRUSTED)
    named, told = ran.out.splitlines()
    assert re.fullmatch(rf"alone\.yaml \({OLD}\) -> {CHANNEL} \({OLD}, [0-9a-f]{{12}}\)", named)
    assert told == (
        f"The components are equal. The other files of {CHANNEL} were not compared: alone.yaml has the components "
        "alone."
    )


def test_the_first_line_names_both_sides_and_one_digest_is_one_artifact(desk: Desk) -> None:
    first, last = desk.init(version=OLD), CHANNEL.replace("production", "latest")
    desk.ok("promote", "--from", CHANNEL, "--to", last, "--approve", first, "--key", "cosign.key", *TRUSTED)
    told = desk.ok("diff", CHANNEL, last, *TRUSTED).out.splitlines()
    same = f"{CHANNEL} and {last} are the same artifact: {OLD}, {first.removeprefix('sha256:')[:12]}"
    assert told == [same, "No object and no file changes."]
    page = desk.ok("diff", OLD, CHANNEL, *TRUSTED, "--output", "markdown").out
    assert page.startswith(f"## `{OLD}` to `{CHANNEL}` ({OLD}, {first.removeprefix('sha256:')[:12]})\n")


def test_manifests_of_the_fleet_are_looked_at(desk: Desk) -> None:
    asked = ("diff", OLD, NEW, *EXTRA, "--output", "json")
    gone = next(change for change in desk.ok(*asked).json["changes"] if change["kind"] == "version-removed")
    assert gone["object"]["name"] == "imagerepositories.image.toolkit.fluxcd.io"
    using = "apiVersion: image.toolkit.fluxcd.io/v1beta2\nkind: ImageRepository\nmetadata: {name: x, namespace: y}\n"
    desk.write("fleet/apps/x.yaml", f"# ours\n---\n{using}")
    hazards = desk.ok(*asked, "--objects", "fleet").json["hazards"]
    assert {"file": "fleet/apps/x.yaml", "line": 3} in [place for it in hazards for place in it["places"]]
    assert "fleet/apps/x.yaml:3" in desk.ok("diff", OLD, NEW, *EXTRA, "--objects", "fleet").out


@pytest.mark.parametrize(
    ("new", "certainty", "words"),
    [
        pytest.param("v2.9.4", "certain", "Flux 2.9 needs Kubernetes 1.33 or later", id="too old"),
        pytest.param("v2.8.9", "advice", "Flux 2.8 needs Kubernetes 1.33 or later", id="so already"),
        pytest.param("v2.10.0", "unchecked", "does not know which Kubernetes Flux 2.10 needs", id="a minor to come"),
        pytest.param("half", "unchecked", "which Flux half has", id="a file that does not say its version"),
    ],
)
def test_stated_clusters_are_judged(desk: Desk, new: str, certainty: str, words: str) -> None:
    text = desk.ok("render", "--flux-version", OLD).out
    for version in ("v2.8.8", "v2.8.9", "v2.9.4", "v2.10.0"):
        desk.write(f"{version}.yaml", text.replace(OLD, version))
    desk.write("half.yaml", text.replace(OLD, "unknown"))
    asked = ("diff", "v2.8.8.yaml", f"{new}.yaml")
    hazards = desk.ok(*asked, "--kubernetes", "1.32", "--output", "json").json["hazards"]
    (found,) = (it for it in hazards if it["subject"].endswith("on Kubernetes 1.32"))
    assert (found["gate"], found["certainty"]) == ("compatibility", certainty)
    assert words.replace("half", "half.yaml") in found["sentence"]
    hazards = desk.ok(*asked, "--output", "json").json["hazards"]
    assert not any("on Kubernetes" in it["subject"] for it in hazards)


def test_minors_that_are_skipped_are_told(desk: Desk) -> None:
    text = desk.ok("render", "--flux-version", OLD).out
    desk.write("old.yaml", text.replace(OLD, "v2.6.4"))
    assert "2.6 -> 2.98 skips 2.7, 2.8" in desk.ok("diff", "old.yaml", OLD).out


class TestOverlay:
    def pulled(self, desk: Desk) -> None:
        desk.init("--overlay", write_tree(desk, "overlay", OVERLAY), version=OLD)
        desk.ok("pull", CHANNEL, "out")

    def test_files_that_do_not_fit_the_new_components_are_told(self, desk: Desk) -> None:
        self.pulled(desk)
        desk.write("out/kustomization.yaml", "resources: [flux-system/gotk-components.yaml, gone.yaml]\n")
        ran = desk.ok("diff", CHANNEL, "out", *TRUSTED, "--output", "json")
        (hazard,) = (it for it in ran.json["hazards"] if it["gate"] == "overlay")
        assert (hazard["certainty"], "gone.yaml" in hazard["sentence"]) == ("certain", True)
        assert hazard["final"]
        assert f"certain, overlay: {hazard['sentence']}\n" in desk.ok("diff", CHANNEL, "out", *TRUSTED).out

    def test_what_clusters_would_delete_is_told(self, desk: Desk) -> None:
        self.pulled(desk)
        desk.ok("pull", CHANNEL, "more")
        desk.write("more/kustomization.yaml", "resources: [flux-system/gotk-components.yaml, more.yaml]\n")
        desk.write("more/more.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: y}\n")
        assert desk.ok("diff", "more", "out", "--output", "json").json["pruned"] == ["ConfigMap y/x"]
        assert "What clusters delete (prune):\n  ConfigMap y/x\n" in desk.ok("diff", "more", "out").out

    def test_with_the_components_elsewhere_it_is_not_built_and_that_is_told(self, desk: Desk) -> None:
        self.pulled(desk)
        desk.write("other/gotk-components.yaml", desk.read("out/flux-system/gotk-components.yaml"))
        (hazard,) = desk.ok("diff", "out", "other", "--output", "json").json["hazards"]
        assert (hazard["gate"], hazard["certainty"]) == ("overlay", "unchecked")
        assert "flux-system/gotk-components.yaml" in hazard["sentence"]


class TestTrust:
    def test_without_anybody_to_trust_it_says_that_nothing_was_checked(self, desk: Desk) -> None:
        desk.init(version=OLD)
        ran = desk.ok("diff", CHANNEL, OLD)
        assert f"{CHANNEL}: nothing was verified: no public key or identity is given\n" in ran.out
        found = desk.ok("diff", CHANNEL, OLD, "--output", "json").json
        assert "nothing was verified" in found["from"]["remark"]
        assert "nothing was verified" in desk.ok("diff", CHANNEL, OLD, "--output", "markdown").out

    def test_of_somebody_else_nothing_is_compared(self, desk: Desk) -> None:
        desk.init(version=OLD)
        desk.write("other.key", key_pem("theirs"))
        ran = desk.run("diff", CHANNEL, OLD, "--identity", "x", "--issuer", "https://x.example")
        assert ran.code == 10

    def test_what_was_signed_is_compared_without_a_word(self, desk: Desk) -> None:
        desk.init(version=OLD)
        assert "not checked" not in desk.ok("diff", CHANNEL, OLD, *TRUSTED).out


CONFIG = """\
version: 1
artifacts:
- {name: production, url: "layout:registry:production", verify: {publicKey: cosign.pub}, clusters: {objects: [fleet]}}
"""


def test_names_of_the_configuration_are_known_with_who_is_trusted_and_which_clusters_follow(desk: Desk) -> None:
    desk.init(version=OLD)
    desk.write("c.yaml", CONFIG)
    ran = desk.run("diff", "production", NEW, "--config", "c.yaml")
    assert (ran.code, "fleet: it is not there" in ran.err) == (2, True)
    desk.write("fleet/a.yaml", "")
    assert "not checked" not in desk.ok("diff", "production", NEW, "--config", "c.yaml").out
    desk.ok("diff", NEW, "production", "--config", "c.yaml")


@pytest.mark.parametrize(
    ("side", "code", "words"),
    [
        pytest.param("nothing", 2, "nothing-to-compare", id="a path that is not there"),
        pytest.param("v2.9", 2, "nothing-to-compare", id="half a version"),
        pytest.param("prod@2", 2, "or layout:DIRECTORY:prod@2.", id="a number of a name without a configuration"),
        pytest.param("v9.9.9", 21, "release-not-found", id="no release"),
        pytest.param("layout:registry:production", 20, "not-found", id="no artifact"),
        pytest.param("empty", 2, "not-whole", id="a folder without components"),
        pytest.param("linked", 2, "unreadable-folder", id="a folder with a link"),
        pytest.param("binary", 2, "not-comparable", id="a file that is no text"),
        pytest.param("blank", 2, "blank: it has no objects", id="a file without objects"),
        pytest.param("hollow", 2, "gotk-components.yaml of hollow: it has no objects", id="a folder without objects"),
        pytest.param("broken", 2, "broken: it is not YAML: ", id="a file that is no YAML"),
        pytest.param("oci://", 2, "invalid-reference", id="no address"),
    ],
)
def test_what_cannot_be_compared_is_told(desk: Desk, side: str, code: int, words: str) -> None:
    desk.write("empty/a.txt", "")
    desk.write("linked/a.txt", "")
    (desk.folder / "linked/b").symlink_to("a.txt")
    desk.write("binary", b"\xff\xfe")
    desk.write("blank", "# Flux Version: v2.98.5\n---\n\n")
    desk.write("hollow/gotk-components.yaml", "")
    desk.write("broken", "a: [")
    for sides in ((side, OLD), (OLD, side)):
        ran = desk.run("diff", *sides)
        assert (ran.code, words in ran.err, "Traceback" in ran.err) == (code, True, False), ran


def test_a_file_that_is_called_like_a_release_is_named_with_its_folder(desk: Desk) -> None:
    components(desk, NEW, OLD)
    assert desk.ok("diff", f"./{NEW}", OLD, "--output", "json").json["changes"] == []
    assert desk.ok("diff", NEW, OLD, "--output", "json").json["changes"] != []


def test_hostile_names_do_nothing_in_any_form(desk: Desk) -> None:
    text = desk.ok("render", "--flux-version", OLD).out
    evil = "x\\e[2J|@octocat</details>\\u202e"
    desk.write("a.yaml", text)
    desk.write("b.yaml", f'{text}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: "{evil}", namespace: y}}\n')
    text, page = (desk.ok("diff", "a.yaml", "b.yaml", "--output", form).out for form in ("text", "markdown"))
    for form in (text, page):
        assert "octocat" in form
        assert not {"\x1b", "\u202e"} & set(form)
    assert "@octocat" not in page
    assert all(line == "</details>" for line in page.splitlines() if "</details>" in line)


@pytest.mark.parametrize("form", ["text", "json", "markdown"])
def test_it_is_the_same_each_time_and_writes_nothing(desk: Desk, form: str) -> None:
    before = desk.state()
    first = desk.ok("diff", OLD, NEW, "--output", form).out
    assert desk.ok("diff", OLD, NEW, "--output", form).out == first
    assert desk.state() == before


def test_a_plan_says_the_same_of_a_step_as_a_comparison(desk: Desk) -> None:
    desk.init(version=OLD)
    plan = desk.plan()
    (step,) = plan["steps"]
    found = desk.ok("diff", CHANNEL, NEW, *TRUSTED, "--output", "json").json
    assert sorted(map(str, step["changes"]["all"])) == sorted(map(str, found["changes"]))
