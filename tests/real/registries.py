"""Real registries on loopback, each behind a proxy that writes down what was on the wire."""

from __future__ import annotations

import base64
import json
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.real.peers import peer
from tests.real.processes import Daemon
from tests.real.proxy import Proxy
from tests.real.tokens import ISSUER, PATH, SERVICE, TokenServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.real.proxy import Request

LISTENING = r"listening on (127\.0\.0\.1:\d+)"
REALM = "a registry with passwords"
USER, PASSWORD = "flux", "canary-correct horse"
# bcrypt of PASSWORD at its lowest cost, which is all that a test needs.
HTPASSWD = f"{USER}:$2b$04$j8/pcV6SYYcz75YwEP502.D6tLI0WmPJ7wDoYcD6BNYL3e6xtBV1W\n"


@dataclass(frozen=True, slots=True)
class RealRegistry:
    """A registry that runs: `proxy` is its door, `tokens` its token server where it has one, `daemon` the program."""

    proxy: Proxy
    daemon: Daemon
    tokens: TokenServer | None = None

    @property
    def host(self) -> str:
        """Its address, `127.0.0.1:port`: the proxy's."""
        return self.proxy.host

    @property
    def requests(self) -> list[Request]:
        """The requests since the start or since `proxy.forget()`, in the order in which they came."""
        return self.proxy.requests


@contextmanager
def distribution(
    storage: Path, auth: str | None = None, tokens: TokenServer | None = None, access_log: Path | None = None
) -> Iterator[RealRegistry]:
    """Run the CNCF registry with its blobs in `storage`, and yield it once it answers.

    `auth` is `None`, `htpasswd` (`USER` and `PASSWORD`) or `token` (the users of `tokens`, by default a token server of
    the usual ones). `access_log` is where its own log goes. It has no referrers API.
    """
    with ExitStack() as stack:
        storage.mkdir(parents=True, exist_ok=True)
        if auth == "token":
            tokens = stack.enter_context(tokens or TokenServer())
        proxy = stack.enter_context(Proxy(routes={PATH: tokens.host} if tokens else {}))
        configuration = {
            "version": "0.1",
            "log": {"level": "info", "accesslog": {"disabled": access_log is None}},
            "storage": {"filesystem": {"rootdirectory": str(storage / "data")}, "delete": {"enabled": True}},
            "http": {"addr": "127.0.0.1:0"},
            **authentication(storage, auth, tokens, proxy.host),
        }
        # JSON is YAML.
        (storage / "config.yml").write_text(json.dumps(configuration, indent=1))
        log = access_log or storage / "registry.log"
        command = [peer("registry"), "serve", storage / "config.yml"]
        environment = {"OTEL_TRACES_EXPORTER": "none"}
        daemon = stack.enter_context(Daemon(command, log, environment))
        proxy.upstream = daemon.wait_for_line(LISTENING)[1]
        yield RealRegistry(proxy, daemon, tokens)


def authentication(storage: Path, auth: str | None, tokens: TokenServer | None, host: str) -> dict[str, Any]:
    """Return the part of the registry's configuration that says who may, after writing the file that it needs."""
    match auth:
        case None:
            return {}
        case "htpasswd":
            (storage / "htpasswd").write_text(HTPASSWD)
            return {"auth": {"htpasswd": {"realm": REALM, "path": str(storage / "htpasswd")}}}
        case "token" if tokens:
            (storage / "tokens.pem").write_text(tokens.certificate)
            trust = {"service": SERVICE, "issuer": ISSUER, "rootcertbundle": str(storage / "tokens.pem")}
            return {"auth": {"token": {"realm": tokens.realm(host), **trust}}}
    raise ValueError(auth)


@contextmanager
def referrers_registry(folder: Path) -> Iterator[RealRegistry]:
    """Run a registry that has the referrers API, in memory, its log in `folder`, and yield it once it answers."""
    with (
        Daemon([peer("referrers-registry")], folder / "referrers-registry.log") as daemon,
        Proxy(daemon.wait_for_line(LISTENING)[1]) as proxy,
    ):
        yield RealRegistry(proxy, daemon)


def docker_config(folder: Path, host: str, user: str, password: str) -> Path:
    """Return `folder`, a value for ``DOCKER_CONFIG``, after writing into it how one registry knows the user."""
    folder.mkdir(parents=True, exist_ok=True)
    auth = base64.b64encode(f"{user}:{password}".encode()).decode()
    (folder / "config.json").write_text(json.dumps({"auths": {host: {"auth": auth}}}))
    return folder
