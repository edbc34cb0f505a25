"""`python -m ci_automation`, and the console script `flux-manifests`."""

from __future__ import annotations

import gc
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from types import FrameType

_IMPORTS = "<frozen importlib._bootstrap>"
_LATER = 0.005  # seconds
_OBJECTS = 200_000  # between two searches for garbage in circles; an update makes 80,000, and leaves 700 of them


def main() -> None:
    """Run the command line and exit with its code; Ctrl-C counts from the first import to the end of the process."""
    try:
        _listen()
        _open_missing()
        gc.set_threshold(_OBJECTS)
        from ci_automation.cli import run

        code = run(sys.argv[1:])
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  # an import makes any error of Ctrl-C
        _listen_no_more()
        code = _interrupted(error)
    _listen_no_more()  # the work is done, and told
    _leave(code)


def _listen() -> None:
    """Hear of Ctrl-C, unless the process was started to ignore it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        for number in (signal.SIGINT, signal.SIGALRM):
            signal.signal(number, interrupt)


def _listen_no_more() -> None:
    for number in (signal.SIGALRM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def interrupt(_number: int, frame: FrameType | None) -> None:
    """Raise `KeyboardInterrupt`, or come again a little later if it would hit Python's own code for imports.

    Before Python 3.12 that code is not safe against it: in the callback of a lock it is lost, and the lock stays taken,
    so that every later import waits for ever.
    """
    if frame is not None and frame.f_code.co_filename == _IMPORTS:
        signal.setitimer(signal.ITIMER_REAL, _LATER)
        return
    raise KeyboardInterrupt


def _open_missing() -> None:
    """Put nothing in the place of a standard stream that was closed: Python has None there."""
    import os

    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115, PTH123  # for as long as we run
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115, PTH123
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115, PTH123


def _interrupted(error: BaseException) -> int:
    """Tell of Ctrl-C during an import, or while another one was being told; raise any other error again."""
    from ci_automation.errors import INTERRUPTED, is_interruption

    if not is_interruption(error):
        raise error
    hint = "Run the command again."
    sys.stderr.write(f"error: interrupted\n  hint: {hint}   (exit {INTERRUPTED}, code interrupted)\n")
    return INTERRUPTED


def _leave(code: int) -> NoReturn:
    """Clean up, and end at once.

    Python would wait for threads, and one that Ctrl-C cut off at its start never ends. It would also take every module
    apart, which lasts longer than a sixth of a whole update.
    """
    import atexit
    import os

    from ci_automation.errors import INTERRUPTED

    atexit._run_exitfuncs()  # noqa: SLF001  # what `sys.exit` does, but for the waiting and the taking apart
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        if code != INTERRUPTED:
            sys.exit(code)  # Python says that the output is not whole
    os._exit(code)


if __name__ == "__main__":
    main()
