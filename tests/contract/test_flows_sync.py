"""What `sync-manifests` prints fits the artifact that it is asked about, and whoever is trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from msgspec.structs import replace

from ci_automation.artifact.manifest import CONFIG_BLOB, Manifest
from ci_automation.artifact.reference import Digest, Reference
from ci_automation.errors import VerificationFailed
from ci_automation.flows.bootstrap import NotBuildable, prepare
from ci_automation.flows.sync import NoTagInRange, UnfitSettings, UnfitVerification, sync, unfit_for
from ci_automation.flux.artifact import Recipe, compose
from ci_automation.flux.following import FleetSettings, SyncSettings
from ci_automation.flux.options import Options
from ci_automation.flux.render import render
from ci_automation.flux.version import Version
from ci_automation.impact.overlay.builder import BuildFailed
from ci_automation.policy.model import SignatureFormat
from ci_automation.policy.patterns import UnanchoredPattern
from ci_automation.registry.port import NotFound
from ci_automation.report.sync import InvalidSync, NotForClusters
from ci_automation.signing.cluster import ClusterWouldRefuse
from ci_automation.signing.trust import NobodyTrusted
from ci_automation.signing.verify import Unsigned, ensure_signed
from tests.fakes.trust import THEM, US, trust
from tests.fakes.world import CHANNEL, OVERLAY, World, signing_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci_automation.flows.ports import Ports
    from ci_automation.impact.overlay.builder import Build

OPTIONS = Options(namespace="flux-infra")
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  labels:
    app.kubernetes.io/part-of: flux
  name: {name}
  namespace: flux-infra
spec:
  template:
    spec:
      containers:
      - image: {host}/fluxcd/{name}:v1.0.0
        name: manager
"""


@pytest.fixture
def ports() -> Ports:
    """Return a world whose channel has a release, signed by our key and by nobody else."""
    ports = World().ports()
    version = Version.parse("v2.98.5")
    release = ports.releases.fetch(version)
    components = render(release.bundle, version, OPTIONS)
    path = "flux-system/gotk-components.yaml"
    made = compose(Recipe(version, release.commit, release.bundle.digest, OPTIONS, components, OVERLAY, path))
    for blob in (made.recipe.layer, CONFIG_BLOB):
        ports.registry.put_blob(CHANNEL, blob)
    ports.registry.put_manifest(CHANNEL, made.manifest)
    assert ports.signer is not None
    ensure_signed(ports.registry, CHANNEL, made.digest, ports.signer, SignatureFormat.LEGACY)
    return ports


def objects(ports: Ports, **settings: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what is printed, as a cluster reads it."""
    found = sync(CHANNEL, ports, SyncSettings(**settings))[0]
    source, kustomization = yaml.safe_load_all(found.to_yaml())
    return source, kustomization


def test_namespace_version_and_folder_are_those_of_the_artifact(ports: Ports) -> None:
    source, kustomization = objects(ports)
    assert source["apiVersion"] == "source.toolkit.fluxcd.io/v1"
    assert (source["metadata"]["name"], source["metadata"]["namespace"]) == ("flux-manifests", "flux-infra")
    assert source["spec"]["url"] == "oci://registry.example/acme/flux-manifests"
    assert kustomization["spec"]["path"] == "./"  # where the overlay's kustomization is


def test_the_key_that_verifies_here_is_named(ports: Ports) -> None:
    source, _ = objects(ports)
    assert source["spec"]["verify"] == {"provider": "cosign", "secretRef": {"name": "flux-manifests-keys"}}
    text = sync(CHANNEL, ports, SyncSettings(secret="own"))[0].to_yaml()
    assert str(signing_key().public.fingerprint) in text
    assert "public-key cosign.pub --secret own --namespace flux-infra" in text


@pytest.mark.parametrize("custom", [True, False], ids=["an own Sigstore", "the public one"])
def test_identities_are_one_entry_and_an_own_root_is_a_secret(
    ports: Ports, monkeypatch: pytest.MonkeyPatch, custom: bool
) -> None:
    monkeypatch.setattr("ci_automation.flows.observe.verify", lambda *_: None)  # that it verifies is others' test
    source, _ = objects(replace(ports, trusted=trust(US, THEM, custom=custom)))
    verify = source["spec"]["verify"]
    assert len(verify["matchOIDCIdentity"]) == 1
    assert verify.get("trustedRootSecretRef") == ({"name": "flux-manifests-trusted-root"} if custom else None)


def test_what_would_not_be_accepted_is_not_printed(ports: Ports) -> None:
    with pytest.raises(VerificationFailed):
        objects(replace(ports, trusted=World().ports(trusted="theirs").trusted))


def test_without_anybody_to_trust_there_is_nothing_to_verify(ports: Ports) -> None:
    with pytest.raises(NobodyTrusted):
        objects(replace(ports, trusted=None))


def test_a_folder_is_refused_before_it_is_read(ports: Ports) -> None:
    with pytest.raises(NotForClusters):
        sync(Reference.parse("layout:nowhere:production"), ports)


def test_the_ref_is_the_teams_and_what_it_selects_is_verified(ports: Ports) -> None:
    digest = str(ports.registry.resolve(CHANNEL))
    source, _ = objects(ports, source={"ref": {"digest": digest}})
    assert source["spec"]["ref"] == {"digest": digest}
    older = Digest.of(b"another")
    with pytest.raises(NotFound):
        objects(ports, source={"ref": {"digest": str(older)}})
    with pytest.raises(NoTagInRange):
        objects(ports, source={"ref": {"semver": "2.98.x"}})  # only the channel is there
    manifest = ports.registry.manifest(CHANNEL)
    for tag in ("v2.98.5", "v2.98.4-0123456789ab", "latest"):
        ports.registry.put_manifest(CHANNEL.at_tag(tag), manifest)
    planted = Manifest.build(manifest.config, manifest.layers, {"planted": "unsigned"})
    for tag in ("v2.98.9", "v2.99.0"):
        ports.registry.put_manifest(CHANNEL.at_tag(tag), planted)
    with pytest.raises(Unsigned):
        objects(ports, source={"ref": {"semver": "2.98.x"}})  # the newest of the range has no signature
    for ref in ({"semver": "<=2.98.5"}, {"semver": "2.98.x", "semverFilter": "5$"}, {"tag": "latest"}):
        assert objects(ports, source={"ref": ref})[0]["spec"]["ref"] == ref


def test_several_entries_are_printed_only_where_the_deployed_flux_accepts_them(
    ports: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = [{"issuer": f"^{US.issuer}$", "subject": f"^{each.subject}$"} for each in (US, THEM)]
    own = {"source": {"verify": {"matchOIDCIdentity": entries, "trustedRootSecretRef": {"name": "root"}}}}
    with pytest.raises(UnfitVerification):
        objects(ports, **own)
    monkeypatch.setattr("ci_automation.flows.observe.verify", lambda *_: None)  # that it verifies is others' test
    keyless = replace(ports, trusted=trust(US, custom=True))
    with pytest.raises(ClusterWouldRefuse):
        objects(keyless, **own)
    monkeypatch.setattr("ci_automation.flows.sync.require_accepted_there", lambda *_: None)
    verify = objects(keyless, **own)[0]["spec"]["verify"]
    assert (verify["matchOIDCIdentity"], verify["trustedRootSecretRef"]) == (entries, {"name": "root"})
    with pytest.raises(UnanchoredPattern):
        objects(keyless, source={"verify": {"matchOIDCIdentity": [{"issuer": "^a$", "subject": "b"}]}})


def test_a_field_that_the_deployed_flux_lacks_is_told_with_its_place(ports: Ports) -> None:
    fleet = FleetSettings(Reference.parse("oci://registry.example/acme/fleet:main"), kustomization={"pruned": True})
    with pytest.raises(UnfitSettings) as refused:
        objects(ports, source={"urll": "x", "interval": 5}, fleet=fleet)
    assert "Flux v2.98.5: source.urll is not known; did you mean url?; source.interval must be a text" in str(refused)


def test_the_secret_of_the_images_is_named_with_its_registry(ports: Ports) -> None:
    assert not sync(CHANNEL, ports)[0].needs()
    version = Version.parse("v2.98.5")
    release = ports.releases.fetch(version)
    options = replace(OPTIONS, image_pull_secret="images", registry="mirror.example/fluxcd")
    components = render(release.bundle, version, options)
    path = "flux-system/gotk-components.yaml"
    recipe = Recipe(version, release.commit, release.bundle.digest, options, components, OVERLAY, path)
    made = compose(recipe)
    ports.registry.put_blob(CHANNEL, made.recipe.layer)
    ports.registry.put_manifest(CHANNEL, made.manifest)
    assert ports.signer is not None
    ensure_signed(ports.registry, CHANNEL, made.digest, ports.signer, SignatureFormat.LEGACY)
    (needed,) = sync(CHANNEL, ports)[0].needs()
    assert needed.command.startswith(
        "kubectl -n flux-infra create secret docker-registry images --docker-server=mirror.example "
    )


class Builder:
    """A kustomize that gives what the test says, and notes what it builds."""

    def __init__(self, given: str | BuildFailed) -> None:
        self.given = given
        self.asked: list[Build] = []

    def builds(self, wanted: Sequence[Build]) -> tuple[str | BuildFailed, ...]:
        self.asked += wanted
        return (self.given,) * len(wanted)


def test_what_is_installed_first_is_verified_and_built_with_the_keys_beside_it(ports: Ports) -> None:
    builder = Builder("kind: Namespace\nmetadata:\n  name: flux-infra\n")
    made = prepare(CHANNEL, replace(ports, find_kustomize=lambda: builder), SyncSettings(), None, "1m")
    assert ([folder for _, folder in builder.asked], made.digest) == (["."], ports.registry.resolve(CHANNEL))
    first, _, source, applied = (list(yaml.safe_load_all(step.text)) for step in made.order.steps)
    assert [it["metadata"]["name"] for it in first] == ["flux-infra"]
    assert [it["kind"] for it in (*source, *applied)] == ["Secret", "OCIRepository", "Kustomization"]
    assert f"{{.status.artifact.revision}}=production@{made.digest}" in made.order.told("")
    assert source[0]["stringData"] == {"cosign.pub": signing_key().public.to_pem()}


def test_what_is_installed_first_has_the_patches_and_images_of_the_channel(ports: Ports) -> None:
    image = {"name": "ghcr.io/fluxcd/source-controller", "newName": "registry.edge.example/fluxcd/source-controller"}
    hosts = {"source-controller": "registry.edge.example", "helm-controller": "ghcr.io"}
    builder = Builder("---\n".join(DEPLOYMENT.format(name=name, host=host) for name, host in hosts.items()))
    settings = SyncSettings(kustomization={"images": [image]})
    made = prepare(CHANNEL, replace(ports, find_kustomize=lambda: builder), settings, None, "1m")
    sentence = "`images` in `sync.kustomization` renames 1 of 2 controllers, and leaves helm-controller at ghcr.io"
    assert made.unfit[-1] == sentence
    tree, folder = builder.asked[0]
    assert folder == "."
    assert yaml.safe_load(tree["kustomization.yaml"])["images"] == [image]


@pytest.mark.parametrize("builder", [None, Builder(BuildFailed("no such file"))], ids=["none", "it fails"])
def test_what_cannot_be_built_is_not_installed(ports: Ports, builder: Builder | None) -> None:
    with pytest.raises(NotBuildable):
        prepare(CHANNEL, replace(ports, find_kustomize=lambda: builder), SyncSettings(), None, "1m")


def test_patches_and_images_of_a_cluster_that_are_not_checked_are_told(
    ports: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = SyncSettings(kustomization={"images": [{"name": "a", "newName": "b"}]})
    made, _, tree = sync(CHANNEL, ports, settings, None)
    assert unfit_for(made, tree, ports) == (
        "the patches and images of `sync.kustomization` are not checked: there is no kustomize",
    )
    broken = replace(ports, find_kustomize=lambda: Builder(BuildFailed("no such file")))
    assert unfit_for(made, tree, broken) == (
        "no cluster can build the artifact with the patches and images of `sync.kustomization`: no such file",
    )
    assert unfit_for(replace(made, settings=SyncSettings()), tree, broken) == ()
    monkeypatch.setattr("ci_automation.impact.overlay.kustomization.MAX_STEPS", 1)
    assert unfit_for(made, tree, broken) == (
        "the patches and images of `sync.kustomization` are not checked: to follow them takes too many steps",
    )


def test_a_time_that_kubectl_would_not_take_is_refused_first(ports: Ports) -> None:
    with pytest.raises(InvalidSync):
        prepare(CHANNEL, ports, SyncSettings(), None, "5 minutes")
