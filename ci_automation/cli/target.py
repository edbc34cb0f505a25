"""The artifacts that a command works on, each with its ports, or with the error that keeps it from being worked on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.artifact.reference import InvalidReference, Reference
from ci_automation.config import DEFAULT_PATH
from ci_automation.config.model import UnknownArtifact
from ci_automation.errors import Error, UsageError
from ci_automation.impact.change import in_shell

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_automation.cli.arguments import Arguments
    from ci_automation.config.model import Config
    from ci_automation.config.sections import Artifact
    from ci_automation.flows.ports import Intent, Ports, Prepared


class Target(Struct, frozen=True):
    """One artifact to work on; what keeps it from being worked on, such as a missing key, keeps no other one.

    `ports` and `intent` raise that error.
    """

    name: str
    channel: Reference
    prepared: Prepared | Error
    configured: Artifact | None = None

    @property
    def ports(self) -> Ports:
        """Return the world around it.

        Raises:
            Error: it cannot be worked on.
        """
        return self._ready().ports

    @property
    def intent(self) -> Intent:
        """Return what is wanted of it.

        Raises:
            Error: it cannot be worked on.
        """
        return self._ready().intent

    def _ready(self) -> Prepared:
        if isinstance(self.prepared, Error):
            raise self.prepared
        return self.prepared

    @property
    def is_promoted(self) -> bool:
        """Return whether the artifact gets its digests from another channel, and is never rendered."""
        return bool(self.source)

    @property
    def source(self) -> str:
        """Return the channel that the artifact is promoted from, as the configuration names it; empty if it is not."""
        return self.configured.promote.source if self.configured and self.configured.promote else ""

    def with_ports(self, change: Callable[[Ports], Ports]) -> Target:
        """Return the same in a changed world."""
        if isinstance(self.prepared, Error):
            return self
        return replace(self, prepared=replace(self.prepared, ports=change(self.prepared.ports)))

    def previewing(self, given: Arguments, subject: str) -> Target:
        """Return the same for a job that only shows what a later job of its workflow, with this subject, would do."""
        from ci_automation.cli.trust import previewed

        return self.with_ports(lambda ports: previewed(ports, self.configured, given, subject))


def configured(artifact: str, config: Config | None) -> Artifact | None:
    """Return the configuration's artifact of that name or address; an address that it lacks is none.

    Raises:
        InvalidReference: it is no address, and there is no configuration.
        UnknownArtifact: the configuration has none of that name.
    """
    if config is None and not {":", "/"} & set(artifact):
        reason = f"it does not begin with oci:// or layout:, and no {DEFAULT_PATH} is here that has names of artifacts"
        raise InvalidReference(artifact, reason)
    try:
        return config.find(artifact) if config else None
    except UnknownArtifact:
        if artifact.startswith(("oci://", "layout:")):
            return None
        raise


def channel_of(artifact: str, config: Config | None) -> Reference:
    """Return the channel of that name in the configuration, or at that address.

    Raises:
        UnknownArtifact, InvalidReference: there is none, as `configured` says, or it is no channel.
    """
    found = configured(artifact, config)
    return found.channel if found else Reference.parse_channel(artifact)


def name_its_maker(error: Error, config: str | None) -> None:
    """Let the hint about a channel of the configuration that is not there name the command that makes it."""
    from ci_automation.cli.arguments import Arguments, configuration

    found = configuration(Arguments(config=config))
    for it in found.artifacts if found else ():
        if str(error).startswith(f"{it.channel} was not found"):
            command = f"promote --to {it.name}" if it.promote else f"init {it.name}"
            error.hint = error.hint.replace("`init` or `promote` makes a new channel", f"`{command}` makes this one")


def artifacts_there() -> str:
    """Return a sentence with the artifacts of the configuration, for a command that names none; empty without one."""
    from ci_automation.cli.arguments import Arguments, configuration

    try:
        config = configuration(Arguments())
    except Error:
        return ""
    return f"The configuration has {', '.join(it.name for it in config.artifacts)}. " if config else ""


class PromotedNotRendered(UsageError):
    """An artifact is to be rendered that gets its digests from another channel."""

    def __init__(self, goals: tuple[Target, ...]) -> None:
        super().__init__("; ".join(map(left_alone, goals)))
        name = goals[0].name
        looking, adopting = in_shell("check", name), in_shell("update", name, "--adopt")
        self.hint = (
            f"`promote` moves it, and brings its first digest: {looking} says when. To adopt the digest that it has, "
            f"take {adopting}. To have it rendered again, take `promote` out of the configuration."
        )


def left_alone(goal: Target) -> str:
    """Return why an artifact is left alone."""
    return f"{goal.name} gets its digests from {goal.source}, by `promote`"


def rendered(goals: tuple[Target, ...], tell: Callable[[str], None]) -> tuple[Target, ...]:
    """Return the artifacts that are rendered; `tell` hears of each that is left alone.

    Raises:
        PromotedNotRendered: none of them is.
    """
    others = tuple(goal for goal in goals if goal.is_promoted)
    if len(others) == len(goals):
        raise PromotedNotRendered(others)
    for goal in others:
        tell(left_alone(goal))
    return tuple(goal for goal in goals if not goal.is_promoted)
