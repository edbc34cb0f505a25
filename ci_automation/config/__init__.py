"""The configuration file: models, loading, JSON schema."""
