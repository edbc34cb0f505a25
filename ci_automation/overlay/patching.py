"""What patches do to an object's value, as far as later patches and index patches have to know.

JSON patches are RFC 6902's. A strategic merge patch is merged by the keys that Kubernetes' own kinds have for their
lists, new items first, as kustomize does it; the lists of other kinds are replaced.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ci_automation.artifact.yaml_events import Unreadable
from ci_automation.overlay.effort import size
from ci_automation.overlay.objects import copied
from ci_automation.overlay.reading import nodes, plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ci_automation.overlay.effort import Effort

_INDEX = re.compile(r"-?(?:0|[1-9]\d{0,5})")
_END = "-"
_MAX_OPERATIONS = 500
_MAX_NODES = 50_000
_FIELD = re.compile(r"\[[^\]]*\]|(?:\\.|[^.])+")
_CHOSEN = re.compile(r"\[([^=\]]+)=([^\]]*)\]")
_BUILT_IN = frozenset({"", "apps", "batch"})
_MERGE_KEYS = {
    "containers": ("name",),
    "env": ("name",),
    "ephemeralContainers": ("name",),
    "hostAliases": ("ip",),
    "imagePullSecrets": ("name",),
    "initContainers": ("name",),
    "ports": ("containerPort", "port"),
    "topologySpreadConstraints": ("topologyKey",),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
}
_DIRECTIVE = "$patch"
_SHALLOW = 16  # entries of a mapping that are copied in a step


class Inapplicable(Exception):  # not an error of the run: kustomize says it
    """An operation of a patch finds nothing where it looks; the message says where."""


class Touch(Struct, frozen=True):
    """An item of a list that a patch means by its number: what was done where, and the list before it was."""

    op: str
    pointer: str
    index: int
    elements: tuple[Any, ...]


class Parsed(Struct, frozen=True):
    """A patch as one of the two kinds: the operations of a JSON patch, or strategic merge patches."""

    operations: tuple[dict[str, Any], ...] = ()
    merges: tuple[dict[str, Any], ...] = ()


def parsed(text: str) -> Parsed:
    """Return the patch that a text is.

    Raises:
        Unreadable: it is no patch.
    """
    values = [plain(node) for node in nodes(text)]
    if len(values) == 1 and isinstance(values[0], list):
        if not all(isinstance(each, dict) for each in values[0]) or len(values[0]) > _MAX_OPERATIONS:
            raise Unreadable(f"it is no JSON patch of {_MAX_OPERATIONS} operations at most")
        return Parsed(operations=tuple(values[0]))
    if not values or not all(isinstance(each, dict) for each in values):
        raise Unreadable("it is neither a strategic merge patch nor a JSON patch")
    return Parsed(merges=tuple(values))


def apply(value: Any, operations: Sequence[dict[str, Any]], effort: Effort) -> Iterator[Touch]:  # noqa: ANN401  # of YAML
    """Change a value by the operations of a JSON patch one by one, and yield what each of them means by number.

    What `add` puts between others it touches not, and what `test` compares fails by itself.

    Raises:
        Inapplicable: an operation finds nothing where it looks.
        TooMuch: it is more than what is left of the effort.
    """
    for each in operations:
        op, path, source = (str(each.get(key, "")) for key in ("op", "path", "from"))
        if op in ("move", "copy"):
            found = _Walk(op, value, source, effort)
            yield from found.touches(inserts=False)
            moved = found.take() if op == "move" else _copy(found.get(), value, effort)
            target = _Walk(op, value, path, effort)
            yield from target.touches(inserts=True)
            target.put(moved)
            continue
        target = _Walk(op, value, path, effort)
        if op == "test":
            if target.get() != each.get("value"):
                raise Inapplicable(path)
            continue
        yield from target.touches(inserts=op == "add")
        if op == "add":
            target.put(copied(each.get("value")))
        elif op == "remove":
            target.take()
        else:
            target.set(copied(each.get("value")))


def _copy(part: Any, whole: Any, effort: Effort) -> Any:  # noqa: ANN401  # values of an object
    """Return a copy of a part, unless copies of copies would make of the whole what no memory holds."""
    found = size(whole)
    effort.spend(found)
    if found > _MAX_NODES:
        raise Inapplicable("/")
    return copied(part)


def touched(value: Any, path: str, effort: Effort) -> Iterator[Touch]:  # noqa: ANN401  # an object's value
    """Yield the items that a field path of a replacement means by number, as far as the path can be followed."""
    passed: list[str] = []
    for token in (found[0] for found in _FIELD.finditer(path)):
        passed.append(token)
        effort.spend(1 + (len(value) if isinstance(value, list) else 0))
        if isinstance(value, dict):
            value = value.get(token.replace("\\.", ".").strip("[]"))
        elif not isinstance(value, list):
            return
        elif selected := _CHOSEN.fullmatch(token):
            key, wanted = selected.groups()
            value = next((each for each in value if isinstance(each, dict) and str(each.get(key)) == wanted), None)
        elif _INDEX.fullmatch(token) and 0 <= int(token) < len(value):
            effort.spend(size(value))
            yield Touch("replace", ".".join(passed), int(token), tuple(copied(value)))
            value = value[int(token)]
        else:
            return


def _tokens(pointer: str) -> list[str]:
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]


class _Walk:
    """The way along a JSON pointer to the place of its last token."""

    def __init__(self, op: str, value: Any, pointer: str, effort: Effort) -> None:  # noqa: ANN401
        self._op, self._pointer, self._effort = op, pointer, effort
        self._passed: list[Touch] = []
        self._here = value
        *before, self._last = _tokens(pointer) or [""]
        for number, token in enumerate(before, 1):
            if isinstance(self._here, list):
                self._note(token, "/".join(pointer.split("/")[: number + 1]))
            self._here = self._child(token)

    def touches(self, *, inserts: bool) -> Iterator[Touch]:
        """Yield the items that the pointer means by number; the last one only if it is not put between others."""
        yield from self._passed
        if isinstance(self._here, list) and not inserts:
            self._passed = []
            self._note(self._last, self._pointer)
            yield from self._passed

    def get(self) -> Any:  # noqa: ANN401
        """Return what is there."""
        return self._child(self._last)

    def set(self, value: Any) -> None:  # noqa: ANN401
        """Replace what is there; in a mapping kustomize's library lets that be nothing."""
        if isinstance(self._here, dict):
            self._here[self._last] = value
        else:
            self._child(self._last)
            self._here[self._index(self._last)] = value

    def take(self) -> Any:  # noqa: ANN401
        """Remove what is there, and return it."""
        self._child(self._last)
        return self._here.pop(self._index(self._last) if isinstance(self._here, list) else self._last)

    def put(self, value: Any) -> None:  # noqa: ANN401
        """Put a value there: before the item of that number in a list, or at its end."""
        if isinstance(self._here, dict):
            self._here[self._last] = value
        elif not isinstance(self._here, list):
            raise Inapplicable(self._pointer)
        elif self._last == _END:
            self._here.append(value)
        elif (index := self._index(self._last)) > len(self._here):
            raise Inapplicable(self._pointer)
        else:
            self._here.insert(index, value)

    def _note(self, token: str, pointer: str) -> None:
        self._effort.spend(size(self._here))
        self._passed.append(Touch(self._op, pointer, self._index(token), tuple(copied(self._here))))

    def _index(self, token: str) -> int:
        if not _INDEX.fullmatch(token):
            raise Inapplicable(self._pointer)
        index = int(token)
        return index + len(self._here) if index < 0 else index

    def _child(self, token: str) -> Any:  # noqa: ANN401
        if isinstance(self._here, dict) and token in self._here:
            return self._here[token]
        if isinstance(self._here, list) and 0 <= (index := self._index(token)) < len(self._here):
            return self._here[index]
        raise Inapplicable(self._pointer)


def merged(value: dict[str, Any], patch: dict[str, Any], group: str, effort: Effort) -> dict[str, Any] | None:
    """Return an object of an API group after a strategic merge patch, or None where that deletes it.

    Raises:
        TooMuch: it is more than what is left of the effort.
    """
    directive = patch.get(_DIRECTIVE)
    if directive == "delete":
        return None
    rest = {key: each for key, each in patch.items() if key != _DIRECTIVE}
    return (
        _clean(rest) if directive == "replace" else _Merge(effort, knows_keys=group in _BUILT_IN).mapping(value, rest)
    )


class _Merge:
    """A strategic merge; `knows_keys` says whether the lists of the object are merged by keys."""

    def __init__(self, effort: Effort, *, knows_keys: bool) -> None:
        self._effort, self._knows_keys = effort, knows_keys

    def mapping(self, value: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
        """Return a mapping after a patch of it."""
        self._effort.spend(1 + len(value) // _SHALLOW)
        result = dict(value)
        for key, new in patch.items():
            old = result.get(key)
            directive = new.get(_DIRECTIVE) if isinstance(new, dict) else None
            if new is None or directive == "delete":
                result.pop(key, None)
            elif isinstance(old, dict) and isinstance(new, dict) and directive is None:
                result[key] = self.mapping(old, new)
            elif isinstance(old, list) and isinstance(new, list) and self._knows_keys and key in _MERGE_KEYS:
                result[key] = self._list(old, new, _MERGE_KEYS[key])
            else:
                result[key] = _clean(new)
        return result

    def _list(self, old: list[Any], new: list[Any], names: tuple[str, ...]) -> list[Any]:
        """Return a list whose items are known by a key, after a patch of some of them."""

        def key(item: Any) -> object:  # noqa: ANN401
            return next((item[name] for name in names if name in item), None) if isinstance(item, dict) else item

        result = list(old)
        first: list[Any] = []
        for item in new:
            self._effort.spend(1 + len(result))
            at = next((number for number, each in enumerate(result) if key(each) == key(item)), None)
            directive = item.get(_DIRECTIVE) if isinstance(item, dict) else None
            if directive == "delete":
                result = [each for number, each in enumerate(result) if number != at]
            elif directive == "replace":
                return [_clean(each) for each in new if not (isinstance(each, dict) and _DIRECTIVE in each)]
            elif at is None:
                first.append(_clean(item))
            elif isinstance(item, dict) and isinstance(result[at], dict):
                result[at] = self.mapping(result[at], item)
        return [*first, *result]


def _clean(value: Any) -> Any:  # noqa: ANN401
    """Return what a patch puts where nothing was: its directives are none of it."""
    if isinstance(value, dict):
        return {key: _clean(each) for key, each in value.items() if key != _DIRECTIVE and each is not None}
    return [_clean(each) for each in value] if isinstance(value, list) else value
