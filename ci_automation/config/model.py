"""Configuration for the flows: parsed, merged with the defaults, immutable."""

from __future__ import annotations

import enum
import re
from datetime import timedelta
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from ci_automation.artifact.reference import InvalidReference, OciRepository, Reference, meant_address
from ci_automation.errors import UsageError
from ci_automation.flux.version import Version
from ci_automation.policy.model import Policy, SignatureFormat

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ci_automation.artifact.digest import Digest
    from ci_automation.flux.following import SyncSettings
    from ci_automation.impact.check import KubernetesRange

_GITHUB = re.compile(r"github:(?P<owner>[A-Za-z0-9][A-Za-z0-9-]{0,38})/(?P<repository>(?!\.\.?$)[A-Za-z0-9._-]{1,100})")
_API = re.compile(
    r"(?P<scheme>https?)://(?P<host>([A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9a-fA-F:]+\])(:[0-9]{1,5})?)(/[A-Za-z0-9._~-]+)*/?"
)


class UnknownArtifact(UsageError):
    """The configuration has no artifact of that name or address."""

    def __init__(self, text: str, names: list[str]) -> None:
        super().__init__(f"the configuration has no artifact {text[:80]!r}")
        import difflib

        near = difflib.get_close_matches(text, names, n=1)
        address = meant_address(text) if ":" in text else None
        self.hint = f"It has {', '.join(names)}."
        if near:
            self.hint = f"Did you mean {near[0]}?"
        elif address:
            self.hint = f"Did you mean {address}? The configuration has {', '.join(names)}."


class InvalidSource(UsageError):
    """A text is not a source of releases."""

    hint = "Write github:OWNER/REPOSITORY, dir:PATH for a folder of releases, or oci://HOST/REPOSITORY for a registry."

    def __init__(self, reason: str) -> None:
        super().__init__(f"it does not name a source of releases: {reason}")


FIRST_WITH_BUNDLES = Version.parse("2.8.6")  # earlier ones read none, or none with a Rekor v2 entry alone


class SigningMode(enum.StrEnum):
    """How an artifact is signed."""

    KEYLESS = "keyless"
    KEY = "key"
    KMS = "kms"
    UNSAFE_UNSIGNED = "unsafe-unsigned"


class GitHubSourceConfig(Struct, frozen=True):
    """The releases of a repository on GitHub, or on the GitHub Enterprise Server at `api_url`."""

    owner: str = "fluxcd"
    repository: str = "flux2"
    api_url: str | None = None


class DirectorySourceConfig(Struct, frozen=True):
    """The releases in a folder; a relative path is relative to the working directory."""

    path: Path


class RegistrySourceConfig(Struct, frozen=True):
    """The releases in a repository of a registry, as `mirror --push` puts them there."""

    place: Reference


Source = GitHubSourceConfig | DirectorySourceConfig | RegistrySourceConfig


def parse_source(text: str) -> Source:
    """Return the source of releases in `text`.

    Raises:
        InvalidSource: `text` is not a source of releases.
    """
    if text.startswith("oci://"):
        try:
            return RegistrySourceConfig(Reference.parse_repository(text))
        except InvalidReference as error:
            raise InvalidSource(str(error)) from None
    if text.startswith("dir:") and len(text) > len("dir:") and text.isprintable():
        return DirectorySourceConfig(Path(text.removeprefix("dir:")))
    if match := _GITHUB.fullmatch(text):
        return GitHubSourceConfig(match["owner"], match["repository"])
    raise InvalidSource(f"{text[:80]!r} is none of github:OWNER/REPOSITORY, dir:PATH and oci://HOST/REPOSITORY")


def parse_api_url(text: str) -> str:
    """Return the base address of a GitHub API, without a slash at its end.

    Raises:
        InvalidSource: `text` is not an address, or has no TLS (except on loopback).
    """
    if "@" in text:
        raise InvalidSource("an API's address must not hold a user name or password")
    match = _API.fullmatch(text)
    if not match or (match["scheme"] == "http" and not OciRepository(match["host"], "").is_loopback):
        raise InvalidSource("an API's address is like https://github.example.com/api/v3")
    return text.rstrip("/")


class SigningConfig(Struct, frozen=True):
    """The way to sign; `key` is a file, relative to the working directory, or `env://NAME`."""

    mode: SigningMode | None = None
    key: str | None = None
    format: SignatureFormat = SignatureFormat.LEGACY


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


class UpstreamConfig(Struct, frozen=True):
    """The proof that releases are Flux's own; `verify` is None if the source decides (GitHub: required)."""

    verify: UpstreamVerify | None = None
    trust_config: str | None = None
    manifests: Reference | None = None  # where Flux's own rendering is published; None: ghcr.io, or in the directory


class ApprovalVia(enum.StrEnum):
    """How a run asks for approvals."""

    NONE = "none"
    PULL_REQUEST = "pull-request"
    WORKFLOW_DISPATCH = "workflow-dispatch"
    REPOSITORY_DISPATCH = "repository-dispatch"


class ApprovalConfig(Struct, frozen=True):
    """The way to ask for approvals, the reviewers, and how many of them must approve."""

    via: ApprovalVia | None = None  # None: the action's input, and without one only the output
    approvals: int = 0  # reviews of the head commit that a pull request needs besides its merge
    team: str | None = None  # ORGANISATION/TEAM: only its members' yes counts
    reviewers: tuple[str, ...] = ()
    team_reviewers: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    assignees: tuple[str, ...] = ()
    draft: bool = False
    auto_merge: bool = False
    own_merge: bool = False  # whether the author's own merge of a pull request counts
    environment: str = "flux-manifests"  # of a workflow dispatch
    workflow: str = "approve.yaml"  # same
    repository: str | None = None  # OWNER/NAME: who is sent a repository dispatch


class ConsumerConfig(Struct, frozen=True):
    """A repository with files that name the artifact, below `paths` (none: all)."""

    repository: str
    paths: tuple[str, ...] = ()


class ClustersConfig(Struct, frozen=True):
    """Known facts of the clusters that follow a channel; no run contacts them.

    `snapshots` are outputs of `kubectl get crd -o json`, and `objects` the places of manifests: files, folders, or
    artifacts (`oci://`, `layout:`). Relative paths are relative to the working directory.
    """

    kubernetes: KubernetesRange | None = None
    snapshots: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()


class EvidenceConfig(Struct, frozen=True):
    """Evidence that a promotion needs: exactly one of an address, a status, and a report."""

    url: str | None = None
    field: str | None = None  # of the JSON at the address, with dots
    equals: str | None = None
    status: str | None = None  # the context of a commit status
    repository: str | None = None  # OWNER/NAME; same
    report: str | None = None  # a file with a FluxReport as JSON


class PromoteConfig(Struct, frozen=True):
    """The source of a promoted channel, and the time that the source must have had a digest."""

    source: str  # the name of an artifact of the configuration, or an address
    after: timedelta = timedelta()
    evidence: tuple[EvidenceConfig, ...] = ()


class Login(Struct, frozen=True):
    """Names of the environment variables with a user name and a password."""

    username_variable: str
    password_variable: str


class CredentialsConfig(Struct, frozen=True):
    """The credentials for a registry, if not in Docker's files, and the token host that may get them."""

    pull: Login | None = None
    push: Login | None = None
    token_host: str | None = None


class ArtifactConfig(Struct, frozen=True):
    """One artifact: its channel, and its settings."""

    name: str
    channel: Reference
    components_file: str | None = None
    overlay: str | None = None  # the folder of the repository that has the overlay; None: the artifact keeps its own
    paused: bool = False
    version_tags: bool = False
    flags: Mapping[str, Any] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)
    signing: SigningConfig = SigningConfig()
    verify: VerifyConfig = VerifyConfig()
    credentials: CredentialsConfig = CredentialsConfig()
    trust_config: str | None = None
    attestations: bool = False
    minimum_flux: Version | None = None
    approval: ApprovalConfig = ApprovalConfig()
    consumers: tuple[ConsumerConfig, ...] = ()
    clusters: ClustersConfig = ClustersConfig()
    sync: SyncSettings | None = None
    pin_images: bool | None = None  # None: as the artifact has it
    promote: PromoteConfig | None = None  # None: it is rendered
    group: str = ""  # of artifacts that are asked for in one pull request
    announce: tuple[str, ...] = ()  # OWNER/NAME of the repositories that are sent flux-manifests-published


class Config(Struct, frozen=True):
    """A whole configuration file."""

    source: Source
    artifacts: tuple[ArtifactConfig, ...]
    upstream: UpstreamConfig = UpstreamConfig()
    digest: Digest | None = None  # of the file's bytes

    def find(self, name_or_address: str) -> ArtifactConfig:
        """Return the artifact with that name, or with that address as its channel.

        Raises:
            UnknownArtifact: the configuration has no such artifact.
        """
        channel = _reference(name_or_address)
        for artifact in self.artifacts:
            if artifact.name == name_or_address or artifact.channel == channel:
                return artifact
        raise UnknownArtifact(name_or_address, [artifact.name for artifact in self.artifacts])

    def sharing_folders(self) -> Iterator[tuple[ArtifactConfig, ArtifactConfig]]:
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
