"""Signatures: keys, and the formats that Flux verifies."""
