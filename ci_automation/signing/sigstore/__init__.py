"""Sigstore: trusted roots, verification by certificate, and keyless signing."""

__all__ = ["exchange", "fulcio", "instance", "keyless", "oidc", "rekor", "root"]
