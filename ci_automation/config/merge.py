"""From the sections of a configuration file to what the flows use: defaults filled in, each artifact by itself."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

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
from ci_automation.policy.freeze import Freeze, time_zone
from ci_automation.policy.model import STEPS, Acknowledgement, Policy, SignatureFormat

S = TypeVar("S", bound=rules.Section)
T = TypeVar("T")


def merged(file: sections.File) -> Config:
    """Return what a file says."""
    defaults = file.defaults or sections.Defaults()
    upstream = file.upstream or sections.UpstreamSection()
    return Config(
        _source(file),
        tuple(artifact(entry, defaults) for entry in file.artifacts),
        UpstreamConfig(upstream.verify, upstream.trust_config, upstream.manifests),
    )


def _source(file: sections.File) -> Source:
    source = file.source or GitHubSource()
    return replace(source, api_url=file.api_url) if isinstance(source, GitHubSource) else source


def artifact(entry: sections.Artifact, defaults: sections.Defaults) -> ArtifactConfig:
    """Return one artifact with what the defaults say and it does not."""
    signing = _over(defaults.signing, entry.signing) or sections.SigningSection()
    verify = _over(defaults.verify, entry.verify) or sections.VerifySection()
    credentials = _over(defaults.credentials, entry.credentials) or sections.CredentialsSection()
    return ArtifactConfig(
        name=entry.name,
        channel=entry.url,
        components_file=entry.components_file,
        paused=bool(entry.paused),
        flags=entry.flags or {},
        policy=_policy(_over(defaults.policy, entry.policy) or rules.PolicySection(), entry, defaults),
        signing=SigningConfig(signing.mode, signing.key, signing.format or SignatureFormat.LEGACY),
        verify=_verify(verify),
        credentials=CredentialsConfig(_login(credentials.pull), _login(credentials.push), credentials.token_host),
        trust_config=_either(entry.trust_config, defaults.trust_config),
        attestations=bool(_either(entry.attestations, defaults.attestations)),
        minimum_flux=entry.minimum_flux,
        approval=_approval(_over(defaults.approval, entry.approval) or sections.ApprovalSection()),
        consumers=tuple(ConsumerConfig(it.repository, tuple(it.paths or ())) for it in entry.consumers or ()),
        announce=tuple(entry.announce or ()),
        clusters=_clusters(_over(defaults.clusters, entry.clusters) or rules.ClustersSection()),
        pin_images=_either(entry.pin_images, defaults.pin_images),
        promote=_promote(entry.promote) if entry.promote else None,
    )


def _approval(section: sections.ApprovalSection) -> ApprovalConfig:
    default = ApprovalConfig()
    return ApprovalConfig(
        via=section.via,
        approvals=_either(section.approvals, default.approvals),
        team=section.team,
        reviewers=tuple(section.reviewers or ()),
        team_reviewers=tuple(section.team_reviewers or ()),
        labels=tuple(section.labels or ()),
        assignees=tuple(section.assignees or ()),
        draft=bool(section.draft),
        auto_merge=bool(section.auto_merge),
        environment=_either(section.environment, default.environment),
        workflow=_either(section.workflow, default.workflow),
        repository=section.repository,
    )


def _verify(section: sections.VerifySection) -> VerifyConfig:
    exact, pattern = section.identity, section.identity_regexp
    return VerifyConfig(
        public_keys=tuple(section.public_key or ()),
        identities=(exact,) if exact else (),
        patterns=(pattern,) if pattern else (),
        issuer=section.issuer,
    )


def _over(below: S | None, above: S | None) -> S | None:
    """Return `above` with the keys that it leaves out from `below`, and so for the mappings in it."""
    if below is None or above is None:
        return below if above is None else above
    changes: dict[str, Any] = {}
    for name in above.model_fields_set:
        value = getattr(above, name)
        changes[name] = _over(getattr(below, name), value) if isinstance(value, rules.Section) else value
    return below.model_copy(update=changes)


def _policy(section: rules.PolicySection, entry: sections.Artifact, defaults: sections.Defaults) -> Policy:
    default = Policy()
    ages = section.min_release_age or rules.MinReleaseAge()
    return Policy(
        actions={step: _either(getattr(section, step), default.actions[step]) for step in STEPS},
        range=_either(section.range, default.range),
        prereleases=_either(section.prereleases, default.prereleases),
        min_release_age={step: _either(getattr(ages, step), default.min_release_age[step]) for step in STEPS},
        minor_step=_either(section.minor_step, default.minor_step),
        freeze=tuple(_freeze(it) for it in section.freeze or ()),
        escalate=default.escalate if section.escalate is None else frozenset(section.escalate),
        refuse=frozenset(str(it) for it in _either(entry.refuse, defaults.refuse) or ()),
        acknowledge=tuple(Acknowledgement(it.fingerprint, it.until, it.reason) for it in entry.acknowledge or ()),
    )


def _clusters(section: rules.ClustersSection) -> ClustersConfig:
    return ClustersConfig(section.kubernetes, tuple(section.snapshots or ()), tuple(section.objects or ()))


def _promote(section: rules.PromoteSection) -> PromoteConfig:
    found = section.evidence or ()
    evidence = tuple(EvidenceConfig(it.url, it.field, it.equals, it.status, it.repository, it.report) for it in found)
    return PromoteConfig(section.source, section.after or timedelta(), evidence)


def _either(given: T | None, default: T) -> T:
    return default if given is None else given


def _login(section: sections.LoginSection | None) -> Login | None:
    return Login(section.username_variable, section.password_variable) if section else None


def _freeze(entry: rules.FreezeEntry) -> Freeze:
    return Freeze(entry.cron, entry.lasting, entry.time_zone or time_zone("UTC"), entry.reason or "")
