"""The figures of docs/reference/figures.md, their goals, and the real programs: `make bench`.

Whole processes are timed from outside with the operating system's own accounting, in turn (ours, theirs, ours, ...),
so that a drift of the machine's speed hits both; medians are printed, their bytecode compiled before. Nothing is
asserted here: the exact counts of requests are, in `tests/real/test_requests.py`.
"""

from __future__ import annotations

import base64
import compileall
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from ci_automation.flux.bundle import checksums_name, proof_names  # noqa: E402  # needs the path
from ci_automation.flux.options import Options  # noqa: E402  # needs the path
from ci_automation.flux.render import render  # noqa: E402  # needs the path
from ci_automation.flux.sources.directory import DirectorySource  # noqa: E402  # needs the path
from ci_automation.flux.version import Version  # noqa: E402  # needs the path
from ci_automation.impact import parts, plain  # noqa: E402  # needs the path
from ci_automation.impact.compare import changes  # noqa: E402  # needs the path
from ci_automation.signing.upstream import upstream_identity  # noqa: E402  # needs the path
from tests.fakes.forge import TOKEN, Forge  # noqa: E402  # needs the path
from tests.fakes.sigstore import LocalSigstore  # noqa: E402  # needs the path
from tests.real import registries  # noqa: E402  # needs the path
from tests.real.peers import peer  # noqa: E402  # needs the path
from tests.real.pipeline import PASSWORD, KeyPair  # noqa: E402  # needs the path
from tests.real.program import Pair, configuration, elliptic_key  # noqa: E402  # needs the path
from tests.real.tokens import WRITER  # noqa: E402  # needs the path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.real.registries import RealRegistry

RUNS = 7
FROM, TO = "v2.8.6", "v2.8.8"
ROUND_TRIP = 0.05
NUMBERS = count()  # of the repositories
PATCHED = """\
resources: [flux-system/gotk-components.yaml]
patches:
  - target: {kind: Deployment, name: source-controller}
    patch: '[{"op": "replace", "path": "/spec/template/spec/containers/0/resources/limits/memory", "value": "2Gi"}]'
"""
# Linux counts the memory of the process that starts another one as that one's: a small one starts and times it.
WATCH = """\
import os, sys, time
quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
begun = time.perf_counter()
pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=quiet)
_, status, used = os.wait4(pid, 0)
print(time.perf_counter() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
sys.exit(os.waitstatus_to_exitcode(status))
"""
OURS = [sys.executable, "-m", "ci_automation"]


@dataclass(frozen=True, slots=True)
class Figure:
    """What one run of a command, or of several after one another, took."""

    seconds: float
    cpu: float
    megabytes: float


def measure(commands: Sequence[Sequence[str]], environment: dict[str, str]) -> Figure:
    """Run commands one after the other; the seconds add up, and of the memory the largest process counts."""
    seconds, cpu, peak = 0.0, 0.0, 0.0
    for command in commands:
        watched = [sys.executable, "-S", "-E", "-c", WATCH, *command]
        done = subprocess.run(watched, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{' '.join(command)}\n{done.stderr}")
        took, used, megabytes = map(float, done.stdout.split())
        seconds, cpu, peak = seconds + took, cpu + used, max(peak, megabytes)
    return Figure(seconds, cpu, peak)


def in_turn(
    ours: Callable[[], Figure], theirs: Callable[[], Figure], runs: int = RUNS
) -> tuple[list[Figure], list[Figure]]:
    """Return the figures of several runs of two things, run in turn, after one of each that does not count."""
    ours(), theirs()
    pairs = [(ours(), theirs()) for _ in range(runs)]
    return [first for first, _ in pairs], [second for _, second in pairs]


def show(name: str, found: str, goal: str = "", more: str = "") -> None:
    """Print one row: what was found, the goal, and what else there is to say."""
    print(f"{name:52}{found:>10}   {f'goal {goal}':18}{more}", flush=True)


def compare(name: str, ours: list[Figure], theirs: list[Figure], other: str, goal: float) -> None:
    """Print one comparison: the median of the ratios pair by pair, and the medians."""
    ratio = statistics.median(a.seconds / b.seconds for a, b in zip(ours, theirs, strict=True))
    show(name, f"{ratio:.2f} x", f"<= {goal} x", f"{_text(ours)}; {other}{_text(theirs)}")


def _text(figures: list[Figure]) -> str:
    seconds, cpu = (statistics.median(getattr(f, what) for f in figures) for what in ("seconds", "cpu"))
    return f"{seconds:6.3f} s, CPU {cpu:.3f} s, {max(f.megabytes for f in figures):.0f} MB"


def rendering(releases: Path) -> None:
    """Print how long rendering takes in the process, without reading the archive."""
    source = DirectorySource(releases)
    fetched = [source.fetch(release.version) for release in source.list()]
    options = Options().with_flags({"components-extra": "image-reflector-controller,image-automation-controller"})
    times = []
    for item in fetched:
        started = time.perf_counter()
        render(item.bundle, item.release.version, options)
        times.append((time.perf_counter() - started) * 1000)
    show("rendering in the process, median", f"{statistics.median(times):.1f} ms", "< 25 ms", f"{len(times)} releases")


def comparing(releases: Path) -> None:
    """Print how long it takes in the process to find and judge what changes between two releases."""
    source = DirectorySource(releases)
    all_of_them = sorted(release.version for release in source.list())
    everything = Options().with_flags({"components-extra": "image-reflector-controller,image-automation-controller"})
    texts = {version: render(source.fetch(version).bundle, version, everything) for version in all_of_them}
    neighbours = list(pairwise(all_of_them))
    far = [(old, new) for old in all_of_them for new in all_of_them if new.semver.minor > old.semver.minor + 1]
    for name, pairs, wanted in (("neighbouring", neighbours, 20), ("far", far, 150)):
        times = []
        for old, new in pairs:
            forget()
            started = time.perf_counter()
            changes(texts[old], texts[new])
            times.append((time.perf_counter() - started) * 1000)
        more = f"slowest {max(times):.0f} ms, {len(times)} pairs"
        show(f"changes of {name} releases, median", f"{statistics.median(times):.0f} ms", f"<= {wanted} ms", more)


def forget() -> None:
    """Let the differ forget what it has read."""
    for known in (parts._cut, parts._part, parts._schema, parts._is_within, plain._line):
        known.cache_clear()


def planning(folder: Path, releases: Path, keys: KeyPair, environment: dict[str, str]) -> None:
    """Print how long whole plans take, with an overlay that kustomize builds before and after each step."""
    signed = ["--signing", "key", "--key", str(keys.private)]
    overlay, source = folder / "overlay", ["--releases", str(releases)]
    overlay.mkdir()
    (overlay / "kustomization.yaml").write_text(PATCHED)
    environment = environment | {"PATH": f"{peer('kustomize').parent}:{environment['PATH']}"}
    for start in ("v2.5.1", "v2.6.4", "v2.7.5", "v2.8.5"):
        channel = f"layout:{folder}/plans-{start}:production"
        begin = [*OURS, "init", channel, "--flux-version", start, "--overlay", str(overlay), *source, *signed]
        measure([begin], environment)
        command = [*OURS, "plan", channel, "--public-key", str(keys.public), *source]
        figures = [measure([command], environment) for _ in range(RUNS)]
        found = statistics.median(figure.seconds for figure in figures)
        show(f"plan with an overlay, {start}", f"{found:.2f} s", "<= 1.1 s", _text(figures))


def checking(folder: Path, releases: Path, keys: KeyPair, environment: dict[str, str]) -> None:
    """Print what a check costs that finds nothing to do."""
    channel, source = f"layout:{folder}/newest:production", ["--releases", str(releases)]
    signed = ["--signing", "key", "--key", str(keys.private)]
    measure([[*OURS, "init", channel, "--flux-version", "v2.9.4", *source, *signed]], environment)
    command = [*OURS, "check", channel, "--public-key", str(keys.public), *source]
    figures = [measure([command], environment) for _ in range(RUNS)]
    found = statistics.median(figure.cpu for figure in figures)
    show("check that finds nothing, CPU", f"{found:.2f} s", "<= 0.2 s", _text(figures))


@dataclass
class Slow:
    """A registry each of whose requests takes longer, and which knows how many had to wait for each other."""

    registry: RealRegistry
    longer: float = 0.0
    begun: dict[int, float] = field(default_factory=dict)
    ended: dict[int, float] = field(default_factory=dict)

    def count(self) -> None:
        """Count from here on."""
        self.registry.proxy.forget()
        self.begun, self.ended = {}, {}
        self.registry.proxy.before, self.registry.proxy.after = self._before, self._after

    def stop(self) -> None:
        """Be as fast as before."""
        self.registry.proxy.before, self.registry.proxy.after = lambda *_: None, lambda *_: None

    def _before(self, number: int, _method: str, _path: str) -> None:
        self.begun[number] = time.perf_counter()
        time.sleep(self.longer)

    def _after(self, number: int, _method: str, _path: str, _status: int) -> None:
        self.ended[number] = time.perf_counter()

    @property
    def in_a_row(self) -> int:
        """Return the length of the longest chain of requests each of which began after the one before had ended."""
        last, found = 0.0, 0
        for number in sorted(self.ended, key=self.ended.__getitem__):
            if self.begun[number] >= last:
                last, found = self.ended[number], found + 1
        return found


@dataclass
class Update:
    """Our patch update on a fresh repository each time: pull, render, push, sign, verify, tag, record."""

    slow: Slow
    folder: Path
    private: Path
    releases: Path
    environment: dict[str, str]
    changed: dict[str, object] = field(default_factory=dict)  # of the configuration
    chains: list[int] = field(default_factory=list)

    def __call__(self) -> Figure:
        """Prepare a channel, and measure the update alone."""
        channel = f"oci://{self.slow.registry.host}/bench/ours-{next(NUMBERS)}:production"
        signed = ["--signing", "key", "--key", str(self.private)]
        config = configuration(self.folder / "config.yaml", channel, self.releases)
        config.write_text(json.dumps(json.loads(config.read_text()) | self.changed))
        begin = ["--flux-version", FROM, "--releases", str(self.releases)]
        measure([[*OURS, "init", channel, *begin, *signed]], self.environment)
        self.slow.count()
        found = measure([[*OURS, "update", "production", "--config", str(config), *signed]], self.environment)
        self.slow.stop()
        self.chains.append(self.slow.in_a_row)
        return found


class Pipeline:
    """What teams write in a shell today: the same job with flux, cosign and crane, downloads left out."""

    def __init__(self, slow: Slow, folder: Path, keys: KeyPair, environment: dict[str, str]) -> None:
        self._slow, self._folder, self._keys, self._environment = slow, folder, keys, environment

    def __call__(self) -> Figure:
        """Prepare a channel, and measure the job alone."""
        number = next(NUMBERS)
        flux, cosign, crane = (str(peer(name)) for name in ("flux", "cosign", "crane"))
        address = f"{self._slow.registry.host}/bench/theirs-{number}"
        tree, out = self._folder / "tree", self._folder / f"out-{number}"
        (tree / "flux-system").mkdir(parents=True, exist_ok=True)
        out.mkdir()
        (tree / "flux-system" / "gotk-components.yaml").write_text("# before\n")
        push = ["--source=https://github.com/fluxcd/flux2", "--revision=v2.9.4@sha1:0", "--insecure-registry"]
        measure([[flux, "push", "artifact", f"oci://{address}:production", f"--path={tree}", *push]], self._environment)
        insecure = "--allow-insecure-registry"
        export = f"{flux} install --export > {out}/flux-system/gotk-components.yaml"
        offline = ["--insecure-ignore-tlog", f"--trusted-root={self._keys.trusted_root}"]
        sign = [f"--key={self._keys.private}", "--tlog-upload=false", insecure, "--yes"]
        self._slow.count()
        found = measure(
            [
                [flux, "pull", "artifact", f"oci://{address}:production", f"--output={out}", "--insecure-registry"],
                ["/bin/sh", "-c", export],
                [flux, "push", "artifact", f"oci://{address}:v2.9.4", f"--path={out}", *push],
                [cosign, "sign", *sign, f"{address}:v2.9.4"],
                [crane, "tag", f"{address}:v2.9.4", "production"],
                [cosign, "verify", f"--key={self._keys.public}", *offline, insecure, f"{address}:production"],
            ],
            self._environment,
        )
        self._slow.stop()
        return found


def signed_releases(releases: Path, folder: Path, local: LocalSigstore) -> Path:
    """Return a copy of the releases in which upstream's workflow has signed the checksums, and the lists say so."""
    shutil.copytree(releases, folder, copy_function=shutil.copyfile)
    listed = json.loads((folder / "releases.json").read_text())
    for each in listed:
        if not (place := folder / each["tag_name"]).is_dir():
            continue
        place.chmod(0o755)
        version = Version.parse(each["tag_name"])
        names = proof_names(version)
        made = local.sign_detached((place / checksums_name(version)).read_bytes(), identity=upstream_identity(version))
        (place / names.signature).write_bytes(base64.b64encode(made.signature))
        (place / names.certificate).write_bytes(base64.b64encode(made.certificate.encode()))
        (place / names.log_entry).write_text(made.entry)
        each["assets"] = [{"name": path.name} for path in sorted(place.iterdir())]
    (folder / "releases.json").unlink()
    (folder / "releases.json").write_text(json.dumps(listed))
    return folder


def updating(folder: Path, releases: Path, keys: KeyPair, plain: Pair, environment: dict[str, str]) -> None:
    """Print what a patch update takes, beside the same job done by the real programs."""
    with registries.distribution(folder / "storage") as registry:
        slow = Slow(registry)
        theirs = "flux + cosign + crane:"
        pipeline = Pipeline(slow, folder, keys, environment)
        encrypted, other = in_turn(Update(slow, folder, keys.private, releases, environment), pipeline)
        compare(f"update {FROM} -> {TO}, encrypted key", encrypted, other, theirs, 0.75)
        figures, other = in_turn(Update(slow, folder, plain.private, releases, environment), pipeline)
        compare(f"update {FROM} -> {TO}, plain key", figures, other, theirs, 0.55)
        slow.longer = ROUND_TRIP
        far = Update(slow, folder, plain.private, releases, environment)
        compare("the same, 50 ms more for each request", *in_turn(far, pipeline), theirs, 0.6)
        show("the same, round trips in a row", str(max(far.chains)), "<= 18")
        slow.longer = 0.0
        show("peak memory, plain key", f"{max(f.megabytes for f in figures):.0f} MB", "<= 55 MB")
        show("peak memory, encrypted key", f"{max(f.megabytes for f in encrypted):.0f} MB", "<= 110 MB")
        from_github(folder, Update(slow, folder, plain.private, releases, environment))


def from_github(folder: Path, update: Update) -> None:
    """Print what a patch update takes whose release comes from GitHub, with upstream's signature to be verified."""
    with (
        LocalSigstore() as local,
        Forge(releases=signed_releases(update.releases, folder / "signed", local)) as github,
    ):
        (folder / "root.json").write_bytes(local.trusted_root)
        update.environment = update.environment | {"GITHUB_API_URL": github.url, "GITHUB_TOKEN": TOKEN}
        update.changed |= {"source": "github:fluxcd/flux2", "apiUrl": github.url}
        update.changed["upstream"] = {"verify": "required", "trustConfig": str(folder / "root.json")}
        figures = [update() for _ in range(RUNS)]
        requests = f"{len(github.requests) // RUNS} requests to GitHub"
    found = statistics.median(figure.seconds for figure in figures)
    show("update from GitHub, its release signed", f"{found:.2f} s", "-", f"{_text(figures)}, {requests}")


def behind_a_wall(folder: Path, releases: Path, plain: Pair, environment: dict[str, str]) -> None:
    """Print how many requests a patch takes behind a registry that asks for tokens."""
    with registries.distribution(folder / "walled", "token") as registry:
        login = registries.docker_config(folder / "docker", registry.host, WRITER.name, WRITER.password)
        Update(Slow(registry), folder, plain.private, releases, environment | {"DOCKER_CONFIG": str(login)})()
        show("requests of a patch behind a token wall", str(len(registry.requests)), "<= 27")


def compiled() -> Iterator[Path]:
    """Yield the folders whose bytecode a release has, and a working tree may lack."""
    yield ROOT / "ci_automation"
    yield from (Path(place) for place in sys.path if place.endswith("site-packages"))


def main() -> None:
    """Measure and print."""
    releases = Path(os.environ.get("FLUX_RELEASES") or ROOT.parent / "shared" / "flux" / "releases")
    own = {"COSIGN_PASSWORD": PASSWORD, "PYTHONPATH": str(ROOT)}
    not_theirs = {"FLUX_RELEASES", "PYTHONDONTWRITEBYTECODE"}
    environment = {name: value for name, value in os.environ.items() if name not in not_theirs} | own
    for place in compiled():
        compileall.compile_dir(place, quiet=2)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        keys, plain = KeyPair.make(folder / "keys"), elliptic_key(folder / "plain")
        updating(folder, releases, keys, plain, environment)
        behind_a_wall(folder, releases, plain, environment)
        checking(folder, releases, keys, environment)
        render_figures, install = in_turn(
            lambda: measure([[*OURS, "render", "--flux-version", "v2.9.4", "--releases", str(releases)]], environment),
            lambda: measure([[str(peer("flux")), "install", "--export"]], environment),
        )
        compare("render v2.9.4", render_figures, install, "flux install --export:", 0.5)
        help_figures, bare = in_turn(
            lambda: measure([[*OURS, "--help"]], environment),
            lambda: measure([[sys.executable, "-c", "pass"]], environment),
        )
        compare("--help", help_figures, bare, "python -c pass:", 6)
        planning(folder, releases, keys, environment)
        comparing(releases)
        rendering(releases)


if __name__ == "__main__":
    main()
