"""A small world for flows: the sample releases, two pairs of keys, a registry in memory, and a moment that stays."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, Self, TypeVar

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from msgspec import Struct, field
from msgspec.structs import replace

from ci_automation.artifact.reference import Reference
from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.demo.samples import SAMPLES, Sample
from ci_automation.flows.ports import Intent, Ports
from ci_automation.flux.bundle import ManifestsBundle, ReleaseFiles
from ci_automation.flux.release import FetchedRelease, Release, ReleaseNotFound
from ci_automation.flux.version import Version
from ci_automation.signing.keys.private import SigningKey
from ci_automation.signing.signer import KeySigner
from ci_automation.signing.trust import TrustedKeys
from tests.canaries import hide_key
from tests.fakes.registry import InMemoryRegistry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ci_automation.flux.advisories import Advisory


class _Copyable(Protocol):
    def copy(self) -> Self: ...


P = ParamSpec("P")
Copied = TypeVar("Copied", bound=_Copyable)
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)  # when every sample is old enough to be taken
CHANNEL = Reference.parse("oci://registry.example/acme/flux-manifests:production")
OLD, PATCH, MINOR = (Version.parse(text) for text in ("v2.98.5", "v2.98.8", "v2.99.4"))
OVERLAY = Tree(
    (
        TreeFile("kustomization.yaml", b"resources: [flux-system/gotk-components.yaml]\r\n"),
        TreeFile("patches/limits.yaml", b"# 2Gi\n- op: replace\n"),
        TreeFile("hooks/after.sh", b"#!/bin/sh\n", executable=True),
    )
)


@cache
def _made_for(owner: str) -> SigningKey:
    assert owner
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    hide_key(pem, key.private_numbers().private_value)
    return SigningKey(key)


def signing_key(owner: str = "ours") -> SigningKey:
    """Return the private key of `owner`, the same all session long."""
    return _made_for(owner)


def key_pem(owner: str = "ours") -> bytes:
    """Return the private key of `owner` as a file without a password has it."""
    return signing_key(owner).key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def sample(tag: str) -> Sample:
    """Return one of the sample releases."""
    return next(sample for sample in SAMPLES if sample.tag == tag)


class MemoryReleases(Struct):
    """A release source whose releases are values; `problems` has what keeps a release from being taken."""

    samples: tuple[Sample, ...] = SAMPLES
    problems: dict[str, str] = field(default_factory=dict)
    without: dict[str, tuple[str, ...]] = field(default_factory=dict)
    fetched: list[str] = field(default_factory=list)
    files: dict[str, ReleaseFiles] = field(default_factory=dict)
    assets: dict[tuple[str, str], bytes] = field(default_factory=dict)  # by tag and name
    known: tuple[Advisory, ...] = ()

    def list(self, newer_than: Version | None = None) -> tuple[Release, ...]:
        """Return all releases, newest first."""
        del newer_than
        return tuple(sorted((self._release(each) for each in self.samples), key=lambda it: it.version, reverse=True))

    def fetch(self, version: Version) -> FetchedRelease:
        """Return one release with its files."""
        self.fetched.append(str(version))
        for each in self.samples:
            if each.tag == str(version):
                missing = {f"{name}.yaml" for name in self.without.get(each.tag, ())}
                files = Tree(tuple(file for file in each.bundle.files if file.path not in missing))
                downloaded = self.files.get(each.tag, ReleaseFiles(b"", b""))
                return FetchedRelease(self._release(each), ManifestsBundle.of(files), each.commit, downloaded)
        raise ReleaseNotFound(version, "memory", self.list)

    def advisories(self) -> tuple[Advisory, ...]:
        """Return the published advisories."""
        return self.known

    def asset(self, version: Version, name: str, limit: int) -> bytes | None:
        """Return a file of one release."""
        found = self.assets.get((str(version), name))
        assert found is None or len(found) <= limit
        return found

    def _release(self, each: Sample) -> Release:
        published = datetime.fromisoformat(each.published_at)
        return Release(Version.parse(each.tag), published, problem=self.problems.get(each.tag))


def release(tag: str, like: str = "v2.98.8", **changes: Any) -> Sample:
    """Return a release of our own making, with the files of a sample."""
    return replace(sample(like), tag=tag, **changes)


class World(Struct):
    """What the flows meet: a registry and releases, with our keys unless a test says otherwise."""

    registry: InMemoryRegistry = field(default_factory=InMemoryRegistry)
    releases: MemoryReleases = field(default_factory=MemoryReleases)

    def copy(self) -> World:
        """Return a world like this one that goes on by itself."""
        return World(self.registry.copy(), copy.deepcopy(self.releases))

    def ports(self, signer: str | None = "ours", trusted: str | None = "ours") -> Ports:
        """Return the ports of a run that signs and trusts with these owners' keys."""
        return Ports(
            self.registry,
            self.releases,
            KeySigner(signing_key(signer)) if signer else None,
            TrustedKeys((signing_key(trusted).public,)) if trusted else None,
            confirm=lambda _: True,
        )

    def channel_digest(self) -> str | None:
        """Return where the channel stands, without asking the registry."""
        digest = self.registry.repositories[str(CHANNEL.repository)].tags.get("production")
        return None if digest is None else str(digest)

    def contents(self) -> tuple[frozenset[str], frozenset[str], tuple[tuple[str, str], ...]]:
        """Return all that the repository holds, for comparing before and after."""
        repository = self.registry.repositories[str(CHANNEL.repository)]
        tags = tuple(sorted((tag, str(digest)) for tag, digest in repository.tags.items()))
        return frozenset(map(str, repository.manifests)), frozenset(map(str, repository.blobs)), tags


def made_once(make: Callable[P, Copied]) -> Callable[P, Copied]:
    """Make a world at the first call alone: every caller has a copy of it."""
    made = cache(make)

    @wraps(make)
    def copied(*args: P.args, **kwargs: P.kwargs) -> Copied:
        return made(*args, **kwargs).copy()  # type: ignore[arg-type]  # the cache wants arguments with a hash

    return copied


def intent(**changes: Any) -> Intent:
    """Return what a run wants that wants nothing special, with `changes`."""
    return Intent(**{"now": NOW, "unsafe_unproven_rendering": True, **changes})


def repackaged(samples: Iterable[Sample], published_at: str) -> tuple[Sample, ...]:
    """Return the releases with another date of publication."""
    return tuple(replace(each, published_at=published_at) for each in samples)
