"""Trusting once what nobody vouches for: a person looks at every file, and says yes."""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import TYPE_CHECKING

from ci_automation.artifact.digest import Digest
from ci_automation.errors import VerificationFailed
from ci_automation.flows.base import read_tree
from ci_automation.flows.history import immutable_references
from ci_automation.flows.observe import Observed, Trust, look_at, observe
from ci_automation.flows.proof import rendering
from ci_automation.flows.upstream import fetch
from ci_automation.flux.recover import recover
from ci_automation.report.adoption import AdoptedFile, Adoption
from ci_automation.signing.verify import ForeignSignature, Unsigned, verify

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_automation.artifact.reference import Reference
    from ci_automation.artifact.tree import Tree
    from ci_automation.flows.ports import Intent, Ports


class NotAdopted(VerificationFailed):
    """A person was asked whether to trust an artifact, and did not say yes."""

    hint = "Look at what was listed. To say yes without being asked, for example in a job, add --yes to --adopt."

    def __init__(self, channel: Reference) -> None:
        super().__init__(f"{channel} is not trusted, and was not adopted")


def observe_or_adopt(channel: Reference, ports: Ports, intent: Intent) -> Observed:
    """Return what `channel` has now, if it is signed by somebody who is trusted, or else if a person adopts it.

    Raises:
        NotFound: there is no such channel.
        Unsigned, ForeignSignature: it is not to be trusted, and shall not be adopted.
        NotAdopted: a person was asked, and did not say yes.
    """
    try:
        return observe(channel, ports)
    except (Unsigned, ForeignSignature) as error:
        if not intent.adopt:
            raise
        return adopt(look_at(channel, ports), str(error), ports, intent)


def adopt(observed: Observed, problem: str, ports: Ports, intent: Intent) -> Observed:
    """Return what a channel has as adopted, if a person who saw the problem and every file says yes.

    Raises:
        NotAdopted: the person did not.
    """
    if not ports.confirm(_adoption(observed, problem, ports, intent)):
        raise NotAdopted(observed.channel) from None
    return replace(observed, trust=Trust.ADOPTED)


def _adoption(observed: Observed, problem: str, ports: Ports, intent: Intent) -> Adoption:
    tree = read_tree(observed, ports)
    path = tree.components_path(intent.components_file)
    text = tree[path].decode(errors="replace")
    recovered = recover(text)
    upstream = rendering(fetch(recovered.version, ports), recovered.options, ports).text
    words = f"upstream's rendering of {recovered.version}", path
    difference = tuple(difflib.unified_diff(upstream.splitlines(), text.splitlines(), *words, lineterm="", n=1))
    signed, before = _newest_signed(observed, ports)
    overlay = tree.without(path)
    return Adoption(
        channel=observed.channel,
        digest=observed.digest,
        problem=problem,
        version=recovered.version,
        components=path,
        difference=difference,
        overlay=tuple(
            AdoptedFile(file.path, len(file.content), Digest.of(file.content), _change(file.path, file.content, before))
            for file in overlay.files
        )
        + tuple(
            AdoptedFile(gone, 0, Digest.of(b""), "gone")
            for gone in sorted(before.keys() - overlay.by_path.keys() - {path})
        ),
        compared_with=signed,
    )


def _change(path: str, content: bytes, before: Mapping[str, bytes]) -> str:
    if not before:
        return "not compared"
    if path not in before:
        return "new"
    return "same" if before[path] == content else "changed"


def _newest_signed(observed: Observed, ports: Ports) -> tuple[Digest | None, Mapping[str, bytes]]:
    """Return the files of the highest version of the artifact that somebody trusted signed, and its digest."""
    for reference in immutable_references(observed.channel, ports):
        manifest = ports.registry.manifest(reference)
        if manifest.digest == observed.digest or ports.trusted is None:
            continue
        try:
            verify(ports.registry, observed.channel, manifest.digest, ports.trusted)
        except VerificationFailed:
            continue
        tree: Tree = read_tree(Observed(reference, manifest, Trust.VERIFIED, None), ports)
        return manifest.digest, {file.path: file.content for file in tree.files}
    return None, {}
