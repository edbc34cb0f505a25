# ruff: noqa: E501 - the tables have a row a line
"""What Flux may do, out of the roles and bindings of what clusters get."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from ci_automation.artifact.tree import Tree
from ci_automation.impact.assess import assess
from ci_automation.impact.change import Severity
from ci_automation.impact.check import Applied, Known
from ci_automation.impact.overlay.builder import BuildFailed
from ci_automation.impact.overlay.preflight import preflight
from ci_automation.impact.rights import FolderRights, rights_of
from tests.unit.impact.overlay.test_built import ANY, BARE, LISTING, ROLE, add, patched
from tests.unit.impact.overlay.trees import COMPONENTS, PATH, Builder, check, overlay, tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci_automation.impact.overlay.builder import Build, Kustomize

RBAC = "rbac.authorization.k8s.io"
SECRETS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
FLUX = {"kind": "ServiceAccount", "name": "flux", "namespace": "flux-system"}


def rule(groups: str, resources: str, verbs: str, **more: Any) -> dict[str, Any]:
    return {"apiGroups": groups.split(","), "resources": resources.split(","), "verbs": verbs.split(","), **more}


def manifest(kind: str, name: str, namespace: str = "", **fields: Any) -> str:
    labels = fields.pop("labels", {})
    metadata = {"name": name, "labels": labels, **({"namespace": namespace} if namespace else {})}
    return json.dumps({"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, **fields})


def bound(rules: object, *subjects: dict[str, str], kind: str = "ClusterRole", namespace: str = "") -> str:
    """Return a role with these rules and a binding of it, in a namespace or the whole cluster."""
    role = manifest(kind, "own", namespace if kind == "Role" else "", rules=rules)
    binding = "RoleBinding" if namespace else "ClusterRoleBinding"
    reference = {"apiGroup": RBAC, "kind": kind, "name": "own"}
    return (
        f"{role}\n---\n{manifest(binding, 'gives', namespace, roleRef=reference, subjects=list(subjects or (FLUX,)))}\n"
    )


class Failing:
    """A kustomize that builds nothing."""

    def builds(self, wanted: Sequence[Build]) -> tuple[BuildFailed, ...]:
        """Return why not."""
        return tuple(BuildFailed("no") for _ in wanted)


def of_cluster(name: str) -> str:
    """Return a binding of a role that is not among the manifests."""
    return manifest("ClusterRoleBinding", "gives", roleRef={"kind": "ClusterRole", "name": name}, subjects=[FLUX])


@pytest.mark.parametrize(
    ("text", "may", "severity", "escalation", "secrets"),
    [
        pytest.param(bound([rule("", "pods", "get,list")]), "get and list pods", Severity.NOTICE, (), (), id="reads"),
        pytest.param(bound([rule("", "secrets", "get")]), "get secrets", Severity.DANGER, (), ("get",), id="reads Secrets"),
        pytest.param(bound([rule("", "*", "*")]), "do everything with *", Severity.DANGER, ("impersonate groups", "impersonate serviceaccounts", "impersonate users", "create serviceaccounts/token"), SECRETS, id="all of the core"),
        pytest.param(bound([rule("", "secrets", "get", resourceNames=["a"])]), "get secrets named a", Severity.DANGER, (), ("get",), id="one Secret"),
        pytest.param(bound([rule(RBAC, "clusterroles", "bind,escalate")]), f"bind and escalate clusterroles of {RBAC}", Severity.DANGER, (f"bind clusterroles of {RBAC}", f"escalate clusterroles of {RBAC}"), (), id="escalates"),
        pytest.param(bound([rule("", "users", "impersonate")]), "impersonate users", Severity.DANGER, ("impersonate users",), (), id="impersonates"),
        pytest.param(bound([rule("", "serviceaccounts/token", "create")]), "create serviceaccounts/token", Severity.DANGER, ("create serviceaccounts/token",), (), id="makes tokens"),
        pytest.param(bound([]), "do nothing", Severity.INFO, (), (), id="nothing"),
        pytest.param(bound("x"), "do nothing", Severity.INFO, (), (), id="rules that are none"),
        pytest.param(bound([{"a": 1}]), "the program cannot tell what it permits", Severity.DANGER, (), (), id="a rule that is none"),
        pytest.param(of_cluster("view"), "do what this role of the cluster permits", Severity.DANGER, (), (), id="a role of the cluster"),
    ],
)  # fmt: skip
def test_a_right_is_told_with_what_is_grave_in_it(
    text: str, may: str, severity: Severity, escalation: tuple[str, ...], secrets: tuple[str, ...]
) -> None:
    (right,) = rights_of([text])
    assert (right.may, right.severity, right.escalation, right.secrets) == (may, severity, escalation, secrets)
    assert (right.subjects, right.everything) == (("ServiceAccount flux-system/flux",), False)


@pytest.mark.parametrize("text", [of_cluster("cluster-admin"), bound([ANY])], ids=["cluster-admin", "as good"])
def test_everything_is_told_as_such(text: str) -> None:
    (right,) = rights_of([text])
    assert (right.everything, right.may, right.severity) == (True, "do everything", Severity.DANGER)
    assert (len(right.escalation), right.secrets) == (8, SECRETS)


def test_a_role_that_is_bound_in_a_namespace_counts_there() -> None:
    texts = [bound([rule("", "pods", "get")], kind=kind, namespace="apps") for kind in ("ClusterRole", "Role")]
    for text in texts:
        found = FolderRights.of(".", [text, of_cluster("cluster-admin")])
        assert [*found.by_namespace] == ["", "apps"]
        (right,) = found.by_namespace["apps"]
        assert (right.namespace, right.binding, right.may) == ("apps", "RoleBinding gives", "get pods")


def test_a_role_of_another_namespace_is_not_taken_for_the_bound_one() -> None:
    other = manifest("Role", "own", "other", rules=[ANY])
    reference = {"kind": "Role", "name": "own"}
    (right,) = rights_of([f"{other}\n---\n{manifest('RoleBinding', 'gives', 'apps', roleRef=reference)}\n"])
    assert (right.may, right.subjects) == ("do what this role of the cluster permits", ())


def test_what_everybody_gets_is_grave() -> None:
    everybody = {"kind": "Group", "name": "system:authenticated", "apiGroup": RBAC}
    (right,) = rights_of([bound([rule("", "pods", "get")], everybody)])
    assert (right.severity, right.subjects) == (Severity.DANGER, ("Group system:authenticated",))


def test_a_role_that_adds_to_others_names_them() -> None:
    labels = {
        f"{RBAC}/aggregate-to-{role}": said for role, said in (("view", "false"), ("edit", "true"), ("admin", "true"))
    }
    text = manifest("ClusterRole", "own", labels={**labels, "team": "true"}, rules=[rule("", "pods", "get")])
    (right,) = rights_of([text])
    assert (right.subjects, right.may) == (("ClusterRole admin", "ClusterRole edit"), "get pods")
    assert rights_of([manifest("ClusterRole", "own", rules=[])]) == ()


def test_what_cannot_be_read_or_is_of_another_kind_gives_nothing() -> None:
    assert rights_of(["kind: Role\n  a: b: c\n", "kind: RoleBinding\nmetadata: {name: a}\n", "a: 1\n"]) == ()


def test_of_very_many_rights_the_gravest_stay() -> None:
    many = [bound([rule("", "pods", "get")], namespace=f"n{number}") for number in range(120)]
    found = FolderRights.of(".", [*many, of_cluster("cluster-admin")])
    assert (len(found.rights), found.more, found.rights[0].everything) == (100, 21, True)


def bindings() -> dict[str, object]:
    return {**overlay(resources=[PATH, "gives.yaml"]), "gives.yaml": of_cluster("crd-controller")}


def test_what_kustomize_builds_counts() -> None:
    granting = patched(ROLE, add("/rules/-", ANY), resources=[PATH, "gives.yaml"])
    (found,) = check(LISTING, COMPONENTS, then={**granting, "gives.yaml": of_cluster("crd-controller")}).rights
    assert [(right.role, right.everything) for right in found.rights] == [("ClusterRole crd-controller", True)]
    assert (found.folder, found.unbuilt) == (".", "")


def test_what_flux_alone_does_not_give_comes_first_and_is_marked() -> None:
    components = f"{COMPONENTS}---\n{of_cluster('cluster-admin')}\n"
    (alone,) = check(LISTING, components).rights
    assert [(right.role, right.added) for right in alone.rights] == [("ClusterRole cluster-admin", False)]
    added = of_cluster("crd-controller").replace("gives", "more")
    (found,) = check(LISTING, components, then={**overlay(resources=[PATH, "more.yaml"]), "more.yaml": added}).rights
    assert [(right.role, right.added) for right in found.rights] == [
        ("ClusterRole crd-controller", True),
        ("ClusterRole cluster-admin", False),
    ]


def test_files_that_are_only_listed_count_without_kustomize() -> None:
    (found,) = assess(None, Applied(BARE, None, tree(bindings()).without(PATH), PATH), Known()).rights
    (right,) = found.rights
    assert (right.secrets, right.may, found.unbuilt) == ((), "do everything with * of source; create tokens", "")


@pytest.mark.parametrize(
    ("files", "builder", "why"),
    [
        pytest.param(patched(ROLE, add("/rules/-", ANY)), None, "there is no kustomize", id="no kustomize"),
        pytest.param(patched(ROLE, add("/rules/-", ANY)), Failing(), "it cannot be built: no", id="broken"),
        pytest.param({"flux-system/kustomization.yaml": {"resources": []}}, Builder(), f"no kustomization lists {PATH}", id="left out"),
    ],
)  # fmt: skip
def test_of_what_is_not_built_the_components_count_and_it_says_so(
    files: dict[str, object], builder: Kustomize | None, why: str
) -> None:
    components = f"{COMPONENTS}---\n{of_cluster('crd-controller')}\n"
    (found,) = preflight(Tree(()), tree(files, components), PATH, builder).rights
    assert ([right.everything for right in found.rights], found.unbuilt) == ([False], why)


def test_nothing_is_told_of_what_is_not_to_be_built() -> None:
    assert assess(None, Applied(BARE, None), Known(build=False)).rights == ()
