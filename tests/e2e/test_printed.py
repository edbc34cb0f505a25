"""Every command that the program or its documents print is one; those with arguments are run exactly as printed."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
import yaml

from ci_automation.cli import COMMANDS, cli
from tests.e2e.desk import CHANNEL, COMPONENTS, SIGNED, TRUSTED, UPDATE, packed
from tests.fakes.world import signing_key
from tests.unit.report.syncs import KEYED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.desk import Desk

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "ci_automation").rglob("*.py"))
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WHOLE = re.compile(rf"flux-manifests ((?:{'|'.join(COMMANDS)})\b(?!-)[^`|#\n]*)")
SPAN = re.compile(r"`([^`\n]+)`")

# What a module prints, and the test that runs it as printed. A command that is new here needs such a test; a text that
# cannot know what the command is given has its name alone, which nobody can paste: `plan` with `--out`.
DEMO = "tests/e2e/test_demo.py::test_without_a_folder_it_keeps_a_new_one_and_what_it_prints_to_do_next_works"
PRINTED = {
    ("report/text.py", "plan"): "tests/e2e/test_printed.py::test_an_approval",
    ("report/text.py", "apply"): "tests/e2e/test_printed.py::test_an_approval",
    ("cli/follow_up.py", "check"): (
        "tests/e2e/test_printed.py::test_what_an_adoption_of_a_promoted_channel_leaves_to_do"
    ),
    ("cli/follow_up.py", "plan"): "tests/e2e/test_printed.py::test_what_shows_every_line",
    ("cli/follow_up.py", "update"): "tests/e2e/test_commands.py::test_check_prints_the_command_that_publishes",
    ("cli/follow_up.py", "promote"): (
        "tests/contract/test_promote_command.py::test_the_command_that_approves_does_what_this_one_would"
    ),
    (
        "report/preview.py",
        "diff",
    ): "tests/e2e/test_diff.py::test_every_change_and_hazard_of_two_releases_is_in_the_json",
    ("report/sync.py", "public-key"): "tests/e2e/test_printed.py::test_the_secret",
    ("report/adoption.py", "pull"): "tests/e2e/test_printed.py::test_what_an_adoption_shows",
    ("cli/demo.py", "check"): DEMO,
    ("cli/demo.py", "rollback"): DEMO,
    ("cli/follow_up.py", "rollback"): "tests/e2e/test_printed.py::test_what_lifts_a_hold",
    ("cli/follow_up.py", "diff"): (
        "tests/contract/test_history.py::test_the_table_shows_every_move_and_what_nobody_knows"
    ),
    ("cli/__init__.py", "demo"): DEMO,
    ("impact/checks/images.py", "mirror"): (
        "tests/real/test_image_mirror.py::test_a_channel_that_is_rendered_for_the_registry_passes_its_check_of_images"
    ),
    ("cli/questions.py", "setup"): (
        "tests/contract/test_setup.py"
        "::test_a_registry_that_did_not_answer_is_asked_again_by_the_command_that_is_listed_first"
    ),
    (
        "flows/setting_up/steps.py",
        "setup",
    ): "tests/contract/test_setup.py::test_objects_have_the_secret_that_setup_says_to_write",
    (
        "flows/setting_up/steps.py",
        "doctor",
    ): "tests/e2e/test_commands.py::test_the_doctor_says_the_wrong_first_and_exits_with_its_code",
    (
        "flows/setting_up/steps.py",
        "pull",
    ): "tests/e2e/test_printed.py::test_what_brings_the_own_files_of_a_channel_into_git",
    ("flows/setting_up/cluster_steps.py", "public-key"): "tests/e2e/test_printed.py::test_what_lets_clusters_verify",
    (
        "flows/setting_up/differing.py",
        "setup",
    ): "tests/contract/test_setup_migration.py"
    "::test_a_cluster_that_differs_gets_a_channel_of_its_own_by_the_command_of_the_list",
    (
        "flows/setting_up/cluster_steps.py",
        "render",
    ): "tests/contract/test_setup_migration.py::test_a_migration_by_dispatch_publishes_what_git_applied",
}


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return the tree of a module, node by node."""
    return tuple(ast.walk(ast.parse(path.read_text())))


@cache
def in_source(path: Path) -> tuple[tuple[str, str], ...]:
    """Return each command in the texts of a module, docstrings aside: its name, and all of it as far as it is known."""
    return tuple(_in_source(nodes(path))) if "flux-manifests" in path.read_text() else ()


def _in_source(tree: tuple[ast.AST, ...]) -> Iterator[tuple[str, str]]:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = {
        id(first.value)
        for it in tree
        if isinstance(it, documented) and it.body and isinstance(first := it.body[0], ast.Expr)
    }
    passed = {id(part) for it in tree if isinstance(it, ast.JoinedStr) for part in it.values} | docstrings
    for node in tree:
        if isinstance(node, ast.Tuple | ast.List | ast.Call):
            items = node.args if isinstance(node, ast.Call) else node.elts
            words = [it.value for it in items if isinstance(it, ast.Constant) and isinstance(it.value, str)]
            if words[:1] == ["flux-manifests"] and words[1:2] != []:
                yield words[1], " ".join(words[1:])
        elif isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and id(node) not in passed):
            for found in WHOLE.findall(_text(node)):
                yield found.split()[0].rstrip("."), found


def named_in_source(path: Path) -> Iterator[str]:
    """Yield what stands between backticks in the texts of a module, comments aside, and is a command with options."""
    if "--" not in (text := path.read_text()) or "`" not in text:
        return
    for node in nodes(path):
        if isinstance(node, ast.JoinedStr | ast.Constant):
            yield from _with_options(_text(node))


def _with_options(text: str) -> Iterator[str]:
    for span in SPAN.findall(text):
        words = span.removeprefix("flux-manifests ").split()
        if words and words[0] in COMMANDS and any(word.startswith("--") for word in words):
            yield span.removeprefix("flux-manifests ")


def _text(node: ast.JoinedStr | ast.Constant) -> str:
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return "".join(str(it.value) if isinstance(it, ast.Constant) else "X" for it in parts)


def in_document(path: Path) -> Iterator[str]:
    """Yield each command in the blocks for a shell, and each one in a sentence that has arguments."""
    text = path.read_text()
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        yield from (found.strip() for found in WHOLE.findall(block.replace("\\\n", " ")))
    yield from _with_options(re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))


def in_help(name: str) -> Iterator[str]:
    """Yield the examples of a command's help."""
    command = cli.get_command(click.Context(cli), name)
    for each in [command, *(command.commands.values() if isinstance(command, click.Group) else ())]:
        assert each is not None
        yield from (it.strip() for it in WHOLE.findall((each.help or "").replace("\\\n", " ")))


ALL = [
    *((path.relative_to(ROOT).as_posix(), text) for path in SOURCES for _, text in in_source(path)),
    *((path.relative_to(ROOT).as_posix(), text) for path in SOURCES for text in named_in_source(path)),
    *((path.relative_to(ROOT).as_posix(), text) for path in DOCUMENTS for text in in_document(path)),
    *((f"{name} --help", text) for name in COMMANDS for text in in_help(name)),
]


def test_each_command_that_is_printed_has_a_test_that_runs_it() -> None:
    place = ROOT / "ci_automation"
    found = {(path.relative_to(place).as_posix(), name) for path in SOURCES for name, _ in in_source(path)}
    assert found == PRINTED.keys()
    for test in PRINTED.values():
        file, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / file).read_text()


@pytest.mark.parametrize(("where", "text"), ALL, ids=[f"{where}: {text[:40]}" for where, text in ALL])
def test_each_command_and_its_options_are_there(where: str, text: str) -> None:
    command: click.Command | None = cli
    words = [word.rstrip(".,;)") for word in shlex.split(text.partition(" > ")[0].replace("...", "X"))]
    context = click.Context(cli)
    while isinstance(command, click.Group) and words:
        command = command.get_command(context, words.pop(0))
    assert command is not None, where
    options = [word.partition("=")[0] for word in words if word.startswith("--")]
    known = {name for it in command.params for name in (*it.opts, *it.secondary_opts)} | {"--help"}
    assert set(options) <= known, (where, text)


def approval(out: str) -> list[list[str]]:
    """Return the commands after `To approve:`."""
    lines = out.partition("To approve:\n")[2].splitlines()
    return [shlex.split(line) for line in lines if line.startswith("flux-manifests ")]


ASKED = {
    "update with a key": UPDATE,
    "update with both halves": (*UPDATE, *TRUSTED),
    "update with a mode left out": ("update", CHANNEL, "--key", "cosign.key"),
    "check with a key": ("plan", CHANNEL, "--key", "cosign.key"),
    "plan with the public half": ("plan", CHANNEL, *TRUSTED),
    "plan without anybody": ("plan", CHANNEL),
    "plan to a file": ("plan", CHANNEL, *TRUSTED, "--out", "own plan.json"),
}


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_an_approval(desk: Desk, asked: tuple[str, ...]) -> None:
    desk.init(version="v2.98.8")
    commands = approval(desk.ok(*asked).out)
    assert [command[1] for command in commands][-1] == "apply"
    for _, *words in commands:
        assert "othing was verified" not in desk.ok(*words).out
    target = commands[-1][commands[-1].index("--approve") + 1]
    assert desk.ok("verify", CHANNEL, *TRUSTED, "--output", "json").json["digest"] == target


@pytest.mark.parametrize("verify", ["", ", verify: {publicKey: cosign.pub}"], ids=["the key", "named"])
def test_an_approval_of_what_is_configured(desk: Desk, verify: str) -> None:
    desk.init(version="v2.98.8")
    desk.config(
        f"version: 1\nartifacts: [{{name: production, url: '{CHANNEL}', signing: {{key: cosign.key}}{verify}}}]\n"
    )
    commands = approval(desk.ok("update").out)
    assert [command[1] for command in commands] == ["plan", "apply"]
    for _, *words in commands:
        assert "othing was verified" not in desk.ok(*words).out


@pytest.mark.parametrize(("asked", "version"), [("check", "v2.98.5"), ("plan", "v2.98.8"), ("update", "v2.98.5")])
@pytest.mark.parametrize("chosen", [0, 1], ids=["content", "minor"])
def test_an_approval_of_content_or_of_a_version_beside_it(desk: Desk, asked: str, version: str, chosen: int) -> None:
    desk.write(".git/HEAD", "ref: refs/heads/main\n")
    desk.write("overlay/kustomization.yaml", f"resources: [{COMPONENTS}]\n")
    desk.init("--overlay", "overlay", version=version)
    desk.write("overlay/kustomization.yaml", f"resources: [{COMPONENTS}]\nnamePrefix: ours-\n")
    artifact = f"{{name: production, url: '{CHANNEL}', overlay: overlay, signing: {{key: cosign.key}}}}"
    desk.config(f"version: 1\nartifacts: [{artifact}]\n")
    (_, *plan), *applying = approval(desk.ok(asked, "production").out)
    desk.ok(*plan)
    steps = json.loads(desk.read("plan.json"))["steps"]
    desk.ok(*applying[chosen][1:])
    assert desk.ok("verify", "production", "--output", "json").json["digest"] == steps[-2:][chosen]["target"]


@pytest.mark.parametrize("keys", [(), ("our keys/k.key",)], ids=["the usual one", "the one given"])
def test_the_secret(desk: Desk, keys: tuple[str, ...]) -> None:
    desk.write("our keys/k.key", desk.read("cosign.key"))
    (line,) = (line for line in KEYED.to_yaml(keys).splitlines() if "flux-manifests public-key" in line)
    command, _, rest = line.partition("flux-manifests ")[2].partition(" | ")
    assert rest == "kubectl apply -f -"
    assert "kind: Secret" in desk.ok(*shlex.split(command)).out


def test_what_an_adoption_shows(desk: Desk) -> None:
    desk.init()
    desk.ok("pull", CHANNEL, "out", *TRUSTED)
    files = desk.files("out")
    files[COMPONENTS] += b"# a note\n" * 100
    desk.publish(packed(dict(files)), signer=None)
    told = desk.run("plan", CHANNEL, *TRUSTED, "--adopt", "--accept-edits", "--yes")
    (line,) = (line for line in (told.out + told.err).splitlines() if "flux-manifests pull" in line)
    desk.ok(*shlex.split(line)[1:])
    assert desk.files("FOLDER") == files


def reading(told: str) -> list[list[str]]:
    """Return the commands that show every line: after `To read all of it:`, or the plan for an approval."""
    commands = (shlex.split(line)[1:] for line in told.splitlines() if line.startswith("flux-manifests "))
    return [words for words in commands if "-v" in words]


@pytest.mark.parametrize(
    ("command", "whole"),
    [
        pytest.param(("plan", CHANNEL, *TRUSTED), ["plan"], id="a plan"),
        pytest.param(("plan", CHANNEL), ["plan"], id="a plan without a key"),
        pytest.param(UPDATE, ["diff", "plan"], id="an update, of what it did and what waits"),
        pytest.param((*UPDATE, "--adopt"), [], id="an update that shows no step"),
        pytest.param(("check", CHANNEL, *TRUSTED), [], id="a check, which leaves it to a plan"),
        pytest.param(("diff", "v2.98.5", "v2.99.4"), ["diff"], id="a difference"),
        pytest.param(("diff", "v2.98.5", "v2.98.5"), [], id="nothing left out"),
        pytest.param(("init", CHANNEL, "--flux-version", "v2.98.5", *SIGNED), ["init"], id="what is there already"),
        pytest.param(("init", "layout:new:one", "--flux-version", "v2.98.5", *SIGNED), ["init"], id="a first digest"),
        pytest.param(("promote", "--from", CHANNEL, "--to", "layout:new:one", *SIGNED), ["promote"], id="a promotion"),
    ],
)
def test_what_shows_every_line(desk: Desk, command: tuple[str, ...], whole: list[str]) -> None:
    desk.init()
    told = desk.ok(*command).out if command[0] != "promote" else desk.run(*command).out
    assert [words[0] for words in reading(told)] == whole
    assert bool(whole) is ("-v lists them)" in told)
    before = desk.state()
    desk.patch.delenv("FLUX_RELEASES")  # as in a new shell
    for words in reading(told):
        shown = desk.run(*words)
        assert "-v lists" not in shown.out
        assert len(shown.out.splitlines()) > len(whole)
    after = desk.state()
    after.pop("plan.json", None)
    assert after == before


def test_what_shows_every_line_of_a_rollback_and_of_a_promotion_that_was_done(desk: Desk) -> None:
    first = desk.init()
    begun = desk.ok("promote", "--from", CHANNEL, "--to", "layout:new:one", "--approve", first, *SIGNED).out
    assert begun.splitlines()[-1] == "9 checks passed"  # nothing to compare it with: no command could list more
    desk.ok(*UPDATE)
    promoted = desk.ok("promote", "--from", CHANNEL, "--to", "layout:new:one", *SIGNED).out
    back = desk.ok("rollback", CHANNEL, "--to", "v2.98.5", "--yes", *SIGNED).out
    before = desk.state()
    for told in (promoted, back):
        (words,) = reading(told)
        assert words[0] == "diff"
        shown = desk.ok(*words).out
        assert "othing was verified" not in shown
        assert "v2.98.8" in shown.splitlines()[0]
    assert desk.state() == before


def test_what_shows_every_line_before_an_adoption(desk: Desk) -> None:
    desk.ok("init", CHANNEL, "--flux-version", "v2.98.5", "--signing", "unsafe-unsigned")
    asked = desk.run(*UPDATE, "--adopt")
    (words,) = reading(asked.err)
    assert words == ["update", "-v", "--releases", os.environ["FLUX_RELEASES"], CHANNEL, *SIGNED, "--adopt"]
    shown = desk.run(*words).err
    assert ("-v lists" in asked.err, "-v lists" in shown) == (True, False)
    assert "To read all of it" not in shown + desk.ok(*UPDATE, "--adopt", "--yes").err


def test_what_brings_the_own_files_of_a_channel_into_git(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ci_automation.cli.setup.tags_beside", lambda _: ("production",))
    monkeypatch.setattr("ci_automation.cli.questions.existing_at", lambda _: None)
    desk.write("before/kustomization.yaml", f"resources: [{COMPONENTS}]\nnamePrefix: ours-\n")
    desk.init("--overlay", "before")
    channel = "oci://ghcr.io/acme/flux-manifests:production"
    place = ("--repository", "acme/fleet", "--branch", "main", "--action", "acme/ci-automation", "--overlay", "own")
    (command,) = re.findall(r"    flux-manifests (pull .*)", desk.ok("setup", channel, *place).out)
    desk.ok(*shlex.split(command.replace(channel, CHANNEL)), *TRUSTED)
    assert desk.files("FOLDER")["kustomization.yaml"] == desk.files("before")["kustomization.yaml"]


@pytest.mark.parametrize("signing", ["key", "keyless"])
def test_what_lets_clusters_verify(desk: Desk, monkeypatch: pytest.MonkeyPatch, signing: str) -> None:
    monkeypatch.setattr("ci_automation.cli.setup.tags_beside", lambda _: ("production",))
    monkeypatch.setattr("ci_automation.cli.questions.existing_at", lambda _: None)
    place = ("--repository", "acme/fleet", "--branch", "main", "--action", "acme/ci-automation", "--signing", signing)
    told = desk.ok("setup", "oci://ghcr.io/acme/flux-manifests:production", *place).out
    followed = told.partition("Clusters that follow a channel now, and do not verify it\n")[2].partition(
        "\nClusters\n"
    )[0]
    source, _ = yaml.safe_load_all(desk.read("flux-manifests/production/sync.yaml"))
    *made, patch, waited = re.findall(r"^    (.*)$", followed.replace("NAMESPACE", "flux-system"), re.MULTILINE)
    if signing == "key":
        (command,) = (it.partition(" | ")[0].removeprefix("flux-manifests ") for it in made)
        secret = yaml.safe_load(desk.ok(*shlex.split(command)).out)
        assert secret["metadata"]["name"] == source["spec"]["verify"]["secretRef"]["name"]
    *words, block = shlex.split(patch)
    assert " ".join(words) == "kubectl -n flux-system patch ocirepository NAME --type merge --patch"
    assert json.loads(block) == {"spec": {"verify": source["spec"]["verify"]}}
    assert waited.startswith("kubectl -n flux-system wait ocirepository NAME --for=condition=SourceVerified ")
    assert told.index(": command adopt, artifact production") < told.index(block)
    assert ("flux-manifests public-key " in told.partition("\nClusters\n")[2]) is (
        signing == "key"
    )  # other clusters need it too


def test_what_an_adoption_of_edits_leaves_to_do(desk: Desk) -> None:
    desk.init()
    desk.ok("pull", CHANNEL, "out", *TRUSTED)
    files = desk.files("out")
    files[COMPONENTS] += b"# a note\n"
    desk.publish(packed(dict(files)), signer=None)
    told = desk.ok(*UPDATE, "--adopt", "--yes", "--accept-edits").out
    make, do, *_ = told.partition("To approve:\n")[2].splitlines()
    for words in (shlex.split(make)[1:], shlex.split(do)[1:]):
        assert ("--accept-edits" in words, "--adopt" in words) == (True, False)
        desk.ok(*words)


@pytest.mark.parametrize("options", [(), ("--config", "own/fleet.yaml", *SIGNED)], ids=["configured", "given"])
def test_what_an_adoption_of_a_promoted_channel_leaves_to_do(desk: Desk, options: tuple[str, ...]) -> None:
    desk.ok("init", CHANNEL, "--flux-version", "v2.98.5", "--signing", "unsafe-unsigned")
    keys = "" if options else "defaults: {signing: {key: cosign.key}, verify: {publicKey: cosign.pub}}\n"
    artifacts = (
        "artifacts:\n- {name: staging, url: 'layout:registry:staging'}\n"
        "- {name: production, url: 'layout:registry:production', promote: {from: staging}}\n"
    )
    desk.write("own/fleet.yaml" if options else ".github/flux-manifests.yaml", f"version: 1\n{keys}{artifacts}")
    desk.ok("init", "staging", "--flux-version", "v2.98.8", *options)
    for first in ("adopted and signed", "now"):
        told = desk.ok("update", "production", "--adopt", "--yes", *options).out
        answer, *below = told.splitlines()
        assert answer.endswith(" is trusted already: there is nothing to adopt.") is (first == "now")
        headline = below[0] if first == "now" else answer
        assert headline.endswith(f") {first}; the next version comes from staging")
        assert "is current" not in told
        (command,) = told.partition("To see what comes next:\n")[2].splitlines()
        shown = desk.ok(*shlex.split(command)[1:]).out
        assert "production: v2.98.5 now; v2.98.8 from staging can be promoted" in shown
        assert "Nothing was verified" not in shown


@pytest.mark.parametrize("signer", [None, "theirs"])
@pytest.mark.parametrize("trusted", [TRUSTED, ()], ids=["verified", "not verified"])
def test_what_compares_two_numbers_takes_none_that_is_refused(
    desk: Desk, signer: str | None, trusted: tuple[str, ...]
) -> None:
    desk.init()
    desk.ok("pull", CHANNEL, "out", *TRUSTED)
    desk.publish(packed(dict(desk.files("out"))), signer=signer)

    def compared() -> list[str]:
        lines = desk.ok("history", CHANNEL, *trusted).out.splitlines()
        return [line for line in lines if line.startswith("flux-manifests diff ")]

    assert compared() == []
    desk.ok("rollback", CHANNEL, "--to", "v2.98.5", "--yes", *SIGNED)
    desk.ok(*UPDATE)
    desk.publish(packed(dict(desk.files("out"))), signer=signer)
    lines = compared()
    assert len(lines) == (1 if trusted else 0)  # without a record, two of one version have no number
    for line in lines:
        desk.ok(*shlex.split(line)[1:])


@pytest.mark.parametrize(
    "command", [("check", CHANNEL, *TRUSTED), ("plan", CHANNEL, *TRUSTED), UPDATE], ids=lambda it: it[0]
)
def test_the_adoption_of_edits_is_printed_with_what_it_needs(desk: Desk, command: tuple[str, ...]) -> None:
    desk.init()
    desk.ok("pull", CHANNEL, "out", *TRUSTED)
    files = desk.files("out")
    files[COMPONENTS] += b"# a note\n"
    desk.publish(packed(dict(files)), signer=None)
    ran = desk.run(*command)
    (line,) = (line for line in ran.err.splitlines() if line.startswith("flux-manifests "))
    edits = "its components differ from what Flux renders: the next step drops that"
    words = f"To adopt {CHANNEL}, if it is yours ({edits}):"
    assert (ran.code, f"{words}\n{line}\n" in ran.err) == (10, True)
    assert ") adopted and signed; " in desk.ok(*shlex.split(line)[1:], "--yes").out


def test_the_adoption_of_one_of_several_is_printed_with_its_error(desk: Desk) -> None:
    desk.init()
    desk.config(f"version: 1\nartifacts: [{{name: a, url: '{CHANNEL}'}}, {{name: b, url: 'layout:b:stable'}}]\n")
    desk.ok("pull", CHANNEL, "out", *TRUSTED)
    desk.publish(packed(dict(desk.files("out"))), signer=None)
    told = desk.run("check", *TRUSTED).out
    headline, _, rest = told.strip().partition("\n")
    assert (headline, rest.splitlines()[2]) == ("a: failed", "To adopt a, if it is yours:")
    assert rest.splitlines()[3].startswith("flux-manifests update a ")


def test_a_key_that_nobody_named_and_that_is_not_here_is_a_placeholder(desk: Desk) -> None:
    desk.init()
    for half in ("key", "pub"):
        (desk.folder / f"cosign.{half}").rename(desk.folder / f"own.{half}")
    told = desk.ok("check", CHANNEL).out
    assert "cosign." not in told
    assert ("--public-key YOUR.pub " in told, told.count("--key YOUR.key ")) == (True, 3)
    for half in ("key", "pub"):
        told = told.replace(f"YOUR.{half}", f"own.{half}")
    for _, *words in approval(told):
        desk.ok(*words)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        *(((name, CHANNEL), 0) for name in ("check", "plan")),
        *((command, 10) for command in (("check", CHANNEL, *TRUSTED), ("plan", CHANNEL, *TRUSTED), UPDATE)),
    ],
)
def test_of_what_nobody_signed_the_one_next_step_is_its_adoption(
    desk: Desk, command: tuple[str, ...], code: int
) -> None:
    desk.init()
    desk.ok("pull", CHANNEL, "out", *TRUSTED)
    desk.publish(packed(dict(desk.files("out"))), signer=None)
    ran = desk.run(*command)
    line = (ran.out + ran.err).partition("To adopt")[2].splitlines()[1]
    if code:
        assert ran.err.endswith(f")\nTo adopt {CHANNEL}, if it is yours:\n{line}\n")
        assert "adopt it with the command below, which shows every file first" in ran.err
    else:
        assert ran.out.startswith(f"{CHANNEL}: v2.98.5 is not signed: adopt it first, then v2.98.8, v2.99.4\n")
        assert ran.out.endswith(f"To adopt it first (this shows every file of it, and asks):\n{line}\n")
    assert ran.code == code
    assert ") adopted and signed; " in desk.ok(*shlex.split(line)[1:], "--yes").out


@pytest.mark.parametrize("command", ["check", "plan", "verify", "pull"])
def test_a_mistyped_public_key_is_told_with_the_one_that_is_here(desk: Desk, command: str) -> None:
    desk.init()
    desk.write("other.pub", signing_key("other").public.to_pem())
    ran = desk.run(command, CHANNEL, *(["out"] if command == "pull" else []), "--public-key", "other.pub")
    told = "It is signed by the key of cosign.pub: give --public-key cosign.pub, if that is yours."
    assert (ran.code, told in ran.err, "\nflux-manifests " in ran.err) == (10, True, False)
    assert ("`update --adopt`" in ran.err) is (command != "verify")
    ran = desk.run(*UPDATE, "--public-key", "other.pub")
    assert (ran.code, "hint: Check that you meant both. To change the signer: " in ran.err) == (10, True)


def test_no_adoption_is_printed_with_a_key_that_is_not_trusted(desk: Desk) -> None:
    desk.init()
    desk.write("cosign.pub", signing_key("theirs").public.to_pem())
    desk.write("other.pub", signing_key("other").public.to_pem())
    ran = desk.run("check", CHANNEL, "--public-key", "other.pub")
    (line,) = (line for line in ran.err.splitlines() if line.startswith("flux-manifests "))
    assert "--key YOUR.key --public-key other.pub" in line
    assert desk.run("check", CHANNEL, "--public-key", "other.pub", "--output", "json").code == 10


def test_an_update_names_where_all_of_the_step_that_waits_is_read(desk: Desk) -> None:
    desk.init()
    told = desk.ok(*UPDATE).out
    assert "\nTo read all that was published:\nflux-manifests diff " in told
    _, _, then = told.partition("\nTo read all of v2.99.4, run the first command that approves it.\nTo approve:\n")
    assert then.startswith("flux-manifests plan ")
    assert " -v " in then.splitlines()[0]


BACK = ("rollback", CHANNEL, "--to", "v2.98.5", "--reason", "webhooks", "--yes")


@pytest.mark.parametrize(
    ("configured", "asked"),
    [
        pytest.param("", SIGNED, id="a key"),
        pytest.param("", (*SIGNED, *TRUSTED, "--signature-format", "both"), id="both halves"),
        pytest.param("", ("--key", "our own.key", "--registry-config", "a b.json"), id="names with blanks"),
        pytest.param("fleet.yaml", ("--config", "fleet.yaml"), id="the configuration"),
        pytest.param(".github/flux-manifests.yaml", (), id="the configuration at its place"),
    ],
)
@pytest.mark.parametrize("twice", [False, True], ids=["once", "again"])
def test_what_lifts_a_hold(desk: Desk, configured: str, asked: tuple[str, ...], twice: bool) -> None:
    desk.init()
    desk.ok(*UPDATE)
    desk.write("our own.key", desk.read("cosign.key"))
    desk.write("a b.json", "{}")
    if configured:
        named = f"{{name: production, url: '{CHANNEL}', signing: {{key: cosign.key}}}}"
        desk.write(configured, f"version: 1\nartifacts: [{named}]\n")
    said = [desk.ok(*BACK, *asked).out for _ in range(1 + twice)][-1]
    line = said.partition("To lift the hold:\n")[2].splitlines()[0]
    assert (
        desk.ok(*shlex.split(line)[1:], "--yes")
        .out.partition("\n")[0]
        .endswith(f") on {'production' if configured else CHANNEL} is lifted.")
    )
