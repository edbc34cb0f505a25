"""What a kustomization says, as values that know where they stand."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from ci_automation.overlay.reading import text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_automation.impact.hazard import Place

# kustomize clones and downloads what looks like this (`NewRepoSpecFromURL`), Flux's OCI addresses it does not know.
_REMOTE = re.compile(r"(?:git::|[a-z][a-z0-9+.-]*://|[^/@\s]+@[^/:\s]+[:/]|github\.com[:/])", re.IGNORECASE)


class Reference(Struct, frozen=True):
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


class Selector(Struct, frozen=True):
    """What `target`, `select`, `reject` and `source` say; an empty field is everything."""

    group: str = ""
    version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    labels: str = ""
    annotations: str = ""

    @classmethod
    def of(cls, value: object) -> Self | None:
        """Return the selector that a value says, or None where it is none."""
        if not isinstance(value, dict):
            return None
        names = ("group", "version", "kind", "namespace", "name", "labelSelector", "annotationSelector")
        return cls(*(text(value.get(name)) for name in names))

    @property
    def names_object(self) -> bool:
        """Return whether it says more than labels and annotations."""
        return any((self.group, self.version, self.kind, self.namespace, self.name))

    @property
    def length(self) -> int:
        """Return how many signs it has."""
        return sum(map(len, (self.group, self.version, self.kind, self.namespace, self.name))) + self.marks_length

    @property
    def marks_length(self) -> int:
        """Return how many signs it has for labels and annotations, which are gone through for each object."""
        return len(self.labels) + len(self.annotations)

    def __str__(self) -> str:
        parts = [self.kind or "objects", f"{self.namespace}/{self.name}" if self.namespace else self.name]
        more = [f"with {found}" for found in (self.labels, self.annotations) if found]
        if self.group or self.version:
            more.append("/".join(part for part in ("of " + self.group if self.group else "", self.version) if part))
        return " ".join(part for part in (*parts, *more) if part)


class Rule(Struct, frozen=True):
    """One thing that a kustomization does to objects: its field, where it stands, and a mark of its whole content."""

    field: str
    places: tuple[Place, ...]
    mark: str

    @property
    def file(self) -> str:
        """Return the kustomization that it is in."""
        return self.places[0].file


class Patch(Struct, frozen=True):
    """A patch: its text, and the target if it has one; None as text is a file that is not there."""

    rule: Rule
    text: str | None
    target: Selector | None = None


class Replacement(Struct, frozen=True):
    """One target of a replacement; a selected object that `reject` selects too is left alone."""

    rule: Rule
    select: Selector
    reject: tuple[Selector, ...]
    paths: tuple[str, ...]


class Image(Struct, frozen=True):
    """An entry of `images`."""

    rule: Rule
    name: str
    new_name: str
    new_tag: str
    digest: str


class Named(Struct, frozen=True):
    """An entry that is known by a name alone: `replicas`, `namespace`, `namePrefix`, `nameSuffix`."""

    rule: Rule
    value: str


class Generated(Struct, frozen=True):
    """A ConfigMap or Secret that a kustomization makes; with `merges` it changes one that is there."""

    place: Place
    kind: str
    namespace: str
    name: str
    merges: bool


class Kustomization(Struct, frozen=True):
    """What a kustomization file says: `fields` are all of its keys, `files` other files than objects that it reads.

    `unknown` are the keys that kustomize refuses.

    `is_usual` says whether it is of the kind and the version that kustomize takes where nothing refers to it, and lists
    nothing but paths.
    """

    file: str
    folder: str
    is_component: bool
    is_usual: bool
    fields: frozenset[str]
    unknown: tuple[Reference, ...]
    resources: tuple[Reference, ...]
    components: tuple[Reference, ...]
    files: tuple[Reference, ...]
    strategic: tuple[Patch, ...]
    patches: tuple[Patch, ...]
    json_patches: tuple[Patch, ...]
    namespace: Named | None
    prefix: Named | None
    suffix: Named | None
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    replicas: tuple[Named, ...]
    images: tuple[Image, ...]
    replacements: tuple[Replacement, ...]
    generated: tuple[Generated, ...]
