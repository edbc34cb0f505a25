"""Sections of a configuration file about policies, clusters and promotions."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from ci_automation.config.values import (
    Age,
    Channel,
    ContentDigest,
    Cron,
    Fingerprint,
    InventoryName,
    Kubernetes,
    KustomizationSpec,
    Lasting,
    Moment,
    Name,
    Repository,
    SourceSpec,
    Span,
    Texts,
    Words,
    Zone,
)
from ci_automation.impact.change import ChangeClass
from ci_automation.policy.model import Action, MinorStep


class Section(msgspec.Struct, frozen=True, rename="camel"):
    """One mapping of the file; the text below a key is its description in the JSON schema."""

    later: ClassVar[frozenset[str]] = frozenset()
    """Keys of the design that this version does not support."""


class MinReleaseAge(Section, frozen=True):
    """Minimum age of a release before a run takes it, for example 24h or 7d."""

    patch: Age | None = None
    """Default: 24h."""
    minor: Age | None = None
    """Default: 7d."""
    major: Age | None = None
    """Default: 7d."""
    security: Age | None = None
    """Minimum age of a release that fixes a published vulnerability of the present version, if that is less.

    Default: as for any other release.
    """


class WindowEntry(Section, frozen=True):
    """A period in which runs publish; if there are any, they publish only in these."""

    cron: Cron
    """The start: minute, hour, day of month, month, day of week, for example `0 0 20 12 *`."""
    duration: Lasting = msgspec.field(name="for")
    """The length of the period, for example 336h."""
    time_zone: Zone | None = None
    """The time zone of `cron`, for example Europe/Berlin. Default: UTC."""


class FreezeEntry(WindowEntry, frozen=True):
    """A period in which runs publish nothing."""

    reason: str | None = None
    """The reason that reports show."""


class PolicySection(Section, frozen=True):
    """What a run publishes by itself, what needs approval, and what a run never takes."""

    patch: Action | None = None
    """The action for a newer patch release. Default: auto."""
    minor: Action | None = None
    """The action for a newer minor release. Default: approval."""
    major: Action | None = None
    """The action for a newer major release. Default: never."""
    range: Span | None = None
    """The allowed versions, in the syntax of Flux's `spec.ref.semver`. Default: `>=2.0.0`."""
    prereleases: bool | None = None
    """Allow release candidates. Default: false."""
    min_release_age: MinReleaseAge | None = None
    minor_step: MinorStep | None = None
    """latest goes to the latest minor release at once, next to one minor at a time. Default: latest."""
    freeze: list[FreezeEntry] | None = None
    window: list[WindowEntry] | None = None
    escalate: list[ChangeClass] | None = None
    """Classes of change that always need approval; [] for none.

    Default: rbac, networkPolicy, crdRemoval, crdTightened, securityContext, newWorkload and other.
    """


class ClustersSection(Section, frozen=True):
    """Facts about the clusters that follow the channel, to find what would break in them. No run contacts a cluster."""

    kubernetes: Kubernetes | None = None
    """Their Kubernetes version, for example 1.34, or the lowest and the highest, for example 1.34-1.36."""
    snapshots: list[Words] | None = None
    """Files, or artifacts, with the output of `kubectl get crd -o json`."""
    objects: list[Words] | None = None
    """Their manifests: files, folders, or artifacts."""


class FollowSection(Section, frozen=True):
    """Fields of both objects' specs, by Flux's own names; those of the artifact's Flux count."""

    source: SourceSpec | None = None
    """Fields of the OCIRepository, for example secretRef, certSecretRef, provider, ref, timeout."""
    kustomization: KustomizationSpec | None = None
    """Fields of the Kustomization, for example wait, timeout, healthChecks, decryption, prune."""


class FleetSection(FollowSection, frozen=True, kw_only=True):
    """The artifact with the fleet's own manifests, which the same clusters follow with a second pair of objects."""

    url: Channel
    """Its channel: oci://HOST/REPOSITORY:TAG."""
    path: Words | None = None
    """The folder in it for these clusters, for example ./clusters/production. Default: ./."""
    name: Name | None = None
    """The name of both objects. Default: fleet."""
    unsafe_unsigned: bool | None = None
    """Let clusters take it without a signature. Default: false, they verify it like the channel."""


class SyncSection(FollowSection, frozen=True):
    """The objects by which clusters follow the channel, as `sync-manifests` prints them."""

    name: Name | None = None
    """The name of both objects. Default: flux-manifests."""
    namespace: Name | None = None
    """Their namespace. Default: that of the components."""
    labels: Texts | None = None
    annotations: Texts | None = None
    fleet: FleetSection | None = None


class EvidenceEntry(Section, frozen=True):
    """Evidence that a promotion needs: an address, the status of a commit, or a report."""

    url: Words | None = None
    """An address that must answer 200 with JSON in which `field` has the value `equals`."""
    field: Words | None = None
    """The path in the JSON, with dots, for example status.healthy."""
    equals: Words | None = None
    """The expected value, as text."""
    status: Words | None = None
    """The context of a commit status that must be a success at the head of the default branch of `repository`."""
    repository: Repository | None = None
    report: Words | None = None
    """A file with a FluxReport as JSON that reports no problem."""


class PromoteSection(Section, frozen=True):
    """The channel that this one gets its digests from. Runs do not render an artifact with promote."""

    source: Words = msgspec.field(name="from")
    """The name of another artifact of this file, or the address of a channel."""
    after: Age | None = None
    """The time that the source must have had a digest, by its signed record. Default: none."""
    evidence: list[EvidenceEntry] | None = None


class AllowRemovalEntry(Section, frozen=True):
    """One controller or CRD that may be removed, with the reason."""

    of: InventoryName = msgspec.field(name="name")
    """The name in the plan: Deployment/NAME or CustomResourceDefinition/NAME."""
    until: Moment
    """The end of the permission, for example 2027-01-31."""
    reason: Words


class AcceptEditsEntry(Section, frozen=True):
    """One digest whose hand edits of the components file may be dropped, with the reason."""

    of: ContentDigest = msgspec.field(name="digest")
    """The digest that the channel has now."""
    until: Moment
    """The end of the permission, for example 2027-01-31."""
    reason: Words


class AcknowledgeEntry(Section, frozen=True):
    """One accepted change, with the reason."""

    fingerprint: Fingerprint
    """The 16 hex digits that the plan shows."""
    until: Moment
    """The end of the acceptance, for example 2027-01-31."""
    reason: Words
