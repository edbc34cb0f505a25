"""The overlay preflight on real releases, with the real kustomize: each case fails where it should, and passes else."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci_automation.artifact.tree import COMPONENTS_PATH, Tree
from ci_automation.flows.programs import kustomize as adapter
from ci_automation.impact.change import Certainty, ChangeClass, ChangeKind, Severity
from ci_automation.impact.objects import read_objects
from ci_automation.impact.overlay.builder import BuildFailed
from ci_automation.impact.overlay.folders import applied_folder, applied_folders
from ci_automation.impact.overlay.in_cluster import as_applied
from ci_automation.impact.overlay.kustomization import MAX_STEPS, Effort
from ci_automation.impact.overlay.marking import marked
from ci_automation.impact.overlay.outcome import read_marks, unmarked
from ci_automation.impact.overlay.preflight import Preflight, preflight
from ci_automation.report.bootstrap import install_order
from tests.real.overlays import grave, kustomize, selected_by_annotation, selected_by_marks, step, told, tree
from tests.real.share import share
from tests.unit.report.syncs import KEYLESS

LIST = {"resources": [COMPONENTS_PATH]}
CONFIG_MAP = (
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: flux-system}\ndata: {level: debug}\n"
)


def overlay(**fields: Any) -> dict[str, object]:
    """Return the files of an overlay: one kustomization with the components."""
    return {"kustomization.yaml": LIST | fields}


def patched(target: dict[str, str], patch: str) -> dict[str, object]:
    """Return the files of an overlay with one patch by target."""
    return overlay(patches=[{"target": target, "patch": patch}])


def strategic(kind: str, name: str, **spec: Any) -> str:
    """Return a strategic merge patch."""
    version = {"Deployment": "apps/v1", "ClusterRole": "rbac.authorization.k8s.io/v1"}.get(kind, "v1")
    lines = [f"apiVersion: {version}", f"kind: {kind}", f"metadata: {{name: {name}, namespace: flux-system}}"]
    return "\n".join([*lines, f"spec: {spec}"])


def operation(op: str, path: str, value: object = None) -> str:
    """Return a JSON patch of one operation."""
    return json.dumps([{"op": op, "path": path, "value": value}])


TOKENS = "/rules/10/verbs"
STORAGE = "/spec/template/spec/containers/0/args/6"
LISTED = {"flux-system/kustomization.yaml": {"resources": ["gotk-components.yaml", "gotk-sync.yaml"]}}
PASSING: dict[str, tuple[tuple[str, str], dict[str, object]]] = {
    "nothing beside the components": (("v2.8.8", "v2.9.4"), {}),
    "a list, as flux bootstrap writes it": (("v2.8.8", "v2.9.4"), LISTED | {"flux-system/gotk-sync.yaml": CONFIG_MAP}),
    "a strategic merge patch": (
        ("v2.6.4", "v2.9.4"),
        overlay(patches=[{"patch": strategic("Deployment", "source-controller", replicas=2)}]),
    ),
    "a JSON patch by selector": (
        ("v2.6.4", "v2.9.4"),
        patched(
            {"kind": "Deployment", "labelSelector": "app.kubernetes.io/part-of=flux"},
            operation("add", "/spec/template/spec/containers/0/args/-", "--concurrent=20"),
        ),
    ),
    "an argument by its number, which stays": (
        ("v2.7.0", "v2.7.2"),
        patched(
            {"kind": "Deployment", "name": "source-controller"},
            operation("replace", STORAGE, "--storage-adv-addr=elsewhere."),
        ),
    ),
    "an argument put between others": (
        ("v2.6.4", "v2.9.4"),
        patched(
            {"kind": "Deployment", "name": "(source|helm)-controller"},
            operation("add", "/spec/template/spec/containers/0/args/3", "--requeue-dependency=5s"),
        ),
    ),
    "a rule by its number, which stays": (
        ("v2.7.0", "v2.9.4"),
        patched(
            {"kind": "ClusterRole", "name": "crd-controller-flux-system"},
            operation("replace", "/rules/11/verbs", ["create"]),
        ),
    ),
    "images": (
        ("v2.6.4", "v2.9.4"),
        overlay(images=[{"name": "ghcr.io/fluxcd/source-controller", "newName": "registry.example/source"}]),
    ),
    "a replacement": (
        ("v2.6.4", "v2.9.4"),
        {
            "kustomization.yaml": {
                "resources": [COMPONENTS_PATH, "settings.yaml"],
                "replacements": [
                    {
                        "source": {"kind": "ConfigMap", "name": "settings", "fieldPath": "data.level"},
                        "targets": [
                            {
                                "select": {"kind": "Deployment", "name": "source-controller"},
                                "fieldPaths": ["spec.template.spec.containers.[name=manager].args.2"],
                                "options": {"delimiter": "=", "index": 1},
                            }
                        ],
                    }
                ],
            },
            "settings.yaml": CONFIG_MAP,
        },
    ),
    "a namespace and names": (
        ("v2.8.8", "v2.9.4"),
        overlay(namespace="gitops", namePrefix="our-", nameSuffix="-x", commonLabels={"team": "platform"}),
    ),
    "a component": (
        ("v2.8.8", "v2.9.4"),
        {
            "kustomization.yaml": LIST | {"components": ["parts/replicas"]},
            "parts/replicas/kustomization.yaml": {
                "apiVersion": "kustomize.config.k8s.io/v1alpha1",
                "kind": "Component",
                "replicas": [{"name": "source-controller", "count": 2}],
            },
        },
    ),
    "files beside the kustomization's folder, which kustomize-controller takes": (
        ("v2.8.8", "v2.9.4"),
        {
            "clusters/one/kustomization.yaml": {
                "resources": ["../../flux-system/gotk-components.yaml"],
                "patches": [{"path": "../../patches/replicas.yaml"}],
            },
            "patches/replicas.yaml": strategic("Deployment", "source-controller", replicas=2),
            "kustomization.yaml": {"resources": ["clusters/one"]},
        },
    ),
}


@pytest.mark.parametrize("name", PASSING)
def test_what_still_fits_passes(name: str, golden: Path) -> None:
    versions, files = PASSING[name]
    found = step(golden, versions, files)
    assert [hazard.sentence for hazard in found.hazards] == []
    assert found.pruned == ()


@pytest.mark.parametrize("name", PASSING)
def test_what_people_write_is_far_from_too_much_work(name: str, golden: Path) -> None:
    versions, files = PASSING[name]
    effort = Effort()
    for version in versions:
        applied_folders(tree(golden, version, files), COMPONENTS_PATH, effort)
    assert MAX_STEPS - effort.left < MAX_STEPS / 10


FAILING: dict[str, tuple[tuple[str, str], dict[str, object], str]] = {
    "a strategic merge patch of what is gone": (
        ("v2.9.4", "v2.6.4"),
        overlay(
            patches=[
                {
                    "patch": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"
                    "metadata: {name: externalartifacts.source.toolkit.fluxcd.io, annotations: {a: b}}"
                }
            ]
        ),
        "no resource matches strategic merge patch",
    ),
    "a target of what is gone": (
        ("v2.9.4", "v2.6.4"),
        patched(
            {"kind": "CustomResourceDefinition", "name": "externalartifacts.*"},
            operation("add", "/metadata/labels/a", "b"),
        ),
        "matched CustomResourceDefinition externalartifacts.source.toolkit.fluxcd.io, and matches nothing",
    ),
    "a JSON patch at a path that is gone": (
        ("v2.7.0", "v2.6.4"),
        patched(
            {"kind": "ClusterRole", "name": "crd-controller-flux-system"},
            operation("replace", "/rules/12/verbs", ["create"]),
        ),
        "cannot be built with the new components: ",
    ),
    "a rule by its number, which moves": (
        ("v2.6.4", "v2.7.0"),
        patched({"kind": "ClusterRole", "name": "crd-controller-.*"}, operation("replace", TOKENS, ["create"])),
        (
            'means /rules/10 of ClusterRole crd-controller-flux-system: that was {"apiGroups": [""], "resources": '
            '["serviceaccounts/token"], "verbs": ["create"]} and is '
        ),
    ),
    "the same, with patchesJson6902": (
        ("v2.6.4", "v2.7.0"),
        overlay(
            patchesJson6902=[
                {
                    "target": {
                        "group": "rbac.authorization.k8s.io",
                        "version": "v1",
                        "kind": "ClusterRole",
                        "name": "crd-controller-flux-system",
                    },
                    "path": "tokens.yaml",
                }
            ]
        )
        | {"tokens.yaml": operation("replace", TOKENS, ["create"])},
        "the former is number 11 now",
    ),
    "the same, in a component": (
        ("v2.6.4", "v2.7.0"),
        {
            "kustomization.yaml": LIST | {"components": ["parts"]},
            "parts/kustomization.yaml": {
                "apiVersion": "kustomize.config.k8s.io/v1alpha1",
                "kind": "Component",
                "patches": [{"target": {"kind": "ClusterRole", "name": "crd-.*"}, "path": "tokens.yaml"}],
            },
            "parts/tokens.yaml": operation("replace", TOKENS, ["create"]),
        },
        "the former is number 11 now",
    ),
    "the same, in a replacement": (
        ("v2.6.4", "v2.7.0"),
        {
            "kustomization.yaml": {
                "resources": [COMPONENTS_PATH, "settings.yaml"],
                "replacements": [{"path": "verbs.yaml"}],
            },
            "settings.yaml": CONFIG_MAP,
            "verbs.yaml": {
                "source": {"kind": "ConfigMap", "name": "settings", "fieldPath": "data.level"},
                "targets": [
                    {
                        "select": {"kind": "ClusterRole", "name": "crd-controller-flux-system"},
                        "fieldPaths": ["rules.10.verbs.0"],
                    }
                ],
            },
        },
        "means rules.10 of ClusterRole crd-controller-flux-system",
    ),
    "a replacement of what is gone": (
        ("v2.9.4", "v2.6.4"),
        {
            "kustomization.yaml": {
                "resources": [COMPONENTS_PATH, "settings.yaml"],
                "replacements": [
                    {
                        "source": {"kind": "ConfigMap", "name": "settings", "fieldPath": "data.level"},
                        "targets": [
                            {
                                "select": {"name": "externalartifacts.source.toolkit.fluxcd.io"},
                                "fieldPaths": ["metadata.labels.level"],
                                "options": {"create": True},
                            }
                        ],
                    }
                ],
            },
            "settings.yaml": CONFIG_MAP,
        },
        "the replacement in objects externalartifacts.source.toolkit.fluxcd.io matched",
    ),
    "an image that changes name": (
        ("v2.8.8", "v2.9.4"),
        overlay(images=[{"name": "ghcr.io/fluxcd/source-controller", "newName": "registry.example/source"}]),
        "the image ghcr.io/fluxcd/source-controller matched Deployment flux-system/source-controller",
    ),
    "replicas of what is gone": (
        ("v2.8.8", "v2.9.4"),
        overlay(replicas=[{"name": "source-controller", "count": 2}]),
        "resource with name source-controller does not match a config",
    ),
    "an object that the components have too": (
        ("v2.6.4", "v2.7.0"),
        {
            "kustomization.yaml": LIST | {"namespace": "flux-system", "resources": [COMPONENTS_PATH, "own.yaml"]},
            "own.yaml": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"
            "metadata: {name: externalartifacts.source.toolkit.fluxcd.io}\nspec: {}\n",
        },
        "may not add resource with an already registered id: CustomResourceDefinition",
    ),
    "the same, where nothing is patched": (
        ("v2.6.4", "v2.7.0"),
        {
            "own.yaml": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"
            "metadata: {name: externalartifacts.source.toolkit.fluxcd.io}\nspec: {}\n",
        },
        (
            "CustomResourceDefinition externalartifacts.source.toolkit.fluxcd.io is there twice: "
            "flux-system/gotk-components.yaml:"
        ),
    ),
}
# What a release did not do yet: its source-controller has another name.
RENAMED = frozenset({"an image that changes name", "replicas of what is gone"})


@pytest.mark.parametrize("name", FAILING)
def test_what_does_not_fit_any_more_is_found(name: str, golden: Path) -> None:
    versions, files, sentence = FAILING[name]
    old, new = (tree(golden, version, files) for version in versions)
    if name in RENAMED:
        text = new[COMPONENTS_PATH].replace(b"fluxcd/source-controller:", b"fluxcd/sourcerer:")
        text = text.replace(b"  name: source-controller\n", b"  name: sourcerer\n")
        new = new.replaced(COMPONENTS_PATH, text)
    found = both(old, new)
    assert sentence in " | ".join(told(found))
    # With the present components alone there is nothing to say.
    assert grave(both(old, old)) == []


def both(old: Tree, new: Tree) -> Preflight:
    """Return what the preflight says."""
    return preflight(old, new, COMPONENTS_PATH, kustomize())


DELETE = "$patch: delete\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: NAME, namespace: flux-system}\n"
WITHOUT_FLUX: dict[str, tuple[dict[str, object], str]] = {
    "a field that kustomize does not know": (overlay(pathces=[{"path": "a.yaml"}]), 'unknown field "pathces"'),
    "components that are not listed": (
        {"kustomization.yaml": {"resources": ["own.yaml"]}, "own.yaml": CONFIG_MAP},
        "delete Flux if they prune",
    ),
    "a controller that is deleted": (
        overlay(patches=[{"patch": DELETE.replace("NAME", "kustomize-controller")}]),
        "leaves out kustomize-controller",
    ),
}


@pytest.mark.parametrize("name", WITHOUT_FLUX)
def test_a_first_overlay_that_takes_flux_out_is_certain(name: str, golden: Path) -> None:
    files, sentence = WITHOUT_FLUX[name]
    found = preflight(Tree(()), tree(golden, "v2.9.4", files), COMPONENTS_PATH, kustomize())
    assert sentence in " | ".join(told(found, Certainty.CERTAIN))
    # So it is where it comes later.
    later = both(tree(golden, "v2.9.4", overlay()), tree(golden, "v2.9.4", files))
    assert sentence in " | ".join(told(later, Certainty.CERTAIN))


def test_an_argument_that_moved_is_found(golden: Path) -> None:
    """Upstream moved none so far: here one is taken out before the one that is meant."""
    patch = {
        "target": {"kind": "Deployment", "name": "source-controller"},
        "patch": operation("replace", STORAGE, "--storage-adv-addr=elsewhere."),
    }
    old = tree(golden, "v2.9.3", overlay(patches=[patch]))
    new = tree(golden, "v2.9.4", overlay(patches=[patch]))
    line = b"        - --events-addr=http://notification-controller.$(RUNTIME_NAMESPACE).svc.cluster.local./\n"
    text = new[COMPONENTS_PATH]
    at = text.index(line, text.rindex(b"kind: Deployment\n", 0, text.index(b"--storage-path=/data")))
    extra = text[:at] + b"        - --first=yes\n" + text[at:]
    found = both(old, new.replaced(COMPONENTS_PATH, extra))
    assert told(found) == [
        (
            "the patch of Deployment source-controller means /spec/template/spec/containers/0/args/6 of Deployment "
            "flux-system/source-controller: that was --storage-adv-addr=source-controller.$(RUNTIME_NAMESPACE)."
            "svc.cluster.local. and is --storage-path=/data in the new components; the former is number 7 now"
        )
    ]
    (hazard,) = grave(found)
    assert hazard.remedies[0].endswith("change the number 6 in /spec/template/spec/containers/0/args/6 to 7")
    assert str(hazard.places[0]) == "kustomization.yaml:1"


@pytest.mark.parametrize(
    ("target", "patch", "told_as"),
    [
        pytest.param(
            {"kind": "ClusterRole", "name": "crd-controller-flux-system"},
            operation("add", "/rules/-", {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}),
            (ChangeClass.RBAC, Severity.DANGER, "may now do everything with * of *"),
            id="a controller may do everything",
        ),
        pytest.param(
            {"kind": "Deployment", "name": "source-controller"},
            operation("replace", "/spec/template/spec/containers/0/resources/limits/memory", "2Gi"),
            (ChangeClass.RESOURCES, Severity.NOTICE, "containers[manager].resources.limits.memory"),
            id="a raised limit",
        ),
        pytest.param(
            {"kind": "Deployment", "name": "source-controller"},
            operation("add", "/spec/template/spec/containers/0/securityContext/privileged", value=True),
            (ChangeClass.SECURITY_CONTEXT, Severity.DANGER, "containers[manager].securityContext.privileged"),
            id="privileged",
        ),
    ],
)
def test_what_a_new_patch_does_is_told_by_its_class(
    golden: Path, target: dict[str, str], patch: str, told_as: tuple[ChangeClass, Severity, str]
) -> None:
    patched = {**overlay(patches=[{"target": target, "path": "own.yaml"}]), "own.yaml": patch}
    belongs_to, severity, words = told_as
    for before in (overlay(), overlay(labels=[{"pairs": {"team": "a"}}])):
        (change,) = (
            it
            for it in step(golden, ("v2.9.4", "v2.9.4"), before, patched).changes
            if it.kind is not ChangeKind.METADATA
        )
        assert (change.belongs_to, change.severity) == (belongs_to, severity)
        assert change.sentence.endswith(f"{words}, by kustomization.yaml and own.yaml")


def test_a_prune_is_shown_by_its_objects(golden: Path) -> None:
    found = step(golden, ("v2.6.4", "v2.7.0"), {}, {"kustomization.yaml": LIST | {"namespace": "gitops"}})
    assert {each.namespace for each in found.pruned} == {"flux-system", ""}
    assert {str(each) for each in found.pruned if not each.namespace} == {"Namespace flux-system"}
    assert told(found, Certainty.POSSIBLE) == [
        "Namespace flux-system is not applied any more: a Kustomization that prunes deletes it, with everything in it"
    ]


KINDS = [
    "",
    "Deployment",
    "Deploy.*",
    "ClusterRole|Deployment",
    "CustomResourceDefinition",
    "Service",
    "Ghost",
    "deployment",
]
NAMES = [
    "",
    "source-controller",
    "our-source-controller",
    ".*-controller",
    "(source|helm)-controller",
    "source",
    "our-.*",
    "[a-z-]+$",
]
NAMESPACES = ["", "", "flux-system", "gitops", "default", "flux.*", "_non_namespaceable_"]
GROUPS = ["", "", "apps", "rbac.*", "apps|rbac.authorization.k8s.io", "core"]
VERSIONS = ["", "", "v1", "v1beta.*", "v1|v2"]
LABELS = [
    "",
    "",
    "app.kubernetes.io/part-of=flux",
    "app.kubernetes.io/part-of!=flux",
    "app.kubernetes.io/component in (source-controller, helm-controller)",
    "app.kubernetes.io/component notin (source-controller),app.kubernetes.io/part-of",
    "!app.kubernetes.io/component",
    "team=platform",
    "team",
]
PATCHES = [
    '{"apiVersion": "v1", "kind": "Any", "metadata": {"name": "any", "labels": {"team": "platform"}}}',
    '{"apiVersion": "v1", "kind": "Any", "metadata": {"name": "any", "labels": {"app.kubernetes.io/part-of": null}}}',
    '[{"op": "add", "path": "/metadata/labels", "value": {"team": "other"}}]',
    '[{"op": "replace", "path": "/metadata/labels/app.kubernetes.io~1part-of", "value": "mine"}]',
    '{"apiVersion": "v1", "kind": "Any", "metadata": {"name": "any"}, "$patch": "delete"}',
]


def one_of(chance: random.Random) -> dict[str, object]:
    """Return an overlay of some layers whose patches select by whatever there is."""

    def patches() -> list[dict[str, object]]:
        found: list[dict[str, object]] = []
        for _ in range(chance.randint(1, 4)):
            fields = {"kind": KINDS, "name": NAMES, "namespace": NAMESPACES, "group": GROUPS, "version": VERSIONS}
            target = {key: value for key, values in fields.items() if (value := chance.choice(values))}
            if labels := chance.choice(LABELS):
                target["labelSelector"] = labels
            weights = [6, 3, 3, 1, 1]
            found.append({"target": target, "patch": chance.choices(PATCHES, weights)[0]})
        return found

    def layer(**more: object) -> dict[str, object]:
        fields = {
            "namePrefix": chance.choice([None, "our-"]),
            "nameSuffix": chance.choice([None, None, "-x"]),
            "namespace": chance.choice([None, "gitops"]),
            "labels": chance.choice([None, [{"pairs": {"team": "platform"}}]]),
        }
        return more | {"patches": patches()} | {key: value for key, value in fields.items() if value}

    return {
        "kustomization.yaml": layer(resources=["base"], components=["part"]),
        "base/kustomization.yaml": layer(resources=["../flux-system"]),
        "flux-system/kustomization.yaml": layer(resources=["gotk-components.yaml"]),
        "part/kustomization.yaml": layer(apiVersion="kustomize.config.k8s.io/v1alpha1", kind="Component"),
    }


@pytest.mark.parametrize("seed", share([*range(0, 80, 2), *range(1, 80, 2)]))
def test_marks_change_nothing_but_what_they_mark(seed: int, golden: Path) -> None:
    """What each rule selects, the kustomize of the marks says itself: here every object and every rule is looked at."""
    files = tree(golden, "v2.6.4" if seed % 2 else "v2.9.4", one_of(random.Random(seed)))  # noqa: S311  # the same each time
    whole = applied_folder(files, ".", Effort())
    with_marks = marked(whole.tree, whole.gathered.kustomizations, Effort())
    plain, found = kustomize().builds([(files, "."), (with_marks.tree, ".")])
    if isinstance(plain, BuildFailed):
        assert isinstance(found, BuildFailed)
        return
    assert isinstance(found, str)
    assert unmarked(found) == plain
    told = read_marks(found, with_marks.rules)
    assert told.ids == {each.id for each in read_objects(str(plain))}
    assert selected_by_annotation(files) == selected_by_marks(told, found)


HOSTILE = {
    "a plugin": ({"generators": ["x.yaml"]}, "external plugins disabled"),
    "a program": ({"generators": ["exec.yaml"]}, "external plugins disabled"),
    "a chart": ({"helmCharts": [{"name": "x", "repo": "https://acme.example"}]}, "must specify --enable-helm"),
    "a file of the machine": ({"configMapGenerator": [{"name": "x", "files": ["../../../etc/passwd"]}]}, "passwd"),
    "an absolute path": ({"resources": ["/etc/passwd"]}, "/etc/passwd"),
    "itself": ({"resources": ["."]}, "cycle detected"),
    "values of values of values": ({"resources": ["bomb.yaml"]}, "kustomize|memory|YAML"),
}
EIGHTS = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
BOMB = "\n".join(["kind: ConfigMap", "metadata: {name: b}", "a0: &a0 [x, x, x, x, x, x, x, x]", *EIGHTS])


@pytest.mark.parametrize("name", HOSTILE)
def test_what_would_do_harm_does_not(name: str, golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "_SECONDS", 5)
    fields, reason = HOSTILE[name]
    maker = "apiVersion: acme.example/v1\nkind: Maker\nmetadata:\n  name: x\n"
    function = "  annotations: {config.kubernetes.io/function: 'exec: {path: ./run.sh}'}\n"
    others = {
        "x.yaml": maker,
        "exec.yaml": maker + function,
        "bomb.yaml": BOMB,
        "run.sh": "#!/bin/sh\ntouch /tmp/ran\n",
    }
    files = tree(golden, "v2.9.4", {"kustomization.yaml": fields} | others)
    (said,) = kustomize().builds([(files, ".")])
    assert isinstance(said, BuildFailed)
    assert re.search(reason, str(said))
    assert "root:" not in str(said)


def test_a_new_cluster_has_the_images_of_the_guide_from_the_start(golden: Path) -> None:
    guide = (Path(__file__).parents[2] / "docs/guides/one-cluster-differs.md").read_text()
    _, _, block = guide.partition("## Images from another registry")[2].partition("```yaml\n")
    spec = yaml.safe_load(block.partition("```")[0])["sync"]["kustomization"]
    folder = applied_folder(tree(golden, "v2.9.4", {}), ".", Effort())
    (built,) = kustomize().builds([(as_applied(folder, spec, Effort()).tree, ".")])
    assert isinstance(built, str), built
    order = install_order(KEYLESS, built, "", "1m", "r")
    controllers = order.steps[1].text
    assert re.findall(r"image: (\S+)/fluxcd/", controllers) == ["registry.edge.example"] * 4
    assert [it.command for it in order.secrets] == [
        (
            "kubectl -n flux-system create secret docker-registry pull-images --docker-server=registry.edge.example "
            "--docker-username=USER --docker-password=TOKEN"
        )
    ]
