"""What may happen by itself, what takes an approval, and what is refused. Pure."""
