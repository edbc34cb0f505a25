"""What the command line says of itself."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from ci_automation import __version__
from ci_automation.cli import COMMANDS, cli, run
from ci_automation.cli.completion import MEANT
from ci_automation.cli.options import Heading
from ci_automation.cli.parameters import INSTALL_FLAGS, HeadedCommand, options_by_heading
from ci_automation.flux.options import Options

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAVY = {
    *("github", "oras", "requests", "urllib3", "nacl", "filelock"),
    *("cryptography", "sigstore", "sigstore_models", "rfc3161_client", "tuf", "re2", "certifi", "jwt"),
    *("securesystemslib", "boto3", "botocore", "hvac", "google", "azure"),
    *("pydantic", "rich", "yaml", "semver"),
}
NEAREST = [
    (["udpate"], "Did you mean 'update'?"),
    (["hstory"], "Did you mean 'history'?"),
    (["publish", "production"], "Did you mean 'update'?"),
    (["upgrade"], "Did you mean 'update'?"),
    (["bump"], "Did you mean 'update'?"),
    (["approve", "plan.json"], "Did you mean 'apply'?"),
    (["status"], "Did you mean 'check'?"),
    (["list"], "Did you mean 'history'?"),
    (["log"], "Did you mean 'history'?"),
    (["config", "validat"], "Did you mean 'validate'?"),
    (["update", "--sining", "key"], "--signing"),
    (["update", "--singing", "key"], "--signing"),
    (["update", "production", "--approve", "x"], "'--approve'. Commands that have it: apply, promote."),
    (["update", "--aprove", "x"], "No such option '--aprove'. Did you mean '--approve' of apply, promote?"),
    (["verify", "--overlya", "x"], "Did you mean '--overlay' of setup, init, check, plan, update, apply?"),
    (["apply", "--aprove", "x"], "No such option '--aprove'. Did you mean '--approve'?"),
    (["update", "--dry-run"], "'--dry-run'. `check` and `plan` show what it would do, and write nothing."),
    (["rollback", "x", "--dry-run"], "'--dry-run'. Without --yes it shows what it would do, and asks."),
    (["discover", "x", "--public-key", "k"], "'--public-key'. `discover` verifies nothing, so it takes no key."),
    (["verify", "--dry-run"], "No such option '--dry-run'."),
    (["completion"], "Missing argument 'SHELL'. Choose from: bash, zsh, fish"),
    (["mirror"], "Missing argument 'DIR'.\n  hint: For example: `flux-manifests mirror ./releases`. See"),
    (["schema"], "Missing argument 'NAME'. Choose from: error, results,"),
    (["schema", "resutls"], "Invalid value for 'NAME': 'resutls' is not one of 'error', 'results',"),
    (["update", "--nothing-like-that"], "No such option '--nothing-like-that'.\n"),
    (["history", "x", "--json"], "No such option '--json'. Did you mean '--output json'?\n"),
    (["history", "x", "--limit", "3"], "No such option '--limit'. Did you mean '--since'?\n"),
    (["check", "x", "--limit", "3"], "No such option '--limit'.\n"),
    (["update", "-n"], "No such option '-n'.\n"),
    (["-v", "check"], "No such option '-v'. Options come after the command: `flux-manifests COMMAND -v`.\n"),
    (["--config", "x", "check"], "No such option '--config'. Options come after the command: `flux-manifests COMM"),
    (["--nothing", "check"], "No such option '--nothing'.\n"),
    (["oci://ghcr.io/acme/flux:x"], "Did you mean 'check oci://ghcr.io/acme/flux:x'?"),
    (["completion", "-o"], "No such option '-o'.\n"),
    (["rollback", "x", "v2.98.5"], "Got unexpected extra argument (v2.98.5). Did you mean '--to v2.98.5'?\n"),
    (["init", "x", "v2.98.5"], "unexpected extra argument (v2.98.5). Did you mean '--flux-version v2.98.5'?\n"),
    (["rollback", "x", "y", "z"], "Got unexpected extra arguments (y z)\n"),
    (["check", "x", "y\nz"], "Got unexpected extra argument"),
    (["lift-hold", "production"], "Did you mean 'rollback --lift'?"),
    (["lift", "production"], "Did you mean 'rollback --lift'?"),
    (["keygen"], "Did you mean 'cosign generate-key-pair'?"),
    (["login", "ghcr.io"], "Did you mean 'docker login'?"),
    (["render", "--component", "x"], "--components"),
    (["init", "x", "--flux-versoin", "v2.9.4"], "--flux-version"),
    (["check", "--output", "jsn"], "'text', 'json'"),
    (["update", "--signing", "keyles"], "'keyless', 'key', 'kms', 'unsafe-unsigned'"),
    (["update", "--signature-format", "sig"], "'legacy', 'both', 'bundle'"),
    (["verify", "--identity-regex", "x"], "--identity-regexp"),
    (["render", "--flux-version", "v2.9.4", "--network-policy=perhaps"], "not a valid boolean"),
    (["render", "--flux-version", "v2.9.4", "--flag", "--namespace=fleet"], "--namespace is an option of its own"),
]


def commands() -> Iterator[tuple[str, click.Command]]:
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", found) for inner, found in command.commands.items())


ALL = dict(commands())


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_of_each_command_what_it_says_of_itself(name: str) -> None:
    help_text = ALL[name].help or ""
    assert COMMANDS[name] == help_text.partition("\n\n")[0].replace("\n", " ")
    assert ALL[name].name == name


def test_the_list_names_each_command_once_under_what_it_is_for() -> None:
    text = CliRunner().invoke(cli, ["--help"], prog_name="flux-manifests", terminal_width=80).output
    lines = text.partition("To begin:\n")[2].rpartition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "] == list(COMMANDS)
    assert "\nTo keep a channel current:\n  check " in text


@pytest.mark.parametrize("name", ALL)
def test_each_help_has_an_example_that_is_unbroken(name: str) -> None:
    text = CliRunner().invoke(cli, [*name.split(), "--help"], prog_name="flux-manifests", terminal_width=80).output
    examples = [line.strip() for line in text.splitlines() if line.startswith("  flux-manifests ")]
    assert any(f"{line} ".startswith(f"flux-manifests {name} ") for line in examples), text
    assert not [line for line in text.splitlines() if line.strip() == "\\"]


@pytest.mark.parametrize("name", ALL)
def test_no_name_is_broken_at_a_hyphen(name: str) -> None:
    text = CliRunner().invoke(cli, [*name.split(), "--help"], prog_name="flux-manifests", terminal_width=80).output
    assert not [line for line in text.splitlines() if line.endswith("-")]


@pytest.mark.parametrize("name", ["", *ALL])
def test_help_fits_a_narrow_terminal(name: str) -> None:
    text = CliRunner().invoke(cli, [*name.split(), "--help"], prog_name="flux-manifests", terminal_width=80).output
    assert not [it for it in text.splitlines() if len(it) > 80]


def test_the_help_of_check_begins_with_an_example_and_leaves_out_what_writing_takes() -> None:
    runner = CliRunner()
    lines = runner.invoke(cli, ["check", "--help"], prog_name="flux-manifests", terminal_width=80).output.splitlines()
    assert any(line.startswith("  flux-manifests check oci://") for line in lines[:10])
    assert len(lines) <= 60
    assert not [line for line in lines if line.startswith(("  --signing ", "  --adopt ", "  --namespace "))]


@pytest.mark.parametrize("name", [name for name, it in ALL.items() if isinstance(it, HeadedCommand)])
def test_what_another_command_explains_it_has_with_the_same_heading(name: str) -> None:
    command = ALL[name]
    assert isinstance(command, HeadedCommand)
    told = dict(options_by_heading(command, click.Context(command)))
    for heading, other in command.as_in.items():
        there = dict(options_by_heading(ALL[other], click.Context(ALL[other]))).get(heading, [])
        assert {it.name for it in told.get(heading, [])} <= {it.name for it in there}
        assert other != name
        explaining = ALL[other]
        assert isinstance(explaining, HeadedCommand)
        assert heading not in explaining.as_in


@pytest.mark.parametrize("name", ALL)
def test_every_option_says_what_it_is(name: str) -> None:
    options = [it for it in ALL[name].params if isinstance(it, click.Option) and not it.hidden]
    assert all(option.help for option in options)
    assert not [option.name for option in options if option.help and option.help.endswith(".")]


@pytest.mark.parametrize("name", ["init", "check", "plan", "update", "diff", "verify"])
def test_the_flags_of_flux_install_come_last(name: str) -> None:
    parts = dict(options_by_heading(ALL[name], click.Context(ALL[name])))
    assert list(parts)[-1] is Heading.FLUX_INSTALL
    assert {it.name for it in parts[Heading.FLUX_INSTALL]} == {it.parameter for it in INSTALL_FLAGS}


@pytest.mark.parametrize("name", ALL)
def test_help_has_each_option_once_under_the_heading_of_the_table(name: str) -> None:
    command, context = ALL[name], click.Context(ALL[name])
    shown = [it for _, options in options_by_heading(command, context) for it in options]
    assert sorted(it.name or "" for it in shown) == sorted(
        it.name or "" for it in command.get_params(context) if isinstance(it, click.Option) and not it.hidden
    )
    text = CliRunner().invoke(cli, [*name.split(), "--help"]).output
    headings = [line.removesuffix(":") for line in text.splitlines() if line.endswith(":") and line[0] != " "]
    order = [heading.value for heading in Heading]
    assert [it for it in headings if it in order] == sorted({it for it in headings if it in order}, key=order.index)


def test_every_command_says_in_the_same_words_which_key_it_trusts_by_default() -> None:
    options = [it for name, command in ALL.items() if name != "action" for it in command.params]
    texts = {it.help for it in options if isinstance(it, click.Option) and it.name == "public_key"}
    assert texts == {"trust signatures of this key; repeatable; default: the public half of the signing key"}


def test_help_has_an_option_of_readers_under_trust() -> None:
    parts = {name: dict(options_by_heading(ALL[name], click.Context(ALL[name]))) for name in ("update", "verify")}
    assert "key" in [it.name for it in parts["update"][Heading.SIGNING]]
    assert "key" in [it.name for it in parts["verify"][Heading.TRUST]]
    assert Heading.SIGNING not in parts["verify"]


def test_each_value_is_called_by_what_it_is() -> None:
    options = [
        f"{name} {it.opts[0]}"
        for name, command in ALL.items()
        for it in (() if name == "action" else command.params)
        if isinstance(it, click.Option) and not it.is_flag and it.make_metavar(click.Context(command)) == "TEXT"
    ]
    assert options == ["rollback --reason"]


def test_no_list_of_commands_is_cut() -> None:
    text = CliRunner().invoke(cli, ["config", "--help"], prog_name="flux-manifests", terminal_width=80).output
    assert not [line for line in text.splitlines() if line.endswith("...") and not line.startswith("Usage")]


def test_a_date_is_called_one() -> None:
    assert "--until DATE" in CliRunner().invoke(cli, ["rollback", "--help"]).output


# These make texts and files of what is on this machine: there is nothing to be configured, or to be parsed.
ALONE = {
    "demo",
    "setup",
    "config",
    "config schema",
    "schema",
    "completion",
    "public-key",
    "action",
}  # or has the inputs of the action


@pytest.mark.parametrize("name", [name for name in ALL if name not in ALONE])
def test_each_command_speaks_to_people_and_to_programs(name: str) -> None:
    names = {option for parameter in ALL[name].params for option in parameter.opts}
    assert {"--output", "--config", "--verbose", "-v"} <= names
    assert ("--registry-config" in names) == (name not in {"render", "config validate"})


@pytest.mark.parametrize("name", sorted(ALONE - {"config", "action"}))
def test_each_command_takes_the_option_that_an_internal_error_names(name: str) -> None:
    assert "-v" in {option for parameter in ALL[name].params for option in parameter.opts}


@pytest.mark.parametrize("name", ["render", "init", "check", "plan", "update"])
def test_every_flag_of_flux_install_is_there_by_its_own_name(name: str) -> None:
    names = {option for parameter in ALL[name].params for option in parameter.opts}
    flags = {f"--{flag}" for flag in Options().flags()}
    assert flags | {"--components-extra", "--registry-creds", "--flag"} <= names


@pytest.mark.parametrize(("arguments", "nearest"), NEAREST, ids=[" ".join(row[0]) for row in NEAREST])
def test_what_is_not_known_names_the_nearest(
    arguments: list[str], nearest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert nearest in captured.err
    assert "code usage" in captured.err


def test_each_word_that_people_try_leads_to_a_command_and_is_none() -> None:
    assert {name.split()[0] for name in MEANT.values() if not name.startswith("--")} <= {*COMMANDS, "cosign", "docker"}
    assert not MEANT.keys() & COMMANDS.keys()


@pytest.mark.parametrize(
    ("typed", "same"),
    [
        (["help"], ["--help"]),
        (["help", "rollback"], ["rollback", "--help"]),
        (["help", "config", "validate"], ["config", "validate", "--help"]),
        (["version"], ["--version"]),
    ],
    ids=" ".join,
)
def test_what_is_a_command_of_other_tools_is_an_option_here(
    typed: list[str], same: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(same) == 0
    told = capsys.readouterr().out
    assert (run(typed), capsys.readouterr().out) == (0, told)


@pytest.mark.parametrize("as_json", [["-o", "json"], ["-ojson"]], ids=" ".join)
def test_short_forms_are_those_of_other_tools(as_json: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rollback", "layout:none:a", "-y", *as_json]) != 0
    assert json.loads(capsys.readouterr().out)["error"]["code"] != "usage"
    assert run(["history", "x", "-z", *as_json]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "usage"


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 2
    assert "flux-manifests demo" in capsys.readouterr().err


def test_a_command_that_cannot_be_imported_is_not_an_unknown_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ci_automation.cli.verify", None)
    with pytest.raises(ImportError):
        cli.get_command(click.Context(cli), "verify")


HELPED = ["--help", "--version", "-V", *(f"{name} --help" for name in ALL)]
# One process that loads the command line once: a fork of it runs each command, and tells what it imported.
IMPORTS = """\
import atexit, json, os, sys

import ci_automation.cli
from ci_automation.__main__ import main


def tell(file, name):
    print(json.dumps([name, sorted({module.partition(".")[0] for module in sys.modules})]), file=file, flush=True)


tell(sys.stdout, "")
for name in sys.argv[1:]:
    if not os.fork():
        told, sys.stdout = sys.stdout, open(os.devnull, "w")
        sys.argv[1:] = name.split()
        atexit.register(tell, told, name)
        main()
    os.wait()
"""


@pytest.fixture(scope="module")
def imported() -> dict[str, set[str]]:
    """Return the packages that each command imports for its help; the command line alone is the empty name."""
    done = subprocess.run([sys.executable, "-c", IMPORTS, *HELPED], capture_output=True, text=True, check=True)
    return {name: set(packages) for name, packages in map(json.loads, done.stdout.splitlines())}


def test_the_command_line_imports_nothing_heavy(imported: dict[str, set[str]]) -> None:
    assert {"click", "ci_automation"} <= imported[""]
    assert not imported[""] & HEAVY


@pytest.mark.parametrize("arguments", HELPED)
def test_help_imports_nothing_heavy(arguments: str, imported: dict[str, set[str]]) -> None:
    found = imported[arguments]
    assert "click" in found
    own = {"-": set(), "config": {"semver", "yaml"}}  # of what a command is about, it may know
    start = "-" if arguments.startswith("-") else arguments.partition(" ")[0]
    assert not found & (HEAVY - own.get(start, {"semver"}))


def test_the_version_is_the_one_of_the_package() -> None:
    assert __version__ == importlib.metadata.version("flux-manifests")
