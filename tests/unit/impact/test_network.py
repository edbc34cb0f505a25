"""Whether a NetworkPolicy lets more or less through."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ci_automation.impact.change import ChangeKind, Severity
from ci_automation.impact.compare import changes

OPENED, NARROWED, OTHER = ChangeKind.NETWORK_OPENED, ChangeKind.NETWORK_NARROWED, ChangeKind.OTHER
ALL: dict[str, Any] = {"namespaceSelector": {}}
OWN: dict[str, Any] = {"podSelector": {}}
LABELLED = {"podSelector": {"matchLabels": {"a": "b"}}}
MORE_LABELS = {"podSelector": {"matchLabels": {"a": "b", "c": "d"}}}
EXPRESSION = {"podSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}}
SPACE = {"namespaceSelector": {"matchLabels": {"x": "y"}}}
SPACES = {"namespaceSelector": {"matchLabels": {"x": "y", "z": "z"}}, "podSelector": {"matchLabels": {"a": "b"}}}


def block(cidr: str, *without: str) -> dict[str, Any]:
    return {"ipBlock": {"cidr": cidr, **({"except": list(without)} if without else {})}}


def port(number: int | str | None, **more: Any) -> dict[str, Any]:
    return {**({"port": number} if number is not None else {}), **more}


def policy(rules: Any, direction: str = "ingress", types: Any = ("Ingress",), **more: Any) -> str:
    spec = {"podSelector": {}, **more, direction: rules}
    if types is not None:
        spec["policyTypes"] = list(types) if isinstance(types, tuple) else types
    return json.dumps(
        {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "x"}, "spec": spec}
    )


def rule(*peers: dict[str, Any], ports: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {**({"from": list(peers)} if peers else {}), **({"ports": list(ports)} if ports else {})}


def told(old: str, new: str) -> list[tuple[ChangeKind, bool]]:
    return [(change.kind, "; check whether" in change.sentence) for change in changes(old, new)]


CASES = [
    ("a port alone", rule(ALL), rule(ALL, ports=(port(9292, protocol="TCP"),)), [(NARROWED, False)], [(OPENED, False)]),
    ("nobody to all", None, rule(ALL), [(OPENED, False)], [(NARROWED, False)]),
    ("all namespaces to everybody", rule(ALL), rule(), [(OPENED, False)], [(NARROWED, False)]),
    ("own to all namespaces", rule(OWN), rule(ALL), [(OPENED, False)], [(NARROWED, False)]),
    ("labels to all of its own", rule(LABELLED), rule(OWN), [(OPENED, False)], [(NARROWED, False)]),
    ("fewer labels", rule(MORE_LABELS), rule(LABELLED), [(OPENED, False)], [(NARROWED, False)]),
    ("pods of namespaces", rule(SPACES), rule(SPACE), [(OPENED, False)], [(NARROWED, False)]),
    (
        "own and others",
        rule(LABELLED),
        rule(SPACE),
        [(OPENED, False), (NARROWED, False)],
        [(OPENED, False), (NARROWED, False)],
    ),
    (
        "an expression",
        rule(LABELLED),
        rule(EXPRESSION),
        [(OPENED, True), (NARROWED, False)],
        [(OPENED, True), (NARROWED, False)],
    ),
    ("addresses", rule(block("10.0.0.0/8")), rule(block("0.0.0.0/0")), [(OPENED, False)], [(NARROWED, False)]),
    (
        "addresses without some",
        rule(block("10.0.0.0/8", "10.1.0.0/16")),
        rule(block("10.0.0.0/8")),
        [(OPENED, False)],
        [(NARROWED, False)],
    ),
    (
        "other addresses",
        rule(block("10.0.0.0/8")),
        rule(block("fd00::/8")),
        [(OPENED, True), (NARROWED, False)],
        [(OPENED, True), (NARROWED, False)],
    ),
    ("addresses of six", rule(block("fd00::/16")), rule(block("fd00::/8")), [(OPENED, False)], [(NARROWED, False)]),
    (
        "no addresses",
        rule(block("10.0.0.0/8")),
        rule(block("nonsense")),
        [(OPENED, True), (NARROWED, False)],
        [(OPENED, True), (NARROWED, False)],
    ),
    (
        "addresses and pods",
        rule(block("10.0.0.0/8")),
        rule(OWN),
        [(OPENED, True), (NARROWED, False)],
        [(OPENED, True), (NARROWED, False)],
    ),
    (
        "another port",
        rule(ALL, ports=(port(1),)),
        rule(ALL, ports=(port(2),)),
        [(OPENED, False), (NARROWED, False)],
        [(OPENED, False), (NARROWED, False)],
    ),
    (
        "another protocol",
        rule(ALL, ports=(port(1),)),
        rule(ALL, ports=(port(1, protocol="UDP"),)),
        [(OPENED, False), (NARROWED, False)],
        [(OPENED, False), (NARROWED, False)],
    ),
    (
        "all ports of a protocol",
        rule(ALL, ports=(port(1),)),
        rule(ALL, ports=(port(None, protocol="TCP"),)),
        [(OPENED, False)],
        [(NARROWED, False)],
    ),
    (
        "a range",
        rule(ALL, ports=(port(1),)),
        rule(ALL, ports=(port(1, endPort=9),)),
        [(OPENED, False)],
        [(NARROWED, False)],
    ),
    (
        "another range",
        rule(ALL, ports=(port(1, endPort=5),)),
        rule(ALL, ports=(port(4, endPort=9),)),
        [(OPENED, True), (NARROWED, False)],
        [(OPENED, True), (NARROWED, False)],
    ),
    (
        "a port by its name",
        rule(ALL, ports=(port(1),)),
        rule(ALL, ports=(port("http"),)),
        [(OPENED, True), (NARROWED, False)],
        [(OPENED, True), (NARROWED, False)],
    ),
    (
        "two names of ports",
        rule(ALL, ports=(port("a"),)),
        rule(ALL, ports=(port("b"),)),
        [(OPENED, False), (NARROWED, False)],
        [(OPENED, False), (NARROWED, False)],
    ),
    ("a port that is none", rule(ALL), rule(ALL, ports=(port(1.5),)), [(OPENED, True)], [(OPENED, True)]),  # type: ignore[arg-type]  # on purpose
    ("a peer that is none", rule(ALL), rule({"x": {}}), [(OPENED, True)], [(OPENED, True)]),
    ("a rule that is none", rule(ALL), {"x": 1}, [(OPENED, True)], [(OPENED, True)]),
    (
        "the default protocol",
        rule(ALL, ports=(port(1),)),
        rule(ALL, ports=(port(1, protocol="TCP"),)),
        [(OTHER, False)],
        [(OTHER, False)],
    ),
]


@pytest.mark.parametrize(("old", "new", "there", "back"), [pytest.param(*case[1:], id=case[0]) for case in CASES])
def test_what_a_policy_lets_through_is_told(
    old: dict[str, Any] | None, new: dict[str, Any] | None, there: list[Any], back: list[Any]
) -> None:
    before, after = (policy([it] if it is not None else []) for it in (old, new))
    assert told(before, after) == sorted(there, key=there.index)
    assert sorted(told(after, before)) == sorted(back)


BOTH = ("Ingress", "Egress")
WIDER = {OPENED, NARROWED}
TYPES = [
    ("ingress no longer closed", policy([rule(ALL)]), policy([rule(ALL)], types=("Egress",)), {OPENED, NARROWED}),
    ("types by default", policy([rule(ALL)]), policy([rule(ALL)], types=None), {OTHER}),
    ("egress by default", policy([{}], "egress", ("Ingress", "Egress")), policy([{}], "egress", None), {OTHER}),
    ("egress not closed by default", policy([], "egress", ("Ingress", "Egress")), policy([], "egress", None), {OPENED}),
    ("types that are none", policy([rule(ALL)]), policy([rule(ALL)], types="x"), {OPENED}),
    ("other pods", policy([rule(ALL)]), policy([rule(ALL)], podSelector={"matchLabels": {"a": "b"}}), {OPENED}),
    ("something unknown", policy([rule(ALL)]), policy([rule(ALL)], unknown=1), {OTHER}),
    ("egress", policy([], "egress", ("Egress",)), policy([{"to": [ALL]}], "egress", ("Egress",)), {OPENED}),
    ("rules in another order", policy([rule(OWN), rule(SPACE)]), policy([rule(SPACE), rule(OWN)]), {OTHER}),
    (
        "too much",
        policy([rule(ALL)]),
        policy([rule(*[{"podSelector": {"matchLabels": {"a": str(n)}}} for n in range(300)])]),
        {OPENED},
    ),
    ("no types are the default", policy([], types=()), policy([rule(ALL)]), {OPENED}),
    ("no types are the default of egress", policy([], "egress", ()), policy([], "egress", None), {OTHER}),
    ("an old type that is none", policy([rule(ALL)], types="x"), policy([rule(OWN)]), {OPENED}),
    ("a selector that is null", policy([rule({**OWN, "namespaceSelector": None})]), policy([rule(SPACE)]), WIDER),
    ("a peer with nothing but nulls", policy([rule({"podSelector": None})]), policy([rule(LABELLED)]), {OPENED}),
    ("ingress newly closed", policy([rule(SPACE)], types=("Egress",)), policy([rule(SPACE)], types=BOTH), WIDER),
    ("ingress newly closed to nobody", policy([{}], types=("Egress",)), policy([{}], types=BOTH), {OPENED}),
    ("ingress newly closed to all", policy([], types=("Egress",)), policy([], types=BOTH), {NARROWED}),
    ("more than is listed", policy([]), policy([rule(ALL, ports=tuple(port(n) for n in range(1, 9)))]), {OPENED}),
]


@pytest.mark.parametrize(("old", "new", "kinds"), [pytest.param(*case[1:], id=case[0]) for case in TYPES])
def test_types_and_selectors_count(old: str, new: str, kinds: set[ChangeKind]) -> None:
    assert {change.kind for change in changes(old, new)} == kinds


def test_what_begins_to_close_may_add_to_others_that_close() -> None:
    opened, narrowed = changes(policy([rule(SPACE)], types=("Egress",)), policy([rule(SPACE)], types=BOTH))
    flow = "from all pods of namespaces with x=y on any port"
    assert opened.sentence == f"NetworkPolicy x allows more ingress: {flow}; check whether that allows more"
    assert opened.severity is Severity.WARNING
    assert narrowed.sentence == f"NetworkPolicy x allows ingress {flow} only (was: from everywhere on any port)"


def test_what_is_narrowed_says_what_is_left() -> None:
    (change,) = changes(policy([rule(ALL)]), policy([rule(ALL, ports=(port(9292),))]))
    assert change.severity is Severity.WARNING
    assert change.sentence == "NetworkPolicy x allows ingress on TCP 9292 only (was: any port)"
    (change,) = changes(policy([rule(ALL), rule(LABELLED)]), policy([rule(LABELLED, ports=(port(1),))]))
    assert change.sentence == (
        "NetworkPolicy x allows ingress from pods with a=b of its namespace on TCP 1 only (was: "
        "from all pods of all namespaces on any port and from pods with a=b of its namespace on any port)"
    )


@pytest.mark.parametrize(
    ("peer", "words"),
    [
        (block("10.0.0.0/8", "10.1.0.0/16"), "from 10.0.0.0/8 without 10.1.0.0/16 on"),
        (block("10.0.0.0/8"), "from 10.0.0.0/8 on"),
        (LABELLED, "from pods with a=b of its namespace on"),
        (SPACES, "from pods with a=b of namespaces with x=y, z=z on"),
    ],
)
def test_who_is_let_through_is_named(peer: dict[str, Any], words: str) -> None:
    ports = (port(1, endPort=3), port("http"), port(None, protocol="UDP"))
    (change,) = changes(policy([]), policy([rule(peer, ports=ports)]))
    assert words in change.sentence
    for place in ("TCP 1-3", "TCP http", "UDP on any port"):
        assert place in change.sentence


def test_a_policy_without_a_spec_is_compared() -> None:
    text = policy([])
    assert changes(text, text.replace('"spec"', '"spec2"'))
