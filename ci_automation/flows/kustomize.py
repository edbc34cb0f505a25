"""kustomize as a program, run on a copy of the artifact's files and with nothing else: see `confinement.py`."""

from __future__ import annotations

import os
import re
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from ci_automation.flows import confinement
from ci_automation.flows.rendering.confined import MAX_OUTPUT_BYTES
from ci_automation.overlay.complaint import innermost
from ci_automation.overlay.port import BuildFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.tree import Tree

_NAME = "kustomize"
_OF_THE_IMAGE = "/opt/flux-manifests/bin"  # the Dockerfile puts it there; in a job, PATH is the workflow's
_SECONDS = 20  # a build takes a quarter of one
_SHOWN = 500
_READ = 20_000
_REMEMBERED = 4
# Files beside a kustomization's folder: kustomize by itself refuses them, and kustomize-controller takes those that the
# artifact has (`SecureBuild` of fluxcd/pkg/kustomize).
_OUTSIDE = " is not in or below "
_ERROR = re.compile(r"^Error: (.*)", re.MULTILINE | re.DOTALL)  # before it are warnings
_EVERYWHERE = ("--load-restrictor", "LoadRestrictionsNone")


def find_kustomize(environment: Mapping[str, str]) -> Confined | None:
    """Return the kustomize of the image, else the one on `PATH`; None where there is none, or no way to confine it."""
    if sys.platform != "linux":
        return None
    places = [_OF_THE_IMAGE, *environment.get("PATH", "").split(os.pathsep)]
    found = shutil.which(_NAME, path=os.pathsep.join(place for place in places if Path(place).is_absolute()))
    return Confined(Path(found)) if found else None


@dataclass(frozen=True, slots=True)
class Confined:
    """The program at a path; of its last builds it remembers what came out, since steps share their files."""

    program: Path
    _built: dict[tuple[Digest, str], str | BuildFailed] = field(default_factory=dict, repr=False, compare=False)

    def build(self, tree: Tree, folder: str) -> str:
        """Return the YAML that the kustomization in `folder` of `tree` gives.

        Raises:
            BuildFailed: it gives none, or takes too long, too much memory or too much output.
        """
        key = (tree.digest(), folder)
        if key not in self._built:
            while len(self._built) >= _REMEMBERED:
                del self._built[next(iter(self._built))]
            self._built[key] = self._tried(tree, folder)
        built = self._built[key]
        if isinstance(built, BuildFailed):
            raise BuildFailed(str(built))
        return built

    def _tried(self, tree: Tree, folder: str) -> str | BuildFailed:
        try:
            return self._build(tree, folder)
        except BuildFailed as error:
            return BuildFailed(str(error))  # without what it was raised in

    def _build(self, tree: Tree, folder: str) -> str:
        with TemporaryDirectory(prefix=f"{_NAME}-") as place:
            own = Path(place).resolve()
            program, root = own / _NAME, own / "tree"
            try:
                shutil.copyfile(self.program, program)
                program.chmod(0o700)
                _write(tree, root)
            except OSError as error:
                raise BuildFailed(f"the files cannot be written down for kustomize: {error.strerror}") from None
            command = [str(program), "build", str(root / folder)]
            ended = confinement.run(command, _SECONDS)
            if ended.code and _OUTSIDE in ended.complaint and "files" not in ended.in_reach:
                ended = confinement.run([*command, *_EVERYWHERE], _SECONDS)
            return _text(ended, str(root))


def _write(tree: Tree, root: Path) -> None:
    """Write the files below `root`; their paths lead nowhere else (`File`)."""
    root.mkdir()
    for folder in sorted(tree.directories):
        (root / folder).mkdir(exist_ok=True)
    for file in tree.files:
        (root / file.path).write_bytes(file.content)


def _text(ended: confinement.Ended, root: str) -> str:
    if ended.code is None:
        raise BuildFailed(f"kustomize was stopped after {_SECONDS} seconds")
    if len(ended.output) >= MAX_OUTPUT_BYTES:
        raise BuildFailed(f"kustomize printed {MAX_OUTPUT_BYTES} bytes or more")
    if ended.code < 0:
        raise BuildFailed(f"kustomize was ended by the signal {-ended.code}")
    if ended.code:
        raise BuildFailed(_said(ended.complaint, root) or f"kustomize ended with the code {ended.code}")
    try:
        return ended.output.decode()
    except UnicodeDecodeError:
        raise BuildFailed("what kustomize printed is not text") from None


def _said(complaint: str, root: str) -> str:
    """Return kustomize's error as one line, with the artifact's own paths and nothing that could control a terminal."""
    found = _ERROR.search(complaint)
    said = " ".join((found[1] if found else complaint).split()).replace(f"{root}/", "").replace(root, ".")
    return "".join(c if c.isprintable() else "?" for c in innermost(said[:_READ])[:_SHOWN])
