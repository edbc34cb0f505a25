"""Which objects a rule matches, as kustomize 5 matches them."""

from __future__ import annotations

import pytest

from ci_automation.impact.hazard import Place
from ci_automation.overlay.hits import (
    Subject,
    containers,
    identified,
    is_image,
    is_rejected,
    is_scaled,
    is_selected,
    is_target,
    matches_labels,
    renamed,
    takes_namespace,
    takes_prefix,
)
from ci_automation.overlay.kustomization import Image, Rule, Selector
from ci_automation.overlay.objects import Id

RULE = Rule("x", (Place("kustomization.yaml", 1),), "0")
DEPLOYMENT = Id("apps", "v1", "Deployment", "flux-system", "source-controller")
ROLE = Id("rbac.authorization.k8s.io", "v1", "ClusterRole", "", "crd-controller")
MAP = Id("", "v1", "ConfigMap", "", "settings")


def subject(first: Id = DEPLOYMENT, *later: Id) -> Subject:
    """Return an object of that id, and perhaps of others later."""
    return Subject([first, *later], {"part-of": "flux", "component": "source"}, {"note": "yes"})


@pytest.mark.parametrize(
    "selector",
    [
        Selector(),
        Selector(kind="Deployment", name="source-controller", namespace="flux-system", group="apps", version="v1"),
        Selector(name=".*-controller"),
        Selector(name="source-controller|helm-controller"),
        Selector(name="^source-controller$"),
        Selector(name=r"\w+-\w+"),
        Selector(kind="Deploy.*", group="a.*", version="v[12]"),
        Selector(labels="part-of=flux,component in (source, helm)", annotations="note"),
        Selector(name="source.controller"),
    ],
    ids=str,
)
def test_a_target_that_selects(selector: Selector) -> None:
    assert is_target(selector, subject())


@pytest.mark.parametrize(
    "selector",
    [
        Selector(name="source"),
        Selector(name="controller"),
        Selector(name="source|helm"),
        Selector(kind="deployment"),
        Selector(kind="Deploy"),
        Selector(group="app"),
        Selector(version="v"),
        Selector(namespace="flux"),
        Selector(labels="component=helm"),
        Selector(annotations="note=no"),
        Selector(name="("),
        Selector(name="(?=source).*"),
        Selector(name="x" * 9),
        Selector(labels="a" * 5000),
    ],
    ids=lambda it: str(it)[:40],
)
def test_a_target_that_does_not(selector: Selector) -> None:
    assert not is_target(selector, subject())


def test_a_target_counts_the_first_and_the_present_name() -> None:
    middle, last = DEPLOYMENT._replace(name="a"), DEPLOYMENT._replace(name="b", namespace="gitops")
    moved = subject(DEPLOYMENT, middle, last)
    found = [name for name in ("source-controller", "a", "b") if is_target(Selector(name=name), moved)]
    assert found == ["source-controller", "b"]
    assert is_target(Selector(name="b", namespace="flux-system"), moved)
    assert is_target(Selector(namespace="gitops"), moved)


@pytest.mark.parametrize(
    ("id", "namespace"), [(ROLE, "_non_namespaceable_"), (MAP, "default")], ids=["of the cluster", "without one"]
)
def test_a_target_s_namespace_is_the_effective_one(id: Id, namespace: str) -> None:  # noqa: A002
    assert is_target(Selector(namespace=namespace), subject(id))


def is_replaced(found: Subject, select: Selector, *reject: Selector) -> bool:
    """Return whether a target of a replacement hits an object."""
    return is_selected(select, found) and not any(is_rejected(each, found) for each in reject)


@pytest.mark.parametrize(
    ("selectors", "expected"),
    [
        ([Selector(kind="Deployment")], True),
        ([Selector(name="source-.*", labels="part-of")], True),
        ([Selector(kind="Deployment", labels="part-of=x")], False),
        ([Selector(name="source")], False),
        ([Selector(), Selector(name="source-controller")], False),
        ([Selector(), Selector(labels="part-of=flux")], False),
        ([Selector(), Selector(annotations="note")], False),
        ([Selector(), Selector(labels="part-of=x"), Selector(name="other")], True),
        ([Selector(), Selector(labels="part-of=x", name="source-controller")], False),
        ([Selector(), Selector()], True),
        ([Selector(namespace="flux-system")], True),
        ([Selector(namespace="default")], False),
    ],
)
def test_a_target_of_a_replacement(selectors: list[Selector], expected: bool) -> None:
    assert is_replaced(subject(), *selectors) is expected


def test_a_replacement_counts_every_name() -> None:
    moved = subject(DEPLOYMENT, DEPLOYMENT._replace(name="a"), DEPLOYMENT._replace(name="b"))
    assert all(is_replaced(moved, Selector(name=name)) for name in ("source-controller", "a", "b"))


def test_a_strategic_merge_patch_hits_by_identity() -> None:
    moved = subject(DEPLOYMENT, DEPLOYMENT._replace(name="a"))
    assert identified(DEPLOYMENT, moved)
    assert identified(DEPLOYMENT._replace(name="a"), moved)
    assert not identified(DEPLOYMENT._replace(name="b"), moved)
    assert not identified(DEPLOYMENT._replace(version="v2"), moved)
    assert not identified(DEPLOYMENT._replace(namespace=""), moved)
    assert identified(MAP._replace(namespace="default"), subject(MAP))
    assert identified(ROLE._replace(namespace="any"), subject(ROLE))


def test_replicas_hit_by_name_and_kind() -> None:
    assert is_scaled("source-controller", subject())
    assert not is_scaled("source", subject())
    assert not is_scaled("settings", subject(MAP))


@pytest.mark.parametrize(
    ("id", "prefix", "namespace"),
    [
        (DEPLOYMENT, True, True),
        (ROLE, True, False),
        (Id("", "v1", "Namespace", "", "a"), False, True),
        (Id("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "", "a"), False, False),
        (Id("apiregistration.k8s.io", "v1", "APIService", "", "a"), False, False),
    ],
)
def test_what_names_and_namespaces_change(id: Id, prefix: bool, namespace: bool) -> None:  # noqa: A002
    assert (takes_prefix(subject(id)), takes_namespace(subject(id))) == (prefix, namespace)


def image(name: str = "x/a", new_name: str = "", new_tag: str = "", digest: str = "") -> Image:
    """Return an entry of `images`."""
    return Image(RULE, name, new_name, new_tag, digest)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("ghcr.io/fluxcd/a", "ghcr.io/fluxcd/a:v1", True),
        ("ghcr.io/fluxcd/a", "ghcr.io/fluxcd/a@sha256:0f", True),
        ("ghcr.io/fluxcd/a", "ghcr.io/fluxcd/a:v1@sha256:0f", True),
        ("a", "a", True),
        ("[^:]*/a", "ghcr.io/fluxcd/a:v1", True),
        ("a", "ghcr.io/fluxcd/a:v1", False),
        ("ghcr.io/fluxcd/a", "ghcr.io/fluxcd/ab:v1", False),
        ("a(", "a(", False),
        ("a", 7, False),
    ],
)
def test_an_image(name: str, value: object, expected: bool) -> None:
    assert is_image(image(name), value) is expected


@pytest.mark.parametrize(
    ("entry", "old", "new"),
    [
        (image(new_name="y/b"), "x/a:v1", "y/b:v1"),
        (image(new_name="y/b"), "r:5000/a", "y/b"),
        (image(new_name="y/b"), "r:5000/a:v1@sha256:0f", "y/b:v1@sha256:0f"),
        (image(new_tag="v2"), "x/a:v1@sha256:0f", "x/a:v2"),
        (image(digest="sha256:1e"), "x/a:v1", "x/a@sha256:1e"),
        (image(new_tag="v2", digest="sha256:1e"), "a", "a:v2@sha256:1e"),
        (image(), "a@sha256:0f", "a@sha256:0f"),
    ],
)
def test_an_image_afterwards(entry: Image, old: str, new: str) -> None:
    assert renamed(entry, old) == new


def test_containers_are_found_at_any_depth() -> None:
    value = {"a": [{"containers": [{"image": "x"}, 7]}], "initContainers": [{"image": "y"}], "containers": "none"}
    assert list(containers(value)) == [{"image": "x"}, {"image": "y"}]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("", True),
        ("a=1", True),
        ("a==1", True),
        ("a = 1 , b = 2", True),
        ("a!=2", True),
        ("c!=2", True),
        ("a", True),
        ("!c", True),
        ("! c", True),
        ("a in (1, 2)", True),
        ("a notin (2,3),b", True),
        ("c notin (2)", True),
        ("e=", True),
        ("a=2", False),
        ("a!=1", False),
        ("c", False),
        ("!a", False),
        ("a in (2,3)", False),
        ("c in (2)", False),
        ("a notin (1)", False),
        ("a=1,b=1", False),
        ("b=1,a=1", False),
    ],
)
def test_label_selectors(selector: str, expected: bool) -> None:
    assert matches_labels(selector, {"a": "1", "b": "2", "e": ""}) is expected
