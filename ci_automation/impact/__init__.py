"""What a step does to clusters: the changes that it makes, and the hazards that come with it."""

__all__ = ["assess", "change", "check", "checks", "compare", "crds", "hazard", "objects", "overlay", "plain", "reading"]
