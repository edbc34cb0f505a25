"""The team's own files around the components: what they patch, and whether that still hits."""

__all__ = [
    "bootstrapped",
    "builder",
    "folders",
    "in_cluster",
    "kustomization",
    "outcome",
    "preflight",
    "secrets",
    "targets",
]
