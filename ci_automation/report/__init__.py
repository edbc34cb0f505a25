"""Texts for people, from the values that the flows return. Pure."""
