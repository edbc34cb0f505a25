"""Versions of Flux's custom resources: which come and go, what still uses them, and what to do."""

__all__ = ["managing", "manifests", "remedies", "versions"]
