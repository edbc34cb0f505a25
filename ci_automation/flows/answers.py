"""The answers to the questions of `setup`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from ci_automation.config.model import ApprovalVia, PromoteConfig, SigningMode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_automation.artifact.reference import Reference
    from ci_automation.config.workflows import GitHubPlace
    from ci_automation.flows.cluster_folders import Migration
    from ci_automation.flows.existing import Existing

OBJECTS = "flux-manifests"
CLUSTERS = "clusters.txt"  # in a channel's folder of objects: the names of the clusters that come to it, one a line


class Answers(Struct, frozen=True):
    """What a person decides: the channels by their names, the repository, who signs and how to ask.

    Runs render the first channel, and promote each other one from its source. `named` are the channels whose objects
    are written. `action` is the repository with the action, with its commit after an @ if it is not the one of
    the shipped files. `overlay` is a folder of the repository; None: the team's own files stay in the artifact.
    Below `objects` each channel has the folder that its clusters apply. In the artifact, `components` is the path of
    Flux's components. `flags` are those of `flux install`. The first channel takes over what the folders of a
    `migration` have. `existing` are channels that are there, as far as they could be read; of the first, the files in
    `unlike` are not as in the overlay. `again` is the command that runs `setup` with these answers.
    """

    channels: Mapping[str, Reference]
    place: GitHubPlace
    action: str
    signing: SigningMode
    approval: ApprovalVia
    overlay: str | None
    again: str
    named: tuple[str, ...]
    sources: Mapping[str, PromoteConfig]
    flags: Mapping[str, Any]
    objects: str = OBJECTS
    components: str | None = None
    migration: Migration | None = None
    existing: Mapping[str, Existing] = field(default_factory=dict)
    unlike: tuple[str, ...] = ()

    @property
    def first(self) -> tuple[str, Reference]:
        """Return the channel that is rendered, with its name."""
        return next(iter(self.channels.items()))

    @property
    def waves(self) -> tuple[tuple[str, str], ...]:
        """Return the names of the promoted channels, each with the name of its source."""
        return tuple((name, it.source) for name, it in self.sources.items())

    def after(self, name: str) -> str:
        """Return for how long its source must have had a digest before it is promoted to a channel."""
        seconds = round(self.sources[name].after.total_seconds())
        size, unit = next(it for it in ((3600, "h"), (60, "m"), (1, "s")) if seconds % it[0] == 0)
        return f"{seconds // size}{unit}"

    @property
    def there(self) -> Existing | None:
        """Return what the first channel has, if it could be read."""
        return self.existing.get(self.first[0])

    @property
    def home(self) -> str:
        """Return the namespace of Flux."""
        return self.there.options.namespace if self.there else str(self.flags.get("namespace", "flux-system"))

    @property
    def keyless(self) -> bool:
        """Return whether the workflow itself signs."""
        return self.signing is SigningMode.KEYLESS

    @property
    def by_run(self) -> bool:
        """Return whether a run that waits asks for approvals, instead of a pull request."""
        return self.approval is ApprovalVia.WORKFLOW_DISPATCH

    @property
    def docs(self) -> str:
        """Return the address of the action's documents."""
        action, _, commit = self.action.partition("@")
        return f"{self.place.server}/{action}/blob/{commit or 'HEAD'}/docs"

    @property
    def signers(self) -> tuple[str, ...]:
        """Return the workflow files that sign."""
        return ("flux.yaml", "approve.yaml") if self.by_run else ("flux.yaml",)
