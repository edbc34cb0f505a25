"""The artifacts that a command works on, each with its ports, or with the error that keeps it from being worked on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.errors import Error, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from ci_automation.artifact.reference import Reference
    from ci_automation.cli.arguments import Arguments
    from ci_automation.config.model import ArtifactConfig
    from ci_automation.flows.planning.git_content import GitContent
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.report.adoption import Adoption


class Prepared(Struct, frozen=True):
    """The world around an artifact, and what is wanted of it."""

    ports: Ports
    intent: Intent


class Target(Struct, frozen=True):
    """One artifact to work on; what keeps it from being worked on, such as a missing key, keeps no other one."""

    name: str
    channel: Reference
    prepared: Prepared | Error
    configured: ArtifactConfig | None = None

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
        return self.configured is not None and self.configured.promote is not None

    def previewing(self, given: Arguments, subject: str) -> Target:
        """Return the same for a job that only shows what a later job of its workflow, with this subject, would do."""
        from ci_automation.cli.trust import previewed

        if isinstance(self.prepared, Error):
            return self
        ports = previewed(self.prepared.ports, self.configured, given, subject)
        return replace(self, prepared=replace(self.prepared, ports=ports))

    def dated_after(self, moment: datetime) -> Target:
        """Return the same with a clock that is past a moment of another clock."""
        if isinstance(self.prepared, Error):
            return self
        return replace(self, prepared=replace(self.prepared, ports=self.prepared.ports.later_than(moment)))

    def speaking(self, say: Callable[[str], None], confirm: Callable[[Adoption], bool]) -> Target:
        """Return the same with another ear, and another one to ask."""
        if isinstance(self.prepared, Error):
            return self
        ports = replace(self.prepared.ports, say=say, confirm=confirm)
        return replace(self, prepared=replace(self.prepared, ports=ports))

    def by_clock(self, clock: Callable[[], datetime], whose: str) -> Target:
        """Return the same with another clock for what is written down."""
        if isinstance(self.prepared, Error):
            return self
        ports = replace(self.prepared.ports, clock=clock, whose_clock=whose)
        return replace(self, prepared=replace(self.prepared, ports=ports))

    def asking_git(self, find: Callable[[], GitContent | None]) -> Target:
        """Return the same with somebody who knows the content of Git."""
        if isinstance(self.prepared, Error):
            return self
        ports = replace(self.prepared.ports, find_git=find)
        return replace(self, prepared=replace(self.prepared, ports=ports))


class PromotedNotRendered(UsageError):
    """An artifact is to be rendered that gets its digests from another channel."""

    hint = "`promote` moves it; to have it rendered again, take `promote` out of the configuration."

    def __init__(self, goals: tuple[Target, ...]) -> None:
        super().__init__("; ".join(map(left_alone, goals)))


def left_alone(goal: Target) -> str:
    """Return why an artifact is left alone."""
    source = goal.configured.promote.source if goal.configured and goal.configured.promote else ""
    return f"{goal.name} is promoted from {source}, and never rendered"


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
