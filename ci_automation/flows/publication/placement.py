"""Check that a channel is where it belongs, by signed records and holds, or ask a person to adopt what it has."""

from __future__ import annotations

import unicodedata
from datetime import datetime
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from msgspec.structs import asdict, replace

from ci_automation.artifact.archive import HiddenContent
from ci_automation.artifact.digest import Digest
from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.errors import VerificationFailed
from ci_automation.flows.history import immutable_references
from ci_automation.flows.observe import ChannelMoved, Observed, Placed, Trust
from ci_automation.flows.planning.base import read_shown, read_tree
from ci_automation.flows.publication.recording import kept_holds
from ci_automation.flows.publication.tags import VersionTags
from ci_automation.flows.rendering import render_release
from ci_automation.flux.artifact import stated_overlay_digest, with_stated_flags
from ci_automation.flux.recover import recover
from ci_automation.impact.overlay.bootstrapped import plain_secrets
from ci_automation.impact.overlay.preflight import preflight
from ci_automation.records.attached import channel_name, known_as
from ci_automation.records.ledger import Position, holds_on, left_at, notes_in
from ci_automation.records.notes import Record
from ci_automation.report.adoption import AdoptedFile, Adoption, difference
from ci_automation.signing.verify import verify

if TYPE_CHECKING:
    from ci_automation.artifact.manifest import Manifest
    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.flux.version import Version
    from ci_automation.policy.hold import Hold
    from ci_automation.records.ledger import Ledger

_ADOPT = "If you moved it, use `update --adopt`, which shows every file first."
_ROW, _MOST_SHOWN = 40, 250_000  # characters beside a path, and of the list of all: a page of GitHub's has room for it
_STATED, _MOST_STATED = ("source", "revision", "created"), 200
_IGNORE_FILE = ".sourceignore"  # of source-controller, which also drops its own list of files to ignore for it


class ChannelMovedBack(VerificationFailed):
    """A channel points at a digest that it had left: an old one that is signed, and no longer wanted."""

    def __init__(self, observed: Observed, later: Record | datetime) -> None:
        channel = observed.channel
        if isinstance(later, datetime):
            moved = f"hold says that it was rolled back from there at {later:%Y-%m-%d %H:%M} UTC"
            back = "`history` shows where the rollback led"
        else:
            moved = (
                f"record says that it was moved on to {later.digest} ({later.version}) at {later.at:%Y-%m-%d %H:%M} UTC"
            )
            back = f"to continue from the later digest, point {channel.tag} at {later.digest} again"
        super().__init__(f"{channel} is at {observed.digest}, and a signed {moved}")
        self.hint = f"Nothing was published on it. Find out who moved the channel back; {back}. {_ADOPT}"


class PublishedElsewhere(VerificationFailed):
    """A channel points at a digest that was published to other channels, and never to this one."""

    def __init__(self, observed: Observed, others: tuple[str, ...]) -> None:
        super().__init__(
            f"{observed.channel} is at {observed.digest}, which was published to {', '.join(others)} and not to this "
            "channel"
        )
        self.hint = (
            "Nothing was published or recorded on it. Find out who moved the channel there. `promote` finishes an "
            f"interrupted promotion. {_ADOPT}"
        )


def place(observed: Observed, ports: Ports) -> Placed:
    """Return a channel with what trusted signers said of the digest that it has; nothing without a trusted signer.

    Raises:
        NotAnIndex, TooManyRecords: an attacker hides some of it.
    """
    placed = Placed(**asdict(observed))
    if ports.trusted is None:
        return placed
    registry, ledger = ports.registry, ports.ledger(observed.channel)
    name = ledger.name
    said, tags = registry.at_once(partial(ledger.said, observed.digest), partial(registry.tags, observed.channel))
    found = notes_in(said, Record)
    own = [record for record in found if record.channel == name]
    record = own[-1] if own else None
    held, left = holds_on(said, name), left_at(said, name)
    return replace(
        placed,
        record=record,
        others=() if own else tuple(sorted({record.channel for record in found})),
        rolled_back=_unrecorded(ledger, held, record),
        left=left if left and not (record and record.at > left) else None,
        holds=held,
        tags=tags,
    )


def _unrecorded(ledger: Ledger, held: tuple[Hold, ...], record: Record | None) -> Hold | None:
    """Return the hold of a rollback that no record of the channel is as new as, if that led here.

    A hold that was only carried on, by a publication that ended before its own record, is older than the record of the
    rollback that wrote it.
    """
    hold = max(held, key=lambda hold: hold.since, default=None)
    if hold is None or (record is not None and record.at >= hold.since):
        return None
    last = ledger.newest()
    return hold if last is None or last.at < hold.since else None


def had_last(channel: Reference, ports: Ports) -> tuple[Record | None, tuple[Hold, ...]]:
    """Return what a channel had last by its records, and the holds on that: deleting a tag ends no hold.

    Raises:
        ImmutableTagMoved: a tag hides a digest.
    """
    ledger = ports.ledger(channel)
    last = ledger.newest()
    return last, ledger.holds(last.digest) if last else ()


def as_mirrored(placed: Placed, ports: Ports) -> Placed:
    """Return it without the channels of other repositories: a mirror copies the records of its source."""
    here = channel_name(ports.registry, placed.channel).rpartition(":")[0]
    return replace(placed, others=tuple(name for name in placed.others if name.rpartition(":")[0] == here))


def problem_of(placed: Placed, version: Version, ports: Ports) -> VerificationFailed | None:
    """Return why a channel, which has `version`, is not where it belongs; None if nothing speaks against it.

    Raises:
        ImmutableTagMoved, NotAnIndex, TooManyRecords: an attacker hides a part of the channel's past.
    """
    if placed.others:
        others = (known_as(ports.registry, placed.channel, name) for name in placed.others)
        return PublishedElsewhere(placed, tuple(others))
    if placed.left is not None:
        return ChannelMovedBack(placed, placed.left)
    hold = max(placed.holds, key=lambda hold: hold.since, default=None)
    if hold and placed.record and placed.record.at < hold.since and not placed.rolled_back:
        hold = None  # its rollback ended before it moved the channel, which went elsewhere since
    position = Position(placed.digest, version, placed.record, hold)
    later = ports.ledger(placed.channel).superseded_by(position, placed.tags)
    return ChannelMovedBack(placed, later) if later else None


def in_place(observed: Observed, version: Version, ports: Ports, intent: Intent, *, approved: bool = False) -> Placed:
    """Return a channel, which has `version`, if it is where it belongs or a person adopts it.

    A person who `approved` this very digest for this channel is word enough that it belongs there.

    Raises:
        ChannelMovedBack: signed statements say that it had left this digest.
        PublishedElsewhere: signed records say that the digest is another channel's.
        NotAdopted: a person was asked, and did not say yes.
    """
    placed = observed if isinstance(observed, Placed) else place(observed, ports)
    if placed.trust is Trust.ADOPTED:
        return placed
    if approved:
        placed = replace(placed, others=())
    if (problem := problem_of(placed, version, ports)) is None:
        return placed
    require_still_there(placed, ports)
    if not intent.adopt:
        raise problem
    confirm(placed, str(problem), ports, intent)
    return replace(placed, trust=Trust.ADOPTED, others=())


def require_still_there(observed: Observed, ports: Ports) -> None:
    """Check that a problem is not just that another run published while we looked.

    Raises:
        ChannelMoved: it is.
    """
    if (now := ports.registry.resolve(observed.channel)) != observed.digest:
        raise ChannelMoved(observed.channel, observed.digest, now)


class NotAdopted(VerificationFailed):
    """A person was asked whether to trust an artifact, and did not say yes."""

    hint = (
        "Review the listed files. To adopt the digest, answer yes or add --yes; in the action, set `adopt` to exactly "
        "this digest."
    )

    def __init__(self, channel: Reference) -> None:
        super().__init__(f"{channel} has no trusted signature and was not adopted")


def confirm(observed: Observed, problem: str, ports: Ports, intent: Intent) -> None:
    """Show a person the problem and every file of what a channel has, and ask whether to adopt it.

    Raises:
        NotAdopted: the person did not.
        HiddenContent: what it holds cannot be shown to a person as clusters see it.
    """
    if not ports.confirm(_adoption(observed, problem, ports, intent)):
        raise NotAdopted(observed.channel) from None


def _adoption(observed: Observed, problem: str, ports: Ports, intent: Intent) -> Adoption:
    tree = read_shown(observed, ports)
    _require_clear_names(tree)
    path = tree.components_path(intent.components_file)
    recovered = recover(tree[path].decode(errors="replace"))
    digest = stated_overlay_digest(observed.manifest)
    if observed.version not in {None, recovered.version} or digest not in {None, str(tree.without(path).digest())}:
        raise HiddenContent("its annotations state another version or other files, and later runs go by them")
    options = with_stated_flags(recovered.options, observed.manifest)  # which later steps take along
    upstream = render_release(recovered.version, options, ports).text
    signed, before = _last_signed(observed, ports)
    stated = ((name, observed.manifest.annotations.get(f"org.opencontainers.image.{name}")) for name in _STATED)
    overlay, known = tree.without(path).by_path, {name: file for name, file in before.by_path.items() if name != path}
    now, had = overlay.get, known.get
    tags = (
        VersionTags(observed.channel, recovered.version, ports).astray(observed.digest) if intent.version_tags else ()
    )
    built = preflight(Tree(()), tree, path, ports.kustomize)
    return Adoption(
        channel=observed.channel,
        digest=observed.digest,
        problem=problem,
        version=recovered.version,
        options=options.to_arguments(),
        components=path,
        difference=difference(upstream.encode(), tree[path]),
        overlay=tuple(
            AdoptedFile(name, len(it.content), Digest.of(it.content), _change(now(name), had(name)) if signed else "")
            for name, it in sorted({**known, **overlay}.items())
        ),
        compared_with=signed.digest if signed else None,
        compared_options=_options(signed, before, path) if signed else (),
        stated=tuple(f"{name} {said[:_MOST_STATED]}" for name, said in stated if said),
        secrets=plain_secrets(tree.without(path), lenient=True),
        holds=tuple(it.goes_on_as for it in kept_holds(observed, recovered.version, ports, intent.now)),
        hazards=built.hazards,
        rights=built.rights,
        version_tags=tuple(str(tag.tag) for tag in tags),
    )


def _require_clear_names(tree: Tree) -> None:
    """Check that a list of the names tells a person which files clusters get.

    Raises:
        HiddenContent: it does not.
    """
    if len(tree.by_path) * (_ROW + max(map(len, tree.by_path), default=0)) > _MOST_SHOWN:
        raise HiddenContent(f"the list of its {len(tree.by_path)} files is longer than a page")
    looks: dict[str, str] = {}
    for path in sorted(tree.by_path):
        if not path.isprintable():
            raise HiddenContent(f"the name {path!a} has invisible characters")
        look = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", path).casefold())
        if look in looks:
            raise HiddenContent(f"{looks[look]!r} and {path!r} are two files whose names look alike")
        looks[look] = path
        if PurePosixPath(path).name == _IGNORE_FILE:
            raise HiddenContent(f"with {path!r}, clusters leave out some files and take others")


def _options(signed: Manifest, tree: Tree, path: str) -> tuple[str, ...]:
    if path not in tree.by_path:
        return ()
    return with_stated_flags(recover(tree[path].decode(errors="replace")).options, signed).to_arguments()


def _change(now: TreeFile | None, before: TreeFile | None) -> str:
    """Return what became of a file, which is there now or was before."""
    return "gone" if now is None else "new" if before is None else "same" if now == before else "changed"


def _last_signed(observed: Observed, ports: Ports) -> tuple[Manifest | None, Tree]:
    """Return what the channel had last by its records, or else the highest version that a trusted signer signed."""
    channel, trusted = observed.channel, ports.trusted
    if trusted is None:
        return None, Tree(())
    last = ports.ledger(channel).newest()
    first = (channel.at_digest(last.digest),) if last else ()
    for reference in (*first, *immutable_references(channel, ports)):
        manifest = ports.registry.manifest(reference)
        if manifest.digest == observed.digest:
            continue
        try:
            verify(ports.registry, channel, manifest.digest, trusted)
        except VerificationFailed:
            continue
        return manifest, read_tree(Observed(reference, manifest, Trust.VERIFIED, None), ports)
    return None, Tree(())
