"""Inputs of a flow: ports to the outside, and the intent of the user."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct, field
from msgspec.structs import replace

from ci_automation.errors import SigningError
from ci_automation.hiding import Hiding
from ci_automation.impact.check import Clusters, Images
from ci_automation.policy.gates import Situation
from ci_automation.policy.model import Allowance, Policy, SignatureFormat
from ci_automation.signing.trust import NOBODY_NAMED, NobodyTrusted, Trusted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ci_automation.artifact.reference import Digest, Reference
    from ci_automation.artifact.tree import Tree
    from ci_automation.flows.planning.git_content import GitContent
    from ci_automation.flows.workspace import OverlayFolder
    from ci_automation.flux.advisories import Vulnerability
    from ci_automation.flux.bundle import ReleaseFiles
    from ci_automation.flux.release import ReleaseSource
    from ci_automation.flux.version import Version
    from ci_automation.impact.overlay.builder import Kustomize
    from ci_automation.policy.decision import Hold
    from ci_automation.records.content import FleetCommit
    from ci_automation.records.ledger import Ledger
    from ci_automation.records.notes import Approval
    from ci_automation.records.writer import RecordWriter
    from ci_automation.registry.port import Registry
    from ci_automation.report.adoption import Adoption
    from ci_automation.signing.signer import Signer
    from ci_automation.signing.sigstore.root import TrustRoot
    from ci_automation.signing.upstream import Vouched

_TICK = timedelta(microseconds=1)  # the least that records tell apart


class NoSigner(SigningError):
    """Something is to be published, and there is nothing to sign it with."""

    hint = (
        "In GitHub Actions, give the job `permissions: {id-token: write}` and it signs keyless; elsewhere give "
        "--signing key --key FILE (or env://NAME, or a KMS). `cosign generate-key-pair` makes a key, as does "
        "`openssl ecparam -name prime256v1 -genkey -noout -out cosign.key`."
    )
    message = "there is no key or identity to sign with"


class Upstream(Hiding, Struct, frozen=True):
    """Upstream's proof of a release: the identities that count, and the repository of Flux's own renderings."""

    hides = ("vouched",)

    root: TrustRoot
    required: bool
    manifests: Reference  # the repository of `flux-manifests:vX.Y.Z`, at any tag
    find_registry: Callable[[], Registry]  # that has it
    vouched: dict[tuple[Version, ReleaseFiles], Vouched] = field(default_factory=dict)  # in this run

    @property
    def registry(self) -> Registry:
        """Return the registry with Flux's own renderings."""
        return self.find_registry()


class Ports(Struct, frozen=True):
    """Ports of a flow: registry, source of releases, signer, trusted signers, progress messages, a person to ask."""

    registry: Registry
    releases: ReleaseSource
    signer: Signer | None = None
    trusted: Trusted | None = None
    why_nobody: str = NOBODY_NAMED  # why no signer is trusted, if so
    find_upstream: Callable[[], Upstream | None] = lambda: None
    find_kustomize: Callable[[], Kustomize | None] = lambda: None
    find_overlay: Callable[[], OverlayFolder | None] = lambda: None  # of the checkout
    find_git: Callable[[], GitContent | None] = lambda: None  # where GitHub can be asked about the overlay
    images: Images | None = None  # None: the run does not ask whether the controllers' images are there
    say: Callable[[str], None] = lambda _: None
    # For what is written down; what is decided goes by `Intent.now`.
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    whose_clock: str = "this machine"
    confirm: Callable[[Adoption], bool] = lambda _: False  # without a terminal no person can answer
    require_present: Callable[[], None] = lambda: None  # stops a run whose rules are outdated, before it signs

    @property
    def upstream(self) -> Upstream | None:
        """Return what proves that releases are Flux's own; most runs never ask."""
        return self.find_upstream()

    @property
    def kustomize(self) -> Kustomize | None:
        """Return the kustomize of this machine, or None where there is none; most runs never ask."""
        return self.find_kustomize()

    def require_trusted(self) -> Trusted:
        """Return the trusted signers; raise `NobodyTrusted` if there are none."""
        if self.trusted is None:
            raise NobodyTrusted(self.why_nobody)
        return self.trusted

    def own_signer(self) -> Signer:
        """Return the signer of this run; raise `NoSigner` if there is none."""
        if self.signer is None:
            raise NoSigner
        return self.signer

    def later_than(self, moment: datetime | None) -> Self:
        """Return the same with a clock that is past `moment`, which another machine wrote by its own clock."""
        if moment is None:
            return self
        return replace(self, clock=lambda: max(self.clock(), moment + _TICK))

    def with_overlay(self, intent: Intent) -> Intent:
        """Return the intent with the overlay of the checkout, unless another one was given.

        Raises:
            UsageError: it cannot be used.
        """
        if intent.overlay is not None or (folder := self.find_overlay()) is None:
            return intent
        return replace(intent, overlay=folder.tree, overlay_folder=folder.path)

    def ledger(self, channel: Reference) -> Ledger:
        """Return the records and holds of `channel`, empty without trusted signers."""
        from ci_automation.records.ledger import Ledger  # not for a check that finds nothing to do

        return Ledger(self.registry, channel, self.trusted)

    def writer(self, channel: Reference, run: Run) -> RecordWriter:
        """Return what signs and attaches the records and holds of `channel`; raise `NoSigner` if there is no signer."""
        from ci_automation.records.writer import RecordWriter

        signer = self.own_signer()
        return RecordWriter(self.registry, channel, signer, run.url or None, self.say, self.trusted)


AT_A_TERMINAL = "the signer, at a command line"  # as a record names who approved outside of CI


class Run(Struct, frozen=True):
    """Which run this is, for those who read the history: its address, who started it, and for which commit.

    Outside of CI it is empty.
    """

    url: str = ""
    actor: str = ""
    source: FleetCommit | None = None


class Intent(Struct, frozen=True):
    """The user's intent for one artifact, and the permissions given for this run only."""

    now: datetime
    policy: Policy = field(default_factory=Policy)
    components_file: str | None = None
    flags: Mapping[str, Any] = field(default_factory=dict)
    overlay: Tree | None = None
    overlay_folder: str = ""  # where it was read, as the user knows it
    content_apart: bool = False  # the overlay is in Git: version steps carry the channel's content
    paused: bool = False
    version_tags: bool = False
    allow_removal: bool = False
    accept_edits: bool = False
    accept_identity_change: bool = False
    adopt: bool = False
    unsafe_unproven_rendering: bool = False
    unsafe_unsigned: bool = False
    signature_format: SignatureFormat = SignatureFormat.LEGACY
    attestations: bool = False
    clusters: Clusters = field(default_factory=Clusters)
    pin_images: bool | None = None  # None: as the artifact has it
    kustomization: Mapping[str, Any] = field(default_factory=dict)  # of `sync`: fields of the spec that clusters have
    config_digest: Digest | None = None
    run: Run = Run()
    approval: Approval | None = None  # of the reviewer who let this run go on, for the records of what it does

    def approval_by(self, option: str, at: datetime) -> Approval:
        """Return the approval of the reviewer who let this run go on, or else of the person who gave `option` to it.

        A terminal proves no name: the record names the signer, who approved by signing.
        """
        from ci_automation.records.notes import Approval

        return self.approval or Approval(self.run.actor or AT_A_TERMINAL, option, at)

    def edits_allowance(self, digest: Digest) -> Allowance | None:
        """Return the permission of the configuration to drop the hand edits of a digest, if there is one."""
        given = (it for it in self.policy.accept_edits if it.of == str(digest) and it.is_on(self.now))
        return next(given, None)

    def drops_edits(self, digest: Digest) -> bool:
        """Return whether the user, or the configuration, accepts that hand edits of a digest are dropped."""
        return self.accept_edits or self.edits_allowance(digest) is not None

    def situation(
        self,
        current: Version,
        held: tuple[Hold, ...] = (),
        fixes: Mapping[Version, tuple[Vulnerability, ...]] = MappingProxyType({}),
    ) -> Situation:
        """Return what the gates on releases look at besides the release."""
        return Situation(current, self.policy, self.now, paused=self.paused, holds=held, fixes=fixes)


class Prepared(Struct, frozen=True):
    """The ports of a flow for one artifact, and the intent for it."""

    ports: Ports
    intent: Intent
