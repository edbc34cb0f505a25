"""The one hardened client to GitHub."""
