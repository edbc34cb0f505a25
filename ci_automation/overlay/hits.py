"""Which objects a kustomization's rules match, as kustomize 5 matches them.

The regular expressions are RE2's, which Go's are, and hold for the whole of a name (kustomize, `types.SelectorRegex`).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ci_automation.overlay.kustomization import Image, Selector
    from ci_automation.overlay.objects import Id

_MAX_SELECTOR = 4096
_TAG = r"(:[a-zA-Z0-9_.{}-]*)?(@sha256:[a-zA-Z0-9_.{}-]*)?"
_CONTAINERS = ("containers", "initContainers")
_REPLICATED = frozenset({"Deployment", "ReplicationController", "ReplicaSet", "StatefulSet"})
_NO_PREFIX = frozenset({"CustomResourceDefinition", "Namespace"})
_REQUIREMENT = re.compile(r"([^\s,()!=<>]+)\s+(in|notin)\s*\(([^)]*)\)|([^,]+)")
_EQUAL = re.compile(r"([^=!]*[^=!\s])\s*(!=|==|=)\s*(.*)")


class Subject:
    """What is matched: the ids that an object had and has, the last is the present one; its labels, its annotations."""

    __slots__ = ("annotations", "ids", "labels")

    def __init__(self, ids: Iterable[Id], labels: Mapping[str, str], annotations: Mapping[str, str]) -> None:
        self.ids, self.labels, self.annotations = list(ids), dict(labels), dict(annotations)

    @property
    def original(self) -> Id:
        """Return the id that it came with."""
        return self.ids[0]

    @property
    def current(self) -> Id:
        """Return the id that it has now."""
        return self.ids[-1]


def is_target(selector: Selector, subject: Subject) -> bool:
    """Return whether a patch's `target` selects an object, by its first or its present name (`resWrangler.Select`)."""
    first, now = subject.original, subject.current
    return (
        (_full(selector.namespace, first.effective_namespace) or _full(selector.namespace, now.effective_namespace))
        and (_full(selector.name, first.name) or _full(selector.name, now.name))
        and _is_kind(selector, now)
        and matches_labels(selector.labels, subject.labels)
        and matches_labels(selector.annotations, subject.annotations)
    )


def is_selected(selector: Selector, subject: Subject) -> bool:
    """Return whether the `select` of a replacement's target selects an object (`TargetSelectorRegex`)."""
    return _has_marks(selector, subject) and _selects(selector, subject)


def is_rejected(selector: Selector, subject: Subject) -> bool:
    """Return whether an entry of `reject` takes an object out: by what it is called, or by its marks alone."""
    if (selector.labels or selector.annotations) and _has_marks(selector, subject):
        return True
    return selector.names_object and _selects(selector, subject)


def identified(wanted: Id, subject: Subject) -> bool:
    """Return whether an object has, or had, the identity of a strategic merge patch (`GetById`)."""
    return any(each.key == wanted.key for each in subject.ids)


def is_scaled(name: str, subject: Subject) -> bool:
    """Return whether an entry of `replicas` means an object."""
    return any(each.name == name and each.kind in _REPLICATED for each in subject.ids)


def takes_prefix(subject: Subject) -> bool:
    """Return whether `namePrefix` and `nameSuffix` change the name of an object."""
    return subject.original.kind not in _NO_PREFIX and subject.original.group != "apiregistration.k8s.io"


def takes_namespace(subject: Subject) -> bool:
    """Return whether `namespace` changes an object: a Namespace is renamed."""
    return not subject.current.cluster_scoped or (subject.current.group, subject.current.kind) == ("", "Namespace")


def is_image(image: Image, value: object) -> bool:
    """Return whether an entry of `images` means an image; its name is a pattern too (`IsImageMatched`)."""
    return isinstance(value, str) and _matches(f"^{image.name}{_TAG}$", value)


def renamed(image: Image, text: str) -> str:
    """Return an image as an entry of `images` that means it makes it (`imageTagUpdater`)."""
    start = text.find("/") + 1
    name, tag, digest = text, "", ""
    if "@" in text[start:]:
        name, _, digest = text.rpartition("@")
    if ":" in name[start:]:
        name, _, tag = name.rpartition(":")
    if image.new_tag or image.digest:
        tag, digest = image.new_tag, image.digest
    parts = (image.new_name or name, f":{tag}" if tag else "", f"@{digest}" if digest else "")
    return "".join(parts)


def containers(value: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401  # a value of an object
    """Yield the containers of an object, wherever in it kustomize looks for images."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key in _CONTAINERS and isinstance(each, list):
                yield from (found for found in each if isinstance(found, dict))
            yield from containers(each)
    elif isinstance(value, list):
        for each in value:
            yield from containers(each)


def matches_labels(selector: str, labels: Mapping[str, str]) -> bool:
    """Return whether labels or annotations are as a selector of Kubernetes wants them; one that is wrong wants none."""
    if len(selector) > _MAX_SELECTOR:
        return False
    return all(_meets(found, labels) for found in _REQUIREMENT.finditer(selector) if found[0].strip())


def _meets(found: re.Match[str], labels: Mapping[str, str]) -> bool:
    key, word, values, single = found.groups()
    if word:
        listed = [value.strip() for value in values.split(",")]
        return (labels.get(key) in listed) if word == "in" else (labels.get(key) not in listed)
    if equal := _EQUAL.fullmatch(single.strip()):
        name, sign, value = equal.groups()
        return (labels.get(name) != value) if sign == "!=" else (labels.get(name) == value)
    name = single.strip()
    return name[1:].strip() not in labels if name.startswith("!") else name in labels


def _is_kind(selector: Selector, found: Id) -> bool:
    pairs = ((selector.group, found.group), (selector.version, found.version), (selector.kind, found.kind))
    return all(_full(pattern, text) for pattern, text in pairs)


def _has_marks(selector: Selector, subject: Subject) -> bool:
    return matches_labels(selector.labels, subject.labels) and matches_labels(selector.annotations, subject.annotations)


def _selects(selector: Selector, subject: Subject) -> bool:
    return any(
        _is_kind(selector, each) and _full(selector.name, each.name) and _full(selector.namespace, each.namespace)
        for each in subject.ids
    )


def _full(pattern: str, text: str) -> bool:
    return not pattern or _matches(f"^(?:{pattern})$", text)


def _matches(pattern: str, text: str) -> bool:
    compiled = _compiled(pattern)
    return compiled is not None and compiled.search(text) is not None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:  # noqa: ANN401  # re2 has no types
    """Return a pattern of RE2, or None where it is none, at which kustomize ends with an error."""
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error:
        return None
