"""Requests for approval, and the approvals that count: pull requests, protected environments, dispatches."""

__all__ = ["approved_run", "checkout", "dispatch", "handover", "lock", "port", "pull_request", "workflow_run"]
