"""Sample releases in a directory, in the form that `DirectorySource` and the double of GitHub read."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ci_automation.artifact.archive import write_archive
from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.flux.bundle import checksums_name, proof_names
from ci_automation.flux.version import Version
from ci_automation.signing.upstream import upstream_identity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.fakes.sigstore import LocalSigstore

FILES = {
    "rbac.yaml": "apiVersion: v1\nkind: ServiceAccount\n",
    "policies.yaml": "apiVersion: v1\nkind: NetworkPolicy\n",
    "source-controller.yaml": "apiVersion: v1\nkind: Service\n",
}


@dataclass(frozen=True, slots=True)
class SampleRelease:
    """One release to write; `without` names assets that it lacks, `created_at` differs where a list's order matters.

    Its checksums name `programs`, and not `proof`, which is upstream's signature over them.
    """

    tag: str
    published_at: str | None = "2026-01-01T00:00:00Z"
    draft: bool = False
    prerelease: bool = False
    without: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=lambda: FILES)
    created_at: str | None = None
    programs: Mapping[str, bytes] = field(default_factory=dict)
    proof: Mapping[str, bytes] = field(default_factory=dict)
    mark: str = ""  # what its files are marked with; with the tag, if empty

    @property
    def commit(self) -> str:
        """The commit of its tag."""
        return hashlib.sha1(self.tag.encode(), usedforsecurity=False).hexdigest()

    @property
    def bundle(self) -> bytes:
        """The bytes of its manifests.tar.gz; the files differ from mark to mark."""
        files = {**self.files, "rbac.yaml": f"# of {self.mark or self.tag}\n{self.files['rbac.yaml']}"}
        return write_archive(Tree(tuple(TreeFile(name, text.encode()) for name, text in files.items())))

    @property
    def assets(self) -> dict[str, bytes]:
        """The bytes of its assets, by name."""
        named = {**self.programs, "manifests.tar.gz": self.bundle}
        lines = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in named.items())
        every = {"install.yaml": b"---\n", f"flux_{self.tag[1:]}_checksums.txt": lines.encode(), **named, **self.proof}
        return {name: content for name, content in every.items() if name not in self.without}


def advisory(number: int, affected: Mapping[str, str], severity: str = "high", **more: Any) -> dict[str, Any]:
    """Return a reviewed advisory as GitHub's list has it, about ranges of versions of packages of Flux."""
    ghsa, moment = f"GHSA-aaaa-bbbb-{number:04}", "2026-01-01T00:00:00Z"
    packages: list[dict[str, Any]] = [
        {
            "package": {"ecosystem": "go", "name": f"github.com/fluxcd/{name}"},
            "vulnerable_version_range": versions,
            "first_patched_version": None,
            "vulnerable_functions": [],
        }
        for name, versions in affected.items()
    ]
    page = f"https://github.com/advisories/{ghsa}"
    return {
        "ghsa_id": ghsa,
        "cve_id": f"CVE-2026-{number:04}",
        "url": f"https://api.github.com/advisories/{ghsa}",
        "html_url": page,
        "repository_advisory_url": None,
        "summary": "a hole",
        "description": "a hole, in more words",
        "type": "reviewed",
        "severity": severity,
        "source_code_location": "https://github.com/fluxcd/flux2",
        "identifiers": [{"type": "GHSA", "value": ghsa}],
        "references": [page],
        "published_at": moment,
        "updated_at": moment,
        "github_reviewed_at": moment,
        "nvd_published_at": None,
        "withdrawn_at": None,
        "vulnerabilities": packages,
        "cvss": None,
        "cwes": [],
        "credits": [],
        **more,
    }


def signed(release: SampleRelease, local: LocalSigstore, **how: Any) -> SampleRelease:
    """Return a release with upstream's signature over its checksums, as cosign's `sign-blob` writes the two files.

    `how` is what a local Sigstore takes to sign as somebody else, at another time, or with something wrong.
    """
    version = Version.parse(release.tag)
    made = local.sign_detached(
        release.assets[checksums_name(version)], **{"identity": upstream_identity(version), **how}
    )
    names = proof_names(version)
    proof = {
        names.signature: base64.b64encode(made.signature),
        names.certificate: base64.b64encode(made.certificate.encode()),
    }
    return replace(release, proof=proof)


def write_releases(folder: Path, releases: Sequence[SampleRelease]) -> Path:
    """Write a directory of releases and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    for release in releases:
        place = folder / release.tag
        place.mkdir(exist_ok=True)
        for name, content in release.assets.items():
            (place / name).write_bytes(content)
    (folder / "releases.json").write_text(json.dumps([_listed(release) for release in releases]))
    tags = [{"name": release.tag, "commit": {"sha": release.commit}} for release in releases]
    (folder / "tags.json").write_text(json.dumps(tags))
    return folder


def _listed(release: SampleRelease) -> dict[str, Any]:
    return {
        "tag_name": release.tag,
        "draft": release.draft,
        "prerelease": release.prerelease,
        "created_at": release.created_at or release.published_at,
        "published_at": release.published_at,
        "body": f"Release notes of {release.tag}",
        "assets": [{"name": name, "size": len(content)} for name, content in release.assets.items()],
    }
