"""Where releases come from: a directory, or GitHub."""

__all__ = ["directory", "github"]
