"""Programs that a test runs in the background: started on a free port, watched by their log, always ended."""

from __future__ import annotations

import os
import re
import secrets
import signal
import socket
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self, TypeVar

from tests.canaries import search

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

T = TypeVar("T")

LAST_LINES = 40
POLL = 0.05
PATIENCE = 10.0
COMMAND = 60.0
RUNNING: list[Daemon] = []
# No connection gets one of these by chance before the program does: Linux gives 32768 and up to who asks for any port.
OURS = range(12000, 32000)


class NotInTime(AssertionError):
    """Something that a test waited for did not come; the message has what was there instead."""


def wait_until(look: Callable[[], T | None], timeout: float, otherwise: Callable[[], str], poll: float = POLL) -> T:
    """Return the first thing that `look` sees.

    Raises:
        NotInTime: it saw nothing within `timeout` seconds; the message is what `otherwise` returns.
    """
    deadline = time.monotonic() + timeout
    while (seen := look()) is None:
        if time.monotonic() > deadline:
            raise NotInTime(otherwise())
        time.sleep(poll)
    return seen


def free_port() -> int:
    """Return a loopback port that was free just now, for programs that cannot tell which one they took."""
    while True:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port := secrets.choice(OURS)))
            return port


class ProgramFailed(AssertionError):
    """A program ended with an error; the message is what it was and what it said."""


def run(command: Sequence[object], text: str | None = None, **environment: str) -> str:
    """Return what a program prints on its standard output, `text` being its input.

    Raises:
        ProgramFailed: it ended with an error.
    """
    words = [str(part) for part in command]
    done = subprocess.run(
        words,
        input=text,
        env=dict(os.environ) | environment,
        capture_output=True,
        text=True,
        timeout=COMMAND,
        check=False,
    )
    if done.returncode:
        name = words[0].rpartition("/")[2]
        message = f"{' '.join([name, *words[1:]])} ended with {done.returncode}: {done.stderr.strip()}"
        raise ProgramFailed(message)
    return done.stdout


class Daemon:
    """A program in the background, in a process group of its own, its output in `log`; a context manager.

    It ends with the block; where that ends with an error, its last words are added to the error.
    """

    def __init__(self, command: Sequence[object], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.name = str(command[0]).rpartition("/")[2]
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(os.environ) | dict(environment or {}),
                start_new_session=True,
            )

        RUNNING.append(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if error is not None:
            error.add_note(self.tail())

    def tail(self) -> str:
        """Return the last lines of its log, under its name."""
        lines = self.log.read_text(errors="replace").splitlines()[-LAST_LINES:]
        return "\n".join([f"--- {self.name}, the end of {self.log}:", *lines])

    def wait_for_line(self, pattern: str, timeout: float = PATIENCE) -> re.Match[str]:
        """Return the first match of `pattern` in its log.

        Raises:
            NotInTime: there was none, or the program ended before.
        """
        sought = re.compile(pattern, re.MULTILINE)
        return self.wait_until(
            lambda: sought.search(self.log.read_text(errors="replace")), timeout, f"a line like {pattern}"
        )

    def wait_until(self, look: Callable[[], T | None], timeout: float, what: str) -> T:
        """Return the first thing that `look` sees while the program runs.

        Raises:
            NotInTime: it saw nothing, or the program ended before.
        """

        def look_at_it() -> T | None:
            ended = self._process.poll() is not None
            if (seen := look()) is None and ended:
                message = f"{self.name} ended with {self._process.returncode} before {what}\n{self.tail()}"
                raise NotInTime(message)
            return seen

        return wait_until(
            look_at_it, timeout, lambda: f"{self.name} did not come to {what} in {timeout} s\n{self.tail()}"
        )

    def kill(self) -> None:
        """End it and whatever it started at once, as a crash does."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def wait(self, timeout: float = COMMAND) -> int:
        """Return how it ended, once it did."""
        return self._process.wait(timeout)

    def stop(self) -> None:
        """End it and whatever it started, by force where asking does not help."""
        if self in RUNNING:
            RUNNING.remove(self)
            search(f"what {self.name} wrote", self.log.read_bytes())
        for sign in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, sign)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(PATIENCE)
                return
