"""Reader of a configuration file, which reports all problems at once, by file, line and key."""

from __future__ import annotations

import pathlib
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ci_automation.artifact.reference import Digest, InvalidReference, Reference
from ci_automation.config import DEFAULT_PATH
from ci_automation.config.document import MAX_BYTES, ConfigDocument, InvalidConfig, Path, Problem, read_document
from ci_automation.config.model import (
    FIRST_WITH_BUNDLES,
    ApprovalConfig,
    ApprovalVia,
    Config,
    EvidenceConfig,
    SigningMode,
)
from ci_automation.config.reader import merged_config, read_sections
from ci_automation.config.source import GitHubSourceConfig
from ci_automation.config.values import KMS_SCHEMES
from ci_automation.config.workflows import wrong_issuer
from ci_automation.policy.model import SignatureFormat

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ci_automation.config.sections import Artifact

_HERE = pathlib.Path()
_MOST_IN_GROUP = 20
# Keys about rendering, which an artifact with promote does not take.
_OF_RENDERING = {"flags": "flags", "overlay": "overlay", "pin_images": "pinImages"}


def load_config(path: pathlib.Path, root: pathlib.Path = _HERE) -> Config:
    """Return the configuration in the file at `path`; its relative paths begin in `root`, or in the working directory.

    Raises:
        InvalidConfig: the file cannot be read or used; the message lists all problems.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        what = f"it cannot be read: {error.strerror or error}"
        found = InvalidConfig([Problem(str(path), None, None, (), what)])
        if isinstance(error, FileNotFoundError):
            found.hint = f"{'' if path == DEFAULT_PATH else 'Check the path. '}`setup` writes {DEFAULT_PATH}."
        raise found from None
    return parse_config(data, str(path), root)


def parse_config(data: bytes, file: str, root: pathlib.Path = _HERE) -> Config:
    """Return the configuration in the bytes of a file; `file` is its name in messages, for `root` see `load_config`.

    Raises:
        InvalidConfig: the file cannot be used; the message lists all problems.
    """
    document = read_document(data, file)
    if (sections := read_sections(document, root)) is not None:
        config = merged_config(sections)
        document.add(_contradictions(document, config))
        if not document.problems:
            return replace(config, digest=Digest.of(data))
    found = InvalidConfig(document.problems)
    if sections is None:
        found.hint = "`config schema` prints the keys and their values."
    raise found


def _contradictions(document: ConfigDocument, config: Config) -> Iterator[Problem]:
    """Yield the problems of values that are valid alone, but not together."""
    if ("apiUrl",) in document.values and not isinstance(config.source, GitHubSourceConfig):
        yield document.problem(("apiUrl",), "is only for a github: source")
    seen: dict[object, Path] = {}
    for index, it in enumerate(config.artifacts):
        # Names are also names of environments, which ignore case: two artifacts would share credentials.
        for key, value in (("name", it.name.casefold()), ("url", it.channel)):
            here: Path = ("artifacts", index, key)
            if (first := seen.setdefault((key, value), here)) is not here:
                yield document.problem(here, f"is the same as that of artifacts[{first[1]}]")
    for found in (
        _unfit_promotions(document, config.artifacts),
        _shared_version_tags(config.artifacts),
        _unfit_groups(config.artifacts),
        (((index, key), what) for index, it in enumerate(config.artifacts) for key, what in _unfit(it)),
    ):
        yield from (document.problem(("artifacts", *path), what) for path, what in found)


def _shared_version_tags(artifacts: Sequence[Artifact]) -> Iterator[tuple[Path, str]]:
    """Yield the artifacts whose version tags those of another one in the same repository would move."""
    tagged: dict[object, int] = {}
    for index, it in enumerate(artifacts):
        if it.version_tags and (first := tagged.setdefault(it.channel.repository, index)) != index:
            yield (index, "versionTags"), f"is for one artifact of a repository, and artifacts[{first}] has it"


def _unfit_groups(artifacts: Sequence[Artifact]) -> Iterator[tuple[Path, str]]:
    """Yield the artifacts that cannot share a request with the others of their group."""
    members: dict[str, list[int]] = {}
    for index, it in enumerate(artifacts):
        if not it.group:
            continue
        here: Path = (index, "group")
        first = members.setdefault(it.group, []) or [index]
        members[it.group].append(index)
        if it.promote:
            yield here, "is for artifacts that are rendered; a promotion waits for its source, and is asked for alone"
        elif it.approval.via is not ApprovalVia.PULL_REQUEST:
            yield here, "needs approval.via: pull-request"
        elif it.approval != artifacts[first[0]].approval:
            yield here, f"needs the approval of artifacts[{first[0]}], which is in the same group"
        elif len(members[it.group]) == _MOST_IN_GROUP + 1:
            yield here, f"has more than {_MOST_IN_GROUP} artifacts, which one page cannot show"


def _unfit(it: Artifact) -> Iterator[tuple[str, str]]:
    """Yield contradictions in the signing and trust of one artifact, each with its key."""
    signing, verify = it.signing, it.verify
    mode, key = signing.mode, signing.key
    in_kms = key is not None and key.partition("://")[0] in KMS_SCHEMES
    if key is None and mode in (SigningMode.KEY, SigningMode.KMS):
        yield "signing", f"mode {mode} needs key"
    if key is not None and (mode in (SigningMode.KEYLESS, SigningMode.UNSAFE_UNSIGNED)):
        yield "signing", f"mode {mode} takes no key"
    if key is not None and mode is SigningMode.KMS and not in_kms:
        yield "signing", f"mode kms needs a key such as {KMS_SCHEMES[0]}://..."
    unknown = it.minimum_flux is None and not it.clusters.snapshots  # which a run reads
    too_early = it.minimum_flux is not None and it.minimum_flux < FIRST_WITH_BUNDLES
    if signing.format is SignatureFormat.BUNDLE and (unknown or too_early):
        yield (
            "signing",
            f"format bundle needs minimumFlux: {FIRST_WITH_BUNDLES.semver} or later; older ones do not read bundles",
        )
    named = (*verify.identities, *verify.patterns)
    if len(named) > 1:
        yield "verify", "takes identity or identityRegexp, not both; one pattern can name several"
    if bool(named) != bool(verify.issuer):
        yield "verify", "an identity and its issuer go together"
    if named and verify.public_keys:
        yield "verify", "takes keys or an identity, not both"
    if wrong := wrong_issuer(verify):
        yield "verify", wrong
    yield from (("approval", what) for what in _unfit_approval(it.approval))


def _unfit_approval(approval: ApprovalConfig) -> Iterator[str]:
    if approval.auto_merge and not approval.approvals:
        yield "autoMerge needs approvals: 1 or more; without reviews no person approves"
    if approval.auto_merge and approval.draft:
        yield "GitHub does not merge drafts: autoMerge and draft exclude each other"
    if approval.operations_by_code and approval.approvals:
        yield "operationsByCode lets one person approve, and approvals asks for others; leave one of them out"
    if approval.via is ApprovalVia.REPOSITORY_DISPATCH and approval.repository is None:
        yield "via repository-dispatch needs repository"


def _unfit_promotions(document: ConfigDocument, artifacts: Sequence[Artifact]) -> Iterator[tuple[Path, str]]:
    """Yield the problems of the artifacts' promotions, each with its place below `artifacts`."""
    named = {artifact.name: artifact.channel for artifact in artifacts}
    sources: dict[Reference, Reference] = {}
    for index, artifact in enumerate(artifacts):
        if artifact.promote is None:
            continue
        here: Path = (index, "promote")
        for name, key in _OF_RENDERING.items():
            if getattr(artifact, name) and ("artifacts", index, key) in document.values:  # not by the defaults
                yield (index, key), "is for rendering, and an artifact with promote is never rendered"
        if (source := _channel(artifact.promote.source, named)) is None:
            yield (*here, "from"), _no_source(artifact.promote.source, [*named])
        else:
            sources[artifact.channel] = source
            if _returns(artifact.channel, sources):
                yield (*here, "from"), "leads back to this artifact: no run would ever render one of them"
        for number, evidence in enumerate(artifact.promote.evidence):
            yield from (((*here, "evidence", number), what) for what in _unfit_evidence(evidence))


def _no_source(text: str, names: Sequence[str]) -> str:
    import difflib

    near = difflib.get_close_matches(text, names, n=1)
    what = f"{text!r} is neither the name of an artifact ({', '.join(names)}) nor the address of a channel"
    return f"{what}; did you mean {near[0]}?" if near else what


def _channel(text: str, named: Mapping[str, Reference]) -> Reference | None:
    if text in named:
        return named[text]
    with suppress(InvalidReference):
        return Reference.parse_channel(text)
    return None


def _returns(start: Reference, sources: Mapping[Reference, Reference]) -> bool:
    """Return whether the sources form a circle through `start`."""
    at, seen = sources.get(start), set[Reference]()
    while at is not None and at not in seen:
        if at == start:
            return True
        seen.add(at)
        at = sources.get(at)
    return False


def _unfit_evidence(entry: EvidenceConfig) -> Iterator[str]:
    if sum(each is not None for each in (entry.url, entry.status, entry.report)) != 1:
        yield "takes one of url, status and report"
    if len({each is None for each in (entry.url, entry.field, entry.equals)}) > 1:
        yield "url, field and equals go together"
    if (entry.status is None) is not (entry.repository is None):
        yield "status and repository go together"
