"""The configuration that a preview goes by: of a pull request what it wants, but no address and no trusted signer.

A request that names a host would get the job's credentials sent there, before a person has reviewed it. So where
artifacts and releases are, who is trusted, and which files are read is as the base commit says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ci_automation.config.schema import keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_automation.config.model import Config
    from ci_automation.config.sections import Artifact

# What a request may try out; every other field is the base's, also one that is not made yet.
_OF_POLICY = ("own_policy", "refuse", "acknowledge", "allow_removal", "accept_edits")
_OF_REQUEST = ("components_file", "flags", "overlay", "paused", "pin_images", *_OF_POLICY)
_OF_FILE = ("source", "upstream")


def preview_config(base: Config, head: Config) -> Config:
    """Return the base's configuration with what the head's wants of the artifacts that both have."""
    found = {it.name: it for it in head.artifacts}
    return replace(
        base,
        artifacts=tuple(_followed(it, found[it.name]) for it in base.artifacts if it.name in found),
        digest=head.digest,
    )


def _followed(base: Artifact, head: Artifact) -> Artifact:
    values = {name: getattr(head, name) for name in _OF_REQUEST}
    clusters = replace(base.clusters, kubernetes=head.clusters.kubernetes)
    if base.flags.get("registry") != head.flags.get("registry"):
        values["pin_images"] = False  # no image is looked up in a registry that a request names
    return replace(base, **values, clusters=clusters)


def not_previewed(base: Config, head: Config) -> Iterator[str]:
    """Yield a sentence on everything in the head's configuration that a preview does not go by, and on new rules."""
    if changed := [name for name in _OF_FILE if getattr(base, name) != getattr(head, name)]:
        yield _told("the configuration", changed)
    known, wanted = ({it.name: it for it in config.artifacts} for config in (base, head))
    for name, artifact in known.items():
        if name not in wanted:
            yield f"{name} is taken out: no run would publish it any more"
        else:
            yield from _of_artifact(artifact, wanted[name])
    for name in wanted.keys() - known.keys():
        yield f"{name} is new: its address is not asked before the request is merged"


def _of_artifact(base: Artifact, head: Artifact) -> Iterator[str]:
    if changed := [*_differing(base, head)]:
        yield _told(base.name, changed)
    if rules := [name for name in ("policy", "paused") if getattr(base, name) != getattr(head, name)]:
        yield f"{base.name}: {' and '.join(rules)} change; the verdicts here are those of the request's own rules"
    if base.flags.get("registry") != head.flags.get("registry"):
        yield f"{base.name}: the registry of the images changes; none is looked up there, nor shown with a digest"


def _differing(base: Artifact, head: Artifact) -> Iterator[str]:
    for key in keys(type(base)):
        one, other = getattr(base, key.name), getattr(head, key.name)
        if key.name == "clusters":
            other = replace(other, kubernetes=one.kubernetes)
        if key.name not in _OF_REQUEST and one != other:
            yield key.written


def _told(subject: str, changed: list[str]) -> str:
    verb = "changes" if len(changed) == 1 else "change"
    return f"{subject}: {', '.join(changed)} {verb}; the preview asks and trusts what the base commit names"
