"""Where releases come from: a directory, or GitHub."""
