"""The command `demo`: the real program, on an image layout directory, with sample releases."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_automation.demo.samples import write_samples
from ci_automation.errors import UsageError
from ci_automation.flows.files import OutputExists, Unwritable, read_plan_file
from ci_automation.flux.sources.directory import DirectorySource
from ci_automation.policy.decision import Decision

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_automation.flux.version import Version

_BEHIND = 4  # how many patches a real series is behind at the start, if it has so many

_KUSTOMIZATION = """\
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - flux-system/gotk-components.yaml
  - extra/limits.yaml
"""
_LIMITS = """\
apiVersion: v1
kind: LimitRange
metadata: {name: memory, namespace: flux-system}
spec:
  limits: [{type: Container, max: {memory: 2Gi}}]
"""


class TooFewReleases(UsageError):
    """A folder of releases has nothing to show an update on."""

    hint = "Two minor series are needed, the older one with two releases; or leave out --releases."

    def __init__(self) -> None:
        super().__init__("the folder has no two minor series of releases to show an update on")


@click.command("demo")
@click.option("--releases", metavar="DIR", help="folder with real releases, instead of the samples")
@click.option("--folder", metavar="DIR", help="keep everything in this new or empty folder, instead of a temporary one")
def command(releases: str | None, folder: str | None) -> None:
    """Show the whole job on an embedded registry, with sample releases.

    It makes an artifact, publishes a patch, shows what waits for approval, approves it, and verifies: with the commands
    that it prints, on an OCI image layout directory instead of a registry. Nothing leaves this machine.

    \b
    flux-manifests demo
    """
    source = Path(releases).absolute() if releases else Path("releases")
    with _workplace(folder) as place, contextlib.chdir(place):
        if not releases:
            write_samples(source)
        _show(source, _start(source))


@contextlib.contextmanager
def _workplace(folder: str | None) -> Iterator[Path]:
    if folder is not None:
        place = Path(folder)
        try:
            place.mkdir(parents=True, exist_ok=True)
            in_use = any(place.iterdir())
        except OSError as error:
            raise Unwritable(place, error) from None
        if in_use:
            raise OutputExists(place)
        yield place
        return
    place = Path(tempfile.mkdtemp(prefix="flux-manifests-demo-"))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _start(source: Path) -> Version:
    """Return the release to begin with: a patch of the last but one minor series that is not its newest."""
    versions = sorted(release.version for release in DirectorySource(source).list() if not release.prerelease)
    series = sorted({version.minor for version in versions})
    older = [version for version in versions if len(series) > 1 and version.minor == series[-2]]
    if len(older) < 2:  # noqa: PLR2004  # one to begin with, one to go to
        raise TooFewReleases
    return older[-min(_BEHIND, len(older))]


def _show(source: Path, start: Version) -> None:
    channel, plan = "layout:registry:production", Path("plan.json")
    _make_keys(Path("cosign.key"), Path("cosign.pub"))
    Path("overlay/extra").mkdir(parents=True, exist_ok=True)
    Path("overlay/kustomization.yaml").write_text(_KUSTOMIZATION)
    Path("overlay/extra/limits.yaml").write_text(_LIMITS)
    from_here, signed = ["--releases", str(source)], ["--signing", "key", "--key", "cosign.key"]
    trusted = ["--public-key", "cosign.pub"]
    _step("A team's first artifact: Flux with an extra controller, and the team's own files.")
    extra = ["--components-extra", "image-reflector-controller", "--overlay", "overlay"]
    _run("init", channel, "--flux-version", str(start), *extra, *from_here, *signed)
    _step("The scheduled job: the patch is published by itself, the minor waits for a person.")
    _run("update", channel, *from_here, *signed)
    _step("A person looks at the plan, and approves exactly that digest.")
    _run("plan", channel, "--out", str(plan), *trusted, *from_here)
    target = next(step.target for step in read_plan_file(plan).steps if step.decision is Decision.APPROVAL)
    _run("apply", str(plan), "--approve", str(target), *from_here, *signed)
    _step("The minor was no good: back to what was there before. The next scheduled job does not undo it.")
    back = str(read_plan_file(plan).steps[-1].old_version)
    _run("rollback", channel, "--to", back, "--reason", "webhooks fail", "--yes", *signed)
    _run("update", channel, *from_here, *signed)
    _step("What a cluster would check, and what is there now.")
    _run("verify", channel, *trusted)
    _run("history", channel, *trusted)


def _make_keys(key: Path, public: Path) -> None:
    """Write a new key pair; the demo's private key has no password, a team's should."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    from ci_automation.signing.keys.public import PublicKey

    private = ec.generate_private_key(ec.SECP256R1())
    key.touch(mode=0o600)
    key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_text(PublicKey(private.public_key()).to_pem())


def _step(text: str) -> None:
    click.echo(f"\n{click.style(text, bold=True)}")


def _run(*arguments: str) -> None:
    """Show a command, and run it as the command line would."""
    from ci_automation.cli import cli, coloured

    click.echo(click.style(f"$ flux-manifests {shlex.join(arguments)}", fg="cyan"))
    cli.main(args=list(arguments), prog_name="flux-manifests", standalone_mode=False, color=coloured(os.environ))
