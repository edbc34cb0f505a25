"""What a configuration file may say about policies, clusters and promotions: the sections that decide what happens."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from ci_automation.config.values import (
    Age,
    Cron,
    Fingerprint,
    Kubernetes,
    Lasting,
    Moment,
    Repository,
    Span,
    Words,
    Zone,
)
from ci_automation.impact.change import ChangeClass
from ci_automation.policy.model import Action, MinorStep


class Section(msgspec.Struct, frozen=True, rename="camel"):
    """One mapping of the file; what is written below a key is its description in the JSON schema."""

    later: ClassVar[frozenset[str]] = frozenset()
    """Keys of the design that this version does not know."""


class MinReleaseAge(Section, frozen=True):
    """How old a release must be before it is taken, by the kind of step to it; such as 24h or 7d."""

    patch: Age | None = None
    """24h if left out."""
    minor: Age | None = None
    """7d if left out."""
    major: Age | None = None
    """7d if left out."""


class FreezeEntry(Section, frozen=True):
    """A time in which nothing is published."""

    cron: Cron
    """When it begins: minute, hour, day of month, month, day of week, such as `0 0 20 12 *`."""
    lasting: Lasting = msgspec.field(name="for")
    """How long it lasts, such as 336h."""
    time_zone: Zone | None = None
    """Whose clocks `cron` speaks of, such as Europe/Berlin; UTC if left out."""
    reason: str | None = None
    """What a person is told."""


class PolicySection(Section, frozen=True):
    """What happens by itself, what takes an approval, and what never happens."""

    patch: Action | None = None
    """What to do with a newer patch release; auto if left out."""
    minor: Action | None = None
    """What to do with a newer minor release; approval if left out."""
    major: Action | None = None
    """What to do with a newer major release; never if left out."""
    range: Span | None = None
    """The versions that may be taken, in the syntax of Flux's `spec.ref.semver`; `>=2.0.0` if left out."""
    prereleases: bool | None = None
    """Whether release candidates may be taken; false if left out."""
    min_release_age: MinReleaseAge | None = None
    minor_step: MinorStep | None = None
    """Whether to go to the latest minor release at once, or to one after the other; latest if left out."""
    freeze: list[FreezeEntry] | None = None
    escalate: list[ChangeClass] | None = None
    """Classes of change that turn what happens by itself into what a person approves; [] for none.

    rbac, networkPolicy, crdRemoval, crdTightened, securityContext, newWorkload and other if left out.
    """


class ClustersSection(Section, frozen=True):
    """What is known of the clusters that follow the channel, for saying what would break there; none is asked."""

    kubernetes: Kubernetes | None = None
    """Their version, such as 1.34, or the lowest and the highest, such as 1.34-1.36."""
    snapshots: list[Words] | None = None
    """Files, or artifacts, with the output of `kubectl get crd -o json`."""
    objects: list[Words] | None = None
    """Where their manifests are: files, folders, or artifacts."""


class EvidenceEntry(Section, frozen=True):
    """Something outside that must say yes: an address, the status of a commit, or a report."""

    url: Words | None = None
    """An address that must answer 200 with JSON in which `field` has the value `equals`."""
    field: Words | None = None
    """Where in the JSON, with dots, such as status.healthy."""
    equals: Words | None = None
    """What must be there, as text."""
    status: Words | None = None
    """The context of a commit status of `repository` that must be a success, for the head of its default branch."""
    repository: Repository | None = None
    report: Words | None = None
    """A file with a FluxReport as JSON, in which everything must be ready."""


class PromoteSection(Section, frozen=True):
    """Where the channel gets its digests from. It is never rendered for itself then."""

    source: Words = msgspec.field(name="from")
    """The name of another artifact of this file, or the address of a channel."""
    after: Age | None = None
    """How long a digest must have been there, by its signed record; no time if left out."""
    evidence: list[EvidenceEntry] | None = None


class AcknowledgeEntry(Section, frozen=True):
    """One change that is known, and why that is fine."""

    fingerprint: Fingerprint
    """The 16 hex digits that the plan shows."""
    until: Moment
    """Until when it holds, such as 2027-01-31."""
    reason: Words
