from __future__ import annotations

import pytest
import yaml
from msgspec.structs import replace

from ci_automation.flux.following import SyncSettings
from ci_automation.impact.overlay.bootstrapped import AppliedPath
from ci_automation.report.bootstrap import built_objects, install_order, migration_steps
from ci_automation.report.sync import ByIdentity
from tests.unit.report.syncs import ISSUER, KEYED, KEYLESS, SUBJECT

BUILT = """\
apiVersion: v1
kind: Namespace
metadata:
  name: flux-system
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: things.example
spec:
  names:
    kind: Thing
---
apiVersion: apps/v1
kind: Deployment
metadata:
  labels:
    app.kubernetes.io/part-of: flux
  name: source-controller
  namespace: flux-system
---
apiVersion: apps/v1
kind: Deployment
metadata:
  labels:
    app.kubernetes.io/part-of: other
  name: other
---
apiVersion: v1
kind: Secret
metadata:
  name: encrypted
sops:
  mac: x
---
items: []
"""


def test_each_document_is_known_by_its_kind_and_name_and_what_is_encrypted_is_left_out() -> None:
    assert [(it.kind, it.name, it.namespace, it.of_flux) for it in built_objects(BUILT)] == [
        ("Namespace", "flux-system", "", False),
        ("CustomResourceDefinition", "things.example", "", False),
        ("Deployment", "source-controller", "flux-system", True),
        ("Deployment", "other", "", False),
        ("", "", "", False),
    ]


def test_the_order_is_definitions_controllers_source_and_what_applies_it_and_each_is_awaited() -> None:
    order = install_order(KEYED, BUILT, "kind: Secret\n", "5m", "production@sha256:1")
    assert order.told("out").splitlines() == [
        "  1. The namespace and the CRDs",
        "     kubectl apply --server-side --force-conflicts -f out/1-definitions.yaml",
        "     kubectl wait --for=condition=Established --timeout=5m crd/things.example",
        "  2. The controllers of Flux v2.9.4",
        "     kubectl apply --server-side --force-conflicts -f out/2-controllers.yaml",
        "     kubectl -n flux-system rollout status deployment/source-controller --timeout=5m",
        "  3. The object that follows oci://ghcr.io/acme/flux-manifests:production, which must find what was verified",
        "     kubectl apply --server-side --force-conflicts -f out/3-source.yaml",
        (
            "     kubectl -n flux-system annotate --overwrite ocirepository/flux-manifests "
            "reconcile.fluxcd.io/requestedAt=production@sha256:1"
        ),
        "     kubectl -n flux-system wait --timeout=5m --for=condition=Ready ocirepository/flux-manifests",
        (
            "     kubectl -n flux-system wait --timeout=5m "
            "'--for=jsonpath={.status.artifact.revision}=production@sha256:1' ocirepository/flux-manifests"
        ),
        "  4. The object that applies it",
        "     kubectl apply --server-side --force-conflicts -f out/4-kustomization.yaml",
        "     kubectl -n flux-system wait --timeout=5m --for=condition=Ready kustomization/flux-manifests",
        (
            "     kubectl -n flux-system wait --timeout=5m "
            "'--for=jsonpath={.status.lastAppliedRevision}=production@sha256:1' kustomization/flux-manifests"
        ),
    ]
    kinds = {file.path: [it.get("kind") for it in yaml.safe_load_all(file.content)] for file in order.files().files}
    assert kinds == {
        "1-definitions.yaml": ["Namespace", "CustomResourceDefinition"],
        "2-controllers.yaml": ["Deployment", "Deployment", None],
        "3-source.yaml": ["Secret", "OCIRepository"],
        "4-kustomization.yaml": ["Kustomization"],
    }


def test_objects_in_a_namespace_of_their_own_bring_it() -> None:
    order = install_order(replace(KEYLESS, settings=SyncSettings(namespace="own")), BUILT, "", "1m", "r")
    first = next(yaml.safe_load_all(order.steps[0].text))
    assert (first["kind"], first["metadata"]) == ("Namespace", {"name": "own"})


@pytest.mark.parametrize(("root", "expected"), [("root", ["images", "root"]), (None, ["images"])])
def test_secrets_are_made_after_the_namespace(root: str | None, expected: list[str]) -> None:
    verify = ByIdentity(((ISSUER, SUBJECT),), root)
    sync = replace(KEYLESS, verify=verify, pulls_images=("images", "ghcr.io"))
    order = install_order(sync, BUILT, "", "1m", "r")
    assert [it.name for it in order.secrets] == expected
    told = order.told("out")
    assert told.index("crd/things") < told.index("create secret docker-registry images") < told.index("2. The contr")


PULLING = """\
apiVersion: v1
imagePullSecrets:
- name: of-account
kind: ServiceAccount
metadata:
  labels:
    app.kubernetes.io/part-of: flux
  name: source-controller
  namespace: flux-system
---
apiVersion: apps/v1
kind: Deployment
metadata:
  labels:
    app.kubernetes.io/part-of: flux
  name: source-controller
  namespace: flux-system
spec:
  template:
    spec:
      containers:
      - image: registry.edge.example:5000/fluxcd/source-controller:v1.9.4
        name: manager
      imagePullSecrets:
      - name: images
      - name: made-here
      - name: "123"
      serviceAccountName: source-controller
---
apiVersion: v1
kind: Secret
metadata:
  name: made-here
  namespace: flux-system
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: other
  namespace: flux-system
spec:
  template:
    spec:
      imagePullSecrets:
      - name: of-others
"""


def test_secrets_that_pull_the_controllers_are_listed_as_they_were_built() -> None:
    sync = replace(KEYLESS, pulls_images=("images", "ghcr.io"))  # as the artifact has it, before the images had others
    order = install_order(sync, PULLING, "", "1m", "r")
    assert [(it.namespace, it.name) for it in order.secrets] == [
        ("flux-system", name) for name in ("images", "123", "of-account")
    ]
    server = "--docker-server=registry.edge.example:5000 "
    assert all(server in it.command for it in order.secrets)


def test_an_account_without_a_controller_beside_it_names_no_registry() -> None:
    account = PULLING.partition("---\n")[0]
    (needed,) = install_order(KEYLESS, account, "", "1m", "r").secrets
    assert "--docker-server= " in needed.command


FOLDER = "clusters/production/flux-system"
GIT = (AppliedPath("flux-system", "flux-system", "clusters/production", "flux-system", prune=True),)


@pytest.mark.parametrize("keep_sync", [False, True])
def test_pruning_stops_before_the_folder_leaves_git_and_starts_again_after_it(keep_sync: bool) -> None:
    told = migration_steps(FOLDER, GIT, keep_sync=keep_sync)
    order = [
        "1. In Git, gotk-sync.yaml needs `prune: false`",
        "Flux can delete itself in step 4.",
        "2. Suspend what Git applies",
        "\n     flux -n flux-system suspend kustomization flux-system\n",
        "3. Apply the objects, which are all of the output",
        f"4. {'Delete' if keep_sync else 'In Git, leave'}",
        "5. When the GitRepository has that commit, and not before",
        "\n     flux -n flux-system resume kustomization flux-system\n",
    ]
    places = [told.index(words) for words in (*order, "6. When clusters have applied that, set `prune: true` again")]
    assert places == sorted(places)
    assert "flux-system/flux-system (path ./clusters/production, prune: true)" in told
    assert ("in the artifact" in told) is keep_sync


def test_what_git_does_not_apply_takes_one_step() -> None:
    told = migration_steps(FOLDER, (), keep_sync=False)
    assert "1. Apply the objects, which are all of the output" in told
    assert "2. " not in told
