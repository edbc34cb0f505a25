"""What may happen by itself, what takes an approval, and what is refused. Pure."""

__all__ = ["content", "decision", "gates", "hold", "model", "patterns", "plan", "promotion", "ranges", "retention"]
