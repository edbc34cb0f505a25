"""The artifacts that a pull request would change: planned with what the head wants, at the places that the base names.

Nothing is read from a checkout. Files that the base's configuration names (keys, trust roots, snapshots) come from the
base commit, and the overlay from the commit that it is looked at on, with Git's own bytes.
"""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.action.logins import logins
from ci_automation.artifact.git_attributes import attribute_files
from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.cli.wiring import readers_targets
from ci_automation.config import DEFAULT_PATH
from ci_automation.config.load import parse_config
from ci_automation.config.model import DirectorySourceConfig
from ci_automation.config.preview import not_previewed, preview_config
from ci_automation.errors import Error
from ci_automation.flows.files import write_tree
from ci_automation.flows.preview import PlanInputs, review_artifact
from ci_automation.flows.workspace import UnfitOverlayFile, read_overlay_folder
from ci_automation.impact.hazard import some_of
from ci_automation.report.preview import ArtifactReview

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from ci_automation.action.inputs import Inputs
    from ci_automation.action.run import ActionRun
    from ci_automation.cli.arguments import Arguments
    from ci_automation.cli.target import Target
    from ci_automation.config.model import ArtifactConfig, Config
    from ci_automation.flows.workspace import OverlayFolder
    from ci_automation.github.files import Files

_EXECUTABLE = "100755"
_MOST_FILES = 2_000
_SAME = "the request changes nothing of it"


class CommitFiles(Struct, frozen=True):
    """One commit of a repository, and its files, each with its blob."""

    files: Files
    oid: str
    blobs: Mapping[str, str]

    def below(self, paths: Iterable[str], *, whole: bool) -> Tree:
        """Return the files at some paths, or below them, without links unless the `whole` is wanted.

        Raises:
            UnfitOverlayFile: there are too many, one is too large, or, of the whole, is a link or a submodule.
            UnfitPath: a file has a path that could lead somewhere else.
            ReleaseSourceError: as `Files.contents`.
        """
        asked = tuple(f"{path.removesuffix('/')}/" for path in paths)
        found = {path: blob for path, blob in self.blobs.items() if f"{path}/".startswith(asked)}
        if len(found) > _MOST_FILES:
            raise UnfitOverlayFile(", ".join(asked), f"has more than {_MOST_FILES} files")
        modes = self.files.unusual(self.oid) if whole else {}
        for path in modes:
            if f"{path}/".startswith(asked) and modes[path] != _EXECUTABLE:
                raise UnfitOverlayFile(path, "is a symbolic link or a submodule")
        contents = dict(self.files.contents(self.oid, found.items()))
        if large := next((path for path, blob in found.items() if contents[blob] is None), None):
            raise UnfitOverlayFile(large, "is too large to be read")
        return Tree(tuple(TreeFile(path, contents[blob] or b"", path in modes) for path, blob in found.items()))

    def config(self, path: str) -> Config | None:
        """Return the configuration, or None where there is none.

        Raises:
            InvalidConfig: it cannot be used.
            ReleaseSourceError: as `Files.blob`.
        """
        return parse_config(self.files.blob(self.blobs[path]), path) if path in self.blobs else None

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
    inputs: Inputs, run: ActionRun, base: CommitFiles, head: CommitFiles, since: Collection[str]
) -> tuple[tuple[ArtifactReview, ...], tuple[str, ...]]:
    """Return what a request would do to each artifact, and what in its configuration is not gone by.

    `since` are the files that the base branch has changed since the request left it.

    Raises:
        InvalidConfig: the configuration cannot be used.
        ReleaseSourceError: GitHub failed or refused.
    """
    path = Path(inputs.given.config or DEFAULT_PATH).as_posix()
    before, wanted = base.config(path), head.config(path)
    if before is None or wanted is None:
        why = "the request takes it out" if before else "the base has none, and the request's own is not gone by"
        return (), (f"There is no configuration to preview: {path}: {why}.",)
    after = preview_config(before, wanted)
    releases = inputs.given.releases
    if releases and not releases.startswith(("oci://", "layout:")):
        releases = str(Path(releases).absolute())
    channels = tuple(it.channel for it in before.artifacts)
    given = replace(inputs.given.checked(), releases=releases)
    given = replace(given, logins=logins(inputs, run.job, channels, run.hide).before)
    with TemporaryDirectory(prefix="flux-") as place:
        root = Path(place) / "base"
        write_tree(
            base.below((path, *_named(before), *given.public_key, given.trust_config or path), whole=False), root
        )
        with chdir(root):
            made = _reviews(
                before, after, given, run, lambda it, of: (base if of is before else head).overlay(it, path)
            )
            return tuple(made), (*_behind(before, path, since), *not_previewed(before, wanted))


def _behind(config: Config, path: str, since: Collection[str]) -> Iterator[str]:
    folders = tuple(f"{it.overlay.removesuffix('/')}/" for it in config.artifacts if it.overlay)
    if found := [each for each in since if each == path or (folders and each.startswith(folders))]:
        yield f"The base has changed {some_of(found)} since: update the request to see what a merge would do."


def _named(config: Config) -> Iterator[str]:
    """Yield the files and folders of the repository that a configuration names."""
    source = config.source
    named = [str(source.path) if isinstance(source, DirectorySourceConfig) else None, config.upstream.trust_config]
    for it in config.artifacts:
        named += [it.trust_config, *it.verify.public_keys, *it.clusters.snapshots, *it.clusters.objects]
    yield from (it for it in named if it and "://" not in it and not it.startswith(("/", "layout:")))


def _reviews(
    before: Config, after: Config, given: Arguments, run: ActionRun, overlay: Callable[[str, Config], OverlayFolder]
) -> Iterator[ArtifactReview]:
    """Yield what becomes of each artifact that is rendered."""
    now = {it.name: it for it in readers_targets(before, given)}
    for then in readers_targets(after, given):
        one, other = now[then.name].configured, then.configured
        assert one is not None  # noqa: S101  # for the type checker: both are of a configuration
        assert other is not None  # noqa: S101  # same
        if one.promote:
            continue
        run.say(f"planning {then.name}, with and without the request")
        try:
            trees = [overlay(it.overlay, of) if it.overlay else None for it, of in ((one, before), (other, after))]
            if _content(one, trees[0]) == _content(other, trees[1]):
                yield ArtifactReview(then.name, remarks=(_SAME,))
                continue
            same = one.flags.get("registry") == other.flags.get("registry")
            wishes = (
                _wish(goal, tree, run, images=same) for goal, tree in zip((now[then.name], then), trees, strict=True)
            )
            yield review_artifact(then.name, then.channel, *wishes)
        except Error as error:
            yield ArtifactReview(then.name, trouble=str(error))


def _content(artifact: ArtifactConfig, overlay: OverlayFolder | None) -> tuple[object, ...]:
    return replace(artifact, overlay=None), overlay and overlay.tree_id


def _wish(goal: Target, overlay: OverlayFolder | None, run: ActionRun, *, images: bool) -> PlanInputs:
    ports = replace(goal.ports, images=goal.ports.images if images else None, say=run.say)
    return PlanInputs(ports, replace(goal.intent, overlay=overlay.tree if overlay else None))
