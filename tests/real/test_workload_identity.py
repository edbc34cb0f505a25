"""Overlays of docs/guides/workload-identity.md build with real kustomize, and the API server takes what they make."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.real.peers import peer
from tests.real.processes import run

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.real.cluster import Cluster, Object

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/guides/workload-identity.md").read_text()
BLOCKS = {
    title: block
    for title, section in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    for block in re.findall(r"^```yaml\n(apiVersion: kustomize.*?)^```", section, re.MULTILINE | re.DOTALL)
}
RELEASES = ("v2.6.4", "v2.9.4")
ARN = "arn:aws:iam::111122223333:role/flux-source"
IRSA, GKE = "eks.amazonaws.com/role-arn", "iam.gke.io/gcp-service-account"


class Seen:
    """What the cluster has after an overlay was applied."""

    def __init__(self, account: Object, deployment: Object) -> None:
        self.annotations: dict[str, str] = account["metadata"].get("annotations", {})
        self.labels: dict[str, str] = deployment["spec"]["template"]["metadata"]["labels"]
        pod = deployment["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        self.args: list[str] = container["args"]
        self.variables = {it["name"]: it.get("value") for it in container["env"]}
        self.mounts = {it["name"]: it["mountPath"] for it in container["volumeMounts"]}
        self.volumes: dict[str, Any] = {it["name"]: it for it in pod["volumes"]}

    def audience(self, volume: str) -> str:
        """Return whom the projected token of a volume is for."""
        (source,) = self.volumes[volume]["projected"]["sources"]
        audience: str = source["serviceAccountToken"]["audience"]
        return audience


# What the overlays are for, in their order: each comes after the one before it on the same cluster.
EXPECTED: dict[str, Callable[[Seen], bool]] = {
    "AWS: IAM roles for service accounts (IRSA)": lambda it: it.annotations[IRSA] == ARN,
    "AWS: EKS Pod Identity": lambda it: IRSA not in it.annotations,
    "AWS: clusters outside of EKS": lambda it: (
        it.variables["AWS_ROLE_ARN"] == ARN
        and it.variables["AWS_WEB_IDENTITY_TOKEN_FILE"] == f"{it.mounts['aws-token']}/token"
        and it.audience("aws-token") == "sts.amazonaws.com"
    ),
    "Azure: workload identity": lambda it: (
        it.labels["azure.workload.identity/use"] == "true"
        and {"azure.workload.identity/client-id", "azure.workload.identity/tenant-id"} <= it.annotations.keys()
    ),
    "Google Cloud: GKE, as an IAM service account": lambda it: it.annotations[GKE].endswith("gserviceaccount.com"),
    "Google Cloud: GKE, as a principal": lambda it: GKE not in it.annotations,
    "Google Cloud: any other cluster, as a principal": lambda it: (
        it.variables["GOOGLE_APPLICATION_CREDENTIALS"] == f"{it.mounts['gcp-credentials']}/credentials.json"
        and it.audience("gcp-token").startswith("https://iam.googleapis.com/projects/")
    ),
    "One identity for each object": lambda it: "--feature-gates=ObjectLevelWorkloadIdentity=true" in it.args,
}


def test_each_overlay_of_the_page_is_in_the_table() -> None:
    assert [*BLOCKS] == [*EXPECTED]


@pytest.mark.parametrize("release", RELEASES)
def test_the_overlays_build_and_the_api_server_takes_them(
    cluster: Cluster, golden: Path, tmp_path: Path, release: str
) -> None:
    text = gzip.decompress((golden / "text" / release / "default.yaml.gz").read_bytes()).decode()
    (tmp_path / "flux-system").mkdir()
    (tmp_path / "flux-system" / "gotk-components.yaml").write_text(text)
    for title, block in BLOCKS.items():
        (tmp_path / "kustomization.yaml").write_text(block)
        built = yaml.load_all(run([peer("kustomize"), "build", tmp_path]), yaml.CSafeLoader)
        wanted = [it for it in built if it["kind"] not in {"CustomResourceDefinition", "Service", "NetworkPolicy"}]
        cluster.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": wanted}))
        account, deployment = (cluster.get(kind, "source-controller") for kind in ("serviceaccount", "deployment"))
        assert account is not None
        assert deployment is not None
        seen = Seen(account, deployment)
        assert EXPECTED[title](seen), title
        for volume in seen.volumes.values():
            if "configMap" in volume:
                found = cluster.get("configmap", volume["configMap"]["name"])
                assert found is not None
                assert json.loads(found["data"]["credentials.json"])["type"] == "external_account"
