"""kustomize as a program: what it is given, what it cannot reach, and how every way that it ends is told."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from pathlib import Path
from threading import Event, Thread, current_thread
from threading import enumerate as enumerate_threads
from typing import TYPE_CHECKING, Any

import pytest

from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.flows.programs import confined, confinement, kustomize
from ci_automation.flows.programs.kustomize import Confined, find_kustomize
from ci_automation.impact.overlay.builder import BuildFailed, KustomizeUnusable
from tests.fakes.programs import denied, has_landlock, launcher, python

if TYPE_CHECKING:
    from collections.abc import Callable

TREE = Tree(
    (TreeFile("kustomization.yaml", b"resources: [a/map.yaml]\n"), TreeFile("a/map.yaml", b"kind: ConfigMap\n", True))
)

HELPED = "import sys\n'--help' in sys.argv and sys.exit()\n"


@pytest.fixture(autouse=True)
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let programs in Python be run, which are not as frugal as kustomize."""
    monkeypatch.setattr(confinement, "LAUNCHER", launcher(tmp_path))


@pytest.fixture
def stand_in(tmp_path: Path) -> Callable[[str], Confined]:
    """Return the function from a script to the program that it is."""

    def made(script: str) -> Confined:
        program = tmp_path / "stand-in"
        program.write_bytes(python(f"{HELPED}{script}").content)
        program.chmod(0o700)
        return Confined(program)

    return made


def build(program: Confined, tree: Tree, folder: str) -> str:
    """Return what a program builds."""
    (built,) = program.builds([(tree, folder)])
    if isinstance(built, str):
        return built
    raise built


def told(program: Confined, folder: str = ".") -> Any:
    """Return what a program finds where it runs."""
    return json.loads(build(program, TREE, folder))


class TestWhatItIsGiven:
    def test_the_files_and_the_folder_to_build(self, stand_in: Callable[[str], Confined]) -> None:
        program = stand_in("""
import json, os, sys
root = sys.argv[2]
files = {os.path.relpath(os.path.join(here, name), root): open(os.path.join(here, name)).read()
         for here, _, names in os.walk(root) for name in names}
print(json.dumps([sys.argv[1], files]))
""")
        assert told(program) == ["build", {file.path: file.content.decode() for file in TREE.files}]

    def test_a_folder_below(self, stand_in: Callable[[str], Confined]) -> None:
        program = stand_in("import json, os, sys\nprint(json.dumps([os.listdir(sys.argv[2]), len(sys.argv)]))")
        assert told(program, "a") == [["map.yaml"], 3]

    def test_nothing_of_our_environment(
        self, stand_in: Callable[[str], Confined], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("GITHUB_TOKEN", "KUSTOMIZE_PLUGIN_HOME", "XDG_CONFIG_HOME", "PATH"):
            monkeypatch.setenv(name, f"canary-{name}")
        program = stand_in("import json\nprint(json.dumps(open('/proc/self/environ').read().split(chr(0))))")
        assert sorted(line.partition("=")[0] for line in told(program) if line) == ["HOME", "TMPDIR"]

    def test_no_plugin_no_program_and_no_chart(self, stand_in: Callable[[str], Confined]) -> None:
        """They are off unless asked for, and nothing of them is asked for."""
        program = stand_in("import json, sys\nprint(json.dumps([a for a in sys.argv[1:] if a.startswith('-')]))")
        assert told(program) == []

    def test_nothing_of_it_stays(self, stand_in: Callable[[str], Confined]) -> None:
        folder = told(stand_in("import json, os\nprint(json.dumps(os.getcwd()))"))
        assert not Path(folder).exists()

    def test_files_that_cannot_be_written_are_an_error(self, stand_in: Callable[[str], Confined]) -> None:
        tree = Tree((TreeFile("a" * 300, b""),))
        with pytest.raises(BuildFailed, match="cannot be written down for kustomize: File name too long"):
            build(stand_in(""), tree, ".")


class TestWhatItReaches:
    def test_no_file_of_ours(self, stand_in: Callable[[str], Confined], tmp_path: Path) -> None:
        if not has_landlock():
            pytest.skip("this kernel has no Landlock")
        secret = tmp_path / "secret"
        secret.write_text("canary-file")
        with pytest.raises(BuildFailed, match="Permission denied"):
            build(stand_in(f"print(open({str(secret)!r}).read())"), TREE, ".")

    def test_no_network(self, stand_in: Callable[[str], Confined]) -> None:
        with pytest.raises(BuildFailed, match="Operation not permitted"):
            build(stand_in("import socket\nsocket.socket()"), TREE, ".")

    def test_its_own_program_is_not_the_one_that_the_next_run_has(self, stand_in: Callable[[str], Confined]) -> None:
        if not has_landlock():
            pytest.skip("this kernel has no Landlock")
        program = stand_in("open(sys.argv[0], 'a').write('x')")
        before = program.program.read_bytes()
        with pytest.raises(BuildFailed, match="Permission denied"):
            build(program, TREE, ".")
        assert program.program.read_bytes() == before

    def test_its_own_program_is_run_where_it_is(self, stand_in: Callable[[str], Confined]) -> None:
        """A copy for each build would be 30 MB."""
        program = stand_in("import json, os\nprint(json.dumps([sys.argv[0], os.listdir()]))")
        assert told(program) == [str(program.program), ["tree"]]


OUTSIDE = """
import sys
if "LoadRestrictionsNone" not in sys.argv:
    sys.exit("Error: security; file '/x/tree/cm.yaml' is not in or below '/x/tree/a'")
print("{}")
"""


class TestFilesBesideTheKustomizationsFolder:
    def test_are_taken_where_no_others_can_be_reached(self, stand_in: Callable[[str], Confined]) -> None:
        if not has_landlock():
            pytest.skip("this kernel has no Landlock")
        assert told(stand_in(OUTSIDE)) == {}

    def test_are_refused_where_others_could_be_reached(
        self, stand_in: Callable[[str], Confined], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(confinement, "LAUNCHER", denied(confinement.LAUNCHER, "deny_files"))
        with pytest.raises(BuildFailed, match="is not in or below"):
            build(stand_in(OUTSIDE), TREE, ".")


class TestHowItEnds:
    @pytest.mark.parametrize(
        ("script", "reason"),
        [
            pytest.param(
                "import sys\nsys.exit('# Warning: old\\nError: accumulating: no such \\x1b[31mfile\\n  and more')",
                r"^accumulating: no such \?\[31mfile and more$",
                id="with an error, after a warning",
            ),
            pytest.param(
                "import sys\nsys.exit(f\"Error: '{sys.argv[2]}/a/map.yaml' is no directory of '{sys.argv[2]}'\")",
                r"^'a/map.yaml' is no directory of '\.'$",
                id="with an error that names its own folder",
            ),
            pytest.param("import sys\nsys.exit('x' * 9999)", r"^x{500}$", id="with a very long error"),
            pytest.param("import sys\nsys.exit('panic: runtime')", r"^panic: runtime$", id="with a panic"),
            pytest.param("import sys\nsys.exit(7)", r"^kustomize ended with the code 7$", id="without a word"),
            pytest.param(
                "import os\nos.kill(os.getpid(), 9)", r"^kustomize was ended by the signal 9$", id="by a signal"
            ),
            pytest.param(
                "import os\ntry:\n    while True: os.write(1, bytes(1 << 16))\nexcept OSError: pass",
                r"^kustomize printed 10485760 bytes or more$",
                id="with all the output there may be",
            ),
            pytest.param(
                "import os\nos.write(1, b'\\xff')", r"^the output of kustomize is not text$", id="with no text"
            ),
            pytest.param("bytearray(2 << 30)", "MemoryError", id="with too much memory"),
        ],
    )
    def test_is_told(self, script: str, reason: str, stand_in: Callable[[str], Confined]) -> None:
        with pytest.raises(BuildFailed, match=reason):
            build(stand_in(script), TREE, ".")

    def test_it_is_stopped_after_a_while(
        self, stand_in: Callable[[str], Confined], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(kustomize, "_SECONDS", 0.5)
        with pytest.raises(BuildFailed, match=r"^kustomize was stopped after 0\.5 seconds$"):
            build(stand_in("import time\ntime.sleep(600)"), TREE, ".")


class TestAProgramThatCannotBeRun:
    """Nothing is said about the overlay then."""

    def test_a_shim_is_told(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(confinement, "LAUNCHER", Path(confined.__file__))  # as it is
        shim = tmp_path / "kustomize"
        shim.write_text('#!/usr/bin/env bash\nexec asdf exec "kustomize" "$@"\n')
        shim.chmod(0o755)
        if has_landlock():
            reason = re.escape(f"kustomize could not be started: {shim} is a script, such as version managers put")
            with pytest.raises(KustomizeUnusable, match=reason):
                build(Confined(shim), TREE, ".")

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            pytest.param(b"\x7fELF of another machine", "Exec format error", id="for another machine"),
            pytest.param(None, "No such file or directory", id="gone since"),
        ],
    )
    def test_one_that_the_kernel_does_not_take(self, content: bytes | None, reason: str, tmp_path: Path) -> None:
        program = tmp_path / "kustomize"
        if content is not None:
            program.write_bytes(content)
            program.chmod(0o755)
        with pytest.raises(KustomizeUnusable, match=f"^kustomize could not be started: {reason}$"):
            build(Confined(program), TREE, ".")

    @pytest.mark.parametrize(
        ("script", "reason"),
        [
            ("sys.exit('x: error while loading libc.so')", "x: error while loading libc.so"),
            ("sys.exit(127)", "the code 127"),
        ],
    )
    def test_one_that_does_not_even_help(
        self, script: str, reason: str, stand_in: Callable[[str], Confined], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(kustomize, "_is_script", lambda _: False)
        program = stand_in("")
        program.program.write_bytes(python(f"import sys\n{script}").content)
        for _ in range(2):
            with pytest.raises(KustomizeUnusable, match=f"^kustomize could not be started: .*{reason}$"):
                build(program, TREE, ".")

    def test_files_that_there_is_no_room_for(
        self, stand_in: Callable[[str], Confined], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(kustomize, "_write", full)
        with pytest.raises(KustomizeUnusable, match="cannot be written down for kustomize: No space left on device"):
            build(stand_in(""), TREE, ".")

    def test_kubectl_is_asked_by_its_own_command(self, stand_in: Callable[[str], Confined]) -> None:
        program = stand_in("import json\nprint(json.dumps(sys.argv[1]))").program
        assert told(Confined(program, "kustomize")) == "kustomize"

    @pytest.mark.parametrize(
        "said",
        [
            "# old\nerror: no such 'a b'",
            """E1122 03:27:00.959988 6599 run.go:72] "command failed" err="no such \\'a b\\'\"\n""",
            """E1122 03:27:00.959988 6599 run.go:72] "command failed" err=<\n\tno such\n\t'a b'\n >\n""",
        ],
        ids=["upstream's", "that of Google's SDK", "that in lines"],
    )
    def test_kubectls_errors_are_told_like_kustomizes(self, said: str, stand_in: Callable[[str], Confined]) -> None:
        program = stand_in(f"sys.exit({said!r})")
        with pytest.raises(BuildFailed, match=r"^no such 'a b'$"):
            build(program, TREE, ".")


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("kustomization.yaml", "secretGenerator: [{name: a, literals: ['canary-one two']}]\n"),
        ("kustomization.yaml", "patches: [{target: {kind: Secret}, patch: '[{op: test, value: canary-one}]'}]\n"),
        ("a/secret.yaml", "kind: Secret\nstringData: [canary-one]\n"),
    ],
)
def test_no_error_tells_what_is_in_a_secret(path: str, content: str, stand_in: Callable[[str], Confined]) -> None:
    """What kustomize 5.8 says of a literal without a name, and of a patch that it cannot read."""
    quoted = 'invalid literal source canary-one two, expected key=value in {path}: [patch: "{{op: test, canary-one}}"]'
    said = quoted.format(path=path)
    program = stand_in(f"sys.exit('Error: ' + {said!r} + 'x' * 300 + ' canary-one' * 20)")
    with pytest.raises(BuildFailed) as caught:
        build(program, TREE.replaced(path, content.encode()), ".")
    assert "canary" not in str(caught.value)
    assert str(caught.value).startswith("invalid literal source … ")
    assert path in str(caught.value)


class TestWhatItRemembers:
    def test_the_same_files_are_built_once(self, stand_in: Callable[[str], Confined]) -> None:
        program = stand_in("import os\nprint(os.urandom(8).hex())")
        first = build(program, TREE, ".")
        assert build(program, Tree(TREE.files[::-1]), ".") == first
        assert build(program, TREE, "a") != first
        assert build(program, TREE.replaced("a/map.yaml", b""), ".") != first

    def test_an_error_too(self, stand_in: Callable[[str], Confined]) -> None:
        program = stand_in("import os, sys\nsys.exit(os.urandom(8).hex())")
        said = set()
        for _ in range(2):
            with pytest.raises(BuildFailed) as caught:
                build(program, TREE, ".")
            said.add(str(caught.value))
        assert len(said) == 1

    def test_but_not_everything(self, stand_in: Callable[[str], Confined]) -> None:
        program = stand_in("import os\nprint(os.urandom(8).hex())")
        first = build(program, TREE, ".")
        for number in range(12):
            build(program, TREE.replaced("a/map.yaml", str(number).encode()), ".")
        assert len(program._built) == 12
        assert build(program, TREE, ".") != first


class TestSeveralAtOnce:
    def test_are_told_in_their_order(self, stand_in: Callable[[str], Confined]) -> None:
        program = stand_in("import os, sys\nprint(open(os.path.join(sys.argv[2], 'a/map.yaml')).read())")
        trees = [TREE.replaced("a/map.yaml", str(number).encode()) for number in range(6)]
        assert program.builds([(tree, ".") for tree in trees]) == tuple(f"{number}\n" for number in range(6))

    def test_the_failure_of_one_is_its_own(self, stand_in: Callable[[str], Confined]) -> None:
        program = stand_in("import sys\nsys.argv[2].endswith('a') and sys.exit('Error: no')\nprint(1)")
        good, bad = program.builds([(TREE, "."), (TREE, "a")])
        assert good == "1\n"
        assert isinstance(bad, BuildFailed)

    def test_a_person_who_stops_the_run_stops_them(
        self, stand_in: Callable[[str], Confined], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        program = stand_in("import time\ntime.sleep(600)")
        ended: list[int | None] = []
        run = confinement.run_confined

        def watched(command: list[str], folder: Path, seconds: float, started: Callable[[Any], None]) -> Any:
            def begun(process: object) -> None:
                started(process)
                began.set()

            found = run(command, folder, seconds, begun)
            ended.append(found.code)
            return found

        def stopped(_: Thread) -> None:
            began.wait()
            raise KeyboardInterrupt

        began = Event()
        monkeypatch.setattr(confinement, "run_confined", watched)
        with monkeypatch.context() as patch:
            patch.setattr(Thread, "join", stopped)
            with pytest.raises(KeyboardInterrupt):
                program.builds([(TREE, ".")])
        for thread in threads():
            thread.join()
        assert ended[0] == -9


def threads() -> list[Thread]:
    """Return the threads beside this one."""
    return [each for each in enumerate_threads() if each is not current_thread() and not each.daemon]


def placed(program: Path, content: bytes = b"\x7fELF") -> Path:
    """Return the path of a program, once it is there."""
    program.write_bytes(content)
    program.chmod(0o755)
    return program


class TestWhereItIs:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        """Return a folder with a program of that name."""
        (tmp_path / "bin").mkdir()
        placed(tmp_path / "bin" / "kustomize")
        return tmp_path / "bin"

    def test_on_the_path(self, folder: Path) -> None:
        found = find_kustomize({"PATH": f"/nowhere{os.pathsep}{folder}"})
        assert found == Confined(folder / "kustomize")

    def test_the_image_s_own_comes_first(self, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        other = tmp_path / "other"
        other.mkdir()
        (folder / "kustomize").rename(other / "kustomize")
        (folder / "kustomize").symlink_to(other / "kustomize")
        monkeypatch.setattr(kustomize, "_OF_THE_IMAGE", str(other))
        assert find_kustomize({"PATH": str(folder)}) == Confined(other / "kustomize")

    def test_in_kubectl_where_there_is_no_other(self, folder: Path, tmp_path: Path) -> None:
        kubectl = placed(tmp_path / "kubectl")
        assert find_kustomize({"PATH": str(tmp_path)}) == Confined(kubectl, "kustomize")
        assert find_kustomize({"PATH": f"{tmp_path}{os.pathsep}{folder}"}) == Confined(folder / "kustomize")

    def test_a_script_comes_last(self, folder: Path, tmp_path: Path) -> None:
        shims = tmp_path / "shims"
        shims.mkdir()
        shim = placed(shims / "kustomize", b"#!/bin/sh\n")
        assert find_kustomize({"PATH": f"{shims}{os.pathsep}{folder}"}) == Confined(folder / "kustomize")
        assert find_kustomize({"PATH": str(shims)}) == Confined(shim)

    def test_one_that_cannot_be_read_is_still_found(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refused(*_: object) -> None:
            raise PermissionError

        monkeypatch.setattr(Path, "open", refused)
        assert find_kustomize({"PATH": str(folder)}) == Confined(folder / "kustomize")

    def test_nowhere(self, tmp_path: Path) -> None:
        assert find_kustomize({}) is None
        assert find_kustomize({"PATH": str(tmp_path)}) is None

    def test_not_in_the_folder_that_the_job_happens_to_be_in(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(folder)
        assert find_kustomize({"PATH": f".{os.pathsep}"}) is None

    def test_not_where_it_cannot_be_confined(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "platform", "darwin")
        assert find_kustomize({"PATH": str(folder)}) is None
