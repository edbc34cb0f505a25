"""Changes of a custom resource's schema: what it accepts now, and what it no longer accepts.

The keywords are those of a structural schema (`JSONSchemaProps` of apiextensions.k8s.io/v1). It cannot be told whether
another pattern or rule takes less, so it counts as taking less, as does all that does not plainly take more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ci_automation.impact.change import Change, ChangeKind, Severity
from ci_automation.impact.values import MISSING, Pair, accounted, at, canonical, listed, other, shown, sides

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Rule = Callable[[Pair, Pair], Iterator[Change]]

_UNIQUE = frozenset({"map", "set"})
_RULE_TEXTS = frozenset({"message", "messageExpression", "reason"})


def schema_changes(field: Pair) -> Iterator[Change]:
    """Yield the changes of the schema of one field and of all below it; its path is that of the field in objects.

    What both schemas leave out is taken to be the same in both.
    """
    if not isinstance(field.old, dict) or not isinstance(field.new, dict):
        yield from other(field)
        return
    for key in sorted(field.old.keys() | field.new.keys()):
        side = Pair(field.id, at(field.old, key), at(field.new, key), f"{field.path} {key}")
        if side.differs:
            yield from accounted(side, _RULES[key](side, field) if key in _RULES else ())


def text_change(side: Pair, said: str) -> Change:
    """Return a change that has no effect on what is taken."""
    return side.change(ChangeKind.TEXT, Severity.INFO, said)


def _texts(side: Pair, _field: Pair) -> Iterator[Change]:
    yield text_change(side, f"changes {side.path}")


def _less(side: Pair, said: str = "") -> Change:
    return side.change(ChangeKind.VALIDATION_TIGHTENED, _severity(side), said or _words(side, "less"))


def _more(side: Pair, said: str = "") -> Change:
    return side.change(ChangeKind.VALIDATION_LOOSENED, Severity.INFO, said or _words(side, "more"))


def _severity(side: Pair) -> Severity:
    """Return how grave it is that something is refused: what is in a status, only controllers write."""
    field = side.path.partition(" ")[0]
    return Severity.NOTICE if field.split(".")[1:2] == ["status"] else Severity.WARNING


def _words(side: Pair, verb: str) -> str:
    field, _, key = side.path.partition(" ")
    if side.new is MISSING:
        return f"accepts {verb} in {field}: {key} removed (was: {shown(side.old)})"
    old, new = side.shown
    before = "" if side.old is MISSING else f" (was: {old})"
    return f"accepts {verb} in {field}: {key} is {new}{before}"


def _ordered(side: Pair, *, less: bool, more: bool) -> Iterator[Change]:
    if less or more:
        yield _less(side) if less else _more(side)
    else:
        yield text_change(side, f"has {side.path} written in another way, which means the same")


def _constraint(side: Pair, _field: Pair) -> Iterator[Change]:
    """Yield the change of what only ever takes something away."""
    yield _more(side) if side.new is MISSING else _less(side)


def _flag(*, strict: bool) -> Rule:
    def rule(side: Pair, _field: Pair) -> Iterator[Change]:
        if all(value is MISSING or isinstance(value, bool) for value in (side.old, side.new)):
            old, new = side.old is True, side.new is True
            yield from _ordered(side, less=old is not new and new is strict, more=old is not new)

    return rule


def _bound(sign: int) -> Rule:
    def rule(side: Pair, field: Pair) -> Iterator[Change]:
        if MISSING in (side.old, side.new):
            yield from _constraint(side, field)
        elif _are_numbers(side):
            by = sign * (side.new - side.old)
            yield from _ordered(side, less=by > 0, more=by < 0)

    return rule


def _are_numbers(side: Pair) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in (side.old, side.new))


def _type(side: Pair, _field: Pair) -> Iterator[Change]:
    wider = side.new is MISSING or (side.old, side.new) == ("integer", "number")
    yield _more(side) if wider else _less(side)


def _choices(*, of_all: bool) -> Rule:
    def rule(side: Pair, field: Pair) -> Iterator[Change]:
        if MISSING in (side.old, side.new):
            yield from _constraint(side, field)
        elif isinstance(side.old, list) and isinstance(side.new, list):
            old, new = ({canonical(value) for value in values} for values in (side.old, side.new))
            gone, came = (
                [value for value in values if canonical(value) in which]
                for values, which in ((side.old, old - new), (side.new, new - old))
            )
            if gone or came:
                less = bool(came if of_all else gone)
                yield (_less if less else _more)(side, _of_choices(side, gone, came, "less" if less else "more"))
            else:
                yield from _ordered(side, less=False, more=False)

    return rule


def _of_choices(side: Pair, gone: list[Any], came: list[Any], verb: str) -> str:
    field, _, key = side.path.partition(" ")
    said = [
        f"{words} {listed(map(canonical, values))}"
        for words, values in (("no longer has", gone), ("adds", came))
        if values
    ]
    return f"accepts {verb} in {field}: {key} {' and '.join(said)}"


def _required(side: Pair, field: Pair) -> Iterator[Change]:
    old, new = ([] if names is MISSING else names for names in (side.old, side.new))
    if not all(isinstance(names, list) and all(isinstance(name, str) for name in names) for names in (old, new)):
        return
    were, are = set(old), set(new)
    for name in new:
        if name not in were:
            place = Pair(side.id, MISSING, name, side.path)
            yield _less(place, f"accepts less in {field.path}: {shown(name)} is now required")
    for name in old:
        if name not in are:
            place = Pair(side.id, name, MISSING, side.path)
            yield _more(place, f"accepts more in {field.path}: {shown(name)} is no longer required")
    if were == are:
        yield from _ordered(side, less=False, more=False)


def _properties(side: Pair, field: Pair) -> Iterator[Change]:
    if not all(value is MISSING or isinstance(value, dict) for value in (side.old, side.new)):
        return
    for one, key in sides(side):
        place = Pair(side.id, one.old, one.new, f"{field.path}.{key}")
        if one.old is MISSING:
            yield place.change(ChangeKind.FIELD_ADDED, Severity.INFO, f"adds field {place.path}{_of_type(one.new)}")
        elif one.new is MISSING:
            said = f"removes field {place.path}: clusters drop its values"
            yield place.change(ChangeKind.FIELD_REMOVED, _severity(place), said)
        else:
            yield from schema_changes(place)


def _of_type(schema: Any) -> str:  # noqa: ANN401 - a value of YAML
    found = at(schema, "type")
    return f", {shown(found)}" if isinstance(found, str) else ""


def _items(side: Pair, field: Pair) -> Iterator[Change]:
    if isinstance(side.old, dict) and isinstance(side.new, dict):
        yield from schema_changes(Pair(side.id, side.old, side.new, f"{field.path}[]"))
    elif MISSING in (side.old, side.new):
        yield from _constraint(side, field)


def _additional(side: Pair, field: Pair) -> Iterator[Change]:
    """Yield the change of what the entries without a name of their own may be; none at all are dropped."""
    if isinstance(side.old, dict) and isinstance(side.new, dict):
        yield from schema_changes(Pair(side.id, side.old, side.new, f"{field.path}.*"))
    elif all(value is MISSING or isinstance(value, bool | dict) for value in (side.old, side.new)):
        yield _more(side) if side.new is True else _less(side)


def _multiple(side: Pair, field: Pair) -> Iterator[Change]:
    if MISSING in (side.old, side.new):
        yield from _constraint(side, field)
    elif _are_numbers(side):
        yield from _ordered(side, less=not side.new or bool(side.old % side.new), more=side.old != side.new)


def _default(side: Pair, field: Pair) -> Iterator[Change]:
    old, new = ("none" if value is MISSING else shown(value) for value in (side.old, side.new))
    said = f"changes the default of {field.path} to {new} (was: {old})"
    yield side.change(ChangeKind.DEFAULT_CHANGED, Severity.NOTICE, said)


def _list_type(side: Pair, _field: Pair) -> Iterator[Change]:
    yield _less(side) if side.new in _UNIQUE else _more(side)


def _validations(side: Pair, field: Pair) -> Iterator[Change]:
    """Yield the change of each CEL rule, known by its expression; one with another expression is another rule."""
    if not all(value is MISSING or isinstance(value, list) for value in (side.old, side.new)):
        return
    old, new = (_by_rule(value) for value in (side.old, side.new))
    if old is None or new is None:
        return
    for rule in dict.fromkeys((*new, *old)):
        one = Pair(side.id, old.get(rule, MISSING), new.get(rule, MISSING), side.path)
        if one.old is MISSING:
            yield _less(one, f"accepts less in {field.path}: new rule {shown(rule)}")
        elif one.new is MISSING:
            yield _more(one, f"accepts more in {field.path}: rule removed: {shown(rule)}")
        elif {key for _, key in sides(one)} <= _RULE_TEXTS and one.differs:
            yield text_change(one, f"changes the message of a rule of {field.path}")
        elif one.differs:
            yield _less(one, f"accepts less in {field.path}: rule applied differently: {shown(rule)}")
    if not any(canonical(old.get(rule, MISSING)) != canonical(new.get(rule, MISSING)) for rule in (*old, *new)):
        yield from _ordered(side, less=False, more=False)


def _by_rule(rules: Any) -> dict[str, Any] | None:  # noqa: ANN401 - a value of YAML
    found: dict[str, Any] = {}
    for each in () if rules is MISSING else rules:
        rule = at(each, "rule")
        if not isinstance(rule, str) or rule in found:
            return None
        found[rule] = each
    return found


_RULES: dict[str, Rule] = {
    **dict.fromkeys(("description", "example", "externalDocs", "title"), _texts),
    **dict.fromkeys(
        ("exclusiveMaximum", "exclusiveMinimum", "uniqueItems", "x-kubernetes-embedded-resource"), _flag(strict=True)
    ),
    **dict.fromkeys(
        ("nullable", "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"), _flag(strict=False)
    ),
    **dict.fromkeys(("maximum", "maxItems", "maxLength", "maxProperties"), _bound(-1)),
    **dict.fromkeys(("minimum", "minItems", "minLength", "minProperties"), _bound(1)),
    **dict.fromkeys(("format", "not", "oneOf", "pattern", "x-kubernetes-list-map-keys"), _constraint),
    **dict.fromkeys(("anyOf", "enum"), _choices(of_all=False)),
    "additionalProperties": _additional,
    "allOf": _choices(of_all=True),
    "default": _default,
    "items": _items,
    "multipleOf": _multiple,
    "properties": _properties,
    "required": _required,
    "type": _type,
    "x-kubernetes-list-type": _list_type,
    "x-kubernetes-validations": _validations,
}
