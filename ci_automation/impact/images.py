"""Changes of the images that containers run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.impact.change import ChangeKind, Severity
from ci_automation.impact.values import Pair, shown, words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_automation.impact.change import Change


class _Image(Struct, frozen=True):
    repository: str
    tag: str
    digest: str

    @classmethod
    def parse(cls, text: str) -> _Image:
        """Return the parts of an image's name; no text is refused."""
        rest, _, digest = text.partition("@")
        folder, slash, last = rest.rpartition("/")
        name, _, tag = last.partition(":")
        return cls(f"{folder}{slash}{name}", tag, digest)


def image(pair: Pair) -> Iterator[Change]:
    """Yield that a container runs another image: from which to which, and what is odd about it."""
    old, new = _Image.parse(words(pair.old)), _Image.parse(words(pair.new))
    said = f"runs {shown(pair.new)} instead of {shown(pair.old)}"
    severity = Severity.INFO
    if old.repository != new.repository:
        severity = Severity.WARNING
        said += ", which comes from elsewhere"
    elif old.digest and not new.digest:
        severity = Severity.NOTICE
        said += ", which is not pinned by its digest any more"
    elif old.tag == new.tag:
        severity = Severity.NOTICE
        said += ", under the same tag"
    yield pair.change(ChangeKind.IMAGE, severity, said)
