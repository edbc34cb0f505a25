"""The answers to the questions of `setup`: the channels that are named, in families, and what all of them have."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ci_automation.artifact.reference import Reference
from ci_automation.config.model import ApprovalVia, PromoteConfig, SigningMode
from ci_automation.errors import UsageError
from ci_automation.flux.proof import known_releases
from ci_automation.policy.model import duration

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ci_automation.config.sections import Artifact
    from ci_automation.config.workflows import GitHubPlace
    from ci_automation.flows.setting_up.cluster_folders import Migration
    from ci_automation.flows.setting_up.overlays import Existing
    from ci_automation.flux.version import Version

CONFIGURATION = ".github/flux-manifests.yaml"
USUAL_WAIT = "24h"
OBJECTS = "flux-manifests"
CLUSTERS = "clusters.txt"  # in a channel's folder of objects: the clusters that come to it, as NAME or NAME CONTEXT
# What goes into workflows as it is: a name that YAML, a pattern or an expression of GitHub would read as more is none.
_PLAIN = {
    "repository": re.compile(r"[A-Za-z0-9][\w-]*/(?!\.\.?$)[\w.-]+", re.ASCII),
    "branch": re.compile(r"(?!refs/)\w[\w./+@-]*", re.ASCII),
    "overlay": re.compile(r"[\w.][\w./+@-]*", re.ASCII),
}


class UnfitAnswer(UsageError):
    """An answer to a question of `setup` cannot be used."""

    hint = "`setup --help` has an example for each."


class Family(Struct, frozen=True, kw_only=True):
    """Channels with one content: first the one that runs render, then those that are promoted from it, by their names.

    A promoted channel has its source among `sources`. `named` are the channels whose objects `setup` writes.
    """

    channels: Mapping[str, Reference]
    sources: Mapping[str, PromoteConfig]
    named: tuple[str, ...]

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


class OwnFiles(Family, frozen=True, kw_only=True):
    """The files of a family: `overlay` is a folder of the repository; None: the team's own stay in the artifact.

    `tags` are those in the repository of each channel; None: not known. `existing` are channels that are there, as far
    as they could be read; of the first, the files in `unlike` are not as in the overlay. Those in `signed` have what a
    signer signed whom the configuration trusts. By channel and cluster, `settled` are patches of clusters' own objects;
    `contexts` of kubectl are by cluster. The first channel takes over what the folders of a `migration` have. In the
    artifact, `components` is the path of Flux's components, which `flags` of `flux install` made. Below `objects` each
    channel has the folder that its clusters apply.
    """

    tags: Mapping[str, Collection[str] | None]
    objects: str
    overlay: str | None
    components: str | None
    flags: Mapping[str, Any]
    migration: Migration | None
    existing: Mapping[str, Existing]
    settled: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]
    contexts: Mapping[str, str]
    signed: frozenset[str]
    unlike: tuple[str, ...] = ()

    def has(self, name: str) -> bool | None:
        """Return whether a channel is there; None: not known."""
        tags = self.tags[name]
        return None if tags is None else self.channels[name].tag in tags

    def holder(self, name: str) -> str:
        """Return the channel whose content a channel has, or gets: itself if it could be read, else one before it."""
        while name not in self.existing and name in self.sources:
            name = self.sources[name].source
        return name

    @property
    def to_adopt(self) -> dict[str, Reference]:
        """Return the channels that are there, and not known to be signed by a trusted signer."""
        return {name: it for name, it in self.channels.items() if self.has(name) and name not in self.signed}

    @property
    def there(self) -> Existing | None:
        """Return what the first channel has, if it could be read."""
        return self.existing.get(self.first[0])

    @property
    def home(self) -> str:
        """Return the namespace of Flux."""
        return self.there.options.namespace if self.there else str(self.flags.get("namespace", "flux-system"))

    @property
    def version(self) -> Version:
        """Return the version that the first channel begins with, or has."""
        if self.migration:
            return self.migration.version
        return self.there.version if self.there else known_releases()[-1]


class Answers(OwnFiles, frozen=True, kw_only=True):
    """What a person decides of a family, beside its files: the repository, who signs, and how to ask.

    Where `by_code`, a code lets a person approve an operation, for want of reviewers.
    `action` is the repository with the action, with its commit after an @ if it is not the one of the shipped files;
    runs are at the commit `pin`. `again` is the command that runs `setup` with these answers. The clone `has_key` if a
    public key is there, `has_approve` if a workflow approve.yaml takes the action, and `has_bot` if Flux pushes new
    tags of images. The clusters in `moving` are those of all families that come from Git.
    """

    place: GitHubPlace
    action: str
    pin: str
    signing: SigningMode
    approval: ApprovalVia
    by_code: bool
    again: str
    has_key: bool
    has_approve: bool
    has_bot: bool
    moving: tuple[str, ...]

    @property
    def unverified(self) -> bool:
        """Return whether clusters may follow the first channel, or come to it, before it may have newer patches.

        They may follow it if the registry does not say whether it is there. If a trusted signer signed it, those that
        do verify it. If it is older than the clusters that come to it, it needs newer ones first.
        """
        is_behind = self.migration and self.there and self.there.version < self.migration.version
        may_follow = self.has(self.first[0]) is not False and self.first[0] not in self.signed
        return not is_behind and (self.migration is not None or may_follow)

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

    def early_page(self, page: str) -> str:
        """Return where a page of the documents is, also before the repository of the action is made."""
        return f"docs/{page.partition('#')[0]} in the action's checkout, or {self.docs}/{page}"

    @property
    def signers(self) -> tuple[str, ...]:
        """Return the workflow files that sign."""
        return ("flux.yaml", "approve.yaml") if self.by_run else ("flux.yaml",)


def named_references(words: Sequence[str], artifacts: Sequence[Artifact], usual: str) -> list[Reference]:
    """Return the channels that words name: by address, or by a tag of the repository before.

    Before any address, a word is the name of one of the configured `artifacts`, or a tag beside the first of them; if
    there is none, of the `usual` repository.

    Raises:
        InvalidReference: a word is none of that.
    """
    found: list[Reference] = []
    known = {it.name: it.channel for it in artifacts}
    repository = str(artifacts[0].channel.repository) if artifacts else usual
    for word in words:
        is_address = ":" in word or "/" in word
        known = {} if is_address else known
        found.append(known.get(word) or Reference.parse_channel(word if is_address else f"{repository}:{word}"))
        repository = str(found[-1].repository)
    return found


def channels_by_name(
    references: Sequence[Reference], there: Mapping[Reference, Artifact], first: str | None
) -> dict[str, Reference]:
    """Return the channels by their names: as configured, else their tags, or their repositories' last parts.

    Raises:
        UnfitAnswer: two are the same, or would have one name.
    """
    tags, taken = [it.tag for it in references], {it.name for it in there.values()}
    named = {}
    for number, channel in enumerate(references):
        last = str(channel.repository).rpartition("/")[2]
        own = last if channel.tag is None or channel.tag in taken or tags.count(channel.tag) > 1 else channel.tag
        named[there[channel].name if channel in there else (not number and first) or own] = channel
    if len(named) < len(references):
        raise UnfitAnswer("two of the channels are the same, or would have one name; --name gives the first its own")
    return named


def families(artifacts: Iterable[Artifact], named: Mapping[str, Reference], after: str | None) -> list[Family]:
    """Return the configured channels and those that are `named`, each new one promoted from the one before it.

    Without names all configured channels are meant. `after` is for new ones; None: a day.

    Raises:
        UnfitAnswer: a channel is named after another one, and is rendered by itself; or it has another `after`.
        InvalidDuration: `after` is not one.
    """
    known = {it.name: it for it in artifacts}
    channels = {**{name: it.channel for name, it in known.items()}, **named}
    sources = _sources(known, named, after)
    members: dict[str, dict[str, Reference]] = {}
    for name, channel in channels.items():
        root = name
        while root in sources:
            root = sources[root].source
        members.setdefault(root, {root: channels[root]})[name] = channel
    return [
        Family(
            channels=there,
            sources={name: sources[name] for name in channels if name in there and name in sources},
            named=tuple(it for it in named or channels if it in there),
        )
        for there in members.values()
    ]


def _sources(
    known: Mapping[str, Artifact], named: Mapping[str, Reference], after: str | None
) -> dict[str, PromoteConfig]:
    """Return the source of each promoted channel, by its name; see `families`."""
    waits = duration(after or USUAL_WAIT)
    names = {str(it.channel): name for name, it in known.items()}
    sources = {}
    for it in known.values():
        if it.promote and (source := names.get(it.promote.source, it.promote.source)) in known:
            sources[it.name] = PromoteConfig(source, it.promote.after)
    for source, name in pairwise(named):
        if name not in known:
            sources[name] = PromoteConfig(source, waits)
        elif not known[name].promote:
            raise UnfitAnswer(
                f"{CONFIGURATION} has {name}, which runs render; write `promote: {{from: {source}, after: "
                f"{after or USUAL_WAIT}}}` there in place of its overlay and flags"
            )
    if other := [it for it in (list(named)[1:] or known) if after and it in sources and sources[it].after != waits]:
        told = f"--after is for new channels, and {CONFIGURATION} has another time for {other[0]}: change it there"
        raise UnfitAnswer(told)
    return sources


def is_action(text: str) -> bool:
    """Return whether a text is the repository of the action, with or without a commit."""
    return re.fullmatch(r"[\w.-]+/(ci-automation|flux-manifests)(@[0-9a-f]{40})?", text) is not None


def require_action(text: str, server: str) -> None:
    """Raise `UnfitAnswer` unless `is_action`."""
    repository, _, commit = text.partition("@")
    if commit and is_action(repository) and not is_action(text):
        error = UnfitAnswer(f"{commit!r} is not a commit: workflows take the action at the 40 digits of one")
        error.hint = f"`git ls-remote {server}/{repository} {shlex.quote(commit)}` prints those of a branch or a tag."
        raise error
    if not is_action(text):
        error = UnfitAnswer(f"{text!r} is not the action: its repository is named ci-automation or flux-manifests")
        owner = repository.partition("/")[0] if _PLAIN["repository"].fullmatch(repository) else "OWNER"
        error.hint = (
            f"Name the repository so, such as {owner}/ci-automation: `config validate` finds the action in workflows "
            "by this name. To take it at a commit, add @ and the 40 digits."
        )
        raise error


def require_plain(what: str, name: str | None) -> None:
    """Raise `UnfitAnswer` for a repository, branch or overlay whose name a workflow cannot have as it is."""
    if what == "repository" and name is not None and name.count("/") != 1:
        raise UnfitAnswer(f"the repository {name!r} is not OWNER/NAME")
    if name is not None and not _PLAIN[what].fullmatch(name):
        raise UnfitAnswer(f"the {what} {name!r} has characters that a workflow cannot have as they are")
