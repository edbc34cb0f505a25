"""Sigstore: trusted roots, verification by certificate, and keyless signing."""

__all__ = ["exchange", "instance", "keyless", "oidc", "rekor", "root"]
