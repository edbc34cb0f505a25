"""What only a process of its own can show: Ctrl-C, a full disk, a reader who is gone."""

from __future__ import annotations

import contextlib
import os
import pty
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.desk import CHANNEL, SIGNED, TRUSTED
from tests.e2e.doubles import Said, serving
from tests.fakes.keys import cosign_key

if TYPE_CHECKING:
    from tests.e2e.desk import Desk

INTERRUPTED = "error: interrupted"


def hear_ctrl_c() -> None:
    """Undo that a job in the background ignores Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("output", ["text", "json"])
def test_ctrl_c_is_one_message_and_130(desk: Desk, output: str) -> None:
    asked, over = threading.Event(), threading.Event()

    def answer(_: str, __: str) -> Said:
        asked.set()
        over.wait()
        return Said(404)

    with serving(answer) as double:
        before = desk.state()
        child = desk.child("update", double.channel, *SIGNED, "--output", output, preexec_fn=hear_ctrl_c)
        try:
            assert asked.wait(60)
            child.send_signal(signal.SIGINT)
            out, err = child.communicate(timeout=60)
        finally:
            over.set()
            child.kill()
            child.wait()
        assert child.returncode == 130
        assert err.lstrip().splitlines()[0] == INTERRUPTED  # click ends the line of ^C
        assert "Traceback" not in err
        assert ('"code": "interrupted"' in out) == (output == "json")
        assert desk.state() == before
        assert all(request.startswith(("GET", "HEAD")) for request in double.asked)


def test_a_full_disk_leaves_the_layout_as_it_was(desk: Desk) -> None:
    desk.init()
    before = desk.state()
    size = max(len(content) for content in before.values() if isinstance(content, bytes)) // 2

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    child = desk.child("update", CHANNEL, *SIGNED, preexec_fn=small_files)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 20, err
    assert out == ""
    assert err.startswith("error: registry: it cannot be written: File too large\n")
    assert err.endswith("(exit 20, code layout-unusable)\n")
    assert "Traceback" not in err
    assert desk.state() == before
    desk.ok("update", CHANNEL, *SIGNED)
    desk.ok("verify", CHANNEL, *TRUSTED)


def test_a_full_disk_at_pull_leaves_nothing(desk: Desk) -> None:
    desk.init()
    before = desk.state()
    child = desk.child(
        "pull", CHANNEL, "out", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    )
    _, err = child.communicate(timeout=60)
    assert child.returncode == 2, err
    assert err.startswith("error: out cannot be written: File too large\n")
    assert desk.state() == before


@pytest.mark.parametrize(
    "arguments", [("render", "--flux-version", "v2.98.5"), ("--help",), ("config", "schema")], ids=" ".join
)
def test_output_that_cannot_be_written_is_one_message(desk: Desk, arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        child = desk.child(*arguments, stdout=full)
        _, err = child.communicate(timeout=60)
    assert child.returncode == 2, err
    assert "error: the output cannot be written: No space left on device\n" in err
    assert err.endswith("code output-unwritable)\n")
    assert "Traceback" not in err
    assert "bug" not in err
    assert "Exception ignored" not in err


def test_a_reader_who_leaves_is_no_error_to_talk_about(desk: Desk) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        child = desk.child("render", "--flux-version", "v2.98.5", stdout=writer)
    finally:
        os.close(writer)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 141
    assert "Traceback" not in err
    assert "error:" not in err
    assert "Exception ignored" not in err


@pytest.mark.parametrize("stream", [0, 1, 2])
@pytest.mark.parametrize(("channel", "code"), [(CHANNEL, 0), ("layout:nowhere:x", 20)])
def test_a_closed_stream_changes_nothing(desk: Desk, stream: int, channel: str, code: int) -> None:
    desk.init()
    child = desk.child("check", channel, *TRUSTED, preexec_fn=lambda: os.close(stream))
    _, err = child.communicate(timeout=60)
    assert child.returncode == code
    assert "Traceback" not in err


def test_the_module_and_the_script_are_the_same_program(desk: Desk) -> None:
    script = subprocess.run(
        [Path(sys.executable).with_name("flux-manifests"), "--version"], capture_output=True, check=True
    )
    child = desk.child("--version")
    assert child.communicate(timeout=60)[0].encode() == script.stdout


def test_on_a_terminal_the_table_is_drawn_and_progress_is_one_line(desk: Desk) -> None:
    desk.init()
    terminal, theirs = pty.openpty()
    desk.patch.setenv("TERM", "xterm")
    desk.patch.setenv("COLUMNS", "200")
    child = desk.child("check", CHANNEL, stdout=theirs, stderr=theirs)
    os.close(theirs)
    written = bytearray()
    with contextlib.suppress(OSError), open(terminal, "rb", buffering=0) as file:  # noqa: PTH123 - of a descriptor
        while piece := file.read(4096):
            written += piece
    assert child.wait(60) == 0
    text = written.decode()
    assert "\r\x1b[K" in text
    assert "reading layout:registry:production" in text
    assert "\x1b[33mpossible" in text
    assert "\x1b[33mneeds approval" in text


def at_terminal(desk: Desk, typed: str, *arguments: str) -> tuple[int, str, str]:
    """Return the exit code, the output and what a terminal shows of a command whose first question is answered."""
    terminal, theirs = pty.openpty()
    child = desk.child(*arguments, stdin=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    shown = bytearray()
    with contextlib.suppress(OSError), open(terminal, "r+b", buffering=0) as file:  # noqa: PTH123 - of a descriptor
        while piece := file.read(4096):
            shown += piece
            if typed and b": " in shown:
                file.write(f"{typed}\n".encode())
                typed = ""
    return child.wait(60), child.communicate()[0], shown.decode()


@pytest.mark.parametrize(
    "arguments",
    [
        ("public-key", "c.key"),
        ("check", CHANNEL, "--key", "c.key"),
        ("update", CHANNEL, "--signing", "key", "--key", "c.key"),
        ("update", CHANNEL, "--signing", "key", "--key", "c.key", *TRUSTED),
        ("update",),
    ],
    ids=["public-key", "check", "update", "trusted", "configured"],
)
def test_a_person_at_a_terminal_is_asked_once_for_the_password_of_a_key(desk: Desk, arguments: tuple[str, ...]) -> None:
    desk.init()
    desk.write("c.key", cosign_key("it"))
    if arguments == ("update",):
        entry = f"{{name: production, url: '{CHANNEL}'}}"
        desk.config(f"version: 1\ndefaults: {{signing: {{mode: key, key: c.key}}}}\nartifacts: [{entry}]\n")
    code, _, shown = at_terminal(desk, "it", *arguments)
    assert shown.count("Password of c.key: ") == 1
    assert "\nit" not in shown  # it is not echoed
    assert code == 0, shown


def test_a_wrong_password_is_told_and_a_key_without_one_asks_for_none(desk: Desk) -> None:
    desk.init()
    desk.write("c.key", cosign_key("it"))
    code, _, shown = at_terminal(desk, "not-it", "public-key", "c.key")
    assert (code, "the password does not open the key c.key" in shown) == (22, True)
    code, out, shown = at_terminal(desk, "", "public-key", "cosign.key")
    assert (code, "Password" in shown) == (0, False)
    assert out == (desk.folder / "cosign.pub").read_text()


@pytest.mark.parametrize(
    "arguments",
    [
        ("config", "validate"),
        ("config", "schema"),
        ("check", "production"),
        ("plan", "production"),
        ("update", "production"),
        ("verify", "production"),
        ("history", "production"),
    ],
    ids=" ".join,
)
def test_without_sigstore_nothing_imports_pydantic(desk: Desk, arguments: tuple[str, ...]) -> None:
    desk.init()
    trust = "signing: {mode: key, key: cosign.key}, verify: {publicKey: cosign.pub}"
    desk.config(f"version: 1\nartifacts: [{{name: production, url: '{CHANNEL}', {trust}}}]\n")
    desk.patch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    child = desk.child(*arguments)
    _, err = child.communicate(timeout=60)
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in err.splitlines()}
    assert child.returncode == 0, err
    assert "click" in imported
    assert not imported & {"pydantic", "sigstore"}
