"""Reading a configuration file: everything that is wrong in it at once, by file, line and key."""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from ci_automation.artifact.digest import Digest
from ci_automation.config import schema as sections
from ci_automation.config.document import MAX_BYTES, Document, InvalidConfig, Path, Problem, read
from ci_automation.config.model import (
    FIRST_WITH_BUNDLES,
    ApprovalConfig,
    ApprovalVia,
    ArtifactConfig,
    Config,
    ConsumerConfig,
    CredentialsConfig,
    DirectorySource,
    GitHubSource,
    Login,
    SigningConfig,
    SigningMode,
    Source,
    UpstreamConfig,
    VerifyConfig,
)
from ci_automation.config.schema import schema
from ci_automation.config.values import KMS_SCHEMES
from ci_automation.policy.freeze import Freeze, time_zone
from ci_automation.policy.model import STEPS, Policy, SignatureFormat

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator

    from pydantic_core import ErrorDetails

__all__ = ["load", "parse", "schema"]

S = TypeVar("S", bound=sections.Section)
T = TypeVar("T")

_LATER = "is not supported by this version"
_KINDS: dict[type, str] = {bool: "true or false", int: "a number", float: "a number", str: "a text"}
_KINDS |= {list: "a list", dict: "a mapping"}
_WANTED = {
    "string_type": "a text",
    "string_sub_type": "a text",
    "bool_type": "true or false",
    "int_type": "a number",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}


def load(path: pathlib.Path) -> Config:
    """Return what the file at `path` says.

    Raises:
        InvalidConfig: it cannot be read or used; the message has all that is wrong with it.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        what = f"it cannot be read: {error.strerror or error}"
        raise InvalidConfig([Problem(str(path), None, None, (), what)]) from None
    return parse(data, str(path))


def parse(data: bytes, file: str) -> Config:
    """Return what the bytes of a file say; `file` is what messages call it.

    Raises:
        InvalidConfig: they cannot be used; the message has all that is wrong with them.
    """
    document = read(data, file)
    parsed = None
    try:
        parsed = sections.File.model_validate(document.value)
    except ValidationError as error:
        known = {problem.path for problem in document.problems}
        found = (_problem(document, details) for details in error.errors(include_url=False))
        document.problems += [problem for problem in found if problem.path not in known]
    if parsed is not None:
        document.problems += _contradictions(document, parsed)
    if document.problems or parsed is None:
        raise InvalidConfig(document.problems)
    return replace(_config(parsed), digest=Digest.of(data))


def _problem(document: Document, details: ErrorDetails) -> Problem:
    """Return what pydantic found, in words that say what to write; a value that may be a secret is not repeated."""
    path, kind, given = details["loc"], details["type"], details["input"]
    if path and isinstance(path[-1], int) and path not in document.values:
        path = path[:-1]  # one text where a list may be
    section = sections.section_at(path[:-1])
    later = section.later if section else {}
    last = path[-1] if path else ""
    context = details.get("ctx", {})
    if kind == "extra_forbidden":
        what = _LATER if last in later else _unknown(str(last), section)
    elif kind == "missing":
        what = "is missing"
    elif kind == "refused":
        what = context["message"]
    elif kind == "too_short":
        what = "must not be empty"
    elif kind in ("enum", "literal_error") and isinstance(given, str) and given in later.get(str(last), ()):
        what = f"{given} {_LATER}"
    elif kind in ("greater_than_equal", "less_than_equal"):
        bound = f"at most {context['le']}" if "le" in context else f"at least {context['ge']}"
        what = f"must be {bound}, not {given}"
        if path == ("version",):
            what = f"this program reads version 1 of the file's format, not {given}"
    elif kind in ("enum", "literal_error") and type(given) in (str, int):
        what = f"{repr(given)[:80]} is not {context['expected']}"
    else:
        wanted = _WANTED.get(kind) or context.get("expected") or details["msg"]
        what = f"must be {wanted}, not {_KINDS.get(type(given), 'a date')}"
        what += "; put it in quotes" if "string" in kind and not isinstance(given, list | dict) else ""
    return document.problem(path, what, at_key=kind == "extra_forbidden")


def _unknown(key: str, section: type[sections.Section] | None) -> str:
    known = [field.alias or name for name, field in section.model_fields.items()] if section else []
    near = difflib.get_close_matches(key, known, n=1)
    return f"is not known; did you mean {near[0]}?" if near else f"is not known; known are {', '.join(known)}"


def _contradictions(document: Document, file: sections.File) -> list[Problem]:
    """Return what is right by itself and wrong beside something else."""
    problems = []
    if file.api_url is not None and isinstance(file.source, DirectorySource):
        problems.append(document.problem(("apiUrl",), "is for a github: source alone"))
    seen: dict[object, Path] = {}
    for index, artifact in enumerate(file.artifacts):
        # Names are those of environments, too, which have no case: two artifacts would share credentials.
        for key, value in (("name", artifact.name.casefold()), ("url", artifact.url)):
            here: Path = ("artifacts", index, key)
            if (first := seen.setdefault((key, value), here)) is not here:
                problems.append(document.problem(here, f"is the same as that of artifacts[{first[1]}]"))
    defaults = file.defaults or sections.Defaults()
    for index, entry in enumerate(file.artifacts):
        for key, what in _unfit(_artifact(entry, defaults)):
            problems.append(document.problem(("artifacts", index, *([key] if hasattr(entry, key) else [])), what))
    return problems


def _unfit(artifact: ArtifactConfig) -> Iterator[tuple[str, str]]:
    """Yield what does not go together in the signing and trust of one artifact, with the key to look at."""
    signing, verify = artifact.signing, artifact.verify
    mode, key = signing.mode, signing.key
    in_kms = key is not None and key.partition("://")[0] in KMS_SCHEMES
    if key is None and mode in (SigningMode.KEY, SigningMode.KMS):
        yield "signing", f"mode {mode} needs key"
    if key is not None and (mode in (SigningMode.KEYLESS, SigningMode.UNSAFE_UNSIGNED)):
        yield "signing", f"mode {mode} takes no key"
    if key is not None and mode is SigningMode.KMS and not in_kms:
        yield "signing", f"mode kms needs a key such as {KMS_SCHEMES[0]}://..."
    if signing.format is SignatureFormat.BUNDLE and (
        artifact.minimum_flux is None or artifact.minimum_flux < FIRST_WITH_BUNDLES
    ):
        yield (
            "signing",
            f"format bundle needs minimumFlux: {FIRST_WITH_BUNDLES.semver} or later; older ones read no bundle",
        )
    named = (*verify.identities, *verify.patterns)
    if len(named) > 1:
        yield "verify", "takes identity or identityRegexp, not both; one pattern can name several"
    if bool(named) != bool(verify.issuer):
        yield "verify", "an identity and its issuer go together"
    if named and verify.public_keys:
        yield "verify", "takes keys or an identity, not both"
    yield from (("approval", what) for what in _unfit_approval(artifact.approval))


def _unfit_approval(approval: ApprovalConfig) -> Iterator[str]:
    if approval.auto_merge and not approval.approvals:
        yield "autoMerge needs approvals: 1 or more, or nobody would have approved"
    if approval.auto_merge and approval.draft:
        yield "a draft is not merged: autoMerge and draft exclude each other"
    if approval.via is ApprovalVia.REPOSITORY_DISPATCH and approval.repository is None:
        yield "via repository-dispatch needs repository"


def _config(file: sections.File) -> Config:
    defaults = file.defaults or sections.Defaults()
    upstream = file.upstream or sections.UpstreamSection()
    return Config(
        _source(file),
        tuple(_artifact(entry, defaults) for entry in file.artifacts),
        UpstreamConfig(upstream.verify, upstream.trust_config, upstream.manifests),
    )


def _source(file: sections.File) -> Source:
    source = file.source or GitHubSource()
    return replace(source, api_url=file.api_url) if isinstance(source, GitHubSource) else source


def _artifact(entry: sections.Artifact, defaults: sections.Defaults) -> ArtifactConfig:
    signing = _over(defaults.signing, entry.signing) or sections.SigningSection()
    verify = _over(defaults.verify, entry.verify) or sections.VerifySection()
    credentials = _over(defaults.credentials, entry.credentials) or sections.CredentialsSection()
    return ArtifactConfig(
        name=entry.name,
        channel=entry.url,
        components_file=entry.components_file,
        paused=bool(entry.paused),
        flags=entry.flags or {},
        policy=_policy(_over(defaults.policy, entry.policy) or sections.PolicySection()),
        signing=SigningConfig(signing.mode, signing.key, signing.format or SignatureFormat.LEGACY),
        verify=_verify(verify),
        credentials=CredentialsConfig(_login(credentials.pull), _login(credentials.push)),
        trust_config=_either(entry.trust_config, defaults.trust_config),
        attestations=bool(_either(entry.attestations, defaults.attestations)),
        minimum_flux=entry.minimum_flux,
        approval=_approval(_over(defaults.approval, entry.approval) or sections.ApprovalSection()),
        consumers=tuple(ConsumerConfig(it.repository, tuple(it.paths or ())) for it in entry.consumers or ()),
        announce=tuple(entry.announce or ()),
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
        changes[name] = _over(getattr(below, name), value) if isinstance(value, sections.Section) else value
    return below.model_copy(update=changes)


def _policy(section: sections.PolicySection) -> Policy:
    default = Policy()
    ages = section.min_release_age or sections.MinReleaseAge()
    return Policy(
        actions={step: _either(getattr(section, step), default.actions[step]) for step in STEPS},
        range=_either(section.range, default.range),
        prereleases=_either(section.prereleases, default.prereleases),
        min_release_age={step: _either(getattr(ages, step), default.min_release_age[step]) for step in STEPS},
        minor_step=_either(section.minor_step, default.minor_step),
        freeze=tuple(
            Freeze(entry.cron, entry.lasting, entry.time_zone or time_zone("UTC"), entry.reason or "")
            for entry in section.freeze or ()
        ),
    )


def _either(given: T | None, default: T) -> T:
    return default if given is None else given


def _login(section: sections.LoginSection | None) -> Login | None:
    return Login(section.username_variable, section.password_variable) if section else None
