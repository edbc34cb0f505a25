"""What becomes of an error on its way out: a code, a message, and never a traceback that nobody asked for."""

from __future__ import annotations

import errno
import json
from typing import TYPE_CHECKING

import click
import pytest

from ci_automation.cli import run
from ci_automation.errors import Conflict, Error

if TYPE_CHECKING:
    from pathlib import Path

CASES = {
    "ours": (Conflict("it moved"), 12, "conflict", "it moved"),
    "without a code": (Error("odd"), 1, "error", "odd"),
    "Ctrl-C": (KeyboardInterrupt(), 130, "interrupted", "interrupted"),
    "Ctrl-C or Ctrl-D at a question": (click.Abort(), 130, "interrupted", "interrupted"),
    "the end of a file": (EOFError("half a file"), 1, "internal", "EOFError: half a file"),
    "click's own": (click.ClickException("no"), 2, "usage", "no"),
    "a folder of another user": (PermissionError(errno.EACCES, "Permission denied", "a/b"), 2, "path-unusable", "a/b"),
    "a full disk behind the output": (OSError(errno.ENOSPC, "No space left"), 2, "output-unwritable", "No space left"),
    "any other of the system": (OSError(errno.EPERM, "not permitted"), 1, "internal", "not permitted"),
    "any other": (RecursionError("too deep"), 1, "internal", "RecursionError: too deep"),
    "hostile": (Conflict("a\x1b[2Jb\rc"), 12, "conflict", "a\N{REPLACEMENT CHARACTER}[2Jb\N{REPLACEMENT CHARACTER}c"),
}


@pytest.mark.parametrize(("error", "exit_code", "code", "message"), CASES.values(), ids=list(CASES))
def test_every_error_is_told_in_both_tongues(
    error: BaseException,
    exit_code: int,
    code: str,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("ci_automation.cli.config.config_schema", fail)
    assert run(["config", "schema"]) == exit_code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.endswith(f"(exit {exit_code}, code {code})\n")
    assert "Traceback" not in captured.err

    monkeypatch.setattr("ci_automation.cli.verify.reading", fail)
    assert run(["verify", "layout:x:y", "--public-key", "x", "--output", "json"]) == exit_code
    told = json.loads(capsys.readouterr().out)["error"]
    assert (told["code"], told["exitCode"], message in told["message"]) == (code, exit_code, True)


def test_the_traceback_is_there_for_who_asks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise LookupError("here")

    monkeypatch.setattr("ci_automation.cli.config.load_config", fail)
    assert run(["config", "validate", "-v"]) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_the_exit_code_of_click_is_passed_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out[0].isdigit()


@pytest.mark.parametrize("wrong", ["--foo", "--fore", "--exporter"])
def test_no_option_is_suggested_that_the_help_does_not_show(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "a", wrong]) == 2
    assert not {"--force", "--export"} & set(capsys.readouterr().err.replace("'", " ").split())


def test_a_near_option_is_suggested(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "a", "--releas"]) == 2
    assert "--releases" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["history", "plan"])
def test_a_command_without_an_artifact_is_told_which_the_configuration_has(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run([command]) == 2
    assert f"hint: For example: `flux-manifests {command} oci://ghcr.io/acme/" in capsys.readouterr().err
    (tmp_path / ".github").mkdir()
    text = "version: 1\nartifacts: [{name: staging, url: 'layout:x:staging'}, {name: stable, url: 'layout:x:stable'}]"
    (tmp_path / ".github/flux-manifests.yaml").write_text(text)
    assert run([command]) == 2
    assert "hint: The configuration has staging, stable. See `flux-manifests" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "example"),
    [
        (["apply"], "flux-manifests apply plan.json --approve sha256:... --signing key --key cosign.key"),
        (["pull", "production"], "flux-manifests pull oci://ghcr.io/acme/flux-manifests:production ./out --public-key"),
        (["render"], "flux-manifests render --flux-version v2.9.4 --components-extra source-watcher > gotk-"),
        (
            ["verify", "production", "--public-key"],
            "flux-manifests verify oci://ghcr.io/acme/flux-manifests:production",
        ),
        (["public-key"], "flux-manifests public-key cosign.key > cosign.pub"),
    ],
)
def test_what_a_command_lacks_is_told_with_an_example_of_it(
    line: list[str], example: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(line) == 2
    hint = capsys.readouterr().err.splitlines()[-1]
    assert hint.startswith(f"  hint: For example: `{example}")
    assert f"`. See `flux-manifests {line[0]} --help`." in hint


def test_a_key_in_a_variable_that_is_not_set_is_told_with_the_line_that_sets_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["public-key", "env://LOST_KEY"]) == 2
    assert 'hint: Set it to the text of the key, in a terminal with: export LOST_KEY="$(cat' in capsys.readouterr().err


def test_the_name_of_an_artifact_is_no_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".github").mkdir()
    (tmp_path / ".github/flux-manifests.yaml").write_text(
        "version: 1\nartifacts: [{name: production, url: 'layout:x:y'}]"
    )
    assert run(["production"]) == 2
    assert "error: No such command 'production'. Did you mean 'check production'?" in capsys.readouterr().err


def test_an_argument_too_many_is_told_with_the_arguments_that_the_command_takes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["check", "staging", "production"]) == 2
    assert "hint: Write `flux-manifests check [OPTIONS] [ARTIFACT]`. See `fl" in capsys.readouterr().err


def test_releases_that_a_variable_names_are_told_with_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLUX_RELEASES", "elsewhere")
    render = ["render", "--flux-version", "v2.9.4"]
    assert run(render) != 0
    assert "releases.json: it is not there (from $FLUX_RELEASES)" in capsys.readouterr().err
    (tmp_path / "own.yaml").write_text("version: 1\nsource: dir:../releases\nartifacts: [{name: a, url: 'layout:x:a'}]")
    assert run([*render, "--config", "own.yaml"]) != 0
    assert "it is not there (from $FLUX_RELEASES, which replaces `source`)" in capsys.readouterr().err
    monkeypatch.delenv("FLUX_RELEASES")
    assert run([*render, "--releases", "elsewhere"]) != 0
    assert "FLUX_RELEASES" not in capsys.readouterr().err
