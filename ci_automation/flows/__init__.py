"""One use case a file, each readable from top to bottom."""
