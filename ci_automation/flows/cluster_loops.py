"""Commands that do the same in each of several clusters, as a person pastes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.flows.answers import CLUSTERS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ci_automation.flows.answers import Answers


def in_clusters(answers: Answers, command: str) -> str:
    """Return a command with kubectl for each cluster: in a loop where a list has their names."""
    if answers.migration and answers.migration.moving:
        return in_each(answers, [command.replace("kubectl ", "kubectl --context $it ")])
    return command


def in_each(answers: Answers, commands: Iterable[str], channel: str = "*") -> str:
    """Return a loop of commands on `$it` over the clusters of a channel, or of all; of just one the commands alone.

    The loop ends at the first command that fails.
    """
    moving = answers.migration.moving if answers.migration else {}
    names = [name for one, there in moving.items() for name in there if channel in {"*", one}]
    if len(names) == 1:
        return chain(commands).replace("$it", names[0])
    body = chain(('echo "$it:"', *commands)).replace("\n", "\n  ")
    return f"for it in $(cat {answers.objects}/{channel}/{CLUSTERS}); do\n  {body} || break\ndone"


def chain(commands: Iterable[str]) -> str:
    """Return commands of which each runs if the one before succeeded."""
    return " &&\n".join(commands)
