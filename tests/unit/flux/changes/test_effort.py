"""Small files that would take long to be compared are compared in a moment, or told to be too much."""

from __future__ import annotations

import json
from time import process_time
from typing import TYPE_CHECKING, Any

import pytest

from ci_automation.flux.changes.compare import changes
from ci_automation.flux.changes.model import ChangeKind, ObjectId, Severity
from ci_automation.flux.changes.permissions import Granted, Permission
from ci_automation.flux.changes.schema import schema_changes
from ci_automation.flux.changes.values import Pair

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = 8  # far more than each takes, far less than when all was compared with all


def names(start: str, number: int, end: str = "") -> list[str]:
    return [f"{start}{at}{end}" for at in range(number)]


def role(name: str, **rule: list[str]) -> str:
    value = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}}
    return json.dumps({**value, "rules": [rule]})


def roles(start: str, number: int) -> str:
    urls, verbs = names(f"/{start}", number, "/" + "z" * 100), names(start, number)
    return "\n---\n".join(role(name, nonResourceURLs=urls, verbs=verbs) for name in names("r", 20))


def policies(start: int, number: int) -> str:
    peers = [{"ipBlock": {"cidr": f"10.{start}.{at}.0/24"}} for at in range(number)]
    ports = [{"port": start + at} for at in range(number)]
    spec: dict[str, Any] = {"podSelector": {}, "ingress": [{"from": peers, "ports": ports}]}
    value = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "spec": spec}
    return "\n---\n".join(json.dumps({**value, "metadata": {"name": name}}) for name in names("p", 40))


def required(start: str) -> dict[str, Any]:
    return {"required": names(start, 20_000)}


CRD = ObjectId("apiextensions.k8s.io", "CustomResourceDefinition", "", "x")


@pytest.mark.parametrize(
    "compare",
    [
        pytest.param(lambda: changes(roles("a", 44), roles("b", 44)), id="roles as large as are compared"),
        pytest.param(lambda: changes(roles("a", 70), roles("b", 70)), id="larger roles"),
        pytest.param(lambda: changes(policies(1, 8), policies(2, 8)), id="policies as large as are compared"),
        pytest.param(lambda: changes(policies(1, 14), policies(2, 14)), id="larger policies"),
        pytest.param(lambda: list(schema_changes(Pair(CRD, required("a"), required("b"), "v1"))), id="required fields"),
    ],
)
def test_a_small_file_is_compared_in_a_moment(compare: Callable[[], object]) -> None:
    began = process_time()
    assert compare()
    assert process_time() - began < SECONDS


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        pytest.param(roles("a", 1), roles("a", 70), ChangeKind.RULE_WIDENED, id="roles"),
        pytest.param(policies(1, 1), policies(1, 14), ChangeKind.NETWORK_OPENED, id="policies"),
    ],
)
def test_what_is_too_much_is_a_danger_and_says_so(old: str, new: str, kind: ChangeKind) -> None:
    found = changes(old, new)
    assert {(change.kind, change.severity) for change in found} == {(kind, Severity.DANGER)}
    assert all("cannot be told: they are too many" in change.sentence for change in found)


@pytest.mark.parametrize(
    ("granted", "wanted", "covered"),
    [
        ("/a", "/a", True),
        ("/a", "/b", False),
        ("/a*", "/ab", True),
        ("/a*", "/a", True),
        ("/a*", "/a*", True),
        ("/a*", "/ab*", True),
        ("/ab*", "/a", False),
        ("/ab*", "/ac", False),
        ("*", "/a", True),
    ],
)
@pytest.mark.parametrize(("verb", "takes"), [("get", True), ("*", True), ("put", False)])
def test_a_wildcard_covers_the_urls_that_start_like_it(
    granted: str,
    wanted: str,
    covered: bool,
    verb: str,
    takes: bool,
) -> None:
    one = Permission("", "", "get", url=wanted)
    found = Granted([Permission("", "", verb, url=granted)])
    assert found.covers(one) is (covered and takes)
    found.add([Permission("", "", "get", url="*")])
    assert found.covers(one)
