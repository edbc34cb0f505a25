"""A kustomization file: what it refers to, and where.

kustomize itself refuses what is wrong in it: here a field of the wrong type counts as not there.
"""

from __future__ import annotations

import posixpath
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ci_automation.artifact.gojson import same_to_go
from ci_automation.artifact.yaml import BeyondLimits, Unreadable, is_a, line_of, nodes, plain, text
from ci_automation.impact.change import Place

if TYPE_CHECKING:
    from collections.abc import Mapping

    import yaml

    from ci_automation.artifact.tree import Tree

# An overlay that is made to be slow is reported instead; one around Flux's components takes a fiftieth of these steps.
MAX_STEPS = 2_000_000
BUILD = 5_000  # steps for each build by kustomize
_DOCUMENT = 100
_SIGNS = 16  # of a text, in a step
_BETWEEN = "\n,:-[{?"  # each value is behind one of these
_VALUE = 3
NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_MAX_FIELDS = 100  # kustomize knows 29, and refuses others
_USUAL_KINDS = (None, "", "Kustomization")
_USUAL_VERSIONS = (None, "", "kustomize.config.k8s.io/v1beta1")
# A kustomization with nothing else only lists: what it gives is what it lists.
_LISTS = frozenset({"apiVersion", "kind", "resources"})
_READ = ("crds", "configurations", "generators", "transformers", "validators")
# The fields of kustomize 5 (`types.Kustomization`); below them those whose own fields are read here.
_KNOWN = frozenset({
    "apiVersion", "kind", "metadata", "openapi", "namePrefix", "nameSuffix", "namespace", "commonLabels", "labels",
    "commonAnnotations", "patchesStrategicMerge", "patches", "patchesJson6902", "images", "imageTags", "replacements",
    "replicas", "vars", "sortOptions", "resources", "components", "crds", "bases", "helmGlobals", "helmCharts",
    "helmChartInflationGenerator", "generatorOptions", "configurations", "generators", "transformers", "validators",
    "buildMetadata", "configMapGenerator", "secretGenerator",
})  # fmt: skip
_WITHIN = frozenset({
    "path", "patch", "target", "source", "targets", "select", "reject", "fieldPaths", "options", "group", "version",
    "kind", "namespace", "name", "labelSelector", "annotationSelector", "newName", "newTag", "digest",
})  # fmt: skip
_HAVE_FIELDS = frozenset({
    "patches", "patchesJson6902", "images", "imageTags", "replacements", "replicas", "target", "source", "targets",
    "select", "reject",
})  # fmt: skip
# kustomize clones and downloads what looks like this (`NewRepoSpecFromURL`); it does not know Flux's OCI addresses.
_REMOTE = re.compile(r"(?:git::|[a-z][a-z0-9+.-]*://|[^/@\s]+@[^/:\s]+[:/]|github\.com[:/])", re.IGNORECASE)


class TooMuch(Exception):  # not an error of the run: it becomes a hazard
    """Checking an overlay is more work than a real overlay causes."""


class Effort:
    """The work that is left for one overlay, before and after a step.

    No clock is read, so that the same files always come to the same end.
    """

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_STEPS

    def spend(self, steps: int) -> None:
        """Take steps away; raise `TooMuch` if fewer are left."""
        self.left -= steps
        if self.left < 0:
            raise TooMuch


def to_skim(text: str) -> int:
    """Return the steps that it takes to look for a few lines of a text."""
    return _DOCUMENT + len(text) // _SIGNS


def to_read(text: str) -> int:
    """Return the steps that reading a text takes, which are more the more values may be in it."""
    return to_skim(text) + _VALUE * sum(map(text.count, _BETWEEN))


class Named(Struct, frozen=True):
    """A path or an address in a kustomization, and where it stands."""

    path: str
    place: Place

    @property
    def is_remote(self) -> bool:
        """Return whether it looks like what is fetched from elsewhere."""
        return _REMOTE.match(self.path) is not None

    @property
    def is_download(self) -> bool:
        """Return whether it is a file on the web."""
        return self.path.lower().startswith(("http://", "https://"))


class Kustomization(Struct, frozen=True):
    """A kustomization file as it was read: `root` is its YAML, with Kubernetes' own spelling of the field names."""

    file: str
    folder: str
    root: yaml.Node
    value: Mapping[str, Any]

    @property
    def only_lists(self) -> bool:
        """Return whether it lists paths and does nothing else, and kustomize takes it for a kustomization."""
        return (
            self.value.keys() <= _LISTS
            and self.value.get("kind") in _USUAL_KINDS
            and self.value.get("apiVersion") in _USUAL_VERSIONS
            and all(entry and isinstance(entry, str) for entry in listed_at(self.value, "resources"))
        )

    @property
    def resources(self) -> tuple[Named, ...]:
        """Return the files and folders that it lists."""
        return (*self._paths("resources"), *self._paths("bases"))

    @property
    def components(self) -> tuple[Named, ...]:
        """Return the folders of its components."""
        return self._paths("components")

    @property
    def files(self) -> tuple[Named, ...]:
        """Return the other files that it reads by path."""
        return tuple(path for key in _READ for path in self._paths(key))

    @property
    def patch_files(self) -> tuple[Named, ...]:
        """Return the files that its patches and replacements are in."""
        found = [
            Named(path, self.place(key, number))
            for key in ("patches", "patchesJson6902", "replacements")
            for number, entry in enumerate(listed_at(self.value, key))
            if isinstance(entry, dict) and (path := text(entry.get("path")))
        ]
        merges = self._paths("patchesStrategicMerge")
        return (*found, *(each for each in merges if "\n" not in each.path and not each.path.lstrip().startswith("{")))

    @property
    def unknown(self) -> tuple[Named, ...]:
        """Return the fields that kustomize refuses."""
        return tuple(Named(key, self.place(key)) for key in self.value if key not in _KNOWN)

    def place(self, *path: str | int) -> Place:
        """Return where what is at `path` begins."""
        return Place(self.file, line_of(self.root, *path))

    def _paths(self, key: str) -> tuple[Named, ...]:
        return tuple(
            Named(entry, self.place(key, number))
            for number, entry in enumerate(listed_at(self.value, key))
            if isinstance(entry, str)
        )


def kustomization_file(tree: Tree, folder: str) -> str | None:
    """Return the path of the first kustomization in a folder, or None."""
    paths = (joined(folder, name) for name in NAMES)
    return next((path for path in paths if path in tree.by_path), None)


def joined(folder: str, path: str) -> str:
    """Return a path of a kustomization in `folder` as a path from the artifact's root; `../` first is outside of it."""
    return posixpath.normpath(posixpath.join(folder, path))


def listed_at(value: Mapping[str, Any], key: str) -> list[Any]:
    """Return the list at a key, or an empty one."""
    found = value.get(key)
    return found if isinstance(found, list) else []


def text_of(data: bytes) -> str:
    """Return the text of a file: UTF-8, or UTF-16 as PowerShell writes it, which kustomize reads as well.

    Raises:
        Unreadable: it is neither.
    """
    try:
        return data.decode("utf-16" if data[:2] in {BOM_UTF16_LE, BOM_UTF16_BE} else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable("it is not UTF-8 text", data.count(b"\n", 0, error.start) + 1) from None


def in_words(selector: Mapping[str, Any]) -> str:
    """Return what a selector of objects says; an empty field is everything."""
    names = ("group", "version", "kind", "namespace", "name", "labelSelector", "annotationSelector")
    group, version, kind, namespace, name, labels, annotations = (text(selector.get(each)) for each in names)
    parts = [kind or "objects", f"{namespace}/{name}" if namespace else name]
    more = [f"with {found}" for found in (labels, annotations) if found]
    if group or version:
        more.append("/".join(part for part in ("of " + group if group else "", version) if part))
    return " ".join(part for part in (*parts, *more) if part)


def kustomization(tree: Tree, folder: str, effort: Effort) -> Kustomization | None:
    """Return the kustomization in a folder, or None where there is none.

    Raises:
        Unreadable: it is not what kustomize takes.
        TooMuch: to read it is more than what is left of the effort.
    """
    files = [path for name in NAMES if (path := joined(folder, name)) in tree.by_path]
    if len(files) > 1:
        raise Unreadable(f"the folder has {len(files)} kustomizations")
    if not files:
        return None
    written = text_of(tree[files[0]])
    effort.spend(to_read(written))
    return read_kustomization(written, files[0], folder)


@lru_cache(maxsize=64)  # folders are looked at from several sides, before and after a step
def read_kustomization(written: str, file: str, folder: str) -> Kustomization:
    """Return the kustomization that a file is.

    Raises:
        Unreadable: it is not what kustomize takes.
    """
    roots = nodes(written)
    if len(roots) != 1 or not is_a(roots[0], "mapping"):
        raise Unreadable("it is not one kustomization")
    if len(roots[0].value) > _MAX_FIELDS:
        raise BeyondLimits("it has more fields than kustomize knows")
    _spell(roots[0], _KNOWN)
    value = plain(roots[0])
    if not value.keys() - {"apiVersion", "kind"}:
        raise Unreadable("it is empty")
    return Kustomization(file, folder, roots[0], value)


def lists(tree: Tree, file: str) -> bool:
    """Return whether the kustomization at the top of a tree lists a file, and can be read."""
    try:
        found = kustomization(tree, ".", Effort())
    except (Unreadable, TooMuch):
        return False
    return found is not None and any(joined(".", it.path) == file for it in found.resources)


def kustomization_of(path: str) -> bytes:
    """Return a kustomization that lists the file or folder at `path`, and nothing else."""
    return f"apiVersion: {_USUAL_VERSIONS[-1]}\nkind: Kustomization\nresources:\n  - {path}\n".encode()


def fields_within(node: yaml.Node) -> yaml.Node:
    """Return what a file says that stands for an entry of a kustomization, with its fields called by their names.

    Raises:
        Unreadable: it has a field twice, each in another case.
    """
    _spell(node, _WITHIN)
    return node


def _spell(node: yaml.Node, names: frozenset[str]) -> None:
    """Call the fields of a mapping, or of a list of them, by their names: Go's JSON decoder takes them in any case."""
    if is_a(node, "sequence"):
        for item in node.value:
            _spell(item, names)
    if not is_a(node, "mapping"):
        return
    folded = {same_to_go(name): name for name in names}
    for key, value in node.value:
        if is_a(key, "scalar"):
            key.value = folded.get(same_to_go(key.value), key.value)
            if key.value in _HAVE_FIELDS:
                _spell(value, _WITHIN)
    keys = [key.value for key, _ in node.value if is_a(key, "scalar")]
    if twice := sorted({key for key in keys if key in names and keys.count(key) > 1}):
        raise Unreadable(f"it has the field {twice[0]} twice")
