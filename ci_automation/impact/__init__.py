"""What a step does to clusters: the changes that it makes, and the hazards that come with it."""
