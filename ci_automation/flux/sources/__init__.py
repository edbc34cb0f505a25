"""Sources of releases: a directory, or GitHub."""

__all__ = ["directory", "github"]
