"""How clusters are called by the paths of their folders, and which channel is for whom by these names."""

from __future__ import annotations

import difflib
import posixpath
import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

from ci_automation.errors import UsageError
from ci_automation.flows.setting_up.answers import CLUSTERS, UnfitAnswer
from ci_automation.impact.change import some_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

ANY = "CHANNEL"  # the placeholder for the channel that a person chooses for a cluster

_BEGIN = re.compile(r"[^-_./0-9]*[-_./]?")  # such as prd- of prd-eu-1


class UnknownCluster(UsageError):
    """A list of clusters has a name that is that of no folder of `flux bootstrap`."""

    hint = "Nothing was written. Correct the name, or delete its line, and run `setup` again."

    def __init__(self, path: str, name: str, known: Collection[str]) -> None:
        near = difflib.get_close_matches(name, known, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        super().__init__(f"{path} has {name}, and no folder of `flux bootstrap` is named so{meant}")


class ClusterNames(Struct, frozen=True):
    """How clusters are called: by what differs in the paths of their folders, between `head` and `tail`."""

    head: str
    tail: str

    @classmethod
    def of(cls, paths: Sequence[str]) -> Self:
        """Return how the clusters of these folders are called."""
        tail = "/flux-system" if all(path.endswith("/flux-system") for path in paths) else ""
        above = posixpath.commonpath([posixpath.dirname(path.removesuffix(tail)) for path in paths])
        return cls(f"{above}/" if above else "", tail)

    def name(self, path: str) -> str:
        """Return the name of the cluster that has a folder."""
        return path.removeprefix(self.head).removesuffix(self.tail)

    def path(self, name: str) -> str:
        """Return the folder of a cluster."""
        return f"{self.head}{name}{self.tail}"


class KnownClusters(Struct, frozen=True):
    """What a person, or an earlier run, has said of clusters.

    By channel and cluster of the clone, `contexts` are those of kubectl, and `settled` the patches of clusters' own
    objects. Of the `patterns` for names, each with its channel, the first that fits counts, for clusters that are in no
    list.
    """

    contexts: Mapping[str, Mapping[str, str]]
    patterns: Sequence[tuple[str, str]]
    settled: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]

    @property
    def patches(self) -> dict[str, Sequence[Mapping[str, Any]]]:
        """Return the patches of clusters' own objects, whatever their channels."""
        return {cluster: it for each in self.settled.values() for cluster, it in each.items()}


def folders_by_channel(paths: Iterable[str], names: ClusterNames, known: KnownClusters) -> dict[str, list[str]]:
    """Return the folders for each channel: as told, or by its name in their paths, as for clusters/production-eu.

    The others are for any of several channels. One channel has those with its name, or all if none has it.
    """
    channels = tuple(known.contexts)
    named: dict[str, list[str]] = {name: [] for name in (*channels, ANY)}
    for path in paths:
        name = names.name(path)
        listed = (channel for channel, there in known.contexts.items() if name in there)
        fitting = (channel for channel, pattern in known.patterns if fnmatchcase(name, pattern))
        named[next(listed, None) or next(fitting, None) or _channel(path, channels) or ANY].append(path)
    if len(channels) > 1:
        return {name: there for name, there in named.items() if there}
    return {channels[0]: there} if (there := named[channels[0]] or named[ANY]) else {}


def contexts_in(path: str, written: str) -> dict[str, str]:
    """Return the contexts of the clusters that a list has, by their names.

    Raises:
        UnfitAnswer: a line has more than a name and a context.
    """
    lines = [it.split() for it in written.splitlines()]
    if wrong := [it for it in lines if len(it) > len(("name", "context"))]:
        raise UnfitAnswer(f"{path} has the line {' '.join(wrong[0])!r}, which is neither NAME nor NAME CONTEXT")
    return {it[0]: it[-1] for it in lines if it}


def list_of(clusters: Iterable[str], contexts: Mapping[str, str]) -> str:
    """Return the list of a channel's clusters, with the contexts that have other names."""
    return "".join(f"{' '.join(dict.fromkeys((it, contexts.get(it, it))))}\n" for it in clusters)


def patterns_of(words: str, channels: Collection[str], synced: Sequence[str]) -> list[tuple[str, str]]:
    """Return the patterns for clusters' names that words such as `production=prd-*` have, each with its channel.

    Raises:
        UnfitAnswer: a word has no channel of these, or a pattern fits no folder that `flux bootstrap` made.
    """
    found, named = [], [*map(ClusterNames.of(synced).name, synced)] if synced else []
    for word in words.split():
        channel, _, pattern = word.partition("=")
        if not pattern or channel not in channels:
            raise UnfitAnswer(f"--clusters {word!r} is not CHANNEL=PATTERN, with one of {', '.join(channels)}")
        if named and not any(fnmatchcase(it, pattern) for it in named):
            raise UnfitAnswer(f"--clusters {word!r} fits no cluster; there are {some_of(named)}")
        found.append((channel, pattern))
    return found


def patterns_for(names: Iterable[str]) -> dict[str, list[str]]:
    """Return names by patterns, each for those that begin alike; a name that begins like no other is its own."""
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(_BEGIN.match(name)[0], []).append(name)  # type: ignore[index]  # it matches nothing too
    return {f"{begin}*" if len(there) > 1 else there[0]: there for begin, there in alike.items()}


def _channel(path: str, channels: Sequence[str]) -> str | None:
    parts, longest = path.split("/"), sorted(channels, key=len, reverse=True)
    exact = (name for name in longest if name in parts)
    parted = (name for name in longest if any(_parted(name) in _parted(part) for part in parts))
    return next(exact, None) or next(parted, None)


def _parted(name: str) -> str:
    """Return a name with the same sign at both ends and between its words."""
    return f"-{name}-".replace("_", "-").replace(".", "-")


def require_known(objects: str, listed: Mapping[str, Iterable[str]], synced: Sequence[str]) -> None:
    """Check that each cluster of a list has one of the folders that `flux bootstrap` made, if there are any.

    Raises:
        UnknownCluster: one has none.
    """
    known = [*map(ClusterNames.of(synced).name, synced)] if synced else []
    for channel, there in listed.items() if known else ():
        if unknown := [name for name in there if name not in known]:
            raise UnknownCluster(f"{objects}/{channel}/{CLUSTERS}", unknown[0], known)
