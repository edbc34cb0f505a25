"""The configuration file: models, loading, JSON schema.

`sections` has the artifacts; `model` has their settings, and imports nothing heavy; `load` reads the file, with PyYAML.
"""

from pathlib import Path

DEFAULT_PATH = Path(".github/flux-manifests.yaml")

__all__ = [
    "document",
    "load",
    "model",
    "schema",
    "sections",
    "source",
    "workflow_events",
    "workflow_rules",
    "workflows",
]
