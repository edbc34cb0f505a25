"""Changes in the overlay: objects are compared like those of the components, other files as a whole; and diffs.

Files of objects are compared together, so that an object may move from one file to another. A kustomization, and every
file that one of them refers to otherwise than as a resource, is no file of objects, though a patch looks like one.
Unified diffs leave out the contents of Secrets.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from pathlib import PurePosixPath
from posixpath import normpath
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ci_automation.artifact.gojson import same_to_go
from ci_automation.artifact.yaml import BeyondLimits, Unreadable, aliases_in, nodes, plain
from ci_automation.flux.text import hunks
from ci_automation.impact.change import FILE, Change, ChangeKind, FileDiff, ObjectId, Severity
from ci_automation.impact.compare import (
    first,
    graver_if_gone,
    header_changes,
    object_changes,
    ordered,
    rewritten,
    together,
)
from ci_automation.impact.objects import Entry, entries, is_called_list
from ci_automation.impact.overlay.kustomization import NAMES, listed_at, read_kustomization
from ci_automation.impact.parts import Text
from ci_automation.impact.values import MISSING, Pair, mapping, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ci_automation.artifact.tree import Tree, TreeFile
    from ci_automation.impact.overlay.preflight import Built

OVERLAY = ObjectId("", FILE, "", "the overlay")
_SUFFIXES = frozenset({".yaml", ".yml"})
_RESOURCES = frozenset({"resources", "bases", "components", "crds"})
_SECRET = re.compile(
    r"""["']?kind["']?\s*:\s*(?:[!&]\S{0,40}\s+){0,2}["']?Secret(?:Generator)?\b|["']?stringData["']?\s*:"""
)
_PATCHED = re.compile(r"""\bpath["']?\s*:\s*["']?/(?:data|stringData)\b""")  # in a JSON patch, of a Secret perhaps
_OPERATION = re.compile(r"""\bop["']?\s*:""")
_WORD = re.compile(r"""[^\s"'`,:;{}()=[\]]{3,}""")
_GENERATOR, _PATCHES = "secretgenerator", ("patches", "patchesJson6902")
_MOST_DIFFS, _MOST_LINES, _WIDEST = 40, 400, 500
_HIDDEN = "It holds, or may hold, a Secret: its content is not shown."
_BINARY = "It is no text."


class _Objects(Struct, frozen=True):
    """A file that holds objects and nothing else."""

    path: str
    text: str
    parts: Text
    entries: tuple[Entry, ...]


def overlay_changes(old: Tree, new: Tree) -> tuple[Change, ...]:
    """Return what changes from one overlay to another, the gravest first; nothing only if no file differs.

    Both trees are without the components file. No content of a file that is not one of objects is shown.
    """
    before, after = old.by_path, new.by_path
    differing = [path for path in sorted(before.keys() | after.keys()) if before.get(path) != after.get(path)]
    unread = {path for tree in (old, new) for path in differing if _is_broken(tree, path)}  # compared as files
    sides = tuple(_objects(tree, [path for path in differing if path not in unread]) for tree in (old, new))
    pools = [[entry for file in side.values() for entry in file.entries] for side in sides]
    contents = (_digest(side.get(path)) for side in (before, after) for path in differing)
    found = list(first(graver_if_gone(object_changes(*pools), *pools), OVERLAY, *contents))
    told = {change.object for change in found}
    for path in differing:
        name = ObjectId("", FILE, "", path)
        was, now = before.get(path), after.get(path)
        if was and now and was.executable != now.executable:
            word = "is executable now" if now.executable else "is not executable any more"
            pair = Pair(name, was.executable, now.executable, "mode")
            found.append(pair.change(ChangeKind.OVERLAY_FILE, Severity.NOTICE, word))
        if path in sides[0] and path in sides[1]:
            found += _layout(name, sides[0][path], sides[1][path], told)
        elif not was or not now or was.content != now.content:
            word = "is new" if not was else "has other content" if now else "is gone"
            pair = Pair(name, MISSING, MISSING)
            found.append(pair.change(ChangeKind.OVERLAY_FILE, Severity.NOTICE, word, *map(_digest, (was, now))))
    return ordered(together(found, OVERLAY))


def _layout(name: ObjectId, old: _Objects, new: _Objects, told: set[ObjectId]) -> Iterator[Change]:
    """Yield what changes in a file beside its objects, and that it differs where nothing else was found."""
    own = list(header_changes(old.parts, new.parts, name))
    yield from own
    before, after = ({entry.id for entry in file.entries} for file in (old, new))
    if before != after:
        here = Pair(name, sorted(map(str, before)), sorted(map(str, after)))
        yield here.change(ChangeKind.OVERLAY_FILE, Severity.INFO, "holds other objects than before")
    elif old.text != new.text and not own and told.isdisjoint(after):
        yield rewritten(name, old.text, new.text)


def _digest(file: TreeFile | None) -> str:
    return hashlib.sha256(file.content).hexdigest() if file else ""


def _objects(tree: Tree, paths: list[str]) -> Mapping[str, _Objects]:
    """Return the files among `paths` that hold objects and nothing else."""
    elsewhere = _referred_to(tree) if paths else ()
    found = {}
    for path in paths:
        if path in tree.by_path and path not in elsewhere and PurePosixPath(path).suffix in _SUFFIXES:
            text = _text(tree[path])
            parts = Text.of(text or "")
            its = tuple(entries(parts))
            if text and its and all(map(_is_object, its)):
                found[path] = _Objects(path, text, parts, its)
    return found


def _is_broken(tree: Tree, path: str) -> bool:
    """Return whether a file is called YAML, and is none: which objects it was meant to hold is not known."""
    if path not in tree.by_path or PurePosixPath(path).suffix not in _SUFFIXES:
        return False
    try:
        aliases_in(_text(tree[path]) or "")
    except Unreadable as error:
        return not isinstance(error, BeyondLimits)
    return False


def _is_object(entry: Entry) -> bool:
    value = mapping(entry.document.value) if entry.document else {}
    if "items" in value and (is_called_list(value) or (entry.holds and "kind" in value)):
        return True
    return "apiVersion" in value and entry.id.kind == words(value.get("kind")) and bool(entry.id.name)


def _referred_to(tree: Tree) -> frozenset[str]:
    """Return the kustomizations, and the files that they refer to otherwise than as resources."""
    found = set()
    for path in tree.by_path:
        place = PurePosixPath(path)
        if place.name in NAMES:
            found.add(path)
            found |= {normpath(place.parent / text) for text in _texts_of(place, _text(tree[path]) or "")}
    return frozenset(found)


def _texts_of(place: PurePosixPath, text: str) -> Iterator[str]:
    """Yield every text in a kustomization that may be the path of a file that is no resource."""
    with suppress(Unreadable):
        value = read_kustomization(text, str(place), str(place.parent)).value
        yield from _leaves([part for key, part in value.items() if same_to_go(key) not in _RESOURCES])


def _leaves(value: Any) -> Iterator[str]:  # noqa: ANN401 - a value of YAML
    waiting = [value]
    while waiting:
        here = waiting.pop()
        if isinstance(here, dict):
            waiting += here.values()
        elif isinstance(here, list):
            waiting += here
        elif isinstance(here, str) and "\n" not in here:
            yield here.rpartition("=")[2]  # generators name files as KEY=PATH


def _text(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def overlay_diffs(old: Tree, new: Tree) -> tuple[FileDiff, ...]:
    """Return what changes in each file from one overlay to another; both are without the components file."""
    before, after = old.by_path, new.by_path
    hidden = _hidden(old, new)
    found: list[FileDiff] = []
    for path in sorted(before.keys() | after.keys()):
        sides = [side[path].content if path in side else b"" for side in (before, after)]
        if sides[0] != sides[1] and len(found) < _MOST_DIFFS:
            found.append(FileDiff(path, _file_diff(*sides, is_hidden=path in hidden)))
    return tuple(found)


def without_secrets(said: str, tree: Tree) -> str:
    """Return what a program said of some files without the words that only those with Secrets have."""
    hidden = _hidden(tree)
    words = {is_hidden: set(_WORD.findall("\n".join(tree.by_path))) for is_hidden in (False, True)}
    words[False] |= {part for path in tree.by_path for part in PurePosixPath(path).parts}
    for path, file in tree.by_path.items():
        text = _text(file.content) or ""
        words[path in hidden or _SECRET.search(text) is not None] |= set(_WORD.findall(text))
    return _WORD.sub(lambda word: "…" if word[0] in words[True] - words[False] else word[0], said)


def _hidden(*trees: Tree) -> set[str]:
    """Return the files that may hold what Secrets are made of, whatever else they say."""
    texts = {path: _text(file.content) or "" for tree in trees for path, file in tree.by_path.items()}
    generating = {path for path, text in texts.items() if _GENERATOR in text.casefold()}
    plain = {path for path in texts if generating and PurePosixPath(path).suffix not in _SUFFIXES}
    return generating | plain | {path for tree in trees for path in _of_secrets(tree)}


def _of_secrets(tree: Tree) -> set[str]:
    """Return the files that kustomize makes Secrets of, or patches Secrets with; all, if that cannot be told."""
    found = set[str]()
    for path, file in tree.by_path.items():
        place, text = PurePosixPath(path), _text(file.content) or ""
        if not (place.name in NAMES and "Secret" in text) and not (
            place.suffix in _SUFFIXES and _GENERATOR in text.casefold()
        ):
            continue
        try:
            values = [mapping(plain(node)) for node in nodes(text)]
        except Unreadable:
            return set(tree.by_path)
        for name in _leaves([part for value in values for part in _parts_of_secrets(value)]):
            found.add(normpath(place.parent / name))
    return found


def _parts_of_secrets(value: Mapping[Any, Any]) -> Iterator[Any]:
    """Yield what in a kustomization, or in the configuration of a generator, names files of Secrets."""
    if value.get("kind") == "SecretGenerator":
        yield value
    yield from (part for key, part in value.items() if str(key).casefold() == _GENERATOR)
    for entry in (mapping(it) for key in _PATCHES for it in listed_at(value, key)):
        if "Secret" in words(mapping(entry.get("target")).get("kind")):
            yield entry.get("path")


def rendered_diffs(builds: Iterable[Built]) -> tuple[FileDiff, ...]:
    """Return what changes in what each folder renders to, where it was built before and after."""
    found = []
    for each in builds:
        if each.before is not None and each.after is not None and each.before != each.after:
            text = _hunks(_without_secrets(each.before), _without_secrets(each.after))
            found.append(FileDiff(each.folder, text or _HIDDEN, rendered=True))
    return tuple(found[:_MOST_DIFFS])


def _file_diff(old: bytes, new: bytes, *, is_hidden: bool) -> str:
    try:
        before, after = old.decode(), new.decode()
    except UnicodeDecodeError:
        return _BINARY
    texts = f"{before}\n{after}"
    if is_hidden or _SECRET.search(texts):
        return _HIDDEN
    if _PATCHED.search(texts) and _OPERATION.search(texts):
        return _HIDDEN
    return _hunks(before, after)


def _without_secrets(text: str) -> str:
    """Return objects with a word in place of each Secret."""
    parts = text.split("\n---\n")
    return "\n---\n".join("# a Secret, not shown" if _SECRET.search(part) else part for part in parts)


def _hunks(old: str, new: str) -> str:
    lines = list(hunks(old.splitlines(), new.splitlines()))
    more = [f"and {len(lines) - _MOST_LINES} more lines"] if len(lines) > _MOST_LINES else []
    shown = (line if len(line) <= _WIDEST else f"{line[:_WIDEST]}…" for line in lines[:_MOST_LINES])
    return "\n".join([*shown, *more])
