"""How a digest gets to a channel: pushed, signed, attested, recorded, copied, healed and adopted."""

__all__ = ["adopt", "copy", "past", "placement", "publish", "recording"]
