"""A message between agents that a relay holds: what it says, what was found in it, and whether it goes on."""
