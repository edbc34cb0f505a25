"""The guide for a channel that a script pushes unsigned: its commands, in their order."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from tests.e2e.desk import CHANNEL, COMPONENTS, TRUSTED, packed

if TYPE_CHECKING:
    import pytest

    from tests.e2e.desk import Desk

PAGE = (Path(__file__).parents[2] / "docs/guides/from-a-script.md").read_text()
NAMED = "oci://ghcr.io/acme/flux-manifests:production"
CONFIG = ".github/flux-manifests.yaml"
OWN = b"kind: LimitRange\napiVersion: v1\nmetadata: {name: own, namespace: flux-system}\n"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def commands() -> list[list[str]]:
    """Return the words of each command of the page, as far as a pipe."""
    lines = "".join(blocks("sh")).replace("\\\n", "").splitlines()
    return [shlex.split(line.partition(" | ")[0]) for line in lines]


def pushed(desk: Desk, note: bytes) -> str:
    """Publish what a script pushes, with a new note each time, and return its digest."""
    rendered = desk.ok("render", "--flux-version", "v2.98.5").out.encode()
    kustomization = b"resources: [%s, limits.yaml]\n# %s\n" % (COMPONENTS.encode(), note)
    files = {"kustomization.yaml": kustomization, "limits.yaml": OWN, COMPONENTS: rendered}
    return str(desk.publish(packed({**files}), signer=None))


def test_its_commands_take_the_channel_from_the_script_and_back(desk: Desk) -> None:
    script = pushed(desk, b"first")
    keyless, keyed = (yaml.safe_load(it) for it in blocks("yaml"))
    assert keyless["artifacts"] == keyed["artifacts"] == [{"name": "production", "url": NAMED, "paused": True}]
    ours = [words[1:] for words in commands() if words[0] == "flux-manifests" and words[1] != "setup"]
    check, plan, trial, adopt, verify, paused, sync, secret, update, back = ours

    before = desk.state()
    for words in (check, plan):
        told = desk.ok(*(CHANNEL if it == NAMED else it for it in words)).out
        assert told.startswith(f"{CHANNEL}: v2.98.5 is not signed: adopt it first, then v2.98.8, v2.99.4\n")
    assert desk.state() == before
    desk.ok(*("v2.98.5" if it == "v2.8.5" else it for it in trial))
    assert desk.ok("check", trial[1]).out.startswith(f"{trial[1]}: v2.98.5 is not signed: adopt it first, then ")

    config = blocks("yaml")[1].replace(NAMED, CHANNEL)
    desk.config(config)
    assert desk.run(*update).code == 10
    adopted = desk.ok(*adopt, "--yes")
    assert "limits.yaml" in adopted.err
    assert "adopted and signed; v2.98.8 is waiting" in adopted.out
    assert desk.ok(*verify, "--output", "json").json["digest"] == script
    assert "the artifact is paused in the configuration" in desk.ok(*paused).out
    assert desk.ok(*verify, "--output", "json").json["digest"] == script

    assert "no cluster can follow" in desk.run(*sync).err  # a directory; tests/real has clusters
    patch, removal = (json.loads(it[it.index("--patch") + 1]) for it in commands() if "patch" in it)
    name = yaml.safe_load(desk.ok(*secret).out)["metadata"]["name"]
    assert patch == {"spec": {"verify": {"provider": "cosign", "secretRef": {"name": name}}}}
    assert removal == {"spec": {"verify": None}}

    again = pushed(desk, b"second")
    assert desk.run(*verify).code == desk.run(*update).code == 10
    assert again != script
    desk.ok(*("v2.98.5" if it == "v2.8.5" else it for it in back), "--yes")
    assert desk.ok(*verify, "--output", "json").json["digest"] == script

    desk.config(config.replace("    paused: true\n", ""))
    desk.ok(*update)
    assert desk.ok("verify", CHANNEL, *TRUSTED, "--output", "json").json["version"] == "v2.98.8"
    desk.ok("pull", "production", "now")
    assert desk.files("now")["limits.yaml"] == OWN


def test_without_a_pause_the_first_run_after_the_adoption_publishes_the_patch(desk: Desk) -> None:
    pushed(desk, b"first")
    desk.config(blocks("yaml")[1].replace(NAMED, CHANNEL).replace("    paused: true\n", ""))
    desk.ok("update", "production", "--adopt", "--yes")
    assert desk.ok("update", "production").out.partition("\n")[0].partition(": ")[2].startswith("v2.98.8 published")


def test_its_configuration_is_what_setup_writes(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ci_automation.cli.setup.tags_beside", lambda _: ("production",))
    monkeypatch.setattr("ci_automation.cli.questions.existing_at", lambda _: None)
    (setup,) = (words[1:] for words in commands() if words[:2] == ["flux-manifests", "setup"])
    told = desk.ok(*setup, "--repository", "acme/fleet", "--branch", "main").out
    written = yaml.safe_load(desk.read(CONFIG))
    assert written == yaml.safe_load(blocks("yaml")[0])
    (paused,) = (it for it in desk.read(CONFIG).splitlines() if "paused" in it)
    assert paused in blocks("yaml")[0].splitlines()
    assert "and do not verify" in told.partition("delete `paused: true` below `name: production`")[0]
    assert "command adopt, artifact production. A reviewer approves the run." in told
    assert "the role Write" in told
    assert "kubectl -n NAMESPACE patch ocirepository NAME --type merge" in told.partition("command adopt, ")[2]
    desk.write(CONFIG, blocks("yaml")[0])
    desk.ok("config", "validate")
