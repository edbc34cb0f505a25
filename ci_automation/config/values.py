"""Parsers for the texts of a configuration file, with the rules of `Reference`, `Range` and other values.

A message does not repeat a text that may contain a secret.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.artifact.reference import InvalidReference, LayoutDirectory, OciRepository, Reference
from ci_automation.config.source import DirectorySourceConfig, Source, parse_api_url, parse_source
from ci_automation.errors import UsageError
from ci_automation.flux.following import OWN_KUSTOMIZATION, OWN_SOURCE
from ci_automation.flux.options import COMPONENTS, KNOWN_FLAGS, LOG_LEVELS, Options
from ci_automation.flux.version import Version
from ci_automation.impact.change import ChangeClass
from ci_automation.impact.check import KubernetesRange
from ci_automation.policy.model import NOT_CHECKED, Acknowledgement, InvalidDuration, Period, duration, time_zone
from ci_automation.policy.patterns import require_anchored, require_re2
from ci_automation.policy.ranges import Range

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

T = TypeVar("T")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_OWNER = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})"
_USER = re.compile(_OWNER)
_TEAM = re.compile(rf"{_OWNER}/[a-z0-9][a-z0-9_-]{{0,99}}")
_REPOSITORY = re.compile(rf"{_OWNER}/(?!\.\.?$)[A-Za-z0-9._-]{{1,100}}")
_WORKFLOW = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}\.ya?ml")
_FOLDER = re.compile(r"(?!.*(?:^|/)\.\.?(?:/|$))[^/\x00-\x1f][^\x00-\x1f]*")
_MAX_LABEL = 50
_MAX_APPROVALS = 10
_HOST = re.compile(r"[a-z0-9][a-z0-9.-]{0,252}(?::[0-9]{1,5})?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_MAX_PATH = 1024
_LAYOUT = "layout:"
KMS_SCHEMES = ("awskms", "gcpkms", "azurekms", "hashivault")


class InvalidValue(UsageError):
    """A text is not valid for its key; the message does not repeat it."""


class Form(Struct, frozen=True, eq=False):
    """The form of a value in the file, and its parser."""

    parse: Callable[[Any], object]
    written: type = str  # as YAML has it; `object` for more than one way
    schema: Mapping[str, object] | None = None  # what the JSON schema says beside the type
    below: Callable[[Path, Any], object] | None = None  # a value with a relative path, as it is from a folder


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


def _overlay_path(text: str) -> str:
    folder = text.removesuffix("/")
    if not text.isprintable() or len(text) > _MAX_PATH or any(part in ("", ".", "..") for part in folder.split("/")):
        raise InvalidValue("it is not a folder below the repository's root, such as clusters/production/flux-system")
    return folder


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


def _matching(pattern: re.Pattern[str], what: str) -> Form:
    """Return the form of a text that matches a pattern."""

    def parse(text: str) -> str:
        if not pattern.fullmatch(text):
            raise InvalidValue(f"it is not {what}")
        return text

    return Form(parse)


def _label(text: str) -> str:
    if len(text) > _MAX_LABEL:
        raise InvalidValue(f"a label has at most {_MAX_LABEL} characters")
    return _words(text)


def _cron(text: str) -> str:
    return Period(text, timedelta(hours=1), UTC).cron


def _fingerprint(text: str) -> str:
    return Acknowledgement(text, datetime.max.replace(tzinfo=UTC), "").fingerprint


def _moment(value: object) -> datetime:
    """Return the first instant of a day in UTC, or an instant with its zone."""
    if isinstance(value, str):
        with suppress(ValueError):
            value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        return value.replace(tzinfo=value.tzinfo or UTC)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    raise InvalidValue("it is not a date, such as 2027-01-31")


def _lasting(text: str) -> timedelta:
    if not (lasting := duration(text)):
        raise InvalidDuration(text)
    return lasting


def _flags(value: dict[str, Any]) -> dict[str, Any]:
    Options().with_flags(value)
    return {flag: tuple(given) if isinstance(given, list) else given for flag, given in value.items()}


def _flag_types() -> dict[str, object]:
    """Return Flux's flags with the types of their values; a list may be one text with commas."""
    names = {"items": {"type": "string"}, "type": ["array", "string"]}
    components = {"items": {"enum": list(COMPONENTS)}, "type": ["array", "string"], "uniqueItems": True}
    kinds = {bool: {"type": "boolean"}, str: {"type": "string"}, tuple: names}
    defaults = Options()
    flags: dict[str, object] = {flag: kinds[type(getattr(defaults, name))] for flag, name in KNOWN_FLAGS.items()}
    flags |= {"components": components, "components-extra": components, "log-level": {"enum": list(LOG_LEVELS)}}
    return dict(sorted(flags.items()))


def _spec(own: tuple[str, ...]) -> Form:
    """Return the form of a spec by Flux's own names, but for the keys that the program fills in."""

    def parse(value: dict[str, Any]) -> dict[str, Any]:
        if filled_in := sorted(value.keys() & set(own)):
            raise InvalidValue(f"{', '.join(filled_in)} is filled in by the program")
        if not isinstance(verify := value.get("verify", {}), dict) or verify.get("provider", "cosign") != "cosign":
            raise InvalidValue("verify must be a mapping, and its provider cosign")
        return value

    return Form(parse, dict)


def _texts(value: dict[str, Any]) -> dict[str, str]:
    for key, text in value.items():
        if not isinstance(text, str):
            raise InvalidValue(f"{key} must have a text; put it in quotes")
    return value


def some(values: list[T]) -> list[T]:
    """Return a list that is not empty."""
    if not values:
        raise InvalidValue("must not be empty")
    return values


def _approvals(number: int) -> int:
    if not 0 <= number <= _MAX_APPROVALS:
        bound = f"at most {_MAX_APPROVALS}" if number > 0 else "at least 0"
        raise InvalidValue(f"must be {bound}, not {number}")
    return number


def _format_version(number: int) -> int:
    if number != 1:
        raise InvalidValue(f"this program reads version 1 of the file format, not {number}")
    return number


def _file_below(root: Path, text: str) -> str:
    if "://" in text:
        return text
    scheme = _LAYOUT if text.startswith(_LAYOUT) else ""
    return f"{scheme}{root / text.removeprefix(scheme)}"


def _layout_below(root: Path, text: str) -> str:
    return _file_below(root, text) if text.startswith(_LAYOUT) else text


def _place_below(root: Path, reference: Reference) -> Reference:
    found = reference.repository
    if isinstance(found, OciRepository):
        return reference
    return replace(reference, repository=LayoutDirectory(root / found.path))


def _source_below(root: Path, source: Source) -> Source:
    return DirectorySourceConfig(root / source.path) if isinstance(source, DirectorySourceConfig) else source


Name = Annotated[str, Form(_name)]
Channel = Annotated[Reference, Form(_channel, below=_place_below)]
FileInArtifact = Annotated[str, Form(_file_in_artifact)]
OverlayPath = Annotated[str, Form(_overlay_path)]
KeyLocation = Annotated[str, Form(_key_location, below=_file_below)]
FluxVersion = Annotated[Version, Form(Version.parse)]
Words = Annotated[str, Form(_words)]
LocalFile = Annotated[str, Form(_words, below=_file_below)]
Origin = Annotated[str, Form(_words, below=_layout_below)]
Pattern = Annotated[str, Form(_pattern)]
PublicKeyLocation = Annotated[str, Form(_public_key_location, below=_file_below)]
PublicKeyLocations = Annotated[list[PublicKeyLocation], Form(some, list)]
Variable = Annotated[
    str, _matching(_VARIABLE, "the name of an environment variable; the value itself must not be in this file")
]
Host = Annotated[str, _matching(_HOST, "a host, such as gitlab.example or gitlab.example:8443, in small letters")]
User = Annotated[str, _matching(_USER, "the name of a user, such as octocat, without @")]
Team = Annotated[str, _matching(_TEAM, "a team, such as acme/platform, without @")]
TeamSlug = Annotated[str, _matching(re.compile(r"[a-z0-9][a-z0-9_-]{0,99}"), "the slug of a team, such as platform")]
Repository = Annotated[str, _matching(_REPOSITORY, "a repository, such as acme/fleet")]
WorkflowFile = Annotated[str, _matching(_WORKFLOW, "the name of a workflow's file, such as approve.yaml")]
Folder = Annotated[str, _matching(_FOLDER, "a path inside the repository, such as clusters/production")]
Label = Annotated[str, Form(_label)]
Age = Annotated[timedelta, Form(duration)]
Lasting = Annotated[timedelta, Form(_lasting)]
Cron = Annotated[str, Form(_cron)]
Zone = Annotated[tzinfo, Form(time_zone)]
Span = Annotated[Range, Form(Range.parse)]
Kubernetes = Annotated[KubernetesRange, Form(KubernetesRange.parse)]
Fingerprint = Annotated[str, Form(_fingerprint)]
InventoryName = Annotated[
    str,
    _matching(
        re.compile(r"(?:Deployment|CustomResourceDefinition)/[a-z0-9][a-z0-9.-]{0,252}"),
        "a controller or CRD as the plan names it, such as Deployment/image-reflector-controller",
    ),
]
ContentDigest = Annotated[
    str, _matching(re.compile(r"sha256:[0-9a-f]{64}"), "a digest: sha256: and 64 hex digits in small letters")
]
Moment = Annotated[datetime, Form(_moment, object, {"format": "date"})]
Refusable = StrEnum("Refusable", {**{each.name: each.value for each in ChangeClass}, "NOT_CHECKED": NOT_CHECKED})  # type: ignore[misc]  # a dict that is made
Releases = Annotated[Source, Form(parse_source, below=_source_below)]
ApiUrl = Annotated[str, Form(parse_api_url)]
Approvals = Annotated[int, Form(_approvals, int, {"maximum": _MAX_APPROVALS, "minimum": 0})]
SourceSpec = Annotated[dict[str, Any], _spec(OWN_SOURCE)]
KustomizationSpec = Annotated[dict[str, Any], _spec(OWN_KUSTOMIZATION)]
Texts = Annotated[dict[str, str], Form(_texts, dict, {"additionalProperties": {"type": "string"}})]
FormatVersion = Annotated[int, Form(_format_version, int, {"maximum": 1, "minimum": 1})]
_OTHER_FLAG = {"items": {"type": ["string", "integer"]}, "type": ["array", "boolean", "integer", "string"]}
Flags = Annotated[
    dict[str, Any], Form(_flags, dict, {"additionalProperties": _OTHER_FLAG, "properties": _flag_types()})
]
