"""The whole configuration file (design section 5.2), its artifacts, and the sections that become other rooms' values.

`Annotated[VALUE, SECTION]` is a value that `reader` makes of a section. The other sections, which flows use as they are
in the file, are in `model`.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import field
from msgspec.structs import replace

from ci_automation.config.model import (
    ApprovalConfig,
    ClustersConfig,
    ConsumerConfig,
    CredentialsConfig,
    PromoteConfig,
    Section,
    SigningConfig,
    UpstreamConfig,
    VerifyConfig,
)
from ci_automation.config.values import (
    Age,
    ApiUrl,
    Channel,
    ContentDigest,
    Cron,
    FileInArtifact,
    Fingerprint,
    Flags,
    FluxVersion,
    Form,
    FormatVersion,
    InventoryName,
    KustomizationSpec,
    Lasting,
    LocalFile,
    Moment,
    Name,
    OverlayPath,
    Pattern,
    PublicKeyLocation,
    PublicKeyLocations,
    Refusable,
    Releases,
    Repository,
    SourceSpec,
    Span,
    Texts,
    Words,
    Zone,
    some,
)
from ci_automation.flux.following import SyncSettings
from ci_automation.impact.change import ChangeClass
from ci_automation.policy.model import Acknowledgement, Action, Allowance, MinorStep, Policy


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
    duration: Lasting = field(name="for")
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


class AllowRemovalEntry(Section, frozen=True):
    """One controller or CRD that may be removed, with the reason."""

    of: InventoryName = field(name="name")
    """The name in the plan: Deployment/NAME or CustomResourceDefinition/NAME."""
    until: Moment
    """The end of the permission, for example 2027-01-31."""
    reason: Words


class AcceptEditsEntry(Section, frozen=True):
    """One digest whose hand edits of the components file may be dropped, with the reason."""

    of: ContentDigest = field(name="digest")
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


class VerifySection(Section, frozen=True):
    """The trusted signers of the channel's present digest."""

    public_key: PublicKeyLocation | PublicKeyLocations | None = None
    """One or more trusted public keys: files, or env://NAME. A signature of any one of them counts."""
    identity: Words | None = None
    """The exact subject of the certificate of a keyless signature. Needs issuer."""
    identity_regexp: Pattern | None = None
    """An RE2 pattern for the whole subject. It begins with ^ and ends with $."""
    issuer: Words | None = None
    """The issuer of the identity, for example https://token.actions.githubusercontent.com."""


class Defaults(Section, frozen=True):
    """Defaults for all artifacts. An artifact overrides them key by key."""

    own_policy: Annotated[Policy, PolicySection] = field(name="policy", default_factory=Policy)
    refuse: tuple[Refusable, ...] = ()
    """Classes of change to refuse. notChecked refuses steps that could not be checked. Default: none."""
    clusters: ClustersConfig = ClustersConfig()
    sync: Annotated[SyncSettings, SyncSection] | None = None
    pin_images: bool | None = None
    """Add digests to the tags of the controllers' images. Default: as in the present artifact."""
    approval: ApprovalConfig = ApprovalConfig()
    signing: SigningConfig = SigningConfig()
    verify: Annotated[VerifyConfig, VerifySection] = VerifyConfig()
    credentials: CredentialsConfig = CredentialsConfig()
    trust_config: LocalFile | None = None
    """The client trust configuration of your own Sigstore instance. Default: the public instance."""
    attestations: bool = False
    """Attach signed provenance and a signed list of the controllers (SBOM). Default: false."""


class Artifact(Defaults, frozen=True, kw_only=True):
    """One artifact to keep current."""

    name: Name
    """The name of the artifact in outputs and on the command line."""
    channel: Channel = field(name="url")
    """The channel that clusters follow: oci://HOST/REPOSITORY:TAG, or layout:DIRECTORY:TAG."""
    components_file: FileInArtifact | None = None
    """The path of Flux's components file in the artifact. Default: the only one in the artifact."""
    overlay: OverlayPath | None = None
    """The folder of this repository with the overlay, all files beside the components. Default: the artifact keeps its
    present files."""
    paused: bool = False
    """Publish nothing for now. Default: false."""
    version_tags: bool = False
    """Keep a plain version tag, such as v2.9.4, for clusters with `spec.ref.semver`. Default: false.

    Only one artifact of a repository can have them.
    """
    minimum_flux: FluxVersion | None = None
    """The oldest version of Flux that reads this channel. Some signature formats need a newer one."""
    consumers: tuple[ConsumerConfig, ...] = ()
    """Repositories that get a pull request with the artifact's new digest after a publication."""
    announce: tuple[Repository, ...] = ()
    """Repositories that get a repository dispatch, flux-manifests-published, after a publication."""
    acknowledge: tuple[Annotated[Acknowledgement, AcknowledgeEntry], ...] = ()
    """Accepted changes and hazards, each by its fingerprint, until a date."""
    allow_removal: tuple[Annotated[Allowance, AllowRemovalEntry], ...] = ()
    """Controllers and CRDs that a step may remove, until a date, as with --allow-removal."""
    accept_edits: tuple[Annotated[Allowance, AcceptEditsEntry], ...] = ()
    """Digests whose hand edits of the components file a step may drop, until a date, as with --accept-edits."""
    promote: PromoteConfig | None = None
    group: Name = ""
    """One pull request for the versions of all artifacts of this group. They need the same `approval`, with `via:
    pull-request`, and one run for all of them. Default: a pull request for each artifact.
    """
    flags: Flags = field(default_factory=dict)
    """Flags of `flux install` by their own names. They override the flags of the present components."""

    @property
    def policy(self) -> Policy:
        """Return all that decides on its steps: its policy, and what the keys beside that refuse and accept."""
        return replace(
            self.own_policy,
            refuse=frozenset(map(str, self.refuse)),
            acknowledge=self.acknowledge,
            allow_removal=self.allow_removal,
            accept_edits=self.accept_edits,
        )


class File(Section, frozen=True, kw_only=True):
    """The configuration of flux-manifests."""

    version: FormatVersion
    """The version of this file's format."""
    source: Releases | None = None
    """The releases: github:OWNER/REPOSITORY, dir:PATH, or oci://HOST/REPOSITORY. Default: github:fluxcd/flux2."""
    api_url: ApiUrl | None = None
    """The API of a GitHub Enterprise Server, for a github: source."""
    upstream: UpstreamConfig | None = None
    defaults: Defaults | None = None
    artifacts: Annotated[list[Artifact], Form(some, list, {"minItems": 1})]
