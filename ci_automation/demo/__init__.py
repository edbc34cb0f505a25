"""Releases to try the program on: our own small ones, in the structure of Flux's."""

__all__ = ["samples"]
