"""A kustomization file, read; the files that it names are read out of the same tree.

What kustomize would refuse is left to it: here a field that is no such thing counts as not there. Fields that say what
to do with objects are read; of the others it is only noted that they are there.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from typing import TYPE_CHECKING, Any

from ci_automation.artifact.yaml_events import Unreadable
from ci_automation.impact.hazard import Place
from ci_automation.overlay.effort import to_read
from ci_automation.overlay.kustomization import (
    Generated,
    Image,
    Kustomization,
    Named,
    Patch,
    Reference,
    Replacement,
    Rule,
    Selector,
)
from ci_automation.overlay.reading import Names, line_of, nodes, plain, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ci_automation.artifact.tree import Tree, TreeFile
    from ci_automation.overlay.effort import Effort

NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_COMPONENT = "Component"
_MAX_FIELDS = 100  # kustomize knows 29, and refuses others
_USUAL_KINDS = (None, "", "Kustomization")
_USUAL_VERSIONS = (None, "", "kustomize.config.k8s.io/v1beta1")
_FILES = ("crds", "configurations", "generators", "transformers", "validators")
_SELECTOR = Names.of("group", "version", "kind", "namespace", "name", "labelSelector", "annotationSelector")
_PATCHES = Names.of("path", "patch", target=_SELECTOR)
_TARGETS = Names.of("fieldPaths", "options", select=_SELECTOR, reject=_SELECTOR)
_REPLACEMENTS = Names.of("path", "source", targets=_TARGETS)
_GENERATED = Names.of("namespace", "name", "behavior")
# As kustomize 5 has them (`types.Kustomization`), with the names within them that are read here.
_FIELDS = Names.of(
    "apiVersion", "kind", "metadata", "openapi", "namePrefix", "nameSuffix", "namespace", "commonLabels",
    "commonAnnotations", "patchesStrategicMerge", "vars", "sortOptions", "resources", "components", "crds", "bases",
    "helmGlobals", "helmCharts", "helmChartInflationGenerator", "generatorOptions", "configurations", "generators",
    "transformers", "validators", "buildMetadata",
    labels=Names.of("pairs"),
    patches=_PATCHES,
    patchesJson6902=_PATCHES,
    images=Names.of("name", "newName", "newTag", "digest"),
    imageTags=Names.of("name", "newName", "newTag", "digest"),
    replacements=_REPLACEMENTS,
    replicas=Names.of("name"),
    configMapGenerator=_GENERATED,
    secretGenerator=_GENERATED,
)  # fmt: skip
_GENERATORS = {"configMapGenerator": "ConfigMap", "secretGenerator": "Secret"}


def kustomization_file(tree: Tree, folder: str) -> str | None:
    """Return the path of the first kustomization in a folder, or None."""
    paths = (joined(folder, name) for name in NAMES)
    return next((path for path in paths if path in tree.by_path), None)


def joined(folder: str, path: str) -> str:
    """Return a path of a kustomization in `folder` as a path from the artifact's root; `../` first is outside of it."""
    return posixpath.normpath(posixpath.join(folder, path))


def read(tree: Tree, folder: str, effort: Effort) -> Kustomization | None:
    """Return the kustomization in a folder, or None where there is none.

    Raises:
        Unreadable: it is not what kustomize takes.
        TooMuch: to read it is more than what is left of the effort.
    """
    files = [path for name in NAMES if (path := joined(folder, name)) in tree.by_path]
    if len(files) > 1:
        raise Unreadable(f"the folder has {len(files)} kustomizations")
    return _Reader(tree.by_path, files[0], folder, effort).read() if files else None


def text_of(data: bytes) -> str:
    """Return the text of a file.

    Raises:
        Unreadable: it is not UTF-8.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable("it is not UTF-8 text", data.count(b"\n", 0, error.start) + 1) from None


class _Reader:
    """Reads one file."""

    def __init__(self, files: Mapping[str, TreeFile], file: str, folder: str, effort: Effort) -> None:
        self._files, self._file, self._folder, self._effort = files, file, folder, effort
        roots = nodes(self._text(files[file]))
        value = plain(roots[0]) if len(roots) == 1 else None
        if not isinstance(value, dict):
            raise Unreadable("it is not one kustomization")
        if len(roots[0].value) > _MAX_FIELDS:
            raise Unreadable("it has more fields than kustomize knows")
        self._root, self._value = roots[0], _FIELDS.spell(value)
        self._written = {_FIELDS.spelling(key): key for key in value}
        if not self._value.keys() - {"apiVersion", "kind"}:
            raise Unreadable("it is empty")
        self._marks: dict[str, int] = {}

    def read(self) -> Kustomization:
        """Return what the file says."""
        labels = [
            self._mapping("commonLabels"),
            *(_mapping(entry.get("pairs")) for _, entry in self._entries("labels")),
        ]
        return Kustomization(
            file=self._file,
            folder=self._folder,
            is_component=self._value.get("kind") == _COMPONENT,
            is_usual=self._value.get("kind") in _USUAL_KINDS
            and self._value.get("apiVersion") in _USUAL_VERSIONS
            and all(entry and isinstance(entry, str) for entry in _items(self._value, "resources")),
            fields=frozenset(self._value),
            unknown=tuple(Reference(key, self._place(key)) for key in self._value if key not in _FIELDS.within),
            resources=(*self._references("resources"), *self._references("bases")),
            components=self._references("components"),
            files=tuple(reference for key in _FILES for reference in self._references(key)),
            strategic=tuple(self._strategic()),
            patches=tuple(self._patches("patches", "patch")),
            json_patches=tuple(self._patches("patchesJson6902", "patch")),
            namespace=self._named("namespace"),
            prefix=self._named("namePrefix"),
            suffix=self._named("nameSuffix"),
            labels={name: value for found in labels for name, value in found.items()},
            annotations=self._mapping("commonAnnotations"),
            replicas=tuple(self._replicas()),
            images=tuple(self._images()),
            replacements=tuple(self._replacements()),
            generated=tuple(self._generated()),
        )

    def _text(self, file: TreeFile) -> str:
        found = text_of(file.content)
        self._effort.spend(to_read(found))
        return found

    def _place(self, key: str | int, *path: str | int) -> Place:
        return Place(self._file, line_of(self._root, self._written.get(str(key), key), *path))

    def _entries(self, key: str) -> Iterator[tuple[tuple[str, int], dict[str, Any]]]:
        for number, entry in enumerate(_items(self._value, key)):
            if isinstance(entry, dict):
                yield (key, number), entry

    def _mapping(self, key: str) -> dict[str, str]:
        return _mapping(self._value.get(key))

    def _references(self, key: str) -> tuple[Reference, ...]:
        return tuple(
            Reference(entry, self._place(key, number))
            for number, entry in enumerate(_items(self._value, key))
            if isinstance(entry, str)
        )

    def _rule(self, path: tuple[str | int, ...], content: object, *files: Place) -> Rule:
        """Return the rule at a path; two with the same content are told apart by which comes first."""
        field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)[1:]
        mark = _hashed([path[0], content])[:12]
        self._marks[mark] = count = self._marks.get(mark, 0) + 1
        return Rule(field, (self._place(*path), *files), f"{mark}-{count}" if count > 1 else mark)

    def _named(self, key: str) -> Named | None:
        value = text(self._value.get(key))
        return Named(self._rule((key,), value), value) if value else None

    def _content(self, path: str) -> tuple[str | None, Place]:
        """Return the text of a file beside the kustomization, None where there is no such file, and where it is."""
        found = joined(self._folder, path)
        file = self._files.get(found)
        return (self._text(file) if file else None), Place(found, 1)

    def _strategic(self) -> Iterator[Patch]:
        """Yield the patches of `patchesStrategicMerge`: each is a path, or the patch itself."""
        for number, entry in enumerate(_items(self._value, "patchesStrategicMerge")):
            if not isinstance(entry, str):
                continue
            at = ("patchesStrategicMerge", number)
            if "\n" in entry or entry.lstrip().startswith("{"):
                yield Patch(self._rule(at, entry), entry)
            else:
                content, place = self._content(entry)
                yield Patch(self._rule(at, [entry, content], place), content)

    def _patches(self, key: str, inline: str) -> Iterator[Patch]:
        for at, entry in self._entries(key):
            target, path = Selector.of(entry.get("target")), text(entry.get("path"))
            if path:
                content, place = self._content(path)
                yield Patch(self._rule(at, [entry, content], place), content, target)
            else:
                yield Patch(self._rule(at, entry), text(entry.get(inline)), target)

    def _replicas(self) -> Iterator[Named]:
        for at, entry in self._entries("replicas"):
            yield Named(self._rule(at, entry), text(entry.get("name")))

    def _images(self) -> Iterator[Image]:
        for key in ("images", "imageTags"):
            for at, entry in self._entries(key):
                names = ("name", "newName", "newTag", "digest")
                yield Image(self._rule(at, entry), *(text(entry.get(name)) for name in names))

    def _replacements(self) -> Iterator[Replacement]:
        """Yield each target of each replacement, those of files too."""
        for at, entry in self._entries("replacements"):
            if not (path := text(entry.get("path"))):
                yield from self._targets(at, entry, entry)
                continue
            content, place = self._content(path)
            for node in nodes(content or ""):
                value = _REPLACEMENTS.spell(plain(node))
                for each in value if isinstance(value, list) else [value]:
                    if isinstance(each, dict):
                        yield from self._targets(at, each, [path, each], place)

    def _targets(
        self, at: tuple[str, int], entry: Mapping[str, Any], content: object, *files: Place
    ) -> Iterator[Replacement]:
        shared = _hashed(content)  # once, however many targets there are
        for number, target in enumerate(_items(entry, "targets")):
            if isinstance(target, dict) and (select := Selector.of(target.get("select"))):
                reject = tuple(selector for each in _items(target, "reject") if (selector := Selector.of(each)))
                rule = self._rule((*at, "targets", number), [shared, number], *files)
                yield Replacement(rule, select, reject, tuple(map(text, _items(target, "fieldPaths"))))

    def _generated(self) -> Iterator[Generated]:
        for key, kind in _GENERATORS.items():
            for at, entry in self._entries(key):
                namespace, name, behavior = (text(entry.get(name)) for name in ("namespace", "name", "behavior"))
                yield Generated(self._place(*at), kind, namespace, name, behavior in ("merge", "replace"))


def _hashed(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def _items(value: Mapping[str, Any], key: str) -> list[Any]:
    found = value.get(key)
    return found if isinstance(found, list) else []


def _mapping(value: object) -> dict[str, str]:
    return {name: text(each) for name, each in value.items()} if isinstance(value, dict) else {}
