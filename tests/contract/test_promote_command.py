"""The command `promote`, the same in the action, and what leaves promoted artifacts alone."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import pytest

from ci_automation.artifact.reference import LayoutDirectory, Reference
from ci_automation.cli import run
from ci_automation.demo.samples import write_samples
from ci_automation.registry.layout import LayoutRegistry
from tests.e2e.desk import require_form
from tests.fakes.runner import Runner
from tests.fakes.world import key_pem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Once

OLD, PATCH = "v2.98.5", "v2.98.8"
KEY = ["--signing", "key", "--key", "cosign.key"]
EDGE, STAGING, PRODUCTION = "layout:edge:edge", "layout:staging:staging", "layout:production:production"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], once: Once) -> Path:
    """Return a folder with three channels, of which the first is ahead."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)

    def publish() -> None:
        write_samples(tmp_path / "releases")
        (tmp_path / "cosign.key").write_bytes(key_pem())
        for channel, version in ((EDGE, PATCH), (STAGING, OLD), (PRODUCTION, OLD)):
            assert run(["init", channel, "--flux-version", version, "--releases", "releases", *KEY]) == 0

    once("three channels", tmp_path, publish)
    configure(tmp_path)
    capsys.readouterr()
    return tmp_path


def configure(folder: Path, staging: str = "{from: edge}", production: str = "{from: staging}") -> None:
    """Write the configuration."""
    (folder / ".github").mkdir(exist_ok=True)
    (folder / ".github/flux-manifests.yaml").write_text(
        "version: 1\nsource: dir:releases\n"
        "defaults: {signing: {mode: key, key: cosign.key}, policy: {escalate: []}}\nartifacts:\n"
        f"- {{name: production, url: '{PRODUCTION}', promote: {production}}}\n"
        f"- {{name: staging, url: '{STAGING}', promote: {staging}}}\n"
        f"- {{name: edge, url: '{EDGE}'}}\n"
    )


def said(capsys: pytest.CaptureFixture[str]) -> Any:
    """Return what was printed for programs."""
    return json.loads(capsys.readouterr().out)


@pytest.mark.usefixtures("folder")
def test_all_waves_are_done_in_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["promote", "--output", "json"]) == 0
    value = said(capsys)
    assert [(each["name"], each["changed"]) for each in value["promotions"]] == [
        ("staging", True),
        ("production", True),
    ]
    assert len({each["to"]["digest"] for each in value["promotions"]}) == 1
    gates = {gate["gate"]: gate for gate in value["promotions"][0]["gates"]}
    assert gates["soak"]["input"].startswith("promote.after: 0m; recorded ")
    assert run(["promote"]) == 0
    assert capsys.readouterr().out.count(": nothing to do at v2.98.8\n") == 2


def test_a_channel_that_was_there_is_adopted_by_its_name_and_promoted_then(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(folder / "production")
    shutil.rmtree(folder / ".github")
    unsigned = ["--releases", "releases", "--signing", "unsafe-unsigned"]
    assert run(["init", PRODUCTION, "--flux-version", OLD, *unsigned]) == 0
    configure(folder, production="{from: edge}")
    assert run(["promote", "--to", "production"]) == 10
    assert "\nflux-manifests update production --adopt\n" in capsys.readouterr().err
    assert run(["update", "production"]) == 2
    assert "`update production --adopt`" in capsys.readouterr().err
    assert run(["update", "production", "--adopt"]) == 10
    capsys.readouterr()
    assert run(["update", "production", "--adopt", "--yes", "--output", "json"]) == 0
    (adopted,) = said(capsys)["artifacts"]
    assert (adopted["version"], adopted["signature"], adopted["changed"]) == (OLD, "adopted", False)
    assert run(["update", "production", "--adopt", "--output", "json"]) == 0
    assert said(capsys)["artifacts"][0]["signature"] == "verified"
    assert run(["promote", "--to", "production", "--output", "json"]) == 0
    assert said(capsys)["promotions"][0]["changed"]


def test_a_wave_that_waits_says_until_when_and_fails_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure(folder, production="{from: staging, after: 72h}")
    assert run(["promote", "--exit-code"]) == 0
    out = capsys.readouterr().out
    assert "promoted" in out
    assert "waiting" in out
    assert "the source must have had it for " in out


def test_one_that_fails_keeps_no_other_from_being_done(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure(folder, production="{from: 'layout:nowhere:x'}")
    assert run(["promote", "--output", "json"]) == 20
    failed, done = sorted(said(capsys)["promotions"], key=lambda each: str(each["name"]))
    assert failed["error"]["code"] == "source-empty"
    assert done["changed"]


@pytest.mark.usefixtures("folder")
class TestBeforeTheFirst:
    """The first wave has promoted nothing yet, so that the next one finds no source."""

    @pytest.fixture(autouse=True)
    def gone(self, folder: Path) -> None:
        for name in ("staging", "production"):
            shutil.rmtree(folder / name)

    def test_the_wave_is_on_hold(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["promote", "--output", "json"]) == 0
        first, then = said(capsys)["promotions"]
        assert (first["name"], first["decision"]) == ("staging", "approval")
        assert (then["name"], then["decision"], then["reasons"]) == ("production", "wait", ["staging has nothing yet"])
        assert then["to"] == {"version": "", "digest": ""}
        assert run(["promote", "--exit-code"]) == 3
        out = capsys.readouterr().out
        assert out.count("staging has nothing yet") == 1
        assert "production: staging has nothing yet\n\nstaging: needs approval\n" in out
        assert "There was nothing before: everything is new." in out
        assert "No object and no file changes." not in out

    def test_it_is_an_error_where_it_was_asked_for(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["promote", "--to", "production"]) == 20
        assert "code source-empty)" in capsys.readouterr().err

    def test_the_action_says_the_same(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        runner = Runner(folder, folder / "files", monkeypatch, capsys)
        ran = runner.run(command="promote", approval="none")
        assert ran.code == 0, ran
        assert any("production: staging has nothing yet" in notice for notice in ran.said("notice"))
        assert runner.run(command="promote", approval="none", artifact="production").code == 20


def test_the_command_that_approves_does_what_this_one_would(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configured = folder / ".github/flux-manifests.yaml"
    text = configured.read_text().replace("escalate: []", "escalate: [image]")
    (folder / "our own.yaml").write_text(text.replace("signing: {mode: key, key: cosign.key}, ", ""))
    configured.unlink()
    given = ["--config", "our own.yaml", *KEY, "--allow-removal", "--kubernetes", "1.33", "--objects", "releases"]
    assert run(["promote", *given]) == 0
    out = capsys.readouterr().out
    (command,) = (line.strip() for line in out.splitlines() if "flux-manifests promote --to staging" in line)
    words = shlex.split(command)
    assert set(given) <= set(words)
    assert run(words[1:]) == 0
    assert "promoted" in capsys.readouterr().out


@pytest.mark.usefixtures("folder")
def test_what_was_asked_for_and_waits_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["promote", "--from", "edge", "--to", "staging", "--after", "1h"]) == 11
    captured = capsys.readouterr()
    headline, *_ = captured.out.splitlines()
    assert re.fullmatch(
        rf"staging: {PATCH} from edge is waiting: the source must have had it for 1h, until 20.* UTC", headline
    )
    assert (captured.out + captured.err).count("the source must have had it for 1h") == 1
    assert captured.err == (
        f"error: the promotion of {PATCH} from edge to staging has to wait\n"
        "  hint: Nothing was changed.   (exit 11, code promotion-refused)\n"
    )
    assert run(["promote", "--from", "edge", "--to", "staging", "--after", "1h", "--output", "json"]) == 11
    assert "the source must have had it for 1h" in json.loads(capsys.readouterr().out)["error"]["message"]
    assert run(["promote", "--to", "staging"]) == 0


@pytest.mark.parametrize("command", [["promote", "--to", "staging"], ["promote"]], ids=["one", "all"])
def test_what_a_hold_keeps_back_names_the_command_that_lifts_it(
    folder: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    configure(folder, production="{from: edge}")
    assert run(["promote", "--to", "staging"]) == 0
    assert run(["rollback", "staging", "--to", OLD, "--yes"]) == 0
    capsys.readouterr()
    one = command[1:] != []
    assert run(command) == (11 if one else 0)
    captured = capsys.readouterr()
    (lifting,) = (line for line in captured.out.splitlines() if line.startswith("flux-manifests rollback"))
    if one:
        assert " is waiting: v2.98.8 was rolled back on " in captured.out.splitlines()[0]
        assert "the hold" not in captured.err
    assert run([*shlex.split(lifting)[1:], "--yes"]) == 0
    assert run(["promote", "--to", "staging"]) == 0


@pytest.mark.parametrize("end", ["source", "target"])
def test_of_an_unsigned_end_the_whole_command_that_adopts_it_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str], end: str
) -> None:
    (folder / ".github/flux-manifests.yaml").unlink()
    new = {"source": "layout:new:source", "target": "layout:new:target"}[end]
    unsigned = ["--releases", "releases", "--signing", "unsafe-unsigned"]
    assert run(["init", new, "--flux-version", OLD, *unsigned]) == 0
    capsys.readouterr()
    channels = ["--from", new, "--to", STAGING] if end == "source" else ["--from", EDGE, "--to", new]
    assert run(["promote", *channels, *KEY]) == 10
    captured = capsys.readouterr()
    if end == "source":
        assert f"adopt it with `update {new} --adopt`, which" in captured.err
        return
    assert f"This is what the target, {new}, has now. If it is yours, adopt it with the command below" in captured.err
    (adopting,) = (line for line in captured.err.splitlines() if line.startswith("flux-manifests update"))
    assert run([*shlex.split(adopting)[1:], "--yes", "--releases", "releases"]) == 0


def test_the_longer_of_two_times_counts(folder: Path) -> None:
    configure(folder, staging="{from: edge, after: 24h}")
    assert run(["promote", "--to", "staging", "--after", "0"]) == 11


def test_addresses_need_no_configuration(folder: Path) -> None:
    (folder / ".github/flux-manifests.yaml").unlink()
    arguments = ["promote", "--from", EDGE, "--to", STAGING, *KEY]
    assert run([*arguments, "--output", "json"]) in {0, 11}  # the usual policy may ask


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--from", "edge"], "contradicting-options"),
        (["--after", "1h"], "contradicting-options"),
        (["--approve", f"sha256:{'0' * 64}"], "contradicting-options"),
        (["--to", "edge"], "source-unclear"),
        (["--to", "staging", "--from", "production"], "other-source"),
        (["--to", "stagin"], "unknown-artifact"),
        (["--to", "staging", "--after", "soon"], "invalid-duration"),
    ],
)
def test_what_cannot_be_meant_is_told(capsys: pytest.CaptureFixture[str], arguments: list[str], code: str) -> None:
    assert run(["promote", *arguments]) == 2
    assert f"code {code})" in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("arguments", [["update"], ["check", "--heal"]])
def test_all_artifacts_are_those_that_are_rendered(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert run([*arguments, "--output", "json"]) == 0
    captured = capsys.readouterr()
    assert [it["name"] for it in json.loads(captured.out)["artifacts"]] == ["edge"]
    assert "production gets its digests from staging, by `promote`" in captured.err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "arguments",
    [
        ["update", "production"],
        ["check", "staging", "--heal"],
        ["init", "production", "--flux-version", OLD],
    ],
)
def test_one_that_is_promoted_is_not_rendered_when_it_is_named(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert run(arguments) == 2
    told = capsys.readouterr().err
    assert "promoted-not-rendered" in told
    assert (
        f"`check {arguments[1]}` says when. To adopt the digest that it has, take `update {arguments[1]} --adopt`."
        in told
    )


@pytest.mark.usefixtures("folder")
class TestAhead:
    """`check` and `plan` of promoted channels say what `promote` would do, and write nothing."""

    @pytest.fixture(autouse=True)
    def unwritten(self, folder: Path) -> Iterator[None]:
        """Check that the looks of a test wrote nothing to the channels."""
        self.folder = folder
        yield
        assert self.channels() == self.before

    before: dict[str, bytes]
    folder: Path

    def channels(self) -> dict[str, bytes]:
        found = (it for name in ("edge", "staging", "production") for it in (self.folder / name).rglob("*"))
        return {str(it): it.read_bytes() for it in found if it.is_file()}

    def look(self, capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
        """Run a command for programs, check the form of what it prints, and return that."""
        self.before = self.channels()
        capsys.readouterr()
        assert run([*arguments, "--output", "json"]) == code
        value = said(capsys)
        require_form(value)
        return value

    def test_a_check_of_all_shows_each_channel(self, capsys: pytest.CaptureFixture[str]) -> None:
        value = self.look(capsys, "check")
        assert [it["name"] for it in value["artifacts"]] == ["edge"]
        staging, production = value["promotions"]
        assert (staging["name"], staging["from"]["version"], staging["to"]["version"]) == ("staging", OLD, PATCH)
        assert staging["to"]["digest"] == value["artifacts"][0]["digest"]
        assert (production["name"], production["from"], production["to"]) == (
            "production",
            staging["from"],
            staging["from"],
        )
        assert run(["check"]) == 0
        captured = capsys.readouterr()
        headlines = [
            line.partition(" ")[0]
            for line in captured.out.splitlines()
            if line.startswith(("edge:", "staging:", "production:"))
        ]
        assert headlines == ["edge:", "staging:", "production:"]
        assert f"staging: {OLD} now; {PATCH} from edge can be promoted" in captured.out
        assert f"production: {OLD} is current" in captured.out
        assert captured.err == ""

    @pytest.mark.parametrize(
        ("rules", "decision", "reason", "code"),
        [
            ("{from: edge}", "auto", "a patch release is published", 0),
            ("{from: edge, after: 72h}", "wait", "the source must have had it for ", 0),
            ("{from: edge}, paused: true", "wait", "paused", 0),
            ("{from: edge}, policy: {freeze: [{cron: '0 0 * * *', for: 48h}]}", "wait", "frozen until", 0),
            ("{from: edge}, policy: {escalate: [image]}", "approval", "image", 3),
            ("{from: edge}, policy: {range: '<2.98.6'}", "refused", "range", 11),
        ],
        ids=["open", "soaking", "paused", "frozen", "asks", "refused"],
    )
    def test_a_plan_has_what_every_gate_says(
        self, capsys: pytest.CaptureFixture[str], rules: str, decision: str, reason: str, code: int
    ) -> None:
        configure(self.folder, staging=rules)
        (entry,) = self.look(capsys, "plan", "staging", "--exit-code", code=code)["promotions"]
        assert (entry["decision"], entry["changed"]) == (decision, False)
        assert reason in " ".join(entry["reasons"])
        assert self.look(capsys, "check", "staging")["promotions"] == [{**entry, "exitCode": 0}]

    def test_a_hold_is_told(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["promote", "--to", "staging"]) == 0
        assert run(["rollback", "staging", "--to", OLD, "--reason", "it broke", "--yes"]) == 0
        (entry,) = self.look(capsys, "check", "staging")["promotions"]
        assert (entry["decision"], entry["from"]["version"], entry["to"]["version"]) == ("wait", OLD, PATCH)
        assert "it broke" in " ".join(entry["reasons"])

    def test_the_first_digest_is_chosen_by_the_command_that_is_printed(
        self, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        shutil.rmtree(folder / "production")
        configure(folder, production="{from: staging, after: 72h}")
        assert run(["check", "production"]) == 0
        out = capsys.readouterr().out
        assert out.splitlines()[-2] == "To approve:"
        at_once = shlex.split(out.splitlines()[-1])[1:]
        value = self.look(capsys, "plan", "production")
        assert value["promotions"][0]["from"] == {"version": "", "digest": ""}
        assert run(["plan", "production", "--exit-code"]) == 3
        out = capsys.readouterr().out
        assert "nothing yet; " in out
        assert "A person must choose the first digest of a channel." in out
        assert self.channels() == self.before
        assert shlex.split(out.splitlines()[-1])[1:] == at_once
        assert run(at_once) == 0
        found = self.look(capsys, "check", "production")["promotions"][0]
        assert found["from"] == value["promotions"][0]["to"]

    def test_a_source_that_is_empty_leaves_what_the_channel_has(
        self, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        shutil.rmtree(folder / "staging")
        for command in "check", "plan":
            (entry,) = self.look(capsys, command, "production")["promotions"]
            assert (entry["from"]["version"], entry["decision"], entry["reasons"]) == (
                OLD,
                "wait",
                ["staging has nothing yet"],
            )

    def test_a_source_without_a_signature_is_an_error_of_its_channel(
        self, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        shutil.rmtree(folder / "edge")
        (folder / ".github/flux-manifests.yaml").unlink()
        unsigned = ["--releases", "releases", "--signing", "unsafe-unsigned"]
        assert run(["init", EDGE, "--flux-version", PATCH, *unsigned]) == 0
        configure(folder)
        assert self.look(capsys, "check", "staging", code=10)["error"]["code"] == "unsigned"
        staging, production = self.look(capsys, "check", code=10)["promotions"]
        assert (staging["error"]["code"], production["exitCode"], production["from"]["version"]) == ("unsigned", 0, OLD)
        assert run(["check"]) == 10
        assert "staging: failed" in capsys.readouterr().out

    def test_without_trust_a_check_says_so_and_a_plan_cannot_be_made(
        self, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        configured = folder / ".github/flux-manifests.yaml"
        configured.write_text(configured.read_text().replace("signing: {mode: key, key: cosign.key}, ", ""))
        (entry,) = self.look(capsys, "check", "staging")["promotions"]
        assert (entry["from"]["version"], entry["to"]["digest"]) == (OLD, "")
        assert entry["reasons"][0].startswith("nothing was verified: ")
        assert self.look(capsys, "plan", "staging", code=2)["error"]["code"] == "nobody-trusted"
        (entry,) = self.look(capsys, "plan", "staging", "--key", "cosign.key")["promotions"]
        assert entry["to"]["version"] == PATCH

    @pytest.mark.parametrize(
        "option", [("--out", "plan.json"), ("--overlay", "releases"), ("--pin-images",), ("--namespace", "flux")]
    )
    def test_options_of_rendering_are_refused(
        self, capsys: pytest.CaptureFixture[str], option: tuple[str, ...]
    ) -> None:
        error = self.look(capsys, "plan", "production", *option, code=2)["error"]
        assert error["code"] == "contradicting-options"
        assert "production is promoted: `promote` alone moves it" in error["message"]
        assert not (self.folder / "plan.json").exists()


@pytest.mark.usefixtures("folder")
def test_promote_has_nothing_to_say_yes_to(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["promote", "--yes"]) == 2
    assert "--key" not in capsys.readouterr().err
    assert run(["promote", "--keyy", "cosign.key"]) == 2
    assert "--key" in capsys.readouterr().err.replace("--keyy", "")


class TestTheAction:
    """`command: promote`, and the others beside it."""

    @pytest.fixture
    def runner(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Runner:
        return Runner(folder, folder / "files", monkeypatch, capsys)

    def test_it_promotes_wave_by_wave_and_says_so(self, runner: Runner) -> None:
        ran = runner.run(command="promote", approval="none")
        assert (ran.code, ran.outputs["changed"]) == (0, "true"), ran
        artifacts = {each["name"]: each for each in json.loads(ran.outputs["artifacts"])}
        assert set(artifacts) == {"staging", "production"}
        assert artifacts["production"]["target-version"] == PATCH
        assert artifacts["production"]["current-version"] == OLD
        assert any("was promoted from" in notice for notice in ran.said("notice"))
        again = runner.run(command="promote", approval="none")
        assert (again.code, again.outputs["changed"]) == (0, "false")

    def test_one_artifact_can_be_named(self, runner: Runner) -> None:
        ran = runner.run(command="promote", approval="none", artifact="staging")
        assert (ran.code, ran.outputs["target-version"]) == (0, PATCH)

    def test_what_waits_is_approved_by_a_command_that_is_said(self, folder: Path, runner: Runner) -> None:
        shutil.rmtree(folder / "staging")
        ran = runner.run(command="promote", approval="none", artifact="staging")
        assert "needs approval" in ran.summary.partition("###")[0]
        (notice,) = (it for it in ran.said("notice") if "to approve it" in it)
        assert "to approve it, start flux.yaml: promote, staging; or run" in notice
        words = notice.partition("`")[2].rstrip("`")
        assert "--config" not in words
        assert run(shlex.split(words)[1:]) == 0

    def test_adopt_is_no_yes_to_a_source_that_was_moved_back(self, folder: Path, runner: Runner) -> None:
        shutil.rmtree(folder / "edge")
        shutil.rmtree(folder / "staging")
        assert run(["init", EDGE, "--flux-version", OLD, "--releases", "releases", *KEY]) == 0
        first = LayoutRegistry(LayoutDirectory(PurePath("edge"))).manifest(Reference.parse_channel(EDGE))
        assert run(["update", "edge"]) == 0
        LayoutRegistry(LayoutDirectory(PurePath("edge"))).put_manifest(Reference.parse_channel(EDGE), first)
        ran = runner.run(command="promote", approval="none", artifact="staging", adopt=f"sha256:{'0' * 64}")
        assert ran.code == 10
        assert "a signed record says that it was moved on" in ran.log

    def test_update_and_the_matrix_have_the_promoted_too(self, runner: Runner) -> None:
        ran = runner.run(command="update", approval="none", releases="releases")
        assert ran.code == 0, ran
        artifacts = {each["name"]: each for each in json.loads(ran.outputs["artifacts"])}
        assert list(artifacts) == ["edge", "staging", "production"]  # one after the other
        assert artifacts["production"]["target-version"] == PATCH
        listed = json.loads(runner.run(command="matrix").outputs["matrix"])
        assert sorted(each["name"] for each in listed) == sorted(artifacts)
        alone = runner.run(command="update", approval="none", artifact="production")
        assert (alone.code, alone.outputs["changed"]) == (0, "false"), alone


def test_channels_that_have_nothing_yet_are_told_alike_and_what_begins_them(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for channel in ("edge", "staging", "production"):
        shutil.rmtree(folder / channel)
    assert run(["check"]) == 20
    said = capsys.readouterr().out
    assert f"edge: nothing yet; `init edge` publishes its first artifact\n  {EDGE} was not found" in said
    assert not {"failed", "error:"} & set(said.split())
    assert "staging: nothing yet; edge has nothing yet" in said


@pytest.mark.usefixtures("folder")
def test_a_channel_is_not_promoted_to_itself(capsys: pytest.CaptureFixture[str]) -> None:
    for source, to in (("edge", "edge"), (EDGE, "edge"), ("edge", EDGE)):
        assert run(["promote", "--from", source, "--to", to]) == 2
        said = capsys.readouterr().err
        assert f"error: {EDGE} is to be promoted from itself\n" in said
        assert "code circular-promotion" in said
        assert "circle" not in said


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("configured", "more"), [(False, []), (False, ["--after", "24h"]), (True, ["--after", "24h"])])
def test_a_refusal_prints_the_whole_command_that_approves(
    folder: Path, capsys: pytest.CaptureFixture[str], configured: bool, more: list[str]
) -> None:
    shutil.rmtree(folder / "staging")
    words = ["promote", "--to", "staging", *more]
    if not configured:
        (folder / ".github/flux-manifests.yaml").unlink()
        words = ["promote", "--from", EDGE, "--to", STAGING, *more, "--key", "cosign.key"]
    assert run(words) == 11
    command = shlex.split(capsys.readouterr().out.partition("To approve:\n")[2])[1:]
    assert set(words) <= set(command)
    assert run(command) == 0
    assert run(words) == 0


@pytest.mark.parametrize(
    "rules", ["{from: edge, after: 72h}, paused: true", "{from: edge, after: 72h, evidence: [{report: no.json}]}"]
)
def test_a_first_digest_that_waits_has_a_person_to_approve_it_after_that(
    folder: Path, capsys: pytest.CaptureFixture[str], rules: str
) -> None:
    shutil.rmtree(folder / "staging")
    configure(folder, staging=rules)
    assert run(["check", "staging"]) == 0
    out = capsys.readouterr().out
    assert "at once" not in out
    assert out.endswith("After that, a person has to approve it: then `check staging` says how.\n")
