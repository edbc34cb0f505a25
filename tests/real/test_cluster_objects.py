"""The API server takes the objects that `sync-manifests` prints, with the CRDs of every minor release of Flux.

What it does not take, the program refuses before, by the CRDs in the artifact.
"""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from msgspec.structs import replace

from ci_automation.artifact.reference import Reference
from ci_automation.flux.following import FleetSettings, SyncSettings, unfit_fields
from ci_automation.flux.version import Version
from ci_automation.policy.patterns import is_found
from ci_automation.report.sync import ByIdentity, Sync
from tests.real.processes import ProgramFailed
from tests.unit.report.syncs import ISSUER, KEYED, KEYLESS, SUBJECT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.real.cluster import Cluster, Object

RELEASES = ("v2.2.3", "v2.3.0", "v2.5.1", "v2.6.4", "v2.7.5", "v2.8.8", "v2.9.4")
HEALTH = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "source-controller", "namespace": "flux-system"}
SOURCE = {
    "provider": "generic",
    "secretRef": {"name": "pull"},
    "certSecretRef": {"name": "ca"},
    "serviceAccountName": "puller",
    "timeout": "90s",
    "interval": "5m",
    "ignore": "/*.md\n!/README.md",
    "layerSelector": {"mediaType": "application/vnd.cncf.flux.content.v1.tar+gzip", "operation": "extract"},
}
KUSTOMIZATION = {
    "interval": "30m",
    "retryInterval": "2m",
    "timeout": "5m",
    "wait": False,
    "force": False,
    "prune": False,
    "healthChecks": [HEALTH, {**HEALTH, "name": "kustomize-controller"}],
    "decryption": {"provider": "sops", "secretRef": {"name": "age"}},
    "dependsOn": [{"name": "first"}],
    "postBuild": {"substitute": {"cluster": "production"}, "substituteFrom": [{"kind": "ConfigMap", "name": "x"}]},
    "patches": [{"target": {"kind": "Deployment"}, "patch": "- op: add\n  path: /metadata/labels/a\n  value: b\n"}],
    "serviceAccountName": "kustomize-controller",
}
FLEET = FleetSettings(
    Reference.parse("oci://ghcr.io/acme/fleet:production"),
    "./clusters/production",
    source={"secretRef": {"name": "pull"}},
    kustomization={"dependsOn": [{"name": "flux-manifests"}], "wait": True},
)
TEXTS = {"app.kubernetes.io/part-of": "fleet", "on": "1"}


def with_spec(source: Mapping[str, Any], kustomization: Mapping[str, Any] | None = None) -> Sync:
    settings = SyncSettings(
        "own", "flux-system", TEXTS, TEXTS, source=source, kustomization=kustomization or {}, fleet=FLEET
    )
    return replace(KEYLESS, settings=settings)


TAKEN = {
    "by default": KEYLESS,
    "by a key": KEYED,
    "everything": with_spec(SOURCE, KUSTOMIZATION),
    "a range": with_spec({"ref": {"semver": ">=2.9.0 <3.0.0"}}),
    "a digest": with_spec({"ref": {"digest": "sha256:" + "1" * 64}}),
    "a cloud": with_spec({"provider": "azure"}),
    "two entries": replace(KEYLESS, verify=ByIdentity(((ISSUER, SUBJECT), ("^https://b$", "^b$")), apart=True)),
    "an own Sigstore": replace(
        with_spec({"verify": {"trustedRootSecretRef": {"name": "root"}}}),
        verify=ByIdentity(((ISSUER, SUBJECT),), "root"),
    ),
    "a proxy": with_spec({"proxySecretRef": {"name": "proxy"}}),
    "a filter": with_spec({"ref": {"semver": "*", "semverFilter": "^v2"}}),
    "CEL": with_spec({}, {"healthCheckExprs": [{"apiVersion": "v1", "kind": "X", "current": "true"}]}),
    "a policy of deletion": with_spec({}, {"deletionPolicy": "Orphan"}),
    "a slip": with_spec({"secretref": {"name": "pull"}}),
    "a text for a truth": with_spec({"insecure": "yes"}),
    "another provider": with_spec({"provider": "acme"}),
    "a timeout without a unit": with_spec({"timeout": "90"}),
    "a health check without a name": with_spec({}, {"healthChecks": [{"kind": "Deployment"}]}),
    "a number for a text": with_spec({}, {"postBuild": {"substitute": {"a": 1}}}),
    "a text for a list": with_spec({}, {"patches": "x"}),
}
SLIPS = [*TAKEN][-7:]
# The first release that takes it; the rest, but for slips, all take.
SINCE = {
    "an own Sigstore": "v2.9.0",
    "a proxy": "v2.4.0",
    "a filter": "v2.3.0",
    "CEL": "v2.5.0",
    "a policy of deletion": "v2.5.0",
    **dict.fromkeys(SLIPS, "v9.0.0"),
}


@pytest.mark.parametrize("release", RELEASES)
def test_the_api_server_takes_what_the_program_prints_and_refuses_what_it_refuses(
    cluster: Cluster, golden: Path, release: str
) -> None:
    text = gzip.decompress((golden / "text" / release / "default.yaml.gz").read_bytes()).decode()
    parts = [each for each in yaml.load_all(text, yaml.CSafeLoader) if each["kind"] in _NEEDED]
    wanted = [each for each in parts if each["kind"] == "Namespace" or each["spec"]["names"]["kind"] in _KINDS]
    if crds := [each["metadata"]["name"] for each in wanted if each["kind"] != "Namespace"]:
        cluster.kubectl("delete", "crd", "--ignore-not-found", *crds)
    cluster.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": wanted}))
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", *(f"crd/{name}" for name in crds))
    version = Version.parse(release)
    made = {name: replace(each, version=version) for name, each in TAKEN.items()}
    taken = [each for name, each in made.items() if name not in SINCE]
    cluster.try_out("".join(each.to_yaml() for each in taken), "tests")
    assert [problem for each in taken for problem in _unfit(each, text)] == []
    slips = set(SLIPS) if release not in (RELEASES[0], RELEASES[-1]) else set()
    for name in SINCE.keys() - slips:
        refused, sync = _refused(cluster, made[name].to_yaml()), made[name]
        assert bool(refused) == (version < Version.parse(SINCE[name])), f"{name}: {refused}"
        assert bool(_unfit(sync, text)) == bool(refused), f"{name}: {refused}"


_NEEDED = frozenset({"Namespace", "CustomResourceDefinition"})
_KINDS = frozenset({"OCIRepository", "Kustomization"})


def _refused(cluster: Cluster, text: str) -> str:
    try:
        cluster.try_out(text, "tests")
    except ProgramFailed as error:
        return str(error)
    return ""


def _unfit(sync: Sync, components: str) -> list[str]:
    found: list[Object] = [*sync.objects()]
    return [
        each for it in found for each in unfit_fields(it["spec"], it["apiVersion"], it["kind"], components, is_found)
    ]


def test_the_templates_of_secrets_make_secrets(cluster: Cluster) -> None:
    settings = with_spec({**SOURCE, "proxySecretRef": {"name": "proxy"}}, KUSTOMIZATION).settings
    sync = replace(KEYLESS, namespace="own", settings=replace(settings, namespace="own"))
    sync = replace(sync, pulls_images=("images", "ghcr.io"))
    cluster.kubectl("create", "namespace", sync.home)
    (cluster.folder / "ca.crt").write_text("a certificate")
    (cluster.folder / "age.agekey").write_text("a key")
    kinds = {}
    for each in sync.needs():
        cluster.shell(f"cd {cluster.folder} && {each.command}")
        found = cluster.get("secret", each.name, "own")
        assert found is not None
        kinds[each.name] = (found["type"].rpartition("/")[2], sorted(found["data"]))
    login = ("dockerconfigjson", [".dockerconfigjson"])
    assert kinds == {
        "images": login,
        "pull": login,
        "ca": ("Opaque", ["ca.crt"]),
        "proxy": ("Opaque", ["address"]),
        "age": ("Opaque", ["age.agekey"]),
    }
