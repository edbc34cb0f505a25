"""What a cluster says of its custom resources is read from kubectl's answer, or refused with the reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ci_automation.flux.version import Version
from ci_automation.impact.check import Clusters
from ci_automation.impact.crds import versions
from ci_automation.impact.crds.versions import CrdVersion, InvalidSnapshot, Managed, Snapshot

Value = dict[str, Any]
BUCKETS = "buckets.source.toolkit.fluxcd.io"
VERSION = "app.kubernetes.io/version"
GROUP = "helm.toolkit.fluxcd.io"


def crd(name: str = BUCKETS, stored: object = ("v1beta2", "v1"), versions: object = ("v1", "v1beta2")) -> Value:
    known = versions if isinstance(versions, tuple) else ()
    listed = [{"name": it, "served": True, "storage": it == "v1"} for it in known] or versions
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {"group": name.partition(".")[2], "versions": listed},
        "status": {"storedVersions": stored},
    }


def release(*managed: tuple[str, str], **metadata: object) -> Value:
    fields = [{"manager": "m", "operation": operation, "apiVersion": version} for operation, version in managed]
    return {
        "apiVersion": f"{GROUP}/v2",
        "kind": "HelmRelease",
        "metadata": {"name": "podinfo", "namespace": "apps", "managedFields": fields, **metadata},
    }


def answer(*items: object, kind: str = "List") -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": kind, "items": items}).encode()


def test_the_stored_and_the_defined_versions_are_known_by_the_name_of_the_definition() -> None:
    found = Snapshot.parse(answer(crd(), crd("certificates.cert-manager.io", stored=None)), "a.json")
    assert (found.name, found.stored) == ("a.json", {BUCKETS: ("v1beta2", "v1")})
    assert found.defined == {BUCKETS: (CrdVersion("v1", True, True), CrdVersion("v1beta2", True, False))}
    assert found.managed == ()


@pytest.mark.parametrize("data", [json.dumps(crd()).encode(), answer(crd(), kind="CustomResourceDefinitionList")])
def test_one_definition_or_a_list_of_their_own_kind_will_do(data: bytes) -> None:
    assert Snapshot.parse(data, "a.json").stored == {BUCKETS: ("v1beta2", "v1")}


def test_objects_tell_who_manages_them_in_which_version() -> None:
    first = release(("Apply", f"{GROUP}/v2beta1"), ("Update", f"{GROUP}/v2"), ("Update", "v1"))
    second = release(("Update", f"{GROUP}/v2beta2"), name="other", namespace="")
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {}}
    found = Snapshot.parse(answer(first, second, pod), "a.json")
    assert found.managed == (
        Managed(GROUP, "HelmRelease", "", "other", "v2beta2", applied=False),
        Managed(GROUP, "HelmRelease", "apps", "podinfo", "v2", applied=True),
        Managed(GROUP, "HelmRelease", "apps", "podinfo", "v2beta1", applied=True),
    )
    assert [it.object for it in found.managed] == ["other", "apps/podinfo", "apps/podinfo"]
    assert found.stored == {}


def test_an_object_without_managed_fields_says_nothing_and_is_no_error() -> None:
    bare = {"apiVersion": f"{GROUP}/v2", "kind": "HelmRelease", "metadata": {"name": "podinfo"}}
    assert Snapshot.parse(answer(bare), "a.json").managed == ()
    odd = release()
    odd["metadata"]["managedFields"] = ["nobody", {"apiVersion": 5}]
    assert Snapshot.parse(answer(odd), "a.json").managed == ()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"apiVersion: v1\nkind: List\n", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"a": ' + b"1" * 5000 + b"}", "is not JSON"),
        (b"[]", "no answer of a cluster"),
        (b'{"kind": 5}', "no answer of a cluster"),
        (b'{"kind": "List"}', "a List without items"),
        (answer("text"), "one of its items is no object"),
        (answer(), "no custom resource definition of Flux"),
        (answer(crd("certificates.cert-manager.io")), "no custom resource definition of Flux"),
        (answer(crd(stored=None)), f"{BUCKETS} has no status.storedVersions"),
        (answer(crd(stored=[])), f"{BUCKETS} has no status.storedVersions"),
        (answer(crd(stored=[1])), f"{BUCKETS} has no status.storedVersions"),
        (answer(crd() | {"status": "fine"}), f"{BUCKETS} has no status.storedVersions"),
        (answer(crd(versions=())), f"{BUCKETS} has no spec.versions"),
        (answer(crd(versions="v1")), f"{BUCKETS} has no spec.versions"),
        (answer(crd(versions=[{}])), f"{BUCKETS} has no spec.versions"),
        (answer(crd(versions=[{"storage": True}])), f"{BUCKETS} has no spec.versions"),
        (answer(crd(versions=["v1"])), f"{BUCKETS} has no spec.versions"),
        (answer(crd(versions=("v2", "v3"))), f"{BUCKETS} has no spec.versions, one of them that objects are stored in"),
        (answer(crd() | {"metadata": {}}), "one of its objects has no name: a CustomResourceDefinition"),
        (answer(release(("Apply", f"{GROUP}/v2"), name=None)), "one of its objects has no name: a HelmRelease"),
        (answer(release(managedFields="none")), "podinfo is no object as a cluster shows it"),
        (answer(release(namespace=5)), "podinfo is no object as a cluster shows it"),
        (answer(release() | {"kind": 5}), "podinfo is no object as a cluster shows it"),
    ],
)
def test_anything_else_is_refused_with_the_file_and_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(InvalidSnapshot) as raised:
        Snapshot.parse(data, "clusters/a.json")
    assert str(raised.value).startswith("clusters/a.json: ")
    assert reason in str(raised.value)
    assert raised.value.exit_code == 2
    assert "kubectl get crd -o json" in raised.value.hint


def test_a_snapshot_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    data = answer(crd())
    monkeypatch.setattr(versions, "MAX_BYTES", len(data) - 1)
    with pytest.raises(InvalidSnapshot, match="larger than"):
        Snapshot.parse(data, "a.json")


@pytest.mark.parametrize(
    ("labels", "oldest"),
    [
        pytest.param([{VERSION: "v2.9.4"}, {VERSION: "v2.8.6"}], "v2.8.6", id="two"),
        pytest.param([{VERSION: "v2.9.4"}, {}], None, id="one without"),
        pytest.param([{VERSION: "latest"}], None, id="no version"),
        pytest.param(["x"], None, id="no labels"),
    ],
)  # fmt: skip
def test_the_oldest_flux_is_told_by_the_labels_of_its_definitions(labels: list[Any], oldest: str | None) -> None:
    items = []
    for number, each in enumerate(labels):
        item = crd(f"buckets{number}.source.toolkit.fluxcd.io")
        items.append({**item, "metadata": {**item["metadata"], "labels": each}})
    found = Snapshot.parse(answer(*items), "a")
    assert (str(found.flux) if found.flux else None) == oldest
    other = Snapshot("b", {}, flux=Version.parse("v2.9.3"))
    told = Clusters(snapshots=(found, other)).oldest
    assert told == ((found.flux, "a") if found.flux else None)
    assert Clusters().oldest is None
