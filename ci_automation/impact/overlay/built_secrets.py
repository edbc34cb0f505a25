"""Secrets in plain text that clusters get from a build, whatever in the files makes them: a replacement, a patch."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING

from ci_automation.impact.change import Certainty, Hazard
from ci_automation.impact.objects import read_objects
from ci_automation.impact.overlay.bootstrapped import ENCRYPTED, held_by_secret, plain_secrets
from ci_automation.impact.overlay.targets import GATE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_automation.artifact.tree import Tree
    from ci_automation.impact.change import ObjectId
    from ci_automation.impact.overlay.outcome import FolderOutcome

PLAIN = "plain Secret"  # how the subjects of such hazards begin
_SECRET = re.compile(r"^kind: Secret$", re.MULTILINE)  # as kustomize prints it
_DOCUMENT = re.compile(r"^---\n", re.MULTILINE)


def built_secrets(folder: str, before: FolderOutcome | None, after: FolderOutcome, files: Tree) -> Iterator[Hazard]:
    """Yield a hazard for each Secret in plain text that a build has anew, and that no file of `files` shows by itself.

    What only lists files is not built, and has no others.
    """
    had = set(_plain(before.text or "")) if before else set()
    found = [it for it in dict.fromkeys(_plain(after.text or "")) if it not in had]
    if not found:
        return
    told = b"\n".join(_squeezed(files[path]) for path in plain_secrets(files, lenient=True) if path in files.by_path)
    for name in dict.fromkeys(name for name, value in found if not told or not _is_in(value, told)):
        sentence = (
            f"the overlay at {folder} renders {name} in plain text, which everyone who can pull the artifact can read"
        )
        remedies = ("encrypt what its data is made of with SOPS", "move it out of the overlay")
        yield Hazard(GATE, Certainty.POSSIBLE, f"{PLAIN} {name} built in {folder}", sentence, (), remedies)


def _plain(built: str) -> Iterator[tuple[ObjectId, str]]:
    """Yield the values of Secrets that are not encrypted, each with the Secret that has it."""
    for document in _DOCUMENT.split(built):
        for found in read_objects(document) if _SECRET.search(document) else ():
            for value in held_by_secret(found.value):
                if ENCRYPTED not in value and ENCRYPTED.encode() not in _decoded(value):
                    yield found.id, value


def _is_in(value: str, told: bytes) -> bool:
    return any(_squeezed(form) in told for form in (value.encode(), _decoded(value)))


def _decoded(value: str) -> bytes:
    """Return what the data of a Secret stands for; a text that is no base64 stands for itself."""
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return value.encode()


def _squeezed(data: bytes) -> bytes:
    """Return bytes without spaces and line breaks, which a text has otherwise in a build."""
    return b"".join(data.split())
