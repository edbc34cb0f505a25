"""From the sections of a configuration file to what the flows use: defaults filled in, each artifact by itself."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

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
    GitHubSource,
    Login,
    PromoteConfig,
    SigningConfig,
    Source,
    UpstreamConfig,
    VerifyConfig,
)
from ci_automation.config.rules import Section
from ci_automation.policy.freeze import Freeze, time_zone
from ci_automation.policy.model import STEPS, Acknowledgement, Policy

S = TypeVar("S", bound=Section)
T = TypeVar("T")


def merged(file: sections.File) -> Config:
    """Return what a file says."""
    return Config(
        _source(file),
        tuple(_artifact(_over(file.defaults, entry)) for entry in file.artifacts),
        _as(UpstreamConfig, file.upstream),
    )


def _source(file: sections.File) -> Source:
    source = file.source or GitHubSource()
    return replace(source, api_url=file.api_url) if isinstance(source, GitHubSource) else source


def _over(below: Section | None, above: S) -> S:
    """Return `above` with the keys that it leaves out from `below`, and so for the mappings in it."""
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
    """Return the section's keys as a value with the same names; what it leaves out is the default."""
    given = _given(section).items()
    return config(**{name: tuple(value) if isinstance(value, list) else value for name, value in given})


def _artifact(it: sections.Artifact) -> ArtifactConfig:
    return ArtifactConfig(
        name=it.name,
        channel=it.url,
        components_file=it.components_file,
        paused=bool(it.paused),
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
        pin_images=it.pin_images,
        promote=_promote(it.promote) if it.promote else None,
    )


def _policy(section: rules.PolicySection, it: sections.Artifact) -> Policy:
    default = Policy()
    ages = section.min_release_age or rules.MinReleaseAge()
    return Policy(
        actions={step: _either(getattr(section, step), default.actions[step]) for step in STEPS},
        range=_either(section.range, default.range),
        prereleases=_either(section.prereleases, default.prereleases),
        min_release_age={step: _either(getattr(ages, step), default.min_release_age[step]) for step in STEPS},
        minor_step=_either(section.minor_step, default.minor_step),
        freeze=tuple(_freeze(each) for each in section.freeze or ()),
        escalate=default.escalate if section.escalate is None else frozenset(section.escalate),
        refuse=frozenset(str(each) for each in it.refuse or ()),
        acknowledge=tuple(_as(Acknowledgement, each) for each in it.acknowledge or ()),
    )


def _freeze(entry: rules.FreezeEntry) -> Freeze:
    return Freeze(entry.cron, entry.lasting, entry.time_zone or time_zone("UTC"), entry.reason or "")


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


def _promote(section: rules.PromoteSection) -> PromoteConfig:
    evidence = tuple(_as(EvidenceConfig, each) for each in section.evidence or ())
    return PromoteConfig(section.source, section.after or timedelta(), evidence)


def _either(given: T | None, default: T) -> T:
    return default if given is None else given
