"""Texts for people, from the values that the flows return. Pure."""

__all__ = [
    "account",
    "adoption",
    "blocks",
    "bootstrap",
    "changes",
    "cluster_objects",
    "details",
    "findings",
    "markdown",
    "notes",
    "preview",
    "promotion",
    "request",
    "rollback",
    "sync",
    "text",
]
