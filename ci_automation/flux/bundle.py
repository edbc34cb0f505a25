"""The manifests bundle of a release, `manifests.tar.gz`: one YAML file a component, rbac.yaml and policies.yaml."""

from __future__ import annotations

import hashlib
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.artifact.archive import Limits, read_archive
from ci_automation.artifact.digest import Digest
from ci_automation.errors import ReleaseSourceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_automation.artifact.tree import Tree

LIMITS = Limits(entries=64, total_bytes=16 << 20, compressed_bytes=4 << 20)
_COMMON = frozenset({"rbac.yaml", "policies.yaml"})


class BadBundle(ReleaseSourceError):
    """A release's manifests bundle is not what Flux publishes."""

    hint = "Nothing was rendered. Compare the file with the release on GitHub; a mirror may have damaged it."


class ComponentMissing(ReleaseSourceError):
    """A release has no manifests for a component that is wanted."""

    hint = "Choose components that this release has, or a release that has them (source-watcher came with v2.7.0)."

    def __init__(self, component: str, available: tuple[str, ...]) -> None:
        super().__init__(f"the release has no {component}; it has {', '.join(available)}")


class Bundle(Struct, frozen=True):
    """The files of one release's manifests bundle, by name."""

    files: Mapping[str, str]

    @classmethod
    def from_archive(cls, data: bytes) -> Bundle:
        """Return the bundle in the bytes of a `manifests.tar.gz`.

        Raises:
            UnsafeArchive: the archive is hostile or broken.
            BadBundle: a file is not text, or rbac.yaml or policies.yaml is missing.
        """
        return cls.of(read_archive(data, LIMITS))

    @classmethod
    def of(cls, tree: Tree) -> Bundle:
        """Return the bundle with the files at the top of `tree`.

        Raises:
            BadBundle: a file is not text, or rbac.yaml or policies.yaml is missing.
        """
        try:
            files = {file.path: file.content.decode() for file in tree.files if "/" not in file.path}
        except UnicodeDecodeError as error:
            raise BadBundle(f"a file of the manifests bundle is not UTF-8: {error.reason}") from None
        if missing := _COMMON - files.keys():
            raise BadBundle(f"the manifests bundle lacks {', '.join(sorted(missing))}")
        return cls(MappingProxyType(files))

    @property
    def components(self) -> tuple[str, ...]:
        """Return the names of the components that the release has, sorted."""
        names = self.files.keys() - _COMMON
        return tuple(sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml")))

    def component(self, name: str) -> str:
        """Return the manifests of one component.

        Raises:
            ComponentMissing: the release does not have it.
        """
        try:
            return self.files[f"{name}.yaml"]
        except KeyError:
            raise ComponentMissing(name, self.components) from None

    @property
    def digest(self) -> Digest:
        """Return the digest over contents and names, the same for a bundle that was packed again (design 5.1)."""
        lines = (f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n" for name, text in sorted(self.files.items()))
        return Digest.of("".join(lines).encode())
