"""Outcomes of the folders that clusters apply, and the effects of their rules.

kustomize is asked for all builds of a step at once. The effects are read from the builds with marks.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from ci_automation.artifact.yaml import Unreadable, text
from ci_automation.impact.change import ObjectId
from ci_automation.impact.objects import read_objects
from ci_automation.impact.overlay.builder import BuildFailed, BuildStopped, KustomizeUnusable, places
from ci_automation.impact.overlay.kustomization import BUILD
from ci_automation.impact.overlay.marking import GONE, HIT, IMAGE, INDEX, LIST, ORIGIN, PREFIX, Marked, Rule, marked
from ci_automation.impact.reading import UnreadableObjects
from ci_automation.impact.values import mapping

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ci_automation.impact.change import Place
    from ci_automation.impact.overlay.builder import Build, Kustomize
    from ci_automation.impact.overlay.folders import AppliedFolder
    from ci_automation.impact.overlay.kustomization import Effort

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


NO_RULES = Followed(frozenset(), frozenset(), {})


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


def _is_like_marked(built: str) -> bool:
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


class FolderOutcome(Struct, frozen=True):
    """What came of a folder: its objects, why it cannot be built (on any cluster, if that `is_sure`), or was not.

    `text` is what kustomize builds of it. `followed` is what its rules do, `unfollowed` why that could not be seen.
    """

    ids: frozenset[ObjectId]
    error: str = ""
    is_sure: bool = True
    unchecked: str = ""
    places: tuple[Place, ...] = ()
    text: str | None = None
    followed: Followed | None = None
    unfollowed: str = ""

    def has_controller(self, name: str) -> bool:
        """Return whether it has the Deployment of that name, perhaps with a prefix or a suffix."""
        return any(it.kind == "Deployment" and name in it.name for it in self.ids)


def looked_into(
    before: Sequence[AppliedFolder], after: Sequence[AppliedFolder], kustomize: Kustomize | None, effort: Effort
) -> tuple[dict[str, FolderOutcome], dict[str, FolderOutcome]]:
    """Return what came of the folders of before and of after, by their names.

    Whether it can be built is told from a build without marks, since marks mend some broken files. Of before, the build
    with marks is enough as long as it works.

    Raises:
        TooMuch: there are more builds than what is left of the effort.
    """
    asked = _Asked(kustomize, effort)
    asked.ask([*((each, True) for each in after), *((each, False) for each in before)])
    then = {each.folder: asked.outcome(each) for each in after}
    broken = {folder for folder, outcome in then.items() if outcome.error}
    asked.ask([(each, True) for each in before if each.folder in broken or asked.outcome(each).unfollowed])
    return {each.folder: asked.outcome(each) for each in before}, then


class _Asked:
    """What kustomize was asked for, and what it said."""

    def __init__(self, kustomize: Kustomize | None, effort: Effort) -> None:
        self._kustomize, self._effort = kustomize, effort
        self._marked: dict[Build, Marked | str] = {}
        self._said: dict[Build, str | BuildFailed | KustomizeUnusable] = {}

    def ask(self, folders: Iterable[tuple[AppliedFolder, bool]]) -> None:
        """Build folders with marks; without them too where that is wanted, or where more than the marks differs."""
        wanted: list[Build] = []
        for each, plain in folders:
            if not each.gathered.only_lists and not each.gathered.remotes:
                with_marks = self._with_marks(each)
                if isinstance(with_marks, Marked):
                    wanted.append((with_marks.tree, each.folder))
                if plain or isinstance(with_marks, str) or not with_marks.is_whole:
                    wanted.append((each.tree, each.folder))
        new = [each for each in dict.fromkeys(wanted) if each not in self._said]
        if self._kustomize is not None and new:
            self._effort.spend(BUILD * len(new))
            self._said |= zip(new, self._kustomize.builds(new), strict=True)

    def _with_marks(self, each: AppliedFolder) -> Marked | str:
        """Return the files with marks, or why there can be none."""
        key = (each.tree, each.folder)
        if key not in self._marked:
            try:
                self._marked[key] = marked(each.tree, each.gathered.kustomizations, self._effort)
            except Unreadable as error:
                self._marked[key] = str(error)
        return self._marked[key]

    def outcome(self, each: AppliedFolder) -> FolderOutcome:
        """Return what came of a folder."""
        found = each.gathered
        if found.remotes:
            named = ", ".join(sorted({reference.path for reference in found.remotes}))
            reason = f"it has a remote base, and nothing is fetched here: {named}"
            return FolderOutcome(found.ids, unchecked=reason, places=tuple(it.place for it in found.remotes))
        if found.only_lists:
            for fault in found.faults[:1]:
                return FolderOutcome(found.ids, fault.sentence, fault.is_sure, places=(fault.place,))
            return FolderOutcome(found.ids)
        if self._kustomize is None:
            return FolderOutcome(found.ids, unchecked="there is no kustomize")
        return self._built(each)

    def _built(self, each: AppliedFolder) -> FolderOutcome:
        ids = each.gathered.ids
        seen, why = self._followed(each)
        said = self._said.get((each.tree, each.folder))
        if isinstance(said, KustomizeUnusable):
            return FolderOutcome(ids, unchecked=str(said))
        if isinstance(said, BuildFailed):
            where = places(str(said), each)
            files = {place.file for place in where}
            for fault in [it for it in each.gathered.garbled if it.place.file in files][:1]:  # it has the line
                return FolderOutcome(ids, fault.sentence, places=(fault.place,))
            return FolderOutcome(ids, str(said), not isinstance(said, BuildStopped), places=where)
        if said is None and seen is not None:
            return FolderOutcome(seen[0].ids, text=unmarked(seen[1]), followed=seen[0])
        if _is_like_marked(said or ""):
            seen, why = None, f"an object says itself what the marks of this program say ({PREFIX}...)"
        try:
            ids = frozenset(it.id for it in read_objects(said or ""))
        except UnreadableObjects as error:
            return FolderOutcome(ids, str(error), is_sure=False)
        return FolderOutcome(ids, text=said, followed=seen and seen[0], unfollowed=why)

    def _followed(self, each: AppliedFolder) -> tuple[tuple[Followed, str] | None, str]:
        """Return what a build with marks says, and its text; or why there is none."""
        with_marks = self._with_marks(each)
        said = self._said.get((with_marks.tree, each.folder)) if isinstance(with_marks, Marked) else None
        if isinstance(with_marks, Marked) and isinstance(said, str):
            try:
                return (read_marks(said, with_marks.rules), said), ""
            except UnreadableObjects as error:
                return None, str(error)
        return None, str(said or with_marks)
