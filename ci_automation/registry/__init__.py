"""Registries: the port, and its adapters for HTTP and for image layout directories. `open_registry` is the door."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.artifact.reference import LayoutDirectory

if TYPE_CHECKING:
    from ci_automation.artifact.reference import Reference
    from ci_automation.registry.credentials import CredentialSource
    from ci_automation.registry.network import Network
    from ci_automation.registry.port import Registry


def open_registry(
    reference: Reference, credentials: CredentialSource | None = None, network: Network | None = None
) -> Registry:
    """Return the registry that `reference` is in; nothing is read or asked yet. It serves all repositories of that registry.

    Raises:
        UsageError: the network's certificates are not there.
    """
    # The adapters load on demand: HTTP costs more than the whole command line.
    if isinstance(reference.repository, LayoutDirectory):
        from ci_automation.registry.layout import LayoutRegistry  # noqa: PLC0415 - see above

        return LayoutRegistry(reference.repository)
    from ci_automation.registry.credentials import Anonymous  # noqa: PLC0415 - see above
    from ci_automation.registry.http import HttpRegistry  # noqa: PLC0415 - see above

    return HttpRegistry(reference.repository.host, credentials or Anonymous(), network)
