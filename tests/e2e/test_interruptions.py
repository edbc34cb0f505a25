"""Ctrl-C and Ctrl-D, as a process meets them: while it starts, at a question, and while it ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import termios
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ci_automation.__main__ import interrupt
from tests.e2e.desk import CHANNEL, SIGNED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.e2e.desk import Desk

ROOT = Path(__file__).parents[2]
KEYS = {"Ctrl-C": b"\x03", "Ctrl-D": b"\x04"}
# In the order in which an update looks for them: the first of each layer, and some of others'.
IMPORTS = (
    "ci_automation.cli",
    "click",
    "ci_automation.errors",
    "ci_automation.cli.steps",
    "ci_automation.artifact.reference",
    "ci_automation.policy.decision",
    "ci_automation.config.model",
    "yaml",
    "cryptography",
    "cryptography.hazmat.bindings._rust",
    "ci_automation.flows.update",
)


def is_told(err: str) -> bool:
    """Return whether Ctrl-C was told as what it is, once, and nothing else."""
    lines = err.strip().splitlines()
    return lines[0] == "error: interrupted" and lines[-1].endswith("(exit 130, code interrupted)") and len(lines) == 2


# Sends Ctrl-C at the moment at which the program looks for one module; some imports make another error of it.
_INTERRUPTED_AT = """
import signal, sys

name, wrapped = sys.argv[1], sys.argv[2] == "wrapped"
sys.argv = ["flux-manifests", *sys.argv[3:]]
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it


class Interruption:
    def find_spec(self, wanted, *_):
        if wanted == name:
            sys.meta_path.remove(self)
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt as error:
                if not wrapped:
                    raise
                raise SystemError("the initialization of a module raised an exception") from error


sys.meta_path.insert(0, Interruption())
from ci_automation.__main__ import main
main()
"""


def test_ctrl_c_within_the_import_system_comes_a_little_later() -> None:
    within = compile("signal.raise_signal(signal.SIGINT); reached = True", "<frozen importlib._bootstrap>", "exec")
    names: dict[str, object] = {"signal": signal}
    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGALRM)}
    try:
        exec(within, names)  # noqa: S102  # with a name of Python's own
        assert names["reached"]
        with pytest.raises(KeyboardInterrupt):
            signal.pause()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.mark.parametrize("wrapped", ["as it is", "wrapped"])
@pytest.mark.parametrize("module", IMPORTS)
def test_ctrl_c_while_the_program_loads(desk: Desk, module: str, wrapped: str) -> None:
    desk.init()
    before = desk.state()
    command = [sys.executable, "-B", "-c", _INTERRUPTED_AT, module, wrapped, "update", CHANNEL, *SIGNED]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        command, cwd=desk.folder, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.returncode == 130, ran
    assert is_told(ran.stderr), ran.stderr
    assert ran.stdout == ""
    assert desk.state() == before


def _answered(desk: Desk, *keys: bytes, arguments: Sequence[str], question: bytes = b"[y/N]: ") -> tuple[int, str]:
    """Run a command on a terminal of its own, press a key at each question, and return its code and what is shown."""
    terminal, theirs = pty.openpty()

    def on_terminal() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # which a job in the background ignores
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    child = desk.child(*arguments, stdin=theirs, stdout=theirs, stderr=theirs, preexec_fn=on_terminal)
    os.close(theirs)
    limit = threading.Timer(60, child.kill)
    limit.start()
    shown = bytearray()
    with contextlib.suppress(OSError), open(terminal, "r+b", buffering=0) as file:  # noqa: PTH123 - of a descriptor
        key, left = b"", list(keys)
        while True:
            # A key that comes between the question and the wait for its answer is seen with the next one.
            if not select.select([file], [], [], 1 if key else None)[0]:
                file.write(key)
                continue
            if not (piece := file.read(4096)):
                break
            shown += piece
            if left and shown.endswith(question):  # from then on the program reads
                key = left.pop(0)
                file.write(key)
    code = child.wait()
    limit.cancel()
    assert not left, shown
    return code, shown.decode()


@pytest.mark.parametrize("key", KEYS.values(), ids=list(KEYS))
@pytest.mark.parametrize("output", ["text", "json"])
def test_at_the_question_of_a_rollback(desk: Desk, key: bytes, output: str) -> None:
    desk.init()
    desk.ok("update", CHANNEL, *SIGNED)
    before = desk.state()
    code, shown = _answered(desk, key, arguments=("rollback", CHANNEL, "--to", "v2.98.5", "--output", output, *SIGNED))
    assert code == 130, shown
    assert shown.endswith("(exit 130, code interrupted)\r\n"), shown
    assert "Traceback" not in shown
    assert "bug" not in shown
    assert desk.state() == before


@pytest.mark.parametrize("key", KEYS.values(), ids=list(KEYS))
@pytest.mark.parametrize("command", ["update", "check"])
def test_at_the_question_of_an_adoption(desk: Desk, key: bytes, command: str) -> None:
    desk.ok("init", CHANNEL, "--flux-version", "v2.98.5", "--signing", "unsafe-unsigned")
    before = desk.state()
    code, shown = _answered(desk, key, arguments=(command, CHANNEL, "--adopt", *SIGNED))
    assert code == 130, shown
    assert shown.endswith("(exit 130, code interrupted)\r\n"), shown
    assert "Traceback" not in shown
    assert "bug" not in shown
    assert desk.state() == before


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (("update", "--adopt"), 10, f"{CHANNEL} was not adopted: the answer was no\n  hint: Nothing was changed."),
        (
            ("rollback", "--to", "v2.98.5"),
            11,
            f"{CHANNEL} was not rolled back: the answer was no\n  hint: Nothing was changed.",
        ),
        (("rollback", "--lift"), 11, f"no hold on {CHANNEL} was lifted: the answer was no\n  hint: Nothing was"),
    ],
    ids=["adoption", "rollback", "lift"],
)
def test_a_no_is_told_as_what_it_was(desk: Desk, arguments: Sequence[str], code: int, error: str) -> None:
    command, *options = arguments
    desk.init()
    desk.ok("update", CHANNEL, *SIGNED)
    if "--lift" in options:
        desk.ok("rollback", CHANNEL, "--to", "v2.98.5", "--yes", *SIGNED)
    if "--adopt" in options:
        desk.ok("init", "layout:other:production", "--flux-version", "v2.98.5", "--signing", "unsafe-unsigned")
        shutil.rmtree(desk.folder / "registry")
        (desk.folder / "other").rename(desk.folder / "registry")
    before = desk.state()
    ended, shown = _answered(desk, b"n\n", arguments=(command, CHANNEL, *options, *SIGNED))
    assert ended == code, shown
    assert error in shown.replace("\r\n", "\n"), shown
    assert "yes" not in shown.partition("error:")[2]
    assert desk.state() == before


@pytest.mark.parametrize("key", KEYS.values(), ids=list(KEYS))
def test_at_a_question_of_setup(desk: Desk, key: bytes) -> None:
    before = desk.state()
    asks = ("setup", CHANNEL, "--repository", "acme/fleet", "--overlay", "-")
    code, shown = _answered(desk, key, arguments=asks, question=b"as OWNER/ci-automation? [acme/ci-automation]: ")
    assert code == 130, shown
    assert "If not, name the one that you will make" in " ".join(shown.split())
    assert "hint: No file was written. Run it again." in " ".join(shown.split())
    assert desk.state() == before


def test_a_closed_input_answers_no_question(desk: Desk) -> None:
    desk.init()
    desk.ok("update", CHANNEL, *SIGNED)
    child = desk.child("rollback", CHANNEL, "--to", "v2.98.5", *SIGNED, preexec_fn=lambda: os.close(0))
    _, err = child.communicate(timeout=60)
    assert child.returncode == 11, err
    assert "no person confirmed it" in err


_STUCK = """
import atexit, signal, sys, threading

sys.argv = ["flux-manifests", "--version"]
signal.signal(signal.SIGINT, signal.default_int_handler)
atexit.register(print, "cleaned up")
threading.Thread(target=threading.Event().wait).start()


class Interruption:
    def find_spec(self, wanted, *_):
        if wanted == "ci_automation.cli":
            signal.raise_signal(signal.SIGINT)


sys.meta_path.insert(0, Interruption())
from ci_automation.__main__ import main
main()
"""


def test_ctrl_c_waits_for_no_thread_and_cleans_up() -> None:
    command = [sys.executable, "-c", _STUCK]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert (ran.returncode, ran.stdout) == (130, "cleaned up\n")
    assert is_told(ran.stderr)


_ENDING = """
import atexit, signal, sys
sys.argv = ["flux-manifests", "--version"]
signal.signal(signal.SIGINT, signal.default_int_handler)
atexit.register(signal.raise_signal, signal.SIGINT)
from ci_automation.__main__ import main
main()
"""


def test_ctrl_c_while_the_program_ends_changes_nothing() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _ENDING], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert (ran.returncode, ran.stderr) == (0, "")


_LATE = """
import atexit, sys
sys.argv = ["flux-manifests", "--version"]
atexit.register(lambda: sys.stdout.write("late"))
from ci_automation.__main__ import main
main()
"""


def test_the_end_runs_what_was_left_for_it_and_tells_that_its_output_was_lost() -> None:
    command = [sys.executable, "-c", _LATE]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert (ran.returncode, ran.stdout[-5:], ran.stderr) == (0, "\nlate", "")
    with Path("/dev/full").open("w") as full:
        lost = subprocess.run(
            [sys.executable, "-c", _LATE.replace("--version", "--nothing")],
            cwd=ROOT,
            env=os.environ | {"PYTHONUNBUFFERED": ""},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
    assert lost.returncode == 120  # Python's own, for output that is lost at the end
    assert "No space left on device" in lost.stderr
