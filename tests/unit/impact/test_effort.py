"""Small files that would take long to be compared are compared in a moment, or told to be too much."""

from __future__ import annotations

import json
from time import process_time
from typing import TYPE_CHECKING, Any

import pytest

from ci_automation.impact import compare, reading
from ci_automation.impact.change import ChangeKind, ObjectId, Severity
from ci_automation.impact.compare import changes
from ci_automation.impact.permissions import Granted, Permission
from ci_automation.impact.schema import schema_changes
from ci_automation.impact.values import Pair

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = 20  # far more than each takes, far less than when all was compared with all


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


def config_map(value: str, number: int, **metadata: object) -> str:
    """Return many values, in the order of their keys as kustomize writes them, so that they are read quickly."""
    lines = [f"  {key}: {value}\n" for key in sorted(names("k", number))]
    name = metadata.get("name", "x")
    return f"apiVersion: v1\ndata:\n{''.join(lines)}kind: ConfigMap\nmetadata:\n  name: {name}\n"


def binding(start: str, number: int) -> str:
    subjects = [{"kind": "User", "name": name} for name in names(start, number)]
    value = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "x"}}
    return json.dumps({**value, "roleRef": {"kind": "ClusterRole", "name": "z" * 1_000_000}, "subjects": subjects})


def deep(quote: str, number: int, depth: int = 55) -> str:
    values = ",".join(f"{quote}v{at}{quote}" for at in range(number))
    return f"kind: A\nmetadata: {{name: a}}\ndata: {'[' * depth}{values}{']' * depth}\n"


def role_files(start: str, number: int) -> str:
    groups, verbs = names(start, 44), names(start, 44)
    return "\n---\n".join(role(name, apiGroups=groups, resources=["x"], verbs=verbs) for name in names("r", number))


CRD = ObjectId("apiextensions.k8s.io", "CustomResourceDefinition", "", "x")


@pytest.mark.often
@pytest.mark.parametrize(
    "compared",
    [
        pytest.param(lambda: changes(roles("a", 44), roles("b", 44)), id="roles as large as are compared"),
        pytest.param(lambda: changes(roles("a", 70), roles("b", 70)), id="larger roles"),
        pytest.param(lambda: changes(policies(1, 8), policies(2, 8)), id="policies as large as are compared"),
        pytest.param(lambda: changes(policies(1, 14), policies(2, 14)), id="larger policies"),
        pytest.param(lambda: changes(role_files("a", 600), role_files("b", 600)), id="many roles"),
        pytest.param(lambda: changes(config_map("a", 90_000), config_map("b", 90_000)), id="many values"),
        pytest.param(
            lambda: changes(*(config_map(value, 5_000, name="c" * 900_000) for value in "ab")), id="a long name"
        ),
        pytest.param(lambda: changes(binding("a", 4_000), binding("b", 4_000)), id="a role with a long name"),
        pytest.param(lambda: list(schema_changes(Pair(CRD, required("a"), required("b"), "v1"))), id="required fields"),
    ],
)
def test_a_small_file_is_compared_in_a_moment(compared: Callable[[], object]) -> None:
    began = process_time()
    assert compared()
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
    assert all(": they are too many" in change.sentence for change in found)


@pytest.mark.often
def test_roles_are_told_apart_until_they_are_too_many_together() -> None:
    said = [change.sentence for change in changes(role_files("a", 60), role_files("b", 60))]
    untold = [sentence for sentence in said if ": they are too many" in sentence]
    assert 0 < len(untold) < 60
    assert all("may now b0" in sentence or "may no longer a0" in sentence for sentence in set(said) - set(untold))


def test_policies_are_told_apart_until_they_are_too_many_together() -> None:
    said = [change.sentence for change in changes(policies(1, 8), policies(2, 8))]
    untold = [sentence for sentence in said if "they are too many to be told apart" in sentence]
    assert 0 < len(untold) < len(said)


def test_roles_that_come_or_go_count_too() -> None:
    for old, new in (("", role_files("a", 60)), (role_files("a", 60), "")):
        said = [change.sentence for change in changes(old, new)]
        assert 0 < sum(sentence.endswith("the program cannot tell what it permits") for sentence in said) < 60


@pytest.mark.often
def test_so_many_changes_are_told_and_that_there_are_more() -> None:
    more = [changes(config_map("a", 20_001), config_map(new, 20_001)) for new in "bc"]
    assert [len(found) for found in more] == [20_001, 20_001]
    assert [str(found[0].severity) for found in more] == ["danger", "danger"]
    sentence = "the components file differs in more than 20,000 places; what else changes is not told"
    assert more[0][0].sentence == sentence
    assert more[0][0].fingerprint != more[1][0].fingerprint
    assert len(changes(config_map("a", 20_000), config_map("b", 20_000))) == 20_000


def test_of_more_changes_than_the_limit_the_rest_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "_MAX_CHANGES", 3)
    found = changes(config_map("a", 9), config_map("b", 9))
    assert [change.severity for change in found] == [Severity.DANGER, *[Severity.NOTICE] * 3]
    assert "more than 3 places" in found[0].sentence


def test_an_object_with_a_name_that_no_cluster_takes_is_a_document() -> None:
    long, longer = (config_map("a", 1, name="c" * length) for length in (989, 1_000))
    for text, kind in ((long, "ConfigMap"), (longer, "Document")):
        assert [change.object.kind for change in changes(text, text.replace("k0: a", "k0: b"))] == [kind]


def test_another_role_with_a_long_name_is_another_change() -> None:
    said = [changes(binding("a", 1), binding("b", 1).replace("zzz", new, 1)) for new in ("xyz", "xyy")]
    added = [next(it for it in found if it.kind is ChangeKind.SUBJECT_ADDED) for found in said]
    assert added[0].fingerprint != added[1].fingerprint
    assert len(added[0].sentence) < 400


def test_more_paths_than_the_limit_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_MAX_KEPT", 100)
    (change,) = changes(deep("", 9), deep("'", 9))
    assert "it is written otherwise than kustomize does in too many places" in change.sentence


@pytest.mark.often
def test_what_is_written_in_another_way_in_too_many_places_cannot_be_read() -> None:
    (change,) = changes(deep("", 60_000), deep("'", 60_000))
    assert "it is written otherwise than kustomize does in too many places" in change.sentence


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


def test_the_patterns_of_a_url_are_looked_for_once_and_hold_for_each_verb() -> None:
    granted = Granted([Permission("", "", "get", url="/a*")])
    assert [granted.covers(Permission("", "", verb, url="/ab")) for verb in ("get", "put", "get")] == [
        True,
        False,
        True,
    ]
