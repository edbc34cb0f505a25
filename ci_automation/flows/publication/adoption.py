"""Show a person what a channel has, built and compared with Flux alone, and ask whether to adopt it."""

from __future__ import annotations

import unicodedata
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from ci_automation.artifact.archive import HiddenContent
from ci_automation.artifact.reference import Digest
from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.errors import VerificationFailed
from ci_automation.flows.history import immutable_references
from ci_automation.flows.observe import Observed, Trust
from ci_automation.flows.planning.base import read_shown, read_tree
from ci_automation.flows.publication.recording import kept_holds
from ci_automation.flows.publication.tags import VersionTags
from ci_automation.flows.rendering import fetch, is_unsigned, rendering
from ci_automation.flux.artifact import stated_overlay_digest, with_stated_flags
from ci_automation.flux.recover import recover
from ci_automation.impact.assess import compare_with_flux_alone
from ci_automation.impact.check import Applied, Known
from ci_automation.impact.files import overlay_diffs
from ci_automation.impact.overlay.preflight import preflight
from ci_automation.impact.overlay.secrets import plain_secrets
from ci_automation.report.adoption import AdoptedFile, Adoption, difference
from ci_automation.signing.verify import verify

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ci_automation.artifact.manifest import Manifest
    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.ports import Intent, Ports

_ROW, _MOST_SHOWN = 40, 250_000  # characters beside a path, and of the list of all: a page of GitHub's has room for it
_STATED, _MOST_STATED = ("source", "revision", "created"), 200
_IGNORE_FILE = ".sourceignore"  # of source-controller, which also drops its own list of files to ignore for it


class NotAdopted(VerificationFailed):
    """No person said yes to trusting an artifact."""

    hint = (
        "Review the listed files. To adopt the digest, answer yes or add --yes; in the action, set `adopt` to exactly "
        "this digest."
    )

    def __init__(self, channel: Reference, *, said_no: bool = False) -> None:
        super().__init__(f"{channel} was not adopted: {'the answer was no' if said_no else 'no person confirmed it'}")
        if said_no:
            self.hint = "Nothing was changed."


def confirm(observed: Observed, problem: str, ports: Ports, intent: Intent) -> None:
    """Show a person the problem and every file of what a channel has, and ask whether to adopt it.

    Raises:
        NotAdopted: the person did not.
        HiddenContent: what it holds cannot be shown to a person as clusters see it.
    """
    if not ports.confirm(_adoption(observed, problem, ports, intent)):
        raise NotAdopted(observed.channel) from None


def _adoption(observed: Observed, problem: str, ports: Ports, intent: Intent) -> Adoption:
    tree = read_shown(observed, ports)
    _require_clear_names(tree)
    path = tree.components_path(intent.components_file)
    text = tree[path].decode(errors="replace")
    recovered = recover(text, path)
    digest = stated_overlay_digest(observed.manifest)
    if observed.version not in {None, recovered.version} or digest not in {None, str(tree.without(path).digest())}:
        raise HiddenContent("its annotations state another version or other files, and later runs go by them")
    options = with_stated_flags(recovered.options, observed.manifest)  # which later steps take along
    release = fetch(recovered.version, ports)
    rendered = rendering(release, options, ports)
    signed, before = _last_signed(observed, ports)
    stated = ((name, observed.manifest.annotations.get(f"org.opencontainers.image.{name}")) for name in _STATED)
    tags = VersionTags(observed.channel, recovered.version, ports)
    built, ledger = preflight(Tree(()), tree, path, ports.kustomize), ports.ledger(observed.channel)
    applied = Applied(text, recovered.version, tree.without(path), path, options.registry)
    return Adoption(
        channel=observed.channel,
        digest=observed.digest,
        problem=problem,
        version=recovered.version,
        options=options.to_arguments(),
        components=path,
        difference=difference(rendered.text.encode(), tree[path]),
        overlay=tuple(_adopted_files(tree.without(path).by_path, before.without(path).by_path, compared=bool(signed))),
        compared_with=signed.digest if signed else None,
        compared_options=_options(signed, before, path) if signed else (),
        unsigned=is_unsigned(release, ports),
        doubt=rendered.doubt,
        stated=tuple(f"{name} {said[:_MOST_STATED]}" for name, said in stated if said),
        secrets=plain_secrets(tree.without(path), lenient=True),
        holds=tuple(it.goes_on_as for it in kept_holds(observed.digest, recovered.version, ledger, intent.now)),
        hazards=built.hazards,
        changes=compare_with_flux_alone(rendered.text, applied, Known(intent.clusters, kustomize=ports.kustomize)),
        texts=overlay_diffs(before.without(path), tree.without(path)),
        rights=tuple(it.beside(rendered.text) for it in built.rights),
        version_tags=tuple(str(it.tag) for it in tags.astray(observed.digest)) if intent.version_tags else (),
    )


def _require_clear_names(tree: Tree) -> None:
    """Raise `HiddenContent` unless a list of the names tells a person which files clusters get."""
    if len(tree.by_path) * (_ROW + max(map(len, tree.by_path), default=0)) > _MOST_SHOWN:
        raise HiddenContent(f"the list of its {len(tree.by_path)} files is longer than a page")
    looks: dict[str, str] = {}
    for path in sorted(tree.by_path):
        if not path.isprintable():
            raise HiddenContent(f"the name {path!a} has invisible characters")
        look = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", path).casefold())
        if look in looks:
            raise HiddenContent(f"{looks[look]!r} and {path!r} are two files whose names look alike")
        looks[look] = path
        if PurePosixPath(path).name == _IGNORE_FILE:
            raise HiddenContent(f"with {path!r}, clusters leave out some files and take others")


def _options(signed: Manifest, tree: Tree, path: str) -> tuple[str, ...]:
    if path not in tree.by_path:
        return ()
    return with_stated_flags(recover(tree[path].decode(errors="replace"), path).options, signed).to_arguments()


def _adopted_files(
    now: Mapping[str, TreeFile], before: Mapping[str, TreeFile], *, compared: bool
) -> Iterator[AdoptedFile]:
    """Yield each file that is there or was, and what became of it if it can be compared."""
    for name, it in sorted({**before, **now}.items()):
        change = _change(now.get(name), before.get(name)) if compared else ""
        yield AdoptedFile(name, len(it.content), Digest.of(it.content), change)


def _change(now: TreeFile | None, before: TreeFile | None) -> str:
    """Return what became of a file, which is there now or was before."""
    return "gone" if now is None else "new" if before is None else "same" if now == before else "changed"


def _last_signed(observed: Observed, ports: Ports) -> tuple[Manifest | None, Tree]:
    """Return what the channel had last by its records, or else the highest version that a trusted signer signed."""
    channel, trusted = observed.channel, ports.trusted
    if trusted is None:
        return None, Tree(())
    last = ports.ledger(channel).last()
    first = (channel.at_digest(last.digest),) if last else ()
    for reference in (*first, *immutable_references(channel, ports)):
        try:
            manifest = ports.registry.manifest(reference)
            verify(ports.registry, channel, manifest.digest, trusted)
        except VerificationFailed:
            continue
        if manifest.digest == observed.digest:
            continue
        return manifest, read_tree(Observed(reference, manifest, Trust.VERIFIED, None), ports)
    return None, Tree(())
