"""The exit code, and what `--output json` says of it: `Desk.run` compares the two for every command of these tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci_automation.flux.bundle import ComponentMissing
from tests.e2e.desk import CHANNEL, SIGNED, TRUSTED, approved, ours
from tests.fakes.releases import write_releases

if TYPE_CHECKING:
    from tests.e2e.desk import Desk

ARTIFACT = f"- {{name: production, url: '{CHANNEL}', signing: {{mode: key, key: cosign.key}}"
# What the policy of an artifact leads to: the configuration, and the codes without and with --exit-code.
OUTCOMES = {
    "nothing newer is wanted": ("policy: {patch: never, minor: never}", 0, 0),
    "all of it waits for a date": ("paused: true", 0, 0),
    "an approval": ("policy: {patch: approval}", 0, 3),
    "everything is refused": ("refuse: [image]", 0, 11),
}


def configure(desk: Desk, *artifacts: str) -> None:
    """Write the configuration of artifacts, each of which is published."""
    desk.config("version: 1\nartifacts:\n" + "".join(f"{each}}}\n" for each in artifacts))


@pytest.mark.parametrize("command", ["check", "plan", "update"])
@pytest.mark.parametrize(("policy", "usual", "asked"), OUTCOMES.values(), ids=list(OUTCOMES))
def test_the_json_has_the_code_of_the_process(desk: Desk, command: str, policy: str, usual: int, asked: int) -> None:
    desk.init()
    configure(desk, f"{ARTIFACT}, {policy}")
    for options, code in (((), usual), (("--exit-code",), asked)):
        ran = desk.run(command, "production", *options, "--output", "json")
        assert (ran.code, ran.json["exitCode"]) == (code, code)
        assert desk.run(command, "production", *options).code == code


def test_a_plan_that_goes_on_waiting(desk: Desk) -> None:
    desk.init()
    plan = desk.plan()
    ran = desk.run("apply", "plan.json", *SIGNED, "--exit-code", "--output", "json")
    assert (ran.code, ran.json["exitCode"]) == (3, 3)
    ran = desk.run("apply", "plan.json", *approved(plan), *SIGNED, "--exit-code", "--output", "json")
    assert (ran.code, ran.json["exitCode"]) == (0, 0)


def test_what_is_not_proven_is_refused(desk: Desk) -> None:
    write_releases(desk.folder / "own", [ours("v2.98.1"), ours("v2.98.2", like="v2.98.8")])
    desk.init("--releases", "own", "--unsafe-unproven-rendering", version="v2.98.1")
    command = ("check", CHANNEL, *TRUSTED, "--releases", "own")
    assert desk.run(*command).code == 0
    ran = desk.run(*command, "--exit-code", "--output", "json")
    assert (ran.code, ran.json["exitCode"]) == (11, 11)


def test_what_is_passed_over_because_it_cannot_be_made_is_refused(desk: Desk) -> None:
    def fail(*_: object) -> None:
        raise ComponentMissing("source-watcher", ())

    desk.init()
    desk.patch.setattr("ci_automation.flows.planning.steps.render_step", fail)
    assert desk.run("check", CHANNEL, *TRUSTED).code == 0
    ran = desk.run("check", CHANNEL, *TRUSTED, "--exit-code", "--output", "json")
    assert (ran.code, ran.json["exitCode"], ran.json["plan"]["steps"]) == (11, 11, [])


@pytest.mark.parametrize("command", ["check", "update"])
def test_of_several_the_highest_counts(desk: Desk, command: str) -> None:
    desk.init()
    other = ARTIFACT.replace("production", "other")
    refused = f"{ARTIFACT}, refuse: [image]"
    configure(desk, refused, other)
    ran = desk.run(command, "--exit-code", "--output", "json")
    assert ran.code == 20
    assert [each["exitCode"] for each in ran.json["artifacts"]] == [11, 20]
    assert desk.run(command, "--output", "json").json["exitCode"] == 20


@pytest.mark.parametrize(("policy", "code"), [("minor: approval", 3), ("range: '<2.99.0'", 11)])
def test_promotions_end_as_an_update_does(desk: Desk, policy: str, code: int) -> None:
    desk.init()
    desk.ok("init", "layout:edge:edge", "--flux-version", "v2.99.4", *SIGNED)
    configure(desk, ARTIFACT.replace(CHANNEL, "layout:edge:edge").replace("production", "edge"))
    with (desk.folder / ".github/flux-manifests.yaml").open("a") as file:
        file.write(f"{ARTIFACT}, promote: {{from: edge}}, policy: {{{policy}}}}}\n")
    assert desk.run("promote").code == 0
    ran = desk.run("promote", "--exit-code", "--output", "json")
    assert ([each["exitCode"] for each in ran.json["promotions"]], ran.code) == ([code], code)


def test_an_artifact_that_is_not_made_again_is_one_error(desk: Desk) -> None:
    desk.init()
    desk.write("released/empty", "")
    ran = desk.run("verify", CHANNEL, *TRUSTED, "--rederive", "--releases", "released", "--output", "json")
    assert ran.code == ran.error["exitCode"] != 0
