"""What `plan` tells people: what changes, what breaks, what it takes, and how to go on."""

from __future__ import annotations

import itertools
import json
import re
import shlex
import shutil
from typing import TYPE_CHECKING

from tests.e2e.desk import CHANNEL, TRUSTED

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.desk import Desk

EXTRA = ("--components-extra", "image-reflector-controller")
USING = "apiVersion: image.toolkit.fluxcd.io/v1beta2\nkind: ImageRepository\nmetadata: {name: x, namespace: y}\n"
CONFIG = """\
version: 1
artifacts:
- name: production
  url: layout:registry:production
  verify: {publicKey: cosign.pub}
  refuse: [rbac]
  clusters: {kubernetes: "1.33", objects: [fleet]}
"""


def words(text: str) -> str:
    return " ".join(text.split())


def pasted(out: str) -> str:
    """Return what is printed to be put into the configuration."""
    lines = out.partition("configuration:\n")[2].splitlines()
    return "\n".join(itertools.takewhile(lambda line: line.startswith("  "), lines))


def test_a_plan_says_what_changes_what_breaks_and_why_it_is_decided_so(desk: Desk) -> None:
    desk.init(*EXTRA, version="v2.98.8")
    desk.write("fleet/x.yaml", USING)
    plan = desk.plan("--objects", "fleet")
    (step,) = plan["steps"]
    text = words(desk.ok("plan", CHANNEL, *TRUSTED, "--objects", "fleet", "-v").out)
    for change in step["changes"]["all"]:
        assert change["severity"] == "info" or change["fingerprint"] in text
    for hazard in step["hazards"]:
        assert words(hazard["sentence"]) in text
        assert all(f"{place['file']}:{place['line']}" in text for place in hazard["places"])
    listed = {it["class"] for it in step["changes"]["all"]} | {it["gate"] for it in step["hazards"]}
    for gate in step["gates"]:
        assert gate["gate"] in listed or words(gate["reason"]) in text
    assert "fleet/x.yaml:1" in text


def test_what_is_printed_to_accept_a_step_is_accepted(desk: Desk) -> None:
    desk.init(*EXTRA, version="v2.98.8")
    desk.write("fleet/x.yaml", USING)
    desk.write("c.yaml", CONFIG)
    asked = ("plan", "production", "--config", "c.yaml")
    assert desk.ok(*asked, "--output", "json").json["plan"]["steps"][0]["decision"] == "refused"
    printed = pasted(desk.ok(*asked, "-v").out)
    assert desk.run(*asked).code == 0
    desk.write("c.yaml", CONFIG + printed.replace("DATE", "2999-01-01").replace("WHY", "we know") + "\n")
    (step,) = desk.ok(*asked, "--output", "json").json["plan"]["steps"]
    assert {gate["gate"] for gate in step["gates"] if gate["verdict"] != "auto"} == {"kind"}
    assert sum(gate["gate"] == "acknowledged" for gate in step["gates"]) >= 2
    assert "To acknowledge instead" not in desk.ok(*asked).out


def test_what_is_printed_first_is_what_refuses_and_the_rest_is_for_an_approval(desk: Desk) -> None:
    desk.init(*EXTRA, version="v2.98.8")
    desk.write("fleet/x.yaml", USING)
    desk.write("c.yaml", CONFIG)
    asked = ("plan", "production", "--config", "c.yaml")
    printed = pasted(desk.ok(*asked).out)
    desk.write("c.yaml", CONFIG + printed.replace("DATE", "2999-01-01").replace("WHY", "we know") + "\n")
    (step,) = desk.ok(*asked, "--output", "json").json["plan"]["steps"]
    assert step["decision"] == "approval"
    assert {gate["gate"] for gate in step["gates"] if gate["verdict"] != "auto"} > {"kind"}
    assert "To acknowledge instead" not in desk.ok(*asked).out


def test_what_is_printed_is_not_accepted_before_a_person_filled_it_in(desk: Desk) -> None:
    desk.init(*EXTRA, version="v2.98.8")
    desk.write("fleet/x.yaml", USING)
    desk.write("c.yaml", CONFIG)
    asked = ("plan", "production", "--config", "c.yaml")
    printed = pasted(desk.ok(*asked).out)
    desk.write("c.yaml", f"{CONFIG}{printed}\n")
    ran = desk.run(*asked)
    assert (ran.code, "it is not a date" in ran.err) == (2, True)


def test_the_commands_of_an_approval_repeat_what_is_known_of_the_clusters(desk: Desk) -> None:
    desk.init(*EXTRA, version="v2.98.8")
    desk.write("fleet/x.yaml", "")
    known = ("--kubernetes", "1.33-1.34", "--objects", "fleet")
    ran = desk.ok("plan", CHANNEL, *TRUSTED, *known, "--no-pin-images")
    commands = [shlex.split(line) for line in ran.out.partition("To approve:\n")[2].splitlines()]
    for command in commands:
        assert " ".join(known[:2]) in " ".join(command)
        assert " ".join(known[2:]) in " ".join(command)
        assert "--no-pin-images" in command
        desk.ok(*command[1:])


def test_release_notes_are_told_on_request_with_what_breaks_first(desk: Desk, releases: Path) -> None:
    shutil.copytree(releases, desk.folder / "told")
    listed = json.loads((desk.folder / "told/releases.json").read_bytes())
    told = [
        {**release, "body": f"## Fixes\n\nA fix.\x1b[2J\n\nOld of {release['tag_name']} was removed."}
        for release in listed
    ]
    desk.write("told/releases.json", json.dumps(told))
    desk.init(version="v2.98.8")
    ran = desk.ok("plan", CHANNEL, *TRUSTED, "--releases", "told", "-v")
    assert re.search(
        r"what may break:\n  Old of v2\.99\.4 was removed\.\nRelease notes of v2\.99\.4:\n  ## Fixes\n\n  A fix\.",
        ran.out,
    )
    assert "\x1b" not in ran.out
    assert "Old of v2.98.8" not in ran.out
    short = desk.ok("plan", CHANNEL, *TRUSTED, "--releases", "told").out
    assert "Old of" not in short
    assert "Release notes: 1 line says what may break (-v shows them)." in short
    said = desk.ok("plan", CHANNEL, *TRUSTED, "--releases", "told", "--output", "json").json["releaseNotes"]
    assert said[0] == {
        "version": "v2.99.4",
        "mayBreak": ["Old of v2.99.4 was removed."],
        "text": "## Fixes\n\nA fix.\x1b[2J\n\nOld of v2.99.4 was removed.",
    }
    assert "v2.98.8" not in {each["version"] for each in said}
