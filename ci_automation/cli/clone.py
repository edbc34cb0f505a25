"""A clone of Git: its top folder, its repository on GitHub, and whether a file can be written in it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from ci_automation.config.workflows import GitHubPlace
from ci_automation.errors import UsageError
from ci_automation.programs import search_path

_REMOTE = re.compile(r"(?:https://|ssh://git@|git@)([\w.-]+)[/:]([\w.-]+/[\w.-]+?)(?:\.git)?/?")
_HOST = re.compile(r"(?:\w+://)?(?:[^@/]*@)?([\w.-]+)")
_OTHERS = ("gitlab", "bitbucket", "codeberg", "forgejo", "gitea", "azure", "visualstudio", "sr.ht")  # no GitHub


class NotOwnFile(UsageError):
    """A link, or no plain file or folder, is where `setup` would write."""

    hint = "Nothing was written. Remove it, or make it a plain folder or file of the repository."

    def __init__(self, path: str, found: str) -> None:
        super().__init__(f"{path} cannot be written: {found} is a link, or is not what it has to be")


class NotGitHub(UsageError):
    """The repository's host is not GitHub, where the workflows of `setup` run."""

    hint = (
        "Nothing was written. There, use the command line in that host's CI: `init`, `update`, `plan`, `apply` and "
        "`promote` with a key or a KMS, as docs/guides/command-line.md has it. If the repository is on GitHub too, add "
        "--repository OWNER/NAME."
    )

    def __init__(self, host: str) -> None:
        super().__init__(f"the remote origin is on {host}, and `setup` writes workflows of GitHub Actions")


class UnknownRepository(UsageError):
    """No clone, or no remote of it, says which repository on GitHub is meant."""

    hint = (
        "Nothing was written. Run `setup` in a clone of it: `git clone https://github.com/OWNER/NAME`. Or add "
        "--repository OWNER/NAME, which writes the files here."
    )

    def __init__(self, top: Path) -> None:
        where = f"the clone {top} has no remote origin" if (top / ".git").exists() else f"{top} is in no clone of Git"
        if git(top, "remote", "get-url", "origin"):  # its address may hold a login
            where = f"the remote origin of the clone {top} is no repository on GitHub"
        super().__init__(f"{where}, so the fleet repository is not known")


def top_of(folder: Path) -> Path:
    """Return the top of the clone that a folder is in, else the folder."""
    return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), folder)


def other_host(top: Path) -> str | None:
    """Return the host of the remote `origin` if its name says that it is not GitHub."""
    found = _HOST.match(git(top, "remote", "get-url", "origin"))
    return found[1] if found and any(it in found[1].lower() for it in _OTHERS) else None


def place_of_clone(top: Path, repository: str | None = None, branch: str | None = None) -> GitHubPlace | None:
    """Return the repository on GitHub and its default branch: as named, else as the remote `origin` has them.

    The branch that is checked out counts for nothing, since a workflow is trusted on the default branch alone.
    """
    found = None if other_host(top) else _REMOTE.fullmatch(git(top, "remote", "get-url", "origin"))
    server = f"https://{found[1]}" if found else "https://github.com"
    if not (named := repository or (found[2] if found else "")):
        return None
    return GitHubPlace(named, branch or default_branch(top)[0], server)


def require_place(top: Path, repository: str | None, branch: str | None) -> GitHubPlace:
    """Return the same, where it has to be known.

    Raises:
        NotGitHub, UnknownRepository: it is not known.
    """
    if (place := place_of_clone(top, repository, branch)) is None:
        raise NotGitHub(host) if (host := other_host(top)) else UnknownRepository(top)
    return place


def default_branch(top: Path) -> tuple[str, str]:
    """Return the default branch of a clone's remote `origin`, and what says so."""
    if head := git(top, "symbolic-ref", "--short", "refs/remotes/origin/HEAD").removeprefix("origin/"):
        return head, "refs/remotes/origin/HEAD names it"
    for usual in ("main", "master"):
        if git(top, "rev-parse", "--verify", "--quiet", f"refs/remotes/origin/{usual}"):
            return usual, f"this clone has origin/{usual}, and no refs/remotes/origin/HEAD"
    return "main", "this clone has neither refs/remotes/origin/HEAD nor origin/main nor origin/master"


def git(folder: Path, *arguments: str) -> str:
    """Return what git prints, or nothing if it fails."""
    if (program := shutil.which("git", path=search_path(os.environ))) is None:
        return ""
    try:
        ran = subprocess.run(  # noqa: S603  # fixed arguments
            [program, "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError:
        return ""
    return ran.stdout.strip() if ran.returncode == 0 else ""


def written_at(path: Path) -> str | None:
    """Return the text of a file of the clone; None if there is no such file."""
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None


def applied_path(folder: Path) -> str | None:
    """Return the path that the objects in a channel's folder apply."""
    written = written_at(folder / "sync.yaml") or ""
    return found[1] if (found := re.search(r"^  path: (\./\S*)$", written, re.MULTILINE)) else None


def after_change(top: Path, path: str) -> str:
    """Return what to do about a file of `setup` that is going to change, and whether Git has what it was."""
    if path.endswith("/sync.yaml"):
        folder = (top / path).parent
        is_one = (folder.parent / "sync.yaml").is_file()
        return f": apply it to {folder.name}" if is_one else f": apply it to each cluster of {folder.name}, one first"
    if not path.startswith(".github/workflows/"):
        return ""
    is_kept = git(top, "ls-files", "--", path) and not git(top, "status", "--porcelain", "--", path)
    return f"; `git diff {path}` has what it was" if is_kept else "; only the difference above has what it was"


def require_own(top: Path, path: str) -> None:
    """Raise `NotOwnFile` unless a file can be written there: a link in a clone leads wherever its author likes."""
    *folders, file = ((top / path), *(top / path).parents)[: len(PurePosixPath(path).parts)][::-1]
    for place, is_fit in (*((folder, Path.is_dir) for folder in folders), (file, Path.is_file)):
        if place.is_symlink() or (place.exists() and not is_fit(place)):
            raise NotOwnFile(path, place.relative_to(top).as_posix())


def bootstrapped_folders(top: Path) -> list[str]:
    """Return the folders of the clone that `flux bootstrap` made, also those that Flux has left."""
    from ci_automation.impact.overlay.bootstrapped import SYNC

    listed = map(PurePosixPath, git(top, "ls-files", "-z", "-c", "-o", "--", f"*{SYNC}").split("\0"))
    return sorted({str(it.parent) for it in listed if it.name == SYNC and (top / it).is_file()})


def updates_images(top: Path) -> bool:
    """Return whether a file of the clone has an ImageUpdateAutomation, its definition, or the flag that adds both."""
    found = "kind: ImageUpdateAutomation|components-extra:.*image-automation-controller"
    return bool(git(top, "grep", "--untracked", "-lE", found, "--", "*.yaml", "*.yml"))


def free_folder(top: Path, *usual: str) -> str | None:
    """Return the first of these folders that no Kustomization of `flux bootstrap` applies.

    Such a Kustomization would try to build an overlay, which refers to components that are in the artifact alone.
    """
    from ci_automation.artifact.tree import Tree, TreeFile
    from ci_automation.impact.overlay.bootstrapped import SYNC, covering

    made = bootstrapped_folders(top)
    synced = [Tree((TreeFile(SYNC, (top / folder / SYNC).read_bytes()),)) for folder in made]
    free = (it for it in usual if it not in made and not any(covering(each, it) for each in synced))
    return next(free, None)


def checkout_of_action(server: str) -> str | None:
    """Return the repository of the checkout that this program was installed from, if it is on that server."""
    from importlib.metadata import PackageNotFoundError, distribution

    from ci_automation.flows.setting_up.answers import is_action

    with suppress(PackageNotFoundError, ValueError):
        told = json.loads(distribution("flux-manifests").read_text("direct_url.json") or "{}")
        address = urlsplit(str(told.get("url", "")))
        found = place_of_clone(Path(unquote(address.path))) if address.scheme == "file" else None
        if found and found.server == server and is_action(found.repository):
            return found.repository
    return None
