"""The examinations of `doctor`: kustomize, the registry, the signer, GitHub's settings, the clock."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.errors import Error, RegistryError, ReleaseSourceError, UsageError
from ci_automation.flows.ports import Intent, NoSigner, Ports
from ci_automation.flows.publication.publish import require_signer
from ci_automation.flows.verify import verify_channel
from ci_automation.flows.watch import judge, succeeded
from ci_automation.github.answers import object_at, segment
from ci_automation.github.errors import GitHubDenied, GitHubUnreachable
from ci_automation.registry.port import NotFound, Unreachable
from ci_automation.signing.keys.public import KeyFileMissing
from ci_automation.signing.trust import TrustedIdentities

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime, timedelta

    from ci_automation.artifact.reference import Reference
    from ci_automation.config.workflows import GitHubPlace
    from ci_automation.github.client import GitHub
    from ci_automation.github.runs import Runs
    from ci_automation.impact.overlay.builder import Kustomize

_MANY = 100
_SLOW = 2.0  # seconds for one small answer
_APART = 60.0  # seconds between two clocks, beyond which tokens and times of approvals go wrong
_UNBUILT = Tree((TreeFile("kustomization.yaml", b"configMapGenerator: [{name: a, literals: [a=b]}]\n"),))


class Health(enum.StrEnum):
    """What an examination came to."""

    WRONG = "wrong"  # the first to be read
    UNSEEN = "cannot be seen from here"
    GOOD = "good"


class Diagnosis(Struct, frozen=True, rename="camel"):
    """One examination: what was looked at, what was found, and the one thing to do; `exit_code` is for scripts.

    `also` is what else was looked at with the same outcome.
    """

    what: str
    health: Health
    found: str
    advice: str = ""
    exit_code: int = 0
    also: tuple[str, ...] = ()


def examine_kustomize(kustomize: Kustomize | None, *, needed: bool = True) -> Diagnosis:
    """Return whether kustomize starts where it is confined; `needed` says that an overlay may have to be built."""
    what = "kustomize"
    advice = "Put kustomize 5 or kubectl into PATH, on Linux with seccomp: without it, patches are not checked."
    if kustomize is None:
        found = "there is none, and no kubectl, or this is not Linux"
        if not needed:
            return Diagnosis(what, Health.UNSEEN, f"{found}; no artifact here is known to need it")
        return Diagnosis(what, Health.WRONG, found, advice, UsageError.exit_code)
    (built,) = kustomize.builds([(_UNBUILT, ".")])
    if isinstance(built, Error):
        return Diagnosis(what, Health.WRONG, str(built), built.hint or advice, UsageError.exit_code)
    return Diagnosis(what, Health.GOOD, "it starts, confined")


def examine_registry(
    channel: Reference, ports: Ports, seconds: Callable[[], float], *, first: str = "`init`"
) -> Iterator[Diagnosis]:
    """Yield whether the registry answers, how fast, whether the channel is there, and whether a run could write.

    `first` is what makes the first digest of the channel.
    """
    what = f"{channel}: read"
    before = seconds()
    try:
        digest = ports.registry.resolve(channel)
    except Error as error:
        yield diagnosed(what, error)
        return
    took = seconds() - before
    if digest is None:
        advice = f"Make its first digest: {first}. Or check the spelling and the right to read."
        yield Diagnosis(what, Health.WRONG, "there is no such channel", advice, NotFound.exit_code)
    elif took > _SLOW:
        advice = "Look at the registry, and the network."
        yield Diagnosis(what, Health.WRONG, f"an answer takes {took:.1f} s", advice, RegistryError.exit_code)
    else:
        yield Diagnosis(what, Health.GOOD, f"it has {digest}; the registry answered in {took * 1000:.0f} ms")
    what = f"{channel}: write"
    try:
        ports.registry.require_writable(channel)
    except Error as error:
        yield diagnosed(what, error)
    else:
        yield Diagnosis(what, Health.GOOD, "an upload could begin; it was given up again")


def examine_signer(
    channel: Reference, ports: Ports, intent: Intent, *, in_workflow: bool = True
) -> Iterator[Diagnosis]:
    """Yield who signs, whether the configuration trusts that signer, and whether a trusted one signed the channel.

    Where the configuration trusts identities, only jobs of a workflow can sign, and nothing is wrong elsewhere.
    """
    what = f"{channel}: who signs"
    try:
        require_signer(ports, intent)
    except Error as error:
        if isinstance(error, NoSigner) and isinstance(ports.trusted, TrustedIdentities) and not in_workflow:
            advice = "To see it, run the action with `command: doctor` in a job of that workflow."
            yield Diagnosis(what, Health.UNSEEN, "a workflow signs keyless, and this is no job of it", advice)
        elif isinstance(error, KeyFileMissing) and error.variable and not in_workflow:
            advice = f'To see it, run the action with `command: doctor`, or `export {error.variable}="$(cat FILE)"`.'
            yield Diagnosis(what, Health.UNSEEN, f"{error.variable} has the key, which is not set here", advice)
        else:
            yield diagnosed(what, error)
    else:
        named = f"{ports.signer.trusted}, which is trusted" if ports.signer else "nothing is signed (unsafe-unsigned)"
        yield Diagnosis(what, Health.GOOD, named)
    what = f"{channel}: what clusters verify"
    try:
        found = verify_channel(channel, ports, intent)
    except NotFound:
        yield Diagnosis(what, Health.UNSEEN, "it has nothing yet")
        return
    except Error as error:
        yield diagnosed(what, error)
        return
    if found.problem:
        yield diagnosed(what, found.problem)
    else:
        yield Diagnosis(what, Health.GOOD, f"a trusted signer signed it: {found.by}")


def examine_clock(ahead: timedelta) -> Diagnosis:
    """Return whether this machine's clock agrees with GitHub's; `ahead` is how far it is before GitHub's."""
    seconds = ahead.total_seconds()
    if abs(seconds) > _APART:
        advice = "Set this machine's clock: identity tokens and certificates are valid for minutes."
        return Diagnosis("clock", Health.WRONG, f"{seconds:+.0f} s from GitHub's", advice, UsageError.exit_code)
    return Diagnosis("clock", Health.GOOD, f"{seconds:+.0f} s from GitHub's")


def examine_github(
    client: GitHub, runs: Runs, place: GitHubPlace, wanted: SettingsNeeded, ahead: Callable[[], timedelta]
) -> Iterator[Diagnosis]:
    """Yield what the API shows of the repository's settings, and of the clock; with few rights that is not all.

    `ahead` is how far this machine's clock is before GitHub's, as far as GitHub answered.
    """
    at = f"{place.server}/{place.repository}/settings"
    try:
        client.get(f"/repos/{place.repository}")
    except GitHubUnreachable as error:
        yield Diagnosis("GitHub: settings, schedule and clock", Health.UNSEEN, str(error), error.hint)
        return
    except Error as error:
        yield diagnosed("GitHub", error)
        return
    if wanted.pull_requests:
        path, advice = f"/repos/{place.repository}/actions/permissions/workflow", f"Tick it: {at}/actions"
        what = "Actions may open pull requests"
        yield _seen(
            what, lambda: "" if object_at(client, path).flag("can_approve_pull_request_reviews") else "no", advice
        )
    if wanted.environment:
        advice = f"Make it, with required reviewers: {at}/environments"
        what = f"environment {wanted.environment} has reviewers"
        yield _seen(what, lambda: _has_reviewers(runs, wanted.environment), advice)
    advice = f"Protect it: who may push a workflow there signs what they like: {at}/rules"
    yield _seen(f"{place.branch} is protected", lambda: _is_protected(client, place), advice)
    what, advice = f"{wanted.workflow} runs on schedule", "Look at its newest runs; where it is off, switch it on."
    yield _seen(what, lambda: _is_alive(runs, place, wanted), advice)
    yield examine_clock(ahead())
    if wanted.package:
        packages = f"{place.server}/orgs/{place.repository.partition('/')[0]}/packages"
        yield Diagnosis(
            f"the package {wanted.package} lets {place.repository} write",
            Health.UNSEEN,
            "GitHub has no API for it",
            f"If others pushed it first, look under Manage Actions access: {packages}",
        )


class SettingsNeeded(Struct, frozen=True):
    """What the repository's way of working needs of GitHub."""

    pull_requests: bool
    environment: str  # with the reviewers, or nothing where a code takes their place
    workflow: str
    package: str  # at ghcr.io, or nothing
    now: datetime
    max_age: timedelta


def _seen(what: str, look: Callable[[], str], advice: str) -> Diagnosis:
    """Return what a look found: nothing, if all is well, else what is wrong."""
    try:
        wrong = look()
    except GitHubDenied as error:
        return Diagnosis(what, Health.UNSEEN, str(error), "Run it with a token that may read the settings.")
    except Error as error:
        return diagnosed(what, error)
    if wrong:
        return Diagnosis(what, Health.WRONG, wrong, advice, ReleaseSourceError.exit_code)
    return Diagnosis(what, Health.GOOD, "yes")


def _has_reviewers(runs: Runs, name: str) -> str:
    environment = runs.environment(name)
    if environment is None:
        return "there is no such environment"
    return "" if environment.required_reviewers else "it has none, so every run would pass"


def _is_protected(client: GitHub, place: GitHubPlace) -> str:
    branch = segment(place.branch)
    rules = client.get(f"/repos/{place.repository}/rules/branches/{branch}")
    if rules and rules.value:
        return ""
    protected = object_at(client, f"/repos/{place.repository}/branches/{branch}").flag("protected")
    return "" if protected else "no rule is about it"


def _is_alive(runs: Runs, place: GitHubPlace, wanted: SettingsNeeded) -> str:
    state = runs.workflow_state(wanted.workflow)
    listed = runs.runs(workflow=wanted.workflow, statuses=("success",), since=None, limit=_MANY)
    return judge(wanted.workflow, state, succeeded(listed, place.branch), wanted.max_age, wanted.now)


def diagnosed(what: str, error: Error) -> Diagnosis:
    """Return an error as a finding; behind a registry that cannot be reached nothing is seen."""
    health = Health.UNSEEN if isinstance(error, Unreachable) else Health.WRONG
    return Diagnosis(what, health, str(error), error.hint, error.exit_code)


def told_once(findings: Iterable[Diagnosis]) -> Iterator[Diagnosis]:
    """Yield the findings, one for all those with the same error of a registry, such as a host that cannot be reached.

    It has one text for each channel.
    """
    causes: dict[object, list[Diagnosis]] = {}
    for number, it in enumerate(findings):
        cause = (it.found, it.advice) if it.exit_code == RegistryError.exit_code else number
        causes.setdefault(cause, []).append(it)
    for same in causes.values():
        aspects: dict[str, list[str]] = {}
        for it in same:
            of, colon, aspect = it.what.rpartition(": ")
            aspects.setdefault(of + colon, []).append(aspect)
        what, *also = (f"{of}{', '.join(each)}" for of, each in aspects.items())
        yield replace(same[0], what=what, also=tuple(also))
