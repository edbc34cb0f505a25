"""The lock file: from which digest to which each artifact of a repository may be moved. Text in, text out.

A pull request that changes an entry asks for approval; who merges it gives it. People may add comments and move
entries about: a change of one entry keeps every other byte. An entry begins with a line that never changes, so that
git merges the changes of two neighbours without a conflict.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any, Self, TypeVar

from msgspec import Struct

from ci_automation.approval.port import ApprovalRequest, RequestKind
from ci_automation.artifact.reference import Digest, Reference
from ci_automation.config.document import ConfigDocument, InvalidConfig, Path, Problem, read_document
from ci_automation.errors import UsageError
from ci_automation.flux.version import Version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

LOCK_FILE = ".github/flux-manifests.lock.yaml"
_HEAD = """\
# From which digest to which each artifact may be moved. flux-manifests changes this file in pull requests, and to
# merge one approves exactly the digests that it sets, once. Any other change of this file approves nothing.
version: 1
artifacts:
"""
_TOP = frozenset({"version", "artifacts"})
_ENTRY = frozenset({"artifact", "version", "base", "target"})
_OPTIONAL = frozenset({"ask", "kind"})
_PLACE = frozenset({"artifact", "kind"})
MOST_ASKS = 9999
_Parsed = TypeVar("_Parsed")
_PLAIN = re.compile(r"(oci://|layout:(?=[A-Za-z0-9./_-]))[A-Za-z0-9.:/_\[\]-]+")
_BREAK = re.compile(r"\r\n|[\r\n]|\Z")


class InvalidLock(InvalidConfig):
    """A damaged lock file; the message lists each problem on a line."""

    hint = (
        f"Restore {LOCK_FILE} from its last good commit, or delete it. After a deletion the run asks again for "
        "waiting steps, and approved steps that were not published need approval again."
    )


class LockEntry(Struct, frozen=True):
    """Approved move of one artifact, one of each kind; `ask` counts identical requests, so that they differ."""

    request: ApprovalRequest
    ask: int = 1

    @property
    def place(self) -> tuple[Reference, RequestKind]:
        """Return the artifact and the kind, of which a file has one entry."""
        return self.request.artifact, self.request.kind

    def values(self) -> dict[str, str]:
        """Return the values of the entry's keys, as they are written."""
        request = self.request
        return {
            "artifact": str(request.artifact),
            "kind": str(request.kind),
            "version": str(request.version),
            "base": str(request.base),
            "target": str(request.target),
            "ask": str(self.ask),
        }


class _Written(Struct, frozen=True):
    """An entry, and where in the file its values are."""

    entry: LockEntry
    places: Mapping[str, tuple[int, str]]  # by key: the index of the value, and its text
    column: int  # of the keys
    end: int  # the index behind its last line


class Lock(Struct, frozen=True):
    """A lock file as it is written, and what it says; no file is an empty one."""

    text: str = ""
    entries: tuple[LockEntry, ...] = ()

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """Return the lock file that `text` is.

        Raises:
            InvalidLock: it is none that this program, or a person in its manner, wrote.
        """
        if text is None:
            return cls()
        return cls(text, tuple(written.entry for written in _Parser(text).entries()))

    def find(self, artifact: Reference, kind: RequestKind = RequestKind.VERSION) -> LockEntry | None:
        """Return the entry of an artifact for one kind of step, or None where it has none."""
        return next((entry for entry in self.entries if entry.place == (artifact, kind)), None)

    def with_entry(self, entry: LockEntry) -> Lock:
        """Return the lock file with `entry` in its place, all other bytes as they are.

        Raises:
            InvalidLock: the file is written so that no entry can be changed in it.
        """
        if not self.entries:
            return Lock.parse(_HEAD + _block(entry, ""))
        if self.find(*entry.place) == entry:
            return self
        parser = _Parser(self.text)
        found = [written for written in parser.entries() if written.entry.place == entry.place]
        text = _changed(self.text, found[0], entry) if found else parser.inserted(entry)
        kept = [other for other in self.entries if other.place != entry.place]
        changed = Lock.parse(text)
        if changed.find(*entry.place) != entry or [e for e in changed.entries if e != entry] != kept:
            raise InvalidLock([Problem(LOCK_FILE, None, None, (), "its keys are not on a line each")])
        return changed

    def with_entries(self, entries: Iterable[LockEntry]) -> Lock:
        """Return the lock file with each of `entries` in its place; raise as `with_entry`."""
        return functools.reduce(Lock.with_entry, entries, self)


class _Parser:
    """Reads the entries of a file, and collects all that is wrong with it."""

    def __init__(self, text: str) -> None:
        self._text = text
        try:
            self._document: ConfigDocument = read_document(text.encode(errors="surrogatepass"), LOCK_FILE)
        except InvalidConfig as error:
            raise InvalidLock(list(error.problems)) from None
        self._problems = list(self._document.problems)
        if text.startswith("\ufeff"):
            self._wrong((), "it begins with a byte order mark; remove the mark")

    def entries(self) -> tuple[_Written, ...]:
        """Return the entries in their order; raise `InvalidLock` if anything is wrong."""
        top = self._mapping((), self._document.value, _TOP)
        if type(version := top.get("version", 1)) is not int or version != 1:
            self._wrong(("version",), "this version of the program reads version: 1")
        items = top.get("artifacts", [None])
        if not isinstance(items, list) or not items:
            self._wrong(("artifacts",), "it is not a list of one entry or more")
            items = []
        found: list[_Written] = []
        for index, item in enumerate(items if "artifacts" in top else []):
            written = self._written(("artifacts", index), item)
            if written and any(written.entry.place == other.entry.place for other in found):
                self._wrong(("artifacts", index), "its artifact has another entry of this kind already")
            found += [written] if written else []
        if self._problems:
            raise InvalidLock(self._problems)
        return tuple(found)

    def inserted(self, entry: LockEntry) -> str:
        """Return the text with one more entry: before the first whose place sorts behind it, or at the end."""
        end = _end_of_line(self._text, self._document.keys["artifacts",].index)
        for written in self.entries():
            if _order(written.entry) > _order(entry):
                break
            end = written.end
        indent = " " * self._document.values["artifacts",].column
        return _put(self._text, end, _block(entry, indent))

    def _written(self, path: Path, item: object) -> _Written | None:
        values = self._mapping(path, item, _ENTRY, optional=_OPTIONAL)
        artifact = self._value(path, values, "artifact", Reference.parse_channel)
        version = self._value(path, values, "version", Version.parse)
        base = self._value(path, values, "base", Digest.parse)
        target = self._value(path, values, "target", Digest.parse)
        ask = values.get("ask", 1)
        kind = values.get("kind", RequestKind.VERSION)
        if kind not in tuple(RequestKind):
            self._wrong((*path, "kind"), f"it is not {' or '.join(RequestKind)}")
            return None
        if not isinstance(ask, int) or isinstance(ask, bool) or not 1 <= ask <= MOST_ASKS:
            self._wrong((*path, "ask"), f"it is not a number from 1 to {MOST_ASKS}")
            return None
        if artifact is None or version is None or base is None or target is None:
            return None
        starts = {key: self._document.values[*path, key].index for key in values}
        places = {key: self._place((*path, key), str(values[key])) for key in values if key not in _PLACE}
        end = _end_of_line(self._text, max(starts.values()))
        column = self._document.keys[*path, "artifact"].column
        request = ApprovalRequest(artifact, version, base, target, RequestKind(kind))
        return _Written(LockEntry(request, ask), places, column, end)

    def _mapping(
        self, path: Path, value: object, required: frozenset[str], *, optional: frozenset[str] = frozenset()
    ) -> dict[str, Any]:
        if not isinstance(value, dict):
            self._wrong(path, f"it is not a mapping with {', '.join(sorted(required))}")
            return {}
        for key in sorted(required - value.keys()):
            self._wrong((*path, key), "it is missing")
        for key in sorted(value.keys() - required - optional):
            self._problems.append(self._document.problem((*path, key), "there is no such key", at_key=True))
        return {key: value[key] for key in value if key in required | optional}

    def _value(
        self, path: Path, values: Mapping[str, Any], key: str, parse: Callable[[str], _Parsed]
    ) -> _Parsed | None:
        text = values.get(key)
        try:
            if isinstance(text, str):
                return parse(text)
            what = "it is not a text"
        except UsageError as error:
            what = str(error)
        if text is not None:  # what is missing, or has no value, was told before
            self._wrong((*path, key), what)
        return None

    def _place(self, path: Path, text: str) -> tuple[int, str]:
        """Return where a value is, which must be as plain as it has to be to be replaced."""
        start = self._document.values[path].index
        start += self._text[start] in "'\""
        if not self._text.startswith(text, start):
            self._wrong(path, "it is not written plainly, on one line")
        return start, text

    def _wrong(self, path: Path, what: str) -> None:
        self._problems.append(self._document.problem(path, what))


def _order(entry: LockEntry) -> tuple[str, bool]:
    return str(entry.request.artifact), entry.request.kind is RequestKind.CONTENT


def _changed(text: str, written: _Written, entry: LockEntry) -> str:
    new = entry.values()
    if entry.ask > 1 and "ask" not in written.places:
        text = _put(text, written.end, f"{' ' * written.column}ask: {entry.ask}\n")
    # From the end, so that what is before a change stays where it was.
    for key, (start, old) in sorted(written.places.items(), key=lambda place: -place[1][0]):
        text = text[:start] + new[key] + text[start + len(old) :]
    return text


def _block(entry: LockEntry, indent: str) -> str:
    values = entry.values()
    if not _PLAIN.fullmatch(values["artifact"]):
        values["artifact"] = "'" + values["artifact"].replace("'", "''") + "'"
    if entry.ask == 1:
        del values["ask"]
    if entry.request.kind is RequestKind.VERSION:
        del values["kind"]
    lines = [f"{indent}  {key}: {value}\n" for key, value in values.items()]
    return "".join(lines).replace(f"{indent}  ", f"{indent}- ", 1)


def _put(text: str, index: int, lines: str) -> str:
    """Return `text` with more lines in it, ended as its first line is."""
    end = "\r\n" if next(_BREAK.finditer(text))[0] == "\r\n" else "\n"
    before = text[:index] if text[:index].endswith(("\n", "\r")) else text[:index] + end
    return before + lines.replace("\n", end) + text[index:]


def _end_of_line(text: str, index: int) -> int:
    return next(_BREAK.finditer(text, index)).end()
