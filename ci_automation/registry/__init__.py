"""Registries: the port, and its adapters for HTTP and for image layout directories."""
