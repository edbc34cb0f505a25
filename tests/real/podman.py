"""Containers without a registry: the base image, the action's image, one run of it, and act, which runs workflows.

Images are kept beside the peers, apart from those of whoever runs the tests. An image's tag is the hash of what it is
made from, so that an unchanged tree is not built again.
"""

from __future__ import annotations

import ast
import atexit
import fcntl
import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.real.peers import BY_NAME, ROOT, cache, peer
from tests.real.processes import Daemon, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

# Neither a network of containers nor a daemon of the system's is needed: what runs in a container speaks to loopback.
CONTAINERS = """\
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]
netns = "host"
[network]
network_backend = "netavark"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
STORAGE = """\
[storage]
driver = "overlay"
graphroot = "{folder}/storage"
runroot = "{folder}/run"
"""
BUILD = 900.0
RUN = 120.0
# What the image is made from, as `.dockerignore` has it.
SOURCES = (
    "Dockerfile",
    ".dockerignore",
    "pyproject.toml",
    "README.md",
    "requirements",
    "ci_automation",
    "workflows",
    "image",
)
# The variables of whoever runs the tests that a program here may see.
KEPT = ("PATH", "TMPDIR")


@dataclass(frozen=True, slots=True)
class Done:
    """How a container ended, and what it said."""

    code: int
    output: str
    errors: str


def containers() -> Path:
    """Return the folder that holds the images, and the settings that keep them there."""
    folder = cache() / "containers"
    folder.mkdir(parents=True, exist_ok=True)
    files = {"containers.conf": CONTAINERS, "storage.conf": STORAGE.format(folder=folder), "auth.json": "{}\n"}
    for name, text in files.items():
        path = folder / name
        if not path.is_file() or path.read_text() != text:
            path.write_text(text)
    return folder


def environment() -> dict[str, str]:
    """Return the variables by which podman finds its settings, and no credentials."""
    folder = containers()
    return {
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
        "REGISTRY_AUTH_FILE": str(folder / "auth.json"),
        # Podman tells act before each step which packages its helpers are of, and dpkg reads thousands of lists for it.
        "DPKG_ADMINDIR": str(folder / "no-packages"),
    }


def podman(*arguments: object) -> str:
    """Return what a podman command prints.

    Raises:
        ProgramFailed: it ended with an error.
        PeerMissing: there is no podman here, or no runc.
    """
    peer("runc")
    return run([peer("podman"), *arguments], **environment())


def exists(image: str) -> bool:
    """Tell whether there is an image of that name."""
    return bool(podman("images", "--quiet", "--filter", f"reference={image}").strip())


@contextmanager
def alone(doing: str) -> Iterator[None]:
    """Keep every other process from doing the same."""
    with (containers() / f".{doing}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def base() -> str:
    """Return the name of the image that others start from, and that jobs run in; it is imported where it is missing."""
    name = f"localhost/base:{BY_NAME['base'].version}"
    if not exists(name):
        with alone("images"):
            podman("import", "--quiet", peer("base") / "root.tar", name)
    return name


def image(requirements: str = "runtime", *, again: bool = False) -> str:
    """Return the name of the action's image, built where there is none of this tree yet.

    Args:
        requirements: `runtime`, or `kms` for the image with the clients of the cloud key services.
        again: another one of the same tree, of which no layer was taken from the first.
    """
    start = base()
    tree, made_from = snapshot()
    others = f"{podman('image', 'inspect', '--format', '{{.Id}}', start)} {BY_NAME['kustomize'].version}"
    mark = hashlib.sha256(f"{made_from} {others}".encode()).hexdigest()[:12]
    name = f"localhost/flux-manifests:{mark}-{requirements}{'-again' if again else ''}"
    if not exists(name):
        with alone("images"):
            if again:
                _remove("localhost/flux-manifests:*-again")  # nothing of theirs is shared, so they are large
            more = ("--no-cache", "--layers=false") if again else ()
            _build(tree, name, {"BASE": start, "REQUIREMENTS": requirements}, more)
    return name


@functools.cache
def snapshot() -> tuple[Path, str]:
    """Return a copy of what images are made from, and its hash: what one process tests does not change under it."""
    folder = Path(tempfile.mkdtemp(prefix="image-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(ROOT / name, folder / name)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    lines = (f"{path.relative_to(folder)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n" for path in files)
    return folder, hashlib.sha256("".join(lines).encode()).hexdigest()


def _remove(reference: str) -> None:
    if found := podman("images", "--quiet", "--filter", f"reference={reference}").split():
        podman("rmi", "--force", *found)


def _build(tree: Path, name: str, arguments: Mapping[str, str], more: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        command: list[object] = [peer("podman"), "build", "--isolation", "chroot", "--network", "host", *more]
        command += [f"--build-arg={key}={value}" for key, value in arguments.items()]
        command += [f"--volume={volume}" for volume in pip_settings(Path(scratch))]
        command += [f"--build-context=kustomize={peer('kustomize').parent}", f"--tag={name}", tree]
        log = containers() / "build.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [str(part) for part in command], env=dict(os.environ) | environment(), stdout=output, stderr=output
            )
            ended = process.wait(BUILD)
    assert ended == 0, f"the image was not built, {log} ends:\n{log.read_text(errors='replace')[-4000:]}"


def pip_settings(folder: Path) -> tuple[str, ...]:
    """Return the volumes by which pip in a build is set up as the one here is, after writing its file into `folder`."""
    settings: dict[str, str] = {}
    listed = run([sys.executable, "-m", "pip", "config", "list"]).splitlines()
    # Variables of the environment come last: they win.
    for line in sorted(listed, key=lambda line: line.startswith(":env:")):
        name, _, value = line.partition("=")
        settings[name.rpartition(".")[2]] = str(ast.literal_eval(value))
    path = folder / "pip.conf"
    path.write_text("\n".join(["[global]", *(f"{name} = {value}" for name, value in settings.items()), ""]))
    named = {word for value in settings.values() for word in value.split() if word.startswith("/")}
    return (f"{path}:/etc/pip.conf:ro", *(f"{word}:{word}:ro" for word in sorted(named) if Path(word).exists()))


def container(
    name: str,
    *arguments: object,
    variables: Mapping[str, str] | None = None,
    volumes: Sequence[str] = (),
    options: Sequence[str] = (),
) -> Done:
    """Return how a container of that image ended, which is gone then; it shares the network of the machine."""
    command: list[object] = [peer("podman"), "run", "--rm", "--network", "host", "--http-proxy=false"]
    command += [f"--env={key}={value}" for key, value in (variables or {}).items()]
    command += [f"--volume={volume}" for volume in volumes]
    command += [*options, name, *arguments]
    done = subprocess.run(
        [str(part) for part in command],
        env=dict(os.environ) | environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


@contextmanager
def service(folder: Path) -> Iterator[str]:
    """Yield the address (`DOCKER_HOST`) at which podman speaks docker's API, for as long as the block lasts.

    `folder` is for its log. The socket is elsewhere: the path of one is short.
    """
    peer("runc")
    base()
    with tempfile.TemporaryDirectory(prefix="podman-") as place:
        socket = Path(place) / "s"
        command = [peer("podman"), "system", "service", "--time", "0", f"unix://{socket}"]
        with Daemon(command, folder / "podman.log", environment()) as daemon:
            daemon.wait_until(lambda: socket.is_socket() or None, 10, "its socket")
            yield f"unix://{socket}"


@dataclass(frozen=True, slots=True)
class Acted:
    """How act ended, and what it wrote, an entry a line."""

    code: int
    entries: tuple[dict[str, Any], ...]
    errors: str

    @property
    def jobs(self) -> dict[str, str]:
        """The results of the jobs (`success`, `failure`) by their id; the jobs of a called workflow have their own."""
        return {entry["jobID"]: entry["jobResult"] for entry in self.entries if "jobResult" in entry}

    def outputs(self, job: str, step: str) -> dict[str, str]:
        """Return the outputs of a step, by their names."""
        said = (entry for entry in self._of(job, step) if entry.get("command") == "set-output")
        return {entry["name"]: entry["arg"] for entry in said}

    def summary(self, job: str, step: str) -> str:
        """Return what a step added to the summary of the job."""
        return "".join(entry["content"] for entry in self._of(job, step) if entry.get("command") == "summary")

    def said(self, job: str = "", step: str = "") -> str:
        """Return what the steps printed: all of them, those of a job, or just one."""
        return "".join(entry["msg"] for entry in self._of(job, step) if entry.get("raw_output"))

    @property
    def text(self) -> str:
        """All that act wrote, for a person."""
        return "\n".join([str(entry.get("msg", "")).rstrip("\n") for entry in self.entries] + [self.errors])

    def _of(self, job: str, step: str) -> Iterator[dict[str, Any]]:
        for entry in self.entries:
            if (not job or entry.get("jobID") == job) and (not step or entry.get("stepID", [""])[-1] == step):
                yield entry


@dataclass(frozen=True, slots=True)
class Event:
    """What a workflow runs for: the event's name, its payload, and the run's own number."""

    name: str
    payload: Mapping[str, Any]
    actor: str = "someone"
    run: int = 1


def act(
    service: str,
    folder: Path,
    event: Event,
    *,
    workflow: str = "",
    variables: Mapping[str, str] | None = None,
    secrets: Mapping[str, str] | None = None,
    repositories: Mapping[str, Path] | None = None,
    options: Sequence[str] = (),
    timeout: float = 600,
    seen: Callable[[dict[str, Any]], None] = lambda _: None,
) -> Acted:
    """Return what came of running the workflows of the repository in `folder` for an event, in containers of `service`.

    The repository's `origin` and HEAD are the job's `github.repository`, `sha` and `ref`. `actions/checkout` is that
    folder. act knows no permissions, no environments and no concurrency groups.

    Args:
        service: what `service()` yields.
        folder: the repository's working tree.
        event: what happened.
        workflow: the one file that is run, from the folder on; all that the event starts without it.
        variables: variables of every step; those that GitHub sets, such as `GITHUB_API_URL`, can be among them.
        secrets: the secrets, by name; they are no part of the command line.
        repositories: the folders in place of `OWNER/NAME@REF`, which actions and reusable workflows come from. Each is
            a git repository.
        options: more of act's.
        timeout: seconds.
        seen: what is told of each entry when act writes it, while the jobs run.
    """
    entries: list[dict[str, Any]] = []
    errors: list[str] = []
    with tempfile.TemporaryDirectory(prefix="act-") as scratch:
        payload = Path(scratch) / "event.json"
        payload.write_text(json.dumps(event.payload))
        command: list[object] = [peer("act"), event.name, "--json", "--rm", "--no-cache-server", "--pull=false"]
        command += ["--network", "host", "--platform", f"ubuntu-latest={base()}", "--container-daemon-socket", "-"]
        command += ["--actor", event.actor, "--eventpath", payload, "--env", f"GITHUB_RUN_ID={event.run}"]
        # Not on the command line, which everybody can read.
        settings = Path(scratch) / "variables"
        settings.write_text("".join(f"{name}={value}\n" for name, value in (variables or {}).items()))
        command += ["--env-file", settings]
        command += [f"--secret={name}" for name in secrets or ()]
        command += [f"--local-repository={name}={place}" for name, place in (repositories or {}).items()]
        command += ["--workflows", workflow] if workflow else []
        # Nothing of whoever runs the tests is seen: neither a proxy nor settings of act's.
        own = {name: os.environ[name] for name in KEPT if name in os.environ}
        log = Path(scratch) / "errors"
        with (
            alone("act"),  # whose containers are named by workflow and job
            log.open("w") as output,
            subprocess.Popen(
                [str(part) for part in (*command, *options)],
                cwd=folder,
                env=own | {"HOME": scratch, "DOCKER_HOST": service} | dict(secrets or {}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
            ) as process,
        ):
            alarm = threading.Timer(timeout, process.kill)
            alarm.start()
            for line in process.stdout or ():
                try:
                    entries.append(json.loads(line))
                except ValueError:
                    errors.append(line)
                else:
                    seen(entries[-1])
            code = process.wait()
            alarm.cancel()
        errors.append(log.read_text())
    return Acted(code, tuple(entries), "\n".join(errors))


def commit(folder: Path, origin: str = "") -> None:
    """Make a folder a git repository with one more commit of all that is in it; `origin` is its OWNER/NAME."""
    if not (folder / ".git").is_dir():
        run(["git", "-C", folder, "init", "--quiet", "--initial-branch", "main"])
        if origin:
            run(["git", "-C", folder, "remote", "add", "origin", f"https://github.com/{origin}.git"])
    run(["git", "-C", folder, "add", "--all"])
    who = ("-c", "user.name=someone", "-c", "user.email=someone@example.com")
    run(["git", "-C", folder, *who, "commit", "--quiet", "--allow-empty", "--message", "a change"])


def shallow(folder: Path, commit: bytes) -> None:
    """Let a git repository have this commit of the same files, without its parents, as actions/checkout fetches it."""
    made = ["git", "-C", str(folder), "hash-object", "-t", "commit", "-w", "--stdin"]
    sha = subprocess.run(made, input=commit, capture_output=True, check=True).stdout.decode().strip()
    (folder / ".git/shallow").write_text(f"{sha}\n")
    run(["git", "-C", folder, "update-ref", "HEAD", sha])
    assert not subprocess.run(
        ["git", "-C", str(folder), "status", "--porcelain"], capture_output=True, check=True
    ).stdout
