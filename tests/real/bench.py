"""The figures of the README, beside the real programs' on the same machine in the same run: `make bench`.

Whole processes are timed from outside with the operating system's own accounting, in turn (ours, theirs, ours, ...),
so that a drift of the machine's speed hits both; medians are printed. Nothing is asserted here: the exact counts of
requests are, in `tests/real/test_requests.py`.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from ci_automation.flux.options import Options  # noqa: E402  # needs the path
from ci_automation.flux.render import render  # noqa: E402  # needs the path
from ci_automation.flux.sources.directory import DirectorySource  # noqa: E402  # needs the path
from ci_automation.impact.compare import changes  # noqa: E402  # needs the path
from tests.real import registries  # noqa: E402  # needs the path
from tests.real.peers import peer  # noqa: E402  # needs the path
from tests.real.pipeline import PASSWORD, KeyPair  # noqa: E402  # needs the path
from tests.real.program import configuration  # noqa: E402  # needs the path

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

RUNS = 7
PATCHED = """\
resources: [flux-system/gotk-components.yaml]
patches:
  - target: {kind: Deployment, name: source-controller}
    patch: '[{"op": "replace", "path": "/spec/template/spec/containers/0/resources/limits/memory", "value": "2Gi"}]'
"""
OURS = [sys.executable, "-m", "ci_automation"]


@dataclass(frozen=True, slots=True)
class Figure:
    """What one run of a command, or of several after one another, took."""

    seconds: float
    megabytes: float


def measure(commands: Sequence[Sequence[str]], environment: dict[str, str]) -> Figure:
    """Run commands one after the other; the seconds add up, and of the memory the largest process counts."""
    started = time.perf_counter()
    peak = 0
    for command in commands:
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"{' '.join(command)}\n{said.decode()}")
        peak = max(peak, usage.ru_maxrss)
    return Figure(time.perf_counter() - started, peak / 1024)


def in_turn(
    ours: Callable[[], Figure], theirs: Callable[[], Figure], runs: int = RUNS
) -> tuple[list[Figure], list[Figure]]:
    """Return the figures of several runs of two things, run in turn, after one of each that does not count."""
    ours(), theirs()
    pairs = [(ours(), theirs()) for _ in range(runs)]
    return [first for first, _ in pairs], [second for _, second in pairs]


def row(name: str, ours: list[Figure], theirs: list[Figure], other: str, wanted: float) -> None:
    """Print one comparison: medians, and the median of the ratios pair by pair."""
    ratio = statistics.median(a.seconds / b.seconds for a, b in zip(ours, theirs, strict=True))
    print(f"{name:26}{_text(ours)}   {other:26}{_text(theirs)}   ratio {ratio:5.2f} (wanted <= {wanted})")


def _text(figures: list[Figure]) -> str:
    return f"{statistics.median(f.seconds for f in figures):7.3f} s {max(f.megabytes for f in figures):4.0f} MB"


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
    figures = f"median {statistics.median(times):.1f} ms, slowest {max(times):.1f} ms"
    print(f"{'rendering in the process':26}{figures}, {len(times)} releases (wanted < 25)")


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
            started = time.perf_counter()
            changes(texts[old], texts[new])
            times.append((time.perf_counter() - started) * 1000)
        figures = f"median {statistics.median(times):.0f} ms, slowest {max(times):.0f} ms"
        print(f"{f'changes of {name} releases':32}{figures}, {len(times)} pairs (wanted < {wanted})")


def planning(folder: Path, releases: Path, keys: KeyPair, environment: dict[str, str]) -> None:
    """Print how long whole plans take, with an overlay that kustomize builds before and after each step."""
    signed = ["--signing", "key", "--key", str(keys.private)]
    overlay = folder / "overlay"
    overlay.mkdir()
    (overlay / "kustomization.yaml").write_text(PATCHED)
    environment = environment | {"PATH": f"{peer('kustomize').parent}:{environment['PATH']}"}
    for start in ("v2.5.1", "v2.6.4", "v2.7.5", "v2.8.5"):
        channel = f"layout:{folder}/plans-{start}:production"
        begin = [*OURS, "init", channel, "--flux-version", start, "--overlay", str(overlay), *signed]
        measure([begin], environment)
        command = [*OURS, "plan", channel, "--public-key", str(keys.public), "--releases", str(releases)]
        figures = [measure([command], environment) for _ in range(RUNS)]
        print(f"{f'plan with preflight, {start}':26}{_text(figures)} (wanted < 2 s, < 200 MB)")


def main() -> None:
    """Measure and print."""
    releases = Path(os.environ.get("FLUX_RELEASES") or ROOT.parent / "shared" / "flux" / "releases")
    environment = {**os.environ, "FLUX_RELEASES": str(releases), "COSIGN_PASSWORD": PASSWORD, "PYTHONPATH": str(ROOT)}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        registry = stack.enter_context(registries.distribution(folder / "storage"))
        keys = KeyPair.make(folder / "keys")
        rendering(releases)
        comparing(releases)
        planning(folder, releases, keys, environment)
        help_figures, bare = in_turn(
            lambda: measure([[*OURS, "--help"]], environment),
            lambda: measure([[sys.executable, "-c", "pass"]], environment),
        )
        row("--help", help_figures, bare, "python -c pass", 6)
        render_figures, install = in_turn(
            lambda: measure([[*OURS, "render", "--flux-version", "v2.9.4"]], environment),
            lambda: measure([[str(peer("flux")), "install", "--export"]], environment),
        )
        row("render v2.9.4", render_figures, install, "flux install --export", 0.6)
        update_figures, pipeline = in_turn(
            Update(registry.host, folder, keys, environment), Pipeline(registry.host, folder, keys, environment)
        )
        row("whole patch update", update_figures, pipeline, "flux + cosign in a shell", 0.8)
    print(
        f"peak memory of an update: {max(f.megabytes for f in update_figures):.0f} MB (wanted < 120); "
        f"of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB"
    )


class Update:
    """Our patch update, v2.9.3 to v2.9.4, on a fresh repository each time: pull, render, push, sign, verify, tag."""

    def __init__(self, host: str, folder: Path, keys: KeyPair, environment: dict[str, str]) -> None:
        self._host, self._folder, self._keys, self._environment, self._count = host, folder, keys, environment, 0

    def __call__(self) -> Figure:
        """Prepare a channel at v2.9.3, and measure the update alone."""
        self._count += 1
        channel = f"oci://{self._host}/bench/ours-{self._count}:production"
        signed = ["--signing", "key", "--key", str(self._keys.private)]
        # What 2.9.4 changes in a NetworkPolicy and a CRD would wait for a person.
        config = configuration(self._folder / "config.yaml", channel, Path(self._environment["FLUX_RELEASES"]))
        measure([[*OURS, "init", channel, "--flux-version", "v2.9.3", *signed]], self._environment)
        return measure([[*OURS, "update", "production", "--config", str(config), *signed]], self._environment)


class Pipeline:
    """What teams write in a shell today: the same job with the flux CLI and cosign, downloads left out."""

    def __init__(self, host: str, folder: Path, keys: KeyPair, environment: dict[str, str]) -> None:
        self._host, self._folder, self._keys, self._environment, self._count = host, folder, keys, environment, 0

    def __call__(self) -> Figure:
        """Prepare a channel, and measure the job alone."""
        self._count += 1
        flux, cosign, crane = (str(peer(name)) for name in ("flux", "cosign", "crane"))
        address = f"{self._host}/bench/theirs-{self._count}"
        tree, out = self._folder / "tree", self._folder / f"out-{self._count}"
        (tree / "flux-system").mkdir(parents=True, exist_ok=True)
        out.mkdir()
        (tree / "flux-system" / "gotk-components.yaml").write_text("# before\n")
        push = ["--source=https://github.com/fluxcd/flux2", "--revision=v2.9.4@sha1:0", "--insecure-registry"]
        measure([[flux, "push", "artifact", f"oci://{address}:production", f"--path={tree}", *push]], self._environment)
        insecure = "--allow-insecure-registry"
        export = f"{flux} install --export > {out}/flux-system/gotk-components.yaml"
        offline = ["--insecure-ignore-tlog", f"--trusted-root={self._keys.trusted_root}"]
        return measure(
            [
                [flux, "pull", "artifact", f"oci://{address}:production", f"--output={out}", "--insecure-registry"],
                ["/bin/sh", "-c", export],
                [flux, "push", "artifact", f"oci://{address}:v2.9.4", f"--path={out}", *push],
                [
                    cosign,
                    "sign",
                    f"--key={self._keys.private}",
                    "--tlog-upload=false",
                    insecure,
                    "--yes",
                    f"{address}:v2.9.4",
                ],
                [crane, "tag", f"{address}:v2.9.4", "production"],
                [cosign, "verify", f"--key={self._keys.public}", *offline, insecure, f"{address}:production"],
            ],
            self._environment,
        )


if __name__ == "__main__":
    main()
