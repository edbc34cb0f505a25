"""Registries: the port, and its adapters for HTTP and for image layout directories. `open_registry` is the door."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.artifact.reference import LayoutDirectory, Reference

if TYPE_CHECKING:
    from ci_automation.net.network import Network
    from ci_automation.registry.credentials import CredentialSource
    from ci_automation.registry.port import Registry


def open_registry(
    reference: Reference, credentials: CredentialSource | None = None, network: Network | None = None
) -> Registry:
    """Return the registry that `reference` is in, for all repositories of it; nothing is read or asked yet.

    Raises:
        UsageError: the network's certificates are not there.
    """
    # The adapters load on demand: HTTP costs more than the whole command line.
    if isinstance(reference.repository, LayoutDirectory):
        from ci_automation.registry.layout import LayoutRegistry

        return LayoutRegistry(reference.repository)
    from ci_automation.registry.credentials import Anonymous
    from ci_automation.registry.http import HttpRegistry

    return HttpRegistry(reference.repository.host, credentials or Anonymous(), network)


__all__ = [
    "authorization",
    "contents",
    "credentials",
    "docker_config",
    "http",
    "images",
    "layout",
    "logins",
    "port",
    "releases",
    "transport",
]
