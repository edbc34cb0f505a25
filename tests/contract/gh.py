"""A `gh` that writes down what it is asked: the list of `setup` has its commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

YOU = 4711
_PROGRAM = f"""\
#!{sys.executable}
import json, os, sys
words, told = sys.argv[1:], "" if sys.stdin.isatty() else sys.stdin.read()
with open(os.environ["GH_LOG"], "a") as log:
    log.write(json.dumps([words, told]) + "\\n")
if "--jq" in words:
    print({YOU})
"""


class GhCall(NamedTuple):
    """How `gh` was called."""

    words: tuple[str, ...]
    told: str

    @property
    def request(self) -> tuple[str, str, Any]:
        """Return the method, the path and the body of `gh api`, as its manual has it."""
        words = iter(self.words[1:])
        method, path, body = "", "", {}
        for word in words:
            if word == "-X":
                method = next(words)
            elif word in {"-f", "-F"}:
                name, _, value = next(words).partition("=")
                body[name] = json.loads(value) if word == "-F" else value
            elif word == "--input":
                assert next(words) == "-"
                body = json.loads(self.told)
            elif word in {"--jq", "--hostname"}:
                next(words)
            elif word != "--silent":
                path = f"/{word}"
        return method or ("POST" if body else "GET"), path, body or None


def gh_calls(commands: str, folder: Path) -> list[GhCall]:
    """Return how commands that a person pastes call `gh`."""
    program, log = folder / "programs/gh", folder / "gh.log"
    program.parent.mkdir(exist_ok=True)
    program.write_text(_PROGRAM)
    program.chmod(0o755)
    log.write_text("")
    environment = {"PATH": f"{program.parent}:{os.environ['PATH']}", "GH_LOG": str(log)}
    subprocess.run(["bash", "-ec", commands], cwd=folder, env=environment, check=True, stdin=subprocess.DEVNULL)
    return [GhCall(tuple(words), told) for words, told in map(json.loads, log.read_text().splitlines())]
