"""The package, released: built twice, uploaded to an index, and run from there in an empty environment.

The scripts are those of `release.yaml`; the index and the files of the release are on loopback. The index has nothing
but this package and the locked dependencies.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass
from email import message_from_bytes
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.real import program
from tests.real.peers import ROOT, peer
from tests.real.pipeline import PASSWORD
from tests.real.processes import run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.real.registries import RealRegistry

NAME = "flux-manifests"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
HOME = "acme/ci-automation"
TOOLS = Path(sys.executable).parent
SOURCES = ("ci_automation", "docs", "plugin", "requirements", "workflows")
RUN = 120.0


class Index(SimpleHTTPRequestHandler):
    """A package index (PEP 503, and the upload of PyPI) of the wheels in its folder, and of what lies beside them."""

    def do_POST(self) -> None:
        """Take a file that twine uploads."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        form = message_from_bytes(f"Content-Type: {self.headers['Content-Type']}\n\n".encode() + body)
        for part in form.walk():
            if name := part.get_filename():
                content = part.get_payload(decode=True)
                assert isinstance(content, bytes)
                (Path(self.directory) / name).write_bytes(content)
        self.send_response(200)
        self.end_headers()

    def do_GET(self) -> None:
        """List the files of a project, or send one."""
        if not (found := re.fullmatch(r"/simple/([a-z0-9-]+)/", self.path)):
            super().do_GET()
            return
        files = sorted(path.name for path in Path(self.directory).iterdir())
        of = [name for name in files if re.sub(r"[-_.]+", "-", name).lower().startswith(f"{found[1]}-")]
        page = "".join(f'<a href="/{name}">{name}</a>\n' for name in of).encode()
        self.send_response(200 if of else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Yield the address of an index of the files in a folder."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Index, directory=str(folder))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def steps() -> dict[str, str]:
    """Return the scripts of the job that releases the package, by their names."""
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yaml").read_text())["jobs"]
    return {step["name"]: step["run"] for step in jobs["package"]["steps"] if "run" in step}


def released(folder: Path, umask: int, server: str) -> Path:
    """Return a copy of the sources, after the release's scripts made the package and the plugin there."""
    assert (TOOLS.parent / ".program").exists(), "run `make setup`: make would install this copy into the environment"
    folder.mkdir(parents=True)
    for name in SOURCES:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "Makefile", "README.md", "CHANGELOG.md", "LICENSE", ".gitignore"):
        shutil.copyfile(ROOT / name, folder / name)
    settings = {"MAKEFLAGS": f"-- VENV={TOOLS.parent}", "VERSION": f"v{VERSION}"}
    github = {"GITHUB_SERVER_URL": server, "GITHUB_REPOSITORY": HOME}
    environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"} | settings | github
    for name in ("Name the home", "Build", "Make the plugin of the flux CLI"):
        for old in ("pyproject.toml", "requirements"):  # or make would renew the environment of the tests
            for path in (folder / old, *(folder / old).glob("*.txt")):
                os.utime(path, (0, 0))
        script = f"umask {umask:o}\n{steps()[name]}"
        done = subprocess.run(
            ["bash", "-e", "-c", script], cwd=folder, env=environment, capture_output=True, check=False
        )
        assert done.returncode == 0, (done.stdout + done.stderr).decode()
    return folder


@dataclass(frozen=True, slots=True)
class Release:
    """A release on loopback: its sources, its address, and the variables of a machine that installs from there."""

    folder: Path
    address: str
    variables: dict[str, str]

    def run(self, *command: object, folder: Path = Path("/")) -> str:
        """Return what a program prints on that machine, which has pipx, uv and no flux-manifests.

        Raises:
            AssertionError: it ended with an error.
        """
        words = [str(part) for part in command]
        done = subprocess.run(
            words, cwd=folder, env=self.variables, capture_output=True, text=True, timeout=RUN, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Release]:
    place = tmp_path_factory.mktemp("release")
    files = place / "files"
    for wheels in ("wheels", "build-wheels"):
        shutil.copytree(peer(wheels), files, dirs_exist_ok=True)
    with served(files) as address:
        folder = released(place / "sources", 0o022, address)
        upload = [TOOLS / "twine", "upload", "--non-interactive", "--username=x", "--password=x", "--repository-url"]
        run([*upload, f"{address}/legacy/", *(folder / "dist").iterdir()])
        assets = files / HOME / "releases/download" / f"v{VERSION}"
        shutil.copytree(folder / "assets", assets)
        programs, home = place / "bin", place / "home"
        programs.mkdir()
        home.mkdir()
        for name in ("pipx", "uv"):  # pipx lets uv install, where there is one
            (programs / name).symlink_to(TOOLS / name)
        path = os.pathsep.join([str(programs), str(peer("kustomize").parent), "/usr/bin", "/bin"])
        settings = {"UV_NO_CONFIG": "1", "UV_DEFAULT_INDEX": f"{address}/simple"}
        own = {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "COSIGN_PASSWORD": PASSWORD}
        plugins = {"FLUXCD_PLUGIN_CATALOG": f"{address}/{HOME}/releases/download/v{VERSION}/"}
        yield Release(folder, address, own | settings | plugins)


@pytest.fixture(scope="module")
def command(release: Release) -> tuple[object, ...]:
    """Return how people run the package without installing it."""
    return (release.folder.parent / "bin/pipx", "run", "--spec", f"{NAME}=={VERSION}", NAME)


def test_two_builds_in_different_folders_and_umasks_are_the_same_bytes(release: Release, tmp_path: Path) -> None:
    other = released(tmp_path / "a folder", 0o077, release.address)
    made = sorted((release.folder / "dist").iterdir())
    assert [path.suffix for path in made] == [".whl", ".gz"]
    assert [path.read_bytes() == (other / "dist" / path.name).read_bytes() for path in made] == [True, True]


def test_the_source_archive_makes_the_same_wheel(release: Release, tmp_path: Path) -> None:
    wheel, archive = sorted((release.folder / "dist").iterdir())
    with tarfile.open(archive) as opened:
        names = {name.split("/")[1] for name in opened.getnames()}
        opened.extractall(tmp_path, filter="data")
    texts = {"README.md", "CHANGELOG.md", "LICENSE", "PKG-INFO", "pyproject.toml", ".gitignore"}
    assert names == texts | {"ci_automation", "workflows"}
    (source,) = tmp_path.iterdir()
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "made")]
    subprocess.run(build, cwd=source, check=True, capture_output=True)
    assert (tmp_path / "made" / wheel.name).read_bytes() == wheel.read_bytes()


def test_the_wheel_has_the_program_and_links_that_lead_somewhere(release: Release) -> None:
    wheel = next((release.folder / "dist").glob("*.whl"))
    with zipfile.ZipFile(wheel) as opened:
        top = {name.partition("/")[0] for name in opened.namelist()}
        (metadata,) = (opened.read(name).decode() for name in opened.namelist() if name.endswith("/METADATA"))
    assert top == {"ci_automation", f"flux_manifests-{VERSION}.dist-info"}
    home = f"{release.address}/{HOME}"
    linked = {line.partition(", ")[2] for line in metadata.splitlines() if line.startswith("Project-URL: ")}
    assert linked == {
        home,
        f"{home}/issues",
        *(f"{home}/blob/v{VERSION}/{it}" for it in ("docs/README.md", "CHANGELOG.md")),
    }
    links = re.findall(r"\]\(([^)]+)\)", metadata.partition("\n\n")[2])
    assert links
    assert [link for link in links if not link.startswith(("https://", "#", f"{home}/blob/v{VERSION}/"))] == []


def test_the_wheel_in_an_empty_environment_runs_the_demo_and_updates_a_real_registry(
    release: Release,
    command: tuple[object, ...],
    distribution_registry: RealRegistry,
    repository: str,
    flux_releases: Path,
    tmp_path: Path,
) -> None:
    assert release.run(*command, "--version").strip().endswith(VERSION)
    assert "v2.99" in release.run(*command, "demo")
    pair = program.elliptic_key(tmp_path / "key")
    channel = program.channel(distribution_registry.host, repository)
    known = ("--releases", flux_releases)
    release.run(*command, "init", channel, "--flux-version", "v2.9.3", *known, *pair.signing)
    config = program.configuration(tmp_path / "config.yaml", channel, flux_releases, "v2.9.3")
    release.run(*command, "update", "--config", config, *pair.signing)
    assert "v2.9.4" in release.run(*command, "verify", channel, "--public-key", pair.public)


def test_the_guide_installs_the_checkout(release: Release, tmp_path: Path) -> None:
    text = (ROOT / "docs/guides/command-line.md").read_text().partition("## Install\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert [block.split()[0] for block in blocks] == ["pipx", "python3"]
    for number, block in enumerate(blocks):
        home = tmp_path / str(number)
        path = f"{home}/.local/bin{os.pathsep}{release.variables['PATH']}"
        index = {"PIP_INDEX_URL": f"{release.address}/simple", "PIP_CONFIG_FILE": os.devnull}
        machine = Release(
            release.folder, release.address, release.variables | index | {"HOME": str(home), "PATH": path}
        )
        script = f"{block}command -v flux-manifests\nflux-manifests --version"
        place, version = machine.run("bash", "-e", "-c", script, folder=release.folder).splitlines()[-2:]
        assert (place.startswith(str(home)), version) == (True, VERSION)


def test_setup_from_the_wheel_writes_the_workflow_that_it_carries(
    release: Release,
    command: tuple[object, ...],
    distribution_registry: RealRegistry,
    repository: str,
    tmp_path: Path,
) -> None:
    run(["git", "init", "--quiet", tmp_path])
    given = ("--action", HOME, "--repository", "acme/fleet", "--branch", "main", "--yes")
    release.run(
        *command, "setup", f"oci://{distribution_registry.host}/{repository}:production", *given, folder=tmp_path
    )
    assert HOME in (tmp_path / ".github/workflows/flux.yaml").read_text()


def test_flux_installs_it_as_a_plugin_and_runs_it(release: Release) -> None:
    flux = peer("flux")
    release.run(flux, "plugin", "install", "manifests")
    listed = release.run(flux, "plugin", "list")
    assert re.search(rf"^manifests\s+{re.escape(VERSION)}\s", listed, re.MULTILINE), listed
    assert release.run(flux, "manifests", "--version").strip().endswith(VERSION)
    assert "manifests" in release.run(flux, "--help")


def test_flux_runs_an_installed_one_through_a_link(release: Release, tmp_path: Path) -> None:
    (tmp_path / "flux-manifests").symlink_to(TOOLS / NAME)
    linked = Release(release.folder, release.address, release.variables | {"FLUXCD_PLUGINS": str(tmp_path)})
    assert re.search(r"^manifests\s+manual\s", linked.run(peer("flux"), "plugin", "list"), re.MULTILINE)
    assert linked.run(peer("flux"), "manifests", "--version").strip().endswith(VERSION)
