"""Other programs that flows run, such as kustomize and flux, and their confinement."""

__all__ = ["confined", "confinement", "delegate", "kubectl", "kustomize"]
