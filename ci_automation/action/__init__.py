"""The contract of the runner of GitHub Actions: inputs, outputs, summary, masks, annotations, events."""

__all__ = ["commands", "job", "workflow_commands"]
