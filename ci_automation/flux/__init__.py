"""Flux: its versions, options, releases and the rendering of their components. Pure, except `sources`."""

__all__ = [
    "advisories",
    "artifact",
    "bundle",
    "following",
    "listing",
    "options",
    "proof",
    "recover",
    "release",
    "render",
    "sources",
    "text",
    "version",
]
