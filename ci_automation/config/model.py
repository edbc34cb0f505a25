"""Configuration for the flows: parsed, merged with the defaults, immutable.

A `Section` is a mapping of the file too: `reader` reads it by the types of its fields, whose names the file writes in
camelCase, and `schema` describes it with the texts below them.
"""

from __future__ import annotations

import enum
import posixpath
import re
from datetime import timedelta
from itertools import combinations
from typing import TYPE_CHECKING

from msgspec import Struct, field

from ci_automation.artifact.reference import InvalidReference, Reference, meant_address
from ci_automation.config.source import DirectorySourceConfig
from ci_automation.errors import UsageError
from ci_automation.flux.version import Version
from ci_automation.policy.model import SignatureFormat

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci_automation.artifact.reference import Digest
    from ci_automation.config.sections import Artifact
    from ci_automation.config.source import Source
    from ci_automation.config.values import (
        Age,
        Approvals,
        Channel,
        Folder,
        Host,
        KeyLocation,
        Kubernetes,
        Label,
        LocalFile,
        Origin,
        Repository,
        Team,
        TeamSlug,
        User,
        Variable,
        Words,
        WorkflowFile,
    )

FIRST_WITH_BUNDLES = Version.parse("2.8.6")  # earlier ones read none, or none with a Rekor v2 entry alone


class UnknownArtifact(UsageError):
    """The configuration has no artifact of that name or address."""

    def __init__(self, text: str, names: list[str]) -> None:
        super().__init__(f"the configuration has no artifact {text[:80]!r}")
        import difflib

        number = re.fullmatch(r"(.+)@[0-9]+", text)
        near = difflib.get_close_matches(text, names, n=1)
        address = meant_address(text) if ":" in text else None
        self.hint = f"It has {', '.join(names)}."
        if number and number[1] in names:
            self.hint = f"Only `diff` takes a number. Write the address, with a tag that `history {number[1]}` shows."
        elif near:
            self.hint = f"Did you mean {near[0]}?"
        elif address:
            self.hint = f"Did you mean {address}? The configuration has {', '.join(names)}."


class Section(Struct, frozen=True):
    """One mapping of the file; the text below a field is the key's description in the JSON schema."""


class SigningMode(enum.StrEnum):
    """How an artifact is signed."""

    KEYLESS = "keyless"
    KEY = "key"
    KMS = "kms"
    UNSAFE_UNSIGNED = "unsafe-unsigned"


class SigningConfig(Section, frozen=True):
    """How a run signs a digest before it moves the channel."""

    mode: SigningMode | None = None
    """keyless, key, kms or unsafe-unsigned. Default: key with a `key`, else keyless if GitHub Actions gives a token."""
    key: KeyLocation | None = None
    """The private key: a file, env://NAME, or awskms://, gcpkms://, azurekms:// or hashivault://."""
    format: SignatureFormat = SignatureFormat.LEGACY
    """legacy, both, or bundle, which needs minimumFlux: 2.8.6, or snapshots that say so. Default: legacy."""


class VerifyConfig(Struct, frozen=True):
    """The trusted signers of the base: any of the keys (files or `env://NAME`), or any of the identities.

    `identities` are exact, `patterns` are RE2's; both go with `issuer`.
    """

    public_keys: tuple[str, ...] = ()
    identities: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    issuer: str | None = None


class UpstreamVerify(enum.StrEnum):
    """Whether a release must have Flux's signature, or only must not have a wrong one."""

    REQUIRED = "required"
    IF_AVAILABLE = "if-available"


class UpstreamConfig(Section, frozen=True):
    """How a run verifies that a release is Flux's own, before it renders the release."""

    verify: UpstreamVerify | None = None
    """required refuses a release without Flux's signature. if-available takes it, and only refuses a wrong signature.

    Default: required for releases from GitHub, if-available for a directory.
    """
    trust_config: LocalFile | None = None
    """The trusted root of the Sigstore instance that certifies Flux's releases. Default: the public instance."""
    manifests: Channel | None = None
    """Any tag of the repository with Flux's own flux-manifests, such as oci://mirror.example/fluxcd/flux-manifests:latest.
    Default: the one on ghcr.io, or for a directory its image layout flux-manifests."""


class ApprovalVia(enum.StrEnum):
    """How a run asks for approvals."""

    NONE = "none"
    PULL_REQUEST = "pull-request"
    WORKFLOW_DISPATCH = "workflow-dispatch"
    REPOSITORY_DISPATCH = "repository-dispatch"


class ApprovalConfig(Section, frozen=True):
    """How a run asks for approvals in GitHub Actions, whom it asks, and how many people must approve."""

    via: ApprovalVia | None = None
    """pull-request, workflow-dispatch, repository-dispatch, or none, which only shows the request in the output.

    Default: the action's input `approval`.
    """
    approvals: Approvals = 0
    """Number of approving reviews of the pull request's head. Default: 0, the person who merges approves."""
    team: Team | None = None
    """Only members of this team can approve, for example acme/platform. The token must be able to read its members."""
    reviewers: tuple[User, ...] = ()
    """Users to request a review from."""
    team_reviewers: tuple[TeamSlug, ...] = ()
    """Slugs of teams in the repository's organisation to request a review from."""
    labels: tuple[Label, ...] = ()
    assignees: tuple[User, ...] = ()
    draft: bool = False
    """Open the pull request as a draft. Default: false."""
    auto_merge: bool = False
    """Let GitHub merge the pull request after `approvals` people approved it. Needs approvals: 1 or more."""
    own_merge: bool = False
    """Let the author of a pull request approve it by merging it without a review. Default: false."""
    environment: Words = "flux-manifests"
    """The protected environment in which the run of a workflow dispatch waits. Default: flux-manifests."""
    operations_by_code: bool = False
    """Where that environment has no required reviewers, let a person approve an operation by the code that it shows.

    Default: false, and such an operation is refused.
    """
    workflow: WorkflowFile = "approve.yaml"
    """The workflow that a workflow dispatch starts. Default: approve.yaml."""
    repository: Repository | None = None
    """The repository that gets the repository dispatch."""


class ConsumerConfig(Section, frozen=True):
    """A repository with files that name the artifact."""

    repository: Repository
    paths: tuple[Folder, ...] = ()
    """The folders and files to read. Default: all."""


class ClustersConfig(Section, frozen=True):
    """Facts about the clusters that follow the channel, to find what would break in them. No run contacts a cluster."""

    kubernetes: Kubernetes | None = None
    """Their Kubernetes version, for example 1.34, or the lowest and the highest, for example 1.34-1.36."""
    snapshots: tuple[LocalFile, ...] = ()
    """Files, or artifacts, with the output of `kubectl get crd -o json`."""
    objects: tuple[LocalFile, ...] = ()
    """Their manifests: files, folders, or artifacts."""


class EvidenceConfig(Section, frozen=True):
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
    report: LocalFile | None = None
    """A file with a FluxReport as JSON that reports no problem."""


class PromoteConfig(Section, frozen=True):
    """The channel that this one gets its digests from. Runs do not render an artifact with promote."""

    source: Origin = field(name="from")
    """The name of another artifact of this file, or the address of a channel."""
    after: Age = timedelta()
    """The time that the source must have had a digest, by its signed record. Default: none."""
    evidence: tuple[EvidenceConfig, ...] = ()


class Login(Section, frozen=True):
    """Names of the environment variables with a login."""

    username_variable: Variable
    password_variable: Variable


class CredentialsConfig(Section, frozen=True):
    """Logins for the registry, if they are not in Docker's files."""

    pull: Login | None = None
    push: Login | None = None
    token_host: Host | None = None
    """The host of the registry's token server, which gets the login too. Default: only the registry itself."""


class Config(Struct, frozen=True):
    """A whole configuration file."""

    source: Source
    artifacts: tuple[Artifact, ...]
    upstream: UpstreamConfig = UpstreamConfig()
    digest: Digest | None = None  # of the file's bytes

    def find(self, name_or_address: str) -> Artifact:
        """Return the artifact with that name, or with that address as its channel.

        Raises:
            UnknownArtifact: the configuration has no such artifact.
        """
        channel = _reference(name_or_address)
        for artifact in self.artifacts:
            if artifact.name == name_or_address or artifact.channel == channel:
                return artifact
        raise UnknownArtifact(name_or_address, [artifact.name for artifact in self.artifacts])

    def sharing_folders(self) -> Iterator[tuple[Artifact, Artifact]]:
        """Yield each pair of artifacts with the same overlay folder, or with one inside the other."""
        named = [(f"{artifact.overlay}/", artifact) for artifact in self.artifacts if artifact.overlay]
        for (one, first), (other, second) in combinations(named, 2):
            if one.startswith(other) or other.startswith(one):
                yield first, second


def _reference(text: str) -> Reference | None:
    try:
        return Reference.parse(text)
    except InvalidReference:
        return None


def named_files(config: Config) -> Iterator[str]:
    """Yield the files and folders of the repository that runs read: releases, trust, facts of clusters, evidence."""
    source = config.source
    named = [str(source.path) if isinstance(source, DirectorySourceConfig) else None, config.upstream.trust_config]
    for it in config.artifacts:
        named += [it.trust_config, *it.verify.public_keys, *it.clusters.snapshots, *it.clusters.objects]
        named += [each.report for each in it.promote.evidence] if it.promote else []
    yield from in_repository(named)


def in_repository(named: Iterable[str | None]) -> Iterator[str]:
    """Yield those of the named files and folders that are in the working directory, where the repository is."""
    for text in filter(None, named):
        path = posixpath.normpath(text)
        is_address = "://" in text or text.startswith("layout:")
        if not (is_address or path in {".", ".."} or path.startswith(("/", "../"))):
            yield path
