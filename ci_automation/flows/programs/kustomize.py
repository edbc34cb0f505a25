"""Run kustomize, confined, on a copy of the artifact's files and nothing else: see `confinement.py`."""

from __future__ import annotations

import errno
import os
import re
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TYPE_CHECKING

from msgspec import Struct, field

from ci_automation.hiding import Hiding
from ci_automation.impact.change import printable_line
from ci_automation.impact.overlay.builder import BuildFailed, BuildStopped, KustomizeUnusable, innermost
from ci_automation.programs import search_path

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Mapping, Sequence

    from ci_automation.artifact.reference import Digest
    from ci_automation.artifact.tree import Tree
    from ci_automation.flows.programs.confinement import Ended
    from ci_automation.impact.overlay.builder import Build

    Started = Callable[[subprocess.Popen[bytes]], None]  # tells of a process that may have to be stopped

_PROGRAMS = (("kustomize", "build"), ("kubectl", "kustomize"))
_OF_THE_IMAGE = "/opt/flux-manifests/bin"  # the Dockerfile puts it there; in a job, PATH is the workflow's
_SECONDS = 20  # a build takes a quarter of one
_SHOWN = 500
_READ = 20_000
_AT_ONCE = 4
_REMEMBERED = 12  # a step has three
# Files beside a kustomization's folder: kustomize by itself refuses them, and kustomize-controller takes those that the
# artifact has (`SecureBuild` of fluxcd/pkg/kustomize).
_OUTSIDE = " is not in or below "
_ERROR = re.compile(r"^[Ee]rror: (.*)", re.MULTILINE | re.DOTALL)  # before it are warnings
# As the kubectl of Google's SDK says it, with time and process; an error of several lines is between < and >.
_LOGGED = re.compile(r'^E\d{4}(?: (?!err=["<])[^ ]*)* err=(?:"(?P<quoted>.*)"|<\n(?P<lines>.*)\n >)$', re.DOTALL)
_EVERYWHERE = ("--load-restrictor", "LoadRestrictionsNone")


def find_kustomize(environment: Mapping[str, str]) -> Confined | None:
    """Return the kustomize of the image, else the one on `PATH`, else kubectl's; None without any, or off Linux.

    A script comes last: it is the shim of a version manager, and cannot start what it stands for where it is confined.
    """
    if sys.platform != "linux":
        return None
    places = [_OF_THE_IMAGE, *search_path(environment).split(os.pathsep)]
    found = [
        Confined(Path(program), verb)
        for name, verb in _PROGRAMS
        for place in places
        if place and (program := shutil.which(name, path=place))
    ]
    return min(found, key=lambda each: _is_script(each.program), default=None)


class Confined(Hiding, Struct, frozen=True):
    """The program at a path; of its last builds it remembers what came out, since steps share their files."""

    hides = ("_built",)

    program: Path
    verb: str = "build"
    _built: dict[tuple[Digest, str], str | BuildFailed | KustomizeUnusable] = field(default_factory=dict)

    def builds(self, wanted: Sequence[Build]) -> tuple[str | BuildFailed | KustomizeUnusable, ...]:
        """Return what the program gives for each folder of each tree; it runs for all of them at the same time."""
        keys = [(tree.digest(), folder) for tree, folder in wanted]
        left = {key: build for key, build in zip(keys, wanted, strict=True) if key not in self._built}
        running: list[subprocess.Popen[bytes]] = []

        def work() -> None:
            with suppress(KeyError):  # none is left
                while True:
                    key, (tree, folder) = left.popitem()
                    self._built[key] = self._tried(tree, folder, running.append)

        threads = [Thread(target=work) for _ in range(min(len(left), _AT_ONCE))]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:  # a person may have stopped the run
            left.clear()
            for process in running:
                process.kill()
        built = tuple(self._built[key] for key in keys)
        for key in list(self._built)[:-_REMEMBERED]:
            del self._built[key]
        return built

    def _tried(self, tree: Tree, folder: str, started: Started) -> str | BuildFailed | KustomizeUnusable:
        try:
            return self._build(tree, folder, started)
        except (BuildFailed, KustomizeUnusable) as error:
            return type(error)(str(error))  # without what it was raised in

    def _build(self, tree: Tree, folder: str, started: Started) -> str:
        try:
            with TemporaryDirectory(prefix="kustomize-") as place:
                own = Path(place).resolve()
                root = own / "tree"
                _write(tree, root)
                return _text(self._run(own, str(root / folder), started), str(root), tree)
        except OSError as error:
            kind = BuildStopped if error.errno == errno.ENAMETOOLONG else KustomizeUnusable
            raise kind(f"the files cannot be written down for kustomize: {error.strerror}") from None

    def _run(self, own: Path, root: str, started: Started) -> Ended:
        """Return how a build ended, if the program can be run at all."""
        from ci_automation.flows.programs import confinement  # for overlays alone

        command = [str(self.program), self.verb]
        ended = confinement.run_confined([*command, root], own, _SECONDS, started)
        if ended.code and _OUTSIDE in ended.complaint and not ended.files_in_reach:
            ended = confinement.run_confined([*command, root, *_EVERYWHERE], own, _SECONDS, started)
        if ended.code:  # is it the files, or the program?
            helped = (
                ended if ended.unstarted else confinement.run_confined([*command, "--help"], own, _SECONDS, started)
            )
            if helped.code != 0:
                raise KustomizeUnusable(f"kustomize could not be started: {self._why(helped)}")
        return ended

    def _why(self, ended: Ended) -> str:
        if _is_script(self.program):
            return f"{self.program} is a script, such as version managers put in a program's place"
        return ended.unstarted or _said(ended.complaint) or f"{self.program} ended with the code {ended.code}"


def _is_script(program: Path) -> bool:
    try:
        with program.open("rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def _write(tree: Tree, root: Path) -> None:
    """Write the files below `root`; their paths lead nowhere else (`File`)."""
    root.mkdir()
    for folder in sorted(tree.directories):
        (root / folder).mkdir(exist_ok=True)
    for file in tree.files:
        (root / file.path).write_bytes(file.content)


def _text(ended: Ended, root: str, tree: Tree) -> str:
    from ci_automation.flows.programs.confined import MAX_OUTPUT_BYTES

    if ended.code is None:
        raise BuildStopped(f"kustomize was stopped after {_SECONDS} seconds")
    if len(ended.output) >= MAX_OUTPUT_BYTES:
        raise BuildStopped(f"kustomize printed {MAX_OUTPUT_BYTES} bytes or more")
    if ended.code < 0:
        raise BuildStopped(f"kustomize was ended by the signal {-ended.code}")
    if ended.code:
        kind = BuildFailed if _error(ended.complaint) else BuildStopped  # without an error, it was the machine
        raise kind(_said(ended.complaint, root, tree) or f"kustomize ended with the code {ended.code}")
    try:
        return ended.output.decode()
    except UnicodeDecodeError:
        raise BuildStopped("the output of kustomize is not text") from None


def _error(complaint: str) -> re.Match[str] | None:
    return _ERROR.search(complaint) or _LOGGED.search(complaint.strip())


def _said(complaint: str, root: str = "", tree: Tree | None = None) -> str:
    """Return kustomize's error as one line, with the artifact's own paths and nothing that could control a terminal.

    It quotes literals, patches and lines of files: of a `tree`, nothing is told that only its Secrets have.
    """
    found = _error(complaint)
    said = " ".join((found[found.lastgroup or 1] if found else complaint).split())
    if found and found.lastgroup == "quoted":
        said = re.sub(r"\\(.)", r"\1", said)
    if root:
        said = said.replace(f"{root}/", "").replace(root, ".")
    if tree:
        from ci_automation.impact.files import without_secrets  # only for errors

        said = without_secrets(said[:_READ], tree)
    return printable_line(innermost(said[:_READ])[:_SHOWN])
