"""A configuration file as YAML: plain values, and where in the file each of them is.

YAML is read in its safe part alone: no aliases (a few lines of them unfold to gigabytes), no tags, no key twice.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct, field

from ci_automation.artifact.yaml import Unreadable, events, is_a, nodes, place_of, scalar
from ci_automation.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import yaml

MAX_BYTES = 1 << 20
_MAX_VALUES = 50_000
_MAX_DEPTH = 12
_MAX_PROBLEMS = 50
_MAX_KEY = 80
_TAG = "tag:yaml.org,2002:"
_SCALARS = tuple(_TAG + name for name in ("str", "int", "float", "bool", "null", "timestamp"))

Path = tuple[str | int, ...]


class Problem(Struct, frozen=True):
    """One thing that is wrong in a file: where, at which key, what."""

    file: str
    line: int | None
    column: int | None
    path: Path
    what: str

    @property
    def key(self) -> str:
        """Return the path as people write it: `artifacts[0].policy.patch`."""
        return "".join(f"[{part}]" if isinstance(part, int) else f".{part[:_MAX_KEY]}" for part in self.path)[1:]

    def __str__(self) -> str:
        place = [self.file, *(str(number) for number in (self.line, self.column) if number is not None)]
        text = ": ".join([":".join(place), *([self.key] if self.path else []), self.what])
        # One problem is one line, whatever is in the file: a log reads some lines as commands.
        return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


class InvalidConfig(UsageError):
    """A configuration file cannot be used; all that is wrong with it, one line each."""

    hint = "Correct these lines, and check again: `config validate`."

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda it: (it.file, it.line or 0, it.column or 0)))
        lines = [str(problem) for problem in self.problems[:_MAX_PROBLEMS]]
        if (more := len(problems) - len(lines)) > 0:
            lines.append(f"and {more} more")
        super().__init__("\n".join(lines))


class ConfigDocument(Struct):
    """The values of a file, where they are, and what was wrong with them as YAML."""

    file: str
    value: object = None
    keys: dict[Path, yaml.Mark] = field(default_factory=dict)
    values: dict[Path, yaml.Mark] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def problem(self, path: Path, what: str, *, at_key: bool = False) -> Problem:
        """Return a problem with what is at `path`; where that is missing, with what it is missing from."""
        known = path
        while known and known not in self.values:
            known = known[:-1]
        mark = (self.keys if at_key else self.values).get(known) or self.values[known]
        return Problem(self.file, mark.line + 1, mark.column + 1, path, what)

    def add(self, found: Iterable[Problem]) -> None:
        """Add problems, except with what has one already."""
        told = {problem.path for problem in self.problems}
        self.problems += [problem for problem in found if problem.path not in told]

    def build(self, node: yaml.Node, path: Path = ()) -> object:
        """Return the plain value of `node`, and note where it is and what is wrong with it."""
        self.values[path] = node.start_mark
        if is_a(node, "mapping") and node.tag == f"{_TAG}map":
            return self._mapping(node, path)
        if is_a(node, "sequence") and node.tag == f"{_TAG}seq":
            return [self.build(item, (*path, index)) for index, item in enumerate(node.value)]
        if is_a(node, "scalar") and node.tag in _SCALARS:
            return self._scalar(node, path)
        self.problems.append(self.problem(path, f"the tag {node.tag.replace(_TAG, '!!')} is not supported"))
        return None

    def _mapping(self, node: yaml.Node, path: Path) -> dict[str, object]:
        entries: dict[str, object] = {}
        for key, value in node.value:
            if not is_a(key, "scalar") or key.tag != f"{_TAG}str":
                what = "<< is not supported" if key.tag == f"{_TAG}merge" else "a key must be a text"
                self.problems.append(_at(self.file, key.start_mark, what, path))
                continue
            here = (*path, key.value)
            if here in self.keys:
                what = f"the key is there twice, first in line {self.keys[here].line + 1}"
                self.problems.append(_at(self.file, key.start_mark, what, here))
                continue
            self.keys[here] = key.start_mark
            entries[key.value] = self.build(value, here)
        return entries

    def _scalar(self, node: yaml.Node, path: Path) -> object:
        try:
            value = scalar(node)
        except ValueError:
            self.problems.append(self.problem(path, f"it is not a valid {node.tag.removeprefix(_TAG)}"))
            return None
        if value is None:
            self.problems.append(self.problem(path, "it has no value; give it one, or remove the key"))
        return value


# Ends of lines for YAML alone, so that a comment may hold a key; and marks that turn text around.
_MISREAD = re.compile("\r(?!\n)|[\x85\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def read_document(data: bytes, file: str) -> ConfigDocument:
    """Return the document that `data` holds; what is wrong with single values of it is in its `problems`.

    Raises:
        InvalidConfig: it is too large, is not text, is not YAML, has anchors or aliases, or does not look as it reads.
    """
    if len(data) > MAX_BYTES:
        raise InvalidConfig([Problem(file, None, None, (), f"it is larger than {MAX_BYTES >> 20} MiB")])
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidConfig([Problem(file, line, None, (), "it is not UTF-8 text")]) from None
    if misread := _MISREAD.search(text):
        what = f"it has the character U+{ord(misread[0]):04X}: reviewers read another text than YAML. Remove it"
        raise InvalidConfig([Problem(file, text.count("\n", 0, misread.start()) + 1, None, (), what)])
    try:
        root = _root(text)
    except Unreadable as error:
        what = error.reason + (_advice(text, error.line - 1) if error.reason.startswith("it is not YAML") else "")
        raise InvalidConfig([Problem(file, error.line, error.column or None, (), what)]) from None
    document = ConfigDocument(file)
    document.value = document.build(root)
    return document


def _root(text: str) -> yaml.Node:
    """Return the root of a text; its events, which take no memory, are looked at before anything is built from them."""
    for event in events(text, _MAX_VALUES, _MAX_DEPTH):
        if getattr(event, "anchor", None) is not None and (mark := event.start_mark):
            what = "anchors and aliases are not supported; write the value out"
            raise Unreadable(what, mark.line + 1, mark.column + 1)
    roots = nodes(text)
    if len(roots) > 1:
        raise Unreadable("it has more than one document", *place_of(roots[1]))
    if not roots:
        raise Unreadable("it is empty", 1, 1)
    return roots[0]


def _at(file: str, mark: yaml.Mark, what: str, path: Path) -> Problem:
    return Problem(file, mark.line + 1, mark.column + 1, path, what)


def _advice(text: str, number: int) -> str:
    """Return a word on quotes, if the line has a value that begins with what YAML has other uses for."""
    _, _, value = "".join(text.split("\n")[number : number + 1]).partition(": ")
    quotes = value.lstrip().startswith((">", "*", "&", "!", "%", "@", "`", "|"))
    return '; a value that begins so needs quotes, as in range: ">=2.0.0"' if quotes else ""
