"""Where other repositories name the artifact, and how that is changed without touching another byte."""

__all__ = ["edit", "model"]
