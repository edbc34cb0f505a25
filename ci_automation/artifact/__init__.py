"""References, digests, archives and manifests of artifacts, byte for byte. Pure."""

__all__ = ["archive", "git", "gojson", "index", "manifest", "reference", "tree", "yaml"]
