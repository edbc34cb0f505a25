"""The artifacts that a pull request would change: planned with what the head wants, at the places that the base names.

Nothing is read from a checkout. Files that the base's configuration names (keys, trust roots, snapshots) come from the
base commit, and the overlay from the commit that it is looked at on, with Git's own bytes. A request that names a host
would get the job's credentials sent there, before a person has reviewed it: so where artifacts and releases are, who is
trusted, and which files are read is as the base commit says.
"""

from __future__ import annotations

from contextlib import chdir
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from ci_automation.action.github import Hub
from ci_automation.action.logins import logins
from ci_automation.approval.content import AwaitedMerge, rules_of
from ci_automation.artifact.git import attribute_files, concealed
from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.cli.wiring import all_targets
from ci_automation.config.load import parse_config
from ci_automation.config.model import named_files
from ci_automation.config.schema import keys
from ci_automation.errors import Error
from ci_automation.flows.files import write_tree
from ci_automation.flows.planning.shown import MOST_SHOWN, is_unseen
from ci_automation.flows.ports import Prepared
from ci_automation.flows.preview import review_artifact, review_promoted
from ci_automation.flows.workspace import OverlayFolder, UnfitOverlayFile, read_overlay_folder
from ci_automation.github.files import EXECUTABLE, PLAIN_MODES, Files
from ci_automation.impact.change import some_of
from ci_automation.report.preview import ArtifactReview

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from ci_automation.action.inputs import Inputs
    from ci_automation.action.run import ActionRun
    from ci_automation.cli.arguments import Arguments
    from ci_automation.cli.target import Target
    from ci_automation.config.model import Config
    from ci_automation.config.sections import Artifact

    Obstacles = Callable[[str], Iterable[str]]

_MOST_FILES = 2_000
_SAME = "the request changes nothing of it"
# What a request may try out; every other field is the base's, also one that is not made yet.
_OF_POLICY = ("own_policy", "refuse", "acknowledge", "allow_removal", "accept_edits")
_OF_REQUEST = ("components_file", "flags", "overlay", "paused", "pin_images", "sync", *_OF_POLICY)
_OF_FILE = ("source", "upstream")


class CommitFiles(Struct, frozen=True):
    """One commit of a repository, and those of its files that were looked up, each with its mode and its blob."""

    files: Files
    oid: str
    known: dict[str, tuple[str, str]] = field(default_factory=dict)

    @staticmethod
    def look_up(*wanted: tuple[CommitFiles, Iterable[str]]) -> None:
        """Ask for all files at some paths of commits, or below them, at once; a path that leads outside has none."""
        asked = {it.oid: [_path(path) for path in paths if _is_inside(path)] for it, paths in wanted}
        found = wanted[0][0].files.below({oid: paths for oid, paths in asked.items() if paths})
        for commit, _ in wanted:
            commit.known.update(found.get(commit.oid, {}))

    def read(self, path: str) -> bytes | None:
        """Return the content of a regular file, or None if there is none at a path that was looked up.

        Raises:
            ReleaseSourceError: as `Files.blob`.
        """
        mode, blob = self.known.get(path, ("", ""))
        return self.files.blob(blob) if mode in PLAIN_MODES else None

    def below(self, paths: Iterable[str], *, whole: bool) -> Tree:
        """Return the files at some paths, or below them, without links unless the `whole` is wanted.

        Raises:
            UnfitOverlayFile: there are too many, one is too large, or, of the whole, is a link or a submodule.
            UnfitPath: a file has a path that could lead somewhere else.
            ReleaseSourceError: as `Files.contents`.
        """
        asked = tuple(f"{_path(path)}/" for path in paths)
        found = {path: it for path, it in self.known.items() if f"{path}/".startswith(asked)}
        if whole and (odd := next((path for path, (mode, _) in found.items() if mode not in PLAIN_MODES), None)):
            raise UnfitOverlayFile(odd, "is a symbolic link or a submodule")
        blobs = {path: blob for path, (mode, blob) in found.items() if mode in PLAIN_MODES}
        if len(blobs) > _MOST_FILES:
            raise UnfitOverlayFile(", ".join(asked), f"has more than {_MOST_FILES} files")
        contents = dict(self.files.contents(self.oid, blobs.items()))
        if large := next((path for path, blob in blobs.items() if contents[blob] is None), None):
            raise UnfitOverlayFile(large, "is too large to be read")
        return Tree(
            tuple(TreeFile(path, contents[blob] or b"", found[path][0] == EXECUTABLE) for path, blob in blobs.items())
        )

    def overlay(self, folder: str, config: str) -> OverlayFolder:
        """Return the files of an overlay folder, if a run would take them.

        Raises:
            UsageError: it would not.
        """
        with TemporaryDirectory(prefix="flux-") as place:
            root = Path(place) / "tree"
            write_tree(self.below((folder, *attribute_files(folder)), whole=True), root)
            return read_overlay_folder(root, folder, config=config)


def artifact_reviews(
    inputs: Inputs, run: ActionRun, base: CommitFiles, head: CommitFiles, since: Sequence[str], obstacles: Obstacles
) -> tuple[tuple[ArtifactReview, ...], tuple[str, ...]]:
    """Return what a request would do to each artifact, and what in its configuration is not gone by.

    `since` are the files that the base branch has changed since the request left it, `obstacles` what keeps its merge
    from approving content in a folder.

    Raises:
        InvalidConfig: the configuration cannot be used.
        ReleaseSourceError: GitHub failed or refused.
    """
    path = inputs.config_path
    rules = (path, *attribute_files(path))
    CommitFiles.look_up((base, rules), (head, rules))
    texts = base.read(path), head.read(path)
    before, wanted = (parse_config(it, path) if it is not None else None for it in texts)
    if before is None or wanted is None:
        why = "the request takes it out" if before else "the base has none, and the request's own is not gone by"
        return (), (f"There is no configuration to preview: {path}: {why}.",)
    after = preview_config(before, wanted)
    given = _given(inputs, run, before)
    named = (*named_files(before), *given.public_key, *filter(None, [given.trust_config]))
    CommitFiles.look_up((base, (*named, *_overlays(before))), (head, tuple(_overlays(after))))
    with TemporaryDirectory(prefix="flux-") as place:
        root = Path(place) / "base"
        write_tree(base.below((path, *named), whole=False), root)
        with chdir(root):
            pair = _Pair(before, after, given, lambda it, of: (base if of is before else head).overlay(it, path))

            def merge(of: Artifact, trees: Sequence[OverlayFolder | None]) -> AwaitedMerge:
                sides = [_files(tree) | {path: text or b""} for tree, text in zip(trees, texts, strict=True)]
                hidden = (*obstacles(_path(of.overlay or "")), *_concealed((base, head), path))
                found = (*hidden, *_behind((of,), path, since), *_unfit(of, *sides))
                return AwaitedMerge(Hub.of(inputs, run).place, rules_of(of), of.approval, found)

            made = _reviews(pair, {it.name: partial(merge, it) for it in wanted.artifacts}, run)
            behind = (f"{it[0].upper()}{it[1:]}." for it in _behind(before.artifacts, path, since))
            return tuple(made), (*behind, *not_previewed(before, wanted))


def _given(inputs: Inputs, run: ActionRun, config: Config) -> Arguments:
    """Return the options with the logins of the job, and with an address of releases that holds in any folder."""
    given, channels = inputs.given.checked(), tuple(it.channel for it in config.artifacts)
    releases = given.releases
    if releases and not releases.startswith(("oci://", "layout:")):
        releases = str(Path(releases).absolute())
    return replace(given, releases=releases, logins=logins(inputs, run.job, channels, run.hide).before)


def _behind(artifacts: Iterable[Artifact], path: str, since: Collection[str]) -> Iterator[str]:
    folders = tuple(f"{it.overlay.removesuffix('/')}/" for it in artifacts if it.overlay)
    if found := [each for each in since if each == path or (folders and each.startswith(folders))]:
        yield f"the base has changed {some_of(found)} since: update this request first"


def _files(folder: OverlayFolder | None) -> dict[str, bytes]:
    """Return the files of an overlay by their paths in the repository."""
    return {f"{folder.path}/{file.path}": file.content for file in folder.tree.files} if folder else {}


def _concealed(commits: Iterable[CommitFiles], path: str) -> Iterator[str]:
    """Yield an attribute for which a page may not show the configuration as it is."""
    found = {(name, it.read(name)) for it in commits for name in attribute_files(path)}
    for name, text in sorted((name, text) for name, text in found if text is not None):
        if hidden := concealed({name: text.decode(errors="replace")}, [path]):
            yield f"{name} gives {path} the attribute {hidden.attribute}"


def _unfit(artifact: Artifact, old: Mapping[str, bytes], new: Mapping[str, bytes]) -> Iterator[str]:
    """Yield why content of an artifact is asked for by digest, whatever the channel has."""
    if artifact.overlay is None:
        yield "the configuration has no overlay for it"
    changed = sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path))
    if found := [path for path in changed if any(is_unseen(path, side[path]) for side in (old, new) if path in side)]:
        yield f"pages do not show all lines of {some_of(found)}"
    if sum(len(side.get(path, b"")) for path in changed for side in (old, new)) > MOST_SHOWN:
        yield f"pages do not show changes of files with more than {MOST_SHOWN // 1000} kB"


class _Pair(Struct, frozen=True):
    """The configurations before and after a request, and what reads the overlay of either."""

    before: Config
    after: Config
    given: Arguments
    overlay: Callable[[str, Config], OverlayFolder]


def _overlays(config: Config) -> Iterator[str]:
    """Yield the overlay folders of a configuration, and what Git's attributes say about them."""
    for folder in (it.overlay for it in config.artifacts if it.overlay):
        yield from (folder, *attribute_files(_path(folder)))


def _path(path: str) -> str:
    return path.removesuffix("/")


def _is_inside(path: str) -> bool:
    return {"", ".", ".."}.isdisjoint(_path(path).split("/"))


def _reviews(
    pair: _Pair, merges: Mapping[str, Callable[[Sequence[OverlayFolder | None]], AwaitedMerge]], run: ActionRun
) -> Iterator[ArtifactReview]:
    """Yield what becomes of each artifact that is rendered, for which `merges` has what a merge would mean.

    Of a promoted one, only what its clusters add to it is looked at.
    """
    now = {it.name: it for it in all_targets(pair.before, pair.given, signs=False)}
    for then in all_targets(pair.after, pair.given, signs=False):
        one, other = now[then.name].configured, then.configured
        assert one is not None  # noqa: S101  # for the type checker: both are of a configuration
        assert other is not None  # noqa: S101  # same
        if one.promote and one.sync == other.sync:
            continue
        try:
            if one.promote:
                asked = _wish(now[then.name], None, run, images=False), _wish(then, None, run, images=False)
                yield review_promoted(then.name, then.channel, asked)
                continue
            run.say(f"planning {then.name}, with and without the request")
            sides = ((one, pair.before), (other, pair.after))
            trees = [pair.overlay(it.overlay, of) if it.overlay else None for it, of in sides]
            if _content(one, trees[0]) == _content(other, trees[1]):
                yield ArtifactReview(then.name, remarks=(_SAME,))
                continue
            same = one.flags.get("registry") == other.flags.get("registry")
            wishes = _wish(now[then.name], trees[0], run, images=same), _wish(then, trees[1], run, images=same)
            yield review_artifact(then.name, then.channel, wishes, merges[then.name](trees))
        except Error as error:
            yield ArtifactReview(then.name, trouble=str(error))


def _content(artifact: Artifact, overlay: OverlayFolder | None) -> tuple[object, ...]:
    return replace(artifact, overlay=None), overlay and overlay.tree_id


def _wish(goal: Target, overlay: OverlayFolder | None, run: ActionRun, *, images: bool) -> Prepared:
    ports = replace(goal.ports, images=goal.ports.images if images else None, say=run.say)
    return Prepared(ports, replace(goal.intent, overlay=overlay.tree if overlay else None))


def preview_config(base: Config, head: Config) -> Config:
    """Return the base's configuration with what the head's wants of the artifacts that both have."""
    found = {it.name: it for it in head.artifacts}
    return replace(
        base,
        artifacts=tuple(_followed(it, found[it.name]) for it in base.artifacts if it.name in found),
        digest=head.digest,
    )


def _followed(base: Artifact, head: Artifact) -> Artifact:
    values = {name: getattr(head, name) for name in _OF_REQUEST}
    clusters = replace(base.clusters, kubernetes=head.clusters.kubernetes)
    if base.flags.get("registry") != head.flags.get("registry"):
        values["pin_images"] = False  # no image is looked up in a registry that a request names
    return replace(base, **values, clusters=clusters)


def not_previewed(base: Config, head: Config) -> Iterator[str]:
    """Yield a sentence on everything in the head's configuration that a preview does not go by, and on new rules."""
    if changed := [name for name in _OF_FILE if getattr(base, name) != getattr(head, name)]:
        yield _told("the configuration", changed)
    known, wanted = ({it.name: it for it in config.artifacts} for config in (base, head))
    for name, artifact in known.items():
        if name not in wanted:
            yield f"{name} is taken out: no run would publish it any more"
        else:
            yield from _of_artifact(artifact, wanted[name])
    for name in wanted.keys() - known.keys():
        yield f"{name} is new: its address is not asked before the request is merged"


def _of_artifact(base: Artifact, head: Artifact) -> Iterator[str]:
    if changed := [*_differing(base, head)]:
        yield _told(base.name, changed)
    if rules := [name for name in ("policy", "paused") if getattr(base, name) != getattr(head, name)]:
        yield f"{base.name}: {' and '.join(rules)} change; the verdicts here are those of the request's own rules"
    if base.flags.get("registry") != head.flags.get("registry"):
        yield f"{base.name}: the registry of the images changes; none is looked up there, nor shown with a digest"


def _differing(base: Artifact, head: Artifact) -> Iterator[str]:
    for key in keys(type(base)):
        one, other = getattr(base, key.name), getattr(head, key.name)
        if key.name == "clusters":
            other = replace(other, kubernetes=one.kubernetes)
        if key.name not in _OF_REQUEST and one != other:
            yield key.written


def _told(subject: str, changed: list[str]) -> str:
    verb = "changes" if len(changed) == 1 else "change"
    return f"{subject}: {', '.join(changed)} {verb}; the preview asks and trusts what the base commit names"
