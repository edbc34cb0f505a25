"""What is said about an artifact beside its signature: where it comes from, what is in it, who published it."""
