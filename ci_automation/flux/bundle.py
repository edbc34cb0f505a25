"""Files of a release: the manifests bundle, the checksums that name it, and the proof of their author.

The bundle, `manifests.tar.gz`, has one YAML file for each component, rbac.yaml and policies.yaml.
"""

from __future__ import annotations

import hashlib
import re
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.artifact.archive import Limits, read_archive
from ci_automation.artifact.reference import Digest
from ci_automation.errors import ReleaseSourceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_automation.artifact.tree import Tree
    from ci_automation.flux.version import Version

LIMITS = Limits(entries=64, total_bytes=16 << 20, compressed_bytes=4 << 20)
_COMMON = frozenset({"rbac.yaml", "policies.yaml"})
BUNDLE = "manifests.tar.gz"
MAX_CHECKSUMS_BYTES = 64 << 10  # upstream's have 2 KB
MAX_PROOF_BYTES = 64 << 10  # upstream's certificate, the largest of the proof's parts, has 4 KB
_CHECKSUM_LINE = re.compile(r"(?P<sha256>[0-9a-f]{64})(?:  | \*)(?P<name>[!-~]{1,255})")


class BadBundle(ReleaseSourceError):
    """A release's manifests bundle does not have the form that Flux publishes."""

    hint = "Nothing was rendered. Compare the file with the release on GitHub; a mirror may have damaged it."


class ComponentMissing(ReleaseSourceError):
    """A release has no manifests for a wanted component."""

    hint = "Choose components that this release has, or a release that has them (source-watcher came with v2.7.0)."

    def __init__(self, component: str, available: tuple[str, ...]) -> None:
        super().__init__(f"the release has no {component}; it has {', '.join(available)}")


class ManifestsBundle(Struct, frozen=True, dict=True):
    """Files of one release's manifests bundle, by name."""

    files: Mapping[str, str]

    @classmethod
    def from_archive(cls, data: bytes) -> ManifestsBundle:
        """Return the bundle in the bytes of a `manifests.tar.gz`.

        Raises:
            UnsafeArchive: the archive is hostile or broken.
            BadBundle: a file is not text, or rbac.yaml or policies.yaml is missing.
        """
        return cls.of(read_archive(data, LIMITS))

    @classmethod
    def of(cls, tree: Tree) -> ManifestsBundle:
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

    @cached_property
    def digest(self) -> Digest:
        """Return the digest over contents and names, the same for a bundle that was packed again (design 5.1)."""
        lines = (f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n" for name, text in sorted(self.files.items()))
        return Digest.of("".join(lines).encode())


class InvalidChecksums(ReleaseSourceError):
    """A checksums file has a line other than a sha256 and a file name."""

    hint = "Nothing of the release was used. Compare the file with the release on GitHub."

    def __init__(self, version: Version, problem: str) -> None:
        super().__init__(f"{checksums_name(version)} of {version} is not usable: {problem}")


class ChecksumMismatch(ReleaseSourceError):
    """A file of a release does not fit the release's checksums."""

    hint = (
        "This run used nothing of it: the download, a mirror or the release itself is damaged, or an attacker changed "
        "it."
    )

    def __init__(self, version: Version, reason: str) -> None:
        super().__init__(f"a file of {version} cannot be used: {reason}")
        self.reason = reason


class ReleaseFiles(Struct, frozen=True):
    """Downloaded files of one release, unchanged.

    Signature, certificate and log entry prove that upstream wrote the checksums. Upstream publishes the first two. A
    mirror also has the third, and GitHub does not.
    """

    checksums: bytes
    bundle: bytes
    signature: bytes | None = None
    certificate: bytes | None = None
    log_entry: bytes | None = None

    @property
    def is_signed(self) -> bool:
        """Return whether the files include any part of a signature, valid or not."""
        return self.signature is not None or self.certificate is not None


def checksums_name(version: Version) -> str:
    """Return the name of a release's checksums file; it has no leading ``v`` (upstream's `.goreleaser.yml`)."""
    return f"flux_{version.semver}_checksums.txt"


class ProofNames(Struct, frozen=True):
    """Names of the files that prove the author of a release's checksums."""

    signature: str
    certificate: str
    log_entry: str  # ours: upstream publishes none


def proof_names(version: Version) -> ProofNames:
    """Return the names of the proof of a release's checksums; upstream's `.goreleaser.yml` has the first two."""
    checksums = checksums_name(version)
    return ProofNames(f"{checksums}.sig", f"{checksums}.pem", f"{checksums}.rekor.json")


def parse_checksums(version: Version, data: bytes) -> Mapping[str, str]:
    """Return the sha256 of each file in a checksums file.

    Raises:
        InvalidChecksums: a line is not `sha256  name` or `sha256 *name`, or two lines have the same name.
    """
    if len(data) > MAX_CHECKSUMS_BYTES:
        raise InvalidChecksums(version, f"it has more than {MAX_CHECKSUMS_BYTES} bytes")
    checksums: dict[str, str] = {}
    for number, line in enumerate(data.decode("ascii", "replace").removesuffix("\n").split("\n"), 1):
        if not (match := _CHECKSUM_LINE.fullmatch(line)):
            raise InvalidChecksums(version, f"line {number} is not a sha256 and a file name")
        if match["name"] in checksums:
            raise InvalidChecksums(version, f"line {number} names {match['name']} again")
        checksums[match["name"]] = match["sha256"]
    return checksums


def verify_checksums(version: Version, files: ReleaseFiles) -> None:
    """Prove that the bundle matches the release's checksums; see `verify_file`."""
    verify_file(version, files.checksums, BUNDLE, files.bundle)


def verify_file(version: Version, checksums: bytes, name: str, data: bytes) -> None:
    """Prove that a file is the one that a release's checksums name.

    Every check of a download goes through this function. It does not prove the author of the checksums, which
    `ci_automation.signing.upstream` does.

    Raises:
        InvalidChecksums: the checksums file is broken.
        ChecksumMismatch: the file is another, or the checksums do not name it.
    """
    expected = parse_checksums(version, checksums).get(name)
    if expected is None:
        raise ChecksumMismatch(version, f"its checksums do not list {name}")
    if (found := hashlib.sha256(data).hexdigest()) != expected:
        raise ChecksumMismatch(version, f"the sha256 of {name} is {found}, and its checksums say {expected}")


def program_name(version: Version, platform: str) -> str:
    """Return the name of the archive with a release's CLI for a platform, such as linux_amd64."""
    return f"flux_{version.semver}_{platform}.tar.gz"
