"""How a person is asked for a yes, and which yes counts: pull requests, protected environments, dispatches."""

__all__ = ["approved_run", "checkout", "dispatch", "lock", "port", "pull_request", "workflow_run"]
