"""`python -m ci_automation`, and the console script `flux-manifests`."""

from __future__ import annotations

import gc
import signal
import sys
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    import re
    from collections.abc import Callable
    from types import FrameType

_IMPORTS = "<frozen importlib._bootstrap>"
_LATER = 0.005  # seconds
_OBJECTS = 200_000  # between two searches for garbage in circles; an update makes 80,000, and leaves 700 of them
_FUNCTION = 1  # the flag CO_OPTIMIZED, which code of modules and classes lacks
_METHODS = ("search", "match", "fullmatch", "split", "findall", "finditer", "sub", "subn")


def main() -> None:
    """Run the command line and exit with its code; Ctrl-C counts from the first import to the end of the process."""
    try:
        _listen()
        _open_missing()
        gc.set_threshold(_OBJECTS)
        put_off_patterns()
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


def put_off_patterns() -> None:
    """Let `re.compile` compile the patterns of modules and classes at their first use.

    An update imports 280 patterns, its own and those of libraries, and uses 100. Patterns in functions are compiled at
    once, because their errors may be expected.
    """
    import re

    at_once = re.compile

    def put_off(pattern: Any, flags: Any = 0) -> Any:  # noqa: ANN401  # as `re.compile`
        in_function = sys._getframe(1).f_code.co_flags & _FUNCTION  # noqa: SLF001  # inspect takes a while to import
        return at_once(pattern, flags) if in_function else _Pattern(at_once, pattern, flags)

    re.compile = put_off


class _Pattern:
    """Pattern that is compiled at its first use."""

    def __init__(self, compile_it: Callable[..., re.Pattern[Any]], *arguments: Any) -> None:  # noqa: ANN401
        self._compile, self._arguments = compile_it, arguments
        self.pattern = arguments[0]

    @property  # type: ignore[misc]  # nobody sets it
    def __class__(self) -> Any:  # noqa: ANN401  # isinstance asks for it, and `re` does before it takes a pattern
        import re

        return re.Pattern

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # whatever a pattern has
        compiled = self._compile(*self._arguments)
        self.__dict__.update((each, getattr(compiled, each)) for each in _METHODS)
        return getattr(compiled, name)


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
