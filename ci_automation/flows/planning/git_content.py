"""Content of an artifact whose overlay is in Git: is the checkout what GitHub has, and who approved it there."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.approval.approved_run import people_of
from ci_automation.approval.content import (
    MOST_PEOPLE,
    MOST_REQUESTS,
    NO_RECORD,
    OTHER_REPOSITORY,
    ContentCase,
    ContentKey,
    Lags,
    Proven,
    Unproven,
    Way,
    changed_rules,
    commits_of,
    content_witnesses,
    judge_content,
    rules_of,
    way_back,
)
from ci_automation.approval.counting import People
from ci_automation.approval.judge import declined_since
from ci_automation.approval.port import RequestKind
from ci_automation.config.document import InvalidConfig
from ci_automation.config.load import parse_config
from ci_automation.errors import Conflict, UsageError
from ci_automation.flows.planning.shown import hidden_states
from ci_automation.flows.workspace import OverlayFolder, first_difference, require_shown
from ci_automation.github.commits import branch_name
from ci_automation.policy.decision import Decision, Verdict
from ci_automation.records.content import RecordedContent
from ci_automation.records.notes import Approval

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from ci_automation.artifact.tree import Tree
    from ci_automation.config.sections import Artifact
    from ci_automation.flows.observe import Placed
    from ci_automation.flows.planning.base import Base
    from ci_automation.flows.planning.findings import Chosen
    from ci_automation.flows.ports import Ports
    from ci_automation.flux.options import Options
    from ci_automation.github.content_history import ContentHistory
    from ci_automation.github.model import ContentAt
    from ci_automation.github.repository import Repository

GATE = "merge"
_DEPTHS = ((), ("files",), ("files", "pages"), ("files", "pages", "makers"))  # what is asked for, until a no is known


class CheckoutDiffers(UsageError):
    """The checkout has neither the default branch's content nor that of the run's commit."""

    hint = (
        "Check the default branch out without filters, and let no step before this one write into the folder. Run it "
        "again."
    )

    def __init__(self, what: str, commit: str) -> None:
        super().__init__(f"{what} in the checkout is not what the default branch has at {commit[:7]}")


class ContentMoved(Conflict):
    """The default branch changed content or rules before the publication."""

    hint = "Nothing was tagged. The next run judges what the default branch has by then."

    def __init__(self, what: str, judged: str, found: str) -> None:
        super().__init__(
            f"{what} changed on the default branch after it was judged at {judged[:7]}: it is at {found[:7]}"
        )


class JudgedContent(Struct, frozen=True):
    """Judgement on the content of the default branch: verdicts, the approval by merges, and the part of a record."""

    verdicts: tuple[Verdict, ...]
    content: RecordedContent | None = None  # None: the default branch moved on, and nothing is published
    approval: Approval | None = None


class GitPlace(Struct, frozen=True):
    """Where the content of an artifact is in Git: its repository, and the configuration of the checkout."""

    repository: str  # the number of the repository, or its name
    config: str  # the path of the configuration file
    text: str  # of that file in the checkout
    commit: str  # that the run was started for, or nothing
    folder: OverlayFolder
    artifact: Artifact


class GitContent:
    """Content of one artifact in one repository on GitHub, for one run.

    `rejected` says whether reviewers said no to content since a moment, where runs ask.
    """

    def __init__(
        self,
        history: ContentHistory,
        people: Repository,
        place: GitPlace,
        rejected: Callable[[datetime], str] = lambda _: "",
    ) -> None:
        self._history, self._people, self._place, self._rejected = history, people, place, rejected
        self._head: tuple[str, ContentAt, datetime] | None = None
        self._read = cache(self._artifact_in)  # most states have the same configuration

    def look(self, wanted: Chosen, had: RecordedContent | None = None) -> JudgedContent:
        """Return what a record says of the wanted content, unless the default branch moved on since the checkout.

        A person who approves it is told how the rules changed since the content that the channel `had`.

        Raises:
            CheckoutDiffers: the checkout is not what GitHub has.
            ConcealedOverlay: attributes of the default branch are about the files.
            ReleaseSourceError: GitHub failed or refused.
        """
        place = self._place
        _, at, now = self._head = self._look()
        here = (place.folder.tree_id, place.text)
        if (at.overlay, at.config) != here:
            before = self._history.contents(filter(None, [place.commit]), place.folder.path, place.config)
            started = before.get(place.commit)
            if started is None or (started.overlay, started.config) != here:
                raise CheckoutDiffers(place.config if at.overlay == here[0] else self._differing(at), at.commit)
            reason = f"the default branch moved on to {at.commit[:7]}, which the next run compares"
            return JudgedContent((Verdict(GATE, Decision.WAIT, reason, at.commit),))
        require_shown(at.attributes, place.folder.paths)
        options, rules = wanted.options.digest, rules_of(place.artifact)
        tree = place.folder.tree_id
        changed = changed_rules(had.rules, rules) if had else ()
        verdicts = tuple(Verdict(GATE, Decision.APPROVAL, it, at.commit) for it in changed)
        return JudgedContent(verdicts, RecordedContent(place.repository, at.commit, tree, options, now, rules))

    def judge(self, placed: Placed, base: Base, wanted: Chosen, ports: Ports, others: Decision) -> JudgedContent:
        """Return whether merges on the default branch approved the wanted content, judged now; see `look`.

        A person's no to a request for content, which asked after them, is not overruled by merges.

        Where the other gates stop the step, nothing is judged; where they ask for approval, no more is asked of GitHub
        than what can show that the merges approved nothing.
        """
        looked = self.look(wanted)
        if looked.content is None or self._head is None or not others.is_actionable:
            return looked
        asks, commit = others is Decision.APPROVAL, looked.content.commit
        found = self._found(placed, base, wanted, ports, asks=asks)
        if isinstance(found, Proven) and not asks and (declined := self._declined(found)):
            found = Unproven((f"the merges came before {declined}",))
        if isinstance(found, Lags):
            reason = f"GitHub's log of the default branch does not show {commit[:7]} yet; the next run looks again"
            return JudgedContent((Verdict(GATE, Decision.WAIT, reason, commit),))
        if isinstance(found, Unproven):
            verdicts = (Verdict(GATE, Decision.APPROVAL, reason, commit) for reason in found.reasons)
            return JudgedContent(tuple(verdicts), looked.content)
        if asks:
            return looked
        people = dict.fromkeys(person.login for request in found.requests for person in request.people)
        pages = [request.url for request in found.requests]
        verdict = Verdict(GATE, Decision.AUTO, f"merges approved the content: {', '.join(pages)}", commit, allowed=True)
        own = ", merged by its author" if any(request.own for request in found.requests) else ""
        how = f"pull request {pages[-1]}{own}"
        approval = Approval(", ".join(people), how, found.at, found.requests)
        return JudgedContent((verdict,), looked.content, approval)

    def look_again(self, judged: RecordedContent, wanted: Chosen) -> None:
        """Check that the default branch still has the judged content, and the artifact as this run has it.

        Raises:
            ContentMoved: it does not.
            ReleaseSourceError: GitHub failed or refused.
        """
        _, at, _ = self._look()
        place = self._place
        artifact = self._artifact(at)
        key = self._key(at, wanted.options, pinned=wanted.pinned)
        if at.overlay != judged.overlay:
            raise ContentMoved(f"the folder {place.folder.path}", judged.commit, at.commit)
        if artifact is None or key is None or key != self._wanted_key(wanted):
            raise ContentMoved("the options", judged.commit, at.commit)
        if artifact != place.artifact:
            raise ContentMoved("the configuration", judged.commit, at.commit)

    def _found(
        self, placed: Placed, base: Base, wanted: Chosen, ports: Ports, *, asks: bool
    ) -> Proven | Unproven | Lags:
        """Return what the history of the default branch says of the content since the channel's."""
        assert self._head is not None  # noqa: S101  # for the type checker: `look` came first
        branch, at, _ = self._head
        place, record = self._place, placed.record
        had = record.content if record and not record.recovered else None
        if had is None:
            last = ports.ledger(placed.channel).last_content()
            return Unproven((*(changed_rules(last.rules, rules_of(place.artifact)) if last else ()), NO_RECORD))
        if had.repository != place.repository:
            return Unproven((f"{OTHER_REPOSITORY}, {had.repository}",))
        if changed := tuple(changed_rules(had.rules, rules_of(place.artifact))):
            return Unproven(changed)
        if self._key(at, base.options, pinned=base.pinned) != self._wanted_key(wanted):
            return Unproven(("options of this run come from its inputs, not from the configuration",))
        present = _key(had.overlay, base.options, pinned=base.pinned)
        updates = self._history.updates(branch)
        contents = self._contents(commits_of(updates or ()), base)
        way = way_back(at.commit, present, updates, contents)
        if not isinstance(way, Way):
            return way
        since = max((it.content.at for it in ports.ledger(placed.channel).all_moves() if it.content), default=had.at)
        since = max((since, *(hold.at for hold in placed.holds)))  # the end of a hold revives no merge from before it
        trees = {had.overlay: base.overlay, place.folder.tree_id: place.folder.tree}
        case = ContentCase(contents, {}, People({}), place.artifact.approval, branch, since)
        return self._judged(way, case, base, trees, depths=_DEPTHS[:1] if asks else _DEPTHS)

    def _declined(self, found: Proven) -> str:
        """Return which request for content, of whatever digests, got no yes behind the first merge, or nothing.

        A later merge that approves more, beside what a person said no to, does not bring that along.
        """
        branch = branch_name(self._place.artifact.name, f"{RequestKind.CONTENT}-")
        if (snapshot := self._history.seen(branch)) is None:
            return self._rejected(found.since)
        first = min(int(it.url.rpartition("/")[2]) for it in found.requests)
        if again := snapshot.open_pull:  # a person may have closed it since, and another one opened it again
            return f"pull request {again.number} asked again, and that one is open"
        return declined_since(first, found.since, snapshot)

    def _judged(
        self, way: Way, case: ContentCase, base: Base, trees: Mapping[str, Tree], depths: Iterable[Sequence[str]]
    ) -> Proven | Unproven:
        """Judge by what is known, and ask for more only as long as a yes is possible: pages, then makers and people."""
        place = self._place
        found: Proven | Unproven = Unproven(())
        for known in depths:
            made = "makers" in known
            at, asked = (place.folder.path, place.config), way.merges[:MOST_REQUESTS]
            merges = self._history.merges(asked, *at, compared="pages" in known, made=made)
            shown = [
                it.commit for each in merges.values() for merge in each for it in (merge.merge_base, merge.head) if it
            ]
            contents = {**case.contents, **self._contents(shown, base)}
            if "files" in known:
                states = self._history.contents((*commits_of(way.updates), *shown), *at)
                hidden = hidden_states(states, trees, *at, self._history)
                contents = {commit: key for commit, key in contents.items() if commit not in hidden}
            logins, team = content_witnesses(way, merges, case.settings)[:MOST_PEOPLE], case.settings.team
            people = people_of(logins, team, self._people) if made else People.all_of(logins)
            case = replace(case, contents=contents, merges=merges, people=people, whole=made)
            if isinstance(found := judge_content(way, case), Unproven):
                break
        return found

    def _differing(self, at: ContentAt) -> str:
        """Return the first file of the checkout that the default branch does not have so."""
        folder = self._place.folder
        listed = self._history.files(at.overlay) if at.overlay else None
        found = first_difference(folder, (listed or {}).get(at.overlay or "", {}).items())
        return f"{folder.path}/{found}" if found else f"the folder {folder.path}, by modes or links,"

    def _look(self) -> tuple[str, ContentAt, datetime]:
        return self._history.head(self._place.folder.path, self._place.config)

    def _contents(self, commits: Iterable[str], base: Chosen) -> dict[str, ContentKey]:
        found = self._history.contents(commits, self._place.folder.path, self._place.config)
        keys = {commit: self._key(at, base.options, pinned=base.pinned) for commit, at in found.items()}
        return {commit: key for commit, key in keys.items() if key}

    def _wanted_key(self, wanted: Chosen) -> ContentKey:
        return _key(self._place.folder.tree_id, wanted.options, pinned=wanted.pinned)

    def _key(self, at: ContentAt, options: Options, *, pinned: bool) -> ContentKey | None:
        """Return the content that the channel, with these options, would have from a state; None if unknown."""
        if (artifact := self._artifact(at)) is None or artifact.overlay != self._place.folder.path:
            return None
        pins = pinned if artifact.pin_images is None else artifact.pin_images
        return _key(at.overlay, options.with_flags(artifact.flags), pinned=pins)

    def _artifact(self, at: ContentAt) -> Artifact | None:
        """Return the artifact as the configuration of a state has it, or None where it has none that can be read."""
        return None if at.config is None else self._read(at.config)

    def _artifact_in(self, text: str) -> Artifact | None:
        try:
            config = parse_config(text.encode(), self._place.config)
        except InvalidConfig:
            return None
        channel = self._place.artifact.channel
        return next((artifact for artifact in config.artifacts if artifact.channel == channel), None)


def _key(overlay: str | None, options: Options, *, pinned: bool) -> ContentKey:
    return ContentKey(overlay, f"{options.digest}{' pinned' if pinned else ''}")
