"""Files that describe a Sigstore instance, its roots and its services: given ones, and those of the public instance.

The public instance publishes them by TUF. They are fetched once a day, and every read verifies the stored files:
sigstore's own client fetches on every start, and without a network it trusts its cache unverified.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.errors import SigningError, UsageError
from ci_automation.hiding import Hiding
from ci_automation.net.values import Call
from ci_automation.signing.sigstore.exchange import ServiceFailed, SigstoreExchange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tuf.ngclient.fetcher import FetcherInterface

_CONFIG_TYPE = "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json"
SIGNING_TYPE = "application/vnd.dev.sigstore.signingconfig.v0.2+json"
_ROOT_TYPE_START = "application/vnd.dev.sigstore.trustedroot"
MAX_CONFIG_BYTES = 4 << 20
PUBLIC_TUF = "https://tuf-repo-cdn.sigstore.dev"
TARGETS = ("trusted_root.json", "signing_config.v0.2.json")
MAX_AGE_SECONDS = 24 * 60 * 60
_MAX_FILE_BYTES = 5_000_000  # as tuf's `targets_max_length`
_LOCK_SECONDS = 60.0
_NOT_FOUND, _ERRORS = 404, 400


class TrustConfigUnreadable(UsageError):
    """A file does not describe a Sigstore instance."""

    hint = (
        "Give a client trust configuration (sigstore's clienttrustconfig.v0.1+json), or a trusted_root.json if you "
        "only verify."
    )

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"the trust configuration {where} cannot be used: {reason}")


def config(trusted_root: object, signing_config: object) -> bytes:
    """Return a client trust configuration."""
    return json.dumps(
        {"mediaType": _CONFIG_TYPE, "trustedRoot": trusted_root, "signingConfig": signing_config}
    ).encode()


def roots_in(content: bytes, where: str) -> tuple[dict[str, Any], bool]:
    """Return the trusted root in a file, and whether the file also has services to sign with.

    Raises:
        TrustConfigUnreadable: the file has no trusted root.
    """
    if len(content) > MAX_CONFIG_BYTES:
        raise TrustConfigUnreadable(where, "it is too large")
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise TrustConfigUnreadable(where, "it is not JSON") from None
    match value:
        case {"mediaType": str(media), "trustedRoot": {} as roots, "signingConfig": {}} if media == _CONFIG_TYPE:
            return roots, True
        case {"mediaType": str(media)} if media.startswith(_ROOT_TYPE_START):
            return value, False
    raise TrustConfigUnreadable(where, "it is neither a client trust configuration nor a trusted root")


class Term(Struct, frozen=True):
    """Time of service of an authority or a log."""

    start: datetime
    end: datetime | None

    @classmethod
    def of(cls, valid_for: Mapping[str, str]) -> Self:
        """Return the term in a `validFor`; a missing start or end means no limit.

        Raises:
            ValueError: a text is not a time.
        """
        start, end = valid_for.get("start"), valid_for.get("end")
        return cls(_time(start) if start else datetime.min.replace(tzinfo=UTC), _time(end) if end else None)

    def covers(self, at: datetime) -> bool:
        """Return whether the term includes that time."""
        return self.start <= at and (self.end is None or at <= self.end)


def _time(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError
    return found


class TufFailed(ServiceFailed):
    """Sigstore's server of roots does not answer."""

    name = "Sigstore's trust root"


class TrustRootUnavailable(SigningError):
    """The roots of trust are neither on the network nor in the cache."""

    hint = (
        "Check the network. Without a network, give the instance's roots with --trust-config FILE; a run with a "
        "network caches them until their signatures expire, which takes days."
    )

    def __init__(self, reason: str) -> None:
        super().__init__(f"Sigstore's trust root could not be fetched: {reason}")


class TufRepository(Hiding, Struct, frozen=True):
    """A TUF repository and the folder that caches it; `root` is the root of trust in the sigstore package."""

    hides = ("root",)

    root: bytes
    folder: Path
    exchange: SigstoreExchange
    url: str = PUBLIC_TUF
    now: Callable[[], float] = time.time

    def targets(self, *, offline: bool = False) -> tuple[bytes, ...]:
        """Return the files of `TARGETS`, verified: from the folder if they are less than a day old, else downloaded.

        If the folder is unusable, for example on a read-only disk, each run downloads the files.

        Raises:
            TrustRootUnavailable: neither the folder nor the network has valid files.
        """
        from filelock import FileLock, Timeout

        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with FileLock(self.folder / ".lock", timeout=_LOCK_SECONDS):
                return self._targets(offline=offline)
        except (OSError, Timeout) as error:
            reason = getattr(error, "strerror", None) or "another run has locked it"
            if offline:
                raise TrustRootUnavailable(f"the cache {self.folder} cannot be used: {reason}") from None
        with TemporaryDirectory(prefix="flux-manifests-") as folder:
            return replace(self, folder=Path(folder))._targets(offline=False)  # noqa: SLF001 - the same class

    def _targets(self, *, offline: bool) -> tuple[bytes, ...]:
        if offline or self._is_fresh():
            with suppress(TrustRootUnavailable):  # too old, or tampered with
                return self._updated(self._nothing)
        if offline:
            raise TrustRootUnavailable("no cached trust root is still valid")
        try:
            found = self._updated(self._fetched)
        except TrustRootUnavailable:
            with suppress(TrustRootUnavailable):  # cached roots are good until Sigstore's signatures expire
                return self._updated(self._nothing)
            raise
        self._stamp.write_text(str(self.now()), encoding="ascii")
        return found

    @property
    def _stamp(self) -> Path:
        return self.folder / "asked-at"

    def _is_fresh(self) -> bool:
        try:
            asked = float(self._stamp.read_text(encoding="ascii"))
        except (OSError, ValueError):
            return False
        return 0 <= self.now() - asked < MAX_AGE_SECONDS

    def _updated(self, fetch: Callable[[str], bytes | None]) -> tuple[bytes, ...]:
        """Return the targets after TUF's client asked `fetch` for newer files; None from `fetch` is "not there"."""
        from tuf.api.exceptions import DownloadError, RepositoryError
        from tuf.ngclient.updater import Updater

        try:
            updater = Updater(
                str(self.folder),
                self.url,
                str(self.folder),
                f"{self.url}/targets/",
                _fetcher(fetch),
                bootstrap=self.root,
            )
            updater.refresh()
            return tuple(self._target(updater, name) for name in TARGETS)
        except DownloadError as error:
            # What fails inside is wrapped, except for an answer that says no.
            reason = str(error.__cause__) if isinstance(error.__cause__, ServiceFailed) else str(error)
            raise TrustRootUnavailable(reason) from None
        except RepositoryError as error:
            raise TrustRootUnavailable(f"its signatures are not valid: {error}") from None

    def _target(self, updater: object, name: str) -> bytes:
        from tuf.ngclient.updater import Updater

        assert isinstance(updater, Updater)  # noqa: S101 - tells the type without loading it at the top
        target = updater.get_targetinfo(name)
        if target is None:
            raise TrustRootUnavailable(f"{self.url} has no {name}")
        return Path(updater.find_cached_target(target) or updater.download_target(target)).read_bytes()

    def _fetched(self, url: str) -> bytes | None:
        answer = self.exchange.ask(Call("GET", url, cap=_MAX_FILE_BYTES), TufFailed)
        if answer.status in {403, _NOT_FOUND}:
            return None
        if answer.status >= _ERRORS:
            raise TufFailed(answer.host, f"it answered {answer.status}")
        return answer.body

    def _nothing(self, url: str) -> bytes | None:
        """Return the stored timestamp, the one file that TUF's client always asks for, and None for other files."""
        name = url.rpartition("/")[2]
        return (self.folder / name).read_bytes() if name == "timestamp.json" else None


def _fetcher(fetch: Callable[[str], bytes | None]) -> FetcherInterface:
    from tuf.api.exceptions import DownloadHTTPError
    from tuf.ngclient.fetcher import FetcherInterface

    class Fetcher(FetcherInterface):
        def _fetch(self, url: str) -> Iterator[bytes]:
            data = fetch(url)
            if data is None:
                raise DownloadHTTPError("it is not there", _NOT_FOUND)
            return iter((data,))

    return Fetcher()
