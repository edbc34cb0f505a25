"""The checks that look for hazards in a step."""
