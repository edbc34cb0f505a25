"""Keys: where they are, and what signs or verifies with them: PEM, cosign.key, KMS, HSM."""

__all__ = ["kms", "private", "public"]
