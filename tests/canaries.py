"""Canaries: every secret of the tests has a mark in it, and a test that lets one out fails, whatever else it asserts.

Looked at are captured output and logs, what `capsys` hands out, the texts of errors and of exceptions that
`pytest.raises` caught, what is stored in a registry, the command lines of all processes that are started, by a test or
by a process of our program, and what such a process prints. `tests/conftest.py` switches it on.
"""

from __future__ import annotations

import base64
import functools
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ci_automation.artifact.manifest import Manifest
from ci_automation.errors import Error

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Iterator

MARK = "canary-"
LOG_VARIABLE = "FLUX_MANIFESTS_TESTS_CANARIES"
# Python runs the `sitecustomize.py` in it before all else; it tells of the processes that our program starts.
WATCHED = Path(__file__).parent / "watched"
_LONGEST = 60
# What tells the runner of GitHub Actions to hide a secret has to name it, and is shown to nobody.
_MASKS = re.compile(rb"^::add-mask::.*$", re.MULTILINE)
_LEAKS: list[str] = []
_LOGS: list[Path] = []  # what the processes of our program write
_HIDDEN: dict[bytes, str] = {}


def _in_base64(text: str) -> Iterator[bytes]:
    """Yield what base64 makes of `text` at each place that it can have among other bytes."""
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + text.encode()).rstrip(b"=")
        first = (before * 8 + 5) // 6  # the characters before it are not of `text` alone
        yield encoded[first : (before + len(text)) * 8 // 6]


_PATTERNS = {
    "a marked secret": re.compile(
        b"(?:%s)[!-~]{0,24}" % b"|".join([re.escape(MARK.encode()), *_in_base64(MARK), MARK.encode().hex().encode()])
    ),
    "an identity token": re.compile(rb"eyJ[\w-]{16,}\.eyJ[\w-]{16,}\.[\w-]{16,}"),
    "a private key": re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\s+[A-Za-z0-9+/]{40}"),
}


def hide(secret: str, what: str) -> None:
    """Look for another secret too, which can have no mark."""
    _HIDDEN[secret.encode()] = what


def hide_key(pem: bytes, number: int) -> None:
    """Look for a private key too: each line of its text, and its number."""
    for line in pem.decode().splitlines()[1:-1]:
        hide(line, "a line of a private key")
    hide(str(number), "the number of a private key")
    hide(f"{number:x}", "the number of a private key")


def found_in(content: str | bytes) -> str | None:
    """Return what secret is in `content`, or None."""
    data = content.encode(errors="surrogateescape") if isinstance(content, str) else content
    data = _MASKS.sub(b"", data)
    for what, pattern in _PATTERNS.items():
        if match := pattern.search(data):
            return f"{what} ({match[0][:_LONGEST].decode(errors='replace')})"
    return next((what for secret, what in _HIDDEN.items() if secret in data), None)


def search(where: str, content: object) -> None:
    """Let the test fail that runs now, if there is a secret in `content`."""
    if isinstance(content, str | bytes | bytearray) and (
        secret := found_in(bytes(content) if isinstance(content, bytearray) else content)
    ):
        _LEAKS.append(f"{secret} is in {where}")


def search_folder(folder: Path, but: Collection[str] = ()) -> None:
    """Look into every file below a folder, except those whose names end as `but` has them."""
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and not path.name.endswith(tuple(but)):
            search(f"the file {path.relative_to(folder)}", path.read_bytes())


def search_error(error: BaseException | None) -> None:
    """Look into an exception, what it says to do next, and those that a traceback of it would show."""
    while error is not None:
        notes = getattr(error, "__notes__", ())
        search(f"a {type(error).__name__}", "\n".join([str(error), str(getattr(error, "hint", "")), *notes]))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def leaks() -> list[str]:
    """Return what was found since this was last asked, by us and by the processes of our program."""
    for log in _LOGS:
        if log.exists():
            _LEAKS.extend(log.read_text(errors="replace").splitlines())
            log.unlink()
    found = list(dict.fromkeys(_LEAKS))
    _LEAKS.clear()
    return found


def _started(event: str, arguments: tuple[Any, ...]) -> None:
    """Hear of each process that is started, with the command line that everybody can read in /proc."""
    if event == "subprocess.Popen":
        search("a command line", _joined([arguments[0], *_words(arguments[1])]))
    elif event in {"os.posix_spawn", "os.exec"}:
        search("a command line", _joined(_words(arguments[1])))
    elif event == "os.system":
        search("a command line", arguments[0])


def _words(arguments: object) -> list[object]:
    return [*arguments] if isinstance(arguments, list | tuple) else [arguments]


def _joined(words: Iterable[object]) -> bytes:
    return b"\0".join(os.fsencode(word) if isinstance(word, str | bytes | os.PathLike) else b"" for word in words)


sys.addaudithook(_started)


def _is_python(arguments: object) -> bool:
    """Return whether a process is our program, or a script of the tests that uses it."""
    words = _words(arguments)
    return bool(words) and str(words[0]) == sys.executable


def _wrap(patch: pytest.MonkeyPatch, owner: type, name: str, look: Callable[..., object]) -> None:
    """Let `look` see what a method is called with and what it returns."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        look(self, result, *args, **kwargs)
        return result

    patch.setattr(owner, name, wrapped)


def _watch_processes(patch: pytest.MonkeyPatch, log: Path) -> None:
    _LOGS.append(log)
    start = subprocess.Popen.__init__

    @functools.wraps(start)
    def started(self: Any, args: Any, *rest: Any, **how: Any) -> None:
        if _is_python(args):
            own = dict(os.environ if how.get("env") is None else how["env"])
            path = os.pathsep.join(filter(None, [str(WATCHED), own.get("PYTHONPATH")]))
            how["env"] = own | {"PYTHONPATH": path, LOG_VARIABLE: str(log)}
        start(self, args, *rest, **how)

    def printed(process: subprocess.Popen[Any], output: tuple[Any, Any], *_: Any, **__: Any) -> None:
        if _is_python(process.args):
            for what, text in zip(("output", "errors"), output, strict=True):
                search(f"the {what} of a process", text)

    patch.setattr(subprocess.Popen, "__init__", started)
    _wrap(patch, subprocess.Popen, "communicate", printed)


def _watch_registries(patch: pytest.MonkeyPatch) -> None:
    from ci_automation.registry.layout import LayoutRegistry
    from tests.fakes.registry import InMemoryRegistry

    def stored(_: object, __: object, reference: object, what: Manifest | bytes, *___: object) -> None:
        search(f"what is stored in {reference}", what.raw if isinstance(what, Manifest) else what)

    for registry in (InMemoryRegistry, LayoutRegistry):
        for method in ("put_blob", "put_manifest", "put_referrer"):
            _wrap(patch, registry, method, stored)


@pytest.fixture(scope="session", autouse=True)
def canaries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Look at everything that leaves the program while tests run."""
    with pytest.MonkeyPatch.context() as patch:
        _watch_processes(patch, tmp_path_factory.mktemp("canaries") / "leaks")
        _watch_registries(patch)
        _wrap(patch, Error, "__init__", lambda self, *_, **__: search_error(self))
        _wrap(patch, pytest.RaisesExc, "__exit__", lambda _, __, ___, error, ____: search_error(error))
        _wrap(patch, pytest.CaptureFixture, "readouterr", lambda _, captured: search("the output", "".join(captured)))
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let a test fail that passed, and let a secret out."""
    report = yield
    for name, text in report.sections:
        search(name.lower(), text)
    if (found := leaks()) and report.passed:
        report.outcome = "failed"
        report.longrepr = "\n".join(["a secret was let out:", *found])
    return report
