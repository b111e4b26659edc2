"""Tasks: whose they are, by which names, and what callers are told of those the relay speaks for."""
