"""An overlay that is made to be slow is told to be too much to be looked into, soon, and whatever makes it slow."""

from __future__ import annotations

import json
from time import process_time
from typing import TYPE_CHECKING, Any

import pytest

from ci_automation.impact.change import Certainty
from ci_automation.impact.overlay import kustomization
from ci_automation.impact.overlay.kustomization import MAX_STEPS, Effort, TooMuch
from tests.unit.impact.overlay.trees import CHANGED, COMPONENTS, PATH, Builder, check

if TYPE_CHECKING:
    from collections.abc import Mapping

SECONDS = 20  # all steps take three on a quiet machine, and minutes before there was a limit
MANY = 250  # so few that they alone are looked into: what is done with them is what is too much
LONG = 3_000
OPERATION = {"op": "add", "path": "/data/x", "value": "1"}


def config_map(name: str) -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{a: b}}\n"


CONFIG_MAPS = "---\n".join(config_map(f"c{number}") for number in range(MANY))
PODS = "---\n".join(
    f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p{number}}}\nspec: {{containers: [{{image: x}}]}}\n"
    for number in range(MANY)
)


def listing(own: str, **fields: Any) -> dict[str, object]:
    """Return an overlay of the components, other objects, and what is done to them."""
    return {"kustomization.yaml": {"resources": [PATH, "own.yaml"], **fields}, "own.yaml": own}


def patches(operations: list[dict[str, Any]], *targets: dict[str, str]) -> dict[str, Any]:
    return {"patches": [{"target": target, "patch": json.dumps(operations)} for target in targets]}


def of_big(value: object) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "Big", "metadata": {"name": "big"}, "list": value})


def replacing(number: int, **target: Any) -> dict[str, Any]:
    source = {"kind": "ConfigMap", "name": "c1"}
    select = {"select": {"kind": "ConfigMap"}, "fieldPaths": ["data.a"], **target}
    return {"replacements": [{"source": source, "targets": [select] * number}]}


def nested(depth: int, value: object) -> object:
    for _ in range(depth):
        value = [value]
    return value


def pod(start: str) -> str:
    spec = {"containers": [{"name": f"{start}{number}"} for number in range(LONG)]}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})


HOSTILE: dict[str, dict[str, object]] = {
    "a patch for each of many objects": listing(
        CONFIG_MAPS, **patches([OPERATION], *({"kind": "ConfigMap", "name": f"c{at}"} for at in range(MANY)))
    ),
    "many patches of all objects": listing(CONFIG_MAPS, **patches([OPERATION], *[{"kind": "ConfigMap"}] * LONG)),
    "many strategic merge patches": listing(
        CONFIG_MAPS, patches=[{"patch": config_map(f"c{number}")} for number in range(MANY)]
    ),
    "a selector of many labels": listing(
        CONFIG_MAPS, **patches([OPERATION], *[{"labelSelector": ",".join(f"!a{at}" for at in range(500))}] * 100)
    ),
    "patterns that are slow to compile": listing(
        CONFIG_MAPS, **patches([OPERATION], *({"name": f"{'a{999}' * 90}b{at}"} for at in range(MANY)))
    ),
    "many replacements": listing(CONFIG_MAPS, **replacing(MANY)),
    "many that are rejected": listing(
        CONFIG_MAPS, **replacing(1, reject=[{"name": f"x.*{number}"} for number in range(1_000)])
    ),
    "many images": listing(PODS, images=[{"name": f"n{number}"} for number in range(MANY)]),
    "many replicas": listing(CONFIG_MAPS, replicas=[{"name": f"n{number}", "count": 1} for number in range(MANY)]),
    "many labels": listing(CONFIG_MAPS, commonLabels={f"l{number}": "x" for number in range(MANY)}),
    "many numbers in a long list": listing(
        of_big([{"k": number} for number in range(20_000)]),
        **patches([{"op": "replace", "path": "/list/0/k", "value": 5}] * 500, *[{"kind": "Big"}] * 50),
    ),
    "many numbers in lists in lists": listing(
        of_big(nested(90, [1] * 20_000)),
        **patches([{"op": "replace", "path": "/list" + "/0" * 90, "value": []}] * 500, {"kind": "Big"}),
    ),
    "copies": listing(
        of_big([1] * 40_000),
        **patches([{"op": "copy", "from": "/kind", "path": "/list/-"}] * 500, {"kind": "Big"}),
    ),
    "long lists that are merged": listing(pod("a"), patches=[{"patch": pod("b")}]),
    "objects that patches delete": listing(
        CONFIG_MAPS,
        patches=[{"target": {"kind": "ConfigMap"}, "patch": config_map("any") + "$patch: delete\n"}],
    ),
    "a long patch, named again and again": {
        "kustomization.yaml": {"resources": [PATH], "patches": [{"path": "p.yaml"}] * MANY},
        "p.yaml": f"x: {'y' * 100_000}",
    },
    "the same base again and again": {
        "kustomization.yaml": {"resources": [PATH, *["b"] * 400], "namespace": "x"},
        "b/kustomization.yaml": {"resources": ["own.yaml"]},
        "b/own.yaml": CONFIG_MAPS,
    },
    "many documents": listing("---\n".join("{kind: A, metadata: {name: a}}\n" for _ in range(20_000))),
    "many folders": {f"f{number}/kustomization.yaml": {"resources": [f"../{PATH}"]} for number in range(LONG)},
    "many folders, one after the other": {
        f"f{number}/kustomization.yaml": {"resources": [f"../f{number + 1}"]} for number in range(LONG)
    },
}


SENTENCE = "the overlay was not looked into: to follow what it does takes more than 2,000,000 steps"
AS_LISTED = {COMPONENTS.encode(): COMPONENTS, CHANGED.encode(): CHANGED}
TOO_MUCH = {
    "many folders",
    "many numbers in a long list",
    "many patches of all objects",
    "the same base again and again",
}


@pytest.mark.often
@pytest.mark.parametrize("name", HOSTILE)
def test_whatever_is_much_takes_little_time_here(name: str) -> None:
    """What it makes kustomize do ends with the limits of a confined program."""
    began = process_time()
    sentences = [hazard.sentence for hazard in check(HOSTILE[name], builder=Builder(dict(AS_LISTED))).hazards]
    assert (sentences == [SENTENCE]) is (name in TOO_MUCH)
    assert process_time() - began < SECONDS


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"own.yaml": config_map("a")}, id="a file"),
        pytest.param(listing(config_map("a"), **patches([OPERATION], {"kind": "ConfigMap"})), id="a patch"),
        pytest.param({f"{at}.yaml": config_map(f"c{at}") for at in range(500)}, id="many files"),
    ],
)
def test_what_people_write_is_looked_into(files: Mapping[str, object]) -> None:
    assert check(files).hazards == ()


def test_what_takes_a_step_too_many_is_not_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kustomization, "MAX_STEPS", 10)
    (hazard,) = check(listing(config_map("a"))).hazards
    assert (hazard.gate, hazard.certainty, hazard.sentence) == ("overlay", Certainty.UNCHECKED, SENTENCE)


def test_no_more_is_spent_than_there_is() -> None:
    left = Effort()
    left.spend(MAX_STEPS)
    with pytest.raises(TooMuch):
        left.spend(1)
