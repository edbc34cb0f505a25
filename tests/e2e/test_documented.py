"""The sample configurations of the documents are tried, with the embedded releases in place of the newest of Flux."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from ci_automation.impact.checks import compatibility
from tests.e2e.desk import CHANNEL, SIGNED, TRUSTED
from tests.fakes.world import signing_key
from tests.unit.docs.documents import ROOT, configurations

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.desk import Desk

OLD = "v2.98.5"
JQ = shutil.which("jq") or ""
# What belongs to a registry, a cloud or GitHub, and says nothing of which step is taken.
ELSEWHERE = (
    "approval",
    "signing",
    "verify",
    "trustConfig",
    "credentials",
    "consumers",
    "announce",
    "group",
    "pullFrom",
    "pinImages",
)


def tried(desk: Desk, value: Any) -> list[str]:
    """Write a configuration whose artifacts are layouts here, with the files that it names; return the channels."""
    for name in ("source", "upstream"):
        value.pop(name, None)
    rendered = list(yaml.safe_load_all(desk.ok("render", "--flux-version", OLD).out))
    stored = [it for it in rendered if it["kind"] == "CustomResourceDefinition"]
    for it in stored:
        it["status"] = {"storedVersions": [each["name"] for each in it["spec"]["versions"] if each["storage"]]}
    snapshot = {"apiVersion": "v1", "kind": "List", "items": stored}
    for number, settings in enumerate([value.get("defaults", {}), *value["artifacts"]]):
        for name in ELSEWHERE:
            settings.pop(name, None)
        if "url" in settings:
            settings["url"] = f"layout:registry-{number}:{settings['url'].rpartition(':')[2]}"
        settings.pop("promote", None)
        settings.get("flags", {}).pop("registry", None)
        settings.pop("componentsFile", None)
        for file in (settings.get("clusters") or {}).get("snapshots", ()):
            desk.write(file, json.dumps(snapshot))
        for folder in (settings.get("clusters") or {}).get("objects", ()):
            if folder.startswith("oci://"):
                settings["clusters"]["objects"] = [it for it in settings["clusters"]["objects"] if it != folder]
                continue
            desk.write(f"{folder}/app.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\n")
    desk.write("cosign.pub", signing_key().public.to_pem())
    desk.config(yaml.safe_dump(value))
    return [artifact["url"] for artifact in value["artifacts"]]


@pytest.mark.parametrize(("path", "block"), [pytest.param(*it, id=it[0].name) for it in configurations()])
def test_no_sample_configuration_refuses_what_upstream_supports(
    desk: Desk, path: Path, block: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = compatibility._KUBERNETES[max(compatibility._KUBERNETES)]
    monkeypatch.setattr(compatibility, "_KUBERNETES", {(2, 98): newest, (2, 99): newest})
    desk.write("own/note.txt", "ours\n")
    for channel in tried(desk, yaml.safe_load(block)):
        desk.ok("init", channel, "--flux-version", OLD, "--overlay", "own", *SIGNED)
        plan = desk.ok("plan", channel, "--public-key", "cosign.pub", "--output", "json").json["plan"]
        assert plan["steps"], (path, channel)
        refused = [step["reasons"] for step in plan["steps"] if step["decision"] == "refused"]
        assert not refused, (path, channel)


def test_a_version_that_is_not_the_newest_is_published_as_the_guide_says(desk: Desk) -> None:
    guide = (ROOT / "docs/guides/command-line.md").read_text().partition("## A version that is not the newest\n")[2]
    line, commands = re.findall(r"^```(?:yaml|sh)\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)[:2]
    artifact = "version: 1\nartifacts:\n  - name: production\n    url: layout:registry:production\n"
    keys = "    signing: {key: cosign.key}\n    verify: {publicKey: cosign.pub}\n"
    desk.write("cosign.pub", signing_key().public.to_pem())
    desk.config(artifact + keys)
    desk.ok("init", "production", "--flux-version", OLD)
    desk.config(artifact + keys + line.replace("2.8.7", "2.98.8"))
    printed = [desk.ok(*shlex.split(it, comments=True)[1:]).out for it in commands.splitlines()]
    assert re.search(r"^refused +v2\.99\.4 .*outside of the range", printed[0], re.MULTILINE)
    assert re.search(r"^published +v2\.98\.8 ", printed[1], re.MULTILINE)
    assert "@1  v2.98.8-" in desk.ok("history", "production").out
    desk.config(artifact + keys)
    assert "v2.99.4 needs approval" in desk.ok("check", "production").out


@pytest.mark.skipif(not JQ, reason="jq is not here")
def test_the_filters_of_jq_in_the_reference_say_what_waits_and_why(desk: Desk) -> None:
    desk.init()
    desk.ok("update", CHANNEL, *SIGNED)
    desk.config(f"version: 1\nartifacts: [{{name: production, url: '{CHANNEL}'}}]\n")
    said = desk.ok("check", "--output", "json", *TRUSTED)
    page = (ROOT / "docs/reference/json.md").read_text()
    version, waits, breaks = (
        subprocess.run([JQ, *shlex.split(it)], input=said.out, capture_output=True, text=True, check=True).stdout
        for it in re.findall(r"--output json \| jq (.*)", page)
    )
    (step,) = said.json["plan"]["steps"]
    assert version == "production v2.98.8\n"
    assert waits.split("\t") == ["production", "v2.99.4", "approval", step["target"], "; ".join(step["reasons"]) + "\n"]
    assert json.loads(breaks) == {key: step[key] for key in ("to", "target", "hazards")}
