"""The commands in the list of `setup`: for each cluster of a list, and for one channel after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.flows.setting_up.answers import CLUSTERS
from ci_automation.impact.overlay.bootstrapped import SYNC

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ci_automation.flows.setting_up.answers import Answers
    from ci_automation.flows.setting_up.cluster_folders import Migration


READY = "wait ocirepository,kustomization flux-manifests --for=condition=Ready --timeout=5m"  # of kubectl


class Block(Struct, frozen=True):
    """Steps that are the same for several channels: their commands begin with the name of the first in `$CHANNEL`."""

    channels: tuple[str, ...]

    @property
    def channel(self) -> str:
        """Return the channel as commands have it."""
        return self.channels[0] if len(self.channels) == 1 else "$CHANNEL"

    @property
    def order(self) -> str:
        """Return the channels in their order."""
        first, *others = self.channels
        return "".join((f"of {first}", *(f", then of {it}" for it in others)))

    def step(self, told: str, commands: str, *variables: str) -> str:
        """Return a step whose commands begin with their variables."""
        named = (f"CHANNEL={self.channels[0]}",) if len(self.channels) > 1 else ()
        return "\n".join(it for it in (told, " ".join((*named, *variables)), commands) if it)


def changed_prune(migration: Migration, before: str, after: str) -> str:
    """Return the command that changes whether Git prunes for a cluster."""
    sync = migration.names.path("$it") + f"/{SYNC}"
    return f"sed -i.bak 's/prune: {before}/prune: {after}/' {sync} &&\nrm {sync}.bak && git add {sync}"


def in_clusters(answers: Answers, command: str) -> str:
    """Return a command with kubectl for each cluster: in a loop where a list has their names."""
    if answers.migration and answers.migration.moving:
        return in_each(answers, [command.replace("kubectl ", "kubectl --context $it ")])
    return command


def in_each(answers: Answers, commands: Iterable[str], channel: str = "*") -> str:
    """Return a loop of commands on `$it` over the clusters of a channel, of `$CHANNEL` or of all, up to a failure.

    Of just one cluster of a channel or of all, it is the commands alone.
    """
    listed = answers.migration.moving if answers.migration else {}
    names = answers.moving if channel == "*" else listed.get(channel, ())
    if len(names) == 1:
        return chain(commands).replace("$it", names[0])
    body = chain(('echo "$it:"', *commands)).replace("\n", "\n  ")
    return f"for it in $(cat {answers.objects}/{channel}/{CLUSTERS}); do\n  {body} || break\ndone"


def chain(commands: Iterable[str]) -> str:
    """Return commands of which each runs if the one before succeeded."""
    return " &&\n".join(commands)
