"""The command `demo`: the real program, on an image layout directory, with sample releases."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_automation.cli.parameters import HeadedCommand, details_option
from ci_automation.demo.samples import write_samples
from ci_automation.errors import UsageError
from ci_automation.flows.files import OutputExists, Unwritable, read_plan_file
from ci_automation.flux.sources.directory import DirectorySource
from ci_automation.policy.decision import Decision

if TYPE_CHECKING:
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
# What every command of the demo needs: who signs, whom to trust, and where releases come from.
_CONFIG = """\
version: 1
source: {source}
artifacts:
  - name: production
    url: layout:registry:production
    signing: {{key: cosign.key}}
    verify: {{publicKey: cosign.pub}}
"""
_NEXT = (
    "flux-manifests check production",
    "flux-manifests rollback production --lift --reason 'fixed on our side' --yes",
)


class TooFewReleases(UsageError):
    """A folder of releases has nothing to show an update on."""

    hint = "Two minor series are needed, the older one with two releases; or leave out --releases."
    message = "the folder has no two minor series of releases to show an update on"


@click.command("demo", cls=HeadedCommand)
@click.option("--releases", metavar="DIR", help="folder with real releases, instead of the samples")
@click.option("--folder", metavar="DIR", help="use this new or empty folder, instead of a new one for temporary files")
@details_option
def demo_command(releases: str | None, folder: str | None) -> None:
    """Show the whole job on an embedded registry, with sample releases.

    It makes an artifact, publishes a patch, shows what needs approval, approves it, and verifies: with the commands
    that it prints, on an OCI image layout directory instead of a registry. Nothing leaves this machine. The folder
    stays, so that you can go on in it.

    \b
    flux-manifests demo
    """
    source = Path(releases).absolute() if releases else Path("releases")
    place = _workplace(folder)
    elsewhere = os.environ.pop("FLUX_RELEASES", None)  # it would win over the configuration of the demo
    with contextlib.chdir(place):
        if not releases:
            write_samples(source)
            # The first step begins with a line feed.
            click.echo("The versions below are samples that Flux never had or signed, such as v2.99.4.", nl=False)
        _show(source, _start(source))
    _step("What to do next:")
    where = shlex.quote(str(place))
    beside = Path(sys.argv[0]).absolute().parent / "flux-manifests"  # not there if Python runs a module
    is_needed = beside.is_file() and not shutil.which(beside.name)
    path = (f'export PATH="{beside.parent}:$PATH"',) if is_needed else ()
    unset = ("unset FLUX_RELEASES",) if elsewhere else ()
    click.echo("\n".join((*path, *unset, f"cd {where}", *_NEXT)))
    click.echo(f"The folder stays. To delete it: rm -r {where}")


def _workplace(folder: str | None) -> Path:
    """Return the folder to work in, which is new or empty."""
    if folder is None:
        return Path(tempfile.mkdtemp(prefix="flux-manifests-demo-"))
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
        in_use = any(place.iterdir())
    except OSError as error:
        raise Unwritable(place, error) from None
    if in_use:
        raise OutputExists(place)
    return place


def _start(source: Path) -> Version:
    """Return the release to begin with: a patch of the last but one minor series that is not its newest."""
    versions = sorted(release.version for release in DirectorySource(source).list() if not release.prerelease)
    series = sorted({version.minor for version in versions})
    older = [version for version in versions if len(series) > 1 and version.minor == series[-2]]
    if len(older) < 2:  # noqa: PLR2004  # one to begin with, one to go to
        raise TooFewReleases
    return older[-min(_BEHIND, len(older))]


def _show(source: Path, start: Version) -> None:
    _make_keys(Path("cosign.key"), Path("cosign.pub"))
    Path("overlay/extra").mkdir(parents=True, exist_ok=True)
    Path("overlay/kustomization.yaml").write_text(_KUSTOMIZATION)
    Path("overlay/extra/limits.yaml").write_text(_LIMITS)
    Path(".github").mkdir(exist_ok=True)
    Path(".github/flux-manifests.yaml").write_text(_CONFIG.format(source=json.dumps(f"dir:{source}")))
    _step("The first artifact: Flux with an extra controller, and the team's own files.")
    extra = ["--components-extra", "image-reflector-controller", "--overlay", "overlay"]
    _run("init", "production", "--flux-version", str(start), *extra)
    _step("The scheduled job: the run publishes the patch; the minor needs approval.")
    _run("update", "production")
    _step("A person reads the plan, and approves exactly that digest.")
    _run("plan", "production", "--out", "plan.json", into="plan.txt")
    target = next(step.target for step in read_plan_file(Path("plan.json")).steps if step.decision is Decision.APPROVAL)
    _run("apply", "plan.json", "--approve", str(target))
    _step("The minor was no good: go back. The next scheduled job does not undo it.")
    back = str(read_plan_file(Path("plan.json")).steps[-1].old_version)
    _run("rollback", "production", "--to", back, "--reason", "webhooks fail", "--yes")
    _run("update", "production")
    _step("What a cluster would check, and what is there now.")
    _run("verify", "production")
    _run("history", "production")


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


def _run(*arguments: str, into: str | None = None) -> None:
    """Show a command, and run it as the command line would, with its output on the terminal or `into` a file."""
    from ci_automation.cli import cli, coloured

    shown = f"$ flux-manifests {shlex.join(arguments)}{f' > {into}' if into else ''}"
    click.echo(click.style(shown, fg="cyan"))
    with contextlib.ExitStack() as stack:
        if into:
            stack.enter_context(contextlib.redirect_stdout(stack.enter_context(Path(into).open("w", encoding="utf-8"))))
        cli.main(args=list(arguments), prog_name="flux-manifests", standalone_mode=False, color=coloured(os.environ))
