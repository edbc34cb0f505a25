"""Sigstore: whose certificates count, what they prove, and signing with one that lives for minutes."""
