"""How tight a container is held, by its own words, those of its pod, and the annotations of both."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ci_automation.impact.change import Change, ChangeClass, ChangeKind, Severity
from ci_automation.impact.compare import changes

LOWERED, RAISED, OTHER = ChangeKind.SECURITY_LOWERED, ChangeKind.SECURITY_RAISED, ChangeKind.OTHER
DANGER, NOTICE, INFO = Severity.DANGER, Severity.NOTICE, Severity.INFO
APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/manager"


def profile(kind: str) -> dict[str, str]:
    return {"type": kind}


def workload(container: dict[str, Any], pod: dict[str, Any] | None = None, **annotations: str) -> str:
    spec = {"securityContext": pod or {}, "containers": [{"name": "manager", "image": "x", **container}]}
    template = {"metadata": {"annotations": annotations}, "spec": spec}
    value = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}}
    return json.dumps({**value, "spec": {"template": template}})


def held(own: dict[str, Any], pod: dict[str, Any]) -> str:
    return workload({"securityContext": own}, pod)


def kinds(found: tuple[Change, ...]) -> list[tuple[ChangeKind, Severity]]:
    return [(change.kind, change.severity) for change in found]


@pytest.mark.parametrize(
    ("key", "pod", "old", "new", "told"),
    [
        ("runAsNonRoot", True, None, False, (LOWERED, DANGER)),
        ("runAsNonRoot", True, False, None, (RAISED, NOTICE)),
        ("runAsNonRoot", True, True, None, (OTHER, INFO)),
        ("runAsNonRoot", False, None, True, (RAISED, NOTICE)),
        ("runAsNonRoot", False, True, None, (LOWERED, DANGER)),
        ("runAsNonRoot", None, None, False, (OTHER, INFO)),
        ("runAsUser", 1000, None, 0, (LOWERED, DANGER)),
        ("runAsUser", 0, 1000, None, (LOWERED, DANGER)),
        ("runAsUser", 1000, 0, None, (RAISED, NOTICE)),
        ("runAsUser", 0, None, 0, (OTHER, INFO)),
        ("runAsGroup", 1000, None, 1001, (LOWERED, NOTICE)),
        ("seccompProfile", profile("RuntimeDefault"), None, profile("Unconfined"), (LOWERED, DANGER)),
        ("seccompProfile", profile("RuntimeDefault"), None, profile("Localhost"), (LOWERED, NOTICE)),
        ("seccompProfile", None, None, profile("Unconfined"), (LOWERED, NOTICE)),
        ("appArmorProfile", None, None, profile("Unconfined"), (LOWERED, DANGER)),
        ("appArmorProfile", None, profile("Unconfined"), None, (RAISED, NOTICE)),
        ("appArmorProfile", profile("RuntimeDefault"), None, profile("Unconfined"), (LOWERED, DANGER)),
        ("seLinuxOptions", {"level": "a"}, None, {"level": "a"}, (OTHER, INFO)),
        ("seLinuxOptions", {"level": "a"}, None, {"level": "b"}, (LOWERED, NOTICE)),
        ("readOnlyRootFilesystem", None, True, None, (LOWERED, DANGER)),
    ],
)
def test_what_a_container_says_itself_counts_before_its_pod(
    key: str, pod: Any, old: Any, new: Any, told: tuple[ChangeKind, Severity]
) -> None:
    whole, before, after = ({} if value is None else {key: value} for value in (pod, old, new))
    assert kinds(changes(held(before, whole), held(after, whole))) == [told]


def test_null_is_what_the_pod_has() -> None:
    pod = {"runAsNonRoot": True}
    assert kinds(changes(held({}, pod), held({"runAsNonRoot": None}, pod))) == [(OTHER, INFO)]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (None, "unconfined", (LOWERED, DANGER)),
        ("runtime/default", "unconfined", (LOWERED, DANGER)),
        ("unconfined", "localhost/x", (RAISED, NOTICE)),
        ("unconfined", None, (RAISED, NOTICE)),
        ("localhost/x", "localhost/y", (LOWERED, NOTICE)),
    ],
)
def test_the_annotation_for_app_armor_is_one_of_security(
    old: str | None, new: str | None, told: tuple[ChangeKind, Severity]
) -> None:
    before, after = (workload({}, None, **{"other": "x", **({APP_ARMOR: it} if it else {})}) for it in (old, new))
    (change,) = changes(before, after)
    assert (change.kind, change.severity) == told
    assert change.belongs_to is ChangeClass.SECURITY_CONTEXT


def test_another_annotation_of_a_pod_is_metadata() -> None:
    (change,) = changes(workload({}, other="x"), workload({}, other="y"))
    assert (change.belongs_to, change.severity) == (ChangeClass.METADATA, INFO)


@pytest.mark.parametrize("where", ["annotations", "labels"])
@pytest.mark.parametrize("name", ["force", "ssa", "prune", "reconcile"])
def test_how_controllers_treat_objects_is_a_warning_for_each(name: str, where: str) -> None:
    def text(**entries: str) -> str:
        metadata = ({"name": each, where: {"a": "b", **entries}} for each in "xy")
        return "\n---\n".join(
            json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": each}) for each in metadata
        )

    key = f"kustomize.toolkit.fluxcd.io/{name}"
    found = changes(text(), text(**{key: "disabled"}))
    assert [(change.belongs_to, change.severity) for change in found] == [(ChangeClass.METADATA, Severity.WARNING)] * 2
    assert f"{key}: disabled; controllers act on it" in found[0].sentence


def ports(*more: dict[str, Any]) -> dict[str, Any]:
    return {"ports": [{"containerPort": 80, "name": f"p{at}", **it} for at, it in enumerate(more)]}


COME, LEFT = ChangeKind.HOST_ACCESS_ADDED, ChangeKind.HOST_ACCESS_REMOVED


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (ports({}, {}), ports({}, {"hostPort": 80}), {(COME, DANGER)}),
        (ports({}, {"hostPort": 80}), ports({}, {}), {(LEFT, NOTICE)}),
        (ports({}), ports({}, {"hostPort": 80}), {(COME, DANGER), (OTHER, NOTICE)}),
        (ports({}, {"hostPort": 80}), ports({}, {"hostPort": 81}), {(COME, DANGER), (LEFT, NOTICE)}),
        (ports({}, {"hostPort": 80}), ports({"hostPort": 80}, {}), {(OTHER, NOTICE)}),
        (ports({}, {}), ports({}, {"hostPort": 0}), {(OTHER, NOTICE)}),
    ],
    ids=["comes", "goes", "with its port", "another", "moves", "none"],
)
def test_a_port_of_the_machine_is_told_where_two_ports_have_one_number(
    old: dict[str, Any], new: dict[str, Any], told: set[tuple[ChangeKind, Severity]]
) -> None:
    assert set(kinds(changes(workload(old), workload(new)))) == told


def test_a_new_workload_is_told_with_it_too() -> None:
    found = changes("", workload(ports({}, {"hostPort": 80})))
    assert kinds(found)[:2] == [(COME, DANGER), (ChangeKind.WORKLOAD_ADDED, Severity.WARNING)]
    assert "listens on port 80/TCP of its node" in found[0].sentence
