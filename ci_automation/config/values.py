"""The texts of a configuration file as values of ours: what `Reference`, `Range` and the others refuse is an error.

A message does not repeat a text where people might have written a secret.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import fields
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from zoneinfo import ZoneInfo

from pydantic import BeforeValidator, Field, GetPydanticSchema, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError, core_schema

from ci_automation.artifact.reference import InvalidReference, Reference
from ci_automation.config.model import Source, parse_api_url, parse_source
from ci_automation.errors import UsageError
from ci_automation.flux.changes.model import ChangeClass
from ci_automation.flux.kubernetes import KubernetesRange
from ci_automation.flux.options import COMPONENTS, LOG_LEVELS, Options
from ci_automation.flux.version import Version
from ci_automation.policy.freeze import Freeze, time_zone
from ci_automation.policy.model import NOT_CHECKED, Acknowledgement, InvalidDuration, duration
from ci_automation.policy.patterns import require_anchored, require_re2
from ci_automation.policy.ranges import Range

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic.json_schema import JsonSchemaValue

T = TypeVar("T")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_OWNER = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})"
_USER = re.compile(_OWNER)
_TEAM = re.compile(rf"{_OWNER}/[a-z0-9][a-z0-9_-]{{0,99}}")
_REPOSITORY = re.compile(rf"{_OWNER}/(?!\.\.?$)[A-Za-z0-9._-]{{1,100}}")
_WORKFLOW = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}\.ya?ml")
_FOLDER = re.compile(r"(?!.*(?:^|/)\.\.?(?:/|$))[^/\x00-\x1f][^\x00-\x1f]*")
_MAX_LABEL = 50
_HOST = re.compile(r"[a-z0-9][a-z0-9.-]{0,252}(?::[0-9]{1,5})?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_MAX_PATH = 1024
KMS_SCHEMES = ("awskms", "gcpkms", "azurekms", "hashivault")


class InvalidValue(UsageError):
    """A text is not what its key takes; the message does not repeat it."""


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
    if separator and scheme not in {"env", *KMS_SCHEMES}:
        raise InvalidValue(f"it is neither a file nor one of {', '.join(f'{it}://' for it in ('env', *KMS_SCHEMES))}")
    if scheme == "env" and separator and not _VARIABLE.fullmatch(rest):
        raise InvalidValue("env:// takes the name of an environment variable, such as env://COSIGN_PRIVATE_KEY")
    if not text or not text.isprintable() or len(text) > _MAX_PATH:
        raise InvalidValue("it is neither a path nor env://NAME")
    return text


def _public_key_location(text: str) -> str:
    if text.partition("://")[0] in KMS_SCHEMES:
        raise InvalidValue("a public key is a file or env://NAME; `public-key` prints that of a KMS")
    return _key_location(text)


def _words(text: str) -> str:
    if not text or not text.isprintable() or len(text) > _MAX_PATH:
        raise InvalidValue("it is empty, too long, or has characters that cannot be printed")
    return text


def _pattern(text: str) -> str:
    return require_anchored(require_re2(_words(text)))


def _as_list(value: object) -> object:
    """Return one text as a list of it."""
    return [value] if isinstance(value, str) else value


def _variable(text: str) -> str:
    if not _VARIABLE.fullmatch(text):
        raise InvalidValue("it is not the name of an environment variable; the value itself must not be in this file")
    return text


def _matching(pattern: re.Pattern[str], what: str) -> GetPydanticSchema:
    """Return the type of a text of one form."""

    def parse(text: str) -> str:
        if not pattern.fullmatch(text):
            raise InvalidValue(f"it is not {what}")
        return text

    return _text(parse)


def _label(text: str) -> str:
    if len(text) > _MAX_LABEL:
        raise InvalidValue(f"a label has at most {_MAX_LABEL} characters")
    return _words(text)


def _cron(text: str) -> str:
    return Freeze(text, timedelta(hours=1), ZoneInfo("UTC")).cron


def _fingerprint(text: str) -> str:
    return Acknowledgement(text, datetime.max.replace(tzinfo=UTC), "").fingerprint


def _moment(value: object) -> datetime:
    """Return the first instant of a day in UTC, or the instant that is named with its zone."""
    if isinstance(value, str):
        with suppress(ValueError):
            value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        return value.replace(tzinfo=value.tzinfo or UTC)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    raise _refused(InvalidValue("it is not a date, such as 2027-01-31"))


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
FluxVersion = Annotated[Version, _text(Version.parse)]
Words = Annotated[str, _text(_words)]
Pattern = Annotated[str, _text(_pattern)]
PublicKeyLocation = Annotated[str, _text(_public_key_location)]
PublicKeyLocations = Annotated[
    list[PublicKeyLocation],
    Field(min_length=1),
    BeforeValidator(_as_list, json_schema_input_type=str | list[str]),
]
Variable = Annotated[str, _text(_variable)]
Host = Annotated[str, _matching(_HOST, "a host, such as gitlab.example or gitlab.example:8443, in small letters")]
User = Annotated[str, _matching(_USER, "the name of a user, such as octocat, without @")]
Team = Annotated[str, _matching(_TEAM, "a team, such as acme/platform, without @")]
TeamSlug = Annotated[str, _matching(re.compile(r"[a-z0-9][a-z0-9_-]{0,99}"), "the slug of a team, such as platform")]
Repository = Annotated[str, _matching(_REPOSITORY, "a repository, such as acme/fleet")]
WorkflowFile = Annotated[str, _matching(_WORKFLOW, "the name of a workflow's file, such as approve.yaml")]
Folder = Annotated[str, _matching(_FOLDER, "a path inside the repository, such as clusters/production")]
Label = Annotated[str, _text(_label)]
Age = Annotated[timedelta, _text(duration)]
Lasting = Annotated[timedelta, _text(_lasting)]
Cron = Annotated[str, _text(_cron)]
Zone = Annotated[ZoneInfo, _text(time_zone)]
Span = Annotated[Range, _text(Range.parse)]
Kubernetes = Annotated[KubernetesRange, _text(KubernetesRange.parse)]
Fingerprint = Annotated[str, _text(_fingerprint)]
Moment = Annotated[
    datetime,
    GetPydanticSchema(
        lambda _source, _handler: core_schema.no_info_plain_validator_function(_moment),
        lambda *_: {"type": "string", "format": "date"},
    ),
]
ChangeClasses = Annotated[ChangeClass, Field(strict=False)]
Refusable = StrEnum("Refusable", {**{each.name: each.value for each in ChangeClass}, "NOT_CHECKED": NOT_CHECKED})  # type: ignore[misc]  # a dict that is made
RefusedClasses = Annotated[Refusable, Field(strict=False)]
Releases = Annotated[Source, _text(parse_source)]
ApiUrl = Annotated[str, _text(parse_api_url)]
Flags = Annotated[
    dict[str, Any],
    GetPydanticSchema(
        lambda _source, _handler: core_schema.no_info_after_validator_function(
            _flags, core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema(), strict=True)
        ),
        _flags_schema,
    ),
]
