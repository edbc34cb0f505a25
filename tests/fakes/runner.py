"""The runner of GitHub Actions, as far as a container action sees it: variables in, command files and a log out.

What it reads in them follows actions/runner: `ActionCommand.cs` for the log, `FileCommandManager.cs` for the files.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from ci_automation.cli import run

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

_TRIMMED = re.compile(r"\A[\s\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]*")
_COMMAND = re.compile(r"::(?P<name>[^\s:]+)(?: (?P<properties>[^:]*))?::(?P<data>.*)")


@dataclass(frozen=True, slots=True)
class Command:
    """A workflow command, with its escapes undone."""

    name: str
    data: str
    properties: dict[str, str] = field(default_factory=dict)


def lines_of(text: str) -> list[str]:
    """Return the lines as the runner's reader has them."""
    return re.split(r"\r\n|\r|\n", text)


def looks_like_command(line: str) -> bool:
    """Return whether a runner that trims more than the real one would look for a command in a line."""
    return _TRIMMED.sub("", line).startswith("::") or "##[" in line


def commands(log: str) -> list[Command]:
    """Return the commands that the runner finds in a log."""
    found = []
    for line in filter(looks_like_command, lines_of(log)):
        match = _COMMAND.match(_TRIMMED.sub("", line))
        if match is None:
            found.append(Command("?", line))
            continue
        parts = (part.partition("=") for part in (match["properties"] or "").split(",") if part)
        properties = {key: _unescaped(value).replace("%3A", ":").replace("%2C", ",") for key, _, value in parts}
        found.append(Command(match["name"], _unescaped(match["data"]), properties))
    return found


def _unescaped(text: str) -> str:
    return text.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")


def outputs(text: str) -> dict[str, str]:
    """Return the outputs in a command file."""
    found = {}
    lines = text.split("\n")
    assert lines.pop() == ""
    while lines:
        match = re.fullmatch(r"([^=<]+)<<(.+)", lines.pop(0))
        assert match, "a line that is neither a name nor a value"
        end = lines.index(match[2])
        found[match[1]] = "\n".join(lines[:end])
        del lines[: end + 1]
    return found


@dataclass(frozen=True, slots=True)
class Ran:
    """What a step did."""

    code: int
    log: str
    errors: str
    outputs: dict[str, str]
    summary: str

    @property
    def commands(self) -> list[Command]:
        """Return the commands that it gave."""
        return commands(self.log) + commands(self.errors)

    def said(self, name: str) -> list[str]:
        """Return the data of its commands of one name."""
        return [each.data for each in self.commands if each.name == name]

    @property
    def artifacts(self) -> list[dict[str, Any]]:
        """Return the output `artifacts`."""
        value: list[dict[str, Any]] = json.loads(self.outputs["artifacts"])
        return value


@dataclass(frozen=True, slots=True)
class Runner:
    """A job in a workspace; `variables` are set for each of its steps."""

    workspace: Path
    files: Path
    patch: pytest.MonkeyPatch
    capture: pytest.CaptureFixture[str]
    variables: dict[str, str] = field(default_factory=dict)

    @classmethod
    def starting(
        cls, folder: Path, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str], releases: Path | None = None
    ) -> Self:
        """Return a job that starts in the folder's workspace, and finds nothing of this machine's environment.

        Its `releases` are a link in the workspace.
        """
        for name in os.environ:
            patch.delenv(name)
        patch.setenv("HOME", str(folder))
        patch.setenv("PATH", str(folder / "no programs"))
        workspace = folder / "workspace"
        workspace.mkdir(exist_ok=True)
        patch.chdir(workspace)
        if releases:
            (workspace / "releases").symlink_to(releases)
        return cls(workspace, folder / "files", patch, capture)

    def environment(self, **inputs: str) -> dict[str, str]:
        """Return what a step finds in its environment."""
        self.files.mkdir(exist_ok=True)
        for name in ("output", "summary"):
            (self.files / name).write_text("")
        own = {
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_WORKSPACE": str(self.workspace),
            "GITHUB_OUTPUT": str(self.files / "output"),
            "GITHUB_STEP_SUMMARY": str(self.files / "summary"),
            "GITHUB_REPOSITORY": "acme/fleet",
            "GITHUB_REPOSITORY_ID": "74",
            "GITHUB_RUN_ID": "7",
            "GITHUB_ACTOR": "octocat",
            "GITHUB_REF": "refs/heads/main",
            "GITHUB_EVENT_NAME": "schedule",
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_WORKFLOW_REF": "acme/fleet/.github/workflows/flux.yaml@refs/heads/main",
        }
        given = {f"INPUT_{name.replace('_', '-').upper()}": value for name, value in inputs.items()}
        return own | self.variables | given

    def run(self, **inputs: str) -> Ran:
        """Run the action in this process."""
        self.capture.readouterr()
        with self.patch.context() as patch:
            for name, value in self.environment(**inputs).items():
                patch.setenv(name, value)
            code = run(["action"])
        log, errors = self.capture.readouterr()
        return self.ran(code, log, errors)

    def ran(self, code: int, log: str, errors: str) -> Ran:
        """Return what a step did, with what it wrote into the runner's files."""
        output, summary = ((self.files / name).read_text() for name in ("output", "summary"))
        return Ran(code, log, errors, outputs(output), summary)

    def event(self, name: str, payload: dict[str, Any]) -> None:
        """Let an event have started the run; like GitHub's, it names the repository."""
        self.files.mkdir(exist_ok=True)
        named = {"repository": {"default_branch": "main", "full_name": "acme/fleet"}, **payload}
        (self.files / "event.json").write_text(json.dumps(named))
        self.variables.update(GITHUB_EVENT_NAME=name, GITHUB_EVENT_PATH=str(self.files / "event.json"))
