"""References, digests, archives and manifests: what an artifact is, byte for byte. Pure."""
