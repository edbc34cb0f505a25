"""The contents of an artifact without a trusted signature, for the person who decides whether to adopt it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.flux.text import hunks
from ci_automation.report.blocks import MarkedLine, Part, Table, on_terminal, plain_line
from ci_automation.report.changes import beside_flux, in_files
from ci_automation.report.details import rights_blocks
from ci_automation.report.findings import Findings, unsigned_upstream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_automation.artifact.reference import Digest, Reference
    from ci_automation.flux.version import Version
    from ci_automation.impact.change import Change, FileDiff, Hazard
    from ci_automation.impact.rights import FolderRights

ALONE = "Adoption signs and records this digest, and publishes nothing else."
_LINES = 60  # of a difference; `pull` has the rest


class AdoptedFile(Struct, frozen=True):
    """One file of the overlay: what it is, and what it was in the newest digest of the artifact that is signed."""

    path: str
    size: int
    digest: Digest
    change: str


class Adoption(Struct, frozen=True):
    """The contents of an artifact without a trusted signature, for the person who decides whether to adopt it."""

    channel: Reference
    digest: Digest
    problem: str
    version: Version
    options: tuple[str, ...]
    components: str
    difference: tuple[str, ...]  # between what the release renders to with these options and the components file
    overlay: tuple[AdoptedFile, ...]
    compared_with: Digest | None
    compared_options: tuple[str, ...] = ()
    unsigned: bool = False  # nothing proves that Flux published the release
    doubt: str = ""  # why Flux itself may render it differently
    stated: tuple[str, ...] = ()  # by its manifest: from where it is, and when it was made
    holds: tuple[str, ...] = ()  # that go on
    secrets: tuple[str, ...] = ()  # files that hold one in plain text
    hazards: tuple[Hazard, ...] = ()  # of the overlay as it is: that it cannot be built
    changes: tuple[Change, ...] = ()  # from Flux alone, of this version with these options, to what clusters get
    texts: tuple[FileDiff, ...] = ()  # of the overlay, compared with the signed digest if there is one
    rights: tuple[FolderRights, ...] = ()
    version_tags: tuple[str, ...] = ()  # that lead to it once it is adopted, and lead elsewhere now or nowhere


def difference(old: bytes, new: bytes) -> tuple[str, ...]:
    """Return how `new` differs from `old`, as the hunks of a unified diff; the work is bounded, whatever the files are.

    Lines end at a line feed and nowhere else, and what is no text is shown by its bytes.
    """
    before, after = (data.decode(errors="surrogateescape").split("\n") for data in (old, new))
    lines = hunks(before, after)
    return tuple(line.encode(errors="surrogateescape").decode(errors="backslashreplace") for line in lines)


def adoption_text(adoption: Adoption, shown: int | None = _LINES, *, every: bool = False) -> str:
    """Return the review of an artifact where no line is folded: see `adoption_parts`."""
    return "\n".join(part.to_text() for part in adoption_parts(adoption, shown, every=every))


def adoption_parts(adoption: Adoption, shown: int | None = _LINES, *, every: bool = False) -> Iterator[Part]:
    """Yield every file of an artifact, and how its components differ from what Flux would have rendered.

    What is not proven is told first. Of the difference `shown` lines are there, or all; of what Flux may do, the
    gravest, or `every` right.
    """
    yield from map(MarkedLine, _facts(adoption))
    for path in adoption.secrets:
        text = f"{shlex.quote(path)} holds a Secret in plain text, which everyone who can pull the artifact can read"
        yield MarkedLine(f"danger: {text}", "danger")
    # Before the edits, whose end a page may cut off.
    if adoption.overlay:
        compared = (
            f"compared with {adoption.compared_with}, which is signed"
            if adoption.compared_with
            else "no signed digest to compare them with"
        )
        yield MarkedLine(f"All files but {adoption.components} ({compared}):")
        rows = [(shlex.quote(file.path), str(file.size), file.digest.short, file.change) for file in adoption.overlay]
        yield from (Table(("path", "bytes", "sha256", ""), tuple(rows)), MarkedLine(""))
    else:
        yield MarkedLine(f"There are no files but {adoption.components}.")
    for parts in (
        beside_flux(Findings(adoption.changes, adoption.hazards), every=every),
        on_terminal(rights_blocks(adoption.rights, every=every)),
    ):
        told = tuple(parts)
        yield from (*told, MarkedLine("")) if told else ()
    yield from _difference_lines(adoption, shown)
    yield from _texts(adoption, every=every)


def _facts(adoption: Adoption) -> Iterator[str]:
    """Yield why it is shown, and what it says of itself."""
    yield from (*adoption.problem.split("\n"), "")
    if str(adoption.digest) not in adoption.problem:
        yield f"{adoption.channel} is at {adoption.digest}."
    if adoption.stated:
        yield f"Its manifest says, and no signature proves: {'; '.join(map(plain_line, adoption.stated))}."
    yield f"It is Flux {adoption.version} with {_options(adoption.options)}."
    if adoption.unsigned:
        yield unsigned_upstream(str(adoption.version))
    if adoption.doubt:
        yield f"Rendering not proven: {plain_line(adoption.doubt)}"
    if adoption.compared_with and adoption.options != adoption.compared_options:
        yield f"The signed digest has {_options(adoption.compared_options)}."
    if adoption.version_tags:
        yield f"These version tags lead to it then, for clusters with ref.semver: {', '.join(adoption.version_tags)}."
    yield from adoption.holds


def _texts(adoption: Adoption, *, every: bool) -> Iterator[Part]:
    """Yield the text of the files, at the end, which a page may cut off; what is left out is counted or named."""
    yield from in_files(adoption.texts, every=every)
    told = {it.path for it in adoption.texts}
    if left := [it for it in adoption.overlay if it.path not in told and it.change != "same"]:
        yield MarkedLine(f"Files whose text is not shown: {len(left)}. Read them before you adopt it:")
        yield _pulling(adoption)


def _pulling(adoption: Adoption) -> MarkedLine:
    at = adoption.channel.at_digest(adoption.digest)
    return MarkedLine(f"  {shlex.join(('flux-manifests', 'pull', str(at), 'FOLDER'))}", to_copy=True)


def _difference_lines(adoption: Adoption, shown: int | None) -> Iterator[MarkedLine]:
    """Yield how the components differ from what Flux would have rendered, and how to read what is left out."""
    renders = f"this program renders of {adoption.version}" if adoption.doubt else f"Flux {adoption.version} renders"
    upstream = f"what {renders} with its options"
    if not adoption.difference:
        yield MarkedLine(f"{adoption.components} equals {upstream}, byte for byte.")
        return
    yield MarkedLine(f"{adoption.components} differs from {upstream}:")
    yield from (MarkedLine(f"  {line}", to_copy=True) for line in adoption.difference[:shown])
    if shown is not None and (more := len(adoption.difference) - shown) > 0:
        yield MarkedLine(f"  ... and {more} more lines. Read all of them before you adopt it:")
        yield _pulling(adoption)


def _options(written: tuple[str, ...]) -> str:
    return f"the options {' '.join(written)}" if written else "Flux's default options"
