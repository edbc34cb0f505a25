"""The patches and images of the Kustomization by which a cluster applies a folder; they are not in the artifact.

So a release that gives a controller another name changes nothing of them, and they miss it from then on. kustomize
ignores a patch whose target matches nothing, and fails at one without a target that names no object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.artifact.yaml import as_node, text
from ci_automation.flux.text import SEPARATOR, controller_images, documents
from ci_automation.impact.change import Certainty, Hazard, ObjectId, Place, all_of, fingerprint, printable_hazard
from ci_automation.impact.objects import read_objects
from ci_automation.impact.overlay.folders import ROOT, AppliedFolder, applied_folder, gathered
from ci_automation.impact.overlay.kustomization import Effort, TooMuch, listed_at
from ci_automation.impact.overlay.outcome import Effect, FolderOutcome, Followed, looked_into
from ci_automation.impact.overlay.targets import GATE, lost_targets
from ci_automation.impact.reading import UnreadableObjects
from ci_automation.impact.values import mapping

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from ci_automation.artifact.tree import Tree
    from ci_automation.impact.overlay.builder import Kustomize
    from ci_automation.impact.overlay.kustomization import Kustomization

_OF_FLUX = "\n    app.kubernetes.io/part-of: flux\n"
_ALSO = frozenset(  # what else in the spec changes what clusters get
    {"commonMetadata", "components", "namePrefix", "nameSuffix", "postBuild", "targetNamespace"}
)
_WHERE = "sync.kustomization"  # of the configuration
_CORRECT = f"correct {_WHERE}, and apply to the clusters what `sync-manifests` prints then"


def as_applied(folder: AppliedFolder, spec: Mapping[str, Any], effort: Effort) -> AppliedFolder:
    """Return a folder with the patches and images of a Kustomization, as clusters build it.

    kustomize-controller writes them into the folder's kustomization (`Generator.GenerateManifest` of fluxcd/pkg
    /kustomize): a patch after those that are there, an image in place of the one with the same name.

    Raises:
        TooMuch: to follow it is more than what is left of the effort.
    """
    import yaml

    patches, images = listed_at(spec, "patches"), listed_at(spec, "images")
    found = _root(folder)
    if not (patches or images) or found is None:  # kustomize says why it cannot be read
        return folder
    written_as = {key.value: value for key, value in found.root.value}
    fields = {key: written_as.get(key, value) for key, value in found.value.items()}  # with those of a merge, `<<`
    if patches:
        had = listed_at(found.value, "patches")
        fields["patches"] = [*(written_as["patches"].value if had and "patches" in written_as else had), *patches]
    if images:
        named = {
            text(it.get("name")): it for it in (*listed_at(found.value, "images"), *images) if isinstance(it, dict)
        }
        fields["images"] = list(named.values())
    written = yaml.serialize(as_node(fields), Dumper=yaml.CSafeDumper).encode()
    tree = folder.tree.replaced(found.file, written)
    return replace(folder, tree=tree, gathered=gathered(tree, folder.folder, effort))


def unfit_in_cluster(
    old: Tree | None, new: Tree, spec: Mapping[str, Any], kustomize: Kustomize | None
) -> tuple[Hazard, ...]:
    """Return what of a Kustomization's patches and images does not fit when `new` replaces the files of `old`.

    Its path says the folder. A patch that matched nothing before is advice: the step does not make it worse.

    Raises:
        TooMuch: to follow it is more than what is left of the effort.
    """
    try:
        return tuple(map(printable_hazard, _unfit(old, new, spec, kustomize, Effort())))
    except TooMuch:
        return (_unchecked("to follow them takes too many steps"),)


def _unfit(
    old: Tree | None, new: Tree, spec: Mapping[str, Any], kustomize: Kustomize | None, effort: Effort
) -> Iterator[Hazard]:
    before = _Side.of(old, spec, effort) if old else None
    after = _Side.of(new, spec, effort)
    if not after or after.plain.gathered.remotes:  # which the overlay is told of
        return
    first, then = looked_into([before.applied] if before else [], [after.applied], kustomize, effort)
    folder = after.applied.folder
    was, now = first.get(folder), then[folder]
    if now.error:
        alone = looked_into((), (after.plain,), kustomize, effort)[1][folder]
        if not alone.error:  # else it is the overlay's own
            yield _failure(now.error, was.error if was else "")
        return
    if now.followed is None:
        yield _unchecked(now.unchecked or now.unfollowed)
    else:
        earlier = before.rules(was.followed) if before and was and was.followed else None
        yield from lost_targets(earlier, after.rules(now.followed), effort)
    yield from _left_out(was, now, {text(it.get("newName")) for it in map(mapping, listed_at(spec, "images"))} - {""})


class _Side(Struct, frozen=True):
    """A folder without the patches and images of a Kustomization, with them, and their names in both places."""

    plain: AppliedFolder
    applied: AppliedFolder
    file: str
    names: Mapping[str, str]

    @classmethod
    def of(cls, tree: Tree, spec: Mapping[str, Any], effort: Effort) -> Self | None:
        """Return the folder of a Kustomization; None if it has no patches and images, or none can be written there."""
        plain = applied_folder(tree, spec["path"].removeprefix("./").rstrip("/") or ROOT, effort)
        root, applied = _root(plain), as_applied(plain, spec, effort)
        if root is None or applied is plain:
            return None
        own = len(listed_at(root.value, "patches"))
        names = {f"patches[{own + at}]": f"patches[{at}]" for at, _ in enumerate(listed_at(spec, "patches"))}
        every = [text(mapping(it).get("name")) for it in (*listed_at(root.value, "images"), *listed_at(spec, "images"))]
        order = list(dict.fromkeys(every))
        for at, it in enumerate(map(mapping, listed_at(spec, "images"))):
            names[f"images[{order.index(text(it.get('name')))}]"] = f"images[{at}]"
        return cls(plain, applied, root.file, names)

    def rules(self, found: Followed) -> Followed:
        """Return what the Kustomization's own patches and images do."""
        effects = {}
        for it in found.effects.values():
            if it.rule.file == self.file and it.rule.name in self.names:
                name, what = self.names[it.rule.name], f"{it.rule.what} in `{_WHERE}`"
                rule = replace(it.rule, name=name, what=what, places=(Place(_WHERE),))
                effects[rule.key] = Effect(rule, it.objects, it.touches)
        return replace(found, effects=effects)


def unlike_in_cluster(
    own: Tree, other: Tree, spec: Mapping[str, Any], kustomize: Kustomize
) -> tuple[ObjectId, ...] | None:
    """Return the objects that clusters get otherwise by `own` files than by others with a Kustomization's patches.

    None says that one of them cannot be built, or that the Kustomization has more than those that changes them.
    """
    if not _ALSO.isdisjoint(spec):
        return None
    effort = Effort()
    try:
        folders = applied_folder(own, ROOT, effort), as_applied(applied_folder(other, ROOT, effort), spec, effort)
        built = [
            {*documents(it)} for it in kustomize.builds([(it.tree, ROOT) for it in folders]) if isinstance(it, str)
        ]
        if len(built) != len(folders):
            return None
        differing = (SEPARATOR.join(sorted(it - other)) for it, other in (built, reversed(built)))
        before, after = ({it.id: it.value for it in read_objects(text)} for text in differing)
    except (TooMuch, UnreadableObjects):
        return None
    return tuple(sorted(it for it in before.keys() | after.keys() if before.get(it) != after.get(it)))


def _failure(error: str, before: str) -> Hazard:
    already = "; it is broken already" if before == error else ""
    sentence = f"no cluster can build the artifact with the patches and images of `{_WHERE}`: {error}{already}"
    return Hazard(GATE, Certainty.CERTAIN, f"{_WHERE} {fingerprint(error)}", sentence, (Place(_WHERE),), (_CORRECT,))


def _unchecked(reason: str) -> Hazard:
    sentence = f"the patches and images of `{_WHERE}` are not checked: {reason}"
    remedy = "install kustomize 5 or kubectl (not a version manager's shim), or check the build yourself"
    return Hazard(GATE, Certainty.UNCHECKED, f"{_WHERE} {reason}", sentence, (Place(_WHERE),), (remedy,))


def _left_out(was: FolderOutcome | None, now: FolderOutcome, new: Collection[str]) -> Iterator[Hazard]:
    """Yield which of Flux's controllers have an image of another name than these, if there are any of these."""
    images = _images(now)
    others = {name: image for name, image in images.items() if _name(image) not in new}
    if new and others:
        known = {name for name, image in _images(was).items() if _name(image) not in new} if was else set()
        hosts = sorted({image.partition("/")[0] for image in others.values()})
        count = f"{len(images) - len(others)} of {len(images)} controllers"
        sentence = f"`images` in `{_WHERE}` renames {count}, and leaves {all_of([*others])} at {all_of(hosts)}"
        certainty = Certainty.ADVICE if known.issuperset(others) else Certainty.POSSIBLE
        subject = f"{_WHERE} leaves out {' '.join(others)}"
        remedy = "add the others to `images`, if clusters cannot pull from there"
        yield Hazard(GATE, certainty, subject, sentence, (Place(_WHERE),), (remedy,))


def _images(found: FolderOutcome) -> Mapping[str, str]:
    ours = SEPARATOR.join(part for part in documents(found.text or "") if _OF_FLUX in part)
    return controller_images(ours)


def _name(image: str) -> str:
    return image.partition("@")[0].rpartition(":")[0]


def _root(folder: AppliedFolder) -> Kustomization | None:
    found = folder.gathered.kustomizations.values()
    return next((it for it in found if it.folder == folder.folder), None)
