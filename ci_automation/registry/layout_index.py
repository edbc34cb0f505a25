"""Entries of an image layout's index: their tags and digests, and the move of a tag to a new entry."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ci_automation.artifact.digest import Digest, InvalidDigest

TAG_ANNOTATION = "org.opencontainers.image.ref.name"


def with_entry(entries: list[dict[str, Any]], new: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the entries of an index with `new` among them.

    The tag moves to `new`. An entry that loses its tag stays in the list, once, as it would in a registry.
    """
    tag, digest = tag_of(new), new["digest"]
    if any(tag_of(entry) == tag and entry["digest"] == digest for entry in entries):
        return entries
    if tag is None and any(entry["digest"] == digest for entry in entries):
        return entries
    kept = [untagged(entry) if tag is not None and tag_of(entry) == tag else entry for entry in entries]
    named = {digest} | {entry["digest"] for entry in kept if tag_of(entry) is not None}
    rest = [entry for entry in kept if tag_of(entry) is not None or entry["digest"] not in named]
    return [*rest, new]


def tag_of(entry: dict[str, Any]) -> str | None:
    """Return the tag of an entry, or None if it has none."""
    annotations = entry.get("annotations")
    tag = annotations.get(TAG_ANNOTATION) if isinstance(annotations, dict) else None
    return tag if isinstance(tag, str) else None


def untagged(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry without its tag."""
    annotations = {key: value for key, value in entry.get("annotations", {}).items() if key != TAG_ANNOTATION}
    rest = {key: value for key, value in entry.items() if key != "annotations"}
    return {**rest, "annotations": annotations} if annotations else rest


def digest_of(entry: object) -> Digest | None:
    """Return the digest in an entry, or None without a valid one."""
    match entry:
        case {"digest": str(text)}:
            with suppress(InvalidDigest):
                return Digest.parse(text)
    return None
