"""Changes of roles and bindings, by what they permit and not by how they are written."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ci_automation.impact.change import ChangeKind, Severity, fingerprint
from ci_automation.impact.permissions import (
    API_GROUP,
    Granted,
    Permission,
    Room,
    TooMany,
    Unbounded,
    gravest,
    permissions_of,
    sentence,
)
from ci_automation.impact.values import MISSING, Pair, at, canonical, items, listed, mapping, shown, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci_automation.impact.change import Change
    from ci_automation.impact.values import Rules

AGGREGATE = f"{API_GROUP}/aggregate-to-"
_EVERYBODY = frozenset({"system:anonymous", "system:authenticated", "system:unauthenticated", "system:serviceaccounts"})
_MAX_ROLE = 1_000  # signs; it is part of the change of each subject
_ALMIGHTY = frozenset({"cluster-admin", "admin", "edit"})


def role(pair: Pair, room: Room) -> Iterator[Change]:
    """Yield that a role is there now, or no longer, with what it permits."""
    may, severity = role_summary(pair.old if pair.new is MISSING else pair.new, room)
    if pair.new is MISSING:
        yield pair.whole(ChangeKind.ROLE_REMOVED, Severity.NOTICE, f"is gone: {may}")
    else:
        yield pair.whole(ChangeKind.ROLE_ADDED, severity, f"is new: {may}")


def role_summary(value: Any, room: Room) -> tuple[str, Severity]:  # noqa: ANN401 - a value of YAML
    """Return what a role permits, in words, and how grave that is."""
    try:
        rules = permissions_of(items(mapping(value).get("rules")), room)
    except Unbounded:
        return "the program cannot tell what it permits", Severity.DANGER
    permitted = {permission for rule in rules for permission in rule}
    if "aggregationRule" in mapping(value):
        return "it permits what the roles permit that it selects", Severity.DANGER
    return f"may {sentence(permitted)}", gravest(permitted)


def rules(pair: Pair, room: Room) -> Iterator[Change]:
    """Yield what a role permits now that it did not, and what it does not permit any more."""
    try:
        old, new = permissions_of(items(pair.old), room), permissions_of(items(pair.new), room)
    except Unbounded as problem:
        why = "they are too many or too long to be told apart" if isinstance(problem, TooMany) else "they are no rules"
        said = f"changes its rules; the program cannot tell whether they permit more: {why}"
        yield pair.change(ChangeKind.RULE_WIDENED, Severity.DANGER, said)
        return
    changes = [*_gains(pair, old, new), *_losses(pair, old, new)]
    if not changes:
        said = "writes its rules differently; they permit the same"
        changes = [pair.change(ChangeKind.OTHER, Severity.INFO, said)]
    yield from changes


def _gains(pair: Pair, old: list[set[Permission]], new: list[set[Permission]]) -> Iterator[Change]:
    before = Granted(set().union(*old))
    for number, rule in enumerate(new):
        more = {permission for permission in rule if not before.covers(permission)}
        if more:
            kind = ChangeKind.RULE_ADDED if more == rule else ChangeKind.RULE_WIDENED
            here = Pair(pair.id, MISSING, items(pair.new)[number], f"{pair.path}[{number}]")
            yield _known(here, kind, gravest(more), f"may now {sentence(more)}", more)
            before.add(rule)  # what two rules grant is told once


def _losses(pair: Pair, old: list[set[Permission]], new: list[set[Permission]]) -> Iterator[Change]:
    after = Granted(set().union(*new))
    for number, rule in enumerate(old):
        less = {permission for permission in rule if not after.covers(permission)}
        if less:
            kind = ChangeKind.RULE_REMOVED if less == rule else ChangeKind.RULE_NARROWED
            here = Pair(pair.id, items(pair.old)[number], MISSING, f"{pair.path}[{number}]")
            yield _known(here, kind, Severity.NOTICE, f"may no longer {sentence(less)}", less)
            after.add(rule)


def _known(pair: Pair, kind: ChangeKind, severity: Severity, said: str, permissions: Iterable[Permission]) -> Change:
    """Return a change that is known by the permissions alone: where the rule stands may differ from file to file."""
    parts = (f"{it.group} {it.resource} {it.verb} {it.name} {it.url}" for it in sorted(permissions))
    return replace(replace(pair, path="").change(kind, severity, said, *parts), path=pair.path)


def binding(pair: Pair, _room: Room) -> Iterator[Change]:
    """Yield that a binding is there now, or no longer, and who has or had which role."""
    value = mapping(pair.old if pair.new is MISSING else pair.new)
    role, subjects = mapping(value.get("roleRef")), subjects_of(value.get("subjects"))
    whom = f"{named_role(role)} to {listed(map(named_subject, subjects)) or 'no subject'}"
    if pair.new is MISSING:
        yield pair.whole(ChangeKind.BINDING_REMOVED, Severity.NOTICE, f"is gone: it gave {whom}")
    else:
        graves = (_grave(role, subject) for subject in subjects)
        severity = max(graves, key=list(Severity).index, default=Severity.WARNING)
        yield pair.whole(ChangeKind.BINDING_ADDED, severity, f"is new: it gives {whom}")


def binding_rules(pair: Pair) -> Rules:
    """Return the rules for the keys of a binding, which depend on the role that it refers to now."""
    role = mapping(at(pair.new, "roleRef"))
    return {"roleRef": _reference, "subjects": partial(_subject_changes, role=role)}


def _reference(pair: Pair) -> Iterator[Change]:
    role = mapping(pair.new)
    severity = Severity.DANGER if words(role.get("name")) in _ALMIGHTY else Severity.WARNING
    before = named_role(mapping(pair.old))
    said = f"refers to {named_role(role)} instead of {before}; clusters refuse that until the binding is recreated"
    yield pair.change(ChangeKind.ROLE_REFERENCE, severity, said)


def _subject_changes(pair: Pair, role: dict[str, Any]) -> Iterator[Change]:
    old, new = subjects_of(pair.old), subjects_of(pair.new)
    known = canonical(role)
    if len(known) > _MAX_ROLE:
        known = fingerprint(known)
    for subject in sorted(set(new) - set(old)):
        said = f"gives {named_role(role)} to {named_subject(subject)}"
        side = Pair(pair.id, MISSING, named_subject(subject), pair.path)
        yield side.change(ChangeKind.SUBJECT_ADDED, _grave(role, subject), said, *subject, known)
    for subject in sorted(set(old) - set(new)):
        said = f"no longer gives {named_role(role)} to {named_subject(subject)}"
        side = Pair(pair.id, named_subject(subject), MISSING, pair.path)
        yield side.change(ChangeKind.SUBJECT_REMOVED, Severity.NOTICE, said, *subject)


Subject = tuple[str, str, str, str]  # API group, kind, namespace, name


def subjects_of(value: Any) -> list[Subject]:  # noqa: ANN401 - a value of YAML
    """Return the subjects of a binding."""
    found = []
    for item in items(value):
        kind, group, namespace, name = (
            words(mapping(item).get(key)) for key in ("kind", "apiGroup", "namespace", "name")
        )
        found.append((group or ("" if kind == "ServiceAccount" else API_GROUP), kind, namespace, name))
    return found


def _grave(role: dict[str, Any], subject: Subject) -> Severity:
    almighty = words(role.get("name")) in _ALMIGHTY
    return Severity.DANGER if is_everybody(subject) or almighty else Severity.WARNING


def is_everybody(subject: Subject) -> bool:
    """Return whether a subject is a group that all users are in, or every service account of some namespace."""
    return subject[3].partition(":serviceaccounts:")[0] in _EVERYBODY


def named_role(role: dict[str, Any]) -> str:
    """Return a role as people name it."""
    return f"{shown(words(role.get('kind')))} {shown(words(role.get('name')))}".strip() or "no role"


def named_subject(subject: Subject) -> str:
    """Return a subject as people name it."""
    _, kind, namespace, name = subject
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
