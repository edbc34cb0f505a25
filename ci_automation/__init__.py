"""Keeps Flux itself current on a fleet of clusters that read it from a signed OCI artifact."""
