"""Requests for approval, and the approvals that count: pull requests, protected environments, dispatches."""

__all__ = [
    "approved_run",
    "content",
    "dispatch",
    "handover",
    "judge",
    "lock",
    "people",
    "port",
    "pull_request",
    "workflow_run",
]
