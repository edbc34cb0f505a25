"""A release's own flux CLI: run only if upstream vouches for it, with nothing that it could use to do harm."""

from __future__ import annotations

import gzip
import json
import os
import platform
import resource
import socket
import struct
import subprocess
import sys
import tarfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ci_automation.flows.programs import confined, confinement, delegate
from ci_automation.flows.programs.delegate import Delegated, DelegationFailed
from ci_automation.flux.bundle import ManifestsBundle
from ci_automation.flux.options import COMPONENTS, Options
from ci_automation.flux.release import FetchedRelease, Release
from ci_automation.flux.render import components_header
from ci_automation.flux.version import Version
from tests.fakes.programs import (
    Packed,
    archive,
    denied,
    files_naming,
    has_landlock,
    launcher,
    listing,
    printing,
    program_name,
    python,
)
from tests.fakes.world import MemoryReleases, sample

if TYPE_CHECKING:
    from collections.abc import Iterator

TAG = "v2.98.9"
VERSION = Version.parse(TAG)
NAME = program_name(TAG)
HEAD = components_header(VERSION, Options().components)


@pytest.fixture(autouse=True)
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let programs in Python be run, which are not as frugal as upstream's."""
    monkeypatch.setattr(confinement, "LAUNCHER", launcher(tmp_path))


def release(data: bytes, name: str = NAME, vouched: str | None = "upstream") -> FetchedRelease:
    """Return a release whose checksums name one file."""
    bundle = ManifestsBundle.of(sample("v2.98.8").bundle)
    return FetchedRelease(
        Release(VERSION, datetime(2026, 1, 1, tzinfo=UTC)), bundle, "0" * 40, files_naming(name, data), vouched
    )


def run(*entries: Packed) -> Delegated:
    """Delegate to the program in an archive."""
    data = archive(*entries)
    return delegate.delegate(release(data), Options(), MemoryReleases(assets={(TAG, NAME): data}))


def tell(expression: str) -> Packed:
    """Return a program that prints a components file's head, and then a value as JSON."""
    return python(
        f"import json, os, resource, stat, sys\nsys.stdout.write({HEAD!r} + json.dumps({expression}) + '\\n')"
    )


def told(expression: str) -> Any:
    """Return what a program finds where it runs."""
    return json.loads(run(tell(expression)).text.removeprefix(HEAD))


class TestWhatItPrints:
    def test_is_what_is_rendered(self) -> None:
        assert run(printing(f"{HEAD}anything\n")).text == f"{HEAD}anything\n"

    def test_it_is_asked_for_every_option_by_its_flag(self) -> None:
        options = Options(
            components=COMPONENTS,
            namespace="gitops",
            registry="10.0.0.5:5000",
            image_pull_secret="regcred",
            watch_all_namespaces=False,
            network_policy=False,
            log_level="debug",
            cluster_domain="corp.local",
            toleration_keys=("a", "b/c"),
        )
        assert delegate.flux_arguments(options) == [
            "--cluster-domain=corp.local",
            f"--components={','.join(COMPONENTS)}",
            "--image-pull-secret=regcred",
            "--log-level=debug",
            "--namespace=gitops",
            "--network-policy=false",
            "--registry=10.0.0.5:5000",
            "--toleration-keys=a,b/c",
            "--watch-all-namespaces=false",
        ]

    def test_a_default_is_asked_for_too_but_nothing_empty(self) -> None:
        assert told("sys.argv[1:]") == [
            "install",
            "--export",
            "--cluster-domain=cluster.local",
            "--components=source-controller,kustomize-controller,helm-controller,notification-controller",
            "--log-level=info",
            "--namespace=flux-system",
            "--network-policy=true",
            "--registry=ghcr.io/fluxcd",
            "--watch-all-namespaces=true",
        ]

    @pytest.mark.parametrize(
        ("output", "reason"),
        [
            pytest.param("b''", "not a components file", id="nothing"),
            pytest.param(
                f"{components_header(Version.parse('2.98.8'), Options().components)!r}.encode()",
                "not a components file",
                id="another version",
            ),
            pytest.param(
                f"{components_header(VERSION, ('source-controller',))!r}.encode()",
                "not a components file",
                id="other components",
            ),
            pytest.param(f"{HEAD + 'cut off'!r}.encode()", "not a components file", id="no end"),
            pytest.param(rf"{HEAD!r}.encode() + b'\xff\n'", "not text", id="not UTF-8"),
        ],
    )
    def test_anything_else_than_the_components_file_is_refused(self, output: str, reason: str) -> None:
        with pytest.raises(DelegationFailed, match=reason):
            run(python(f"import os\nos.write(1, {output})"))


class TestWhetherItIsRun:
    def test_only_if_upstream_vouches_for_it(self) -> None:
        releases = MemoryReleases()
        with pytest.raises(DelegationFailed, match="signature on its checksums was not verified"):
            delegate.delegate(release(b"", vouched=None), Options(), releases)

    @pytest.mark.parametrize(
        ("machine", "name"),
        [("x86_64", "amd64"), ("aarch64", "arm64"), ("armv7l", "arm"), ("armv6l", "arm")],
    )
    def test_the_archive_for_the_machine_is_taken(
        self, machine: str, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(platform, "machine", lambda: machine)
        asked = program_name(TAG, name)
        with pytest.raises(DelegationFailed, match=f"the source of releases has no {asked}"):
            delegate.delegate(release(b"", asked), Options(), MemoryReleases())

    def test_not_on_a_machine_that_upstream_has_no_linux_program_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(platform, "machine", lambda: "riscv64")
        with pytest.raises(DelegationFailed, match="only runs it on Linux on x86_64, aarch64"):
            run(printing(HEAD))

    def test_not_elsewhere_than_on_linux(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "platform", "darwin")
        with pytest.raises(DelegationFailed, match="only runs it on Linux"):
            run(printing(HEAD))

    def test_not_if_the_checksums_do_not_name_it(self) -> None:
        with pytest.raises(DelegationFailed, match=f"its checksums do not list {NAME}"):
            delegate.delegate(release(b"", "manifests.tar.gz"), Options(), MemoryReleases(assets={(TAG, NAME): b""}))

    def test_not_if_it_is_another_than_the_checksums_say(self, tmp_path: Path) -> None:
        ran = tmp_path / "ran"
        evil = archive(python(f"open({str(ran)!r}, 'w')"))
        with pytest.raises(DelegationFailed, match=r"the sha256 of .* and its checksums say"):
            delegate.delegate(release(archive(printing(HEAD))), Options(), MemoryReleases(assets={(TAG, NAME): evil}))
        assert not ran.exists()


class TestItsArchive:
    @pytest.mark.parametrize(
        ("entries", "reason"),
        [
            pytest.param([], "no file flux", id="empty"),
            pytest.param([replace(printing(HEAD), name="bin/flux")], "no file flux", id="in a folder"),
            pytest.param([replace(printing(HEAD), name="../flux")], "no file flux", id="outside"),
            pytest.param([replace(printing(HEAD), name="/flux")], "no file flux", id="absolute"),
            pytest.param([Packed(content=b"/bin/true", kind=tarfile.SYMTYPE)], "no file flux", id="a link"),
            pytest.param([Packed(content=b"/bin/true", kind=tarfile.LNKTYPE)], "no file flux", id="a hard link"),
            pytest.param([Packed(kind=tarfile.DIRTYPE)], "no file flux", id="a folder"),
            pytest.param([Packed(kind=tarfile.FIFOTYPE)], "no file flux", id="a pipe"),
            pytest.param([Packed(f"x{n}") for n in range(16)] + [printing(HEAD)], "no file flux", id="too far behind"),
            pytest.param([Packed(content=b"\x7fnot a program")], "Exec format error", id="no program"),
        ],
    )
    def test_is_refused_if_it_has_no_program(self, entries: list[Packed], reason: str) -> None:
        with pytest.raises(DelegationFailed, match=reason):
            run(*entries)

    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            pytest.param(b"", "cannot be unpacked", id="nothing"),
            pytest.param(b"PK\x03\x04", "cannot be unpacked", id="not gzip"),
            pytest.param(archive(printing(HEAD))[:-40], "cannot be unpacked", id="cut off"),
            pytest.param(gzip.compress(b"no tar" * 200), "cannot be unpacked", id="no tar"),
            pytest.param(b"\x1f\x8b\x08\0\0\0\0\0\0\xff\xff\xff\xff", "cannot be unpacked", id="no deflate"),
        ],
    )
    def test_is_refused_if_it_is_broken(self, data: bytes, reason: str) -> None:
        with pytest.raises(DelegationFailed, match=reason):
            delegate.delegate(release(data), Options(), MemoryReleases(assets={(TAG, NAME): data}))

    @pytest.mark.parametrize("name", ["flux", "something else"])
    def test_is_not_unpacked_without_end(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(delegate, "MAX_PROGRAM_BYTES", 1 << 16)
        with pytest.raises(DelegationFailed, match="unpacks to more than 65536 bytes"):
            run(Packed(name, bytes(1 << 20)))

    def test_leaves_nothing_but_the_program(self) -> None:
        others = [Packed("LICENSE", b"x"), Packed("../escaped", b"x"), Packed("etc", b"/etc", tarfile.SYMTYPE)]
        found = run(*others, tell("[os.getcwd(), os.listdir(), stat.filemode(os.stat('.').st_mode)]")).text
        folder, files, mode = json.loads(found.removeprefix(HEAD))
        assert (files, mode) == (["flux"], "drwx------")
        assert not Path(folder).exists()
        assert not (Path(folder).parent / "escaped").exists()


class TestWhatItHas:
    def test_nothing_of_our_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("GITHUB_TOKEN", "COSIGN_PASSWORD", "AWS_SECRET_ACCESS_KEY", "KUBECONFIG"):
            monkeypatch.setenv(name, "canary")
        monkeypatch.setenv("LD_LIBRARY_PATH", "/nowhere")
        where, environment = told("[os.getcwd(), open('/proc/self/environ').read()]")
        assert sorted(environment.strip("\0").split("\0")) == [f"HOME={where}", f"TMPDIR={where}"]

    def test_no_input(self, tmp_path: Path) -> None:
        (tmp_path / "ours").touch()
        before, ours = os.dup(0), os.open(tmp_path / "ours", os.O_RDONLY)
        try:
            os.dup2(ours, 0)
            assert told("os.readlink('/proc/self/fd/0')") == "/dev/null"
        finally:
            os.dup2(before, 0)
            os.close(before)
            os.close(ours)

    def test_no_file_of_ours(self) -> None:
        assert told("[n for n in range(3, 1000) if os.path.exists(f'/proc/self/fd/{n}')]") == []

    def test_a_group_of_its_own(self) -> None:
        assert told("os.getpgid(0) == os.getpid()") is True

    def test_limits(self) -> None:
        limits = told(
            "{n: resource.getrlimit(getattr(resource, n))[0] for n in"
            " ('RLIMIT_CPU', 'RLIMIT_FSIZE', 'RLIMIT_DATA', 'RLIMIT_AS', 'RLIMIT_CORE')}"
        )
        assert limits == {
            "RLIMIT_CPU": 60,
            "RLIMIT_FSIZE": 10 << 20,
            "RLIMIT_DATA": 1 << 30,
            "RLIMIT_AS": 4 << 30,
            "RLIMIT_CORE": 0,
        }

    def test_no_more_memory_than_that(self) -> None:
        with pytest.raises(DelegationFailed, match="it ended with the code 1"):
            run(python("bytearray(2 << 30)"))

    def test_no_privilege_and_no_way_to_one(self) -> None:
        status = dict(line.split(":\t", 1) for line in told("open('/proc/self/status').read()").splitlines())
        assert int(status["CapPrm"], 16) == int(status["CapEff"], 16) == 0
        assert status["NoNewPrivs"] == "1"

    @pytest.mark.parametrize("without", ["deny_files", "own_name_space"])
    def test_no_look_into_our_process(self, without: str, monkeypatch: pytest.MonkeyPatch) -> None:
        if not (has_name_spaces() if without == "deny_files" else has_landlock()):
            pytest.skip("this kernel does not have the other way")
        deny(monkeypatch, without)
        assert json.loads(run(LOOK).text.removeprefix(HEAD)) is False

    def test_no_look_into_it_where_the_kernel_helps_with_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        deny(monkeypatch, "deny_files", "own_name_space")
        assert json.loads(run(LOOK).text.removeprefix(HEAD)) is False

    def test_our_process_is_closed_as_long_as_it_runs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen = []

        class Watched(subprocess.Popen[bytes]):
            def wait(self, timeout: float | None = None) -> int:
                seen.append(dumpable())
                return super().wait(timeout)

        monkeypatch.setattr(subprocess, "Popen", Watched)
        confined.control(4, 1)  # PR_SET_DUMPABLE
        run(printing(f"{HEAD}anything\n"))
        assert set(seen) == {0}
        assert dumpable() == 1


LOOK = python(f"""
import json, os
try:
    seen = bool(open(f"/proc/{{os.getppid()}}/environ").read())
except OSError:
    seen = False
print({HEAD!r} + json.dumps(seen))
""")


def dumpable() -> int:
    """Return whether other processes of the same user may look into this one (prctl, PR_GET_DUMPABLE)."""
    return confined.control(3)


def has_name_spaces() -> bool:
    """Return whether this kernel gives everybody a user name space."""
    child = os.fork()
    if child == 0:
        os._exit(0 if confined.own_name_space() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def deny(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Let the kernel not allow some of the ways to cut a program off."""
    monkeypatch.setattr(confinement, "LAUNCHER", denied(confinement.LAUNCHER, *names))


TRY = """
import json, os, sys
there, done = {there!r}, []
def attempt(what, *arguments):
    try:
        what(*arguments)
    except OSError:
        return
    done.append(what.__name__)
def read(path):
    open(path).read()
def append(path):
    open(path, "a").write("X=1")
def create(path):
    open(path, "x")
attempt(read, there + "/secret")
attempt(append, there + "/profile")
attempt(create, there + "/new")
attempt(os.listdir, there)
attempt(os.truncate, there + "/profile", 0)
attempt(os.rename, there + "/profile", there + "/gone")
attempt(os.link, there + "/secret", "mine")
attempt(os.symlink, "secret", there + "/link")
attempt(os.mkdir, there + "/folder")
attempt(os.unlink, there + "/secret")
attempt(create, "own")
attempt(read, "own")
print({head!r} + json.dumps(done))
"""


class TestFiles:
    """Landlock: none but those in its own folder."""

    @pytest.fixture
    def there(self, tmp_path: Path) -> Path:
        """Return a folder of the user's."""
        folder = tmp_path / "home"
        folder.mkdir()
        (folder / "secret").write_text("canary")
        (folder / "profile").write_text("PATH=/bin")
        return folder

    def test_are_out_of_reach_but_for_its_own(self, there: Path) -> None:
        if not has_landlock():
            pytest.skip("this kernel has no Landlock")
        made = run(python(TRY.format(head=HEAD, there=str(there))))
        assert json.loads(made.text.removeprefix(HEAD)) == ["create", "read"]
        assert sorted(path.name for path in there.iterdir()) == ["profile", "secret"]
        assert (there / "profile").read_text() == "PATH=/bin"
        assert not made.files_in_reach

    def test_are_no_programs_either(self, monkeypatch: pytest.MonkeyPatch) -> None:
        if not has_landlock():
            pytest.skip("this kernel has no Landlock")
        monkeypatch.setattr(confinement, "LAUNCHER", Path(confined.__file__))  # as it is: without Python's own files
        with pytest.raises(DelegationFailed, match="it could not be started: Permission denied"):
            run(printing(HEAD))

    def test_where_they_cannot_be_cut_off_it_is_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        deny(monkeypatch, "deny_files")
        assert run(printing(f"{HEAD}anything\n")).files_in_reach

    def test_where_they_cannot_be_cut_off_it_gets_no_flag_that_nobody_knows(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        deny(monkeypatch, "deny_files")
        data = archive(listing(HEAD, "from-file"))
        options = Options(others=(("from-file", str(tmp_path)),))
        with pytest.raises(DelegationFailed, match="cannot keep it from your files, so this run gives it no flag"):
            delegate.delegate(release(data), options, MemoryReleases(assets={(TAG, NAME): data}))

    @pytest.mark.parametrize(
        ("version", "enough"), [(-1, False), (1, False), (2, False), (3, True), (4, True), (5, True), (9, True)]
    )
    def test_a_kernel_that_knows_too_few_kinds_of_access_is_not_enough(
        self, version: int, enough: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The third version has truncation. To an older one, nothing is said that it does not know."""
        calls: list[tuple[Any, ...]] = []

        def call(*values: Any) -> int:
            calls.append(values)
            return version if len(calls) == 1 else min(version, 0)

        monkeypatch.setattr(confined, "_call", call)
        assert confined.deny_files({str(tmp_path): -1}) is enough
        rights, network, scopes = struct.unpack("=QQQ", calls[1][1])
        known = {-1: 0, 1: 13, 2: 14, 3: 15, 4: 15, 5: 16, 9: 16}[version]
        assert (rights, network, scopes) == ((1 << known) - 1, 0, 3 if version >= 6 else 0)


CONNECT = """
import json, socket
def attempt(family, address):
    try:
        socket.socket(family).connect(address)
    except OSError:
        return False
    return True
reached = [attempt(socket.AF_INET, ("127.0.0.1", {port})), attempt(socket.AF_UNIX, {path!r})]
print({head!r} + json.dumps(reached))
"""


class TestTheNetwork:
    @pytest.fixture
    def connect(self, tmp_path: Path) -> Iterator[Packed]:
        """Yield a program that connects to a port and to a file, where somebody listens."""
        path = str(tmp_path / "socket")
        with socket.create_server(("127.0.0.1", 0)) as network, socket.socket(socket.AF_UNIX) as file:
            file.bind(path)
            file.listen()
            yield python(CONNECT.format(head=HEAD, port=network.getsockname()[1], path=path))

    @pytest.mark.parametrize(
        "without", [(), ("own_name_space",)], ids=["both ways", "a filter alone, as in a container"]
    )
    def test_is_out_of_reach(self, connect: Packed, without: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
        deny(monkeypatch, *without)
        assert json.loads(run(connect).text.removeprefix(HEAD)) == [False, False]

    def test_where_it_cannot_be_cut_off_nothing_is_run(self, connect: Packed, monkeypatch: pytest.MonkeyPatch) -> None:
        deny(monkeypatch, "deny_calls")
        with pytest.raises(DelegationFailed, match="could not be started: the kernel cannot keep it from network"):
            run(connect)


class TestHowItEnds:
    @pytest.mark.parametrize(
        ("program", "reason"),
        [
            pytest.param(
                python("import sys\nsys.exit('✗ flux: \\x1b[31mno such flag\\nsecond line')"),
                r"it ended with the code 1: ✗ flux: \?\[31mno such flag$",
                id="with an error",
            ),
            pytest.param(python("import sys\nsys.exit(7)"), "the code 7: it did not say why", id="without a word"),
            pytest.param(python("import os\nos.kill(os.getpid(), 9)"), "ended by the signal 9", id="by a signal"),
            pytest.param(
                python("import sys\nwhile True: sys.stdout.buffer.write(bytes(1 << 16))"),
                "it ended with",
                id="by its output",
            ),
            pytest.param(
                python("import os\ntry:\n    while True: os.write(1, bytes(1 << 16))\nexcept OSError: pass"),
                "it printed 10485760 bytes or more",
                id="with all the output there may be",
            ),
            pytest.param(
                python("import os, resource\nresource.setrlimit(resource.RLIMIT_CPU, (1, 1))\nwhile True: pass"),
                "ended by the signal",
                id="by the processor's limit",
            ),
        ],
    )
    def test_is_told(self, program: Packed, reason: str) -> None:
        with pytest.raises(DelegationFailed, match=reason):
            run(program)

    def test_it_is_stopped_after_a_while(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(delegate, "_SECONDS", 0.5)
        with pytest.raises(DelegationFailed, match=r"it was stopped after 0\.5 seconds"):
            run(python("import time\ntime.sleep(600)"))


def test_a_limit_that_is_lower_already_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = confinement.LAUNCHER.read_text()
    lowered = "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))"
    (tmp_path / "confined.py").write_text(text.replace("    os.umask(", f"    {lowered}\n    os.umask("))
    monkeypatch.setattr(confinement, "LAUNCHER", tmp_path / "confined.py")
    assert told("resource.getrlimit(resource.RLIMIT_FSIZE)") == [4096, 4096]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] != 4096
