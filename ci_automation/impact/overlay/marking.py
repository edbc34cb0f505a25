"""An overlay with marks: what kustomize builds of it says which objects each rule selects.

Before each rule stands a JSON patch with the same target, which adds a field to the root of an object. An operation
that means an item of a list by its number has a copy of that list made before it.
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ci_automation.artifact.yaml import as_node, child, is_a, nodes, plain, text
from ci_automation.impact.change import Place
from ci_automation.impact.overlay.kustomization import fields_within, in_words, joined, listed_at, text_of, to_read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import yaml

    from ci_automation.artifact.tree import Tree
    from ci_automation.impact.overlay.kustomization import Effort, Kustomization

PREFIX = "fluxManifests"
HIT, LIST, GONE, ORIGIN, IMAGE = (f"{PREFIX}{name}-" for name in ("Hit", "List", "Gone", "Origin", "Image"))
# All but CRDs, which are most of the text and keep their names (RE2 has no look-ahead).
_RENAMED = {"kind": "(?:[^C]|C[^u]|Cu[^s]|Cus[^t]).*"}
_RULE = 200  # steps: it is written twice, and read
INDEX = re.compile(r"-?(?:0|[1-9]\d{0,5})")


class Numbered(Struct, frozen=True):
    """An item of a list that a rule means by its number: what is done where, and the field with the list before."""

    op: str
    pointer: str
    index: int
    field: str = ""


class Rule(Struct, frozen=True):
    """One thing that a kustomization does to objects, and the number of its mark.

    `key` identifies it in another version of the file: two with the same content are told apart by which comes first.
    """

    number: int
    name: str
    what: str
    key: str
    places: tuple[Place, ...]
    numbered: tuple[Numbered, ...] = ()
    paths: tuple[str, ...] = ()
    image: tuple[str, ...] = ()  # the name of an image that it looks for, and the one that it writes

    @property
    def file(self) -> str:
        """Return the kustomization that it is in."""
        return self.places[0].file


class Marked(Struct, frozen=True):
    """The files of an overlay with marks, and its rules by their numbers.

    `is_whole` says that the build differs from the one without marks in nothing but the marks.
    """

    tree: Tree
    rules: tuple[Rule, ...]
    is_whole: bool


def marked(tree: Tree, kustomizations: Mapping[str, Kustomization], effort: Effort) -> Marked:
    """Return the files with marks in these kustomizations, which are in the order of their rules.

    Raises:
        Unreadable: a patch or a replacement is not what kustomize takes.
        TooMuch: there are more rules than what is left of the effort.
    """
    rules: list[Rule] = []
    is_whole = True
    result = tree
    for number, found in enumerate(kustomizations.values()):
        marking = _Marking(tree, found, rules, effort)
        result = result.replaced(found.file, marking.run(number))
        is_whole &= marking.is_whole
    return Marked(result, tuple(rules), is_whole)


class _Marking:
    """Marks one kustomization; its rules are added to those that come before."""

    def __init__(self, tree: Tree, found: Kustomization, rules: list[Rule], effort: Effort) -> None:
        self._tree, self._found, self._rules, self._effort = tree, found, rules, effort
        self._fields = {key.value: value for key, value in found.root.value}
        self._counts: dict[str, int] = {}
        self.is_whole = True

    def run(self, number: int) -> bytes:
        """Return the kustomization of that number with marks."""
        import yaml

        patches = list(self._patches("patches"))
        json_patches = [*self._names(), *self._patches("patchesJson6902")]
        origin = [{"op": "copy", "from": "/metadata", "path": f"/{ORIGIN}{number}"}]
        made: dict[str, list[object]] = {
            "patches": [_patch(_RENAMED, origin), *patches],
            "patchesJson6902": json_patches,
            "images": list(self._image_entries("images")),
            "imageTags": list(self._image_entries("imageTags")),
            "replacements": list(self._replacements()),
        }
        fields = self._fields | {key: each for key, each in made.items() if each}
        return yaml.serialize(as_node(fields), Dumper=yaml.CSafeDumper).encode()

    def _rule(
        self, path: tuple[str | int, ...], what: str, content: object, *files: Place, **more: tuple[Any, ...]
    ) -> int:
        """Add the rule at a path, and return its number."""
        name = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)[1:]
        key = hashlib.sha256(json.dumps([path[0], content], sort_keys=True, default=str).encode()).hexdigest()[:12]
        self._counts[key] = count = self._counts.get(key, 0) + 1
        key = f"{key}-{count}" if count > 1 else key
        number = len(self._rules)
        self._effort.spend(_RULE)
        self._rules.append(Rule(number, name, what, key, (self._found.place(*path), *files), **more))
        return number

    def _entries(self, key: str) -> Iterator[tuple[int, yaml.Node, Any]]:
        """Yield the entries of a list with their values; None for what is no mapping."""
        found = self._fields.get(key)
        for number, node in enumerate(found.value if found and is_a(found, "sequence") else ()):
            yield number, node, plain(node) if is_a(node, "mapping") else None

    def _content(self, path: str) -> tuple[str, Place]:
        """Return the text of a file beside the kustomization; an empty one where there is none."""
        found = joined(self._found.folder, path)
        return text_of(self._tree[found]) if found in self._tree.by_path else "", Place(found, 1)

    def _patches(self, key: str) -> Iterator[object]:
        """Yield the patches of a list, each with a target after one that marks what it selects."""
        for number, node, value in self._entries(key):
            target = value and child(node, "target")
            if not target or not is_a(target[1], "mapping"):  # kustomize fails where its object is not there
                yield node
                continue
            path = text(value.get("path"))
            content, *files = self._content(path) if path else (text(value.get("patch")),)
            what = f"the patch of {in_words(value['target'])}"
            self._effort.spend(to_read(content))
            patch = _read_patch(content, len(self._rules))
            own = self._rule((key, number), what, [value, content] if path else value, *files, numbered=patch.numbered)
            yield _marking(target[1], own)
            if patch.deletes:
                yield _patch(target[1], _gone(own))
            elif patch.numbered:
                yield _without(node, "path", "patch") | {"patch": patch.marked}
            else:
                yield node

    def _names(self) -> Iterator[object]:
        """Yield the patches that mark what has the namespace, the prefix or the suffix of the kustomization."""
        for key, where, pattern in (
            ("namespace", "namespace", "{}"),
            ("namePrefix", "name", "{}.*"),
            ("nameSuffix", "name", ".*{}"),
        ):
            if value := text(self._found.value.get(key)):
                own = self._rule((key,), f"{key} {value}", value)
                yield _marking({"name": ".*"} | {where: pattern.format(re.escape(value))}, own)
                if where == "namespace":
                    yield _marking({"kind": "Namespace", "name": re.escape(value)}, own)

    def _image_entries(self, key: str) -> Iterator[object]:
        """Yield the entries of `images`, each with its mark in the image's new name: the first that matches counts."""
        for at, node, value in self._entries(key):
            if value is None:
                yield node
                continue
            name = text(value.get("name"))
            new = text(value.get("newName")) or name
            own = self._rule((key, at), f"the image {name}", value, image=(name, new))
            self.is_whole = False
            # A name is a pattern that is compared up to its end, and no word ends where a mark does.
            yield _without(node, "name", "newName") | {"name": rf"(?:{name})\b", "newName": f"{new}.{IMAGE}{own}."}

    def _replacements(self) -> Iterator[object]:
        """Yield the replacements, each target after one that marks what it selects; those of files too."""
        for number, node, value in self._entries("replacements"):
            at = ("replacements", number)
            if not (path := text((value or {}).get("path"))):
                yield self._targets(at, node, value) if value else node
                continue
            content, place = self._content(path)
            self._effort.spend(to_read(content))
            for document in map(fields_within, nodes(content)):
                for each in document.value if is_a(document, "sequence") else [document]:
                    its = plain(each) if is_a(each, "mapping") else None
                    yield self._targets(at, each, [path, its], place) if its else each

    def _targets(self, at: tuple[str, int], node: yaml.Node, content: object, *files: Place) -> object:
        listed = child(node, "targets")
        if not listed or not is_a(listed[1], "sequence"):
            return node
        shared = hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()
        targets: list[object] = []
        for number, target in enumerate(listed[1].value):
            select = child(target, "select")
            if not select or not is_a(select[1], "mapping"):
                targets.append(target)
                continue
            value = plain(target)
            paths = list(map(text, listed_at(value, "fieldPaths")))
            by_number = tuple(path for path in paths if any(map(INDEX.fullmatch, path.split("."))))
            what = f"the replacement in {in_words(value['select'])}"
            own = self._rule((*at, "targets", number), what, [shared, number], *files, paths=by_number)
            mark = {"fieldPaths": [f"{HIT}{own}"], "options": {"create": True}}
            targets.append(_without(target, "fieldPaths", "options") | mark)
            # What a number means is seen where it is not replaced yet.
            others = [path for path in paths if path not in by_number]
            self.is_whole &= not by_number
            if others or not paths:
                targets.append(_without(target, "fieldPaths") | {"fieldPaths": others} if by_number else target)
        return _without(node, "targets") | {"targets": targets}


class _Patch:
    """The text of a patch: whether it deletes objects, and what it means by number."""

    def __init__(self, content: str, number: int) -> None:
        import yaml

        self.numbered: tuple[Numbered, ...] = ()
        self.marked = content
        found = nodes(content)
        first = found[0] if len(found) == 1 else None
        self.deletes = first is not None and is_a(first, "mapping") and plain(first).get("$patch") == "delete"
        if first is None or not is_a(first, "sequence"):
            return
        operations: list[object] = []
        numbered: list[Numbered] = []
        for operation in first.value:
            value = plain(operation)
            for op, pointer, outer, token in _numbers(value) if isinstance(value, dict) else ():
                field = f"{LIST}{number}-{len(numbered)}"
                numbered.append(Numbered(op, pointer, int(token), field))
                operations.append({"op": "copy", "from": outer, "path": f"/{field}"})
            operations.append(operation)
        self.numbered = tuple(numbered)
        self.marked = yaml.serialize(as_node(operations), Dumper=yaml.CSafeDumper)


_read_patch = lru_cache(maxsize=64)(_Patch)  # both sides of a step mostly have the same patches


def _numbers(operation: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Yield the numbers in the pointers of an operation: what is done, the pointer up to it, the one before, itself.

    What `add` puts between others is no item that it means, and what `test` compares fails by itself.
    """
    op, path, source = (text(operation.get(key)) for key in ("op", "path", "from"))
    ways = {"test": (), "add": ((path, True),), "move": ((source, False), (path, True))}
    ways["copy"] = ways["move"]
    for pointer, inserts in ways.get(op, ((path, False),)):
        tokens = pointer.split("/")
        for at in range(2, len(tokens) - inserts):
            if INDEX.fullmatch(tokens[at]):
                yield op, "/".join(tokens[: at + 1]), "/".join(tokens[:at]), tokens[at]


def _gone(number: int) -> list[dict[str, str]]:
    """Return the operations that stand for a deletion: kind and version change places, so that no rule means it."""
    return [
        {"op": "add", "path": f"/{GONE}{number}", "value": "x"},
        {"op": "copy", "from": "/kind", "path": f"/{PREFIX}Kind"},
        {"op": "copy", "from": "/apiVersion", "path": "/kind"},
        {"op": "move", "from": f"/{PREFIX}Kind", "path": "/apiVersion"},
    ]


def _marking(target: object, number: int) -> object:
    return _patch(target, [{"op": "add", "path": f"/{HIT}{number}", "value": "x"}])


def _patch(target: object, operations: list[dict[str, str]]) -> object:
    return {"target": target, "patch": json.dumps(operations)}


def _without(node: yaml.Node, *names: str) -> dict[str, object]:
    return {key.value: value for key, value in node.value if key.value not in names}
