"""Sigstore: whose certificates count, what they prove, and signing with one that lives for minutes."""

__all__ = ["exchange", "fulcio", "instance", "keyless", "lookup", "oidc", "root"]
