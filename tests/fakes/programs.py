"""Stand-ins for a release's own flux CLI: small programs in an archive of the form that upstream publishes."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import platform
import re
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from ci_automation.flows.programs import confined
from ci_automation.flux.bundle import ReleaseFiles

MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]

# What a program in Python reads to start, and what tells it about itself. Upstream's needs nothing of the kind.
_PYTHONS = ("/usr", "/bin", "/lib", "/lib64", "/etc", "/proc", sys.prefix, sys.base_prefix)


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


def listing(text: str, *flags: str) -> Packed:
    """Return a program that lists these flags in its help, and prints `text` with what it was given of them."""
    own = "".join(f"      --{flag} string   one\n" for flag in flags)
    usage = f"Usage:\n  flux install [flags]\n\nFlags:\n{own}  -h, --help   help\n\n"
    usage += "Global Flags:\n      --kubeconfig string\n"
    return python(
        f"import sys\ngiven = ''.join(' ' + it for it in sys.argv[1:] if it.partition('=')[0][2:] in {flags!r})\n"
        f"sys.stdout.write({usage!r} if '--help' in sys.argv else {text!r}.replace('GIVEN', given))"
    )


def program_name(tag: str, machine: str = MACHINE) -> str:
    """Return the name of the archive that upstream publishes for a kind of machine."""
    return f"flux_{tag.removeprefix('v')}_linux_{machine}.tar.gz"


def files_naming(name: str, data: bytes) -> ReleaseFiles:
    """Return files of a release whose checksums name one file."""
    return ReleaseFiles(f"{hashlib.sha256(data).hexdigest()}  {name}\n".encode(), b"")


def launcher(folder: Path, *reach: Path) -> Path:
    """Return a copy of the launcher in `folder` that lets a program have Python's own files too, and these."""
    places = [str(place) for place in (*map(Path, _PYTHONS), *reach) if place.exists()]
    text = Path(confined.__file__).read_text()
    assert text.count("**needed(program)}") == 1
    copy = folder / "launcher.py"
    copy.write_text(text.replace("**needed(program)}", f"**needed(program), **dict.fromkeys({places}, -1)}}"))
    return copy


def denied(original: Path, *names: str) -> Path:
    """Return a copy of a launcher, beside it, for which the kernel does not allow some ways to cut a program off."""
    text = original.read_text()
    for name in names:
        text, count = re.subn(rf"(?m)^(    .*?)\b{name}\([^()]*\)", r"\1False", text)
        assert count == 1
    copy = original.with_name("denied.py")
    copy.write_text(text)
    return copy


def has_landlock() -> bool:
    """Return whether this kernel lets everybody give up files, in a version that is enough."""
    child = os.fork()
    if child == 0:
        confined.control(38, 1)  # PR_SET_NO_NEW_PRIVS
        os._exit(0 if confined.deny_files({}) else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
