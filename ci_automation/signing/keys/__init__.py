"""Keys that sign or verify: PEM, cosign.key, KMS, HSM."""

__all__ = ["kms", "private", "public"]
