"""Read from a clone of Git: its top folder, its files, and its repository on GitHub."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

from ci_automation.config.workflows import GitHubPlace
from ci_automation.programs import search_path

if TYPE_CHECKING:
    from pathlib import Path

_REMOTE = re.compile(r"(?:https://|ssh://git@|git@)([\w.-]+)[/:]([\w.-]+/[\w.-]+?)(?:\.git)?/?")


def top_of(folder: Path) -> Path:
    """Return the top of the clone that a folder is in, else the folder."""
    return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), folder)


def place_of_clone(top: Path, repository: str | None = None, branch: str | None = None) -> GitHubPlace | None:
    """Return the repository on GitHub and its default branch: as named, else as the remote `origin` has them."""
    found = _REMOTE.fullmatch(git(top, "remote", "get-url", "origin"))
    server = f"https://{found[1]}" if found else "https://github.com"
    if not (named := repository or (found[2] if found else "")):
        return None
    head = git(top, "symbolic-ref", "--short", "refs/remotes/origin/HEAD").removeprefix("origin/")
    current = git(top, "symbolic-ref", "--short", "HEAD")
    return GitHubPlace(named, branch or head or current or "main", server)


def git(folder: Path, *arguments: str) -> str:
    """Return what git prints, or nothing if it fails."""
    if (program := shutil.which("git", path=search_path(os.environ))) is None:
        return ""
    try:
        ran = subprocess.run(  # noqa: S603  # fixed arguments
            [program, "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return ""
    return ran.stdout.strip() if ran.returncode == 0 else ""
