"""Requests for approval, and the approvals that count: pull requests, protected environments, dispatches."""

__all__ = [
    "approved_run",
    "content",
    "counting",
    "dispatch",
    "handover",
    "judge",
    "lock",
    "port",
    "pull_request",
    "workflow_run",
]
