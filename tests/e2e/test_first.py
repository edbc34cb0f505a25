"""What a channel may begin with, and that no later overlay takes Flux out of it either."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.e2e.desk import CHANNEL, COMPONENTS, SIGNED, TRUSTED, UPDATE, approved
from tests.e2e.doubles import Said, serving

if TYPE_CHECKING:
    from tests.e2e.desk import Desk

INIT = ("init", CHANNEL, "--flux-version", "v2.98.5")
UNSIGNED = (*INIT, "--signing", "unsafe-unsigned")
GOOD = f"resources: [{COMPONENTS}]\n"
OVERLAYS = {
    "a field that kustomize does not know": (f"resources: [{COMPONENTS}]\npathces: [{{path: a.yaml}}]\n", "pathces"),
    "no components": ("resources: [a.yaml]\n", f"no kustomization lists {COMPONENTS}"),
    "a file that is not there": (f"resources: [{COMPONENTS}, b.yaml]\n", "b.yaml is not in the artifact"),
}
SECRET = "kind: Secret\nstringData: {password: hunter2}\n"
BUILT = {name: it for name, it in OVERLAYS.items() if name != "a file that is not there"}  # others are refused for good
BAD = pytest.mark.parametrize(("kustomization", "told"), OVERLAYS.values(), ids=OVERLAYS)


def overlay(desk: Desk, kustomization: str) -> tuple[str, str]:
    """Write an overlay, and return the option that names it."""
    desk.write("overlay/kustomization.yaml", kustomization)
    desk.write("overlay/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: flux-system}\n")
    return ("--overlay", "overlay")


class TestUnsigned:
    def test_it_is_said(self, desk: Desk) -> None:
        said = "It is unsigned: clusters that verify will refuse it."
        assert said in desk.ok(*UNSIGNED).out
        assert (
            "Nothing was verified: no public key or identity is given." in desk.ok(*UNSIGNED).out
        )  # of what is there already

    def test_programs_are_told_too(self, desk: Desk) -> None:
        assert desk.ok(*UNSIGNED, "--output", "json").json["signed"] is False

    def test_of_what_is_signed_nothing_is_said(self, desk: Desk) -> None:
        for _ in "published", "there already":
            ran = desk.ok(*INIT, *SIGNED)
            assert "unsigned" not in ran.out
            assert "not checked" not in ran.out
        assert desk.ok(*INIT, *SIGNED, "--output", "json").json["signed"] is True


def test_a_file_that_is_no_yaml_is_named_also_where_no_kustomization_lists_flux(desk: Desk) -> None:
    own = overlay(desk, "resources: [a.yaml]\n")
    desk.write("overlay/a.yaml", "a: [1\nb: : x\n")
    ran = desk.run(*INIT, *SIGNED, *own)
    assert ran.code == 11
    assert f"no kustomization lists {COMPONENTS}" in ran.err
    assert "the overlay at ./ cannot be built: a.yaml:2 " in ran.err
    assert "correct `overlay/a.yaml:2`" in ran.err
    assert "acknowledge" not in ran.err


def test_what_clusters_get_in_place_of_flux_alone_is_shown(desk: Desk) -> None:
    own = overlay(desk, f"resources: [{COMPONENTS}, a.yaml]\n")
    told = "Beside plain Flux, clusters get:\n  warning, other: ConfigMap flux-system/a is new"
    assert told in desk.ok(*INIT, *SIGNED, *own).out
    again = desk.ok(*INIT, *SIGNED, *own, "--output", "json").json
    shutil.rmtree(desk.folder / "registry")
    first = desk.ok(*INIT, *SIGNED, *own, "--output", "json").json
    assert (again["published"], first["published"]) == (False, True)
    (change,) = first["changes"]
    assert change["object"]["name"] == "a"
    assert again["changes"] == [change]
    shutil.rmtree(desk.folder / "registry")
    assert "Beside plain Flux" not in desk.ok(*INIT, *SIGNED).out


class TestAnOverlayThatTakesFluxOut:
    @BAD
    def test_begins_no_channel(self, desk: Desk, kustomization: str, told: str) -> None:
        ran = desk.run(*INIT, *SIGNED, *overlay(desk, kustomization))
        assert (ran.code, "code first-refused" in ran.err) == (11, True)
        assert told in ran.err
        assert not (desk.folder / "registry").exists()

    @BAD
    def test_is_planned_as_refused_and_never_published(self, desk: Desk, kustomization: str, told: str) -> None:
        desk.init(*overlay(desk, GOOD))
        new = overlay(desk, kustomization)
        plan = desk.plan(*new)
        step = next(step for step in plan["steps"] if step["decision"] == "refused")
        assert any(told in reason for reason in step["reasons"])
        refused = desk.run("apply", "plan.json", *approved(plan, plan["steps"].index(step)), *SIGNED, *new)
        assert (refused.code, "code step-refused" in refused.err) == (11, True)
        desk.ok(*UPDATE, *new)
        desk.ok("pull", CHANNEL, "out", *TRUSTED)
        assert desk.read("out/kustomization.yaml") == GOOD

    @pytest.mark.parametrize(("kustomization", "told"), BUILT.values(), ids=BUILT)
    def test_is_no_first_promotion(self, desk: Desk, kustomization: str, told: str) -> None:
        new = overlay(desk, kustomization)
        refused = desk.run(*INIT, *SIGNED, *new, "--output", "json").error["message"]
        fingerprints = [part.partition(")")[0] for part in refused.split(" (")[1:]]
        known = [
            f"{{fingerprint: '{it}', until: 2090-01-01, reason: a laboratory}}" for it in fingerprints if len(it) == 16
        ]
        desk.config(
            f"version: 1\nartifacts:\n- {{name: staging, url: '{CHANNEL}', acknowledge: [{', '.join(known)}]}}\n"
            "- {name: stable, url: 'layout:registry:stable'}\n"
        )
        desk.ok("init", "staging", "--flux-version", "v2.98.5", *SIGNED, *new)
        digest = desk.ok("verify", CHANNEL, *TRUSTED, "--output", "json").json["digest"]
        ran = desk.run("promote", "--from", "staging", "--to", "stable", "--approve", digest, *SIGNED)
        assert ran.code == 11
        assert told in ran.out + ran.err
        assert desk.run("verify", "stable", *TRUSTED).code == 20


def test_a_registry_of_images_that_does_not_answer_begins_no_channel_until_that_is_accepted(desk: Desk) -> None:
    with serving(lambda _, __: Said(403, b"{}")) as registry:
        images = f"127.0.0.1:{registry.port}/fluxcd"
        wrong = (*INIT, *SIGNED, "--registry", images)
        ran = desk.run(*wrong)
        assert (ran.code, "code first-refused" in ran.err) == (11, True)
        todo = f"check the name {images}, and that this machine can reach and read it"
        assert f"What to do: {todo}; or accept it" in ran.err
        assert not (desk.folder / "registry").exists()
        accepted = (f"--acknowledge={each}" for each in re.findall(r"\(([0-9a-f]{16})\)", ran.err))
        assert "published: Flux v2.98.5" in desk.ok(*wrong, *accepted).out
        assert "is there already" in desk.ok(*wrong).out


class TestASecretInPlainText:
    def test_begins_no_channel_unless_allowed(self, desk: Desk) -> None:
        options = overlay(desk, GOOD)
        desk.write("overlay/s.yaml", SECRET)
        pushed = ("push", "overlay", "layout:shop:staging", "--source", "https://git.example", "--revision", "main")
        for command, made in ((*INIT, *SIGNED, *options), "registry"), ((*pushed, *SIGNED), "shop"):
            ran = desk.run(*command)
            assert (ran.code, "code plain-secrets" in ran.err) == (11, True)
            assert "Secrets in plain text: s.yaml" in ran.err
            assert not (desk.folder / made).exists()
            done = desk.ok(*command, "--allow-secrets")
            assert "hunter2" not in ran.out + ran.err + done.out + done.err
            assert ("s.yaml holds a Secret in plain text" in done.out) == ("init" in command)

    def test_begins_a_channel_where_it_is_acknowledged(self, desk: Desk) -> None:
        desk.write("overlay/s.yaml", SECRET)
        pushed = ("push", "overlay", "shop", "--source", "https://git.example", "--revision", "main", *SIGNED)
        config = "version: 1\nartifacts:\n- {name: shop, url: 'layout:shop:staging'%s}\n"
        desk.write(".github/flux-manifests.yaml", config % "")
        (told,) = re.findall(r"plain text: s\.yaml \(([0-9a-f]{16})\)", desk.run(*pushed).err)
        known = f", acknowledge: [{{fingerprint: '{told}', until: 2999-01-01, reason: a test}}]"
        desk.write(".github/flux-manifests.yaml", config % known)
        assert "published" in desk.ok(*pushed).out

    def test_of_a_content_step_needs_approval_once(self, desk: Desk) -> None:
        desk.init(*overlay(desk, GOOD), version="v2.99.4")
        desk.write("overlay/s.yaml", SECRET)
        plan = desk.plan("--overlay", "overlay")
        assert any("s.yaml holds a Secret in plain text" in reason for reason in plan["steps"][0]["reasons"])
        waits = desk.run(*UPDATE, "--overlay", "overlay")
        assert "s.yaml holds a Secret in plain text" in waits.out
        assert "hunter2" not in waits.out + waits.err
        desk.ok("apply", "plan.json", *approved(plan), *SIGNED, "--overlay", "overlay")
        desk.write("overlay/b.yaml", "kind: A\n")
        assert "plain text" not in desk.run(*UPDATE, "--overlay", "overlay").out
