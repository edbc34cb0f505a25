"""Signed statements beside a digest: publication, hold, provenance, SBOM; written and read."""

__all__ = ["attached", "content", "ledger", "notes", "predicates", "writer"]
