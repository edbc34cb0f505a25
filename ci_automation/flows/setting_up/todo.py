"""The list of `setup` on a terminal, as a file with boxes that keeps its ticks, and the commands in it.

A command is for each cluster of a list, and for one channel after the other.
"""

from __future__ import annotations

import re
import shlex
from itertools import count, takewhile
from operator import eq
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.flows.setting_up.answers import CLUSTERS
from ci_automation.impact.overlay.bootstrapped import SYNC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ci_automation.flows.setting_up.answers import Answers
    from ci_automation.flows.setting_up.cluster_folders import Migration

TODO = ".github/flux-manifests.todo.md"
DECIDE, LAST = "Decide first", "At last"
CAREFUL = "Careful: "  # begins a step that can hurt clusters when it is done too early, or not at all
_TOOLS = ("git", "gh", "kubectl", "flux", "cosign", "docker")
_CALLED = re.compile(rf"(?:^|[(|&;{{!]|\bdo)\s*({'|'.join(_TOOLS)}) ", re.MULTILINE)
_STEP = re.compile(r"^- \[([ xX])\] \d+\. (.+(?:\n  .*)*)", re.MULTILINE)
_MODEL = re.compile(  # one of several folders with the same files, how many they are, and what `setup` was told
    r"(?<=has the files of )\S+|(?<=\"\$made\"\) )\S+|"
    r"(?<=differs from )[^:]+|(?<=differ from )[^:]+|(?<=diff -ru )\S+|Unlike \d+ of \d+ folders, |"
    r"(?<=^  flux-manifests[ ]setup).*",
    re.MULTILINE,
)
_TITLE = "# Signed Flux: what is left to do"
_HEAD = f"""\
The `setup` of flux-manifests wrote this list. When it runs again, it keeps your ticks and nothing else that you write
here. To tick by a click, make it an issue: `gh issue create --title "Set up signed Flux" --body-file {TODO}`

Capital letters such as USER are for you to replace. Commands are for bash or zsh, at the top of this clone."""


def one_list(lists: Iterable[Mapping[str, list[str]]]) -> dict[str, list[str]]:
    """Return the lists of several families as one: a step of all is there once, and last if it is last in all."""
    left: dict[str, list[str]] = {}
    for sections in lists:
        for title, steps in sections.items():
            there = left.get(title, [])
            ends = sum(1 for _ in takewhile(bool, map(eq, reversed(there), reversed(steps))))
            last = len(there) - ends
            left[title] = [*there[:last], *(it for it in steps if it not in there), *there[last:]]
    ending = left.pop(LAST)
    return {**left, LAST: ending}


def list_text(goal: str, left: Mapping[str, Sequence[str]], existing: str | None) -> str:
    """Return what the steps lead to, and the steps, numbered through all sections, for a terminal.

    Of an `existing` file it is only what that lacks. Lines to copy are indented.
    """
    every = [*_numbered(left)]
    if existing is None:
        return f"\n{goal}\n\nLeft to do, with boxes to tick in {TODO}:\n\n{_first_look(every)}\n{_shown(every)}"
    before, done = _steps(existing), _steps(existing, ticked="xX")
    keys = {(title, _key(it)) for title, steps in every for it in steps}
    new = [
        (title, there) for title, steps in every if (there := [it for it in steps if (title, _key(it)) not in before])
    ]
    counts = f"{len(keys)} steps, {len(keys & done)} of them done, {len(keys - before)} new or changed"
    left_out = len(before - keys)
    gone = f"; {left_out} {'are' if left_out > 1 else 'is'} gone" if left_out else ""
    return f"{TODO} has {counts}{gone}{':' if new else '.'}\n{_shown(new)}"


class StepLeft(Struct, frozen=True):
    """A step of the list, with its commands; the file says whether it is `done`."""

    section: str
    text: str
    commands: str
    done: bool


def steps_left(left: Mapping[str, Sequence[str]], existing: str | None) -> list[StepLeft]:
    """Return the steps for programs; what is ticked in the `existing` file is done."""
    ticked = _steps(existing or "", ticked="xX")
    found = []
    for title, steps in _numbered(left):
        for step in steps:
            text, _, commands = step.partition(". ")[2].partition("\n")
            found.append(StepLeft(title, text, commands, (title, _key(step)) in ticked))
    return found


def _shown(sections: Iterable[tuple[str, Sequence[str]]]) -> str:
    indented = ((title, [step.replace("\n", "\n    ") for step in steps]) for title, steps in sections)
    return "\n".join(line for title, there in indented for line in ("", title, "", *there))


def with_boxes(goal: str, left: Mapping[str, Sequence[str]], existing: str | None) -> str:
    """Return the goal and the steps as Markdown with boxes; what is ticked in the `existing` file stays ticked."""
    every, ticked = [*_numbered(left)], _steps(existing or "", ticked="xX")
    lines = [_TITLE, "", goal, "", _HEAD, "", _first_look(every)]
    for title, steps in every:
        lines += ("", f"## {title}", "")
        for step in steps:
            is_done = (title, _key(step)) in ticked
            lines.append(f"- [{'x' if is_done else ' '}] {_fenced(step)}")
    return "\n".join((*lines, ""))


def _numbered(left: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, list[str]]]:
    numbers = count(1)
    yield from ((title, [f"{next(numbers)}. {step}" for step in steps]) for title, steps in left.items())


def _first_look(sections: Iterable[tuple[str, Sequence[str]]]) -> str:
    """Return the lines that say which programs the commands need, and which steps to read first."""
    steps = [(title, *it.partition(". ")[::2]) for title, there in sections for it in there]
    called = {tool for _, _, text in steps for tool in _CALLED.findall(text.partition("\n")[2])}
    decided = [number for title, number, _ in steps if title == DECIDE]
    careful = [number for _, number, text in steps if text.startswith(CAREFUL)]
    first = f"{DECIDE}: step{'s' if decided[1:] else ''} {', '.join(decided)}." if decided else ""
    hurt = "they hurt" if careful[1:] else "it hurts"
    marked = f"Be careful with {', '.join(careful)}: too early or forgotten, {hurt} clusters." if careful else ""
    needed = f"You need: {', '.join(it for it in _TOOLS if it in called)}."
    return "\n\n".join(filter(None, (needed, " ".join(filter(None, (first, marked))))))


def _fenced(step: str) -> str:
    """Return a step as Markdown: the lines after its first are commands."""
    first, *commands = step.split("\n")
    return "\n".join((first, *(("  ```sh", *(f"  {it}" for it in commands), "  ```") if commands else ())))


def _key(step: str) -> str:
    """Return a numbered step as `_steps` finds it."""
    return _MODEL.sub("", _fenced(step).partition(". ")[2])


def _steps(page: str, ticked: str = " xX") -> set[tuple[str, str]]:
    """Return the titles and texts of steps, without numbers and models: several sections can have one."""
    sections = re.split(r"^## ", page, flags=re.MULTILINE)
    return {
        (it.partition("\n")[0], _MODEL.sub("", step))
        for it in sections
        for box, step in _STEP.findall(it)
        if box in ticked
    }


NAMES = "awk '{print $1}'"  # of the clusters in a list
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
        return in_each(answers, [command.replace("kubectl ", "kubectl --context $at ")])
    return command


def in_each(answers: Answers, commands: Iterable[str], channel: str = "*") -> str:
    """Return a loop of commands on `$it` over the clusters of a channel, of `$CHANNEL` or of all, up to a failure.

    A failure makes its exit code 1, and leaves the shell. Of just one cluster of a channel or of all, it is the
    commands alone. `$at` is the cluster's context: what follows its name in the list, else its name.
    """
    listed = answers.migration.moving if answers.migration else {}
    names = answers.moving if channel == "*" else listed.get(channel, ())
    made, file = chain(commands), f"{answers.objects}/{channel}/{CLUSTERS}"
    if len(names) == 1:
        return made.replace("$at", shlex.quote(answers.contexts.get(names[0], names[0]))).replace("$it", names[0])
    context = (f"at=$(awk -v it=$it '$1\"\" == it {{print $NF; exit}}' {file})",) if "$at" in made else ()
    body = chain(('echo "$it:"', *context, made)).replace("\n", "\n  ")
    return f"(for it in $({NAMES} {file}); do\n  {body} || exit 1\ndone)"


def chain(commands: Iterable[str]) -> str:
    """Return commands of which each runs if the one before succeeded."""
    return " &&\n".join(commands)
