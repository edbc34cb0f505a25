"""The first installation of Flux on a cluster, from a verified artifact that the cluster follows from then on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ci_automation.errors import ClusterError, Conflict, PolicyRefused, UsageError
from ci_automation.flows.programs.kubectl import Kubectl, KubectlFailed
from ci_automation.flows.sync import sync, unfit_for
from ci_automation.flows.verify import misplaced
from ci_automation.flux.version import InvalidVersion, Version
from ci_automation.impact.overlay.builder import BuildFailed, KustomizeUnusable
from ci_automation.impact.overlay.folders import applied_folder
from ci_automation.impact.overlay.in_cluster import as_applied
from ci_automation.impact.overlay.kustomization import Effort, TooMuch
from ci_automation.report.bootstrap import APPLY, AT_REVISION, ApplyStep, BuiltObject, InstallOrder, install_order
from ci_automation.report.cluster_objects import NeededSecret, secret_yaml
from ci_automation.report.sync import ByKey, InvalidSync, Sync, is_duration
from ci_automation.signing.trust import TrustedKeys

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ci_automation.artifact.reference import Digest, Reference
    from ci_automation.flows.ports import Ports
    from ci_automation.flux.following import SyncSettings

_APPLIED_BY = "kustomize.toolkit.fluxcd.io/name"
_OPERATED_BY = "fluxcd.controlplane.io/name"
_VERSION = "app.kubernetes.io/version"


class NotBuildable(UsageError):
    """The artifact cannot be built here, so nothing was applied."""

    hint = (
        "Install kustomize 5, or kubectl, on Linux. If the overlay is at fault, correct it and publish it again; the "
        "`patches` and `images` of `sync` are in the configuration."
    )

    def __init__(self, reason: str) -> None:
        super().__init__(f"the artifact cannot be built: {reason}")


class AppliedByOthers(PolicyRefused):
    """The cluster's Flux has another owner, who would undo this run."""

    hint = "Nothing was applied. The steps that `init --from` prints take such a cluster to an artifact."

    def __init__(self, name: str, owner: str) -> None:
        super().__init__(f"{name} of this cluster is applied by {owner}")


class OlderThanCluster(PolicyRefused):
    """The cluster runs a newer Flux than the artifact has."""

    hint = "Nothing was applied. Update the channel first; this program does not take a cluster back to an older Flux."

    def __init__(self, running: Version, version: Version) -> None:
        super().__init__(f"the cluster runs Flux {running}, and the artifact has {version}")


class SecretsMissing(ClusterError):
    """Secrets that the objects name are not in the cluster."""

    def __init__(self, missing: Iterable[NeededSecret]) -> None:
        found = list(missing)
        super().__init__("missing in the cluster: " + ", ".join(f"{it.namespace}/{it.name}" for it in found))
        self.hint = "Make them, and run it again: " + "; ".join(each.command for each in found)


class NotReady(ClusterError):
    """What was applied did not get ready in time."""

    def __init__(self, what: str, reason: str, hint: str) -> None:
        super().__init__(f"{what} did not get ready: {reason}")
        self.hint = f"{hint} Then run it again."


class OtherRevision(Conflict):
    """The cluster found another digest than the one that was verified."""

    hint = (
        "Another writer moved the channel, and the cluster follows it: check it with `verify`. If that finds nothing, "
        "run it again, which verifies what the channel has now."
    )

    def __init__(self, what: str, expected: str, found: str) -> None:
        super().__init__(f"{what} is at {found or 'no revision'}, and {expected} was verified")


class Installation(Struct, frozen=True):
    """What a cluster gets: verified, built, and in its order; `unfit` is what of its own settings misses that."""

    sync: Sync
    digest: Digest
    order: InstallOrder
    unfit: tuple[str, ...] = ()


def prepare(
    channel: Reference, ports: Ports, settings: SyncSettings, components_file: str | None, timeout: str
) -> Installation:
    """Return what a cluster gets that has no Flux yet.

    Raises:
        NotBuildable: there is no kustomize, or the overlay does not fit.
        ChannelMovedBack, PublishedElsewhere, VersionTagAstray: signed records say that the tag does not belong there.
        Error: what `sync` raises.
    """
    if not is_duration(timeout):
        raise InvalidSync("a time", timeout)
    made, observed, tree = sync(channel, ports, settings, components_file)
    if problem := misplaced(observed, made.version, ports):
        raise problem
    ports.say("building what clusters get")
    folder = made.path.removeprefix("./") or "."
    if (kustomize := ports.kustomize) is None:
        raise NotBuildable("there is no kustomize that this program can run")
    effort = Effort()
    try:
        applied = as_applied(applied_folder(tree, folder, effort), settings.kustomization, effort)
        (built,) = kustomize.builds([(applied.tree, folder)])
    except TooMuch:
        raise NotBuildable("the overlay is larger than any real one") from None
    if isinstance(built, BuildFailed | KustomizeUnusable):
        raise NotBuildable(str(built))
    keys = ""
    if isinstance(made.verify, ByKey) and isinstance(ports.trusted, TrustedKeys):
        keys = secret_yaml(made.verify.secret, made.home, [key.to_pem() for key in ports.trusted.keys])
    tag = observed.channel.tag  # of a range, the newest
    revision = f"{tag}@{observed.digest}" if tag else str(observed.digest)
    order = install_order(made, built, keys, timeout, revision)
    return Installation(made, observed.digest, order, unfit_for(made, tree, ports))


def bootstrap(prepared: Installation, cluster: Kubectl, ports: Ports) -> str:
    """Apply it step by step, and return the revision that the cluster applied from the channel.

    Raises:
        SecretsMissing, NotReady: something has to be done first, or did not get ready.
        AppliedByOthers, OlderThanCluster: the cluster has a Flux already, and not this one.
        OtherRevision: the channel moved since it was verified, so that the cluster found something else.
        ClusterError: the cluster cannot be reached, or refuses.
    """
    sync, order = prepared.sync, prepared.order
    ports.say("looking at the cluster")
    _require_ours(cluster, sync, order.controllers)
    for step in order.steps:
        ports.say(f"applying {step.file}")
        cluster.run([*APPLY, "-"], step.text)
        _wait(cluster, step, sync)
        if step is order.steps[0]:
            missing = [it for it in order.secrets if not cluster.get(f"secret/{it.name}", it.namespace)]
            if missing:
                raise SecretsMissing(missing)
    applied = cluster.get(f"kustomization/{sync.settings.name}", sync.home) or {}
    return str(applied.get("status", {}).get("lastAppliedRevision", ""))


def _require_ours(cluster: Kubectl, sync: Sync, controllers: Iterable[BuiltObject]) -> None:
    """Check that the cluster has no Flux yet, or the one of this channel, or one that nothing applies."""
    for each in controllers:
        found = cluster.get(f"deployment/{each.name}", each.namespace) or {"metadata": {}}
        labels: dict[str, Any] = found["metadata"].get("labels", {})
        if _OPERATED_BY in labels:
            raise AppliedByOthers(each.name, f"the Flux Operator ({labels[_OPERATED_BY]})")
        if _APPLIED_BY in labels:
            _require_oci(cluster, sync, each, str(labels[_APPLIED_BY]))
        elif (running := _version(labels)) and running > sync.version:
            raise OlderThanCluster(running, sync.version)


def _require_oci(cluster: Kubectl, sync: Sync, controller: BuiltObject, owner: str) -> None:
    """Check that the Kustomization which applies a controller is ours, and follows an artifact."""
    if owner != sync.settings.name:
        raise AppliedByOthers(controller.name, f"the Kustomization {owner}, not by {sync.settings.name}")
    found = cluster.get(f"kustomization/{owner}", sync.home)
    if found and (kind := found["spec"]["sourceRef"]["kind"]) != "OCIRepository":
        raise AppliedByOthers(controller.name, f"the Kustomization {owner}, which follows a {kind}")


def _version(labels: dict[str, Any]) -> Version | None:
    try:
        return Version.parse(str(labels.get(_VERSION, "")))
    except InvalidVersion:
        return None


def _wait(cluster: Kubectl, step: ApplyStep, sync: Sync) -> None:
    for words in step.waits:
        try:
            cluster.run(words)
        except KubectlFailed as error:
            if "annotate" in words:
                raise
            what = words[-1] if "rollout" not in words else words[-2]
            if "--for=condition=Established" in words:
                raise NotReady("a CRD", str(error), "Look for it in `kubectl get crd`.") from None
            if "rollout" in words:
                hint = f"`kubectl -n {words[1]} get pods,events` says why: an image, a quota, a node."
                raise NotReady(what, str(error), hint) from None
            if at := next((word for word in words if word.startswith(AT_REVISION)), ""):
                raise OtherRevision(what, at.rpartition("}=")[2], _revision(cluster, what, sync)) from None
            raise NotReady(what, _message(cluster.get(what, sync.home) or {}) or str(error), _HINT) from None


def _revision(cluster: Kubectl, what: str, sync: Sync) -> str:
    status = (cluster.get(what, sync.home) or {}).get("status", {})
    return str(status.get("artifact", {}).get("revision") or status.get("lastAppliedRevision", ""))


_HINT = "The message is the controller's; credentials, a provider and the verify block are in the section `sync`."


def _message(found: dict[str, Any]) -> str:
    conditions = found.get("status", {}).get("conditions", [])
    return "; ".join(str(it.get("message", "")) for it in conditions if it.get("status") == "False")
