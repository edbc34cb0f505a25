"""Objects on their way through kustomizations, and what the rules of those do to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, field

from ci_automation.overlay.effort import size, to_read
from ci_automation.overlay.hits import Subject
from ci_automation.overlay.objects import texts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ci_automation.impact.change import ObjectId
    from ci_automation.impact.hazard import Place
    from ci_automation.overlay.effort import Effort
    from ci_automation.overlay.kustomization import Reference, Rule
    from ci_automation.overlay.objects import Id, Object
    from ci_automation.overlay.patching import Touch

_VISIT = 3  # steps
_SIGNS = 64  # in a step, where a pattern is looked for
_LOCAL = "config.kubernetes.io/local-config"


class Problem(NamedTuple):
    """Why kustomize will not build something, as far as that shows without it."""

    sentence: str
    place: Place


class Hit(NamedTuple):
    """An object that a rule hits, and an item of one of its lists that the rule means by number."""

    object: ObjectId
    touch: Touch


class Effect(Struct):
    """What a rule does: `what` is how people call it; the objects that it hits, and what it means by number in them."""

    rule: Rule
    what: str
    objects: list[ObjectId] = field(default_factory=list)
    touches: list[Hit] = field(default_factory=list)


class Resource(Subject):
    """An object on its way through kustomizations."""

    __slots__ = ("_changed", "source", "weight")

    def __init__(self, source: Object) -> None:
        super().__init__([source.id], source.labels, source.annotations)
        self.source = source
        self.weight = _weight(source.id)  # the steps that it takes to look at what it is called
        self._changed: dict[str, Any] | None = None

    def value(self, effort: Effort) -> dict[str, Any]:
        """Return the whole object, as it is now but for its names."""
        if self._changed is None:
            effort.spend(to_read(self.source.written) + size(self.source.whole))
            self._changed = self.source.value()
            self._mark(self._changed)
        return self._changed

    def change(self, value: dict[str, Any], effort: Effort) -> None:
        """Give it another value."""
        self._changed = value
        self.labels, self.annotations = texts(value, "labels"), texts(value, "annotations")
        effort.spend(1 + len(self.labels) + len(self.annotations))

    @property
    def may_have_images(self) -> bool:
        """Return whether it is worth a look for images."""
        return self._changed is not None or self.source.may_have_images

    def mark(self, labels: Iterable[tuple[str, str]], annotations: Iterable[tuple[str, str]]) -> None:
        """Give it labels and annotations."""
        self.labels.update(labels)
        self.annotations.update(annotations)
        if self._changed is not None:
            self._mark(self._changed)

    def rename(self, *, namespace: str | None = None, name: str | None = None) -> None:
        """Give it another name; what it was called before is kept."""
        now = self.current
        namespace, name = (now.namespace if namespace is None else namespace), (now.name if name is None else name)
        if (namespace, name) != (now.namespace, now.name):
            self.ids.append(now._replace(namespace=namespace, name=name))
            self.weight += _weight(self.current)

    def _mark(self, value: dict[str, Any]) -> None:
        metadata = value.get("metadata")
        if isinstance(metadata, dict):
            for key, values in (("labels", self.labels), ("annotations", self.annotations)):
                if values:
                    metadata[key] = dict(values)


def _weight(known_as: Id) -> int:
    return _VISIT + sum(map(len, known_as)) // _SIGNS


class Accumulated(Struct):
    """What a folder gives to clusters: its objects, what its rules do, what is wrong, what is elsewhere.

    `files` and `folders` are those that it is made of. `only_lists` says that its kustomizations do nothing but list.
    """

    resources: list[Resource] = field(default_factory=list)
    effects: dict[str, Effect] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    remotes: list[Reference] = field(default_factory=list)
    files: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)
    only_lists: bool = True

    @property
    def ids(self) -> frozenset[ObjectId]:
        """Return what clusters know the objects by; those for kustomize alone are not applied."""
        kept = (each for each in self.resources if each.annotations.get(_LOCAL, "false") == "false")
        return frozenset(each.current.object for each in kept)
