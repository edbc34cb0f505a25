"""Changes and hazards of a version step."""

__all__ = [
    "assess",
    "change",
    "check",
    "checks",
    "compare",
    "crds",
    "files",
    "objects",
    "overlay",
    "parts",
    "plain",
    "reading",
    "rights",
    "values",
]
