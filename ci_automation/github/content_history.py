"""Content of the default branch through its history: what each state had, and which merged request led there."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ci_automation.github.errors import EmptyRepository, NotOnGitHub, TooManyFiles, UnexpectedGitHubAnswer
from ci_automation.github.files import PLAIN_MODES, Files
from ci_automation.github.making import MAKING, BranchLog
from ci_automation.github.model import Actor, BranchUpdate, Comparison, ContentAt, ContentMerge, Making, PullSnapshot
from ci_automation.github.pulls import FILE, PULL, read_pull, read_text
from ci_automation.github.repository import Ahead, Repository, snapshot_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from ci_automation.github.answers import Fields
    from ci_automation.github.client import GitHub

_MERGED = """
fragment Merged on Commit {
  associatedPullRequests(first: 5) {
    totalCount
    nodes {
      ...Pull ...Making changedFiles additions deletions mergeCommit { oid }
      tip: commits(last: 1) { nodes { commit { ...Content } } }
    }
  }
}
"""
_WITH_REQUESTS = 5  # commits that one query asks for the requests of: GitHub counts what a query could return
_ATTRIBUTES = ".gitattributes"
_MOST_FILES, _MOST_LINES = 299, 20_000  # that comparisons and pages show (GitHub, "Limits for viewing content")


class ContentHistory(BranchLog):
    """The history of one repository's content, as the client's token sees it.

    `folder` is the path of the overlay's folder, `config` that of the configuration file.
    """

    def __init__(self, client: GitHub, name: str, ahead: Ahead | None = None) -> None:
        super().__init__(client, name)
        self._ahead = ahead or Ahead()
        self._files = Files(client, name)
        # By commit, folder and configuration file.
        self._known: dict[tuple[str, str, str], ContentAt | None] = {}  # None: GitHub does not have it any more
        self._folders: dict[str, Mapping[str, str]] = {}
        self._pages: dict[tuple[str, str], Comparison] = {}
        self._merged: dict[tuple[str, str, str], tuple[Actor, str, tuple[Fields, ...]]] = {}

    def head(self, folder: str, config: str) -> tuple[str, ContentAt, datetime]:
        """Return the name of the default branch, the content of its newest commit, and GitHub's clock.

        Raises:
            EmptyRepository: it has no commit.
            UnexpectedGitHubAnswer: the answer has no time; and as it says.
        """
        fragments, asked, variables = "", "defaultBranchRef { name target { ...Content } }", dict[str, str]()
        branches, file = list(self._ahead.wanted), next(iter(self._ahead.wanted.values()), "")
        if branches:
            more, variables = snapshot_fields(branches, file)
            fragments, asked = PULL + FILE, f"{asked} {more}"
        found, viewer = self._asked(fragments, asked, folder, config, variables)
        if (branch := found.maybe("defaultBranchRef")) is None:
            raise EmptyRepository(self.name)
        if branches:
            self._ahead.taken = Repository(self._client, self.name).snapshots(found, viewer, branches, file)
        if (now := self._client.time) is None:
            raise UnexpectedGitHubAnswer(f"{self._what} was answered without a time")
        return branch.text("name"), self._learned(branch.fields("target"), folder, config), now

    def seen(self, branch: str) -> PullSnapshot | None:
        """Return what the last look at the head took along of a branch, if a desk wants to know that."""
        return self._ahead.taken.get(branch)

    def contents(self, commits: Iterable[str], folder: str, config: str) -> Mapping[str, ContentAt]:
        """Return the content at each of the commits; those that GitHub does not have any more are left out.

        The same query asks for the requests that the first few were merged as, so that `merges` need not.
        """
        wanted = tuple(dict.fromkeys(commits))
        if any((commit, folder, config) not in self._known for commit in wanted):
            known = self._known.keys() & self._merged.keys()
            self._learn([commit for commit in wanted if (commit, folder, config) not in known], folder, config)
        found = ((commit, self._known.get((commit, folder, config))) for commit in wanted)
        return {commit: content for commit, content in found if content}

    def merges(
        self, updates: Sequence[BranchUpdate], folder: str, config: str, *, compared: bool = True, made: bool = True
    ) -> Mapping[str, tuple[ContentMerge, ...]]:
        """Return, by the commit that each update led to, the requests that GitHub merged as that commit.

        Without `compared`, or without `made`, that takes no more requests: a page then counts as
        one that compared with the state before the merge, and the makers are those whom commits name.

        What a request of a fork compared, one that went into another branch than the default, or one that is too large
        for its page, is not asked for.
        """
        by_commit = {update.after: update for update in updates}
        found: dict[str, tuple[ContentMerge, ...]] = dict.fromkeys(by_commit, ())
        unknown = [commit for commit in by_commit if (commit, folder, config) not in self._merged]
        for start in range(0, len(unknown), _WITH_REQUESTS):
            self._learn(unknown[start : start + _WITH_REQUESTS], folder, config)
        for after, update in by_commit.items():
            viewer, default, requests = self._merged[after, folder, config]
            for pull, request in ((read_pull(request), request) for request in requests):
                if pull.merge_commit != after:
                    continue
                making, base, head = Making(), None, None
                if pull.base == default and not pull.cross_repository:
                    making = self.read_making(request, pull, viewer, pushes=made)
                    if _is_shown_whole(request):
                        page = self._compared(update.before, pull.head) if compared else Comparison(update.before, ())
                        if page and page.shows(folder):
                            states = self.contents((page.base, pull.head), folder, config)
                            base, head = states.get(page.base), states.get(pull.head)
                making = replace(making, merged_as=update.kind)
                found[after] += (ContentMerge(pull, base, head, making, viewer),)
        return found

    def files(self, *trees: str) -> Mapping[str, Mapping[str, str]] | None:
        """Return the blob ids of files by path, for each folder by its tree id, or None if there are too many."""
        if unknown := [tree for tree in trees if tree not in self._folders]:
            try:
                found = self._files.below(dict.fromkeys(unknown, ()))
            except TooManyFiles:
                return None
            for tree, of in found.items():
                self._folders[tree] = {path: blob for path, (mode, blob) in of.items() if mode in PLAIN_MODES}
        return {tree: self._folders[tree] for tree in trees}

    def blob(self, name: str) -> bytes | None:
        """Return the content of a blob, or None if it is too large to be sent."""
        return self._files.small_blob(name)

    def differing(self, one: str, other: str, paths: Iterable[str]) -> tuple[str, ...]:
        """Return those of the paths at which two commits do not have the same file or folder, if any."""
        named = {f"p{place}": path for place, path in enumerate(dict.fromkeys(paths))}
        if not named:
            return ()
        entries = " ".join(f"{name}: file(path: ${name}) {{ mode oid }}" for name in named)
        sides = {"one": one, "other": other}
        asked = " ".join(f'{it}: object(oid: "{oid}") {{ ... on Commit {{ {entries} }} }}' for it, oid in sides.items())
        found, _ = self._query(asked, named)

        def entry(side: str, name: str) -> tuple[int, str] | None:
            at = commit.maybe(name) if (commit := found.maybe(side)) else None
            return (at.number("mode"), at.oid("oid")) if at else None

        return tuple(path for name, path in named.items() if entry("one", name) != entry("other", name))

    def _learn(self, commits: Sequence[str], folder: str, config: str) -> None:
        """Ask for the content at commits, and for the requests that the first few were merged as."""
        if not commits:
            return
        lines = (
            f'c{place}: object(oid: "{oid}") {{ ...Content {"...Merged" if place < _WITH_REQUESTS else ""} }}'
            for place, oid in enumerate(commits)
        )
        asked = f"defaultBranchRef {{ name }} {' '.join(lines)}"
        repository, viewer = self._asked(_MERGED + MAKING + PULL, asked, folder, config)
        default = repository.fields("defaultBranchRef").text("name")
        for place, oid in enumerate(commits):
            if (node := repository.maybe(f"c{place}")) is None:
                self._known[oid, folder, config] = None
                self._merged[oid, folder, config] = (viewer, default, ())
                continue
            self._learned(node, folder, config)
            if place < _WITH_REQUESTS:
                requests = node.fields("associatedPullRequests")
                nodes = requests.each("nodes")
                is_whole = requests.number("totalCount") == len(nodes)  # else there may be a second one of this commit
                self._merged[oid, folder, config] = (viewer, default, nodes if is_whole else ())
                for tip in (tip for request in nodes for tip in request.nodes("tip")):
                    self._learned(tip.fields("commit"), folder, config)

    def _compared(self, before: str, head: str) -> Comparison | None:
        """Return what the page of a request compared, or None where GitHub lacks a commit."""
        if (before, head) not in self._pages:
            try:
                self._pages[before, head] = Repository(self._client, self.name).compared(before, head)
            except NotOnGitHub:
                return None
        return self._pages[before, head]

    def _asked(
        self, fragments: str, asked: str, folder: str, config: str, more: Mapping[str, str] | None = None
    ) -> tuple[Fields, Actor]:
        """Return the answer to what is asked, and who asks; `...Content` asks for the content of a commit."""
        paths = {f"a{place}": path for place, path in enumerate(_attribute_files(folder, config))}
        # Without a folder the overlay is asked for at a path that has none.
        variables = {"folder": folder or config, "config": config, **paths, **(more or {})}
        text = "object { ... on Blob { text isTruncated } }"
        content = " ".join(f"{name}: file(path: ${name}) {{ {text} }}" for name in paths)
        commit = f"oid overlay: file(path: $folder) {{ type oid }} config: file(path: $config) {{ {text} }} {content}"
        return self._query(asked, variables, f"{fragments} fragment Content on Commit {{ {commit} }}")

    def _learned(self, commit: Fields, folder: str, config: str) -> ContentAt:
        """Return the content of a commit, which does not change any more."""
        overlay = commit.maybe("overlay")
        tree = overlay.oid("oid") if overlay and overlay.text("type") == "tree" else None
        files = {path: commit.maybe(f"a{place}") for place, path in enumerate(_attribute_files(folder, config))}
        attributes = {path: read_text(file) for path, file in files.items() if file}
        content = ContentAt(commit.oid("oid"), tree, read_text(commit.maybe("config")), attributes)
        self._known[content.commit, folder, config] = content
        return content


def _is_shown_whole(request: Fields) -> bool:
    lines = request.number("additions") + request.number("deletions")
    return request.number("changedFiles") <= _MOST_FILES and lines <= _MOST_LINES


def _attribute_files(*paths: str) -> tuple[str, ...]:
    """Return the paths of the `.gitattributes` above some paths, each once."""
    return tuple(dict.fromkeys(str(parent / _ATTRIBUTES) for path in paths for parent in PurePosixPath(path).parents))
