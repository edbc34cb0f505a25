"""Signed statements beside a digest: publication, hold, provenance, SBOM; written and read."""
