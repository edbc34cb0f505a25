"""What proves that releases are Flux's own, from options and configuration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ci_automation.artifact.reference import LayoutDirectory, Reference
from ci_automation.cli.registries import registry
from ci_automation.flows.ports import Upstream
from ci_automation.signing.sigstore.root import TrustRoot

if TYPE_CHECKING:
    from ci_automation.cli.arguments import Arguments
    from ci_automation.config.model import Config

_FLUX_MANIFESTS = "oci://ghcr.io/fluxcd/flux-manifests:latest"


def upstream(given: Arguments, config: Config | None) -> Upstream:
    """Return what proves that releases are Flux's own; GitHub's must carry a signature, those of a directory may."""
    said = config.upstream if config else None
    verify, place, location = (said.verify, said.manifests, said.trust_config) if said else (None, None, None)
    directory = _directory(given, config)
    # A directory may stand where Sigstore cannot be reached: the roots in the cache, or those we come with, will do.
    root = TrustRoot.from_file(Path(location)) if location else TrustRoot.public(offline=directory is not None)
    if directory is not None:
        place = place or Reference(LayoutDirectory(directory / "flux-manifests"), "latest")
        return Upstream(root, verify == "required", place, registry(place, None, given))
    place = place or Reference.parse(_FLUX_MANIFESTS)
    return Upstream(root, verify != "if-available", place, registry(place, None, given))


def _directory(given: Arguments, config: Config | None) -> Path | None:
    """Return the directory that releases come from, if it is one."""
    if given.releases:
        return Path(given.releases)
    if config is None:
        return None
    from ci_automation.config.model import DirectorySourceConfig

    return config.source.path if isinstance(config.source, DirectorySourceConfig) else None
