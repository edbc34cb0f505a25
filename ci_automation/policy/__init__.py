"""Decisions on steps: which need no approval, which need one, and which are refused. Pure."""

__all__ = ["content", "decision", "gates", "model", "patterns", "plan", "promotion", "ranges", "retention"]
