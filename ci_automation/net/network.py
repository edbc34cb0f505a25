"""Addresses of hosts, and the network settings: proxy, trusted certificates, and time limits."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, NamedTuple, Self
from urllib.parse import urlsplit

from msgspec import Struct, field

from ci_automation.errors import UsageError
from ci_automation.hiding import Hiding
from ci_automation.net.waiting import Watch, aloud

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT_VARIABLE = "FLUX_MANIFESTS_TIMEOUT"
_SECONDS = re.compile(r"[1-9][0-9]{0,4}")
_PORTS = {"https": 443, "http": 80}


class UnsafeAddress(ValueError):
    """An address is unsafe to send requests to; the text is the reason."""


class InvalidTimeout(UsageError):
    """The environment's time limit is not a number of seconds."""

    hint = (
        f"Set {TIMEOUT_VARIABLE} to whole seconds, such as 120, or unset it: the limit is then {Watch().seconds:.0f}."
    )
    message = f"{TIMEOUT_VARIABLE} is not a number of seconds between 1 and 99999"


class MissingCertificates(UsageError):
    """The environment names a file of certificates that does not exist."""

    hint = "Correct REQUESTS_CA_BUNDLE or SSL_CERT_FILE, or unset it to trust the default authorities."

    def __init__(self, path: str) -> None:
        super().__init__(f"the file of trusted certificates {path} does not exist")


class Origin(NamedTuple):
    """Scheme, host name and port. A credential belongs to one origin."""

    scheme: str
    name: str
    port: int

    @property
    def host(self) -> str:
        """Return name and port as in a URL, without the scheme's default port."""
        name = f"[{self.name}]" if ":" in self.name else self.name
        return name if self.port == _PORTS[self.scheme] else f"{name}:{self.port}"

    @classmethod
    def of(cls, url: str) -> Self:
        """Return the origin of `url`.

        Raises:
            UnsafeAddress: `url` is not an HTTP URL, contains a user name, or has an invalid port.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise UnsafeAddress("it is malformed") from None
        if parts.scheme not in _PORTS or not parts.hostname:
            raise UnsafeAddress("it is not the address of a web server")
        if parts.username is not None or parts.password is not None:
            raise UnsafeAddress("it has a user name in it")
        return cls(parts.scheme, parts.hostname, port if port is not None else _PORTS[parts.scheme])

    @classmethod
    def secure(cls, url: str) -> Self:
        """Return the origin of `url`, if it is safe for secrets.

        Raises:
            UnsafeAddress: as `of`; or `url` is plain HTTP to another machine.
        """
        origin = cls.of(url)
        if origin.scheme != "https" and not origin.is_loopback:
            raise UnsafeAddress(f"{origin.host} has an address without TLS")
        return origin

    @property
    def is_loopback(self) -> bool:
        """Return whether the host is this machine, the only one that may use plain HTTP."""
        try:
            return self.name == "localhost" or ipaddress.ip_address(self.name).is_loopback
        except ValueError:
            return False


class Network(Hiding, Struct, frozen=True):
    """Network settings: the proxy, additional trusted certificates, and the time limits."""

    hides = ("https_proxy",)

    https_proxy: str | None = None  # it may hold a password
    no_proxy: tuple[str, ...] = ()
    ca_bundle: str | None = None
    watch: Watch = field(default_factory=Watch)  # not compared

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Network) and self._compared == other._compared

    def __hash__(self) -> int:
        return hash(self._compared)

    @property
    def _compared(self) -> tuple[object, ...]:
        return self.https_proxy, self.no_proxy, self.ca_bundle

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Return the settings in the usual variables and our own; report long waits on standard error.

        This never reads `.netrc`, which would replace a registry's own token.

        Raises:
            InvalidTimeout: the time limit is not a number of seconds.
        """

        def first(*names: str) -> str | None:
            return next((environment[name] for name in names if environment.get(name)), None)

        return cls(
            first("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"),
            tuple(part.strip().lower() for part in (first("NO_PROXY", "no_proxy") or "").split(",") if part.strip()),
            first("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"),
            Watch(_seconds(first(TIMEOUT_VARIABLE)), aloud),
        )

    def proxy_for(self, origin: Origin) -> str | None:
        """Return the proxy for `origin`, or None; loopback never has a proxy."""
        if self.https_proxy is None or origin.scheme != "https" or origin.is_loopback:
            return None
        return None if any(_excepts(part, origin) for part in self.no_proxy) else self.https_proxy


def _seconds(text: str | None) -> float:
    if text is None:
        return Watch().seconds
    if not _SECONDS.fullmatch(text):
        raise InvalidTimeout
    return float(text)


def _excepts(part: str, origin: Origin) -> bool:
    """Return whether one part of NO_PROXY names `origin`: `*`, a network, a name, or a domain with all its names."""
    if part == "*":
        return True
    name, _, port = part.partition(":") if part.count(":") == 1 else (part, "", "")
    if port and port != str(origin.port):
        return False
    try:
        return ipaddress.ip_address(origin.name) in ipaddress.ip_network(name.strip("[]"), strict=False)
    except ValueError:
        domain = name.lstrip("*").lstrip(".")
        return bool(domain) and (origin.name == domain or origin.name.endswith(f".{domain}"))
