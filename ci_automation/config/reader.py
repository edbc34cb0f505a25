"""From the plain values of a configuration file to its sections, with every error, and to what the flows use."""

from __future__ import annotations

import difflib
from datetime import timedelta
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import msgspec
from msgspec.structs import fields, replace

from ci_automation.config import rules
from ci_automation.config import schema as sections
from ci_automation.config.model import (
    ApprovalConfig,
    ArtifactConfig,
    ClustersConfig,
    Config,
    ConsumerConfig,
    CredentialsConfig,
    EvidenceConfig,
    GitHubSourceConfig,
    Login,
    PromoteConfig,
    SigningConfig,
    Source,
    UpstreamConfig,
    VerifyConfig,
)
from ci_automation.config.rules import Section
from ci_automation.config.schema import File
from ci_automation.config.values import InvalidValue, alternatives, unwrapped
from ci_automation.errors import UsageError
from ci_automation.policy.model import BUMPS, Acknowledgement, Allowance, Period, Policy, time_zone

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_automation.config.document import ConfigDocument, Path, Problem
    from ci_automation.flux.following import SyncSettings

E = TypeVar("E", bound=Enum)
S = TypeVar("S", bound=Section)
T = TypeVar("T")

_KINDS = {bool: "true or false", int: "a number", float: "a number", str: "a text", list: "a list", dict: "a mapping"}
_keys = cache(fields)


def read_sections(document: ConfigDocument) -> File | None:
    """Return the sections of a document, or None with all errors in its problems."""
    reader = _Reader(document)
    file = reader.attempt((), reader.section, File, document.value, ())
    told = {problem.path for problem in document.problems}
    document.problems += [problem for problem in reader.problems if problem.path not in told]
    return file


class _Reader:
    """A reader that collects every problem. It replaces an unreadable value by None, and continues."""

    def __init__(self, document: ConfigDocument) -> None:
        self.document = document
        self.problems: list[Problem] = []

    def attempt(self, path: Path, read: Callable[..., T], *arguments: object) -> T | None:
        try:
            return read(*arguments)
        except UsageError as error:
            what = f"{error}{f'. {error.hint}' if error.hint else ''}"
            self.problems.append(self.document.problem(path, what))
            return None

    def section(self, section: type[S], value: object, path: Path) -> S | None:
        if not isinstance(value, dict):
            raise _unlike("a mapping", value)
        before = len(self.problems)
        values: dict[str, Any] = {}
        for key in _keys(section):
            here = (*path, key.encode_name)
            if (given := value.get(key.encode_name)) is not None:
                values[key.name] = self.attempt(here, self.value, key.type, given, here)
            elif key.required:
                self.problems.append(self.document.problem(here, "is missing"))
        known = [key.encode_name for key in _keys(section)]
        for name in value:
            if name not in known:
                what = "is not supported by this version" if name in section.later else _unknown(name, known)
                self.problems.append(self.document.problem((*path, name), what, at_key=True))
        return section(**values) if len(self.problems) == before else None

    def value(self, kind: object, value: object, path: Path) -> object:
        kinds = alternatives(kind)
        kind, form = unwrapped(kinds[0] if isinstance(value, str) else kinds[-1])
        if isinstance(kind, type) and issubclass(kind, Section):
            return self.section(kind, value, path)
        if isinstance(kind, type) and issubclass(kind, Enum):
            return _member(kind, value)
        if form.written is object:
            return form.parse(value)
        if type(value) is not form.written:
            quotes = form.written is str and not isinstance(value, list | dict)
            raise _unlike(_KINDS[form.written], value, "; put it in quotes" if quotes else "")
        before = len(self.problems)
        if isinstance(value, list):
            [of] = get_args(kind)
            items = ((each, (*path, index)) for index, each in enumerate(value))
            value = [self.attempt(here, self.value, of, each, here) for each, here in items]
        elif isinstance(value, dict):  # entry by entry first, for their places
            for name, each in value.items():
                self.attempt((*path, name), form.parse, {name: each})
        return form.parse(value) if len(self.problems) == before else None


def _member(kind: type[E], value: object) -> E:
    members = {each.value: each for each in kind}
    if isinstance(value, str) and value in members:
        return members[value]
    *most, last = map(repr, members)
    wanted = f"{', '.join(most)} or {last}"
    if type(value) in (str, int):
        raise InvalidValue(f"{repr(value)[:80]} is not {wanted}")
    raise _unlike(wanted, value)


def _unlike(wanted: str, value: object, advice: str = "") -> InvalidValue:
    return InvalidValue(f"must be {wanted}, not {_KINDS.get(type(value), 'a date')}{advice}")


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"is not known; did you mean {near[0]}?" if near else f"is not known; known are {', '.join(known)}"


def merged_config(file: sections.File) -> Config:
    """Return the configuration in a file's sections."""
    return Config(
        _source(file),
        tuple(_artifact(_over(file.defaults, entry)) for entry in file.artifacts),
        _as(UpstreamConfig, file.upstream),
    )


def _source(file: sections.File) -> Source:
    source = file.source or GitHubSourceConfig()
    return replace(source, api_url=file.api_url) if isinstance(source, GitHubSourceConfig) else source


def _over(below: Section | None, above: S) -> S:
    """Return `above`, with the keys that it lacks taken from `below`; the same for the mappings in it."""
    changes = {}
    for name, value in _given(below).items():
        own = getattr(above, name)
        if own is None or isinstance(own, Section):
            changes[name] = value if own is None else _over(value, own)
    return msgspec.structs.replace(above, **changes)


def _given(section: Section | None) -> dict[str, Any]:
    keys = msgspec.structs.asdict(section) if section else {}
    return {name: value for name, value in keys.items() if value is not None}


def _as(config: type[T], section: Section | None) -> T:
    """Return the section's keys as a value with the same names; a missing key gets its default."""
    given = _given(section).items()
    return config(**{name: tuple(value) if isinstance(value, list) else value for name, value in given})


def _artifact(it: sections.Artifact) -> ArtifactConfig:
    return ArtifactConfig(
        name=it.name,
        channel=it.url,
        components_file=it.components_file,
        overlay=it.overlay,
        paused=bool(it.paused),
        version_tags=bool(it.version_tags),
        flags=it.flags or {},
        policy=_policy(it.policy or rules.PolicySection(), it),
        signing=_as(SigningConfig, it.signing),
        verify=_verify(it.verify or sections.VerifySection()),
        credentials=_credentials(it.credentials or sections.CredentialsSection()),
        trust_config=it.trust_config,
        attestations=bool(it.attestations),
        minimum_flux=it.minimum_flux,
        approval=_as(ApprovalConfig, it.approval),
        consumers=tuple(_as(ConsumerConfig, each) for each in it.consumers or ()),
        announce=tuple(it.announce or ()),
        clusters=_as(ClustersConfig, it.clusters),
        sync=_sync(it.sync) if it.sync else None,
        pin_images=it.pin_images,
        promote=_promote(it.promote) if it.promote else None,
    )


def _policy(section: rules.PolicySection, it: sections.Artifact) -> Policy:
    default = Policy()
    ages = section.min_release_age or rules.MinReleaseAge()
    return Policy(
        actions={step: _either(getattr(section, step), default.actions[step]) for step in BUMPS},
        range=_either(section.range, default.range),
        prereleases=_either(section.prereleases, default.prereleases),
        min_release_age={step: _either(getattr(ages, step), default.min_release_age[step]) for step in BUMPS},
        security_age=ages.security,
        minor_step=_either(section.minor_step, default.minor_step),
        freeze=tuple(_period(each, each.reason or "") for each in section.freeze or ()),
        window=tuple(_period(each) for each in section.window or ()),
        escalate=default.escalate if section.escalate is None else frozenset(section.escalate),
        refuse=frozenset(str(each) for each in it.refuse or ()),
        acknowledge=tuple(_as(Acknowledgement, each) for each in it.acknowledge or ()),
        allow_removal=tuple(Allowance(each.name, each.until, each.reason) for each in it.allow_removal or ()),
        accept_edits=tuple(Allowance(each.digest, each.until, each.reason) for each in it.accept_edits or ()),
    )


def _period(entry: rules.WindowEntry, reason: str = "") -> Period:
    return Period(entry.cron, entry.lasting, entry.time_zone or time_zone("UTC"), reason)


def _verify(section: sections.VerifySection) -> VerifyConfig:
    keys, exact, pattern = section.public_key or (), section.identity, section.identity_regexp
    return VerifyConfig(
        public_keys=(keys,) if isinstance(keys, str) else tuple(keys),
        identities=(exact,) if exact else (),
        patterns=(pattern,) if pattern else (),
        issuer=section.issuer,
    )


def _credentials(section: sections.CredentialsSection) -> CredentialsConfig:
    pull, push = (_as(Login, login) if login else None for login in (section.pull, section.push))
    return CredentialsConfig(pull, push, section.token_host)


def _sync(section: rules.SyncSection) -> SyncSettings:
    from ci_automation.flux.following import FleetSettings, SyncSettings  # most configurations have none

    settings = _as(SyncSettings, section)
    return replace(settings, fleet=_as(FleetSettings, section.fleet)) if section.fleet else settings


def _promote(section: rules.PromoteSection) -> PromoteConfig:
    evidence = tuple(_as(EvidenceConfig, each) for each in section.evidence or ())
    return PromoteConfig(section.source, section.after or timedelta(), evidence)


def _either(given: T | None, default: T) -> T:
    return default if given is None else given
