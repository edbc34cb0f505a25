"""What a person is shown before an artifact is trusted that nobody vouches for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_automation.report.text import Table, plain_text

if TYPE_CHECKING:
    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.reference import Reference
    from ci_automation.flux.version import Version

_LINES = 60  # of a difference; whoever wants more has `pull`


@dataclass(frozen=True, slots=True)
class AdoptedFile:
    """One file of the overlay: what it is, and what it was in the newest digest of the artifact that is signed."""

    path: str
    size: int
    digest: Digest
    change: str


@dataclass(frozen=True, slots=True)
class Adoption:
    """What a person is shown before an artifact is trusted that nobody vouches for."""

    channel: Reference
    digest: Digest
    problem: str
    version: Version
    components: str
    difference: tuple[str, ...]  # between upstream's rendering and the components file
    overlay: tuple[AdoptedFile, ...]
    compared_with: Digest | None


def adoption_text(adoption: Adoption) -> str:
    """Return every file of an artifact, and how its components differ from what Flux would have rendered."""
    lines = [adoption.problem, "", f"{adoption.channel} is at {adoption.digest}."]
    upstream = f"what Flux {adoption.version} renders with its options"
    if adoption.difference:
        lines.append(f"{adoption.components} differs from {upstream}:")
        lines += [f"  {line}" for line in adoption.difference[:_LINES]]
        if (more := len(adoption.difference) - _LINES) > 0:
            lines.append(f"  ... and {more} lines more")
    else:
        lines.append(f"{adoption.components} is {upstream}, byte for byte.")
    if not adoption.overlay:
        return plain_text("\n".join([*lines, "There is no other file."]))
    compared = f"compared with {adoption.compared_with}, which is signed" if adoption.compared_with else "not compared"
    lines.append(f"All other files ({compared}):")
    rows = [(file.path, str(file.size), file.digest.short, file.change) for file in adoption.overlay]
    lines.append(Table(("path", "bytes", "sha256", ""), tuple(rows)).to_text())
    return plain_text("\n".join(lines))
