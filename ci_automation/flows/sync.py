"""Manifests that a cluster needs to follow a channel, made from the artifact and the trusted signers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.artifact.reference import OciRepository
from ci_automation.flows.observe import observe
from ci_automation.flows.planning.contents import read_tree
from ci_automation.flux.recover import recover
from ci_automation.report.sync import ByIdentity, ByKey, NotForClusters, Sync, sync_path
from ci_automation.signing.trust import NobodyTrusted, TrustedKeys

if TYPE_CHECKING:
    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.ports import Ports
    from ci_automation.signing.trust import Trusted


def sync(
    channel: Reference,
    ports: Ports,
    *,
    name: str,
    interval: str,
    secret: str | None = None,
    components_file: str | None = None,
) -> Sync:
    """Return how a cluster follows `channel`, with the verification that passes here.

    Raises:
        NotForClusters: the channel is in an image layout directory.
        NobodyTrusted: there is nobody whose signature a cluster could ask for.
        Unsigned, ForeignSignature: what the channel has would not be accepted.
        InvalidSync: a name or the interval is none that clusters take.
    """
    if not isinstance(channel.repository, OciRepository):
        raise NotForClusters(channel)
    if ports.trusted is None:
        raise NobodyTrusted(ports.why_nobody)
    tree = read_tree(observe(channel, ports), ports)
    components = tree.components_path(components_file)
    recovered = recover(tree[components].decode(errors="replace"))
    return Sync(
        channel=channel,
        version=recovered.version,
        namespace=recovered.options.namespace,
        path=sync_path(tree.by_path, components),
        verify=_verification(ports.trusted, name, secret),
        name=name,
        interval=interval,
    )


def _verification(trusted: Trusted, name: str, secret: str | None) -> ByKey | ByIdentity:
    if isinstance(trusted, TrustedKeys):
        return ByKey(secret or f"{name}-keys", tuple(str(key.fingerprint) for key in trusted.keys))
    patterns = tuple((match.issuer, match.subject) for match in trusted.matches)
    return ByIdentity(patterns, (secret or f"{name}-trusted-root") if trusted.root.custom else None)
