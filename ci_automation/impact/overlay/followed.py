"""Effects of an overlay's rules, read from the build with marks, and that build without its marks."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from ci_automation.artifact.yaml import text
from ci_automation.impact.change import ObjectId
from ci_automation.impact.objects import read_objects
from ci_automation.impact.overlay.marking import GONE, HIT, IMAGE, INDEX, LIST, ORIGIN, PREFIX, Rule
from ci_automation.impact.values import mapping

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_FIELD = re.compile(r"\[[^\]]*\]|(?:\\.|[^.])+")
_CHOSEN = re.compile(r"\[([^=\]]+)=([^\]]*)\]")
_NUMBER = re.compile(r"0|[1-9]\d{0,8}")
_IMAGE = re.compile(rf"{IMAGE}(0|[1-9]\d{{0,8}})\.")
_MARKS = re.compile(rf"^{PREFIX}.*\n(?:(?: .*|-|- .*)?\n)*", re.MULTILINE)  # a field at the root, with what is below it
_GONE = re.compile(rf"^{GONE}", re.MULTILINE)
_ANY_MARK = re.compile("|".join(map(re.escape, (HIT, LIST, GONE, ORIGIN, IMAGE))))
_SEPARATOR = "---\n"
_CRD = "CustomResourceDefinition"


class Touch(Struct, frozen=True):
    """An item of an object's list that a rule means by its number: what was done where, and the list before it was."""

    object: ObjectId
    op: str
    pointer: str
    index: int
    elements: tuple[Any, ...]


class Effect(Struct):
    """The effect of a rule: the objects that it hits, and what it means by number in them."""

    rule: Rule
    objects: list[ObjectId] = field(default_factory=list)
    touches: list[Touch] = field(default_factory=list)


class Followed(Struct, frozen=True):
    """What a build with marks says: the ids of what clusters get, the same as the files have them, and the effects."""

    ids: frozenset[ObjectId]
    present: frozenset[ObjectId]
    effects: Mapping[str, Effect]


def read_marks(built: str, rules: Sequence[Rule]) -> Followed:
    """Return what a build with marks says of these rules.

    Raises:
        UnreadableObjects: it is not what kustomize prints.
    """
    effects = [Effect(rule) for rule in rules]
    ids, present = set(), set()
    for each in read_objects(built):
        known = original(each.id, each.value)
        numbers = sorted(_numbers(each.value, HIT))
        if IMAGE in built and each.id.kind != _CRD:
            numbers += map(int, _IMAGE.findall(json.dumps(each.value, default=str)))
        last = min(_numbers(each.value, GONE), default=len(effects))
        if last == len(effects):
            ids.add(each.id)
            present.add(known)
        for number in dict.fromkeys(numbers):
            if number <= last and number < len(effects):
                effects[number].objects.append(known)
                effects[number].touches += _touches(effects[number].rule, known, each.value)
    _pass_on(effects)
    return Followed(frozenset(ids), frozenset(present), {f"{it.rule.file} {it.rule.key}": it for it in effects})


def _pass_on(effects: Sequence[Effect]) -> None:
    """Let a rule for an image hit what the rules before it gave the name that it looks for: a mark hides it there."""
    written: dict[str, dict[ObjectId, None]] = {}
    for effect in effects:
        if effect.rule.image:
            name, new = effect.rule.image
            effect.objects = list(dict.fromkeys([*effect.objects, *written.get(name, ())]))
            written.setdefault(new, {}).update(dict.fromkeys(effect.objects))


def unmarked(built: str) -> str:
    """Return what kustomize builds without marks, out of what it builds with them."""
    documents = (f"{each}\n" for each in built.removesuffix("\n").split(f"\n{_SEPARATOR}") if not _GONE.search(each))
    return _SEPARATOR.join(_MARKS.sub("", each) for each in documents)


def is_like_marked(built: str) -> bool:
    """Return whether a build without marks has what would be taken for one."""
    return _ANY_MARK.search(built) is not None


def original(found: ObjectId, value: Mapping[str, Any]) -> ObjectId:
    """Return what an object was known by in its file."""
    group, kind = found.group, found.kind
    if _numbers(value, GONE):
        group, kind = text(value.get("kind")).rpartition("/")[0], text(value.get("apiVersion"))
    numbers = _numbers(value, ORIGIN)
    metadata = mapping(value[f"{ORIGIN}{min(numbers)}"] if numbers else value["metadata"])
    return ObjectId(group, kind, text(metadata.get("namespace")), text(metadata.get("name")))


def _numbers(value: Mapping[str, Any], prefix: str) -> list[int]:
    """Return the numbers of the marks of one sort that are on an object."""
    found = (key[len(prefix) :] for key in value if key.startswith(prefix))
    return [int(number) for number in found if _NUMBER.fullmatch(number)]


def _touches(rule: Rule, found: ObjectId, value: Mapping[str, Any]) -> Iterator[Touch]:
    for each in rule.numbered:
        elements = value.get(each.field)
        if isinstance(elements, list):
            index = each.index + len(elements) if each.index < 0 else each.index
            yield Touch(found, each.op, each.pointer, index, tuple(elements))
    for path in rule.paths:
        yield from _along(path, found, value)


def _along(path: str, found: ObjectId, value: Any) -> Iterator[Touch]:  # noqa: ANN401  # an object's value
    """Yield the items that a field path of a replacement means by number, as far as the path can be followed."""
    passed: list[str] = []
    for token in (match[0] for match in _FIELD.finditer(path)):
        passed.append(token)
        if isinstance(value, dict):
            value = value.get(token.replace("\\.", ".").strip("[]"))
        elif not isinstance(value, list):
            return
        elif selected := _CHOSEN.fullmatch(token):
            key, wanted = selected.groups()
            value = next((each for each in value if isinstance(each, dict) and str(each.get(key)) == wanted), None)
        elif INDEX.fullmatch(token) and 0 <= int(token) < len(value):
            yield Touch(found, "replace", ".".join(passed), int(token), tuple(value))
            value = value[int(token)]
        else:
            return
