"""The guide on what changes around a channel: its commands do what it says."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import pytest

from tests.e2e.test_trust import in_a_job
from tests.fakes.sigstore import GITHUB, WORKFLOW, LocalSigstore
from tests.fakes.world import key_pem, signing_key
from tests.unit.docs.documents import ROOT

if TYPE_CHECKING:
    from tests.e2e.desk import Desk, Ran

GUIDE = (ROOT / "docs/guides/when-things-change.md").read_text()
OLD, NEW = ("cosign.key", "cosign.pub"), ("new.key", "new.pub")


def commands(section: str) -> list[str]:
    """Return the commands in the blocks of a section, without what another program does with the output."""
    (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", GUIDE, re.MULTILINE | re.DOTALL)
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    return [it.replace("\\\n", "").strip().removeprefix("flux-manifests ").partition(" | ")[0] for it in blocks]


def configure(
    desk: Desk, signing: str, verify: str, *, more: str = "", registry: str = "registry", paused: bool = False
) -> None:
    pause = ", paused: true" if paused else ""
    desk.config(
        f"version: 1\ndefaults: {{signing: {signing}, verify: {verify}{more}}}\nartifacts:\n"
        f"- {{name: staging, url: 'layout:{registry}:staging'{pause}}}\n"
        f"- {{name: production, url: 'layout:{registry}:production', promote: {{from: staging, after: 0s}}{pause}}}\n"
    )


def with_key(desk: Desk, key: str, *trusted: str, registry: str = "registry", paused: bool = False) -> None:
    configure(desk, f"{{key: {key}}}", f"{{publicKey: [{', '.join(trusted)}]}}", registry=registry, paused=paused)


def ran(desk: Desk, command: str, *more: str) -> Ran:
    return desk.ok(*shlex.split(command), *more)


@pytest.fixture
def fleet(desk: Desk) -> Desk:
    """Return a desk with a second key, and two channels: production has v2.98.8, staging went back from it."""
    desk.write("new.key", key_pem("theirs"))
    desk.write("new.pub", signing_key("theirs").public.to_pem())
    desk.write("cosign.pub", signing_key().public.to_pem())
    with_key(desk, "cosign.key", "cosign.pub")
    desk.ok("init", "staging", "--flux-version", "v2.98.5")
    desk.ok("update", "staging")
    digest = desk.ok("verify", "staging", "--output", "json").json["digest"]
    desk.ok("promote", "--to", "production", "--approve", digest)
    desk.ok("rollback", "staging", "--to", "v2.98.5", "--reason", "webhooks", "--yes")
    return desk


def test_another_key_signs_what_is_published_from_then_on_and_the_holds_of_the_old_one_count(fleet: Desk) -> None:
    secret, passes = commands("Another key")
    assert ran(fleet, secret).out.count(".pub: |") == 2
    (fleet.folder / "cosign.key").unlink()
    with_key(fleet, "new.key", "cosign.pub", "new.pub")
    assert fleet.run(*shlex.split(passes)).code == 10
    assert "v2.98.8 was rolled back" in fleet.ok("update", "staging").out
    plan = fleet.ok("plan", "staging", "--out", "plan.json", "--output", "json").json["plan"]
    fleet.ok("apply", "plan.json", "--approve", plan["steps"][0]["target"])
    fleet.ok("promote", "--to", "production", "--approve", plan["steps"][0]["target"])
    ran(fleet, passes)
    fleet.ok("rollback", "production", "--to", "v2.98.8", "--reason", "old", "--yes")


def test_after_a_theft_an_adoption_signs_with_the_new_key_and_the_old_holds_are_seen_with_the_old_one(
    fleet: Desk,
) -> None:
    look, adopt = commands("A stolen key")
    assert "v2.98.8 on hold" in ran(fleet, look.replace("production", "staging")).out
    with_key(fleet, "new.key", "new.pub", paused=True)
    assert "on hold" not in fleet.run("history", "staging").out
    for name in ("staging", "production"):
        stopped = fleet.run("check", name)
        assert (stopped.code, "If that key is lost or stolen, " in stopped.err) == (10, True)
        ran(fleet, adopt.replace("production", name), "--yes")
        fleet.ok("verify", name, "--public-key", "new.pub")
    assert "paused" in fleet.ok("update", "staging").out
    assert fleet.run("rollback", "production", "--to", "v2.98.5", "--reason", "x", "--yes").code == 11


def test_an_adoption_leaves_the_signature_of_the_old_signer_beside_the_new_one(fleet: Desk) -> None:
    (adopt,) = re.findall(r"`flux-manifests (update production --adopt)` adds the new signature", GUIDE)
    with LocalSigstore() as sigstore:
        fleet.write("trust.json", sigstore.trust_config())
        in_a_job(fleet, sigstore.environment())
        identity = f"{{identity: '{WORKFLOW.subject}', issuer: '{GITHUB}'}}"
        configure(fleet, "{mode: keyless}", identity, more=", trustConfig: trust.json", paused=True)
        for name in ("staging", "production"):
            ran(fleet, adopt.replace("production", name), "--yes")
            fleet.ok("verify", name)
            fleet.ok("verify", f"layout:registry:{name}", "--public-key", "cosign.pub")
        with_key(fleet, "cosign.key", "cosign.pub")
        fleet.ok("check")


def test_a_channel_that_is_promoted_to_another_registry_goes_on_there_without_its_holds(fleet: Desk) -> None:
    (copy,) = commands("Another registry")
    copy = copy.replace("oci://ghcr.io/acme/flux-manifests", "layout:registry")
    copy = copy.replace("oci://registry.example/acme/flux-manifests", "layout:elsewhere")
    for name in ("staging", "production"):
        shown = fleet.run(*shlex.split(copy.replace(":production", f":{name}")))
        assert shown.code == 11
        (command,) = re.findall(r"^To approve:\nflux-manifests (.*)", shown.out, re.MULTILINE)
        ran(fleet, command)
    with_key(fleet, "cosign.key", "cosign.pub", registry="elsewhere")
    assert fleet.run("rollback", "production", "--to", "v2.98.5", "--reason", "x", "--yes").code == 11
    assert "v2.98.8 can be published" in fleet.ok("check", "staging").out
    assert "v2.98.8 on hold until a newer release on " in fleet.ok("history", "staging").out
    fleet.ok("update", "staging")
    fleet.ok("verify", "production")
