"""The commands about what is attached to an artifact: `attach`, `discover`, `provenance` and `sbom`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_automation.artifact.tree import TreeFile
from ci_automation.cli.output import print_json, print_line, print_table
from ci_automation.cli.parameters import COMMON, TRUST, HeadedCommand, artifact_argument, one_artifact_argument, takes
from ci_automation.cli.wiring import reading
from ci_automation.errors import UsageError
from ci_automation.flows.attachments import Attachment, UnfitAttachment, attach, attached_files, discover, stated
from ci_automation.flows.files import read_file, write_tree
from ci_automation.records import predicates
from ci_automation.registry.port import MAX_BLOB_BYTES
from ci_automation.report.blocks import Table

if TYPE_CHECKING:
    from ci_automation.cli.arguments import Arguments

# The same in each bundle, or in each attachment that a tool makes.
_WITHOUT_NEWS = ("dev.sigstore.bundle.content", "org.opencontainers.image.created")


_HEAD = ("type", "what, not verified", "digest")  # of a table


class UnreadableAttachment(UsageError):
    """A file that cannot be read."""

    hint = "Name regular files of at most 100 MiB."


@click.command("attach", cls=HeadedCommand)
@artifact_argument("artifact")
@click.argument("files", nargs=-1)
@click.option("--type", "kind", metavar="TYPE", required=True, help="what it is, such as application/vnd.acme.readme")
@click.option("--annotation", "annotations", metavar="KEY=VALUE", multiple=True, help="a note; repeatable")
@takes("registry-config", *COMMON)
def attach_command(
    artifact: str, kind: str, files: tuple[str, ...], annotations: tuple[str, ...], given: Arguments
) -> None:
    """Attach files and notes of your own to an artifact, such as a README, a team or a link.

    They are a referrer of the digest that ARTIFACT has now, as `oras attach` makes it. Its signature stays valid,
    clusters do not read it, and the next publication has another digest without it. It is not signed.

    \b
    flux-manifests attach oci://ghcr.io/acme/flux-manifests:production README.md \\
      --type application/vnd.acme.readme --annotation com.acme.team=platform
    """
    reference, ports = reading(artifact, given)
    held = [TreeFile(Path(name).name, _content(name)) for name in files]
    digest, made = attach(reference, kind, held, dict(map(_pair, annotations)), ports)
    if given.output == "json":
        print_json({"artifact": str(reference), "digest": str(digest), "attachment": str(made), "type": kind}, "attach")
        return
    print_line(f"Attached to {digest}: {made}")


def _content(name: str) -> bytes:
    return read_file(Path(name), MAX_BLOB_BYTES, lambda why: UnreadableAttachment(f"{name}: {why}"))


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals or not text.isprintable():
        raise UnfitAttachment(f"{text!r} is not KEY=VALUE")
    return key, value


@click.command("discover", cls=HeadedCommand)
@one_artifact_argument()
@click.option("--type", "kind", metavar="TYPE", help="only this type")
@click.option("--folder", metavar="DIR", help="write the files here, to a new or empty folder")
@takes("registry-config", *COMMON)
def discover_command(artifact: str, *, kind: str | None, folder: str | None, given: Arguments) -> None:
    """List what is attached to an artifact: bundles, records, SBOMs, and files and notes of any user.

    Nothing of it is verified: a user who can write to the repository can attach something. `verify`, `history`,
    `provenance` and `sbom` say what trusted signers stated. The signatures at cosign's tags (.sig) are not listed;
    `verify` reads them.

    \b
    flux-manifests discover oci://ghcr.io/acme/flux-manifests:production --type application/vnd.acme.readme --folder out
    """
    reference, ports = reading(artifact, given)
    found = discover(reference, ports, kind)
    if folder is not None:
        write_tree(attached_files(reference, found.attachments, ports), Path(folder))
    if given.output == "json":
        attachments = [it.to_json() for it in found.attachments]
        print_json({"artifact": str(reference), "digest": str(found.digest), "attachments": attachments}, "discover")
    elif found.attachments:
        rows = tuple(map(_row, found.attachments))
        told = [it for it in range(len(_HEAD)) if any(row[it] for row in rows)]  # columns that say something
        print_table(Table(tuple(_HEAD[it] for it in told), tuple(tuple(row[it] for it in told) for row in rows)))
        if folder is not None:
            print_line(f"The files are in {folder}, in one folder for each attachment.")
    else:
        print_line(f"Nothing{f' of type {kind}' if kind else ''} is attached to {found.digest}.")
    if found.left_out:
        click.echo(f"{found.left_out} more attachments were not read.", err=True)


def _row(each: Attachment) -> tuple[str, str, str]:
    told = [each.said] if each.said else []
    told += [f"{name} ({layer.size} bytes)" for name, layer in each.named()]
    told += [f"{key}={value}" for key, value in sorted(each.annotations.items()) if key not in _WITHOUT_NEWS]
    return each.kind, each.problem or ", ".join(told), str(each.digest)


@click.command("provenance", cls=HeadedCommand)
@one_artifact_argument()
@takes(*TRUST, "registry-config", *COMMON)
def provenance_command(artifact: str, given: Arguments) -> None:
    """Print how an artifact was made, as its trusted signer stated it (SLSA v1).

    The table has each input with its digest; --output json prints all that was signed. `update --attestations` attaches
    it to what it publishes.

    \b
    flux-manifests provenance oci://ghcr.io/acme/flux-manifests:production --public-key cosign.pub
    """
    reference, ports = reading(artifact, given)
    digest, said = stated(reference, predicates.PROVENANCE_TYPE, "provenance", ports)
    predicate = said.statement.predicate
    if given.output == "json":
        print_json(dict(predicate))
        return
    build = predicate["buildDefinition"]
    parameters = build["externalParameters"]
    signer = f"the key {said.by}" if said.by.startswith("sha256:") else said.by
    print_line(f"{digest} is Flux {parameters['flux']} for {parameters['artifact']}, as {signer} states.")
    inputs = [
        (it["name"], it.get("uri", ""), f"sha256:{it['digest']['sha256']}") for it in build["resolvedDependencies"]
    ]
    print_table(Table(("made from", "where", "digest"), tuple(inputs)))


@click.command("sbom", cls=HeadedCommand)
@one_artifact_argument()
@click.option("--spdx", "as_spdx", is_flag=True, help="with --output json: SPDX 2.3, in place of CycloneDX 1.6")
@takes(*TRUST, "registry-config", *COMMON)
def sbom_command(artifact: str, *, as_spdx: bool, given: Arguments) -> None:
    """Print the list of an artifact's controllers (SBOM), as its trusted signer stated it.

    --output json prints the CycloneDX document that was signed, or the same in SPDX. `update --attestations` attaches
    it to what it publishes.

    \b
    flux-manifests sbom oci://ghcr.io/acme/flux-manifests:production --output json --spdx --public-key cosign.pub
    """
    reference, ports = reading(artifact, given)
    digest, said = stated(reference, predicates.SBOM_TYPE, "a list of the controllers", ports)
    document = said.statement.predicate
    if given.output == "json":
        print_json(predicates.spdx(document, digest) if as_spdx else dict(document))
        return
    listed = [(it["bom-ref"], it.get("version", ""), it.get("purl", it["name"])) for it in document["components"]]
    print_table(Table(("controller", "version", "package"), tuple(listed)))
