"""Confinement of other programs, such as kustomize and flux: see `confined.py`."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import IO, TYPE_CHECKING

from msgspec import Struct

from ci_automation.flows.programs import confined

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LAUNCHER = Path(confined.__file__)
_MAX_COMPLAINT = 1 << 16
_GET_DUMPABLE, _SET_DUMPABLE = 3, 4  # linux/prctl.h


class Ended(Struct, frozen=True):
    """How a confined program ended; `code` is None where it was stopped, and negative where a signal ended it.

    `files_in_reach` says that the user's files could not be cut off while it ran, `unstarted` why it never did.
    """

    code: int | None
    output: bytes
    complaint: str
    files_in_reach: bool
    unstarted: str = ""


def run_confined(
    command: Sequence[str],
    folder: Path,
    seconds: float,
    started: Callable[[subprocess.Popen[bytes]], None] = lambda _: None,
) -> Ended:
    """Run a program and return how it ended; the files in `folder`, where it runs, are all that it has.

    It is one process: the kernel refuses it any other, so that nothing of it is left when this returns. Its output goes
    to files without a name, whose size is limited. `started` is told of the process, for a caller on another
    thread that may have to stop it.
    """
    told, report = os.pipe()
    with _closed, TemporaryFile() as output, TemporaryFile() as complaint, os.fdopen(told, "rb") as telling:
        try:
            process = _launched(command, folder, report, output, complaint)
        finally:
            os.close(report)
        started(process)
        code = None
        try:
            with suppress(subprocess.TimeoutExpired):
                code = process.wait(seconds)
        finally:
            process.kill()
            process.wait()
        output.seek(0)
        complaint.seek(0)
        cut_off, begun, unstarted = telling.read().decode(errors="replace").partition("\n")
        said = complaint.read(_MAX_COMPLAINT).decode(errors="replace")
        if not begun and code:
            unstarted = "it could not be confined"
        return Ended(code, output.read(confined.MAX_OUTPUT_BYTES), said, not cut_off, unstarted.strip())


def _launched(
    command: Sequence[str], folder: Path, report: int, output: IO[bytes], complaint: IO[bytes]
) -> subprocess.Popen[bytes]:
    libraries = os.environ.get("LD_LIBRARY_PATH")  # some Pythons do not start without; the program never has it
    more = {"LD_LIBRARY_PATH": libraries} if libraries else {}
    return subprocess.Popen(  # noqa: S603  # the caller vouches for the program
        [sys.executable, "-I", "-S", str(LAUNCHER), str(report), str(folder), *command],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=complaint,
        env={"HOME": str(folder), "TMPDIR": str(folder), **more},
        cwd=folder,
        pass_fds=(report,),
        start_new_session=True,
    )


class _Closed:
    """While a program runs, other processes of the same user cannot read the environment and the memory of this one.

    Most kernels let a confined process read nothing of the kind; this is for those that cannot confine it. Several
    programs may run at the same time, each on a thread of its own.
    """

    def __init__(self) -> None:
        self._lock, self._running, self._before = Lock(), 0, 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._running:
                self._before = confined.control(_GET_DUMPABLE)
                confined.control(_SET_DUMPABLE, 0)
            self._running += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._running -= 1
            if not self._running:
                confined.control(_SET_DUMPABLE, self._before)


_closed = _Closed()
