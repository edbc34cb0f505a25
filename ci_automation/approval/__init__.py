"""How a person is asked for a yes, and which yes counts: pull requests, protected environments, dispatches."""
