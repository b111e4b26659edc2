"""Calling agents: their cards, and plain connections to them that nothing of theirs can abuse."""
