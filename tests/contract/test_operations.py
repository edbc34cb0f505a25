"""Operations by dispatch: what is shown is done once it is approved, exactly that or nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ci_automation.cli import run
from ci_automation.signing.trust import Identity
from tests.contract.operating import CONFIG, configure, dispatch, push
from tests.contract.scene import FIRST, PATCH

if TYPE_CHECKING:
    from tests.contract.scene import Scene
    from tests.fakes.sigstore import LocalSigstore


@pytest.fixture
def scene(scene: Scene) -> Scene:
    """Return a fleet whose channel has the patch, and whose configuration GitHub has too."""
    configure(scene)
    scene.offer(FIRST, PATCH)
    ran = scene.run(approval="none")
    assert (ran.code, ran.outputs["target-version"]) == (0, PATCH), ran
    return scene


class TestRollback:
    def test_is_shown_then_approved_then_done(self, scene: Scene) -> None:
        had = scene.channel
        asked = dispatch(scene, "rollback", to=FIRST, reason="webhooks time out")
        shown = asked.show()
        assert (shown.code, shown.outputs["changed"]) == (0, "false"), shown
        assert f"goes back from {PATCH} to {FIRST}" in shown.summary
        assert had in shown.summary
        assert "webhooks time out" in shown.summary
        assert json.loads(shown.outputs["shown"])["base"] == had == scene.channel
        asked.approve()
        done = asked.do(shown.outputs["shown"])
        assert (done.code, done.outputs["changed"]) == (0, "true"), done
        assert done.outputs["digest"] == scene.channel != had
        assert f"rolled back to {FIRST}" in done.summary
        assert "Approved by ada" in done.summary

    def test_holds_the_release_against_the_schedule(self, scene: Scene) -> None:
        assert dispatch(scene, "rollback", to=FIRST).through().code == 0
        scene.runner.variables["GITHUB_EVENT_NAME"] = "schedule"
        at = scene.channel
        ran = scene.run(approval="none")
        assert (ran.code, scene.channel) == (0, at), ran

    def test_can_be_run_again_after_it_was_done(self, scene: Scene) -> None:
        asked = dispatch(scene, "rollback", to=FIRST)
        shown = asked.show()
        asked.approve()
        assert asked.do(shown.outputs["shown"]).code == 0
        again = asked.do(shown.outputs["shown"])
        assert (again.code, again.outputs["changed"]) == (0, "false"), again

    def test_to_where_the_channel_is_asks_nobody(self, scene: Scene) -> None:
        shown = dispatch(scene, "rollback", to=PATCH).show()
        assert (shown.code, shown.outputs["shown"]) == (0, ""), shown
        assert "no approval is needed" in shown.summary


class TestLiftHold:
    def test_names_the_hold_and_what_comes_next(self, scene: Scene) -> None:
        had = scene.channel
        assert dispatch(scene, "rollback", to=FIRST, reason="webhooks time out").through().code == 0
        asked = dispatch(scene, "lift-hold", reason="mended")
        shown = asked.show()
        assert shown.code == 0, shown
        assert "webhooks time out" in shown.summary
        assert f"The next scheduled run publishes {PATCH}: {had}" in shown.summary
        asked.approve()
        done = asked.do(shown.outputs["shown"])
        assert (done.code, done.outputs["changed"]) == (0, "false"), done
        scene.runner.variables["GITHUB_EVENT_NAME"] = "schedule"
        assert scene.run(approval="none").outputs["digest"] == had

    def test_without_a_hold_says_so(self, scene: Scene) -> None:
        ran = dispatch(scene, "lift-hold").show()
        assert ran.code == 2
        assert "has no hold now" in ran.said("error")[0]


class TestKeyless:
    SUBJECT = "https://github.com/acme/fleet/.github/workflows/flux.yaml@refs/heads/main"

    @pytest.fixture
    def keyless(self, scene: Scene, local: LocalSigstore) -> Scene:
        """Return a fleet whose workflow signs as itself, and whose configuration names nobody."""
        (scene.runner.workspace / "sigstore.json").write_bytes(local.trust_config())
        scene.runner.variables["GITHUB_SERVER_URL"] = "https://github.com"
        text = (scene.runner.workspace / CONFIG).read_text()
        text = text[: text.index("artifacts:")] + (
            "artifacts:\n- {name: production, url: 'layout:keyless:production', trustConfig: sigstore.json}\n"
        )
        (scene.runner.workspace / CONFIG).write_text(text)
        push(scene, text)
        with scene.runner.patch.context() as patch:
            for name, value in (scene.runner.environment() | self.token(local)).items():
                patch.setenv(name, value)
            own = ["--flux-version", FIRST, "--releases", "../releases"]
            assert run(["init", "production", *own]) == 0
        scene.runner.variables.update(self.token(local))
        ran = scene.runner.run(releases="../releases", approval="none")
        assert (ran.code, ran.outputs["target-version"]) == (0, PATCH), ran
        return scene

    def token(self, local: LocalSigstore) -> dict[str, str]:
        """Return the variables by which a job gets its identity token."""
        return local.environment(Identity("https://token.actions.githubusercontent.com", self.SUBJECT))

    def test_what_would_happen_is_shown_without_a_token(self, keyless: Scene, local: LocalSigstore) -> None:
        asked = dispatch(keyless, "rollback", to=FIRST)
        for name in self.token(local):
            keyless.runner.variables.pop(name)
        shown = asked.show()
        assert shown.code == 0, shown
        asked.approve()
        lacking = asked.do(shown.outputs["shown"], key="")
        assert (lacking.code, lacking.outputs["changed"]) == (22, "false"), lacking
        keyless.runner.variables.update(self.token(local))
        ran = asked.do(shown.outputs["shown"], key="")
        assert (ran.code, ran.outputs["target-version"]) == (0, FIRST), ran
