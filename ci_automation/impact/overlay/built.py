"""Changes of what clusters get of a folder: what kustomize builds before a step and after it, compared by objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.impact.change import ChangeKind, ObjectId, Severity
from ci_automation.impact.compare import first, object_changes, ordered, together
from ci_automation.impact.objects import entries
from ci_automation.impact.parts import Text
from ci_automation.impact.values import FILE, listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_automation.artifact.tree import Tree
    from ci_automation.impact.change import Change
    from ci_automation.impact.objects import Entry
    from ci_automation.impact.overlay.folders import AppliedFolder
    from ci_automation.impact.overlay.outcome import FolderOutcome

BUILD = ObjectId("", FILE, "", "the built overlay")
# What holds the content of files of any kind, which no report shows.
_OF_FILES = frozenset({"ConfigMap", "Secret"})


class BuiltSide(Struct, frozen=True):
    """A folder on one side of a step, and what came of it."""

    folder: AppliedFolder
    outcome: FolderOutcome

    def texts(self) -> list[str] | None:
        """Return the texts of the objects that clusters get; None where nothing tells."""
        if self.outcome.text is not None:
            return [self.outcome.text]
        gathered = self.folder.gathered
        if self.outcome.error or self.outcome.unchecked or not gathered.only_lists:
            return None
        files = dict.fromkeys(each.place.file for each in gathered.listed)
        return [self.folder.tree[file].decode("utf-8-sig") for file in files]

    def entries(self) -> list[Entry] | None:
        """Return the objects that clusters get; None where nothing tells."""
        if (texts := self.texts()) is None:
            return None
        found = (entry for text in texts for entry in entries(Text.of(text)))
        return [entry for entry in found if self.outcome.text is not None or entry.id in self.folder.gathered.ids]

    def causes(self, of: ObjectId) -> Iterator[str]:
        """Yield the files that list an object, and those of the rules that hit it."""
        yield from (each.place.file for each in self.folder.gathered.listed if each.id == of)
        for effect in self.outcome.followed.effects.values() if self.outcome.followed else ():
            if of in effect.objects:
                yield from (place.file for place in effect.rule.places)


def built_changes(old: BuiltSide, new: BuiltSide, differing: Tree) -> tuple[Change, ...]:
    """Return what changes for clusters, each with the file among the `differing` ones that causes it, if that is known.

    How an object is written is left out: kustomize writes it anew.
    """
    before, after = old.entries(), new.entries()
    if before is None or after is None:
        return ()
    texts = (entry.text for entry in (*before, *after))
    found = together(first(object_changes(before, after), BUILD, *texts), BUILD)
    told = (it for it in found if it.kind is not ChangeKind.OTHER or it.severity is not Severity.INFO)
    return ordered(_with_cause(it, old, new, differing) for it in told)


def _with_cause(change: Change, old: BuiltSide, new: BuiltSide, differing: Tree) -> Change:
    of = change.object
    files = {file for side in (old, new) for file in side.causes(of) if file in differing.by_path}
    if not files:  # such as a patch without a target
        files = {file.path for file in differing.files if of.name.encode() in file.content}
    if not files and len(differing.files) == 1:
        files = set(differing.by_path)
    sentence = f"{change.sentence}, by {listed(sorted(files))}" if files else change.sentence
    hidden = of.kind in _OF_FILES
    return replace(change, sentence=sentence, old="" if hidden else change.old, new="" if hidden else change.new)
