"""How a release becomes a text that is proven: fetched, vouched for, rendered, or made by its own CLI."""

__all__ = ["confined", "delegate", "proof", "rederive", "upstream"]
