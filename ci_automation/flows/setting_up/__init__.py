"""`setup`: answers, the files of a fleet repository made from them, and the list of what is left to a person."""

__all__ = [
    "answers",
    "cluster_folders",
    "cluster_names",
    "configuration",
    "files",
    "overlays",
    "own_values",
    "steps",
    "todo",
]
