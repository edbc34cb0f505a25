"""What a flow is given: the world outside, and what the user wants."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ci_automation.policy.model import Policy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from ci_automation.artifact.tree import Tree
    from ci_automation.flux.release import ReleaseSource
    from ci_automation.registry.port import Registry
    from ci_automation.signing.keys import PublicKey, SigningKey


def _silent(_: str) -> None:
    """Say nothing."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The world outside: a registry, a source of releases, the keys, and an ear for progress."""

    registry: Registry
    releases: ReleaseSource
    signing_key: SigningKey | None = None
    trusted_key: PublicKey | None = None
    say: Callable[[str], None] = _silent


@dataclass(frozen=True, slots=True)
class Intent:
    """What the user wants of one artifact, and what the user has allowed, once, for this run."""

    now: datetime
    policy: Policy = field(default_factory=Policy)
    components_file: str | None = None
    flags: Mapping[str, Any] = field(default_factory=dict)
    overlay: Tree | None = None
    paused: bool = False
    allow_removal: bool = False
    accept_edits: bool = False
    adopt: bool = False
    unsafe_unproven_rendering: bool = False
    unsafe_unsigned: bool = False
