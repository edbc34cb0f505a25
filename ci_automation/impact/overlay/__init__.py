"""The team's own files around the components: what they patch, and whether that still hits."""

__all__ = [
    "alone",
    "bootstrapped",
    "builder",
    "built_secrets",
    "edits",
    "folders",
    "kustomization",
    "listed",
    "outcome",
    "preflight",
    "targets",
]
