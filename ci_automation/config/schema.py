"""What a configuration file may say (design section 5.2), as pydantic checks it and as a JSON schema.

Texts become the program's own values here; an error of theirs becomes an error at its key. Keys and values that the
design has and this version does not act on are named in `later` and refused: a policy that is only read is none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar, get_args
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, GetPydanticSchema, ValidationError
from pydantic.alias_generators import to_camel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import InitErrorDetails, PydanticCustomError, core_schema

from ci_automation.artifact.reference import InvalidReference, Reference
from ci_automation.config.model import SignatureFormat, SigningMode, Source, parse_api_url, parse_source
from ci_automation.errors import UsageError
from ci_automation.flux.options import COMPONENTS, LOG_LEVELS, Options
from ci_automation.policy.freeze import Freeze, time_zone
from ci_automation.policy.model import Action, InvalidDuration, MinorStep, duration
from ci_automation.policy.ranges import Range

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic.json_schema import JsonSchemaMode, JsonSchemaValue

T = TypeVar("T")
Later = Mapping[str, tuple[str, ...]]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_MAX_PATH = 1024


class InvalidValue(UsageError):
    """A text is not what its key takes; the message does not repeat it where it might be a secret."""


def _text(parse: Callable[[str], T]) -> GetPydanticSchema:
    """Return the type of a text that `parse` turns into a value of ours."""

    def checked(text: str) -> T:
        try:
            return parse(text)
        except UsageError as error:
            raise _refused(error) from None

    return GetPydanticSchema(
        lambda _source, _handler: core_schema.no_info_after_validator_function(
            checked, core_schema.str_schema(strict=True)
        )
    )


def _refused(error: UsageError) -> PydanticCustomError:
    return PydanticCustomError("refused", "{message}", {"message": f"{error}{f'. {error.hint}' if error.hint else ''}"})


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise InvalidValue("a name has letters, digits, '.', '_' and '-', begins with a letter or digit, at most 63")
    return text


def _channel(text: str) -> Reference:
    if "@" in text.partition("://")[2].partition("/")[0]:
        raise InvalidValue("an address must not hold a user name or password; name variables under credentials")
    if len(text) > _MAX_PATH:
        raise InvalidReference(text[:80], "it is too long")
    return Reference.parse_channel(text)


def _file_in_artifact(text: str) -> str:
    parts = text.split("/")
    if not text.isprintable() or len(text) > _MAX_PATH or any(part in ("", ".", "..") for part in parts):
        raise InvalidValue("it is not a path inside the artifact, such as flux-system/gotk-components.yaml")
    return text


def _key_location(text: str) -> str:
    if "-----BEGIN" in text:
        raise InvalidValue("it is a key itself; put it into a file or a variable, and write the path or env://NAME")
    scheme, separator, rest = text.partition("://")
    if separator and scheme != "env":
        raise InvalidValue("only files and env://NAME are supported by this version")
    if separator and not _VARIABLE.fullmatch(rest):
        raise InvalidValue("env:// takes the name of an environment variable, such as env://COSIGN_PRIVATE_KEY")
    if not text or not text.isprintable() or len(text) > _MAX_PATH:
        raise InvalidValue("it is neither a path nor env://NAME")
    return text


def _variable(text: str) -> str:
    if not _VARIABLE.fullmatch(text):
        raise InvalidValue("it is not the name of an environment variable; the value itself must not be in this file")
    return text


def _cron(text: str) -> str:
    return Freeze(text, timedelta(hours=1), ZoneInfo("UTC")).cron


def _lasting(text: str) -> timedelta:
    if not (lasting := duration(text)):
        raise InvalidDuration(text)
    return lasting


def _flags(value: dict[str, Any]) -> dict[str, Any]:
    """Return the flags of `flux install`, each checked by itself, then all together."""
    wrong: list[InitErrorDetails] = []
    for flags, place in (*(({flag: value[flag]}, (flag,)) for flag in value), (value, ())):
        try:
            if not (wrong and flags is value):
                Options().with_flags(flags)
        except UsageError as error:
            wrong.append(InitErrorDetails(type=_refused(error), loc=place, input=None))
    if wrong:
        raise ValidationError.from_exception_data("flags", wrong)
    return {flag: tuple(given) if isinstance(given, list) else given for flag, given in value.items()}


def _flags_schema(*_: object) -> JsonSchemaValue:
    """Return the flags that Flux has, with the types of their values; a list may be one text with commas."""
    names = {"type": ["array", "string"], "items": {"type": "string"}}
    components = {"type": ["array", "string"], "items": {"enum": list(COMPONENTS)}, "uniqueItems": True}
    kinds: dict[type, JsonSchemaValue] = {bool: {"type": "boolean"}, str: {"type": "string"}, tuple: names}
    flags = {field.name.replace("_", "-"): kinds[type(field.default)] for field in fields(Options)}
    flags |= {"components": components, "components-extra": components, "log-level": {"enum": list(LOG_LEVELS)}}
    return {"type": "object", "properties": dict(sorted(flags.items())), "additionalProperties": False}


Name = Annotated[str, _text(_name)]
Channel = Annotated[Reference, _text(_channel)]
FileInArtifact = Annotated[str, _text(_file_in_artifact)]
KeyLocation = Annotated[str, _text(_key_location)]
Variable = Annotated[str, _text(_variable)]
Age = Annotated[timedelta, _text(duration)]
Lasting = Annotated[timedelta, _text(_lasting)]
Cron = Annotated[str, _text(_cron)]
Zone = Annotated[ZoneInfo, _text(time_zone)]
Span = Annotated[Range, _text(Range.parse)]
Releases = Annotated[Source, _text(parse_source)]
ApiUrl = Annotated[str, _text(parse_api_url)]
Chosen = Field(default=None, strict=False)  # the members of an enum are texts in the file
Flags = Annotated[
    dict[str, Any],
    GetPydanticSchema(
        lambda _source, _handler: core_schema.no_info_after_validator_function(
            _flags, core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema(), strict=True)
        ),
        _flags_schema,
    ),
]


class Section(BaseModel):
    """One mapping of the file."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        arbitrary_types_allowed=True,
        use_attribute_docstrings=True,
    )
    later: ClassVar[Later] = {}
    """Keys of the design that this version does not know, and values of known keys that it does not take."""


class MinReleaseAge(Section):
    """How old a release must be before it is taken, by the kind of step to it; such as 24h or 7d."""

    patch: Age | None = None
    """24h if left out."""
    minor: Age | None = None
    """7d if left out."""
    major: Age | None = None
    """7d if left out."""


class FreezeEntry(Section):
    """A time in which nothing is published."""

    cron: Cron
    """When it begins: minute, hour, day of month, month, day of week, such as `0 0 20 12 *`."""
    lasting: Lasting = Field(alias="for")
    """How long it lasts, such as 336h."""
    time_zone: Zone | None = None
    """Whose clocks `cron` speaks of, such as Europe/Berlin; UTC if left out."""
    reason: str | None = None
    """What a person is told."""


class PolicySection(Section):
    """What happens by itself, what takes an approval, and what never happens."""

    later: ClassVar[Later] = {"escalate": ()}

    patch: Action | None = Chosen
    """What to do with a newer patch release; auto if left out."""
    minor: Action | None = Chosen
    """What to do with a newer minor release; approval if left out."""
    major: Action | None = Chosen
    """What to do with a newer major release; never if left out."""
    range: Span | None = None
    """The versions that may be taken, in the syntax of Flux's `spec.ref.semver`; `>=2.0.0` if left out."""
    prereleases: bool | None = None
    """Whether release candidates may be taken; false if left out."""
    min_release_age: MinReleaseAge | None = None
    minor_step: MinorStep | None = Chosen
    """Whether to go to the latest minor release at once, or to one after the other; latest if left out."""
    freeze: list[FreezeEntry] | None = None


class ApprovalSection(Section):
    """How approvals are asked for: by the output alone, in this version."""

    later: ClassVar[Later] = {"via": ("pull-request", "workflow-dispatch", "repository-dispatch")}

    via: Literal["none"] | None = None


class SigningSection(Section):
    """What a published digest is signed with, before the channel moves."""

    later: ClassVar[Later] = {"mode": ("keyless", "kms"), "format": ("both", "bundle")}

    mode: SigningMode | None = Chosen
    key: KeyLocation | None = None
    """The private key: a file, or env://NAME."""
    format: SignatureFormat | None = Chosen


class VerifySection(Section):
    """Whose signature on the present digest is trusted."""

    later: ClassVar[Later] = {"identity": (), "issuer": ()}

    public_key: KeyLocation | None = None
    """The public key: a file, or env://NAME; if left out, that of the key that signs."""


class LoginSection(Section):
    """The names of the environment variables that hold a login."""

    username_variable: Variable
    password_variable: Variable


class CredentialsSection(Section):
    """Where the registry's logins are, if not in Docker's files."""

    pull: LoginSection | None = None
    push: LoginSection | None = None


class Defaults(Section):
    """What holds for every artifact that does not say otherwise, key by key."""

    later: ClassVar[Later] = {"refuse": ()}

    policy: PolicySection | None = None
    approval: ApprovalSection | None = None
    signing: SigningSection | None = None
    verify: VerifySection | None = None
    credentials: CredentialsSection | None = None


class Artifact(Defaults):
    """One artifact that is kept current."""

    later: ClassVar[Later] = {"refuse": (), "minimumFlux": (), "acknowledge": ()}

    name: Name
    """What it is called in outputs and on the command line."""
    url: Channel
    """The channel that clusters follow: oci://HOST/REPOSITORY:TAG, or layout:DIRECTORY:TAG."""
    pull_from: Channel | None = None
    """Another channel to read the present state from."""
    components_file: FileInArtifact | None = None
    """The path of Flux's components in the artifact; found by itself where there is just one."""
    paused: bool | None = None
    """Whether nothing is published for now."""
    flags: Flags | None = None
    """Flags of `flux install` by their own names, over those that the present components were made with."""


class File(Section):
    """The configuration of flux-manifests."""

    version: Literal[1]
    """The version of this file's format."""
    source: Releases | None = None
    """Where releases come from: github:OWNER/REPOSITORY, or dir:PATH; github:fluxcd/flux2 if left out."""
    api_url: ApiUrl | None = None
    """The API of a GitHub Enterprise Server, for a github: source."""
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
