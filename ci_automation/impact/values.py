"""Compare two values of one object: lists by the keys that Kubernetes merges them by."""

from __future__ import annotations

import enum
import json
from collections import Counter
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from ci_automation.impact.change import Change, ChangeKind, ObjectId, Severity, fingerprint, some_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    Rule = Callable[["Pair"], Iterator[Change]]
    Rules = Mapping[str, "Rule | Rules"]  # by key; what has rules of its own is a mapping

_SHOWN = 120
_BEFORE = 20  # characters that are shown before those that differ
_SENTENCE = 400
# The keys of the lists in pods and services (`patchMergeKey` in k8s.io/api/core/v1, or the keys that make them unique).
_MERGE_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "imagePullSecrets": ("name",),
    "secrets": ("name",),
    "webhooks": ("name",),
    "ports": ("containerPort", "port", "protocol"),
}
_DEFAULTS = {"protocol": "TCP"}


class Missing(enum.Enum):
    """The stand-in for a value that is not there; null is one that is."""

    MISSING = ""


MISSING: Final = Missing.MISSING


class Pair(Struct, frozen=True):
    """The values at one place of an object before and after; either may be missing."""

    id: ObjectId
    old: Any
    new: Any
    path: str = ""

    def at(self, key: str) -> Pair:
        """Return what stands under a key."""
        return Pair(self.id, at(self.old, key), at(self.new, key), f"{self.path}.{key}" if self.path else key)

    @property
    def differs(self) -> bool:
        """Return whether anything is another value."""
        return not alike(self.old, self.new)

    @property
    def shown(self) -> tuple[str, str]:
        """Return both values as `shown` does, of long ones a part that differs."""
        old, new = shown(self.old), shown(self.new)
        if old == new and len(old) == _SHOWN and self.differs:
            whole = _text(self.old), _text(self.new)
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*whole, strict=False)))
            old, new = (_printable(f"…{text[max(0, same - _BEFORE) :]}", _SHOWN) for text in whole)
        return old, new

    def change(self, kind: ChangeKind, severity: Severity, text: str, *parts: str) -> Change:
        """Return a change of this object; it is known by `parts`, or by both values as a whole."""
        hidden = self.id.kind == "Secret"
        known = parts or (canonical(self.old), canonical(self.new))
        old, new = ("", "") if hidden else self.shown
        return Change(
            kind=kind,
            object=self.id,
            severity=severity,
            sentence=_printable(f"{self.id.told} {text}", _SENTENCE),
            path=shown(self.path),
            old=old,
            new=new,
            fingerprint=fingerprint(
                kind, self.id.group, self.id.kind, self.id.namespace, self.id.name, self.path, *known
            ),
        )

    def whole(self, kind: ChangeKind, severity: Severity, text: str, *parts: str) -> Change:
        """Return that the object has come or gone: a change that is known by all of it, and shows none of it."""
        value = canonical(self.old if self.new is MISSING else self.new)
        return Pair(self.id, "", "").change(kind, severity, text, *parts, value)


def at(value: Any, key: str) -> Any:  # noqa: ANN401 - values of YAML
    """Return what a mapping has under a key; anything else has nothing."""
    return value.get(key, MISSING) if isinstance(value, dict) else MISSING


def mapping(value: Any) -> dict[str, Any]:  # noqa: ANN401 - a value of YAML
    """Return a mapping, or an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:  # noqa: ANN401 - a value of YAML
    """Return a list, or an empty one for anything else."""
    return value if isinstance(value, list) else []


def words(value: Any) -> str:  # noqa: ANN401 - a value of YAML
    """Return a text as it is, nothing as empty, anything else as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None or value is MISSING else canonical(value)


def alike(old: Any, new: Any) -> bool:  # noqa: ANN401 - values of YAML
    """Return whether two values are the same; to Python alone 1, 1.0 and true are one."""
    return bool(old == new) and _same_types(old, new)


def _same_types(old: Any, new: Any) -> bool:  # noqa: ANN401 - values of YAML
    if isinstance(old, dict):
        return all(_same_types(value, new[key]) for key, value in old.items())
    if isinstance(old, list):
        return all(map(_same_types, old, new))
    return type(old) is type(new)


def canonical(value: Any) -> str:  # noqa: ANN401 - a value of YAML
    """Return a value as one text that only equal values have."""
    return "" if value is MISSING else json.dumps(value, sort_keys=True, separators=(",", ":"))


def shown(value: Any) -> str:  # noqa: ANN401 - a value of YAML
    """Return a value short enough to be read, on one line."""
    return "" if value is MISSING else _printable(_text(value), _SHOWN)


def _text(value: Any) -> str:  # noqa: ANN401 - a value of YAML
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)


def _printable(text: str, limit: int) -> str:
    text = text[: limit + 1].replace("\n", "\\n")
    if not text.isprintable():
        text = "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def listed(names: Iterable[str], limit: int = 6) -> str:
    """Return names as people list them."""
    return some_of([shown(name) for name in names], limit)


def sides(pair: Pair) -> Iterator[tuple[Pair, str]]:
    """Yield what stands under each key that differs, sorted by key, with the key."""
    keys = mapping(pair.old).keys() | mapping(pair.new).keys()
    for key in sorted(keys):
        side = pair.at(key)
        if side.differs:
            yield side, key


def aligned(pair: Pair, name: str) -> list[Pair] | None:
    """Return the items of two lists side by side by the merge keys of `name`, or None where these do not tell them.

    A list that is missing is an empty one.
    """
    if not all(value is MISSING or value is None or isinstance(value, list) for value in (pair.old, pair.new)):
        return None
    old, new = _by_key(items(pair.old), name), _by_key(items(pair.new), name)
    if old is None or new is None:
        return None
    return [
        Pair(pair.id, old.get(key, MISSING), new.get(key, MISSING), f"{pair.path}[{key}]")
        for key in dict.fromkeys((*old, *new))
    ]


def reordered(pair: Pair, name: str) -> bool:
    """Return whether the items that two lists have in common are in another order; the merge keys tell them apart."""
    old, new = _by_key(items(pair.old), name) or {}, _by_key(items(pair.new), name) or {}
    return [key for key in old if key in new] != [key for key in new if key in old]


def _by_key(values: list[Any], name: str) -> dict[str, Any] | None:
    keys = _MERGE_KEYS[name]
    found: dict[str, Any] = {}
    for value in values:
        if not isinstance(value, dict):
            return None
        key = "/".join(
            words(value.get(part, _DEFAULTS.get(part))) for part in keys if part in value or part in _DEFAULTS
        )
        if not key or key in found:
            return None
        found[key] = value
    return found


def gained(old: Iterable[str], new: Iterable[str]) -> list[str]:
    """Return what of `new` is not in `old`, in its order, as often as it is more."""
    left = Counter(old)
    found = []
    for value in new:
        if left[value]:
            left[value] -= 1
        else:
            found.append(value)
    return found


def other(pair: Pair) -> Iterator[Change]:
    """Yield a change for each value that differs and has no class of its own."""
    if isinstance(pair.old, dict) and isinstance(pair.new, dict):
        for side, _ in sides(pair):
            yield from other(side)
        return
    name = pair.path.rpartition(".")[2]
    pairs = aligned(pair, name) if name in _MERGE_KEYS else None
    differing = [item for item in pairs or () if item.differs]
    for item in differing:
        yield from other(item)
    if not differing:
        yield pair.change(ChangeKind.OTHER, Severity.NOTICE, said(pair))


def said(pair: Pair) -> str:
    """Return the words for a value that has come, gone or changed."""
    if pair.old is MISSING:
        return f"adds {shown(pair.path)}"
    return f"{'removes' if pair.new is MISSING else 'changes'} {shown(pair.path)}"


def leaves(pair: Pair, kind: ChangeKind) -> Iterator[Change]:
    """Yield a change of one kind for each value that differs in mappings."""
    if isinstance(pair.old, dict) and isinstance(pair.new, dict):
        for side, _ in sides(pair):
            yield from leaves(side, kind)
    else:
        yield pair.change(kind, Severity.NOTICE, said(pair))


def row(kind: ChangeKind, severity: Severity = Severity.NOTICE, sentence: str = "", gone: str = "") -> Rule:
    """Return the rule of a value that changes as a whole; `gone` is the sentence for one that is no longer there.

    A sentence may have {path}, {within} (the path of what holds the value), {old} and {new}.
    """

    def rule(pair: Pair) -> Iterator[Change]:
        path = shown(pair.path)
        old, new = pair.shown
        words = {"path": path, "within": path.rpartition(".")[0], "old": old, "new": new}
        text = gone if gone and pair.new is MISSING else sentence
        yield pair.change(kind, severity, text.format(**words) if text else said(pair))

    return rule


def switch(on: Rule, off: Rule) -> Rule:
    """Return the rule of a value that is true now (`on`), or was (`off`); other values are changes of no class."""

    def rule(pair: Pair) -> Iterator[Change]:
        is_off = pair.old is True and isinstance(pair.new, bool | Missing)
        yield from on(pair) if pair.new is True else off(pair) if is_off else ()

    return rule


def by_key(pair: Pair, rules: Rules, rest: Rule = other) -> Iterator[Change]:
    """Yield the changes of a mapping, each key by its own rule or rules; `rest` is the rule of all other keys."""
    if not isinstance(pair.old, dict | Missing) or not isinstance(pair.new, dict | Missing):
        yield from rest(pair)
        return
    for side, key in sides(pair):
        rule = rules.get(key, rest)
        yield from accounted(side, rule(side) if callable(rule) else by_key(side, rule))


def accounted(pair: Pair, changes: Iterable[Change]) -> Iterator[Change]:
    """Yield what was found in values that differ, and that they differ where that is nothing."""
    found = False
    for change in changes:
        found = True
        yield change
    if not found:
        yield from other(pair)
