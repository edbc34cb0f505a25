"""Stand-ins for a release's own flux CLI: small programs in an archive of the form that upstream publishes."""

from __future__ import annotations

import gzip
import hashlib
import io
import platform
import sys
import tarfile
from dataclasses import dataclass

from ci_automation.flux.release import ReleaseFiles

MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]


@dataclass(frozen=True, slots=True)
class Packed:
    """One entry of an archive; a link's target is its content."""

    name: str = "flux"
    content: bytes = b""
    kind: bytes = tarfile.REGTYPE


def archive(*entries: Packed) -> bytes:
    """Return a gzipped tar of these entries."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as packed:
        for entry in entries:
            info = tarfile.TarInfo(entry.name)
            info.type, info.mode = entry.kind, 0o755
            if entry.kind == tarfile.REGTYPE:
                info.size = len(entry.content)
            else:
                info.linkname = entry.content.decode()
            packed.addfile(info, io.BytesIO(entry.content))
    return gzip.compress(raw.getvalue(), mtime=0)


def python(script: str) -> Packed:
    """Return a program in Python, with nothing but its standard library."""
    return Packed(content=f"#!{sys.executable} -IS\n{script}\n".encode())


def printing(text: str) -> Packed:
    """Return a program that prints `text`, whatever it is asked for."""
    return python(f"import sys\nsys.stdout.write({text!r})")


def program_name(tag: str, machine: str = MACHINE) -> str:
    """Return the name of the archive that upstream publishes for a kind of machine."""
    return f"flux_{tag.removeprefix('v')}_linux_{machine}.tar.gz"


def files_naming(name: str, data: bytes) -> ReleaseFiles:
    """Return files of a release whose checksums name one file."""
    return ReleaseFiles(f"{hashlib.sha256(data).hexdigest()}  {name}\n".encode(), b"")
