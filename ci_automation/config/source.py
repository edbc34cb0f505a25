"""Sources of releases, as a configuration and the command line name them."""

from __future__ import annotations

import re
from pathlib import Path

from msgspec import Struct

from ci_automation.artifact.reference import InvalidReference, OciRepository, Reference
from ci_automation.errors import UsageError

_GITHUB = re.compile(r"github:(?P<owner>[A-Za-z0-9][A-Za-z0-9-]{0,38})/(?P<repository>(?!\.\.?$)[A-Za-z0-9._-]{1,100})")
_API = re.compile(
    r"(?P<scheme>https?)://(?P<host>([A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9a-fA-F:]+\])(:[0-9]{1,5})?)(/[A-Za-z0-9._~-]+)*/?"
)


class InvalidSource(UsageError):
    """A text is not a source of releases."""

    hint = "Write github:OWNER/REPOSITORY, dir:PATH for a folder of releases, or oci://HOST/REPOSITORY for a registry."

    def __init__(self, reason: str) -> None:
        super().__init__(f"it does not name a source of releases: {reason}")


class InvalidReleases(UsageError):
    """The option --releases has an address of another kind than it takes."""

    hint = (
        "Give a folder with releases (PATH or dir:PATH), or oci://HOST/REPOSITORY. Without --releases they come from "
        "Flux's repository on GitHub, or from `source` of the configuration."
    )

    def __init__(self, text: str) -> None:
        kind = text.partition(":")[0]
        super().__init__(f"--releases takes a folder or a repository of a registry, and no address with {kind}:")


class GitHubSourceConfig(Struct, frozen=True):
    """The releases of a repository on GitHub, or on the GitHub Enterprise Server at `api_url`."""

    owner: str = "fluxcd"
    repository: str = "flux2"
    api_url: str | None = None


class DirectorySourceConfig(Struct, frozen=True):
    """The releases in a folder; a relative path is relative to the working directory."""

    path: Path


class RegistrySourceConfig(Struct, frozen=True):
    """The releases in a repository of a registry, as `mirror --push` puts them there."""

    place: Reference


Source = GitHubSourceConfig | DirectorySourceConfig | RegistrySourceConfig


def parse_source(text: str) -> Source:
    """Return the source of releases in `text`; raise `InvalidSource` if it is none."""
    if text.startswith("oci://"):
        try:
            return RegistrySourceConfig(Reference.parse_repository(text))
        except InvalidReference as error:
            raise InvalidSource(str(error)) from None
    if text.startswith("dir:") and len(text) > len("dir:") and text.isprintable():
        return DirectorySourceConfig(Path(text.removeprefix("dir:")))
    if match := _GITHUB.fullmatch(text):
        return GitHubSourceConfig(match["owner"], match["repository"])
    raise InvalidSource(f"{text[:80]!r} is none of github:OWNER/REPOSITORY, dir:PATH and oci://HOST/REPOSITORY")


def parse_api_url(text: str) -> str:
    """Return the base address of a GitHub API, without a slash at its end.

    Raises:
        InvalidSource: `text` is not an address, or has no TLS (except on loopback).
    """
    if "@" in text:
        raise InvalidSource("an API's address must not hold a user name or password")
    match = _API.fullmatch(text)
    if not match or (match["scheme"] == "http" and not OciRepository(match["host"], "").is_loopback):
        raise InvalidSource("an API's address is like https://github.example.com/api/v3")
    return text.rstrip("/")
