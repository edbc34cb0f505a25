"""From options, configuration and environment to what a flow is given."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ci_automation.artifact.reference import OciRepository, Reference
from ci_automation.cli.given import configuration, release_source
from ci_automation.cli.output import progress
from ci_automation.config import DEFAULT_PATH
from ci_automation.config.model import CredentialsConfig, SigningConfig, SigningMode, UnknownArtifact
from ci_automation.errors import UsageError
from ci_automation.flows.files import read_overlay
from ci_automation.flows.ports import Intent, Ports
from ci_automation.flux.options import Options
from ci_automation.policy.model import Policy
from ci_automation.registry import open_registry

if TYPE_CHECKING:
    from ci_automation.cli.given import Given
    from ci_automation.config.model import ArtifactConfig, Config
    from ci_automation.policy.plan import Plan
    from ci_automation.registry.credentials import CredentialSource
    from ci_automation.registry.port import Registry
    from ci_automation.signing.keys import PublicKey, SigningKey


class NothingNamed(UsageError):
    """No artifact is named, and no configuration names any."""

    hint = f"Name an artifact, such as oci://ghcr.io/acme/flux-manifests:production, or write {DEFAULT_PATH}."

    def __init__(self) -> None:
        super().__init__("no artifact is named")


@dataclass(frozen=True, slots=True)
class Target:
    """One artifact to work on, with the world around it and what is wanted of it."""

    name: str
    channel: Reference
    ports: Ports
    intent: Intent


def targets(artifact: str | None, given: Given) -> tuple[Target, ...]:
    """Return the artifact that is named, or else all that the configuration has.

    Raises:
        NothingNamed: neither names one.
        UsageError: an option, the configuration, a key or an overlay cannot be used.
    """
    config = configuration(given)
    if artifact is None:
        if config is None:
            raise NothingNamed
        return tuple(_target(each, config, given) for each in config.artifacts)
    return (_target(_configured(artifact, config) or Reference.parse_channel(artifact), config, given),)


def _configured(artifact: str, config: Config | None) -> ArtifactConfig | None:
    """Return the configuration's artifact of that name or address; an address that it lacks is none."""
    try:
        return config.find(artifact) if config else None
    except UnknownArtifact:
        if artifact.startswith(("oci://", "layout:")):
            return None
        raise


def target(artifact: str, given: Given) -> Target:
    """Return the one artifact that is named."""
    return targets(artifact, given)[0]


def reading(artifact: str, given: Given) -> tuple[Reference, Ports]:
    """Return any reference, also one by digest or a configured name, with what is configured for its repository.

    The key that signs is left alone: whoever only reads need not have it.
    """
    config = configuration(given)
    named = _configured(artifact, config)
    reference = named.channel if named else Reference.parse(artifact)
    artifacts = config.artifacts if config else ()
    same = (replace(it, signing=SigningConfig()) for it in artifacts if it.channel.repository == reference.repository)
    return reference, _ports(reference, next(same, None), config, given)


def _target(what: ArtifactConfig | Reference, config: Config | None, given: Given) -> Target:
    artifact = None if isinstance(what, Reference) else what
    channel = what if isinstance(what, Reference) else what.channel
    flags = {**(artifact.flags if artifact else {}), **given.flags}
    Options().with_flags(flags)  # a flag or value that Flux does not know is told before anything is fetched
    ports = _ports(channel, artifact, config, given)
    unsigned = given.signing == "unsafe-unsigned" or (
        given.signing is None
        and given.key is None
        and artifact is not None
        and artifact.signing.mode is SigningMode.UNSAFE_UNSIGNED
    )
    intent = Intent(
        now=datetime.now(UTC),
        policy=artifact.policy if artifact else Policy(),
        components_file=given.components_file or (artifact.components_file if artifact else None),
        flags=flags,
        overlay=read_overlay(Path(given.overlay)) if given.overlay else None,
        paused=artifact.paused if artifact else False,
        allow_removal=given.allow_removal,
        accept_edits=given.accept_edits,
        adopt=given.adopt,
        unsafe_unproven_rendering=given.unsafe_unproven_rendering,
        unsafe_unsigned=unsigned,
    )
    return Target(artifact.name if artifact else str(channel), channel, ports, intent)


def _ports(reference: Reference, artifact: ArtifactConfig | None, config: Config | None, given: Given) -> Ports:
    from concurrent.futures import ThreadPoolExecutor

    # Opening an encrypted key takes a fifth of a second, and so does loading the HTTP stack: they go side by side.
    with ThreadPoolExecutor(1) as beside:
        keys = beside.submit(_keys, artifact, given)
        registry, releases = _registry(reference, artifact, given), release_source(given, config)
        private, public = keys.result()
    return Ports(
        registry=registry,
        releases=releases,
        signing_key=private,
        trusted_key=public,
        say=progress(verbose=given.verbose, text=given.output == "text"),
    )


def _keys(artifact: ArtifactConfig | None, given: Given) -> tuple[SigningKey | None, PublicKey | None]:
    """Return the key to sign with and the key to trust; the second is the first's public half unless it is named."""
    location = given.key or (artifact.signing.key if artifact and given.signing is None else None)
    trusted = given.public_key or (artifact.verify.public_key if artifact else None)
    if location is None and trusted is None:
        return None, None
    from ci_automation.signing.keys import load_public_key, load_signing_key

    private = load_signing_key(location, os.environ, Path()) if location else None
    public = load_public_key(trusted, os.environ, Path()) if trusted else (private.public if private else None)
    return private, public


def _registry(reference: Reference, artifact: ArtifactConfig | None, given: Given) -> Registry:
    """Return the registry, with credentials from named variables, or else from docker's configuration."""
    if not isinstance(reference.repository, OciRepository):
        return open_registry(reference)
    from ci_automation.registry.credentials import DockerConfig, NamedVariables, Variables
    from ci_automation.registry.network import Network

    explicit = Path(given.registry_config) if given.registry_config else None
    source: CredentialSource = DockerConfig.find(os.environ, Path.home(), explicit)
    if artifact and artifact.credentials != CredentialsConfig():
        pull, push = (
            Variables(login.username_variable, login.password_variable) if login else None
            for login in (artifact.credentials.pull, artifact.credentials.push)
        )
        source = NamedVariables(reference.repository.host, os.environ, pull, push, source)
    return open_registry(reference, source, Network.from_environment(os.environ))


class PlanForAnotherArtifact(UsageError):
    """A plan is for an artifact that the configuration does not have."""

    hint = "Check that plan and configuration belong together, or give the right --config."

    def __init__(self, plan: Plan) -> None:
        super().__init__(f"the plan is for {plan.artifact}, which the configuration does not have")


def plan_target(plan: Plan, given: Given) -> Target:
    """Return the artifact that a plan is for.

    Raises:
        PlanForAnotherArtifact: there is a configuration, and it does not have that artifact.
    """
    config = configuration(given)
    found = _configured(str(plan.artifact), config)
    if config and found is None:
        raise PlanForAnotherArtifact(plan)
    return _target(found or plan.artifact, config, given)
