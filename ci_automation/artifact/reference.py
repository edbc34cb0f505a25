"""Content digests, and references to artifacts: `oci://host/repository:tag`, or `layout:PATH:tag` for a directory."""

from __future__ import annotations

import hashlib
import ipaddress
import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Self

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection

_SHA256 = re.compile(r"sha256:(?P<hex>[0-9a-f]{64})")


class InvalidDigest(UsageError):
    """A text is not a sha256 digest."""

    hint = "Write sha256: and 64 lower-case hex digits, as `history` and `plan` print them."

    def __init__(self, text: str) -> None:
        super().__init__(f"{text!r} is not a sha256 digest")


class Digest(Struct, frozen=True, order=True):
    """A content digest, ``sha256:`` and 64 lower-case hex digits (OCI image spec, *Digests*)."""

    hex: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the digest in `text`.

        Raises:
            InvalidDigest: another algorithm, another length, upper case, or anything around it.
        """
        if not (match := _SHA256.fullmatch(text)):
            raise InvalidDigest(text)
        return cls(match["hex"])

    @classmethod
    def of(cls, data: bytes) -> Self:
        """Return the digest of `data`."""
        return cls(hashlib.sha256(data).hexdigest())

    @property
    def short(self) -> str:
        """Return the first 12 hex digits, as in immutable tags."""
        return self.hex[:12]

    def __str__(self) -> str:
        return f"sha256:{self.hex}"


# The grammar of the distribution project (reference/regexp.go), which Flux and Docker share.
_DOMAIN_PART = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_HOST = rf"(?:{_DOMAIN_PART}(?:\.{_DOMAIN_PART})*|\[(?:[a-fA-F0-9:]+)\])(?::[0-9]{{1,5}})?"
_PATH_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_ATTACHED = re.compile(r"sha256-[0-9a-f]{64}(\..*)?")  # cosign's signatures, and lists of referrers
_IMMUTABLE = re.compile(r"v[0-9]+\.[0-9]+\.[0-9].*-[0-9a-f]{12}")
_OCI = re.compile(rf"oci://(?P<host>{_HOST})/(?P<path>{_PATH_PART}(?:/{_PATH_PART})*)(?P<rest>[:@].*)?")
_LAYOUT = re.compile(r"layout:(?P<path>[^\x00-\x1f:@]+)(?P<rest>[:@].*)?")
_PORT = re.compile(r":[0-9]+\Z")
_DEFAULT_PORTS = {True: "80", False: "443"}  # of a registry on this machine, of any other one
_DOCKER_HUB, _LIBRARY = "docker.io", re.compile(r"library/(?=[^/]+\Z)")
DOCKER_HUB = frozenset({_DOCKER_HUB, "index.docker.io", "registry-1.docker.io"})
_MAX_NAME = 255
_MAX_PORT = 65_535


_LOGIN = re.compile(r"(?<=://)[^@/]*(?::[^@]*)?@(?=(?P<host>[A-Za-z0-9.:-]+)/)")


class InvalidReference(UsageError):
    """A text is not the address of an artifact."""

    hint = "Write oci://HOST/REPOSITORY:TAG, or layout:DIRECTORY:TAG for an image layout directory."

    def __init__(self, text: str, reason: str) -> None:
        shown = _LOGIN.sub("...@", text)  # no password ends in a log
        super().__init__(f"{shown!r} is not the address of an artifact: {reason}")
        if meant := meant_address(text):
            self.hint = f"Did you mean {meant}?"


def meant_address(text: str) -> str | None:
    """Return the address of a registry that a text with no scheme, or with another one, may be meant for."""
    scheme, separator, rest = text.partition("://")
    address = f"oci://{rest if separator else text}"
    return address if scheme != "oci" and _OCI.fullmatch(address) else None


class OciRepository(Struct, frozen=True):
    """A repository in a registry over HTTP."""

    host: str  # records name it, so it is written in one way: in lower case, with no port that is the default
    path: str

    @classmethod
    def of(cls, host: str, path: str) -> Self:
        """Return a repository by the one name that it has here, whatever name of it was written."""
        name, _, port = host.lower().rpartition(":") if _PORT.search(host) else (host.lower(), "", "")
        if name.startswith("["):
            name = f"[{ipaddress.IPv6Address(name.strip('[]'))}]"
        port = port.lstrip("0")
        port = "" if port == _DEFAULT_PORTS[cls(name, path).is_loopback] else port
        if name in DOCKER_HUB and not port:
            return cls(_DOCKER_HUB, _LIBRARY.sub("", path))
        return cls(f"{name}:{port}" if port else name, path)

    @property
    def is_loopback(self) -> bool:
        """Return whether the registry is on this machine, and so may use plain HTTP."""
        name = _PORT.sub("", self.host)
        try:
            return name in {"localhost", "[::1]"} or ipaddress.IPv4Address(name).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"oci://{self.host}/{self.path}"


class LayoutDirectory(Struct, frozen=True):
    """An OCI image layout directory (OCI image spec, *Image Layout*), which holds one repository."""

    path: PurePath

    def __str__(self) -> str:
        return f"layout:{self.path}"


class Reference(Struct, frozen=True):
    """A repository, with the tag or digest of one manifest in it."""

    repository: OciRepository | LayoutDirectory
    tag: str | None = None
    digest: Digest | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the reference in `text`.

        Raises:
            InvalidReference: `text` does not follow the distribution project's grammar, or has another scheme.
        """
        if match := _OCI.fullmatch(text):
            _check_host(text, match["host"])
            repository: OciRepository | LayoutDirectory = OciRepository.of(match["host"], match["path"])
            if len(match["host"]) + 1 + len(match["path"]) > _MAX_NAME:
                raise InvalidReference(text, f"a name has at most {_MAX_NAME} characters")
        elif match := _LAYOUT.fullmatch(text):
            repository = LayoutDirectory(PurePath(match["path"]))
        else:
            raise InvalidReference(text, _reason(text))
        return cls(repository, *_tag_and_digest(text, match["rest"] or ""))

    @classmethod
    def parse_channel(cls, text: str) -> Self:
        """Return the reference of a channel: `text` must have a tag, and no digest.

        Raises:
            InvalidReference: `text` is not a reference, has no tag, or has a digest; or the tag is one that names what
                is attached to a digest, or one digest for ever.
        """
        reference = cls.parse(text)
        if reference.tag is None or reference.digest is not None:
            others = "; `verify`, `pull` and `diff` take a digest" if reference.digest else ""
            raise InvalidReference(text, f"a channel is a tag, such as :production{others}")
        if _ATTACHED.fullmatch(reference.tag):
            raise InvalidReference(text, "a tag such as sha256-... names what is attached to a digest, and no channel")
        if _IMMUTABLE.fullmatch(reference.tag):
            others = "`verify`, `pull` and `diff` take one"
            raise InvalidReference(text, f"a tag such as v2.9.4-1a2b3c4d5e6f never moves, and is no channel; {others}")
        return reference

    @classmethod
    def parse_repository(cls, text: str) -> Self:
        """Return the reference to a whole repository in `text`.

        Raises:
            InvalidReference: `text` is not an address, or names a tag or a digest.
        """
        reference = cls.parse(text)
        if reference.tag is not None or reference.digest is not None:
            raise InvalidReference(text, "it names one artifact; name the repository alone")
        return reference

    def nearly(self, known: Collection[str]) -> str | None:
        """Return a known tag that this one may be a slip of the keys for.

        One of its words differs a little, and the digits are the same: staging-1 and staging-2, or a and b, are two.
        """
        import difflib

        tag = self.tag or ""
        for other in sorted(known):
            words, others = tag.split("-"), other.split("-")
            changed = [pair for pair in zip(words, others, strict=False) if pair[0] != pair[1]]
            if len(words) == len(others) and len(changed) == 1:
                ((word, wanted),) = changed
                same_digits = [it for it in word if it.isdigit()] == [it for it in wanted if it.isdigit()]
                if same_digits and difflib.get_close_matches(word, [wanted], cutoff=0.8):
                    return other
        return None

    def at_tag(self, tag: str) -> Self:
        """Return the reference of `tag` in the same repository."""
        return replace(self, tag=tag, digest=None)

    def at_digest(self, digest: Digest) -> Self:
        """Return the reference of `digest` in the same repository."""
        return replace(self, tag=None, digest=digest)

    @property
    def name(self) -> str:
        """Return the manifest's name in requests: the digest, or else the tag (OCI distribution spec, *Pull*).

        Raises:
            InvalidReference: the reference has neither.
        """
        if self.digest is not None:
            return str(self.digest)
        if self.tag is None:
            raise InvalidReference(str(self), "it needs a tag or a digest")
        return self.tag

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag is not None else ""
        digest = f"@{self.digest}" if self.digest is not None else ""
        return f"{self.repository}{tag}{digest}"


def _tag_and_digest(text: str, rest: str) -> tuple[str | None, Digest | None]:
    tag, at, digest = rest.partition("@")
    if tag and not _TAG.fullmatch(tag[1:]):
        raise InvalidReference(text, f"{tag[1:]!r} is not a tag")
    try:
        return tag[1:] or None, Digest.parse(digest) if at else None
    except InvalidDigest:
        raise InvalidReference(text, f"{digest!r} is not a sha256 digest") from None


def _check_host(text: str, host: str) -> None:
    """Refuse a host that the grammar allows but that cannot exist: port 99999, or the address [:::]."""
    name, _, port = host.rpartition(":") if _PORT.search(host) else (host, "", "443")
    try:
        if name.startswith("["):
            ipaddress.IPv6Address(name.strip("[]"))
    except ValueError:
        raise InvalidReference(text, f"{name} is not an IPv6 address") from None
    if not 0 < int(port) <= _MAX_PORT:
        raise InvalidReference(text, f"{port} is not a port")


def _reason(text: str) -> str:
    if text.startswith("layout:"):
        return "a layout's directory has a name, without colons, at signs or control characters"
    scheme, separator, rest = text.partition("://")
    if not (separator and scheme == "oci"):
        return f"it begins with {scheme}://" if separator else "it does not begin with oci:// or layout:"
    if "/" not in rest:
        return "it names no repository"
    if login := _LOGIN.search(text):
        return f"it has no user and no password: `docker login {login['host']}` keeps them"
    if rest != rest.lower():
        host, _, path = rest.rpartition("/")
        name = re.match(r"[^:@]*", path)[0]  # type: ignore[index]  # it matches anything
        return f"a repository has lower-case letters only: oci://{host.lower()}/{name.lower()}{path[len(name) :]}"
    return "host, repository, tag and digest follow the grammar of the distribution project"
