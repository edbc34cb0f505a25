"""The configuration file: models, loading, JSON schema.

`model` has the values that the program works with, and imports nothing heavy; `load` reads the file, with PyYAML.
"""

from pathlib import Path

DEFAULT_PATH = Path(".github/flux-manifests.yaml")

__all__ = [
    "document",
    "load",
    "model",
    "named_files",
    "preview",
    "schema",
    "source",
    "workflow_events",
    "workflow_rules",
    "workflows",
]
