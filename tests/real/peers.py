"""The real programs that the real tier tests against, each built once, at one version, into the user's cache.

``python tests/real/peers.py [NAME ...]`` makes the missing ones (all of them, without a name). It needs Go, npm and
debootstrap, and nothing but Python's standard library and pip, so that it runs before anything is installed.

Some are no programs but folders with data: the system that container images start from, and npm packages.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).resolve().parent / "go"
LAST_LINES = 30
FLUX = "2.9.4"
CONTROLLERS = "1.9.1"
KUBERNETES = "1.34.2"
KUBERNETES_VERSION = "k8s.io/component-base/version"


class PeerMissing(Exception):
    """A peer is not there; the message has the command that brings it."""


class BuildFailed(Exception):
    """A peer could not be built; the message says why, or where the log is."""


def cache() -> Path:
    """Return the folder that holds the peers, outside the repository so that a fresh clone finds them built."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "flux-manifests-peers"


def flux_releases() -> Path:
    """Return the folder with the files that the Flux releases publish, one folder a tag."""
    return Path(os.environ.get("FLUX_RELEASES") or ROOT.parent / "shared" / "flux" / "releases").resolve()


@dataclass(frozen=True, slots=True)
class Shop:
    """One build: a scratch folder on the cache's file system, and the log that all commands write to."""

    scratch: Path
    log: Path

    def go(self, *arguments: str, folder: Path | None = None, **settings: str) -> None:
        """Run the go command, its output in the log.

        Raises:
            BuildFailed: it said no; the message has the log's last lines.
        """
        self.run("go", *arguments, folder=folder, environment=go_environment() | settings)

    def run(self, *command: str, folder: Path | None = None, environment: Mapping[str, str] | None = None) -> None:
        """Run a program, its output in the log.

        Raises:
            BuildFailed: it is not there, or said no; the message has the log's last lines.
        """
        if shutil.which(command[0]) is None:
            message = f"{command[0]} is not on the PATH"
            raise BuildFailed(message)
        with self.log.open("a") as log:
            log.write(f"$ {' '.join(command)}\n")
            log.flush()
            done = subprocess.run(command, cwd=folder, env=environment, stdout=log, stderr=log, check=False)
        if done.returncode:
            tail = self.log.read_text(errors="replace").splitlines()[-LAST_LINES:]
            what = " ".join([Path(command[0]).name, *command[1:2]])
            message = "\n".join([f"{what} failed, its whole output is in {self.log}", *tail])
            raise BuildFailed(message)

    def source(self, module: str, version: str, checksum: str = "") -> Path:
        """Return a writable copy of a module's source.

        `checksum` is the module's line in a go.sum: needed for those that the public checksum database lacks.

        Raises:
            BuildFailed: the module cannot be had, or is not the one that was pinned.
        """
        command = ["go", "mod", "download", "-json", f"{module}@{version}"]
        done = subprocess.run(command, cwd=self.scratch, env=go_environment(), capture_output=True, check=False)
        found = json.loads(done.stdout or "{}")
        if "Dir" not in found:
            message = f"{module}@{version} cannot be had: {found.get('Error') or done.stderr.decode(errors='replace')}"
            raise BuildFailed(message)
        if checksum and found["Sum"] != checksum:
            message = f"{module}@{version} is {found['Sum']}, pinned is {checksum}"
            raise BuildFailed(message)
        copy = self.scratch / "source"
        shutil.copytree(found["Dir"], copy, copy_function=shutil.copyfile)
        for path in (copy, *copy.rglob("*")):
            if path.is_dir():
                path.chmod(0o755)
        return copy


def go_environment() -> dict[str, str]:
    """Return the environment of every build: two compilers at most, no word of this machine in the binaries."""
    settings = {
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=mod -buildvcs=false -trimpath -p=2",
        "GOWORK": "off",
        "GONOSUMDB": "github.com/fluxcd,oras.land",
    }
    return dict(os.environ) | settings


class Recipe(Protocol):
    """How one peer is made."""

    def make(self, shop: Shop, binary: Path) -> None:
        """Leave the peer at `binary`, or raise `BuildFailed`."""


@dataclass(frozen=True, slots=True)
class Install:
    """A program that ``go install`` takes as it is, at a version that the checksum database vouches for."""

    package: str
    version: str

    def make(self, shop: Shop, binary: Path) -> None:
        """Install it into the binary's folder, which is empty, and give it the peer's name."""
        shop.go("install", "-ldflags", link_flags(), f"{self.package}@{self.version}", GOBIN=str(binary.parent))
        (made,) = binary.parent.iterdir()
        made.rename(binary)


@dataclass(frozen=True, slots=True)
class Own:
    """A program of this repository: the folder below ``tests/real/go``."""

    folder: str

    def make(self, shop: Shop, binary: Path) -> None:
        """Build it with exactly the modules of its go.sum."""
        folder = PROGRAMS / self.folder
        shop.go("build", "-mod=readonly", "-ldflags", link_flags(), "-o", str(binary), ".", folder=folder)

    def version(self, of: str) -> str:
        """Return `of`, the library's version, with a mark of the program's own text: an edit rebuilds it."""
        texts = sorted((PROGRAMS / self.folder).iterdir())
        return f"{of}-{hashlib.sha256(b''.join(path.read_bytes() for path in texts)).hexdigest()[:8]}"


@dataclass(frozen=True, slots=True)
class Source:
    """A program built from a copy of its module's source, after a change: ``go install`` refuses these modules."""

    module: str
    version: str
    package: str
    prepare: Callable[[Shop, Path], None]
    checksum: str = ""
    variables: tuple[str, ...] = ()

    def make(self, shop: Shop, binary: Path) -> None:
        """Copy, change, build."""
        source = shop.source(self.module, self.version, self.checksum)
        self.prepare(shop, source)
        flags = link_flags(*self.variables)
        shop.go("build", "-ldflags", flags, "-o", str(binary), self.package, folder=source)


@dataclass(frozen=True, slots=True)
class Wheel:
    """A program that a package of Python's index carries, ready to run."""

    package: str
    version: str
    hashes: tuple[str, ...]

    def make(self, shop: Shop, binary: Path) -> None:
        """Install the package, one of whose `hashes` it must have, and take its program."""
        wanted = shop.scratch / "requirements.txt"
        wanted.write_text(" ".join([f"{self.package}=={self.version}", *(f"--hash=sha256:{it}" for it in self.hashes)]))
        folder = shop.scratch / "installed"
        pip = (sys.executable, "-m", "pip", "install", "--no-deps", "--only-binary", ":all:", "--require-hashes")
        shop.run(*pip, "--target", str(folder), "--requirement", str(wanted))
        (folder / "bin" / self.package).rename(binary)


@dataclass(frozen=True, slots=True)
class NodePackage:
    """A package of npm's registry: its name, version and integrity."""

    name: str
    version: str
    integrity: str


@dataclass(frozen=True, slots=True)
class NodePackages:
    """A folder of packages as npm lays them out. Nothing in them is run."""

    packages: tuple[NodePackage, ...]

    def make(self, shop: Shop, binary: Path) -> None:
        """Download each package and unpack it.

        Raises:
            BuildFailed: a package is not the one that was pinned.
        """
        for package in self.packages:
            downloads = Path(tempfile.mkdtemp(dir=shop.scratch))
            shop.run("npm", "pack", f"{package.name}@{package.version}", folder=downloads)
            (archive,) = downloads.iterdir()
            found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
            if f"sha512-{found}" != package.integrity:
                message = f"{package.name}@{package.version} is sha512-{found}, pinned is {package.integrity}"
                raise BuildFailed(message)
            with tarfile.open(archive) as opened:
                # A description with all references resolved is six times the one that has them.
                members = [member for member in opened if not member.name.endswith(".deref.json")]
                opened.extractall(downloads, members, filter="data")
            place = binary / package.name
            place.parent.mkdir(parents=True, exist_ok=True)
            (downloads / "package").rename(place)


@dataclass(frozen=True, slots=True)
class System:
    """A folder with `root.tar`: a small Debian system with Python, for container images to start from."""

    suite: str
    packages: tuple[str, ...]

    def make(self, shop: Shop, binary: Path) -> None:
        """Install it as root into a folder, and pack that."""
        root = shop.scratch / "root"
        packages = ",".join(self.packages)
        shop.run("debootstrap", "--variant=minbase", f"--include={packages}", self.suite, str(root))
        binary.mkdir()
        left_out = ("./var/cache/apt", "./var/lib/apt/lists", "./var/log", "./dev")
        excluded = [f"--exclude={folder}/*" for folder in left_out]
        shop.run("tar", "-C", str(root), "--numeric-owner", *excluded, "-cf", str(binary / "root.tar"), ".")


@dataclass(frozen=True, slots=True)
class Compiled:
    """The program that a script of our Dockerfile compiles, for another machine."""

    machine: str

    def script(self) -> str:
        """Return the script: the one that makes `/made/kustomize`."""
        text = (ROOT / "Dockerfile").read_text()
        (version,) = re.findall(r"^ARG KUSTOMIZE=(.+)$", text, re.MULTILINE)
        (script,) = re.findall(r"^RUN (GOPATH=/made (?:.*\\\n)*.*)$", text, re.MULTILINE)
        return str(script).replace("${TARGETARCH}", self.machine).replace("${KUSTOMIZE}", version)

    def make(self, shop: Shop, binary: Path) -> None:
        """Run it, with the modules that are here already."""
        found = subprocess.run(["go", "env", "GOMODCACHE"], capture_output=True, text=True, check=True)
        script = self.script().replace("/made", str(shop.scratch / "go"))
        shop.run("bash", "-e", "-c", script, environment=go_environment() | {"GOMODCACHE": found.stdout.strip()})
        (shop.scratch / "go/kustomize").rename(binary)

    def version(self) -> str:
        """Return the mark of the script."""
        return hashlib.sha256(self.script().encode()).hexdigest()[:8]


@dataclass(frozen=True, slots=True)
class Locked:
    """A folder with the wheels that one of our lists of requirements locks."""

    requirements: Path

    def make(self, shop: Shop, binary: Path) -> None:
        """Download them, each with one of the hashes in the list."""
        pip = (sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--require-hashes")
        shop.run(*pip, "--dest", str(binary), "--requirement", str(self.requirements))

    def version(self) -> str:
        """Return the mark of the list and of the Python that the wheels are for."""
        python = "".join(str(number) for number in sys.version_info[:2])
        return f"{python}-{hashlib.sha256(self.requirements.read_bytes()).hexdigest()[:8]}"


@dataclass(frozen=True, slots=True)
class OnPath:
    """A program that the system brings: found on the PATH, never built."""

    package: str

    def make(self, shop: Shop, binary: Path) -> None:
        """Say what to install.

        Raises:
            BuildFailed: always.
        """
        del shop
        message = f"{binary.name} is not on the PATH: apt-get install {self.package}"
        raise BuildFailed(message)


def link_flags(*variables: str) -> str:
    """Return the linker flags: no symbol tables, and the version variables that the peer's own release sets."""
    return " ".join(["-s -w", *(f"-X {variable}" for variable in variables)])


def as_it_is(shop: Shop, source: Path) -> None:
    """Change nothing: a module that ``go install`` refuses only because its list of versions is broken."""
    del shop, source


def with_manifests(shop: Shop, source: Path) -> None:
    """Put the release's manifests where the flux CLI embeds them from; its module does not carry them.

    Raises:
        BuildFailed: the release's data is not there.
    """
    del shop
    bundle = flux_releases() / f"v{FLUX}" / "manifests.tar.gz"
    if not bundle.is_file():
        message = f"no {bundle}: name the folder of the Flux releases' data in FLUX_RELEASES"
        raise BuildFailed(message)
    with tarfile.open(bundle) as archive:
        archive.extractall(source / "cmd" / "flux" / "manifests", filter="data")


def with_published_staging(shop: Shop, source: Path) -> None:
    """Take the Kubernetes libraries as published instead of from ``staging``, which the module does not carry."""
    for left in ("go.work", "go.work.sum"):
        (source / left).unlink(missing_ok=True)
    shutil.rmtree(source / "vendor", ignore_errors=True)
    edits = []
    for line in (source / "go.mod").read_text().splitlines():
        library, arrow, place = line.strip().partition(" => ")
        if arrow and place.startswith("./staging/"):
            edits += [f"-dropreplace={library}", f"-require={library}@v0.{KUBERNETES.removeprefix('1.')}"]
    shop.go("mod", "edit", *edits, folder=source)


def with_published_api(name: str, version: str) -> Callable[[Shop, Path], None]:
    """Return the change that takes a controller's own API module as published, not from a folder beside it."""

    def prepare(shop: Shop, source: Path) -> None:
        api = f"github.com/fluxcd/{name}/api"
        shop.go("mod", "edit", f"-dropreplace={api}", f"-require={api}@v{version}", folder=source)

    return prepare


@dataclass(frozen=True, slots=True)
class Peer:
    """One of them: its name, the version that the tests were made for, how it is made, how it says its version."""

    name: str
    version: str
    recipe: Recipe
    greeting: tuple[str, ...]

    @property
    def path(self) -> Path:
        """Where it is, or will be."""
        if isinstance(self.recipe, OnPath):
            return Path(shutil.which(self.name) or self.name)
        return cache() / f"{self.name}-{self.version}" / self.name

    @property
    def there(self) -> bool:
        """Whether it can be run."""
        return os.access(self.path, os.X_OK)

    def build(self) -> None:
        """Make it: in a scratch folder first, so that a build that was stopped leaves nothing that looks like a peer.

        One at a time: whoever calls holds the lock, so what other builds left behind is nobody's.

        Raises:
            BuildFailed: it cannot be made here.
        """
        for left in cache().glob(".building-*"):
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=".building-", dir=cache()) as scratch:
            log = cache() / f"{self.name}-{self.version}.log"
            log.write_text("")
            made = Path(scratch) / "made"
            made.mkdir()
            self.recipe.make(Shop(Path(scratch), log), made / self.path.name)
            shutil.rmtree(self.path.parent, ignore_errors=True)
            made.rename(self.path.parent)


def installed(name: str, version: str, package: str, greeting: str = "version") -> Peer:
    """Return a peer that ``go install`` makes."""
    return Peer(name, version, Install(package, f"v{version}"), (greeting,))


def own(name: str, of: str) -> Peer:
    """Return the peer that is a program of ours around one library."""
    recipe = Own(name)
    return Peer(name, recipe.version(of), recipe, ())


def compiled(machine: str) -> Peer:
    """Return the peer that is kustomize for another machine, as the image for that machine has it."""
    recipe = Compiled(machine)
    return Peer(f"kustomize-{machine}", recipe.version(), recipe, ())


def locked(name: str, peer: str) -> Peer:
    """Return the peer that is a folder with our locked dependencies."""
    recipe = Locked(ROOT / "requirements" / f"{name}.txt")
    return Peer(peer, recipe.version(), recipe, ())


def controller(name: str, checksum: str, version: str = CONTROLLERS, called: str = "") -> Peer:
    """Return one of Flux's controllers; `called` tells an older one from the newest."""
    recipe = Source(f"github.com/fluxcd/{name}", f"v{version}", ".", with_published_api(name, version), checksum)
    return Peer(called or name, version, recipe, ("--help",))


PEERS = (
    Peer(
        "flux",
        FLUX,
        Source(
            "github.com/fluxcd/flux2/v2",
            f"v{FLUX}",
            "./cmd/flux",
            with_manifests,
            "h1:/o9IdC9YZVFEsnuJawjEn5tpU8gpnxGftsG85Ubw+bI=",
            (f"main.VERSION={FLUX}",),
        ),
        ("version", "--client"),
    ),
    installed("cosign", "2.6.1", "github.com/sigstore/cosign/v2/cmd/cosign"),
    installed("cosign3", "3.0.6", "github.com/sigstore/cosign/v3/cmd/cosign"),
    installed("registry", "3.1.2", "github.com/distribution/distribution/v3/cmd/registry", "--version"),
    installed("crane", "0.21.6", "github.com/google/go-containerregistry/cmd/crane"),
    own("masterminds", of="3.5.0"),
    own("referrers-registry", of="0.21.6"),
    own("renderer", of=FLUX),
    own("untar", of="1.2.0"),
    Peer(
        "oras",
        "1.3.0",
        Source("oras.land/oras", "v1.3.0", "./cmd/oras", as_it_is, "h1:PdxrW0wRu24AMRnJcQWhUXTk33bDHCdSvyWcKoAxArE="),
        ("version",),
    ),
    installed("kustomize", "5.8.2", "sigs.k8s.io/kustomize/kustomize/v5"),
    installed("act", "0.2.89", "github.com/nektos/act", "--version"),
    installed("actionlint", "1.7.12", "github.com/rhysd/actionlint/cmd/actionlint", "--version"),
    Peer(
        "zizmor",
        "1.32.0",
        Wheel(
            "zizmor",
            "1.32.0",
            (
                "84a6acb975accc13408786a2bd274b572537ca19c933ebbc13e78f3988562071",
                "0cdd38fca6eb34ceb567548548d706332e3535ea66894b9168c048e03207b68c",
            ),
        ),
        ("--version",),
    ),
    Peer("podman", "", OnPath("podman"), ("--version",)),
    Peer("runc", "", OnPath("runc"), ("--version",)),
    Peer("base", "bookworm", System("bookworm", ("python3", "python3-venv", "ca-certificates")), ()),
    Peer(
        "node-modules",
        "23.0.2-15.26.1",
        NodePackages(
            (
                NodePackage(
                    "@octokit/openapi",
                    "23.0.2",
                    "sha512-pV8M7L9GY23AybNvTmo2nyjmpmnt6+2sRE/tqr0ZLQcPS4lnw7u5eZGNmwRNkBC3D7gZXbFx5AHzLUVRBXGDhg==",
                ),
                NodePackage(
                    "@octokit/graphql-schema",
                    "15.26.1",
                    "sha512-RFDC2MpRBd4AxSRvUeBIVeBU7ojN/SxDfALUd7iVYOSeEK3gZaqR2MGOysj4Zh2xj2RY5fQAUT+Oqq7hWTraMA==",
                ),
            )
        ),
        (),
    ),
    compiled("arm64"),
    locked("runtime", "wheels"),
    locked("build", "build-wheels"),
    Peer("etcd", "", OnPath("etcd-server"), ("--version",)),
    Peer("kubectl", "", OnPath("kubernetes-client"), ("version", "--client")),
    Peer(
        "kube-apiserver",
        KUBERNETES,
        Source(
            "k8s.io/kubernetes",
            f"v{KUBERNETES}",
            "./cmd/kube-apiserver",
            with_published_staging,
            variables=(
                f"{KUBERNETES_VERSION}.gitVersion=v{KUBERNETES}",
                f"{KUBERNETES_VERSION}.gitMajor=1",
                f"{KUBERNETES_VERSION}.gitMinor={KUBERNETES.split('.')[1]}",
            ),
        ),
        ("--version",),
    ),
    controller("source-controller", "h1:FF8XTxLND/pXzVtUESKURUDiItFJQDZBZkbHvZimN8s="),
    controller(
        "source-controller", "h1:gFfeBiNUgF0kFFGap/rrMeJqz+0Tod0ARENJO8w/UA8=", "1.7.3", "source-controller-2.7"
    ),
    controller(
        "source-controller", "h1:h549HUCBEG4jGs3uFYfb2+/XhJjcz+pvB8VG4mdSYDw=", "1.8.0", "source-controller-2.8"
    ),
    controller("kustomize-controller", "h1:jggQk9hMsnXG9QdPWNSKhttH5NdVN+HXm/dbKAJ3Uw8="),
)
BY_NAME = {peer.name: peer for peer in PEERS}


def peer(name: str) -> Path:
    """Return the program of that name, ready to run; nothing is built here.

    Raises:
        PeerMissing: it is not there.
    """
    wanted = BY_NAME[name]
    if wanted.there:
        return wanted.path
    if isinstance(wanted.recipe, OnPath):
        message = f"{name} is not on the PATH: apt-get install {wanted.recipe.package}"
    else:
        message = f"{name} {wanted.version} is not built: python tests/real/peers.py {name}"
    raise PeerMissing(message)


def ensure(wanted: Peer) -> str:
    """Return the line that says how a peer came to be there, after making it where it was not.

    Raises:
        BuildFailed: it cannot be made here.
    """
    label = f"{wanted.name} {wanted.version or 'of the system'}"
    if wanted.there:
        return f"{label}: there"
    started = time.monotonic()
    with (cache() / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not wanted.there:
            wanted.build()
    return f"{label}: built in {time.monotonic() - started:.0f} s"


def say(line: str, stream: TextIO) -> None:
    """Print a line at once: builds take minutes."""
    stream.write(f"{line}\n")
    stream.flush()


def main(names: list[str]) -> int:
    """Make the peers of those names, all without one, and return the exit code."""
    if unknown := [name for name in names if name not in BY_NAME]:
        say(f"no such peer: {', '.join(unknown)}; there are {', '.join(BY_NAME)}", sys.stderr)
        return 2
    cache().mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in names or BY_NAME:
        try:
            say(ensure(BY_NAME[name]), sys.stdout)
        except BuildFailed as error:
            say(f"{name}: {error}", sys.stderr)
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
