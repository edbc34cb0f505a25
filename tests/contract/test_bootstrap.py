"""What `bootstrap` makes of a cluster that is not as it needs it, and of a kubectl that fails."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from ci_automation.artifact.reference import Digest
from ci_automation.errors import ClusterError, Error
from ci_automation.flows.bootstrap import (
    AppliedByOthers,
    Installation,
    NotReady,
    OlderThanCluster,
    OtherRevision,
    SecretsMissing,
    bootstrap,
)
from ci_automation.flows.programs.kubectl import (
    ClusterDenies,
    ClusterRefusesLogin,
    ClusterUnreachable,
    Kubectl,
    KubectlFailed,
    NoKubeconfig,
    NoKubectl,
)
from ci_automation.report.bootstrap import install_order
from tests.fakes.world import World
from tests.unit.report.syncs import KEYLESS
from tests.unit.report.test_bootstrap import BUILT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SYNC = replace(KEYLESS, pulls_images=("images", "ghcr.io"))
REVISION = f"production@{Digest.of(b'artifact')}"
PREPARED = Installation(SYNC, Digest.of(b"artifact"), install_order(SYNC, BUILT, "", "1m", REVISION))
NOTHING, OURS = "nothing", "kustomization/flux-manifests"
SECRET: dict[str, Any] = {"secret/images": {}}
APPLIED = "kustomize.toolkit.fluxcd.io/name"
FAILED = {"conditions": [{"status": "True", "message": "fetched"}, {"status": "False", "message": "no signature"}]}


@dataclass
class FakeCluster:
    """A cluster that has some objects, and where a command fails that contains some words; it notes what is applied."""

    there: dict[str, Any]
    fails: str = "nothing"
    applied: list[str] = field(default_factory=list)

    def get(self, name: str, _: str) -> dict[str, Any] | None:
        found = self.there.get(name)
        return None if found is None else {"metadata": {}} | found

    def run(self, words: Sequence[str], text: str | None = None) -> str:
        if self.fails in " ".join(words):
            raise KubectlFailed("timed out waiting for the condition")
        if text is not None:
            self.applied.append(text)
        return ""


VERSION = "app.kubernetes.io/version"
NEWER, SAME, UNKNOWN = (
    {"deployment/source-controller": {"metadata": {"labels": {VERSION: text}}}} for text in ("v2.10.0", "v2.9.4", "x")
)


def owned(name: str, kind: str = "OCIRepository") -> dict[str, Any]:
    labels = {"metadata": {"labels": {APPLIED: name, VERSION: "v2.10.0"}}}
    return {"deployment/source-controller": labels, OURS: {"spec": {"sourceRef": {"kind": kind}}}}


@pytest.mark.parametrize(
    ("there", "fails", "error", "applied", "said"),
    [
        pytest.param(owned("flux-system"), NOTHING, AppliedByOthers, 0, "the Kustomization flux-system", id="Git"),
        pytest.param(
            owned("flux-manifests", "GitRepository"), NOTHING, AppliedByOthers, 0, "a GitRepository", id="same name"
        ),
        pytest.param(
            {"deployment/source-controller": {"metadata": {"labels": {"fluxcd.controlplane.io/name": "flux"}}}},
            *(NOTHING, AppliedByOthers, 0, "the Flux Operator (flux)"),
            id="the operator",
        ),
        pytest.param(NEWER, NOTHING, OlderThanCluster, 0, "runs Flux v2.10.0", id="a newer Flux"),
        pytest.param({}, NOTHING, SecretsMissing, 1, "flux-system/images", id="no Secret"),
        pytest.param(SECRET, "crd/", NotReady, 1, "a CRD did not get ready", id="a CRD is never established"),
        pytest.param(SECRET, "deployment/", NotReady, 2, "deployment/source-controller", id="a controller"),
        pytest.param(SECRET, "Ready ocirepository/", NotReady, 3, "timed out", id="the source, without a message"),
        pytest.param(SECRET, "annotate", KubectlFailed, 3, "timed out", id="the source cannot be looked at anew"),
        pytest.param(
            {**SECRET, "ocirepository/flux-manifests": {"status": FAILED}},
            *("Ready ocirepository/", NotReady, 3, "did not get ready: no signature"),
            id="the source, in its own words",
        ),
        pytest.param(
            {**SECRET, "ocirepository/flux-manifests": {"status": {"artifact": {"revision": "production@sha256:old"}}}},
            *("artifact.revision", OtherRevision, 3, f"is at production@sha256:old, and {REVISION} was verified"),
            id="the source found what was signed before",
        ),
        pytest.param(
            {**SECRET, OURS: {"status": {"lastAppliedRevision": "production@sha256:new"}}},
            *("lastAppliedRevision", OtherRevision, 4, "flux-manifests is at production@sha256:new, and"),
            id="another digest is applied",
        ),
        pytest.param(SECRET, "apply", KubectlFailed, 0, "timed out", id="the API server refuses"),
    ],
)
def test_it_stops_with_the_cause_and_applies_nothing_after_it(
    there: dict[str, Any], fails: str, error: type[Error], applied: int, said: str
) -> None:
    cluster = FakeCluster(there, fails)
    with pytest.raises(error, match=said.replace("(", r"\(").replace(")", r"\)")) as stopped:
        bootstrap(PREPARED, cluster, World().ports())  # type: ignore[arg-type]  # what it does, and no more
    assert len(cluster.applied) == applied
    assert stopped.value.hint
    assert stopped.value.exit_code == (23 if issubclass(error, ClusterError) else 12 if error is OtherRevision else 11)


@pytest.mark.parametrize(
    "there", [{}, SAME, UNKNOWN, owned("flux-manifests")], ids=["empty", "same", "unknown", "ours"]
)
def test_it_goes_on_where_nobody_else_applies_flux(there: dict[str, Any]) -> None:
    cluster = FakeCluster({**SECRET, **there})
    cluster.there.setdefault(OURS, {})["status"] = {"lastAppliedRevision": "production@sha256:1"}
    assert bootstrap(PREPARED, cluster, World().ports()) == "production@sha256:1"  # type: ignore[arg-type]
    assert cluster.applied == [step.text for step in PREPARED.order.steps]


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("The connection to the server 127.0.0.1:9 was refused - did you specify the right host?", ClusterUnreachable),
        ("error: You must be logged in to the server (Unauthorized)", ClusterRefusesLogin),
        ('Error from server (Forbidden): namespaces "a" is forbidden: User "b" cannot patch', ClusterDenies),
        ("The Deployment is invalid", KubectlFailed),
        ("", KubectlFailed),
    ],
)
def test_each_way_in_which_kubectl_fails_has_its_own_error(tmp_path: Path, said: str, error: type[Error]) -> None:
    program, kubeconfig = tmp_path / "kubectl", tmp_path / "config"
    program.write_text(f"#!/bin/sh\necho 'W1122 noise' >&2\necho '{said}' >&2\nexit 1\n")
    program.chmod(0o755)
    kubeconfig.write_text("")
    kubectl = Kubectl.find(kubeconfig, "own", {"PATH": str(tmp_path)})
    with pytest.raises(error) as failed:
        kubectl.get("deployment/a", "b")
    assert said in str(failed.value)
    assert type(failed.value) is error
    program.write_text('#!/bin/sh\necho "{\\"is\\": \\"$*\\"}"\n')
    words = (
        f"--kubeconfig={kubeconfig} --context=own get a/b -n c --ignore-not-found --output=json --request-timeout=1m"
    )
    assert kubectl.get("a/b", "c") == {"is": words}
    program.write_text("no program")
    with pytest.raises(KubectlFailed, match="could not be started"):
        kubectl.get("a/b", "c")


def test_kubectl_and_the_kubeconfig_have_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(NoKubeconfig):
        Kubectl.find(tmp_path / "none", None, os.environ)
    (tmp_path / "config").write_text("")
    with pytest.raises(NoKubectl):
        Kubectl.find(tmp_path / "config", None, {"PATH": str(tmp_path)})
