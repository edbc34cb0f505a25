"""The patches and images of the Kustomization by which a cluster applies a folder; they are not in the artifact."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ci_automation.artifact.yaml import as_node, text
from ci_automation.flux.text import SEPARATOR, controller_images, documents
from ci_automation.impact.change import all_of
from ci_automation.impact.overlay.folders import gathered
from ci_automation.impact.overlay.kustomization import listed_at
from ci_automation.impact.overlay.outcome import looked_into

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ci_automation.impact.overlay.builder import Kustomize
    from ci_automation.impact.overlay.folders import AppliedFolder
    from ci_automation.impact.overlay.kustomization import Effort, Kustomization

_OF_FLUX = "\n    app.kubernetes.io/part-of: flux\n"


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
    fields = {key.value: value for key, value in found.root.value}
    if patches:
        own = fields["patches"].value if listed_at(found.value, "patches") else []
        fields["patches"] = [*own, *patches]
    if images:
        named = {
            text(it.get("name")): it for it in (*listed_at(found.value, "images"), *images) if isinstance(it, dict)
        }
        fields["images"] = list(named.values())
    written = yaml.serialize(as_node(fields), Dumper=yaml.CSafeDumper).encode()
    tree = folder.tree.replaced(found.file, written)
    return replace(folder, tree=tree, gathered=gathered(tree, folder.folder, effort))


def unfit_in_cluster(
    folder: AppliedFolder, spec: Mapping[str, Any], kustomize: Kustomize | None, effort: Effort
) -> Iterator[str]:
    """Yield why a folder cannot be built with a Kustomization's patches and images, or which of them miss objects.

    Raises:
        TooMuch: to follow it is more than what is left of the effort.
    """
    root, applied = _root(folder), as_applied(folder, spec, effort)
    if root is None or applied is folder:
        return
    found = looked_into((), (applied,), kustomize, effort)[1][folder.folder]
    if found.error:
        yield f"no cluster can build the artifact with its patches and images: {found.error}"
    elif found.followed is None:
        yield f"its patches and images are not checked: {found.unchecked or found.unfollowed}"
    else:
        first = len(listed_at(root.value, "patches"))
        own = {f"patches[{first + number}]" for number in range(len(listed_at(spec, "patches")))}
        for effect in found.followed.effects.values():
            if effect.rule.file == root.file and effect.rule.name in own and not effect.objects:
                yield f"{effect.rule.what} matches nothing"
    yield from _left_out(found.text or "", [name for it in listed_at(spec, "images") if (name := it.get("newName"))])


def _left_out(built: str, new: list[str]) -> Iterator[str]:
    """Yield which of Flux's controllers have an image of another name than these, if there are any of these."""
    ours = SEPARATOR.join(part for part in documents(built) if _OF_FLUX in part)
    images = controller_images(ours)
    others = {name: image for name, image in images.items() if image.partition("@")[0].rpartition(":")[0] not in new}
    if new and others:
        hosts = sorted({image.partition("/")[0] for image in others.values()})
        count = f"{len(images) - len(others)} of {len(images)} controllers"
        yield f"images renames {count}, and leaves {all_of([*others])} at {all_of(hosts)}"


def _root(folder: AppliedFolder) -> Kustomization | None:
    found = folder.gathered.kustomizations.values()
    return next((it for it in found if it.folder == folder.folder), None)
