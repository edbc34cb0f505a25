"""Delegation: a release's own flux CLI renders what nothing else proves (design section 6).

The CLI is run only if upstream's signature vouches for its archive, in a folder of its own, with nothing that it could
use to do harm: see `confined.py`.
"""

from __future__ import annotations

import gzip
import io
import os
import platform
import re
import sys
import tarfile
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, BinaryIO, cast

from msgspec import Struct

from ci_automation.errors import VerificationFailed
from ci_automation.flows.programs import confinement
from ci_automation.flows.programs.confined import MAX_OUTPUT_BYTES
from ci_automation.flux.bundle import ChecksumMismatch, program_name, verify_file
from ci_automation.flux.options import Options, UnknownFlag
from ci_automation.flux.render import components_header
from ci_automation.impact.change import printable_line

if TYPE_CHECKING:
    from ci_automation.flows.programs.confinement import Ended
    from ci_automation.flux.release import FetchedRelease, ReleaseSource
    from ci_automation.flux.version import Version

MAX_ARCHIVE_BYTES = 120 << 20  # upstream's have 25 MB
MAX_PROGRAM_BYTES = 400 << 20  # and the CLI 80 MB
_MAX_MEMBERS = 16
_CHUNK = 1 << 20
_SECONDS = 60  # it takes less than one
_SHOWN = 300
_LISTED = re.compile(r"^ {2,8}(?:-[A-Za-z], )?--([a-z0-9-]{1,100})\b", re.MULTILINE)
# What upstream builds for Linux (its `.goreleaser.yml`), by what the kernel calls the machine.
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "armv6l": "arm", "armv7l": "arm"}


class DelegationFailed(VerificationFailed):
    """A release's own flux CLI is missing, not vouched for, or rendered something else."""

    hint = "Use a newer version of this program: it may know the release, and then needs no flux CLI."

    def __init__(self, version: Version, reason: str) -> None:
        super().__init__(f"the flux CLI of {version} did not render: {reason}")


class Delegated(Struct, frozen=True):
    """Output of a flux CLI, and whether the user's files could not be cut off while it ran."""

    text: str
    files_in_reach: bool = False


def delegate(release: FetchedRelease, options: Options, releases: ReleaseSource) -> Delegated:
    """Return what `flux install --export` of the release's own CLI prints with `options`.

    Raises:
        UnknownFlag: the CLI does not list a flag that this program does not know.
        DelegationFailed: no signature vouches for the CLI, there is none for this machine, or it fails.
        InvalidChecksums: the release's checksums cannot be read.
        ReleaseSourceError: the CLI cannot be fetched.
    """
    version = release.release.version
    archive = _archive(release, releases)
    with TemporaryDirectory(prefix="flux-") as folder:
        program = Path(folder) / "flux"
        _unpack(version, archive, program)
        if options.others:
            _check_listed(version, options, _run(version, [str(program), "install", "--help"], Path(folder)))
        done = _run(version, [str(program), "install", "--export", *flux_arguments(options)], Path(folder))
    return Delegated(_checked(version, options, done.output), done.files_in_reach)


def flux_arguments(options: Options) -> list[str]:
    """Return the flags of `flux install` that say all of `options`: a later default of Flux's changes nothing."""
    values = {flag: value for flag, value in options.flags().items() if value not in ("", [])}
    return [
        f"--{flag}={','.join(value) if isinstance(value, list) else str(value).lower()}"
        if isinstance(value, bool | list)
        else f"--{flag}={value}"
        for flag, value in values.items()
    ]


def _check_listed(version: Version, options: Options, help_text: Ended) -> None:
    """Raise `UnknownFlag` unless `flux install --help` lists each of the other flags among the command's own.

    What all of its commands take (where the cluster is, who asks) comes after those, and is no option of an artifact.
    A flag may come from an unreviewed request, and may name a file.
    """
    if help_text.files_in_reach:
        reason = (
            "this kernel cannot keep it from your files, so this run gives it no flag that this program does not know"
        )
        raise DelegationFailed(version, reason)
    own, _, _ = help_text.output.decode(errors="replace").partition("\nFlags:\n")[2].partition("\n\n")
    listed = _LISTED.findall(own)
    for flag, _value in options.others:
        if flag not in listed:
            raise UnknownFlag(flag, version, listed)


def _archive(release: FetchedRelease, releases: ReleaseSource) -> bytes:
    """Return the archive of the CLI for this machine, once it is proven to be the one that upstream signed for."""
    version = release.release.version
    if release.vouched is None:
        raise DelegationFailed(
            version, ("upstream's signature on its checksums was not verified, so this run does not start it")
        )
    machine = _MACHINES.get(platform.machine()) if sys.platform == "linux" else None
    if machine is None:
        raise DelegationFailed(version, f"this program only runs it on Linux on {', '.join(_MACHINES)}")
    name = program_name(version, f"linux_{machine}")
    data = releases.asset(version, name, MAX_ARCHIVE_BYTES)
    if data is None:
        raise DelegationFailed(version, f"the source of releases has no {name}")
    try:
        verify_file(version, release.files.checksums, name, data)
    except ChecksumMismatch as error:
        raise DelegationFailed(version, error.reason) from None
    return data


class _Capped(io.RawIOBase):
    """A stream that ends with an error where it is longer than anything that upstream publishes."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._left = stream, MAX_PROGRAM_BYTES

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise tarfile.TarError(f"it unpacks to more than {MAX_PROGRAM_BYTES} bytes")
        return data


def _unpack(version: Version, archive: bytes, program: Path) -> None:
    """Write the one regular file `flux` of an archive to `program`, and nothing else of it anywhere."""
    try:
        stream = cast("BinaryIO", _Capped(cast("IO[bytes]", gzip.GzipFile(fileobj=io.BytesIO(archive)))))
        with tarfile.open(fileobj=stream, mode="r|") as packed:
            for _ in range(_MAX_MEMBERS):
                member = packed.next()
                if member is None:
                    break
                if member.name == "flux" and member.isreg() and (content := packed.extractfile(member)):
                    _write(content, program)
                    return
    except (tarfile.TarError, zlib.error, OSError, EOFError) as error:
        raise DelegationFailed(version, f"its archive cannot be unpacked: {error}") from None
    raise DelegationFailed(version, "its archive has no file flux")


def _write(content: IO[bytes], program: Path) -> None:
    descriptor = os.open(program, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o700)
    with os.fdopen(descriptor, "wb") as file:
        while chunk := content.read(_CHUNK):
            file.write(chunk)


def _run(version: Version, command: list[str], folder: Path) -> Ended:
    """Run a program, confined, and return what it printed."""
    ended = confinement.run_confined(command, folder, _SECONDS)
    if ended.unstarted:
        raise DelegationFailed(version, f"it could not be started: {ended.unstarted}")
    if ended.code is None:
        raise DelegationFailed(version, f"it was stopped after {_SECONDS} seconds")
    if ended.code:
        raise DelegationFailed(version, _reason(ended.code, ended.complaint))
    return ended


def _reason(code: int, complaint: str) -> str:
    """Return how a program ended, and the first line of its complaint without what could control a terminal."""
    lines = complaint.strip().splitlines()
    said = printable_line(lines[0][:_SHOWN]) if lines else "it did not say why"
    ended = f"it was ended by the signal {-code}" if code < 0 else f"it ended with the code {code}"
    return f"{ended}: {said}"


def _checked(version: Version, options: Options, output: bytes) -> str:
    """Return the text of a CLI's output, if it is a components file of that version with those components."""
    if len(output) >= MAX_OUTPUT_BYTES:
        raise DelegationFailed(version, f"it printed {MAX_OUTPUT_BYTES} bytes or more")
    try:
        text = output.decode()
    except UnicodeDecodeError:
        raise DelegationFailed(version, "its output is not text") from None
    if not text.startswith(components_header(version, options.components)) or not text.endswith("\n"):
        raise DelegationFailed(version, "its output is not a components file of this version and these components")
    return text
