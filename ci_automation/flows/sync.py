"""Manifests that a cluster needs to follow a channel, made from the artifact and the trusted signers."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ci_automation.artifact.reference import Digest, OciRepository, Reference
from ci_automation.errors import UsageError
from ci_automation.flows.observe import Observed, observe
from ci_automation.flows.planning.base import read_tree
from ci_automation.flux.following import SyncSettings, unfit_fields
from ci_automation.flux.recover import recover
from ci_automation.flux.version import InvalidVersion, Version
from ci_automation.impact.overlay.in_cluster import unfit_in_cluster
from ci_automation.policy.patterns import is_found, require_anchored, require_re2
from ci_automation.policy.ranges import Range
from ci_automation.report.sync import KUSTOMIZATION, ByIdentity, ByKey, NotForClusters, Sync, sync_path
from ci_automation.signing.cluster import require_accepted_there
from ci_automation.signing.trust import IdentityMatch, Trusted, TrustedKeys

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ci_automation.artifact.tree import Tree
    from ci_automation.flows.ports import Ports

_PAIR = ("issuer", "subject")


class UnfitSettings(UsageError):
    """The `sync` section has fields that the Flux in the artifact does not take."""

    hint = "The fields of `source` and `kustomization` are those of the specs in Flux's API reference."

    def __init__(self, version: Version, problems: Iterable[str]) -> None:
        super().__init__(f"the sync section does not fit Flux {version}: {'; '.join(problems)}")


class UnfitVerification(UsageError):
    """The `verify` block of the `sync` section contradicts the trusted signers."""

    hint = "Leave verify out: the trusted signers make it."

    def __init__(self, reason: str) -> None:
        super().__init__(f"sync.source.verify {reason}")


class NoTagInRange(UsageError):
    """No tag of the repository is in the range for clusters to follow."""

    hint = (
        "Tags such as v2.9.4-6370c322dfcc are pre-releases in a range. Set versionTags: true and let `update` run, or "
        "follow the channel by its tag."
    )

    def __init__(self, channel: Reference, wanted: str) -> None:
        super().__init__(f"no tag of {channel.repository} is in the range {wanted}")


def sync(
    channel: Reference, ports: Ports, settings: SyncSettings | None = None, components_file: str | None = None
) -> tuple[Sync, Observed, Tree]:
    """Return how a cluster follows `channel`, with the verification that passes here, and what clusters get now.

    Raises:
        NotForClusters: the channel is in an image layout directory.
        InvalidSync, UnfitSettings: a name, the interval or a field is none that clusters take.
        NobodyTrusted: there is no signer whose signature a cluster could ask for.
        Unsigned, ForeignSignature: what the channel has would not be accepted.
        NoTagInRange: clusters would find nothing.
    """
    settings = settings or SyncSettings()
    if not isinstance(channel.repository, OciRepository):
        raise NotForClusters(channel)
    signers = ports.require_trusted()
    own = settings.source.get("verify", {})
    observed = observe(_selected(channel, settings.source.get("ref", {}), ports), ports)
    tree = read_tree(observed, ports)
    components = tree.components_path(components_file)
    text = tree[components].decode(errors="replace")
    recovered = recover(text, components)
    options = recovered.options
    host, _, _ = options.registry.partition("/")
    trusted = _entries(signers, own)
    made = Sync(
        channel=channel,
        version=recovered.version,
        namespace=options.namespace,
        path=sync_path(tree.by_path, components),
        verify=_verification(trusted, settings, own),
        settings=settings,
        pulls_images=(options.image_pull_secret, host) if options.image_pull_secret else None,
    )
    if problems := [*_unfit(made, text)]:
        raise UnfitSettings(made.version, problems)
    if trusted is not signers:
        require_accepted_there(ports.registry, channel.at_digest(observed.digest), trusted, [made.version])
    return made, observed, tree


def unfit_for(made: Sync, tree: Tree, ports: Ports) -> tuple[str, ...]:
    """Return what of the cluster's own patches and images does not fit the artifact's files, or was not checked."""
    spec = {**made.settings.kustomization, "path": made.path}
    return tuple(it.sentence for it in unfit_in_cluster(None, tree, spec, ports.kustomize))


def _selected(channel: Reference, ref: Mapping[str, Any], ports: Ports) -> Reference:
    """Return what clusters follow now, in Flux's order: a digest, the newest tag of a range, a tag."""
    if "digest" in ref:
        return channel.at_digest(Digest.parse(ref["digest"]))
    if "semver" not in ref:
        return channel.at_tag(ref["tag"]) if "tag" in ref else channel
    wanted, filtered = Range.parse(ref["semver"]), ref.get("semverFilter", "")
    versions = {}
    for tag in ports.registry.tags(channel):
        with suppress(InvalidVersion):
            if not filtered or is_found(require_re2(filtered), tag):
                versions[Version.parse(tag)] = tag
    newest = max(filter(wanted.allows, versions), default=None)
    if newest is None:
        raise NoTagInRange(channel, ref["semver"])
    return channel.at_tag(versions[newest])


def _entries(trusted: Trusted, own: Mapping[str, Any]) -> Trusted:
    """Return who is trusted, or the identities that the configuration gives clusters."""
    if "matchOIDCIdentity" not in own:
        return trusted
    if isinstance(trusted, TrustedKeys):
        raise UnfitVerification("has identities, and the artifact is verified by a key")
    matches = (IdentityMatch(*(require_anchored(each[key]) for key in _PAIR)) for each in own["matchOIDCIdentity"])
    return replace(trusted, matches=tuple(matches))


def _verification(trusted: Trusted, settings: SyncSettings, own: Mapping[str, Any]) -> ByKey | ByIdentity:
    def secret(key: str, default: str) -> str:
        return settings.secret or own.get(key, {}).get("name", default)

    if isinstance(trusted, TrustedKeys):
        fingerprints = tuple(str(key.fingerprint) for key in trusted.keys)
        return ByKey(secret("secretRef", f"{settings.name}-keys"), fingerprints)
    patterns = tuple((match.issuer, match.subject) for match in trusted.matches)
    root = secret("trustedRootSecretRef", f"{settings.name}-trusted-root") if trusted.root.custom else None
    return ByIdentity(patterns, root, apart="matchOIDCIdentity" in own)


def _unfit(made: Sync, components: str) -> Iterator[str]:
    """Yield the fields of the settings that the deployed Flux does not take."""
    settings = made.settings
    for where, section in (("", settings), ("fleet.", settings.fleet)):
        if section is not None:
            for name, spec, version in (
                ("source", section.source, (made.source_version, "OCIRepository")),
                ("kustomization", section.kustomization, (KUSTOMIZATION, "Kustomization")),
            ):
                for problem in unfit_fields(spec, *version, components, is_found) if spec else ():
                    yield f"{where}{name}.{problem.removeprefix('spec.')}"
