"""The commands `verify` and `pull`, which read a signed artifact."""

from __future__ import annotations

from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ci_automation.artifact.reference import Digest
from ci_automation.cli.output import print_json, print_line, print_parts, print_table, width
from ci_automation.cli.parameters import COMMON, TRUST, HeadedCommand, artifact_argument, one_artifact_argument, takes
from ci_automation.cli.wiring import reading, reading_intent, target
from ci_automation.errors import Error
from ci_automation.flows.verify import Derivation, Verification, pull, verify_channel
from ci_automation.flux.artifact import called
from ci_automation.report.blocks import MarkedLine, Table
from ci_automation.report.text import PUBLISHED_UNPROVEN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_automation.artifact.reference import Reference
    from ci_automation.cli.arguments import Arguments
    from ci_automation.errors import VerificationFailed

_WHOLE = len("sha256:") + 64
_SHORT = len("sha256:") + 12


@click.command("verify", cls=HeadedCommand)
@one_artifact_argument()
@click.option("--rederive", "again", is_flag=True, help="make it again from upstream's release and its overlay, too")
@takes(*TRUST, "components-file", "releases", "registry-config", *COMMON, install_flags=True)
def verify_command(artifact: str, *, again: bool, given: Arguments) -> None:
    """Say whether a trusted signer signed an artifact, and which clusters accept it.

    ARTIFACT may also be a digest, oci://HOST/REPOSITORY@sha256:... The table says for each minor of Flux whether a
    cluster that trusts the same key or identity accepts the artifact. Exit code 10: no trusted signer signed it, or
    clusters with the Flux that is in it refuse it. Unlike Flux, it compares what was signed with what is there.
    With --rederive, the same inputs must give the same digest; of what another tool packed, the same files are enough.

    \b
    flux-manifests verify oci://ghcr.io/acme/flux-manifests:production --public-key cosign.pub
    flux-manifests verify oci://ghcr.io/acme/flux-manifests:production \\
      --identity \\
      https://github.com/acme/fleet/.github/workflows/flux.yaml@refs/heads/main \\
      --issuer https://token.actions.githubusercontent.com
    """
    reference, ports = reading(artifact, given)
    found = verify_channel(reference, ports, reading_intent(given))
    if given.output == "text":
        _print_verification(artifact, found)
    if found.problem is not None:
        raise _with_commands(found.problem, artifact, given)
    derived = None
    if again:
        from ci_automation.flows.verify import rederive

        derived = rederive(reference.at_digest(found.digest), ports, reading_intent(given))
        if given.output == "text":
            print_parts(derivation_lines(derived, whole=given.verbose or width() is None))
        derived.check(reference)
    if given.output == "json":
        print_json(_to_json(reference, found, derived), "verify")


def _with_commands(problem: VerificationFailed, artifact: str, given: Arguments) -> VerificationFailed:
    """Return it with the commands of its hint as they work here."""
    from ci_automation.cli.follow_up import as_named

    with suppress(Error):  # a digest, say, which is no channel
        problem.hint = as_named(target(artifact, given, signs=False), given, problem.hint)
    return problem


def _print_verification(name: str, found: Verification) -> None:
    if found.by is not None:
        flux = f"{called(found.version)}, " if found.version else ""
        verdict = "fails the verification, though it is signed" if found.problem else "is signed"
        line = MarkedLine(f"{name} {verdict}: {flux}{found.digest}", "refused" if found.problem else "")
        signer = f"the key {found.by}" if isinstance(found.by, Digest) else str(found.by)
        print_parts((line, MarkedLine(f"  by {signer}")))
    if found.unproven:
        print_line(PUBLISHED_UNPROVEN)
    rows = []
    for answer, group in groupby(found.clusters, lambda row: (row.judgement.accepted, row.judgement.reason)):
        names = [row.flux for row in group]
        which = names[0] if len(names) == 1 else f"{names[0].split()[0]} to {names[-1].split()[-1]}"
        rows.append((which, "yes" if answer[0] else "no", answer[1].replace(f" of {found.by}", "")))
    print_table(Table(("a cluster with Flux", "accepts it", "because"), tuple(rows)))


def derivation_lines(derived: Derivation, *, whole: bool) -> Iterator[MarkedLine]:
    """Yield a line for each input; digests that are not `whole` have the digits that an immutable tag has of them."""
    yield MarkedLine("Made again from:")
    for name, text in derived.steps:
        short = (it[:_SHORT] + it[_WHOLE:] if it.startswith("sha256:") else it for it in text.split(" "))
        yield MarkedLine(f"  {name}: {text if whole else ' '.join(short)}")


def _to_json(reference: Reference, found: Verification, derived: Derivation | None) -> dict[str, Any]:
    value: dict[str, Any] = {
        "artifact": str(reference),
        "digest": str(found.digest),
        "version": str(found.version) if found.version else None,
        "by": str(found.by),
        "verified": True,
        "unprovenRendering": found.unproven,
        "clusters": [
            {"flux": row.flux, "accepts": row.judgement.accepted, "reason": row.judgement.reason}
            for row in found.clusters
        ],
    }
    if derived:
        same = derived.found == derived.made
        value["rederived"] = {"digest": str(derived.made), "sameDigest": same, "steps": dict(derived.steps)}
    return value


@click.command("pull", cls=HeadedCommand)
@artifact_argument("artifact")
@click.argument("folder")
@takes(*TRUST, "registry-config", *COMMON)
def pull_command(artifact: str, folder: str, given: Arguments) -> None:
    """Unpack an artifact into a folder.

    FOLDER must not exist, or be empty; it is filled all or nothing. With a key or an identity to trust,
    only a signed artifact is unpacked.

    \b
    flux-manifests pull oci://ghcr.io/acme/flux-manifests:production ./out --public-key cosign.pub
    """
    from ci_automation.flows.files import write_tree

    reference, ports = reading(artifact, given)
    tree, digest, trust = pull(reference, ports)
    write_tree(tree, Path(folder))
    if given.output == "json":
        files = sorted(file.path for file in tree.files)
        print_json({"artifact": str(reference), "digest": str(digest), "signature": trust, "files": files}, "pull")
        return
    counted = "1 file" if len(tree.files) == 1 else f"{len(tree.files)} files"
    print_line(f"{folder} has {counted} of {digest}; its signature was {trust}.")
    if ports.trusted is None:
        print_line(f"Nothing was verified: {ports.why_nobody}.")
