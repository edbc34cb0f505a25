"""Plans: the steps of an artifact, rendered, compared and decided by all gates, before anything is done."""

__all__ = ["base", "contents", "findings", "git_content", "plan", "promotion", "security", "shown", "step"]
