"""What follows from a digest that a run signed, and that no channel got: the run was killed before its move."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ci_automation.cli import run
from tests.contract.interference import Killed
from tests.contract.scene import CHANNEL, FIRST, PATCH
from tests.fakes.world import signing_key

if TYPE_CHECKING:
    from tests.contract.scene import Scene

TRUST = ("--public-key", "cosign.pub")
KEY = ("--signing", "key", "--key", "cosign.key")
RELEASES = ("--releases", "../releases")
BAD, REFUSED = 10, 11
NAME = "org.opencontainers.image.ref.name"


@pytest.fixture
def lost(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a digest of the patch that a run signed before it was killed."""
    scene.offer(FIRST, PATCH)
    (scene.runner.workspace / "cosign.pub").write_text(signing_key().public.to_pem())

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("ci_automation.flows.publication.publish.move", killed)
        with pytest.raises(Killed):
            run(["update", CHANNEL, *RELEASES, *KEY])
    found = next(digest for tag, digest in scene.tags.items() if tag.startswith(PATCH))
    assert scene.channel != found
    assert f"{found.replace(':', '-')}.sig" in scene.tags
    return found


def point_at(scene: Scene, digest: str, *, signed: bool = True) -> None:
    """Let a writer of the registry point the channel at a digest, and take its signature away."""
    index = scene.runner.workspace / "registry/index.json"
    found = json.loads(index.read_text())
    gone = {"production"} if signed else {"production", f"{digest.replace(':', '-')}.sig"}
    entry = next(it for it in found["manifests"] if it["digest"] == digest)
    found["manifests"] = [it for it in found["manifests"] if it.get("annotations", {}).get(NAME) not in gone]
    found["manifests"].append({**entry, "annotations": {NAME: "production"}})
    index.write_text(json.dumps(found))


def ended(capsys: pytest.CaptureFixture[str], code: int, *command: str) -> str:
    """Run a command that ends so, and return what it says."""
    capsys.readouterr()
    found, said = run([*command]), capsys.readouterr()
    assert found == code, said
    return said.out + said.err


def test_the_next_run_publishes_it_as_if_nothing_had_been(scene: Scene, lost: str) -> None:
    assert run(["update", CHANNEL, *RELEASES, *KEY]) == 0
    assert scene.channel == lost


def test_until_then_it_is_signed_and_no_channel_had_it(
    scene: Scene, lost: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "is signed" in ended(capsys, 0, "verify", f"layout:registry@{lost}", *TRUST)
    row = next(line for line in ended(capsys, 0, "history", CHANNEL, *TRUST).splitlines() if PATCH in line)
    assert row.endswith("  no verified record")
    assert scene.channel != lost


@pytest.mark.parametrize("source", ["its immutable tag", "the channel, where a writer moved it"])
def test_it_is_not_promoted_whoever_approves_it(
    scene: Scene, lost: str, source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if source == "its immutable tag":
        place = f"layout:registry:{next(tag for tag in scene.tags if tag.startswith(PATCH))}"
        code, told = 2, "a tag such as v2.9.4-"  # which is no channel
    else:
        place, code, told = CHANNEL, REFUSED, "is waiting"
        point_at(scene, lost)
    ends = ("--from", place, "--to", "layout:live:live", *TRUST, *KEY)
    for more in ((), ("--approve", lost)):
        assert told in ended(capsys, code, "promote", *ends, *more)
    assert not (scene.runner.workspace / "live").exists()


def test_its_signature_is_not_made_anew(scene: Scene, lost: str, capsys: pytest.CaptureFixture[str]) -> None:
    point_at(scene, lost, signed=False)
    assert "no signed record says that" in ended(capsys, BAD, "update", CHANNEL, *RELEASES, *KEY)


def test_where_a_writer_moves_the_channel_there_no_record_is_made_that_the_policy_does_not_lead_to(
    scene: Scene, lost: str, capsys: pytest.CaptureFixture[str]
) -> None:
    point_at(scene, lost)
    (scene.runner.workspace / "own.yaml").write_text(
        f"version: 1\nartifacts: [{{name: production, url: '{CHANNEL}', policy: {{patch: approval}}}}]\n"
    )
    ended(capsys, 0, "update", "production", "--config", "own.yaml", *RELEASES, *KEY)
    assert scene.channel == lost
    row = next(line for line in ended(capsys, 0, "history", CHANNEL, *TRUST).splitlines() if PATCH in line)
    assert "no verified record" in row
    ended(capsys, 0, "rollback", CHANNEL, "--to", FIRST, "--yes", *KEY)
    ended(capsys, 0, "update", CHANNEL, *RELEASES, *KEY)
    assert scene.channel != lost
    point_at(scene, lost)
    assert "rolled back" in ended(capsys, BAD, "update", CHANNEL, *RELEASES, *KEY)
