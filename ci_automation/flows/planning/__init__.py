"""Plans: the steps of an artifact, rendered, compared and decided by all gates, before anything is done."""

__all__ = ["base", "findings", "git_content", "plan", "promotion", "shown", "step"]
