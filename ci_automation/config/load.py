"""Reading a configuration file: everything that is wrong in it at once, by file, line and key."""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from pydantic import ValidationError

from ci_automation.artifact.digest import Digest
from ci_automation.config import rules
from ci_automation.config import schema as sections
from ci_automation.config.document import MAX_BYTES, Document, InvalidConfig, Path, Problem, read
from ci_automation.config.merge import artifact, merged
from ci_automation.config.model import (
    FIRST_WITH_BUNDLES,
    ApprovalConfig,
    ApprovalVia,
    ArtifactConfig,
    Config,
    DirectorySource,
    SigningMode,
)
from ci_automation.config.promotion import unfit_promotions
from ci_automation.config.schema import schema
from ci_automation.config.values import KMS_SCHEMES
from ci_automation.policy.model import SignatureFormat

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator

    from pydantic_core import ErrorDetails

__all__ = ["load", "parse", "schema"]

S = TypeVar("S", bound=rules.Section)
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
    return replace(merged(parsed), digest=Digest.of(data))


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


def _unknown(key: str, section: type[rules.Section] | None) -> str:
    known = [field.alias or name for name, field in section.model_fields.items()] if section else []
    near = difflib.get_close_matches(key, known, n=1)
    return f"is not known; did you mean {near[0]}?" if near else f"is not known; known are {', '.join(known)}"


def _contradictions(document: Document, file: sections.File) -> list[Problem]:
    """Return what is right by itself and wrong beside something else."""
    problems = []
    if file.api_url is not None and isinstance(file.source, DirectorySource):
        problems.append(document.problem(("apiUrl",), "is for a github: source alone"))
    seen: dict[object, Path] = {}
    for index, named in enumerate(file.artifacts):
        # Names are those of environments, too, which have no case: two artifacts would share credentials.
        for key, value in (("name", named.name.casefold()), ("url", named.url)):
            here: Path = ("artifacts", index, key)
            if (first := seen.setdefault((key, value), here)) is not here:
                problems.append(document.problem(here, f"is the same as that of artifacts[{first[1]}]"))
    problems += [document.problem(("artifacts", *path), what) for path, what in unfit_promotions(file.artifacts)]
    defaults = file.defaults or sections.Defaults()
    for index, entry in enumerate(file.artifacts):
        for key, what in _unfit(artifact(entry, defaults)):
            problems.append(document.problem(("artifacts", index, *([key] if hasattr(entry, key) else [])), what))
    return problems


def _unfit(it: ArtifactConfig) -> Iterator[tuple[str, str]]:
    """Yield what does not go together in the signing and trust of one artifact, with the key to look at."""
    signing, verify = it.signing, it.verify
    mode, key = signing.mode, signing.key
    in_kms = key is not None and key.partition("://")[0] in KMS_SCHEMES
    if key is None and mode in (SigningMode.KEY, SigningMode.KMS):
        yield "signing", f"mode {mode} needs key"
    if key is not None and (mode in (SigningMode.KEYLESS, SigningMode.UNSAFE_UNSIGNED)):
        yield "signing", f"mode {mode} takes no key"
    if key is not None and mode is SigningMode.KMS and not in_kms:
        yield "signing", f"mode kms needs a key such as {KMS_SCHEMES[0]}://..."
    if signing.format is SignatureFormat.BUNDLE and (it.minimum_flux is None or it.minimum_flux < FIRST_WITH_BUNDLES):
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
    yield from (("approval", what) for what in _unfit_approval(it.approval))


def _unfit_approval(approval: ApprovalConfig) -> Iterator[str]:
    if approval.auto_merge and not approval.approvals:
        yield "autoMerge needs approvals: 1 or more, or nobody would have approved"
    if approval.auto_merge and approval.draft:
        yield "a draft is not merged: autoMerge and draft exclude each other"
    if approval.via is ApprovalVia.REPOSITORY_DISPATCH and approval.repository is None:
        yield "via repository-dispatch needs repository"
