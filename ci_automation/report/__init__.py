"""Texts for people, from the values that the flows return. Pure."""

__all__ = [
    "account",
    "adoption",
    "blocks",
    "bootstrap",
    "changes",
    "cluster_secrets",
    "consumers",
    "findings",
    "markdown",
    "migration",
    "notes",
    "preview",
    "promotion",
    "request",
    "request_marks",
    "rollback",
    "summary",
    "sync",
    "text",
]
