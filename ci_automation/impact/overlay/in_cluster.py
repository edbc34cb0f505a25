"""The patches and images of the Kustomization by which a cluster applies a folder; they are not in the artifact."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ci_automation.artifact.yaml import as_node, text
from ci_automation.impact.overlay.folders import gathered
from ci_automation.impact.overlay.kustomization import listed_at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_automation.impact.overlay.folders import AppliedFolder
    from ci_automation.impact.overlay.kustomization import Effort


def as_applied(folder: AppliedFolder, spec: Mapping[str, Any], effort: Effort) -> AppliedFolder:
    """Return a folder with the patches and images of a Kustomization, as clusters build it.

    kustomize-controller writes them into the folder's kustomization (`Generator.GenerateManifest` of fluxcd/pkg
    /kustomize): a patch after those that are there, an image in place of the one with the same name.

    Raises:
        TooMuch: to follow it is more than what is left of the effort.
    """
    import yaml

    patches, images = listed_at(spec, "patches"), listed_at(spec, "images")
    found = next((it for it in folder.gathered.kustomizations.values() if it.folder == folder.folder), None)
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
