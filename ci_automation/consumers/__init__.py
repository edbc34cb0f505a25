"""Mentions of the artifact in other repositories, and their edits, which change no other byte."""

__all__ = ["edit", "model"]
