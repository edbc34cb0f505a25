"""Signatures: keys, and the formats that Flux verifies."""

__all__ = ["bundle", "bundle_format", "cluster", "keys", "legacy", "signer", "sigstore", "trust", "upstream", "verify"]
