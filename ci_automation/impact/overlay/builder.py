"""The builder of an overlay: kustomize, as kustomize-controller links it, its words for failures, and what it changes.

For each folder that it goes into, kustomize puts another sentence before the error, and says twice why a file is none
that it could read (`accumulateResources` of its `KustTarget`). What it builds before a step and after it is compared
by objects.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.errors import Error
from ci_automation.impact.change import FILE, Change, ChangeKind, ObjectId, Place, Severity
from ci_automation.impact.compare import first, graver_if_gone, object_changes, ordered, together
from ci_automation.impact.objects import Entry, entries
from ci_automation.impact.overlay.kustomization import joined, kustomization_file
from ci_automation.impact.parts import Text
from ci_automation.impact.values import listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ci_automation.artifact.tree import Tree
    from ci_automation.impact.overlay.folders import AppliedFolder

    Build = tuple[Tree, str]  # files, and the folder whose kustomization is built: `.` for the root
    from ci_automation.impact.overlay.outcome import FolderOutcome

# Each takes away a beginning, and leaves the rest; the first that fits counts.
_OUTER = (
    re.compile(r"accumulating (?:resources|components): (?P<rest>.+)"),
    re.compile(r'accumulateDirectory: "(?P<rest>.+)"'),
    re.compile(r"recursed accumulation of path '(?P<folder>[^']*)': (?P<rest>.+)"),
    re.compile(r"accumulation err='accumulating resources from '[^']*': '[^']*' must resolve to a file': (?P<rest>.+)"),
    re.compile(r"accumulation err='(?P<rest>.+)': must build at directory: .+"),
    re.compile(r"(?:accumulating|merging) resources from '(?P<file>[^']*)': (?P<rest>.+)"),
)
_FOLDER = re.compile(r"(?:in|couldn't make target for path) '?([^:']+)'?: ")
_WORDS = re.compile(r"[\s:'\"]+")
_LINE = re.compile(r"\bline (\d{1,6})\b")
# What an error quotes: a field, a path in an object, or an id as kustomize writes it, of which the name counts.
_QUOTED = re.compile(r'"([^"]+)"|name[: ]+"?([\w.-]+)|path: ([^\s":]+)|Id (\S+)')
_ID = re.compile(r"[^/\s]+/([^/\s]+)\.\[?[^./\s]+")
_NOT_THERE = re.compile(r"evalsymlink failure on '[^']*' : lstat ")
BUILD = ObjectId("", FILE, "", "the built overlay")
# What holds the content of files of any kind, which no report shows.
_OF_FILES = frozenset({"ConfigMap", "Secret"})


class BuildFailed(Error):
    """An overlay cannot be built; the message is kustomize's own, or says why it was stopped."""


class BuildStopped(BuildFailed):
    """A build was given up, or its output is unusable; a larger machine may build it."""


class KustomizeUnusable(Error):
    """kustomize cannot be started, or the disk is full; nothing was built."""


class Kustomize(Protocol):
    """A builder of overlays, without network, plugins, programs, or files from outside of the tree."""

    def builds(self, wanted: Sequence[Build]) -> tuple[str | BuildFailed | KustomizeUnusable, ...]:
        """Return the YAML that each build gives, in their order; they may run at the same time.

        A build fails where it gives none, or takes too long, too much memory or too much output. kustomize is unusable
        where it cannot say whether it gives any.
        """


def innermost(said: str) -> str:
    """Return the error at the end of what kustomize said in one line, with the file and the folder that it is about."""
    folder = file = ""
    while found := next((match for each in _OUTER if (match := each.fullmatch(said))), None):
        parts = found.groupdict()
        said, folder, file = parts["rest"], parts.get("folder", folder), parts.get("file", file)
    said = _NOT_THERE.sub("", said)
    if file.rstrip("/") not in said:
        said = f"{file}: {said}"
    return said if folder in said else f"in {folder}: {said}"


def places(said: str, folder: AppliedFolder) -> tuple[Place, ...]:
    """Return the file and line that the error of a folder's build is about, as far as it says them."""
    return tuple([*_files(said, folder), *_quoted(said, folder)][:1])


def _files(said: str, folder: AppliedFolder) -> Iterator[Place]:
    """Yield the file that an error names, or where the name of one that is not there stands."""
    line = _LINE.search(said)
    inside = _inside(said, folder)
    words = {each for word in _WORDS.split(said) for each in (word, joined(inside, word))}
    for found in folder.gathered.kustomizations.values():
        for reference in (*found.resources, *found.patch_files, *found.files):
            path = joined(found.folder, reference.path)
            if path in words and path in folder.tree.by_path:
                yield Place(path, int(line[1]) if line else 0)
            elif path in words and path not in folder.tree.directories:
                yield reference.place


def _inside(said: str, folder: AppliedFolder) -> str:
    found = _FOLDER.match(said)
    return found[1] if found else folder.folder


def _quoted(said: str, folder: AppliedFolder) -> Iterator[Place]:
    """Yield the lines of the kustomization, and of its patches, that have what an error quotes."""
    file = kustomization_file(folder.tree, _inside(said, folder))
    found = folder.gathered.kustomizations.get(file or "")
    if file is None or found is None:
        return
    quoted = [word for words in _QUOTED.findall(said) for word in words if word]
    for word in quoted:
        files = [file, *(joined(found.folder, each.path) for each in found.patch_files)]
        if name := _ID.fullmatch(word):
            files.reverse()  # an object is patched there
        for path in files:
            if path in folder.tree.by_path:
                lines = folder.tree[path].decode(errors="replace").splitlines()
                wanted = name[1] if name else word
                yield from (Place(path, number) for number, line in enumerate(lines, 1) if wanted in line)
    if _FOLDER.match(said):
        yield Place(file)


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
    found = together(first(graver_if_gone(object_changes(before, after), before, after), BUILD, *texts), BUILD)
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
