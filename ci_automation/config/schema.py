"""Sections of a configuration file (design section 5.2), and their JSON schema.

`later` names keys of the design that this version does not support. It refuses them, because a policy without effect
is dangerous.
"""

from __future__ import annotations

import ast
import inspect
from enum import Enum
from itertools import pairwise
from typing import Annotated, Any, ClassVar, cast, get_args

from msgspec import field
from msgspec.structs import fields

from ci_automation.config.model import ApprovalVia, SigningMode, UpstreamVerify
from ci_automation.config.rules import (
    AcceptEditsEntry,
    AcknowledgeEntry,
    AllowRemovalEntry,
    ClustersSection,
    PolicySection,
    PromoteSection,
    Section,
    SyncSection,
)
from ci_automation.config.values import (
    ApiUrl,
    Approvals,
    Channel,
    FileInArtifact,
    Flags,
    FluxVersion,
    Folder,
    Form,
    FormatVersion,
    Host,
    KeyLocation,
    Label,
    Name,
    OverlayPath,
    Pattern,
    PublicKeyLocation,
    PublicKeyLocations,
    Refusable,
    Releases,
    Repository,
    Team,
    TeamSlug,
    User,
    Variable,
    Words,
    WorkflowFile,
    alternatives,
    some,
    unwrapped,
)
from ci_automation.policy.model import SignatureFormat


class ApprovalSection(Section, frozen=True):
    """How a run asks for approvals in GitHub Actions, whom it asks, and how many people must approve."""

    via: ApprovalVia | None = None
    """pull-request, workflow-dispatch, repository-dispatch, or none, which only shows the request in the output.

    Default: the action's input `approval`.
    """
    approvals: Approvals | None = None
    """Number of approving reviews of the pull request's head. Default: 0, the person who merges approves."""
    team: Team | None = None
    """Only members of this team can approve, for example acme/platform. The token must be able to read its members."""
    reviewers: list[User] | None = None
    """Users to request a review from."""
    team_reviewers: list[TeamSlug] | None = None
    """Slugs of teams in the repository's organisation to request a review from."""
    labels: list[Label] | None = None
    assignees: list[User] | None = None
    draft: bool | None = None
    """Open the pull request as a draft. Default: false."""
    auto_merge: bool | None = None
    """Let GitHub merge the pull request after `approvals` people approved it. Needs approvals: 1 or more."""
    own_merge: bool | None = None
    """Let the author of a pull request approve it by merging it without a review. Default: false."""
    environment: Words | None = None
    """The protected environment in which the run of a workflow dispatch waits. Default: flux-manifests."""
    workflow: WorkflowFile | None = None
    """The workflow that a workflow dispatch starts. Default: approve.yaml."""
    repository: Repository | None = None
    """The repository that gets the repository dispatch."""


class ConsumerSection(Section, frozen=True):
    """A repository with files that name the artifact."""

    repository: Repository
    paths: list[Folder] | None = None
    """The folders and files to read. Default: all."""


class SigningSection(Section, frozen=True):
    """How a run signs a digest before it moves the channel."""

    mode: SigningMode | None = None
    """keyless, key, kms or unsafe-unsigned. Default: key with a `key`, else keyless if GitHub Actions gives a token."""
    key: KeyLocation | None = None
    """The private key: a file, env://NAME, or awskms://, gcpkms://, azurekms:// or hashivault://."""
    format: SignatureFormat | None = None
    """legacy, both, or bundle, which needs minimumFlux: 2.8.6, or snapshots that say so. Default: legacy."""


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


class LoginSection(Section, frozen=True):
    """Names of the environment variables with a login."""

    username_variable: Variable
    password_variable: Variable


class CredentialsSection(Section, frozen=True):
    """Logins for the registry, if they are not in Docker's files."""

    pull: LoginSection | None = None
    push: LoginSection | None = None
    token_host: Host | None = None
    """The host of the registry's token server, which gets the login too. Default: only the registry itself."""


class Defaults(Section, frozen=True):
    """Defaults for all artifacts. An artifact overrides them key by key."""

    policy: PolicySection | None = None
    refuse: list[Refusable] | None = None
    """Classes of change to refuse. notChecked refuses steps that could not be checked. Default: none."""
    clusters: ClustersSection | None = None
    sync: SyncSection | None = None
    pin_images: bool | None = None
    """Add digests to the tags of the controllers' images. Default: as in the present artifact."""
    approval: ApprovalSection | None = None
    signing: SigningSection | None = None
    verify: VerifySection | None = None
    credentials: CredentialsSection | None = None
    trust_config: Words | None = None
    """The client trust configuration of your own Sigstore instance. Default: the public instance."""
    attestations: bool | None = None
    """Attach signed provenance and a signed list of the controllers (SBOM). Default: false."""


class Artifact(Defaults, frozen=True, kw_only=True):
    """One artifact to keep current."""

    later: ClassVar[frozenset[str]] = frozenset({"pullFrom"})

    name: Name
    """The name of the artifact in outputs and on the command line."""
    channel: Channel = field(name="url")
    """The channel that clusters follow: oci://HOST/REPOSITORY:TAG, or layout:DIRECTORY:TAG."""
    components_file: FileInArtifact | None = None
    """The path of Flux's components file in the artifact. Default: the only one in the artifact."""
    overlay: OverlayPath | None = None
    """The folder of this repository with the overlay, all files beside the components. Default: the artifact keeps its
    present files."""
    paused: bool | None = None
    """Publish nothing for now. Default: false."""
    version_tags: bool | None = None
    """Keep a plain version tag, such as v2.9.4, for clusters with `spec.ref.semver`. Default: false.

    Only one artifact of a repository can have them.
    """
    minimum_flux: FluxVersion | None = None
    """The oldest version of Flux that reads this channel. Some signature formats need a newer one."""
    consumers: list[ConsumerSection] | None = None
    """Repositories that get a pull request with the artifact's new digest after a publication."""
    announce: list[Repository] | None = None
    """Repositories that get a repository dispatch, flux-manifests-published, after a publication."""
    acknowledge: list[AcknowledgeEntry] | None = None
    """Accepted changes and hazards, each by its fingerprint, until a date."""
    allow_removal: list[AllowRemovalEntry] | None = None
    """Controllers and CRDs that a step may remove, until a date, as with --allow-removal."""
    accept_edits: list[AcceptEditsEntry] | None = None
    """Digests whose hand edits of the components file a step may drop, until a date, as with --accept-edits."""
    promote: PromoteSection | None = None
    group: Name | None = None
    """One pull request for the versions of all artifacts of this group. They need the same `approval`, with `via:
    pull-request`, and one run for all of them. Default: a pull request for each artifact.
    """
    flags: Flags | None = None
    """Flags of `flux install` by their own names. They override the flags of the present components."""


class UpstreamSection(Section, frozen=True):
    """How a run verifies that a release is Flux's own, before it renders the release."""

    verify: UpstreamVerify | None = None
    """required refuses a release without Flux's signature. if-available takes it, and only refuses a wrong signature.

    Default: required for releases from GitHub, if-available for a directory.
    """
    trust_config: Words | None = None
    """The trusted root of the Sigstore instance that certifies Flux's releases. Default: the public instance."""
    manifests: Channel | None = None
    """Any tag of the repository with Flux's own flux-manifests, such as oci://mirror.example/fluxcd/flux-manifests:latest.
    Default: the one on ghcr.io, or for a directory its image layout flux-manifests."""


class File(Section, frozen=True, kw_only=True):
    """The configuration of flux-manifests."""

    version: FormatVersion
    """The version of this file's format."""
    source: Releases | None = None
    """The releases: github:OWNER/REPOSITORY, dir:PATH, or oci://HOST/REPOSITORY. Default: github:fluxcd/flux2."""
    api_url: ApiUrl | None = None
    """The API of a GitHub Enterprise Server, for a github: source."""
    upstream: UpstreamSection | None = None
    defaults: Defaults | None = None
    artifacts: Annotated[list[Artifact], Form(some, list, {"minItems": 1})]


_TYPES = {str: "string", bool: "boolean", int: "integer", list: "array", dict: "object", object: "string"}


def config_schema() -> dict[str, Any]:
    """Return the JSON schema of the file, for editors."""
    definitions: dict[str, Any] = {}
    file = _mapping(File, definitions)
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, "$defs": dict(sorted(definitions.items())), **file}


def _mapping(section: type[Section], definitions: dict[str, Any]) -> dict[str, Any]:
    keys, texts = fields(section), _texts(section)
    return _sorted(
        additionalProperties=False,
        description=section.__doc__,
        properties={
            key.encode_name: _sorted(**_described(key.type, definitions), description=texts.get(key.name))
            for key in keys
        },
        required=[key.encode_name for key in keys if key.required] or None,
        title=section.__name__,
        type="object",
    )


def _described(kind: object, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a type, and add the types that it names to the definitions."""
    if len(kinds := alternatives(kind)) > 1:
        return {"anyOf": [_described(each, definitions) for each in kinds]}
    kind, form = unwrapped(kinds[0])
    if isinstance(kind, type) and issubclass(kind, Section | Enum):
        definitions[kind.__name__] = _mapping(kind, definitions) if issubclass(kind, Section) else _choice(kind)
        return {"$ref": f"#/$defs/{kind.__name__}"}
    items = _described(get_args(kind)[0], definitions) if form.written is list else None
    return _sorted(**{"type": _TYPES[form.written], "items": items, **(form.schema or {})})


def _choice(kind: type[Enum]) -> dict[str, Any]:
    members = [each.value for each in kind]
    return _sorted(description=kind.__doc__, enum=members, title=kind.__name__, type="string")


def _sorted(**parts: object) -> dict[str, Any]:
    return {name: part for name, part in sorted(parts.items()) if part is not None}


def _texts(section: type[Section]) -> dict[str, str]:
    """Return the texts below the keys of a section from its source, because Python does not keep them."""
    texts = {}
    for base in reversed(section.__mro__[: section.__mro__.index(Section)]):
        [tree] = ast.parse(inspect.getsource(base)).body
        for key, below in pairwise(cast("ast.ClassDef", tree).body):
            match key, below:
                case ast.AnnAssign(target=ast.Name(name)), ast.Expr(value=ast.Constant(str(text))):
                    texts[name] = inspect.cleandoc(text)
    return texts
