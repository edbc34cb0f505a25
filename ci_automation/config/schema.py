"""What a configuration file may say (design section 5.2), as pydantic checks it and as a JSON schema.

Keys and values that the design has and this version does not act on are named in `later` and refused: a policy that is
only read is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, get_args

from pydantic import Field
from pydantic.json_schema import GenerateJsonSchema

from ci_automation.config.model import ApprovalVia, SigningMode, UpstreamVerify
from ci_automation.config.rules import (
    AcknowledgeEntry,
    Chosen,
    ClustersSection,
    Later,
    PolicySection,
    PromoteSection,
    Section,
)
from ci_automation.config.values import (
    ApiUrl,
    Channel,
    FileInArtifact,
    Flags,
    FluxVersion,
    Folder,
    Host,
    KeyLocation,
    Label,
    Name,
    Pattern,
    PublicKeyLocations,
    RefusedClasses,
    Releases,
    Repository,
    Team,
    TeamSlug,
    User,
    Variable,
    Words,
    WorkflowFile,
)
from ci_automation.policy.model import SignatureFormat

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaMode, JsonSchemaValue
    from pydantic_core import core_schema


class ApprovalSection(Section):
    """How approvals are asked for in GitHub Actions, who is asked, and how many people it takes."""

    via: ApprovalVia | None = Chosen
    """pull-request, workflow-dispatch, repository-dispatch, or none: by the output alone.

    If left out, what the action's input `approval` says.
    """
    approvals: int | None = Field(default=None, ge=0, le=10)
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
    environment: Words | None = None
    """The protected environment in which the run of a workflow dispatch waits; flux-manifests if left out."""
    workflow: WorkflowFile | None = None
    """The workflow that a workflow dispatch starts; approve.yaml if left out."""
    repository: Repository | None = None
    """The repository that is sent a repository dispatch."""


class ConsumerSection(Section):
    """A repository with files that name the artifact."""

    repository: Repository
    paths: list[Folder] | None = None
    """The folders and files to look at; all if left out."""


class SigningSection(Section):
    """What a published digest is signed with, before the channel moves."""

    mode: SigningMode | None = Chosen
    """keyless, key, kms or unsafe-unsigned; keyless where GitHub Actions gives a token and no key is named."""
    key: KeyLocation | None = None
    """The private key: a file, env://NAME, or awskms://, gcpkms://, azurekms:// or hashivault://."""
    format: SignatureFormat | None = Chosen
    """legacy, both, or bundle, which needs minimumFlux: 2.8.6; legacy if left out."""


class VerifySection(Section):
    """Whose signature on the present digest is trusted."""

    public_key: PublicKeyLocations | None = None
    """The public key, or several of which any one may have signed: files, or env://NAME."""
    identity: Words | None = None
    """The subject of the certificate that a keyless signature must have, exactly; goes with issuer."""
    identity_regexp: Pattern | None = None
    """A pattern of RE2 for the whole of that subject; it begins with ^ and ends with $."""
    issuer: Words | None = None
    """Who vouched for that identity, such as https://token.actions.githubusercontent.com."""


class LoginSection(Section):
    """The names of the environment variables that hold a login."""

    username_variable: Variable
    password_variable: Variable


class CredentialsSection(Section):
    """Where the registry's logins are, if not in Docker's files."""

    pull: LoginSection | None = None
    push: LoginSection | None = None
    token_host: Host | None = None
    """Another host that may be sent the registry's login, to get tokens from; only the registry itself if left out."""


class Defaults(Section):
    """What holds for every artifact that does not say otherwise, key by key."""

    policy: PolicySection | None = None
    refuse: list[RefusedClasses] | None = None
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


class Artifact(Defaults):
    """One artifact that is kept current."""

    later: ClassVar[Later] = {"pullFrom": ()}

    name: Name
    """What it is called in outputs and on the command line."""
    url: Channel
    """The channel that clusters follow: oci://HOST/REPOSITORY:TAG, or layout:DIRECTORY:TAG."""
    components_file: FileInArtifact | None = None
    """The path of Flux's components in the artifact; found by itself where there is just one."""
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


class UpstreamSection(Section):
    """How a release is proven to be Flux's own, before it is rendered."""

    verify: UpstreamVerify | None = Chosen
    """required: a release without Flux's signature is refused; if-available: it is taken, a wrong one still refused.

    If left out, required for releases from GitHub, if-available for a directory.
    """
    trust_config: Words | None = None
    """The trusted root of the Sigstore instance that vouches for Flux; the public one if left out."""
    manifests: Channel | None = None
    """Any tag of the repository with Flux's own flux-manifests, such as oci://mirror.example/fluxcd/flux-manifests:latest;
    on ghcr.io if left out, for a directory the image layout flux-manifests in it."""


class File(Section):
    """The configuration of flux-manifests."""

    version: int = Field(ge=1, le=1)
    """The version of this file's format."""
    source: Releases | None = None
    """Where releases come from: github:OWNER/REPOSITORY, or dir:PATH; github:fluxcd/flux2 if left out."""
    api_url: ApiUrl | None = None
    """The API of a GitHub Enterprise Server, for a github: source."""
    upstream: UpstreamSection | None = None
    defaults: Defaults | None = None
    artifacts: list[Artifact] = Field(min_length=1)


def section_at(path: tuple[str | int, ...]) -> type[Section] | None:
    """Return the section that the file has at `path`, if it is one."""
    section: type[Section] | None = File
    for part in path:
        if isinstance(part, str):
            if section is None:
                return None
            named = {field.alias: field for field in section.model_fields.values()}
            section = _section_of(named[part].annotation) if part in named else None
    return section


def _section_of(annotation: object) -> type[Section] | None:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next((found for part in get_args(annotation) if (found := _section_of(part))), None)


class _AsWritten(GenerateJsonSchema):
    """What people write: no null, which stands for a key that is left out, and no titles that only repeat the keys."""

    def field_title_should_be_set(self, schema: object) -> bool:
        del schema
        return False

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def generate(self, schema: core_schema.CoreSchema, mode: JsonSchemaMode = "validation") -> JsonSchemaValue:
        return {"$schema": self.schema_dialect, **super().generate(schema, mode)}


def schema() -> dict[str, Any]:
    """Return the JSON schema of the file, for editors."""
    return File.model_json_schema(schema_generator=_AsWritten)
