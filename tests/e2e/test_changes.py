"""What changes besides the version: options, overlay, hand edits, what is unproven, what is not ours."""

from __future__ import annotations

import json
import shlex
import shutil
from typing import TYPE_CHECKING

import pytest

from ci_automation.artifact.reference import Digest
from tests.e2e.desk import BINDING, CHANNEL, COMPONENTS, SIGNED, TRUSTED, UPDATE, approved, ours, packed, write_tree
from tests.fakes.releases import write_releases
from tests.fakes.world import OVERLAY, key_pem

if TYPE_CHECKING:
    from tests.e2e.desk import Desk

PATCH = """\
patches:
- target: {kind: "Deployment", name: "source-controller", namespace: "flux-system"}
  patch: |
    - {"op": "replace", "path": "/spec/replicas", "value": 3}"""


class TestContent:
    """Changes of overlay and options wait for approval at any step, also at none."""

    def test_an_overlay_waits_and_then_has_exactly_these_files(self, desk: Desk) -> None:
        desk.init("--overlay", write_tree(desk, "old", OVERLAY), version="v2.99.4")
        desk.write("new/kustomization.yaml", "resources:\n- flux-system/gotk-components.yaml\n")
        desk.write("new/.gitignore", "x")
        new = ("--overlay", "new")
        ran = desk.run(*UPDATE, *new, "--exit-code")
        assert ran.code == 3
        assert "hooks/after.sh (gone), kustomization.yaml (changed), patches/limits.yaml (gone)" in ran.out
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
        assert "refused" in ran.out
        assert "Deployment/source-watcher" in ran.out
        assert "--allow-removal" in ran.out
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
        assert ran.json["plan"]["steps"][0]["options"]["cluster-domain"] == "fleet.example"
        plan = desk.plan(*domain)
        desk.ok("apply", "plan.json", *approved(plan), *SIGNED)


class TestFirst:
    def test_what_cannot_be_built_does_not_begin_a_channel(self, desk: Desk) -> None:
        desk.write("new/kustomization.yaml", "resources: [flux-system/gotk-components.yaml, gone.yaml]\n")
        before = desk.state()
        ran = desk.run("init", CHANNEL, "--flux-version", "v2.98.5", *SIGNED, "--overlay", "new")
        assert (ran.code, "first-refused" in ran.err, "gone.yaml" in ran.err) == (11, True, True)
        assert desk.state() == before

    def test_what_may_break_is_told_when_it_was_published(self, desk: Desk) -> None:
        desk.write("new/kustomization.yaml", f"namePrefix: own-\nresources: [{COMPONENTS}]\n")
        init = ("init", CHANNEL, "--flux-version", "v2.98.5", *SIGNED, "--overlay", "new")
        ran = desk.ok(*init)
        assert "published: Flux v2.98.5" in ran.out
        assert "unchecked, overlay" in ran.out
        assert "the overlay at ./ was not built: there is no kustomize" in ran.out
        shutil.rmtree(desk.folder / "registry")
        ran = desk.ok(*init, "--output", "json")
        assert [hazard["certainty"] for hazard in ran.json["hazards"]] == ["unchecked"]
        (rights,) = ran.json["rights"]
        assert rights["unbuilt"] == "there is no kustomize"
        assert {right["binding"] for right in rights["rights"]} >= {"ClusterRoleBinding cluster-reconciler-flux-system"}
        again = desk.ok(*init, "--output", "json").json
        assert (again["published"], again["hazards"]) == (False, ran.json["hazards"])


CHANGES = {
    "of the log level": ((), ("--log-level", "debug")),
    "with a switch": ((), ("--network-policy=false", "--watch-all-namespaces", "false")),
    "of the overlay": ((), ("--overlay", "over lay")),
    "that removes": (
        ("--components-extra", "source-watcher"),
        ("--components", "source-controller", "--allow-removal"),
    ),
    "of nothing but the version": ((), ()),
}


@pytest.mark.parametrize(("before", "change"), CHANGES.values(), ids=list(CHANGES))
def test_the_commands_that_are_printed_for_approval_work_as_they_are(
    desk: Desk, before: tuple[str, ...], change: tuple[str, ...]
) -> None:
    desk.write("over lay/a.yaml", "a: 1\n")
    desk.init(*before, version="v2.98.8")
    ran = desk.ok(*UPDATE, *change)
    lines = ran.out.partition("To approve:\n")[2].splitlines()
    make, *do = (shlex.split(line) for line in lines if line.startswith("flux-manifests "))
    assert [command[1] for command in (make, *do)] == ["plan", *("apply" for _ in do)]
    last = do[-1]
    target = max((at, word) for at, word in enumerate(last) if last[at - 1] == "--approve")[1]
    for command in (make, last):
        desk.ok(*command[1:])
    assert desk.ok("verify", CHANNEL, *TRUSTED, "--output", "json").json["digest"] == target


def test_a_changed_overlay_is_told_by_its_diff_which_the_plan_holds(desk: Desk) -> None:
    desk.write("overlay/a.yaml", "a: 1\n")
    desk.init("--overlay", "overlay", version="v2.99.4")
    desk.write("overlay/a.yaml", "a: 2\n")
    ran = desk.ok("plan", CHANNEL, *TRUSTED, "--overlay", "overlay", "--out", "plan.json")
    assert "\n  a.yaml:\n    @@ -1,1 +1,1 @@\n    -a: 1\n    +a: 2\n" in ran.out
    (step,) = json.loads((desk.folder / "plan.json").read_bytes())["steps"]
    assert [it["path"] for it in step["changes"]["diffs"]] == ["a.yaml"]
    desk.ok("apply", "plan.json", "--approve", step["target"], *SIGNED, "--overlay", "overlay")


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
        assert ran.err.endswith(f"\nThis keeps the edits, in kustomization.yaml:\n{PATCH}\n")
        assert desk.run("check", CHANNEL, *TRUSTED).err.endswith(f":\n{PATCH}\n")
        assert desk.state() == before
        assert desk.run("verify", f"layout:registry@{edited}", *TRUSTED).code == 0

    @pytest.mark.usefixtures("edited")
    def test_are_dropped_when_that_is_accepted_and_what_that_changes_is_approved(self, desk: Desk) -> None:
        ran = desk.ok(*UPDATE, "--accept-edits")
        assert "hand edits of the components file are dropped" in ran.out
        assert "other, approval: Deployment flux-system/source-controller changes spec.replicas" in ran.out
        make, do, too = ran.out.partition("To approve:\n")[2].splitlines()
        added = too.removeprefix("To approve v2.99.4 too, add to that: ")
        for line in (make, f"{do} {added}"):
            desk.ok(*shlex.split(line)[1:])
        desk.ok("pull", CHANNEL, "out", *TRUSTED)
        assert desk.read(f"out/{COMPONENTS}") == desk.ok("render", "--flux-version", "v2.99.4").out


class TestUnproven:
    @pytest.fixture(autouse=True)
    def own(self, desk: Desk) -> None:
        write_releases(desk.folder / "own", [ours("v2.98.1"), ours("v2.98.2")])

    def test_rendering_warns(self, desk: Desk) -> None:
        ran = desk.ok("render", "--flux-version", "v2.98.1", "--releases", "own")
        assert ran.err.startswith("warning: nothing proves that v2.98.1 is rendered as Flux itself does: ")
        assert "upstream's signature on its checksums was not verified" in ran.err
        assert ran.out.startswith("---\n")
        ran = desk.ok("render", "--flux-version", "v2.98.1", "--releases", "own", "--output", "json")
        assert (ran.json["proven"], ran.json["proof"]) == (False, "none")

    def test_init_refuses_and_the_flag_allows(self, desk: Desk) -> None:
        init = ("init", CHANNEL, "--flux-version", "v2.98.1", *SIGNED, "--releases", "own")
        ran = desk.run(*init)
        assert (ran.code, "unproven-rendering" in ran.err) == (10, True)
        assert not (desk.folder / "registry").exists()
        told = desk.ok(*init, "--unsafe-unproven-rendering").out
        assert "\nNot checked: Flux's signature on v2.98.1; `mirror` downloads it.\n" in told
        assert "\nRendering not proven: nothing proves that Flux renders it the same way: " in told

    def test_what_the_flag_allowed_is_told_as_long_as_the_channel_has_it(self, desk: Desk) -> None:
        own = ("--releases", "own")
        desk.init(*own, "--unsafe-unproven-rendering", version="v2.98.1")
        told = "\nRendering not proven: this digest was published with --unsafe-unproven-rendering.\n"
        look = {
            "check": desk.ok("check", CHANNEL, *TRUSTED, *own).out,
            "plan": desk.ok("plan", CHANNEL, *TRUSTED, *own).out,
            "verify": desk.ok("verify", CHANNEL, *TRUSTED).out,
        }
        assert [name for name, out in look.items() if told not in out] == []
        assert desk.ok("verify", CHANNEL, *TRUSTED, "--output", "json").json["unprovenRendering"] is True
        moved = "published to production, rendering not proven (--unsafe-unproven-rendering)"
        assert moved in desk.ok("history", CHANNEL, *TRUSTED).out
        desk.ok("init", f"{CHANNEL}2", "--flux-version", "v2.98.5", *SIGNED)
        for command in ("check", "plan", "verify", "history"):
            assert "endering not proven" not in desk.ok(command, f"{CHANNEL}2", *TRUSTED).out
        assert desk.ok("verify", f"{CHANNEL}2", *TRUSTED, "--output", "json").json["unprovenRendering"] is False

    def test_update_refuses_and_the_flag_allows(self, desk: Desk) -> None:
        desk.init("--releases", "own", "--unsafe-unproven-rendering", version="v2.98.1")
        before = desk.state()
        update = (*UPDATE, "--releases", "own")
        ran = desk.ok(*update)
        assert "refused" in ran.out
        assert "--unsafe-unproven-rendering publishes it anyway" in ran.out
        assert desk.state() == before
        desk.plan("--releases", "own")
        assert desk.run("apply", "plan.json", *SIGNED, "--releases", "own").code == 11
        assert desk.state().keys() - before.keys() == {"plan.json"}
        ran = desk.ok(*update, "--unsafe-unproven-rendering", "--output", "json")
        assert ran.json["plan"]["steps"][0]["proof"] == "none"


class TestAdoption:
    def test_a_release_and_a_rendering_that_nothing_proves_are_told_before_the_question(self, desk: Desk) -> None:
        write_releases(desk.folder / "own", [ours("v2.98.1")])
        own = ("--releases", "own")
        unsigned = ("--signing", "unsafe-unsigned", "--unsafe-unproven-rendering")
        desk.ok("init", CHANNEL, "--flux-version", "v2.98.1", *unsigned, *own)
        told = desk.run(*UPDATE, "--adopt", *own).err
        assert "\nNot checked: Flux's signature on v2.98.1; `mirror` downloads it.\n" in told
        assert "\nRendering not proven: nothing proves that Flux renders it the same way: " in told
        assert f"{COMPONENTS} equals what this program renders of v2.98.1 with its options, byte for byte." in told
        desk.ok("init", f"{CHANNEL}2", "--flux-version", "v2.98.5", "--signing", "unsafe-unsigned")
        told = desk.run("update", f"{CHANNEL}2", *UPDATE[2:], "--adopt").err
        assert "\nNot checked: Flux's signature on v2.98.5; " in told
        assert "Rendering not proven" not in told
        assert f"{COMPONENTS} equals what Flux v2.98.5 renders with its options, byte for byte." in told

    def test_what_was_planted_beside_flux_is_shown_with_its_text(self, desk: Desk) -> None:
        desk.write("overlay/kustomization.yaml", "resources: [flux-system/gotk-components.yaml, planted.yaml]\n")
        desk.write("overlay/planted.yaml", BINDING)
        unsigned = ("--signing", "unsafe-unsigned", "--overlay", "overlay")
        desk.ok("init", CHANNEL, "--flux-version", "v2.98.5", *unsigned)
        ran = desk.run(*UPDATE, "--adopt")
        assert ran.code == 10
        told = ran.err.partition("Beside plain Flux, clusters get:\n")[2]
        assert told.startswith("  danger, rbac: ClusterRoleBinding planted is new")
        assert "  planted.yaml:\n" in ran.err
        assert "    +metadata: {name: planted}\n" in ran.err

    @pytest.mark.parametrize("signing", [("--signing", "unsafe-unsigned"), ("--signing", "key", "--key", "other.key")])
    def test_a_base_that_is_not_ours_is_taken_once_and_what_follows_is_signed(
        self, desk: Desk, signing: tuple[str, ...]
    ) -> None:
        desk.write("other.key", key_pem("theirs"))
        desk.ok("init", CHANNEL, "--flux-version", "v2.98.5", *signing)
        before = desk.state()
        assert desk.run(*UPDATE).code == 10
        assert desk.run(*UPDATE, "--yes").code == 2
        ran = desk.run(*UPDATE, "--adopt")
        assert (ran.code, "code not-adopted" in ran.err) == (10, True)
        assert desk.state() == before
        digest = desk.ok("check", CHANNEL, "--output", "json").json["digest"]
        ran = desk.ok(*UPDATE, "--adopt", "--yes")
        assert "Adoption signs and records this digest, and publishes nothing else." in ran.err
        assert "Beside plain Flux" not in ran.err
        short = Digest.parse(digest).short
        assert ran.out.startswith(f"{CHANNEL}: v2.98.5 ({short}) adopted and signed; v2.98.8 can be published; ")
        assert desk.ok("verify", CHANNEL, *TRUSTED, "--output", "json").json["digest"] == digest
        told = ran.out.partition("To publish v2.98.8:\nflux-manifests ")[2].partition("\n")[0]
        assert "--adopt" not in told
        adopted = desk.state()
        again = desk.ok(*UPDATE, "--adopt")
        assert again.out.startswith(f"{CHANNEL}: {digest} is trusted already: there is nothing to adopt.\n")
        assert again.out.partition("To publish v2.98.8:\nflux-manifests ")[2].partition("\n")[0] == told
        assert desk.state() == adopted
        published = desk.ok(*shlex.split(told), "--output", "json").json
        assert (published["signature"], published["version"]) == ("verified", "v2.98.8")

    def test_what_is_to_be_adopted_is_shown_file_by_file(self, desk: Desk) -> None:
        signed = desk.init("--overlay", write_tree(desk, "old", OVERLAY))
        desk.ok("pull", CHANNEL, "out")
        files = desk.files("out")
        shutil.rmtree(desk.folder / "out")
        files[COMPONENTS] = files[COMPONENTS].replace(b"replicas: 1\n", b"replicas: 3\n", 1)
        del files["hooks/after.sh"]
        files |= {
            "kustomization.yaml": b"resources: [flux-system/gotk-components.yaml, absent.yaml]\n",
            "new.yaml": b"a: 1\n",
        }
        planted = desk.publish(packed(dict(files)), signer=None)
        before = desk.state()
        ran = desk.run(*UPDATE, "--adopt", "--accept-edits", "--output", "json")
        assert (ran.code, ran.error["code"]) == (10, "not-adopted")
        assert f"@{planted} is not signed" in ran.err
        assert f"All files but {COMPONENTS} (compared with {signed}, which is signed):" in ran.err
        assert "\n  -  replicas: 1\n  +  replicas: 3\n" in ran.err
        assert "certain, overlay: the overlay at ./ cannot be built: absent.yaml is not in the artifact" in ran.err
        rows = [line.split() for line in ran.err.partition("All files but")[2].partition("\n\n")[0].splitlines()[2:]]
        assert {row[0]: (row[1], row[3]) for row in rows if len(row) == 4} == {
            "hooks/after.sh": (str(len(OVERLAY["hooks/after.sh"])), "gone"),
            "kustomization.yaml": ("59", "changed"),
            "new.yaml": ("5", "new"),
            "patches/limits.yaml": (str(len(OVERLAY["patches/limits.yaml"])), "same"),
        }
        assert desk.state() == before

    def test_hand_edits_are_said_to_stop_it_with_the_options_that_go_on(self, desk: Desk) -> None:
        desk.init()
        desk.ok("pull", CHANNEL, "out")
        files = {**desk.files("out"), "s.yaml": b"kind: Secret\nstringData: {password: hunter2}\n"}
        files[COMPONENTS] = files[COMPONENTS].replace(b"replicas: 1\n", b"replicas: 3\n", 1)
        digest = desk.publish(packed(dict(files)), signer=None)
        before = desk.state()
        ran = desk.run(*UPDATE, "--adopt", "--yes")
        assert (ran.code, "code edited-not-adopted" in ran.err) == (11, True)
        assert f"{CHANNEL} was not adopted" in ran.err
        assert ran.err.count("+  replicas: 3") == 1
        assert ran.err.endswith(f"\nThis keeps the edits, in kustomization.yaml:\n{PATCH}\n")
        assert desk.state() == before
        assert "danger: s.yaml holds a Secret in plain text" in ran.err
        assert "hunter2" not in ran.err
        assert "Rights in clusters that apply ./flux-system, as in plain Flux: " in ran.err
        desk.ok(*UPDATE, "--adopt", "--yes", "--accept-edits")
        assert desk.ok("verify", CHANNEL, *TRUSTED, "--output", "json").json["digest"] == str(digest)

    def test_the_version_of_what_another_tool_made_is_known_from_then_on(self, desk: Desk) -> None:
        desk.init()
        desk.ok("pull", CHANNEL, "out")
        digest = desk.publish(packed(dict(desk.files("out"))), signer=None)
        desk.ok(*UPDATE, "--adopt", "--yes")
        for artifact in CHANNEL, f"layout:registry@{digest}":
            assert f"{artifact} is signed: Flux v2.98.5, {digest}" in desk.ok("verify", artifact, *TRUSTED).out
            assert desk.ok("verify", artifact, *TRUSTED, "--output", "json").json["version"] == "v2.98.5"

    def test_a_job_is_shown_all_that_it_signs_before_it_signs(self, desk: Desk) -> None:
        overlay = write_tree(desk, "files", OVERLAY)
        desk.ok("init", CHANNEL, "--flux-version", "v2.99.4", "--signing", "unsafe-unsigned", "--overlay", overlay)
        digest = desk.ok("check", CHANNEL, "--output", "json").json["digest"]
        ran = desk.ok(*UPDATE, "--adopt", "--yes", "-v")
        shown, recording, rest = ran.err.partition(f"recording that {digest} was adopted")
        assert recording
        assert f"signing {digest}" in rest
        assert f"signing {digest}" not in shown
        assert f"@{digest} is not signed" in shown
        assert "It is Flux v2.99.4 with Flux's default options." in shown
        assert f"{COMPONENTS} equals what Flux v2.99.4 renders with its options, byte for byte." in shown
        assert f"All files but {COMPONENTS} (no signed digest to compare them with):" in shown
        rows = [line.split() for line in shown.splitlines()]
        for file in OVERLAY.files:
            assert [file.path, str(len(file.content)), Digest.of(file.content).short] in rows

    def test_without_a_key_the_signature_is_said_to_be_unchecked(self, desk: Desk) -> None:
        desk.init()
        unverified = desk.ok("check", CHANNEL).out
        assert (
            "\nNothing was verified: no public key or identity is given. So no signed hold was read: a release above "
            "may be one that was rolled back.\nIf no signer of yours"
        ) in unverified
        assert f"begin with `update {CHANNEL} --adopt --signing key" in unverified
        assert "Nothing was verified" not in desk.ok("check", CHANNEL, *TRUSTED).out
        assert (
            "its signature was not checked.\nNothing was verified: no public key" in desk.ok("pull", CHANNEL, "out").out
        )
