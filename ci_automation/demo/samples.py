"""The sample releases: what `flux-manifests demo` works on where there are no real ones.

They are ours, with versions that upstream does not have, and in the structure of Flux's bundles: `sources/base` has the
files, `sources/<tag>` those that are others in that release, and the table below the images: a patch is mostly that.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ci_automation.artifact.archive import write_archive
from ci_automation.artifact.tree import Tree, TreeFile

if TYPE_CHECKING:
    from collections.abc import Mapping

_SOURCES = Path(__file__).parent / "sources"
_NO_TAG = "v0.0.0"  # stands in the sources where a release puts the tag of its image


class Sample(Struct, frozen=True):
    """One sample release; `images` has the tag of each component's image."""

    tag: str
    published_at: str
    commit: str
    images: Mapping[str, str]

    @property
    def bundle(self) -> Tree:
        """Return the files of the release's manifests bundle."""
        names = sorted(path.name for path in (_SOURCES / "base").glob("*.yaml"))
        return Tree(tuple(TreeFile(name, self._text(name).encode()) for name in names))

    def _text(self, name: str) -> str:
        own = _SOURCES / self.tag / name
        text = (own if own.exists() else _SOURCES / "base" / name).read_text(encoding="utf-8")
        return text.replace(_NO_TAG, self.images.get(name.removesuffix(".yaml"), _NO_TAG))


_FIRST = {
    "source-controller": "v1.98.5",
    "kustomize-controller": "v1.98.5",
    "helm-controller": "v1.98.4",
    "notification-controller": "v1.98.3",
    "image-reflector-controller": "v1.98.2",
    "image-automation-controller": "v1.98.2",
    "source-watcher": "v2.98.1",
}
_PATCHED = {"source-controller": "v1.98.7", "kustomize-controller": "v1.98.6", "notification-controller": "v1.98.4"}
_MINOR = {
    "source-controller": "v1.99.3",
    "kustomize-controller": "v1.99.4",
    "helm-controller": "v1.99.2",
    "notification-controller": "v1.99.2",
    "image-reflector-controller": "v1.99.1",
    "image-automation-controller": "v1.99.1",
    "source-watcher": "v2.99.1",
}
SAMPLES = (  # the newest first, as GitHub lists them
    # A minor: every image, a version of a CRD less, and a rule more.
    Sample("v2.99.4", "2026-09-15T09:30:00Z", "9d1c5f0e7ab34286d0c9be1f5a6372840fe91b2c", _MINOR),
    # A patch: three images.
    Sample("v2.98.8", "2026-06-02T14:05:00Z", "41f7a2c98e05d3b6172c4f8090ad5be36c21d7f4", {**_FIRST, **_PATCHED}),
    Sample("v2.98.5", "2026-03-10T11:20:00Z", "c20b84e6f1d9375a0468efb31c7d92a5308e6b17", _FIRST),
)


def write_samples(directory: Path) -> None:
    """Write the sample releases as a release source of the kind `dir:PATH` reads: the same bytes each time.

    Raises:
        OSError: the directory cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for sample in SAMPLES:
        folder = directory / sample.tag
        folder.mkdir(exist_ok=True)
        for name, content in _assets(sample).items():
            (folder / name).write_bytes(content)
    _write_json(directory / "releases.json", [_release(sample) for sample in SAMPLES])
    _write_json(directory / "tags.json", [{"name": sample.tag, "commit": {"sha": sample.commit}} for sample in SAMPLES])


def _assets(sample: Sample) -> dict[str, bytes]:
    archive = write_archive(sample.bundle)
    checksums = f"{hashlib.sha256(archive).hexdigest()}  manifests.tar.gz\n"
    return {f"flux_{sample.tag.removeprefix('v')}_checksums.txt": checksums.encode(), "manifests.tar.gz": archive}


def _release(sample: Sample) -> dict[str, Any]:
    """Return the release in the shape of GitHub's `GET /repos/{owner}/{repo}/releases`."""
    address = "https://samples.invalid/releases"
    return {
        "tag_name": sample.tag,
        "name": sample.tag,
        "draft": False,
        "prerelease": False,
        "published_at": sample.published_at,
        "html_url": f"{address}/tag/{sample.tag}",
        "assets": [
            {"name": name, "size": len(content), "browser_download_url": f"{address}/download/{sample.tag}/{name}"}
            for name, content in _assets(sample).items()
        ],
    }


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
