"""Addresses of a registry, and rules for the hosts that it may redirect clients and credentials to.

The rules follow go-containerregistry's `pkg/v1/remote/transport/bearer.go`, and are stricter about plain HTTP.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urljoin

from ci_automation.artifact.reference import DOCKER_HUB, OciRepository
from ci_automation.net.network import Origin, UnsafeAddress

# Registries whose token server is on another host.
_TOKEN_HOSTS = {
    "registry-1.docker.io": "auth.docker.io",
    "registry.digitalocean.com": "api.digitalocean.com",
    "registry.gitlab.com": "gitlab.com",
}


def registry_host(host: str) -> str:
    """Return the host that serves the registry API for a reference's host: Docker Hub's differs."""
    return "registry-1.docker.io" if host in DOCKER_HUB else host


def repository_path(repository: OciRepository) -> str:
    """Return the repository's name in the registry API: Docker Hub keeps the short ones in a library."""
    return (
        f"library/{repository.path}"
        if repository.host in DOCKER_HUB and "/" not in repository.path
        else repository.path
    )


def names_of(host: str) -> frozenset[str]:
    """Return all names under which a docker configuration may know a host."""
    if host in DOCKER_HUB:
        return DOCKER_HUB
    return frozenset({host} if ":" in host else {host, f"{host}:443"})


def base_url(host: str) -> str:
    """Return the root of a registry's URLs."""
    return f"{'http' if OciRepository(host, '').is_loopback else 'https'}://{host}"


def followed(url: str, location: str, registry: Origin) -> str:
    """Return the URL in a `Location` or `Link` of an answer from `url`.

    Raises:
        UnsafeAddress: the URL is malformed, leads into a private network, or has no TLS.
    """
    try:
        target = urljoin(url, location)
    except ValueError:
        raise UnsafeAddress("it is malformed") from None
    check_address(target, registry)
    return target


def check_address(url: str, registry: Origin) -> None:
    """Refuse an address that a registry must not redirect its clients to.

    Raises:
        UnsafeAddress: the address is plain HTTP, except from a loopback registry to loopback; or it is the IP address
            of a machine in a private network other than the registry.
    """
    origin = Origin.of(url)
    if origin.scheme == "http" and not (registry.is_loopback and origin.is_loopback):
        raise UnsafeAddress("it is not https")
    if origin.name != registry.name and not registry.is_loopback and _is_inside(origin.name):
        raise UnsafeAddress("it is in a private network")


def shares_credentials(registry: Origin, realm: Origin, token_host: str | None) -> bool:
    """Return whether a token server may see a registry's credentials: the same host, a known one, or `token_host`."""
    if realm.name == registry.name or (realm.is_loopback and registry.is_loopback):
        return True
    return realm.host in {_TOKEN_HOSTS.get(registry.host), token_host}


def _is_inside(name: str) -> bool:
    if name == "localhost":
        return True
    try:
        return not ipaddress.ip_address(name.partition("%")[0]).is_global
    except ValueError:
        return False
