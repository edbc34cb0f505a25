"""Registries, releases, their proof and GitHub, found from options, configuration and environment.

Each is found, and what it needs is imported, when it is asked for the first time.
"""

from __future__ import annotations

import os
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from ci_automation.artifact.reference import LayoutDirectory, OciRepository, Reference
from ci_automation.registry import open_registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_automation.artifact.tree import Tree
    from ci_automation.cli.arguments import Arguments
    from ci_automation.config.model import ClustersConfig, Config
    from ci_automation.config.sections import Artifact
    from ci_automation.flows.ports import Ports, Upstream
    from ci_automation.flows.setting_up.overlays import Existing
    from ci_automation.flux.advisories import Advisory
    from ci_automation.flux.release import FetchedRelease, Release, ReleaseSource
    from ci_automation.flux.version import Version
    from ci_automation.github.client import GitHub
    from ci_automation.github.waiting import Spent
    from ci_automation.impact.check import Clusters, Images
    from ci_automation.impact.overlay.builder import Kustomize
    from ci_automation.registry.credentials import CredentialSource
    from ci_automation.registry.port import Registry

GITHUB_API = "https://api.github.com"
_FLUX_MANIFESTS = "oci://ghcr.io/fluxcd/flux-manifests:latest"


def registry(reference: Reference, artifact: Artifact | None, given: Arguments, *, writes: bool = False) -> Registry:
    """Return the registry, with credentials from named variables, the job's logins, or docker's configuration."""
    if not isinstance(reference.repository, OciRepository):
        return open_registry(reference)
    from ci_automation.net.network import Network
    from ci_automation.registry.credentials import Writing

    credentials = _credentials(reference, artifact, given)
    network = Network.from_environment(os.environ)
    return open_registry(reference, Writing(credentials) if writes else credentials, network)


def tags_beside(channel: Reference) -> tuple[str, ...] | None:
    """Return the tags of the channel's repository; None, and a line for people, if the registry does not say."""
    from ci_automation.cli.arguments import Arguments
    from ci_automation.cli.output import print_aside
    from ci_automation.errors import RegistryError

    try:
        return registry(channel, None, Arguments()).tags(channel)
    except RegistryError as error:
        print_aside(f"{channel.repository} could not be looked at: {error}")
        return None


def existing_at(channel: Reference) -> Existing | None:
    """Return what a channel has; None, and a line for people, if it cannot be read."""
    from ci_automation.cli.arguments import Arguments
    from ci_automation.cli.output import print_aside
    from ci_automation.errors import Error
    from ci_automation.flows.setting_up.overlays import read_existing

    try:
        return read_existing(channel, registry(channel, None, Arguments()))
    except Error as error:
        print_aside(f"{channel} could not be looked at: {error}")
        return None


def is_signed(artifact: Artifact) -> bool:
    """Return whether `verify` says that a channel is signed; if that cannot be told, it is not."""
    from ci_automation.cli.arguments import Arguments
    from ci_automation.cli.wiring import reading, reading_intent
    from ci_automation.errors import Error
    from ci_automation.flows.verify import verify_channel

    try:
        return verify_channel(*reading(artifact.name, Arguments()), reading_intent(Arguments())).problem is None
    except Error:
        return False


def images(reference: Reference, artifact: Artifact | None, given: Arguments) -> Images:
    """Return the registries of the controllers' images; what is configured for the artifact's host counts there too."""
    from ci_automation.net.network import Network
    from ci_automation.registry.images import ImageRegistries

    return ImageRegistries(_credentials(reference, artifact, given), Network.from_environment(os.environ))


def _credentials(reference: Reference, artifact: Artifact | None, given: Arguments) -> CredentialSource:
    """Return where credentials are: nothing is read before a registry asks for them."""
    from ci_automation.config.model import CredentialsConfig
    from ci_automation.registry.credentials import NamedVariables, Variables
    from ci_automation.registry.docker_config import DockerConfig

    explicit = Path(given.registry_config) if given.registry_config else None
    source: CredentialSource = DockerConfig.find(os.environ, Path.home(), explicit)
    if given.logins:
        source = given.logins(source, os.environ)
    if isinstance(reference.repository, OciRepository) and artifact and artifact.credentials != CredentialsConfig():
        pull, push = (
            Variables(login.username_variable, login.password_variable) if login else None
            for login in (artifact.credentials.pull, artifact.credentials.push)
        )
        host, token_host = reference.repository.host, artifact.credentials.token_host
        source = NamedVariables(host, os.environ, pull, push, source, token_host)
    return source


def release_source(given: Arguments, config: Config | None) -> ReleaseSource:
    """Return where releases come from: --releases, the configuration's source, or Flux's own repository on GitHub."""
    match _mirror(given, config):
        case Path() as directory:
            from ci_automation.flux.sources.directory import DirectorySource

            replaced = ", which replaces `source`" if config else ""
            by_variable = given.releases and given.releases == os.environ.get("FLUX_RELEASES", "").removeprefix("dir:")
            return DirectorySource(directory, f" (from $FLUX_RELEASES{replaced})" if by_variable else "")
        case Reference() as place:
            from ci_automation.registry.releases import RegistryReleases

            return RegistryReleases(registry(place, None, given), place)
    return LateSource(partial(_github_source, given, config))


def _mirror(given: Arguments, config: Config | None) -> Path | Reference | None:
    """Return the directory or the repository that releases come from, None if they come from GitHub."""
    if given.releases and not given.releases.startswith(("oci://", "layout:")):
        if "://" in given.releases or given.releases.startswith("github:"):
            from ci_automation.config.source import InvalidReleases

            raise InvalidReleases(given.releases)
        return Path(given.releases)
    if given.releases is None and config is None:
        return None
    from ci_automation.config.source import DirectorySourceConfig, RegistrySourceConfig

    if given.releases:
        return Reference.parse_repository(given.releases)
    match config.source if config else None:
        case DirectorySourceConfig(path=found):
            return found
        case RegistrySourceConfig(place=found):
            return found
    return None


def _github_source(given: Arguments, config: Config | None) -> ReleaseSource:
    from ci_automation.config.source import GitHubSourceConfig
    from ci_automation.flux.sources import github as source

    place = config.source if config else GitHubSourceConfig()
    assert isinstance(place, GitHubSourceConfig)  # noqa: S101  # for the type checker: `_mirror` has the others
    return source.GitHubSource(github(place.api_url or GITHUB_API, given), f"{place.owner}/{place.repository}")


class LateSource:
    """A source of releases that is opened when the first release is asked for: most commands ask for none.

    Nothing is asked for twice, since many artifacts can take the same step.
    """

    def __init__(self, find: Callable[[], ReleaseSource]) -> None:
        self._find = find
        self._listed: dict[Version | None, tuple[Release, ...]] = {}
        self._fetched: dict[Version, FetchedRelease] = {}

    @cached_property
    def _found(self) -> ReleaseSource:
        return self._find()

    def list(self, newer_than: Version | None = None) -> tuple[Release, ...]:
        """Return the releases, newest version first."""
        if newer_than not in self._listed:
            self._listed[newer_than] = self._found.list(newer_than)
        return self._listed[newer_than]

    def fetch(self, version: Version) -> FetchedRelease:
        """Return the release of `version`."""
        if version not in self._fetched:
            self._fetched[version] = self._found.fetch(version)
        return self._fetched[version]

    def advisories(self) -> tuple[Advisory, ...]:
        """Return the published security advisories, which are asked for once."""
        return self._advisories

    @cached_property
    def _advisories(self) -> tuple[Advisory, ...]:
        return self._found.advisories()

    def asset(self, version: Version, name: str, limit: int) -> bytes | None:
        """Return a file of the release of `version`."""
        return self._found.asset(version, name, limit)


def upstream(given: Arguments, config: Config | None) -> Upstream:
    """Return what proves that releases are Flux's own; those of a directory may be unsigned by default."""
    from ci_automation.flows.ports import Upstream
    from ci_automation.signing.sigstore.root import TrustRoot

    said = config.upstream if config else None
    verify, place, location = (said.verify, said.manifests, said.trust_config) if said else (None, None, None)
    source = _mirror(given, config)
    # A mirror may stand where Sigstore cannot be reached: the roots in the cache, or those we come with, will do.
    root = TrustRoot.from_file(Path(location)) if location else TrustRoot.public(offline=source is not None)
    required = verify == "required" if isinstance(source, Path) else verify != "if-available"
    match source:
        case Path():
            place = place or Reference(LayoutDirectory(source / "flux-manifests"), "latest")
        case Reference():
            from ci_automation.registry.releases import rendered_beside

            place = place or rendered_beside(source)
        case None:
            place = place or Reference.parse(_FLUX_MANIFESTS)
    return Upstream(root, required, place, cache(partial(registry, place, None, given)))


def release_ports(given: Arguments, config: Config | None, say: Callable[[str], None]) -> Ports:
    """Return the ports of a flow that only renders and compares releases: no artifact and no signer."""
    from ci_automation.flows.ports import Ports

    proof = upstream(given, config)
    return Ports(
        proof.registry,
        release_source(given, config),
        find_upstream=lambda: proof,
        find_kustomize=cache(kustomize),
        say=say,
    )


def clusters(configured: ClustersConfig | None, given: Arguments, open_artifact: Callable[[str], Tree]) -> Clusters:
    """Return what is known of the clusters: --kubernetes is over what is configured, files are read besides those.

    Raises:
        InvalidKubernetes: --kubernetes is no version, and no range of them.
        UnreadablePlace, InvalidSnapshot: what is named cannot be used.
    """
    from ci_automation.config.model import ClustersConfig
    from ci_automation.impact.check import Clusters, KubernetesRange

    stated = configured or ClustersConfig()
    kubernetes = KubernetesRange.parse(given.kubernetes) if given.kubernetes else stated.kubernetes
    snapshots, objects = (*stated.snapshots, *given.cluster_snapshot), (*stated.objects, *given.objects)
    if not (snapshots or objects):
        return Clusters(kubernetes)
    from ci_automation.flows.clusters import read_clusters

    return read_clusters(ClustersConfig(kubernetes, snapshots, objects), open_artifact)


def kustomize() -> Kustomize | None:
    """Return the kustomize of this machine, or None where there is none."""
    from ci_automation.flows.programs.kustomize import find_kustomize

    return find_kustomize(os.environ)


def github(api: str, given: Arguments, spent: Spent | None = None) -> GitHub:
    """Return a client for the GitHub at `api`, with the token that is meant for it, if there is one."""
    from ci_automation.github.client import GitHub

    return GitHub(_github_token(api, given), api, say=_say_aloud, spent=spent)


def _say_aloud(text: str) -> None:
    """Tell of a wait, which is long."""
    import click

    from ci_automation.report.blocks import plain_text

    click.echo(plain_text(text), err=True)


def _github_token(api: str, given: Arguments) -> str | None:
    """Return the token for `api`, if the one that is there is meant for it: one of an enterprise server stays there."""
    if os.environ.get("GITHUB_API_URL", GITHUB_API).rstrip("/") != api.rstrip("/"):
        return None
    return given.github_token or os.environ.get("GITHUB_TOKEN") or os.environ.get("GH_TOKEN") or None
