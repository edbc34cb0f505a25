"""One artifact to work on, or what keeps it from being worked on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.errors import Error

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_automation.artifact.reference import Reference
    from ci_automation.config.model import ArtifactConfig
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

    def speaking(self, say: Callable[[str], None], confirm: Callable[[Adoption], bool]) -> Target:
        """Return the same with another ear, and another one to ask."""
        if isinstance(self.prepared, Error):
            return self
        ports = replace(self.prepared.ports, say=say, confirm=confirm)
        return replace(self, prepared=replace(self.prepared, ports=ports))
