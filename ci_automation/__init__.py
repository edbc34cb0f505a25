"""Keeps Flux itself current on a fleet of clusters that read it from a signed OCI artifact."""

__version__ = "0.1.0"
