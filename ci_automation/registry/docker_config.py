"""Credentials of registries in docker's configuration file and from the helpers that it names."""

from __future__ import annotations

import base64
import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

from ci_automation.errors import UsageError
from ci_automation.hiding import Hiding
from ci_automation.registry.credentials import Credential, Credentials, names_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_DOCKER_HUB_KEY = "https://index.docker.io/v1/"
_MAX_CONFIG_BYTES = 1 << 20
_HELPER_SECONDS = 30
_HELPER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Variables that common helpers need to find their secrets. A helper gets no secret of this program.
_HELPER_VARIABLES = re.compile(
    r"PATH|HOME|USER|LOGNAME|LANG|TMPDIR|GNUPGHOME|PASSWORD_STORE_DIR|DBUS_SESSION_BUS_ADDRESS|DISPLAY|XDG_.*"
    r"|AWS_.*|AZURE_.*|CLOUDSDK_.*|GOOGLE_.*|(?:HTTPS?|NO)_PROXY|(?:https?|no)_proxy|SSL_CERT_(?:FILE|DIR)"
)
_NOT_FOUND = "credentials not found"


class InvalidRegistryConfig(UsageError):
    """The file with registry credentials cannot be used."""

    hint = (
        "Check the file: it must be a config.json as `docker login` writes it. Or name another file with "
        "--registry-config."
    )

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")


class CredentialHelperFailed(UsageError):
    """A credential helper that the configuration names is missing or fails."""

    hint = "Run the helper yourself to see its answer: echo HOST | docker-credential-NAME get"

    def __init__(self, path: Path, name: str, reason: str) -> None:
        super().__init__(f"{path} names the credential helper {name!r}, which {reason}")


class DockerConfig(Hiding, Struct, frozen=True):
    """Docker's configuration file (`man docker-config-json`), read on first use, or its `text`."""

    hides = ("environment", "text")

    path: Path
    environment: Mapping[str, str]
    must_exist: bool = False
    text: str | None = None  # replaces the file; messages still name `path`

    @classmethod
    def find(cls, environment: Mapping[str, str], home: Path, explicit: Path | None = None) -> Self:
        """Return the file to use: `explicit`, or $DOCKER_CONFIG/config.json, or ~/.docker/config.json."""
        if explicit is not None:
            return cls(explicit, environment, must_exist=True)
        folder = environment.get("DOCKER_CONFIG")
        return cls((Path(folder) if folder else home / ".docker") / "config.json", environment)

    def for_host(self, host: str) -> Credentials:
        """Return the credentials for `host` from the file or its helpers, the same to read and to write.

        Raises:
            InvalidRegistryConfig: the file cannot be read, or does not have docker's form.
            CredentialHelperFailed: a helper is missing or fails.
        """
        config = self.read()
        names = names_of(host)
        helper = next((name for key, name in _section(self.path, config, "credHelpers") if _names(key) in names), None)
        asked = helper or config.get("credsStore")
        found = self._ask(asked, host) if asked else None
        if found is None and not helper:
            found = self._stored(config, names)
        return Credentials(found, found, found_in=str(self.path)) if found else Credentials()

    def read(self) -> dict[str, Any]:
        """Return what the file has, nothing if it is not there and need not be.

        Raises:
            InvalidRegistryConfig: the file cannot be read, or is no JSON object.
        """
        try:
            raw = self._bytes()
            value = _parsed(raw) if len(raw) <= _MAX_CONFIG_BYTES else None
        except FileNotFoundError:
            if self.must_exist:
                raise InvalidRegistryConfig(self.path, "there is no such file") from None
            return {}
        except OSError as error:
            raise InvalidRegistryConfig(self.path, f"it cannot be read: {error.strerror}") from None
        except json.JSONDecodeError as error:
            raise InvalidRegistryConfig(self.path, f"line {error.lineno}: it is not JSON") from None
        except (ValueError, RecursionError):
            raise InvalidRegistryConfig(self.path, "it is not JSON") from None
        if not isinstance(value, dict):
            raise InvalidRegistryConfig(
                self.path, ("it is not a JSON object, or is too large for a docker configuration")
            )
        return value

    def _bytes(self) -> bytes:
        if self.text is not None:
            return self.text.encode()
        with self.path.open("rb") as file:
            return file.read(_MAX_CONFIG_BYTES + 1)

    def _stored(self, config: Mapping[str, Any], names: frozenset[str]) -> Credential | None:
        entries = dict(_section(self.path, config, "auths"))
        exact = [entries[name] for name in sorted(names) if name in entries]
        others = [entry for key, entry in entries.items() if _names(key) in names]
        for entry in (*exact, *others):
            if (found := self._entry(entry)) is not None:
                return found
        return None

    def _entry(self, entry: object) -> Credential | None:
        match entry:
            case {"identitytoken": str(token)} if token:
                return Credential("", "", token)
            case {"auth": str(auth)} if auth:
                try:
                    text = base64.b64decode(auth, validate=True).decode().rstrip("\0")
                except ValueError:
                    text = ""
                username, colon, password = text.partition(":")
                if not colon:
                    raise InvalidRegistryConfig(self.path, "an `auth` is not the base64 form of NAME:PASSWORD")
                return Credential.of(username, password)
            case {"username": str(username), "password": str(password)} if username:
                return Credential.of(username, password)
            case dict():
                return None  # docker's form if a helper keeps the secret
        raise InvalidRegistryConfig(self.path, "an entry of `auths` is not an object")

    def _ask(self, name: object, host: str) -> Credential | None:
        """Ask a helper (docker/docker-credential-helpers), which reads the host from standard input."""
        if not isinstance(name, str) or not _HELPER_NAME.fullmatch(name):
            raise CredentialHelperFailed(self.path, str(name), "is not the name of a helper")
        from ci_automation.programs import search_path  # only where there is a helper

        program = shutil.which(f"docker-credential-{name}", path=search_path(self.environment))
        if program is None:
            raise CredentialHelperFailed(self.path, name, "is not installed")
        import subprocess  # only where there is a helper

        passed_on = {key: value for key, value in self.environment.items() if _HELPER_VARIABLES.fullmatch(key)}
        server = _DOCKER_HUB_KEY if host in names_of("docker.io") else host
        try:
            done = subprocess.run(  # noqa: S603 - the user's configuration names it, and nothing is in its arguments
                [program, "get"],
                input=server.encode(),
                capture_output=True,
                env=passed_on,
                timeout=_HELPER_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise CredentialHelperFailed(self.path, name, f"did not answer within {_HELPER_SECONDS} s") from None
        except OSError as error:
            raise CredentialHelperFailed(self.path, name, f"could not be started: {error.strerror}") from None
        if done.returncode:
            if _NOT_FOUND in done.stdout.decode(errors="replace"):
                return None
            raise CredentialHelperFailed(self.path, name, f"ended with {done.returncode}")
        try:
            match _parsed(done.stdout):
                case {"Username": str(username), "Secret": str(secret)}:
                    return Credential.of(username, secret) if username or secret else None
        except (ValueError, RecursionError):
            pass
        raise CredentialHelperFailed(self.path, name, "did not answer in the form of helpers")


def _parsed(raw: bytes) -> Any:  # noqa: ANN401 - it is JSON, and looked at by match
    value = json.loads(raw)
    json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is no text
    return value


def _section(path: Path, config: Mapping[str, Any], name: str) -> list[tuple[str, Any]]:
    section = {} if config.get(name) is None else config[name]
    if not isinstance(section, dict):
        raise InvalidRegistryConfig(path, f"{name} is not an object")
    return list(section.items())


def _names(key: str) -> str:
    """Return the host in a key, or nothing for a path on a host, because docker knows only hosts."""
    rest = re.sub(r"^https?://", "", key)
    host, _, path = rest.partition("/")
    return host if path.strip("/") in {"", "v1", "v2"} else ""
