"""Texts for people, from the values that the flows return. Pure."""

__all__ = [
    "account",
    "adoption",
    "blocks",
    "bootstrap",
    "changes",
    "cluster_objects",
    "consumers",
    "findings",
    "markdown",
    "notes",
    "preview",
    "promotion",
    "request",
    "request_marks",
    "rights",
    "rollback",
    "summary",
    "sync",
    "text",
]
