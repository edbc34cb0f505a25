"""References, digests, archives and manifests: what an artifact is, byte for byte. Pure."""

__all__ = ["archive", "digest", "gojson", "manifest", "reference", "tree", "yaml"]
