"""Proven rendering of a release: fetched, verified, and rendered by this program or by the release's own CLI."""

__all__ = ["delegate", "proof", "rederive", "upstream"]
