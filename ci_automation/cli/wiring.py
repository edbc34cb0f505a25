"""From options, configuration and environment to what a flow is given."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from ci_automation.action.job import Job
from ci_automation.artifact.reference import Reference
from ci_automation.cli.arguments import Arguments, configuration, configuration_root
from ci_automation.cli.output import confirmation, progress
from ci_automation.cli.places import clusters, images, kustomize, registry, release_source, upstream
from ci_automation.cli.target import Target, configured
from ci_automation.cli.trust import (
    ask_ahead,
    beside,
    bundle_or_legacy,
    open_ahead,
    readers_trust,
    signer,
    signing_mode,
    trusted,
)
from ci_automation.config import DEFAULT_PATH
from ci_automation.config.model import Config, SigningMode
from ci_automation.errors import Error, UsageError
from ci_automation.flows.ports import Intent, Ports, Prepared, Run
from ci_automation.flux.options import Options
from ci_automation.policy.model import Policy
from ci_automation.report.blocks import plain_text
from ci_automation.signing.trust import NOBODY_NAMED, Trusted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ci_automation.artifact.tree import Tree
    from ci_automation.config.sections import Artifact
    from ci_automation.flows.workspace import OverlayFolder
    from ci_automation.policy.plan import Plan
    from ci_automation.signing.signer import Signer

    Who = Callable[[Artifact | None, Arguments], tuple[Signer | None, Trusted | None, str]]


class NothingNamed(UsageError):
    """No artifact is named, and no configuration names any."""

    hint = f"Name an artifact, such as oci://ghcr.io/acme/flux-manifests:production, or write {DEFAULT_PATH}."
    message = "no artifact is named"


class TrustUnclear(UsageError):
    """A reference is in the repository of several artifacts, whose configuration trusts different people."""

    def __init__(self, reference: Reference, names: list[str]) -> None:
        super().__init__(f"{reference} may belong to {' or '.join(names)}, which trust different people")
        self.hint = "Name the artifact, or say who is trusted: --public-key, or --identity with --issuer."


def targets(artifact: str | None, given: Arguments, *, signs: bool = True) -> tuple[Target, ...]:
    """Return the artifact that is named, or else all that the configuration has.

    A run that does not sign needs no key.

    Raises:
        NothingNamed: neither names one.
        UsageError: an option or the configuration cannot be used, or whatever keeps every artifact from its work.
    """
    if artifact is not None:
        found: tuple[Target, ...] = (target(artifact, given, signs=signs),)
    elif (config := _begun(given, signs=signs)) is None:
        raise NothingNamed
    else:
        found = all_targets(config, given, signs=signs)
    failed = [each.prepared for each in found if isinstance(each.prepared, Error)]
    if len(failed) == len(found) and len({str(error) for error in failed}) == 1:
        raise failed[0]
    return found


def all_targets(config: Config, given: Arguments, *, signs: bool) -> tuple[Target, ...]:
    """Return all artifacts of a configuration, with one source: no release is fetched, or proven, for each of them."""
    releases, proof = release_source(given, config), cache(partial(upstream, given, config))
    every = (_target(each, config, given, signs=signs) for each in config.artifacts)
    return tuple(it.with_ports(lambda ports: replace(ports, releases=releases, find_upstream=proof)) for it in every)


def target(artifact: str, given: Arguments, *, signs: bool = True) -> Target:
    """Return the one artifact that is named."""
    config = _begun(given, signs=signs)
    what = configured(artifact, config) or Reference.parse_channel(artifact)
    return _target(what, config, given, signs=signs)


def _begun(given: Arguments, *, signs: bool) -> Config | None:
    """Return the configuration. A run that signs opens its key meanwhile, and while it loads the HTTP stack."""
    if signs:
        open_ahead(given)
    return configuration(given)


def reading(artifact: str, given: Arguments) -> tuple[Reference, Ports]:
    """Return any reference, also one by digest or a configured name, with what is configured for its repository.

    The key that signs is left alone: reading does not need it.
    """
    config = configuration(given)
    named = configured(artifact, config)
    reference = named.channel if named else Reference.parse(artifact)
    known = named or _same_repository(reference, config, given)
    return reference, _ports(reference, known, config, given, partial(_reads, as_job=False))


def _same_repository(reference: Reference, config: Config | None, given: Arguments) -> Artifact | None:
    """Return what is configured for the repository of a reference that is no channel of the configuration."""
    artifacts = config.artifacts if config else ()
    same = [artifact for artifact in artifacts if artifact.channel.repository == reference.repository]
    told = given.public_key or given.issuer
    if not told and any((it.verify, it.trust_config) != (same[0].verify, same[0].trust_config) for it in same):
        raise TrustUnclear(reference, [artifact.name for artifact in same])
    return same[0] if same else None


def reading_intent(given: Arguments) -> Intent:
    """Return the intent of a command that only reads: an artifact's components as the given flags say."""
    return Intent(now=datetime.now(UTC), components_file=given.components_file, flags=given.flags)


def _target(what: Artifact | Reference, config: Config | None, given: Arguments, *, signs: bool = True) -> Target:
    artifact = None if isinstance(what, Reference) else what
    channel = what if isinstance(what, Reference) else what.channel
    try:
        prepared: Prepared | Error = _prepared(channel, artifact, config, given, signs=signs)
    except Error as error:
        prepared = error
    return Target(artifact.name if artifact else str(channel), channel, prepared, artifact)


def _prepared(
    channel: Reference, artifact: Artifact | None, config: Config | None, given: Arguments, *, signs: bool
) -> Prepared:
    flags = {**(artifact.flags if artifact else {}), **given.flags}
    Options().with_flags(flags)  # a flag or value that Flux does not know is told before anything is fetched
    ports = _ports(channel, artifact, config, given, _signs if signs else partial(_reads, as_job=True))
    known = clusters(artifact.clusters if artifact else None, given, lambda text: reading_files(text, given))
    now = datetime.now(UTC)
    intent = Intent(
        now=now,
        policy=(artifact.policy if artifact else Policy()).acknowledging(given.acknowledge, now),
        components_file=given.components_file or (artifact.components_file if artifact else None),
        flags=flags,
        overlay=_overlay(given),
        overlay_folder=given.overlay or "",
        content_apart=artifact is not None and artifact.overlay is not None,
        paused=artifact.paused if artifact else False,
        version_tags=artifact.version_tags if artifact else False,
        allow_removal=given.allow_removal,
        accept_edits=given.accept_edits,
        accept_identity_change=given.accept_identity_change,
        adopt=given.adopt,
        unsafe_unproven_rendering=given.unsafe_unproven_rendering,
        unsafe_unsigned=signing_mode(artifact, given) is SigningMode.UNSAFE_UNSIGNED,
        signature_format=bundle_or_legacy(artifact, given, known, ports.say),
        attestations=given.attestations or (artifact is not None and artifact.attestations),
        clusters=known,
        pin_images=artifact.pin_images if artifact and given.pin_images is None else given.pin_images,
        kustomization=artifact.sync.kustomization if artifact and artifact.sync else {},
        config_digest=config.digest if config else None,
        run=this_run(os.environ),
    )
    return Prepared(ports, intent)


def _overlay(given: Arguments) -> Tree | None:
    if not given.overlay:
        return None
    from ci_automation.flows.files import read_overlay

    return read_overlay(Path(given.overlay))


def _overlay_of_checkout(artifact: Artifact | None, given: Arguments) -> OverlayFolder | None:
    """Return the overlay in the checked out repository, or None where none is configured, or nothing checked out."""
    root = configuration_root(given)
    if artifact is None or artifact.overlay is None:
        return None
    if not (root / ".git").exists():
        told = (
            f"the overlay {artifact.overlay!r} is not looked at, and the artifact keeps the files that it has: {root} "
            f"is no checkout of Git. Run this in a clone, or give --overlay {root / artifact.overlay}."
        )
        click.echo(plain_text(f"warning: {told}"), err=True)
        return None
    from ci_automation.flows.workspace import read_overlay_folder

    return read_overlay_folder(root, artifact.overlay, config=given.config or str(DEFAULT_PATH))


def reading_files(text: str, given: Arguments) -> Tree:
    """Return the files of an artifact, verified if a trusted signer is known."""
    from ci_automation.flows.verify import pull

    return pull(*reading(text, given))[0]


def _ports(reference: Reference, artifact: Artifact | None, config: Config | None, given: Arguments, who: Who) -> Ports:
    place = partial(registry, reference, artifact, given, writes=who is _signs)
    if who is _signs:
        ask_ahead(artifact, given)
        opened, (signing, trusting, why_nobody) = beside(partial(who, artifact, given), place)
    else:
        opened = place()
        signing, trusting, why_nobody = who(artifact, given)
    return Ports(
        registry=opened,
        releases=release_source(given, config),
        signer=signing,
        trusted=trusting,
        why_nobody=why_nobody,
        find_upstream=cache(partial(upstream, given, config)),
        find_kustomize=cache(kustomize),
        find_overlay=cache(partial(_overlay_of_checkout, artifact, given)),
        images=images(reference, artifact, given),
        confirm=confirmation(given),
        say=progress(verbose=given.verbose, text=given.output == "text"),
    )


def _reads(artifact: Artifact | None, given: Arguments, *, as_job: bool) -> tuple[None, Trusted | None, str]:
    """Return no signer, who is trusted, and why no one is."""
    return (None, *readers_trust(artifact, given, as_job=as_job))


def _signs(artifact: Artifact | None, given: Arguments) -> tuple[Signer | None, Trusted | None, str]:
    """Return who signs, who is trusted, and why no one is."""
    from ci_automation.signing.signer import LateSigner

    signing = signer(artifact, given)
    if isinstance(signing, LateSigner):
        signing.prepare()
    return signing, trusted(artifact, given, signing), NOBODY_NAMED


def this_run(environment: Mapping[str, str]) -> Run:
    """Return which run of GitHub Actions this is, by the variables that the runner sets; elsewhere an empty one."""
    job = Job.of(environment)
    if not job.url:
        return Run(job.url, job.actor)
    from ci_automation.records.content import OID, FleetCommit

    is_known = OID.fullmatch(job.sha)
    return Run(job.url, job.actor, FleetCommit(f"{job.server}/{job.repository}", job.sha) if is_known else None)


class PlanForAnotherArtifact(UsageError):
    """A plan is for an artifact that the configuration does not have."""

    hint = "Check that plan and configuration belong together, or give the right --config."

    def __init__(self, plan: Plan) -> None:
        super().__init__(f"the plan is for {plan.artifact}, which the configuration does not have")


def plan_target(plan: Plan, given: Arguments) -> Target:
    """Return the artifact that a plan is for.

    Raises:
        PlanForAnotherArtifact: there is a configuration, and it does not have that artifact.
    """
    config = configuration(given)
    found = configured(str(plan.artifact), config)
    if config and found is None:
        raise PlanForAnotherArtifact(plan)
    return _target(found or plan.artifact, config, given)
