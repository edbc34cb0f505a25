"""`setup` writes files that fit together, for each way of working, and says what is left to do."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
import yaml

from ci_automation.artifact.reference import Reference
from ci_automation.cli import run
from ci_automation.config.load import parse_config
from tests.contract.bootstrapped import bootstrap, todo_of
from tests.contract.operating import CONFIG, dispatch
from tests.contract.scene import FIRST, PATCH
from tests.fakes.world import signing_key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.contract.scene import Scene

ACTION = ("--action", "platform/ci-automation@" + "a1" * 20)
ROOT = Path(__file__).parents[2]
TUTORIAL = (ROOT / "docs/tutorials/three-channels.md").read_text()
ARTIFACT_LINE = "          artifact: oci://ghcr.io/acme/flux-manifests:production\n"
LONGEST = 255  # characters without addresses: two lines of a wide terminal
ASKED = "The artifact, for all commands but update"
CHANNEL = "oci://ghcr.io/acme-corp/flux:stable"
FOR_READERS = ("Copy", "in place of the", "leave out the line", "with an overlay in Git", "for clusters without")
TODO = ".github/flux-manifests.todo.md"
PIN = re.findall(r"ci-automation@([0-9a-f]{40})", (ROOT / "workflows/flux.yaml").read_text())[0]
OTHER = ("acme/", "520c213", "flux-manifests:production")


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a clone of a fleet repository whose name has a dot, and whose default branch is not main."""
    for words in (
        ("init", "-q", "-b", "trunk"),
        ("remote", "add", "origin", "git@github.com:acme-corp/fleet.infra.git"),
        ("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/trunk"),
    ):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    monkeypatch.setattr("ci_automation.cli.setup.tags_beside", lambda *_: None)  # no registry is asked
    monkeypatch.setattr("ci_automation.cli.questions.existing_at", lambda _: None)
    monkeypatch.setattr("ci_automation.cli.questions.kustomize", lambda: None)
    installed_from(monkeypatch, None)
    return tmp_path


def installed_from(monkeypatch: pytest.MonkeyPatch, checkout: Path | None) -> None:
    """Let the program have been installed from a checkout, or from an index."""
    told = json.dumps({"url": checkout.as_uri(), "dir_info": {}}) if checkout else None
    installed = SimpleNamespace(read_text=lambda _: told)
    monkeypatch.setattr("importlib.metadata.distribution", lambda _: installed)


def printed(out: str) -> str:
    """Return the list that `setup` prints at its end."""
    return out.partition(f"Left to do, with boxes to tick in {TODO}:\n\n")[2]


def steps(out: str) -> list[str]:
    """Return the steps of that list, without the titles."""
    return [line for line in printed(out).splitlines() if re.match(r"\d+\. ", line)]


def files(clone: Path) -> dict[str, str]:
    listed = (path for path in clone.rglob("*") if path.is_file() and ".git/" not in str(path))
    return {path.relative_to(clone).as_posix(): path.read_text() for path in listed}


WAYS = {
    "keyless, by pull request": (("--overlay", "-"), {"flux.yaml"}),
    "keyless, by a run": (("--approval", "workflow-dispatch", "--overlay", "-"), {"flux.yaml", "approve.yaml"}),
    "keyless, by code": (("production", "--approval", "code"), {"flux.yaml", "preview.yaml"}),
    "with a key, by code": (("--signing", "key", "--approval", "code", "--overlay", "-"), {"flux.yaml"}),
    "with an overlay": (("--overlay", "clusters/a/flux"), {"flux.yaml", "preview.yaml"}),
    "with a key": (("--signing", "key", "--overlay", "own"), {"flux.yaml", "preview.yaml"}),
    "with a key, by a run": (
        ("--signing", "key", "--approval", "workflow-dispatch", "--overlay", "-"),
        {"flux.yaml", "approve.yaml"},
    ),
    "three channels": (("production", "oci://ghcr.io/acme-corp/flux-edge:edge"), {"flux.yaml", "preview.yaml"}),
    "three channels, with a key": (("production", "edge", "--signing", "key"), {"flux.yaml", "preview.yaml"}),
    "three channels, by a run": (
        ("production", "edge", "--approval", "workflow-dispatch"),
        {"flux.yaml", "approve.yaml", "preview.yaml"},
    ),
}


@pytest.mark.parametrize(("options", "workflows"), WAYS.values(), ids=WAYS)
def test_the_files_of_each_way_of_working_fit_together(
    clone: Path,
    options: Sequence[str],
    workflows: set[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["setup", CHANNEL, *ACTION, *options]) == 0
    written = files(clone)
    assert {name.rpartition("/")[2] for name in written if "workflows" in name} == {*workflows, "watch.yaml"}
    for name, text in written.items():
        used = "".join(line for line in text.splitlines(keepends=True) if not line.strip().startswith("#"))
        assert not any(sample in used for sample in OTHER), name
        assert not any(words in text for words in FOR_READERS), name
        assert name.endswith((".yaml", ".md"))
        list(yaml.safe_load_all(text) if name.endswith(".yaml") else ())
    words = re.sub(r"(?s:```sh.*?```)|https://\S+", "", written[TODO])
    assert max(map(len, words.splitlines())) <= LONGEST
    config = parse_config(written[".github/flux-manifests.yaml"].encode(), "x")
    first, *others = config.artifacts
    assert first.channel == Reference.parse(CHANNEL)
    promoted = [(it.name, it.promote.source, it.promote.after) for it in others if it.promote]
    hours = timedelta(hours=24)
    assert promoted == [("production", "stable", hours), ("edge", "production", hours)][: len(others)]
    applied = {name for name in written if name.endswith("sync.yaml")}
    assert applied == {f"flux-manifests/{it.name}/sync.yaml" for it in config.artifacts}
    assert all(("Each cluster applies one of" in written[it]) is bool(others) for it in applied)
    assert all(
        "\n# No Kustomization applies this file: when it changes, apply it to each" in written[it] for it in applied
    )
    monkeypatch.chdir(clone)
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    capsys.readouterr()
    (clone / "cosign.pub").touch()  # which `public-key` writes
    assert run(["config", "validate", "--workflows", ".github/workflows"]) == 0
    told = capsys.readouterr()
    assert (" fit together in acme-corp/fleet.infra on trunk: " in told.out, told.err) == (True, "")


@pytest.mark.parametrize(
    ("remote", "action"),
    [
        ("git@github.com:platform/ci-automation.git", "platform/ci-automation"),
        ("https://github.com/platform/other", None),
        ("https://github.example/platform/ci-automation", None),
    ],
)
def test_the_action_is_the_one_that_the_program_was_installed_from(
    clone: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    remote: str,
    action: str | None,
) -> None:
    checkout = tmp_path_factory.mktemp("a checkout")
    for words in (("init", "-q"), ("remote", "add", "origin", remote)):
        subprocess.run(["git", "-C", str(checkout), *words], check=True)
    installed_from(monkeypatch, checkout)
    assert run(["setup", CHANNEL]) == (0 if action else 2)
    assert (f"uses: {action}@" in files(clone).get(".github/workflows/flux.yaml", "")) is bool(action)


def test_the_question_for_the_action_says_what_it_is_and_offers_one_of_the_same_owner(
    clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = io.StringIO("\n" * 3)
    monkeypatch.setattr(typed, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", typed)
    assert run(["setup", CHANNEL, "--overlay", "-"]) == 0
    told = capsys.readouterr().err
    assert told.count("Workflows take the action from a repository of your organisation that has this project") == 1
    assert told.count("take its OWNER/NAME from its address: https://github.com/acme/ci-automation is acme/ci-") == 1
    assert "as OWNER/ci-automation? [acme-corp/ci-automation]: " in told
    assert "uses: acme-corp/ci-automation@" in files(clone)[".github/workflows/flux.yaml"]


def test_a_question_is_on_a_line_of_its_own_after_progress(
    clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ci_automation.cli.questions.checkout_of_action", lambda _: "acme/ci-automation")
    typed = io.StringIO("\n" * 3)
    monkeypatch.setattr(typed, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", typed)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert run(["setup", CHANNEL, "--overlay", "-"]) == 0
    assert "\r\x1b[KWhich repository has this action" in capsys.readouterr().err
    assert files(clone)


@pytest.mark.parametrize("host", ["localhost:5000", "127.0.0.1", "registry.example"])
def test_a_channel_on_this_machine_is_told_to_be_one_that_no_cluster_reaches(
    clone: Path, capsys: pytest.CaptureFixture[str], host: str
) -> None:
    assert run(["setup", f"oci://{host}/flux:stable", f"oci://{host}/flux:next", *ACTION]) == 0
    told = capsys.readouterr().err
    is_here = host != "registry.example"
    assert told.count(f"oci://{host}/flux is on this machine, where neither workflows nor clusters reach it") == is_here
    assert "flux-manifests/stable/sync.yaml" in files(clone)


@pytest.mark.parametrize(
    "asked",
    [
        (CHANNEL, "next", *ACTION),
        (CHANNEL, "--name", "a", "--overlay", "-", "--after", "2h", *ACTION),
        (CHANNEL, "--signing", "key", "--repository", "a/b", "--branch", "x", *ACTION),
        (CHANNEL, "--approval", "workflow-dispatch", *ACTION),
        (CHANNEL, "--approval", "code", *ACTION),
    ],
)
def test_a_registry_that_did_not_answer_is_asked_again_by_the_command_that_is_listed_first(
    clone: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    asked: tuple[str, ...],
) -> None:
    assert run(["setup", *asked]) == 0
    told = printed(capsys.readouterr().out)
    login, command = re.findall(r"^    (.+)$", told.partition("\nThe action")[0], re.MULTILINE)
    assert "only when all clusters verify, delete `paused: true` below `name: " in told
    assert "1. oci://ghcr.io/acme-corp/flux did not say which channels it has. Log in, with a token as the pass" in told
    assert ("scopes=read:packages\n    docker login ghcr.io\n" in told, login) == (True, "docker login ghcr.io")
    assert command.startswith("flux-manifests setup oci://")
    command = command.removeprefix("flux-manifests ")
    assert sorted(shlex.split(command)[1:]) == sorted(asked)
    before = files(clone)
    assert "    paused: true # until clusters verify" in before[CONFIG]
    assert run([*shlex.split(command)]) == 0
    assert files(clone) == before
    monkeypatch.setattr("ci_automation.cli.setup.tags_beside", lambda *_: ("stable",))
    capsys.readouterr()
    assert run([*shlex.split(command), "--yes"]) == 0
    told = capsys.readouterr().out
    assert "docker login" not in printed(told)
    assert "command adopt, artifact" in told
    assert files(clone)[CONFIG] == before[CONFIG]
    monkeypatch.setattr("ci_automation.cli.setup.tags_beside", lambda *_: ())
    assert run([*shlex.split(command), "--yes"]) == 0
    assert "paused" not in files(clone)[CONFIG] + files(clone)[TODO]  # no cluster follows what is not there


def test_a_new_overlay_is_one_that_clusters_can_apply(clone: Path) -> None:
    assert run(["setup", CHANNEL, *ACTION]) == 0
    written = files(clone)
    overlay = yaml.safe_load(written["clusters/stable/flux-system/kustomization.yaml"])
    assert overlay["resources"] == ["flux-system/gotk-components.yaml"]
    first, *_ = written["clusters/stable/flux-system/kustomization.yaml"].splitlines()
    assert first.startswith("# flux-system/gotk-components.yaml is not in Git: each run renders it into the artifact.")
    (place,) = re.findall(r"docs/[\w/.-]+#[\w-]+", written["clusters/stable/flux-system/kustomization.yaml"])
    page, _, anchor = place.partition("#")
    titles = re.findall(r"^#+ (.+)$", (ROOT / page).read_text(), re.MULTILINE)
    assert anchor in {it.lower().replace(" ", "-") for it in titles}
    source, applied = yaml.safe_load_all(written["flux-manifests/stable/sync.yaml"])
    assert applied["spec"]["path"] == "./"
    (entry,) = source["spec"]["verify"]["matchOIDCIdentity"]
    assert entry["subject"].endswith(r"acme-corp/fleet\.infra/\.github/workflows/(flux\.yaml)@refs/heads/trunk$")
    assert "branches: [trunk]" in written[".github/workflows/flux.yaml"]
    assert "paths: [clusters/stable/flux-system/**, " in written[".github/workflows/flux.yaml"]


def test_three_channels_have_their_clicks_in_order(
    clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    waves = ("staging", "production", "oci://ghcr.io/acme-corp/flux-stable:stable", "--after", "72h")
    monkeypatch.setattr("ci_automation.cli.setup.tags_beside", lambda it: None if it.tag == "stable" else ())
    assert run(["setup", *waves, *ACTION]) == 0
    left = steps(capsys.readouterr().out)
    clicks = (
        *(
            "oci://ghcr.io/acme-corp/flux-stable did not say which channels it has. Log in",
            "Then run `setup` again",
            "#a-private-repository-without-github-enterprise",
            "A new package is private. To keep it so, write `sync: {source: {secretRef: {name: pull-flux-manifests}}}`",
            f"https://github.com/platform/ci-automation/commit/{'a1' * 20}. If that page is not there",
            "https://github.com/organizations/acme-corp/settings/actions",
            "Commit",
            "Tick",
            "Make the environment flux-manifests ",
            "/settings/rules",
            "If others pushed the package before",
            "command init, artifact staging, to v",
        ),
        THEN,
        "packages/container/flux-manifests/settings and https://github.com/orgs/acme-corp/packages/container/flux-sta",
        "the-first-installation",
        "of staging, then of production, then of stable that has Flux and follows no channel yet, one first. If",
        "Look in this clone for what is missing",
    )
    assert [(click, line) for click, line in zip(clicks, left, strict=True) if click not in line] == []
    written = files(clone)
    assert "overlay: clusters/flux-system\n" in written[".github/flux-manifests.yaml"]
    for name, tag in (("staging", "staging"), ("stable", "stable")):
        source, _ = yaml.safe_load_all(written[f"flux-manifests/{name}/sync.yaml"])
        assert source["spec"]["ref"] == {"tag": tag}


PACKAGE = "Write under Manage Actions access; the workflow's own package needs none: https://github.com/orgs/acme-corp/"
PAUSE = "Careful: only when all clusters verify, delete `paused: true` below `name: staging` in .github/flux-manifests."
AT = "Run workflow at https://github.com/acme-corp/fleet.infra/actions/workflows/flux.yaml: command"
THEN = "artifact production; then artifact stable. First digests do not wait."


@pytest.mark.parametrize(
    ("tags", "clicks"),
    [
        (
            ("production",),
            (
                PACKAGE,
                "init, artifact staging, to v",
                f":production, unless this workflow signed it. {AT} adopt, artifact production. A reviewer approves",
                "promote, artifact stable. First digests",
            ),
        ),
        (
            ("staging", "stable", "production"),
            (
                PACKAGE,
                f"Adopt staging, production and stable, unless this workflow signed them. {AT} adopt, artifact staging",
            ),
        ),
        (
            ("staging",),
            (PACKAGE, f":staging, unless this workflow signed it. {AT} adopt, artifact staging. A", THEN),
        ),
        (("other",), (PACKAGE, "init, artifact staging, to v", THEN)),
        ((), ("init, artifact staging, to v", THEN)),
        (None, (PACKAGE, "init, artifact staging, to v", THEN)),
    ],
)
def test_channels_that_exist_are_adopted_before_anything_is_promoted_to_them(
    clone: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tags: Sequence[str] | None,
    clicks: Sequence[str],
) -> None:
    monkeypatch.setattr("ci_automation.cli.setup.tags_beside", lambda *_: tags)
    assert run(["setup", "staging", "production", "stable", *ACTION]) == 0
    every = steps(capsys.readouterr().out)
    left = every[next(number for number, line in enumerate(every) if "/settings/rules" in line) + 1 :]
    assert [click for click, line in zip(clicks, left, strict=False) if click not in line] == []
    assert "Make it public" in left[len(clicks)]
    artifacts = parse_config(files(clone)[CONFIG].encode(), "x").artifacts
    is_there = "staging" in (tags or ())
    may_be_there = is_there or tags is None
    assert [it.paused for it in artifacts] == [may_be_there, False, False]
    later = [it for it in ("production", "stable") if it in (tags or ())]
    failing = f" Until then, promotions to {' and '.join(later)} fail."
    assert any(it.endswith(failing) for it in left) is bool(later)
    assert any(PAUSE in step for step in left[-3:]) is may_be_there


@pytest.mark.parametrize("where", ["registry", "configuration"])
def test_a_mistyped_channel_is_asked_about_and_never_made_by_yes(
    clone: Path, where: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if where == "registry":
        monkeypatch.setattr("ci_automation.cli.setup.tags_beside", lambda *_: ("staging", "production"))
    else:
        assert run(["setup", "staging", "production", *ACTION]) == 0
    before, command = files(clone), ["setup", "staging", "prodution", *ACTION]
    said = ("does not exist", "does") if where == "registry" else (f"is not in {CONFIG}", "is")  # no registry answered
    for answer, options in ((False, ()), (True, ("--yes",))):
        monkeypatch.setattr("ci_automation.cli.setup.confirmed", lambda _, answer=answer: answer)
        assert run([*command, *options]) == 2
        assert f":prodution {said[0]}; did you mean production?" in capsys.readouterr().err
        assert files(clone) == before
    question = f":prodution {said[0]}, and production {said[1]}. Is it a new channel?"
    monkeypatch.setattr(
        "ci_automation.cli.setup.confirmed", lambda it: it.endswith((question, "flux.yaml?", "s.yaml?"))
    )
    assert run(command) == 0
    assert "flux-manifests:prodution\n" in files(clone)[".github/flux-manifests.yaml"]


def test_a_repository_of_several_channels_is_asked_once(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr("ci_automation.cli.setup.tags_beside", lambda it: asked.append(str(it.repository)))
    monkeypatch.setattr("ci_automation.cli.setup.confirmed", lambda _: True)
    assert run(["setup", "staging", "production", "stable", *ACTION]) == 0
    assert len(asked) == len(set(asked)) == 1
    assert files(clone)


def test_the_tutorial_has_what_setup_writes_and_lists(
    clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ci_automation.cli.setup.tags_beside", lambda *_: ())
    (command,) = re.findall(r"^flux-manifests (setup .*)$", TUTORIAL, re.MULTILINE)
    assert run([*command.split(), "--repository", "acme/fleet", "--branch", "main"]) == 0
    (listed,) = re.findall(r"^```text\n(.*?)^```", TUTORIAL, re.MULTILINE | re.DOTALL)
    assert listed == printed(capsys.readouterr().out)
    written = files(clone)
    shipped = (ROOT / "workflows/flux.yaml").read_text().replace(ARTIFACT_LINE, "")  # as tests/real/test_life.py has it
    shipped = shipped.partition("\n#\n")[2].replace(
        "; with an overlay in Git, add its folder: clusters/production/**", ""
    )
    shipped = shipped.replace("The artifact's name in .github/flux-manifests.yaml, if it has several", ASKED, 1)
    shipped = shipped.replace("type: string", "type: choice\n        options: [none, staging, production, stable]", 1)
    assert written[".github/workflows/flux.yaml"] == shipped.replace("paths: [", "paths: [clusters/flux-system/**, ")
    assert f"```yaml\n{written['.github/flux-manifests.yaml'].partition(chr(10))[2]}```" in TUTORIAL
    named = re.findall(r"`([\w./-]+\.(?:yaml|md))`", " ".join(re.findall(r"^\| `.*$", TUTORIAL, re.MULTILINE)))
    assert {*named, "flux-manifests/production/sync.yaml", "flux-manifests/stable/sync.yaml"} == written.keys()


def test_the_readme_says_how_many_steps_the_lists_of_the_tutorials_have() -> None:
    told = re.findall(r"(\d+)[^,]*?\[[^]]*\]\((docs/tutorials/[\w-]+\.md)#1-files\)", (ROOT / "README.md").read_text())
    listed = [re.findall(r"^(\d+)\. .*\n    ", (ROOT / page).read_text(), re.MULTILINE)[-1] for _, page in told]
    assert [count for count, _ in told] == listed
    assert len(told) == 2


def test_first_digests_come_from_channel_to_channel_with_these_files(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ci_automation.cli.setup.tags_beside", lambda *_: ())
    scene.fleet.protections.clear()
    here = ("--repository", "acme/fleet", "--branch", "main")
    assert run(["setup", "staging", "production", "stable", *ACTION, *here]) == 0
    work = scene.runner.workspace
    (work / "cosign.pub").write_text(signing_key().public.to_pem())
    text = (work / CONFIG).read_text().replace("oci://ghcr.io/acme/flux-manifests:", "layout:road:")
    keyed = "    publicKey: cosign.pub\n  signing: {mode: key, key: cosign.key}\n"
    text = re.sub(r"    identity: .*\n.*\n", keyed, text)
    text += f"apiUrl: {scene.forge.url}\nupstream: {{verify: if-available}}\n"

    def merge(text: str) -> None:
        (work / CONFIG).write_text(text)
        written = (path for top in (".github", "clusters") for path in (work / top).rglob("*.yaml"))
        scene.fleet.push("main", {path.relative_to(work).as_posix(): path.read_bytes() for path in written}, "keeper")

    merge(text)
    scene.offer(FIRST)
    fresh = scene.run()
    assert fresh.code == 20
    (error,) = dispatch(scene, "init", artifact="production", to=FIRST).show().said("error")
    assert "production gets its digests from staging, by `promote`" in error
    assert "take the operation `adopt`" in error
    begun = dispatch(scene, "init", artifact="staging", to=FIRST)
    shown = begun.show()
    begun.approve()
    done = begun.do(shown.outputs["shown"])
    waiting = scene.run()
    assert any("to approve it, start flux.yaml: promote, production; or" in it for it in waiting.said("notice"))
    promoted = [dispatch(scene, "promote", artifact=it).through() for it in ("production", "stable")]
    scene.offer(FIRST, PATCH)
    production = next(it for it in scene.run().artifacts if it["name"] == "production")
    digests = [it.outputs["digest"] for it in (done, *promoted)]
    assert (digests, production["pending-decision"]) == ([production["digest"]] * 3, "wait")
    names = {"v2.9.4": FIRST, "oci://ghcr.io/acme/flux-manifests:": "layout: road:"}  # as Markdown escapes it
    page = re.sub("|".join(names), lambda it: names[it[0]], TUTORIAL)
    quoted = re.findall(r"^ *> (- .*)$", page, re.MULTILINE)
    told = [line for it in (fresh, shown, done, waiting, *promoted) for line in it.summary.splitlines()]
    assert len(quoted) == 8
    assert set(quoted) <= set(told)


@pytest.mark.parametrize("signing", ["keyless", "key"])
def test_run_workflow_offers_the_names_of_several_channels(clone: Path, signing: str) -> None:
    def asked() -> dict[str, object]:
        text = files(clone)[".github/workflows/flux.yaml"]
        found: dict[str, object] = yaml.safe_load(text)[True]["workflow_dispatch"]["inputs"]["artifact"]
        return found

    first = ("setup", CHANNEL, "--signing", signing, *ACTION)
    assert run([*first]) == 0
    assert (asked()["type"], "options" in asked()) == ("string", False)
    assert run(["setup", "oci://ghcr.io/acme-corp/other:edge", "--signing", signing, *ACTION, "--yes"]) == 0
    assert (asked()["type"], asked()["options"]) == ("choice", ["none", "stable", "edge"])


def test_a_second_channel_keeps_what_starts_the_first_and_a_declined_file_is_named(
    clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ci_automation.cli.setup.confirmed", lambda _: False)
    assert run(["setup", CHANNEL, *ACTION]) == 0
    other = ("oci://ghcr.io/acme-corp/other:edge", *ACTION)
    before = files(clone)
    capsys.readouterr()
    assert run(["setup", *other]) == 0
    shown = capsys.readouterr().out
    assert shown.index("+  - name: edge") < shown.index("flux-manifests/edge/sync.yaml written")  # after all questions
    kept = (
        ". Take the changes of .github/flux-manifests.yaml, .github/workflows/flux.yaml, which were left as they are: "
    )
    assert kept in shown
    del before[TODO]
    assert files(clone).items() >= before.items()
    assert run(["setup", *other, "--yes"]) == 0
    paths = "paths: [clusters/stable/flux-system/**, clusters/edge/flux-system/**, .github/flux-manifests.lock.yaml"
    assert paths in files(clone)[".github/workflows/flux.yaml"]


def test_objects_have_the_secret_that_setup_says_to_write(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["setup", CHANNEL, "next", *ACTION]) == 0
    told = capsys.readouterr().out
    ((fields, again),) = re.findall(r"`(sync: .*?)` below `defaults` .* run `flux-manifests (.*?)`", told)
    assert "create secret docker-registry pull-flux-manifests --docker-server=ghcr.io" in told
    path = clone / ".github/flux-manifests.yaml"
    path.write_text(path.read_text().replace("defaults:\n", f"defaults:\n  {fields}\n"))
    assert run([again, "--yes"]) == 0
    for name in ("stable", "next"):
        source, _ = yaml.safe_load_all(files(clone)[f"flux-manifests/{name}/sync.yaml"])
        assert source["spec"]["secretRef"] == {"name": "pull-flux-manifests"}


@pytest.mark.parametrize("kept", [0, 2])
def test_an_interruption_says_what_was_written(
    clone: Path, kept: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ci_automation.cli.setup.write_file", interrupted_after(kept))
    assert run(["setup", CHANNEL, *ACTION]) == 130
    told = capsys.readouterr().err
    written = ["clusters/stable/flux-system/kustomization.yaml", ".github/flux-manifests.yaml"][:kept]
    assert files(clone).keys() == set(written)
    said = f"Of its files it wrote only {', '.join(written)}." if kept else "No file was written."
    assert f"hint: {said} Run it again. " in told


def interrupted_after(kept: int) -> Callable[[Path, bytes], None]:
    """Return what writes so many files, and is then interrupted."""
    left = iter(range(kept))

    def write(path: Path, content: bytes) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt
        path.write_bytes(content)

    return write


def test_a_second_run_changes_nothing_and_an_edited_file_is_shown_and_left_alone(
    clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ci_automation.cli.setup.confirmed", lambda _: False)
    assert run(["setup", CHANNEL, *ACTION]) == 0
    before = files(clone)
    edited = clone / ".github/workflows/flux.yaml"
    edited.write_text(edited.read_text().replace('"17 * * * *"', '"5 * * * *"'))
    capsys.readouterr()
    assert run(["setup", CHANNEL, *ACTION]) == 0
    told = capsys.readouterr()
    assert '-    - cron: "5 * * * *"' in told.out
    assert ".github/workflows/flux.yaml was left as it is" in told.err
    assert edited.read_text() != before[".github/workflows/flux.yaml"]
    assert run(["setup", CHANNEL, *ACTION, "--yes"]) == 0
    assert files(clone) == before


def test_without_a_terminal_nothing_is_written_where_a_file_would_change(
    clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["setup", CHANNEL, *ACTION]) == 0
    before = files(clone)
    capsys.readouterr()
    assert run(["setup", CHANNEL, "next", *ACTION]) == 2
    told = capsys.readouterr()
    assert files(clone) == before
    assert "+  - name: next" in told.out
    assert "error: .github/flux-manifests.yaml, " in told.err
    assert "Nothing was written. Read the differences above, and add --yes" in " ".join(told.err.split())
    assert run(["setup", CHANNEL, "next", *ACTION, "--yes"]) == 0
    assert "flux-manifests/next/sync.yaml" in files(clone)


def test_the_list_has_boxes_in_a_file_that_keeps_its_ticks(
    clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    todo = clone / TODO
    assert run(["setup", CHANNEL, *ACTION]) == 0
    told = capsys.readouterr().out
    boxes = [line.removeprefix("- [ ] ") for line in todo.read_text().splitlines() if line.startswith("- [")]
    assert boxes == steps(told)
    assert f"--body-file {TODO}`\n" in todo.read_text()
    page = re.sub(r"^- \[ \] (\d+\. (?:Tick|Commit|Then run))", r"- [x] \1", todo.read_text(), flags=re.MULTILINE)
    todo.write_text(page)
    assert run(["setup", CHANNEL, *ACTION]) == 0
    assert (todo.read_text(), page.count("- [x] ")) == (page, 3)
    again = capsys.readouterr().out
    assert f"{TODO} unchanged" in again
    assert f"\n{TODO} has {len(boxes)} steps, 3 of them done, 0 new or changed.\n" in again
    assert steps(again) == []
    monkeypatch.setattr("ci_automation.cli.setup.tags_beside", lambda _: ("stable",))
    assert run(["setup", CHANNEL, *ACTION]) == 0
    shown = capsys.readouterr().out
    before, after = (
        {it[2:] for it in re.findall(r"^- \[.\] \d+(.*)", it, re.MULTILINE)} for it in (page, todo.read_text())
    )
    counts = f"{len(after)} steps, 2 of them done, {len(after - before)} new or changed; {len(before - after)} are gone"
    assert f"{TODO} changed\n{TODO} has {counts}:\n\n" in shown
    only_new = [it for it in todo_of(clone) if re.match(r"\d+\. ", it) and it.partition(". ")[2] in after - before]
    assert re.findall(r"^\d+\. .*", shown, re.MULTILINE) == only_new
    assert len(only_new) < len(after)
    assert ("+- [" in shown, "\nFirst digests, each approved by a reviewer: " in shown, "\nThe action" in shown) == (
        False,
        True,
        False,
    )
    assert todo.read_text().count("- [x] ") == 2
    assert ":stable, unless this workflow signed it. Run" in todo.read_text()


def test_a_list_without_a_commit_of_the_action_names_the_one_of_the_files(
    clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["setup", CHANNEL, "--action", "platform/ci-automation"]) == 0
    assert f"/commit/{PIN}. If that page is not there" in capsys.readouterr().out
    assert f"uses: platform/ci-automation@{PIN}" in files(clone)[".github/workflows/flux.yaml"]


@pytest.mark.parametrize("there", [True, False, None], ids=["there", "not there", "not known"])
def test_the_own_files_of_a_channel_that_exists_are_not_lost(
    clone: Path,
    there: bool | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tags = {True: ("stable",), False: (), None: None}[there]
    monkeypatch.setattr("ci_automation.cli.setup.tags_beside", lambda _: tags)
    assert run(["setup", CHANNEL, *ACTION]) == 0
    assert ("overlay:" in files(clone)[".github/flux-manifests.yaml"]) is not there  # they stay in the artifact
    for path in (*clone.glob(".github/*.yaml"), *clone.glob("clusters")):
        path.rename(clone / f"former-{path.name}")
    capsys.readouterr()
    assert run(["setup", CHANNEL, *ACTION, "--overlay", "own", "--yes"]) == 0
    told = capsys.readouterr().out
    assert (f"Bring the own files of {CHANNEL} into own, since runs ask to" in told) is (there is True)


def test_a_repository_that_flux_bootstrap_made_is_told_to_migrate(
    clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bootstrap(clone, "clusters/stable/flux-system")
    subprocess.run(["git", "-C", str(clone), "add", "."], check=True)
    assert run(["setup", CHANNEL, *ACTION]) == 0
    told = capsys.readouterr().out
    assert "has the files of clusters/stable/flux-system without gotk-sync.yaml and" in told
    assert "command init, artifact stable, to v2.8.8." in told  # the version that the cluster has
    assert "overlay: flux/stable" in files(clone)[".github/flux-manifests.yaml"]


@pytest.mark.parametrize(
    "there", ["file", "file that Git does not have yet", "nothing", "link to nothing", "link without end"]
)
def test_what_flux_bootstrap_made_is_found_whatever_its_folder_is_called(
    clone: Path, there: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sync = bootstrap(clone, "clusters/größe") / "gotk-sync.yaml"
    if "Git" not in there:
        subprocess.run(["git", "-C", str(clone), "add", "."], check=True)
    if not (is_there := there.startswith("file")):
        sync.unlink()
    if there.startswith("link"):
        sync.symlink_to("/dev/zero" if there == "link without end" else "nothing")
    assert run(["setup", CHANNEL, *ACTION]) == 0
    assert ("has the files of clusters/größe without" in capsys.readouterr().out) is is_there


def test_a_workflow_without_end_is_told(
    clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["setup", CHANNEL, *ACTION]) == 0
    (clone / ".github/workflows/a.yaml").symlink_to("/dev/zero")
    monkeypatch.chdir(clone)
    assert run(["config", "validate", "--workflows", ".github/workflows"]) == 2
    assert "a.yaml: it is not a regular file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("path", "overlay"),
    [("./clusters/a", "clusters/flux-system"), ("./clusters", "flux/all"), ("./", ".github/flux-system")],
)
def test_no_file_is_written_where_flux_bootstrap_applies_it(clone: Path, path: str, overlay: str) -> None:
    folder = bootstrap(clone, "clusters/a/flux-system", path=path)
    subprocess.run(["git", "-C", str(clone), "add", "."], check=True)
    assert run(["setup", "staging", "production", *ACTION, "--yes"]) == 0
    written = files(clone)
    assert re.findall(r"overlay: (.+)", written[".github/flux-manifests.yaml"]) == [overlay]
    place = ".github/flux-manifests" if path == "./" else "flux-manifests"  # which source-controller leaves out
    assert {it for it in written if "sync.yaml" in it and "gotk" not in it} == {
        f"{place}/{name}/sync.yaml" for name in ("staging", "production")
    }
    (folder / "gotk-components.yaml").unlink()  # the cluster follows a channel, and Git still applies this path
    assert run(["setup", "staging", "production", *ACTION, "--yes"]) == 0
    assert files(clone).keys() == written.keys() - {"clusters/a/flux-system/gotk-components.yaml"}
    other = ("oci://ghcr.io/acme-corp/other:a", "next")
    assert run(["setup", *other, *ACTION, "--yes"]) == 0
    last = parse_config(files(clone)[".github/flux-manifests.yaml"].encode(), "x").artifacts[2]
    assert last.overlay == (None if path == "./" else overlay)


@pytest.mark.usefixtures("clone")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((CHANNEL, *ACTION, "--repository", "initech"), "the repository 'initech' is not OWNER/NAME"),
        (
            (CHANNEL, "--action", "initech/ci-automation@main"),
            "`git ls-remote https://github.com/initech/ci-automation main` prints those of a branch or a tag",
        ),
        (("staging,production,edge", *ACTION), "separate channels by blanks: `setup staging production edge`"),
    ],
)
def test_what_cannot_be_used_is_told_with_what_can(
    arguments: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["setup", *arguments]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((CHANNEL,), "unanswered"),
        ((CHANNEL, "--action", "x"), "unfit-answer"),
        (("layout:a:b", *ACTION), "unfit-answer"),
        ((CHANNEL, "stable", *ACTION), "unfit-answer"),
        ((CHANNEL, "oci://ghcr.io/acme/flux:stable", *ACTION), "unfit-answer"),
        ((CHANNEL, "next", *ACTION, "--after", "soon"), "invalid-duration"),
        ((CHANNEL, "next", *ACTION, "--signing", "key", "--approval", "workflow-dispatch"), "unfit-answer"),
        ((CHANNEL, *ACTION, "--overlay", ".github"), "unfit-overlay-folder"),
        *(
            ((CHANNEL, *ACTION, f"--{option}={value}"), "unfit-answer")
            for option, values in {
                "repository": ["acme/..", "acme", "a/b/c", "${{x}}/y", "acme/fleet, x", "acme/fleet'"],
                "branch": ["refs/heads/main", "main,x", "a'||'1", "x]", "a\nb", 'x"y', "a$b", "${{a}}"],
                "overlay": ["a, b", "a]", "a/**", "a'b", "a: b", "${{a}}", "-x"],
            }.items()
            for value in values
        ),
    ],
)
def test_what_cannot_be_used_writes_nothing(
    clone: Path, arguments: tuple[str, ...], code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(clone)
    assert run(["setup", *arguments]) == 2
    assert f"code {code}" in capsys.readouterr().err
    assert files(clone) == before


@pytest.mark.parametrize("name", ["a'||'1", "main,x", "a$b"])
def test_a_remote_whose_default_branch_has_a_hostile_name_writes_nothing(clone: Path, name: str) -> None:
    head = ("symbolic-ref", "refs/remotes/origin/HEAD", f"refs/remotes/origin/{name}")
    subprocess.run(["git", "-C", str(clone), *head], check=True)
    assert run(["setup", CHANNEL, *ACTION]) == 2
    assert files(clone) == {}


def test_a_remote_whose_default_branch_is_no_text_writes_nothing(clone: Path) -> None:
    (clone / ".git/refs/remotes/origin/HEAD").write_bytes(b"ref: refs/remotes/origin/\xff\n")
    assert run(["setup", CHANNEL, *ACTION]) == 2
    assert files(clone) == {}


@pytest.mark.parametrize("there", [True, False], ids=["", "to nothing"])
@pytest.mark.parametrize(
    "link",
    [
        ".github",
        ".github/workflows",
        ".github/workflows/flux.yaml",
        "clusters",
        "clusters/stable",
        "flux-manifests",
        "flux-manifests/stable/sync.yaml",
        TODO,
    ],
)
def test_a_link_in_the_clone_leads_no_file_out_of_it(
    clone: Path, tmp_path_factory: pytest.TempPathFactory, link: str, *, there: bool
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "is.yaml").write_text("x: y\n")
    target = outside / "is.yaml" if link.endswith((".yaml", ".md")) else outside
    (clone / link).parent.mkdir(parents=True, exist_ok=True)
    (clone / link).symlink_to(target if there else outside / "absent")
    assert run(["setup", CHANNEL, *ACTION, "--yes"]) == 2
    assert {it.name: it.read_text() for it in outside.rglob("*")} == {"is.yaml": "x: y\n"}
    assert not [it for it in clone.rglob("*.yaml") if not it.is_symlink() and outside not in it.resolve().parents]


@pytest.mark.parametrize("place", ["", "."])
def test_no_program_of_the_clone_is_run(clone: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    (clone / "below/git").write_text(f"#!/bin/sh\ntouch '{clone}/ran'\n")
    (clone / "below/git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
    assert run(["setup", CHANNEL, *ACTION]) == 0
    assert not (clone / "ran").exists()
    assert "acme-corp/fleet.infra" in files(clone)[".github/flux-manifests.yaml"]


def test_a_file_where_a_folder_has_to_be_is_told(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (clone / ".github").write_text("")
    assert run(["setup", CHANNEL, *ACTION, "--yes"]) == 2
    assert "code not-own-file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("remote", "host"),
    [
        ("git@gitlab.com:acme-corp/platform/fleet.git", "gitlab.com"),
        ("https://token@gitlab.example/acme-corp/fleet", "gitlab.example"),
        ("git@ssh.dev.azure.com:v3/acme-corp/x/fleet", "ssh.dev.azure.com"),
        ("https://github.example/acme-corp/fleet", None),
        ("https://git.example/acme-corp/gitlab", None),
    ],
)
def test_a_remote_that_is_not_github_is_told_with_what_works_there(
    clone: Path, capsys: pytest.CaptureFixture[str], remote: str, host: str | None
) -> None:
    subprocess.run(["git", "-C", str(clone), "remote", "set-url", "origin", remote], check=True)
    assert run(["setup", CHANNEL, *ACTION]) == (2 if host else 0)
    if host:
        told = capsys.readouterr().err
        assert f"the remote origin is on {host}, and `setup` writes workflows of GitHub Actions" in told
        assert "There, use the command line in that host's CI: `init`, `update`" in told
        assert not (clone / ".github").exists()
        assert run(["setup", CHANNEL, *ACTION, "--repository", "acme-corp/mirror", "--branch", "main"]) == 0
        identity = "https://github.com/acme-corp/mirror/.github/workflows/flux.yaml@refs/heads/main"
        assert f"identity: {identity}\n" in files(clone)[".github/flux-manifests.yaml"]


@pytest.mark.parametrize(
    ("remote", "wrong"),
    [
        (None, "{} is in no clone of Git"),
        ("", "the clone {} has no remote origin"),
        ("/srv/git/secret.git", "the remote origin of the clone {} is no repository on GitHub"),
    ],
    ids=["no clone", "no remote", "another remote"],
)
def test_without_a_repository_on_github_it_says_what_is_wrong_where_and_what_to_do(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    remote: str | None,
    wrong: str,
) -> None:
    for words in (("init", "-q"), ("remote", "add", "origin", remote or ""))[: (remote is not None) + bool(remote)]:
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path if remote is None else tmp_path / "below")
    assert run(["setup", CHANNEL, *ACTION]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert f"{wrong.format(tmp_path)}, so the fleet repository is not known" in told
    assert "Nothing was written. Run `setup` in a clone of it: `git clone https://github.com/OWNER/NAME`. Or " in told
    assert "secret.git" not in told  # an address may hold a login
    assert not (tmp_path / ".github").exists()


def test_a_configuration_that_is_there_keeps_what_it_has_and_gets_the_channel(clone: Path) -> None:
    assert run(["setup", CHANNEL, *ACTION, "--overlay", "-"]) == 0
    path = clone / ".github/flux-manifests.yaml"
    path.write_text(path.read_text().replace("version: 1\n", "version: 1 # ours\n"))
    before = path.read_text()
    assert run(["setup", CHANNEL, *ACTION, "--yes"]) == 0
    assert path.read_text() == before
    other = "oci://ghcr.io/acme-corp/flux-staging:stable"
    assert run(["setup", other, *ACTION, "--overlay", "-", "--yes"]) == 0
    assert path.read_text().startswith(before.rstrip("\n"))
    artifacts = parse_config(path.read_bytes(), "x").artifacts
    assert [(it.name, str(it.channel)) for it in artifacts] == [("stable", CHANNEL), ("flux-staging", other)]
    assert run(["setup", other, "next", *ACTION, "--yes"]) == 0  # its overlay is still none
    held = files(clone)
    assert run(["setup", other, CHANNEL, *ACTION, "--yes"]) == 2  # that one is rendered
    assert files(clone) == held
    path.write_text(path.read_text() + "defaults: {refuse: [notChecked]}\n".replace("defaults", "source: dir:x #"))
    shown = files(clone)
    assert run(["setup", "oci://ghcr.io/acme-corp/third:stable", *ACTION, "--overlay", "-", "--yes"]) == 2
    assert files(clone) == shown


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            ("staging", "production"),
            (
                "keeps staging and production at the newest Flux",
                "Your clusters take Flux from there, and nothing that acme-corp/fleet.infra/.github/workflows/flux.ya",
                "2 runs that a reviewer approves, and 1 pull request.",
            ),
        ),
        (
            ("staging", "--signing", "key"),
            ("nothing that your key did not sign", "1 run that a reviewer approves, or as many com"),
        ),
    ],
)
def test_the_first_list_begins_with_what_it_leads_to(
    clone: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: Sequence[str],
    told: Sequence[str],
) -> None:
    monkeypatch.setattr("ci_automation.cli.setup.tags_beside", lambda *_: ())
    assert run(["setup", *options, *ACTION]) == 0
    goal, left, _ = capsys.readouterr().out.partition("Left to do, ")
    _, lines, way = goal[goal.index("At the end:") :].strip().split("\n\n")
    assert left
    assert len(lines.splitlines()) == 3
    assert [it for it in told if it not in f"{lines} {way}"] == []
    assert f"\n{lines}\n\n{way}\n" in files(clone)[TODO]
    assert run(["setup", "--yes"]) == 0
    assert "At the end:" not in capsys.readouterr().out
