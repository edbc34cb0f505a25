"""What a configuration file may say (design section 5.2), and the same as a JSON schema.

Keys that the design has and this version does not act on are named in `later` and refused: a policy that is only read
is none.
"""

from __future__ import annotations

import ast
import inspect
from enum import Enum
from itertools import pairwise
from typing import Annotated, Any, ClassVar, cast, get_args

from msgspec.structs import fields

from ci_automation.config.model import ApprovalVia, SigningMode, UpstreamVerify
from ci_automation.config.rules import (
    AcknowledgeEntry,
    ClustersSection,
    PolicySection,
    PromoteSection,
    Section,
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
    """How approvals are asked for in GitHub Actions, who is asked, and how many people it takes."""

    via: ApprovalVia | None = None
    """pull-request, workflow-dispatch, repository-dispatch, or none: by the output alone.

    If left out, what the action's input `approval` says.
    """
    approvals: Approvals | None = None
    """How many people have to approve the head of the pull request in a review; 0 if left out: who merges approves."""
    team: Team | None = None
    """Only members of this team can approve, such as acme/platform; the token must be able to read its members."""
    reviewers: list[User] | None = None
    """Who is asked for a review."""
    team_reviewers: list[TeamSlug] | None = None
    """Teams of the repository's organisation that are asked for a review, by their slugs."""
    labels: list[Label] | None = None
    assignees: list[User] | None = None
    draft: bool | None = None
    """Whether the pull request is opened as a draft; false if left out."""
    auto_merge: bool | None = None
    """Whether GitHub merges by itself what `approvals` people approved; needs approvals: 1 or more."""
    own_merge: bool | None = None
    """Whether the author of a pull request approves its overlay by merging it alone; false if left out."""
    environment: Words | None = None
    """The protected environment in which the run of a workflow dispatch waits; flux-manifests if left out."""
    workflow: WorkflowFile | None = None
    """The workflow that a workflow dispatch starts; approve.yaml if left out."""
    repository: Repository | None = None
    """The repository that is sent a repository dispatch."""


class ConsumerSection(Section, frozen=True):
    """A repository with files that name the artifact."""

    repository: Repository
    paths: list[Folder] | None = None
    """The folders and files to look at; all if left out."""


class SigningSection(Section, frozen=True):
    """What a published digest is signed with, before the channel moves."""

    mode: SigningMode | None = None
    """keyless, key, kms or unsafe-unsigned; keyless where GitHub Actions gives a token and no key is named."""
    key: KeyLocation | None = None
    """The private key: a file, env://NAME, or awskms://, gcpkms://, azurekms:// or hashivault://."""
    format: SignatureFormat | None = None
    """legacy, both, or bundle, which needs minimumFlux: 2.8.6; legacy if left out."""


class VerifySection(Section, frozen=True):
    """Whose signature on the present digest is trusted."""

    public_key: PublicKeyLocation | PublicKeyLocations | None = None
    """The public key, or several of which any one may have signed: files, or env://NAME."""
    identity: Words | None = None
    """The subject of the certificate that a keyless signature must have, exactly; goes with issuer."""
    identity_regexp: Pattern | None = None
    """A pattern of RE2 for the whole of that subject; it begins with ^ and ends with $."""
    issuer: Words | None = None
    """Who vouched for that identity, such as https://token.actions.githubusercontent.com."""


class LoginSection(Section, frozen=True):
    """The names of the environment variables that hold a login."""

    username_variable: Variable
    password_variable: Variable


class CredentialsSection(Section, frozen=True):
    """Where the registry's logins are, if not in Docker's files."""

    pull: LoginSection | None = None
    push: LoginSection | None = None
    token_host: Host | None = None
    """Another host that may be sent the registry's login, to get tokens from; only the registry itself if left out."""


class Defaults(Section, frozen=True):
    """What holds for every artifact that does not say otherwise, key by key."""

    policy: PolicySection | None = None
    refuse: list[Refusable] | None = None
    """Classes of change that are refused, and notChecked: what could not be looked at; none if left out."""
    clusters: ClustersSection | None = None
    pin_images: bool | None = None
    """Whether the controllers' images get their digests beside their tags; as the artifact has it if left out."""
    approval: ApprovalSection | None = None
    signing: SigningSection | None = None
    verify: VerifySection | None = None
    credentials: CredentialsSection | None = None
    trust_config: Words | None = None
    """The client trust configuration of a Sigstore instance of your own; the public one if left out."""
    attestations: bool | None = None
    """Whether provenance and a list of the controllers (SBOM) are attached, signed; false if left out."""


class Artifact(Defaults, frozen=True, kw_only=True):
    """One artifact that is kept current."""

    later: ClassVar[frozenset[str]] = frozenset({"pullFrom"})

    name: Name
    """What it is called in outputs and on the command line."""
    url: Channel
    """The channel that clusters follow: oci://HOST/REPOSITORY:TAG, or layout:DIRECTORY:TAG."""
    components_file: FileInArtifact | None = None
    """The path of Flux's components in the artifact; found by itself where there is just one."""
    overlay: OverlayPath | None = None
    """The folder of this repository that holds the overlay: all files beside the components; the artifact keeps its own
    files if left out."""
    paused: bool | None = None
    """Whether nothing is published for now."""
    minimum_flux: FluxVersion | None = None
    """The oldest Flux that still reads this channel; what may be written only for newer ones depends on it."""
    consumers: list[ConsumerSection] | None = None
    """Repositories in which the artifact's new digest is proposed after a publication."""
    announce: list[Repository] | None = None
    """Repositories that are sent a repository dispatch, flux-manifests-published, after a publication."""
    acknowledge: list[AcknowledgeEntry] | None = None
    """Changes and hazards that are accepted, each by its fingerprint, until a date."""
    promote: PromoteSection | None = None
    flags: Flags | None = None
    """Flags of `flux install` by their own names, over those that the present components were made with."""


class UpstreamSection(Section, frozen=True):
    """How a release is proven to be Flux's own, before it is rendered."""

    verify: UpstreamVerify | None = None
    """required: a release without Flux's signature is refused; if-available: it is taken, a wrong one still refused.

    If left out, required for releases from GitHub, if-available for a directory.
    """
    trust_config: Words | None = None
    """The trusted root of the Sigstore instance that vouches for Flux; the public one if left out."""
    manifests: Channel | None = None
    """Any tag of the repository with Flux's own flux-manifests, such as oci://mirror.example/fluxcd/flux-manifests:latest;
    on ghcr.io if left out, for a directory the image layout flux-manifests in it."""


class File(Section, frozen=True, kw_only=True):
    """The configuration of flux-manifests."""

    version: FormatVersion
    """The version of this file's format."""
    source: Releases | None = None
    """Where releases come from: github:OWNER/REPOSITORY, or dir:PATH; github:fluxcd/flux2 if left out."""
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
    """Return the schema of a type; those that it names are added to the definitions."""
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
    """Return the texts below the keys of a section, which Python does not keep."""
    texts = {}
    for base in reversed(section.__mro__[: section.__mro__.index(Section)]):
        [tree] = ast.parse(inspect.getsource(base)).body
        for key, below in pairwise(cast("ast.ClassDef", tree).body):
            match key, below:
                case ast.AnnAssign(target=ast.Name(name)), ast.Expr(value=ast.Constant(str(text))):
                    texts[name] = inspect.cleandoc(text)
    return texts
