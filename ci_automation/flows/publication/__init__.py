"""Publication of a digest to a channel: push, signature, attestations, record, copy, healing and adoption."""

__all__ = ["adoption", "copy", "leaving", "past", "placement", "publish", "recording", "tags"]
