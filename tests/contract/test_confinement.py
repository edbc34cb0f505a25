"""What a confined program leaves behind, which is nothing, and what it needs to start."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from ci_automation.flows.programs import confined, confinement
from tests.fakes.programs import denied, has_landlock, launcher, python

if TYPE_CHECKING:
    from collections.abc import Iterator

# Each way to another process, which then leaves the session and its parent, and says so.
LEAVE = """
import ctypes, os, subprocess, sys, time
pipe = os.open({pipe!r}, os.O_WRONLY)
os.write(pipe, b"begun")
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    made = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
    if made < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return made
clone, *forks = {{"x86_64": (56, 57, 58)}}.get(os.uname().machine, (220,))
described = ctypes.create_string_buffer(88)
ways = [
    os.fork,
    lambda: os.forkpty()[0],
    lambda: call(clone, 17, 0, 0, 0, 0),
    lambda: call(435, ctypes.addressof(described), 88),
    *(lambda number=number: call(number) for number in forks),
    lambda: os.posix_spawn("/bin/true", ["true"], dict()),
    lambda: subprocess.Popen(["/bin/true"], start_new_session=True).pid,
]
made = len(ways)
for way in ways:
    try:
        if way() == 0:
            os.setsid()
            if way() == 0:
                os.write(pipe, b", and survived")
                time.sleep(5)
            os._exit(0)
    except OSError:
        made -= 1
print(made, flush=True)
{end}
"""


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[tuple[str, int]]:
    """Yield the path of a pipe, and the descriptor that reads from it."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    yield str(path), reading
    os.close(reading)


class TestWhatItLeavesBehind:
    @pytest.mark.parametrize(
        ("end", "code", "without"),
        [
            pytest.param("", 0, None, id="it ends"),
            pytest.param("", 0, "own_name_space", id="it ends where there are no user namespaces"),
            pytest.param("", 0, "deny_files", id="it ends where there is no Landlock"),
            pytest.param("time.sleep(600)", None, "own_name_space", id="it is stopped"),
        ],
    )
    def test_nothing_whatever_it_tries(
        self,
        end: str,
        code: int | None,
        without: str | None,
        pipe: tuple[str, int],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        path, reading = pipe
        monkeypatch.setattr(confinement, "LAUNCHER", launcher(tmp_path, tmp_path))
        if without:
            monkeypatch.setattr(confinement, "LAUNCHER", denied(confinement.LAUNCHER, without))
        program = tmp_path / "program"
        program.write_bytes(python(LEAVE.format(pipe=path, end=end)).content)
        program.chmod(0o700)
        ended = confinement.run_confined([str(program)], tmp_path, 20 if code == 0 else 2)
        assert (ended.code, ended.output, ended.complaint) == (code, b"0\n", "")
        # The pipe is at its end, and would not be if anybody had it: no read would come back with nothing.
        assert os.read(reading, 100) == b"begun"
        assert os.read(reading, 100) == b""

    def test_it_has_threads(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(confinement, "LAUNCHER", launcher(tmp_path))
        program = tmp_path / "program"
        script = (
            "import threading\nthread = threading.Thread(target=print, args=('seen',))\nthread.start()\nthread.join()"
        )
        program.write_bytes(python(script).content)
        program.chmod(0o700)
        assert confinement.run_confined([str(program)], tmp_path, 20).output == b"seen\n"

    def test_it_is_not_run_where_the_kernel_cannot_keep_it_from_new_processes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(confinement, "LAUNCHER", denied(launcher(tmp_path), "deny_calls"))
        program = tmp_path / "program"
        program.write_bytes(python(f"open({str(tmp_path / 'ran')!r}, 'w')").content)
        program.chmod(0o700)
        ended = confinement.run_confined([str(program)], tmp_path, 20)
        assert ended.unstarted == "the kernel cannot keep it from network and from new processes (seccomp)"
        assert not (tmp_path / "ran").exists()

    def test_nor_on_a_machine_whose_calls_are_not_known(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="s390x"))
        assert confined.deny_calls() is False

    def test_nor_where_its_confinement_fails(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        broken = tmp_path / "launcher.py"
        broken.write_text("raise OSError")
        monkeypatch.setattr(confinement, "LAUNCHER", broken)
        assert confinement.run_confined(["/bin/true"], tmp_path, 20).unstarted == "it could not be confined"


def linked(name: str) -> str:
    """Return a program of the system's, if it is dynamically linked."""
    program = shutil.which(name, path="/usr/bin:/bin") or ""
    if not program or not confined.loader_of(program):
        pytest.skip(f"this system has no dynamically linked {name}")
    return program


class TestWhatItNeedsToStart:
    """The launcher as it is: a program in Python, which needs more, is none that it starts."""

    def test_a_dynamically_linked_program_has_its_loader_and_libraries(self, tmp_path: Path) -> None:
        (tmp_path / "own").write_text("its own")
        ended = confinement.run_confined([linked("cat"), "own"], tmp_path, 20)
        assert (ended.code, ended.output, ended.complaint, ended.unstarted) == (0, b"its own", "", "")

    def test_but_no_other_file(self, tmp_path: Path) -> None:
        if not has_landlock():
            pytest.skip("this kernel has no Landlock")
        for path in ("/etc/passwd", sys.executable, "/proc/self/environ"):
            ended = confinement.run_confined([linked("cat"), path], tmp_path, 20)
            assert (ended.code, ended.output) == (1, b"")
            assert "Permission denied" in ended.complaint

    def test_and_no_other_program(self, tmp_path: Path) -> None:
        if not has_landlock():
            pytest.skip("this kernel has no Landlock")
        ended = confinement.run_confined([linked("env"), linked("cat"), "/dev/null"], tmp_path, 20)
        assert "Permission denied" in ended.complaint

    def test_it_is_not_its_own_to_change(self, tmp_path: Path) -> None:
        if not has_landlock():
            pytest.skip("this kernel has no Landlock")
        places = confined.needed(linked("cat"))
        assert set(places.values()) == {confined._READ, confined._READ | confined._EXECUTE}
        assert tmp_path not in map(Path, places)

    def test_a_loader_in_a_folder_of_its_own_comes_with_it(self, tmp_path: Path) -> None:
        """As in the stores of Nix and of Homebrew; a folder of any other name may be anything."""
        system = Path(linked("cat"))
        for name, has in (("lib", True), ("home", False)):
            folder = tmp_path / name
            folder.mkdir()
            loader = folder / "ld"
            shutil.copyfile(confined.loader_of(str(system)), loader)
            loader.chmod(0o755)
            assert len(str(loader)) < 4096
            program = _renamed(system, str(loader), tmp_path / f"{name}-cat")
            places = confined.needed(str(program))
            assert places[str(loader)] == confined._READ | confined._EXECUTE
            assert (str(folder) in places) is has

    @pytest.mark.parametrize(
        "content",
        [b"", b"#!/bin/sh\n", b"\x7fELF", b"\x7fELF\x02\x02" + bytes(90), b"\x7fELF\x02\x01" + bytes(90)],
        ids=["empty", "a script", "cut off", "of another order of bytes", "without a table"],
    )
    def test_anything_else_has_nothing_but_itself(self, content: bytes, tmp_path: Path) -> None:
        program = tmp_path / "program"
        program.write_bytes(content)
        assert confined.needed(str(program)) == {str(program): confined._READ | confined._EXECUTE}

    def test_a_program_that_does_not_start_says_why(self, tmp_path: Path) -> None:
        program = tmp_path / "kustomize"
        program.write_text("#!/usr/bin/env sh\n")
        program.chmod(0o755)
        ended = confinement.run_confined([str(program)], tmp_path, 20)
        if has_landlock():
            assert (ended.code, ended.unstarted) == (1, "Permission denied")
        program.write_bytes(b"\x7fno program")
        assert confinement.run_confined([str(program)], tmp_path, 20).unstarted == "Exec format error"


def _renamed(program: Path, loader: str, copy: Path) -> Path:
    """Return a copy of a program that names another loader, at the end of the file."""
    import struct

    data = bytearray(program.read_bytes())
    (table,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    (at,) = (at for at in range(table, table + size * count, size) if struct.unpack_from("<I", data, at)[0] == 3)
    struct.pack_into("<4Q", data, at + 8, len(data), 0, 0, len(loader) + 1)
    copy.write_bytes(bytes(data) + loader.encode() + b"\0")
    copy.chmod(0o755)
    return copy
